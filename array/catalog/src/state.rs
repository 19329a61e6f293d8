//! State of the catalog at one moment.

mod api_clients;
mod changed;
mod containers;
mod host_groups;
mod pods;
mod policies;
mod protection;
mod stretched;
mod volume_groups;

pub use changed::CatalogPart;

use crate::admin::{Admin, Audit};
use crate::api_client::ApiClient;
use crate::delivery::DeliverySettings;
use crate::lun::{LunEntry, LunMap};
use crate::name::{ANY_INITIATOR, folded};
use crate::pod::{Pod, PodId};
use crate::policy::{SnapshotPolicy, SnapshotPolicyId};
use crate::protection::{GroupSnapshot, ProtectionGroup};
use crate::record::{
    Array, ArrayTime, Connection, GroupSnapshotId, Host, HostGroup, HostGroupId, HostId, NAA_PREFIX, ProtectionGroupId,
    Qos, Record, Snapshot, Volume, VolumeOrSnapshot, decode,
};
use crate::shared_map::SharedMap;
use crate::volume_group::{VolumeGroup, VolumeGroupId};
use crate::{CatalogError, ObjectKind};
use engine::KeyValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{LBA_BYTES, ObjectId, VolumeId};

/// State of the catalog. Cheap to clone, because records and unchanged parts of the maps are
/// shared.
///
/// The maps other than the records are indexes and are rebuilt at start. Only the `put` and
/// `remove` methods change records and indexes, and keep them consistent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogState {
    array: Arc<Array>,
    volumes: SharedMap<ObjectId, Arc<Volume>>,
    snapshots: SharedMap<ObjectId, Arc<Snapshot>>,
    hosts: SharedMap<HostId, Arc<Host>>,
    connections: SharedMap<(HostId, ObjectId), u16>,
    admins: SharedMap<String, Arc<Admin>>,
    api_clients: SharedMap<String, Arc<ApiClient>>,
    audits: SharedMap<u64, Arc<Audit>>,
    delivery: Arc<DeliverySettings>,
    volume_names: SharedMap<String, ObjectId>,
    /// Snapshots by volume and suffix.
    snapshot_names: SharedMap<(ObjectId, String), ObjectId>,
    host_names: SharedMap<String, HostId>,
    initiators: SharedMap<String, HostId>,
    connected: SharedMap<(ObjectId, HostId), u16>,
    host_groups: SharedMap<HostGroupId, Arc<HostGroup>>,
    host_group_names: SharedMap<String, HostGroupId>,
    group_connections: SharedMap<(HostGroupId, ObjectId), u16>,
    volume_groups: SharedMap<VolumeGroupId, Arc<VolumeGroup>>,
    volume_group_names: SharedMap<String, VolumeGroupId>,
    pods: SharedMap<PodId, Arc<Pod>>,
    pod_names: SharedMap<String, PodId>,
    protection_groups: SharedMap<ProtectionGroupId, Arc<ProtectionGroup>>,
    protection_group_names: SharedMap<String, ProtectionGroupId>,
    group_snapshots: SharedMap<(ProtectionGroupId, GroupSnapshotId), Arc<GroupSnapshot>>,
    group_snapshot_names: SharedMap<(ProtectionGroupId, String), GroupSnapshotId>,
    snapshot_policies: SharedMap<SnapshotPolicyId, Arc<SnapshotPolicy>>,
    /// Snapshots that belong to protection groups, by volume.
    members_of_volume: SharedMap<(ObjectId, ObjectId), ()>,
    /// Snapshots of volumes by the group's snapshot and the volume.
    group_members: SharedMap<(GroupSnapshotId, ObjectId), ObjectId>,
    /// Objects whose content is not where it was created, by content.
    moved: SharedMap<VolumeId, ObjectId>,
    /// Objects whose serial number another array has made, by serial number.
    adopted: SharedMap<String, ObjectId>,
    /// Objects that were destroyed themselves: the wall clock at the destruction, and the time that
    /// the array had served.
    destroyed: SharedMap<(u64, ObjectId), u64>,
}

