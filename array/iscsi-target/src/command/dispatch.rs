//! Dispatch of SCSI commands: logical unit, checks, and first step.

use crate::command::access::{check_access, not_accessible};
use crate::command::classify::{class_of, cost_of, covered_bytes, described_bytes, requested_bytes, writes_medium};
use crate::command::context::CommandContext;
use crate::command::copy::{copy_results, extended_copy};
use crate::command::medium::{Medium, is_medium_command};
use crate::command::outcome::CommandOutcome;
use crate::command::program::{Program, Step};
use crate::command::report::{report, report_absent};
use crate::command::reservation::reservation;
use crate::pod_ports::PortState;
use crate::unit::qos::Cost;
use crate::unit::view::Attachment;
use engine::Op;
use iscsi::target_connection;
use scsi::cdb::{Command, StartStop};
use scsi::{Cdb, Lun, Sense};
use std::sync::Arc;
use telemetry::CommandClass;
use types::Lba;

/// A dispatched command.
pub(crate) struct DispatchedCommand {
    /// The logical unit. `None` only if `step` is [`Step::Done`].
    pub(crate) attachment: Option<Arc<Attachment>>,
    pub(crate) step: Step,
    pub(crate) class: CommandClass,
    /// Bytes of the volume that the command covers, for the counters.
    pub(crate) bytes: u64,
    /// Bytes that the CDB requests; `None` if the length of the answer decides.
    pub(crate) requested: Option<u64>,
    /// Cost under QoS limits, if they apply to the command.
    pub(crate) cost: Option<Cost>,
}

/// Dispatches a command and returns its first step.
pub(crate) fn dispatch(context: &CommandContext<'_>, command: &target_connection::TargetCommand) -> DispatchedCommand {
    let lun = Lun::from_bytes(command.lun.0.to_be_bytes());
    let attachment = lun.and_then(|lun| context.view.get(lun));
    let parsed = Cdb::parse(&command.cdb);
    let (requested, class, bytes) = match &parsed {
        Ok(parsed) => (requested_bytes(parsed), class_of(parsed), covered_bytes(parsed)),
        Err(_) => (None, CommandClass::Other, 0),
    };
    let cost = parsed.as_ref().ok().and_then(cost_of);
    let step = match attachment {
        Some(attachment) => dispatch_to_unit(context, attachment, parsed, command),
        None => parsed.and_then(|parsed| report_absent(context, &parsed)),
    };
    let step = step.unwrap_or_else(|sense| CommandOutcome::check(sense).into());
    let bytes = described_bytes(&step).unwrap_or(bytes);
    DispatchedCommand { attachment: attachment.cloned(), step, class, bytes, requested, cost }
}

/// Checks a command in the order of SAM-5 and SPC-4 (unit attentions, CDB, access state,
/// reservations, write protection), then starts it.
fn dispatch_to_unit(
    context: &CommandContext<'_>,
    attachment: &Arc<Attachment>,
    parsed: Result<Command, Sense>,
    request: &target_connection::TargetCommand,
) -> Result<Step, Sense> {
    let data = &request.data;
    // A change of the states is a unit attention, so they are read first.
    let ports = context.ports(attachment);
    if !parsed.as_ref().is_ok_and(ignores_attentions)
        && let Some(sense) = context.nexus.take_attention(attachment.unit.volume)
    {
        return Err(sense);
    }
    let command = parsed?;
    if let Some(ports) = &ports {
        check_access(ports, &command)?;
        // An array that is unavailable executes only commands that describe the unit.
        if ports.own != PortState::Unavailable && !attachment.unit.reservations.can_judge(&command) {
            // In transition, a host has other paths to try.
            return not_accessible(ports.own).map_or(Ok(Step::AwaitReservations), Err);
        }
    }
    if attachment.unit.reservations.forbids(context.nexus, &command) {
        return Ok(CommandOutcome::CONFLICT.into());
    }
    if writes_medium(&command) {
        attachment.check_writable()?;
    }
    if is_medium_command(&command) {
        let medium = Medium {
            volume: attachment.content,
            blocks: attachment.blocks,
            max_read_bytes: request.expected_read.into(),
            write_cache: context.service.write_cache(),
        };
        return medium.start(&command, data.clone());
    }
    match command {
        Command::ExtendedCopy { length } => {
            let shared = ports.map(|_| attachment.unit.volume);
            extended_copy(context, shared, length, data).map(Step::from)
        }
        Command::ReceiveCopyResults { action, list, allocation } => {
            copy_results(context, action, list, allocation).map(Step::Done)
        }
        Command::Reserve { .. }
        | Command::Release { .. }
        | Command::PersistentReserveIn { .. }
        | Command::PersistentReserveOut { .. } => reservation(context, attachment, ports.as_ref(), &command, data),
        Command::StartStop(request) => start_stop(context, request),
        _ => report(context, attachment, ports.as_ref(), &command, data).map(Step::Done),
    }
}

/// START STOP UNIT (SBC-4 5.31). A stop only flushes the cache, because other hosts may use the
/// volume. The medium cannot be ejected.
fn start_stop(context: &CommandContext<'_>, request: StartStop) -> Result<Step, Sense> {
    if request.power_condition == 0 && request.load_eject {
        return Err(Sense::invalid_cdb_field(4, Some(1)));
    }
    context.check_ready()?;
    if request.no_flush || request.start {
        return Ok(CommandOutcome::GOOD.into());
    }
    Ok(Step::Submit(Op::Flush, Program::Single { lba: Lba(0) }))
}

/// Returns true for the commands that are executed despite a pending unit attention: INQUIRY,
/// REPORT LUNS and REQUEST SENSE (SAM-5 5.14).
fn ignores_attentions(command: &Command) -> bool {
    matches!(command, Command::Inquiry { .. } | Command::ReportLuns { .. } | Command::RequestSense { .. })
}
