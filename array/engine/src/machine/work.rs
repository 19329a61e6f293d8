//! Work that takes processor time or reads the drive, and needs nothing of the core. Any thread
//! executes it, as an [`Action`](super::io::Action).

use super::group::{GroupCache, Keep, StoredGroup, block};
use super::summary_chain::SummaryChain;
use super::survey::{Survey, SurveyResult};
use bytes::Bytes;
use ondisk::SummaryEntry;
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
    Survey(Survey),
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
    Surveyed(SurveyResult),
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

    pub(crate) fn survey(survey: Survey) -> Self {
        Self(Kind::Survey(survey))
    }

    /// True for work that no request waits for and that may take long.
    pub(crate) fn is_upkeep(&self) -> bool {
        matches!(self.0, Kind::Summaries(_) | Kind::Survey(_))
    }

    /// Executes the work. Blocks while it reads from the drive.
    pub fn perform(&self, disk: &dyn Disk) -> WorkDone {
        WorkDone(match &self.0 {
            Kind::Fingerprint(blocks) => {
                Done::Fingerprints(blocks.iter().map(|block| reduction::fingerprint(block)).collect())
            }
            Kind::Reduce(reduction) => reduction.perform(disk),
            Kind::Summaries(chain) => Done::Summaries(chain.read(disk)),
            Kind::Survey(survey) => Done::Surveyed(SCRATCH.with_borrow_mut(|scratch| survey.perform(disk, scratch))),
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
            group.load(&self.cache, Keep::Nothing, &read).is_ok_and(|blocks| block(&blocks, *index) == *new)
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
