//! `ibid-host fill` and `ibid-host verify`: write and check data derived from a seed and the
//! address.

use super::RangeArgs;
use super::pieces::Pieces;
use super::sweep::Sweep;
use crate::cli::Region;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::pump::pump;
use bytes::Bytes;
use clap::Args;
use testing::SplitMix64;

/// Options of `fill`.
#[derive(Args, Clone, Debug)]
pub(crate) struct FillArgs {
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    /// Stop when the target is full, and print how much was written
    #[arg(long)]
    pub(crate) until_full: bool,
}

/// Options of both verbs.
#[derive(Args, Clone, Debug)]
pub(crate) struct ContentArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Seed of the data
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Original byte address of the data, if it was copied from there
    #[arg(long, value_parser = crate::cli::size)]
    pub(crate) from: Option<u64>,
}

/// Bytes that are generated from one address, independent of the unit's block size.
const CELL: usize = 512;

/// Returns the data of `seed` for `bytes` bytes at `offset`, which must be a multiple of 512.
fn content(seed: u64, offset: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    for (cell, address) in data.chunks_mut(CELL).zip(offset / CELL as u64..) {
        SplitMix64::stream(seed, address).fill(cell);
    }
    data
}

/// Runs `fill`.
pub(crate) async fn fill(args: &FillArgs) -> Result<(), Failure> {
    let (until_full, args) = (args.until_full, &args.content);
    let range = &args.range;
    let (session, unit) = range.connection.open(&range.url).await?;
    let region = Region::of(&unit, range.off, range.size)?;
    let progress = Progress::new("fill", region.blocks * u64::from(unit.block_bytes), range.json);
    let pieces = Pieces::new(&unit, region, super::data_chunk(range.chunk)?, unit.limits.max_transfer)?;
    let origin = args.from.unwrap_or(range.off);
    let make = |lba, blocks: u32| {
        let at = (lba - region.lba) * u64::from(unit.block_bytes) + origin;
        unit.write(lba, content(args.seed, at, (blocks * unit.block_bytes) as usize).into(), false)
    };
    let mut sweep = Sweep::new("WRITE", (pieces, unit.block_bytes), range.qd, progress, make, |_, _| Ok(()));
    sweep.until_full = until_full;
    pump(&mut [session], usize::from(range.qd), &mut sweep).await?;
    let full_at = sweep.full_at.map(|lba| (lba - region.lba) * u64::from(unit.block_bytes));
    sweep.tally.end("fill", "write").full_at(full_at).print(range.json)
}

/// Runs `verify`.
pub(crate) async fn verify(args: &ContentArgs) -> Result<(), Failure> {
    let range = &args.range;
    let (session, unit) = range.connection.open(&range.url).await?;
    let region = Region::of(&unit, range.off, range.size)?;
    let progress = Progress::new("verify", region.blocks * u64::from(unit.block_bytes), range.json);
    let pieces = Pieces::new(&unit, region, super::data_chunk(range.chunk)?, unit.limits.max_transfer)?;
    let origin = args.from.unwrap_or(range.off);
    let make = |lba, blocks: u32| unit.read(lba, blocks, false);
    let check = |lba: u64, data: Bytes| {
        let at = (lba - region.lba) * u64::from(unit.block_bytes) + origin;
        match first_difference(&content(args.seed, at, data.len()), &data) {
            None => Ok(()),
            Some(byte) => {
                let lba = lba + byte as u64 / u64::from(unit.block_bytes);
                Err(Failure::Wrong(format!("LBA {lba} does not hold the data of seed {}", args.seed)))
            }
        }
    };
    let mut sweep = Sweep::new("READ", (pieces, unit.block_bytes), range.qd, progress, make, check);
    pump(&mut [session], usize::from(range.qd), &mut sweep).await?;
    sweep.tally.end("verify", "read").print(range.json)
}

/// Returns the index of the first byte that differs between two slices of equal length.
pub(super) fn first_difference(expected: &[u8], found: &[u8]) -> Option<usize> {
    // The slices are usually equal, and comparing them as a whole is one memcmp.
    if expected == found { None } else { expected.iter().zip(found).position(|(a, b)| a != b).or(Some(0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_depends_only_on_seed_and_address() {
        let whole = content(5, 4096, 4096);
        assert_eq!(content(5, 4096 + 512, 512), whole[512..1024]);
        assert_ne!(content(6, 4096, 4096), whole);
        assert_ne!(content(5, 8192, 4096), whole);
        assert_eq!(
            whole[..8],
            [90, 64, 214, 246, 57, 99, 133, 107],
            "volumes filled by one version verify with the next"
        );
    }

    #[test]
    fn first_difference_returns_its_index() {
        assert_eq!(first_difference(b"abc", b"abc"), None);
        assert_eq!(first_difference(b"abc", b"abd"), Some(2));
        assert_eq!(first_difference(b"abc", b"ab"), Some(0));
    }
}
