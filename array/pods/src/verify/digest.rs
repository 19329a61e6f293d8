//! Digests of content. Holes and zeros are equal, so that arrays which store them in different ways
//! agree.

use super::wire::{Digest, PART_BLOCKS, Question};
use engine::{BlockService, ExtentState, Op, OpError, Reply, call};
use twox_hash::xxhash3_128::Hasher;
use types::{BlockRange, LBA_BYTES, Lba, VolumeId};

/// Blocks that are read at a time: 1 MiB.
const READ_BLOCKS: u64 = 2048;
/// Extents that are asked for at a time.
const EXTENTS: usize = 256;

/// Returns the next mapped extents of a volume from a block on, cut at an end, and where to
/// continue.
pub(super) fn mapped(
    engine: &dyn BlockService,
    volume: VolumeId,
    from: Lba,
    end: Lba,
) -> Result<(Vec<BlockRange>, Lba), OpError> {
    let Reply::Extents(extents) = call(engine, Op::Status { volume, lba: from, limit: EXTENTS })? else {
        return Ok((Vec::new(), end));
    };
    let next = extents.last().map_or(end, |last| last.range.end().min(end));
    let is_mapped = |state| state == ExtentState::Mapped;
    let cut = |range: BlockRange| {
        let (start, stop) = (range.start().max(from), range.end().min(end));
        BlockRange::new(start, stop.0.saturating_sub(start.0)).ok().filter(|range| range.blocks() > 0)
    };
    let found = extents.iter().filter(|extent| is_mapped(extent.state)).filter_map(|extent| cut(extent.range));
    Ok((found.collect(), if next > from { next } else { end }))
}

/// Adds the blocks of a range that are not zeros, with their places.
fn add(hasher: &mut Hasher, engine: &dyn BlockService, volume: VolumeId, range: BlockRange) -> Result<(), OpError> {
    let mut from = range.start();
    while from < range.end() {
        let blocks = READ_BLOCKS.min(range.end().0 - from.0);
        let piece = BlockRange::new(from, blocks).map_err(|_| OpError::OutOfRange { blocks })?;
        let Reply::Data(data) = call(engine, Op::Read { volume, range: piece })? else { return Ok(()) };
        // By 512 bytes: extents of both arrays may begin at different blocks.
        let (blocks, _) = data.as_chunks::<{ LBA_BYTES as usize }>();
        for (block, lba) in blocks.iter().zip(from.0..) {
            if block.iter().any(|byte| *byte != 0) {
                hasher.write(&lba.to_le_bytes());
                hasher.write(block);
            }
        }
        from = piece.end();
    }
    Ok(())
}

/// Returns the digest of a range.
fn digest_of(engine: &dyn BlockService, volume: VolumeId, range: BlockRange, seed: u64) -> Result<u128, OpError> {
    let (mut hasher, mut from) = (Hasher::with_seed(seed), range.start());
    while from < range.end() {
        let (found, next) = mapped(engine, volume, from, range.end())?;
        found.into_iter().try_for_each(|range| add(&mut hasher, engine, volume, range))?;
        from = next;
    }
    Ok(hasher.finish_128())
}

/// Returns the digests that a question asks for. A range that cannot be read has none.
///
/// # Errors
///
/// There is no such volume, or it cannot be read now.
pub(super) fn digests(engine: &dyn BlockService, question: &Question) -> Result<Vec<Digest>, OpError> {
    let Question { volume, range, seed, is_by_parts, .. } = *question;
    let step = if is_by_parts { PART_BLOCKS } else { range.blocks() };
    let starts = (range.start().0..range.end().0).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    starts
        .map(|start| {
            let blocks = step.min(range.end().0 - start);
            let part = BlockRange::new(Lba(start), blocks).map_err(|_| OpError::OutOfRange { blocks })?;
            match digest_of(engine, volume, part, seed) {
                Ok(digest) => Ok(Some(digest)),
                Err(OpError::MediumError { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use engine::Change;
    use engine::model::ModelEngine;
    use testing::noise;

    const BLOCKS: u64 = 4096;

    fn engine(content: &[(u64, Bytes)]) -> ModelEngine {
        let engine = ModelEngine::default();
        let create = Change::CreateVolume { volume: VolumeId(1), blocks: BLOCKS };
        call(&engine, Op::Change(vec![create])).unwrap();
        for (lba, data) in content {
            let write = Op::Write { volume: VolumeId(1), lba: Lba(*lba), data: data.clone(), fua: false };
            call(&engine, write).unwrap();
        }
        engine
    }

    fn data(seed: u64, blocks: u64) -> Bytes {
        noise(seed, usize::try_from(blocks * LBA_BYTES).unwrap()).into()
    }

    fn asked(engine: &ModelEngine, is_by_parts: bool) -> Vec<Digest> {
        let range = BlockRange::new(Lba(0), BLOCKS).unwrap();
        digests(engine, &Question { number: 1, volume: VolumeId(1), range, seed: 7, is_by_parts }).unwrap()
    }

    #[test]
    fn digests_tell_where_contents_differ() {
        let first = engine(&[(0, data(1, 64)), (1000, data(2, 16))]);
        let second = engine(&[(0, data(1, 64)), (1000, data(2, 16)), (2000, data(3, 1))]);
        assert_ne!(asked(&first, false), asked(&second, false));
        let (first, second) = (asked(&first, true), asked(&second, true));
        let differ: Vec<_> = (0..first.len()).filter(|part| first[*part] != second[*part]).collect();
        assert_eq!(differ, [2000 / 8]);
    }

    #[test]
    fn content_at_another_place_differs() {
        let (first, second) = (engine(&[(8, data(1, 1))]), engine(&[(9, data(1, 1))]));
        assert_ne!(asked(&first, false), asked(&second, false));
    }

    #[test]
    fn zeros_and_holes_are_equal() {
        let zeros = Bytes::from(vec![0; 64 << 9]);
        let (first, second) = (engine(&[(8, data(1, 8)), (512, zeros)]), engine(&[(8, data(1, 8))]));
        assert_eq!(asked(&first, false), asked(&second, false));
        assert_eq!(asked(&first, true), asked(&second, true));
    }
}
