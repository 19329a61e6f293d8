//! Reservation commands: RESERVE(6), RELEASE(6), PERSISTENT RESERVE IN and OUT (SPC-4 5.13).

use crate::command::context::CommandContext;
use crate::command::outcome::{CommandOutcome, outcome_of, whole};
use crate::command::program::Step;
use crate::pod_ports::PodPortStates;
use crate::unit::reservation::place::SharedReserveOut;
use crate::unit::reservation::{ReservationError, ReserveOut};
use crate::unit::view::Attachment;
use bytes::Bytes;
use scsi::cdb::Command;
use scsi::{Sense, asc};
use types::Lba;

/// Longest accepted parameter list of PERSISTENT RESERVE OUT.
const MAX_LIST_BYTES: u32 = 1 << 16;

/// Executes a reservation command. `shared` has the states of the target ports if another array
/// serves the volume, too.
pub(crate) fn reservation(
    context: &CommandContext<'_>,
    attachment: &Attachment,
    shared: Option<&PodPortStates>,
    command: &Command,
    data: &Bytes,
) -> Result<Step, Sense> {
    let reservations = &attachment.unit.reservations;
    let nexus = context.nexus;
    let good = |()| Step::from(CommandOutcome::GOOD);
    let result = match *command {
        Command::Reserve { .. } => reservations.reserve_classic(nexus).map(good),
        Command::Release { .. } if shared.is_some() => Ok(good(())),
        Command::Release { .. } => reservations.release_classic(nexus).map(good),
        Command::PersistentReserveIn { action, allocation } => {
            Ok(CommandOutcome::truncated(reservations.read(action), allocation.into()).into())
        }
        Command::PersistentReserveOut { action, kind, length } => {
            if length > MAX_LIST_BYTES {
                return Err(Sense::parameter_list_length());
            }
            let list = whole(data, length.into())?;
            let mut ports = context.portals.relative_ports();
            if let Some(states) = shared {
                if u16::from(states.peer_number) == context.port.group {
                    // The other array has not described its ports yet.
                    return Ok(CommandOutcome::BUSY.into());
                }
                ports.extend(context.portals.group_of(states.peer_number, states.peer_ports).1);
                ports.sort_unstable();
                ports.dedup();
                return Ok(Step::ShareReservation(SharedReserveOut { action, kind, list, ports }));
            }
            let request = ReserveOut { action, kind, list: &list, ports: &ports };
            reservations.reserve_out(attachment.unit.volume, nexus, &request).map(Step::ChangeReservation)
        }
        _ => Err(ReservationError::Check(Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE))),
    };
    Ok(result.unwrap_or_else(|error| refused(error).into()))
}

/// Returns the outcome of a reservation command that has failed.
pub(crate) fn refused(error: ReservationError) -> CommandOutcome {
    match error {
        ReservationError::Busy => CommandOutcome::BUSY,
        ReservationError::Conflict => CommandOutcome::CONFLICT,
        ReservationError::Check(sense) => sense.into(),
        ReservationError::Engine(error) => outcome_of(&error, Lba(0)),
    }
}
