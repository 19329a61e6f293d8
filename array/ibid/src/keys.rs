//! The passphrase of an encrypted array: `--key-file`, and `ibid rekey`.

use crate::medium::{self, Medium, Purpose};
use crate::output;
use crate::problem::Problem;
use crate::stopped;
use clap::Args;
use encryption::{ArrayKey, EncryptedDisk, KeyBlocks, Passphrase, UnlockError};
use platform::{Disk, files};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Maximum size of a key file in bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// Reads the passphrase from its file.
pub(crate) fn passphrase(path: &Path) -> Result<Passphrase, Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::new(format!("{}: {error}", path.display()));
    let hint = "give --key-file a file that holds the passphrase, 8 to 1024 bytes, such as one made by \
                `openssl rand -base64 32 > FILE`";
    let text = files::read_text(path, MAX_FILE_BYTES).map_err(|error| failed(&error).hint(hint))?;
    let text = Zeroizing::new(text.ok_or_else(|| failed(&"no such file").hint(hint))?);
    if files::is_readable_by_others(path)? {
        tracing::warn!(
            "{}: other users of this machine can read the passphrase; run `chmod 600` on it",
            path.display()
        );
    }
    Passphrase::from_file(&text).map_err(|error| failed(&error).hint(hint))
}

/// Returns the key of the array on a drive, or `None` if the array is not encrypted. Rewrites
/// damaged copies of the key block if `purpose` allows it.
pub(crate) fn unlock(
    path: &Path,
    disk: &dyn Disk,
    passphrase: Option<&Passphrase>,
    purpose: Purpose,
) -> Result<Option<ArrayKey>, Problem> {
    let problem = |text: &str| Problem::new(format!("{}: {text}", path.display()));
    match (KeyBlocks::read(disk), passphrase) {
        (KeyBlocks::Absent, None) => Ok(None),
        (KeyBlocks::Absent, Some(_)) => Err(problem("the array is not encrypted")
            .hint("leave out --key-file; encryption is chosen when an array is created")),
        (KeyBlocks::Present(_), None) => {
            Err(problem("the array is encrypted").hint("give the file of its passphrase with --key-file"))
        }
        (KeyBlocks::Damaged, _) => Err(problem("all copies of the key block are damaged")
            .hint("restore the first 64 KiB of the drive from a copy; without the key the array cannot be read")),
        (KeyBlocks::Present(blocks), Some(passphrase)) => {
            let (key, block) = ArrayKey::unwrap_any(&blocks, passphrase).map_err(|error| match error {
                UnlockError::Passphrase => problem("wrong passphrase")
                    .hint("give the file of the array's passphrase with --key-file; `ibid rekey` may have changed it"),
                UnlockError::Cost => problem(&error.to_string()).hint("make sure that this is the drive of the array"),
            })?;
            if purpose == Purpose::Write {
                KeyBlocks::store(disk, &block).map_err(|error| problem(&error.to_string()).hint("check the drive"))?;
            }
            Ok(Some(key))
        }
    }
}

/// Writes the key blocks of a new array.
pub(crate) fn create(disk: &dyn Disk, passphrase: &Passphrase) -> anyhow::Result<ArrayKey> {
    let key = ArrayKey::random()?;
    KeyBlocks::store(disk, &key.wrap(passphrase, 1)?)?;
    Ok(key)
}

/// Returns the drive as the engine sees it.
pub(crate) fn decrypted(disk: Arc<dyn Disk>, key: Option<ArrayKey>) -> Arc<dyn Disk> {
    match key {
        Some(key) => Arc::new(EncryptedDisk::new(disk, key)),
        None => disk,
    }
}

/// Change the passphrase of an encrypted array that is stopped
///
/// Takes less than a second at any size: the passphrase protects the key of the array, and the data
/// stays as it is. Copies of the drive that were made before keep the former passphrase.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  openssl rand -base64 32 > new.key && chmod 600 new.key
  ibid rekey /srv/array --key-file old.key --new-key-file new.key")]
pub(crate) struct RekeyArgs {
    /// Directory, file or device of the array [default: --data]
    pub(crate) path: Option<PathBuf>,
    /// File with the present passphrase
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: PathBuf,
    /// File with the new passphrase
    #[arg(long, value_name = "FILE")]
    pub(crate) new_key_file: PathBuf,
}

/// Changes the passphrase.
pub(crate) fn rekey(data: Option<PathBuf>, args: &RekeyArgs) -> Result<(), Problem> {
    let path = args.path.clone().or(data).ok_or_else(|| {
        Problem::new("no array given").hint("give the directory of the array, or its file or device: `ibid rekey DIR`")
    })?;
    let (present, new) = (passphrase(&args.key_file)?, passphrase(&args.new_key_file)?);
    let located = stopped::locate(&path, "stop the array first")?;
    let Medium { disk, lock: _lock, .. } = medium::open(&located.file, Purpose::Write)?;
    let name = located.file.display();
    let failed = |error: &dyn std::fmt::Display| Problem::new(format!("{name}: {error}")).hint("check the drive");
    let Some(key) = unlock(&located.file, &*disk, Some(&present), Purpose::Read)? else {
        return Err(failed(&"the array is not encrypted"));
    };
    let KeyBlocks::Present(blocks) = KeyBlocks::read(&*disk) else {
        return Err(failed(&"the key blocks changed"));
    };
    let newest = blocks.iter().map(|block| block.sequence).max().unwrap_or_default();
    let block = key.wrap(&new, newest.saturating_add(1)).map_err(|error| failed(&error))?;
    KeyBlocks::store(&*disk, &block).map_err(|error| failed(&error))?;
    output::print(&format!("{name}: passphrase changed; the former one no longer opens the array\n"))
}
