//! Destage: dirty blocks get a place in the open data segment, in the order in which they were written.

use super::Core;
use super::dirty::{ALL_SECTORS, DirtyBlock, Stage};
use super::io::{Io, Purpose};
use super::pool::Kind;
use bytes::Bytes;
use map::{Place, Ref, SlotName};
use store::{Chunk, Item, SegmentWriter};
use units::MAP_BLOCK_BYTES;
use world::Durability;

/// Chunks under way at the same time.
const MAX_CHUNK_WRITES: u32 = 4;

impl Core {
    /// Dirty bytes at which destage begins; it ends at half of it.
    fn destage_threshold(&self) -> u64 {
        self.options.dirty_limit / 4
    }

    /// True when somebody waits for what is dirty to be on the drive, to the last block.
    fn is_pressed(&self) -> bool {
        self.pressure.memory || self.checkpoint.is_draining() || self.cleaner.is_moving()
    }

    pub(crate) fn is_destage_due(&self) -> bool {
        let is_much = self.dirty.unplaced() * MAP_BLOCK_BYTES >= self.destage_threshold() && self.dirty.has_waiting();
        let has_open_chunk = self.data_writer.as_ref().is_some_and(SegmentWriter::has_open_chunk);
        let is_wanted = is_much || (self.is_pressed() && (self.dirty.has_waiting() || has_open_chunk));
        is_wanted && self.chunk_writes < MAX_CHUNK_WRITES
    }

    /// Gives places to dirty blocks while that is due.
    pub(crate) fn destage(&mut self) {
        if !self.is_destage_due() {
            return;
        }
        let is_pressed = self.is_pressed();
        let floor = self.destage_threshold() / 2;
        while self.chunk_writes < MAX_CHUNK_WRITES && (is_pressed || self.dirty.unplaced() * MAP_BLOCK_BYTES > floor) {
            let Some(name) = self.dirty.next() else { break };
            if !self.place_block(name) {
                break;
            }
        }
        if is_pressed && self.chunk_writes < MAX_CHUNK_WRITES {
            self.cut_data_chunk();
        }
    }

    /// Places one block, or starts reading what it lacks. False when there is no room.
    fn place_block(&mut self, name: SlotName) -> bool {
        let Some(block) = self.dirty.get(name) else { return true };
        if block.mask != ALL_SECTORS {
            self.read_base(name);
            return true;
        }
        let DirtyBlock { data, is_moved, is_damaged, .. } = block.clone();
        let crc = crc32c::crc32c(&data);
        // A checksum that never fits: see DirtyBlock::is_damaged.
        let crc = if is_damaged { !crc } else { crc };
        let Some(place) = self.append_data(name, &data, crc) else {
            self.dirty.put_back(name);
            return false;
        };
        let before = self.map.slots.set_place(name, place, crc);
        self.pool.place_alive(place);
        self.pool.place_dead(before);
        self.data_stored += if is_moved { 0 } else { data.len() as u64 };
        self.dirty.placed(name);
        if self.data_writer.as_ref().is_some_and(SegmentWriter::is_due) {
            self.cut_data_chunk();
        }
        true
    }

    fn append_data(&mut self, name: SlotName, data: &Bytes, crc: u32) -> Option<Place> {
        let item = Item::Slot(Ref::data(name).to_bits());
        loop {
            if let Some(writer) = &mut self.data_writer {
                if let Some((sector, sectors)) = writer.append(item, data, crc) {
                    return Some(Place::single(writer.segment(), sector, sectors));
                }
                self.cut_data_chunk();
                if let Some(writer) = self.data_writer.take() {
                    self.pool.seal(writer.fill());
                }
            }
            // What is acknowledged must be stored: it may take of the reserve all but the room of one checkpoint.
            let fill = self.pool.open(Kind::Data, self.checkpoint_segments())?;
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
            Item::Slot(bits) => match Ref::from_bits(bits).map(Ref::target) {
                Some(map::Target::Data(name)) => Some(name),
                _ => None,
            },
            _ => None,
        });
        let names = names.collect();
        self.chunk_writes += 1;
        self.start_io(
            Io::Write { offset, data: vec![data], durability: Durability::Volatile },
            Purpose::Chunk { names, instants: self.checkpoint.instants },
        );
    }

    /// A chunk of data can be read from the drive now.
    pub(crate) fn chunk_written(&mut self, names: &[SlotName], instants: u64) {
        self.chunk_writes -= 1;
        for name in names {
            if self.dirty.get(*name).is_some_and(|block| block.stage == Stage::Writing) {
                self.dirty.remove(*name);
            }
        }
        self.checkpoint_chunk_done(instants);
    }

    fn read_base(&mut self, name: SlotName) {
        let Some(base) = self.dirty.get(name).and_then(|block| block.base) else { return };
        let slot = self.map.slots.get(base);
        // The block below may itself be on its way to another segment: it is in memory then.
        if let Some(whole) = self
            .dirty
            .get(base)
            .filter(|block| block.mask == ALL_SECTORS && !block.is_damaged)
            .map(|block| block.data.clone())
        {
            if let Some(block) = self.dirty.get_mut(name) {
                block.stage = Stage::Filling;
            }
            let crc = crc32c::crc32c(&whole);
            return self.base_loaded(name, crc, Some(whole));
        }
        let Some((place, crc)) = slot.and_then(|slot| slot.place.map(|place| (place, slot.crc))) else {
            return self.stop("the block below a partly written one is nowhere");
        };
        if let Some(block) = self.dirty.get_mut(name) {
            block.stage = Stage::Filling;
        }
        let offset = self.geometry.sector_start(place.segment, u32::from(place.sector));
        let pin = self.pool.pin();
        self.start_io(Io::Read { offset, bytes: MAP_BLOCK_BYTES as usize }, Purpose::Base { name, crc, _pin: pin });
    }
}
