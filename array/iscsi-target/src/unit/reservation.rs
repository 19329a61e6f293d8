//! Reservations of a logical unit: persistent ones and those of RESERVE(6), over the state machine of `scsi`.

use crate::command::outcome::{Outcome, whole};
use crate::command::program::Step;
use crate::nexus::Nexus;
use crate::session::Session;
use crate::unit::logical_unit::LogicalUnit;
use crate::unit::view::Attachment;
use bytes::Bytes;
use catalog::reservations_key;
use engine::{Change, Op, OpError, Reply, Service, Sink};
use parking_lot::Mutex;
use scsi::cdb::{CdbSize, Command, Transfer};
use scsi::persistent_reservation::{NexusId, OutAction, Refusal, Reservations};
use scsi::{Asc, Sense, asc};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use types::{Lba, VolumeId};

/// The longest PERSISTENT RESERVE OUT parameter list that is looked at.
const MAX_LIST_BYTES: u32 = 1 << 16;

/// A read, and a write, to ask what a nexus may do with a logical unit that a copy names.
const ONE_BLOCK: Transfer = Transfer { size: CdbSize::Sixteen, lba: Lba(0), blocks: 1, dpo: false, fua: false };
pub(crate) const READ: Command = Command::Read(ONE_BLOCK);
pub(crate) const WRITE: Command = Command::Write(ONE_BLOCK);

/// The reservations of one logical unit.
pub(crate) struct Held {
    state: Mutex<State>,
    /// False: nobody holds a reservation, and no command need take the lock to find out.
    is_reserved: AtomicBool,
}

#[derive(Default)]
struct State {
    now: Reservations,
    /// What is being stored, and holds as soon as it is. Until then no other change that must be stored begins.
    next: Option<Reservations>,
}

/// What a PERSISTENT RESERVE OUT has changed, or changes when that is stored.
pub(crate) struct Changed {
    /// What must be stored before (APTPL).
    pub(crate) store: Option<Op>,
    /// What the host is told when there is no room for that (SPC-4 5.13.7, 5.13.9): nothing has changed then.
    pub(crate) lacking: Asc,
    /// Unit attentions to establish.
    pub(crate) attentions: Vec<(NexusId, Asc)>,
    /// Nexuses whose commands are to be aborted.
    pub(crate) aborted: Vec<NexusId>,
}

/// Takes the engine's answer to the storing of reservations: with it they come into force, whatever has become of the session.
pub(crate) struct Keeper {
    pub(crate) unit: Arc<LogicalUnit>,
    pub(crate) attentions: Vec<(NexusId, Asc)>,
    pub(crate) sink: Arc<dyn Sink>,
}

impl Sink for Keeper {
    fn complete(&self, tag: u64, result: Result<Reply, OpError>) {
        self.unit.held.settle(result.is_ok());
        if result.is_ok() {
            self.unit.attend_named(&self.attentions);
        }
        self.sink.complete(tag, result);
    }
}

impl Held {
    /// The reservations that were stored, as they are after a loss of power (SPC-4 5.13.4).
    pub(crate) fn load(service: &dyn Service, volume: VolumeId) -> Self {
        let state = service.get(&reservations_key(volume)).map_or(Ok(Reservations::default()), |image| {
            Reservations::from_image(&image).map(Reservations::after_power_loss)
        });
        let state = state.unwrap_or_else(|error| {
            tracing::error!(%volume, "stored reservations are lost: {error}");
            Reservations::default()
        });
        let held = Self { state: Mutex::default(), is_reserved: AtomicBool::new(false) };
        held.change(|held| held.now = state);
        held
    }

