//! Medium access commands: reads, writes, verification, zeroing, UNMAP and LBA status.
//!
//! Each becomes one engine operation or a short sequence of them.

use crate::command::outcome::{CommandOutcome, exact, first, short_data, whole};
use crate::command::program::{Program, Sequence, Step};
use bytes::{Bytes, BytesMut};
use engine::Op;
use scsi::Sense;
use scsi::cdb::{ByteCheck, CacheRange, CdbSize, Command, Transfer, Verification, WriteSame};
use scsi::inquiry::vpd::{MAX_ATOMIC_BLOCKS, MAX_TRANSFER_BLOCKS};
use scsi::lba_status::runs_for_allocation;
use scsi::unmap::{lba_out_of_range, parse_unmap};
use types::{BlockRange, LBA_BYTES, Lba, VolumeId};

const LBA_LEN: usize = LBA_BYTES as usize;
/// A long WRITE reaches the engine in chunks of 4 MiB, each a small part of the engine's log.
const WRITE_CHUNK_BLOCKS: u64 = (4 << 20) / LBA_BYTES;
/// VERIFY works in chunks of 1 MiB, so that a long one needs little memory and can be aborted.
const VERIFY_CHUNK_BLOCKS: u64 = (1 << 20) / LBA_BYTES;
/// Maximum number of descriptors in one GET LBA STATUS answer.
const MAX_STATUS_EXTENTS: usize = 1024;

/// The medium that a command accesses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Medium {
    pub(crate) volume: VolumeId,
    /// Size in logical blocks.
    pub(crate) blocks: u64,
    /// Maximum number of bytes that the host accepts.
    pub(crate) max_read_bytes: u64,
    /// True if writes may be acknowledged from a volatile cache.
    pub(crate) write_cache: bool,
}

/// Returns true for the commands that [`Medium::start`] executes.
pub(crate) fn is_medium_command(command: &Command) -> bool {
    matches!(
        command,
        Command::Read(_)
            | Command::Write(_)
            | Command::OrWrite(_)
            | Command::Verify(_)
            | Command::WriteAndVerify(_)
            | Command::CompareAndWrite { .. }
            | Command::WriteAtomic { .. }
            | Command::WriteSame(_)
            | Command::Unmap { .. }
            | Command::SynchronizeCache(_)
            | Command::PreFetch(_)
            | Command::GetLbaStatus { .. }
    )
}

impl Medium {
    /// Returns the first step of a command. `data` may be shorter than the CDB requests.
    pub(crate) fn start(self, command: &Command, data: Bytes) -> Result<Step, Sense> {
        match *command {
            Command::Read(transfer) => self.read(transfer),
            Command::Write(transfer) => self.write(transfer, data),
            Command::OrWrite(transfer) => self.or_write(transfer, &data),
            Command::Verify(verification) => self.verify(verification, &data),
            Command::WriteAndVerify(verification) => self.write_and_verify(verification, data),
            Command::CompareAndWrite { lba, blocks, .. } => self.compare_and_write(lba, blocks, &data),
            Command::WriteAtomic { lba, blocks, fua, .. } => self.write_atomic(lba, blocks, fua, &data),
            Command::WriteSame(same) => self.write_same(same, &data),
            Command::Unmap { length } => self.unmap(length, &data),
            Command::SynchronizeCache(cache) => self.synchronize(cache),
            Command::PreFetch(cache) => self.pre_fetch(cache),
            Command::GetLbaStatus { lba, allocation } => self.status(lba, allocation),
            _ => Err(Sense::illegal(scsi::asc::INVALID_COMMAND_OPERATION_CODE)),
        }
    }

    /// Returns the block range of a CDB, which must be inside the medium (SBC-4 4.4).
    fn range(self, lba: Lba, blocks: u64) -> Result<BlockRange, Sense> {
        let range = BlockRange::new(lba, blocks).map_err(|_| Sense::lba_out_of_range(lba.0))?;
        if range.end().0 > self.blocks { Err(Sense::lba_out_of_range(lba.0)) } else { Ok(range) }
    }

