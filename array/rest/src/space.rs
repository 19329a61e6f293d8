//! Space usage of volumes and of the array.
//!
//! The engine always knows how much hosts have written and how much the pool stores. The ownership
//! of stored bytes (unique, shared, snapshots) requires a walk over all block maps. A request
//! triggers the walk if data has changed and the walk is quick; otherwise it runs in the
//! background. Its figures carry their time. At that time, the figures of all volumes add up to
//! those of the array.

use api::Space;
use catalog::{Catalog, CatalogState, Snapshot, Volume, VolumeOrSnapshot};
use engine::{FamilySpace, Maintenance, Owner, SpaceByFamily};
use parking_lot::{Mutex, MutexGuard, RwLock};
use platform::clock;
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::{ObjectId, VolumeId};

/// Background and implicit counts take at most 1/20 of the time. An explicit refresh has no limit.
pub const COUNT_PART: u32 = 20;
/// A request waits for a new count only if the last one took at most this long.
const QUICK: Duration = Duration::from_millis(500);
/// Maximum wait for a count that a request triggers. The array may be too busy for the checkpoint
/// that a count needs, or have no space for it.
const COUNT_TIMEOUT: Duration = Duration::from_secs(1);
/// A list of more objects does not wait for a count. The background count is at most a minute old.
pub(crate) const LONG_LIST: usize = 1000;
/// Before the first count, a count is assumed to be quick up to this many stored bytes.
const LITTLE_DATA: u64 = 16 << 30;

/// Counts space and reports the usage of objects.
pub(crate) struct SpaceAccounting {
    catalog: Arc<Catalog>,
    engine: Arc<dyn Maintenance>,
    /// Held during a count. Concurrent counts would only slow each other down.
    counting: Mutex<()>,
    latest: RwLock<Option<Arc<Counted>>>,
    /// Requests do not wait for a count before this time, because the last wait timed out.
    retry_at: Mutex<Option<Instant>>,
}

struct Counted {
    accounting: SpaceByFamily,
    as_of_ms: u64,
    /// The versions just before the count.
    versions: Versions,
    duration: Duration,
    ended: Instant,
}

/// Counters that change whenever the ownership of stored bytes may have changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Versions {
    /// Changes by hosts and administrators, from the engine's log.
    changes: u64,
    /// Stored bytes, which the engine changes when it compresses or frees data.
    data: u64,
    /// Version of the catalog.
    catalog: u64,
}

/// Bytes that hosts have written to volumes, by id.
pub(crate) struct WrittenBytes(Vec<(ObjectId, u64)>);

impl WrittenBytes {
    fn to(&self, volume: ObjectId) -> u64 {
        self.0.binary_search_by_key(&volume, |(id, _)| *id).map_or(0, |at| self.0[at].1)
    }
}

impl Counted {
    /// Returns whether a request may wait for a new count: the last one was quick and long enough
    /// ago.
    fn may_be_repeated(&self) -> bool {
        self.duration <= QUICK && clock::now().saturating_duration_since(self.ended) >= self.duration * COUNT_PART
    }
}

impl SpaceAccounting {
    pub(crate) fn new(catalog: Arc<Catalog>, engine: Arc<dyn Maintenance>) -> Self {
        Self { catalog, engine, counting: Mutex::default(), latest: RwLock::default(), retry_at: Mutex::default() }
    }

    /// Counts the space of all volumes and keeps the figures. Blocks: reads all block maps. Returns
    /// false if the engine could not count.
    pub(crate) fn count(&self) -> bool {
        self.count_locked(&self.counting.lock(), None)
    }

