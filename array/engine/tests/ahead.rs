//! Read-ahead follows sequential streams, and happens for no other reads.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{ARRAY, MemoryDisk, data};
use engine::{Change, Core, Engine, Maintenance, Op, Owner, call};
use ondisk::ArrayGeometry;
use parking_lot::{Condvar, Mutex};
use platform::{Disk, DiskError, Durability};
use std::sync::Arc;
use std::time::Duration;
use types::{BlockRange, Lba, VolumeId};

const VOLUME: VolumeId = VolumeId(1);
const KIB32: u64 = 64;
const PATIENCE: Duration = Duration::from_secs(60);

/// A drive that records read-ahead hints and reads.
struct Asked {
    disk: MemoryDisk,
    asked: Mutex<Vec<(u64, u64)>>,
    changed: Condvar,
    read: Mutex<Vec<(u64, u64)>>,
}

impl Disk for Asked {
    fn size(&self) -> u64 {
        self.disk.size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.read.lock().push((offset, offset + buffer.len() as u64));
        self.disk.read_at(offset, buffer)
    }
    fn will_read(&self, offset: u64, bytes: u64) {
        self.asked.lock().push((offset, offset + bytes));
        self.changed.notify_all();
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        self.disk.write_at(offset, parts, durability)
    }
    fn flush(&self) -> Result<(), DiskError> {
        self.disk.flush()
    }
    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        self.disk.allocate(offset, bytes)
    }
}

impl Asked {
    fn bytes_asked(&self) -> u64 {
        self.asked.lock().iter().map(|(from, to)| to - from).sum()
    }
}

/// 8 MiB of unique data, written out of order, so that neighbours in the volume are apart on the
/// drive.
fn filled() -> (Arc<Asked>, Engine) {
    let geometry = ArrayGeometry::for_capacity(1 << 30).unwrap();
    let disk = MemoryDisk::new(geometry.capacity);
    Core::create(&disk, &geometry.check().unwrap(), ARRAY).unwrap();
    let disk = Arc::new(Asked { disk, asked: Mutex::default(), changed: Condvar::new(), read: Mutex::default() });
    let (core, _) = Core::recover(&*disk, None).unwrap();
    let engine = Engine::start(core, disk.clone());
    call(&engine, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 1 << 20 }])).unwrap();
    for piece in 0..256 {
        let lba = Lba(piece * 37 % 256 * KIB32);
        call(&engine, Op::Write { volume: VOLUME, lba, data: data(piece + 1, KIB32), fua: false }).unwrap();
    }
    // After a checkpoint all data is on the drive.
    engine.account_space(&|family| Owner { family, is_snapshot: false }, None).expect("a census");
    // Opening announces pieces of the log.
    disk.asked.lock().clear();
    disk.read.lock().clear();
    (disk, engine)
}

fn read(engine: &Engine, piece: u64) {
    let range = BlockRange::new(Lba(piece * KIB32), KIB32).unwrap();
    call(engine, Op::Read { volume: VOLUME, range }).unwrap();
}

#[test]
fn sequential_reads_are_read_ahead() {
    let (disk, engine) = filled();
    read(&engine, 0);
    // Each of the first sequential reads asks for as much as was read before: for 2 to 7.
    for piece in 1..4 {
        read(&engine, piece);
        let mut asked = disk.asked.lock();
        while asked.iter().map(|(from, to)| to - from).sum::<u64>() < 2 * piece * KIB32 * 512 {
            assert!(!disk.changed.wait_for(&mut asked, PATIENCE).timed_out(), "after {piece}: {asked:?}");
        }
    }
    disk.read.lock().clear();
    let asked = disk.asked.lock().clone();
    (4..8).for_each(|piece| read(&engine, piece));
    let read = disk.read.lock().clone();
    assert!(!read.is_empty());
    for (from, to) in read {
        let is_asked = asked.iter().any(|(start, end)| *start <= from && to <= *end);
        assert!(is_asked, "{from} to {to} was read without a hint: {asked:?}");
    }
}

#[test]
fn random_reads_and_volume_ends_are_not_read_ahead() {
    let (disk, engine) = filled();
    // Every other piece, out of order.
    (0..128).for_each(|piece| read(&engine, piece * 41 % 128 * 2));
    (0..64).for_each(|piece| read(&engine, (1 << 20) / KIB32 - 64 + piece));
    drop(engine);
    assert_eq!(disk.bytes_asked(), 0);
}
