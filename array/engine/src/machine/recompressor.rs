//! The recompressor's state: while hosts change little, it compresses segments again, with more
//! effort than there was time for when their blocks were written.
//!
//! A survey compresses a sample of a segment. If that saves enough, the cleaner relocates the
//! segment, whose blocks are then compressed as cold ones. Nothing is stored about this: after a
//! restart, each segment is surveyed again, and one that was compressed as well as it can be shows
//! no gain.

use super::backpressure::blocks_touched;
use super::options::Options;
use crate::service::Recompression;
use ondisk::SECTOR_BYTES;
use wal::LogOp;

/// Slow ticks in a row with few changes after which the array is quiet: 30 s.
const QUIET_TICKS: u32 = 60;
/// Blocks that hosts may change between two slow ticks of a quiet array: 1 MiB/s. Hosts that have
/// mounted a datastore write to it every few seconds.
const QUIET_BLOCKS: u64 = 128;
/// Blocks that are compressed again between two slow ticks: 16 MiB/s, a fraction of a processor.
const BLOCKS_PER_SLOW_TICK: u64 = 2048;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RecompressionStage {
    /// The next segment is to be surveyed.
    #[default]
    Searching,
    Surveying,
    /// This use of a segment is to be compressed again.
    Chosen {
        segment: u32,
        usage: u64,
    },
    /// All segments were surveyed.
    Finished,
}

/// The state of the recompressor.
#[derive(Default)]
pub(crate) struct Recompressor {
    stage: RecompressionStage,
    /// Slow ticks in a row with few changes.
    quiet_ticks: u32,
    /// Blocks that hosts have changed since the last slow tick.
    changed: u64,
    /// Blocks that may be compressed before the next slow tick.
    allowance: u64,
    /// Segments that became empty since the last freeze of a checkpoint.
    emptied: u64,
    counts: Recompression,
}

impl Recompressor {
    /// For the slow timer.
    pub(crate) fn slow_tick(&mut self) {
        self.quiet_ticks = self.quiet_ticks.saturating_add(1);
        self.allowance = BLOCKS_PER_SLOW_TICK;
        // Segments may have been filled. A search visits all of them, so it is not repeated sooner.
        if std::mem::take(&mut self.changed) > 0 && self.stage == RecompressionStage::Finished {
            self.stage = RecompressionStage::Searching;
        }
    }

    /// Hosts have changed something.
    pub(crate) fn changed(&mut self, record: &[LogOp]) {
        self.changed += record.iter().map(blocks_touched).sum::<u64>() + 1;
        if self.changed > QUIET_BLOCKS {
            self.quiet_ticks = 0;
        }
    }

    /// True if hosts have changed little for some time.
    pub(crate) fn is_quiet(&self, options: &Options) -> bool {
        !options.read_only && self.quiet_ticks >= options.recompress_after.unwrap_or(QUIET_TICKS)
    }

    /// True if nothing more may be compressed before the next slow tick.
    pub(crate) fn is_pausing(&self) -> bool {
        self.allowance == 0
    }

    /// Blocks were compressed again, or are about to be.
    pub(crate) fn spend(&mut self, blocks: u64) {
        self.allowance = self.allowance.saturating_sub(blocks);
    }

    /// True if a segment is left to survey or to compress again.
    pub(crate) fn has_next(&self) -> bool {
        self.stage != RecompressionStage::Finished
    }

    /// True while a survey is under way.
    pub(crate) fn is_surveying(&self) -> bool {
        self.stage == RecompressionStage::Surveying
    }

    /// Returns the segment to compress again, with its use.
    pub(crate) fn take_chosen(&mut self) -> Option<(u32, u64)> {
        let RecompressionStage::Chosen { segment, usage } = self.stage else { return None };
        self.stage = RecompressionStage::Searching;
        Some((segment, usage))
    }

    /// A survey begins, or no segment is left to survey.
    pub(crate) fn searched(&mut self, has_found: bool) {
        self.stage = if has_found { RecompressionStage::Surveying } else { RecompressionStage::Finished };
    }

    /// A survey that compressed `blocks` blocks has ended. `chosen` is a segment that gains, and
    /// its use.
    pub(crate) fn surveyed(&mut self, blocks: u64, chosen: Option<(u32, u64)>) {
        self.spend(blocks);
        self.stage = match chosen {
            Some((segment, usage)) => RecompressionStage::Chosen { segment, usage },
            None => RecompressionStage::Searching,
        };
    }

    /// Blocks that took `before` sectors now take `after`.
    pub(crate) fn recompressed(&mut self, before: u64, after: u64, is_empty: bool) {
        self.counts.before += before * SECTOR_BYTES;
        self.counts.after += after * SECTOR_BYTES;
        self.emptied += u64::from(is_empty);
    }

    /// Returns the number of segments that became empty since the last freeze of a checkpoint.
    pub(crate) fn emptied(&self) -> u64 {
        self.emptied
    }

    /// A checkpoint was frozen.
    pub(crate) fn frozen(&mut self) {
        self.emptied = 0;
    }

    /// Returns the data that was compressed again since the array was opened.
    pub(crate) fn counts(&self) -> Recompression {
        self.counts
    }
}