    /// Counts the space before a request reads the figures, if data has changed and a count is
    /// quick. Otherwise the request gets the figures of the last count.
    pub(crate) fn count_if_quick(&self) {
        let is_due = || match self.counted() {
            None => self.engine.space().data <= LITTLE_DATA,
            Some(last) => last.may_be_repeated() && last.versions != self.versions(),
        };
        if self.retry_at.lock().is_some_and(|until| clock::now() < until) || !is_due() {
            return;
        }
        let is_counted = match self.counting.try_lock_for(COUNT_TIMEOUT) {
            // Another thread may have counted in the meantime.
            Some(counting) => !is_due() || self.count_locked(&counting, Some(COUNT_TIMEOUT)),
            None => false,
        };
        if !is_counted {
            *self.retry_at.lock() = Some(clock::now() + COUNT_TIMEOUT * COUNT_PART);
        }
    }

    /// Like [`count_if_quick`](Self::count_if_quick) for a list, unless it is long: a page of it is
    /// worth less than the wait.
    pub(crate) fn count_for_list(&self, objects: usize) {
        if objects <= LONG_LIST {
            self.count_if_quick();
        }
    }

    fn count_locked(&self, _counting: &MutexGuard<'_, ()>, timeout: Option<Duration>) -> bool {
        // Reads the current state for each id, because snapshots may be taken during the walk.
        let owner = |content: VolumeId| owner(&self.catalog.state(), content);
        let (start, as_of_ms) = (clock::now(), clock::unix_millis());
        let versions = self.versions();
        let Some(accounting) = self.engine.account_space(&owner, timeout) else { return false };
        let ended = clock::now();
        let duration = ended.saturating_duration_since(start);
        *self.latest.write() = Some(Arc::new(Counted { accounting, as_of_ms, versions, duration, ended }));
        true
    }

    /// Returns the time of the last count (ms since 1970); 0 before the first one.
    pub(crate) fn counted_ms(&self) -> u64 {
        self.counted().map_or(0, |counted| counted.as_of_ms)
    }

    /// Returns whether the last count is still up to date.
    pub(crate) fn is_current(&self) -> bool {
        self.counted().is_some_and(|counted| counted.versions == self.versions())
    }

    /// Runs `ask` while another count holds the lock.
    #[cfg(test)]
    pub(crate) fn while_another_counts(&self, ask: impl FnOnce()) {
        let _counting = self.counting.lock();
        ask();
    }

    /// Sets the duration of the last count.
    #[cfg(test)]
    pub(crate) fn set_count_duration(&self, duration: Duration) {
        let mut latest = self.latest.write();
        let last = latest.as_ref().unwrap();
        let Counted { as_of_ms, versions, ended, .. } = **last;
        *latest = Some(Arc::new(Counted { accounting: last.accounting.clone(), as_of_ms, versions, duration, ended }));
    }

    fn versions(&self) -> Versions {
        let space = self.engine.space();
        Versions { changes: space.changes, data: space.data, catalog: self.catalog.version() }
    }

    fn counted(&self) -> Option<Arc<Counted>> {
        self.latest.read().clone()
    }

    /// Returns the capacity and the space of the array. `system + unique + shared + snapshots` is
    /// always `total_physical`: data written since the last count is added to `unique`.
    pub(crate) fn of_array(&self, state: &CatalogState) -> (u64, Space) {
        let pool = self.engine.space();
        let counted = self.counted();
        // The count may be older than the pool's figures, so each part is limited to the remaining
        // bytes.
        let mut left = pool.data;
        let mut part = |bytes: u64| {
            let part = bytes.min(left);
            left -= part;
            part
        };
        let (shared, snapshots, released) = match counted.as_deref() {
            Some(Counted { accounting, .. }) => {
                (part(accounting.shared()), part(accounting.snapshots()), part(accounting.released))
            }
            None => (0, 0, 0),
        };
        let unique = left;
        let written = self.written(state.volumes().map(|volume| volume.content()));
        let (mut provisioned, mut written_live, mut written_all) = (0, 0, 0);
        for (volume, written) in state.volumes().zip(written) {
            written_all += written;
            if volume.destroyed_ms.is_none() {
                (provisioned, written_live) = (provisioned + volume.bytes, written_live + written);
            }
        }
        let space = Space {
            as_of: counted.map(|counted| counted.as_of_ms),
            data_reduction: ratio(written_all, written_all, unique + shared),
            replication: 0,
            shared: Some(shared),
            snapshots,
            system: Some(pool.used.saturating_sub(pool.data) + released),
            thin_provisioning: thin(written_live, provisioned),
            total_physical: Some(pool.used),
            total_used: Some(pool.used),
            used_provisioned: Some(provisioned),
            total_provisioned: provisioned,
            total_reduction: ratio(written_all, provisioned, unique + shared),
            unique: Some(unique),
            r#virtual: Some(written_all),
            ..Space::default()
        };
        (pool.capacity, space)
    }

