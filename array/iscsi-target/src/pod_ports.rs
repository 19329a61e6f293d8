//! The target ports of volumes that two arrays serve: the interface to the pods of the array.

use std::sync::Arc;
use types::VolumeId;

/// Asymmetric access state of the ports of one array for a volume (SPC-4 5.15.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortState {
    /// Active: optimized or non-optimized, by the preference of the host.
    Active,
    /// In transition.
    Transitioning,
    /// Unavailable.
    Unavailable,
}

/// The port groups of the two arrays that serve a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PodPortStates {
    /// State of the ports of this array.
    pub own: PortState,
    /// State of the ports of the other array; active if it is not known.
    pub peer: PortState,
    /// Number of the other array, from 1. It differs from that of this array.
    pub peer_number: u8,
    /// Number of portals of the other array. If it is not known, 1: a host knows the other ports
    /// from their own reports.
    pub peer_ports: u16,
}

impl PodPortStates {
    /// Returns true if both arrays serve the volume. While this array does not, the state of the
    /// other one may be unknown.
    pub(crate) fn are_both_active(&self) -> bool {
        self.own == PortState::Active && self.peer == PortState::Active
    }
}

/// Notified of changes of port states.
pub type PortWatcher = Arc<dyn Fn() + Send + Sync>;

/// The pods of an array that two arrays serve.
///
/// A state must be visible here before the engine ends a command with an error because of it. Then
/// each host is notified of the change before it sees such an error.
pub trait PodPorts: Send + Sync {
    /// Returns the states for the volume or snapshot with this content; `None` if no other array
    /// serves it. It is called for every command, and must not wait.
    fn ports(&self, content: VolumeId) -> Option<PodPortStates>;

    /// Calls `watcher` after every change of states. The caller holds no lock that
    /// [`ports`](Self::ports) takes.
    fn subscribe(&self, watcher: PortWatcher);
}
