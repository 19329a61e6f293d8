//! Changes in the making: a copy of the state, and what the engine is to store of it.

use crate::name::{check_iqn, check_name};
use crate::record::{Admin, Array, Chap, Connection, Host, HostId, Record, Volume, encode};
use crate::state::State;
use crate::{CatalogError, Kind, MAX_HOST_IQNS, MAX_HOSTS, MAX_LUN, MAX_VOLUMES, MIN_VOLUME_BYTES};
use engine::Change;
use std::sync::Arc;
use units::{BLOCK_BYTES, MAP_BLOCK_BYTES, MAX_VOLUME_BYTES, VolumeId};

/// RFC 7143 9.2.1: CHAP secrets have at least 96 bits.
const MIN_SECRET_BYTES: usize = 12;
const MAX_SECRET_BYTES: usize = 255;

/// Changes in the making. See [`crate::Catalog::change`].
pub struct Draft {
    state: State,
    changes: Vec<Change>,
}

/// What to change of a host; `None` leaves a thing as it is.
#[derive(Clone, Debug, Default)]
pub struct HostEdit {
    /// A new name.
    pub name: Option<String>,
    /// All its initiators from now on.
    pub iqns: Option<Vec<String>>,
    /// What it logs in with.
    pub chap: Option<Chap>,
    /// Its personality; an inner `None` takes it away.
    pub personality: Option<Option<String>>,
}

impl Draft {
    pub(crate) fn new(state: &State) -> Self {
        Self { state: state.clone(), changes: Vec::new() }
    }

    pub(crate) fn founding(array: Array) -> Result<Self, CatalogError> {
        let mut draft = Self { state: State::new(array.clone()), changes: Vec::new() };
        draft.put(&array)?;
        Ok(draft)
    }

    pub(crate) fn finish(self) -> (State, Vec<Change>) {
        (self.state, self.changes)
    }

    /// The state with what was changed so far.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Gives the array another name. Its identity stays.
    pub fn rename_array(&mut self, name: &str) -> Result<(), CatalogError> {
        check_name(name)?;
        self.edit_array(|array| array.name = name.to_owned())
    }

    /// Makes an empty volume. Its size is rounded up to whole 4 KiB, the unit in which the engine maps.
    pub fn create_volume(&mut self, name: &str, bytes: u64, now_ms: u64) -> Result<Arc<Volume>, CatalogError> {
        check_name(name)?;
        if self.state.volume(name).is_ok() {
            return Err(CatalogError::AlreadyExists { kind: Kind::Volume, name: name.to_owned() });
        }
        let bytes = whole_size(name, bytes)?;
        let number = self.state.array().next_volume;
        // The serial number has 8 digits for it. Four thousand million volumes is also a limit.
        if self.state.volumes().count() >= MAX_VOLUMES || number > u64::from(u32::MAX) {
            return Err(CatalogError::LimitReached { what: "Volume", limit: MAX_VOLUMES });
        }
        self.edit_array(|array| array.next_volume += 1)?;
        let volume = Volume {
            id: VolumeId(number),
            name: name.to_owned(),
            bytes,
            serial: format!("{}{number:08X}", self.state.array().serial_prefix),
            created_ms: now_ms,
            destroyed_ms: None,
        };
        self.changes.push(Change::CreateVolume { volume: volume.id, blocks: volume.blocks() });
        self.store_volume(volume)
    }

    /// Changes a volume's size. To make it smaller, and lose what lies behind the new end, takes `truncate`.
    pub fn resize_volume(&mut self, name: &str, bytes: u64, truncate: bool) -> Result<Arc<Volume>, CatalogError> {
        let mut volume = self.live_volume(name)?;
        let bytes = whole_size(name, bytes)?;
        if bytes < volume.bytes && !truncate {
            return Err(CatalogError::WouldTruncate { name: volume.name });
        }
        if bytes == volume.bytes {
            return self.state.volume(name).cloned();
        }
        volume.bytes = bytes;
        self.changes.push(Change::ResizeVolume { volume: volume.id, blocks: volume.blocks() });
        self.store_volume(volume)
    }

    /// Gives a volume another name.
    pub fn rename_volume(&mut self, name: &str, new_name: &str) -> Result<Arc<Volume>, CatalogError> {
        check_name(new_name)?;
        let mut volume = self.live_volume(name)?;
        if self.state.volume(new_name).is_ok_and(|other| other.id != volume.id) {
            return Err(CatalogError::AlreadyExists { kind: Kind::Volume, name: new_name.to_owned() });
        }
        volume.name = new_name.to_owned();
        self.store_volume(volume)
    }

