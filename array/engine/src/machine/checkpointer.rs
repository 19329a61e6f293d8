//! The checkpointer: stores the map, the slot table and the manifest as they are at one instant
//! (the *freeze*), and then makes them the newest checkpoint by writing the superblock.
//!
//! ```text
//! Idle ─▶ Draining (dirty blocks get places) ─▶ Barrier (no new changes; the last dirty blocks
//!      get places) ─▶ freeze ─▶ Writing (all writes of the checkpoint) ─▶ Flushing
//!      ─▶ superblock 0, 1 (the checkpoint is valid from here on), 2, 3 ─▶ Idle
//! ```

mod locations;
pub(crate) mod metadata;
mod patch_lists;
mod patches;

use super::dispatcher::{Dispatcher, IoPurpose};
use super::io::Io;
use super::log::Log;
use super::pool::{Kind, Phase, Pool};
use super::state::ArrayState;
use crate::service::OpError;
use blockmap::{Ref, SLOT_PAGE_BYTES};
use bytes::Bytes;
use ondisk::{
    ArrayGeometry, MAX_MANIFEST_RUNS, ManifestRun, ManifestSegment, ManifestStream, ManifestVolume, PATCH_HEADER_BYTES,
    PageLocation, PatchList, PatchWriter, SUPERBLOCK_COPIES, SegmentWriter, SlotSums, Superblock, append_lists,
    encode_manifest, superblock_offset,
};
use patch_lists::{PatchLists, ROOM_PART};
use platform::Durability;
use std::collections::BTreeSet;
use types::VolumeId;

/// Most bytes of a segment in the manifest.
const SEGMENT_ENTRY_BYTES: u64 = 25;
/// Bytes of a volume in the manifest.
const VOLUME_ENTRY_BYTES: u64 = 40;
/// Bytes of any other entry of the manifest, rounded up.
const MANIFEST_ENTRY_BYTES: u64 = 32;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CheckpointPhase {
    #[default]
    Idle,
    Draining,
    Barrier,
    Writing,
    Flushing,
    Superblocks,
}

/// The checkpoint in progress, and where the metadata of the newest one is stored.
pub(crate) struct Checkpointer {
    phase: CheckpointPhase,
    /// A checkpoint was requested.
    is_wanted: bool,
    /// Freezes since the array was opened.
    freezes: u64,
    /// Writes that must end before the flush.
    writes: u32,
    /// The superblock of the checkpoint in progress, from the freeze on.
    superblock: Option<Superblock>,
    /// Number of the newest valid checkpoint.
    sequence: u64,
    /// Checkpoints completed since the array was opened.
    completed: u64,
    metadata_writer: Option<SegmentWriter>,
    /// Where each page of the slot table is stored.
    pub(crate) slot_directory: Vec<PageLocation>,
    /// Where each page of the slot directory is stored.
    directory_pages: Vec<PageLocation>,
    dirty_directory: BTreeSet<usize>,
    manifest_runs: Vec<ManifestRun>,
    pub(crate) patches: PatchLists,
    /// The newest superblock that every copy holds.
    newest: Superblock,
    /// Geometry that the next checkpoint changes to.
    grow_to: Option<ArrayGeometry>,
}

impl Checkpointer {
    /// Starts after the checkpoint of `superblock`, whose slot directory is stored in these pages,
    /// and which has these patches.
    pub(crate) fn new(superblock: &Superblock, directory_pages: Vec<PageLocation>, patches: Vec<PatchList>) -> Self {
        Self {
            phase: CheckpointPhase::Idle,
            is_wanted: false,
            freezes: 0,
            writes: 0,
            superblock: None,
            sequence: superblock.sequence,
            completed: 0,
            metadata_writer: None,
            slot_directory: Vec::new(),
            directory_pages,
            dirty_directory: BTreeSet::new(),
            manifest_runs: superblock.manifest.clone(),
            patches: PatchLists::new(patches),
            newest: superblock.clone(),
            grow_to: None,
        }
    }

