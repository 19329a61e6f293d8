//! The pool: which segments are free, open, sealed or dying, and how much of each is live.

mod discards;

use super::pins::CheckpointPins;
use blockmap::SlotPlace;
use discards::Discards;
use ondisk::SegmentFill;
use platform::DiskError;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};

/// Allocations in a row that may fail for another reason than a full file system. They are tried
/// every half second, so the core stops after 4 s.
const MAX_FAILED_ALLOCATIONS: u32 = 8;

/// The kind of data in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Blocks of volumes.
    Data,
    /// Map pages, slot pages, directory pages, manifests.
    Metadata,
    /// The second copy of a segment of metadata. It becomes free together with the first.
    Mirror,
}

impl Kind {
    /// Returns the segments that one of this kind takes.
    pub(crate) fn copies(self) -> u64 {
        if self == Self::Metadata { 2 } else { 1 }
    }
}

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Holds nothing.
    Free,
    /// Being filled.
    Open,
    /// Full.
    Sealed,
    /// Holds nothing live, but the checkpoint on the drive or a reader may still need it.
    Dying,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) kind: Kind,
    pub(crate) phase: Phase,
    /// Sectors that are referenced.
    pub(crate) live: u32,
    pub(crate) usage: u64,
    pub(crate) sectors: u32,
    pub(crate) summary: Option<u32>,
    /// The segment with the second copy, for one of metadata.
    pub(crate) mirror: Option<u32>,
}

impl Segment {
    /// A segment that holds nothing.
    pub(crate) const FREE: Self =
        Self { kind: Kind::Data, phase: Phase::Free, live: 0, usage: 0, sectors: 0, summary: None, mirror: None };
    /// The second copy of a segment of metadata.
    pub(crate) const MIRROR: Self = Self { kind: Kind::Mirror, phase: Phase::Sealed, ..Self::FREE };

    /// Sealed, and nothing references it. Never true for a mirror, which depends on its original.
    fn is_dead(&self) -> bool {
        self.phase == Phase::Sealed && self.live == 0 && self.kind != Kind::Mirror
    }

    /// Returns how many segments are dead if this one is.
    fn dead_copies(&self) -> u64 {
        if self.is_dead() { self.kind.copies() } else { 0 }
    }
}

/// All segments of the array.
pub(crate) struct Pool {
    segments: Vec<Segment>,
    /// Free, with space reserved in the file system.
    ready: VecDeque<u32>,
    /// Free, without space reserved in the file system.
    unallocated: VecDeque<u32>,
    /// Free since the array was opened; may have space in the file system from before.
    unknown: VecDeque<u32>,
    allocating: u32,
    discards: Discards,
    /// Added by a checkpoint that is not valid yet.
    grown: Vec<u32>,
    /// The file system refused every segment since the last success; no more are tried for now.
    is_exhausted: bool,
    /// Allocations in a row that the file system refused. Is kept when allocations are tried again.
    refused: usize,
    /// Allocations in a row that failed for another reason than a full file system.
    failed_allocations: u32,
    /// The last allocation failed in that way; no more are tried for now.
    failure: Option<DiskError>,
    /// Dead since before a checkpoint that is not complete yet.
    dying: Vec<u32>,
    /// Dead segments that become free when the readers that pin them end.
    held: Vec<u32>,
    /// The pin of each segment, made for its first reader.
    pins: Vec<OnceLock<Arc<()>>>,
    /// The use of each segment that was surveyed last, see [`Pool::unsurveyed`].
    surveyed: Vec<Option<u64>>,
    /// Readers of whole checkpoints.
    checkpoint_readers: Vec<Weak<CheckpointPins>>,
    next_usage: u64,
    live_sectors: u64,
    live_data_sectors: u64,
    /// Sealed segments without references.
    dead: u64,
    /// More sectors were removed from a segment than its account had.
    is_overdrawn: bool,
}

