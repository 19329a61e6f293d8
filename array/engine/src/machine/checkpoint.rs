//! The checkpoint: the map, the slot table and all else as they are at one instant, stored in segments, and then made to count by
//! the superblock.
//!
//! ```text
//! Idle ─▶ Draining (dirty blocks get places) ─▶ Barrier (no new changes; the last ones too) ─▶ the instant
//!      ─▶ Writing (all writes of the checkpoint) ─▶ Flushing ─▶ superblock 0, 1 (counts from here on), 2, 3 ─▶ Idle
//! ```

use super::core::Core;
use super::io::{Io, Purpose};
use super::located::{DIRECTORY_PAGE_BYTES, LOCATIONS_PER_PAGE, Located, sectors_of};
use super::pool::Kind;
use blockmap::{Ref, SLOT_PAGE_BYTES, SlotPlace};
use bytes::Bytes;
use ondisk::{
    Chunk, LogPosition, MAX_MANIFEST_RUNS, ManifestRun, SECTOR_BYTES, SUPERBLOCK_COPIES, SegmentWriter, SummaryItem,
    Superblock, superblock_offset,
};
use platform::Durability;
use std::collections::BTreeSet;
use types::BLOCK_BYTES;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Draining,
    Barrier,
    Writing,
    Flushing,
    Superblocks,
}

/// The checkpoint under way.
#[derive(Default)]
pub(crate) struct Checkpoint {
    phase: Phase,
    /// Somebody has asked for one.
    is_wanted: bool,
    /// Instants that there have been since the array was opened.
    pub(crate) instants: u64,
    /// Writes that the flush has to wait for.
    writes: u32,
    superblock: Option<Superblock>,
    /// Number of the newest checkpoint that counts.
    pub(crate) sequence: u64,
    /// Checkpoints that were completed since the array was opened.
    pub(crate) completed: u64,
}

impl Checkpoint {
    /// None under way; the newest has that number.
    pub(crate) fn after(sequence: u64) -> Self {
        Self { sequence, ..Self::default() }
    }

    pub(crate) fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining | Phase::Barrier)
    }

    /// True while no change may be sequenced.
    pub(crate) fn is_barrier(&self) -> bool {
        self.phase == Phase::Barrier
    }

    /// True from the instant on, until it counts.
    pub(crate) fn is_being_stored(&self) -> bool {
        self.superblock.is_some()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }
}

impl Core {
    /// Asks for a checkpoint of what is now, whether one is due or not. It is there when [`Core::checkpoints`] has reached what is given
    /// back: one whose instant has passed already does not hold what came since.
    pub fn request_checkpoint(&mut self) -> u64 {
        self.checkpoint.is_wanted = true;
        self.checkpoint.instants + 1
    }

    /// How many checkpoints have been completed since the array was opened.
    pub fn checkpoints(&self) -> u64 {
        self.checkpoint.completed
    }

    pub(crate) fn is_checkpoint_due(&self) -> bool {
        if !self.checkpoint.is_idle() {
            return self.checkpoint.is_draining();
        }
        self.checkpoint.is_wanted
            || self.log.ring.used() > self.log.ring.capacity() / 2
            || self.dirty_metadata() > self.metadata_budget()
            || self.pressure.log
            || self.pressure.metadata
            || self.is_reclaim_due()
            || self.cleaner.is_waiting_for_checkpoint()
    }

    /// Takes the checkpoint as far as it goes without waiting for I/O.
    pub(crate) fn drive_checkpoint(&mut self) {
        if self.checkpoint.is_idle() && self.is_checkpoint_due() {
            self.checkpoint.is_wanted = false;
            self.checkpoint.phase = Phase::Draining;
            self.destage();
        }
        // What is dirty now is drained before the barrier as far as possible: the barrier stops everyone.
        let few = (self.options.dirty_limit / 8 / BLOCK_BYTES).max(1);
        if self.checkpoint.phase == Phase::Draining && self.dirty.unplaced() <= few {
            self.checkpoint.phase = Phase::Barrier;
            self.destage();
        }
        // The instant lies between two groups: every record is either in the checkpoint or in a group after it.
        if self.checkpoint.phase == Phase::Barrier && self.log.gathered > 0 {
            self.kick();
        }
        // Segments that come soon are waited for: a checkpoint that has begun must find room.
        let has_room =
            self.pool.ready() >= self.checkpoint_segments() || !(self.pool.may_grow() || self.pool.coming() > 0);
        if self.checkpoint.phase == Phase::Barrier && self.dirty.unplaced() == 0 && self.log.gathered == 0 && has_room {
            match self.freeze() {
                Some(()) => self.checkpoint.phase = Phase::Writing,
                None => return self.stop("there is no room for a checkpoint"),
            }
            self.checkpoint_is_written();
        }
    }

