//! A logical unit: its size, limits and designator, and builders of commands for it.

use crate::request::{Payload, Request};
use bytes::Bytes;
use scsi::cdb::{CacheRange, CdbSize, Transfer, WriteSame};
use scsi::copy::{CopyList, Cscd, ListIdUsage, Segment, build_copy_list};
use scsi::inquiry::Designator;
use scsi::persistent_reservation::{InAction, OutAction, OutParameters, ReservationType};
use scsi::unmap::build_unmap;
use scsi::{Command, Lun};
use types::{BlockRange, Lba};

/// The capabilities and limits that a logical unit reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitLimits {
    /// Most blocks of a READ or WRITE; 0 if not reported (SBC-4 6.6.4).
    pub max_transfer: u64,
    /// Most blocks of a WRITE SAME; 0 if not reported.
    pub max_write_same: u64,
    /// Most blocks of an UNMAP; 0 if not reported.
    pub max_unmap_blocks: u32,
    /// Most ranges of an UNMAP; 0 if not reported.
    pub max_unmap_runs: u32,
    /// Most blocks of a COMPARE AND WRITE; 0 if not supported.
    pub compare_and_write: u8,
    /// LBPU: UNMAP is supported (SBC-4 6.6.7).
    pub unmap: bool,
    /// LBPWS: WRITE SAME(16) supports the UNMAP bit.
    pub write_same_unmap: bool,
    /// 3PC: EXTENDED COPY is supported (SPC-4 6.6.2).
    pub copy: bool,
}

/// A logical unit as it was when opened.
#[derive(Clone, Debug, Default)]
pub struct LogicalUnit {
    /// LUN in the session.
    pub lun: Lun,
    /// Block length in bytes.
    pub block_bytes: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// LBPRZ: unmapped blocks read as zeros.
    pub reads_zeros: bool,
    /// Capabilities and limits.
    pub limits: UnitLimits,
    /// Designator for copies; `None` if the unit reports none that fits in a copy descriptor.
    pub name: Option<Designator>,
}

