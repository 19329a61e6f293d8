//! Cleaning: makes free segments out of mostly dead ones. Live data becomes dirty blocks again and
//! live pages become changed pages, so that destage and the next checkpoint store them elsewhere.

use super::{Space, View, filled_sectors};
use crate::machine::checkpointer::Checkpointer;
use crate::machine::cleaner::{CleanerPhase, CleaningRecord, Relocation, Victim};
use crate::machine::dirty::{ALL_SECTORS, DirtyBlocks, Origin};
use crate::machine::dispatcher::{Dispatcher, IoPurpose};
use crate::machine::group::block;
use crate::machine::io::{Io, Urgency};
use crate::machine::page_loader::{PageLoader, PageWaiter};
use crate::machine::pool::{Kind, Phase, Segment};
use crate::machine::state::ArrayState;
use blockmap::{Absent, MAX_GROUP_BLOCKS, Ref, RefTarget};
use bytes::Bytes;
use ondisk::{ArrayGeometry, PatchPart, SECTOR_BYTES, SummaryEntry, SummaryId, SummaryItem, decode_summary};
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use types::BLOCK_BYTES;

/// Segments that are emptied at least before a checkpoint is taken for them, while more can be.
const MIN_EMPTIED_PER_CHECKPOINT: u64 = 3;
/// Compression groups that one tick relocates at most.
const GROUPS_PER_TICK: usize = 64;

/// The parts of the core that the cleaner works with.
pub(crate) struct CleanContext<'a> {
    pub(crate) state: &'a mut ArrayState,
    pub(crate) checkpointer: &'a mut Checkpointer,
    pub(crate) loader: &'a mut PageLoader,
    pub(crate) dirty: &'a mut DirtyBlocks,
    pub(crate) dispatcher: &'a mut Dispatcher,
}

impl CleanContext<'_> {
    pub(super) fn view(&self) -> View<'_> {
        View { state: self.state, checkpointer: self.checkpointer, dirty: self.dirty }
    }
}

impl Space {
    /// True if the cleaner has work.
    pub(crate) fn is_cleaning_due(&self, view: View<'_>) -> bool {
        let unplaced = view.dirty.unplaced_moved();
        match self.cleaner.phase {
            CleanerPhase::Reading => false,
            CleanerPhase::Relocating => {
                let may_continue = unplaced < max_moved(view.state) && !self.is_recompression_pausing();
                self.cleaner.loads == 0 && (may_continue || self.must_end_recompression(view))
            }
            CleanerPhase::Placing => unplaced == 0,
            // Blocks of hosts that still need the space go first.
            CleanerPhase::Idle => {
                let has_work = || {
                    self.is_short_of_space(view)
                        && (self.cleaner.is_retry_due
                            || self.may_have_victim(self.backpressure.space, &view.state.geometry))
                        && (self.may_move(view) || view.dirty.unplaced() == 0)
                };
                !self.cleaner.has_marked_pages && (has_work() || self.is_recompression_due(view))
            }
        }
    }

    /// True if the cleaner can relocate blocks now.
    pub(crate) fn is_relocation_due(&self, view: View<'_>) -> bool {
        let is_relocating = self.cleaner.phase == CleanerPhase::Relocating && !view.checkpointer.is_draining();
        is_relocating && self.is_cleaning_due(view)
    }

    /// True if a checkpoint should be taken so that emptied segments become free. Several segments
    /// share one checkpoint, because it ends in flushes. They are few, one in 64 of the ready ones,
    /// because hosts wait for them in a full pool.
    pub(super) fn is_reclaim_due(&self, view: View<'_>) -> bool {
        let continues = self.may_move(view) && (self.cleaner.phase != CleanerPhase::Idle || self.is_cleaning_due(view));
        self.pool.dead() > 0 && self.is_short_of_space(view) && (self.is_enough_empty(self.pool.dead()) || !continues)
    }

    /// True if this number of empty segments is worth a checkpoint.
    pub(super) fn is_enough_empty(&self, segments: u64) -> bool {
        segments >= (self.pool.ready() / 64).max(MIN_EMPTIED_PER_CHECKPOINT)
    }

