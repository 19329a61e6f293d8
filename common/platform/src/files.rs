//! Small files beside the array's data: certificate, administrator's token, addresses for scripts.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "only this crate may access the outside")]

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// File permissions for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The owner only (0600).
    Owner,
    /// All users (0644).
    Everyone,
}

/// Creates a directory and its parents with mode 0700. An existing directory is not an error.
pub fn create_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Returns whether the path exists.
pub fn exists(path: &Path) -> io::Result<bool> {
    path.try_exists()
}

/// Returns whether the path is a directory. Follows symbolic links.
pub fn is_directory(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.is_dir())
}

/// Reads a text file of at most `limit` bytes. Returns `None` if it does not exist.
pub fn read_text(path: &Path, limit: u64) -> io::Result<Option<String>> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(limit + 1).read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("the file is larger than {limit} bytes")));
    }
    Ok(Some(text))
}

/// Replaces a file atomically and durably: writes a new file beside it, syncs it, and renames it.
/// The permissions are set before the content is written.
pub fn replace(path: &Path, content: &[u8], access: Access) -> io::Result<()> {
    let (beside, file) = write_beside(path, content, access)?;
    file.sync_all()?;
    rename(&beside, path)
}

/// Replaces a file atomically: a reader sees the old or the new content, never a part of it. Not
/// durable; for content that is written often and may be lost in a crash.
pub fn replace_volatile(path: &Path, content: &[u8], access: Access) -> io::Result<()> {
    let (beside, _) = write_beside(path, content, access)?;
    fs::rename(beside, path)
}

/// Writes a new file beside `path`; returns its path and its handle.
fn write_beside(path: &Path, content: &[u8], access: Access) -> io::Result<(PathBuf, fs::File)> {
    let directory = directory_of(path);
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(".new");
    let beside = directory.join(name);
    // A file left by a crash may have other permissions.
    remove(&beside)?;
    let mode = if access == Access::Owner { 0o600 } else { 0o644 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    file.write_all(content)?;
    Ok((beside, file))
}

/// Returns the names of the directory's entries, sorted. Returns none if the directory does not
/// exist.
pub fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    let mut names = entries.map(name).collect::<io::Result<Vec<String>>>()?;
    names.sort_unstable();
    Ok(names)
}

/// Renames a file within its directory, replacing any file of the new name, and makes that durable.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    fs::File::open(directory_of(to))?.sync_all()
}

/// Puts a file or the names in a directory on stable storage, if they are not there already.
pub fn sync(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes a file. A missing file is not an error.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes an empty directory. Returns false if it is not empty or does not exist.
pub fn remove_empty_directory(path: &Path) -> io::Result<bool> {
    match fs::remove_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether users other than the owner and the group may read a file.
pub fn is_readable_by_others(path: &Path) -> io::Result<bool> {
    Ok(rustix::fs::stat(path)?.st_mode & 0o004 != 0)
}

/// Returns the bytes that this user can still allocate on the file system of `path`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Returns the bytes that a file takes on its file system. A sparse file takes fewer than its
/// length.
pub fn allocated_bytes(path: &Path) -> io::Result<u64> {
    const STAT_BLOCK_BYTES: u64 = 512;
    let stat = rustix::fs::stat(path)?;
    Ok(u64::try_from(stat.st_blocks).unwrap_or(0) * STAT_BLOCK_BYTES)
}

#[cfg(test)]
mod tests;
