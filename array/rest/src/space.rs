//! What volumes and the array occupy.
//!
//! Two kinds of figures meet here. Those that the engine keeps at any moment: what hosts have written, what the pool holds. And
//! those that take a walk over the whole map, because they say whose a stored byte is: unique, shared, snapshots. The walk is made
//! when they are asked for, where something has changed and it is quick, and else in the background; its figures carry its time. At
//! that time the volumes' figures are together those of the array.

use crate::app::App;
use api::Space;
use catalog::{CatalogState, Volume, VolumeOrSnapshot};
use engine::{Census, FamilySpace, Owner};
use parking_lot::{Mutex, MutexGuard, RwLock};
use platform::clock;
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::VolumeId;

/// At most one part in so many of the time is spent counting, unless somebody asks for a count in so many words.
pub const COUNT_PART: u32 = 20;
/// Who asks for figures waits for a count, where the last took no longer than this.
const QUICK: Duration = Duration::from_millis(500);
/// Then nobody waits any more: the array may be too busy for a checkpoint, or have no room for one.
const PATIENCE: Duration = Duration::from_secs(1);
/// While it is not known how long a count takes: it is quick with so little data.
const LITTLE_DATA: u64 = 16 << 30;

/// The last count of what belongs to whom.
#[derive(Default)]
pub(crate) struct SpaceBook {
    /// Held while counting: two at once would only disturb each other.
    counting: Mutex<()>,
    latest: RwLock<Option<Arc<Counted>>>,
    /// Until then nobody waits, because somebody did in vain.
    in_vain: Mutex<Option<Instant>>,
}

struct Counted {
    census: Census,
    as_of_ms: u64,
    /// Just before.
    before: Moment,
    took: Duration,
    ended: Instant,
}

/// What changes whenever what belongs to whom does.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Moment {
    /// Of the engine's log: what hosts and administrators did.
    changes: u64,
    /// What the engine did by itself: compressed, gave back.
    data: u64,
    /// Of the catalogue.
    version: u64,
}

impl Counted {
    /// True when it was quick, and is long enough ago, to be made again for somebody who waits.
    fn may_be_repeated(&self) -> bool {
        self.took <= QUICK && clock::now().saturating_duration_since(self.ended) >= self.took * COUNT_PART
    }
}

impl App {
    /// Counts what belongs to whom, and keeps the figures for those who ask. Reads the whole map: not for use on a runtime's own
    /// threads. False where the engine could not.
    pub fn count_space(&self) -> bool {
        self.count(&self.spaces.counting.lock(), None)
    }

    /// The same for somebody who is about to ask for figures and shall not wait long: where something has changed and a count is
    /// quick. Else the figures stay those of the last.
    pub(crate) fn count_space_if_quick(&self) {
        let is_due = || match self.counted() {
            None => self.engine.space().data <= LITTLE_DATA,
            Some(last) => last.may_be_repeated() && last.before != self.moment(),
        };
        if self.spaces.in_vain.lock().is_some_and(|until| clock::now() < until) || !is_due() {
            return;
        }
        let has_counted = match self.spaces.counting.try_lock_for(PATIENCE) {
            // Somebody else may have counted meanwhile.
            Some(counting) => !is_due() || self.count(&counting, Some(PATIENCE)),
            None => false,
        };
        if !has_counted {
            *self.spaces.in_vain.lock() = Some(clock::now() + PATIENCE * COUNT_PART);
        }
    }

    fn count(&self, _counting: &MutexGuard<'_, ()>, patience: Option<Duration>) -> bool {
        // A snapshot that is taken meanwhile is its volume's at once, hence not one state for the whole walk.
        let owner = |id: VolumeId| match self.catalog.state().snapshot_by_id(id) {
            Some(snapshot) => Owner { family: snapshot.volume, is_snapshot: true },
            None => Owner { family: id, is_snapshot: false },
        };
        let (begun, as_of_ms) = (clock::now(), clock::unix_millis());
        let before = self.moment();
        let Some(census) = self.engine.census(&owner, patience) else { return false };
        let ended = clock::now();
        let took = ended.saturating_duration_since(begun);
        *self.spaces.latest.write() = Some(Arc::new(Counted { census, as_of_ms, before, took, ended }));
        true
    }

    /// True where nothing has changed since the last count.
    pub fn is_counted(&self) -> bool {
        self.counted().is_some_and(|counted| counted.before == self.moment())
    }

    /// Does something while a count is under way that does not end.
    #[cfg(test)]
    pub(crate) fn while_another_counts(&self, ask: impl FnOnce()) {
        let _counting = self.spaces.counting.lock();
        ask();
    }

    /// Lets the last count have taken so long.
    #[cfg(test)]
    pub(crate) fn pretend_counting_takes(&self, took: Duration) {
        let mut latest = self.spaces.latest.write();
        let last = latest.as_ref().unwrap();
        let Counted { as_of_ms, before, ended, .. } = **last;
        *latest = Some(Arc::new(Counted { census: last.census.clone(), as_of_ms, before, took, ended }));
    }