impl CatalogState {
    /// Creates the state of a new array.
    pub(crate) fn new(array: Array) -> Self {
        Self {
            array: Arc::new(array),
            volumes: SharedMap::default(),
            snapshots: SharedMap::default(),
            hosts: SharedMap::default(),
            connections: SharedMap::default(),
            admins: SharedMap::default(),
            api_clients: SharedMap::default(),
            audits: SharedMap::default(),
            delivery: Arc::default(),
            volume_names: SharedMap::default(),
            snapshot_names: SharedMap::default(),
            host_names: SharedMap::default(),
            initiators: SharedMap::default(),
            connected: SharedMap::default(),
            host_groups: SharedMap::default(),
            host_group_names: SharedMap::default(),
            group_connections: SharedMap::default(),
            volume_groups: SharedMap::default(),
            volume_group_names: SharedMap::default(),
            pods: SharedMap::default(),
            pod_names: SharedMap::default(),
            protection_groups: SharedMap::default(),
            protection_group_names: SharedMap::default(),
            group_snapshots: SharedMap::default(),
            group_snapshot_names: SharedMap::default(),
            snapshot_policies: SharedMap::default(),
            members_of_volume: SharedMap::default(),
            group_members: SharedMap::default(),
            moved: SharedMap::default(),
            adopted: SharedMap::default(),
            destroyed: SharedMap::default(),
        }
    }

    /// Reads the state from the engine. Returns `None` if the engine holds no array yet.
    pub(crate) fn load(service: &dyn KeyValue) -> Result<Option<Self>, CatalogError> {
        let Some(array) = service.get(Array::PREFIX.as_bytes()) else {
            return Ok(None);
        };
        let mut state = Self::new(decode(Array::PREFIX.as_bytes(), &array)?);
        scan::<Volume>(service)?.into_iter().for_each(|volume| state.put_volume(volume));
        for snapshot in scan::<Snapshot>(service)? {
            if !state.volumes.contains_key(&snapshot.volume) {
                let reason = "its volume is missing".to_owned();
                return Err(CatalogError::Damaged { key: snapshot.key(), reason });
            }
            state.put_snapshot(Arc::new(snapshot));
        }
        scan::<Host>(service)?.into_iter().for_each(|host| state.put_host(host));
        scan::<Admin>(service)?.into_iter().for_each(|admin| state.put_admin(admin));
        scan::<Audit>(service)?.into_iter().for_each(|audit| state.put_audit(audit));
        let delivery = DeliverySettings::PREFIX.as_bytes();
        if let Some(stored) = service.get(delivery) {
            state.put_delivery(decode(delivery, &stored)?);
        }
        for connection in scan::<Connection>(service)? {
            // The map of a dangling connection would be incomplete. Refusing to start is safer than
            // ignoring it.
            if state.volume_or_snapshot_by_id(connection.volume).is_none()
                || !state.hosts.contains_key(&connection.host)
            {
                let reason = "its volume or host is missing".to_owned();
                return Err(CatalogError::Damaged { key: connection.key(), reason });
            }
            state.put_connection(connection);
        }
        state.load_api_clients(service)?;
        state.load_volume_groups(service)?;
        state.load_pods(service)?;
        state.load_host_groups(service)?;
        state.load_protection(service)?;
        state.load_policies(service)?;
        Ok(Some(state))
    }

    /// Returns the record of the array.
    pub fn array(&self) -> &Arc<Array> {
        &self.array
    }

    /// Returns all volumes, including destroyed ones, in order of creation.
    pub fn volumes(&self) -> impl Iterator<Item = &Arc<Volume>> {
        self.volumes.values()
    }

    /// Returns the number of volumes, including destroyed ones.
    pub fn volume_count(&self) -> usize {
        self.volumes.len()
    }

