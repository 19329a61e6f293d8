//! Writes the owner block while the array runs.
//!
//! A thread of its own writes the block every 500 ms, beside the queues of the data path. Before
//! each write it reads the block: if another owner has written it, this process has been displaced
//! and must not write to the array again.

use crate::medium;
use crate::problem::Problem;
use ondisk::{OWNER_BYTES, OWNER_OFFSET, OwnerBlock};
use platform::{DiskError, FileDisk, LogLimit, clock, process};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two writes of the block.
const BEAT: Duration = Duration::from_millis(500);
/// Exit status of a process whose array was opened by another machine.
const DISPLACED: i32 = 7;

/// Shows other machines that this process uses the medium. The drop ends that.
pub(super) struct Owner {
    name: Arc<OnceLock<String>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Owner {
    /// Takes the medium over from its previous owner, which has stopped.
    pub(super) fn start(disk: Arc<FileDisk>, array: [u8; 16], previous: Option<&OwnerBlock>) -> Result<Self, Problem> {
        let block = OwnerBlock {
            array,
            epoch: previous.map_or(1, |previous| previous.epoch.saturating_add(1)),
            beat: 1,
            is_in_use: true,
            pid: std::process::id(),
            boot: process::boot_id(),
            host: process::host_name(),
            name: String::new(),
        };
        write(&disk, &block).map_err(|error| {
            Problem::new(format!("owner block not written: {error}"))
                .hint("check that the drive can be written, and that its file system has free space")
        })?;
        let name = Arc::new(OnceLock::new());
        let (stop, stopped) = mpsc::channel();
        let beating = Beating { disk, block, name: name.clone(), failures: LogLimit::default() };
        let thread = std::thread::Builder::new().name("owner".to_owned()).spawn(move || beating.run(&stopped))?;
        Ok(Self { name, stop: Some(stop), thread: Some(thread) })
    }

    /// Sets the name of the array, once.
    pub(super) fn set_name(&self, name: &str) {
        let _ = self.name.set(name.to_owned());
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A panic of the thread has aborted the process already.
        self.thread.take().map(JoinHandle::join);
    }
}

struct Beating {
    disk: Arc<FileDisk>,
    block: OwnerBlock,
    name: Arc<OnceLock<String>>,
    failures: LogLimit,
}

impl Beating {
    fn run(mut self, stopped: &mpsc::Receiver<()>) {
        while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
            self.beat();
        }
        self.block.is_in_use = false;
        self.beat();
    }

    fn beat(&mut self) {
        if let Some(other) = displaced_by(&self.disk, &self.block) {
            tracing::error!("array opened by {}; stopping at once", medium::description(&other));
            std::process::exit(DISPLACED);
        }
        self.block.beat += 1;
        if let Some(name) = self.name.get() {
            self.block.name.clone_from(name);
        }
        if let Err(error) = write(&self.disk, &self.block)
            && self.failures.admit(clock::now()).is_some()
        {
            tracing::warn!("owner block not written, another machine may take the array for stopped: {error}");
        }
    }
}

/// Returns the owner that has replaced `own` on the medium, if any. An unreadable block shows none.
fn displaced_by(disk: &FileDisk, own: &OwnerBlock) -> Option<OwnerBlock> {
    let read = disk.read_uncached(OWNER_OFFSET).ok()?;
    OwnerBlock::decode(&read).filter(|found| !found.is_same_owner(own))
}

fn write(disk: &FileDisk, block: &OwnerBlock) -> Result<(), DiskError> {
    let mut bytes = [0; 4096];
    bytes[..OWNER_BYTES].copy_from_slice(&block.encode());
    disk.write_uncached(OWNER_OFFSET, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::TemporaryDirectory;

    fn read(disk: &FileDisk) -> OwnerBlock {
        OwnerBlock::decode(&disk.read_uncached(OWNER_OFFSET).unwrap()).unwrap()
    }

    #[test]
    fn owner_is_written_beats_and_is_released() {
        let scratch = TemporaryDirectory::new(None, "ibid-owner").unwrap();
        let disk = Arc::new(FileDisk::create(&scratch.path().join("array"), 64 << 10).unwrap());
        let owner = Owner::start(disk.clone(), [7; 16], None).unwrap();
        let first = read(&disk);
        assert_eq!((first.array, first.epoch, first.is_in_use), ([7; 16], 1, true));
        assert_eq!((first.pid, first.boot), (std::process::id(), process::boot_id()));
        owner.set_name("east");
        let beaten = loop {
            let now = read(&disk);
            if now.beat > first.beat {
                break now;
            }
            std::thread::yield_now();
        };
        assert!(beaten.is_same_owner(&first) && beaten.name == "east");
        drop(owner);
        let released = read(&disk);
        assert!(!released.is_in_use);
        drop(Owner::start(disk.clone(), [7; 16], Some(&released)).unwrap());
        assert_eq!(read(&disk).epoch, 2);
    }

    #[test]
    fn another_owner_displaces() {
        let scratch = TemporaryDirectory::new(None, "ibid-owner").unwrap();
        let disk = FileDisk::create(&scratch.path().join("array"), 64 << 10).unwrap();
        let (host, name) = (String::new(), String::new());
        let own = OwnerBlock { array: [1; 16], epoch: 1, beat: 5, is_in_use: true, pid: 1, boot: [2; 16], host, name };
        assert_eq!(displaced_by(&disk, &own), None, "an erased block shows no owner");
        write(&disk, &OwnerBlock { beat: 4, ..own.clone() }).unwrap();
        assert_eq!(displaced_by(&disk, &own), None);
        let other = OwnerBlock { epoch: 2, ..own.clone() };
        write(&disk, &other).unwrap();
        assert_eq!(displaced_by(&disk, &own), Some(other));
    }
}
