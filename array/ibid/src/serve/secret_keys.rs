//! `DIR/secrets.key`: the keys of the stored CHAP secrets.
//!
//! The file is not in the array, so a copy of the drive does not contain the secrets. Each line has
//! one key. The first seals, so a new key is added in front, and a lost one that is found again at
//! the end.

use crate::directory::SECRET_KEYS_FILE;
use anyhow::anyhow;
use catalog::{Catalog, SecretKeys, Unlocked};
use platform::files::{self, Access};
use std::path::Path;
use types::hex;

/// Begins each line: the version of its form.
const LINE_PREFIX: &str = "ibid-secrets-1 ";
/// Maximum size of the file in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Opens the CHAP secrets of the catalog. Without the keys, the array works, but hosts with secrets
/// cannot log in.
pub(super) fn unlock(catalog: &Catalog, directory: &Path) {
    let unlocked =
        load_or_create(directory).and_then(|keys| Ok(catalog.unlock(SecretKeys::new(&keys))?)).inspect_err(|error| {
            tracing::error!("secrets cannot be read or stored: {error}; correct this and restart");
        });
    let Ok(Unlocked { locked, resealed, is_delivery_locked }) = unlocked else { return };
    if !resealed.is_empty() {
        tracing::warn!(
            "CHAP secrets sealed that were stored in clear text or with another key; set new secrets if the drive may \
             have been copied: hosts {}",
            resealed.join(", ")
        );
    }
    if is_delivery_locked {
        tracing::error!("secrets of the delivery of alerts not readable; set new ones with `ibid delivery`");
    }
    if !locked.is_empty() {
        let path = directory.join(SECRET_KEYS_FILE);
        tracing::error!(
            "CHAP secrets not readable, logins refused: hosts {}; add the line of the former key to {} and restart, or \
             set new secrets with `ibid host set`",
            locked.join(", "),
            path.display()
        );
    }
}

fn load_or_create(directory: &Path) -> anyhow::Result<Vec<[u8; SecretKeys::KEY_BYTES]>> {
    let path = directory.join(SECRET_KEYS_FILE);
    let failed = |error: &dyn std::fmt::Display| anyhow!("{}: {error}", path.display());
    if let Some(text) = files::read_text(&path, MAX_FILE_BYTES).map_err(|error| failed(&error))? {
        return parse(&text).map_err(|line| failed(&format!("line {line} is not a key")));
    }
    let key = platform::random::bytes()?;
    let text = format!("{LINE_PREFIX}{}\n", hex::encode(&key));
    files::replace(&path, text.as_bytes(), Access::Owner).map_err(|error| failed(&error))?;
    Ok(vec![key])
}

/// Returns the keys of the file, or the number of the first line that is not one.
fn parse(text: &str) -> Result<Vec<[u8; SecretKeys::KEY_BYTES]>, usize> {
    let key = |line: &str| hex::decode(line.strip_prefix(LINE_PREFIX)?.trim_end())?.try_into().ok();
    let keys: Vec<_> = text.lines().enumerate().map(|(at, line)| key(line).ok_or(at + 1)).collect::<Result<_, _>>()?;
    if keys.is_empty() { Err(1) } else { Ok(keys) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_file_is_parsed_strictly() {
        let line = |byte: &str| format!("{LINE_PREFIX}{}\n", byte.repeat(32));
        assert_eq!(parse(&line("00")), Ok(vec![[0; 32]]));
        assert_eq!(parse(&format!("{}{}", line("01"), line("FF").trim_end())), Ok(vec![[1; 32], [255; 32]]));
        for (text, bad) in [("", 1), ("\n", 1), ("ibid-secrets-2 00\n", 1), (&line("0")[..], 1)] {
            assert_eq!(parse(text), Err(bad), "{text}");
        }
        assert_eq!(parse(&format!("{}x\n", line("00"))), Err(2));
    }
}
