//! The process that mounts a datastore, as the datastore sees it.

use crate::layout::lock::LockOwner;
use std::fmt;
use std::time::Duration;

/// An event of a mount that a host logs or shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountEvent {
    /// The heartbeat was not renewed in time; I/O waits.
    AccessLost,
    /// The heartbeat is renewed; I/O continues with all locks.
    AccessRestored,
    /// Another host has broken the heartbeat. The mount cannot be used any more.
    LeaseBroken,
    /// An operation waits for the locks of a host that shows no heartbeat.
    Waiting {
        /// Name of the host.
        host: String,
        /// Its heartbeat slot.
        slot: u16,
        /// The process that held the locks is known to have ended.
        ended: bool,
        /// Time after which its locks are free if it stays silent.
        left: Duration,
    },
}

/// A process of a host. Calls are short.
pub trait HostProcess: Send + Sync {
    /// Returns the UUID under which this process appears as a lock owner. It must be unique for
    /// each mount.
    fn uuid(&self) -> [u8; 16];

    /// Returns whether a lock owner was a process of this host that has ended. False if unknown.
    fn has_ended(&self, owner: &LockOwner) -> bool;

    /// Handles an event.
    fn notify(&self, event: &MountEvent);
}

impl fmt::Debug for dyn HostProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostProcess")
    }
}
