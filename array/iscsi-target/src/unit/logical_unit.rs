//! Logical units: the state of a volume that all its sessions share.

pub(crate) mod reservations;

use crate::nexus::Nexus;
use crate::nexus::ids::NexusId;
use crate::nexus::inbox::{AbortBarrier, SessionEvent};
use crate::pod_ports::{FunctionEnd, PodPortStates, PodPorts, SharedFunction};
use crate::unit::limits::{GroupLimits, QosLimits, UnitLimits};
use crate::unit::reservation::UnitReservations;
use crate::unit::thresholds::{ThresholdState, Usage};
use catalog::{Catalog, CatalogState};
use engine::{KeyValue, Maintenance, PoolSpace, Service};
use parking_lot::Mutex;
use scsi::mode::ModeSettings;
use scsi::{Asc, Sense, SenseFormat, asc, persistent_reservation};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;
use types::{ObjectId, VolumeId};

/// A logical unit.
pub(crate) struct LogicalUnit {
    pub(crate) volume: ObjectId,
    nexuses: Mutex<Vec<Arc<Nexus>>>,
    pub(crate) reservations: UnitReservations,
    pub(crate) thresholds: Mutex<ThresholdState>,
    pub(crate) limits: UnitLimits,
    /// States of the target ports when they were last read; `None` if no other array serves the
    /// volume.
    ports: Mutex<Option<PodPortStates>>,
    /// If false, `ports` is `None`, and a command need not take the lock.
    has_ports: AtomicBool,
    settings: Mutex<ModeSettings>,
    /// SWP and D_SENSE of `settings`. Every command reads them, without the lock.
    is_write_protected: AtomicBool,
    has_descriptor_sense: AtomicBool,
}

impl LogicalUnit {
    fn new(volume: ObjectId, service: &dyn KeyValue) -> Self {
        Self {
            volume,
            nexuses: Mutex::default(),
            reservations: UnitReservations::load(service, volume),
            thresholds: Mutex::default(),
            limits: UnitLimits::default(),
            ports: Mutex::default(),
            has_ports: AtomicBool::new(false),
            settings: Mutex::default(),
            is_write_protected: AtomicBool::new(false),
            has_descriptor_sense: AtomicBool::new(false),
        }
    }

    /// Adds a nexus. It is notified of thresholds that were reached before.
    pub(crate) fn join(&self, nexus: &Arc<Nexus>) {
        let thresholds = self.thresholds.lock();
        let mut nexuses = self.nexuses.lock();
        if !nexuses.iter().any(|known| known.id == nexus.id) {
            nexuses.push(nexus.clone());
            thresholds.reached().for_each(|resource| nexus.raise_sense(self.volume, resource.threshold_reached()));
        }
    }

    /// Removes a nexus, and the reservations that end with it.
    pub(crate) fn leave(&self, nexus: &Nexus) {
        self.nexuses.lock().retain(|known| known.id != nexus.id);
        self.reservations.nexus_lost(nexus);
    }

    /// Establishes a unit attention condition for every nexus but `except`.
    pub(crate) fn raise(&self, except: Option<NexusId>, asc: Asc) {
        for nexus in self.nexuses.lock().iter().filter(|nexus| Some(nexus.id) != except) {
            nexus.raise(self.volume, asc);
        }
    }

    /// Establishes unit attention conditions for the nexuses that lost a registration or
    /// reservation.
    pub(crate) fn raise_for(&self, attentions: &[(persistent_reservation::NexusId, Asc)]) {
        for (id, asc) in attentions {
            for nexus in self.nexuses.lock().iter().filter(|nexus| nexus.reservation_id == *id) {
                nexus.raise(self.volume, *asc);
            }
        }
    }

