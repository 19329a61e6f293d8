//! Commands that report or change properties of a logical unit or of the target.

use crate::command::access::{UNSHARED_COMMANDS, not_accessible, port_groups, transition_seconds};
use crate::command::context::CommandContext;
use crate::command::outcome::{CommandOutcome, whole};
use crate::command::program::Step;
use crate::pod_ports::PodPortStates;
use crate::unit::view::Attachment;
use bytes::Bytes;
use scsi::cdb::{CdbSize, Command, SelectReport};
use scsi::inquiry::{Peripheral, PortGroupSupport, StandardInquiry, vpd};
use scsi::log::{Resources, log_sense};
use scsi::lun::report_luns_data;
use scsi::mode::{ModeSettings, ModeState, mode_select, mode_sense};
use scsi::port_groups::{parse_set_port_groups, port_groups_data};
use scsi::provisioning::{THRESHOLD_SET_BYTES, threshold_sets};
use scsi::{Capacity, Sense, SenseFormat, asc, supported_opcodes_data, task_management_data};

/// PRODUCT REVISION LEVEL.
const REVISION: [u8; 4] = *b"0001";

/// Executes a command to a LUN without a logical unit (SPC-4 6.6.1, 6.33, 6.39). Hosts discover
/// the other logical units this way.
pub(crate) fn report_absent(context: &CommandContext<'_>, command: &Command) -> Result<Step, Sense> {
    let absent = Sense::illegal(asc::LOGICAL_UNIT_NOT_SUPPORTED);
    let outcome = match *command {
        Command::Inquiry { page: None, allocation } => {
            CommandOutcome::truncated(standard_inquiry(Peripheral::Absent), allocation.into())
        }
        Command::ReportLuns { select, allocation } => report_luns(context, select, allocation),
        Command::RequestSense { descriptor, allocation } => {
            let format = SenseFormat::from_bit(descriptor);
            CommandOutcome::truncated(absent.to_bytes(format), allocation.into())
        }
        _ => return Err(absent),
    };
    Ok(outcome.into())
}

/// Executes a command about a logical unit or the target. `ports` has the states of the target
/// ports if another array serves the volume, too.
pub(crate) fn report(
    context: &CommandContext<'_>,
    attachment: &Attachment,
    ports: Option<&PodPortStates>,
    command: &Command,
    data: &Bytes,
) -> Result<CommandOutcome, Sense> {
    let capacity = Capacity::of_volume(attachment.blocks);
    Ok(match command {
        Command::TestUnitReady | Command::SendDiagnostic { .. } => {
            context.check_ready()?;
            CommandOutcome::GOOD
        }
        // The medium can never be removed.
        Command::PreventAllow { .. } => CommandOutcome::GOOD,
        Command::Inquiry { page, allocation } => {
            CommandOutcome::truncated(inquiry(context, attachment, *page)?, u32::from(*allocation))
        }
        Command::ReportLuns { select, allocation } => report_luns(context, *select, *allocation),
        Command::RequestSense { descriptor, allocation } => {
            let attention = context.nexus.take_attention(attachment.unit.volume);
            let inaccessible = ports.and_then(|ports| not_accessible(ports.own));
            let not_ready = inaccessible.or_else(|| context.check_ready().err());
            let sense = attention.or(not_ready).unwrap_or(Sense::NONE);
            CommandOutcome::truncated(sense.to_bytes(SenseFormat::from_bit(*descriptor)), u32::from(*allocation))
        }
        Command::ReadCapacity10 => CommandOutcome::data(capacity.to_bytes_10().to_vec()),
        Command::ReadCapacity16 { allocation } => {
            CommandOutcome::truncated(capacity.to_bytes_16().to_vec(), *allocation)
        }
        Command::ReportOpcodes(request) => {
            let refused = ports.map_or(&[][..], |_| &UNSHARED_COMMANDS);
            CommandOutcome::truncated(supported_opcodes_data(request, refused)?, request.allocation)
        }
        Command::ReadDefectData { size, lists, allocation } => {
            // Both lists are empty, because drive defects are never visible (SBC-4 5.19, 5.20).
            let header_bytes = if *size == CdbSize::Ten { 4 } else { 8 };
            let mut header = vec![0; header_bytes];
            header[1] = *lists;
            CommandOutcome::truncated(header, *allocation)
        }
        Command::ReportTaskManagement { extended, allocation } => {
            CommandOutcome::truncated(task_management_data(*extended), *allocation)
        }
        Command::ReportTargetPortGroups { extended, allocation } => {
            let groups = port_groups(context, attachment.preference, ports);
            let seconds = extended.then_some(transition_seconds(ports));
            CommandOutcome::truncated(port_groups_data(&groups, seconds), *allocation)
        }
        Command::SetTargetPortGroups { length } => set_port_groups(context, attachment, ports, data, *length)?,
        Command::ModeSense(request) => CommandOutcome::truncated(
            mode_sense(&mode_state(context, attachment), request)?,
            u32::from(request.allocation),
        ),
        Command::LogSense(request) => CommandOutcome::truncated(
            log_sense(&resources(context, attachment), request)?,
            u32::from(request.allocation),
        ),
        Command::ModeSelect { size, page_format, length } => {
            let list = whole(data, u64::from(*length))?;
            let settings = mode_select(&mode_state(context, attachment), *size, *page_format, &list)?;
            attachment.unit.set_mode(Some(context.nexus.id), settings);
            CommandOutcome::GOOD
        }
        _ => return Err(Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE)),
    })
}

