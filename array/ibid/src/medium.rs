//! Opens the file or device of an array for this process alone.
//!
//! Three means refuse a second user, each with a wider reach than the one before:
//!
//! 1. A lock on the file or device node: other processes of Ibid on this machine.
//! 2. `O_EXCL` on a block device: mount, mkfs, RAID, LVM, and other nodes of the same device.
//! 3. The owner block on the medium itself: other machines that reach the same device or file.

use crate::problem::Problem;
use ondisk::{OWNER_OFFSET, OwnerBlock, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, Superblock, superblock_offset};
use platform::lock::{Lock, LockError};
use platform::{Disk, DiskError, FileDisk, clock, process};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Time for which the owner block must not change before another machine's array counts as
/// stopped: four beats.
const OBSERVATION: Duration = Duration::from_secs(2);
/// Time between two reads of the owner block.
const OBSERVATION_STEP: Duration = Duration::from_millis(250);
/// Attempts to lock a block device, each after [`OBSERVATION_STEP`]. The system's device manager
/// holds a short lock of the same kind while it examines a device.
const LOCK_ATTEMPTS: u32 = 12;

const CHECK_DEVICE: &str = "set --device to a block device, or to a file of the capacity, that can be read and written";
const CHECK_PERMISSIONS: &str = "run as root, or as a user of the group that `ls -lL` shows for it";
const STOP_OTHER: &str = "stop that array first; a device or file serves one array on one machine";

/// Use of the medium by the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Reads only.
    Read,
    /// Reads and writes.
    Write,
}

/// A file or device that only this process uses.
pub(crate) struct Medium {
    /// Path of the file or device.
    pub(crate) path: PathBuf,
    pub(crate) disk: Arc<FileDisk>,
    /// The owner block of the last user, which has stopped.
    pub(crate) previous: Option<OwnerBlock>,
    /// Released after the disk is closed.
    pub(crate) lock: Lock,
}

/// Opens a file or device. Refuses if another process or another machine uses it.
///
/// Takes 2 s if the last owner did not stop cleanly and its end is not certain.
pub(crate) fn open(path: &Path, purpose: Purpose) -> Result<Medium, Problem> {
    let disk = match purpose {
        Purpose::Read => FileDisk::open_read_only(path),
        Purpose::Write => FileDisk::open(path, 0),
    };
    let disk = disk.map_err(|error| not_opened(path, &error))?;
    let lock = lock(path, &disk)?;
    let previous = check_owner(path, &disk, OBSERVATION)?;
    Ok(Medium { path: path.to_owned(), disk: Arc::new(disk), previous, lock })
}

fn not_opened(path: &Path, error: &DiskError) -> Problem {
    match error {
        DiskError::InUse => match owner(path) {
            Some(owner) if owner.is_in_use => in_use(path, &owner),
            _ => Problem::new(format!("{}: {error}", path.display()))
                .hint("unmount it, or stop its other user; `lsblk` and `fuser` show the users of a device"),
        },
        DiskError::Denied => Problem::new(format!("{}: {error}", path.display())).hint(CHECK_PERMISSIONS),
        _ => Problem::new(format!("{}: {error}", path.display())).hint(CHECK_DEVICE),
    }
}

fn lock(path: &Path, disk: &FileDisk) -> Result<Lock, Problem> {
    let attempts = if disk.is_block_device() { LOCK_ATTEMPTS } else { 1 };
    for attempt in 1.. {
        match Lock::take_device(path) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Held(_)) if attempt < attempts => clock::sleep(OBSERVATION_STEP),
            Err(error @ LockError::Held(_)) => {
                return Err(match owner(path) {
                    Some(owner) if owner.is_in_use => in_use(path, &owner),
                    _ => Problem::new(format!("{}: {error}", path.display())).hint(STOP_OTHER),
                });
            }
            Err(error) => return Err(Problem::new(format!("{}: {error}", path.display())).hint(CHECK_DEVICE)),
        }
    }
    unreachable!("the loop ends by its attempts")
}