    /// Aborts the commands on this unit of all nexuses for which `applies` returns true.
    pub(crate) fn abort_commands(&self, applies: impl Fn(&Nexus) -> bool, barrier: &Arc<AbortBarrier>) {
        for nexus in self.nexuses.lock().iter().filter(|nexus| applies(nexus)) {
            nexus.inbox.post(SessionEvent::Abort { volume: Some(self.volume), barrier: barrier.clone() });
        }
    }

    /// Returns true if SWP of the Control mode page is set: writes are refused.
    pub(crate) fn is_write_protected(&self) -> bool {
        self.is_write_protected.load(Ordering::Relaxed)
    }

    /// Returns the format of sense data, from D_SENSE of the Control mode page.
    pub(crate) fn sense_format(&self) -> SenseFormat {
        SenseFormat::from_bit(self.has_descriptor_sense.load(Ordering::Relaxed))
    }

    /// Returns the current mode parameters. WCE is a property of the array and is not included.
    pub(crate) fn mode_settings(&self) -> ModeSettings {
        *self.settings.lock()
    }

    /// Changes the mode parameters. Every nexus except `by` gets a unit attention condition
    /// (SPC-4 6.11).
    pub(crate) fn set_mode(&self, by: Option<NexusId>, settings: ModeSettings) {
        // WCE is a property of the array and is not stored here.
        let settings = ModeSettings { write_cache: false, ..settings };
        let old = std::mem::replace(&mut *self.settings.lock(), settings);
        self.is_write_protected.store(settings.write_protect, Ordering::Relaxed);
        self.has_descriptor_sense.store(settings.descriptor_sense, Ordering::Relaxed);
        if old != settings {
            self.raise(by, asc::MODE_PARAMETERS_CHANGED);
        }
    }

    /// Executes a task management function on the commands of all nexuses but `requester`.
    pub(crate) fn execute(&self, function: SharedFunction, requester: Option<NexusId>, barrier: &Arc<AbortBarrier>) {
        self.abort_commands(|nexus| Some(nexus.id) != requester, barrier);
        match function {
            SharedFunction::ClearTaskSet => {}
            SharedFunction::LogicalUnitReset => self.reset(asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED),
            SharedFunction::TargetReset => self.reset(asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED),
        }
    }

    /// Resets the logical unit (SAM-5 6.3.3) and establishes the condition `asc` for every nexus,
    /// including the requester.
    fn reset(&self, asc: Asc) {
        self.reservations.reset();
        *self.settings.lock() = ModeSettings::default();
        self.is_write_protected.store(false, Ordering::Relaxed);
        self.has_descriptor_sense.store(false, Ordering::Relaxed);
        self.raise(None, asc);
    }

    /// Reads the states of the target ports with `read`. If they differ from those before, every
    /// nexus gets a unit attention condition (SPC-4 5.15.2.1).
    fn follow_ports(&self, read: impl Fn() -> Option<PodPortStates>, service: &dyn KeyValue) -> Option<PodPortStates> {
        if !self.has_ports.load(Ordering::Acquire) && read().is_none() {
            return None;
        }
        let mut ports = self.ports.lock();
        // They are read under the lock, so that an older reading does not replace a newer one.
        let now = read();
        if *ports != now {
            self.reservations.follow_ports(*ports, now, service, self.volume);
            *ports = now;
            self.has_ports.store(now.is_some(), Ordering::Release);
            self.limits.share(now.is_some_and(|ports| ports.are_both_active()));
            self.raise(None, asc::ASYMMETRIC_ACCESS_STATE_CHANGED);
        }
        now
    }

    /// Applies the QoS limits and thresholds of the catalog, and the usage of the pool. `group`
    /// contains the limits of the volume group.
    fn follow(&self, state: &CatalogState, group: Option<Arc<QosLimits>>, service: &dyn Maintenance, pool: PoolSpace) {
        let volume = state.volume_by_id(self.volume);
        self.limits.set(volume.map(|volume| volume.qos).unwrap_or_default(), group);
        self.check_thresholds(state, service, pool);
    }