    /// As [`range`](Self::range), limited to MAXIMUM TRANSFER LENGTH of VPD page B0h (SBC-4 6.6.4).
    fn transfer(self, lba: Lba, blocks: u32, size: CdbSize) -> Result<BlockRange, Sense> {
        let range = self.range(lba, u64::from(blocks))?;
        if blocks > MAX_TRANSFER_BLOCKS {
            return Err(Sense::invalid_cdb_field(length_field(size), None));
        }
        Ok(range)
    }

    /// As [`range`](Self::range), but a count of 0 means all blocks up to the end of the medium.
    fn to_end(self, lba: Lba, blocks: u32) -> Result<BlockRange, Sense> {
        match blocks {
            0 => self.range(lba, self.blocks.saturating_sub(lba.0)),
            _ => self.range(lba, u64::from(blocks)),
        }
    }

    fn read(self, transfer: Transfer) -> Result<Step, Sense> {
        let range = self.transfer(transfer.lba, transfer.blocks, transfer.size)?;
        let blocks = range.blocks().min(self.max_read_bytes.div_ceil(LBA_BYTES));
        let range = self.range(transfer.lba, blocks)?;
        if range.is_empty() {
            return Ok(CommandOutcome::GOOD.into());
        }
        let read = Op::Read { volume: self.volume, range };
        let program = Program::Single { lba: transfer.lba };
        if transfer.fua && self.write_cache {
            // A FUA read returns only data that is on the medium (SBC-4 4.15). Without a write
            // cache this is always true.
            return Ok(Step::Submit(Op::Flush, Program::Then(Box::new((read, program)))));
        }
        Ok(Step::Submit(read, program))
    }

    /// If the host sends less data than the CDB requests, the blocks that arrived are written, and
    /// the residual reports the rest. A partial block is an error, and nothing is written.
    fn write(self, transfer: Transfer, data: Bytes) -> Result<Step, Sense> {
        let range = self.transfer(transfer.lba, transfer.blocks, transfer.size)?;
        let data = first(data, range.bytes());
        if !data.len().is_multiple_of(LBA_LEN) {
            return Err(short_data());
        }
        if data.is_empty() {
            return Ok(CommandOutcome::GOOD.into());
        }
        let range = self.range(transfer.lba, (data.len() / LBA_LEN) as u64)?;
        if range.blocks() > WRITE_CHUNK_BLOCKS {
            return Ok(Sequence::start(transfer.lba, self.write_chunks(range, &data, transfer.fua)));
        }
        let op = Op::Write { volume: self.volume, lba: transfer.lba, data, fua: transfer.fua };
        Ok(Step::Submit(op, Program::Single { lba: transfer.lba }))
    }

    fn or_write(self, transfer: Transfer, data: &Bytes) -> Result<Step, Sense> {
        let range = self.transfer(transfer.lba, transfer.blocks, transfer.size)?;
        let data = whole(data, range.bytes())?;
        if data.is_empty() {
            return Ok(CommandOutcome::GOOD.into());
        }
        let op = Op::Or { volume: self.volume, lba: transfer.lba, data };
        Ok(Step::Submit(op, Program::Single { lba: transfer.lba }))
    }

    fn verify(self, verification: Verification, data: &Bytes) -> Result<Step, Sense> {
        let range = self.transfer(verification.lba, verification.blocks, verification.size)?;
        if range.is_empty() {
            return Ok(CommandOutcome::GOOD.into());
        }
        let data = match verification.check {
            ByteCheck::Medium => return Ok(Sequence::start(verification.lba, self.read_chunks(range))),
            ByteCheck::Compare => whole(data, range.bytes())?,
            ByteCheck::CompareSame => {
                return Ok(Sequence::start(verification.lba, self.compare_same(range, &whole(data, LBA_BYTES)?)));
            }
        };
        Ok(Sequence::start(verification.lba, self.compare_chunks(range, &data)))
    }

