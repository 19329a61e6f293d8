//! I_T nexuses: sessions between an initiator port and the target port, and how they are notified.

pub(crate) mod attention;
pub(crate) mod ids;
pub(crate) mod inbox;
pub(crate) mod registry;

use crate::nexus::attention::UnitAttentions;
use crate::nexus::ids::{InitiatorPort, NexusId, NexusName};
use crate::nexus::inbox::Inbox;
use engine::Source;
use parking_lot::Mutex;
use scsi::{Asc, Sense, persistent_reservation};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use types::ObjectId;

/// The part of a session that other sessions can reach.
pub(crate) struct Nexus {
    pub(crate) id: NexusId,
    pub(crate) port: InitiatorPort,
    /// The identity of this nexus in reservations.
    pub(crate) reservation_id: persistent_reservation::NexusId,
    pub(crate) inbox: Arc<Inbox>,
    /// If false, no unit attention is pending, and a command need not take the lock.
    has_attentions: AtomicBool,
    attentions: Mutex<UnitAttentions>,
}

impl Nexus {
    /// Creates a nexus without unit attentions.
    pub(crate) fn new(id: NexusId, name: NexusName, inbox: Arc<Inbox>) -> Arc<Self> {
        let NexusName { initiator: port, target_port } = name;
        inbox.set_source(Source { initiator: initiator_number(&port.iqn), nexus: id.number() });
        Arc::new(Self {
            id,
            reservation_id: persistent_reservation::NexusId::new(&port.iqn, port.isid, target_port),
            port,
            inbox,
            has_attentions: AtomicBool::new(false),
            attentions: Mutex::new(UnitAttentions::default()),
        })
    }

    /// Establishes a unit attention condition on `volume` for this nexus.
    pub(crate) fn raise(&self, volume: ObjectId, asc: Asc) {
        self.raise_sense(volume, Sense::unit_attention(asc));
    }

    /// Establishes a unit attention condition whose sense data has more than a code.
    pub(crate) fn raise_sense(&self, volume: ObjectId, sense: Sense) {
        let mut attentions = self.attentions.lock();
        attentions.raise(volume, sense);
        self.has_attentions.store(true, Ordering::Release);
    }

    /// Takes the next unit attention condition of `volume`.
    #[inline]
    pub(crate) fn take_attention(&self, volume: ObjectId) -> Option<Sense> {
        if !self.has_attentions.load(Ordering::Acquire) {
            return None;
        }
        self.with_attentions(|attentions| attentions.take(volume))
    }

    /// Takes the unit attention condition `asc` of `volume`, if it is pending.
    pub(crate) fn take_attention_of_code(&self, volume: ObjectId, asc: Asc) -> Option<Sense> {
        self.with_attentions(|attentions| attentions.take_code(volume, asc))
    }

    /// Clears the condition `asc` on all logical units.
    pub(crate) fn clear_attention(&self, asc: Asc) {
        self.with_attentions(|attentions| attentions.clear_code(asc));
    }

    /// Clears all conditions of `volume`.
    pub(crate) fn clear_attentions_of(&self, volume: ObjectId) {
        self.with_attentions(|attentions| attentions.clear_volume(volume));
    }

    fn with_attentions<T>(&self, act: impl FnOnce(&mut UnitAttentions) -> T) -> T {
        let mut attentions = self.attentions.lock();
        let result = act(&mut attentions);
        self.has_attentions.store(!attentions.is_empty(), Ordering::Release);
        result
    }
}

/// Returns the number of an initiator, which is the same on every array and for every path.
fn initiator_number(iqn: &str) -> u64 {
    let hash = twox_hash::XxHash3_128::oneshot(iqn.as_bytes());
    u64::try_from(hash & u128::from(u64::MAX)).unwrap_or_default()
}

impl std::fmt::Debug for Nexus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "nexus {} of {}", self.id.0, self.port)
    }
}
