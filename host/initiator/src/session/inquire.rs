//! Queries to a target with typed results.

use super::Session;
use crate::error::RunError;
use crate::inquiry::Inquiry;
use crate::request::{CommandRefusal, Request};
use crate::unit::{LogicalUnit, UnitLimits};
use scsi::cdb::{CopyResults, SelectReport};
use scsi::copy::{CopyStatus, OperatingParameters};
use scsi::inquiry::vpd::{self, BlockLimits};
use scsi::inquiry::{Designator, DesignatorKind, parse_designators};
use scsi::lba_status::{StatusRun, parse_lba_status};
use scsi::lun::parse_report_luns;
use scsi::persistent_reservation::{InAction, ReservationType, parse_keys, parse_reservation};
use scsi::port_groups::{PortGroup, parse_port_groups};
use scsi::{Capacity, Command, Lun};

/// Allocation length of INQUIRY.
const INQUIRY_BYTES: u16 = 4096;
/// Allocation length of REPORT LUNS: every number of single-level addressing.
const REPORT_LUNS_BYTES: u32 = 8 + 8 * (Lun::MAX as u32 + 1);
/// Longest designator of a copy descriptor in bytes (SPC-4 6.4.5.3).
const DESIGNATOR_MAX_BYTES: usize = 20;

/// Returns the parsed value, or the refusal for invalid parameter data.
fn valid_or_refused<T>(parsed: Option<T>, what: &'static str) -> Result<T, RunError> {
    parsed.ok_or(RunError::Refused(CommandRefusal::BadData(what)))
}

/// Returns the result, or `None` if the target refused the query: it lacks the feature.
fn unless_refused<T>(result: Result<T, RunError>) -> Result<Option<T>, RunError> {
    match result {
        Err(RunError::Refused(CommandRefusal::Check(_) | CommandRefusal::BadData(_))) => Ok(None),
        result => result.map(Some),
    }
}

impl Session {
    /// Queries standard INQUIRY data.
    pub async fn inquiry(&mut self, lun: Lun) -> Result<Inquiry, RunError> {
        let data = self.run(Request::new(lun, &Command::Inquiry { page: None, allocation: INQUIRY_BYTES })).await?;
        valid_or_refused(Inquiry::parse(&data), "INQUIRY")
    }

    /// Queries a vital product data page; returns the bytes after its header (SPC-4 7.8).
    pub async fn vpd(&mut self, lun: Lun, page: u8) -> Result<Vec<u8>, RunError> {
        let data =
            self.run(Request::new(lun, &Command::Inquiry { page: Some(page), allocation: INQUIRY_BYTES })).await?;
        valid_or_refused(vpd::body_of(page, &data).map(<[u8]>::to_vec), "INQUIRY")
    }

    /// Queries the capacity with READ CAPACITY(16), or (10) if the target supports no other (SBC-4
    /// 5.20, 5.21).
    pub async fn read_capacity(&mut self, lun: Lun) -> Result<Capacity, RunError> {
        let long = self.run(Request::new(lun, &Command::ReadCapacity16 { allocation: 32 })).await;
        if let Some(data) = unless_refused(long)? {
            return valid_or_refused(Capacity::from_bytes_16(&data), "READ CAPACITY(16)");
        }
        let data = self.run(Request::new(lun, &Command::ReadCapacity10)).await?;
        valid_or_refused(Capacity::from_bytes_10(&data), "READ CAPACITY(10)")
    }

    /// Queries the logical units with REPORT LUNS (SPC-4 6.33).
    pub async fn report_luns(&mut self) -> Result<Vec<Lun>, RunError> {
        let command = Command::ReportLuns { select: SelectReport::Addressable, allocation: REPORT_LUNS_BYTES };
        let data = self.run(Request::new(Lun::default(), &command)).await?;
        valid_or_refused(parse_report_luns(&data).ok(), "REPORT LUNS")
    }

    /// Queries the provisioning status from `lba` on with one GET LBA STATUS (SBC-4 5.8).
    pub async fn lba_status(&mut self, unit: &LogicalUnit, lba: u64) -> Result<Vec<StatusRun>, RunError> {
        let data = self.run(unit.get_lba_status(lba)).await?;
        valid_or_refused(parse_lba_status(&data), "GET LBA STATUS")
    }

