//! The array's directory: its lock, the location of the array, and the files of a first start.

use crate::medium::uuid;
use crate::problem::Problem;
use ondisk::SUPERBLOCK_AREA_BYTES;
use platform::files::{self, Access};
use platform::lock::{Lock, LockError};
use platform::{Disk, Durability, FileDisk};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The file that stores the array, if no device does.
pub(crate) const ARRAY_FILE: &str = "array";
/// Its name until it is complete.
pub(crate) const NEW_ARRAY_FILE: &str = "array.new";
/// File that a running array locks.
const LOCK_FILE: &str = "lock";
/// File that names the device of the array.
const DEVICE_FILE: &str = "device.json";
/// File with the keys of the stored CHAP secrets.
pub(crate) const SECRET_KEYS_FILE: &str = "secrets.key";
/// File that exists until the first start has completed.
const FIRST_START_FILE: &str = "first-start";
/// Maximum size of the device file, in bytes.
const MAX_DEVICE_FILE_BYTES: u64 = 64 << 10;
/// Bytes at the start of a device that a failed first start erases: everything that makes the
/// device look used.
const ERASED_BYTES: usize = 1 << 20;

/// The device that stores the array of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeviceRecord {
    /// Path of the device or file.
    pub(crate) device: PathBuf,
    /// Array id of its superblock, as a UUID.
    pub(crate) array: String,
}

/// Where the array of a directory is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// In this file of the directory.
    File(PathBuf),
    /// On a device or file elsewhere.
    Device(DeviceRecord),
    /// The directory names no array.
    Unknown,
}

/// Finds the array of a directory.
pub(crate) fn locate(directory: &Path) -> Result<Location, Problem> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| Problem::new(format!("{}: {error}", path.display()));
    let (file, record) = (directory.join(ARRAY_FILE), directory.join(DEVICE_FILE));
    let text = files::read_text(&record, MAX_DEVICE_FILE_BYTES).map_err(|error| failed(&record, &error))?;
    match (files::exists(&file).map_err(|error| failed(&file, &error))?, text) {
        (true, None) => Ok(Location::File(file)),
        (false, None) => Ok(Location::Unknown),
        (false, Some(text)) => serde_json::from_str(&text).map(Location::Device).map_err(|error| {
            failed(&record, &error).hint("remove the file, and give the device of the array with --device")
        }),
        (true, Some(_)) => Err(failed(directory, &format!("it has both an array file and {DEVICE_FILE}"))
            .hint("move one of the two to another directory")),
    }
}

/// Locks a directory for this process.
pub(crate) fn lock(directory: &Path) -> Result<Lock, LockError> {
    Lock::take(&directory.join(LOCK_FILE))
}

/// The directory of a running array, locked. The drop removes what a failed first start has made.
pub(crate) struct ArrayDirectory {
    pub(crate) path: PathBuf,
    first_start: FirstStart,
    /// Released last.
    _lock: Lock,
}

impl ArrayDirectory {
    /// Creates the directory if necessary, and locks it.
    pub(crate) fn enter(path: &Path) -> Result<Self, Problem> {
        let in_directory = |error: std::io::Error| {
            Problem::new(format!("{}: {error}", path.display())).hint(
                "choose a --data directory that this user can write, such as --data \"$HOME/ibid\"; or run as root",
            )
        };
        let made = path.ancestors().filter(|folder| !folder.as_os_str().is_empty());
        let made = made.take_while(|folder| !files::exists(folder).unwrap_or(true)).map(Path::to_owned).collect();
        let mut first_start = FirstStart::of(made);
        files::create_directory(path).map_err(in_directory)?;
        if !files::exists(&path.join(LOCK_FILE)).map_err(in_directory)? {
            first_start.files.push(path.join(LOCK_FILE));
        }
        let lock = match lock(path) {
            Ok(lock) => lock,
            Err(error @ LockError::Held(_)) => {
                return Err(Problem::new(format!("{}: {error}", path.display()))
                    .hint("stop the other process, or choose another --data directory"));
            }
            Err(LockError::Io(error)) => return Err(in_directory(error)),
        };
        Ok(Self { path: path.to_owned(), first_start, _lock: lock })
    }

