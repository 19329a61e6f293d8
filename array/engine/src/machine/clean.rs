//! The cleaner: makes free segments out of those that are mostly dead. Live data becomes dirty blocks again, and live pages
//! become changed pages, so that destage and the next checkpoint give them another place; nothing else knows of cleaning.

use super::core::Core;
use super::dirty::{ALL_SECTORS, Origin};
use super::io::{Io, Purpose};
use super::load::Waiter;
use super::pool::{Kind, Phase, Segment};
use super::unit::block;
use blockmap::{Absent, MAX_GROUP_BLOCKS, Ref, RefTarget, SlotPlace};
use bytes::Bytes;
use ondisk::{SECTOR_BYTES, SummaryEntry, SummaryId, SummaryItem, decode_summary};
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use types::BLOCK_BYTES;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// A segment is being read.
    Reading,
    /// What is alive in it is taken up.
    TakingUp,
    /// What was taken up has to get a place before another is chosen.
    Moving,
}

/// Segments that are emptied before a checkpoint is taken for them, while more can be.
const EMPTIED_PER_CHECKPOINT: u64 = 3;

/// Units that are taken up at a time.
const UNITS_PER_TICK: usize = 64;

/// A segment that was read.
struct Victim {
    segment: u32,
    /// Pages of the slot table that cannot be read: what they would tell of is not moved.
    unreadable: BTreeSet<u32>,
    bytes: Bytes,
    /// What was alive in it when it was read, by sector.
    entries: VecDeque<SummaryEntry>,
    /// Its name among the origins of moved blocks.
    origin: u64,
    /// Position of the next block that is taken up: neighbours may be compressed together.
    position: u64,
}

/// What the cleaner is at.
#[derive(Default)]
pub(crate) struct Cleaner {
    state: State,
    /// Segments out of which not everything could be moved. They are tried again after a checkpoint.
    given_up: BTreeSet<u32>,
    /// Pages were marked as changed; the next checkpoint moves them.
    has_marked_pages: bool,
    victim: Option<Victim>,
    /// Pages of the slot table that the cleaner waits for.
    loads: usize,
    segments_cleaned: u64,
    /// Segments of the reserve that stay ready while the present victim is moved.
    kept: u64,
    /// The segment of data that is being moved, which use of it, and the sectors that what was moved takes so far.
    moving: Option<(u32, u64, u64)>,
    /// Segments in use, and what hosts had stored so far, when the first segment of metadata since the last checkpoint was chosen.
    before: Option<(u64, u64)>,
    /// What cleaning has given of late: segments of data, and of metadata.
    data: Record,
    metadata: Record,
    /// Live sectors when no victim was found, and whether a host waited for room. It is looked for again after a checkpoint, when there are
    /// fewer by an eighth of a segment, and for the first host that waits: the look goes over all segments.
    nothing_at: Option<(u64, bool)>,
}

/// What cleaning segments of one kind has given of late.
#[derive(Default)]
struct Record {
    /// How often in a row it has given nothing: a segment of data, or the metadata of a checkpoint.
    fruitless: u32,
    /// Live sectors, and segments that hosts had filled, when it was found to be fruitless. It is tried again when a segment less is alive,
    /// or when hosts have filled another: then the dead lie elsewhere.
    fruitless_at: Option<(u64, u64)>,
}

impl Record {
    fn judged(&mut self, has_gained: bool, live: u64, stored: u64) {
        self.fruitless = if has_gained { 0 } else { self.fruitless + 1 };
        self.fruitless_at = (self.fruitless >= MOST_FRUITLESS).then_some((live, stored));
    }
}

/// After cleaning so often without a gain, it rests: moving pages changes slots, whose pages move too, and nearly full
/// segments can go round and round for ever.
const MOST_FRUITLESS: u32 = 3;

impl Cleaner {
    pub(crate) fn is_busy(&self) -> bool {
        self.state != State::Idle || self.has_marked_pages
    }

    pub(crate) fn is_moving(&self) -> bool {
        self.state == State::Moving
    }

    /// A page of the slot table that was asked for is there, or cannot be read.
    pub(crate) fn loaded(&mut self, absent: Absent, is_sound: bool) {
        self.loads -= 1;
        if let (Absent::Slots(page), Some(victim), false) = (absent, &mut self.victim, is_sound) {
            victim.unreadable.insert(page);
        }
    }

    pub(crate) fn is_waiting_for_checkpoint(&self) -> bool {
        self.has_marked_pages && self.state == State::Idle
    }

    /// What was moved of a segment takes so many sectors now.
    pub(crate) fn moved(&mut self, sectors: u32) {
        if let Some((_, _, moved)) = &mut self.moving {
            *moved += u64::from(sectors);
        }
    }