    /// Returns all snapshots, including destroyed ones, in order of creation.
    pub fn snapshots(&self) -> impl Iterator<Item = &Arc<Snapshot>> {
        self.snapshots.values()
    }

    /// Returns the number of snapshots, including destroyed ones.
    pub fn snapshot_count(&self) -> usize {
        self.snapshots.len()
    }

    /// Returns the snapshots of a volume, including destroyed ones, sorted by suffix. Those of
    /// protection groups follow the others.
    pub fn snapshots_of(&self, volume: ObjectId) -> impl Iterator<Item = &Arc<Snapshot>> {
        let all = (volume, String::new())..(ObjectId(volume.0.saturating_add(1)), String::new());
        let own = self.snapshot_names.range(all).map(|(_, id)| *id);
        let members = (volume, ObjectId(0))..=(volume, ObjectId(u64::MAX));
        let members = self.members_of_volume.range(members).map(|((_, id), ())| *id);
        own.chain(members).filter_map(|id| self.snapshots.get(&id))
    }

    /// Returns all hosts in order of creation.
    pub fn hosts(&self) -> impl Iterator<Item = &Arc<Host>> {
        self.hosts.values()
    }

    /// Returns all connections.
    pub fn connections(&self) -> impl Iterator<Item = Connection> + '_ {
        self.connections.iter().map(|((host, volume), lun)| Connection { host: *host, volume: *volume, lun: *lun })
    }

    /// Returns all administrators.
    pub fn admins(&self) -> impl Iterator<Item = &Arc<Admin>> {
        self.admins.values()
    }

    /// Returns the volume with this name, destroyed or not.
    pub fn volume(&self, name: &str) -> Result<&Arc<Volume>, CatalogError> {
        let found = self.volume_names.get(&folded(name)).and_then(|id| self.volumes.get(id));
        found.ok_or_else(|| CatalogError::NoSuch { kind: ObjectKind::Volume, name: name.to_owned() })
    }

    /// Returns the volume with this id.
    pub fn volume_by_id(&self, id: ObjectId) -> Option<&Arc<Volume>> {
        self.volumes.get(&id)
    }

    /// Returns the snapshot with this name, `VOLUME.SUFFIX` or `GROUP.SUFFIX.VOLUME`, destroyed or
    /// not.
    pub fn snapshot(&self, name: &str) -> Result<&Arc<Snapshot>, CatalogError> {
        let found = name.split_once('.').and_then(|(volume, suffix)| {
            if suffix.contains('.') {
                return self.member_snapshot(name);
            }
            let volume = self.volume_names.get(&folded(volume))?;
            self.snapshot_with(*volume, suffix)
        });
        found.ok_or_else(|| CatalogError::NoSuch { kind: ObjectKind::Snapshot, name: name.to_owned() })
    }

    /// Returns the snapshot of a volume with this suffix.
    pub(crate) fn snapshot_with(&self, volume: ObjectId, suffix: &str) -> Option<&Arc<Snapshot>> {
        self.snapshot_names.get(&(volume, folded(suffix))).and_then(|id| self.snapshots.get(id))
    }

    /// Returns the snapshot with this id.
    pub fn snapshot_by_id(&self, id: ObjectId) -> Option<&Arc<Snapshot>> {
        self.snapshots.get(&id)
    }

    /// Returns the name of a snapshot, `VOLUME.SUFFIX`.
    pub fn snapshot_name(&self, snapshot: &Snapshot) -> String {
        let volume = self.volumes.get(&snapshot.volume).map_or("", |volume| &volume.name);
        self.member_name(snapshot, volume).unwrap_or_else(|| format!("{volume}.{}", snapshot.suffix))
    }

    /// Returns the time at which a snapshot was destroyed, itself or with its volume.
    pub fn snapshot_destroyed_ms(&self, snapshot: &Snapshot) -> Option<u64> {
        let volume = self.volumes.get(&snapshot.volume).and_then(|volume| volume.destroyed_ms);
        match (snapshot.destroyed_ms, volume) {
            (Some(own), Some(with)) => Some(own.min(with)),
            (own, with) => own.or(with),
        }
    }

    /// Returns the moment at which a snapshot was destroyed, itself or with its volume.
    pub fn snapshot_destroyed_at(&self, snapshot: &Snapshot) -> Option<ArrayTime> {
        let volume = self.volumes.get(&snapshot.volume).and_then(|volume| volume.destroyed_at());
        match (snapshot.destroyed_at(), volume) {
            (Some(own), Some(with)) => Some(own.min(with)),
            (own, with) => own.or(with),
        }
    }

    /// Returns the volume with this name, or the snapshot if the name contains a dot, destroyed or
    /// not.
    pub fn volume_or_snapshot(&self, name: &str) -> Result<VolumeOrSnapshot, CatalogError> {
        if name.contains('.') {
            self.snapshot(name).map(|snapshot| VolumeOrSnapshot::Snapshot(snapshot.clone()))
        } else {
            self.volume(name).map(|volume| VolumeOrSnapshot::Volume(volume.clone()))
        }
    }

    /// Returns the volume or snapshot with this id.
    pub fn volume_or_snapshot_by_id(&self, id: ObjectId) -> Option<VolumeOrSnapshot> {
        let snapshot = || self.snapshots.get(&id).cloned().map(VolumeOrSnapshot::Snapshot);
        self.volumes.get(&id).cloned().map(VolumeOrSnapshot::Volume).or_else(snapshot)
    }

    /// Returns the volume or snapshot whose blocks are in this volume of the engine.
    pub fn volume_or_snapshot_of(&self, content: VolumeId) -> Option<VolumeOrSnapshot> {
        let id = self.moved.get(&content).copied().unwrap_or(ObjectId(content.0));
        self.volume_or_snapshot_by_id(id).filter(|object| object.content() == content)
    }

    /// Returns the volume or snapshot with this [`VolumeOrSnapshot::uuid`], in upper or lower case.
    pub fn volume_or_snapshot_by_uuid(&self, uuid: &str) -> Option<VolumeOrSnapshot> {
        let digits: String = uuid.chars().filter(|digit| *digit != '-').collect();
        let serial = digits.to_ascii_uppercase();
        let object = self.volume_or_snapshot_by_serial(serial.get(NAA_PREFIX.len()..)?)?;
        Some(object).filter(|object| object.uuid().eq_ignore_ascii_case(uuid))
    }

    /// Returns the volume or snapshot with this serial number.
    pub fn volume_or_snapshot_by_serial(&self, serial: &str) -> Option<VolumeOrSnapshot> {
        let id = self.adopted.get(&serial.to_owned()).copied().or_else(|| id_in_serial(serial))?;
        self.volume_or_snapshot_by_id(id).filter(|object| object.serial() == serial)
    }

    /// Returns the name of a volume or snapshot.
    pub fn volume_or_snapshot_name(&self, object: &VolumeOrSnapshot) -> String {
        match object {
            VolumeOrSnapshot::Volume(volume) => volume.name.clone(),
            VolumeOrSnapshot::Snapshot(snapshot) => self.snapshot_name(snapshot),
        }
    }

    /// Returns the milliseconds until the next eradication. Considers the objects that were
    /// destroyed first; after the clock was set, another object may be due earlier.
    pub fn time_to_eradication_ms(&self, now: ArrayTime) -> Option<u64> {
        const CONSIDERED: usize = 1000;
        let delay = self.array.settings.eradication_delay_ms;
        let first = self.destroyed.iter().take(CONSIDERED);
        let left = first.map(|((wall_ms, _), served_ms)| {
            ArrayTime { wall_ms: *wall_ms, served_ms: *served_ms }.remaining_ms(delay, now)
        });
        left.min()
    }

    /// Returns the number of objects that were destroyed themselves.
    pub fn destroyed_count(&self) -> usize {
        self.destroyed.len()
    }

    /// Returns the first volume or snapshot whose eradication delay has expired by both clocks, of
    /// those for which `applies` returns true.
    pub(crate) fn next_due(
        &self,
        now: ArrayTime,
        applies: impl Fn(&VolumeOrSnapshot) -> bool,
    ) -> Option<VolumeOrSnapshot> {
        let delay = self.array.settings.eradication_delay_ms;
        let is_over = |since: u64, now: u64| since.saturating_add(delay) <= now;
        let by_wall = self.destroyed.iter().take_while(|((destroyed, _), _)| is_over(*destroyed, now.wall_ms));
        let by_both = by_wall.filter(|(_, served)| is_over(**served, now.served_ms));
        let mut due = by_both.filter_map(|((_, id), _)| self.volume_or_snapshot_by_id(*id));
        due.find(applies)
    }

    /// Returns the host with this name.
    pub fn host(&self, name: &str) -> Result<&Arc<Host>, CatalogError> {
        let found = self.host_names.get(&folded(name)).and_then(|id| self.hosts.get(id));
        found.ok_or_else(|| CatalogError::NoSuch { kind: ObjectKind::Host, name: name.to_owned() })
    }

    /// Returns the host with this id.
    pub fn host_by_id(&self, id: HostId) -> Option<&Arc<Host>> {
        self.hosts.get(&id)
    }

    /// Returns the host that lists exactly this initiator name, which may be `*`.
    pub(crate) fn owner(&self, iqn: &str) -> Option<&Arc<Host>> {
        self.initiators.get(&iqn.to_owned()).and_then(|id| self.hosts.get(id))
    }

    /// Returns true if a host lists this initiator by its name, not only with `*`.
    pub fn lists_initiator(&self, iqn: &str) -> bool {
        self.owner(&iqn.to_ascii_lowercase()).is_some()
    }

    /// Returns the host of an initiator: the one that lists its name, else the one that lists `*`.
    pub fn host_of_initiator(&self, iqn: &str) -> Option<&Arc<Host>> {
        self.owner(&iqn.to_ascii_lowercase()).or_else(|| self.owner(ANY_INITIATOR))
    }

    /// Returns the audit trail, oldest entry first.
    pub fn audits(&self) -> impl Iterator<Item = &Arc<Audit>> {
        self.audits.values()
    }

    /// Returns where alerts are delivered.
    pub fn delivery(&self) -> &Arc<DeliverySettings> {
        &self.delivery
    }

    /// Returns the number of entries in the audit trail.
    pub(crate) fn audit_count(&self) -> usize {
        self.audits.len()
    }

    /// Returns the administrator with this name.
    pub fn admin(&self, name: &str) -> Option<&Arc<Admin>> {
        self.admins.get(&name.to_owned())
    }

    /// Returns the LUN of the volume at the host.
    pub fn lun(&self, host: HostId, volume: ObjectId) -> Option<u16> {
        self.connections.get(&(host, volume)).copied()
    }

    /// Returns the volumes and snapshots of a host with their LUNs.
    pub fn luns_of(&self, host: HostId) -> impl Iterator<Item = (u16, VolumeOrSnapshot)> + '_ {
        let all = (host, ObjectId(0))..=(host, ObjectId(u64::MAX));
        self.connections
            .range(all)
            .filter_map(|((_, object), lun)| self.volume_or_snapshot_by_id(*object).map(|object| (*lun, object)))
    }

    /// Returns the hosts of a volume or snapshot.
    pub fn hosts_of(&self, volume: ObjectId) -> impl Iterator<Item = &Arc<Host>> + '_ {
        let all = (volume, HostId(0))..=(volume, HostId(u64::MAX));
        self.connected.range(all).filter_map(|((_, host), _)| self.hosts.get(host))
    }

    /// Returns the LUN map of an initiator, or `None` if it belongs to no host.
    pub fn lun_map(&self, initiator_iqn: &str) -> Option<LunMap> {
        let host = self.host_of_initiator(initiator_iqn)?;
        let entry = |(lun, object): (u16, VolumeOrSnapshot)| {
            let (qos, threshold_percent) = match &object {
                VolumeOrSnapshot::Volume(volume) => (volume.qos, volume.threshold_percent),
                VolumeOrSnapshot::Snapshot(_) => (Qos::default(), None),
            };
            let entry = LunEntry {
                volume: object.id(),
                content: object.content(),
                name: self.volume_or_snapshot_name(&object),
                blocks: object.bytes() / LBA_BYTES,
                serial: object.serial().to_owned(),
                read_only: matches!(object, VolumeOrSnapshot::Snapshot(_)),
                qos,
                threshold_percent,
                preference: self.preference(host, &object),
            };
            (lun, entry)
        };
        let (name, personality) = (host.name.clone(), host.personality.clone());
        Some(LunMap { host: name, personality, entries: self.luns_of(host.id).map(entry).collect() })
    }

    pub(crate) fn put_array(&mut self, array: Array) {
        self.array = Arc::new(array);
    }

    pub(crate) fn put_volume(&mut self, volume: Volume) {
        self.forget_volume(volume.id);
        self.volume_names.insert(folded(&volume.name), volume.id);
        volume.moved.into_iter().for_each(|content| self.moved.insert(content, volume.id));
        if is_adopted(volume.id, &volume.serial) {
            self.adopted.insert(volume.serial.clone(), volume.id);
        }
        if let Some(destroyed) = volume.destroyed_ms {
            self.destroyed.insert((destroyed, volume.id), volume.destroyed_served_ms);
        }
        self.volumes.insert(volume.id, Arc::new(volume));
    }

    pub(crate) fn remove_volume(&mut self, id: ObjectId) {
        self.forget_volume(id);
        self.volumes.remove(&id);
    }

    pub(crate) fn put_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        self.forget_snapshot(snapshot.id);
        match snapshot.group {
            Some((_, group)) => {
                self.group_members.insert((group, snapshot.volume), snapshot.id);
                self.members_of_volume.insert((snapshot.volume, snapshot.id), ());
            }
            None => self.snapshot_names.insert((snapshot.volume, folded(&snapshot.suffix)), snapshot.id),
        }
        snapshot.moved.into_iter().for_each(|content| self.moved.insert(content, snapshot.id));
        if is_adopted(snapshot.id, &snapshot.serial) {
            self.adopted.insert(snapshot.serial.clone(), snapshot.id);
        }
        if let Some(destroyed) = snapshot.destroyed_ms {
            self.destroyed.insert((destroyed, snapshot.id), snapshot.destroyed_served_ms);
        }
        self.snapshots.insert(snapshot.id, snapshot);
    }

    pub(crate) fn remove_snapshot(&mut self, id: ObjectId) {
        self.forget_snapshot(id);
        self.snapshots.remove(&id);
    }

    pub(crate) fn put_host(&mut self, host: Host) {
        self.forget_host_names(host.id);
        self.host_names.insert(folded(&host.name), host.id);
        host.iqns.iter().for_each(|iqn| self.initiators.insert(iqn.clone(), host.id));
        self.hosts.insert(host.id, Arc::new(host));
    }

    pub(crate) fn remove_host(&mut self, id: HostId) {
        self.forget_host_names(id);
        self.hosts.remove(&id);
    }

    pub(crate) fn put_connection(&mut self, connection: Connection) {
        self.connections.insert((connection.host, connection.volume), connection.lun);
        self.connected.insert((connection.volume, connection.host), connection.lun);
    }

    pub(crate) fn remove_connection(&mut self, host: HostId, volume: ObjectId) {
        self.connections.remove(&(host, volume));
        self.connected.remove(&(volume, host));
    }

    pub(crate) fn put_admin(&mut self, admin: Admin) {
        self.admins.insert(admin.name.clone(), Arc::new(admin));
    }

    pub(crate) fn remove_admin(&mut self, name: &str) {
        self.admins.remove(&name.to_owned());
    }

    pub(crate) fn put_delivery(&mut self, delivery: DeliverySettings) {
        self.delivery = Arc::new(delivery);
    }

    pub(crate) fn put_audit(&mut self, audit: Audit) {
        self.audits.insert(audit.id, Arc::new(audit));
    }

    pub(crate) fn remove_audit(&mut self, id: u64) {
        self.audits.remove(&id);
    }

    fn forget_volume(&mut self, id: ObjectId) {
        if let Some(old) = self.volumes.get(&id) {
            self.volume_names.remove(&folded(&old.name));
            old.moved.into_iter().for_each(|content| self.moved.remove(&content));
            self.adopted.remove(&old.serial);
            old.destroyed_ms.into_iter().for_each(|destroyed| self.destroyed.remove(&(destroyed, id)));
        }
    }

    fn forget_snapshot(&mut self, id: ObjectId) {
        if let Some(old) = self.snapshots.get(&id) {
            match old.group {
                Some((_, group)) => {
                    self.group_members.remove(&(group, old.volume));
                    self.members_of_volume.remove(&(old.volume, old.id));
                }
                None => self.snapshot_names.remove(&(old.volume, folded(&old.suffix))),
            }
            old.moved.into_iter().for_each(|content| self.moved.remove(&content));
            self.adopted.remove(&old.serial);
            old.destroyed_ms.into_iter().for_each(|destroyed| self.destroyed.remove(&(destroyed, id)));
        }
    }

    fn forget_host_names(&mut self, id: HostId) {
        if let Some(old) = self.hosts.get(&id) {
            self.host_names.remove(&folded(&old.name));
            for iqn in &old.iqns {
                self.initiators.remove(iqn);
            }
        }
    }
}

