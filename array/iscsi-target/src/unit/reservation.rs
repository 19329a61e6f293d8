//! Reservations of a logical unit, persistent and RESERVE(6), on the state machine of `scsi`.

use crate::nexus::Nexus;
use catalog::reservations_key;
use engine::{Change, KeyValue, Op};
use parking_lot::Mutex;
use scsi::cdb::{CdbSize, Command, Transfer};
use scsi::persistent_reservation::{
    InAction, NexusId, OutAction, ReservationOutcome, ReservationRefusal, ReservationType, Reservations,
};
use scsi::{Asc, Sense, asc};
use std::sync::atomic::{AtomicBool, Ordering};
use types::{Lba, ObjectId};

/// A read and a write, used to ask what a nexus may do with a logical unit.
const ONE_BLOCK: Transfer = Transfer { size: CdbSize::Sixteen, lba: Lba(0), blocks: 1, dpo: false, fua: false };
const READ: Command = Command::Read(ONE_BLOCK);
const WRITE: Command = Command::Write(ONE_BLOCK);

/// The reservations of one logical unit.
pub(crate) struct UnitReservations {
    state: Mutex<State>,
    /// If false, no reservation is held, and a command need not take the lock.
    is_reserved: AtomicBool,
}

#[derive(Default)]
struct State {
    current: Reservations,
    /// The state that is being stored and takes effect once it is. Until then, further changes are
    /// answered BUSY.
    pending: Option<Reservations>,
}

/// Why a reservation command failed.
#[derive(Debug)]
pub(crate) enum ReservationError {
    /// An earlier change is still being stored.
    Busy,
    /// RESERVATION CONFLICT.
    Conflict,
    /// CHECK CONDITION.
    Check(Sense),
}

impl From<ReservationRefusal> for ReservationError {
    fn from(refusal: ReservationRefusal) -> Self {
        match refusal {
            ReservationRefusal::Conflict => Self::Conflict,
            ReservationRefusal::Check(sense) => Self::Check(sense),
        }
    }
}

/// A PERSISTENT RESERVE OUT command.
pub(crate) struct ReserveOut<'a> {
    pub(crate) action: OutAction,
    pub(crate) kind: Option<ReservationType>,
    /// The parameter list.
    pub(crate) list: &'a [u8],
    /// The relative identifiers of all target ports.
    pub(crate) ports: &'a [u16],
}

/// The result of a PERSISTENT RESERVE OUT.
pub(crate) struct ReservationChange {
    /// The operation that must succeed before the change takes effect (APTPL). Without one, the
    /// change is in effect already.
    pub(crate) store: Option<Op>,
    /// The sense code if the pool has no space for `store` (SPC-4 5.13.7, 5.13.9). In that case
    /// nothing changes.
    pub(crate) no_space: Asc,
    /// Unit attention conditions to establish.
    pub(crate) attentions: Vec<(NexusId, Asc)>,
    /// Nexuses whose commands are to be aborted.
    pub(crate) aborted: Vec<NexusId>,
}

impl UnitReservations {
    /// Loads the stored reservations, in their state after a power loss (SPC-4 5.13.4).
    pub(crate) fn load(service: &dyn KeyValue, volume: ObjectId) -> Self {
        let state = service.get(&reservations_key(volume)).map_or(Ok(Reservations::default()), |image| {
            Reservations::from_image(&image).map(Reservations::after_power_loss)
        });
        let state = state.unwrap_or_else(|error| {
            tracing::error!(%volume, "stored reservations discarded: {error}");
            Reservations::default()
        });
        let reservations = Self { state: Mutex::default(), is_reserved: AtomicBool::new(false) };
        reservations.update(|reservations| reservations.current = state);
        reservations
    }

    /// Returns true if there is a registration or a reservation, or one is being stored.
    pub(crate) fn has_any(&self) -> bool {
        let state = self.state.lock();
        self.is_reserved.load(Ordering::Acquire) || state.pending.is_some() || !state.current.registrations().is_empty()
    }