/// SET TARGET PORT GROUPS: accepts only the current access states, which a host cannot change
/// (SPC-4 6.45).
fn set_port_groups(
    context: &CommandContext<'_>,
    attachment: &Attachment,
    ports: Option<&PodPortStates>,
    data: &Bytes,
    length: u32,
) -> Result<CommandOutcome, Sense> {
    let wanted = parse_set_port_groups(&whole(data, u64::from(length))?)?;
    let current = port_groups(context, attachment.preference, ports);
    let is_current = |(id, state)| current.iter().any(|group| group.id == id && group.state == state);
    match wanted.iter().position(|request| !is_current(*request)) {
        Some(place) => Err(Sense::invalid_parameter(4 + 4 * place as u16, Some(3))),
        None => Ok(CommandOutcome::GOOD),
    }
}

fn mode_state(context: &CommandContext<'_>, attachment: &Attachment) -> ModeState {
    let write_cache = context.service.write_cache();
    ModeState {
        current: ModeSettings { write_cache, ..attachment.unit.mode_settings() },
        default: ModeSettings { write_cache, ..ModeSettings::default() },
        write_cache_changeable: false,
        read_only: attachment.read_only,
        blocks: attachment.blocks,
        thresholds: attachment.unit.thresholds.lock().thresholds,
    }
}

/// Returns the resources of log page 0Ch: free space of the pool, and mapped space of the
/// volume.
fn resources(context: &CommandContext<'_>, attachment: &Attachment) -> Resources {
    let used = context.service.volume_space(attachment.content).unwrap_or_default().written;
    Resources {
        available: threshold_sets(context.service.space().free()),
        used: threshold_sets(used.next_multiple_of(THRESHOLD_SET_BYTES)),
    }
}

fn inquiry(context: &CommandContext<'_>, attachment: &Attachment, page: Option<u8>) -> Result<Vec<u8>, Sense> {
    let Some(page) = page else { return Ok(standard_inquiry(Peripheral::Disk)) };
    let device = vpd::Device {
        serial: &attachment.serial,
        naa: attachment.naa,
        port: context.port,
        volatile_cache: context.service.write_cache(),
        unmap_granularity: attachment.unmap_granularity,
    };
    vpd::page(page, &device).ok_or(Sense::invalid_cdb_field(2, None))
}

/// REPORT LUNS (SPC-4 6.33): the list is the same through every LUN of the session. There are no
/// well known logical units.
fn report_luns(context: &CommandContext<'_>, select: SelectReport, allocation: u32) -> CommandOutcome {
    context.nexus.clear_attention(asc::REPORTED_LUNS_DATA_HAS_CHANGED);
    let data = match select {
        SelectReport::WellKnown => report_luns_data([]),
        SelectReport::Addressable | SelectReport::All => {
            report_luns_data(context.view.iter().map(|attachment| attachment.lun))
        }
    };
    CommandOutcome::truncated(data, allocation)
}

fn standard_inquiry(peripheral: Peripheral) -> Vec<u8> {
    let inquiry = StandardInquiry {
        peripheral,
        port_groups: PortGroupSupport::Implicit,
        multiple_ports: false,
        revision: REVISION,
    };
    inquiry.to_bytes().to_vec()
}