    fn change<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = act(&mut state);
        // Whether anything is reserved is asked for somebody who is not registered.
        let stranger = NexusId::of_port(b"", 0);
        self.is_reserved.store(state.now.check(&stranger, &WRITE).is_err(), Ordering::Release);
        result
    }

    /// What was being stored is in force, or came to nothing.
    fn settle(&self, is_stored: bool) {
        self.change(|state| {
            if let Some(next) = state.next.take().filter(|_| is_stored) {
                state.now = next;
            }
        });
    }

    /// True when a reservation of another nexus forbids the command.
    #[inline]
    pub(crate) fn forbids(&self, nexus: &Nexus, command: &Command) -> bool {
        self.is_reserved.load(Ordering::Acquire) && self.state.lock().now.check(&nexus.name, command).is_err()
    }

    /// The session of a nexus has ended.
    pub(crate) fn nexus_lost(&self, nexus: &Nexus) {
        self.each(|reservations| reservations.nexus_lost(&nexus.name));
    }

    /// The logical unit is reset.
    pub(crate) fn reset(&self) {
        self.each(Reservations::reset);
    }

    /// What happens without anybody's asking happens to what is being stored, too.
    fn each(&self, act: impl Fn(&mut Reservations)) {
        self.change(|state| {
            act(&mut state.now);
            state.next.iter_mut().for_each(&act);
        });
    }

    /// Does a command that changes reservations; one at a time where they have to be stored.
    fn ask(&self, act: impl FnOnce(&mut State) -> Result<Step, Refusal>) -> Result<Step, Sense> {
        let done = self.change(|state| match state.next {
            Some(_) => Ok(Outcome::BUSY.into()),
            None => act(state),
        });
        match done {
            Ok(step) => Ok(step),
            Err(Refusal::Conflict) => Ok(Outcome::CONFLICT.into()),
            Err(Refusal::Check(sense)) => Err(sense),
        }
    }
}

/// The sense of a change that cannot be stored: of who asked to be registered, or to reserve.
fn lacking(action: OutAction) -> Asc {
    match action {
        OutAction::Register | OutAction::RegisterAndIgnoreExistingKey | OutAction::RegisterAndMove => {
            asc::INSUFFICIENT_REGISTRATION_RESOURCES
        }
        _ => asc::INSUFFICIENT_RESERVATION_RESOURCES,
    }
}

impl LogicalUnit {
    /// Tells those that a reservation action has taken something from.
    pub(crate) fn attend_named(&self, attentions: &[(NexusId, Asc)]) {
        for (name, asc) in attentions {
            self.each_nexus(|nexus| {
                if nexus.name == *name {
                    nexus.raise(self.volume, *asc);
                }
            });
        }
    }
}

impl Session {
    /// The commands about reservations.
    pub(crate) fn reservation(
        &self,
        attachment: &Arc<Attachment>,
        command: &Command,
        data: &Bytes,
    ) -> Result<Step, Sense> {
        let held = &attachment.unit.held;
        let nexus = &self.nexus.name;
        let good = |()| Step::from(Outcome::GOOD);
        match *command {
            Command::Reserve { .. } => held.ask(|state| state.now.reserve_classic(nexus).map(good)),
            Command::Release { .. } => held.ask(|state| state.now.release_classic(nexus).map(good)),
            Command::PersistentReserveIn { action, allocation } => {
                Ok(Outcome::cut(held.state.lock().now.read(action), allocation.into()).into())
            }
            Command::PersistentReserveOut { action, kind, length } => {
                if length > MAX_LIST_BYTES {
                    return Err(Sense::parameter_list_length());
                }
                let list = whole(data, length.into())?;
                let ports = [self.port.relative];
                held.ask(|state| {
                    let mut next = state.now.clone();
                    let scsi::persistent_reservation::Outcome { changed, attentions, aborted } =
                        next.apply(nexus, action, kind, &list, &ports)?;
                    let must_persist = (changed && next.persists()) || state.now.persists() != next.persists();
                    let store = must_persist.then(|| Op::Change(vec![stored(&next, attachment.unit.volume)]));
                    match &store {
                        Some(_) => state.next = Some(next),
                        None => state.now = next,
                    }
                    Ok(Step::Reserved(Changed { store, lacking: lacking(action), attentions, aborted }))
                })
            }
            _ => Err(Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE)),
        }
    }
}

/// How the reservations of a volume are stored. Where nobody is registered there is nothing to store, and it takes no room to say so.
fn stored(reservations: &Reservations, volume: VolumeId) -> Change {
    let key = reservations_key(volume);
    match reservations.persists() && !reservations.registrations().is_empty() {
        true => Change::Put { key, value: reservations.to_image() },
        false => Change::Remove { key },
    }
}
