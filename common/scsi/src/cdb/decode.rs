//! Decodes the bytes of a CDB to a [`Command`]. The table has checked reserved bits before.

use super::command::{
    ByteCheck, CacheRange, CdbSize, Command, CopyResults, LogSense, ModeSense, PageControl, ReportOpcodes,
    ReportingOptions, SelectReport, StartStop, Transfer, Verification, WriteSame,
};
use crate::be::{get_u16, get_u24, get_u32, get_u64};
use crate::persistent_reservation::{InAction, OutAction, ReservationType};
use crate::sense::Sense;
use types::Lba;

type Bytes = [u8; 16];
type Parsed = Result<Command, Sense>;

const DPO: u8 = 0x10;
const FUA: u8 = 0x08;
const IMMED: u8 = 0x02;
const UNMAP: u8 = 0x08;
const NDOB: u8 = 0x01;
/// REQ_PLIST, REQ_GLIST and DEFECT LIST FORMAT.
const DEFECT_LISTS: u8 = 0x1f;

/// Returns LBA and length for the four CDB sizes (SPC-4 4.3.4).
#[inline]
fn range(cdb: &Bytes, size: CdbSize) -> (Lba, u32) {
    match size {
        // In 6-byte CDBs a length of zero means 256 blocks (SBC-4 5.15).
        CdbSize::Six => {
            (Lba(u64::from(get_u24(cdb, 1) & 0x1f_ffff)), if cdb[4] == 0 { 256 } else { u32::from(cdb[4]) })
        }
        CdbSize::Ten => (Lba(u64::from(get_u32(cdb, 2))), u32::from(get_u16(cdb, 7))),
        CdbSize::Twelve => (Lba(u64::from(get_u32(cdb, 2))), get_u32(cdb, 6)),
        CdbSize::Sixteen => (Lba(get_u64(cdb, 2)), get_u32(cdb, 10)),
    }
}

#[inline]
fn transfer(cdb: &Bytes, size: CdbSize) -> Transfer {
    let (lba, blocks) = range(cdb, size);
    // Byte 1 of a 6-byte CDB holds the high bits of the LBA.
    let flags = if size == CdbSize::Six { 0 } else { cdb[1] };
    Transfer { size, lba, blocks, dpo: flags & DPO != 0, fua: flags & FUA != 0 }
}

fn verification(cdb: &Bytes, size: CdbSize, same_allowed: bool) -> Result<Verification, Sense> {
    let (lba, blocks) = range(cdb, size);
    let check = match (cdb[1] >> 1) & 0x03 {
        0 => ByteCheck::Medium,
        1 => ByteCheck::Compare,
        3 if same_allowed => ByteCheck::CompareSame,
        _ => return Err(Sense::invalid_cdb_field(1, Some(2))),
    };
    Ok(Verification { size, lba, blocks, dpo: cdb[1] & DPO != 0, check })
}

fn cache_range(cdb: &Bytes, size: CdbSize) -> CacheRange {
    let (lba, blocks) = range(cdb, size);
    CacheRange { size, lba, blocks, immediate: cdb[1] & IMMED != 0 }
}

fn write_same(cdb: &Bytes, size: CdbSize) -> WriteSame {
    let (lba, blocks) = range(cdb, size);
    WriteSame { size, lba, blocks, unmap: cdb[1] & UNMAP != 0, no_data: cdb[1] & NDOB != 0 }
}

/// Defines one decoder per size of a family of commands.
macro_rules! sized {
    ($($name:ident = $variant:ident($read:ident, $size:ident);)*) => {
        $(pub(super) fn $name(cdb: &Bytes) -> Parsed {
            Ok(Command::$variant($read(cdb, CdbSize::$size)))
        })*
    };
}

sized! {
    read_6 = Read(transfer, Six);
    read_10 = Read(transfer, Ten);
    read_12 = Read(transfer, Twelve);
    read_16 = Read(transfer, Sixteen);
    write_6 = Write(transfer, Six);
    write_10 = Write(transfer, Ten);
    write_12 = Write(transfer, Twelve);
    write_16 = Write(transfer, Sixteen);
    or_write_16 = OrWrite(transfer, Sixteen);
    pre_fetch_10 = PreFetch(cache_range, Ten);
    pre_fetch_16 = PreFetch(cache_range, Sixteen);
    synchronize_cache_10 = SynchronizeCache(cache_range, Ten);
    synchronize_cache_16 = SynchronizeCache(cache_range, Sixteen);
    write_same_10 = WriteSame(write_same, Ten);
    write_same_16 = WriteSame(write_same, Sixteen);
}

/// Defines decoders for VERIFY and WRITE AND VERIFY; the latter does not support BYTCHK 11b (SBC-4
/// 5.45).
macro_rules! verifying {
    ($($name:ident = $variant:ident($size:ident, same_allowed: $same:literal);)*) => {
        $(pub(super) fn $name(cdb: &Bytes) -> Parsed {
            verification(cdb, CdbSize::$size, $same).map(Command::$variant)
        })*
    };
}