    /// Compares usage with the thresholds, and notifies every nexus of changed and of newly reached
    /// thresholds.
    fn check_thresholds(&self, state: &CatalogState, service: &dyn Maintenance, pool: PoolSpace) {
        let content = state.volume_or_snapshot_by_id(self.volume).map(|object| object.content());
        // Without it, the volume is gone, or its content is moving. A check follows then.
        let Some(volume) = content.and_then(|content| service.volume_space(content)) else { return };
        let volume_percent = state.volume_by_id(self.volume).and_then(|volume| volume.threshold_percent);
        let pool_usage = Usage {
            threshold_percent: state.array().settings.threshold_percent,
            used: pool.used,
            total: pool.capacity,
        };
        let volume_usage = Usage { threshold_percent: volume_percent, used: volume.written, total: volume.provisioned };
        // The lock is held until all nexuses are notified. A nexus that joins concurrently is
        // notified either here or by `join`, but not twice.
        let mut thresholds = self.thresholds.lock();
        let (has_changed, reached) = thresholds.observe(pool_usage, volume_usage);
        if has_changed {
            self.raise(None, asc::MODE_PARAMETERS_CHANGED);
        }
        for resource in reached {
            let sense: Sense = resource.threshold_reached();
            self.nexuses.lock().iter().for_each(|nexus| nexus.raise_sense(self.volume, sense));
        }
    }
}

impl std::fmt::Debug for LogicalUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "logical unit of {}", self.volume)
    }
}

/// All logical units that a session has seen since the start of the process, without those of
/// eradicated volumes.
pub(crate) struct LogicalUnits {
    pub(super) service: Arc<dyn Service>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) pod_ports: OnceLock<Arc<dyn PodPorts>>,
    runtime: OnceLock<Handle>,
    units: Mutex<HashMap<ObjectId, Arc<LogicalUnit>>>,
    group_limits: GroupLimits,
}

impl LogicalUnits {
    /// Creates an empty table. `service` holds the stored reservations.
    pub(crate) fn new(service: Arc<dyn Service>, catalog: Arc<Catalog>) -> Self {
        let (units, group_limits) = (Mutex::default(), GroupLimits::default());
        Self { service, catalog, pod_ports: OnceLock::new(), runtime: OnceLock::new(), units, group_limits }
    }

    /// Sets the pods that two arrays serve. Only the first call has an effect.
    pub(crate) fn set_pod_ports(&self, ports: Arc<dyn PodPorts>) {
        self.pod_ports.get_or_init(|| ports);
    }

    /// True if no volume of the array can be changed.
    pub(crate) fn is_read_only(&self) -> bool {
        self.service.is_read_only()
    }

    /// Returns the logical unit of a volume; creates it on first use.
    pub(crate) fn get(&self, volume: ObjectId) -> Arc<LogicalUnit> {
        let mut units = self.units.lock();
        let unit = units.entry(volume).or_insert_with(|| {
            let unit = Arc::new(LogicalUnit::new(volume, &*self.service));
            self.update(&unit, &self.catalog.state(), self.service.space());
            unit.reservations.begin();
            unit
        });
        unit.clone()
    }

    /// Applies the settings of the catalog and the usage of the pool to a unit.
    pub(crate) fn update(&self, unit: &Arc<LogicalUnit>, state: &CatalogState, pool: PoolSpace) {
        self.follow_catalog_ports(unit, state);
        unit.follow(state, self.group_limits.of_volume(state, unit.volume), &*self.service, pool);
    }

    /// Returns the states of the target ports for a unit with this content, after its nexuses were
    /// notified of a change. `None` if no other array serves it.
    #[inline]
    pub(crate) fn ports(&self, unit: &Arc<LogicalUnit>, content: VolumeId) -> Option<PodPortStates> {
        let pods = self.pod_ports.get()?;
        // A session may not have seen yet that the content has moved into a pod.
        let is_older = content.stream().is_none() && unit.has_ports.load(Ordering::Acquire);
        let content = if is_older { self.content_of(unit).unwrap_or(content) } else { content };
        let ports = unit.follow_ports(|| pods.ports(content), &*self.service);
        if let Some(ports) = &ports {
            self.renew_if_needed(unit, content, ports);
        }
        ports
    }

