//! Parts of a mask, and the requests that take it.

use crate::message::MaskPart;
use engine::{BlockService, DeltaOp, ExtentState, MAX_DELTA_RANGES, Op, OpError, Reply, WHOLE_VOLUME_BLOCKS, call};
use std::collections::{BTreeMap, BTreeSet};
use types::{BlockRange, Lba, VolumeId};

/// Extents that are asked for at a time.
const EXTENTS: usize = 1024;

/// A mask that enters the deltas.
pub(crate) struct MaskTaking {
    /// Number of this mask: answers to requests of one before do not count.
    pub(crate) number: u64,
    /// The session, as the state machine numbers it.
    pub(crate) session: u64,
    /// Requests without an answer.
    pub(crate) pending: usize,
    /// No request follows.
    pub(crate) is_complete: bool,
}

impl MaskTaking {
    pub(crate) fn new(number: u64, session: u64) -> Self {
        Self { number, session, pending: 0, is_complete: false }
    }
}

/// A mask that arrives.
#[derive(Default)]
pub(crate) struct MaskReader {
    /// The volumes that the sender has.
    pub(crate) volumes: BTreeSet<VolumeId>,
}

impl MaskReader {
    /// Returns the requests that add the ranges of a part.
    pub(crate) fn requests(part: &MaskPart) -> Vec<DeltaOp> {
        let mut of_volume = BTreeMap::<VolumeId, Vec<BlockRange>>::new();
        part.ranges.iter().for_each(|(volume, range)| of_volume.entry(*volume).or_default().push(*range));
        let add = |(volume, ranges): (VolumeId, Vec<BlockRange>)| {
            let parts: Vec<_> = ranges.chunks(MAX_DELTA_RANGES).map(<[_]>::to_vec).collect();
            parts.into_iter().map(move |ranges| DeltaOp::Add { volume, ranges })
        };
        of_volume.into_iter().flat_map(add).collect()
    }
}

/// Divides a mask into parts of up to `most` volumes and ranges.
pub(crate) fn divide(
    is_all: bool,
    volumes: Vec<VolumeId>,
    ranges: Vec<(VolumeId, BlockRange)>,
    most: usize,
) -> Vec<MaskPart> {
    let part = MaskPart::default;
    let volumes = volumes.chunks(most).map(|volumes| MaskPart { volumes: volumes.to_vec(), ..part() });
    let ranges = ranges.chunks(most).map(|ranges| MaskPart { ranges: ranges.to_vec(), ..part() });
    let mut parts: Vec<MaskPart> = volumes.chain(ranges).collect();
    parts.push(MaskPart { is_last: true, is_all, ..part() });
    parts
}

/// Returns the range of a volume of the largest size: all of any volume.
pub(crate) fn whole_volume() -> Vec<BlockRange> {
    BlockRange::new(Lba(0), WHOLE_VOLUME_BLOCKS).into_iter().collect()
}

pub(crate) fn is_whole(range: &BlockRange) -> bool {
    range.start() == Lba(0) && range.blocks() >= WHOLE_VOLUME_BLOCKS
}

/// Returns the blocks of the delta of a volume with this many blocks.
pub(crate) fn delta_of(engine: &dyn BlockService, volume: VolumeId, blocks: u64) -> Result<Vec<BlockRange>, OpError> {
    let (mut found, mut from) = (Vec::new(), Lba(0));
    // A request that begins at the end of the volume is out of range.
    while from < Lba(blocks) {
        let next = Op::Delta(DeltaOp::Next { volume, from, limit: EXTENTS });
        let Reply::Extents(extents) = call(engine, next)? else { return Ok(found) };
        let mapped = extents.iter().filter(|extent| extent.state == ExtentState::Mapped);
        found.extend(mapped.map(|extent| extent.range));
        match extents.last().map(|last| last.range.end()) {
            Some(end) if end > from => from = end,
            _ => break,
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_is_divided_and_taken_whole() {
        let range = |at: u64| BlockRange::new(Lba(at * 8), 8).unwrap();
        let ranges: Vec<_> = (0..2500).map(|at| (VolumeId(at % 2), range(at))).collect();
        let parts = divide(false, vec![VolumeId(0), VolumeId(1)], ranges.clone(), 4096);
        assert_eq!(parts.iter().map(|part| part.is_last).collect::<Vec<_>>(), [false, false, true]);
        let requests: Vec<_> = parts.iter().flat_map(MaskReader::requests).collect();
        let mut taken = Vec::new();
        for request in requests {
            let DeltaOp::Add { volume, ranges } = request else { panic!("{request:?}") };
            assert!(ranges.len() <= MAX_DELTA_RANGES);
            taken.extend(ranges.into_iter().map(|range| (volume, range)));
        }
        taken.sort_by_key(|(_, range)| range.start());
        assert_eq!(taken, ranges);
        assert_eq!(divide(true, vec![], vec![], 4096).len(), 1);
    }
}
