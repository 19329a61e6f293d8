//! The host's files: JSON, written whole, changed by one process at a time.

use crate::error::HostError;
use platform::files::Access;
use platform::lock::{Lock, LockError};
use platform::{clock, files};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::Path;
use std::time::Duration;

/// A file of a host is never longer than this.
const MAX_BYTES: u64 = 16 << 20;
/// How long a change waits for that of another process: each takes a few milliseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// An error of a file.
pub(crate) fn failed(path: &Path) -> impl Fn(io::Error) -> HostError + '_ {
    |error| HostError::File { path: path.display().to_string(), error }
}

/// What is in a file; `None` when there is none.
pub(crate) fn load<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, HostError> {
    let Some(text) = files::read_text(path, MAX_BYTES).map_err(failed(path))? else { return Ok(None) };
    let damaged =
        |error: serde_json::Error| HostError::Damaged { path: path.display().to_string(), message: error.to_string() };
    serde_json::from_str(&text).map(Some).map_err(damaged)
}

/// Writes a file for the owner only: it may hold secrets.
pub(crate) fn store(path: &Path, value: &impl Serialize) -> Result<(), HostError> {
    files::replace(path, &encode(path, value)?, Access::Owner).map_err(failed(path))
}

/// The same, without making it durable.
pub(crate) fn store_lightly(path: &Path, value: &impl Serialize) -> Result<(), HostError> {
    files::replace_volatile(path, &encode(path, value)?, Access::Owner).map_err(failed(path))
}

fn encode(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, HostError> {
    serde_json::to_vec_pretty(value).map_err(|error| failed(path)(error.into()))
}

/// Waits for the lock of the host's files.
pub(crate) fn lock(directory: &Path) -> Result<Lock, HostError> {
    let path = directory.join("lock");
    let deadline = clock::now() + LOCK_PATIENCE;
    loop {
        match Lock::take(&path) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Io(error)) => return Err(failed(&path)(error)),
            Err(LockError::Held(holder)) if clock::now() >= deadline => return Err(HostError::Busy(holder)),
            Err(LockError::Held(_)) => std::thread::yield_now(),
        }
    }
}
