//! The host: what it keeps, and the devices that it has open.

use crate::error::HostError;
use crate::files;
use crate::log::Log;
use crate::record::{DeviceRecord, Mount};
use crate::settings::{Setting, Settings};
use crate::stats::Published;
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
/// How often a process writes its counters.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(500);
/// Adapters of a new host: one alone would be a single point of failure.
const ADAPTERS: u32 = 2;
/// The most adapters: what ESXi's software initiator can be bound to is less.
const MAX_ADAPTERS: u32 = 8;

/// What a host keeps.
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
    /// Portals to look for devices at, as URLs with their secrets.
    #[serde(default)]
    portals: Vec<String>,
}

/// A simulated ESXi host. Clones are the same host.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    directory: Option<PathBuf>,
    state: Mutex<State>,
    settings: Settings,
    log: Log,
    statistics: Statistics,
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

/// Where the hosts of this user live: `$IBID_HOST_HOME`, else `$XDG_STATE_HOME/ibid-host`, else
/// `~/.local/state/ibid-host`; one directory for each host.
pub fn default_directory(host: &str) -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || variable("HOME").unwrap_or_else(|| PathBuf::from("/")).join(".local/state");
    let root =
        variable("IBID_HOST_HOME").unwrap_or_else(|| variable("XDG_STATE_HOME").unwrap_or_else(home).join("ibid-host"));
    root.join(host)
}

impl Host {
    /// The host that lives in `directory`; a new one with the defaults of ESXi when there is none.
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

    /// A host that lives in memory alone.
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
            log: Log::new(directory.as_deref()),
            directory,
            state: Mutex::new(state),
            settings,
            statistics: Statistics::default(),
            published,
            open: tokio::sync::Mutex::default(),
            publisher: Mutex::default(),
            distance: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Where it lives; nothing when it lives in memory alone.
    pub fn directory(&self) -> Option<&Path> {
        self.inner.directory.as_deref()
    }

    /// The name that it logs in with.
    pub fn iqn(&self) -> String {
        self.inner.state.lock().iqn.clone()
    }

    /// Changes the name that it logs in with, from the next login on.
    pub fn set_iqn(&self, iqn: &str) -> Result<(), HostError> {
        self.change(|state| iqn.clone_into(&mut state.iqn))
    }

    /// Its UUID, as ESXi writes it. Datastores know a host by it.
    pub fn uuid(&self) -> String {
        self.inner.state.lock().uuid.clone()
    }

    /// How many adapters devices that are claimed from now on use.
    pub fn adapters(&self) -> u32 {
        self.inner.state.lock().adapters
    }

    /// Changes that number, 1 to 8, for all devices; those that are open keep their paths.
    pub fn set_adapters(&self, adapters: u32) -> Result<(), HostError> {
        let adapters = adapters.clamp(1, MAX_ADAPTERS);
        self.change(|state| {
            state.adapters = adapters;
            state.devices.iter_mut().for_each(|device| device.adapters = adapters);
        })
    }

    /// Offers CHAP with MD5 alone, for targets that take SHA-256 for SHA-1, as tgt does.
    pub fn set_chap_md5(&self, chap_md5: bool) -> Result<(), HostError> {
        self.change(|state| state.chap_md5 = chap_md5)
    }

    /// A distance to all arrays, added to the round trip of each command to devices that are opened from now on.
    pub fn set_distance(&self, distance: Duration) {
        *self.inner.distance.lock() = distance;
    }

    /// Its advanced settings.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// `/Misc/APDTimeout`: how long it waits for a device that has no path.
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

    /// Its devices, by name.
    pub fn devices(&self) -> Vec<DeviceRecord> {
        let mut devices = self.inner.state.lock().devices.clone();
        devices.sort_by(|a, b| a.name.cmp(&b.name));
        devices
    }

    /// A device by its name.
    pub fn device(&self, name: &str) -> Result<DeviceRecord, HostError> {
        let state = self.inner.state.lock();
        let found = state.devices.iter().find(|device| device.name == name).cloned();
        found.ok_or_else(|| HostError::NoDevice(name.to_owned()))
    }

    /// The names of the targets that its devices are on, in the order in which they were met.
    pub fn targets(&self) -> Vec<String> {
        let mut targets = Vec::new();
        for device in &self.inner.state.lock().devices {
            if !targets.contains(&device.array) {
                targets.push(device.array.clone());
            }
        }
        targets
    }

    /// Changes how a device's paths are chosen, at once where it is open.
    pub async fn set_policy(&self, name: &str, policy: PathPolicy) -> Result<(), HostError> {
        self.change_device(name, |device| device.policy = policy)?;
        if let Some(Opened::Iscsi(disk)) = self.inner.open.lock().await.get(name) {
            disk.set_policy(policy);
        }
        Ok(())
    }

    /// Switches an offload on or off for one device, at once where it is open.
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

    /// Forgets what was found out about a device's offloads, so that the next use decides again.
    pub fn forget_support(&self, name: &str) -> Result<(), HostError> {
        self.change_device(name, |device| {
            Primitive::ALL.into_iter().for_each(|one| device.vaai.of_mut(one).support = multipath::Support::Unknown);
        })
    }