    /// WRITE AND VERIFY (SBC-4 5.45): the write reaches the medium before it is verified.
    fn write_and_verify(self, verification: Verification, data: Bytes) -> Result<Step, Sense> {
        let range = self.transfer(verification.lba, verification.blocks, verification.size)?;
        let data = first(data, range.bytes());
        if !data.len().is_multiple_of(LBA_LEN) {
            return Err(short_data());
        }
        if data.is_empty() {
            return Ok(CommandOutcome::GOOD.into());
        }
        let lba = verification.lba;
        let range = self.range(lba, (data.len() / LBA_LEN) as u64)?;
        let mut operations = self.write_chunks(range, &data, true);
        operations.extend(self.compare_chunks(range, &data));
        Ok(Sequence::start(lba, operations))
    }

    /// COMPARE AND WRITE (SBC-4 5.3): compares with the first half of the data, then writes the
    /// second half. A count of 0 blocks is not an error. FUA changes nothing, because the engine
    /// never caches the write.
    fn compare_and_write(self, lba: Lba, blocks: u8, data: &Bytes) -> Result<Step, Sense> {
        let range = self.range(lba, u64::from(blocks))?;
        let mut compare = exact(data, 2 * range.bytes(), 13)?;
        if range.is_empty() {
            return Ok(CommandOutcome::GOOD.into());
        }
        let write = compare.split_off(range.bytes() as usize);
        let op = Op::CompareAndWrite { volume: self.volume, lba, compare, write };
        Ok(Step::Submit(op, Program::Single { lba }))
    }

    /// WRITE ATOMIC (SBC-4 5.48). One engine write is atomic, so the command becomes exactly one.
    fn write_atomic(self, lba: Lba, blocks: u16, fua: bool, data: &Bytes) -> Result<Step, Sense> {
        let range = self.range(lba, blocks.into())?;
        if u32::from(blocks) > MAX_ATOMIC_BLOCKS {
            return Err(Sense::invalid_cdb_field(12, None));
        }
        if range.is_empty() {
            return Ok(CommandOutcome::GOOD.into());
        }
        let op = Op::Write { volume: self.volume, lba, data: whole(data, range.bytes())?, fua };
        Ok(Step::Submit(op, Program::Single { lba }))
    }

    /// WRITE SAME (SBC-4 5.49). With the UNMAP bit, the blocks are deallocated regardless of the
    /// data, and read as zeros (LBPRZ). Other targets do the same, and the libiscsi suite requires
    /// it: a host that sets the bit wants the space freed.
    fn write_same(self, same: WriteSame, data: &Bytes) -> Result<Step, Sense> {
        let range = self.to_end(same.lba, same.blocks)?;
        let pattern = if same.no_data { Bytes::new() } else { exact(data, LBA_BYTES, length_field(same.size))? };
        if range.is_empty() {
            return Ok(CommandOutcome::GOOD.into());
        }
        let volume = self.volume;
        let op = if same.unmap {
            Op::Unmap { volume, ranges: vec![range] }
        } else if pattern.iter().all(|byte| *byte == 0) {
            Op::Zero { volume, range }
        } else {
            Op::WriteSame { volume, range, pattern }
        };
        Ok(Step::Submit(op, Program::Single { lba: same.lba }))
    }

    /// UNMAP (SBC-4 5.35): checks every range before any is unmapped.
    fn unmap(self, length: u16, data: &Bytes) -> Result<Step, Sense> {
        let ranges = parse_unmap(&whole(data, u64::from(length))?)?;
        if let Some(place) = ranges.iter().position(|range| range.end().0 > self.blocks) {
            return Err(lba_out_of_range(place, ranges[place].start().0));
        }
        let Some(lba) = ranges.first().map(BlockRange::start) else {
            return Ok(CommandOutcome::GOOD.into());
        };
        Ok(Step::Submit(Op::Unmap { volume: self.volume, ranges }, Program::Single { lba }))
    }

