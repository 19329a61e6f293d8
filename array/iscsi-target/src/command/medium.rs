//! Commands on the medium: reads, writes, verifications, zeroes, and what else becomes one or a few engine operations.

use crate::command::outcome::{Outcome, exact, first, short_data, whole};
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
/// The piece in which a long WRITE goes to the engine: one that is surely a small part of its log.
const WRITE_PIECE_BLOCKS: u64 = (4 << 20) / LBA_BYTES;
/// The piece in which VERIFY reads or compares, so that a long one holds little memory and can be aborted.
const VERIFY_PIECE_BLOCKS: u64 = (1 << 20) / LBA_BYTES;
/// The most descriptors of one GET LBA STATUS answer.
const MAX_STATUS_EXTENTS: usize = 1024;

/// The medium of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Medium {
    pub(crate) volume: VolumeId,
    /// Its size.
    pub(crate) blocks: u64,
    /// Bytes that the host has room for.
    pub(crate) room: u64,
    /// Writes may be acknowledged from a volatile cache.
    pub(crate) write_cache: bool,
}

/// True for the commands that [`Medium::start`] carries out.
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
    /// The first step of a command on the medium. `data` is what the host has sent of the command's data.
    pub(crate) fn start(self, command: &Command, data: Bytes) -> Result<Step, Sense> {
        match *command {
            Command::Read(transfer) => self.read(transfer),
            Command::Write(transfer) => self.write(transfer, data),
            Command::OrWrite(transfer) => self.or_write(transfer, &data),
            Command::Verify(verification) => self.verify(verification, &data),
            Command::WriteAndVerify(verification) => self.write_and_verify(verification, data),
            Command::CompareAndWrite { lba, blocks, fua, .. } => self.compare_and_write(lba, blocks, fua, &data),
            Command::WriteAtomic { lba, blocks, fua, .. } => self.write_atomic(lba, blocks, fua, &data),
            Command::WriteSame(same) => self.write_same(same, &data),
            Command::Unmap { length } => self.unmap(length, &data),
            Command::SynchronizeCache(cache) => self.synchronize(cache),
            Command::PreFetch(cache) => self.pre_fetch(cache),
            Command::GetLbaStatus { lba, allocation } => self.status(lba, allocation),
            _ => Err(Sense::illegal(scsi::asc::INVALID_COMMAND_OPERATION_CODE)),
        }
    }

    /// The run of blocks of a CDB, inside the medium (SBC-4 4.4: else LOGICAL BLOCK ADDRESS OUT OF RANGE).
    fn range(self, lba: Lba, blocks: u64) -> Result<BlockRange, Sense> {
        let range = BlockRange::new(lba, blocks).map_err(|_| Sense::lba_out_of_range(lba.0))?;
        if range.end().0 > self.blocks { Err(Sense::lba_out_of_range(lba.0)) } else { Ok(range) }
    }

    /// As [`range`](Self::range), and not longer than MAXIMUM TRANSFER LENGTH of VPD page B0h (SBC-4 6.6.4).
    fn transfer(self, lba: Lba, blocks: u32, size: CdbSize) -> Result<BlockRange, Sense> {
        let range = self.range(lba, u64::from(blocks))?;
        if blocks > MAX_TRANSFER_BLOCKS {
            return Err(Sense::invalid_cdb_field(length_field(size), None));
        }
        Ok(range)
    }

    /// As [`range`](Self::range), where no blocks means all up to the end of the medium.
    fn to_end(self, lba: Lba, blocks: u32) -> Result<BlockRange, Sense> {
        match blocks {
            0 => self.range(lba, self.blocks.saturating_sub(lba.0)),
            _ => self.range(lba, u64::from(blocks)),
        }
    }

    fn read(self, transfer: Transfer) -> Result<Step, Sense> {
        let range = self.transfer(transfer.lba, transfer.blocks, transfer.size)?;
        let blocks = range.blocks().min(self.room.div_ceil(LBA_BYTES));
        let range = self.range(transfer.lba, blocks)?;
        if range.is_empty() {
            return Ok(Outcome::GOOD.into());
        }
        let read = Op::Read { volume: self.volume, range };
        let program = Program::Single { lba: transfer.lba };
        if transfer.fua && self.write_cache {
            // SBC-4 4.15: what a FUA read returns is on the medium. Without a write cache it always is.
            return Ok(Step::Submit(Op::Flush, Program::Then(Box::new((read, program)))));
        }
        Ok(Step::Submit(read, program))
    }

    /// Less data than the CDB asks for are written as far as whole blocks have come, and the residual says so; a
    /// block that came in part is an error, and then nothing is written.
    fn write(self, transfer: Transfer, data: Bytes) -> Result<Step, Sense> {
        let range = self.transfer(transfer.lba, transfer.blocks, transfer.size)?;
        let data = first(data, range.bytes());
        if !data.len().is_multiple_of(LBA_LEN) {
            return Err(short_data());
        }
        if data.is_empty() {
            return Ok(Outcome::GOOD.into());
        }
        let range = self.range(transfer.lba, (data.len() / LBA_LEN) as u64)?;
        if range.blocks() > WRITE_PIECE_BLOCKS {
            return Ok(Sequence::start(transfer.lba, self.write_pieces(range, &data, transfer.fua)));
        }
        let op = Op::Write { volume: self.volume, lba: transfer.lba, data, fua: transfer.fua };
        Ok(Step::Submit(op, Program::Single { lba: transfer.lba }))
    }

    fn or_write(self, transfer: Transfer, data: &Bytes) -> Result<Step, Sense> {
        let range = self.transfer(transfer.lba, transfer.blocks, transfer.size)?;
        let data = whole(data, range.bytes())?;
        if data.is_empty() {
            return Ok(Outcome::GOOD.into());
        }
        let op = Op::Or { volume: self.volume, lba: transfer.lba, data, fua: transfer.fua };
        Ok(Step::Submit(op, Program::Single { lba: transfer.lba }))
    }

    fn verify(self, verification: Verification, data: &Bytes) -> Result<Step, Sense> {
        let range = self.transfer(verification.lba, verification.blocks, verification.size)?;
        if range.is_empty() {
            return Ok(Outcome::GOOD.into());
        }
        let data = match verification.check {
            ByteCheck::Medium => return Ok(Sequence::start(verification.lba, self.read_pieces(range))),
            ByteCheck::Compare => whole(data, range.bytes())?,
            ByteCheck::CompareSame => {
                return Ok(Sequence::start(verification.lba, self.compare_same(range, &whole(data, LBA_BYTES)?)));
            }
        };
        let op = Op::Compare { volume: self.volume, lba: verification.lba, data };
        Ok(Step::Submit(op, Program::Single { lba: verification.lba }))
    }

    /// The write reaches the medium before it is verified (SBC-4 5.45).
    fn write_and_verify(self, verification: Verification, data: Bytes) -> Result<Step, Sense> {
        let range = self.transfer(verification.lba, verification.blocks, verification.size)?;
        let data = first(data, range.bytes());
        if !data.len().is_multiple_of(LBA_LEN) {
            return Err(short_data());
        }
        if data.is_empty() {
            return Ok(Outcome::GOOD.into());
        }
        let lba = verification.lba;
        let range = self.range(lba, (data.len() / LBA_LEN) as u64)?;
        let mut operations = self.write_pieces(range, &data, true);
        operations.push((0, Op::Compare { volume: self.volume, lba, data }));
        Ok(Sequence::start(lba, operations))
    }

    /// SBC-4 5.3: the first half of the data is compared, the second written. No blocks: nothing to do, no error.
    fn compare_and_write(self, lba: Lba, blocks: u8, fua: bool, data: &Bytes) -> Result<Step, Sense> {
        let range = self.range(lba, u64::from(blocks))?;
        let mut compare = exact(data, 2 * range.bytes(), 13)?;
        if range.is_empty() {
            return Ok(Outcome::GOOD.into());
        }
        let write = compare.split_off(range.bytes() as usize);
        let op = Op::CompareAndWrite { volume: self.volume, lba, compare, write, fua };
        Ok(Step::Submit(op, Program::Single { lba }))
    }

    /// SBC-4 5.48. Every write of the engine is there wholly or not at all; this one says so up to a length.
    fn write_atomic(self, lba: Lba, blocks: u16, fua: bool, data: &Bytes) -> Result<Step, Sense> {
        let range = self.range(lba, blocks.into())?;
        if u32::from(blocks) > MAX_ATOMIC_BLOCKS {
            return Err(Sense::invalid_cdb_field(12, None));
        }
        if range.is_empty() {
            return Ok(Outcome::GOOD.into());
        }
        let op = Op::Write { volume: self.volume, lba, data: whole(data, range.bytes())?, fua };
        Ok(Step::Submit(op, Program::Single { lba }))
    }

    /// SBC-4 5.49. With UNMAP the blocks are deallocated whatever the block holds, as all targets in the field do and
    /// libiscsi's suite asks: a host that sets the bit wants the space back, and reads zeros (LBPRZ).
    fn write_same(self, same: WriteSame, data: &Bytes) -> Result<Step, Sense> {
        let range = self.to_end(same.lba, same.blocks)?;
        let pattern = if same.no_data { Bytes::new() } else { exact(data, LBA_BYTES, length_field(same.size))? };
        if range.is_empty() {
            return Ok(Outcome::GOOD.into());
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

    /// SBC-4 5.35: every range is checked before any is unmapped.
    fn unmap(self, length: u16, data: &Bytes) -> Result<Step, Sense> {
        let ranges = parse_unmap(&whole(data, u64::from(length))?)?;
        if let Some(place) = ranges.iter().position(|range| range.end().0 > self.blocks) {
            return Err(lba_out_of_range(place, ranges[place].start().0));
        }
        let Some(lba) = ranges.first().map(BlockRange::start) else {
            return Ok(Outcome::GOOD.into());
        };
        Ok(Step::Submit(Op::Unmap { volume: self.volume, ranges }, Program::Single { lba }))
    }

    fn synchronize(self, cache: CacheRange) -> Result<Step, Sense> {
        self.to_end(cache.lba, cache.blocks)?;
        Ok(Step::Submit(Op::Flush, Program::Single { lba: cache.lba }))
    }

    /// The page cache decides what stays, so the promise of CONDITION MET (all blocks fit) is not given (SBC-4 5.13).
    fn pre_fetch(self, cache: CacheRange) -> Result<Step, Sense> {
        self.to_end(cache.lba, cache.blocks)?;
        Ok(Outcome::GOOD.into())
    }

    fn status(self, lba: Lba, allocation: u32) -> Result<Step, Sense> {
        if lba.0 >= self.blocks {
            return Err(Sense::lba_out_of_range(lba.0));
        }
        let limit = runs_for_allocation(allocation).min(MAX_STATUS_EXTENTS);
        let op = Op::Status { volume: self.volume, lba, limit };
        Ok(Step::Submit(op, Program::Status { lba, allocation }))
    }

    fn read_pieces(self, range: BlockRange) -> Vec<(u64, Op)> {
        let read = |piece: BlockRange| (0, Op::Read { volume: self.volume, range: piece });
        pieces(range, VERIFY_PIECE_BLOCKS).map(read).collect()
    }

    /// The writes of a range. Between them a crash may fall: a WRITE is not atomic (SBC-4 4.27 has WRITE ATOMIC for that).
    fn write_pieces(self, range: BlockRange, data: &Bytes, fua: bool) -> Vec<(u64, Op)> {
        let write = |piece: BlockRange| {
            let at = (piece.start().0 - range.start().0) as usize * LBA_LEN;
            let data = data.slice(at..at + piece.bytes() as usize);
            (0, Op::Write { volume: self.volume, lba: piece.start(), data, fua })
        };
        pieces(range, WRITE_PIECE_BLOCKS).map(write).collect()
    }

    /// Each block of the range against one block: a longer buffer of copies, shared by all comparisons.
    fn compare_same(self, range: BlockRange, block: &[u8]) -> Vec<(u64, Op)> {
        let mut repeated = BytesMut::new();
        for _ in 0..range.blocks().min(VERIFY_PIECE_BLOCKS) {
            repeated.extend_from_slice(block);
        }
        let repeated = repeated.freeze();
        let compare = |piece: BlockRange| {
            let data = repeated.slice(..piece.bytes() as usize);
            let offset = (piece.start().0 - range.start().0) * LBA_BYTES;
            (offset, Op::Compare { volume: self.volume, lba: piece.start(), data })
        };
        pieces(range, VERIFY_PIECE_BLOCKS).map(compare).collect()
    }
}

/// A range cut into pieces of at most `blocks` blocks.
fn pieces(range: BlockRange, blocks: u64) -> impl Iterator<Item = BlockRange> {
    let (start, end) = (range.start().0, range.end().0);
    (start..end).step_by(blocks as usize).filter_map(move |lba| {
        // The pieces lie inside a range that was valid.
        BlockRange::new(Lba(lba), blocks.min(end - lba)).ok()
    })
}

/// Byte of the transfer length in a CDB of this size (SBC-4 5.15 to 5.18).
fn length_field(size: CdbSize) -> u16 {
    match size {
        CdbSize::Six => 4,
        CdbSize::Ten => 7,
        CdbSize::Twelve => 6,
        CdbSize::Sixteen => 10,
    }
}
