//! Reads of the drive are under way at the same time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{ARRAY, MemoryDisk, data};
use engine::{BlockService, Change, Core, Engine, Maintenance, Op, OpError, Owner, Reply, Sink, Tag, call};
use ondisk::ArrayGeometry;
use parking_lot::{Condvar, Mutex};
use platform::{Disk, DiskError, Durability};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use types::{BlockRange, Lba, VolumeId};

const VOLUME: VolumeId = VolumeId(1);
const PATIENCE: Duration = Duration::from_secs(60);

/// A drive whose reads wait until enough of them are under way.
struct GatheringDisk {
    disk: MemoryDisk,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Reads that must be under way before any of them ends; 0 for none.
    wanted: usize,
    under_way: usize,
    /// Reads that must not wait. None succeeds.
    tries: usize,
}

impl Disk for GatheringDisk {
    fn size(&self) -> u64 {
        self.disk.size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        let mut state = self.state.lock();
        state.under_way += 1;
        self.changed.notify_all();
        while state.under_way < state.wanted {
            assert!(!self.changed.wait_for(&mut state, PATIENCE).timed_out(), "{} reads", state.under_way);
        }
        // All of them have been under way together: the rest need not wait.
        state.wanted = 0;
        drop(state);
        self.disk.read_at(offset, buffer)
    }
    fn try_read_at(&self, _: u64, _: &mut [u8]) -> Result<bool, DiskError> {
        self.state.lock().tries += 1;
        Ok(false)
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

struct Answers(Sender<(Tag, Result<Reply, OpError>)>);

impl Sink for Answers {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        self.0.send((tag, result)).unwrap();
    }
}

/// 256 blocks of unique data, written out of order, so that neighbours in the volume are apart on
/// the drive.
fn filled() -> (Arc<GatheringDisk>, Engine) {
    let geometry = ArrayGeometry::for_capacity(1 << 30).unwrap();
    let disk = MemoryDisk::new(geometry.capacity);
    Core::create(&disk, &geometry.check().unwrap(), ARRAY).unwrap();
    let disk = Arc::new(GatheringDisk { disk, state: Mutex::default(), changed: Condvar::new() });
    let (core, _) = Core::recover(&*disk, None).unwrap();
    let engine = Engine::start(core, disk.clone());
    call(&engine, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 1 << 20 }])).unwrap();
    for block in 0..256 {
        let block = block * 37 % 256;
        call(&engine, Op::Write { volume: VOLUME, lba: Lba(block * 8), data: data(block + 1, 8), fua: false }).unwrap();
    }
    // After a checkpoint all data is on the drive.
    engine.account_space(&|family| Owner { family, is_snapshot: false }, None).expect("a count");
    disk.state.lock().under_way = 0;
    (disk, engine)
}

fn read(block: u64, blocks: u64) -> Op {
    Op::Read { volume: VOLUME, range: BlockRange::new(Lba(block * 8), blocks * 8).unwrap() }
}

/// Reads 64 places of the cold drive, which answers when all are under way. Returns the number of
/// reads that were tried without waiting.
fn read_together() -> usize {
    const READS: u64 = 64;
    let (disk, engine) = filled();
    disk.state.lock().wanted = READS as usize;
    let (sender, answers) = channel();
    let sink: Arc<dyn Sink> = Arc::new(Answers(sender));
    (0..READS).for_each(|block| engine.submit(read(block * 4, 1), block, &sink));
    for _ in 0..READS {
        let (block, answer) = answers.recv_timeout(PATIENCE).expect("an answer");
        assert_eq!(answer, Ok(Reply::Data(data(block * 4 + 1, 8))));
    }
    disk.state.lock().tries
}

#[test]
fn reads_of_hosts_are_under_way_together() {
    read_together();
}

#[test]
fn submitters_seldom_try_reads_of_a_cold_drive() {
    let tries = read_together();
    assert!(tries < 32, "{tries} of 64");
}

#[test]
fn places_of_one_read_are_under_way_together() {
    let (disk, engine) = filled();
    disk.state.lock().wanted = 16;
    let all: Vec<u8> = (0..16).flat_map(|block| data(block + 1, 8)).collect();
    assert_eq!(call(&engine, read(0, 16)), Ok(Reply::Data(all.into())));
}
