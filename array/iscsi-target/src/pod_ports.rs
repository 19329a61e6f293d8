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
    /// Returns true if hosts may have commands at the other array that it still executes.
    pub(crate) fn may_peer_execute(&self) -> bool {
        self.own != PortState::Unavailable && self.peer == PortState::Active
    }

    /// Returns true if both arrays serve the volume. While this array does not, the state of the
    /// other one may be unknown.
    pub(crate) fn are_both_active(&self) -> bool {
        self.own == PortState::Active && self.peer == PortState::Active
    }
}

/// A task management function for which commands of all sessions are aborted, at both arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharedFunction {
    /// CLEAR TASK SET.
    ClearTaskSet,
    /// LOGICAL UNIT RESET.
    LogicalUnitReset,
    /// A target reset, limited to the logical units that the session sees.
    TargetReset,
}

/// Called when a function has ended at the other array: true if all its commands there have ended.
pub type FunctionEnd = Box<dyn FnOnce(bool) + Send>;

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

    /// Executes a task management function at the other arrays of the volumes with these contents,
    /// and calls `end` then, exactly once and perhaps from within this call.
    fn execute(&self, contents: Vec<VolumeId>, function: SharedFunction, end: FunctionEnd);

    /// Calls `watcher` after every change of states. The caller holds no lock that
    /// [`ports`](Self::ports) takes.
    fn subscribe(&self, watcher: PortWatcher);
}
