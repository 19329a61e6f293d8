//! The host's files: JSON, replaced as a whole, changed by one process at a time.

use crate::error::HostError;
use platform::files::Access;
use platform::lock::{Lock, LockError};
use platform::{clock, files};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The largest file of a host, in bytes.
const MAX_BYTES: u64 = 16 << 20;
/// How long a change waits for the lock; other changes take a few milliseconds each.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns a function that wraps an error with the path.
pub(crate) fn failed(path: &Path) -> impl Fn(io::Error) -> HostError + '_ {
    |error| HostError::File { path: path.display().to_string(), error }
}

/// Loads a file; `None` if it does not exist.
pub(crate) fn load<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, HostError> {
    let Some(text) = files::read_text(path, MAX_BYTES).map_err(failed(path))? else { return Ok(None) };
    let damaged =
        |error: serde_json::Error| HostError::Damaged { path: path.display().to_string(), message: error.to_string() };
    serde_json::from_str(&text).map(Some).map_err(damaged)
}

/// Writes a file readable only by the owner, because it may contain secrets.
pub(crate) fn store(path: &Path, value: &impl Serialize) -> Result<(), HostError> {
    files::replace(path, &encode(path, value)?, Access::Owner).map_err(failed(path))
}

/// Writes a file in the same way, but not durably.
pub(crate) fn store_volatile(path: &Path, value: &impl Serialize) -> Result<(), HostError> {
    files::replace_volatile(path, &encode(path, value)?, Access::Owner).map_err(failed(path))
}

fn encode(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, HostError> {
    serde_json::to_vec_pretty(value).map_err(|error| failed(path)(error.into()))
}

/// Waits for the lock of the host's files.
pub(crate) fn lock(directory: &Path) -> Result<Lock, HostError> {
    let path = directory.join("lock");
    let deadline = clock::now() + LOCK_TIMEOUT;
    loop {
        match Lock::take(&path) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Io(error)) => return Err(failed(&path)(error)),
            Err(LockError::Held(holder)) if clock::now() >= deadline => return Err(HostError::Busy(holder)),
            Err(LockError::Held(_)) => std::thread::yield_now(),
        }
    }
}
