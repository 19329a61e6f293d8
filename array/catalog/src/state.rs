//! What the catalogue holds at one moment.

use crate::lun::{LunEntry, LunMap};
use crate::name::{ANY_INITIATOR, folded};
use crate::record::{Admin, Array, Connection, Host, HostId, Qos, Record, Snapshot, Volume, VolumeOrSnapshot, decode};
use crate::shared_map::SharedMap;
use crate::{CatalogError, ObjectKind};
use engine::Service;
use std::sync::Arc;
use types::{LBA_BYTES, VolumeId};

/// The catalogue at one moment. Cheap to clone: records are shared, and so are the maps as far as they are alike.
///
/// Each map beside the records is an index over them and is rebuilt from them at start; `put` and `remove` are the only
/// ways to change either, and keep them in step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogState {
    array: Arc<Array>,
    volumes: SharedMap<VolumeId, Arc<Volume>>,
    snapshots: SharedMap<VolumeId, Arc<Snapshot>>,
    hosts: SharedMap<HostId, Arc<Host>>,
    connections: SharedMap<(HostId, VolumeId), u16>,
    admins: SharedMap<String, Arc<Admin>>,
    volume_names: SharedMap<String, VolumeId>,
    /// By volume and suffix.
    snapshot_names: SharedMap<(VolumeId, String), VolumeId>,
    host_names: SharedMap<String, HostId>,
    initiators: SharedMap<String, HostId>,
    connected: SharedMap<(VolumeId, HostId), u16>,
    /// What is destroyed itself, by the time of that.
    destroyed: SharedMap<(u64, VolumeId), ()>,
}

impl CatalogState {
    /// An array with nothing in it.
    pub(crate) fn new(array: Array) -> Self {
        Self {
            array: Arc::new(array),
            volumes: SharedMap::default(),
            snapshots: SharedMap::default(),
            hosts: SharedMap::default(),
            connections: SharedMap::default(),
            admins: SharedMap::default(),
            volume_names: SharedMap::default(),
            snapshot_names: SharedMap::default(),
            host_names: SharedMap::default(),
            initiators: SharedMap::default(),
            connected: SharedMap::default(),
            destroyed: SharedMap::default(),
        }
    }

    /// Reads what the engine has stored; `None` when it holds no array yet.
    pub(crate) fn load(service: &dyn Service) -> Result<Option<Self>, CatalogError> {
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
        for connection in scan::<Connection>(service)? {
            // A dangling connection would show a host nothing; better to refuse to start than to guess.
            if state.volume_or_snapshot_by_id(connection.volume).is_none()
                || !state.hosts.contains_key(&connection.host)
            {
                let reason = "its volume or host is missing".to_owned();
                return Err(CatalogError::Damaged { key: connection.key(), reason });
            }
            state.put_connection(connection);
        }
        Ok(Some(state))
    }

    /// The array.
    pub fn array(&self) -> &Arc<Array> {
        &self.array
    }

    /// All volumes, destroyed ones included, in order of their making.
    pub fn volumes(&self) -> impl Iterator<Item = &Arc<Volume>> {
        self.volumes.values()
    }

    /// How many volumes there are, destroyed ones included.
    pub fn volume_count(&self) -> usize {
        self.volumes.len()
    }

    /// All snapshots, destroyed ones included, in order of their making.
    pub fn snapshots(&self) -> impl Iterator<Item = &Arc<Snapshot>> {
        self.snapshots.values()
    }

    /// How many snapshots there are, destroyed ones included.
    pub fn snapshot_count(&self) -> usize {
        self.snapshots.len()
    }

    /// The snapshots of a volume, destroyed ones included, in order of their suffixes.
    pub fn snapshots_of(&self, volume: VolumeId) -> impl Iterator<Item = &Arc<Snapshot>> {
        let all = (volume, String::new())..(VolumeId(volume.0.saturating_add(1)), String::new());
        self.snapshot_names.range(all).filter_map(|(_, id)| self.snapshots.get(id))
    }

    /// All hosts in order of their making.
    pub fn hosts(&self) -> impl Iterator<Item = &Arc<Host>> {
        self.hosts.values()
    }

