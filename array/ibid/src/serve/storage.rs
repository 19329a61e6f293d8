//! The storage of the array: a file in its directory, or a block device.

use super::settings::Settings;
use crate::problem::Problem;
use engine::{Core, Engine, LogLoss, Maintenance, Options, RecoverError, Service};
use ondisk::{ArrayGeometry, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, Superblock, superblock_offset};
use platform::lock::{Lock, LockError};
use platform::{Disk, Durability, FileDisk, files};
use rest::Growth;
use std::path::Path;
use std::sync::Arc;
use types::format_capacity;

/// The file that stores the array, in its directory.
const FILE: &str = "array";
/// Its name until it is complete.
const NEW_FILE: &str = "array.new";
/// Default capacity of a new array in a file.
const DEFAULT_CAPACITY: u64 = 64 << 30;
/// A new array is created on a device only if this many bytes at its start are zero. File systems
/// and partition tables have their signatures there.
const BLANK_BYTES: usize = 1 << 20;

const CHECK_DEVICE: &str = "set --device to a block device, or to a file of the capacity, that can be read and written";
const CHECK_DIRECTORY: &str = "check the free space and the permissions of the --data directory";

const ACCEPT_LOSS: &str = "copy the drive first; then `ibid serve --accept-log-loss` starts the array without these operations, \
                           and keeps a copy of the log";
/// Maximum number of lost ranges in the log of the program.
const MAX_REPORTED_RANGES: usize = 100;
/// Bytes of the log that are copied at a time.
const COPY_BYTES: u64 = 4 << 20;

/// An open engine.
pub(crate) struct Storage {
    engine: Arc<Engine>,
    disk: Arc<FileDisk>,
    /// Prevents arrays in other directories from using the device. Dropped after the engine.
    _lock: Option<Lock>,
}

/// Opens the storage; the first start creates it.
pub(crate) fn open(settings: &Settings) -> Result<Storage, Problem> {
    let lock = settings.device.as_deref().map(lock_device).transpose()?;
    let disk = Arc::new(match &settings.device {
        Some(device) => open_device(device, settings.capacity)?,
        None => open_file(&settings.data, settings.capacity)?,
    });
    let superblock = superblock(&*disk)?;
    if let Some(capacity) = settings.capacity.filter(|capacity| *capacity != superblock.geometry.capacity) {
        let (asked, is) = (format_capacity(capacity), format_capacity(superblock.geometry.capacity));
        tracing::warn!("capacity {asked} ignored: the array exists with {is}; run `ibid array grow` to change it");
    }
    let memory = Options::for_memory(&superblock.geometry, settings.memory, settings.index_memory);
    let options = Options { write_cache: settings.write_cache, ..memory };
    let (core, recovery) = match Core::recover(&*disk, Some(options)) {
        Err(RecoverError::LogLoss(loss)) => {
            report_loss(&loss);
            if !settings.accept_log_loss {
                return Err(Problem::new(loss).hint(ACCEPT_LOSS));
            }
            keep_log(&disk, &superblock.geometry, &settings.data, loss.sequence)?;
            Core::recover(&*disk, Some(Options { accept_log_loss: true, ..options }))?
        }
        result => result?,
    };
    tracing::info!(
        groups = recovery.groups,
        records = recovery.records,
        bytes = recovery.bytes,
        "array opened; log replayed"
    );
    Ok(Storage { engine: Arc::new(Engine::start(core, disk.clone())), disk, _lock: lock })
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

/// Copies the log ring to a file, so that the damaged groups can be examined later.
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
        disk.read_at(geometry.log_start() + offset, &mut bytes).map_err(|error| failed(&error))?;
        copy.write_at(offset, &[&bytes], Durability::Volatile).map_err(|error| failed(&error))?;
        offset += length;
    }
    copy.flush().map_err(|error| failed(&error))?;
    tracing::warn!("log copied to {}", path.display());
    Ok(())
}

impl Storage {
    /// The engine, as a service.
    pub(crate) fn service(&self) -> Arc<dyn Service> {
        self.engine.clone()
    }

    /// Returns the function that grows the array while it serves: first the file, then the pool. A
    /// device must have the new size already.
    pub(crate) fn growth(&self) -> Growth {
        let (engine, disk) = (self.engine.clone(), self.disk.clone());
        Box::new(move |capacity| {
            disk.grow(capacity).map_err(|error| error.to_string())?;
            engine.grow(capacity).map_err(|error| error.to_string())
        })
    }