/// Returns the last owner, after making sure that it has stopped.
fn check_owner(path: &Path, disk: &FileDisk, observation: Duration) -> Result<Option<OwnerBlock>, Problem> {
    // A file without space for the block holds no array.
    let Ok(first) = disk.read_uncached(OWNER_OFFSET) else { return Ok(None) };
    let owner = OwnerBlock::decode(&first);
    let has_stopped = match &owner {
        Some(owner) => !owner.is_in_use || (!disk.is_block_device() && has_ended(owner)),
        None => first.iter().all(|byte| *byte == 0),
    };
    if has_stopped {
        return Ok(owner);
    }
    tracing::info!("last owner did not stop cleanly; observing it for {} s", observation.as_secs());
    let began = clock::now();
    while clock::now().saturating_duration_since(began) < observation {
        clock::sleep(OBSERVATION_STEP);
        let read = disk.read_uncached(OWNER_OFFSET);
        let now = read.map_err(|error| Problem::new(format!("{}: {error}", path.display())).hint(CHECK_DEVICE))?;
        if now != first {
            return Err(match OwnerBlock::decode(&now).or(owner) {
                Some(owner) => in_use(path, &owner),
                None => Problem::new(format!("{}: another machine writes to it", path.display())).hint(STOP_OTHER),
            });
        }
    }
    Ok(owner)
}

/// Returns true if the owner was a process of this boot that has ended.
///
/// The lock of a file proves that for its other names. It does not prove it for a loop device over
/// the file, so the process must have ended, too. For a device nothing proves it: one medium may be
/// several devices of a machine (paths of a multipath disk, loop devices over one file).
fn has_ended(owner: &OwnerBlock) -> bool {
    let boot = process::boot_id();
    boot != [0; 16] && owner.boot == boot && !process::is_running_elsewhere(owner.pid)
}

fn in_use(path: &Path, owner: &OwnerBlock) -> Problem {
    Problem::new(format!("{}: it is in use by {}", path.display(), description(owner))).hint(STOP_OTHER)
}

/// Describes an owner: array, process, host and boot.
pub(crate) fn description(owner: &OwnerBlock) -> String {
    let name = if owner.name.is_empty() { String::new() } else { format!("array '{}', ", owner.name) };
    format!("{name}process {} on host '{}' (boot {})", owner.pid, owner.host, uuid(&owner.boot))
}

/// Reads the owner block of a medium that another process may use, to name that process.
pub(crate) fn owner(path: &Path) -> Option<OwnerBlock> {
    platform::peek(path, OWNER_OFFSET, ondisk::OWNER_BYTES).ok().and_then(|bytes| OwnerBlock::decode(&bytes))
}

/// Reads the superblock.
pub(crate) fn superblock(disk: &dyn Disk) -> Result<Superblock, ondisk::SuperblockError> {
    Superblock::choose(&superblock_copies(disk))
}

/// Returns the problem of an array whose superblock cannot be used.
pub(crate) fn unusable(path: &Path, error: &ondisk::SuperblockError) -> Problem {
    let name = path.display();
    Problem::new(format!("{name}: {error}")).hint(match error.is_unknown_format() {
        true => "it may be intact: run the version of `ibid` that served it last, or a newer one".to_owned(),
        false => format!("run `ibid fsck {name}` to see what is damaged"),
    })
}

/// Reads the copies of the superblock. An unreadable copy counts as invalid; the quorum of the
/// copies decides.
pub(crate) fn superblock_copies(disk: &dyn Disk) -> [Vec<u8>; SUPERBLOCK_COPIES] {
    std::array::from_fn(|copy| {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        let read = disk.read_at(superblock_offset(copy), &mut bytes);
        if read.is_ok() { bytes } else { vec![0xFF; SUPERBLOCK_BYTES] }
    })
}

