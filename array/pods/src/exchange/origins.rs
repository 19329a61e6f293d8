//! Ranges that were copied into a stream: hints for later copies of the same ranges.

use std::collections::BTreeMap;
use types::{BlockRange, Lba, StreamId, VolumeId};

/// Ranges that are remembered.
const MAX_RANGES: usize = 1 << 16;

/// The copy of a range. Its content, or that of the source, may have changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Copied {
    blocks: u64,
    volume: VolumeId,
    at: Lba,
}

/// A range of a source that has one copy, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its length. The last range without a copy has no end.
    pub(crate) blocks: u64,
    /// The copy in the stream.
    pub(crate) copy: Option<(VolumeId, Lba)>,
}

/// The copies of ranges, by stream, source and first block. They do not overlap.
#[derive(Default)]
pub(crate) struct Origins {
    ranges: BTreeMap<(StreamId, VolumeId, u64), Copied>,
}

impl Origins {
    /// Notes the copy of a range of `source`, in place of earlier ones of the same blocks.
    pub(crate) fn note(&mut self, stream: StreamId, source: VolumeId, from: BlockRange, copy: (VolumeId, Lba)) {
        let (mut start, mut end) = (from.start().0, from.end().0);
        self.forget(stream, source, start, end);
        let (volume, to) = copy;
        let mut new = Copied { blocks: end - start, volume, at: to };
        if let Some((first, before)) = self.before(stream, source, start)
            && before.volume == new.volume
            && (first + before.blocks, before.at.0 + before.blocks) == (start, new.at.0)
        {
            (start, new.at) = (first, before.at);
        }
        if let Some(after) = self.ranges.get(&(stream, source, end)).copied()
            && after.volume == new.volume
            && after.at.0 == to.0 + from.blocks()
        {
            self.ranges.remove(&(stream, source, end));
            end += after.blocks;
        }
        new.blocks = end - start;
        self.ranges.insert((stream, source, start), new);
        if self.ranges.len() > MAX_RANGES {
            // Any one: it is only a hint.
            self.ranges.pop_first();
        }
    }

    /// Returns the range that begins at block `start`.
    pub(crate) fn at(&self, stream: StreamId, source: VolumeId, start: u64) -> Known {
        if let Some((first, copied)) = self.before(stream, source, start + 1)
            && first + copied.blocks > start
        {
            let skipped = start - first;
            let at = Lba(copied.at.0 + skipped);
            return Known { blocks: copied.blocks - skipped, copy: Some((copied.volume, at)) };
        }
        let next = self.ranges.range((stream, source, start)..(stream, source, u64::MAX)).next();
        Known { blocks: next.map_or(u64::MAX, |((_, _, next), _)| next - start), copy: None }
    }

    /// Forgets the copies of `start..end`.
    pub(crate) fn forget(&mut self, stream: StreamId, source: VolumeId, start: u64, end: u64) {
        let key = |start| (stream, source, start);
        let first = self.before(stream, source, start).map_or(start, |(first, _)| first);
        let overlapping: Vec<(u64, Copied)> = self
            .ranges
            .range(key(first)..key(end))
            .map(|((_, _, first), copied)| (*first, *copied))
            .filter(|(first, copied)| first + copied.blocks > start)
            .collect();
        for (first, copied) in overlapping {
            self.ranges.remove(&key(first));
            if first < start {
                self.ranges.insert(key(first), Copied { blocks: start - first, ..copied });
            }
            let last = first + copied.blocks;
            if last > end {
                let at = Lba(copied.at.0 + end - first);
                self.ranges.insert(key(end), Copied { blocks: last - end, at, ..copied });
            }
        }
    }

    /// Forgets the copies of a stream.
    pub(crate) fn forget_stream(&mut self, stream: StreamId) {
        self.ranges.retain(|(held, _, _), _| *held != stream);
    }

    /// Returns the last range that begins before a block.
    fn before(&self, stream: StreamId, source: VolumeId, start: u64) -> Option<(u64, Copied)> {
        let ranges = self.ranges.range((stream, source, 0)..(stream, source, start));
        ranges.map(|((_, _, first), copied)| (*first, *copied)).next_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::Rng;

    fn stream() -> StreamId {
        StreamId::new(5).unwrap()
    }

    fn note(origins: &mut Origins, from: u64, blocks: u64, destination: u64, to: u64) {
        let from = BlockRange::new(Lba(from), blocks).unwrap();
        origins.note(stream(), VolumeId(1), from, (VolumeId(destination), Lba(to)));
    }

    #[test]
    fn neighbours_are_one_range() {
        let mut origins = Origins::default();
        for at in [2, 0, 1, 4] {
            note(&mut origins, at * 8, 8, 2, 800 + at * 8);
        }
        assert_eq!(origins.ranges.len(), 2);
        let known = |blocks, at| Known { blocks, copy: Some((VolumeId(2), Lba(at))) };
        assert_eq!(origins.at(stream(), VolumeId(1), 3), known(21, 803));
        assert_eq!(origins.at(stream(), VolumeId(1), 24), Known { blocks: 8, copy: None });
        assert_eq!(origins.at(stream(), VolumeId(1), 32), known(8, 832));
        assert_eq!(origins.at(stream(), VolumeId(2), 32), Known { blocks: u64::MAX, copy: None });
        origins.forget_stream(stream());
        assert_eq!(origins.at(stream(), VolumeId(1), 0), Known { blocks: u64::MAX, copy: None });
    }

    #[test]
    fn each_block_has_its_newest_copy() {
        let mut rng = Rng::new(20_261_129);
        let (mut origins, mut plain) = (Origins::default(), vec![None; 256]);
        for _ in 0..5_000 {
            let (from, blocks) = (rng.below(200), 1 + rng.below(50));
            let (destination, to) = (2 + rng.below(2), from + 8 * rng.below(3));
            if rng.below(4) == 0 {
                origins.forget(stream(), VolumeId(1), from, from + blocks);
                (from..from + blocks).for_each(|block| plain[block as usize] = None);
            } else {
                note(&mut origins, from, blocks, destination, to);
                (0..blocks).for_each(|at| plain[(from + at) as usize] = Some((VolumeId(destination), Lba(to + at))));
            }
            for block in 0..256 {
                let known = origins.at(stream(), VolumeId(1), block);
                let end = (block + known.blocks.min(256 - block)) as usize;
                assert_eq!(known.copy, plain[block as usize]);
                let expected = |at: u64| known.copy.map(|(volume, lba)| (volume, Lba(lba.0 + at)));
                assert!((block as usize..end).all(|at| plain[at] == expected(at as u64 - block)));
            }
        }
    }

    #[test]
    fn number_of_ranges_is_limited() {
        let mut origins = Origins::default();
        (0..=MAX_RANGES as u64).for_each(|at| note(&mut origins, at * 16, 8, 2, 0));
        assert_eq!(origins.ranges.len(), MAX_RANGES);
    }
}