    /// Cancels scrubs and space counts.
    pub(crate) fn cancel_background_scans(&self) {
        self.engine.cancel_background_scans();
    }

    /// Closes the engine. All its users must have been dropped.
    pub(crate) fn close(self) -> Result<(), Problem> {
        match Arc::into_inner(self.engine) {
            Some(engine) => {
                engine.close().map_err(|reason| Problem::new(format!("array stopped after an error: {reason}")))
            }
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

fn lock_device(device: &Path) -> Result<Lock, Problem> {
    Lock::take_device(device).map_err(|error| {
        at(device)(&error).hint(match error {
            LockError::Held(_) => "stop the other array, or choose another --device",
            LockError::Io(_) => CHECK_DEVICE,
        })
    })
}

/// Opens the file, and creates it if necessary. The file gets its final name when it is complete,
/// so that an interrupted first start leaves no partial array.
fn open_file(directory: &Path, capacity: Option<u64>) -> Result<FileDisk, Problem> {
    let (path, new) = (directory.join(FILE), directory.join(NEW_FILE));
    if !files::exists(&path)? {
        files::remove(&new)?;
        let capacity = capacity.unwrap_or(DEFAULT_CAPACITY);
        // Before the file is created, because the capacity may be invalid.
        let geometry = geometry(capacity)?;
        let disk = FileDisk::create(&new, capacity).map_err(|error| at(&new)(&error).hint(CHECK_DIRECTORY))?;
        create(&disk, &geometry).map_err(|error| at(&new)(&error).hint(CHECK_DIRECTORY))?;
        files::rename(&new, &path)?;
        tracing::info!("created {} with capacity {}", path.display(), format_capacity(capacity));
    }
    FileDisk::open(&path, 0).map_err(|error| at(&path)(&error).hint(CHECK_DIRECTORY))
}

/// Opens the device. Creates an array on it if it is blank.
fn open_device(device: &Path, capacity: Option<u64>) -> Result<FileDisk, Problem> {
    let failed = at(device);
    let disk = FileDisk::open(device, 0).map_err(|error| failed(&error).hint(CHECK_DEVICE))?;
    if superblock(&disk).is_ok() {
        return Ok(disk);
    }
    let mut start = vec![0; BLANK_BYTES];
    disk.read_at(0, &mut start).map_err(|error| failed(&error).hint(CHECK_DEVICE))?;
    if start.iter().any(|byte| *byte != 0) {
        return Err(failed(&"contains other data, or a damaged array")
            .hint(format!("to erase it, run `blkdiscard -z -l 1MiB {}`; then start again", device.display())));
    }
    let capacity = capacity.unwrap_or(disk.size()).min(disk.size());
    create(&disk, &geometry(capacity)?).map_err(|error| failed(&error).hint(CHECK_DEVICE))?;
    tracing::info!("created array with capacity {} on {}", format_capacity(capacity), device.display());
    Ok(disk)
}

/// Returns the on-disk layout for a capacity.
fn geometry(capacity: u64) -> Result<ArrayGeometry, Problem> {
    ArrayGeometry::for_capacity(capacity).map_err(|error| {
        Problem::new(format!("invalid capacity {}: {error}", format_capacity(capacity)))
            .hint("set --capacity from 22M to 64T, such as 200GiB")
    })
}

fn create(disk: &dyn Disk, geometry: &ArrayGeometry) -> anyhow::Result<()> {
    Ok(Core::create(disk, geometry, platform::random::bytes()?)?)
}

fn superblock(disk: &dyn Disk) -> Result<Superblock, Problem> {
    let mut copies = [const { Vec::new() }; SUPERBLOCK_COPIES];
    for (copy, bytes) in copies.iter_mut().enumerate() {
        bytes.resize(SUPERBLOCK_BYTES, 0);
        // An unreadable copy counts as invalid; the quorum of the copies decides.
        if disk.read_at(superblock_offset(copy), bytes).is_err() {
            bytes.fill(0);
        }
    }
    Superblock::choose(&copies).map_err(|error| Problem::from(error).hint("run `ibid fsck` to see what is damaged"))
}
