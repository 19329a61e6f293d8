//! The pool: which segments are free, open, sealed or dying, and how much of each is alive.

use blockmap::SlotPlace;
use ondisk::SegmentFill;
use std::collections::VecDeque;
use std::sync::Arc;

/// What a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Blocks of volumes.
    Data,
    /// Map pages, slot pages, directory pages, manifests.
    Metadata,
}

/// Where a segment is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Holds nothing that counts.
    Free,
    /// Is being filled.
    Open,
    /// Is full.
    Sealed,
    /// Holds nothing that counts any more, but the checkpoint on the drive, or a reader, may still look into it.
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
}

impl Segment {
    /// A segment that holds nothing.
    pub(crate) const FREE: Self =
        Self { kind: Kind::Data, phase: Phase::Free, live: 0, usage: 0, sectors: 0, summary: None };

    /// Sealed, and nothing references it.
    fn is_dead(&self) -> bool {
        self.phase == Phase::Sealed && self.live == 0
    }
}

/// All segments of the array.
pub(crate) struct Pool {
    segments: Vec<Segment>,
    /// Free, and known to have room on the file system.
    ready: VecDeque<u32>,
    /// Free, room unknown.
    unallocated: VecDeque<u32>,
    allocating: u32,
    /// Came with a checkpoint that does not count yet.
    grown: Vec<u32>,
    /// The file system refused the last allocation, and is not asked again for now.
    is_exhausted: bool,
    /// The file system refused the last allocation, whether it is asked again or not.
    was_refused: bool,
    /// Died before a checkpoint that is not complete yet.
    dying: Vec<u32>,
    /// Died, by pin: reusable once nobody holds the pin.
    pinned: VecDeque<(Arc<()>, Vec<u32>)>,
    pin: Arc<()>,
    next_usage: u64,
    live_sectors: u64,
    live_data_sectors: u64,
    /// Sealed segments that nothing references.
    dead: u64,
}

impl Pool {
    /// The pool as a manifest has it.
    pub(crate) fn restore(segments: Vec<Segment>, next_usage: u64) -> Self {
        let unallocated =
            (0..segments.len() as u32).filter(|segment| segments[*segment as usize].phase == Phase::Free).collect();
        let live = |only: Option<Kind>| {
            segments
                .iter()
                .filter(|segment| only.is_none_or(|kind| segment.kind == kind))
                .map(|segment| u64::from(segment.live))
                .sum()
        };
        let dead = segments.iter().filter(|segment| segment.is_dead()).count() as u64;
        let (live_sectors, live_data_sectors) = (live(None), live(Some(Kind::Data)));
        Self {
            segments,
            ready: VecDeque::new(),
            unallocated,
            allocating: 0,
            grown: Vec::new(),
            is_exhausted: false,
            was_refused: false,
            dying: Vec::new(),
            pinned: VecDeque::new(),
            pin: Arc::new(()),
            next_usage,
            live_sectors,
            live_data_sectors,
            dead,
        }
    }

    /// Takes in new segments, up to so many. They are not used yet.
    pub(crate) fn grow(&mut self, segments: u32) {
        self.grown.extend(self.segments.len() as u32..segments);
        self.segments.resize(segments as usize, Segment::FREE);
    }