    /// The instant of the checkpoint: everything that changed gets a place and is copied into writes.
    fn freeze(&mut self) -> Option<()> {
        self.cut_data_chunk();
        self.checkpoint.writes = self.chunk_writes;
        self.checkpoint.instants += 1;
        self.take_growth();
        let old_runs = std::mem::take(&mut self.manifest_runs);
        old_runs.iter().for_each(|run| self.pool.dead_sectors(run.segment(), sectors_of(run.bytes())));
        self.freeze_map_pages()?;
        self.freeze_slot_pages()?;
        self.cut_metadata_chunk();
        self.pool.doom();
        let manifest = Bytes::from(self.encode_manifest());
        self.manifest_runs = self.write_manifest(&manifest)?;
        let log = &self.log;
        let position = LogPosition {
            head: log.ring.head(),
            sequence: log.chain.sequence,
            lsn: log.chain.lsn.0,
            epoch: log.chain.epoch,
            previous: log.chain.previous,
        };
        self.checkpoint.superblock = Some(Superblock {
            array: self.array,
            sequence: self.checkpoint.sequence + 1,
            geometry: self.geometry,
            log: position,
            manifest: self.manifest_runs.clone(),
        });
        self.replay_room.instant(self.pool.restartable());
        self.judge_victim();
        self.cleaner.checkpointed(self.pool.used(), self.pool.live_sectors().0, self.stored_segments());
        Some(())
    }

    fn freeze_map_pages(&mut self) -> Option<()> {
        for name in self.map.pages.take_dirty() {
            let mut bytes = Vec::new();
            self.map.pages.get(name)?.encode(&mut bytes);
            let bytes = Bytes::from(bytes);
            let crc = crc_fast::crc32_iscsi(&bytes);
            let place = self.append_metadata(SummaryItem::Slot(Ref::page(name).to_bits()), &bytes, crc)?;
            let before = self.map.slots.set_place(name, place, crc);
            self.pool.place_alive(place);
            self.pool.place_dead(before);
        }
        Some(())
    }

    fn freeze_slot_pages(&mut self) -> Option<()> {
        let mut directory: BTreeSet<usize> = std::mem::take(&mut self.dirty_directory);
        self.slot_directory.resize(self.map.slots.pages() as usize, Located::default());
        for page in self.map.slots.take_dirty() {
            let bytes = Bytes::copy_from_slice(self.map.slots.page_bytes(page));
            let located =
                self.store_located(SummaryItem::SlotPage(u64::from(page)), &bytes, self.slot_directory[page as usize])?;
            self.slot_directory[page as usize] = located;
            directory.insert(page as usize / LOCATIONS_PER_PAGE);
        }
        self.directory_pages.resize(self.slot_directory.len().div_ceil(LOCATIONS_PER_PAGE), Located::default());
        for number in directory {
            let mut bytes = Vec::with_capacity(DIRECTORY_PAGE_BYTES);
            let from = number * LOCATIONS_PER_PAGE;
            let to = (from + LOCATIONS_PER_PAGE).min(self.slot_directory.len());
            self.slot_directory[from..to].iter().for_each(|located| located.encode(&mut bytes));
            bytes.resize(DIRECTORY_PAGE_BYTES, 0);
            let item = SummaryItem::DirectoryPage(number as u64);
            self.directory_pages[number] = self.store_located(item, &bytes.into(), self.directory_pages[number])?;
        }
        Some(())
    }

    fn store_located(&mut self, item: SummaryItem, bytes: &Bytes, before: Located) -> Option<Located> {
        assert_eq!(bytes.len(), SLOT_PAGE_BYTES);
        let crc = crc_fast::crc32_iscsi(bytes);
        let place = self.append_metadata(item, bytes, crc)?;
        self.pool.place_alive(place);
        if before.sectors > 0 {
            self.pool.dead_sectors(before.segment, before.sectors);
        }
        Some(Located {
            segment: place.segment,
            sector: u32::from(place.sector),
            sectors: u32::from(place.sectors),
            crc,
        })
    }

    fn append_metadata(&mut self, item: SummaryItem, bytes: &Bytes, crc: u32) -> Option<SlotPlace> {
        loop {
            if let Some(writer) = &mut self.metadata_writer
                && let Some((sector, sectors)) = writer.append(item, bytes, crc)
            {
                let segment = writer.segment();
                if writer.is_full() {
                    self.cut_metadata_chunk();
                }
                return Some(SlotPlace::single(segment, sector, sectors));
            }
            self.next_metadata_segment()?;
        }
    }

    /// Seals the open metadata segment and opens another. Metadata may take the last one.
    fn next_metadata_segment(&mut self) -> Option<()> {
        self.cut_metadata_chunk();
        if let Some(writer) = self.metadata_writer.take() {
            self.pool.seal(writer.fill());
        }
        let fill = self.pool.open(Kind::Metadata, 0)?;
        let limit = self.geometry.metadata_sectors();
        self.metadata_writer = Some(SegmentWriter::new(self.array, self.geometry, fill, limit));
        Some(())
    }

