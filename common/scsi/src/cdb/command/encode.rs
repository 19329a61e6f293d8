//! Encodes a [`Command`] as a CDB, for the initiator.

use super::{CacheRange, CdbSize, Command, Transfer, Verification, WriteSame};
use crate::be::{get_u32, low_u8, low_u16, put, put_u24};
use crate::cdb::Cdb;
use types::Lba;

/// A CDB under construction; all bytes after the opcode start as zero.
struct Builder([u8; 16]);

impl Builder {
    fn new(opcode: u8) -> Self {
        let mut bytes = [0; 16];
        bytes[0] = opcode;
        Self(bytes)
    }

    fn byte(mut self, at: usize, value: u8) -> Self {
        self.0[at] |= value;
        self
    }

    fn flag(self, at: usize, bit: u8, set: bool) -> Self {
        self.byte(at, if set { 1 << bit } else { 0 })
    }

    fn u16(mut self, at: usize, value: u16) -> Self {
        put(&mut self.0, at, value.to_be_bytes());
        self
    }

    fn u32(mut self, at: usize, value: u32) -> Self {
        put(&mut self.0, at, value.to_be_bytes());
        self
    }

    fn u64(mut self, at: usize, value: u64) -> Self {
        put(&mut self.0, at, value.to_be_bytes());
        self
    }

    /// Sets LBA and length where `size` has them. Values that do not fit are truncated: select the
    /// size with [`CdbSize::for_range`].
    fn range(mut self, size: CdbSize, lba: Lba, blocks: u32) -> Self {
        match size {
            CdbSize::Six => {
                put_u24(&mut self.0, 1, (lba.0 & 0x1f_ffff) as u32);
                self.byte(4, low_u8(blocks))
            }
            CdbSize::Ten => self.u32(2, get_u32(&lba.0.to_be_bytes(), 4)).u16(7, low_u16(blocks)),
            CdbSize::Twelve => self.u32(2, get_u32(&lba.0.to_be_bytes(), 4)).u32(6, blocks),
            CdbSize::Sixteen => self.u64(2, lba.0).u32(10, blocks),
        }
    }

    fn transfer(self, transfer: Transfer) -> Self {
        let wide = transfer.size != CdbSize::Six;
        self.range(transfer.size, transfer.lba, transfer.blocks).flag(1, 4, wide && transfer.dpo).flag(
            1,
            3,
            wide && transfer.fua,
        )
    }

    fn verification(self, verification: Verification) -> Self {
        self.range(verification.size, verification.lba, verification.blocks)
            .flag(1, 4, verification.dpo)
            .byte(1, (verification.check as u8) << 1)
    }

    fn cache_range(self, range: CacheRange) -> Self {
        self.range(range.size, range.lba, range.blocks).flag(1, 1, range.immediate)
    }

    fn write_same(self, same: WriteSame) -> Self {
        self.range(same.size, same.lba, same.blocks).flag(1, 3, same.unmap).flag(1, 0, same.no_data)
    }
}

impl CdbSize {
    /// Returns the smaller of ten and sixteen bytes that holds the range, as hosts choose.
    pub fn for_range(lba: Lba, blocks: u32) -> Self {
        if u32::try_from(lba.0).is_ok() && blocks <= u32::from(u16::MAX) { Self::Ten } else { Self::Sixteen }
    }

    /// Selects the operation code for this size from those of a family.
    fn pick(self, six: u8, ten: u8, twelve: u8, sixteen: u8) -> u8 {
        match self {
            Self::Six => six,
            Self::Ten => ten,
            Self::Twelve => twelve,
            Self::Sixteen => sixteen,
        }
    }

    /// Selects the operation code for this size from a family that starts at ten bytes.
    fn pick_wide(self, ten: u8, twelve: u8, sixteen: u8) -> u8 {
        self.pick(ten, ten, twelve, sixteen)
    }
}

impl Command {
    /// Encodes the command. If the command does not exist in the given size, the next larger one is
    /// used.
    pub fn to_cdb(&self) -> Cdb {
        Cdb(self.build().0)
    }