    /// Destroys a volume: it keeps its name and data, and can be recovered until the delay is over.
    pub fn destroy_volume(&mut self, name: &str, now_ms: u64) -> Result<Arc<Volume>, CatalogError> {
        let mut volume = self.live_volume(name)?;
        if self.state.hosts_of(volume.id).next().is_some() {
            return Err(CatalogError::Connected { kind: Kind::Volume, name: volume.name });
        }
        volume.destroyed_ms = Some(now_ms);
        self.store_volume(volume)
    }

    /// Makes a destroyed volume usable again.
    pub fn recover_volume(&mut self, name: &str) -> Result<Arc<Volume>, CatalogError> {
        let mut volume = self.destroyed_volume(name)?;
        volume.destroyed_ms = None;
        self.store_volume(volume)
    }

    /// Removes a destroyed volume and its data for good.
    pub fn eradicate_volume(&mut self, name: &str) -> Result<Arc<Volume>, CatalogError> {
        let volume = self.destroyed_volume(name)?;
        self.changes.push(Change::DeleteVolume { volume: volume.id });
        self.changes.push(Change::Remove { key: volume.key().into_bytes() });
        self.state.remove_volume(volume.id);
        Ok(Arc::new(volume))
    }

    /// Makes a host.
    pub fn create_host(&mut self, name: &str, edit: &HostEdit, now_ms: u64) -> Result<Arc<Host>, CatalogError> {
        check_name(name)?;
        if self.state.host(name).is_ok() {
            return Err(CatalogError::AlreadyExists { kind: Kind::Host, name: name.to_owned() });
        }
        if self.state.hosts().count() >= MAX_HOSTS {
            return Err(CatalogError::LimitReached { what: "Host", limit: MAX_HOSTS });
        }
        let id = HostId(self.state.array().next_host);
        self.edit_array(|array| array.next_host += 1)?;
        let host = Host {
            id,
            name: name.to_owned(),
            iqns: Vec::new(),
            chap: Chap::default(),
            personality: None,
            created_ms: now_ms,
        };
        self.store_host(host, edit)
    }

    /// Changes a host.
    pub fn edit_host(&mut self, name: &str, edit: &HostEdit) -> Result<Arc<Host>, CatalogError> {
        let host = Host::clone(self.state.host(name)?);
        self.store_host(host, edit)
    }

    /// Removes a host that no volume is connected to.
    pub fn delete_host(&mut self, name: &str) -> Result<Arc<Host>, CatalogError> {
        let host = self.state.host(name)?.clone();
        if self.state.volumes_of(host.id).next().is_some() {
            return Err(CatalogError::Connected { kind: Kind::Host, name: host.name.clone() });
        }
        self.changes.push(Change::Remove { key: host.key().into_bytes() });
        self.state.remove_host(host.id);
        Ok(host)
    }

    /// Shows a volume to a host, under the LUN asked for or else the lowest free one from 1 on.
    pub fn connect(&mut self, host: &str, volume: &str, lun: Option<u16>) -> Result<Connection, CatalogError> {
        let volume = self.live_volume(volume)?;
        let host = self.state.host(host)?.clone();
        if self.state.lun(host.id, volume.id).is_some() {
            return Err(CatalogError::AlreadyExists { kind: Kind::Connection, name: volume.name });
        }
        let lun = self.free_lun(&host, lun)?;
        let connection = Connection { host: host.id, volume: volume.id, lun };
        self.put(&connection)?;
        self.state.put_connection(connection.clone());
        Ok(connection)
    }

    /// Takes a volume from a host.
    pub fn disconnect(&mut self, host: &str, volume: &str) -> Result<Connection, CatalogError> {
        let volume = self.state.volume(volume)?.clone();
        let host = self.state.host(host)?.clone();
        let lun = self
            .state
            .lun(host.id, volume.id)
            .ok_or_else(|| CatalogError::NoSuch { kind: Kind::Connection, name: volume.name.clone() })?;
        let connection = Connection { host: host.id, volume: volume.id, lun };
        self.changes.push(Change::Remove { key: connection.key().into_bytes() });
        self.state.remove_connection(host.id, volume.id);
        Ok(connection)
    }

    /// Stores an administrator, in the place of one of the same name.
    pub fn put_admin(&mut self, admin: Admin) -> Result<(), CatalogError> {
        check_name(&admin.name)?;
        self.put(&admin)?;
        self.state.put_admin(admin);
        Ok(())
    }

    fn free_lun(&self, host: &Host, lun: Option<u16>) -> Result<u16, CatalogError> {
        let used: std::collections::BTreeSet<u16> = self.state.volumes_of(host.id).map(|(lun, _)| lun).collect();
        match lun {
            Some(lun) if lun > MAX_LUN => Err(CatalogError::BadLun { lun: u64::from(lun) }),
            Some(lun) if used.contains(&lun) => Err(CatalogError::LunInUse { host: host.name.clone(), lun }),
            Some(lun) => Ok(lun),
            None => (1..=MAX_LUN)
                .find(|lun| !used.contains(lun))
                .ok_or(CatalogError::LimitReached { what: "LUN", limit: usize::from(MAX_LUN) }),
        }
    }

