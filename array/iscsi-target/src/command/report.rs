//! Commands that are answered from what is known of the logical unit, without the engine.

use crate::command::outcome::{Outcome, whole};
use crate::command::program::Step;
use crate::session::Session;
use crate::unit::view::Attachment;
use bytes::Bytes;
use scsi::cdb::{CdbSize, Command, SelectReport};
use scsi::inquiry::{Peripheral, PortGroupSupport, StandardInquiry, vpd};
use scsi::log::{Resources, log_sense};
use scsi::lun::report_luns_data;
use scsi::mode::{ModeSettings, ModeState, mode_select, mode_sense};
use scsi::port_groups::{AccessState, PortGroup, StateCause, parse_set_port_groups, port_groups_data};
use scsi::provisioning::{THRESHOLD_SET_BYTES, threshold_sets};
use scsi::{Capacity, Sense, SenseFormat, asc, supported_opcodes_data, task_management_data};

/// PRODUCT REVISION LEVEL.
const REVISION: [u8; 4] = *b"0001";

impl Session {
    /// A command to a LUN where there is nothing (SPC-4 6.6.1, 6.33, 6.39): hosts look for the other units this way.
    pub(crate) fn on_absent_unit(&self, command: &Command) -> Result<Step, Sense> {
        let absent = Sense::illegal(asc::LOGICAL_UNIT_NOT_SUPPORTED);
        let outcome = match *command {
            Command::Inquiry { page: None, allocation } => {
                Outcome::cut(standard_inquiry(Peripheral::Absent), allocation.into())
            }
            Command::ReportLuns { select, allocation } => self.report_luns(select, allocation),
            Command::RequestSense { descriptor, allocation } => {
                let format = SenseFormat::from_bit(descriptor);
                Outcome::cut(absent.to_bytes(format), allocation.into())
            }
            _ => return Err(absent),
        };
        Ok(outcome.into())
    }

    /// A command that asks about a logical unit or about the target.
    pub(crate) fn report(&self, attachment: &Attachment, command: &Command, data: &Bytes) -> Result<Outcome, Sense> {
        let capacity = Capacity::of_volume(attachment.blocks);
        Ok(match command {
            // PREVENT ALLOW MEDIUM REMOVAL: the medium cannot be removed in any case.
            Command::TestUnitReady | Command::SendDiagnostic { .. } | Command::PreventAllow { .. } => Outcome::GOOD,
            Command::Inquiry { page, allocation } => {
                Outcome::cut(self.inquiry(attachment, *page)?, u32::from(*allocation))
            }
            Command::ReportLuns { select, allocation } => self.report_luns(*select, *allocation),
            Command::RequestSense { descriptor, allocation } => {
                let sense = self.nexus.take_attention(attachment.unit.volume).unwrap_or(Sense::NONE);
                Outcome::cut(sense.to_bytes(SenseFormat::from_bit(*descriptor)), u32::from(*allocation))
            }
            Command::ReadCapacity10 => Outcome::data(capacity.to_bytes_10().to_vec()),
            Command::ReadCapacity16 { allocation } => Outcome::cut(capacity.to_bytes_16().to_vec(), *allocation),
            Command::ReportOpcodes(request) => Outcome::cut(supported_opcodes_data(request)?, request.allocation),
            Command::ReadDefectData { size, lists, allocation } => {
                // The header of both lists, which are empty: bad places of drives never show (SBC-4 5.19, 5.20).
                let header_bytes = if *size == CdbSize::Ten { 4 } else { 8 };
                let mut header = vec![0; header_bytes];
                header[1] = *lists;
                Outcome::cut(header, *allocation)
            }
            Command::ReportTaskManagement { extended, allocation } => {
                Outcome::cut(task_management_data(*extended), *allocation)
            }
            Command::ReportTargetPortGroups { extended, allocation } => {
                Outcome::cut(port_groups_data(&[self.port_group()], extended.then_some(0)), *allocation)
            }
            Command::SetTargetPortGroups { length } => self.set_port_groups(data, *length)?,
            Command::ModeSense(request) => {
                Outcome::cut(mode_sense(&self.mode_state(attachment), request)?, u32::from(request.allocation))
            }
            Command::LogSense(request) => {
                Outcome::cut(log_sense(&self.resources(attachment), request)?, u32::from(request.allocation))
            }
            Command::ModeSelect { size, page_format, length } => {
                let list = whole(data, u64::from(*length))?;
                let settings = mode_select(&self.mode_state(attachment), *size, *page_format, &list)?;
                attachment.unit.set_mode(Some(self.nexus.id), settings);
                Outcome::GOOD
            }
            _ => return Err(Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE)),
        })
    }

    /// All paths are as good as each other: one group, active/optimized.
    fn port_group(&self) -> PortGroup {
        PortGroup {
            id: self.port.group,
            state: AccessState::ActiveOptimized,
            preferred: false,
            cause: StateCause::NotTold,
            ports: vec![self.port.relative],
        }
    }

    /// A host may ask for what is; access states do not change here (SPC-4 6.45).
    fn set_port_groups(&self, data: &Bytes, length: u32) -> Result<Outcome, Sense> {
        let wanted = parse_set_port_groups(&whole(data, u64::from(length))?)?;
        let is = (self.port.group, AccessState::ActiveOptimized);
        match wanted.iter().position(|asked| *asked != is) {
            Some(place) => Err(Sense::invalid_parameter(4 + 4 * place as u16, Some(3))),
            None => Ok(Outcome::GOOD),
        }
    }

    fn mode_state(&self, attachment: &Attachment) -> ModeState {
        let write_cache = self.shared.service.write_cache();
        ModeState {
            current: ModeSettings { write_cache, ..attachment.unit.mode_settings() },
            default: ModeSettings { write_cache, ..ModeSettings::default() },
            write_cache_changeable: false,
            read_only: attachment.read_only,
            blocks: attachment.blocks,
            thresholds: attachment.unit.provisioning.lock().thresholds,
        }
    }

    /// What log page 0Ch tells: what the pool has left, and what the volume has mapped.
    fn resources(&self, attachment: &Attachment) -> Resources {
        let used = self.shared.service.volume_space(attachment.unit.volume).unwrap_or_default().written;
        Resources {
            available: threshold_sets(self.shared.service.space().free()),
            used: threshold_sets(used.next_multiple_of(THRESHOLD_SET_BYTES)),
        }
    }

    fn inquiry(&self, attachment: &Attachment, page: Option<u8>) -> Result<Vec<u8>, Sense> {
        let Some(page) = page else { return Ok(standard_inquiry(Peripheral::Disk)) };
        let device = vpd::Device {
            serial: &attachment.serial,
            naa: attachment.naa,
            port: &self.port,
            volatile_cache: self.shared.service.write_cache(),
        };
        vpd::page(page, &device).ok_or(Sense::invalid_cdb_field(2, None))
    }

    /// SPC-4 6.33: the list is the session's, through whatever LUN it is asked. There are no well known logical units.
    fn report_luns(&self, select: SelectReport, allocation: u32) -> Outcome {
        self.nexus.settle(asc::REPORTED_LUNS_DATA_HAS_CHANGED);
        let data = match select {
            SelectReport::WellKnown => report_luns_data([]),
            SelectReport::Addressable | SelectReport::All => {
                report_luns_data(self.view.iter().map(|attachment| attachment.lun))
            }
        };
        Outcome::cut(data, allocation)
    }
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
