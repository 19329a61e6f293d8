//! Work: what takes time on a processor, or reads the drive, and needs nothing of the core. The core asks for it as an
//! [`Action`](super::io::Action); whoever has a thread to spare carries it out.

use super::group::{GroupCache, StoredGroup, block};
use bytes::Bytes;
use ondisk::{SECTOR_BYTES, SummaryEntry, SummaryId, decode_summary, summary_bytes};
use platform::Disk;
use reduction::Scratch;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;

/// Names work that is under way.
pub type WorkId = u64;

/// Something to work out.
#[derive(Clone, Debug)]
pub struct Work(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// The fingerprint of each block.
    Fingerprint(Vec<Bytes>),
    Reduce(Reduction),
    Summaries(SummaryChain),
}

/// What to compare and what to compress.
#[derive(Clone, Debug)]
pub(crate) struct Reduction {
    /// Blocks, and the stored block that each may be equal to.
    pub(crate) pairs: Vec<(Bytes, StoredGroup, u8)>,
    /// Units of up to eight blocks, and how hard they are worked at.
    pub(crate) groups: Vec<(SmallVec<[Bytes; 1]>, Effort)>,
    pub(crate) cache: Arc<GroupCache>,
    /// Keeps the segments of the pairs from being reused.
    pub(crate) _pin: Arc<()>,
}

/// How much work a unit is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// LZ4: somebody may be waiting.
    Quick,
    /// LZ4, and zstd where that got little out of a whole unit: nobody waits.
    Relaxed,
    /// zstd: the data has not been written for long.
    Cold,
}

/// The summaries of a segment, from the last one back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SummaryChain {
    pub(crate) id: SummaryId,
    /// First byte of the segment on the drive, and its length.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    /// Sector of the last summary.
    pub(crate) last: u32,
}

/// A unit as it will stand on the drive.
#[derive(Clone, Debug)]
pub(crate) enum PackedGroup {
    /// Compressed: its bytes and their checksum.
    Compressed(Bytes, u32),
    /// As it is: the checksum of each block.
    Raw(Vec<u32>),
}

/// What came out of it.
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

    /// Carries it out, waiting for the drive where needed.
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
    /// Tables of the compressors, which take longer to make than a batch takes to compress.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Reduction {
    fn perform(&self, disk: &dyn Disk) -> Done {
        let read = |offset: u64, buffer: &mut [u8]| disk.read_at(offset, buffer).map(|()| true);
        let is_equal = |(new, unit, index): &(Bytes, StoredGroup, u8)| {
            unit.load(&self.cache, &read).is_ok_and(|blocks| block(&blocks, *index) == *new)
        };
        let equal = self.pairs.iter().map(is_equal).collect();
        let groups = SCRATCH.with_borrow_mut(|scratch| {
            self.groups.iter().map(|(blocks, effort)| pack(blocks, *effort, scratch)).collect()
        });
        Done::Reduced { equal, groups }
    }
}

/// What LZ4 takes to half is good enough: zstd would gain less, and is slower to read.
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
    /// What can be read of it: it serves a hint.
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
            let room = self.bytes.checked_sub(from)?;
            let mut buffer = vec![0; bytes.min(room as usize)];
            disk.read_at(self.start + from, &mut buffer).ok()?;
            Some(buffer)
        };
        // Most are this short: then one read is enough.
        let short = read(8 * SECTOR_BYTES as usize)?;
        let count = u32::from_le_bytes(short.get(12..16)?.try_into().ok()?) as usize;
        let bytes = summary_bytes(count.min(1 << 16));
        if bytes <= short.len() {
            return decode_summary(self.id, &short);
        }
        decode_summary(self.id, &read(bytes)?)
    }
}
