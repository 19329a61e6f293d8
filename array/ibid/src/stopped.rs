//! Finds the array of a command that needs it to be stopped.

use crate::directory::{self, Location};
use crate::medium;
use crate::problem::Problem;
use platform::Disk;
use platform::lock::{Lock, LockError};
use std::path::{Path, PathBuf};

/// The array of a path.
pub(crate) struct Located {
    /// Its file or device.
    pub(crate) file: PathBuf,
    /// Its id, if the directory names it.
    array: Option<String>,
    /// Keeps the array of the directory from starting.
    _lock: Option<Lock>,
}

impl Located {
    /// Refuses a device that holds an array other than that of the directory. A device without a
    /// readable superblock passes: it may be the damaged array.
    pub(crate) fn check_array(&self, path: &Path, disk: &dyn Disk) -> Result<(), Problem> {
        let (Some(array), Ok(superblock)) = (&self.array, medium::superblock(disk)) else { return Ok(()) };
        let found = medium::uuid(&superblock.array);
        if found == *array {
            return Ok(());
        }
        let (file, path) = (self.file.display(), path.display());
        Err(Problem::new(format!("{file}: it holds array {found}; {path} belongs to array {array}"))
            .hint("give the path of the array's device in place of the directory"))
    }
}

/// Finds the file or device of the array of a directory, a file or a device. `while_running` is the
/// next step if the array runs.
pub(crate) fn locate(path: &Path, while_running: &'static str) -> Result<Located, Problem> {
    let failed = |cause: &dyn std::fmt::Display| {
        Problem::new(format!("{}: {cause}", path.display())).hint("check the path and its permissions")
    };
    if !platform::files::exists(path).map_err(|error| failed(&error))? {
        return Err(failed(&"no such file"));
    }
    if !platform::files::is_directory(path).map_err(|error| failed(&error))? {
        return Ok(Located { file: path.to_owned(), array: None, _lock: None });
    }
    let (file, array) = match directory::locate(path)? {
        Location::File(file) => (file, None),
        Location::Device(record) => (record.device, Some(record.array)),
        Location::Unknown => {
            return Err(Problem::new(format!("{}: no array in this directory", path.display())).hint(
                "give the --data directory of the array; for an array on a device, give the path of the device",
            ));
        }
    };
    let lock = directory::lock(path).map_err(|error| match error {
        LockError::Held(_) => Problem::new(format!("{}: {error}", path.display())).hint(while_running),
        LockError::Io(_) => failed(&error),
    })?;
    Ok(Located { file, array, _lock: Some(lock) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locate_fails_without_an_array() {
        assert!(locate(Path::new("/nowhere/at/all"), "").is_err());
    }
}
