//! From a SCSI command to its first step: which logical unit, what forbids it, who carries it out.

use crate::command::medium::{Medium, is_medium_command};
use crate::command::outcome::Outcome;
use crate::command::program::{Program, Step};
use crate::session::Session;
use crate::unit::counters::Class;
use crate::unit::limits::cost_of;
use crate::unit::qos::Cost;
use crate::unit::view::Attachment;
use engine::Op;
use iscsi::target_connection;
use scsi::cdb::{Command, StartStop};
use scsi::{Cdb, DataPhase, Lun, Sense};
use std::sync::Arc;
use types::{BlockRange, LBA_BYTES, Lba};

/// A command that has begun.
pub(crate) struct Start {
    /// The logical unit, if there is one. A command that waits for the engine has one.
    pub(crate) attachment: Option<Arc<Attachment>>,
    pub(crate) step: Step,
    pub(crate) class: Class,
    /// Bytes of the volume that the command covers, for the counters.
    pub(crate) bytes: u64,
    /// Bytes that the CDB wants to move; `None` where the answer's own length says it.
    pub(crate) wanted: Option<u64>,
    /// What it costs where the volume has limits.
    pub(crate) cost: Option<Cost>,
}

/// Begins a command.
pub(crate) fn start(session: &Session, command: &target_connection::TargetCommand) -> Start {
    let lun = Lun::from_bytes(command.lun.0.to_be_bytes());
    let attachment = lun.and_then(|lun| session.view.get(lun));
    let parsed = Cdb::parse(&command.cdb);
    let (wanted, class, bytes) = match &parsed {
        Ok(parsed) => (wanted_bytes(parsed), class_of(parsed), covered_bytes(parsed)),
        Err(_) => (None, Class::Other, 0),
    };
    let cost = parsed.as_ref().ok().and_then(cost_of);
    let step = match attachment {
        Some(attachment) => on_unit(session, attachment, parsed, command),
        None => parsed.and_then(|parsed| session.on_absent_unit(&parsed)),
    };
    let step = step.unwrap_or_else(|sense| Outcome::check(sense).into());
    let bytes = described_bytes(&step).unwrap_or(bytes);
    Start { attachment: attachment.cloned(), step, class, bytes, wanted, cost }
}

/// The order of the checks is SAM-5's and SPC-4's: unit attentions, the CDB itself, reservations, then the command.
fn on_unit(
    session: &Session,
    attachment: &Arc<Attachment>,
    parsed: Result<Command, Sense>,
    request: &target_connection::TargetCommand,
) -> Result<Step, Sense> {
    let data = &request.data;
    if !parsed.as_ref().is_ok_and(ignores_attentions)
        && let Some(sense) = session.nexus.take_attention(attachment.unit.volume)
    {
        return Err(sense);
    }
    let command = parsed?;
    if attachment.unit.held.forbids(&session.nexus, &command) {
        return Ok(Outcome::CONFLICT.into());
    }
    if writes_medium(&command) {
        attachment.admits_writes()?;
    }
    if is_medium_command(&command) {
        let room = request.expected_read.into();
        let write_cache = session.shared.service.write_cache();
        let medium = Medium { volume: attachment.unit.volume, blocks: attachment.blocks, room, write_cache };
        return medium.start(&command, data.clone());
    }
    match command {
        Command::ExtendedCopy { length } => session.extended_copy(length, data),
        Command::ReceiveCopyResults { action, list, allocation } => {
            session.copy_results(action, list, allocation).map(Step::Done)
        }
        Command::Reserve { .. }
        | Command::Release { .. }
        | Command::PersistentReserveIn { .. }
        | Command::PersistentReserveOut { .. } => session.reservation(attachment, &command, data),
        Command::StartStop(request) => start_stop(request),
        _ => session.report(attachment, &command, data).map(Step::Done),
    }
}

/// SBC-4 5.31. The array never stops a volume that other hosts may use: a stop writes out what is cached, and the medium
/// cannot be ejected.
fn start_stop(request: StartStop) -> Result<Step, Sense> {
    if request.power_condition == 0 && request.load_eject {
        return Err(Sense::invalid_cdb_field(4, Some(1)));
    }
    if request.no_flush || request.start {
        return Ok(Outcome::GOOD.into());
    }
    Ok(Step::Submit(Op::Flush, Program::Single { lba: Lba(0) }))
}

/// SAM-5 5.14: INQUIRY, REPORT LUNS and REQUEST SENSE are carried out although a unit attention waits.
fn ignores_attentions(command: &Command) -> bool {
    matches!(command, Command::Inquiry { .. } | Command::ReportLuns { .. } | Command::RequestSense { .. })
}

/// Of a read no more is fetched than the host has room for, so the CDB says how much it wanted.
fn wanted_bytes(command: &Command) -> Option<u64> {
    match command.data_phase() {
        DataPhase::Out(bytes) => Some(bytes),
        DataPhase::None => Some(0),
        DataPhase::In(bytes) => matches!(command, Command::Read(_)).then_some(bytes),
    }
}

/// True for the commands that change what is stored.
pub(crate) fn writes_medium(command: &Command) -> bool {
    matches!(
        command,
        Command::Write(_)
            | Command::OrWrite(_)
            | Command::WriteAndVerify(_)
            | Command::CompareAndWrite { .. }
            | Command::WriteAtomic { .. }
            | Command::WriteSame(_)
            | Command::Unmap { .. }
    )
}

fn class_of(command: &Command) -> Class {
    match command {
        Command::Read(_) | Command::Verify(_) => Class::Read,
        Command::Write(_) | Command::OrWrite(_) | Command::WriteAndVerify(_) | Command::WriteAtomic { .. } => {
            Class::Write
        }
        Command::CompareAndWrite { .. } => Class::CompareAndWrite,
        Command::ExtendedCopy { .. } => Class::Copy,
        Command::WriteSame(same) if same.unmap => Class::Unmap,
        Command::WriteSame(_) => Class::WriteSame,
        Command::Unmap { .. } => Class::Unmap,
        Command::SynchronizeCache(_) => Class::Flush,
        _ => Class::Other,
    }
}

/// What a command covers that says so in its parameter list, or by "up to the end".
fn described_bytes(step: &Step) -> Option<u64> {
    match step {
        Step::Submit(Op::Unmap { ranges, .. }, _) => Some(ranges.iter().map(BlockRange::bytes).sum()),
        Step::Submit(Op::WriteSame { range, .. } | Op::Zero { range, .. }, _) => Some(range.bytes()),
        Step::Submit(Op::Copy { .. }, Program::Copy(copy)) => Some(copy.bytes()),
        _ => None,
    }
}

fn covered_bytes(command: &Command) -> u64 {
    let blocks = match *command {
        Command::Read(transfer) | Command::Write(transfer) | Command::OrWrite(transfer) => transfer.blocks,
        Command::Verify(verification) | Command::WriteAndVerify(verification) => verification.blocks,
        Command::CompareAndWrite { blocks, .. } => blocks.into(),
        Command::WriteSame(same) => same.blocks,
        Command::WriteAtomic { blocks, .. } => blocks.into(),
        _ => 0,
    };
    u64::from(blocks) * LBA_BYTES
}
