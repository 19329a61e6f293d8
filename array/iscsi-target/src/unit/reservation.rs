//! Reservations of a logical unit, persistent and RESERVE(6), on the state machine of `scsi`.

pub(crate) mod place;

use crate::nexus::Nexus;
use crate::nexus::inbox::{Inbox, SessionEvent};
use crate::pod_ports::{PodPortStates, PortState};
use catalog::reservations_key;
use engine::{Change, KeyValue, Op, OpError};
use parking_lot::Mutex;
use scsi::cdb::{CdbSize, Command, Transfer};
use scsi::persistent_reservation::{
    InAction, NexusId, OutAction, ReservationOutcome, ReservationRefusal, ReservationType, Reservations,
};
use scsi::{Asc, Sense, asc};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use types::{Lba, ObjectId};

/// A read and a write, used to ask what a nexus may do with a logical unit.
const ONE_BLOCK: Transfer = Transfer { size: CdbSize::Sixteen, lba: Lba(0), blocks: 1, dpo: false, fua: false };
const READ: Command = Command::Read(ONE_BLOCK);
const WRITE: Command = Command::Write(ONE_BLOCK);

/// How the copy in memory relates to the stored reservations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CopyState {
    /// This array alone serves the unit, and changes the copy first.
    #[default]
    Own,
    /// Two arrays serve the unit, and the copy has all changes that were answered GOOD.
    Current,
    /// The other array may have made a change that it has not answered.
    Suspect,
    /// The other array may have made changes without this one.
    Unknown,
}

/// The reservations of one logical unit.
#[derive(Default)]
pub(crate) struct UnitReservations {
    state: Mutex<State>,
    /// If false, no reservation is held, and a command need not take the lock.
    is_reserved: AtomicBool,
    /// If false, the copy is the unit's own or current, and a command need not take the lock.
    is_doubtful: AtomicBool,
    /// The unit has followed the first states of its ports.
    has_begun: AtomicBool,
    /// A renewal of the copy is in progress.
    is_renewing: AtomicBool,
    /// A change of a unit that two arrays serve is in progress.
    is_changing: AtomicBool,
    /// Sessions that wait for the end of a renewal.
    waiting: Mutex<Vec<Arc<Inbox>>>,
    /// Held while the stored reservations are read.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    current: Reservations,
    /// The state that is being stored and takes effect once it is. Until then, further changes are
    /// answered BUSY.
    pending: Option<Reservations>,
    copy: CopyState,
    /// The reservations from before two arrays served the unit, until others are stored.
    former: Option<Reservations>,
    /// Number of the changes of the port states.
    epoch: u64,
}

