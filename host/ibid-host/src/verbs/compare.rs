//! `ibid-host compare`: compares two ranges of bytes.

use super::fill::first_difference;
use super::outcome::Tally;
use super::pieces::Pieces;
use crate::cli::{ConnectionArgs, Region, size};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::pump::{Route, Work, pump};
use bytes::Bytes;
use clap::Args;
use initiator::{Completion, LogicalUnit, Request, Url};

/// Options of the verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompareArgs {
    /// First logical unit
    pub(crate) first: Url,
    /// Second logical unit
    pub(crate) second: Url,
    /// Bytes to compare [default: the rest of the first unit]
    #[arg(long, value_parser = size)]
    pub(crate) size: Option<u64>,
    /// Start of the range in the first unit, in bytes
    #[arg(long, default_value = "0", value_parser = size)]
    pub(crate) first_off: u64,
    /// Start of the range in the second unit, in bytes
    #[arg(long, default_value = "0", value_parser = size)]
    pub(crate) second_off: u64,
    /// Queue depth, in pairs of reads
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) qd: u16,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// Each slot reads a chunk of the first unit, then the same chunk of the second.
struct Comparison {
    units: [LogicalUnit; 2],
    regions: [Region; 2],
    pieces: Pieces,
    open: Vec<(u64, u32, Option<Bytes>)>,
    progress: Progress,
    tally: Tally,
}

impl Work for Comparison {
    fn next(&mut self, slot: usize) -> Option<(Route, Request)> {
        if let (lba, blocks, Some(_)) = &self.open[slot] {
            let lba = lba - self.regions[0].lba + self.regions[1].lba;
            return Some((1, self.units[1].read(lba, *blocks, false)));
        }
        let (lba, blocks) = self.pieces.next()?;
        self.open[slot] = (lba, blocks, None);
        Some((0, self.units[0].read(lba, blocks, false)))
    }

    fn done(&mut self, slot: usize, completion: Completion) -> Result<(), Failure> {
        let (lba, _, first) = &mut self.open[slot];
        let refused = |refusal| Failure::Refused { what: format!("READ for LBA {lba}"), refusal };
        let data = completion.into_result().map_err(refused)?;
        let Some(expected) = first.take() else {
            *first = Some(data);
            return Ok(());
        };
        if let Some(byte) = first_difference(&expected, &data) {
            let lba = *lba + byte as u64 / u64::from(self.units[0].block_bytes);
            return Err(Failure::Wrong(format!("units differ at LBA {lba} of the first unit")));
        }
        self.tally.add(data.len() as u64);
        self.progress.add(data.len() as u64);
        Ok(())
    }
}

/// Runs the verb.
pub(crate) async fn run(args: &CompareArgs) -> Result<(), Failure> {
    let (first, unit) = args.connection.open(&args.first).await?;
    let (second, other) = args.connection.open(&args.second).await?;
    if unit.block_bytes != other.block_bytes {
        return Err(Failure::usage("units have different block sizes", "use units with the same block size"));
    }
    let region = Region::of(&unit, args.first_off, args.size)?;
    let bytes = region.blocks * u64::from(unit.block_bytes);
    let same = Region::of(&other, args.second_off, Some(bytes))?;
    let limit = [unit.limits.max_transfer, other.limits.max_transfer].into_iter().filter(|limit| *limit > 0).min();
    let mut work = Comparison {
        pieces: Pieces::new(&unit, region, super::DATA_BYTES, limit.unwrap_or(0))?,
        units: [unit, other],
        regions: [region, same],
        open: vec![(0, 0, None); usize::from(args.qd)],
        progress: Progress::new("compare", bytes, args.json),
        tally: Tally::begin(),
    };
    pump(&mut [first, second], usize::from(args.qd), &mut work).await?;
    work.tally.end("compare", "read").print(args.json)
}
