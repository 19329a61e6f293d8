//! Destage: dirty blocks get a place in the open data segment. In batches: fingerprints, a look for equal blocks ([`dedup`](super::dedup)),
//! comparison and compression, and then a unit of up to eight blocks of one write goes to a place.

use super::batch::{Batch, Pair};
use super::core::Core;
use super::dirty::{ALL_SECTORS, DirtyBlock, Stage};
use super::io::{Io, Purpose};
use super::pool::Kind;
use super::unit::{StoredUnit, block};
use super::work::{Effort, Packed, Reduction, Work, WorkPurpose};
use blockmap::{MAX_GROUP_BLOCKS, Ref, SlotId, SlotPlace};
use bytes::Bytes;
use ondisk::{Chunk, SegmentWriter, SummaryItem};
use platform::Durability;
use smallvec::{SmallVec, smallvec};
use types::BLOCK_BYTES;

/// Chunks under way at the same time.
const MAX_CHUNK_WRITES: u32 = 4;
/// Blocks of one batch.
const BATCH_BLOCKS: usize = 256;
/// Batches under way at the same time.
const MAX_BATCHES: usize = 3;

impl Core {
    /// Dirty bytes at which destage begins; it ends at half of it.
    fn destage_threshold(&self) -> u64 {
        self.options.dirty_limit / 4
    }

    /// True when somebody waits for what is dirty to be on the drive, to the last block.
    fn is_pressed(&self) -> bool {
        self.pressure.memory || self.pressure.space || self.checkpoint.is_draining() || self.cleaner.is_moving()
    }

    pub(crate) fn is_destage_due(&self) -> bool {
        let is_much = self.dirty.waiting() * BLOCK_BYTES >= self.destage_threshold() && self.dirty.has_waiting();
        let has_open_chunk = self.data_writer.as_ref().is_some_and(SegmentWriter::has_open_chunk);
        let is_last = has_open_chunk && self.batches == 0;
        let is_wanted = is_much || (self.is_pressed() && (self.dirty.has_waiting() || is_last));
        let may_go_on = self.has_place() || self.dirty.unplaced_moved() > 0;
        is_wanted && self.chunk_writes < MAX_CHUNK_WRITES && self.batches < MAX_BATCHES && may_go_on
    }

    /// True when there is somewhere to put a block, or none waits. Without this, batches that find no place would go round and round.
    fn has_place(&self) -> bool {
        let room = self.data_writer.as_ref().map_or(0, SegmentWriter::free_sectors);
        let block = (BLOCK_BYTES / ondisk::SECTOR_BYTES) as u32;
        room >= block || self.pool.ready() > self.checkpoint_segments() || !self.dirty.has_waiting()
    }

    /// Sends batches of dirty blocks on their way while that is due.
    pub(crate) fn destage(&mut self) {
        if !self.is_destage_due() {
            return;
        }
        if !self.has_place() {
            return self.dirty.forget_moved();
        }
        let is_pressed = self.is_pressed();
        let floor = self.destage_threshold() / 2;
        while self.batches < MAX_BATCHES && (is_pressed || self.dirty.waiting() * BLOCK_BYTES > floor) {
            let (names, blocks) = self.next_batch();
            if names.is_empty() {
                break;
            }
            self.batches += 1;
            self.start_work(Work::fingerprint(blocks), WorkPurpose::Fingerprint(names));
        }
        if is_pressed && self.batches == 0 && self.chunk_writes < MAX_CHUNK_WRITES {
            self.cut_data_chunk();
        }
    }

    /// Whole blocks out of the queue; what is not whole is read first.
    fn next_batch(&mut self) -> (Vec<SlotId>, Vec<Bytes>) {
        let (mut names, mut blocks) = (Vec::with_capacity(BATCH_BLOCKS), Vec::with_capacity(BATCH_BLOCKS));
        while names.len() < BATCH_BLOCKS {
            match self.dirty.next_to_reduce() {
                Some((name, Some(data))) => {
                    names.push(name);
                    blocks.push(data);
                }
                Some((name, None)) => self.read_base(name),
                None => break,
            }
        }
        (names, blocks)
    }

