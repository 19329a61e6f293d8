//! Chooses the commands of a benchmark load and evaluates their results.

use super::args::{BenchArgs, Op};
use crate::cli::{Pattern, Region};
use crate::failure::Failure;
use crate::meter::Meter;
use crate::pump::{Route, Work};
use bytes::Bytes;
use initiator::{Completion, CopyRun, LogicalUnit, Request};
use platform::clock;
use std::time::{Duration, Instant};
use testing::SplitMix64;

/// The load stops after more failed commands than this, because the rest would fail too.
const MAX_ERRORS: u64 = 1000;

/// A closed loop of one kind of command.
pub(super) struct Load {
    unit: LogicalUnit,
    op: Op,
    region: Region,
    /// Blocks per command.
    blocks: u32,
    /// Number of command-sized chunks in the region; for copies, in its first half.
    chunks: u64,
    depth: u64,
    seq: bool,
    mix: u8,
    fua: bool,
    random: SplitMix64,
    position: u64,
    buffers: Vec<Buffers>,
    /// With [`Op::Caw`]: true for chunks that hold the slot's data, false for chunks of zeros.
    written: Vec<bool>,
    /// Makes every written page unique, so that the array cannot deduplicate the load.
    stamps: Stamps,
    started: Vec<Option<(Instant, u64)>>,
    measure_from: Instant,
    end: Instant,
    stop: bool,
    pub(super) meter: Meter,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
}

/// Payloads of one slot. They are built once, because the load generator must be cheaper than what
/// it measures.
struct Buffers {
    data: Bytes,
    /// Zeros, then the data: the payload of COMPARE AND WRITE for a chunk that holds zeros.
    set: Bytes,
    /// The data, then zeros: the payload for a chunk that holds the data.
    clear: Bytes,
}

impl Load {
    pub(super) fn new(args: &BenchArgs, unit: LogicalUnit, region: Region) -> Result<Self, Failure> {
        let block = u64::from(unit.block_bytes);
        let blocks =
            u32::try_from(args.size / block).ok().filter(|blocks| *blocks > 0 && args.size.is_multiple_of(block));
        let blocks = blocks.ok_or_else(|| {
            Failure::usage(format!("--size {} is not a multiple of the block size {block}", args.size), "use --size 4K")
        })?;
        if matches!(args.op, Op::Caw | Op::CawMiss) && blocks > 255 {
            return Err(Failure::usage("COMPARE AND WRITE takes at most 255 blocks", "use --size 512"));
        }
        let halves = if args.op == Op::Xcopy { 2 } else { 1 };
        let chunks = region.blocks / halves / u64::from(blocks);
        let depth = u64::from(args.qd);
        // Each slot of a COMPARE AND WRITE load has its own chunks, so that their content is
        // predictable.
        if chunks == 0 || (args.op == Op::Caw && chunks < depth) {
            return Err(Failure::usage("--span is too small for this --size and --qd", "raise --span or lower --size"));
        }
        let mut random = SplitMix64::new(args.seed);
        let buffers = (0..args.qd).map(|_| Buffers::new(args, &mut random, block as usize)).collect();
        let measure_from = clock::now() + Duration::from_secs_f64(args.warm);
        Ok(Self {
            op: args.op,
            region,
            blocks,
            chunks,
            depth,
            seq: args.seq,
            mix: if args.op == Op::Read { args.mix } else { 0 },
            fua: args.fua,
            random,
            position: 0,
            buffers,
            written: if args.op == Op::Caw { vec![false; chunks as usize] } else { Vec::new() },
            stamps: Stamps {
                is_on: args.pattern != Pattern::Zero,
                next: args.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            },
            started: vec![None; usize::from(args.qd)],
            measure_from,
            end: measure_from + Duration::from_secs_f64(args.secs),
            stop: false,
            meter: Meter::new().map_err(|error| Failure::Wrong(error.to_string()))?,
            errors: 0,
            first_error: None,
            unit,
        })
    }

    fn chunk(&mut self, slot: usize) -> u64 {
        // With COMPARE AND WRITE, slot s uses the chunks s, s + depth, s + 2 depth and so on.
        let own = self.op == Op::Caw;
        let count = if own { (self.chunks - slot as u64).div_ceil(self.depth) } else { self.chunks };
        let drawn = if self.seq {
            self.position += 1;
            (self.position - 1) % count
        } else {
            self.random.below(count)
        };
        if own { slot as u64 + drawn * self.depth } else { drawn }
    }