impl Pool {
    /// The pool of a manifest.
    pub(crate) fn restore(segments: Vec<Segment>, next_usage: u64) -> Self {
        let unknown =
            (0..segments.len() as u32).filter(|segment| segments[*segment as usize].phase == Phase::Free).collect();
        let live = |only: Option<Kind>| {
            segments
                .iter()
                .filter(|segment| only.is_none_or(|kind| segment.kind == kind))
                .map(|segment| u64::from(segment.live))
                .sum()
        };
        let dead = segments.iter().map(Segment::dead_copies).sum();
        let (live_sectors, live_data_sectors) = (live(None), live(Some(Kind::Data)));
        Self {
            pins: segments.iter().map(|_| OnceLock::new()).collect(),
            surveyed: vec![None; segments.len()],
            segments,
            ready: VecDeque::new(),
            unallocated: VecDeque::new(),
            unknown,
            allocating: 0,
            discards: Discards::default(),
            grown: Vec::new(),
            is_exhausted: false,
            refused: 0,
            failed_allocations: 0,
            failure: None,
            dying: Vec::new(),
            held: Vec::new(),
            checkpoint_readers: Vec::new(),
            next_usage,
            live_sectors,
            live_data_sectors,
            dead,
            is_overdrawn: false,
        }
    }

    /// Adds segments up to `segments`. They are not used yet.
    pub(crate) fn grow(&mut self, segments: u32) {
        self.grown.extend(self.segments.len() as u32..segments);
        self.segments.resize(segments as usize, Segment::FREE);
        self.pins.resize_with(segments as usize, OnceLock::new);
        self.surveyed.resize(segments as usize, None);
    }