    /// A checkpoint has come about, after which so many segments are in use and so many sectors alive. `stored` tells in segments what
    /// hosts have stored since the array was opened: what they have used up meanwhile is no fault of the cleaner.
    pub(crate) fn checkpointed(&mut self, used: u64, live: u64, stored: u64) {
        if let Some((used_before, stored_before)) = self.before.take() {
            self.metadata.judged(used < used_before + (stored - stored_before), live, stored);
        }
        self.has_marked_pages = false;
        self.nothing_at = None;
        self.given_up.clear();
        if self.state == State::Moving {
            self.state = State::Idle;
        }
    }
}

impl Core {
    /// True when a segment should be cleaned now.
    pub(crate) fn is_cleaning_due(&self) -> bool {
        match self.cleaner.state {
            State::Reading => false,
            State::TakingUp => self.cleaner.loads == 0 && self.dirty.unplaced_moved() < self.most_moved(),
            State::Moving => self.dirty.unplaced_moved() == 0,
            // Where hosts' blocks still need the room, they go first.
            State::Idle => {
                !self.cleaner.has_marked_pages
                    && self.is_short_of_space()
                    && self.may_have_victim(self.pressure.space)
                    && (self.may_move() || self.dirty.unplaced() == 0)
            }
        }
    }

    /// True when a checkpoint should be taken so that emptied segments can be used again. Several share one: it ends in flushes, and pages of
    /// metadata that all of them change are stored once.
    pub(crate) fn is_reclaim_due(&self) -> bool {
        let goes_on = self.may_move() && (self.cleaner.state != State::Idle || self.is_cleaning_due());
        let dead = self.pool.dead();
        dead > 0 && self.is_short_of_space() && (dead >= EMPTIED_PER_CHECKPOINT || !goes_on)
    }

    /// Segments that hosts have filled since the array was opened, rounded up.
    pub(crate) fn stored_segments(&self) -> u64 {
        self.data_stored.div_ceil(u64::from(self.filled_sectors(Kind::Data)) * SECTOR_BYTES)
    }

    /// True when the cleaner has moved nothing since the newest checkpoint, and moves nothing now.
    pub fn is_settled(&self) -> bool {
        !self.cleaner.is_busy() && self.pool.dead() == 0 && self.dirty.unplaced() == 0
    }

    /// How many segments have been cleaned since the array was opened.
    pub fn segments_cleaned(&self) -> u64 {
        self.cleaner.segments_cleaned
    }

    /// False when a look for a victim has found none, and little has changed since.
    pub(crate) fn may_have_victim(&self, is_awaited: bool) -> bool {
        let (live, _) = self.pool.live_sectors();
        let change = u64::from(self.geometry.segment_sectors() / 8);
        self.cleaner.nothing_at.is_none_or(|(then, was_awaited)| live + change < then || (is_awaited && !was_awaited))
    }

    /// There is more room than there was, or some time has passed: what could not be moved may be movable now.
    pub(crate) fn retry_cleaning(&mut self) {
        self.cleaner.nothing_at = None;
    }

    /// Blocks that the cleaner holds in memory, about: hosts' blocks need the room too.
    fn most_moved(&self) -> u64 {
        // Rounded up, so that destage is due where taking up pauses.
        (self.options.dirty_limit / 4).div_ceil(BLOCK_BYTES).max(MAX_GROUP_BLOCKS as u64)
    }

    /// Moving takes room before it gives any: a segment, and another where hosts' blocks come between.
    fn may_move(&self) -> bool {
        self.pool.ready() > self.kept_from_cleaner() + self.promised_segments() + 1
    }

    /// Segments that must stay ready where what is being moved opens another.
    pub(crate) fn spare_for_moved(&self) -> u64 {
        (self.cleaner.kept + self.promised_segments()).saturating_sub(1)
    }

    fn next_victim(&self) -> Option<u32> {
        let data = if self.may_move() { self.victim(Kind::Data) } else { None };
        let dead = |victim: &u32| {
            let segment = self.pool.segments()[*victim as usize];
            self.filled_sectors(segment.kind).saturating_sub(segment.live)
        };
        [data, self.victim(Kind::Metadata)].into_iter().flatten().max_by_key(dead)
    }

    /// The segment of that kind that is best cleaned, if that pays.
    pub(crate) fn victim(&self, kind: Kind) -> Option<u32> {
        let (live, _) = self.pool.live_sectors();
        let segment = u64::from(self.geometry.segment_sectors());
        let filled = self.filled_sectors(kind);
        let is_as_then = |(then, stored)| live + segment > then && self.stored_segments() <= stored + 1;
        let is_fruitless = |record: &Record| record.fruitless_at.is_some_and(is_as_then);
        let most = match kind {
            Kind::Data if is_fruitless(&self.cleaner.data) => return None,
            // Pages that move make pages of the slot table move, too: that is still less than a segment of which so little is left.
            Kind::Metadata if is_fruitless(&self.cleaner.metadata) => filled / 2,
            _ => self.most_live(kind),
        };
        self.pool.victim(kind, most, filled, |segment| self.cleaner.given_up.contains(&segment))
    }

