//! The cleaner's state: the segment that it empties, and how useful recent cleaning was.

use blockmap::Absent;
use bytes::Bytes;
use ondisk::SummaryEntry;
use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CleanerPhase {
    #[default]
    Idle,
    /// Reads a segment.
    Reading,
    /// Makes its live blocks dirty again.
    Relocating,
    /// Waits until these blocks have places before it chooses another segment.
    Placing,
}

/// Cleanings without a gain after which the cleaner rests. Moving pages changes slots, whose pages
/// move too, so that nearly full segments could be rewritten again and again.
const MAX_FRUITLESS: u32 = 3;
/// Cleanings without a gain after which the cleaner does not even take a segment that is half dead:
/// each checkpoint stores a manifest, which may take as much as the segment had.
const MAX_FRUITLESS_HALVES: u32 = 12;

/// Cleanings without more free segments after which a host no longer waits for them: this part of
/// the segments of the pool, within these limits.
const AWAITED_PART: u64 = 4;
const AWAITED: RangeInclusive<u64> = 16..=1024;

/// A segment that was read.
pub(crate) struct Victim {
    pub(crate) segment: u32,
    /// Pages of the slot table that cannot be read: blocks whose slots they hold stay in place.
    pub(crate) unreadable: BTreeSet<u32>,
    pub(crate) bytes: Bytes,
    /// Live entries when the segment was read, by sector.
    pub(crate) entries: VecDeque<SummaryEntry>,
    /// Number of this cleaning, shared by all blocks that it relocates.
    pub(crate) origin: u64,
    /// Position of the next relocated block. Blocks at adjacent positions may be compressed
    /// together.
    pub(crate) position: u64,
}

/// The data segment whose blocks are being placed again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relocation {
    pub(crate) segment: u32,
    /// Which use of the segment.
    pub(crate) usage: u64,
    /// Sectors that its blocks take in their new places so far.
    pub(crate) moved: u64,
    /// Its live sectors before, if it is compressed again to save space and not emptied for space.
    pub(crate) recompressed: Option<u32>,
}

/// The space that a host waits for.
#[derive(Clone, Copy)]
pub(crate) struct AwaitedSpace {
    /// Free segments with which its request may fit.
    pub(crate) enough: u64,
    /// Sectors of live data whose end is worth another try.
    pub(crate) gain: u32,
    /// Segments of the pool.
    pub(crate) segments: u32,
}

/// The best that cleaning has reached while hosts wait for space.
#[derive(Clone, Copy)]
struct Reached {
    /// The least that a host waits for.
    enough: u64,
    /// The most free segments.
    ready: u64,
    /// The fewest live sectors.
    live: u64,
    /// Segments that were cleaned before the last gain.
    cleaned: u64,
}

/// The state of the cleaner.
#[derive(Default)]
pub(crate) struct Cleaner {
    pub(crate) phase: CleanerPhase,
    /// Segments from which not everything could be moved. Retried after a checkpoint.
    pub(crate) given_up: BTreeSet<u32>,
    /// Pages were marked as changed; the next checkpoint moves them.
    pub(crate) has_marked_pages: bool,
    pub(crate) victim: Option<Victim>,
    /// Pages of the slot table that the cleaner waits for.
    pub(crate) loads: usize,
    pub(crate) segments_cleaned: u64,
    /// Segments of the reserve that stay ready while the present victim is relocated.
    pub(crate) kept: u64,
    pub(crate) relocation: Option<Relocation>,
    /// Segments in use, and segments that hosts had filled, when the first metadata segment since
    /// the last checkpoint was chosen.
    pub(crate) before: Option<(u64, u64)>,
    /// The same when metadata was cleaned with a gain most recently, or for the first time. A
    /// checkpoint may store more metadata than the one before and the one after it, so only a new
    /// minimum is a gain: otherwise an idle array would take checkpoint after checkpoint.
    least_used: (u64, u64),
    pub(crate) data: CleaningRecord,
    pub(crate) metadata: CleaningRecord,
    /// Live sectors when a search found no victim, and whether a host then waited for space. A
    /// search visits all segments, so the next one follows a checkpoint, a fall in live data by
    /// an eighth of a segment, or the first host that waits.
    pub(crate) nothing_at: Option<(u64, bool)>,
    /// While hosts wait for space.
    reached: Option<Reached>,
    /// A search that found no victim is repeated, because time has passed.
    pub(crate) is_retry_due: bool,
}

