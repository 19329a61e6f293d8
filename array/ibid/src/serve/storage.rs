//! The storage of the array: the engine on its file or device.

use super::creation;
use super::exit::STOPPED;
use super::overlay::OverlayDisk;
use super::owner::Owner;
use super::settings::Settings;
use crate::cli::DriveReads;
use crate::directory::ArrayDirectory;
use crate::keys;
use crate::medium::{Medium, Purpose};
use crate::problem::Problem;
use ::fsck::SalvageReport;
use engine::{Core, Engine, IoWatch, LogLoss, Maintenance, Options, RecoverError};
use ondisk::ArrayGeometry;
use platform::lock::Lock;
use platform::{Disk, Durability, FileDisk, files};
use pods::PodEngine;
use rest::{Drive, Growth};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use types::format_capacity;

const ACCEPT_LOSS: &str = "copy the drive first; then `ibid serve --accept-log-loss` starts the array without these operations, \
                           and keeps a copy of the log";
const USE_SALVAGE: &str = "copy the drive first; then `ibid serve --salvage` serves what can be read and changes nothing, and \
                           `ibid fsck --salvage` rebuilds the metadata";
const USE_BACKUP: &str = "`ibid fsck` names the place; if the drive cannot read it for the moment, try again, otherwise restore the array from a backup";
const AFTER_FAILURE: &str =
    "check the drive and the system log, then start the array again: no acknowledged data is lost";
/// Maximum number of lost ranges in the log of the program.
const MAX_REPORTED_RANGES: usize = 100;
/// Bytes of the log that are copied at a time.
const COPY_BYTES: u64 = 4 << 20;
/// Bytes of the log that are read at a time: an unreadable sector loses this much of the copy.
const COPY_STEP: usize = 4096;

/// Name of the file of changes, while it is created.
const CHANGES_FILE: &str = "salvage-changes";

/// An open engine.
pub(crate) struct Storage {
    engine: Arc<Engine>,
    disk: Arc<FileDisk>,
    /// Path of the file or device.
    path: PathBuf,
    is_read_only: bool,
    is_encrypted: bool,
    /// The capacity may exceed the free space of the file system.
    overcommit: bool,
    /// Released after the engine has stopped.
    owner: Owner,
    /// Prevents arrays in other directories from using the medium.
    _lock: Lock,
}

/// Opens the storage; the first start creates it.
pub(crate) fn open(settings: &Settings, directory: &mut ArrayDirectory) -> Result<Storage, Problem> {
    let warn = |text: &str| tracing::warn!("{text}");
    let passphrase = settings.key_file.as_deref().map(|path| keys::passphrase(path, &warn)).transpose()?;
    let (Medium { path, disk, previous, lock }, superblock) = creation::open(settings, passphrase.as_ref(), directory)?;
    let purpose = if settings.salvage { Purpose::Read } else { Purpose::Write };
    let key = keys::unlock(&path, &*disk, passphrase.as_ref(), purpose)?;
    let is_encrypted = key.is_some();
    // Argon2 has been computed; the passphrase is not needed again.
    drop(passphrase);
    let owner = Owner::start(disk.clone(), superblock.array, previous.as_ref())?;
    if let Some(capacity) = settings.capacity.filter(|capacity| *capacity != superblock.geometry.capacity) {
        let (asked, is) = (format_capacity(capacity), format_capacity(superblock.geometry.capacity));
        tracing::warn!("capacity {asked} ignored: the array exists with {is}; run `ibid array grow` to change it");
    }
    let memory = Options::for_memory(&superblock.geometry, settings.memory, settings.index_memory);
    let (write_cache, read_cache) = (settings.write_cache, settings.read_cache);
    let options = Options { write_cache, read_cache, read_only: settings.salvage, ..memory };
    prepare_reads(settings, &disk);
    let (used, salvaged) = match settings.salvage {
        true => {
            let used = keys::decrypted(overlay(&disk, &settings.data)?, key);
            let report = salvage(&*used)?;
            (used, Some(report))
        }
        false => (keys::decrypted(disk.clone(), key), None),
    };
    let (core, recovery) = match Core::recover(&*used, Some(options)) {
        Err(RecoverError::LogLoss(loss)) => {
            report_loss(&loss);
            if !settings.accept_log_loss {
                return Err(Problem::new(loss).hint(ACCEPT_LOSS));
            }
            keep_log(&disk, &superblock.geometry, &settings.data, loss.sequence)?;
            Core::recover(&*used, Some(Options { accept_log_loss: true, ..options }))?
        }
        Err(error @ RecoverError::Damaged(_)) => return Err(Problem::from(error).hint(USE_SALVAGE)),
        Err(error @ RecoverError::LostPatches) => return Err(Problem::from(error).hint(USE_BACKUP)),
        result => result?,
    };
    tracing::info!(
        groups = recovery.groups,
        records = recovery.records,
        bytes = recovery.bytes,
        "array opened; log replayed"
    );
    let engine = Arc::new(Engine::start(core, used));
    if let Some(report) = &salvaged {
        engine.report_salvage(&summary(report), &report.unreadable);
    }
    Ok(Storage {
        engine,
        is_read_only: settings.salvage,
        is_encrypted,
        disk,
        path,
        overcommit: settings.overcommit,
        owner,
        _lock: lock,
    })
}

