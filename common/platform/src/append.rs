//! An append-only file: a record of actions that survives a crash of the process.
#![allow(clippy::disallowed_types, reason = "only this crate may access the outside")]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

/// An append-only file. Each append is one write: a process killed at any time leaves whole records
/// and at most one torn record at the end. Nothing is forced to stable storage: the file survives
/// the process, not a power failure.
#[derive(Debug)]
pub struct AppendFile(File);

impl AppendFile {
    /// Opens or creates a file and reads its content, at most `limit` bytes.
    pub fn open(path: &Path, limit: u64) -> io::Result<(Self, Vec<u8>)> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let content = Self::content(&mut file, limit)?;
        Ok((Self(file), content))
    }

    /// Reads an existing file of at most `limit` bytes.
    pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        Self::content(&mut File::open(path)?, limit)
    }

    fn content(file: &mut File, limit: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
        if content.len() as u64 > limit {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("the file is larger than {limit} bytes")));
        }
        Ok(content)
    }

    /// Cuts the file to its first `length` bytes, to remove the torn record of a killed process.
    pub fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    /// Appends a record.
    pub fn append(&mut self, record: &[u8]) -> io::Result<()> {
        self.0.write_all(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_there_at_the_next_opening() {
        let path = std::env::temp_dir().join(format!("ibid-append-{}", std::process::id()));
        let (mut file, content) = AppendFile::open(&path, 100).unwrap();
        assert!(content.is_empty());
        file.append(b"one").unwrap();
        file.append(b"tw").unwrap();
        drop(file);
        let (mut file, content) = AppendFile::open(&path, 100).unwrap();
        assert_eq!(content, b"onetw");
        file.truncate(3).unwrap();
        file.append(b"two").unwrap();
        assert_eq!(AppendFile::read(&path, 6).unwrap(), b"onetwo");
        assert_eq!(AppendFile::read(&path, 5).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        crate::files::remove(&path).unwrap();
    }
}
