//! Finds the datastores of the simulated host by label or UUID and mounts them while a verb runs.

mod meter;
mod process;

use crate::failure::Failure;
use crate::interrupt::stop_requested;
use datastore::{Datastore, DatastoreError, MountOptions, Runtime, TokioRuntime, VolumeInfo};
use esxi_host::{EsxiHost, Mount, Setting};
pub(crate) use meter::Meter;
use multipath::SharedDisk;
use process::MountProcess;
use std::sync::Arc;
use virtual_disk::MoverSettings;

/// Directory under which ESXi shows datastores.
const VOLUMES: &str = "/vmfs/volumes/";

/// The host and the datastores that are mounted for this verb.
pub(crate) struct Volumes {
    host: EsxiHost,
    runtime: Arc<dyn Runtime>,
    mounted: Vec<Datastore>,
}

/// Path of a file on a datastore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatastorePath {
    /// Label or UUID of the datastore.
    pub(crate) volume: String,
    /// Path on the datastore; empty for the datastore itself.
    pub(crate) file: String,
}

/// Parses `/vmfs/volumes/DATASTORE/vm/disk.vmdk` or `[DATASTORE] vm/disk.vmdk`.
pub(crate) fn parse_path(path: &str) -> Result<DatastorePath, Failure> {
    let (volume, file) = match (path.strip_prefix(VOLUMES), path.strip_prefix('[')) {
        (Some(rest), _) => rest.split_once('/').unwrap_or((rest, "")),
        (None, Some(rest)) => rest.split_once(']').map_or(("", ""), |(volume, file)| (volume, file.trim_start())),
        (None, None) => ("", ""),
    };
    if volume.is_empty() {
        let hint = "use /vmfs/volumes/DATASTORE/FILE or '[DATASTORE] FILE'";
        return Err(Failure::usage(format!("path '{path}' has no datastore name"), hint));
    }
    Ok(DatastorePath { volume: volume.to_owned(), file: file.trim_matches('/').to_owned() })
}

impl Volumes {
    /// Creates an empty set; datastores are mounted on first use.
    pub(crate) fn new(host: EsxiHost) -> Self {
        Self { host, runtime: Arc::new(TokioRuntime::default()), mounted: Vec::new() }
    }

    pub(crate) fn host(&self) -> &EsxiHost {
        &self.host
    }

    /// Returns the runtime (clock and tasks) of the datastores.
    pub(crate) fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// Returns the data mover settings for `datastore` that follow from the host's settings.
    pub(crate) fn settings(&self, datastore: &Datastore) -> MoverSettings {
        MoverSettings::of(self.host.settings(), datastore.info().mode)
    }

    /// Mounts the datastore with this label or UUID unless it is already mounted.
    pub(crate) async fn mount(&mut self, volume: &str) -> Result<Datastore, Failure> {
        let named = |label: &str, uuid: &str| label == volume || uuid == volume;
        let is_it = |ds: &&Datastore| named(&ds.info().label, &ds.info().uuid.to_string());
        if let Some(datastore) = self.mounted.iter().find(is_it) {
            return Ok(datastore.clone());
        }
        // Devices where it was found before come first, then all devices.
        let known = self.host.mounts().into_iter().filter(|mount| named(&mount.label, &mount.uuid));
        let mut devices: Vec<String> = known.map(|mount| mount.device).collect();
        devices.extend(self.host.devices().into_iter().map(|device| device.name));
        for device in devices {
            let Ok(disk) = self.host.disk(&device).await else { continue };
            let Some(info) = Datastore::probe(&disk, &self.runtime).await.map_err(failed("datastore"))? else {
                continue;
            };
            let uuid = info.uuid.to_string();
            if named(&info.label, &uuid) {
                self.host.add_mount(Mount { label: info.label.clone(), uuid, device })?;
                let disk = whole_disk(&self.host, &self.runtime, disk).await.map_err(failed(volume))?;
                let mounting = Datastore::mount(disk, &options(&self.host, info)?, Arc::clone(&self.runtime)).await;
                let datastore = mounting.map_err(failed(volume))?;
                self.mounted.push(datastore.clone());
                return Ok(datastore);
            }
        }
        Err(Failure::usage(
            format!("no device of the host has a datastore '{volume}'"),
            "run `ibid-host claim URL` to find devices or `ibid-host vmkfstools -C` to create a datastore",
        ))
    }

