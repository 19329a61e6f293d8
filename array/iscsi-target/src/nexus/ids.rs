//! Identifiers of sessions, initiator ports and throttled commands.

use std::sync::atomic::{AtomicU64, Ordering};
use types::ObjectId;

/// Identifies a session for the lifetime of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NexusId(pub(crate) u64);

impl NexusId {
    /// Returns the number that names the nexus to the engine; 0 names none.
    pub(crate) fn number(self) -> u64 {
        self.0.saturating_add(1)
    }
}

/// An initiator port: the iSCSI node name and the ISID (RFC 7143 4.4.3.1, 11.12.5).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct InitiatorPort {
    pub(crate) iqn: String,
    pub(crate) isid: [u8; 6],
}

impl std::fmt::Display for InitiatorPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},i,0x", self.iqn)?;
        self.isid.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Identifies a normal session: an initiator port and a target port, here by its relative
/// identifier (RFC 7143 4.4.3.2). One initiator port can have a session with each target port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NexusName {
    pub(crate) initiator: InitiatorPort,
    pub(crate) target_port: u16,
}

/// The commands of one session on one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Flow {
    pub(crate) volume: ObjectId,
    pub(crate) nexus: NexusId,
}

/// Identifies a command that waits for QoS limits. Unique for the lifetime of the process, because
/// a command can wait for the limits of its volume and then for those of its volume group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(u64);

impl Ticket {
    /// Returns an unused ticket.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
