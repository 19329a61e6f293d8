//! Work that takes processor time or reads the drive, and needs nothing of the core. Any thread
//! executes it, as an [`Action`](super::io::Action).

use super::group::{GroupCache, StoredGroup, block};
use bytes::Bytes;
use ondisk::{SECTOR_BYTES, SummaryEntry, SummaryId, decode_summary, summary_bytes};
use platform::Disk;
use reduction::Scratch;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;

/// Identifies work in flight.
pub type WorkId = u64;

/// Work to execute.
#[derive(Clone, Debug)]
pub struct Work(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// Fingerprint each block.
    Fingerprint(Vec<Bytes>),
    Reduce(Reduction),
    Summaries(SummaryChain),
}

/// Blocks to compare and groups to compress.
#[derive(Clone, Debug)]
pub(crate) struct Reduction {
    /// Blocks, each with the stored block that may be equal.
    pub(crate) pairs: Vec<(Bytes, StoredGroup, u8)>,
    /// Groups of up to eight blocks, and the effort for each.
    pub(crate) groups: Vec<(SmallVec<[Bytes; 1]>, Effort)>,
    pub(crate) cache: Arc<GroupCache>,
    /// Keep the segments of the pairs from being reused.
    pub(crate) pins: Vec<Arc<()>>,
}

/// The effort to compress a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// LZ4: a request may be waiting.
    Quick,
    /// LZ4, then zstd if LZ4 saves little on a full group: no request waits.
    Relaxed,
    /// zstd: the data was written long ago.
    Cold,
}

/// The summaries of a segment, from the last one to the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SummaryChain {
    pub(crate) id: SummaryId,
    /// First byte of the segment on the drive, and its length.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    /// Sector of the last summary.
    pub(crate) last: u32,
}

/// A group as it is stored.
#[derive(Clone, Debug)]
pub(crate) enum PackedGroup {
    /// Compressed bytes and their checksum.
    Compressed(Bytes, u32),
    /// Uncompressed: the checksum of each block.
    Raw(Vec<u32>),
}

/// The result of work.
#[derive(Clone, Debug)]
pub struct WorkDone(pub(crate) Done);

#[derive(Clone, Debug)]
pub(crate) enum Done {
    Fingerprints(Vec<u128>),
    Reduced { equal: Vec<bool>, groups: Vec<PackedGroup> },
    Summaries(Vec<SummaryEntry>),
}

impl Work {
    pub(crate) fn fingerprint(blocks: Vec<Bytes>) -> Self {
        Self(Kind::Fingerprint(blocks))
    }

    pub(crate) fn reduce(reduction: Reduction) -> Self {
        Self(Kind::Reduce(reduction))
    }

    pub(crate) fn summaries(chain: SummaryChain) -> Self {
        Self(Kind::Summaries(chain))
    }

    /// True for work that no request waits for and that may take long.
    pub(crate) fn is_upkeep(&self) -> bool {
        matches!(self.0, Kind::Summaries(_))
    }

    /// Executes the work. Blocks while it reads from the drive.
    pub fn perform(&self, disk: &dyn Disk) -> WorkDone {
        WorkDone(match &self.0 {
            Kind::Fingerprint(blocks) => {
                Done::Fingerprints(blocks.iter().map(|block| reduction::fingerprint(block)).collect())
            }
            Kind::Reduce(reduction) => reduction.perform(disk),
            Kind::Summaries(chain) => Done::Summaries(chain.read(disk)),
        })
    }
}

thread_local! {
    /// Tables of the compressors. Allocating them takes longer than compressing a batch.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Reduction {
    fn perform(&self, disk: &dyn Disk) -> Done {
        let read = |offset: u64, buffer: &mut [u8]| disk.read_at(offset, buffer).map(|()| true);
        let is_equal = |(new, group, index): &(Bytes, StoredGroup, u8)| {
            group.load(&self.cache, &read).is_ok_and(|blocks| block(&blocks, *index) == *new)
        };
        let equal = self.pairs.iter().map(is_equal).collect();
        let groups = SCRATCH.with_borrow_mut(|scratch| {
            self.groups.iter().map(|(blocks, effort)| pack(blocks, *effort, scratch)).collect()
        });
        Done::Reduced { equal, groups }
    }
}

/// LZ4 output of at most half the size is kept: zstd would save less, and is slower to read.
const GOOD_ENOUGH: usize = 2;

fn pack(blocks: &[Bytes], effort: Effort, scratch: &mut Scratch) -> PackedGroup {
    let packed = match effort {
        Effort::Quick => reduction::pack(blocks, scratch),
        Effort::Cold => reduction::pack_dense(blocks, scratch),
        Effort::Relaxed => reduction::pack(blocks, scratch).map(|quick| {
            let is_good = quick.len() * GOOD_ENOUGH <= blocks.len() * reduction::BLOCK_LEN;
            if is_good || blocks.len() < reduction::MAX_GROUP_BLOCKS {
                return quick;
            }
            reduction::pack_dense(blocks, scratch).filter(|dense| dense.len() < quick.len()).unwrap_or(quick)
        }),
    };
    match packed {
        Some(bytes) => {
            let crc = crc_fast::crc32_iscsi(&bytes);
            PackedGroup::Compressed(bytes, crc)
        }
        None => PackedGroup::Raw(blocks.iter().map(|block| crc_fast::crc32_iscsi(block)).collect()),
    }
}

impl SummaryChain {
    /// Returns the entries that can be read: the index is a hint.
    fn read(&self, disk: &dyn Disk) -> Vec<SummaryEntry> {
        let mut all = Vec::new();
        let mut next = Some(self.last);
        while let Some(sector) = next {
            let from = u64::from(sector) * SECTOR_BYTES;
            let Some((entries, previous)) = self.read_one(disk, from) else { break };
            all.extend(entries);
            next = previous.filter(|previous| *previous < sector);
        }
        all
    }

    fn read_one(&self, disk: &dyn Disk, from: u64) -> Option<(Vec<SummaryEntry>, Option<u32>)> {
        let read = |bytes: usize| {
            let available = self.bytes.checked_sub(from)?;
            let mut buffer = vec![0; bytes.min(available as usize)];
            disk.read_at(self.start + from, &mut buffer).ok()?;
            Some(buffer)
        };
        // Most summaries are this short, so one read is enough.
        let short = read(8 * SECTOR_BYTES as usize)?;
        let count = u32::from_le_bytes(short.get(12..16)?.try_into().ok()?) as usize;
        let bytes = summary_bytes(count.min(1 << 16));
        if bytes <= short.len() {
            return decode_summary(self.id, &short);
        }
        decode_summary(self.id, &read(bytes)?)
    }
}
