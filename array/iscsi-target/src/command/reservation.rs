//! Reservation commands: RESERVE(6), RELEASE(6), PERSISTENT RESERVE IN and OUT (SPC-4 5.13).

use crate::command::access::unshared_reservations;
use crate::command::context::CommandContext;
use crate::command::outcome::{CommandOutcome, whole};
use crate::command::program::Step;
use crate::unit::reservation::{ReservationError, ReserveOut};
use crate::unit::view::Attachment;
use bytes::Bytes;
use scsi::cdb::Command;
use scsi::{Sense, asc};

/// Longest accepted parameter list of PERSISTENT RESERVE OUT.
const MAX_LIST_BYTES: u32 = 1 << 16;

/// Executes a reservation command. `is_shared` is true if another array serves the volume, too.
pub(crate) fn reservation(
    context: &CommandContext<'_>,
    attachment: &Attachment,
    is_shared: bool,
    command: &Command,
    data: &Bytes,
) -> Result<Step, Sense> {
    let reservations = &attachment.unit.reservations;
    let nexus = context.nexus;
    let good = |()| Step::from(CommandOutcome::GOOD);
    let result = match *command {
        Command::Reserve { .. } => reservations.reserve_classic(nexus).map(good),
        Command::Release { .. } => reservations.release_classic(nexus).map(good),
        Command::PersistentReserveIn { action, allocation } if is_shared => {
            Ok(CommandOutcome::truncated(unshared_reservations(action), allocation.into()).into())
        }
        Command::PersistentReserveIn { action, allocation } => {
            Ok(CommandOutcome::truncated(reservations.read(action), allocation.into()).into())
        }
        Command::PersistentReserveOut { action, kind, length } => {
            if length > MAX_LIST_BYTES {
                return Err(Sense::parameter_list_length());
            }
            let list = whole(data, length.into())?;
            let ports = context.portals.relative_ports();
            let request = ReserveOut { action, kind, list: &list, ports: &ports };
            reservations.reserve_out(attachment.unit.volume, nexus, &request).map(Step::ChangeReservation)
        }
        _ => Err(ReservationError::Check(Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE))),
    };
    match result {
        Ok(step) => Ok(step),
        Err(ReservationError::Busy) => Ok(CommandOutcome::BUSY.into()),
        Err(ReservationError::Conflict) => Ok(CommandOutcome::CONFLICT.into()),
        Err(ReservationError::Check(sense)) => Err(sense),
    }
}