/// A change of a unit that two arrays serve.
pub(super) struct Changing<'a>(&'a UnitReservations);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.is_changing.store(false, Ordering::Release);
    }
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
    /// The engine has refused it, or its outcome is not certain.
    Engine(OpError),
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
        let reservations = Self::default();
        reservations.update(|state| state.current = stored_alone(service, volume).after_power_loss());
        reservations
    }

    /// Follows a change of the port states.
    ///
    /// An array that stays active learns of each change of the other one before it is answered. One
    /// that was unavailable, or has just begun, has to read them before it admits a command. A pod
    /// that leaves its second array has stored them for this one.
    pub(crate) fn follow_ports(
        &self,
        was: Option<PodPortStates>,
        now: Option<PodPortStates>,
        service: &dyn KeyValue,
        volume: ObjectId,
    ) {
        let has_begun = self.has_begun.load(Ordering::Acquire);
        self.update(|state| {
            state.epoch += 1;
            if was.is_none() {
                state.former = Some(state.pending.take().unwrap_or_else(|| state.current.clone()));
            }
            let is_known = has_begun && state.copy != CopyState::Unknown;
            state.copy = match now {
                None => CopyState::Own,
                Some(now) if now.own != PortState::Unavailable && is_known => CopyState::Suspect,
                Some(_) => CopyState::Unknown,
            };
            if now.is_none() {
                // If nothing was read since the pod was stretched, the former ones hold.
                let (own, former) = (stored_alone(service, volume), state.former.take());
                state.current = if own.registrations().is_empty() { former.unwrap_or(own) } else { own };
            }
        });
    }

    /// The unit has followed the states that the ports had when it was created.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
    }

    /// Returns true if both arrays can have these reservations: no nexus holds a RESERVE(6) or
    /// RESERVE(10), and the others have at most `max_bytes`.
    pub(crate) fn can_be_shared(&self, max_bytes: usize) -> bool {
        let state = self.state.lock();
        let fits = |state: &Reservations| !state.is_held() && state.to_image().len() <= max_bytes;
        fits(&state.current) && state.pending.as_ref().is_none_or(fits)
    }

    /// Returns the copy in memory if it has all changes that were answered GOOD.
    pub(super) fn known(&self) -> Option<Reservations> {
        let state = self.state.lock();
        (state.copy != CopyState::Unknown).then(|| state.current.clone())
    }

    /// Returns the reservations from before two arrays served the unit, if there were any and they
    /// may not be stored for both.
    pub(super) fn former(&self) -> Option<Reservations> {
        self.state.lock().former.clone().filter(|former| !former.registrations().is_empty())
    }

    /// Returns the number of the present states of the ports.
    pub(super) fn epoch(&self) -> u64 {
        self.state.lock().epoch
    }

    /// Takes up reservations that were read while the port states were those of `epoch`. Returns
    /// false, and changes nothing, if they are not any more.
    pub(super) fn install(&self, stored: Reservations, epoch: u64) -> bool {
        self.update(|state| {
            let is_same = state.epoch == epoch;
            if is_same && state.copy != CopyState::Own {
                (state.current, state.copy, state.former) = (stored, CopyState::Current, None);
            }
            is_same
        })
    }

    /// A change is stored that could not be read.
    pub(super) fn forget(&self) {
        self.update(|state| {
            state.epoch += 1;
            if state.copy != CopyState::Own {
                state.copy = CopyState::Unknown;
            }
        });
    }

    /// Returns true, once until [`Self::end_renewal`], if the copy must be read again.
    pub(super) fn begin_renewal(&self) -> bool {
        self.is_doubtful.load(Ordering::Acquire) && !self.is_renewing.swap(true, Ordering::SeqCst)
    }

    /// Ends a renewal, and notifies the sessions that wait for it.
    pub(super) fn end_renewal(&self, volume: ObjectId) {
        self.is_renewing.store(false, Ordering::SeqCst);
        self.notify_waiting(volume);
    }

    fn notify_waiting(&self, volume: ObjectId) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(|inbox| inbox.post(SessionEvent::ReservationsRead { volume }));
    }

    /// Notifies a session when no renewal of the copy is in progress.
    pub(crate) fn await_renewal(&self, inbox: &Arc<Inbox>, volume: ObjectId) {
        self.waiting.lock().push(inbox.clone());
        if !self.is_renewing.load(Ordering::SeqCst) {
            self.notify_waiting(volume);
        }
    }

    /// Begins a change, which ends when the value is dropped. `None` if another one is in progress.
    pub(super) fn begin_change(&self) -> Option<Changing<'_>> {
        (!self.is_changing.swap(true, Ordering::AcqRel)).then_some(Changing(self))
    }

    /// Returns true if the copy has all changes that were answered GOOD.
    pub(crate) fn is_known(&self) -> bool {
        !self.is_doubtful.load(Ordering::Acquire) || self.state.lock().copy != CopyState::Unknown
    }

    /// Returns true if the copy says whether this command is allowed. Otherwise the command waits
    /// until it has been read again.
    #[inline]
    pub(crate) fn can_judge(&self, command: &Command) -> bool {
        let is_about_them =
            matches!(command, Command::PersistentReserveIn { .. } | Command::PersistentReserveOut { .. });
        // A host must not see a change before the other array has it.
        if is_about_them && self.is_changing.load(Ordering::Acquire) {
            return false;
        }
        if !self.is_doubtful.load(Ordering::Acquire) {
            return true;
        }
        match self.state.lock().copy {
            CopyState::Own | CopyState::Current => true,
            CopyState::Suspect => !is_about_them,
            CopyState::Unknown => !is_about_them && Reservations::is_always_allowed(command),
        }
    }

    fn update<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = act(&mut state);
        // Every reservation type conflicts with the writes of an unregistered nexus.
        let unregistered = NexusId::of_port(b"", 0);
        self.is_reserved.store(state.current.check(&unregistered, &WRITE).is_err(), Ordering::Release);
        self.is_doubtful.store(matches!(state.copy, CopyState::Suspect | CopyState::Unknown), Ordering::Release);
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
        self.update(|state| match (state.copy, &state.pending) {
            (CopyState::Own, None) => Ok(act(state)?),
            _ => Err(ReservationError::Busy),
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
        let state = self.state.lock();
        match state.copy {
            CopyState::Own => state.current.read(action),
            _ => state.current.read_without_classic(action),
        }
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
pub(super) fn no_space_code(action: OutAction) -> Asc {
    match action {
        OutAction::Register | OutAction::RegisterAndIgnoreExistingKey | OutAction::RegisterAndMove => {
            asc::INSUFFICIENT_REGISTRATION_RESOURCES
        }
        _ => asc::INSUFFICIENT_RESERVATION_RESOURCES,
    }
}

/// Returns the reservations that this array has stored for a volume.
fn stored_alone(service: &dyn KeyValue, volume: ObjectId) -> Reservations {
    let image = service.get(&reservations_key(volume));
    let stored = image.map_or(Ok(Reservations::default()), |image| Reservations::from_image(&image));
    stored.unwrap_or_else(|error| {
        tracing::error!(%volume, "stored reservations discarded: {error}");
        Reservations::default()
    })
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
