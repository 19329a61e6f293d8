//! The contents of a pair's volumes: one number for each logical block, which its bytes repeat.

use bytes::Bytes;
use engine::{FillValue, LogOp};
use types::{BlockRange, LBA_BYTES, Lba, Period, Position, StreamId, VolumeId};

/// The stream of the pair.
pub(super) const STREAM: StreamId = match StreamId::new(77) {
    Some(stream) => stream,
    None => unreachable!(),
};
/// Logical blocks of each volume: two leaves of the map.
pub(super) const VOLUME_BLOCKS: u64 = 4096;
/// Volumes of the stream.
pub(super) const VOLUMES: u32 = 2;

const LBA_LEN: usize = LBA_BYTES as usize;

/// The contents of all volumes.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PairContents(Vec<u64>);

/// A record that was given to one of the arrays, or the beginning of a period (without operations).
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) period: Period,
    pub(super) position: Position,
    pub(super) ops: Vec<LogOp>,
}

impl PairContents {
    pub(super) fn new() -> Self {
        Self(vec![0; VOLUMES as usize * VOLUME_BLOCKS as usize])
    }

    /// Returns the contents after these records.
    pub(super) fn after(entries: &[Entry]) -> Self {
        let mut contents = Self::new();
        entries.iter().for_each(|entry| contents.apply(entry));
        contents
    }

    /// Applies a record.
    pub(super) fn apply(&mut self, entry: &Entry) {
        for op in &entry.ops {
            match op {
                LogOp::Write { volume, lba, data } => {
                    let numbers = numbers_of(data).unwrap_or_default();
                    self.part(*volume, lba.0, numbers.len() as u64).copy_from_slice(&numbers);
                }
                LogOp::Fill { volume, range, fill } => {
                    let number = match fill {
                        FillValue::Hole | FillValue::Zero => 0,
                        FillValue::Word(word) => u64::from(*word) << 32 | u64::from(*word),
                    };
                    self.part(*volume, range.start().0, range.blocks()).fill(number);
                }
                LogOp::Same { volume, range, pattern } => {
                    let number = numbers_of(pattern).and_then(|numbers| numbers.first().copied()).unwrap_or_default();
                    self.part(*volume, range.start().0, range.blocks()).fill(number);
                }
                _ => {}
            }
        }
    }

    /// Returns the numbers of a range.
    pub(super) fn range(&self, volume: VolumeId, range: BlockRange) -> &[u64] {
        let at = first_of(volume, range.start().0);
        &self.0[at..at + range.blocks() as usize]
    }

    fn part(&mut self, volume: VolumeId, start: u64, blocks: u64) -> &mut [u64] {
        let at = first_of(volume, start);
        &mut self.0[at..at + blocks as usize]
    }
}

fn first_of(volume: VolumeId, start: u64) -> usize {
    ((volume.0 & u64::from(u32::MAX)) * VOLUME_BLOCKS + start) as usize
}

/// Returns the number of each block, or `None` if a block does not repeat one.
pub(super) fn numbers_of(data: &[u8]) -> Option<Vec<u64>> {
    let number = |block: &[u8]| {
        let number = u64::from_le_bytes(block[..8].try_into().ok()?);
        block.chunks_exact(8).all(|part| part == number.to_le_bytes()).then_some(number)
    };
    data.chunks_exact(LBA_LEN).map(number).collect()
}

/// Returns blocks with these numbers.
pub(super) fn bytes_of(numbers: &[u64]) -> Bytes {
    numbers.iter().flat_map(|number| number.to_le_bytes().repeat(LBA_LEN / 8)).collect()
}

/// Returns the whole of a volume, in ranges of one read each.
pub(super) fn whole_volume() -> impl Iterator<Item = BlockRange> {
    let piece = VOLUME_BLOCKS / 4;
    (0..4).filter_map(move |number| BlockRange::new(Lba(number * piece), piece).ok())
}
