//! `ibid-host reclaim`: frees space with UNMAP or by writing zeros.

use super::RangeArgs;
use super::pieces::Pieces;
use super::sweep::Sweep;
use crate::cli::Region;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::pump::pump;
use bytes::Bytes;
use clap::{Args, ValueEnum};

/// Method of freeing space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// UNMAP
    Unmap,
    /// WRITE SAME of zeros with the UNMAP bit
    WriteSameUnmap,
    /// WRITE of zeros
    WriteZeros,
}

/// Options of the verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReclaimArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Method
    #[arg(long, value_enum, default_value_t = Method::Unmap)]
    pub(crate) method: Method,
}

/// Default bytes of an UNMAP.
const CHUNK_UNMAP: u64 = 16 << 20;

/// Runs the verb.
pub(crate) async fn run(args: &ReclaimArgs) -> Result<(), Failure> {
    let range = &args.range;
    let (session, unit) = range.connection.open(&range.url).await?;
    let region = Region::of(&unit, range.off, range.size)?;
    let progress = Progress::new("reclaim", region.blocks * u64::from(unit.block_bytes), range.json);
    let limits = &unit.limits;
    let (name, what, chunk, limit) = match args.method {
        Method::Unmap => ("unmap", "UNMAP", range.chunk.unwrap_or(CHUNK_UNMAP), u64::from(limits.max_unmap_blocks)),
        Method::WriteSameUnmap => {
            ("write-same-unmap", "WRITE SAME", range.chunk.unwrap_or(CHUNK_UNMAP), limits.max_write_same)
        }
        Method::WriteZeros => ("write-zeros", "WRITE", super::data_chunk(range.chunk)?, limits.max_transfer),
    };
    let zeros = Bytes::from(vec![0; super::MAX_DATA_BYTES as usize]);
    let pieces = Pieces::new(&unit, region, chunk, limit)?;
    let make = |lba, blocks: u32| match args.method {
        Method::Unmap => unit.unmap(&[(lba, blocks)]),
        Method::WriteSameUnmap => unit.write_same(lba, blocks, zeros.slice(..unit.block_bytes as usize), true),
        Method::WriteZeros => unit.write(lba, zeros.slice(..(blocks * unit.block_bytes) as usize), false),
    };
    let mut sweep = Sweep::new(what, (pieces, unit.block_bytes), range.qd, progress, make, |_, _| Ok(()));
    pump(&mut [session], usize::from(range.qd), &mut sweep).await?;
    sweep.tally.end("reclaim", name).print(range.json)
}