    /// The checkpoint that added segments is valid: they may be used.
    pub(crate) fn start_using_growth(&mut self) {
        if !self.grown.is_empty() {
            self.unallocated.extend(self.grown.drain(..));
            // The file system may have more space now.
            (self.is_exhausted, self.refused) = (false, self.refused.min(1));
        }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(crate) fn next_usage(&self) -> u64 {
        self.next_usage
    }

    /// Returns a pin, which keeps a segment from being reused while it exists.
    pub(crate) fn pin(&self, segment: u32) -> Arc<()> {
        self.pins[segment as usize].get_or_init(Arc::default).clone()
    }

    /// Pins the metadata of the newest valid checkpoint. Its data segments are not pinned.
    pub(crate) fn pin_checkpoint(&mut self) -> Arc<CheckpointPins> {
        let is_named = |(_, segment): &(usize, &Segment)| {
            segment.kind == Kind::Metadata && matches!(segment.phase, Phase::Open | Phase::Sealed)
        };
        let named = self.segments.iter().enumerate().filter(is_named).map(|(index, _)| index as u32);
        // These died since, but the checkpoint that frees them is not valid yet.
        let dying = self.dying.iter().copied().filter(|segment| self.is_metadata(*segment));
        let pins = CheckpointPins::new(named.chain(dying).map(|segment| self.pin(segment)).collect());
        self.checkpoint_readers.retain(|reader| reader.strong_count() > 0);
        self.checkpoint_readers.push(Arc::downgrade(&pins));
        pins
    }

    /// Takes the pins from readers of checkpoints if they keep dead segments from being reused.
    pub(crate) fn revoke_checkpoint_pins(&mut self) {
        if self.held.iter().any(|segment| self.is_metadata(*segment)) {
            self.checkpoint_readers.drain(..).filter_map(|reader| reader.upgrade()).for_each(|reader| reader.revoke());
            self.free_unpinned();
        }
    }

    /// Returns the number of free segments that may be opened at once.
    pub(crate) fn ready(&self) -> u64 {
        self.ready.len() as u64
    }

    /// Returns the number of free segments, with or without space in the file system.
    pub(crate) fn free(&self) -> u64 {
        self.ready() + self.without_space() as u64
    }

    /// Returns the number of free segments that must be allocated before they may be opened.
    fn without_space(&self) -> usize {
        self.unallocated.len() + self.unknown.len() + (self.allocating + self.discards.in_flight()) as usize
    }

    /// Returns the number of segments that become free with the next checkpoint or when readers
    /// end.
    pub(crate) fn coming(&self) -> u64 {
        self.dying.iter().chain(&self.held).map(|segment| self.segments[*segment as usize].kind.copies()).sum()
    }

    /// Returns the number of segments that hold something.
    pub(crate) fn used(&self) -> u64 {
        let used = self.segments.iter().filter(|segment| segment.live > 0 || segment.phase == Phase::Open);
        used.map(|segment| segment.kind.copies()).sum()
    }

    /// Returns the number of segments that would be free, with space in the file system, if the
    /// array were opened at a checkpoint frozen now.
    pub(crate) fn free_at_restart(&self) -> u64 {
        let without_space = if self.refused > 0 { 0 } else { self.without_space() as u64 };
        self.ready() + without_space + self.coming()
    }

    /// Returns the number of sealed segments without references, not yet in [`Pool::coming`].
    pub(crate) fn dead(&self) -> u64 {
        self.dead
    }

    /// Changes a segment and updates the count of dead ones.
    fn change(&mut self, segment: u32, change: impl FnOnce(&mut Segment)) {
        let state = &mut self.segments[segment as usize];
        let before = state.dead_copies();
        change(state);
        self.dead = self.dead + state.dead_copies() - before;
    }

    /// True for a segment of metadata.
    pub(crate) fn is_metadata(&self, segment: u32) -> bool {
        self.segments.get(segment as usize).is_some_and(|segment| segment.kind == Kind::Metadata)
    }

    /// Returns the segment with the second copy of what a segment of metadata holds.
    pub(crate) fn mirror(&self, segment: u32) -> Option<u32> {
        self.segments.get(segment as usize).and_then(|segment| segment.mirror)
    }

    /// Checks that every segment of metadata has a mirror of its own, and that no other segment is
    /// one. Returns the first segment for which that is not so.
    pub(crate) fn check_mirrors(&self) -> Result<(), u32> {
        let mut originals: FxHashMap<u32, u32> = FxHashMap::default();
        for (segment, number) in self.segments.iter().zip(0..) {
            let is_known = segment.mirror.is_none_or(|mirror| originals.insert(mirror, number).is_none());
            if segment.mirror.is_some() != (segment.kind == Kind::Metadata) || !is_known {
                return Err(number);
            }
        }
        let is_wrong =
            |(segment, number): &(&Segment, u32)| (segment.kind == Kind::Mirror) != originals.contains_key(number);
        self.segments.iter().zip(0..).find(is_wrong).map_or(Ok(()), |(_, number)| Err(number))
    }

    /// Returns the live sectors of all segments, and of data segments.
    pub(crate) fn live_sectors(&self) -> (u64, u64) {
        (self.live_sectors, self.live_data_sectors)
    }

    /// Opens a free segment, and another one as its mirror if it is for metadata. `None` if less
    /// than `spare` would be ready afterwards.
    pub(crate) fn open(&mut self, kind: Kind, spare: u64) -> Option<SegmentFill> {
        if self.ready() < spare + kind.copies() {
            return None;
        }
        let segment = self.ready.pop_front()?;
        // From the other end of the list, because damage is often in one region of a drive.
        let mirror = if kind == Kind::Metadata { self.ready.pop_back() } else { None };
        self.discards.note_ready(self.ready.len());
        let usage = self.next_usage;
        self.next_usage += 1;
        self.segments[segment as usize] = Segment { kind, phase: Phase::Open, usage, mirror, ..Segment::FREE };
        if let Some(mirror) = mirror {
            self.segments[mirror as usize] = Segment::MIRROR;
        }
        Some(SegmentFill { segment, usage, sectors: 0, summary: None })
    }

    /// Sets how far an open segment is filled.
    pub(crate) fn set_fill(&mut self, fill: SegmentFill) {
        let segment = &mut self.segments[fill.segment as usize];
        assert!(segment.phase == Phase::Open && segment.usage == fill.usage);
        segment.sectors = fill.sectors;
        segment.summary = fill.summary;
    }

    /// Seals an open segment.
    pub(crate) fn seal(&mut self, fill: SegmentFill) {
        self.set_fill(fill);
        self.change(fill.segment, |state| state.phase = Phase::Sealed);
    }

    /// For the slow timer. Plans to release the space of segments that stay free, except of `kept`.
    pub(crate) fn plan_discards(&mut self, kept: u64) {
        self.discards.plan(self.ready.len(), kept);
    }

    /// True if [`Pool::discard`] has a segment to release.
    pub(crate) fn is_discard_due(&self) -> bool {
        self.discards.is_due(&self.ready, &self.unknown)
    }

    /// Returns a free segment whose space is to be released. It cannot be opened until
    /// [`Pool::discarded`].
    pub(crate) fn discard(&mut self) -> Option<u32> {
        self.discards.next(&mut self.ready, &mut self.unknown)
    }

    /// The space of a segment was released, or could not be.
    pub(crate) fn discarded(&mut self, segment: u32) {
        self.discards.ended();
        self.unallocated.push_back(segment);
    }

    /// Notes whether a survey knows how much this use of a segment would gain by being compressed
    /// again.
    pub(crate) fn note_survey(&mut self, segment: u32, usage: u64, is_surveyed: bool) {
        self.surveyed[segment as usize] = is_surveyed.then_some(usage);
    }

    /// Returns the oldest sealed segment of data without a survey of its present use.
    pub(crate) fn unsurveyed(&self) -> Option<u32> {
        let is_unknown = |(_, (segment, surveyed)): &(u32, (&Segment, &Option<u64>))| {
            let is_data = segment.kind == Kind::Data && segment.phase == Phase::Sealed && segment.live > 0;
            is_data && segment.summary.is_some() && **surveyed != Some(segment.usage)
        };
        let all = (0..).zip(self.segments.iter().zip(&self.surveyed));
        all.filter(is_unknown).min_by_key(|(_, (segment, _))| segment.usage).map(|(segment, _)| segment)
    }

    /// Adds live sectors to a segment.
    pub(crate) fn alive(&mut self, segment: u32, sectors: u32) {
        let kind = self.segments[segment as usize].kind;
        self.change(segment, |state| state.live += sectors);
        self.live_sectors += u64::from(sectors);
        self.live_data_sectors += if kind == Kind::Data { u64::from(sectors) } else { 0 };
    }

    /// True if more sectors were removed from a segment than its account had: the account was wrong
    /// when the array was opened, or is wrong by a bug. The core stops before a checkpoint could
    /// free such a segment.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.is_overdrawn
    }

