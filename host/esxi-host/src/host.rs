//! The host: its stored state and its open devices.

pub(crate) mod claim;
mod satp;

use crate::device_log::DeviceLines;
use crate::error::HostError;
use crate::files;
use crate::log::Log;
use crate::mount_file::MountFile;
use crate::record::{DeviceRecord, Mount, SatpRule};
use crate::settings::{Setting, Settings};
use crate::stats::{HostNumbers, Numbers, Published};
use initiator::Url;
use multipath::{
    CountersSnapshot, DiskOptions, IscsiDisk, PathConfig, PathPolicy, Primitive, RetryRules, SharedDisk, Statistics,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The version of the host's file.
const VERSION: u32 = 1;
/// The interval at which a process writes its counters.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(500);
/// Adapters of a new host. A single one would be a single point of failure.
const ADAPTERS: u32 = 2;
/// The maximum number of adapters; the software initiator of ESXi can be bound to fewer.
const MAX_ADAPTERS: u32 = 8;

/// The stored state of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    version: u32,
    pub(crate) iqn: String,
    uuid: String,
    pub(crate) adapters: u32,
    #[serde(default)]
    pub(crate) chap_md5: bool,
    #[serde(default)]
    settings: BTreeMap<String, i64>,
    #[serde(default)]
    pub(crate) devices: Vec<DeviceRecord>,
    #[serde(default)]
    mounts: Vec<Mount>,
    /// Portals for device discovery, as URLs with their secrets.
    #[serde(default)]
    portals: Vec<String>,
    /// Policies of devices to be claimed.
    #[serde(default)]
    pub(crate) satp_rules: Vec<SatpRule>,
}

/// A simulated ESXi host. Clones are the same host.
#[derive(Clone)]
pub struct EsxiHost {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    directory: Option<PathBuf>,
    state: Mutex<State>,
    settings: Settings,
    log: Arc<Log>,
    statistics: Statistics,
    /// Of the virtual disks of machines that run in this process.
    virtual_disks: Statistics,
    published: Option<Published>,
    open: tokio::sync::Mutex<BTreeMap<String, Opened>>,
    publisher: Mutex<Option<tokio::task::JoinHandle<()>>>,
    distance: Mutex<Duration>,
}

#[derive(Clone)]
enum Opened {
    Iscsi(Arc<IscsiDisk>),
    Other(Arc<dyn SharedDisk>),
}

/// Counters of a host by name.
#[derive(Clone, Debug, Default)]
pub struct HostCounters {
    /// Of devices.
    pub devices: BTreeMap<String, CountersSnapshot>,
    /// Of paths, by runtime name.
    pub paths: BTreeMap<String, CountersSnapshot>,
    /// Of the virtual disks of running machines, as `web01:scsi0:0`.
    pub virtual_disks: BTreeMap<String, CountersSnapshot>,
}

/// Returns the disks that are connected by iSCSI.
fn opened_disks<'a>(open: impl Iterator<Item = &'a Opened>) -> Vec<Arc<IscsiDisk>> {
    let disk = |opened: &Opened| match opened {
        Opened::Iscsi(disk) => Some(Arc::clone(disk)),
        Opened::Other(_) => None,
    };
    open.filter_map(disk).collect()
}

/// Returns the directory of a host: its subdirectory of `$IBID_HOST_HOME`,
/// `$XDG_STATE_HOME/ibid-host` or `~/.local/state/ibid-host`, in this order.
pub fn default_directory(host: &str) -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || variable("HOME").unwrap_or_else(|| PathBuf::from("/")).join(".local/state");
    let root =
        variable("IBID_HOST_HOME").unwrap_or_else(|| variable("XDG_STATE_HOME").unwrap_or_else(home).join("ibid-host"));
    root.join(host)
}

impl EsxiHost {
    /// Opens the host stored in `directory`, or creates one with the defaults of ESXi.
    pub fn open(name: &str, directory: &Path) -> Result<Self, HostError> {
        platform::files::create_directory(directory).map_err(files::failed(directory))?;
        let path = directory.join("host.json");
        let state = {
            let _lock = files::lock(directory)?;
            match load_state(&path)? {
                Some(state) => state,
                None => {
                    let state = State::new(name)?;
                    files::store(&path, &state)?;
                    state
                }
            }
        };
        let published = Published::new(directory, random()?)?;
        Self::with(name, Some(directory.to_owned()), state, Some(published))
    }

