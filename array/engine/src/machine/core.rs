//! The state machine as one value.

#[cfg(test)]
mod paging_tests;
#[cfg(test)]
mod tests;

use super::checkpoint::Checkpoint;
use super::clean::Cleaner;
use super::dedup::Dedup;
use super::dirty::DirtyBlocks;
use super::io::{Action, Io, IoId, Purpose, TaskId};
use super::load::Waiter;
use super::located::Located;
use super::locks::Locks;
use super::log::Log;
use super::options::Options;
use super::pool::Pool;
use super::room::{Pressure, ReplayRoom};
use super::task::Task;
use super::unit::UnitCache;
use super::volume::Volumes;
use super::work::{WorkId, WorkPurpose};
use crate::service::{OpError, Reply, Space, Tag, VolumeSpace};
use blockmap::{Absent, Freed, Map};
use bytes::Bytes;
use ondisk::{ArrayGeometry, ManifestRun, SECTOR_BYTES, SegmentWriter, Superblock};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use types::{BLOCK_BYTES, LBA_BYTES, Lsn, VolumeId};

/// The state of the array. See the module's description.
pub struct Core {
    pub(super) options: Options,
    pub(super) geometry: ArrayGeometry,
    pub(super) array: [u8; 16],
    pub(super) volumes: Volumes,
    pub(super) values: BTreeMap<Bytes, Bytes>,
    /// Bytes that the values take in the manifest.
    pub(super) values_bytes: u64,
    pub(super) map: Map,
    pub(super) freed: Vec<Freed>,
    pub(super) dirty: DirtyBlocks,
    pub(super) dedup: Dedup,
    /// Units that were decompressed.
    pub(super) units: Arc<UnitCache>,
    /// Writes, and units taken up by the cleaner, since the array was opened.
    pub(super) next_write: u64,
    pub(super) pool: Pool,
    pub(super) data_writer: Option<SegmentWriter>,
    pub(super) metadata_writer: Option<SegmentWriter>,
    /// Where each page of the slot table is stored, and each page of this directory.
    pub(super) slot_directory: Vec<Located>,
    pub(super) directory_pages: Vec<Located>,
    pub(super) dirty_directory: BTreeSet<usize>,
    pub(super) manifest_runs: Vec<ManifestRun>,
    pub(super) log: Log,
    pub(super) locks: Locks,
    pub(super) tasks: FxHashMap<TaskId, Task>,
    pub(super) next_task: TaskId,
    pub(super) lock_waiters: VecDeque<TaskId>,
    pub(super) room_waiters: VecDeque<TaskId>,
    pub(super) load_waiters: VecDeque<TaskId>,
    pub(super) commit_waiters: VecDeque<(Lsn, TaskId)>,
    pub(super) runnable: VecDeque<TaskId>,
    /// Pages that are being read, and who waits for them.
    pub(super) loading: FxHashMap<Absent, Vec<Waiter>>,
    /// Pages that the drop queue waits for.
    pub(super) drop_loads: usize,
    /// What the next page of the drop queue needs could not be read: dropping goes on when the slow timer says so.
    pub(super) is_drop_stuck: bool,
    pub(super) ios: FxHashMap<IoId, Purpose>,
    pub(super) next_io: IoId,
    pub(super) works: FxHashMap<WorkId, WorkPurpose>,
    /// Batches of blocks that are being reduced.
    pub(super) batches: usize,
    pub(super) chunk_writes: u32,
    pub(super) actions: Vec<Action>,
    pub(super) checkpoint: Checkpoint,
    pub(super) cleaner: Cleaner,
    pub(super) pressure: Pressure,
    pub(super) replay_room: ReplayRoom,
    pub(super) data_stored: u64,
    /// What the next checkpoint makes of the geometry.
    pub(super) grow_to: Option<ArrayGeometry>,
    /// The newest superblock that every copy holds.
    pub(super) newest: Superblock,
    pub(super) stopped: Option<Arc<str>>,
}

impl Core {
    /// Takes what shall be done since the last call, in order.
    pub fn poll(&mut self, out: &mut Vec<Action>) {
        out.append(&mut self.actions);
    }

    /// True when [`Core::poll`] would give something.
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// True when [`Core::tick`] has work that nothing else will start.
    pub fn wants_tick(&self) -> bool {
        self.stopped.is_none()
            && (self.is_dropping()
                || self.is_destage_due()
                || self.is_checkpoint_due()
                || self.is_cleaning_due()
                || self.is_rebuild_due()
                || self.map.slots.needs_free_slots(self.few_free_slots())
                || (!self.load_waiters.is_empty() && self.loading.is_empty())
                || (self.pool.ready() < self.ready_target() && self.pool.may_grow()))
    }

    /// Background work: drops, destage, checkpoints, cleaning, and segments made ready ahead of their use. Bounded.
    pub fn tick(&mut self) {
        if self.stopped.is_some() {
            return;
        }
        self.pool.reap();
        self.allocate_ahead();
        self.drop_some();
        self.clean();
        self.destage();
        self.drive_checkpoint();
        self.rebuild_index();
        self.fetch_room();
        self.shrink_pages();
        self.wake_load_waiters();
        self.run_woken();
    }

    /// Asks the file system again for segments that it refused before, and the drive for pages that it could not read. For a slow
    /// timer.
    pub fn retry_allocation(&mut self) {
        self.is_drop_stuck = false;
        self.retry_cleaning();
        self.pool.retry_allocation();
    }

