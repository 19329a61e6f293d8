//! A file that a command line names, read and written by ranges.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "only this crate may access the outside")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file of the user. Calls block.
#[derive(Debug)]
pub struct LocalFile(File);

impl LocalFile {
    /// Opens an existing file for reading.
    pub fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().read(true).open(path).map(Self)
    }

    /// Creates a file.
    ///
    /// # Errors
    /// `AlreadyExists` if the path exists.
    pub fn create(path: &Path) -> io::Result<Self> {
        OpenOptions::new().write(true).create_new(true).open(path).map(Self)
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    /// Reads exactly `bytes` bytes.
    pub fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        self.0.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }

    /// Writes all of `data`.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    /// Makes all writes durable.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_file_is_created_once_and_read_back() {
        let directory = crate::TemporaryDirectory::new(None, "local").unwrap();
        let path = directory.path().join("file");
        let file = LocalFile::create(&path).unwrap();
        file.write_at(3, b"abc").unwrap();
        file.sync().unwrap();
        assert_eq!(LocalFile::create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let file = LocalFile::open(&path).unwrap();
        assert_eq!((file.size().unwrap(), file.read_at(2, 4).unwrap()), (6, b"\0abc".to_vec()));
        assert!(file.read_at(3, 4).is_err());
    }
}