    /// Creates a host that exists only in memory.
    pub fn transient(name: &str) -> Result<Self, HostError> {
        Self::with(name, None, State::new(name)?, None)
    }

    fn with(
        name: &str,
        directory: Option<PathBuf>,
        state: State,
        published: Option<Published>,
    ) -> Result<Self, HostError> {
        let settings = Settings::default();
        settings.load(&state.settings)?;
        let inner = Inner {
            name: name.to_owned(),
            log: Arc::new(Log::new(directory.as_deref())),
            directory,
            state: Mutex::new(state),
            settings,
            statistics: Statistics::default(),
            virtual_disks: Statistics::default(),
            published,
            open: tokio::sync::Mutex::default(),
            publisher: Mutex::default(),
            distance: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns its directory; `None` if it exists only in memory.
    pub fn directory(&self) -> Option<&Path> {
        self.inner.directory.as_deref()
    }

    /// Returns its initiator name.
    pub fn iqn(&self) -> String {
        self.inner.state.lock().iqn.clone()
    }

    /// Changes the initiator name for later logins.
    pub fn set_iqn(&self, iqn: &str) -> Result<(), HostError> {
        self.change(|state| iqn.clone_into(&mut state.iqn))
    }

    /// Returns its UUID in ESXi's format, which identifies the host to datastores.
    pub fn uuid(&self) -> String {
        self.inner.state.lock().uuid.clone()
    }

    /// Returns the number of adapters used by devices claimed from now on.
    pub fn adapters(&self) -> u32 {
        self.inner.state.lock().adapters
    }

    /// Sets the number of adapters, 1 to 8, for all devices. Open devices keep their paths.
    pub fn set_adapters(&self, adapters: u32) -> Result<(), HostError> {
        let adapters = adapters.clamp(1, MAX_ADAPTERS);
        self.change(|state| {
            state.adapters = adapters;
            state.devices.iter_mut().for_each(|device| device.adapters = adapters);
        })
    }

    /// Offers only CHAP with MD5, for targets that misinterpret SHA-256 as SHA-1, like tgt.
    pub fn set_chap_md5(&self, chap_md5: bool) -> Result<(), HostError> {
        self.change(|state| state.chap_md5 = chap_md5)
    }

    /// Sets a delay added to the round trip of each command, for devices opened from now on.
    pub fn set_distance(&self, distance: Duration) {
        *self.inner.distance.lock() = distance;
    }

    /// Returns the advanced settings.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// `/Misc/APDTimeout`: how long commands wait for a device without paths.
    pub fn paths_down_timeout(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.inner.settings.get(Setting::ApdTimeout)).unwrap_or_default())
    }

    /// Changes an advanced setting.
    pub fn set(&self, setting: Setting, value: i64) -> Result<(), HostError> {
        Settings::check(setting, value)?;
        self.change(|state| {
            state.settings.insert(setting.definition().path.to_owned(), value);
        })
    }

    /// Returns its devices, sorted by name.
    pub fn devices(&self) -> Vec<DeviceRecord> {
        let mut devices = self.inner.state.lock().devices.clone();
        devices.sort_by(|a, b| a.name.cmp(&b.name));
        devices
    }

    /// Returns a device by name.
    pub fn device(&self, name: &str) -> Result<DeviceRecord, HostError> {
        let state = self.inner.state.lock();
        let found = state.devices.iter().find(|device| device.name == name).cloned();
        found.ok_or_else(|| HostError::NoDevice(name.to_owned()))
    }

    /// Returns the targets of its devices, in the order of discovery.
    pub fn targets(&self) -> Vec<String> {
        let mut targets = Vec::new();
        for device in &self.inner.state.lock().devices {
            for array in device.arrays() {
                if !targets.contains(&array) {
                    targets.push(array);
                }
            }
        }
        targets
    }

    /// Sets the path selection policy of a device, effective immediately if it is open.
    pub async fn set_policy(&self, name: &str, policy: PathPolicy) -> Result<(), HostError> {
        self.change_device(name, |device| device.policy = policy)?;
        if let Some(Opened::Iscsi(disk)) = self.inner.open.lock().await.get(name) {
            disk.set_policy(policy);
        }
        Ok(())
    }

