//! The survey of a segment: compresses a sample of it again, to know what that would save.

use super::group::block;
use super::summary_chain::SummaryChain;
use bytes::Bytes;
use ondisk::{SECTOR_BYTES, SummaryEntry};
use platform::Disk;
use reduction::{MAX_GROUP_BLOCKS, Scratch};
use types::BLOCK_BYTES;

/// Stored groups of a part of the sample. Short groups next to each other are compressed together.
const PART_GROUPS: usize = 8;
/// One part in this many is in the sample.
const SAMPLE: usize = 8;
/// A segment is compressed again if that saves this part of it: the saved space must be worth the
/// writes.
const MIN_GAIN: u64 = 16;
const BLOCK_SECTORS: u64 = BLOCK_BYTES / SECTOR_BYTES;

/// A survey of a sealed segment of data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Survey {
    pub(crate) chain: SummaryChain,
}

/// The sample: its sectors now, and its sectors after it was compressed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SurveyResult {
    pub(crate) sectors: u64,
    pub(crate) dense_sectors: u64,
    pub(crate) blocks: u64,
}

impl SurveyResult {
    /// True if compressing the segment again saves enough.
    pub(crate) fn has_gain(&self) -> bool {
        self.dense_sectors + self.sectors / MIN_GAIN < self.sectors
    }
}

impl Survey {
    /// Reads and compresses the sample. Leaves out what cannot be read.
    pub(crate) fn perform(&self, disk: &dyn Disk, scratch: &mut Scratch) -> SurveyResult {
        let mut entries = self.chain.read(disk);
        entries.sort_by_key(|entry| (entry.sector, entry.index));
        let groups: Vec<&[SummaryEntry]> = entries.chunk_by(|one, next| one.sector == next.sector).collect();
        let mut result = SurveyResult::default();
        for part in groups.chunks(PART_GROUPS).step_by(SAMPLE) {
            self.add(part, disk, scratch, &mut result);
        }
        result
    }

    fn add(&self, part: &[&[SummaryEntry]], disk: &dyn Disk, scratch: &mut Scratch, result: &mut SurveyResult) {
        let mut run = Vec::new();
        for group in part {
            let Some(first) = group.first() else { continue };
            let Some(plain) = self.read(first, disk) else { continue };
            result.sectors += u64::from(first.sectors);
            result.blocks += u64::from(first.blocks);
            let blocks = (0..first.blocks).map(|index| block(&plain, index));
            // As in a relocation, a block that is a group of its own stays one.
            match first.blocks {
                1 => result.dense_sectors += dense_sectors(&blocks.collect::<Vec<_>>(), scratch),
                _ => run.extend(blocks),
            }
        }
        result.dense_sectors += run.chunks(MAX_GROUP_BLOCKS).map(|blocks| dense_sectors(blocks, scratch)).sum::<u64>();
    }

    /// Returns the blocks of a group; `None` if it is damaged or cannot be read.
    fn read(&self, first: &SummaryEntry, disk: &dyn Disk) -> Option<Bytes> {
        let (from, sectors) = (u64::from(first.sector) * SECTOR_BYTES, usize::from(first.sectors));
        let mut stored = vec![0; sectors * SECTOR_BYTES as usize];
        if from + stored.len() as u64 > self.chain.bytes {
            return None;
        }
        disk.read_at(self.chain.start + from, &mut stored).ok()?;
        let blocks = usize::from(first.blocks);
        match crc_fast::crc32_iscsi(&stored) == first.crc {
            true if reduction::is_packed(blocks, sectors) => reduction::unpack(&stored, blocks).ok(),
            true if stored.len() as u64 == blocks as u64 * BLOCK_BYTES => Some(stored.into()),
            _ => None,
        }
    }
}

fn dense_sectors(blocks: &[Bytes], scratch: &mut Scratch) -> u64 {
    match reduction::pack_dense(blocks, scratch) {
        Some(packed) => packed.len() as u64 / SECTOR_BYTES,
        None => blocks.len() as u64 * BLOCK_SECTORS,
    }
}