    /// Returns the space of a volume with its snapshots.
    pub(crate) fn of_volume(&self, volume: &Volume) -> Space {
        self.of_volumes(&[volume])
    }

    /// Returns the space of each volume with its snapshots.
    pub(crate) fn of_each_volume<'a>(&self, volumes: &[&'a Arc<Volume>]) -> Vec<(&'a Arc<Volume>, Space)> {
        let written = self.written(volumes.iter().map(|volume| volume.content()));
        let spaces =
            volumes.iter().zip(written).map(|(volume, written)| (*volume, self.of_written(&[volume], written)));
        spaces.collect()
    }

    /// Returns the bytes that hosts have written to all of these volumes, to sort or filter a list.
    pub(crate) fn written_to_all(&self, volumes: &[Arc<Volume>]) -> WrittenBytes {
        let written = self.written(volumes.iter().map(|volume| volume.content()));
        let mut of_volume: Vec<(ObjectId, u64)> = volumes.iter().map(|volume| volume.id).zip(written).collect();
        of_volume.sort_unstable();
        WrittenBytes(of_volume)
    }

    /// As [`of_volume`](Self::of_volume), with bytes that were read before.
    pub(crate) fn of_volume_with(&self, volume: &Volume, written: &WrittenBytes) -> Space {
        self.of_written(&[volume], written.to(volume.id))
    }

    /// Returns the total space of volumes with their snapshots.
    pub(crate) fn of_volumes(&self, volumes: &[&Volume]) -> Space {
        self.of_written(volumes, self.written(volumes.iter().map(|volume| volume.content())).iter().sum())
    }

    /// Returns the bytes that hosts have written to each volume or snapshot.
    fn written(&self, contents: impl Iterator<Item = VolumeId>) -> Vec<u64> {
        let spaces = self.engine.volume_spaces(&contents.collect::<Vec<_>>());
        spaces.into_iter().map(|space| space.unwrap_or_default().written).collect()
    }

    /// Returns the total space of volumes to which hosts have `written` bytes.
    fn of_written(&self, volumes: &[&Volume], written: u64) -> Space {
        let provisioned = volumes.iter().map(|volume| volume.bytes).sum();
        let counted = self.counted();
        let mut all = FamilySpace::default();
        for volume in volumes {
            // A volume created after the count has no entry.
            let families = counted.as_ref().map(|counted| &counted.accounting.families);
            let family = families.and_then(|families| families.get(&volume.content())).copied().unwrap_or_default();
            all.written += family.written;
            all.unique += family.unique;
            all.snapshots += family.snapshots;
            all.shared += family.shared;
        }
        let measured = |bytes: u64| counted.as_ref().map(|_| bytes);
        Space {
            as_of: counted.as_ref().map(|counted| counted.as_of_ms),
            // Both sides of the ratios are from the time of the count.
            data_reduction: ratio(all.written, all.written, all.unique + all.shared),
            shared: measured(all.shared),
            snapshots: all.snapshots,
            thin_provisioning: thin(written, provisioned),
            total_physical: measured(all.physical()),
            total_used: measured(all.physical()),
            total_reduction: ratio(all.written, provisioned, all.unique + all.shared),
            unique: measured(all.unique),
            r#virtual: Some(written),
            ..unmeasured(provisioned)
        }
    }

    /// Returns the space of the volumes of a host, with their snapshots. Connected snapshots count
    /// only by their size.
    pub(crate) fn of_host(&self, objects: &[VolumeOrSnapshot]) -> Space {
        let volumes: Vec<&Volume> = objects
            .iter()
            .filter_map(|object| match object {
                VolumeOrSnapshot::Volume(volume) => Some(volume.as_ref()),
                VolumeOrSnapshot::Snapshot(_) => None,
            })
            .collect();
        let provisioned = objects.iter().map(VolumeOrSnapshot::bytes).sum();
        Space { total_provisioned: provisioned, used_provisioned: Some(provisioned), ..self.of_volumes(&volumes) }
    }

    /// Returns the space of each snapshot. `among` returns the number of snapshots of its volume.
    /// The space of a single snapshot is not measured, because it changes with every snapshot of
    /// the volume. Each has an equal share of the data stored for these snapshots only, so the
    /// shares add up.
    pub(crate) fn of_each_snapshot<'a>(
        &self,
        snapshots: &[&'a Arc<Snapshot>],
        among: impl Fn(&Snapshot) -> u64,
    ) -> Vec<(&'a Arc<Snapshot>, Space)> {
        let written = self.written(snapshots.iter().map(|snapshot| snapshot.content()));
        let of = |(snapshot, written): (&&'a Arc<Snapshot>, u64)| {
            (*snapshot, self.of_snapshot(snapshot, written, among(snapshot)))
        };
        snapshots.iter().zip(written).map(of).collect()
    }

    fn of_snapshot(&self, snapshot: &Snapshot, written: u64, among: u64) -> Space {
        let counted = self.counted();
        let state = self.catalog.state();
        let content = state.volume_by_id(snapshot.volume).map(|volume| volume.content());
        let families = counted.as_ref().map(|counted| &counted.accounting.families);
        let family = families.zip(content).and_then(|(families, content)| families.get(&content));
        let share = family.map_or(0, |family| family.snapshots / among.max(1));
        let measured = |bytes: u64| counted.as_ref().map(|_| bytes);
        Space {
            as_of: counted.as_ref().map(|counted| counted.as_of_ms),
            snapshots: share,
            thin_provisioning: thin(written, snapshot.bytes),
            total_physical: measured(share),
            total_used: measured(share),
            unique: measured(0),
            r#virtual: Some(written),
            ..unmeasured(snapshot.bytes)
        }
    }
}