    /// All connections.
    pub fn connections(&self) -> impl Iterator<Item = Connection> + '_ {
        self.connections.iter().map(|((host, volume), lun)| Connection { host: *host, volume: *volume, lun: *lun })
    }

    /// All administrators.
    pub fn admins(&self) -> impl Iterator<Item = &Arc<Admin>> {
        self.admins.values()
    }

    /// The volume of that name, destroyed or not.
    pub fn volume(&self, name: &str) -> Result<&Arc<Volume>, CatalogError> {
        let found = self.volume_names.get(&folded(name)).and_then(|id| self.volumes.get(id));
        found.ok_or_else(|| CatalogError::NoSuch { kind: ObjectKind::Volume, name: name.to_owned() })
    }

    /// The volume that the engine knows by that number.
    pub fn volume_by_id(&self, id: VolumeId) -> Option<&Arc<Volume>> {
        self.volumes.get(&id)
    }

    /// The snapshot of that name, `VOLUME.SUFFIX`, destroyed or not.
    pub fn snapshot(&self, name: &str) -> Result<&Arc<Snapshot>, CatalogError> {
        let found = name.split_once('.').and_then(|(volume, suffix)| {
            let volume = self.volume_names.get(&folded(volume))?;
            self.snapshot_with(*volume, suffix)
        });
        found.ok_or_else(|| CatalogError::NoSuch { kind: ObjectKind::Snapshot, name: name.to_owned() })
    }

    /// The snapshot of a volume with that suffix.
    pub(crate) fn snapshot_with(&self, volume: VolumeId, suffix: &str) -> Option<&Arc<Snapshot>> {
        self.snapshot_names.get(&(volume, folded(suffix))).and_then(|id| self.snapshots.get(id))
    }

    /// The snapshot that the engine knows by that number.
    pub fn snapshot_by_id(&self, id: VolumeId) -> Option<&Arc<Snapshot>> {
        self.snapshots.get(&id)
    }

    /// A snapshot's name, `VOLUME.SUFFIX`.
    pub fn snapshot_name(&self, snapshot: &Snapshot) -> String {
        let volume = self.volumes.get(&snapshot.volume).map_or("", |volume| &volume.name);
        format!("{volume}.{}", snapshot.suffix)
    }

    /// When a snapshot was destroyed, itself or with its volume.
    pub fn snapshot_destroyed_ms(&self, snapshot: &Snapshot) -> Option<u64> {
        let volume = self.volumes.get(&snapshot.volume).and_then(|volume| volume.destroyed_ms);
        match (snapshot.destroyed_ms, volume) {
            (Some(own), Some(with)) => Some(own.min(with)),
            (own, with) => own.or(with),
        }
    }

    /// The volume, or where the name has a point the snapshot, of that name; destroyed or not.
    pub fn volume_or_snapshot(&self, name: &str) -> Result<VolumeOrSnapshot, CatalogError> {
        if name.contains('.') {
            self.snapshot(name).map(|snapshot| VolumeOrSnapshot::Snapshot(snapshot.clone()))
        } else {
            self.volume(name).map(|volume| VolumeOrSnapshot::Volume(volume.clone()))
        }
    }

    /// The volume or snapshot that the engine knows by that number.
    pub fn volume_or_snapshot_by_id(&self, id: VolumeId) -> Option<VolumeOrSnapshot> {
        let snapshot = || self.snapshots.get(&id).cloned().map(VolumeOrSnapshot::Snapshot);
        self.volumes.get(&id).cloned().map(VolumeOrSnapshot::Volume).or_else(snapshot)
    }

    /// The name of a volume or snapshot.
    pub fn volume_or_snapshot_name(&self, unit: &VolumeOrSnapshot) -> String {
        match unit {
            VolumeOrSnapshot::Volume(volume) => volume.name.clone(),
            VolumeOrSnapshot::Snapshot(snapshot) => self.snapshot_name(snapshot),
        }
    }

    /// When the next volume or snapshot is to be eradicated, in milliseconds since 1970.
    pub fn next_eradication_ms(&self) -> Option<u64> {
        let ((destroyed, _), ()) = self.destroyed.iter().next()?;
        Some(destroyed.saturating_add(self.array.settings.eradication_delay_ms))
    }

    /// The first volume or snapshot whose delay is over.
    pub(crate) fn next_due(&self, now_ms: u64) -> Option<VolumeOrSnapshot> {
        self.next_eradication_ms().filter(|due| *due <= now_ms)?;
        let ((_, id), ()) = self.destroyed.iter().next()?;
        self.volume_or_snapshot_by_id(*id)
    }

    /// The host of that name.
    pub fn host(&self, name: &str) -> Result<&Arc<Host>, CatalogError> {
        let found = self.host_names.get(&folded(name)).and_then(|id| self.hosts.get(id));
        found.ok_or_else(|| CatalogError::NoSuch { kind: ObjectKind::Host, name: name.to_owned() })
    }

    /// The host with that number.
    pub fn host_by_id(&self, id: HostId) -> Option<&Arc<Host>> {
        self.hosts.get(&id)
    }

    /// The host that has exactly this initiator name, which may be `*`.
    pub(crate) fn owner(&self, iqn: &str) -> Option<&Arc<Host>> {
        self.initiators.get(&iqn.to_owned()).and_then(|id| self.hosts.get(id))
    }

    /// The host that an initiator belongs to: the one that names it, else the one that admits any.
    pub fn host_of_initiator(&self, iqn: &str) -> Option<&Arc<Host>> {
        self.owner(&iqn.to_ascii_lowercase()).or_else(|| self.owner(ANY_INITIATOR))
    }

    /// The administrator of that name.
    pub fn admin(&self, name: &str) -> Option<&Arc<Admin>> {
        self.admins.get(&name.to_owned())
    }

    /// The LUN by which the host sees the volume.
    pub fn lun(&self, host: HostId, volume: VolumeId) -> Option<u16> {
        self.connections.get(&(host, volume)).copied()
    }

    /// The volumes and snapshots of a host, with their LUNs.
    pub fn luns_of(&self, host: HostId) -> impl Iterator<Item = (u16, VolumeOrSnapshot)> + '_ {
        let all = (host, VolumeId(0))..=(host, VolumeId(u64::MAX));
        self.connections
            .range(all)
            .filter_map(|((_, unit), lun)| self.volume_or_snapshot_by_id(*unit).map(|unit| (*lun, unit)))
    }

    /// The hosts of a volume or snapshot.
    pub fn hosts_of(&self, volume: VolumeId) -> impl Iterator<Item = &Arc<Host>> + '_ {
        let all = (volume, HostId(0))..=(volume, HostId(u64::MAX));
        self.connected.range(all).filter_map(|((_, host), _)| self.hosts.get(host))
    }

    /// What an initiator sees; `None` when it belongs to no host.
    pub fn lun_map(&self, initiator_iqn: &str) -> Option<LunMap> {
        let host = self.host_of_initiator(initiator_iqn)?;
        let entry = |(lun, unit): (u16, VolumeOrSnapshot)| {
            let (qos, threshold_percent) = match &unit {
                VolumeOrSnapshot::Volume(volume) => (volume.qos, volume.threshold_percent),
                VolumeOrSnapshot::Snapshot(_) => (Qos::default(), None),
            };
            let entry = LunEntry {
                volume: unit.id(),
                name: self.volume_or_snapshot_name(&unit),
                blocks: unit.bytes() / LBA_BYTES,
                serial: unit.serial().to_owned(),
                read_only: matches!(unit, VolumeOrSnapshot::Snapshot(_)),
                qos,
                threshold_percent,
            };
            (lun, entry)
        };
        Some(LunMap { host: host.name.clone(), entries: self.luns_of(host.id).map(entry).collect() })
    }

    pub(crate) fn put_array(&mut self, array: Array) {
        self.array = Arc::new(array);
    }

    pub(crate) fn put_volume(&mut self, volume: Volume) {
        self.forget_volume(volume.id);
        self.volume_names.insert(folded(&volume.name), volume.id);
        if let Some(destroyed) = volume.destroyed_ms {
            self.destroyed.insert((destroyed, volume.id), ());
        }
        self.volumes.insert(volume.id, Arc::new(volume));
    }

    pub(crate) fn remove_volume(&mut self, id: VolumeId) {
        self.forget_volume(id);
        self.volumes.remove(&id);
    }

    pub(crate) fn put_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        self.forget_snapshot(snapshot.id);
        self.snapshot_names.insert((snapshot.volume, folded(&snapshot.suffix)), snapshot.id);
        if let Some(destroyed) = snapshot.destroyed_ms {
            self.destroyed.insert((destroyed, snapshot.id), ());
        }
        self.snapshots.insert(snapshot.id, snapshot);
    }

    pub(crate) fn remove_snapshot(&mut self, id: VolumeId) {
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

    pub(crate) fn remove_connection(&mut self, host: HostId, volume: VolumeId) {
        self.connections.remove(&(host, volume));
        self.connected.remove(&(volume, host));
    }

    pub(crate) fn put_admin(&mut self, admin: Admin) {
        self.admins.insert(admin.name.clone(), Arc::new(admin));
    }

    fn forget_volume(&mut self, id: VolumeId) {
        if let Some(old) = self.volumes.get(&id) {
            self.volume_names.remove(&folded(&old.name));
            old.destroyed_ms.into_iter().for_each(|destroyed| self.destroyed.remove(&(destroyed, id)));
        }
    }

    fn forget_snapshot(&mut self, id: VolumeId) {
        if let Some(old) = self.snapshots.get(&id) {
            self.snapshot_names.remove(&(old.volume, folded(&old.suffix)));
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

fn scan<T: Record>(service: &dyn Service) -> Result<Vec<T>, CatalogError> {
    service.scan(T::PREFIX.as_bytes()).iter().map(|(key, value)| decode(key, value)).collect()
}