    /// Sorts out a batch: what equals something in memory is settled, the rest is compared and compressed.
    pub(crate) fn sort_out(&mut self, names: &[SlotId], fingerprints: &[u128]) {
        let mut reduction =
            Reduction { pairs: Vec::new(), units: Vec::new(), cache: self.units.clone(), _pin: self.pool.pin() };
        let mut batch = Batch { pairs: Vec::new(), units: Vec::new() };
        let mut last = None;
        let is_calm = self.dirty.bytes() * 2 < self.options.dirty_limit && !self.pressure.memory;
        for (name, fingerprint) in names.iter().zip(fingerprints) {
            let Some(block) = self.dirty.get_reducing(*name) else { continue };
            let DirtyBlock { data, origin, is_unique, is_damaged, .. } = block;
            let (data, origin, is_unique, is_damaged) = (data.clone(), *origin, *is_unique, *is_damaged);
            if !is_unique && !is_damaged && self.find_equal(*name, &data, *fingerprint, &mut reduction, &mut batch) {
                continue;
            }
            if is_unique && !is_damaged && !origin.is_moved() {
                // Its candidate was none: the next block like it finds this one.
                self.found_unique(*fingerprint, *name);
            }
            let (is_cold, run, position) = origin.batch();
            let follows = !is_damaged && last == Some((is_cold, run, position.wrapping_sub(1)));
            last = (!is_damaged).then_some((is_cold, run, position));
            match (reduction.units.last_mut(), batch.units.last_mut()) {
                (Some((blocks, _)), Some(unit)) if follows && blocks.len() < MAX_GROUP_BLOCKS => {
                    blocks.push(data);
                    unit.push((*name, *fingerprint));
                }
                _ => {
                    let effort = match (is_cold, is_calm) {
                        (true, _) => Effort::Cold,
                        (false, true) => Effort::Calm,
                        (false, false) => Effort::Quick,
                    };
                    reduction.units.push((smallvec![data], effort));
                    batch.units.push(smallvec![(*name, *fingerprint)]);
                }
            }
        }
        self.settle_freed();
        if batch.pairs.is_empty() && batch.units.is_empty() {
            self.batches -= 1;
            return;
        }
        self.start_work(Work::reduce(reduction), WorkPurpose::Reduce(batch));
    }

    /// A batch has been worked out.
    pub(crate) fn reduced(&mut self, batch: Batch, equal: &[bool], units: Vec<Packed>) {
        self.batches -= 1;
        for (Pair { name, fingerprint, candidate, compared }, is_equal) in batch.pairs.iter().zip(equal) {
            // A slot that was freed and taken over and over again may bear the same name: the same bytes stand at the same place.
            let is_here = self.map.slots.is_loaded(candidate.slot);
            let is_same = is_here && self.stored_unit(*candidate) == Some(*compared);
            let is_shared = *is_equal && is_same && self.share_block(*name, *candidate);
            self.compared(*fingerprint, *candidate, *is_equal);
            if !is_shared {
                // What was named by mistake is forgotten: another may be equal, or one of those that wait with this.
                self.dirty.wait_again(*name, !*is_equal);
            }
        }
        self.settle_freed();
        for (unit, packed) in batch.units.iter().zip(units) {
            match packed {
                Packed::Unit(bytes, crc) => self.place_unit(unit, &bytes, crc),
                Packed::Raw(crcs) => {
                    for (item, crc) in unit.chunks_exact(1).zip(crcs) {
                        if let Some(data) = self.dirty.get_reducing(item[0].0).map(|block| block.data.clone()) {
                            self.place_unit(item, &data, crc);
                        }
                    }
                }
            }
        }
    }

    /// Gives the blocks of a unit their place, those of them that are still there. Where there is no room they wait again.
    fn place_unit(&mut self, unit: &[(SlotId, u128)], bytes: &Bytes, crc: u32) {
        let (mut is_wanted, mut is_damaged, mut is_moved) = (false, false, false);
        for block in unit.iter().filter_map(|(name, _)| self.dirty.get_reducing(*name)) {
            is_wanted = true;
            is_damaged |= block.is_damaged;
            is_moved |= block.origin.is_moved();
        }
        if !is_wanted {
            return;
        }
        // A block that is damaged stands alone, with a checksum that never fits: see DirtyBlock::is_damaged.
        let crc = if is_damaged { !crc } else { crc };
        // What is acknowledged must be stored: it may take of the reserve all but the room of one checkpoint.
        let spare = if is_moved { self.spare_for_moved() } else { self.checkpoint_segments() };
        let Some((segment, sector, sectors)) = self.append_group(unit, bytes, crc, spare) else {
            // What the cleaner has taken up still has its old place, and stays there.
            return unit.iter().for_each(|(name, _)| self.dirty.no_place(*name));
        };
        for ((name, _), index) in unit.iter().zip(0..) {
            let Some(origin) = self.dirty.placed(*name) else { continue };
            let place = SlotPlace { segment, sector, sectors, index, blocks: unit.len() as u8 };
            let before = self.map.slots.set_place(*name, place, crc);
            self.pool.place_alive(place);
            self.pool.place_dead(before);
            if origin.is_moved() {
                self.cleaner.moved(place.share());
            }
            self.data_stored += if origin.is_moved() { 0 } else { u64::from(place.share()) * ondisk::SECTOR_BYTES };
        }
        if self.data_writer.as_ref().is_some_and(SegmentWriter::is_full) {
            self.cut_data_chunk();
        }
    }

