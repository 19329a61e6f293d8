//! Opens an array: superblock, manifest, slot directory, then the log.

use super::Core;
use super::check::{check_manifest, check_superblock};
use super::preload::{BYTES_PER_BATCH, OPS_PER_BATCH};
use crate::machine::backpressure::Backpressure;
use crate::machine::checkpointer::Checkpointer;
use crate::machine::checkpointer::metadata::sectors_of;
use crate::machine::dedup::Dedup;
use crate::machine::destager::Destager;
use crate::machine::dirty::DirtyBlocks;
use crate::machine::dispatcher::Dispatcher;
use crate::machine::error::RecoverError;
use crate::machine::io::{Action, Io, perform};
use crate::machine::log::Log;
use crate::machine::log_reader::LogReader;
use crate::machine::options::Options;
use crate::machine::ordered::OrderedStreams;
use crate::machine::page_loader::PageLoader;
use crate::machine::pool::{Kind, Phase, Pool, Segment};
use crate::machine::read::{read_manifest, read_map_page, read_page_at, read_pages, read_patch_part, read_superblocks};
use crate::machine::refusals::Refusals;
use crate::machine::report::Recovery;
use crate::machine::scheduler::Scheduler;
use crate::machine::space::Space;
use crate::machine::state::ArrayState;
use crate::machine::volume::{Volume, Volumes};
use blockmap::{
    Absent, InteriorEntry, Map, Page, Ref, RefTarget, Root, SLOT_PAGE_BYTES, SLOTS_PER_PAGE, SlotBytes, SlotId,
};
use ondisk::{
    LOCATIONS_PER_PAGE, Manifest, ManifestSegment, PageLocation, Patch, PatchedPage, SECTOR_BYTES, SlotSums,
    Superblock, decode_patch, superblock_offset,
};
use platform::{Disk, DiskError, Durability};
use rustc_hash::FxHashMap;
use types::Lsn;
use wal::{Chain, LogOp, Replay, ReplayError, Ring};

/// Pages of the slot table that are read together: 16 MiB.
const PAGES_PER_BATCH: usize = 4096;

impl Core {
    /// Opens an array: loads the newest valid checkpoint, and replays every log record after it.
    ///
    /// # Errors
    ///
    /// The drive fails, or a structure on it is damaged.
    pub fn recover(disk: &dyn Disk, options: Option<Options>) -> Result<(Core, Recovery), RecoverError> {
        let copies = read_superblocks(disk)?;
        let superblock = Superblock::choose(&copies)?;
        check_superblock(&superblock)?;
        let needed = superblock.geometry.capacity;
        if disk.size() < needed {
            return Err(RecoverError::TooShort { needed, found: disk.size() });
        }
        let manifest = read_manifest(disk, &superblock)?;
        check_manifest(&superblock, &manifest)?;
        let (slot_pages, sums, drops) = (manifest.slot_pages, manifest.sums, manifest.drops.clone());
        let directory = manifest.directory.clone();
        let options = options.unwrap_or_else(|| Options::for_geometry(&superblock.geometry));
        let mut core = Self::assemble(&superblock, manifest, options);
        core.read_directory(disk, slot_pages, &directory)?;
        core.read_patches(disk)?;
        match sums {
            Some(sums) => core.trust_slots(sums)?,
            None => core.count_slots(disk)?,
        }
        for bits in drops {
            if let Some(RefTarget::Page(id)) = Ref::from_bits(bits).map(Ref::target) {
                core.state.map.restore_drop(id);
            }
        }
        core.check_roots(disk)?;
        // Before the replay writes into segments that are free now. An older checkpoint may still
        // name them, so its superblock copies must not become valid if a new one goes bad.
        let stale = superblock.stale_copies(&copies);
        if !stale.is_empty() {
            // After a process crash a copy that was read may be in a cache only. If power failed
            // while another one is rewritten, no two copies might agree.
            disk.flush()?;
        }
        for copy in stale {
            disk.write_at(superblock_offset(copy), &[&superblock.encode(copy)], Durability::Durable)?;
        }
        let report = core.replay(disk, &superblock)?;
        if core.space.pool.is_overdrawn() {
            return Err(RecoverError::Damaged("the account of the segments"));
        }
        Ok((core, report))
    }

