//! The contents of a pair's volumes: one number for each logical block, which its bytes repeat.

use bytes::Bytes;
use engine::{Change, FillValue, LogOp};
use std::collections::BTreeMap;
use types::{BlockRange, LBA_BYTES, Lba, Period, Position, StreamId, VolumeId};

/// The stream of the pair.
pub(super) const STREAM: StreamId = match StreamId::new(77) {
    Some(stream) => stream,
    None => unreachable!(),
};
/// Logical blocks of each first volume: two leaves of the map.
pub(super) const VOLUME_BLOCKS: u64 = 4096;
/// Bytes of each drive.
pub(super) const DISK_BYTES: u64 = 48 << 20;
/// A volume that is in no stream, and its logical blocks: more than a small pool has.
pub(super) const PLAIN: VolumeId = VolumeId(1);
pub(super) const PLAIN_BLOCKS: u64 = 24 << 10;
/// Volumes of the stream at first.
pub(super) const VOLUMES: u32 = 2;
/// Most logical blocks that the simulator reads at a time.
const READ_BLOCKS: u64 = 1024;

const LBA_LEN: usize = LBA_BYTES as usize;

/// The contents of all volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PairContents(pub(super) BTreeMap<VolumeId, Vec<u64>>);

/// A record that was given to one of the arrays, or the beginning of a period (without operations).
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) period: Period,
    pub(super) position: Position,
    pub(super) ops: Vec<LogOp>,
    pub(super) message: Bytes,
    /// Values that the array stores with it.
    pub(super) values: Vec<Change>,
}

impl Entry {
    /// Creates an entry without a message.
    pub(super) fn new(period: Period, position: Position, ops: Vec<LogOp>) -> Self {
        Self { period, position, ops, message: Bytes::new(), values: Vec::new() }
    }

    /// True if the array would have to have it after a restart.
    pub(super) fn has_effect(&self) -> bool {
        !self.ops.is_empty() || !self.message.is_empty()
    }
}

impl PairContents {
    pub(super) fn new() -> Self {
        Self((0..VOLUMES).map(|number| (STREAM.volume(number), vec![0; VOLUME_BLOCKS as usize])).collect())
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
                LogOp::Write { volume, lba, data } => self.set(*volume, *lba, &numbers_of(data).unwrap_or_default()),
                LogOp::Fill { volume, range, fill } => {
                    let number = match fill {
                        FillValue::Hole | FillValue::Zero => 0,
                        FillValue::Word(word) => u64::from(*word) << 32 | u64::from(*word),
                    };
                    self.set(*volume, range.start(), &vec![number; range.blocks() as usize]);
                }
                LogOp::Same { volume, range, pattern } => {
                    let number = numbers_of(pattern).and_then(|numbers| numbers.first().copied()).unwrap_or_default();
                    self.set(*volume, range.start(), &vec![number; range.blocks() as usize]);
                }
                LogOp::Copy { source, from, destination, to } => {
                    let numbers = self.range(*source, *from).unwrap_or_default().to_vec();
                    self.set(*destination, *to, &numbers);
                }
                LogOp::Create { volume, blocks } | LogOp::Resize { volume, blocks } => {
                    self.0.entry(*volume).or_default().resize(*blocks as usize, 0);
                }
                LogOp::Delete { volume } => drop(self.0.remove(volume)),
                LogOp::CopyVolume { source, destination } => {
                    let numbers = self.0.get(source).cloned().unwrap_or_default();
                    self.0.insert(*destination, numbers);
                }
                LogOp::Stream(_) | LogOp::Put { .. } | LogOp::Remove { .. } => {}
            }
        }
    }

    /// Returns the numbers of a range. `None` if the volume does not hold it.
    pub(super) fn range(&self, volume: VolumeId, range: BlockRange) -> Option<&[u64]> {
        self.0.get(&volume)?.get(range.start().0 as usize..range.end().0 as usize)
    }

    fn set(&mut self, volume: VolumeId, start: Lba, numbers: &[u64]) {
        let held = self.0.get_mut(&volume).and_then(|held| held.get_mut(start.0 as usize..));
        if let Some(part) = held.and_then(|held| held.get_mut(..numbers.len())) {
            part.copy_from_slice(numbers);
        }
    }

    /// Returns where two contents differ first.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let sizes = |contents: &Self| -> Vec<_> {
            contents.0.iter().map(|(volume, numbers)| (*volume, numbers.len())).collect()
        };
        if sizes(self) != sizes(other) {
            return Some(format!("the volumes {:?}, not {:?}", sizes(self), sizes(other)));
        }
        self.0.iter().find_map(|(volume, numbers)| {
            let block = numbers.iter().zip(other.0.get(volume)?).position(|(a, b)| a != b)?;
            Some(format!("another content of {volume}, block {block}"))
        })
    }
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

/// Returns the whole of a volume with this size, in ranges of one read each.
pub(super) fn whole_volume(blocks: u64) -> impl Iterator<Item = BlockRange> {
    let piece = move |number: u64| {
        let start = number * READ_BLOCKS;
        BlockRange::new(Lba(start), READ_BLOCKS.min(blocks - start)).ok()
    };
    (0..blocks.div_ceil(READ_BLOCKS)).filter_map(piece)
}