    /// Enables or disables an offload for a device, effective immediately if it is open.
    pub async fn enable(&self, name: &str, primitive: Primitive, enabled: bool) -> Result<(), HostError> {
        match self.inner.open.lock().await.get(name) {
            Some(Opened::Iscsi(disk)) => disk.enable(primitive, enabled),
            Some(Opened::Other(disk)) => {
                disk.enable(primitive, enabled);
                return Ok(());
            }
            None => {}
        }
        self.change_device(name, |device| device.vaai.of_mut(primitive).enabled = enabled)
    }

    /// Resets the known offload support of a device, so that its next use probes it again.
    pub fn forget_support(&self, name: &str) -> Result<(), HostError> {
        self.change_device(name, |device| {
            Primitive::ALL.into_iter().for_each(|one| device.vaai.of_mut(one).support = multipath::Support::Unknown);
        })
    }

    /// Sets the queue depth of a device, effective when it is next opened.
    pub fn set_queue_depth(&self, name: &str, depth: usize) -> Result<(), HostError> {
        self.change_device(name, |device| device.queue_depth = depth.max(1))
    }

    /// Returns a claimed device as a disk; opens it if needed.
    pub async fn disk(&self, name: &str) -> Result<Arc<dyn SharedDisk>, HostError> {
        if let Some(Opened::Other(disk)) = self.inner.open.lock().await.get(name) {
            return Ok(disk.clone());
        }
        let disk: Arc<dyn SharedDisk> = self.iscsi_disk(name).await?;
        Ok(disk)
    }

    /// Returns a claimed device with access to its paths.
    pub async fn iscsi_disk(&self, name: &str) -> Result<Arc<IscsiDisk>, HostError> {
        let mut open = self.inner.open.lock().await;
        match open.get(name) {
            Some(Opened::Iscsi(disk)) => return Ok(disk.clone()),
            Some(Opened::Other(_)) => return Err(HostError::NoDevice(name.to_owned())),
            None => {}
        }
        let device = self.device(name)?;
        let failed = |error| HostError::Open { name: name.to_owned(), error };
        let disk = IscsiDisk::open(self.paths(&device)?, self.options(&device)).await.map_err(failed)?;
        let disk = Arc::new(disk);
        open.insert(name.to_owned(), Opened::Iscsi(disk.clone()));
        drop(open);
        self.begin_publishing();
        Ok(disk)
    }

    /// Adds a disk that is not connected by iSCSI. It is not stored.
    pub async fn attach(&self, disk: Arc<dyn SharedDisk>) {
        let name = disk.identity().name.clone();
        self.inner.open.lock().await.insert(name, Opened::Other(disk));
    }

    fn paths(&self, device: &DeviceRecord) -> Result<Vec<PathConfig>, HostError> {
        let mut paths = Vec::new();
        for _ in 0..device.adapters {
            for port in &device.ports {
                let url: Url = port.parse()?;
                paths.push(PathConfig { config: self.config(&url), lun: url.lun });
            }
        }
        Ok(paths)
    }

    fn options(&self, device: &DeviceRecord) -> DiskOptions {
        DiskOptions {
            policy: device.policy,
            queue_depth: device.queue_depth,
            distance: *self.inner.distance.lock(),
            rules: RetryRules { paths_down_timeout: self.paths_down_timeout(), ..RetryRules::default() },
            statistics: self.inner.statistics.clone(),
            vaai: device.vaai,
            log: Some(Arc::new(DeviceLines::new(&self.inner.log, &device.name, device.path_names(&self.targets())))),
        }
    }

    /// Returns the portals for device discovery (send targets), as URLs.
    pub fn portals(&self) -> Result<Vec<Url>, HostError> {
        self.state().portals.iter().map(|portal| Ok(portal.parse()?)).collect()
    }

    /// Adds or removes a portal for device discovery.
    pub fn set_portal(&self, url: &Url, wanted: bool) -> Result<(), HostError> {
        let text = url.with_secrets();
        self.change(|state| {
            state.portals.retain(|portal| portal.parse::<Url>().is_ok_and(|known| known.portal != url.portal));
            if wanted {
                state.portals.push(text);
            }
        })
    }

    /// Returns its datastores, sorted by label.
    pub fn mounts(&self) -> Vec<Mount> {
        let mut mounts = self.inner.state.lock().mounts.clone();
        mounts.sort_by(|a, b| a.label.cmp(&b.label));
        mounts
    }