    /// Joins a core from a superblock and a manifest, without the slot table.
    pub(super) fn assemble(superblock: &Superblock, manifest: Manifest, options: Options) -> Core {
        let mut segments: Vec<Segment> = manifest.segments.iter().map(|segment| restored(*segment)).collect();
        for run in &superblock.manifest {
            // The manifest describes the pool as it was before the manifest itself was stored.
            if let Some(segment) = segments.get_mut(run.segment() as usize) {
                if segment.phase == Phase::Free {
                    (segment.kind, segment.phase, segment.usage) = (Kind::Metadata, Phase::Sealed, manifest.next_usage);
                    segment.mirror = Some(run.mirror());
                }
                segment.live = segment.live.saturating_add(sectors_of(run.bytes()));
                segment.sectors = segment.sectors.max(run.sector() + sectors_of(run.bytes()));
            }
        }
        for mirror in segments.iter().filter_map(|segment| segment.mirror).collect::<Vec<u32>>() {
            segments[mirror as usize] = Segment::MIRROR;
        }
        let mut volumes = Volumes::default();
        for volume in &manifest.volumes {
            let reference = Ref::from_bits(volume.root).unwrap_or(Ref::HOLE);
            let root = Root { reference, height: volume.height, mapped: volume.mapped };
            volumes.insert(volume.id, Volume { blocks: volume.blocks, root });
        }
        let streams = OrderedStreams::restore(manifest.streams, superblock.geometry.log_bytes);
        let ring = Ring::new(superblock.geometry.log_bytes, superblock.log.head);
        Core {
            checkpointer: Checkpointer::new(superblock, manifest.directory, manifest.patches),
            state: ArrayState::new(options, superblock.geometry, superblock.array, volumes, manifest.values, streams),
            log: Log::new(chain_at(superblock), ring),
            scheduler: Scheduler::new(options.write_cache),
            dispatcher: Dispatcher::default(),
            loader: PageLoader::default(),
            destager: Destager::new(Dedup::new(options.index_bytes), DirtyBlocks::new(options.last_ticket)),
            space: Space::new(Pool::restore(segments, manifest.next_usage + 1)),
            stopped: None,
            is_consistent: true,
            refusals: Refusals::default(),
            log_loss: None,
        }
    }

    /// Reads the slot directory.
    fn read_directory(&mut self, disk: &dyn Disk, pages: u32, directory: &[PageLocation]) -> Result<(), RecoverError> {
        let slot_directory = &mut self.checkpointer.slot_directory;
        for bytes in read_pages(disk, &self.state.geometry, &self.space.pool, directory) {
            let mut bytes = bytes.ok_or(RecoverError::Damaged("a page of the slot directory"))?;
            for _ in 0..LOCATIONS_PER_PAGE {
                slot_directory.extend(PageLocation::decode(&mut bytes));
            }
        }
        slot_directory.truncate(pages as usize);
        if slot_directory.len() == pages as usize { Ok(()) } else { Err(RecoverError::Damaged("the slot directory")) }
    }