    pub(crate) fn clean(&mut self) {
        if !self.is_cleaning_due() || self.checkpoint.is_draining() {
            return;
        }
        if self.cleaner.state == State::TakingUp {
            return self.take_up();
        }
        self.judge_victim();
        self.cleaner.state = State::Idle;
        if !self.is_short_of_space() {
            return;
        }
        let Some(victim) = self.next_victim() else {
            self.cleaner.nothing_at = Some((self.pool.live_sectors().0, self.pressure.space));
            return;
        };
        let sectors = self.pool.segments()[victim as usize].sectors;
        self.cleaner.state = State::Reading;
        self.cleaner.kept = self.kept_from_cleaner();
        let Segment { kind, usage, .. } = self.pool.segments()[victim as usize];
        match kind {
            Kind::Data => self.cleaner.moving = Some((victim, usage, 0)),
            Kind::Metadata => {
                let before = (self.pool.used(), self.stored_segments());
                self.cleaner.before.get_or_insert(before);
            }
        }
        let offset = self.geometry.segment_start(victim);
        self.start_io(
            Io::Read { offset, bytes: sectors as usize * SECTOR_BYTES as usize },
            Purpose::Victim { segment: victim },
        );
    }

    /// What was taken up of a segment of data has its places, or stays: was it worth it? Repacked, a few blocks may take as much as
    /// the whole segment did.
    pub(crate) fn judge_victim(&mut self) {
        if self.cleaner.state != State::Moving || self.dirty.unplaced_moved() > 0 {
            return;
        }
        let Some((victim, usage, moved)) = self.cleaner.moving.take() else { return };
        let is_empty =
            self.pool.segments().get(victim as usize).is_none_or(|segment| segment.usage != usage || segment.live == 0);
        let has_gained = is_empty && moved <= u64::from(self.most_gaining());
        self.cleaner.data.judged(has_gained, self.pool.live_sectors().0, self.stored_segments());
    }

    pub(crate) fn victim_read(&mut self, victim: u32, bytes: Option<Bytes>) {
        self.cleaner.state = State::Moving;
        self.cleaner.segments_cleaned += 1;
        // Whatever stays in it must not have it chosen again at once.
        self.cleaner.given_up.insert(victim);
        let entries = bytes.as_ref().and_then(|bytes| self.live_entries(victim, bytes));
        if let (Some(bytes), Some(entries)) = (bytes, entries) {
            self.cleaner.state = State::TakingUp;
            let origin = self.begin_write();
            let unreadable = BTreeSet::new();
            self.cleaner.victim = Some(Victim { segment: victim, unreadable, bytes, entries, origin, position: 0 });
        }
    }

    /// Takes up what is alive in the victim, a bounded slice of it.
    fn take_up(&mut self) {
        let Some(mut victim) = self.cleaner.victim.take() else { return };
        if self.asks_for_slots(&victim) {
            self.cleaner.victim = Some(victim);
            return;
        }
        for _ in 0..UNITS_PER_TICK {
            if self.dirty.unplaced_moved() >= self.most_moved() {
                break;
            }
            let Some(first) = victim.entries.pop_front() else {
                self.cleaner.state = State::Moving;
                return;
            };
            let mut unit: SmallVec<[SummaryEntry; MAX_GROUP_BLOCKS]> = SmallVec::from_slice(&[first]);
            while victim.entries.front().is_some_and(|next| next.sector == first.sector) {
                unit.extend(victim.entries.pop_front());
            }
            self.take_up_unit(&mut victim, &unit);
        }
        self.cleaner.victim = Some(victim);
    }

    /// Asks for the slots of the next units that are not in memory and may be had. True when there are any.
    fn asks_for_slots(&mut self, victim: &Victim) -> bool {
        let next = victim.entries.iter().take(UNITS_PER_TICK * MAX_GROUP_BLOCKS);
        let absent = next.filter_map(|entry| self.slots_of(entry)).map(|(page, _)| page);
        let absent: BTreeSet<u32> = absent.filter(|page| !victim.unreadable.contains(page)).collect();
        self.cleaner.loads = absent.len();
        absent.iter().for_each(|page| self.load(Absent::Slots(*page), Waiter::Cleaner));
        !absent.is_empty()
    }

