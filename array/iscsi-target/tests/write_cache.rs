//! The write cache on the wire: which commands end with GOOD before their log record is durable.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::Bytes;
use engine::{Core, Engine, Options};
use iscsi_target::TargetConfig;
use ondisk::ArrayGeometry;
use parking_lot::{Condvar, Mutex};
use platform::{Disk, DiskError, Durability};
use scsi::cdb::{CdbSize, Command, Transfer};
use std::sync::Arc;
use support::{ALPHA, Array, Ended};
use testing::MemoryDisk;
use types::Lba;

const GOOD: Ended = Ended::Good(Bytes::new());
const CAPACITY: u64 = 64 << 20;

/// A drive whose durable writes, as those of the log, can be held.
struct SlowLog {
    disk: MemoryDisk,
    is_held: Mutex<bool>,
    released: Condvar,
}

impl SlowLog {
    fn hold(&self) {
        *self.is_held.lock() = true;
    }

    fn release(&self) {
        *self.is_held.lock() = false;
        self.released.notify_all();
    }
}

impl Disk for SlowLog {
    fn size(&self) -> u64 {
        self.disk.size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.disk.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        if durability == Durability::Durable {
            self.released.wait_while(&mut self.is_held.lock(), |is_held| *is_held);
        }
        self.disk.write_at(offset, parts, durability)
    }
    fn flush(&self) -> Result<(), DiskError> {
        self.disk.flush()
    }
    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        self.disk.allocate(offset, bytes)
    }
}

fn transfer(lba: u64, fua: bool) -> Transfer {
    Transfer { size: CdbSize::Sixteen, lba: Lba(lba), blocks: 1, dpo: false, fua }
}

#[tokio::test]
async fn locks_end_with_good_when_they_are_durable() {
    let disk = MemoryDisk::new(CAPACITY);
    let geometry = ArrayGeometry::for_capacity(CAPACITY).unwrap();
    Core::create(&disk, &geometry, [5; 16]).unwrap();
    let options = Options { write_cache: true, ..Options::for_geometry(&geometry) };
    let (core, _) = Core::recover(&disk, Some(options)).unwrap();
    let disk = Arc::new(SlowLog { disk, is_held: Mutex::new(false), released: Condvar::new() });
    let engine = Arc::new(Engine::start(core, disk.clone()));
    let array = Array::start_on(engine, TargetConfig::default()).await;
    let mut host = array.host(ALPHA).await;
    for fua in [false, true] {
        disk.hold();
        let cached = host.submit(1, &Command::Write(transfer(0, false)), vec![1; 512]).await;
        assert_eq!(host.end_of(cached).await, GOOD, "a write is cached");
        let lock = Command::CompareAndWrite { lba: Lba(0), blocks: 1, dpo: false, fua };
        let lock = host.submit(1, &lock, [vec![1; 512], vec![2; 512]].concat()).await;
        let or = host.submit(1, &Command::OrWrite(transfer(1, fua)), vec![3; 512]).await;
        let other = host.submit(1, &Command::Write(transfer(2, false)), vec![4; 512]).await;
        assert_eq!(host.end_of(other).await, GOOD, "the target has processed the commands before");
        assert!(!host.has_ended(lock) && !host.has_ended(or), "GOOD is sent when the log is durable");
        disk.release();
        assert_eq!((host.end_of(lock).await, host.end_of(or).await), (GOOD, GOOD));
    }
}
