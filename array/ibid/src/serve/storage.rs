//! What the array stores on: a file in its directory, or a block device.

use super::settings::Settings;
use crate::problem::Problem;
use engine::{Core, Engine, Options, Service};
use ondisk::{ArrayGeometry, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, Superblock, superblock_offset};
use platform::lock::Lock;
use platform::{Disk, FileDisk, files};
use rest::Growth;
use std::path::Path;
use std::sync::Arc;
use types::format_capacity;

/// The file, in the array's directory, that holds everything.
const FILE: &str = "array";
/// Its name while it is being made.
const NEW_FILE: &str = "array.new";
/// How much an array may store when nobody says.
const DEFAULT_CAPACITY: u64 = 64 << 30;
/// How much of a device must be zero before an array is made on it: the places where file systems and partition tables
/// are known by.
const BLANK_BYTES: usize = 1 << 20;

/// An open engine.
pub(crate) struct Storage {
    engine: Arc<Engine>,
    disk: Arc<FileDisk>,
    /// Of the device, against an array in another directory that would use it too. Let go after the engine.
    _lock: Option<Lock>,
}

/// Opens the engine, or makes it at first start.
pub(crate) fn open(settings: &Settings) -> Result<Storage, Problem> {
    let lock = settings.device.as_deref().map(|device| Lock::take_device(device).map_err(|error| at(device)(&error)));
    let lock = lock.transpose()?;
    let disk = Arc::new(match &settings.device {
        Some(device) => open_device(device, settings.capacity)?,
        None => open_file(&settings.data, settings.capacity)?,
    });
    let superblock = superblock(&*disk)?;
    if let Some(capacity) = settings.capacity.filter(|capacity| *capacity != superblock.geometry.capacity) {
        let (asked, is) = (format_capacity(capacity), format_capacity(superblock.geometry.capacity));
        tracing::warn!(
            "the array has {is}; the capacity of {asked} counts at first start only: ibid array grow makes it larger"
        );
    }
    let memory = Options::for_memory(&superblock.geometry, settings.memory, settings.index_memory);
    let options = Options { write_cache: settings.write_cache, ..memory };
    let (core, recovery) = Core::recover(&*disk, Some(options))?;
    tracing::info!(
        groups = recovery.groups,
        records = recovery.records,
        bytes = recovery.bytes,
        "the array is open; this much of its log was replayed"
    );
    Ok(Storage { engine: Arc::new(Engine::start(core, disk.clone())), disk, _lock: lock })
}

impl Storage {
    /// The engine, as those above see it.
    pub(crate) fn service(&self) -> Arc<dyn Service> {
        self.engine.clone()
    }

    /// What makes the array larger while it serves: first the file (a device has to have grown), then the pool on it.
    pub(crate) fn growth(&self) -> Growth {
        let (engine, disk) = (self.engine.clone(), self.disk.clone());
        Box::new(move |capacity| {
            disk.grow(capacity).map_err(|error| error.to_string())?;
            engine.grow(capacity).map_err(|error| error.to_string())
        })
    }

    /// Ends what the engine does for nobody but administration.
    pub(crate) fn stop_chores(&self) {
        self.engine.stop_chores();
    }

    /// Closes the engine, whose users must all have ended.
    pub(crate) fn close(self) -> Result<(), Problem> {
        match Arc::into_inner(self.engine) {
            Some(engine) => engine.close().map_err(|reason| Problem::new(format!("the array had stopped: {reason}"))),
            None => {
                // Nothing is lost: the next start replays the log.
                tracing::warn!("the engine is still in use and was not closed");
                Ok(())
            }
        }
    }
}

fn at(path: &Path) -> impl Fn(&dyn std::fmt::Display) -> Problem {
    let path = path.display().to_string();
    move |error| Problem::new(format!("{path}: {error}"))
}

/// The file is made under another name and gets its own once it is an array, so that a first start that is interrupted
/// leaves nothing behind that looks like one.
fn open_file(directory: &Path, capacity: Option<u64>) -> Result<FileDisk, Problem> {
    let (path, new) = (directory.join(FILE), directory.join(NEW_FILE));
    if !files::exists(&path)? {
        files::remove(&new)?;
        let capacity = capacity.unwrap_or(DEFAULT_CAPACITY);
        // Before the file is there: a capacity that cannot be divided is the caller's mistake.
        let geometry = divided(capacity)?;
        let disk = FileDisk::create(&new, capacity).map_err(|error| at(&new)(&error))?;
        make(&disk, &geometry).map_err(|error| at(&new)(&error))?;
        files::rename(&new, &path)?;
        tracing::info!("made {} for {}", path.display(), format_capacity(capacity));
    }
    FileDisk::open(&path, 0).map_err(|error| at(&path)(&error))
}

/// A device that holds no array gets one, when it holds nothing else.
fn open_device(device: &Path, capacity: Option<u64>) -> Result<FileDisk, Problem> {
    let failed = at(device);
    let disk = FileDisk::open(device, 0).map_err(|error| failed(&error))?;
    if superblock(&disk).is_ok() {
        return Ok(disk);
    }
    let mut start = vec![0; BLANK_BYTES];
    disk.read_at(0, &mut start).map_err(|error| failed(&error))?;
    if start.iter().any(|byte| *byte != 0) {
        return Err(failed(&"it holds no array, but something else (or an array that is damaged)").hint(format!(
            "when nothing on it is needed: blkdiscard -z -l 1MiB {} and start again",
            device.display()
        )));
    }
    let capacity = capacity.unwrap_or(disk.size()).min(disk.size());
    make(&disk, &divided(capacity)?).map_err(|error| failed(&error))?;
    tracing::info!("made an array of {} on {}", format_capacity(capacity), device.display());
    Ok(disk)
}

/// How a drive of that capacity is divided.
fn divided(capacity: u64) -> Result<ArrayGeometry, Problem> {
    ArrayGeometry::for_capacity(capacity).map_err(|error| {
        Problem::new(format!("an array cannot have a capacity of {}: {error}", format_capacity(capacity)))
            .hint("--capacity takes 22M to 64T, such as 200GiB")
    })
}

fn make(disk: &dyn Disk, geometry: &ArrayGeometry) -> anyhow::Result<()> {
    Ok(Core::create(disk, geometry, platform::random::bytes()?)?)
}

fn superblock(disk: &dyn Disk) -> Result<Superblock, Problem> {
    let mut copies = [const { Vec::new() }; SUPERBLOCK_COPIES];
    for (copy, bytes) in copies.iter_mut().enumerate() {
        bytes.resize(SUPERBLOCK_BYTES, 0);
        // A copy that cannot be read does not count; the quorum decides.
        if disk.read_at(superblock_offset(copy), bytes).is_err() {
            bytes.fill(0);
        }
    }
    Ok(Superblock::choose(&copies)?)
}