/// Writes an id as a UUID.
pub(crate) fn uuid(id: &[u8; 16]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::TemporaryDirectory;

    const BYTES: u64 = 64 << 10;
    /// Above the largest process id of Linux.
    const NO_PROCESS: u32 = 1 << 30;

    fn block(boot: [u8; 16], beat: u64) -> OwnerBlock {
        let (host, name) = ("node-b".to_owned(), "east".to_owned());
        OwnerBlock { array: [1; 16], epoch: 3, beat, is_in_use: true, pid: 4321, boot, host, name }
    }

    fn write(disk: &FileDisk, owner: &OwnerBlock) {
        let mut bytes = [0; 4096];
        bytes[..ondisk::OWNER_BYTES].copy_from_slice(&owner.encode());
        disk.write_uncached(OWNER_OFFSET, &bytes).unwrap();
    }

    fn scratch() -> (TemporaryDirectory, std::path::PathBuf, FileDisk) {
        let scratch = TemporaryDirectory::new(None, "ibid-medium").unwrap();
        let path = scratch.path().join("array");
        let disk = FileDisk::create(&path, BYTES).unwrap();
        (scratch, path, disk)
    }

    #[test]
    fn beating_owner_of_another_machine_is_named() {
        let (_scratch, path, disk) = scratch();
        write(&disk, &block([9; 16], 1));
        let beating = std::thread::spawn(move || {
            for beat in 2..200 {
                write(&disk, &block([9; 16], beat));
                clock::sleep(Duration::from_millis(20));
            }
        });
        let Err(refused) = open(&path, Purpose::Write) else { panic!("a beating owner was ignored") };
        let text = format!("{refused:?}");
        assert!(text.contains("array 'east', process 4321 on host 'node-b'"), "{text}");
        assert!(text.contains("boot 09090909-0909-0909-0909-090909090909"), "{text}");
        beating.join().unwrap();
    }

    #[test]
    fn owner_that_does_not_beat_is_succeeded() {
        let (_scratch, path, disk) = scratch();
        let dead = block([9; 16], 1);
        write(&disk, &dead);
        let previous = check_owner(&path, &disk, Duration::from_millis(600)).unwrap();
        assert_eq!(previous, Some(dead));
    }

    #[test]
    fn certain_end_of_the_owner_needs_no_wait() {
        let (_scratch, path, disk) = scratch();
        // An observation of this length would exceed the time limit of any test.
        let long = Duration::from_secs(1 << 20);
        assert_eq!(check_owner(&path, &disk, long).unwrap(), None, "no owner yet");
        let stopped = OwnerBlock { is_in_use: false, ..block([9; 16], 1) };
        write(&disk, &stopped);
        assert_eq!(check_owner(&path, &disk, long).unwrap(), Some(stopped));
        let killed = OwnerBlock { pid: NO_PROCESS, ..block(process::boot_id(), 1) };
        write(&disk, &killed);
        assert_eq!(check_owner(&path, &disk, long).unwrap(), Some(killed));
    }

    #[test]
    fn running_owner_under_another_node_is_named() {
        let (_scratch, path, disk) = scratch();
        // Process 1 runs, and holds no lock on the file: as through a loop device over it.
        let running = |beat| OwnerBlock { pid: 1, ..block(process::boot_id(), beat) };
        write(&disk, &running(1));
        let beating = std::thread::spawn(move || {
            for beat in 2..200 {
                write(&disk, &running(beat));
                clock::sleep(Duration::from_millis(20));
            }
        });
        let Err(refused) = open(&path, Purpose::Write) else { panic!("a running owner was ignored") };
        assert!(format!("{refused:?}").contains("process 1 on host 'node-b'"), "{refused:?}");
        beating.join().unwrap();
    }

    #[test]
    fn second_opening_names_the_first() {
        let (_scratch, path, disk) = scratch();
        write(&disk, &block([9; 16], 1));
        let held = Lock::take_device(&path).unwrap();
        let Err(refused) = open(&path, Purpose::Read) else { panic!("a locked file was opened") };
        assert!(format!("{refused:?}").contains("process 4321 on host 'node-b'"), "{refused:?}");
        drop(held);
    }
}
