//! The target ports of volumes that two arrays serve: the interface to the pods of the array.

use scsi::Asc;
use scsi::persistent_reservation::NexusId;
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

    /// Returns true if this array serves the volume.
    pub(crate) fn are_own_active(&self) -> bool {
        self.own == PortState::Active
    }

    /// Returns true if this array serves the volume, and the other one does not.
    pub(crate) fn is_own_alone(&self) -> bool {
        self.own == PortState::Active && self.peer != PortState::Active
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

/// A nexus, as two arrays name it to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationNexus {
    /// Name of the initiator port.
    pub initiator_port: String,
    /// Relative identifier of the target port, which differs between the arrays.
    pub target_port: u16,
}

impl ReservationNexus {
    fn of(nexus: &NexusId) -> Self {
        // A name with other bytes is that of no session.
        let initiator_port = String::from_utf8_lossy(nexus.initiator_port()).into_owned();
        Self { initiator_port, target_port: nexus.target_port() }
    }

    pub(crate) fn id(&self) -> NexusId {
        NexusId::of_port(self.initiator_port.as_bytes(), self.target_port)
    }
}

/// The effects of a change of the reservations of a volume at both arrays, which also read them
/// again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedReservationChange {
    /// Nexuses that get a unit attention condition, with ASC and ASCQ.
    pub attentions: Vec<(ReservationNexus, u16)>,
    /// Nexuses whose commands are aborted.
    pub aborted: Vec<ReservationNexus>,
}

impl SharedReservationChange {
    pub(crate) fn of(attentions: &[(NexusId, Asc)], aborted: &[NexusId]) -> Self {
        Self {
            attentions: attentions.iter().map(|(nexus, asc)| (ReservationNexus::of(nexus), asc.0)).collect(),
            aborted: aborted.iter().map(ReservationNexus::of).collect(),
        }
    }
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

    /// Lets the other array of the volume with this content take up a change of its reservations,
    /// which is stored, and calls `end` then, exactly once and perhaps from within this call. An
    /// array that does not serve the volume any more need not be asked.
    fn reservations_changed(&self, content: VolumeId, change: SharedReservationChange, end: FunctionEnd);

    /// Calls `watcher` after every change of states. The caller holds no lock that
    /// [`ports`](Self::ports) takes.
    fn subscribe(&self, watcher: PortWatcher);
}
