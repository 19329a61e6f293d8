//! A directory that lives as long as a piece of work.
#![allow(clippy::disallowed_methods, reason = "world is the door to the outside")]

use crate::{files, random};
use std::io;
use std::path::{Path, PathBuf};

/// A directory for the owner only, removed with everything in it when this value is dropped.
#[derive(Debug)]
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// Makes a directory in `parent` (the system's place for temporary files without one) whose name begins with `prefix`
    /// and is like no other.
    pub fn new(parent: Option<&Path>, prefix: &str) -> io::Result<Self> {
        let name = format!("{prefix}-{:016x}", u64::from_le_bytes(random::bytes()?));
        let path = parent.map_or_else(std::env::temp_dir, Path::to_path_buf).join(name);
        files::create_directory(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // What cannot be removed is the system's to clean up, as temporary files are.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Access;

    #[test]
    fn it_goes_with_everything_in_it() {
        let directory = TemporaryDirectory::new(None, "world-test").unwrap();
        let path = directory.path().to_owned();
        files::create_directory(&path.join("a/b")).unwrap();
        files::replace(&path.join("a/b/c"), b"text", Access::Owner).unwrap();
        assert_ne!(TemporaryDirectory::new(None, "world-test").unwrap().path(), path);
        drop(directory);
        assert!(!files::exists(&path).unwrap());
    }
}