    /// Stores a mounted datastore, replacing one of the same UUID.
    pub fn add_mount(&self, mount: Mount) -> Result<(), HostError> {
        self.change(|state| {
            state.mounts.retain(|other| other.uuid != mount.uuid);
            state.mounts.push(mount);
        })
    }

    /// Removes a mounted datastore.
    pub fn remove_mount(&self, uuid: &str) -> Result<(), HostError> {
        self.change(|state| state.mounts.retain(|mount| mount.uuid != uuid))
    }

    /// Creates the file that shows other processes of the host whether a new mount still exists.
    pub fn begin_mount(&self) -> Result<MountFile, HostError> {
        let uuid = platform::random::bytes();
        let uuid = uuid.map_err(|error| HostError::File { path: "random numbers".to_owned(), error })?;
        MountFile::create(self.directory(), uuid)
    }

    /// Appends a line to vmkernel.log.
    pub fn log(&self, line: &str) -> Result<(), HostError> {
        let path = self.inner.directory.as_deref().unwrap_or(Path::new("")).join("vmkernel.log");
        self.inner.log.line(line).map_err(files::failed(&path))
    }

    /// Returns up to 1000 last lines of vmkernel.log: of all processes of the host, or of this one
    /// if the host exists only in memory.
    pub fn recent_log(&self) -> Result<Vec<String>, HostError> {
        let path = self.inner.directory.as_deref().unwrap_or(Path::new("")).join("vmkernel.log");
        self.inner.log.recent().map_err(files::failed(&path))
    }

    /// Returns the counters, for disks that are opened separately and attached.
    pub fn statistics(&self) -> &Statistics {
        &self.inner.statistics
    }

    /// Returns the counters of its devices, summed over all processes of the host.
    pub fn counters(&self) -> Result<BTreeMap<String, CountersSnapshot>, HostError> {
        Ok(self.all_counters()?.devices)
    }

    /// Returns the counters of the virtual disks of machines that run in this process.
    pub fn virtual_disks(&self) -> &Statistics {
        &self.inner.virtual_disks
    }

    /// Returns all its counters, summed over all processes of the host. Paths and virtual disks of
    /// this process are not included.
    pub fn all_counters(&self) -> Result<HostCounters, HostError> {
        let mut all = HostNumbers { devices: self.inner.statistics.snapshot(), ..HostNumbers::default() };
        if let Some(published) = &self.inner.published {
            all.add(&published.others()?);
        }
        Ok(HostCounters { devices: all.devices, paths: all.paths, virtual_disks: all.disks })
    }

    /// Returns the ids of the processes that use devices of the host, including this one.
    pub fn world_ids(&self) -> Result<Vec<u32>, HostError> {
        let mut worlds = self.inner.published.as_ref().map_or(Ok(Vec::new()), Published::living)?;
        if self.inner.publisher.lock().is_some() {
            worlds.push(std::process::id());
        }
        Ok(worlds)
    }

    /// Returns the number of processes that use devices of the host, including this one.
    pub fn worlds(&self) -> Result<u64, HostError> {
        Ok(self.world_ids()?.len() as u64)
    }

    /// Logs out of all sessions, and stores counters and detected offload support. Call it before
    /// the process ends. A host that is used afterwards reopens its devices.
    pub async fn close(&self) -> Result<(), HostError> {
        if let Some(publisher) = self.inner.publisher.lock().take() {
            publisher.abort();
        }
        let open = std::mem::take(&mut *self.inner.open.lock().await);
        let opened = opened_disks(open.values());
        self.keep_support(&opened)?;
        for disk in &opened {
            disk.close().await;
        }
        if let Some(published) = &self.inner.published
            && !opened.is_empty()
        {
            let paths = self.path_counters(&opened);
            published.finish(HostNumbers { devices: self.inner.statistics.take(), paths, ..HostNumbers::default() })?;
        }
        Ok(())
    }

    /// Returns the counters of the paths of open disks by runtime name.
    fn path_counters(&self, disks: &[Arc<IscsiDisk>]) -> Numbers {
        let (devices, targets) = (self.devices(), self.targets());
        let named = |disk: &Arc<IscsiDisk>| {
            let record = devices.iter().find(|record| record.name == disk.identity().name)?;
            Some(record.path_names(&targets).into_iter().zip(disk.path_counters()).collect::<Vec<_>>())
        };
        disks.iter().filter_map(named).flatten().collect()
    }