/// How useful recent cleaning of segments of one kind was.
#[derive(Default)]
pub(crate) struct CleaningRecord {
    /// Cleanings in a row without a gain: of a data segment, or of the metadata of a checkpoint.
    fruitless: u32,
    /// Live sectors, and segments that hosts had filled, when the cleaner began to rest. It tries
    /// again when a segment less is live or hosts have filled another, because the dead sectors
    /// are elsewhere then.
    pub(crate) fruitless_at: Option<(u64, u64)>,
}

impl CleaningRecord {
    /// True if not even segments that are half dead yielded anything recently.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.fruitless >= MAX_FRUITLESS_HALVES
    }

    pub(crate) fn add(&mut self, has_gained: bool, live: u64, stored: u64) {
        self.fruitless = if has_gained { 0 } else { self.fruitless + 1 };
        self.fruitless_at = (self.fruitless >= MAX_FRUITLESS).then_some((live, stored));
    }
}

impl Cleaner {
    pub(crate) fn is_busy(&self) -> bool {
        self.phase != CleanerPhase::Idle || self.has_marked_pages
    }

    /// A host waits for space while this many segments are free and this many sectors live. Returns
    /// true if cleaning does not make it: each segment that is emptied may yield a little, and
    /// checkpoints take as much again.
    pub(crate) fn is_awaited_in_vain(&mut self, (ready, live): (u64, u64), space: AwaitedSpace) -> bool {
        let cleaned = self.segments_cleaned;
        let now = Reached { enough: space.enough, ready, live, cleaned };
        let reached = self.reached.get_or_insert(now);
        if space.enough < reached.enough {
            // A request that waits for less has a time of its own.
            *reached = now;
        } else if ready > reached.ready || live + u64::from(space.gain) <= reached.live {
            *reached = Reached { ready: ready.max(reached.ready), live: live.min(reached.live), cleaned, ..*reached };
        }
        let most = (u64::from(space.segments) / AWAITED_PART).clamp(*AWAITED.start(), *AWAITED.end());
        cleaned - reached.cleaned > most
    }

    /// A request that stores data was admitted: space is found.
    pub(crate) fn stop_awaiting(&mut self) {
        self.reached = None;
    }

    /// True while relocated blocks wait for places.
    pub(crate) fn is_placing(&self) -> bool {
        self.phase == CleanerPhase::Placing
    }

    /// A page of the slot table that the cleaner waits for is loaded or cannot be read.
    pub(crate) fn page_loaded(&mut self, absent: Absent, is_intact: bool) {
        self.loads -= 1;
        if let (Absent::Slots(page), Some(victim), false) = (absent, &mut self.victim, is_intact) {
            victim.unreadable.insert(page);
        }
    }

    pub(crate) fn is_waiting_for_checkpoint(&self) -> bool {
        self.has_marked_pages && self.phase == CleanerPhase::Idle
    }

    /// A relocated block takes `sectors` sectors in its new place.
    pub(crate) fn relocated(&mut self, sectors: u32) {
        if let Some(relocation) = &mut self.relocation {
            relocation.moved += u64::from(sectors);
        }
    }

    /// A checkpoint was frozen with `used` segments in use and `live` sectors live. `stored` are
    /// the segments that hosts have filled since the array was opened: space that hosts took is
    /// not held against the cleaner.
    pub(crate) fn frozen(&mut self, used: u64, live: u64, stored: u64) {
        if let Some(before) = self.before.take() {
            if self.metadata.fruitless == 0 {
                self.least_used = before;
            }
            let (least, stored_then) = self.least_used;
            self.metadata.add(used < least + (stored - stored_then), live, stored);
        }
        self.has_marked_pages = false;
        self.nothing_at = None;
        self.given_up.clear();
        if self.phase == CleanerPhase::Placing {
            self.phase = CleanerPhase::Idle;
        }
    }
}
