//! Opens the file or device of the array. The first start creates the array.

use super::settings::Settings;
use super::signatures::{CHECKED_BYTES, at_end, at_start};
use crate::directory::{ArrayDirectory, CHECK_DIRECTORY, DeviceRecord, Location, NEW_ARRAY_FILE, locate};
use crate::keys;
use crate::medium::{self, Medium, Purpose, superblock, uuid};
use crate::problem::Problem;
use encryption::{KeyBlocks, Passphrase};
use engine::Core;
use ondisk::{
    ArrayGeometry, OWNER_BYTES, OWNER_OFFSET, SUPERBLOCK_AREA_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, Superblock,
    superblock_offset,
};
use platform::{Disk, Durability, FileDisk, files};
use rest::Identity;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use types::format_capacity;

/// Default capacity of a new array in a file.
const DEFAULT_CAPACITY: u64 = 64 << 30;
/// Part of the free space that a new array takes if it is smaller than the default: 9/10.
const DEFAULT_SHARE: (u64, u64) = (9, 10);

/// Opens the array of the directory, or creates it if the directory is new.
pub(super) fn open(
    settings: &Settings,
    passphrase: Option<&Passphrase>,
    directory: &mut ArrayDirectory,
) -> Result<(Medium, Superblock), Problem> {
    let folder = directory.path.display().to_string();
    match (&settings.device, locate(&directory.path)?) {
        (None, Location::File(path)) => opened(&path),
        (Some(_), Location::File(path)) => Err(Problem::new(format!("{folder}: its array is in {}", path.display()))
            .hint("leave out --device, or choose an empty --data directory for the device")),
        (None, Location::Device(record)) => follow(&record, &record.device, directory),
        (Some(device), Location::Device(record)) => follow(&record, device, directory),
        (None, Location::Unknown) if directory.belongs_to_an_array()? => {
            Err(Problem::new(format!("{folder}: the directory belongs to an array that is not in it"))
                .hint("give the device of the array with --device, or choose an empty --data directory"))
        }
        (None, Location::Unknown) => create_file(settings, passphrase, directory),
        (Some(device), Location::Unknown) => open_or_create_device(settings, passphrase, device, directory),
    }
}

fn opened(path: &Path) -> Result<(Medium, Superblock), Problem> {
    let medium = medium::open(path, Purpose::Write)?;
    let superblock = superblock(&*medium.disk).map_err(|error| medium::unusable(path, &error))?;
    Ok((medium, superblock))
}

/// Opens the device of a directory's array, and no other one.
fn follow(record: &DeviceRecord, device: &Path, directory: &ArrayDirectory) -> Result<(Medium, Superblock), Problem> {
    let of = format!("{} belongs to array {}", directory.path.display(), record.array);
    let name = device.display();
    if !files::exists(device).unwrap_or(true) {
        return Err(Problem::new(format!("{name}: no such device; {of}"))
            .hint("connect the device; if it has another name now, give that with --device"));
    }
    let medium = medium::open(device, Purpose::Write)?;
    let other = "give the device of this array with --device, or choose another --data directory";
    match superblock(&*medium.disk) {
        Ok(superblock) if uuid(&superblock.array) == record.array => {
            directory.record(device, &superblock.array)?;
            Ok((medium, superblock))
        }
        Ok(superblock) => {
            Err(Problem::new(format!("{name}: it holds array {}; {of}", uuid(&superblock.array))).hint(other))
        }
        Err(error) if error.is_unknown_format() => Err(medium::unusable(device, &error)),
        Err(error) => Err(Problem::new(format!("{name}: {error}; {of}"))
            .hint(format!("{other}; if this is the device, run `ibid fsck {name}` to see what is damaged"))),
    }
}

/// Creates the file of a new array. It gets its final name when it is complete, so that an
/// interrupted first start leaves no partial array.
fn create_file(
    settings: &Settings,
    passphrase: Option<&Passphrase>,
    directory: &mut ArrayDirectory,
) -> Result<(Medium, Superblock), Problem> {
    let (path, new) = (directory.path.join(crate::directory::ARRAY_FILE), directory.path.join(NEW_ARRAY_FILE));
    let at_new = |error: &dyn std::fmt::Display| Problem::new(format!("{}: {error}", new.display()));
    let free = files::free_bytes(&directory.path).map_err(|error| at_new(&error).hint(CHECK_DIRECTORY))?;
    let capacity = settings.capacity.unwrap_or_else(|| default_capacity(free));
    let geometry = geometry(capacity)?;
    check_free(&directory.path, capacity, free, settings.overcommit)?;
    prepare(settings, directory)?;
    files::remove(&new)?;
    let disk = FileDisk::create(&new, capacity).map_err(|error| at_new(&error).hint(CHECK_DIRECTORY))?;
    let disk = Arc::new(disk);
    create(&disk, &geometry, passphrase).map_err(|error| at_new(&error).hint(CHECK_DIRECTORY))?;
    drop(disk);
    files::rename(&new, &path)?;
    tracing::info!("created {} with capacity {}", path.display(), format_capacity(capacity));
    opened(&path)
}