/// Returns the id that a serial number of this array ends with.
fn id_in_serial(serial: &str) -> Option<ObjectId> {
    let digits = serial.len().checked_sub(8).and_then(|at| serial.get(at..))?;
    u64::from_str_radix(digits, 16).ok().map(ObjectId)
}

/// True if another array has made the serial number.
fn is_adopted(id: ObjectId, serial: &str) -> bool {
    id_in_serial(serial) != Some(id)
}

/// Returns the names of volumes and snapshots by their content, from the values of a catalog, which
/// need not be complete. Values that are not records of them are ignored.
pub fn volume_names<'v>(values: impl IntoIterator<Item = (&'v [u8], &'v [u8])>) -> BTreeMap<VolumeId, String> {
    let (mut volumes, mut snapshots) = (BTreeMap::new(), Vec::new());
    for (key, value) in values {
        if let Ok(volume) = decode::<Volume>(key, value) {
            volumes.insert(volume.id, volume);
        } else if let Ok(snapshot) = decode::<Snapshot>(key, value) {
            snapshots.push(snapshot);
        }
    }
    let of_snapshot = |snapshot: &Snapshot| {
        let volume = volumes.get(&snapshot.volume).map_or("?", |volume| &volume.name);
        (snapshot.content(), format!("{volume}.{}", snapshot.suffix))
    };
    let mut names: BTreeMap<_, _> = snapshots.iter().map(of_snapshot).collect();
    names.extend(volumes.values().map(|volume| (volume.content(), volume.name.clone())));
    names
}

fn scan<T: Record>(service: &dyn KeyValue) -> Result<Vec<T>, CatalogError> {
    service.scan(T::PREFIX.as_bytes()).iter().map(|(key, value)| decode(key, value)).collect()
}