    /// Reads the patches of pages, oldest list first.
    fn read_patches(&mut self, disk: &dyn Disk) -> Result<(), RecoverError> {
        let may_be_interior = self.checkpointer.newest().has_interior_patches;
        let mut fold = PatchFold::default();
        for list in self.checkpointer.patches.lists() {
            for part in &list.parts {
                let bytes = read_patch_part(disk, &self.state.geometry, &self.space.pool, part);
                let bytes = bytes.ok_or(RecoverError::LostPatches)?;
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let patch = decode_patch(&mut rest).ok_or(RecoverError::LostPatches)?;
                    if patch.is_interior() && !may_be_interior {
                        return Err(RecoverError::LostPatches);
                    }
                    fold.add(patch, list.sequence, &mut self.state.map).ok_or(RecoverError::LostPatches)?;
                }
            }
        }
        for (page, stated) in fold.stated {
            let location = self.checkpointer.slot_directory.get_mut(page as usize).filter(|at| at.sectors > 0);
            let location = location.ok_or(RecoverError::LostPatches)?;
            (location.free, location.used_for) = stated;
        }
        Ok(())
    }

    /// Takes the sums and the free slots of each page from the checkpoint. Pages of the slot table
    /// are read when their slots are needed.
    fn trust_slots(&mut self, sums: SlotSums) -> Result<(), RecoverError> {
        let slots = &mut self.state.map.slots;
        for location in &self.checkpointer.slot_directory {
            if location.sectors as usize != SLOT_PAGE_BYTES / SECTOR_BYTES as usize
                || usize::from(location.free) > SLOTS_PER_PAGE
            {
                return Err(RecoverError::Damaged("a location in the slot directory"));
            }
            slots.append_absent(location.free, location.used_for);
        }
        slots.set_sums(sums.shared_sectors, sums.shared_aliases, sums.near_limit);
        self.check_located()
    }

    /// Reads the whole slot table and counts what the checkpoint does not state; as many pages stay
    /// loaded as the budget allows. The next checkpoint stores the counts.
    fn count_slots(&mut self, disk: &dyn Disk) -> Result<(), RecoverError> {
        let pages = self.checkpointer.slot_directory.len();
        let mut found = vec![0; self.space.pool.segments().len()];
        for first in (0..pages).step_by(PAGES_PER_BATCH) {
            let batch = &self.checkpointer.slot_directory[first..pages.min(first + PAGES_PER_BATCH)];
            let read = read_pages(disk, &self.state.geometry, &self.space.pool, batch);
            for (page, bytes) in (first as u32..).zip(read) {
                let Self { state, space, .. } = self;
                let is_metadata = |segment| space.pool.is_metadata(segment);
                if !bytes.is_some_and(|bytes| state.map.slots.append_stored(&bytes, is_metadata)) {
                    return Err(RecoverError::Damaged("a page of the slot table"));
                }
                self.check_places(page, &mut found)?;
                let slots = &self.state.map.slots;
                let location = &mut self.checkpointer.slot_directory[page as usize];
                (location.free, location.used_for) = (slots.free_in(page), slots.use_of(page));
                self.loader.evict_pages(&mut self.state);
            }
        }
        (0..pages.div_ceil(LOCATIONS_PER_PAGE)).for_each(|page| self.checkpointer.touch_directory(page));
        self.check_accounts(found)
    }

    fn replay(&mut self, disk: &dyn Disk, superblock: &Superblock) -> Result<Recovery, RecoverError> {
        let mut report = Recovery::default();
        let start = self.state.geometry.log_start();
        let mut replay = Replay::new(chain_at(superblock), self.state.geometry.log_bytes, superblock.log.head);
        let mut reader = LogReader::new(disk, &self.state.geometry);
        let (mut is_readable, mut is_over) = (true, false);
        while !is_over {
            let (mut records, mut ops, mut bytes) = (Vec::new(), 0, 0);
            while ops < OPS_PER_BATCH && bytes < BYTES_PER_BATCH {
                let group = match replay.next(|offset, length| reader.read(offset, length)) {
                    Ok(Some(group)) => group,
                    Ok(None) => {
                        is_over = true;
                        break;
                    }
                    Err(ReplayError::Read(_)) => {
                        (is_readable, is_over) = (false, true);
                        break;
                    }
                    Err(malformed) => return Err(RecoverError::Log(malformed.to_string())),
                };
                report.groups += 1;
                for (_, record) in group {
                    ops += record.len();
                    bytes += record.iter().map(payload_bytes).sum::<usize>();
                    records.push(record);
                }
            }
            self.preload(disk, &records.iter().flatten().collect::<Vec<_>>());
            for record in &records {
                report.records += 1;
                let ops = self.state.streams.replay(record).map_err(|what| RecoverError::Log(what.to_owned()))?;
                self.space.reserve_replay(ops);
                for op in ops {
                    report.bytes += data_bytes(op) as u64;
                    self.replay_op(disk, op)?;
                }
            }
        }
        let loss = replay.find_loss(|offset, length| reader.read_exactly(offset, length));
        // An unreadable group may have been acknowledged, unlike one that a crash has torn.
        if let Some(loss) = loss.or_else(|| (!is_readable).then(|| replay.unreadable_end())) {
            if !self.state.options.accept_log_loss {
                return Err(RecoverError::LogLoss(Box::new(loss)));
            }
            self.log_loss = Some(loss.to_string().into());
            self.state.streams.mark_hurt();
        }
        // A process crash leaves the last group in a cache. It is visible now, so it must also
        // survive a power loss. A flush alone does not store it if its write has failed before.
        if let Some((offset, group)) = replay.last_group() {
            disk.write_at(start + offset, &[&group[..]], Durability::Durable)?;
        }
        self.start_log(replay);
        disk.flush()?;
        if self.log_loss.is_some() {
            // The new checkpoint names the next epoch, so the lost groups do not count any more.
            self.request_checkpoint();
            if !self.state.streams.is_empty() {
                self.store_hurt(disk)?;
            }
        }
        Ok(report)
    }

    /// Completes the checkpoint that states that streams are hurt. A group that is logged before it
    /// would hide the loss from the next opening.
    fn store_hurt(&mut self, disk: &dyn Disk) -> Result<(), RecoverError> {
        while self.checkpointer.completed() == 0 {
            self.tick();
            if !self.execute_actions(disk)? || self.stopped.is_some() {
                let reason = self.stopped.as_deref().unwrap_or("no space for a checkpoint after the loss of records");
                return Err(RecoverError::Replay(reason.to_owned()));
            }
        }
        while self.execute_actions(disk)? {}
        Ok(())
    }

    fn replay_op(&mut self, disk: &dyn Disk, op: &LogOp) -> Result<(), RecoverError> {
        self.state.check_record(op)?;
        loop {
            let missing = self.state.missing_for_record(op);
            if missing.is_empty() {
                break;
            }
            if !missing.into_iter().all(|absent| self.load_now(disk, absent)) {
                return Err(RecoverError::Damaged("a page of the map"));
            }
        }
        self.apply(op);
        // Blocks beyond the memory limit get places while the replay continues.
        while self.destager.dirty.bytes() > self.state.options.dirty_limit && self.stopped.is_none() {
            self.space.backpressure.memory = true;
            self.allocate_ahead();
            self.destage();
            self.cut_data_chunks();
            if !self.execute_actions(disk)? {
                break;
            }
        }
        self.space.backpressure = Backpressure::default();
        self.loader.evict_pages(&mut self.state);
        match &self.stopped {
            Some(reason) => Err(RecoverError::Replay(reason.to_string())),
            None => Ok(()),
        }
    }

    /// Reads an absent page at once. False if it cannot be read.
    pub(super) fn load_now(&mut self, disk: &dyn Disk, absent: Absent) -> bool {
        let Self { state, checkpointer, space, .. } = self;
        match absent {
            // The page is in memory and still missing: it belongs to another level.
            Absent::Page(id) if state.map.pages.contains(id) => false,
            Absent::Page(id) => {
                let slot = state.map.slots.get(id);
                let page = slot.and_then(|slot| read_map_page(disk, &state.geometry, &space.pool, &slot));
                page.is_some_and(|page| state.map.pages.insert_stored(id, page))
            }
            Absent::Slots(page) => {
                let location = checkpointer.slot_directory.get(page as usize).copied();
                let bytes = location.and_then(|location| {
                    read_page_at(disk, &state.geometry, location, space.pool.mirror(location.segment))
                });
                bytes.is_some_and(|bytes| state.load_slot_page(&space.pool, page, &bytes))
            }
        }
    }

    /// Continues the log after the last group that was replayed, in a new epoch.
    pub(super) fn start_log(&mut self, replay: Replay) {
        let (mut chain, ring) = replay.finish();
        chain.epoch += 1;
        self.log = Log::new(chain, ring);
    }

    /// Executes the queued actions, one after the other. False if there were none.
    pub(super) fn execute_actions(&mut self, disk: &dyn Disk) -> Result<bool, DiskError> {
        let mut actions = Vec::new();
        self.poll(&mut actions);
        let has_actions = !actions.is_empty();
        for action in actions {
            match action {
                Action::Io { id, io } => {
                    let result = perform(disk, &io);
                    if let (Io::Write { .. } | Io::Flush, Err(error)) = (&io, &result) {
                        return Err(error.clone());
                    }
                    self.io_done(id, result);
                }
                Action::Fetch { id, plan } => self.fetched(id, plan.execute(disk)),
                Action::Work { id, work } => self.worked(id, work.perform(disk)),
                Action::Read(_) | Action::Complete { .. } => {}
            }
        }
        Ok(has_actions)
    }
}