    fn live_volume(&self, name: &str) -> Result<Volume, CatalogError> {
        let volume = self.state.volume(name)?;
        match volume.destroyed_ms {
            None => Ok(Volume::clone(volume)),
            Some(_) => Err(CatalogError::Destroyed { name: volume.name.clone() }),
        }
    }

    fn destroyed_volume(&self, name: &str) -> Result<Volume, CatalogError> {
        let volume = self.state.volume(name)?;
        match volume.destroyed_ms {
            Some(_) => Ok(Volume::clone(volume)),
            None => Err(CatalogError::NotDestroyed { name: volume.name.clone() }),
        }
    }

    fn store_volume(&mut self, volume: Volume) -> Result<Arc<Volume>, CatalogError> {
        self.put(&volume)?;
        let name = volume.name.clone();
        self.state.put_volume(volume);
        self.state.volume(&name).cloned()
    }

    fn store_host(&mut self, mut host: Host, edit: &HostEdit) -> Result<Arc<Host>, CatalogError> {
        if let Some(name) = &edit.name {
            check_name(name)?;
            if self.state.host(name).is_ok_and(|other| other.id != host.id) {
                return Err(CatalogError::AlreadyExists { kind: Kind::Host, name: name.clone() });
            }
            host.name = name.clone();
        }
        if let Some(iqns) = &edit.iqns {
            host.iqns = self.check_iqns(host.id, iqns)?;
        }
        if let Some(chap) = &edit.chap {
            check_chap(chap).map_err(|reason| CatalogError::BadChap { name: host.name.clone(), reason })?;
            host.chap = chap.clone();
        }
        if let Some(personality) = &edit.personality {
            host.personality = personality.clone();
        }
        self.put(&host)?;
        let name = host.name.clone();
        self.state.put_host(host);
        self.state.host(&name).cloned()
    }

    /// An initiator belongs to one host, or it could not be told whose volumes it sees.
    fn check_iqns(&self, host: HostId, iqns: &[String]) -> Result<Vec<String>, CatalogError> {
        let mut checked: Vec<String> = Vec::with_capacity(iqns.len());
        for iqn in iqns {
            let iqn = check_iqn(iqn)?;
            if let Some(owner) = self.state.owner(&iqn).filter(|owner| owner.id != host) {
                return Err(CatalogError::IqnInUse { iqn, host: owner.name.clone() });
            }
            if !checked.contains(&iqn) {
                checked.push(iqn);
            }
        }
        if checked.len() > MAX_HOST_IQNS {
            return Err(CatalogError::LimitReached { what: "IQN", limit: MAX_HOST_IQNS });
        }
        Ok(checked)
    }

    fn edit_array(&mut self, edit: impl FnOnce(&mut Array)) -> Result<(), CatalogError> {
        let mut array = Array::clone(self.state.array());
        edit(&mut array);
        self.put(&array)?;
        self.state.put_array(array);
        Ok(())
    }

    fn put<T: Record>(&mut self, record: &T) -> Result<(), CatalogError> {
        self.changes.push(Change::Put { key: record.key().into_bytes(), value: encode(record)? });
        Ok(())
    }
}

fn whole_size(name: &str, bytes: u64) -> Result<u64, CatalogError> {
    let good = (MIN_VOLUME_BYTES..=MAX_VOLUME_BYTES).contains(&bytes) && bytes.is_multiple_of(BLOCK_BYTES);
    if good {
        Ok(bytes.next_multiple_of(MAP_BLOCK_BYTES))
    } else {
        Err(CatalogError::BadSize { name: name.to_owned() })
    }
}

fn check_chap(chap: &Chap) -> Result<(), &'static str> {
    for (user, secret) in chap.host.iter().chain(&chap.target) {
        let printable = |text: &str| text.bytes().all(|b| (b' '..=b'~').contains(&b));
        if user.is_empty() || user.len() > MAX_SECRET_BYTES || !printable(user) {
            return Err("a user name has 1 to 255 printable characters");
        }
        let secret = secret.expose();
        if !(MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&secret.len()) || !printable(secret) {
            return Err("a secret has 12 to 255 printable characters");
        }
    }
    match (&chap.host, &chap.target) {
        (None, Some(_)) => {
            Err("the array proves itself only to hosts that prove themselves: set the host's user and secret too")
        }
        (Some((_, host)), Some((_, target))) if host == target => {
            Err("the secrets of the two directions must differ (RFC 7143 9.2.1)")
        }
        _ => Ok(()),
    }
}