    fn request(&mut self, slot: usize, chunk: u64) -> Request {
        let lba = self.region.lba + chunk * u64::from(self.blocks);
        let (unit, blocks, buffers) = (&self.unit, self.blocks, &self.buffers[slot]);
        match self.op {
            Op::Read if self.mix > 0 && self.random.percent(self.mix) => {
                unit.write(lba, self.stamps.fresh(&buffers.data), self.fua)
            }
            Op::Read => unit.read(lba, blocks, self.fua),
            Op::Write => unit.write(lba, self.stamps.fresh(&buffers.data), self.fua),
            Op::WriteSame | Op::Zero => unit.write_same(lba, blocks, buffers.data.clone(), false),
            Op::ZeroUnmap => unit.write_same(lba, blocks, buffers.data.clone(), true),
            Op::Unmap => unit.unmap(&[(lba, blocks)]),
            Op::Caw => {
                let data = if self.written[chunk as usize] { &buffers.clear } else { &buffers.set };
                unit.compare_and_write(lba, data.clone(), self.fua)
            }
            Op::CawMiss => unit.compare_and_write(lba, buffers.clear.clone(), self.fua),
            Op::Xcopy => {
                let destination = lba + self.chunks * u64::from(blocks);
                let segment = CopyRun { source: lba, destination, blocks: u64::from(blocks) };
                unit.extended_copy(slot as u8, &self.unit, &[segment])
            }
            Op::Tur => unit.test_unit_ready(),
            Op::Flush => unit.synchronize_cache(),
            Op::GetLba => unit.get_lba_status(lba),
        }
    }

    fn is_good(&mut self, chunk: u64, completion: Completion) -> bool {
        let result = completion.into_result();
        match (&result, self.op) {
            (Ok(_), Op::CawMiss) => {
                self.fail("COMPARE AND WRITE matched data that is not there".to_owned());
                return false;
            }
            (Err(refusal), Op::CawMiss) if refusal.is_miscompare() => return true,
            (Ok(_), Op::Caw) => self.written[chunk as usize] ^= true,
            (Ok(_), _) => {}
            (Err(refusal), _) => {
                self.fail(refusal.to_string());
                return false;
            }
        }
        true
    }

    #[cold]
    fn fail(&mut self, error: String) {
        self.errors += 1;
        self.first_error.get_or_insert(error);
        self.stop |= self.errors > MAX_ERRORS;
    }
}

impl Work for Load {
    fn next(&mut self, slot: usize) -> Option<(Route, Request)> {
        let now = clock::now();
        if self.stop || now >= self.end {
            return None;
        }
        let chunk = self.chunk(slot);
        self.started[slot] = Some((now, chunk));
        Some((0, self.request(slot, chunk)))
    }

    fn done(&mut self, slot: usize, completion: Completion) -> Result<(), Failure> {
        let now = clock::now();
        let Some((started, chunk)) = self.started[slot].take() else { return Ok(()) };
        // Commands that started during warm-up or ended late are not measured, but their errors
        // count.
        if self.is_good(chunk, completion) && started >= self.measure_from && now <= self.end {
            self.meter.record(now - started);
        }
        Ok(())
    }
}

impl Buffers {
    fn new(args: &BenchArgs, random: &mut SplitMix64, block: usize) -> Self {
        let bytes = match args.op {
            Op::Write | Op::Caw | Op::CawMiss => args.size as usize,
            Op::Read if args.mix > 0 => args.size as usize,
            Op::WriteSame | Op::Zero | Op::ZeroUnmap => block,
            _ => 0,
        };
        let mut data = vec![0; bytes];
        let pattern = match args.op {
            Op::Zero | Op::ZeroUnmap => Pattern::Zero,
            // Comparing zeros and writing zeros would not detect a lost write.
            Op::Caw | Op::CawMiss => Pattern::Random,
            _ => args.pattern,
        };
        render(pattern, random, &mut data);
        let (mut set, mut clear) = (Vec::new(), Vec::new());
        if matches!(args.op, Op::Caw | Op::CawMiss) {
            set = [vec![0; bytes], data.clone()].concat();
            clear = [data.clone(), vec![0; bytes]].concat();
        }
        Self { data: data.into(), set: set.into(), clear: clear.into() }
    }
}

/// Numbers the pages of written data, so that no two pages are equal. Costs one copy of the data.
struct Stamps {
    is_on: bool,
    next: u64,
}

impl Stamps {
    /// Returns a copy of the data with a new number in each 4 KiB page.
    fn fresh(&mut self, data: &Bytes) -> Bytes {
        if !self.is_on {
            return data.clone();
        }
        let mut fresh = data.to_vec();
        for page in fresh.chunks_mut(4096) {
            self.next = self.next.wrapping_add(1);
            page.iter_mut().zip(self.next.to_le_bytes()).for_each(|(byte, stamp)| *byte = stamp);
        }
        fresh.into()
    }
}

fn render(pattern: Pattern, random: &mut SplitMix64, data: &mut [u8]) {
    match pattern {
        Pattern::Zero => {}
        Pattern::Random => random.fill(data),
        Pattern::Mixed => data.chunks_mut(4096).for_each(|page| {
            let half = page.len() / 2;
            random.fill(&mut page[..half]);
        }),
    }
}

#[cfg(test)]
mod tests;