/// The patches that were read so far.
#[derive(Default)]
struct PatchFold {
    /// Free slots and use of the pages that have patches. Those of others are in their locations.
    stated: FxHashMap<u32, (u16, u8)>,
    slots: Vec<(u8, SlotBytes)>,
    references: Vec<(u8, Ref)>,
    subtrees: Vec<(u16, InteriorEntry)>,
}

impl PatchFold {
    /// Adds a patch to those of its page. `None` if its content is not valid.
    fn add(&mut self, patch: Patch<'_>, list: u64, map: &mut Map) -> Option<()> {
        match patch {
            Patch::Slots { page, stated, entries } => {
                self.stated.insert(page, stated);
                self.slots.clear();
                self.slots.extend(entries.iter().map(|(index, bytes)| (index, SlotBytes::from_bytes(bytes))));
                map.slots.patches.add(page, list, &self.slots);
            }
            Patch::Leaf(leaf, entries) => {
                self.references.clear();
                for (index, bytes) in entries.iter() {
                    let reference = Ref::from_bits(u64::from_le_bytes(bytes))?;
                    if matches!(reference.target(), RefTarget::Page(_)) {
                        return None;
                    }
                    self.references.push((index, reference));
                }
                map.pages.patches.add(page_id(leaf)?, list, &self.references);
            }
            Patch::Interior(page, entries) => {
                self.subtrees.clear();
                self.subtrees.extend(entries.iter());
                if !self.subtrees.iter().all(|(_, entry)| Page::is_entry(entry)) {
                    return None;
                }
                map.pages.interior_patches.add(page_id(page)?, list, &self.subtrees);
            }
            Patch::Void(PatchedPage::Slots { page, .. }) => {
                self.stated.remove(&page);
                map.slots.patches.remove(page);
            }
            Patch::Void(PatchedPage::Leaf(leaf)) => {
                map.pages.patches.remove(page_id(leaf)?);
            }
            Patch::Void(PatchedPage::Interior(page)) => {
                map.pages.interior_patches.remove(page_id(page)?);
            }
        }
        Some(())
    }
}