    /// Stores the detected offload support.
    fn keep_support(&self, disks: &[Arc<IscsiDisk>]) -> Result<(), HostError> {
        let learned = |state: &mut State| {
            for disk in disks {
                let found = state.devices.iter_mut().find(|device| device.name == disk.identity().name);
                let Some(device) = found else { continue };
                for one in Primitive::ALL {
                    device.vaai.of_mut(one).support = disk.vaai().of(one).support;
                }
            }
        };
        // Most commands detect nothing new; then the file is not written.
        let mut copy = self.state();
        learned(&mut copy);
        let changed = copy.devices != self.inner.state.lock().devices;
        if changed { self.change(learned) } else { Ok(()) }
    }

    fn begin_publishing(&self) {
        let mut publisher = self.inner.publisher.lock();
        if self.inner.published.is_none() || publisher.is_some() {
            return;
        }
        let weak = Arc::downgrade(&self.inner);
        *publisher = Some(tokio::spawn(async move {
            let mut interval = tokio::time::interval(PUBLISH_INTERVAL);
            let mut last = HostNumbers::default();
            loop {
                interval.tick().await;
                let Some(inner) = weak.upgrade() else { return };
                // While a device is being opened, the paths have their previous counters.
                let open = inner.open.try_lock().ok().map(|open| opened_disks(open.values()));
                if let Some(disks) = open {
                    last.paths = Self { inner: Arc::clone(&inner) }.path_counters(&disks);
                }
                last.devices = inner.statistics.snapshot();
                last.disks = inner.virtual_disks.snapshot();
                if let Some(published) = &inner.published {
                    // A write that fails now is retried at the next interval, and reported at the
                    // end of the process.
                    let _ = published.publish(&last);
                }
            }
        }));
    }

    pub(crate) fn state(&self) -> State {
        self.inner.state.lock().clone()
    }

    fn change_device(&self, name: &str, change: impl FnOnce(&mut DeviceRecord)) -> Result<(), HostError> {
        self.device(name)?;
        self.change(|state| {
            if let Some(device) = state.devices.iter_mut().find(|device| device.name == name) {
                change(device);
            }
        })
    }

    /// Changes the stored state, starting from the current file, which another process may have
    /// written.
    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) -> Result<(), HostError> {
        let state = match &self.inner.directory {
            None => {
                let mut state = self.inner.state.lock();
                change(&mut state);
                state.clone()
            }
            Some(directory) => {
                let path = directory.join("host.json");
                let _lock = files::lock(directory)?;
                let mut state = load_state(&path)?.unwrap_or_else(|| self.state());
                change(&mut state);
                files::store(&path, &state)?;
                *self.inner.state.lock() = state.clone();
                state
            }
        };
        Ok(self.inner.settings.load(&state.settings)?)
    }
}

impl State {
    fn new(name: &str) -> Result<Self, HostError> {
        Ok(Self {
            version: VERSION,
            iqn: format!("iqn.2026-11.org.ibid:{name}"),
            uuid: uuid()?,
            adapters: ADAPTERS,
            chap_md5: false,
            settings: BTreeMap::new(),
            devices: Vec::new(),
            mounts: Vec::new(),
            portals: Vec::new(),
            satp_rules: Vec::new(),
        })
    }
}

fn load_state(path: &Path) -> Result<Option<State>, HostError> {
    let state: Option<State> = files::load(path)?;
    match state {
        Some(state) if state.version != VERSION => Err(HostError::Damaged {
            path: path.display().to_string(),
            message: format!("version {} is not {VERSION}", state.version),
        }),
        state => Ok(state),
    }
}

fn random() -> Result<u64, HostError> {
    let bytes = platform::random::bytes::<8>();
    bytes.map(u64::from_le_bytes).map_err(|error| HostError::File { path: "random numbers".to_owned(), error })
}

/// Returns a UUID in ESXi's format: groups of four, four, two and six bytes.
fn uuid() -> Result<String, HostError> {
    let text = format!("{:016x}{:016x}", random()?, random()?);
    Ok(format!("{}-{}-{}-{}", &text[..8], &text[8..16], &text[16..20], &text[20..]))
}

#[cfg(test)]
mod tests;
