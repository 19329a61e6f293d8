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

/// Exit code for a missing or wrong passphrase: a supervisor should not start the array again.
const WRONG_KEY: u8 = 2;

/// Reads the passphrase from its file. Calls `warn` if other users can read it.
pub(crate) fn passphrase(path: &Path, warn: &dyn Fn(&str)) -> Result<Passphrase, Problem> {
    let failed =
        |error: &dyn std::fmt::Display| Problem::new(format!("{}: {error}", path.display())).exit_code(WRONG_KEY);
    let hint = "give --key-file a text file that holds the passphrase, 8 to 1024 bytes, such as one made by \
                `openssl rand -base64 32 > FILE`";
    let text = files::read_text(path, MAX_FILE_BYTES).map_err(|error| failed(&error).hint(hint))?;
    let text = Zeroizing::new(text.ok_or_else(|| failed(&"no such file").hint(hint))?);
    if files::is_readable_by_others(path)? {
        let path = path.display();
        warn(&format!("{path}: other users of this machine can read the passphrase; run `chmod 600 {path}`"));
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
    let problem = |text: &str| Problem::new(format!("{}: {text}", path.display())).exit_code(WRONG_KEY);
    match (KeyBlocks::read(disk), passphrase) {
        (KeyBlocks::Absent, None) => Ok(None),
        (KeyBlocks::Absent, Some(_)) => Err(problem("the array is not encrypted").hint(
            "leave out --key-file; an array is encrypted at its first start only, so make a new one and copy the volumes",
        )),
        (KeyBlocks::Present(_), None) => {
            Err(problem("the array is encrypted").hint("give the file of its passphrase with --key-file"))
        }
        (KeyBlocks::Unsupported, _) => Err(problem("the key block has a version that this program does not know")
            .hint("use the version of Ibid that last served the array, or a newer one")),
        (KeyBlocks::Damaged, _) => Err(problem("all copies of the key block are damaged")
            .hint("restore one copy as docs/guides/backup.md says; without the key the array cannot be read")),
        (KeyBlocks::Present(blocks), Some(passphrase)) => {
            let (key, block) = ArrayKey::unwrap_any(&blocks, passphrase).map_err(|error| match error {
                UnlockError::Passphrase => problem("wrong passphrase")
                    .hint("give the file of the array's passphrase with --key-file; `ibid rekey` may have changed it"),
                UnlockError::Cost => problem(&error.to_string()).hint("make sure that this is the drive of the array"),
            })?;
            if blocks.iter().any(|other| other.sequence > block.sequence) {
                tracing::warn!("an interrupted change of the passphrase has ended: the former passphrase stays");
            }
            if purpose == Purpose::Write
                && let Err(error) = KeyBlocks::store(disk, &block)
            {
                tracing::warn!("a damaged copy of the key block was not rewritten: {error}; check the drive");
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
    let read = |path: &Path| passphrase(path, &output::progress);
    let (present, new) = (read(&args.key_file)?, read(&args.new_key_file)?);
    let located = stopped::locate(&path, "stop the array first")?;
    let Medium { disk, lock: _lock, .. } = medium::open(&located.file, Purpose::Write)?;
    located.check_array(&path, &*disk)?;
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
    // A block that does not open must not replace one that does.
    ArrayKey::unwrap(&block, &new).map_err(|error| failed(&format!("the new key block is wrong: {error}")))?;
    KeyBlocks::store(&*disk, &block).map_err(|error| {
        failed(&error).hint("keep both files: until `ibid rekey` succeeds, either passphrase may open the array")
    })?;
    output::print(&format!("{name}: passphrase changed; the former one no longer opens the array\n"))
}