    /// False if a search found no victim and little has changed since.
    pub(super) fn may_have_victim(&self, is_awaited: bool, geometry: &ArrayGeometry) -> bool {
        let (live, _) = self.pool.live_sectors();
        let change = u64::from(geometry.segment_sectors() / 8);
        self.cleaner.nothing_at.is_none_or(|(then, was_awaited)| live + change < then || (is_awaited && !was_awaited))
    }

    /// Allows a new search for a victim, because more space is free than before.
    pub(super) fn restart_cleaning(&mut self) {
        self.cleaner.nothing_at = None;
    }

    /// Repeats a search that found no victim, because time has passed. Such searches have no end,
    /// so a request must not wait for them.
    pub(crate) fn retry_cleaning(&mut self) {
        self.cleaner.is_retry_due = self.cleaner.nothing_at.is_some();
    }

    /// True if there is space to relocate a victim. Relocating takes space before it frees any:
    /// one segment, and another where blocks of hosts come in between.
    pub(crate) fn may_move(&self, view: View<'_>) -> bool {
        self.pool.ready() > self.kept_from_cleaner(view) + self.promised_segments(view) + 1
    }

    /// Returns the segments of the reserve that the cleaner leaves when it chooses a victim: those
    /// of one checkpoint, and a quarter of the others, which are for requests that free space.
    /// Emptied segments become free with the next checkpoint.
    fn kept_from_cleaner(&self, view: View<'_>) -> u64 {
        let checkpoint = self.checkpoint_segments(view.state, view.checkpointer);
        let others = self.reserve(view.state, view.checkpointer).saturating_sub(checkpoint);
        checkpoint + (others / 4).max(2)
    }

    /// True if the pool is too small for the reserve of three checkpoints. There, segments that
    /// crashes sealed early can use up the reserve, and nothing else would free them.
    fn is_reserve_short(&self, view: View<'_>) -> bool {
        let checkpoint = self.checkpoint_segments(view.state, view.checkpointer);
        self.reserve(view.state, view.checkpointer) <= 3 * checkpoint
    }

    /// True if a pool with a short reserve has space to relocate victims that are half dead: one
    /// segment beside those of a checkpoint, or room in an open one.
    fn may_move_remains(&self, view: View<'_>) -> bool {
        let needed = self.checkpoint_segments(view.state, view.checkpointer) + self.promised_segments(view);
        let (ready, filled) = (self.pool.ready(), filled_sectors(&view.state.geometry));
        let has_room = || self.pool.open_room(Kind::Data, filled).is_some_and(|room| room >= filled / 2);
        self.is_reserve_short(view) && (ready > needed || (ready == needed && has_room()))
    }

    /// Returns the segments that must stay ready when relocated blocks open another one.
    pub(crate) fn spare_for_moved(&self, view: View<'_>) -> u64 {
        (self.cleaner.kept + self.promised_segments(view)).saturating_sub(1)
    }

    /// Returns the live sectors above which cleaning a segment does not pay. While a host waits for
    /// space, data is moved for hardly any gain, so that a pool can be filled to the end. Metadata
    /// is moved only for a large gain, because every checkpoint makes more of it.
    fn max_live(&self, kind: Kind, geometry: &ArrayGeometry) -> u32 {
        match kind {
            Kind::Data if self.backpressure.space => max_live_with_gain(geometry),
            Kind::Data => filled_sectors(geometry) / 16 * 15,
            Kind::Metadata | Kind::Mirror => filled_sectors(geometry) / 4 * 3,
        }
    }

    /// Returns the best segment to clean, of either kind. With little space, one of metadata comes
    /// first, because cleaning it takes no segment before it frees two.
    fn next_victim(&self, view: View<'_>) -> Option<u32> {
        let geometry = &view.state.geometry;
        let filled = filled_sectors(geometry);
        let room = match self.is_reserve_short(view) {
            // The next checkpoint opens one if none is open. Half of it is for other pages.
            true => self.pool.open_room(Kind::Metadata, filled).unwrap_or(filled) / 2,
            false => 0,
        };
        let metadata = self.victim(Kind::Metadata, self.max_live(Kind::Metadata, geometry), room, geometry);
        if !self.may_move(view) {
            let remains = || self.victim(Kind::Data, filled / 2, 0, geometry);
            return metadata.or_else(|| if self.may_move_remains(view) { remains() } else { None });
        }
        let data = self.victim(Kind::Data, self.max_live(Kind::Data, geometry), 0, geometry);
        let dead = |victim: &u32| {
            let segment = self.pool.segments()[*victim as usize];
            segment.kind.copies() * u64::from(filled.saturating_sub(segment.live))
        };
        [data, metadata].into_iter().flatten().max_by_key(dead)
    }

