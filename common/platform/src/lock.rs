//! A lock file that admits one process and names its holder.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "only this crate may access the outside")]

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use thiserror::Error;

/// The longest description of a holder, in bytes.
const MAX_HOLDER_BYTES: usize = 1024;

/// Why a lock could not be taken.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process holds the lock.
    #[error("it is in use by {0}")]
    Held(String),
    /// The file could not be opened or written.
    #[error("it cannot be locked: {0}")]
    Io(#[from] io::Error),
}

/// A lock. The system releases it when it is dropped or the process ends for any reason.
#[derive(Debug)]
pub struct Lock {
    file: File,
    /// Whether the file's content names the holder; false for a device, whose content is kept.
    is_named: bool,
}

impl Lock {
    /// Locks a file, creating it if needed, and writes the process id and command line into it.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o644).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(LockError::Held(holder(&mut file))),
            Err(error) => return Err(LockError::Io(error.into())),
        }
        let command: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let holder: String = format!("process {} ({})", std::process::id(), command.join(" "));
        file.set_len(0)?;
        file.write_all(holder.as_bytes())?;
        Ok(Self { file, is_named: true })
    }

    /// Locks a file or device without changing its content. The lock therefore cannot name its
    /// holder.
    pub fn take_device(path: &Path) -> Result<Self, LockError> {
        let file = OpenOptions::new().read(true).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { file, is_named: false }),
            Err(Errno::WOULDBLOCK) => Err(LockError::Held("another process".to_owned())),
            Err(error) => Err(LockError::Io(error.into())),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // An empty file shows that no process holds the lock. The file is not removed: otherwise
        // two processes could lock two different files of the same name.
        if self.is_named {
            let _ = self.file.set_len(0);
        }
    }
}

fn holder(file: &mut File) -> String {
    let mut text = vec![];
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(MAX_HOLDER_BYTES as u64).read_to_end(&mut text));
    match read {
        Ok(count) if count > 0 => String::from_utf8_lossy(&text).into_owned(),
        _ => "a process that has not written its name yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_lock_fails_and_names_the_holder() {
        let path = std::env::temp_dir().join(format!("ibid-lock-{}", std::process::id()));
        let first = Lock::take(&path).unwrap();
        let LockError::Held(holder) = Lock::take(&path).unwrap_err() else { panic!("held") };
        assert!(holder.contains(&format!("process {} (", std::process::id())), "{holder}");
        drop(first);
        drop(Lock::take(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn locking_a_device_keeps_its_content() {
        let path = std::env::temp_dir().join(format!("ibid-lock-device-{}", std::process::id()));
        std::fs::write(&path, "content").unwrap();
        let first = Lock::take_device(&path).unwrap();
        assert!(matches!(Lock::take_device(&path), Err(LockError::Held(_))));
        drop(first);
        drop(Lock::take_device(&path).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "content");
        std::fs::remove_file(&path).unwrap();
    }
}
