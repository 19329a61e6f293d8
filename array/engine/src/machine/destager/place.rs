//! Placement: starts the reduction of a batch, and appends its groups to the open data segments.

use super::{DestageContext, Destager, MOVED, OpenSegment};
use crate::machine::batch::{Batch, Pair};
use crate::machine::checkpointer::Checkpointer;
use crate::machine::dirty::{DirtyBlock, Ticket};
use crate::machine::dispatcher::{Dispatcher, IoPurpose, WorkPurpose};
use crate::machine::io::Io;
use crate::machine::pool::Kind;
use crate::machine::space::Space;
use crate::machine::work::{Effort, PackedGroup, Reduction, Work};
use blockmap::{MAX_GROUP_BLOCKS, Ref, SlotPlace};
use bytes::Bytes;
use ondisk::{Chunk, SECTOR_BYTES, SegmentWriter, SummaryItem};
use platform::Durability;
use smallvec::{SmallVec, smallvec};

impl Destager {
    /// Shares the blocks of a batch that equal blocks in memory, and starts the comparison and
    /// compression of the rest.
    pub(super) fn start_reduction(&mut self, tickets: &[Ticket], fingerprints: &[u128], cx: &mut DestageContext<'_>) {
        let cache = cx.state.groups.clone();
        let mut reduction = Reduction { pairs: Vec::new(), groups: Vec::new(), cache, pins: Vec::new() };
        let mut batch = Batch::default();
        let mut last = None;
        let is_relaxed = self.dirty.bytes() * 2 < cx.state.options.dirty_limit && !cx.space.backpressure.memory;
        for (ticket, fingerprint) in tickets.iter().zip(fingerprints) {
            let Some(block) = self.dirty.get_reducing(*ticket) else { continue };
            let DirtyBlock { data, origin, is_unique, is_damaged, .. } = block;
            let (data, origin, is_unique, is_damaged) = (data.clone(), *origin, *is_unique, *is_damaged);
            if !is_unique
                && !is_damaged
                && self.find_equal(*ticket, &data, *fingerprint, (&mut reduction, &mut batch), cx)
            {
                continue;
            }
            if is_unique && !is_damaged && !origin.is_moved() {
                // Its candidate was another block: index it, so that the next copy finds it.
                self.dedup.insert(*fingerprint, ticket.id.slot);
            }
            let (is_cold, run, position) = origin.batch();
            let follows = !is_damaged && last == Some((is_cold, run, position.wrapping_sub(1)));
            last = (!is_damaged).then_some((is_cold, run, position));
            match (reduction.groups.last_mut(), batch.groups.last_mut()) {
                (Some((blocks, _)), Some(group)) if follows && blocks.len() < MAX_GROUP_BLOCKS => {
                    blocks.push(data);
                    group.push((*ticket, *fingerprint));
                }
                _ => {
                    let effort = match (is_cold, is_relaxed) {
                        (true, _) => Effort::Cold,
                        (false, true) => Effort::Relaxed,
                        (false, false) => Effort::Quick,
                    };
                    reduction.groups.push((smallvec![data], effort));
                    batch.groups.push(smallvec![(*ticket, *fingerprint)]);
                }
            }
        }
        cx.state.release_freed(&mut cx.space.pool, &mut self.dirty);
        if batch.pairs.is_empty() && batch.groups.is_empty() {
            self.batches -= 1;
            return;
        }
        cx.dispatcher.start_work(Work::reduce(reduction), WorkPurpose::Reduce(batch));
    }

    /// A batch was compared and compressed: shares equal blocks and places the groups.
    pub(crate) fn reduced(
        &mut self,
        batch: Batch,
        equal: &[bool],
        groups: Vec<PackedGroup>,
        cx: &mut DestageContext<'_>,
    ) {
        self.batches -= 1;
        for (Pair { ticket, fingerprint, candidate, compared }, is_equal) in batch.pairs.iter().zip(equal) {
            // A slot that was freed and allocated again and again may have the same id by now: the
            // compared bytes must still be at the same place.
            let is_loaded = cx.state.map.slots.is_loaded(candidate.slot);
            let is_same = is_loaded && cx.state.stored_group(&cx.space.pool, *candidate) == Some(*compared);
            let is_shared = *is_equal && is_same && self.share_block(*ticket, *candidate, cx.state);
            self.compared(*fingerprint, *candidate, *is_equal);
            if !is_shared {
                // After a false match, another block may be equal, or one that waits with this.
                self.dirty.wait_again(*ticket, !*is_equal);
            }
        }
        cx.state.release_freed(&mut cx.space.pool, &mut self.dirty);
        for (group, packed) in batch.groups.iter().zip(groups) {
            match packed {
                PackedGroup::Compressed(bytes, crc) => self.place_group(group, &bytes, crc, cx),
                PackedGroup::Raw(crcs) => {
                    for (item, crc) in group.chunks_exact(1).zip(crcs) {
                        if let Some(data) = self.dirty.get_reducing(item[0].0).map(|block| block.data.clone()) {
                            self.place_group(item, &data, crc, cx);
                        }
                    }
                }
            }
        }
    }

