//! A temporary directory that is removed when it is dropped.
#![allow(clippy::disallowed_methods, reason = "only this crate may access the outside")]

use crate::{files, random};
use std::io;
use std::path::{Path, PathBuf};

/// A directory with mode 0700, removed with its content when this value is dropped.
#[derive(Debug)]
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// Creates a directory with a unique name that begins with `prefix`, in `parent` or, without
    /// one, in the system's temporary directory.
    pub fn new(parent: Option<&Path>, prefix: &str) -> io::Result<Self> {
        let name = format!("{prefix}-{:016x}", u64::from_le_bytes(random::bytes()?));
        let path = parent.map_or_else(std::env::temp_dir, Path::to_path_buf).join(name);
        files::create_directory(&path)?;
        Ok(Self(path))
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // The system cleans up temporary files that cannot be removed here.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Access;

    #[test]
    fn drop_removes_the_directory_and_its_content() {
        let directory = TemporaryDirectory::new(None, "platform-test").unwrap();
        let path = directory.path().to_owned();
        files::create_directory(&path.join("a/b")).unwrap();
        files::replace(&path.join("a/b/c"), b"text", Access::Owner).unwrap();
        assert_ne!(TemporaryDirectory::new(None, "platform-test").unwrap().path(), path);
        drop(directory);
        assert!(!files::exists(&path).unwrap());
    }
}