    /// Removes live sectors from a segment.
    pub(crate) fn dead_sectors(&mut self, segment: u32, sectors: u32) {
        let Segment { kind, live, .. } = self.segments[segment as usize];
        self.is_overdrawn |= live < sectors;
        let sectors = sectors.min(live);
        self.change(segment, |state| state.live -= sectors);
        self.live_sectors -= u64::from(sectors);
        self.live_data_sectors -= if kind == Kind::Data { u64::from(sectors) } else { 0 };
    }

    pub(crate) fn place_alive(&mut self, place: SlotPlace) {
        self.alive(place.segment, place.share());
    }

    pub(crate) fn place_dead(&mut self, place: Option<SlotPlace>) {
        if let Some(place) = place {
            self.dead_sectors(place.segment, place.share());
        }
    }

    /// Marks dead segments as dying, at the freeze of a checkpoint.
    pub(crate) fn mark_dying(&mut self) {
        for (index, segment) in self.segments.iter_mut().enumerate() {
            if segment.is_dead() {
                segment.phase = Phase::Dying;
                self.dying.push(index as u32);
            }
        }
        self.dead = 0;
    }

    /// The checkpoint is complete: dying segments become free when readers end.
    pub(crate) fn checkpointed(&mut self) {
        self.held.append(&mut self.dying);
        self.free_unpinned();
    }

    /// Frees dead segments that no reader pins.
    pub(crate) fn free_unpinned(&mut self) {
        let Self { segments, ready, pins, held, .. } = self;
        held.retain(|segment| {
            // `get_mut` synchronizes with readers that have ended; a look at the count does not.
            let pin = pins[*segment as usize].get_mut();
            let is_pinned = pin.is_some_and(|pin| Arc::get_mut(pin).is_none());
            if !is_pinned {
                let before = std::mem::replace(&mut segments[*segment as usize], Segment::FREE);
                ready.push_back(*segment);
                if let Some(mirror) = before.mirror {
                    segments[mirror as usize] = Segment::FREE;
                    ready.push_back(mirror);
                }
            }
            is_pinned
        });
    }

    /// Returns a free segment to allocate in the file system, if fewer than `target` are ready.
    pub(crate) fn allocate(&mut self, target: u64) -> Option<u32> {
        let is_paused = self.is_exhausted || self.failure.is_some();
        if self.ready() + u64::from(self.allocating) >= target || is_paused {
            return None;
        }
        // One that may have space first: reserving it costs nothing then.
        let segment = self.unknown.pop_front().or_else(|| self.unallocated.pop_front())?;
        self.allocating += 1;
        Some(segment)
    }