    /// Changes how many commands a device may have open, from the next time on that it is opened.
    pub fn set_queue_depth(&self, name: &str, depth: usize) -> Result<(), HostError> {
        self.change_device(name, |device| device.queue_depth = depth.max(1))
    }

    /// A claimed device as a disk; opened when nobody has yet.
    pub async fn disk(&self, name: &str) -> Result<Arc<dyn SharedDisk>, HostError> {
        if let Some(Opened::Other(disk)) = self.inner.open.lock().await.get(name) {
            return Ok(disk.clone());
        }
        let disk: Arc<dyn SharedDisk> = self.iscsi_disk(name).await?;
        Ok(disk)
    }

    /// The same, with its paths to look at.
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

    /// Gives the host a disk that is not behind iSCSI. It is not kept.
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
        }
    }

    /// The portals that it looks for devices at (send targets), as URLs.
    pub fn portals(&self) -> Result<Vec<Url>, HostError> {
        self.state().portals.iter().map(|portal| Ok(portal.parse()?)).collect()
    }

    /// Adds such a portal, or removes it.
    pub fn set_portal(&self, url: &Url, wanted: bool) -> Result<(), HostError> {
        let text = url.with_secrets();
        self.change(|state| {
            state.portals.retain(|portal| portal.parse::<Url>().is_ok_and(|known| known.portal != url.portal));
            if wanted {
                state.portals.push(text);
            }
        })
    }

    /// Its datastores, by label.
    pub fn mounts(&self) -> Vec<Mount> {
        let mut mounts = self.inner.state.lock().mounts.clone();
        mounts.sort_by(|a, b| a.label.cmp(&b.label));
        mounts
    }

    /// Notes that a datastore is mounted; one with the same UUID is replaced.
    pub fn add_mount(&self, mount: Mount) -> Result<(), HostError> {
        self.change(|state| {
            state.mounts.retain(|other| other.uuid != mount.uuid);
            state.mounts.push(mount);
        })
    }

    /// Notes that a datastore is no longer mounted.
    pub fn remove_mount(&self, uuid: &str) -> Result<(), HostError> {
        self.change(|state| state.mounts.retain(|mount| mount.uuid != uuid))
    }

    /// Writes a line into vmkernel.log.
    pub fn log(&self, line: &str) -> Result<(), HostError> {
        let path = self.inner.directory.as_deref().unwrap_or(Path::new("")).join("vmkernel.log");
        self.inner.log.line(line).map_err(files::failed(&path))
    }

    /// The last lines of vmkernel.log, at most a thousand: of all processes of the host, or of this one when the host lives
    /// in memory alone.
    pub fn recent_log(&self) -> Result<Vec<String>, HostError> {
        let path = self.inner.directory.as_deref().unwrap_or(Path::new("")).join("vmkernel.log");
        self.inner.log.recent().map_err(files::failed(&path))
    }

    /// Where it counts what it does: for disks that are opened by hand and attached.
    pub fn statistics(&self) -> &Statistics {
        &self.inner.statistics
    }

    /// The counters of its devices, all processes of the host together.
    pub fn counters(&self) -> Result<BTreeMap<String, CountersSnapshot>, HostError> {
        let mut all = self.inner.statistics.snapshot();
        if let Some(published) = &self.inner.published {
            for (name, numbers) in published.others()? {
                let own = all.entry(name).or_default();
                *own = own.plus(&numbers);
            }
        }
        Ok(all)
    }

    /// How many processes use devices of the host now, this one included.
    pub fn worlds(&self) -> Result<u64, HostError> {
        let own = u64::from(self.inner.publisher.lock().is_some());
        let others = self.inner.published.as_ref().map_or(Ok(0), Published::living);
        Ok(own + others?)
    }

    /// Logs out of everything, and keeps what was counted and found out. To be called before the process ends; a host
    /// that is used on opens its devices again.
    pub async fn close(&self) -> Result<(), HostError> {
        if let Some(publisher) = self.inner.publisher.lock().take() {
            publisher.abort();
        }
        let open = std::mem::take(&mut *self.inner.open.lock().await);
        let opened: Vec<Arc<IscsiDisk>> = open
            .into_values()
            .filter_map(|opened| match opened {
                Opened::Iscsi(disk) => Some(disk),
                Opened::Other(_) => None,
            })
            .collect();
        self.keep_support(&opened)?;
        for disk in &opened {
            disk.close().await;
        }
        if let Some(published) = &self.inner.published
            && !opened.is_empty()
        {
            published.finish(self.inner.statistics.take())?;
        }
        Ok(())
    }

    /// Notes what was found out about offloads.
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
        // Most commands find out nothing: then the file is left alone.
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
            loop {
                interval.tick().await;
                let Some(inner) = weak.upgrade() else { return };
                if let Some(published) = &inner.published {
                    // A directory that cannot be written now may be later, and the end of the process tells.
                    let _ = published.publish(inner.statistics.snapshot());
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

    /// Changes what the host keeps: on what its file holds now, which another process may have written.
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

/// A UUID as ESXi writes them: four, four, two and six bytes.
fn uuid() -> Result<String, HostError> {
    let text = format!("{:016x}{:016x}", random()?, random()?);
    Ok(format!("{}-{}-{}-{}", &text[..8], &text[8..16], &text[16..20], &text[20..]))
}

#[cfg(test)]
mod tests;