    /// Returns the best segment of a kind to clean with at most `most` live sectors, if that pays.
    /// Moved content finds `room` sectors without a new segment.
    fn victim(&self, kind: Kind, most: u32, room: u32, geometry: &ArrayGeometry) -> Option<u32> {
        let (live, _) = self.pool.live_sectors();
        let segment = u64::from(geometry.segment_sectors());
        let filled = filled_sectors(geometry);
        let is_unchanged = |(then, stored)| live + segment > then && self.stored_segments(geometry) <= stored + 1;
        let is_fruitless = |record: &CleaningRecord| record.fruitless_at.is_some_and(is_unchanged);
        let most = match kind {
            Kind::Data if is_fruitless(&self.cleaner.data) => return None,
            Kind::Metadata if is_fruitless(&self.cleaner.metadata) && self.cleaner.metadata.is_hopeless() => {
                return None;
            }
            // Pages that move change pages of the slot table. Below half, both together are still
            // less than the segment that becomes free.
            Kind::Metadata if is_fruitless(&self.cleaner.metadata) => filled / 2,
            _ => most,
        };
        self.pool.victim(kind, most, (filled, room), |segment| self.cleaner.given_up.contains(&segment))
    }

    /// Runs the cleaner, if it has work and no checkpoint drains.
    ///
    /// # Errors
    ///
    /// A page that the cleaner needs is stored nowhere: the core must stop.
    pub(crate) fn clean(&mut self, cx: &mut CleanContext<'_>) -> Result<(), &'static str> {
        if !self.is_cleaning_due(cx.view()) || cx.checkpointer.is_draining() {
            return Ok(());
        }
        if self.cleaner.phase == CleanerPhase::Relocating {
            if self.must_end_recompression(cx.view()) {
                self.end_recompression(cx.dirty);
                return Ok(());
            }
            return self.relocate(cx);
        }
        self.assess_relocation(&cx.state.geometry, cx.dirty);
        self.cleaner.phase = CleanerPhase::Idle;
        if !self.is_short_of_space(cx.view()) {
            self.recompress(cx);
            return Ok(());
        }
        let is_retry = std::mem::take(&mut self.cleaner.is_retry_due);
        let Some(victim) = self.next_victim(cx.view()) else {
            let was_awaited = is_retry && self.cleaner.nothing_at.is_some_and(|(_, was_awaited)| was_awaited);
            self.cleaner.nothing_at = Some((self.pool.live_sectors().0, was_awaited || self.backpressure.space));
            return Ok(());
        };
        self.cleaner.nothing_at = None;
        self.cleaner.kept = if self.may_move(cx.view()) {
            self.kept_from_cleaner(cx.view())
        } else {
            self.checkpoint_segments(cx.state, cx.checkpointer) + 1
        };
        let Segment { kind, usage, .. } = self.pool.segments()[victim as usize];
        match kind {
            Kind::Data => {
                self.cleaner.relocation = Some(Relocation { segment: victim, usage, moved: 0, recompressed: None });
            }
            Kind::Metadata | Kind::Mirror => {
                let before = (self.pool.used(), self.stored_segments(&cx.state.geometry));
                self.cleaner.before.get_or_insert(before);
            }
        }
        self.read_victim(victim, cx);
        Ok(())
    }

    /// Reads a segment to relocate its content.
    pub(super) fn read_victim(&mut self, victim: u32, cx: &mut CleanContext<'_>) {
        self.cleaner.phase = CleanerPhase::Reading;
        let offset = cx.state.geometry.segment_start(victim);
        let bytes = self.pool.segments()[victim as usize].sectors as usize * SECTOR_BYTES as usize;
        let io = Io::Read { offset, bytes, urgency: Urgency::Background };
        cx.dispatcher.start_io(io, IoPurpose::Victim { segment: victim });
    }

    /// Once the relocated blocks of a data segment have places, notes whether cleaning it gained
    /// space. Compressed in other groups, a few blocks may take as much as the whole segment did.
    pub(super) fn assess_relocation(&mut self, geometry: &ArrayGeometry, dirty: &DirtyBlocks) {
        if self.cleaner.phase != CleanerPhase::Placing || dirty.unplaced_moved() > 0 {
            return;
        }
        let Some(Relocation { segment, usage, moved, recompressed }) = self.cleaner.relocation.take() else { return };
        let now = self.pool.segments().get(segment as usize);
        let live = now.filter(|now| now.usage == usage).map_or(0, |now| now.live);
        let is_empty = live == 0;
        if let Some(before) = recompressed {
            return self.recompressor.recompressed(u64::from(before.saturating_sub(live)), moved, is_empty);
        }
        let has_gained = is_empty && moved <= u64::from(max_live_with_gain(geometry));
        let stored = self.stored_segments(geometry);
        self.cleaner.data.add(has_gained, self.pool.live_sectors().0, stored);
    }

    /// The victim was read, or could not be (`None`).
    pub(crate) fn victim_read(&mut self, victim: u32, bytes: Option<Bytes>, cx: &mut CleanContext<'_>) {
        self.cleaner.phase = CleanerPhase::Placing;
        self.cleaner.segments_cleaned += u64::from(!self.is_recompressing());
        // Blocks that stay in it must not make it the next victim at once.
        self.cleaner.given_up.insert(victim);
        let entries = bytes.as_ref().and_then(|bytes| self.live_entries(victim, bytes, cx));
        if let (Some(bytes), Some(entries)) = (bytes, entries) {
            self.cleaner.has_marked_pages |= move_parts(victim, &bytes, cx);
            self.cleaner.phase = CleanerPhase::Relocating;
            let origin = cx.dirty.begin_write();
            let unreadable = BTreeSet::new();
            self.cleaner.victim = Some(Victim { segment: victim, unreadable, bytes, entries, origin, position: 0 });
        }
    }

    /// Relocates live entries of the victim, a bounded number.
    fn relocate(&mut self, cx: &mut CleanContext<'_>) -> Result<(), &'static str> {
        let Some(mut victim) = self.cleaner.victim.take() else { return Ok(()) };
        let absent = absent_slot_pages(&victim, cx);
        self.cleaner.loads = absent.len();
        if !absent.is_empty() {
            self.cleaner.victim = Some(victim);
            for page in absent {
                let page = Absent::Slots(page);
                cx.loader.load(page, PageWaiter::Cleaner, cx.state, cx.checkpointer, cx.dispatcher)?;
            }
            return Ok(());
        }
        for _ in 0..GROUPS_PER_TICK {
            if cx.dirty.unplaced_moved() >= max_moved(cx.state) || self.is_recompression_pausing() {
                break;
            }
            let Some(first) = victim.entries.pop_front() else {
                self.cleaner.phase = CleanerPhase::Placing;
                return Ok(());
            };
            let mut group: SmallVec<[SummaryEntry; MAX_GROUP_BLOCKS]> = SmallVec::from_slice(&[first]);
            while victim.entries.front().is_some_and(|next| next.sector == first.sector) {
                group.extend(victim.entries.pop_front());
            }
            self.relocate_group(&mut victim, &group, cx);
            self.recompressor.spend(group.len() as u64);
        }
        self.cleaner.victim = Some(victim);
        Ok(())
    }

    /// Relocates the live blocks of a group. The rest of a group of several blocks is compressed
    /// together with the rest of the next group: alone, a few blocks may take as much as all did.
    fn relocate_group(&mut self, victim: &mut Victim, entries: &[SummaryEntry], cx: &mut CleanContext<'_>) {
        let Some(first) = entries.first() else { return };
        let from = usize::from(first.sector) * SECTOR_BYTES as usize;
        let to = from + usize::from(first.sectors) * SECTOR_BYTES as usize;
        let Some(stored) = victim.bytes.get(from..to) else { return };
        if crc_fast::crc32_iscsi(stored) != first.crc {
            return;
        }
        let stored = victim.bytes.slice(from..to);
        let mut blocks = None;
        // A block that is a group of its own stays one, so that reading it reads nothing else.
        let gap = u64::from(first.blocks == 1);
        for entry in entries {
            if cx.checkpointer.is_live(&cx.state.map, victim.segment, entry) != Some(true) {
                continue;
            }
            match entry.item {
                SummaryItem::Slot(bits) => match Ref::from_bits(bits).map(Ref::target) {
                    Some(RefTarget::Data(id)) => {
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
                        if cx.dirty.get(id).is_none() {
                            // The slot stays loaded until the block has its new place.
                            cx.state.map.slots.touch_slot(id);
                            cx.dirty.insert(id, block(whole, entry.index), ALL_SECTORS, None, origin);
                        }
                    }
                    Some(RefTarget::Page(id)) => {
                        self.cleaner.has_marked_pages |= cx.state.rewrite_map_page(id, Some(&stored));
                    }
                    _ => {}
                },
                SummaryItem::SlotPage(page) => {
                    self.cleaner.has_marked_pages |=
                        cx.checkpointer.rewrite_slot_page(cx.state, &self.pool, page as u32, Some(&stored));
                }
                SummaryItem::DirectoryPage(page) => {
                    cx.checkpointer.touch_directory(page as usize);
                    self.cleaner.has_marked_pages = true;
                }
            }
        }
    }

    /// Returns the entries of a segment's summaries that are still live.
    fn live_entries(&self, victim: u32, bytes: &Bytes, cx: &CleanContext<'_>) -> Option<VecDeque<SummaryEntry>> {
        let segment = self.pool.segments()[victim as usize];
        if segment.phase != Phase::Sealed {
            return None;
        }
        let id = SummaryId { array: cx.state.array, segment: victim, usage: segment.usage };
        let is_live = |entry: &SummaryEntry| cx.checkpointer.is_live(&cx.state.map, victim, entry) != Some(false);
        let mut live = Vec::new();
        let mut next = segment.summary;
        while let Some(sector) = next {
            let from = sector as usize * SECTOR_BYTES as usize;
            let (entries, previous) = decode_summary(id, bytes.get(from..)?)?;
            live.extend(entries.into_iter().filter(is_live));
            // Each summary names an earlier one; a chain that does not would never end.
            next = previous.filter(|previous| *previous < sector);
        }
        // The chain lists the last chunk first; within a group, blocks are in order.
        live.sort_by_key(|entry: &SummaryEntry| (entry.sector, entry.index));
        Some(live.into())
    }
}

/// Moves the parts of patch lists in a segment that was read. True if there are any.
fn move_parts(victim: u32, bytes: &Bytes, cx: &mut CleanContext<'_>) -> bool {
    let is_here = |part: &&PatchPart| part.segment == victim;
    let parts: Vec<PatchPart> = cx.checkpointer.patches.parts().filter(is_here).copied().collect();
    for part in &parts {
        let from = part.sector as usize * SECTOR_BYTES as usize;
        let stored = bytes.get(from..from + part.bytes as usize);
        cx.checkpointer.store_part_again(part, stored, cx.state);
    }
    !parts.is_empty()
}

/// Returns the pages of the slot table that the next groups need and that are not loaded.
fn absent_slot_pages(victim: &Victim, cx: &CleanContext<'_>) -> BTreeSet<u32> {
    let next = victim.entries.iter().take(GROUPS_PER_TICK * MAX_GROUP_BLOCKS);
    let absent = next.filter_map(|entry| cx.checkpointer.missing_slot_page(&cx.state.map, entry));
    absent.map(|(page, _)| page).filter(|page| !victim.unreadable.contains(page)).collect()
}

/// Returns the number of relocated blocks that the cleaner holds in memory, about: blocks of hosts
/// need the memory, too.
fn max_moved(state: &ArrayState) -> u64 {
    // Rounded up, so that destage is due when relocation pauses.
    (state.options.dirty_limit / 4).div_ceil(BLOCK_BYTES).max(MAX_GROUP_BLOCKS as u64)
}

/// Returns the live sectors above which moving a segment of data gains nothing.
fn max_live_with_gain(geometry: &ArrayGeometry) -> u32 {
    let filled = filled_sectors(geometry);
    filled - filled / 64
}