    /// The file system has allocated a segment, or refused to. Only [`DiskError::Full`] means that
    /// it has no space.
    ///
    /// # Errors
    ///
    /// Returns another error if it is the last of [`MAX_FAILED_ALLOCATIONS`] in a row.
    pub(crate) fn allocated(&mut self, segment: u32, result: Result<(), DiskError>) -> Result<(), DiskError> {
        self.allocating -= 1;
        let Err(error) = result else {
            (self.refused, self.failed_allocations) = (0, 0);
            self.ready.push_back(segment);
            return Ok(());
        };
        if error == DiskError::Full {
            // Another segment may still have its space from before a restart: it is tried next, and
            // at once. A pause follows when each was refused.
            self.unallocated.push_back(segment);
            (self.refused, self.failed_allocations) = (self.refused + 1, 0);
            self.is_exhausted = self.refused >= self.without_space();
        } else {
            self.unallocated.push_front(segment);
            self.failed_allocations += u32::from(self.failure.replace(error.clone()).is_none());
        }
        if self.failed_allocations < MAX_FAILED_ALLOCATIONS { Ok(()) } else { Err(error) }
    }

    /// True while an allocation is in flight or may be started.
    pub(crate) fn may_grow(&self) -> bool {
        // A segment whose space is being released can be allocated again.
        let is_in_flight = self.allocating > 0 || self.discards.in_flight() > 0;
        is_in_flight || (self.without_space() > 0 && !self.is_exhausted)
    }

    /// True if [`Pool::may_grow`], unless each segment was refused since the last success. Retries
    /// have no end, so a request must not wait for them alone.
    pub(crate) fn is_growth_expected(&self) -> bool {
        self.may_grow() && self.refused < self.without_space()
    }

    /// True if fewer than `target` are ready and the file system has no space for more.
    pub(crate) fn is_exhausted_below(&self, target: u64) -> bool {
        self.refused > 0 && self.ready() < target
    }

    /// Returns why the last allocation failed, unless the file system was full or allocations may
    /// be tried again.
    pub(crate) fn allocation_failure(&self) -> Option<&DiskError> {
        self.failure.as_ref()
    }

    /// True if an allocation may be started now.
    pub(crate) fn may_allocate(&self) -> bool {
        let has_segments = !self.unallocated.is_empty() || !self.unknown.is_empty();
        has_segments && !self.is_exhausted && self.failure.is_none()
    }

    /// Allows allocations again after one failed.
    pub(crate) fn retry_allocation(&mut self) {
        (self.is_exhausted, self.failure) = (false, None);
    }

    /// Returns the most free sectors of an open segment of a kind, as of its last chunk. `filled`
    /// are the sectors that a newly filled segment takes. `None` if none is open.
    pub(crate) fn open_room(&self, kind: Kind, filled: u32) -> Option<u32> {
        let open = self.segments.iter().filter(|segment| segment.phase == Phase::Open && segment.kind == kind);
        open.map(|segment| filled.saturating_sub(segment.sectors)).max()
    }

    /// Returns the best sealed segment of a kind to clean, among those with at most `most` live
    /// sectors that `is_left_out` does not name.
    ///
    /// The benefit of cleaning relative to its cost is (1 - u) / (1 + u) for a live part of u. It
    /// is weighted with the age, because young segments lose more data by themselves (Rosenblum and
    /// Ousterhout, 1992).
    ///
    /// `None` if moving all such segments together would not free one, because that would only move
    /// the same bytes again and again. `filled` are the sectors that a newly filled segment takes,
    /// and `room` those for moved content that need no other segment.
    pub(crate) fn victim(
        &self,
        kind: Kind,
        most: u32,
        (filled, room): (u32, u32),
        is_left_out: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (mut best, mut live, mut victims) = (None::<(u32, u64)>, 0u64, 0u64);
        for (index, segment) in self.segments.iter().enumerate() {
            let is_eligible = segment.phase == Phase::Sealed
                && segment.kind == kind
                && (1..=most).contains(&segment.live)
                && !is_left_out(index as u32);
            if is_eligible {
                victims += 1;
                live += u64::from(segment.live);
                let age = self.next_usage.saturating_sub(segment.usage).min(1 << 20);
                let (dead, whole) = (u64::from(filled.saturating_sub(segment.live)), u64::from(filled + segment.live));
                let score = ((dead * age) << 20) / whole;
                if best.is_none_or(|(_, most)| score > most) {
                    best = Some((index as u32, score));
                }
            }
        }
        let freeable = victims.saturating_sub(1) * u64::from(filled) + u64::from(room);
        best.filter(|_| live <= freeable).map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests;