fn open_or_create_device(
    settings: &Settings,
    passphrase: Option<&Passphrase>,
    device: &Path,
    directory: &mut ArrayDirectory,
) -> Result<(Medium, Superblock), Problem> {
    let medium = medium::open(device, Purpose::Write)?;
    if let Ok(superblock) = superblock(&*medium.disk) {
        directory.record(device, &superblock.array)?;
        return Ok((medium, superblock));
    }
    let name = device.display();
    let disk = &medium.disk;
    erase_interrupted_creation(device, disk, passphrase)?;
    check_blank(device, disk)?;
    if directory.belongs_to_an_array()? {
        let folder = directory.path.display();
        return Err(Problem::new(format!("{name}: it is blank, but {folder} belongs to an array on another device"))
            .hint("give the device of that array, or choose an empty --data directory for a new array"));
    }
    let capacity = settings.capacity.unwrap_or(disk.size());
    if capacity > disk.size() {
        let (asked, size) = (format_capacity(capacity), format_capacity(disk.size()));
        return Err(Problem::new(format!("{name}: capacity {asked} exceeds the device, which has {size}"))
            .hint("choose a smaller --capacity, or leave it out to use the whole device"));
    }
    let geometry = geometry(capacity)?;
    if !disk.is_block_device() {
        let free = files::free_bytes(device)?.saturating_add(files::allocated_bytes(device)?);
        check_free(device, capacity, free, settings.overcommit)?;
    }
    prepare(settings, directory)?;
    directory.erase_if_failed(disk.clone());
    create(disk, &geometry, passphrase)
        .map_err(|error| Problem::new(format!("{name}: {error:#}")).hint("check the device"))?;
    let superblock = superblock(&**disk).map_err(|error| medium::unusable(device, &error))?;
    directory.record(device, &superblock.array)?;
    tracing::info!("created array with capacity {} on {name}", format_capacity(capacity));
    Ok((medium, superblock))
}