    /// Queries the registered keys with READ KEYS (SPC-4 6.15.2).
    pub async fn reservation_keys(&mut self, unit: &LogicalUnit) -> Result<Vec<u64>, RunError> {
        let data = self.run(unit.persistent_reserve_in(InAction::ReadKeys)).await?;
        Ok(valid_or_refused(parse_keys(&data), "PERSISTENT RESERVE IN")?.1)
    }

    /// Queries the holder's key and the type with READ RESERVATION (SPC-4 6.15.3); `None` without a
    /// reservation.
    pub async fn reservation(&mut self, unit: &LogicalUnit) -> Result<Option<(u64, ReservationType)>, RunError> {
        let data = self.run(unit.persistent_reserve_in(InAction::ReadReservation)).await?;
        Ok(parse_reservation(&data))
    }

    /// Queries the limits of the copy manager with RECEIVE COPY OPERATING PARAMETERS (SPC-4 6.20).
    pub async fn copy_limits(&mut self, lun: Lun) -> Result<OperatingParameters, RunError> {
        let action = CopyResults::OperatingParameters;
        let command = Command::ReceiveCopyResults { action, list: 0, allocation: 4096 };
        let data = self.run(Request::new(lun, &command)).await?;
        valid_or_refused(OperatingParameters::from_bytes(&data), "RECEIVE COPY RESULTS")
    }

    /// Queries the progress of the copy with list identifier `list` with RECEIVE COPY STATUS(LID1)
    /// (SPC-4 6.26).
    pub async fn copy_status(&mut self, lun: Lun, list: u8) -> Result<CopyStatus, RunError> {
        let command = Command::ReceiveCopyResults { action: CopyResults::CopyStatus, list, allocation: 12 };
        let data = self.run(Request::new(lun, &command)).await?;
        valid_or_refused(CopyStatus::from_bytes(&data), "RECEIVE COPY RESULTS")
    }

    /// Queries UNIT SERIAL NUMBER (SPC-4 7.8.15); `None` if the unit reports none.
    pub async fn unit_serial(&mut self, lun: Lun) -> Result<Option<String>, RunError> {
        let page = unless_refused(self.vpd(lun, vpd::UNIT_SERIAL_NUMBER).await)?;
        let text = page.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
        Ok(text.filter(|serial| !serial.is_empty()))
    }

    /// Returns true if the unit is solid state: MEDIUM ROTATION RATE 1 (SBC-4 6.6.2). False if it
    /// is not reported.
    pub async fn is_solid_state(&mut self, lun: Lun) -> Result<bool, RunError> {
        let page = unless_refused(self.vpd(lun, vpd::BLOCK_DEVICE_CHARACTERISTICS).await)?.unwrap_or_default();
        Ok(page.first_chunk::<2>().is_some_and(|rate| u16::from_be_bytes(*rate) == 1))
    }

    /// Queries the target port group of this session and its state for the unit (SPC-4 5.15, 6.37).
    /// `None` if the unit has no port groups; then all paths are equal.
    pub async fn port_group(&mut self, lun: Lun) -> Result<Option<PortGroup>, RunError> {
        let page = unless_refused(self.vpd(lun, vpd::DEVICE_IDENTIFICATION).await)?.unwrap_or_default();
        let Some(own) = own_group(&parse_designators(&page)) else { return Ok(None) };
        let command = Command::ReportTargetPortGroups { extended: false, allocation: 4096 };
        let Some(data) = unless_refused(self.run(Request::new(lun, &command)).await)? else { return Ok(None) };
        let length = data.first_chunk::<4>().map_or(0, |length| u32::from_be_bytes(*length) as usize);
        let reported = data.get(..length.saturating_add(4)).unwrap_or(&data);
        Ok(parse_port_groups(reported).and_then(|groups| groups.into_iter().find(|group| group.id == own)))
    }

    /// Opens a logical unit: queries its readiness, capacity, limits and designator.
    pub async fn open_unit(&mut self, lun: Lun) -> Result<LogicalUnit, RunError> {
        self.run(Request::new(lun, &Command::TestUnitReady)).await?;
        self.describe_unit(lun).await
    }