/// Returns the page of the map that a patch names.
fn page_id(bits: u64) -> Option<SlotId> {
    match Ref::from_bits(bits)?.target() {
        RefTarget::Page(id) => Some(id),
        _ => None,
    }
}

/// Returns a segment as a manifest lists it. One that was open is not filled further.
fn restored(segment: Option<ManifestSegment>) -> Segment {
    let Some(ManifestSegment { mirror, live, sectors, summary, usage }) = segment else { return Segment::FREE };
    let kind = if mirror.is_some() { Kind::Metadata } else { Kind::Data };
    Segment { kind, phase: Phase::Sealed, live, usage, sectors, summary, mirror }
}

/// Returns the bytes of data or of a value that an operation has in the log.
fn payload_bytes(op: &LogOp) -> usize {
    if let LogOp::Put { value, .. } = op { value.len() } else { data_bytes(op) }
}

/// Returns the bytes that a write has in the log.
fn data_bytes(op: &LogOp) -> usize {
    if let LogOp::Write { data, .. } = op { data.len() } else { 0 }
}

fn chain_at(superblock: &Superblock) -> Chain {
    let log = &superblock.log;
    Chain {
        array: superblock.array,
        epoch: log.epoch,
        sequence: log.sequence,
        lsn: Lsn(log.lsn),
        previous: log.previous,
    }
}
