//! Small files beside the array's data: the certificate, the admin's token, addresses for scripts.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "world is the door to the outside")]

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The owner only (0600).
    Owner,
    /// Everybody (0644).
    Everybody,
}

/// Makes a directory and those above it, for the owner only (0700); no error when it is there.
pub fn create_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// True when something is there.
pub fn exists(path: &Path) -> io::Result<bool> {
    path.try_exists()
}

/// Reads a text file of at most `limit` bytes; `None` when there is none.
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

/// Writes a file whole or not at all: a new file is written beside it, made durable, and then takes its place. Its
/// rights are set before it has content.
pub fn replace(path: &Path, content: &[u8], access: Access) -> io::Result<()> {
    let (beside, file) = write_beside(path, content, access)?;
    file.sync_all()?;
    rename(&beside, path)
}

/// Writes a file so that a reader finds the old content or the new, never a part of it. Nothing is made durable: for what
/// is written often and missed by nobody after a crash.
pub fn exchange(path: &Path, content: &[u8], access: Access) -> io::Result<()> {
    let (beside, _) = write_beside(path, content, access)?;
    fs::rename(beside, path)
}

/// Writes a new file beside `path`; its name and itself.
fn write_beside(path: &Path, content: &[u8], access: Access) -> io::Result<(PathBuf, fs::File)> {
    let directory = directory_of(path);
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(".new");
    let beside = directory.join(name);
    // One that was left behind by a crash may have other rights.
    remove(&beside)?;
    let mode = if access == Access::Owner { 0o600 } else { 0o644 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    file.write_all(content)?;
    Ok((beside, file))
}

/// The names of what is in a directory, in order; none when there is no such directory.
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

/// Gives a file another name in the same directory, in the place of one that has it, and makes that durable.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    fs::File::open(directory_of(to))?.sync_all()
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes a file; no error when there is none.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
