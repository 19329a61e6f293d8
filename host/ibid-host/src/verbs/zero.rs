//! `ibid-host zero`: clears a disk with WRITE SAME or by writing zeros.

use super::pieces::Pieces;
use super::sweep::Sweep;
use super::{DATA_BYTES, RangeArgs};
use crate::cli::Region;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::pump::pump;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use initiator::{CommandRefusal, LogicalUnit, RunError, Session};

/// Method of zeroing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// WRITE SAME with one block of zeros per command
    WriteSame,
    /// WRITE of zeros
    Write,
}

/// Options of the verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct ZeroArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Method
    #[arg(long, value_enum, default_value_t = Method::WriteSame)]
    pub(crate) method: Method,
}

/// Default bytes of a WRITE SAME.
const CHUNK_SAME: u64 = 16 << 20;

/// Runs the verb.
pub(crate) async fn run(args: &ZeroArgs) -> Result<(), Failure> {
    let range = &args.range;
    let (session, unit) = range.connection.open(&range.url).await?;
    let region = Region::of(&unit, range.off, range.size)?;
    let progress = Progress::new("zero", region.blocks * u64::from(unit.block_bytes), range.json);
    let sessions = &mut [session];
    let outcome = match args.method {
        Method::WriteSame => {
            let limit = unit.limits.max_write_same;
            let pieces = Pieces::new(&unit, region, range.chunk.unwrap_or(CHUNK_SAME), limit)?;
            let block = Bytes::from(vec![0; unit.block_bytes as usize]);
            let make = |lba, blocks| unit.write_same(lba, blocks, block.clone(), false);
            let mut sweep =
                Sweep::new("WRITE SAME", (pieces, unit.block_bytes), range.qd, progress, make, |_, _| Ok(()));
            pump(sessions, usize::from(range.qd), &mut sweep).await?;
            sweep.tally.end("zero", "write-same")
        }
        Method::Write => {
            let chunk = super::data_chunk(range.chunk)?;
            let pieces = Pieces::new(&unit, region, chunk, unit.limits.max_transfer)?;
            let zeros = Bytes::from(vec![0; usize::try_from(chunk).unwrap_or(usize::MAX)]);
            let make = |lba, blocks: u32| unit.write(lba, zeros.slice(..(blocks * unit.block_bytes) as usize), false);
            let mut sweep = Sweep::new("WRITE", (pieces, unit.block_bytes), range.qd, progress, make, |_, _| Ok(()));
            pump(sessions, usize::from(range.qd), &mut sweep).await?;
            sweep.tally.end("zero", "write")
        }
    };
    outcome.print(range.json)
}

/// Zeroes `region` with WRITE SAME, or with WRITE if the target rejects it.
/// Loads call this first if they need known content.
pub(crate) async fn clear(session: &mut Session, unit: &LogicalUnit, region: Region) -> Result<(), Failure> {
    let zeros = Bytes::from(vec![0; DATA_BYTES as usize]);
    let block = zeros.slice(..unit.block_bytes as usize);
    let mut by_write = false;
    let limit = [unit.limits.max_write_same, unit.limits.max_transfer].into_iter().filter(|limit| *limit > 0).min();
    for (lba, blocks) in Pieces::new(unit, region, DATA_BYTES, limit.unwrap_or(0))? {
        if !by_write {
            match session.run(unit.write_same(lba, blocks, block.clone(), false)).await {
                Ok(_) => continue,
                Err(RunError::Refused(CommandRefusal::Check(_))) => by_write = true,
                Err(error) => return Err(Failure::command("WRITE SAME")(error)),
            }
        }
        let data = zeros.slice(..blocks as usize * unit.block_bytes as usize);
        session.run(unit.write(lba, data, false)).await.map_err(Failure::command("WRITE"))?;
    }
    Ok(())
}
