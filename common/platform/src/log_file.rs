//! A log file that a rotation may rename: the program opens it again at its next request.
#![allow(clippy::disallowed_types, reason = "only this crate may access the outside")]

use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A log file, open for appending. Each write of a line is one write to the file.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl LogFile {
    /// Opens or creates the file, with mode 0640.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: Mutex::new(open(path)?) })
    }

    /// Opens the path again, after a rotation has renamed the file. After an error, the former file
    /// is used further.
    pub fn reopen(&self) -> io::Result<()> {
        let new = open(&self.path)?;
        *self.file.lock() = new;
        Ok(())
    }
}

impl Write for &LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.lock().flush()
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;

    #[test]
    fn renamed_log_is_left_at_the_next_opening() {
        let scratch = crate::TemporaryDirectory::new(None, "log").unwrap();
        let (path, rotated) = (scratch.path().join("log"), scratch.path().join("log.1"));
        let log = LogFile::open(&path).unwrap();
        (&log).write_all(b"one\n").unwrap();
        files::rename(&path, &rotated).unwrap();
        (&log).write_all(b"two\n").unwrap();
        log.reopen().unwrap();
        (&log).write_all(b"three\n").unwrap();
        let text = |path: &Path| files::read_text(path, 100).unwrap();
        assert_eq!(text(&rotated).as_deref(), Some("one\ntwo\n"));
        assert_eq!(text(&path).as_deref(), Some("three\n"));
    }
}