    /// Takes up what is alive of a unit. What is left of one that several blocks made is compressed with what is left of the next: alone,
    /// a few blocks may take as much as all of them did.
    fn take_up_unit(&mut self, victim: &mut Victim, entries: &[SummaryEntry]) {
        let Some(first) = entries.first() else { return };
        let from = usize::from(first.sector) * SECTOR_BYTES as usize;
        let to = from + usize::from(first.sectors) * SECTOR_BYTES as usize;
        let Some(stored) = victim.bytes.get(from..to) else { return };
        if crc_fast::crc32_iscsi(stored) != first.crc {
            return;
        }
        let stored = victim.bytes.slice(from..to);
        let mut blocks = None;
        // A block that stands alone goes on standing alone: it is read alone.
        let gap = u64::from(first.blocks == 1);
        for entry in entries {
            if self.is_live(victim.segment, entry) != Some(true) {
                continue;
            }
            match entry.item {
                SummaryItem::Slot(bits) => match Ref::from_bits(bits).map(Ref::target) {
                    Some(RefTarget::Data(name)) => {
                        let is_packed = reduction::is_packed(usize::from(entry.blocks), usize::from(entry.sectors));
                        let whole = blocks.get_or_insert_with(|| match is_packed {
                            true => reduction::unpack(&stored, usize::from(entry.blocks)).ok(),
                            // Copied, so that one block does not keep a segment in memory.
                            false => Some(Bytes::copy_from_slice(&stored)),
                        });
                        let Some(whole) = whole else { return };
                        victim.position += 1 + gap;
                        let origin = Origin::Moved { victim: victim.origin, position: victim.position };
                        victim.position += gap;
                        if self.dirty.get(name).is_none() {
                            // It stays in memory until the block has its new place.
                            self.map.slots.touch_slot(name);
                            self.dirty.insert(name, block(whole, entry.index), ALL_SECTORS, None, origin);
                        }
                    }
                    Some(RefTarget::Page(name)) => {
                        self.cleaner.has_marked_pages |= self.renew_map_page(name, Some(&stored));
                    }
                    _ => {}
                },
                SummaryItem::SlotPage(page) => {
                    self.cleaner.has_marked_pages |= self.renew_slot_page(page as u32, Some(&stored));
                }
                SummaryItem::DirectoryPage(page) => {
                    self.touch_directory(page as usize);
                    self.cleaner.has_marked_pages = true;
                }
            }
        }
    }

    /// What the summaries of a segment list and is still stored there.
    fn live_entries(&self, victim: u32, bytes: &Bytes) -> Option<VecDeque<SummaryEntry>> {
        let segment = self.pool.segments()[victim as usize];
        if segment.phase != Phase::Sealed {
            return None;
        }
        let id = SummaryId { array: self.array, segment: victim, usage: segment.usage };
        let mut live = Vec::new();
        let mut next = segment.summary;
        while let Some(sector) = next {
            let from = sector as usize * SECTOR_BYTES as usize;
            let (entries, previous) = decode_summary(id, bytes.get(from..)?)?;
            live.extend(entries.into_iter().filter(|entry| self.is_live(victim, entry) != Some(false)));
            // Each points further back: a chain that does not would never end.
            next = previous.filter(|previous| *previous < sector);
        }
        // Chunks come from the last one back; within a unit, blocks stand in order.
        live.sort_by_key(|entry: &SummaryEntry| (entry.sector, entry.index));
        Some(live.into())
    }

    /// Whether what an entry lists is stored there. `None` where the slot that says so is not in memory.
    pub(crate) fn is_live(&self, segment: u32, entry: &SummaryEntry) -> Option<bool> {
        let SummaryEntry { sector, sectors, index, blocks, .. } = *entry;
        let place = SlotPlace { segment, sector, sectors, index, blocks };
        let is_located = |located: Option<&super::located::Located>| {
            located.is_some_and(|at| {
                (at.segment, at.sector) == (segment, u32::from(entry.sector)) && at.sectors > 0 && at.crc == entry.crc
            })
        };
        match entry.item {
            SummaryItem::Slot(bits) => match Ref::from_bits(bits).map(Ref::target) {
                Some(RefTarget::Data(name) | RefTarget::Page(name)) => {
                    // The checksum too: a use of the segment that a crash has cut off may have had the same number, and put
                    // another unit at the same place.
                    let is_same = |slot: blockmap::Slot| slot.place == Some(place) && slot.crc == entry.crc;
                    self.map.slots.is_loaded(name.slot).then(|| self.map.slots.get(name).is_some_and(is_same))
                }
                _ => Some(false),
            },
            SummaryItem::SlotPage(page) => Some(is_located(self.slot_directory.get(page as usize))),
            SummaryItem::DirectoryPage(page) => Some(is_located(self.directory_pages.get(page as usize))),
        }
    }
}