    /// Requests a checkpoint. It is complete when [`Checkpointer::completed`] reaches the returned
    /// number. A checkpoint already frozen does not count: it lacks changes made since.
    pub(crate) fn request(&mut self) -> u64 {
        self.is_wanted = true;
        self.freezes + 1
    }

    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }

    /// Returns the number of freezes since the array was opened.
    pub(crate) fn freezes(&self) -> u64 {
        self.freezes
    }

    /// Returns the newest superblock that every copy holds.
    pub(crate) fn newest(&self) -> &Superblock {
        &self.newest
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.phase == CheckpointPhase::Idle
    }

    pub(crate) fn is_draining(&self) -> bool {
        matches!(self.phase, CheckpointPhase::Draining | CheckpointPhase::Barrier)
    }

    /// True while no change may be sequenced.
    pub(crate) fn is_barrier(&self) -> bool {
        self.phase == CheckpointPhase::Barrier
    }

    /// True from the freeze until the checkpoint is valid.
    pub(crate) fn is_being_stored(&self) -> bool {
        self.superblock.is_some()
    }

    /// True if an idle checkpointer should start, because of a request, the log or metadata.
    pub(crate) fn is_due(&self, state: &ArrayState, log: &Log) -> bool {
        self.is_wanted
            || self.patches.is_release_due()
            || log.ring.used() > log.ring.capacity() / 2
            || self.dirty_metadata(state) > state.options.metadata_budget(&state.geometry)
    }

    /// True if hosts will soon wait for the checkpoint.
    pub(crate) fn is_urgent(&self, state: &ArrayState, log: &Log) -> bool {
        log.ring.used() > log.ring.capacity() / 4 * 3
            || self.dirty_metadata(state) > state.options.metadata_budget(&state.geometry) / 2 * 3
    }

    pub(crate) fn start_draining(&mut self) {
        self.is_wanted = false;
        self.phase = CheckpointPhase::Draining;
    }

    /// Stops changes, so that the remaining dirty blocks get places.
    pub(crate) fn start_barrier(&mut self) {
        self.phase = CheckpointPhase::Barrier;
    }

    /// Returns the bytes of metadata that a checkpoint would store now, at most. A changed page of
    /// the map may get a new place, so its slot counts as changed, too. A leaf or a page of slots
    /// that will have a patch counts as a whole, because it and a copy of it are in memory. A page
    /// of the directory does not count for it.
    pub(crate) fn dirty_metadata(&self, state: &ArrayState) -> u64 {
        // In a small pool checkpoints come early, because each makes emptied segments usable.
        let has_patches = self.next_list(state).is_some() && Self::may_patch_interior(state);
        let pages = state.map.pages.dirty_bytes(has_patches);
        let slot_pages = state.map.slots.dirty_pages() as u64;
        let directory = match has_patches {
            true => (state.map.slots.dirty_groups() + self.dirty_directory.len()) as u64,
            false => slot_pages.min(self.directory_pages.len() as u64 + 1),
        };
        let gone = state.map.pages.patches.gone() + state.map.pages.interior_patches.gone();
        let void = (gone * PATCH_HEADER_BYTES) as u64;
        void + self.patches.moved_bytes() + pages + (slot_pages + directory) * SLOT_PAGE_BYTES as u64
    }

    /// Returns the segments that one checkpoint may take.
    pub(crate) fn segments_needed(&self, state: &ArrayState, pool: &Pool) -> u64 {
        segments_for(self.manifest_bytes(state, pool), state)
    }

    /// Returns the segments that a checkpoint of an empty array with `segments` segments may take.
    pub(crate) fn least_segments_needed(state: &ArrayState, segments: u64) -> u64 {
        segments_for(segments * MANIFEST_ENTRY_BYTES, state)
    }

    /// Returns the length of the manifest, rounded up, without the drop queue. The queue takes
    /// some KiB for each level of a tree that is dropped.
    fn manifest_bytes(&self, state: &ArrayState, pool: &Pool) -> u64 {
        let streams = state.streams.manifest_bytes();
        // Each volume may get a delta, also in a full pool.
        let most = if state.streams.is_empty() { 1 } else { 2 };
        state.values_bytes
            + streams
            + self.patches.manifest_bytes()
            + most * state.volumes.len() as u64 * VOLUME_ENTRY_BYTES
            + (self.directory_pages.len() + pool.segments().len()) as u64 * MANIFEST_ENTRY_BYTES
    }

    /// Grows the pool, with the next checkpoint, to the whole segments in `capacity` bytes. The
    /// drive already has that size.
    ///
    /// New segments join at the freeze and are used once the checkpoint is valid: after a crash
    /// before that, the old superblock describes the old array, which is intact.
    pub(crate) fn grow(&mut self, capacity: u64, state: &ArrayState) -> Result<(), OpError> {
        let now = self.grow_to.unwrap_or(state.geometry);
        if capacity < now.capacity {
            return Err(OpError::Malformed("an array cannot shrink"));
        }
        let more = (capacity - state.geometry.segment_start(0)) / now.segment_bytes;
        let geometry = ArrayGeometry { capacity: state.geometry.segment_start(0) + more * now.segment_bytes, ..now };
        // Less than a segment is left after the last one: nothing changes.
        if geometry.capacity <= now.capacity {
            return Ok(());
        }
        let geometry = geometry.check().map_err(|_| OpError::Malformed("too many segments for an array"))?;
        let manifest = u64::from(geometry.segments()) * SEGMENT_ENTRY_BYTES + state.values_bytes;
        if manifest > MAX_MANIFEST_RUNS as u64 / 2 * geometry.segment_bytes {
            return Err(OpError::Malformed("too many segments for their length"));
        }
        self.grow_to = Some(geometry);
        self.request();
        Ok(())
    }

    /// Freezes the checkpoint: every changed page gets a place and is copied into a write. The
    /// open chunk of data has been cut; `chunk_writes` chunks are in flight. `None` if the pool
    /// has no space.
    pub(crate) fn freeze(
        &mut self,
        chunk_writes: u32,
        state: &mut ArrayState,
        pool: &mut Pool,
        log: &Log,
        dispatcher: &mut Dispatcher,
    ) -> Option<()> {
        self.writes = chunk_writes;
        self.freezes += 1;
        if let Some(geometry) = self.grow_to.take() {
            state.geometry = geometry;
            pool.grow(geometry.segments());
        }
        self.free_manifest(pool);
        let list = self.next_list(state);
        let mut patches = PatchWriter::default();
        let before = dispatcher.writes.pages();
        self.store_map_pages(list, &mut patches, state, pool, dispatcher)?;
        self.store_slot_pages(list, &mut patches, state, pool, dispatcher)?;
        let stored = (dispatcher.writes.pages() - before) / Kind::Metadata.copies() + patches.bytes() as u64;
        let room = self.room_for_lists(stored + self.patches.moved_bytes(), state);
        let renewed = self.retire_lists(room, state);
        // The pages that are stored whole to release lists.
        self.store_map_pages(list, &mut patches, state, pool, dispatcher)?;
        self.store_slot_pages(list, &mut patches, state, pool, dispatcher)?;
        self.store_renewed(renewed, state, &mut patches);
        self.cut_metadata_chunk(state, pool, dispatcher);
        self.store_moved_parts(state, pool, dispatcher)?;
        self.store_patches(patches, state, pool, dispatcher)?;
        pool.mark_dying();
        let streams = state.streams.listed(self.freezes);
        let manifest = Bytes::from(self.encode_manifest(&streams, state, pool));
        self.manifest_runs = self.write_manifest(&manifest, state, pool, dispatcher)?;
        self.superblock = Some(Superblock {
            array: state.array,
            sequence: self.sequence + 1,
            geometry: state.geometry,
            log: log.position(),
            has_streams: !streams.is_empty(),
            has_patches: !self.patches.is_empty(),
            // Older lists may have such patches although this array would make none.
            has_interior_patches: !self.patches.is_empty()
                && (Self::may_patch_interior(state) || self.newest.has_interior_patches),
            manifest: self.manifest_runs.clone(),
        });
        self.phase = CheckpointPhase::Writing;
        Some(())
    }

    fn encode_manifest(&self, streams: &[ManifestStream], state: &ArrayState, pool: &Pool) -> Vec<u8> {
        // A stream that is left out takes its deltas along. They have no pages.
        let is_left_out = |id: &VolumeId| {
            let stream = id.stream().filter(|_| id.is_delta());
            stream.is_some_and(|stream| state.streams.is_left_out(stream, self.freezes))
        };
        let mut volumes: Vec<ManifestVolume> = state
            .volumes
            .iter()
            .filter(|(id, _)| !is_left_out(id))
            .map(|(id, volume)| ManifestVolume {
                id: *id,
                blocks: volume.blocks,
                root: volume.root.reference.to_bits(),
                height: volume.root.height,
                mapped: volume.root.mapped,
            })
            .collect();
        volumes.sort_unstable_by_key(|volume| volume.id);
        let segments = pool.segments().iter().map(|segment| match segment.phase {
            // A dying segment is free for a program that opens the array at this checkpoint.
            Phase::Free | Phase::Dying => None,
            // Its original names it.
            _ if segment.kind == Kind::Mirror => None,
            Phase::Open | Phase::Sealed => Some(ManifestSegment {
                mirror: segment.mirror,
                live: segment.live,
                sectors: segment.sectors,
                summary: segment.summary,
                usage: segment.usage,
            }),
        });
        let drops: Vec<u64> = state.map.drops().map(|id| Ref::page(id).to_bits()).collect();
        let mut manifest = encode_manifest(
            self.slot_directory.len() as u32,
            Some(SlotSums {
                shared_sectors: state.map.slots.shared_sectors(),
                shared_aliases: state.map.slots.shared_aliases(),
                near_limit: state.map.slots.near_limit(),
            }),
            pool.next_usage(),
            &volumes,
            &state.values,
            segments,
            &self.directory_pages,
            &drops,
        );
        append_lists(&mut manifest, &self.patches.lists(), streams);
        manifest
    }

    /// A write of the checkpoint has ended.
    pub(crate) fn write_done(&mut self, dispatcher: &mut Dispatcher) {
        self.writes -= 1;
        self.flush_if_written(dispatcher);
    }

    /// A chunk of data was written that was issued after `freezes` freezes. A chunk that was in
    /// flight at the freeze of the present checkpoint belongs to it.
    pub(crate) fn chunk_done(&mut self, freezes: u64, dispatcher: &mut Dispatcher) {
        if self.phase == CheckpointPhase::Writing && freezes < self.freezes {
            self.write_done(dispatcher);
        }
    }

    /// Flushes once all writes of the checkpoint have ended.
    pub(crate) fn flush_if_written(&mut self, dispatcher: &mut Dispatcher) {
        if self.phase == CheckpointPhase::Writing && self.writes == 0 {
            self.phase = CheckpointPhase::Flushing;
            dispatcher.start_io(Io::Flush, IoPurpose::Flush);
        }
    }

    /// The flush has ended: writes the first copy of the superblock.
    pub(crate) fn flushed(&mut self, dispatcher: &mut Dispatcher) {
        self.phase = CheckpointPhase::Superblocks;
        self.write_superblock(0, dispatcher);
    }

    fn write_superblock(&mut self, copy: usize, dispatcher: &mut Dispatcher) {
        let Some(superblock) = &self.superblock else { return };
        let data = vec![Bytes::from(superblock.encode(copy))];
        dispatcher.writes.superblock += data[0].len() as u64;
        let io = Io::Write { offset: superblock_offset(copy), data, durability: Durability::Durable };
        dispatcher.start_io(io, IoPurpose::Superblock { copy });
    }

    /// A copy of the superblock was written: writes the next one. After the last, completes the
    /// checkpoint and returns its superblock; the caller then frees what only the old checkpoint
    /// needed.
    ///
    /// Not earlier: while two copies are old, one bad new copy would make the old checkpoint the
    /// valid one, and its log and segments must still exist.
    pub(crate) fn superblock_written(&mut self, copy: usize, dispatcher: &mut Dispatcher) -> Option<&Superblock> {
        if copy + 1 < SUPERBLOCK_COPIES {
            self.write_superblock(copy + 1, dispatcher);
            return None;
        }
        self.phase = CheckpointPhase::Idle;
        let superblock = self.superblock.take()?;
        self.sequence = superblock.sequence;
        self.completed += 1;
        self.newest = superblock;
        Some(&self.newest)
    }
}

/// Returns the segments that a checkpoint with a manifest of `manifest` bytes may take: changed
/// metadata up to the limit at which changes stop, the room to release patch lists, the manifest,
/// pages that the cleaner changes last, and the unused ends of segments.
fn segments_for(manifest: u64, state: &ArrayState) -> u64 {
    let budget = state.options.metadata_budget(&state.geometry);
    let bytes = 2 * budget + budget / ROOM_PART + manifest;
    Kind::Metadata.copies() * (bytes.div_ceil(state.geometry.segment_bytes) + 1)
}