    /// Returns true if the directory belongs to an array whose first start completed, or may have
    /// completed.
    pub(crate) fn belongs_to_an_array(&self) -> Result<bool, Problem> {
        let is_interrupted = files::exists(&self.path.join(FIRST_START_FILE))?;
        Ok(!is_interrupted && files::exists(&self.path.join(rest::ADMIN_TOKEN_FILE))?)
    }

    /// Begins a first start: until [`Self::complete`], the drop removes the files of the array.
    pub(crate) fn begin(&mut self) -> Result<(), Problem> {
        let names = [
            FIRST_START_FILE,
            NEW_ARRAY_FILE,
            ARRAY_FILE,
            DEVICE_FILE,
            SECRET_KEYS_FILE,
            crate::endpoints::FILE,
            rest::ADMIN_TOKEN_FILE,
            rest::SOCKET_FILE,
        ];
        // An administrator may have provided a certificate. It stays.
        let identities = rest::IDENTITY_FILES.iter().chain(&link::IDENTITY_FILES);
        for path in names.iter().chain(identities).map(|name| self.path.join(name)) {
            if !files::exists(&path)? {
                self.first_start.files.push(path);
            }
        }
        files::replace(&self.path.join(FIRST_START_FILE), b"", Access::Owner)
            .map_err(|error| Problem::new(format!("{}: {error}", self.path.display())).hint(CHECK_DIRECTORY))
    }

    /// Registers a device that was blank before this first start. A failed start erases it again.
    pub(crate) fn erase_if_failed(&self, disk: Arc<FileDisk>) {
        let _ = self.first_start.device.set(disk);
    }

    /// Records the device of the array.
    pub(crate) fn record(&self, device: &Path, array: &[u8; 16]) -> Result<(), Problem> {
        let record = DeviceRecord { device: std::path::absolute(device)?, array: uuid(array) };
        if matches!(locate(&self.path)?, Location::Device(present) if present == record) {
            return Ok(());
        }
        let path = self.path.join(DEVICE_FILE);
        let text = format!("{}\n", serde_json::to_string_pretty(&record)?);
        files::replace(&path, text.as_bytes(), Access::Everyone)
            .map_err(|error| Problem::new(format!("{}: {error}", path.display())).hint(CHECK_DIRECTORY))
    }

    /// Keeps everything, because the array serves.
    pub(crate) fn complete(&self) -> Result<(), Problem> {
        self.first_start.is_complete.store(true, Ordering::Release);
        Ok(files::remove(&self.path.join(FIRST_START_FILE))?)
    }
}

/// The next step if the directory cannot be written.
pub(crate) const CHECK_DIRECTORY: &str = "check the free space and the permissions of the --data directory";

/// Everything that a first start makes.
struct FirstStart {
    files: Vec<PathBuf>,
    /// Directories from the deepest one up.
    directories: Vec<PathBuf>,
    device: OnceLock<Arc<FileDisk>>,
    is_complete: AtomicBool,
}

impl FirstStart {
    fn of(directories: Vec<PathBuf>) -> Self {
        Self { files: Vec::new(), directories, device: OnceLock::new(), is_complete: AtomicBool::new(false) }
    }
}

impl Drop for FirstStart {
    fn drop(&mut self) {
        if self.is_complete.load(Ordering::Acquire) {
            return;
        }
        if let Some(disk) = self.device.get() {
            // The key last: with it, an erasure that is interrupted can be recognized.
            let erase =
                |range: Range<usize>| disk.write_at(range.start as u64, &[&vec![0; range.len()]], Durability::Durable);
            let head = SUPERBLOCK_AREA_BYTES as usize;
            let erased = erase(head..ERASED_BYTES).and_then(|()| erase(0..head));
            erased.unwrap_or_else(|error| tracing::warn!("device of the failed first start not erased: {error}"));
        }
        for path in &self.files {
            files::remove(path).unwrap_or_else(|error| tracing::warn!("{} not removed: {error}", path.display()));
        }
        for path in &self.directories {
            if !matches!(files::remove_empty_directory(path), Ok(true)) {
                break;
            }
        }
    }
}