    /// The checkpoint that new segments came with counts.
    pub(crate) fn use_growth(&mut self) {
        if !self.grown.is_empty() {
            self.unallocated.extend(self.grown.drain(..));
            // There may be room again where there was none.
            self.is_exhausted = false;
        }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(crate) fn next_usage(&self) -> u64 {
        self.next_usage
    }

    /// What keeps dead segments from being reused while a plan is alive.
    pub(crate) fn pin(&self) -> Arc<()> {
        self.pin.clone()
    }

    /// Free segments that may be opened at once.
    pub(crate) fn ready(&self) -> u64 {
        self.ready.len() as u64
    }

    /// Free segments, whether the file system has room for them or not.
    pub(crate) fn free(&self) -> u64 {
        (self.ready.len() + self.unallocated.len()) as u64 + u64::from(self.allocating)
    }

    /// Segments that will be free after the next checkpoint, or when readers have ended.
    pub(crate) fn coming(&self) -> u64 {
        (self.dying.len() + self.pinned.iter().map(|(_, segments)| segments.len()).sum::<usize>()) as u64
    }

    /// Segments that hold something.
    pub(crate) fn used(&self) -> u64 {
        self.segments.iter().filter(|segment| segment.live > 0 || segment.phase == Phase::Open).count() as u64
    }

    /// Segments that are free, with room on the file system, for whoever opens the array at the checkpoint whose instant is now.
    pub(crate) fn restartable(&self) -> u64 {
        let unallocated =
            if self.is_exhausted { 0 } else { self.unallocated.len() as u64 + u64::from(self.allocating) };
        self.ready() + unallocated + self.coming()
    }

    /// Sealed segments that nothing references, not counted in [`Pool::coming`] yet.
    pub(crate) fn dead(&self) -> u64 {
        self.dead
    }

    /// Changes a segment, and keeps count of the dead ones.
    fn change(&mut self, segment: u32, change: impl FnOnce(&mut Segment)) {
        let state = &mut self.segments[segment as usize];
        let was_dead = state.is_dead();
        change(state);
        self.dead = self.dead + u64::from(state.is_dead()) - u64::from(was_dead);
    }

    /// True for a segment in which metadata are stored.
    pub(crate) fn is_metadata(&self, segment: u32) -> bool {
        self.segments.get(segment as usize).is_some_and(|segment| segment.kind == Kind::Metadata)
    }

    /// Live sectors of all segments, and of those with data.
    pub(crate) fn live_sectors(&self) -> (u64, u64) {
        (self.live_sectors, self.live_data_sectors)
    }

    /// Takes a free segment into use. `None` when none is ready beyond `spare`.
    pub(crate) fn open(&mut self, kind: Kind, spare: u64) -> Option<SegmentFill> {
        if self.ready() <= spare {
            return None;
        }
        let segment = self.ready.pop_front()?;
        let usage = self.next_usage;
        self.next_usage += 1;
        self.segments[segment as usize] = Segment { kind, phase: Phase::Open, usage, ..Segment::FREE };
        Some(SegmentFill { segment, usage, sectors: 0, summary: None })
    }

    /// Notes how far an open segment is filled.
    pub(crate) fn set_fill(&mut self, fill: SegmentFill) {
        let segment = &mut self.segments[fill.segment as usize];
        assert!(segment.phase == Phase::Open && segment.usage == fill.usage);
        segment.sectors = fill.sectors;
        segment.summary = fill.summary;
    }

    /// Ends the filling of a segment.
    pub(crate) fn seal(&mut self, fill: SegmentFill) {
        self.set_fill(fill);
        self.change(fill.segment, |state| state.phase = Phase::Sealed);
    }

    /// Something of a segment is referenced from now on.
    pub(crate) fn alive(&mut self, segment: u32, sectors: u32) {
        let kind = self.segments[segment as usize].kind;
        self.change(segment, |state| state.live += sectors);
        self.live_sectors += u64::from(sectors);
        self.live_data_sectors += if kind == Kind::Data { u64::from(sectors) } else { 0 };
    }

    /// Something of a segment is not referenced any more.
    pub(crate) fn dead_sectors(&mut self, segment: u32, sectors: u32) {
        let kind = self.segments[segment as usize].kind;
        self.change(segment, |state| {
            assert!(state.live >= sectors, "segment {segment} loses more than it holds");
            state.live -= sectors;
        });
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

    /// At the instant of a checkpoint: sealed segments that hold nothing begin to die.
    pub(crate) fn mark_dying(&mut self) {
        for (index, segment) in self.segments.iter_mut().enumerate() {
            if segment.is_dead() {
                segment.phase = Phase::Dying;
                self.dying.push(index as u32);
            }
        }
        self.dead = 0;
    }

    /// The checkpoint is on the drive: what died before it waits for readers only.
    pub(crate) fn checkpointed(&mut self) {
        if !self.dying.is_empty() {
            let pin = std::mem::replace(&mut self.pin, Arc::new(()));
            self.pinned.push_back((pin, std::mem::take(&mut self.dying)));
        }
        self.reap();
    }

    /// Frees dead segments that no plan can name.
    pub(crate) fn reap(&mut self) {
        // A plan pins everything that died after it was made: so the oldest pin that is still held stops the rest.
        // `get_mut` sees what the readers did before they let go; a mere look at the count would not.
        while self.pinned.front_mut().is_some_and(|(pin, _)| Arc::get_mut(pin).is_some()) {
            let Some((_, segments)) = self.pinned.pop_front() else { return };
            for segment in segments {
                self.segments[segment as usize] = Segment::FREE;
                self.ready.push_back(segment);
            }
        }
    }

    /// A free segment to ask the file system for, while fewer than `target` are ready.
    pub(crate) fn allocate(&mut self, target: u64) -> Option<u32> {
        if self.ready() + u64::from(self.allocating) >= target || self.is_exhausted {
            return None;
        }
        let segment = self.unallocated.pop_front()?;
        self.allocating += 1;
        Some(segment)
    }

    /// The file system has answered.
    pub(crate) fn allocated(&mut self, segment: u32, has_room: bool) {
        self.allocating -= 1;
        self.was_refused = !has_room;
        if has_room {
            self.ready.push_back(segment);
        } else {
            self.unallocated.push_front(segment);
            self.is_exhausted = true;
        }
    }

    /// True while an answer of the file system is awaited, or may be asked for.
    pub(crate) fn may_grow(&self) -> bool {
        self.allocating > 0 || (!self.unallocated.is_empty() && !self.is_exhausted)
    }

    /// True when fewer than `target` are ready and the file system has no room for more.
    pub(crate) fn lacks_room_below(&self, target: u64) -> bool {
        self.was_refused && self.ready() < target
    }

    /// Asks the file system anew although it refused before.
    pub(crate) fn retry_allocation(&mut self) {
        self.is_exhausted = false;
    }

    /// The sealed segment of that kind that is best cleaned, those that `is_left_out` names aside, among those of which at most
    /// `most` sectors are alive. What cleaning gives for what it costs is (1 - u) / (1 + u) at a live part of u, and it lasts the
    /// longer, the older the segment is: what is young will lose more by itself (Rosenblum and Ousterhout, 1992).
    ///
    /// `None` where moving all such segments together would not free one: that would only move the same bytes round and round.
    /// `filled` are the sectors that a segment takes when it is filled anew.
    pub(crate) fn victim(&self, kind: Kind, most: u32, filled: u32, is_left_out: impl Fn(u32) -> bool) -> Option<u32> {
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
        let room = victims.saturating_sub(1) * u64::from(filled);
        best.filter(|_| live <= room).map(|(index, _)| index)
    }
}