    /// Mounts the datastore of a path and returns it with the file's path on it.
    pub(crate) async fn open(&mut self, path: &str) -> Result<(Datastore, String), Failure> {
        let path = parse_path(path)?;
        Ok((self.mount(&path.volume).await?, path.file))
    }

    /// Mounts all datastores on the host's devices.
    pub(crate) async fn all(&mut self) -> Result<Vec<Datastore>, Failure> {
        let mut found = Vec::new();
        for device in self.host.devices() {
            let Ok(disk) = self.host.disk(&device.name).await else { continue };
            if let Some(info) = Datastore::probe(&disk, &self.runtime).await.map_err(failed(&device.name))? {
                found.push(self.mount(&info.uuid.to_string()).await?);
            }
        }
        Ok(found)
    }

    /// Unmounts the datastores, which removes incomplete files and releases all locks and
    /// heartbeats, and saves the host's state, even after an error. A signal that asks to stop ends
    /// this too.
    pub(crate) async fn finish<T>(self, result: Result<T, Failure>) -> Result<T, Failure> {
        let release = async {
            let mut unmounted = Ok(());
            for datastore in &self.mounted {
                unmounted = unmounted.and(datastore.unmount().await.map_err(failed("unmount")));
            }
            (unmounted, self.host.close().await)
        };
        let (unmounted, closed) = tokio::select! {
            released = release => released,
            _ = stop_requested() => return Err(Failure::Interrupted),
        };
        if let (Err(Failure::Interrupted), Err(error)) = (&result, &unmounted) {
            eprintln!("error: {error}");
        }
        let value = result?;
        unmounted?;
        closed?;
        Ok(value)
    }
}

/// Returns the whole disk of the datastore on a device, with its extents on other devices.
pub(crate) async fn whole_disk(
    host: &EsxiHost,
    runtime: &Arc<dyn Runtime>,
    disk: Arc<dyn SharedDisk>,
) -> Result<Arc<dyn SharedDisk>, DatastoreError> {
    match Datastore::probe(&disk, runtime).await? {
        Some(info) if info.extents > 1 => {}
        _ => return Ok(disk),
    }
    let mut others = Vec::new();
    for device in host.devices().into_iter().filter(|device| device.name != disk.identity().name) {
        // A device that does not answer may have no extent.
        others.extend(host.disk(&device.name).await.ok());
    }
    Datastore::whole_disk(&disk, &others, runtime).await
}

/// Returns the mount options that follow from the host's settings.
pub(crate) fn options(host: &EsxiHost, volume: VolumeInfo) -> Result<MountOptions, Failure> {
    let settings = host.settings();
    let process = MountProcess::new(host, volume)?;
    Ok(MountOptions {
        process: Some(Arc::new(process)),
        ats: settings.is_on(Setting::HardwareAcceleratedLocking),
        ats_heartbeat: settings.is_on(Setting::UseAtsForHeartbeat),
        paths_down_timeout: host.paths_down_timeout(),
        ..MountOptions::new(host.name())
    })
}

/// Returns a function that converts an error to a failure prefixed with `what`.
pub(crate) fn failed<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> Failure + use<E> {
    let what = what.to_owned();
    move |error| Failure::Wrong(format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datastore_paths_are_parsed_as_on_esxi() {
        let both = DatastorePath { volume: "ds 1".into(), file: "vm/a.vmdk".into() };
        assert_eq!(parse_path("/vmfs/volumes/ds 1/vm/a.vmdk").unwrap(), both);
        assert_eq!(parse_path("[ds 1] vm/a.vmdk").unwrap(), both);
        assert_eq!(
            parse_path("/vmfs/volumes/ds1").unwrap(),
            DatastorePath { volume: "ds1".into(), file: String::new() }
        );
        for wrong in ["a.vmdk", "/vmfs/volumes/", "[]", "", "[ds1"] {
            assert!(matches!(parse_path(wrong), Err(Failure::Usage { .. })), "{wrong}");
        }
    }
}
