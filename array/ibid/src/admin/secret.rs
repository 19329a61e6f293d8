//! Secrets and certificates from files. They are not options, because every user of the machine can
//! read command lines.

use crate::problem::Problem;
use platform::files;
use std::io::Read;
use std::path::Path;

/// Maximum size of a file with a secret, in bytes.
const MAX_SECRET_BYTES: u64 = 4096;
/// Maximum size of a file with certificates, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Reads a secret from a file, or from standard input if the path is `-`.
pub(super) fn read_secret(path: &Path) -> Result<String, Problem> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().lock().take(MAX_SECRET_BYTES).read_to_string(&mut text)?;
        text
    } else {
        read(path, MAX_SECRET_BYTES)?
    };
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Reads a file of at most 64 KiB.
pub(super) fn read_small_file(path: &Path) -> Result<String, Problem> {
    read(path, MAX_FILE_BYTES)
}

fn read(path: &Path, limit: u64) -> Result<String, Problem> {
    let failed =
        |error| Problem::new(format!("{}: {error}", path.display())).hint("check the path and its permissions");
    let text = files::read_text(path, limit).map_err(failed)?;
    text.ok_or_else(|| Problem::new(format!("{}: no such file", path.display())).hint("check the path"))
}