    /// Starts a group commit with what has been gathered, unless one is under way (then the next starts when it ends).
    pub fn kick(&mut self) {
        if self.stopped.is_some() || self.log.in_flight || self.log.builder.is_empty() {
            return;
        }
        let sequence = self.log.chain.sequence;
        let group = self.log.builder.seal(&mut self.log.chain);
        self.log.gathered = 0;
        let Some(offset) = self.log.ring.reserve(sequence, group.bytes) else {
            return self.stop("the log has no room for a group that was admitted");
        };
        self.log.in_flight = true;
        let io = Io::Write {
            offset: self.geometry.log_start() + offset,
            data: group.parts,
            durability: platform::Durability::Durable,
        };
        self.start_io(io, Purpose::Log { last: group.last_lsn });
    }

    /// A value of the catalogue.
    pub fn get(&self, key: &[u8]) -> Option<&Bytes> {
        self.values.get(key)
    }

    /// Values whose key begins with `prefix`, in order.
    pub fn scan<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = (&'a Bytes, &'a Bytes)> {
        self.values.range(Bytes::copy_from_slice(prefix)..).take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// The volumes, by name, with their sizes in blocks.
    pub fn volumes(&self) -> BTreeMap<VolumeId, u64> {
        self.volumes.iter().map(|(name, volume)| (*name, volume.blocks)).collect()
    }

    /// How full the pool is.
    pub fn space(&self) -> Space {
        let (live, data) = self.pool.live_sectors();
        let dirty = self.dirty.unplaced() * BLOCK_BYTES;
        let stored = data * SECTOR_BYTES + dirty;
        // What a drive says may be forged, hence no overflow.
        let repeated = (self.map.slots.shared_sectors() * SECTOR_BYTES).min(stored);
        Space {
            capacity: self.pool.segments().len() as u64 * self.geometry.segment_bytes,
            used: live * SECTOR_BYTES + dirty,
            data: stored,
            repeated,
            system: (live - data) * SECTOR_BYTES,
            written: self.volumes.mapped().saturating_mul(BLOCK_BYTES),
            data_stored: self.data_stored,
            changes: self.log.last().0,
            is_refused_below: self.pool.lacks_room_below(self.ready_target()),
        }
    }

    /// What a volume holds.
    pub fn volume_space(&self, volume: VolumeId) -> Option<VolumeSpace> {
        let volume = self.volumes.get(&volume)?;
        let (provisioned, written) = (volume.blocks * LBA_BYTES, volume.root.mapped.saturating_mul(BLOCK_BYTES));
        Some(VolumeSpace { provisioned, written })
    }

    /// True when writes are acknowledged before they are durable.
    pub fn has_write_cache(&self) -> bool {
        self.options.write_cache
    }

    /// The array's name, as every structure bears it.
    pub(crate) fn array(&self) -> [u8; 16] {
        self.array
    }

    /// The superblock of the newest checkpoint that counts.
    pub fn newest_superblock(&self) -> &Superblock {
        &self.newest
    }

    /// How the drive is divided.
    pub fn geometry(&self) -> &ArrayGeometry {
        &self.geometry
    }

    /// Why the core has stopped, if it has.
    pub fn stopped(&self) -> Option<&Arc<str>> {
        self.stopped.as_ref()
    }

    /// Nothing that was acknowledged can be at risk after this: the engine stops, and answers so to everyone who waits.
    pub(super) fn stop(&mut self, reason: &str) {
        if self.stopped.is_some() {
            return;
        }
        let reason: Arc<str> = reason.into();
        self.stopped = Some(reason.clone());
        let mut waiting: Vec<(TaskId, Task)> = self.tasks.drain().collect();
        waiting.sort_unstable_by_key(|(id, _)| *id);
        for (_, task) in waiting {
            self.complete(task.tag, Err(OpError::Stopped(reason.clone())));
        }
        self.lock_waiters.clear();
        self.room_waiters.clear();
        self.load_waiters.clear();
        self.commit_waiters.clear();
        self.runnable.clear();
        self.loading.clear();
    }

    pub(super) fn complete(&mut self, tag: Tag, result: Result<Reply, OpError>) {
        self.actions.push(Action::Complete { tag, result });
    }

    /// True while the drop queue gives space back.
    pub(super) fn is_dropping(&self) -> bool {
        self.map.drops_len() > 0 && !self.is_drop_stuck
    }

    /// Works off the drop queue, a bounded slice at a time.
    fn drop_some(&mut self) {
        const PAGES_PER_TICK: usize = 32;
        if self.drop_loads > 0 || self.is_drop_stuck || self.is_crowded() {
            return;
        }
        for _ in 0..PAGES_PER_TICK {
            // Freed slots are changed metadata, which a checkpoint has to hold.
            if 2 * self.dirty_metadata() > 3 * self.metadata_budget() {
                break;
            }
            match self.map.drop_next() {
                Ok(true) => self.settle_freed(),
                Ok(false) => break,
                Err(absent) => {
                    self.drop_loads = absent.len();
                    absent.into_iter().for_each(|absent| self.load(absent, Waiter::Drop));
                    break;
                }
            }
        }
    }

    /// Something that the next page of the drop queue needs is there, or cannot be read.
    pub(super) fn drop_loaded(&mut self, is_sound: bool) {
        self.drop_loads -= 1;
        if !is_sound && !self.is_drop_stuck {
            self.is_drop_stuck = true;
            self.map.defer_drop();
        }
    }
}