/// Erases what a first start wrote that was interrupted before it was complete. Its log is blank,
/// so it has never held data.
fn erase_interrupted_creation(
    device: &Path,
    disk: &Arc<FileDisk>,
    passphrase: Option<&Passphrase>,
) -> Result<(), Problem> {
    let unreadable = |error| Problem::new(format!("{}: {error}", device.display())).hint("check the device");
    let copies = medium::superblock_copies(&**disk);
    let is_encrypted = !matches!(KeyBlocks::read(&**disk), KeyBlocks::Absent);
    // The key blocks are written before the first copy of the superblock.
    let has_no_superblock = || copies.iter().flatten().all(|byte| *byte == 0);
    let log = match Superblock::interrupted_creation(&copies) {
        Some(geometry) if disk.size() < geometry.capacity => return Ok(()),
        Some(geometry) => geometry.log_start()..geometry.log_start() + geometry.log_bytes,
        None if is_encrypted && has_no_superblock() => SUPERBLOCK_AREA_BYTES..CHECKED_BYTES as u64,
        None => return Ok(()),
    };
    let key = if is_encrypted { keys::unlock(device, &**disk, passphrase, Purpose::Read)? } else { None };
    let readable = keys::decrypted(disk.clone(), key);
    let is_blank = |range: Range<u64>| -> Result<bool, Problem> {
        let mut buffer = vec![0; CHECKED_BYTES];
        for at in range.clone().step_by(CHECKED_BYTES) {
            let part = &mut buffer[..CHECKED_BYTES.min(usize::try_from(range.end - at)?)];
            readable.read_at(at, part).map_err(unreadable)?;
            if part.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    if !is_blank(OWNER_OFFSET..OWNER_OFFSET + OWNER_BYTES as u64)? || !is_blank(log)? {
        return Ok(());
    }
    tracing::info!("{}: interrupted first start repeated", device.display());
    let clear =
        |offset: u64, bytes: usize| disk.write_at(offset, &[&vec![0; bytes]], Durability::Durable).map_err(unreadable);
    // The first copy last, and the key after it: until then, the interrupted start can be
    // recognized.
    for copy in (0..SUPERBLOCK_COPIES).rev() {
        clear(superblock_offset(copy), SUPERBLOCK_BYTES)?;
    }
    if is_encrypted {
        // The log holds encrypted zeros.
        let area = SUPERBLOCK_AREA_BYTES as usize;
        clear(SUPERBLOCK_AREA_BYTES, CHECKED_BYTES - area)?;
        clear(0, area)?;
    }
    Ok(())
}

/// Refuses a device that holds anything at its start or at its end.
fn check_blank(device: &Path, disk: &FileDisk) -> Result<(), Problem> {
    let name = device.display();
    let unreadable = |error| Problem::new(format!("{name}: {error}")).hint("check the device");
    let length = CHECKED_BYTES.min(usize::try_from(disk.size()).unwrap_or(CHECKED_BYTES));
    let mut bytes = vec![0; length];
    disk.read_at(0, &mut bytes).map_err(unreadable)?;
    let start = at_start(&bytes);
    let last = disk.size() - length as u64;
    disk.read_at(last, &mut bytes).map_err(unreadable)?;
    let Some(content) = start.or_else(|| at_end(&bytes, disk.size())) else { return Ok(()) };
    let problem = Problem::new(format!("{name}: contains {content}; it was not changed"));
    Err(if !disk.is_block_device() {
        problem.hint("choose another file, or one that is empty: `truncate -s SIZE FILE`")
    } else if content == "a damaged array" {
        problem.hint(format!("run `ibid fsck {name}` to see what is damaged"))
    } else {
        problem.hint(format!(
            "choose another device; to erase this one, run `wipefs -a {name}`, `blkdiscard -z -l 1MiB {name}` and \
             `blkdiscard -z -o {last} {name}`; then start again"
        ))
    })
}

/// Begins a first start. The small files are written before anything large, so that an array always
/// has its token.
fn prepare(settings: &Settings, directory: &mut ArrayDirectory) -> Result<(), Problem> {
    directory.begin()?;
    Identity::load_or_create(&directory.path, &[settings.api.ip()])?;
    Ok(rest::prepare_admin_token(&directory.path)?)
}

fn default_capacity(free: u64) -> u64 {
    const UNIT: u64 = 1 << 20;
    let share = free / DEFAULT_SHARE.1 * DEFAULT_SHARE.0 / UNIT * UNIT;
    DEFAULT_CAPACITY.min(share)
}

fn check_free(path: &Path, capacity: u64, free: u64, overcommit: bool) -> Result<(), Problem> {
    if capacity <= free || overcommit {
        return Ok(());
    }
    let (asked, free) = (format_capacity(capacity), format_capacity(free));
    Err(Problem::new(format!("{}: capacity {asked} exceeds the free space of its file system, {free}", path.display()))
        .hint("choose a smaller --capacity, or a larger file system or device; --overcommit allows it"))
}

/// Returns the on-disk layout for a capacity.
fn geometry(capacity: u64) -> Result<ArrayGeometry, Problem> {
    ArrayGeometry::for_capacity(capacity).map_err(|error| {
        Problem::new(format!("invalid capacity {}: {error}", format_capacity(capacity)))
            .hint("set --capacity from 22M to 64T, such as 200GiB")
    })
}

fn create(disk: &Arc<FileDisk>, geometry: &ArrayGeometry, passphrase: Option<&Passphrase>) -> anyhow::Result<()> {
    let key = passphrase.map(|passphrase| keys::create(&**disk, passphrase)).transpose()?;
    let disk = keys::decrypted(disk.clone(), key);
    Ok(Core::create(&*disk, geometry, platform::random::bytes()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_capacity_fits_the_free_space() {
        assert_eq!(default_capacity(1 << 40), DEFAULT_CAPACITY);
        assert_eq!(default_capacity(10 << 30), 9 << 30);
        assert_eq!(default_capacity(0), 0);
    }

    #[test]
    fn capacity_beyond_the_free_space_is_refused() {
        let check = |capacity, overcommit| check_free(Path::new("/d"), capacity, 1 << 30, overcommit);
        assert!(check(1 << 30, false).is_ok() && check(2 << 30, true).is_ok());
        let refused = format!("{:?}", check(2 << 30, false).unwrap_err());
        assert!(refused.contains("capacity 2GiB exceeds the free space of its file system, 1GiB"), "{refused}");
    }
}