    /// Puts a unit into the open segment, or into a new one where more than `spare` are ready.
    fn append_group(&mut self, unit: &[(SlotId, u128)], bytes: &Bytes, crc: u32, spare: u64) -> Option<(u32, u16, u8)> {
        let items: SmallVec<[(SummaryItem, u128); MAX_GROUP_BLOCKS]> = unit
            .iter()
            .map(|(name, fingerprint)| (SummaryItem::Slot(Ref::data(*name).to_bits()), *fingerprint))
            .collect();
        loop {
            if let Some(writer) = &mut self.data_writer {
                if let Some((sector, sectors)) = writer.append_group(&items, bytes, crc) {
                    return Some((writer.segment(), sector, sectors));
                }
                self.cut_data_chunk();
                if let Some(writer) = self.data_writer.take() {
                    self.pool.seal(writer.fill());
                }
            }
            let fill = self.pool.open(Kind::Data, spare)?;
            let limit = self.geometry.segment_sectors();
            self.data_writer = Some(SegmentWriter::new(self.array, self.geometry, fill, limit));
        }
    }

    /// Sends the open chunk of data to the drive.
    pub(crate) fn cut_data_chunk(&mut self) {
        let Some(writer) = &mut self.data_writer else { return };
        let Some(Chunk { offset, data, entries }) = writer.cut() else { return };
        let fill = writer.fill();
        self.pool.note(fill);
        let names = entries.iter().filter_map(|entry| match entry.item {
            SummaryItem::Slot(bits) => match Ref::from_bits(bits).map(Ref::target) {
                Some(blockmap::RefTarget::Data(name)) => Some(name),
                _ => None,
            },
            _ => None,
        });
        let names = names.collect();
        self.chunk_writes += 1;
        self.start_io(
            Io::Write { offset, data, durability: Durability::Volatile },
            Purpose::Chunk { names, instants: self.checkpoint.instants },
        );
    }

    /// A chunk of data can be read from the drive now.
    pub(crate) fn chunk_written(&mut self, names: &[SlotId], instants: u64) {
        self.chunk_writes -= 1;
        names.iter().for_each(|name| self.dirty.written(*name));
        self.checkpoint_chunk_done(instants);
    }

    /// Starts reading what a partly written block lacks.
    fn read_base(&mut self, name: SlotId) {
        let Some(base) = self.dirty.get(name).and_then(|block| block.base) else { return };
        // The block below may itself be on its way to another segment: it is in memory then.
        let whole = self
            .dirty
            .get(base)
            .filter(|block| block.mask == ALL_SECTORS && !block.is_damaged)
            .map(|block| block.data.clone());
        if let Some(block) = self.dirty.get_mut(name) {
            block.stage = Stage::Filling;
        }
        if whole.is_some() {
            return self.base_loaded(name, whole);
        }
        let Some((unit, index)) = self.stored_unit(base) else {
            return self.stop("the block below a partly written one is nowhere");
        };
        let pin = self.pool.pin();
        let io = Io::Read { offset: unit.offset, bytes: unit.bytes() };
        self.start_io(io, Purpose::Base { name, unit, index, _pin: pin });
    }

    /// The unit of the block below a partly written one has been read, or cannot be.
    pub(crate) fn base_read(&mut self, name: SlotId, unit: StoredUnit, index: u8, bytes: Option<Bytes>) {
        let blocks = bytes.and_then(|bytes| unit.unpack(bytes));
        self.base_loaded(name, blocks.map(|blocks| block(&blocks, index)));
    }

    /// Where a block of data stands on the drive.
    pub(crate) fn stored_unit(&self, name: SlotId) -> Option<(StoredUnit, u8)> {
        let slot = self.map.slots.get(name)?;
        let place = slot.place?;
        let usage = self.pool.segments()[place.segment as usize].usage;
        Some((StoredUnit::new(&self.geometry, &slot, place, usage), place.index))
    }
}