/// Returns the family of a volume of the engine: that of the volume, or of the snapshot's volume,
/// whose content it holds.
fn owner(state: &CatalogState, content: VolumeId) -> Owner {
    let family = match state.volume_or_snapshot_of(content) {
        Some(VolumeOrSnapshot::Snapshot(snapshot)) => state.volume_by_id(snapshot.volume),
        Some(VolumeOrSnapshot::Volume(_)) | None => None,
    };
    match family {
        Some(volume) => Owner { family: volume.content(), is_snapshot: true },
        None => Owner { family: content, is_snapshot: false },
    }
}

fn unmeasured(provisioned: u64) -> Space {
    Space {
        data_reduction: 1.0,
        thin_provisioning: 1.0,
        total_provisioned: provisioned,
        total_reduction: 1.0,
        used_provisioned: Some(provisioned),
        ..Space::default()
    }
}

/// Returns `bytes` per stored byte, or 1 if nothing is written. Zeros and patterns use no space, so
/// the divisor is at least one sector.
fn ratio(written: u64, bytes: u64, stored: u64) -> f64 {
    if written == 0 { 1.0 } else { bytes as f64 / stored.max(types::SECTOR_BYTES) as f64 }
}

fn thin(written: u64, provisioned: u64) -> f64 {
    1.0 - (written.min(provisioned) as f64 / provisioned.max(1) as f64)
}
