//! The reads of the drive that opening an array takes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use bytes::Bytes;
use common::{create, data, run, settle};
use engine::{Change, Core, Op, Reply};
use ondisk::ArrayGeometry;
use platform::{Disk, DiskError, Durability};
use std::sync::atomic::{AtomicU64, Ordering};
use testing::MemoryDisk;
use types::{Lba, VolumeId};

const VOLUME: VolumeId = VolumeId(1);

/// A drive that counts its reads.
struct CountingDisk {
    disk: MemoryDisk,
    reads: AtomicU64,
}

impl Disk for CountingDisk {
    fn size(&self) -> u64 {
        self.disk.size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.disk.read_at(offset, buffer)
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

/// Opens the array and returns the core, the replayed groups and the reads.
fn open(disk: MemoryDisk) -> (Core, u64, u64) {
    let disk = CountingDisk { disk, reads: AtomicU64::new(0) };
    let (core, report) = Core::recover(&disk, None).expect("the array opens");
    (core, report.groups, disk.reads.load(Ordering::Relaxed))
}

#[test]
fn log_groups_are_read_together() {
    let geometry = ArrayGeometry { capacity: 64 << 20, log_bytes: 8 << 20, segment_bytes: 256 << 10 };
    let (disk, mut core) = create(geometry);
    assert_eq!(
        run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 8 }])),
        Ok(Reply::Done)
    );
    for seed in 0..500 {
        let write = Op::Write { volume: VOLUME, lba: Lba(0), data: data(seed, 8), fua: false };
        assert_eq!(run(&mut core, &disk, write), Ok(Reply::Done));
    }
    drop(core);
    let (_, groups, reads) = open(disk);
    assert!(groups > 300, "each write has a group: {groups}");
    assert!(reads < 40, "{groups} groups take {reads} reads");
}

/// Logical blocks in a write of the large array.
const PIECE: u64 = 2048;

/// Blocks that all differ and are compressed to an eighth.
fn unique(piece: u64) -> Bytes {
    let mut data = vec![0; PIECE as usize * 512];
    for (block, bytes) in data.chunks_mut(4096).enumerate() {
        bytes[..8].copy_from_slice(&(1 + piece * PIECE + block as u64).to_le_bytes());
    }
    data.into()
}

#[test]
fn slot_table_pages_are_read_together() {
    let geometry = ArrayGeometry { capacity: 192 << 20, log_bytes: 8 << 20, segment_bytes: 1 << 20 };
    let (disk, mut core) = create(geometry);
    let blocks = 384 << 11;
    let created = run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks }]));
    assert_eq!(created, Ok(Reply::Done));
    for piece in 0..blocks / PIECE {
        let op = Op::Write { volume: VOLUME, lba: Lba(piece * PIECE), data: unique(piece), fua: false };
        assert_eq!(run(&mut core, &disk, op), Ok(Reply::Done));
    }
    core.request_checkpoint();
    settle(&mut core, &disk);
    drop(core);
    // 98 304 slots of data in pages of 256.
    let pages = 384;
    let copy = MemoryDisk::from_image(disk.image());
    let (_, _, reads) = open(disk);
    assert!(reads < pages / 4, "{pages} pages take {reads} reads");
    let (core, _) = Core::recover(&copy, None).expect("the array opens");
    core.audit(&copy).expect("the slots are those that were stored");
}
