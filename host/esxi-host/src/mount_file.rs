//! A locked file for each mount of a datastore by a process of the host.
//!
//! The system releases the lock when the process ends for any reason. So another process of the
//! host knows whether the owner of an on-disk lock still exists, without its process id, which the
//! system may reuse.

use crate::error::HostError;
use crate::files::failed;
use platform::files;
use platform::lock::Lock;
use std::path::{Path, PathBuf};

/// Directory of the files, within that of the host.
const DIRECTORY: &str = "worlds";
/// Number of files from which on those of ended processes are removed.
const MAX_FILES: usize = 256;

/// The file of one mount. Dropping it removes the file.
#[derive(Debug)]
pub struct MountFile {
    uuid: [u8; 16],
    directory: Option<PathBuf>,
    _lock: Option<Lock>,
}

impl MountFile {
    /// Creates the file of a new mount; none for a host that exists only in memory.
    pub(crate) fn create(host: Option<&Path>, uuid: [u8; 16]) -> Result<Self, HostError> {
        let Some(host) = host else { return Ok(Self { uuid, directory: None, _lock: None }) };
        let directory = host.join(DIRECTORY);
        files::create_directory(&directory).map_err(failed(&directory))?;
        remove_ended(&directory).map_err(failed(&directory))?;
        let path = directory.join(name(uuid));
        let lock = Lock::take(&path).map_err(|error| failed(&path)(std::io::Error::other(error)))?;
        Ok(Self { uuid, directory: Some(directory), _lock: Some(lock) })
    }

    /// Returns the UUID of the mount.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Returns whether the mount with this UUID was one of this host and its process has ended.
    pub fn has_ended(&self, uuid: [u8; 16]) -> bool {
        self.directory.as_ref().is_some_and(|directory| is_unlocked(&directory.join(name(uuid))))
    }
}

impl Drop for MountFile {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            // A file that remains is removed with those of ended processes.
            let _ = files::remove(&directory.join(name(self.uuid)));
        }
    }
}

fn name(uuid: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(uuid))
}

fn is_unlocked(path: &Path) -> bool {
    files::exists(path).unwrap_or(false) && Lock::take(path).is_ok()
}

/// Removes the files of ended processes if there are many.
fn remove_ended(directory: &Path) -> std::io::Result<()> {
    let names = files::names(directory)?;
    if names.len() > MAX_FILES {
        for path in names.iter().map(|name| directory.join(name)).filter(|path| is_unlocked(path)) {
            files::remove(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::TemporaryDirectory;

    #[test]
    fn ended_mounts_are_those_with_an_unlocked_file() {
        let host = TemporaryDirectory::new(None, "worlds").unwrap();
        let one = MountFile::create(Some(host.path()), [1; 16]).unwrap();
        let two = MountFile::create(Some(host.path()), [2; 16]).unwrap();
        assert!(!two.has_ended([1; 16]), "it is alive");
        assert!(!two.has_ended([3; 16]), "it belongs to another host");
        // A killed process leaves its file.
        let path = host.path().join(DIRECTORY).join(name([3; 16]));
        drop(Lock::take(&path).unwrap());
        assert!(two.has_ended([3; 16]) && one.has_ended([3; 16]));
        drop(one);
        assert!(!two.has_ended([1; 16]), "it has unmounted");
        assert!(!MountFile::create(None, [4; 16]).unwrap().has_ended([3; 16]));
    }

    #[test]
    fn files_of_ended_processes_are_limited() {
        let host = TemporaryDirectory::new(None, "worlds").unwrap();
        let first = MountFile::create(Some(host.path()), [1; 16]).unwrap();
        let directory = host.path().join(DIRECTORY);
        (0..=MAX_FILES).for_each(|n| drop(Lock::take(&directory.join(n.to_string())).unwrap()));
        let second = MountFile::create(Some(host.path()), [2; 16]).unwrap();
        assert_eq!(files::names(&directory).unwrap().len(), 2);
        drop((first, second));
    }
}