    fn moment(&self) -> Moment {
        let space = self.engine.space();
        Moment { changes: space.changes, data: space.data, version: self.catalog.version() }
    }

    fn counted(&self) -> Option<Arc<Counted>> {
        self.spaces.latest.read().clone()
    }
}

/// The space of the array, and its capacity. `system + unique + shared + snapshots` is `total_physical`, at any moment: what
/// was written since the last count is added to what is unique.
pub(crate) fn of_array(app: &App, state: &CatalogState) -> (u64, Space) {
    let pool = app.engine.space();
    let counted = app.counted();
    // A count is of its time, and the pool of now: no part may be more than what is left of the whole.
    let mut left = pool.data;
    let mut part = |bytes: u64| {
        let part = bytes.min(left);
        left -= part;
        part
    };
    let (shared, snapshots, released) = match counted.as_deref() {
        Some(Counted { census, .. }) => (part(census.shared()), part(census.snapshots()), part(census.released)),
        None => (0, 0, 0),
    };
    let unique = left;
    let written = |volume: &Arc<Volume>| app.engine.volume_space(volume.id).unwrap_or_default().written;
    let (mut provisioned, mut written_live, mut written_all) = (0, 0, 0);
    for volume in state.volumes() {
        let written = written(volume);
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
        total_provisioned: provisioned,
        total_reduction: ratio(written_all, provisioned, unique + shared),
        unique: Some(unique),
        r#virtual: Some(written_all),
    };
    (pool.capacity, space)
}

/// The space of a volume with its snapshots.
pub(crate) fn of_volume(app: &App, volume: &Volume) -> Space {
    of_volumes(app, &[volume])
}

/// The space of volumes with their snapshots, together.
fn of_volumes(app: &App, volumes: &[&Volume]) -> Space {
    let written = volumes.iter().map(|volume| app.engine.volume_space(volume.id).unwrap_or_default().written).sum();
    let provisioned = volumes.iter().map(|volume| volume.bytes).sum();
    let counted = app.counted();
    let mut all = FamilySpace::default();
    for volume in volumes {
        // One that was made since the count held nothing then.
        let families = counted.as_ref().map(|counted| &counted.census.families);
        let family = families.and_then(|families| families.get(&volume.id)).copied().unwrap_or_default();
        all.written += family.written;
        all.unique += family.unique;
        all.snapshots += family.snapshots;
        all.shared += family.shared;
    }
    let measured = |bytes: u64| counted.as_ref().map(|_| bytes);
    Space {
        as_of: counted.as_ref().map(|counted| counted.as_of_ms),
        // The ratios are of the time of the count, on both sides.
        data_reduction: ratio(all.written, all.written, all.unique + all.shared),
        shared: measured(all.shared),
        snapshots: all.snapshots,
        thin_provisioning: thin(written, provisioned),
        total_physical: measured(all.physical()),
        total_reduction: ratio(all.written, provisioned, all.unique + all.shared),
        unique: measured(all.unique),
        r#virtual: Some(written),
        ..unmeasured(provisioned)
    }
}

/// The space of what a host sees: its volumes with their snapshots. Snapshots that it sees for themselves count by their size only.
pub(crate) fn of_units(app: &App, units: &[VolumeOrSnapshot]) -> Space {
    let volumes: Vec<&Volume> = units
        .iter()
        .filter_map(|unit| match unit {
            VolumeOrSnapshot::Volume(volume) => Some(volume.as_ref()),
            VolumeOrSnapshot::Snapshot(_) => None,
        })
        .collect();
    Space { total_provisioned: units.iter().map(VolumeOrSnapshot::bytes).sum(), ..of_volumes(app, &volumes) }
}

/// The space of a volume or snapshot. What one snapshot alone holds is not counted: it changes with each that is taken or goes.
pub(crate) fn of_unit(app: &App, unit: &VolumeOrSnapshot) -> Space {
    match unit {
        VolumeOrSnapshot::Volume(volume) => of_volume(app, volume),
        VolumeOrSnapshot::Snapshot(snapshot) => {
            let written = app.engine.volume_space(snapshot.id).unwrap_or_default().written;
            Space {
                thin_provisioning: thin(written, snapshot.bytes),
                r#virtual: Some(written),
                ..unmeasured(snapshot.bytes)
            }
        }
    }
}

/// The space of things that hosts see as so many bytes.
fn unmeasured(provisioned: u64) -> Space {
    Space {
        data_reduction: 1.0,
        thin_provisioning: 1.0,
        total_provisioned: provisioned,
        total_reduction: 1.0,
        ..Space::default()
    }
}

/// So many bytes for each that is stored. 1 where nothing is written; where all that is written is zeros and patterns, which take no
/// room, a sector stands for it.
fn ratio(written: u64, of: u64, stored: u64) -> f64 {
    if written == 0 { 1.0 } else { of as f64 / stored.max(types::SECTOR_BYTES) as f64 }
}

fn thin(written: u64, provisioned: u64) -> f64 {
    1.0 - (written.min(provisioned) as f64 / provisioned.max(1) as f64)
}