/// Lets reads bypass the page cache if the settings and the system permit it.
fn prepare_reads(settings: &Settings, disk: &FileDisk) {
    let cache = format_capacity(settings.read_cache);
    // The disk of a salvage has no direct reads: parts of it are in another file.
    if settings.read_cache == 0 || settings.io == DriveReads::Threads || settings.salvage {
        return tracing::info!("reads through the page cache, on threads; read cache {cache}");
    }
    match disk.enable_direct_reads() {
        Ok(()) => tracing::info!("reads past the page cache, asynchronous; read cache {cache}"),
        Err(reason) => tracing::info!("reads through the page cache, on threads: {reason}; read cache {cache}"),
    }
}

/// Returns a disk that keeps changes in a file without a name, so that the array does not change.
fn overlay(disk: &Arc<FileDisk>, directory: &Path) -> Result<Arc<OverlayDisk>, Problem> {
    let path = directory.join(CHANGES_FILE);
    let failed = |error: &dyn std::fmt::Display| {
        at(&path)(error)
            .hint("the changes of a salvage need as much free space as the log; free space, then start again")
    };
    files::remove(&path)?;
    let changes = FileDisk::create(&path, disk.size()).map_err(|error| failed(&error))?;
    // The file has no name from now on, so that it ends with the process.
    files::remove(&path)?;
    Ok(Arc::new(OverlayDisk::new(disk.clone(), changes)))
}

/// Rebuilds the metadata of a damaged array.
fn salvage(disk: &dyn Disk) -> Result<SalvageReport, Problem> {
    let progress = |step: &str| tracing::info!("salvage: {step}");
    let report = fsck::salvage(disk, &progress)
        .map_err(|error| Problem::from(error).hint("copy the drive, then restore the array from a backup"))?;
    tracing::error!("array opened for reading only; {}", summary(&report));
    let values = fsck::catalog_values(disk);
    let names = catalog::volume_names(values.iter().map(|(key, value)| (&key[..], &value[..])));
    let lost =
        || report.unreadable.iter().flat_map(|(volume, ranges)| ranges.runs.iter().map(move |run| (volume, run)));
    for (volume, (first, blocks)) in lost().take(MAX_REPORTED_RANGES) {
        let owner = volume.volume_of_delta().unwrap_or(*volume);
        let part = if volume.is_delta() { "the delta of " } else { "" };
        let name = names.get(&owner).map_or("", String::as_str);
        tracing::error!("lost: {part}volume {name} ({:08X}), LBA {first}, {blocks} blocks of 512 bytes", owner.0);
    }
    let more = lost().count().saturating_sub(MAX_REPORTED_RANGES);
    if more > 0 {
        tracing::error!("lost: {more} more ranges; `ibid fsck` lists them");
    }
    Ok(report)
}

/// Describes the losses of a salvage.
fn summary(report: &SalvageReport) -> String {
    let SalvageReport { directory_pages, slot_pages, map_pages, unreadable, .. } = report;
    let blocks: u64 = unreadable.values().map(|ranges| ranges.blocks).sum();
    format!(
        "{} of {} volumes and snapshots cannot be read; rebuilt {slot_pages} slot table pages and {directory_pages} of \
         their directory; lost {map_pages} map pages",
        format_capacity(blocks * types::LBA_BYTES),
        unreadable.len()
    )
}