    /// Returns the content of a unit in the catalog.
    pub(super) fn content_of(&self, unit: &LogicalUnit) -> Option<VolumeId> {
        self.catalog.state().volume_or_snapshot_by_id(unit.volume).map(|found| found.content())
    }

    /// Sets the runtime for work that begins outside of sessions. Only the first call has an
    /// effect.
    pub(crate) fn set_runtime(&self, runtime: Handle) {
        self.runtime.get_or_init(|| runtime);
    }

    /// Starts a task. Returns false if there is no runtime yet.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let runtime = Handle::try_current().ok().or_else(|| self.runtime.get().cloned());
        runtime.map(|runtime| runtime.spawn(task)).is_some()
    }

    /// Executes a task management function at the other arrays of units with these contents. The
    /// barrier waits for it.
    pub(crate) fn execute_at_peers(
        &self,
        contents: Vec<VolumeId>,
        function: SharedFunction,
        barrier: &Arc<AbortBarrier>,
    ) {
        let Some(pods) = self.pod_ports.get().filter(|_| !contents.is_empty()) else { return };
        let barrier = barrier.clone();
        let end = move |is_certain: bool| {
            if !is_certain {
                barrier.fail();
            }
        };
        pods.execute(contents, function, Box::new(end));
    }

    /// Executes a task management function of the other array on the units with these contents.
    /// `end` is called when their commands of this array's sessions have ended.
    pub(crate) fn execute_for_peer(&self, contents: &[VolumeId], function: SharedFunction, end: FunctionEnd) {
        let barrier = AbortBarrier::for_peer(end);
        let state = self.catalog.state();
        for unit in self.all() {
            let content = state.volume_or_snapshot_by_id(unit.volume).map(|found| found.content());
            if content.is_some_and(|content| contents.contains(&content)) {
                unit.execute(function, None, &barrier);
            }
        }
    }

    /// Notifies all nexuses of changed states of the target ports.
    pub(crate) fn follow_all_ports(&self) {
        let state = self.catalog.state();
        self.all().iter().for_each(|unit| self.follow_catalog_ports(unit, &state));
    }

    fn follow_catalog_ports(&self, unit: &Arc<LogicalUnit>, state: &CatalogState) {
        if let Some(found) = state.volume_or_snapshot_by_id(unit.volume) {
            self.ports(unit, found.content());
        }
    }

    /// Forgets the units of volumes and snapshots that no longer exist, once no session uses them,
    /// and the limits of volume groups that no longer exist.
    pub(crate) fn forget_eradicated(&self, state: &CatalogState) {
        let is_needed = |volume: ObjectId, unit: &Arc<LogicalUnit>| {
            state.volume_or_snapshot_by_id(volume).is_some() || Arc::strong_count(unit) > 1
        };
        self.units.lock().retain(|volume, unit| is_needed(*volume, unit));
        self.group_limits.forget_eradicated(state);
    }

    /// Returns all logical units.
    pub(crate) fn all(&self) -> Vec<Arc<LogicalUnit>> {
        self.units.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod_ports::{PortState, PortWatcher, SharedReservationChange};
    use catalog::{ArrayInit, CatalogError, MIN_IOPS_LIMIT, Qos, QosEdit, VolumeEdit};
    use engine::model::ModelEngine;

    /// One state for all volumes.
    #[derive(Default)]
    struct Ports(Mutex<Option<PodPortStates>>);

    impl PodPorts for Ports {
        fn ports(&self, _content: VolumeId) -> Option<PodPortStates> {
            *self.0.lock()
        }

        fn execute(&self, _contents: Vec<VolumeId>, _function: SharedFunction, end: FunctionEnd) {
            end(true);
        }

        fn reservations_changed(&self, _content: VolumeId, _change: SharedReservationChange, end: FunctionEnd) {
            end(true);
        }

        fn subscribe(&self, _watcher: PortWatcher) {}
    }

    fn open() -> (Arc<Catalog>, LogicalUnits) {
        let service: Arc<dyn Service> = Arc::new(ModelEngine::default());
        let init = ArrayInit { name: "array".to_owned(), number: 1, identity: [7; 16], now_ms: 0 };
        let catalog = Arc::new(Catalog::open(service.clone(), &init).unwrap());
        let units = LogicalUnits::new(service, catalog.clone());
        (catalog, units)
    }

    #[test]
    fn limits_are_halved_while_two_arrays_serve() {
        use PortState::{Active, Transitioning, Unavailable};
        let (catalog, units) = open();
        let ports = Arc::new(Ports::default());
        units.set_pod_ports(ports.clone());
        let id = catalog.change(|draft| draft.create_volume("v", 1 << 30, 0)).unwrap().id;
        let limit = |iops: Option<u64>, bandwidth: Option<u64>| {
            let qos = QosEdit { iops_limit: Some(iops), bandwidth_limit: Some(bandwidth) };
            let edit = VolumeEdit { qos, threshold_percent: None };
            catalog.change(|draft| draft.edit_volume("v", &edit)).unwrap();
        };
        let unit = units.get(id);
        let update = || units.update(&unit, &catalog.state(), PoolSpace::default());
        let expect = |iops_limit: Option<u64>, bandwidth_limit: Option<u64>| {
            let found = format!("{:?}", unit.limits.next(None).expect("a limit"));
            assert_eq!(found, format!("{:?}", Qos { iops_limit, bandwidth_limit }));
        };
        let set = |states: Option<(PortState, PortState)>| {
            let states = states.map(|(own, peer)| PodPortStates { own, peer, peer_number: 2, peer_ports: 1 });
            *ports.0.lock() = states;
            units.follow_all_ports();
        };
        limit(Some(1001), None);
        update();
        expect(Some(1001), None);
        set(Some((Active, Active)));
        expect(Some(500), None);
        limit(Some(MIN_IOPS_LIMIT), Some(2 << 20));
        update();
        expect(Some(50), Some(1 << 20));
        // An array that serves alone has all. One that does not serve admits nothing.
        for alone in [Some((Active, Unavailable)), Some((Transitioning, Active)), None] {
            set(alone);
            expect(Some(MIN_IOPS_LIMIT), Some(2 << 20));
            set(Some((Active, Active)));
            expect(Some(50), Some(1 << 20));
        }
        limit(None, None);
        update();
        assert!(!unit.limits.is_limited());
    }

    #[test]
    fn units_of_eradicated_volumes_are_forgotten() {
        let (catalog, units) = open();
        let count = || {
            units.forget_eradicated(&catalog.state());
            units.all().len()
        };
        let id = catalog.change(|draft| draft.create_volume("kept", 1 << 30, 0)).unwrap().id;
        drop(units.get(id));
        let mut used = None;
        for n in 0..10 {
            let volume = catalog
                .change(|draft| {
                    let volume = draft.create_volume("clone", 1 << 30, 0)?;
                    draft.destroy_volume("clone", 0)?;
                    Ok::<_, CatalogError>(volume)
                })
                .unwrap();
            let unit = units.get(volume.id);
            used = used.or((n == 0).then_some(unit));
            assert_eq!(count(), if n == 0 { 2 } else { 3 }, "destroyed volumes can be recovered");
            catalog.change(|draft| draft.eradicate_volume("clone")).unwrap();
            assert_eq!(count(), 2, "a session still uses one");
        }
        drop(used);
        assert_eq!(count(), 1);
    }
}