    fn synchronize(self, cache: CacheRange) -> Result<Step, Sense> {
        self.to_end(cache.lba, cache.blocks)?;
        Ok(Step::Submit(Op::Flush, Program::Single { lba: cache.lba }))
    }

    /// PRE-FETCH (SBC-4 5.13). The page cache decides which blocks stay, so the status is never
    /// CONDITION MET, which promises that all blocks fit.
    fn pre_fetch(self, cache: CacheRange) -> Result<Step, Sense> {
        self.to_end(cache.lba, cache.blocks)?;
        Ok(CommandOutcome::GOOD.into())
    }

    fn status(self, lba: Lba, allocation: u32) -> Result<Step, Sense> {
        if lba.0 >= self.blocks {
            return Err(Sense::lba_out_of_range(lba.0));
        }
        let limit = runs_for_allocation(allocation).min(MAX_STATUS_EXTENTS);
        let op = Op::Status { volume: self.volume, lba, limit };
        Ok(Step::Submit(op, Program::Status { lba, allocation }))
    }

    fn read_chunks(self, range: BlockRange) -> Vec<(u64, Op)> {
        let read = |chunk: BlockRange| (0, Op::Read { volume: self.volume, range: chunk });
        chunks(range, VERIFY_CHUNK_BLOCKS).map(read).collect()
    }

    /// Returns the writes of a range. A crash may occur between them, because a WRITE need not be
    /// atomic (SBC-4 4.27 defines WRITE ATOMIC for that).
    fn write_chunks(self, range: BlockRange, data: &Bytes, fua: bool) -> Vec<(u64, Op)> {
        let write = |chunk: BlockRange| {
            let at = (chunk.start().0 - range.start().0) as usize * LBA_LEN;
            let data = data.slice(at..at + chunk.bytes() as usize);
            (0, Op::Write { volume: self.volume, lba: chunk.start(), data, fua })
        };
        chunks(range, WRITE_CHUNK_BLOCKS).map(write).collect()
    }

    fn compare_chunks(self, range: BlockRange, data: &Bytes) -> Vec<(u64, Op)> {
        let compare = |chunk: BlockRange| {
            let offset = (chunk.start().0 - range.start().0) * LBA_BYTES;
            let data = data.slice(offset as usize..(offset + chunk.bytes()) as usize);
            (offset, Op::Compare { volume: self.volume, lba: chunk.start(), data })
        };
        chunks(range, VERIFY_CHUNK_BLOCKS).map(compare).collect()
    }

    /// Compares each block of the range with `block`. All comparisons share one buffer of repeated
    /// copies.
    fn compare_same(self, range: BlockRange, block: &[u8]) -> Vec<(u64, Op)> {
        let mut repeated = BytesMut::new();
        for _ in 0..range.blocks().min(VERIFY_CHUNK_BLOCKS) {
            repeated.extend_from_slice(block);
        }
        let repeated = repeated.freeze();
        let compare = |chunk: BlockRange| {
            let data = repeated.slice(..chunk.bytes() as usize);
            let offset = (chunk.start().0 - range.start().0) * LBA_BYTES;
            (offset, Op::Compare { volume: self.volume, lba: chunk.start(), data })
        };
        chunks(range, VERIFY_CHUNK_BLOCKS).map(compare).collect()
    }
}

/// Splits a range into chunks of at most `blocks` blocks.
fn chunks(range: BlockRange, blocks: u64) -> impl Iterator<Item = BlockRange> {
    let (start, end) = (range.start().0, range.end().0);
    (start..end).step_by(blocks as usize).filter_map(move |lba| {
        // Never fails, because the chunks are inside a valid range.
        BlockRange::new(Lba(lba), blocks.min(end - lba)).ok()
    })
}

/// Returns the offset of the transfer length in a CDB of this size (SBC-4 5.15 to 5.18).
fn length_field(size: CdbSize) -> u16 {
    match size {
        CdbSize::Six => 4,
        CdbSize::Ten => 7,
        CdbSize::Twelve => 6,
        CdbSize::Sixteen => 10,
    }
}