verifying! {
    verify_10 = Verify(Ten, same_allowed: true);
    verify_12 = Verify(Twelve, same_allowed: true);
    verify_16 = Verify(Sixteen, same_allowed: true);
    write_and_verify_10 = WriteAndVerify(Ten, same_allowed: false);
    write_and_verify_12 = WriteAndVerify(Twelve, same_allowed: false);
    write_and_verify_16 = WriteAndVerify(Sixteen, same_allowed: false);
}

pub(super) fn test_unit_ready(_: &Bytes) -> Parsed {
    Ok(Command::TestUnitReady)
}

pub(super) fn request_sense(cdb: &Bytes) -> Parsed {
    Ok(Command::RequestSense { descriptor: cdb[1] & 0x01 != 0, allocation: cdb[4] })
}

pub(super) fn inquiry(cdb: &Bytes) -> Parsed {
    let vital_product_data = cdb[1] & 0x01 != 0;
    // PAGE CODE must be zero if EVPD is (SPC-4 6.6.1).
    if !vital_product_data && cdb[2] != 0 {
        return Err(Sense::invalid_cdb_field(2, None));
    }
    Ok(Command::Inquiry { page: vital_product_data.then_some(cdb[2]), allocation: get_u16(cdb, 3) })
}

pub(super) fn mode_select_6(cdb: &Bytes) -> Parsed {
    Ok(Command::ModeSelect { size: CdbSize::Six, page_format: cdb[1] & 0x10 != 0, length: u16::from(cdb[4]) })
}

pub(super) fn mode_select_10(cdb: &Bytes) -> Parsed {
    Ok(Command::ModeSelect { size: CdbSize::Ten, page_format: cdb[1] & 0x10 != 0, length: get_u16(cdb, 7) })
}

pub(super) fn mode_sense_6(cdb: &Bytes) -> Parsed {
    Ok(Command::ModeSense(mode_sense(cdb, CdbSize::Six, u16::from(cdb[4]))))
}

pub(super) fn mode_sense_10(cdb: &Bytes) -> Parsed {
    Ok(Command::ModeSense(mode_sense(cdb, CdbSize::Ten, get_u16(cdb, 7))))
}

fn mode_sense(cdb: &Bytes, size: CdbSize, allocation: u16) -> ModeSense {
    let control = match cdb[2] >> 6 {
        0 => PageControl::Current,
        1 => PageControl::Changeable,
        2 => PageControl::Default,
        _ => PageControl::Saved,
    };
    ModeSense {
        size,
        no_block_descriptors: cdb[1] & 0x08 != 0,
        long_lba: cdb[1] & 0x10 != 0,
        control,
        page: cdb[2] & 0x3f,
        subpage: cdb[3],
        allocation,
    }
}

pub(super) fn log_sense(cdb: &Bytes) -> Parsed {
    Ok(Command::LogSense(LogSense {
        page: cdb[2] & 0x3f,
        subpage: cdb[3],
        pointer: get_u16(cdb, 5),
        allocation: get_u16(cdb, 7),
    }))
}

pub(super) fn reserve_6(_: &Bytes) -> Parsed {
    Ok(Command::Reserve { size: CdbSize::Six })
}

pub(super) fn reserve_10(_: &Bytes) -> Parsed {
    Ok(Command::Reserve { size: CdbSize::Ten })
}

pub(super) fn release_6(_: &Bytes) -> Parsed {
    Ok(Command::Release { size: CdbSize::Six })
}

pub(super) fn release_10(_: &Bytes) -> Parsed {
    Ok(Command::Release { size: CdbSize::Ten })
}

pub(super) fn start_stop(cdb: &Bytes) -> Parsed {
    Ok(Command::StartStop(StartStop {
        immediate: cdb[1] & 0x01 != 0,
        modifier: cdb[3] & 0x0f,
        power_condition: cdb[4] >> 4,
        no_flush: cdb[4] & 0x04 != 0,
        load_eject: cdb[4] & 0x02 != 0,
        start: cdb[4] & 0x01 != 0,
    }))
}

/// DEVOFFL and UNITOFFL allow more than the default self-test needs: accepted and ignored.
pub(super) fn send_diagnostic(cdb: &Bytes) -> Parsed {
    Ok(Command::SendDiagnostic { self_test: cdb[1] & 0x04 != 0 })
}

/// PREVENT values 10b and 11b are obsolete (SBC-4 5.12).
pub(super) fn prevent_allow(cdb: &Bytes) -> Parsed {
    match cdb[4] {
        0 => Ok(Command::PreventAllow { prevent: false }),
        1 => Ok(Command::PreventAllow { prevent: true }),
        _ => Err(Sense::invalid_cdb_field(4, Some(1))),
    }
}

pub(super) fn read_capacity_10(_: &Bytes) -> Parsed {
    Ok(Command::ReadCapacity10)
}

pub(super) fn read_capacity_16(cdb: &Bytes) -> Parsed {
    Ok(Command::ReadCapacity16 { allocation: get_u32(cdb, 10) })
}

pub(super) fn get_lba_status(cdb: &Bytes) -> Parsed {
    Ok(Command::GetLbaStatus { lba: Lba(get_u64(cdb, 2)), allocation: get_u32(cdb, 10) })
}