    /// Gives places to the blocks of a group, except those freed since. Without space they wait
    /// again.
    fn place_group(&mut self, group: &[(Ticket, u128)], bytes: &Bytes, crc: u32, cx: &mut DestageContext<'_>) {
        let (mut is_wanted, mut is_damaged, mut is_moved) = (false, false, false);
        for block in group.iter().filter_map(|(ticket, _)| self.dirty.get_reducing(*ticket)) {
            is_wanted = true;
            is_damaged |= block.is_damaged;
            is_moved |= block.origin.is_moved();
        }
        if !is_wanted {
            return;
        }
        // A damaged block is a group of its own with a wrong checksum: see DirtyBlock::is_damaged.
        let crc = if is_damaged { !crc } else { crc };
        // Acknowledged data may take the whole reserve except the space of one checkpoint.
        let spare = match is_moved {
            true => cx.space.spare_for_moved(self.view(cx)),
            false => cx.space.checkpoint_segments(cx.state, cx.checkpointer),
        };
        let own = if is_moved { MOVED } else { 0 };
        let appended = match self.append_group(own, group, bytes, crc, spare, cx) {
            // The last free sectors are in the other open segment.
            None => self.append_to_open(1 - own, group, bytes, crc).map(|place| (1 - own, place)),
            place => place.map(|place| (own, place)),
        };
        let Some((open, (segment, sector, sectors))) = appended else {
            // Blocks that the cleaner relocates still have their old places and stay there.
            return group.iter().for_each(|(ticket, _)| self.dirty.no_place(*ticket));
        };
        let writes = &mut cx.dispatcher.writes;
        *(if is_moved { &mut writes.moved } else { &mut writes.data }) += u64::from(sectors) * SECTOR_BYTES;
        for ((ticket, _), index) in group.iter().zip(0..) {
            let Some(origin) = self.dirty.placed(*ticket) else { continue };
            self.open[open].chunk.push(*ticket);
            let place = SlotPlace { segment, sector, sectors, index, blocks: group.len() as u8 };
            let before = cx.state.map.slots.set_place(ticket.id, place, crc);
            cx.space.pool.place_alive(place);
            cx.space.pool.place_dead(before);
            if origin.is_moved() {
                cx.space.cleaner.relocated(place.share());
            } else {
                cx.space.data_stored += u64::from(place.share()) * SECTOR_BYTES;
            }
        }
        if self.open[open].writer.as_ref().is_some_and(SegmentWriter::is_full) {
            self.cut_chunk(open, cx.space, cx.checkpointer, cx.dispatcher);
        }
    }

    /// Appends a group to an open segment, if it fits.
    fn append_to_open(
        &mut self,
        open: usize,
        group: &[(Ticket, u128)],
        bytes: &Bytes,
        crc: u32,
    ) -> Option<(u32, u16, u8)> {
        let items: SmallVec<[(SummaryItem, u128); MAX_GROUP_BLOCKS]> =
            group.iter().map(|(ticket, print)| (SummaryItem::Slot(Ref::data(ticket.id).to_bits()), *print)).collect();
        let writer = self.open[open].writer.as_mut()?;
        let (sector, sectors) = writer.append_group(&items, bytes, crc)?;
        Some((writer.segment(), sector, sectors))
    }

    /// Appends a group to an open segment, or to a new one if more than `spare` are ready.
    fn append_group(
        &mut self,
        open: usize,
        group: &[(Ticket, u128)],
        bytes: &Bytes,
        crc: u32,
        spare: u64,
        cx: &mut DestageContext<'_>,
    ) -> Option<(u32, u16, u8)> {
        if let Some(place) = self.append_to_open(open, group, bytes, crc) {
            return Some(place);
        }
        self.cut_chunk(open, cx.space, cx.checkpointer, cx.dispatcher);
        if let Some(writer) = self.open[open].writer.take() {
            cx.space.pool.seal(writer.fill());
        }
        let fill = cx.space.pool.open(Kind::Data, spare)?;
        // Moved blocks are compressed with the greatest effort: another one would gain nothing.
        cx.space.pool.note_survey(fill.segment, fill.usage, open == MOVED);
        self.open[open].writer = Some(SegmentWriter::new(cx.state.array, cx.state.geometry, fill));
        self.append_to_open(open, group, bytes, crc)
    }

    /// Writes the open chunks of data.
    pub(crate) fn cut_chunks(&mut self, space: &mut Space, checkpointer: &Checkpointer, dispatcher: &mut Dispatcher) {
        for open in 0..self.open.len() {
            self.cut_chunk(open, space, checkpointer, dispatcher);
        }
    }

    /// Writes the open chunk of a data segment, if there is one.
    fn cut_chunk(&mut self, open: usize, space: &mut Space, checkpointer: &Checkpointer, dispatcher: &mut Dispatcher) {
        let OpenSegment { writer, chunk } = &mut self.open[open];
        let Some(writer) = writer else { return };
        let Some(Chunk { offset, data, overhead, .. }) = writer.cut() else { return };
        dispatcher.writes.summaries += overhead;
        let fill = writer.fill();
        space.pool.set_fill(fill);
        self.chunk_writes += 1;
        let tickets = std::mem::take(chunk);
        let purpose = IoPurpose::Chunk { offset, tickets, freezes: checkpointer.freezes() };
        dispatcher.start_io(Io::Write { offset, data, durability: Durability::Volatile }, purpose);
    }
}
