//! What the catalogue holds at one moment.

use crate::lun::{LunEntry, LunMap};
use crate::name::{ANY_INITIATOR, folded};
use crate::record::{Admin, Array, Connection, Host, HostId, Record, Volume, decode};
use crate::{CatalogError, Kind};
use engine::Service;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::VolumeId;

/// The catalogue at one moment. Cheap to clone: records are shared.
///
/// Each map beside the records is an index over them and is rebuilt from them at start; `put` and `remove` are the only
/// ways to change either, and keep them in step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    array: Arc<Array>,
    volumes: BTreeMap<VolumeId, Arc<Volume>>,
    hosts: BTreeMap<HostId, Arc<Host>>,
    connections: BTreeMap<(HostId, VolumeId), u16>,
    admins: BTreeMap<String, Arc<Admin>>,
    volume_names: BTreeMap<String, VolumeId>,
    host_names: BTreeMap<String, HostId>,
    initiators: BTreeMap<String, HostId>,
    connected: BTreeMap<(VolumeId, HostId), u16>,
}

impl State {
    /// An array with nothing in it.
    pub(crate) fn new(array: Array) -> Self {
        Self {
            array: Arc::new(array),
            volumes: BTreeMap::new(),
            hosts: BTreeMap::new(),
            connections: BTreeMap::new(),
            admins: BTreeMap::new(),
            volume_names: BTreeMap::new(),
            host_names: BTreeMap::new(),
            initiators: BTreeMap::new(),
            connected: BTreeMap::new(),
        }
    }

    /// Reads what the engine has stored; `None` when it holds no array yet.
    pub(crate) fn load(service: &dyn Service) -> Result<Option<Self>, CatalogError> {
        let Some(array) = service.get(Array::PREFIX.as_bytes()) else {
            return Ok(None);
        };
        let mut state = Self::new(decode(Array::PREFIX.as_bytes(), &array)?);
        scan::<Volume>(service)?.into_iter().for_each(|volume| state.put_volume(volume));
        scan::<Host>(service)?.into_iter().for_each(|host| state.put_host(host));
        scan::<Admin>(service)?.into_iter().for_each(|admin| state.put_admin(admin));
        for connection in scan::<Connection>(service)? {
            // A dangling connection would show a host nothing; better to refuse to start than to guess.
            if !state.volumes.contains_key(&connection.volume) || !state.hosts.contains_key(&connection.host) {
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
        found.ok_or_else(|| CatalogError::NoSuch { kind: Kind::Volume, name: name.to_owned() })
    }

    /// The volume that the engine knows by that number.
    pub fn volume_by_id(&self, id: VolumeId) -> Option<&Arc<Volume>> {
        self.volumes.get(&id)
    }

    /// The host of that name.
    pub fn host(&self, name: &str) -> Result<&Arc<Host>, CatalogError> {
        let found = self.host_names.get(&folded(name)).and_then(|id| self.hosts.get(id));
        found.ok_or_else(|| CatalogError::NoSuch { kind: Kind::Host, name: name.to_owned() })
    }

    /// The host with that number.
    pub fn host_by_id(&self, id: HostId) -> Option<&Arc<Host>> {
        self.hosts.get(&id)
    }

    /// The host that has exactly this initiator name, which may be `*`.
    pub(crate) fn owner(&self, iqn: &str) -> Option<&Arc<Host>> {
        self.initiators.get(iqn).and_then(|id| self.hosts.get(id))
    }

    /// The host that an initiator belongs to: the one that names it, else the one that admits any.
    pub fn host_of_initiator(&self, iqn: &str) -> Option<&Arc<Host>> {
        self.owner(&iqn.to_ascii_lowercase()).or_else(|| self.owner(ANY_INITIATOR))
    }

    /// The administrator of that name.
    pub fn admin(&self, name: &str) -> Option<&Arc<Admin>> {
        self.admins.get(name)
    }

    /// The LUN by which the host sees the volume.
    pub fn lun(&self, host: HostId, volume: VolumeId) -> Option<u16> {
        self.connections.get(&(host, volume)).copied()
    }

    /// The volumes of a host, with their LUNs.
    pub fn volumes_of(&self, host: HostId) -> impl Iterator<Item = (u16, &Arc<Volume>)> + '_ {
        let all = (host, VolumeId(0))..=(host, VolumeId(u64::MAX));
        self.connections
            .range(all)
            .filter_map(|((_, volume), lun)| self.volumes.get(volume).map(|volume| (*lun, volume)))
    }

    /// The hosts of a volume.
    pub fn hosts_of(&self, volume: VolumeId) -> impl Iterator<Item = &Arc<Host>> + '_ {
        let all = (volume, HostId(0))..=(volume, HostId(u64::MAX));
        self.connected.range(all).filter_map(|((_, host), _)| self.hosts.get(host))
    }

    /// What an initiator sees; `None` when it belongs to no host.
    pub fn lun_map(&self, initiator_iqn: &str) -> Option<LunMap> {
        let host = self.host_of_initiator(initiator_iqn)?;
        let entry = |(lun, volume): (u16, &Arc<Volume>)| {
            let entry = LunEntry {
                volume: volume.id,
                name: volume.name.clone(),
                blocks: volume.blocks(),
                serial: volume.serial.clone(),
                read_only: false,
            };
            (lun, entry)
        };
        Some(LunMap { host: host.name.clone(), entries: self.volumes_of(host.id).map(entry).collect() })
    }

    pub(crate) fn put_array(&mut self, array: Array) {
        self.array = Arc::new(array);
    }

    pub(crate) fn put_volume(&mut self, volume: Volume) {
        self.forget_volume_name(volume.id);
        self.volume_names.insert(folded(&volume.name), volume.id);
        self.volumes.insert(volume.id, Arc::new(volume));
    }

    pub(crate) fn remove_volume(&mut self, id: VolumeId) {
        self.forget_volume_name(id);
        self.volumes.remove(&id);
    }

    pub(crate) fn put_host(&mut self, host: Host) {
        self.forget_host_names(host.id);
        self.host_names.insert(folded(&host.name), host.id);
        self.initiators.extend(host.iqns.iter().map(|iqn| (iqn.clone(), host.id)));
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

    fn forget_volume_name(&mut self, id: VolumeId) {
        if let Some(old) = self.volumes.get(&id) {
            self.volume_names.remove(&folded(&old.name));
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