pub(super) fn compare_and_write(cdb: &Bytes) -> Parsed {
    let (lba, blocks) = (Lba(get_u64(cdb, 2)), cdb[13]);
    Ok(Command::CompareAndWrite { lba, blocks, dpo: cdb[1] & DPO != 0, fua: cdb[1] & FUA != 0 })
}

pub(super) fn write_atomic(cdb: &Bytes) -> Parsed {
    let (lba, blocks) = (Lba(get_u64(cdb, 2)), get_u16(cdb, 12));
    Ok(Command::WriteAtomic { lba, blocks, dpo: cdb[1] & DPO != 0, fua: cdb[1] & FUA != 0 })
}

pub(super) fn read_defect_data_10(cdb: &Bytes) -> Parsed {
    let allocation = u32::from(get_u16(cdb, 7));
    Ok(Command::ReadDefectData { size: CdbSize::Ten, lists: cdb[2] & DEFECT_LISTS, allocation })
}

pub(super) fn read_defect_data_12(cdb: &Bytes) -> Parsed {
    let allocation = get_u32(cdb, 6);
    Ok(Command::ReadDefectData { size: CdbSize::Twelve, lists: cdb[1] & DEFECT_LISTS, allocation })
}

pub(super) fn unmap(cdb: &Bytes) -> Parsed {
    Ok(Command::Unmap { length: get_u16(cdb, 7) })
}

pub(super) fn persistent_reserve_in(cdb: &Bytes) -> Parsed {
    let action = InAction::from_code(cdb[1] & 0x1f).ok_or(Sense::invalid_cdb_field(1, Some(4)))?;
    Ok(Command::PersistentReserveIn { action, allocation: get_u16(cdb, 7) })
}

pub(super) fn persistent_reserve_out(cdb: &Bytes) -> Parsed {
    let action = OutAction::from_code(cdb[1] & 0x1f).ok_or(Sense::invalid_cdb_field(1, Some(4)))?;
    let kind = if action.uses_type() {
        // The only scope is the whole logical unit (SPC-4 6.15.3.3).
        if cdb[2] >> 4 != 0 {
            return Err(Sense::invalid_cdb_field(2, Some(7)));
        }
        Some(ReservationType::from_code(cdb[2] & 0x0f).ok_or(Sense::invalid_cdb_field(2, Some(3)))?)
    } else {
        None
    };
    Ok(Command::PersistentReserveOut { action, kind, length: get_u32(cdb, 5) })
}

pub(super) fn report_luns(cdb: &Bytes) -> Parsed {
    let select = match cdb[2] {
        0 => SelectReport::Addressable,
        1 => SelectReport::WellKnown,
        2 => SelectReport::All,
        _ => return Err(Sense::invalid_cdb_field(2, None)),
    };
    Ok(Command::ReportLuns { select, allocation: get_u32(cdb, 6) })
}

pub(super) fn report_target_port_groups(cdb: &Bytes) -> Parsed {
    let extended = match cdb[1] >> 5 {
        0 => false,
        1 => true,
        _ => return Err(Sense::invalid_cdb_field(1, Some(7))),
    };
    Ok(Command::ReportTargetPortGroups { extended, allocation: get_u32(cdb, 6) })
}

pub(super) fn set_target_port_groups(cdb: &Bytes) -> Parsed {
    Ok(Command::SetTargetPortGroups { length: get_u32(cdb, 6) })
}

pub(super) fn report_opcodes(cdb: &Bytes) -> Parsed {
    let options = match cdb[2] & 0x07 {
        0 => ReportingOptions::All,
        1 => ReportingOptions::Opcode,
        2 => ReportingOptions::ServiceAction,
        3 => ReportingOptions::Either,
        _ => return Err(Sense::invalid_cdb_field(2, Some(2))),
    };
    Ok(Command::ReportOpcodes(ReportOpcodes {
        timeouts: cdb[2] & 0x80 != 0,
        options,
        opcode: cdb[3],
        service_action: get_u16(cdb, 4),
        allocation: get_u32(cdb, 6),
    }))
}

pub(super) fn report_task_management(cdb: &Bytes) -> Parsed {
    Ok(Command::ReportTaskManagement { extended: cdb[2] & 0x80 != 0, allocation: get_u32(cdb, 6) })
}

pub(super) fn extended_copy(cdb: &Bytes) -> Parsed {
    Ok(Command::ExtendedCopy { length: get_u32(cdb, 10) })
}

pub(super) fn receive_copy_results(cdb: &Bytes) -> Parsed {
    let action = match cdb[1] & 0x1f {
        0x00 => CopyResults::CopyStatus,
        0x01 => CopyResults::ReceiveData,
        0x03 => CopyResults::OperatingParameters,
        0x04 => CopyResults::FailedSegmentDetails,
        _ => return Err(Sense::invalid_cdb_field(1, Some(4))),
    };
    Ok(Command::ReceiveCopyResults { action, list: cdb[2], allocation: get_u32(cdb, 10) })
}