    fn build(&self) -> Builder {
        match *self {
            Self::Read(t) => Builder::new(t.size.pick(0x08, 0x28, 0xa8, 0x88)).transfer(t),
            Self::Write(t) => Builder::new(t.size.pick(0x0a, 0x2a, 0xaa, 0x8a)).transfer(t),
            Self::OrWrite(t) => Builder::new(0x8b).transfer(Transfer { size: CdbSize::Sixteen, ..t }),
            Self::Verify(v) => Builder::new(v.size.pick_wide(0x2f, 0xaf, 0x8f)).verification(v.at_least_ten()),
            Self::WriteAndVerify(v) => Builder::new(v.size.pick_wide(0x2e, 0xae, 0x8e)).verification(v.at_least_ten()),
            Self::CompareAndWrite { lba, blocks, dpo, fua } => {
                Builder::new(0x89).u64(2, lba.0).byte(13, blocks).flag(1, 4, dpo).flag(1, 3, fua)
            }
            Self::WriteAtomic { lba, blocks, dpo, fua } => {
                Builder::new(0x9c).u64(2, lba.0).u16(12, blocks).flag(1, 4, dpo).flag(1, 3, fua)
            }
            Self::WriteSame(s) if s.size == CdbSize::Ten && !s.no_data => Builder::new(0x41).write_same(s),
            Self::WriteSame(s) => Builder::new(0x93).write_same(WriteSame { size: CdbSize::Sixteen, ..s }),
            Self::Unmap { length } => Builder::new(0x42).u16(7, length),
            Self::SynchronizeCache(r) if r.size == CdbSize::Ten => Builder::new(0x35).cache_range(r),
            Self::SynchronizeCache(r) => Builder::new(0x91).cache_range(CacheRange { size: CdbSize::Sixteen, ..r }),
            Self::PreFetch(r) if r.size == CdbSize::Ten => Builder::new(0x34).cache_range(r),
            Self::PreFetch(r) => Builder::new(0x90).cache_range(CacheRange { size: CdbSize::Sixteen, ..r }),
            Self::GetLbaStatus { lba, allocation } => {
                Builder::new(0x9e).byte(1, 0x12).u64(2, lba.0).u32(10, allocation)
            }
            Self::ReadDefectData { size: CdbSize::Twelve, lists, allocation } => {
                Builder::new(0xb7).byte(1, lists).u32(6, allocation)
            }
            Self::ReadDefectData { lists, allocation, .. } => {
                Builder::new(0x37).byte(2, lists).u16(7, low_u16(allocation))
            }
            Self::ExtendedCopy { length } => Builder::new(0x83).u32(10, length),
            Self::ReceiveCopyResults { action, list, allocation } => {
                Builder::new(0x84).byte(1, action as u8).byte(2, list).u32(10, allocation)
            }
            _ => self.build_control(),
        }
    }

    /// Encodes the commands that do not access the medium.
    fn build_control(&self) -> Builder {
        match *self {
            Self::RequestSense { descriptor, allocation } => {
                Builder::new(0x03).flag(1, 0, descriptor).byte(4, allocation)
            }
            Self::Inquiry { page, allocation } => {
                Builder::new(0x12).flag(1, 0, page.is_some()).byte(2, page.unwrap_or(0)).u16(3, allocation)
            }
            Self::ModeSense(sense) => {
                let ten = sense.size != CdbSize::Six;
                let builder = Builder::new(if ten { 0x5a } else { 0x1a })
                    .flag(1, 3, sense.no_block_descriptors)
                    .flag(1, 4, ten && sense.long_lba)
                    .byte(2, ((sense.control as u8) << 6) | (sense.page & 0x3f))
                    .byte(3, sense.subpage);
                if ten { builder.u16(7, sense.allocation) } else { builder.byte(4, low_u8(sense.allocation.into())) }
            }
            Self::ModeSelect { size: CdbSize::Six, page_format, length } => {
                Builder::new(0x15).flag(1, 4, page_format).byte(4, low_u8(length.into()))
            }
            Self::ModeSelect { page_format, length, .. } => Builder::new(0x55).flag(1, 4, page_format).u16(7, length),
            // PC 01b: cumulative values, as hosts send it.
            Self::LogSense(sense) => Builder::new(0x4d)
                .byte(2, 0x40 | (sense.page & 0x3f))
                .byte(3, sense.subpage)
                .u16(5, sense.pointer)
                .u16(7, sense.allocation),
            Self::ReportLuns { select, allocation } => Builder::new(0xa0).byte(2, select as u8).u32(6, allocation),
            Self::ReadCapacity10 => Builder::new(0x25),
            Self::ReadCapacity16 { allocation } => Builder::new(0x9e).byte(1, 0x10).u32(10, allocation),
            Self::Reserve { size } => Builder::new(if size == CdbSize::Six { 0x16 } else { 0x56 }),
            Self::Release { size } => Builder::new(if size == CdbSize::Six { 0x17 } else { 0x57 }),
            Self::PersistentReserveIn { action, allocation } => {
                Builder::new(0x5e).byte(1, action as u8).u16(7, allocation)
            }
            Self::PersistentReserveOut { action, kind, length } => {
                Builder::new(0x5f).byte(1, action as u8).byte(2, kind.map_or(0, |kind| kind as u8)).u32(5, length)
            }
            Self::ReportOpcodes(report) => Builder::new(0xa3)
                .byte(1, 0x0c)
                .flag(2, 7, report.timeouts)
                .byte(2, report.options as u8)
                .byte(3, report.opcode)
                .u16(4, report.service_action)
                .u32(6, report.allocation),
            Self::ReportTaskManagement { extended, allocation } => {
                Builder::new(0xa3).byte(1, 0x0d).flag(2, 7, extended).u32(6, allocation)
            }
            Self::ReportTargetPortGroups { extended, allocation } => {
                Builder::new(0xa3).byte(1, 0x0a).flag(1, 5, extended).u32(6, allocation)
            }
            Self::SetTargetPortGroups { length } => Builder::new(0xa4).byte(1, 0x0a).u32(6, length),
            Self::StartStop(s) => Builder::new(0x1b)
                .flag(1, 0, s.immediate)
                .byte(3, s.modifier & 0x0f)
                .byte(4, s.power_condition << 4)
                .flag(4, 2, s.no_flush)
                .flag(4, 1, s.load_eject)
                .flag(4, 0, s.start),
            Self::PreventAllow { prevent } => Builder::new(0x1e).flag(4, 0, prevent),
            Self::SendDiagnostic { self_test } => Builder::new(0x1d).flag(1, 2, self_test),
            _ => Builder::new(0x00),
        }
    }
}

impl Verification {
    fn at_least_ten(self) -> Self {
        if self.size == CdbSize::Six { Self { size: CdbSize::Ten, ..self } } else { self }
    }
}