    fn update<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = act(&mut state);
        // Every reservation type conflicts with the writes of an unregistered nexus.
        let unregistered = NexusId::of_port(b"", 0);
        self.is_reserved.store(state.current.check(&unregistered, &WRITE).is_err(), Ordering::Release);
        result
    }

    /// Ends the storing of a change. The change takes effect if `is_stored` is true; otherwise it
    /// is discarded.
    pub(crate) fn finish_store(&self, is_stored: bool) {
        self.update(|state| {
            if let Some(pending) = state.pending.take().filter(|_| is_stored) {
                state.current = pending;
            }
        });
    }

    /// Returns true if `command` of `nexus` conflicts with a reservation.
    #[inline]
    pub(crate) fn forbids(&self, nexus: &Nexus, command: &Command) -> bool {
        self.is_reserved.load(Ordering::Acquire)
            && self.state.lock().current.check(&nexus.reservation_id, command).is_err()
    }

    /// Returns true if reads of `nexus` conflict with a reservation.
    pub(crate) fn forbids_reads(&self, nexus: &Nexus) -> bool {
        self.forbids(nexus, &READ)
    }

    /// Returns true if writes of `nexus` conflict with a reservation.
    pub(crate) fn forbids_writes(&self, nexus: &Nexus) -> bool {
        self.forbids(nexus, &WRITE)
    }

    /// Handles the loss of a nexus.
    pub(crate) fn nexus_lost(&self, nexus: &Nexus) {
        self.update_both(|reservations| reservations.nexus_lost(&nexus.reservation_id));
    }

    /// Handles a reset of the logical unit.
    pub(crate) fn reset(&self) {
        self.update_both(Reservations::reset);
    }

    /// Applies an event to the current state, and also to a state that is being stored.
    fn update_both(&self, act: impl Fn(&mut Reservations)) {
        self.update(|state| {
            act(&mut state.current);
            state.pending.iter_mut().for_each(&act);
        });
    }

    /// Executes a command that changes reservations, unless an earlier change is being stored.
    fn change<T>(&self, act: impl FnOnce(&mut State) -> Result<T, ReservationRefusal>) -> Result<T, ReservationError> {
        self.update(|state| match state.pending {
            Some(_) => Err(ReservationError::Busy),
            None => Ok(act(state)?),
        })
    }

    /// RESERVE(6).
    pub(crate) fn reserve_classic(&self, nexus: &Nexus) -> Result<(), ReservationError> {
        self.change(|state| state.current.reserve_classic(&nexus.reservation_id))
    }

    /// RELEASE(6).
    pub(crate) fn release_classic(&self, nexus: &Nexus) -> Result<(), ReservationError> {
        self.change(|state| state.current.release_classic(&nexus.reservation_id))
    }

    /// PERSISTENT RESERVE IN: returns the parameter data.
    pub(crate) fn read(&self, action: InAction) -> Vec<u8> {
        self.state.lock().current.read(action)
    }

    /// PERSISTENT RESERVE OUT. If the result has an operation to store, the caller must submit it
    /// and then call [`finish_store`](Self::finish_store).
    pub(crate) fn reserve_out(
        &self,
        volume: ObjectId,
        nexus: &Nexus,
        request: &ReserveOut<'_>,
    ) -> Result<ReservationChange, ReservationError> {
        self.change(|state| {
            let mut next = state.current.clone();
            let ReservationOutcome { changed, attentions, aborted } =
                next.apply(&nexus.reservation_id, request.action, request.kind, request.list, request.ports)?;
            let must_store = (changed && next.persists()) || state.current.persists() != next.persists();
            let store = must_store.then(|| Op::Change(vec![stored_value(&next, volume)]));
            match &store {
                Some(_) => state.pending = Some(next),
                None => state.current = next,
            }
            Ok(ReservationChange { store, no_space: no_space_code(request.action), attentions, aborted })
        })
    }
}

/// Returns the sense code for a change that cannot be stored: registration or reservation
/// resources.
fn no_space_code(action: OutAction) -> Asc {
    match action {
        OutAction::Register | OutAction::RegisterAndIgnoreExistingKey | OutAction::RegisterAndMove => {
            asc::INSUFFICIENT_REGISTRATION_RESOURCES
        }
        _ => asc::INSUFFICIENT_RESERVATION_RESOURCES,
    }
}

/// Returns the change that stores the reservations of a volume. Without registrations the value is
/// removed, which succeeds even if the pool is full.
fn stored_value(reservations: &Reservations, volume: ObjectId) -> Change {
    let key = reservations_key(volume);
    match reservations.persists() && !reservations.registrations().is_empty() {
        true => Change::Put { key, value: reservations.to_image() },
        false => Change::Remove { key },
    }
}