/// Logs the lost ranges. A volume id is the last 8 hexadecimal digits of its serial number.
fn report_loss(loss: &LogLoss) {
    tracing::error!(changes = loss.other_changes, "{loss}");
    for (volume, range) in loss.ranges.iter().take(MAX_REPORTED_RANGES) {
        let (first, blocks) = (range.start().0, range.blocks());
        tracing::error!("lost change: volume {:08X}, LBA {first}, {blocks} blocks of 512 bytes", volume.0);
    }
    let more = loss.ranges.len().saturating_sub(MAX_REPORTED_RANGES);
    if more > 0 || loss.is_truncated {
        tracing::error!("lost changes: {more} more ranges{}", if loss.is_truncated { " or more" } else { "" });
    }
}

/// Copies the log ring to a file, so that the damaged groups can be examined later. It is copied as
/// it is stored: encrypted, with the data units of its place on the drive.
fn keep_log(disk: &FileDisk, geometry: &ArrayGeometry, directory: &Path, sequence: u64) -> Result<(), Problem> {
    let path = directory.join(format!("lost-log-{sequence}"));
    let failed = |error: &dyn std::fmt::Display| {
        at(&path)(error).hint("the copy of the log needs as much free space as the log; free space, then start again")
    };
    files::remove(&path)?;
    let copy = FileDisk::create(&path, geometry.log_bytes).map_err(|error| failed(&error))?;
    let mut offset = 0;
    while offset < geometry.log_bytes {
        let length = COPY_BYTES.min(geometry.log_bytes - offset);
        let mut bytes = vec![0; usize::try_from(length)?];
        // Parts that cannot be read are zeros in the copy.
        for (at, part) in (geometry.log_start() + offset..).step_by(COPY_STEP).zip(bytes.chunks_mut(COPY_STEP)) {
            if disk.read_at(at, part).is_err() {
                part.fill(0);
            }
        }
        copy.write_at(offset, &[&bytes], Durability::Volatile).map_err(|error| failed(&error))?;
        offset += length;
    }
    copy.flush().map_err(|error| failed(&error))?;
    tracing::warn!("log copied to {}", path.display());
    Ok(())
}

impl Storage {
    /// Returns the engine with all of its interface, for the pods.
    pub(crate) fn engine(&self) -> Arc<dyn PodEngine> {
        self.engine.clone()
    }

    /// Sets the name of the array in the owner block.
    pub(crate) fn set_name(&self, name: &str) {
        self.owner.set_name(name);
    }

    /// The drive, as the REST interface sees it.
    pub(crate) fn drive(&self) -> Drive {
        Drive { growth: self.growth(), is_encrypted: self.is_encrypted }
    }

    /// Returns the function that grows the array while it serves: first the file, then the pool. A
    /// device must have the new size already. A file needs the free space for its new size.
    fn growth(&self) -> Growth {
        let (engine, disk, path) = (self.engine.clone(), self.disk.clone(), self.path.clone());
        let is_read_only = self.is_read_only;
        let is_bounded = !disk.is_block_device() && !self.overcommit;
        Box::new(move |capacity| {
            if is_read_only {
                return Err("it is open for reading only".to_owned());
            }
            if is_bounded {
                check_growth(&path, capacity).map_err(|error| error.to_string())?;
            }
            disk.grow(capacity).map_err(|error| error.to_string())?;
            engine.grow(capacity).map_err(|error| error.to_string())
        })
    }

    /// The I/Os in progress.
    pub(crate) fn io_watch(&self) -> Arc<IoWatch> {
        self.engine.io_watch()
    }

    /// Cancels scrubs and space counts.
    pub(crate) fn cancel_background_scans(&self) {
        self.engine.cancel_background_scans();
    }

    /// Closes the engine. All its users must have been dropped.
    pub(crate) fn close(self) -> Result<(), Problem> {
        match Arc::into_inner(self.engine) {
            Some(engine) => engine.close().map_err(|reason| {
                Problem::new(format!("array stopped after an error: {reason}")).hint(AFTER_FAILURE).exit_code(STOPPED)
            }),
            None => {
                // The next start replays the log, so no data is lost.
                tracing::warn!("engine not closed: still in use");
                Ok(())
            }
        }
    }
}

fn at(path: &Path) -> impl Fn(&dyn std::fmt::Display) -> Problem {
    let path = path.display().to_string();
    move |error| Problem::new(format!("{path}: {error}"))
}

/// Checks that the file system can hold a file of `capacity` bytes in place of the present one.
fn check_growth(path: &Path, capacity: u64) -> anyhow::Result<()> {
    let most = files::free_bytes(path)?.saturating_add(files::allocated_bytes(path)?);
    let most_text = format_capacity(most);
    anyhow::ensure!(capacity <= most, "its file system has space for {most_text}");
    Ok(())
}