    /// Queries capacity, limits and designator of a logical unit that need not be ready.
    pub async fn describe_unit(&mut self, lun: Lun) -> Result<LogicalUnit, RunError> {
        let inquiry = self.inquiry(lun).await?;
        let capacity = self.read_capacity(lun).await?;
        let pages = unless_refused(self.vpd(lun, vpd::SUPPORTED_PAGES).await)?.unwrap_or_default();
        let mut limits = UnitLimits { copy: inquiry.third_party_copy, ..UnitLimits::default() };
        if pages.contains(&vpd::BLOCK_LIMITS) {
            let page =
                BlockLimits::from_body(&unless_refused(self.vpd(lun, vpd::BLOCK_LIMITS).await)?.unwrap_or_default());
            limits.max_transfer = u64::from(page.max_transfer);
            limits.max_write_same = page.max_write_same;
            limits.max_unmap_blocks = if page.max_unmap_blocks == u32::MAX { 0 } else { page.max_unmap_blocks };
            limits.max_unmap_runs = if page.max_unmap_descriptors == u32::MAX { 0 } else { page.max_unmap_descriptors };
            limits.compare_and_write = page.compare_and_write;
        }
        if pages.contains(&vpd::LOGICAL_BLOCK_PROVISIONING) {
            let page = unless_refused(self.vpd(lun, vpd::LOGICAL_BLOCK_PROVISIONING).await)?.unwrap_or_default();
            let flags = page.get(1).copied().unwrap_or(0);
            limits.unmap = flags & 0x80 != 0;
            limits.write_same_unmap = flags & 0x40 != 0;
        }
        let mut name = None;
        if pages.contains(&vpd::DEVICE_IDENTIFICATION) {
            let page = unless_refused(self.vpd(lun, vpd::DEVICE_IDENTIFICATION).await)?.unwrap_or_default();
            name = best_name(parse_designators(&page));
        }
        Ok(LogicalUnit {
            lun,
            block_bytes: capacity.block_bytes.max(1),
            blocks: capacity.last_lba.saturating_add(1),
            reads_zeros: capacity.reads_zeros,
            limits,
            name,
        })
    }
}

/// Returns the target port group among the designators of a port.
fn own_group(designators: &[Designator]) -> Option<u16> {
    let group = designators.iter().find(|designator| designator.kind == DesignatorKind::PortGroup)?;
    Some(u16::from_be_bytes(*group.bytes.last_chunk()?))
}

/// Returns the designator that a copy manager most likely knows: NAA before EUI-64 before T10
/// vendor.
fn best_name(designators: Vec<Designator>) -> Option<Designator> {
    let rank = |designator: &Designator| match designator.kind {
        DesignatorKind::Naa => 3,
        DesignatorKind::Eui64 => 2,
        DesignatorKind::T10Vendor => 1,
        _ => 0,
    };
    let fits = |d: &Designator| !d.names_port && d.bytes.len() <= DESIGNATOR_MAX_BYTES && rank(d) > 0;
    designators.into_iter().filter(fits).max_by_key(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scsi::inquiry::Naa;

    #[test]
    fn port_group_is_found_among_designators() {
        let group = Designator { kind: DesignatorKind::PortGroup, names_port: true, bytes: vec![0, 0, 1, 2] };
        assert_eq!(own_group(&[Designator::naa(Naa([6; 16])), group.clone()]), Some(0x0102));
        assert_eq!(own_group(&[Designator { bytes: vec![1], ..group }]), None);
        assert_eq!(own_group(&[]), None);
    }

    #[test]
    fn best_designator_that_fits_is_chosen() {
        let vendor = Designator::t10_vendor("0123");
        let naa = Designator::naa(Naa([6; 16]));
        let long = Designator { bytes: vec![1; 21], ..naa.clone() };
        let port = Designator { names_port: true, ..naa.clone() };
        assert_eq!(best_name(vec![vendor.clone(), naa.clone()]), Some(naa));
        assert_eq!(best_name(vec![long, port, vendor.clone()]), Some(vendor));
        assert_eq!(best_name(vec![]), None);
    }
}
