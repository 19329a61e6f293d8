//! I_T nexuses: one initiator port and one target port that have a session with each other.

pub(crate) mod attention;
pub(crate) mod inbox;
pub(crate) mod registry;

use crate::nexus::attention::Attentions;
use crate::nexus::inbox::Inbox;
use parking_lot::Mutex;
use scsi::{Asc, Sense, persistent_reservation};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use types::VolumeId;

/// Names a session for as long as the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NexusId(pub(crate) u64);

/// The name of an initiator port: the node's name and the session's ISID (RFC 7143 4.4.3.1, 11.12.5).
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

/// What other sessions must know of a session.
pub(crate) struct Nexus {
    pub(crate) id: NexusId,
    pub(crate) port: InitiatorPort,
    /// What reservations know it by.
    pub(crate) name: persistent_reservation::NexusId,
    pub(crate) inbox: Arc<Inbox>,
    /// False: no condition waits, and no command need take the lock to find out.
    attentive: AtomicBool,
    attentions: Mutex<Attentions>,
}

impl Nexus {
    /// A new nexus, with nothing to be told.
    pub(crate) fn new(id: NexusId, port: InitiatorPort, target_port: u16, inbox: Arc<Inbox>) -> Arc<Self> {
        Arc::new(Self {
            id,
            name: persistent_reservation::NexusId::new(&port.iqn, port.isid, target_port),
            port,
            inbox,
            attentive: AtomicBool::new(false),
            attentions: Mutex::new(Attentions::default()),
        })
    }

    /// Establishes a unit attention condition for this nexus.
    pub(crate) fn raise(&self, volume: VolumeId, asc: Asc) {
        self.tell(volume, Sense::unit_attention(asc));
    }

    /// Establishes a unit attention condition that says more than its code.
    pub(crate) fn tell(&self, volume: VolumeId, sense: Sense) {
        let mut attentions = self.attentions.lock();
        attentions.raise(volume, sense);
        self.attentive.store(true, Ordering::Release);
    }

    /// Takes the condition to be told on `volume` next.
    #[inline]
    pub(crate) fn take_attention(&self, volume: VolumeId) -> Option<Sense> {
        if !self.attentive.load(Ordering::Acquire) {
            return None;
        }
        self.with_attentions(|attentions| attentions.take(volume))
    }

    /// Forgets a condition on all units.
    pub(crate) fn settle(&self, asc: Asc) {
        self.with_attentions(|attentions| attentions.settle(asc));
    }

    /// Forgets all conditions on a unit.
    pub(crate) fn forget(&self, volume: VolumeId) {
        self.with_attentions(|attentions| attentions.forget(volume));
    }

    fn with_attentions<T>(&self, act: impl FnOnce(&mut Attentions) -> T) -> T {
        let mut attentions = self.attentions.lock();
        let result = act(&mut attentions);
        self.attentive.store(!attentions.is_empty(), Ordering::Release);
        result
    }
}

impl std::fmt::Debug for Nexus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "nexus {} of {}", self.id.0, self.port)
    }
}
