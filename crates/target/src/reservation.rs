//! Reservations of a logical unit: persistent ones and those of RESERVE(6), over the state machine of `scsi`.

use crate::nexus::Nexus;
use crate::outcome::{Outcome, whole};
use crate::program::Step;
use crate::session::Session;
use crate::unit::LogicalUnit;
use crate::view::Attachment;
use bytes::Bytes;
use engine::{Change, Op, Service, Sink};
use parking_lot::Mutex;
use scsi::cdb::{CdbSize, Command, Transfer};
use scsi::persistent_reservation::{NexusId, Refusal, Reservations};
use scsi::{Asc, Sense, asc};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Lba, VolumeId};

/// The longest PERSISTENT RESERVE OUT parameter list that is looked at.
const MAX_LIST_BYTES: u32 = 1 << 16;

/// A read, and a write, to ask what a nexus may do with a logical unit that a copy names.
const ONE_BLOCK: Transfer = Transfer { size: CdbSize::Sixteen, lba: Lba(0), blocks: 1, dpo: false, fua: false };
pub(crate) const READ: Command = Command::Read(ONE_BLOCK);
pub(crate) const WRITE: Command = Command::Write(ONE_BLOCK);

/// The reservations of one logical unit.
pub(crate) struct Held {
    state: Mutex<Reservations>,
    /// False: nobody holds a reservation, and no command need take the lock to find out.
    is_reserved: AtomicBool,
}

/// What a PERSISTENT RESERVE OUT has changed.
pub(crate) struct Changed {
    /// The change must be stored before it is answered (APTPL).
    pub(crate) must_persist: bool,
    /// Nexuses whose commands are to be aborted.
    pub(crate) aborted: Vec<NexusId>,
    /// Unit attentions to establish.
    pub(crate) attentions: Vec<(NexusId, Asc)>,
}

/// Where the reservations of a volume are stored.
fn key(volume: VolumeId) -> Vec<u8> {
    format!("pr/{}", volume.0).into_bytes()
}

impl Held {
    /// The reservations that were stored, as they are after a loss of power (SPC-4 5.13.4).
    pub(crate) fn load(service: &dyn Service, volume: VolumeId) -> Self {
        let state = service.get(&key(volume)).map_or(Ok(Reservations::default()), |image| {
            Reservations::from_image(&image).map(Reservations::after_power_loss)
        });
        let state = state.unwrap_or_else(|error| {
            tracing::error!(%volume, "stored reservations are lost: {error}");
            Reservations::default()
        });
        let held = Self { state: Mutex::new(Reservations::default()), is_reserved: AtomicBool::new(false) };
        held.change(|reservations| *reservations = state);
        held
    }

    fn change<T>(&self, act: impl FnOnce(&mut Reservations) -> T) -> T {
        let mut state = self.state.lock();
        let result = act(&mut state);
        // Whether anything is reserved is asked for somebody who is not registered.
        let stranger = NexusId::of_port(b"", 0);
        self.is_reserved.store(state.check(&stranger, &WRITE).is_err(), Ordering::Release);
        result
    }

    /// True when a reservation of another nexus forbids the command.
    #[inline]
    pub(crate) fn forbids(&self, nexus: &Nexus, command: &Command) -> bool {
        self.is_reserved.load(Ordering::Acquire) && self.state.lock().check(&nexus.name, command).is_err()
    }

    /// The session of a nexus has ended.
    pub(crate) fn nexus_lost(&self, nexus: &Nexus) {
        self.change(|reservations| reservations.nexus_lost(&nexus.name));
    }

    /// The logical unit is reset.
    pub(crate) fn reset(&self) {
        self.change(Reservations::reset);
    }

    /// Gives the engine the state as it is now. State and submission are under one lock, so what the engine stores last
    /// is the last state, whichever sessions change it.
    pub(crate) fn store(&self, service: &dyn Service, volume: VolumeId, tag: u64, sink: &Arc<dyn Sink>) {
        let state = self.state.lock();
        let change = match state.persists() {
            true => Change::Put { key: key(volume), value: state.to_image() },
            false => Change::Remove { key: key(volume) },
        };
        service.submit(Op::Change(vec![change]), tag, sink);
    }
}

impl LogicalUnit {
    /// Tells those that a reservation action has taken something from.
    fn attend_named(&self, attentions: &[(NexusId, Asc)]) {
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
        let done = |result: Result<(), Refusal>| match result {
            Ok(()) => Ok(Outcome::GOOD.into()),
            Err(refusal) => refused(refusal),
        };
        match *command {
            Command::Reserve { .. } => done(held.change(|reservations| reservations.reserve_classic(&self.nexus.name))),
            Command::Release { .. } => done(held.change(|reservations| reservations.release_classic(&self.nexus.name))),
            Command::PersistentReserveIn { action, allocation } => {
                Ok(Outcome::cut(held.state.lock().read(action), allocation.into()).into())
            }
            Command::PersistentReserveOut { action, kind, length } => {
                if length > MAX_LIST_BYTES {
                    return Err(Sense::parameter_list_length());
                }
                let list = whole(data, length.into())?;
                let ports = [self.port.relative];
                let change = |reservations: &mut Reservations| {
                    let persisted = reservations.persists();
                    let mut next = reservations.clone();
                    let outcome = next.apply(&self.nexus.name, action, kind, &list, &ports)?;
                    let must_persist = (outcome.changed && next.persists()) || persisted != next.persists();
                    *reservations = next;
                    Ok(Changed { must_persist, aborted: outcome.aborted, attentions: outcome.attentions })
                };
                match held.change(change) {
                    Ok(changed) => {
                        attachment.unit.attend_named(&changed.attentions);
                        Ok(Step::Reserved(changed))
                    }
                    Err(refusal) => refused(refusal),
                }
            }
            _ => Err(Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE)),
        }
    }
}

fn refused(refusal: Refusal) -> Result<Step, Sense> {
    match refusal {
        Refusal::Conflict => Ok(Outcome::CONFLICT.into()),
        Refusal::Check(sense) => Err(sense),
    }
}
