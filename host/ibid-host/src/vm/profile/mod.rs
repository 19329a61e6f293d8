//! Loads of guests from files: fio jobs and vdbench parameters.

mod fio;
mod job;
mod sizes;
mod vdbench;

pub(super) use job::{Job, Pattern, Profile};

use crate::failure::Failure;
use std::path::Path;

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a file: fio jobs if it has a section in brackets, otherwise vdbench parameters.
pub(super) fn read(path: &Path) -> Result<Profile, Failure> {
    let name = path.display().to_string();
    let read = platform::files::read_text(path, MAX_FILE_BYTES);
    let text = read.map_err(|error| Failure::File { path: name.clone(), error })?;
    let text = text.ok_or_else(|| {
        let message = format!("profile '{name}' does not exist");
        Failure::usage(message, "use oltp, stream, boot, or the path of a fio or vdbench file")
    })?;
    parse(&text)
        .map_err(|message| Failure::usage(format!("{name}: {message}"), "see docs/host-kit.md for the parameters"))
}

fn parse(text: &str) -> Result<Profile, String> {
    let is_fio = text.lines().any(|line| line.trim_start().starts_with('['));
    if is_fio { fio::parse(text) } else { vdbench::parse(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_of_a_file_follows_from_its_sections() {
        assert_eq!(parse("[a]\nrw=read\nruntime=1\n").unwrap().phases.len(), 1);
        assert!(parse("wd=a,xfersize=4k\nrd=b,wd=a,elapsed=2\n").is_ok());
        assert_eq!(parse("").unwrap_err(), "no run definition (rd=)");
    }
}