    fn cut_metadata_chunk(&mut self) {
        let Some(writer) = &mut self.metadata_writer else { return };
        let Some(Chunk { offset, data, .. }) = writer.cut() else { return };
        let fill = writer.fill();
        self.pool.note(fill);
        self.write_metadata(offset, data);
    }

    /// Metadata is written twice, half a segment apart: one bad sector loses none of it.
    fn write_metadata(&mut self, offset: u64, data: Vec<Bytes>) {
        for offset in [offset, self.geometry.mirror_offset(offset)] {
            self.checkpoint.writes += 1;
            let data = data.clone();
            self.start_io(Io::Write { offset, data, durability: Durability::Volatile }, Purpose::Metadata);
        }
    }

    /// Stores the manifest in as many runs as the segments make of it.
    fn write_manifest(&mut self, manifest: &Bytes) -> Option<Vec<ManifestRun>> {
        let mut runs = Vec::new();
        let mut rest = manifest.clone();
        while !rest.is_empty() {
            let room = self.metadata_writer.as_ref().map_or(0, SegmentWriter::free_sectors);
            let part = rest.split_to(rest.len().min(room as usize * SECTOR_BYTES as usize));
            let taken = match (&mut self.metadata_writer, part.is_empty()) {
                (Some(writer), false) => writer.append_unlisted(part.len()).map(|sector| (writer.fill(), sector)),
                _ => None,
            };
            let Some((fill, sector)) = taken else {
                self.next_metadata_segment()?;
                continue;
            };
            self.pool.note(fill);
            self.pool.alive(fill.segment, sectors_of(part.len() as u32));
            runs.push(ManifestRun::new(fill.segment, sector, part.len() as u32, crc_fast::crc32_iscsi(&part)));
            self.write_metadata(self.geometry.sector_start(fill.segment, sector), vec![part]);
        }
        (runs.len() <= MAX_MANIFEST_RUNS).then_some(runs)
    }

    pub(crate) fn checkpoint_write_done(&mut self) {
        self.checkpoint.writes -= 1;
        self.checkpoint_is_written();
    }

    /// A chunk of data was written that was issued after so many instants. One that was under way at the present checkpoint's
    /// instant belongs to it.
    pub(crate) fn checkpoint_chunk_done(&mut self, instants: u64) {
        if self.checkpoint.phase == Phase::Writing && instants < self.checkpoint.instants {
            self.checkpoint_write_done();
        }
    }

    fn checkpoint_is_written(&mut self) {
        if self.checkpoint.phase == Phase::Writing && self.checkpoint.writes == 0 {
            self.checkpoint.phase = Phase::Flushing;
            self.start_io(Io::Flush, Purpose::Flush);
        }
    }

    pub(crate) fn checkpoint_flushed(&mut self) {
        self.checkpoint.phase = Phase::Superblocks;
        self.write_superblock(0);
    }

    fn write_superblock(&mut self, copy: usize) {
        let Some(superblock) = &self.checkpoint.superblock else { return };
        let data = vec![Bytes::from(superblock.encode(copy))];
        let io = Io::Write { offset: superblock_offset(copy), data, durability: Durability::Durable };
        self.start_io(io, Purpose::Superblock { copy });
    }

    pub(crate) fn superblock_written(&mut self, copy: usize) {
        if copy + 1 < SUPERBLOCK_COPIES {
            return self.write_superblock(copy + 1);
        }
        self.checkpoint_counts();
        self.checkpoint.phase = Phase::Idle;
    }

    /// Every copy holds the new superblock: what only the old checkpoint needed is given back. Not before: while two copies are old,
    /// one bad new one lets the old checkpoint count, and it must find its log and its segments.
    fn checkpoint_counts(&mut self) {
        let Some(superblock) = self.checkpoint.superblock.take() else { return };
        self.checkpoint.sequence = superblock.sequence;
        self.checkpoint.completed += 1;
        self.log.ring.release_before(superblock.log.sequence);
        self.map.pages.finish_writes();
        self.map.slots.finish_writes();
        self.pool.checkpointed();
        self.replay_room.checkpointed();
        self.retry_cleaning();
        if superblock.geometry == self.geometry {
            self.pool.use_growth();
        }
        self.newest = superblock;
    }

    /// Counts a directory page as changed, so that the next checkpoint stores it anew.
    pub(crate) fn touch_directory(&mut self, page: usize) {
        self.dirty_directory.insert(page);
    }

    /// Names of the pages that a stored reference could be to. For the auditor.
    pub(crate) fn located(&self) -> impl Iterator<Item = Located> + '_ {
        self.slot_directory.iter().chain(&self.directory_pages).copied().filter(|located| located.sectors > 0)
    }

    /// Sectors of the manifest, by segment. For the auditor.
    pub(crate) fn manifest_sectors(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.manifest_runs.iter().map(|run| (run.segment(), sectors_of(run.bytes())))
    }
}