/// A run of blocks to copy. A long run is split into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRun {
    /// First source block.
    pub source: u64,
    /// First destination block.
    pub destination: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl LogicalUnit {
    fn bytes(&self, blocks: u32) -> u32 {
        blocks.saturating_mul(self.block_bytes)
    }

    fn blocks_of(&self, data: &Bytes) -> u32 {
        u32::try_from(data.len() / self.block_bytes.max(1) as usize).unwrap_or(u32::MAX)
    }

    /// Builds READ(16) (SBC-4 5.18).
    pub fn read(&self, lba: u64, blocks: u32, fua: bool) -> Request {
        let command = Command::Read(Transfer { size: CdbSize::Sixteen, lba: Lba(lba), blocks, dpo: false, fua });
        Request { lun: self.lun, cdb: command.to_cdb(), payload: Payload::In(self.bytes(blocks)) }
    }

    /// Builds WRITE(16) (SBC-4 5.43) for all of `data`.
    pub fn write(&self, lba: u64, data: Bytes, fua: bool) -> Request {
        let blocks = self.blocks_of(&data);
        let command = Command::Write(Transfer { size: CdbSize::Sixteen, lba: Lba(lba), blocks, dpo: false, fua });
        Request::with_data(self.lun, &command, data)
    }

    /// Builds WRITE SAME(16) (SBC-4 5.50) with one block of data.
    pub fn write_same(&self, lba: u64, blocks: u32, block: Bytes, unmap: bool) -> Request {
        let same = WriteSame { size: CdbSize::Sixteen, lba: Lba(lba), blocks, unmap, no_data: false };
        Request::with_data(self.lun, &Command::WriteSame(same), block)
    }

    /// Builds UNMAP (SBC-4 5.35) of (first block, count) ranges. A range beyond the address space
    /// is sent with zero blocks.
    pub fn unmap(&self, runs: &[(u64, u32)]) -> Request {
        let range = |(lba, blocks): &(u64, u32)| BlockRange::new(Lba(*lba), u64::from(*blocks)).unwrap_or_default();
        let list = build_unmap(&runs.iter().map(range).collect::<Vec<_>>());
        let length = u16::try_from(list.len()).unwrap_or(u16::MAX);
        Request::with_data(self.lun, &Command::Unmap { length }, list.into())
    }

    /// Builds COMPARE AND WRITE (SBC-4 5.3). `data` holds the blocks to compare, then the blocks to
    /// write.
    pub fn compare_and_write(&self, lba: u64, data: Bytes, fua: bool) -> Request {
        let blocks = u8::try_from(self.blocks_of(&data) / 2).unwrap_or(u8::MAX);
        let command = Command::CompareAndWrite { lba: Lba(lba), blocks, dpo: false, fua };
        Request::with_data(self.lun, &command, data)
    }

    /// Builds EXTENDED COPY(LID1) (SPC-4 6.4) from this unit to `destination`, with the list
    /// identifier `id`. It is sent to this unit; the session's target must know both. A unit
    /// without a designator is omitted, and the target refuses the command.
    pub fn extended_copy(&self, id: u8, destination: &Self, runs: &[CopyRun]) -> Request {
        let cscds = [self, destination].into_iter().filter_map(|unit| unit.name.clone());
        let list = build_copy_list(&CopyList {
            id,
            usage: ListIdUsage::DiscardData,
            sequential: false,
            cscds: cscds.map(|designator| Cscd { designator }).collect(),
            segments: runs.iter().flat_map(segments).collect(),
        });
        let length = u32::try_from(list.len()).unwrap_or(u32::MAX);
        Request::with_data(self.lun, &Command::ExtendedCopy { length }, list.into())
    }

    /// Builds TEST UNIT READY (SPC-4 6.47).
    pub fn test_unit_ready(&self) -> Request {
        Request::new(self.lun, &Command::TestUnitReady)
    }

    /// Builds SYNCHRONIZE CACHE(10) (SBC-4 5.33) for the whole unit.
    pub fn synchronize_cache(&self) -> Request {
        let range = CacheRange { size: CdbSize::Ten, lba: Lba(0), blocks: 0, immediate: false };
        Request::new(self.lun, &Command::SynchronizeCache(range))
    }

    /// Builds GET LBA STATUS (SBC-4 5.8) with space for 255 descriptors.
    pub fn get_lba_status(&self, lba: u64) -> Request {
        Request::new(self.lun, &Command::GetLbaStatus { lba: Lba(lba), allocation: 8 + 255 * 16 })
    }

    /// Builds RESERVE(6) (SPC-2 7.21).
    pub fn reserve(&self) -> Request {
        Request::new(self.lun, &Command::Reserve { size: CdbSize::Six })
    }

    /// Builds RELEASE(6) (SPC-2 7.16).
    pub fn release(&self) -> Request {
        Request::new(self.lun, &Command::Release { size: CdbSize::Six })
    }

    /// Builds PERSISTENT RESERVE OUT (SPC-4 6.16) for this nexus. Only actions that reserve and
    /// release use `kind`.
    pub fn persistent_reserve_out(
        &self,
        action: OutAction,
        kind: Option<ReservationType>,
        parameters: &OutParameters,
    ) -> Request {
        let list = Bytes::copy_from_slice(&parameters.to_bytes());
        let length = u32::try_from(list.len()).unwrap_or(u32::MAX);
        Request::with_data(self.lun, &Command::PersistentReserveOut { action, kind, length }, list)
    }

    /// Builds PERSISTENT RESERVE IN (SPC-4 6.15).
    pub fn persistent_reserve_in(&self, action: InAction) -> Request {
        Request::new(self.lun, &Command::PersistentReserveIn { action, allocation: 8192 })
    }
}

/// Splits a run into segments from CSCD 0 to CSCD 1, each as long as its 16-bit block count allows
/// (SPC-4 6.4.6.4).
fn segments(run: &CopyRun) -> impl Iterator<Item = Segment> + use<> {
    const STEP: u64 = u16::MAX as u64;
    let CopyRun { source, destination, blocks } = *run;
    (0..blocks.div_ceil(STEP)).map(move |index| {
        let done = index * STEP;
        Segment {
            source: 0,
            destination: 1,
            blocks: (blocks - done).min(STEP) as u16,
            source_lba: Lba(source + done),
            destination_lba: Lba(destination + done),
        }
    })
}

#[cfg(test)]
mod tests;
