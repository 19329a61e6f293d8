//! The read cache, and reads that no thread waits for.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{ARRAY, MemoryDisk, data};
use engine::{BlockService, Change, Core, Engine, Maintenance, Op, OpError, Options, Owner, Reply, Sink, Tag, call};
use ondisk::ArrayGeometry;
use parking_lot::Mutex;
use platform::{DirectRead, Disk, DiskError, Durability};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use types::{BlockRange, Lba, VolumeId};

const VOLUME: VolumeId = VolumeId(1);
const PATIENCE: Duration = Duration::from_secs(60);

/// How the drive treats direct reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Direct {
    #[default]
    Done,
    /// Started, and ended without the bytes.
    Failed,
    Refused,
    /// Kept until the test ends them.
    Held,
}

/// A drive with nothing in the page cache.
struct ColdDisk {
    disk: Arc<MemoryDisk>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    direct: Direct,
    held: Vec<DirectRead>,
    /// Reads that were started without a thread, and blocking ones.
    started: usize,
    blocking: usize,
}

impl Disk for ColdDisk {
    fn size(&self) -> u64 {
        self.disk.size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.state.lock().blocking += 1;
        self.disk.read_at(offset, buffer)
    }
    fn try_read_at(&self, _: u64, _: &mut [u8]) -> Result<bool, DiskError> {
        Ok(false)
    }
    fn start_read(&self, read: DirectRead) -> bool {
        let mut state = self.state.lock();
        match state.direct {
            Direct::Refused => return false,
            Direct::Held => {
                state.started += 1;
                state.held.push(read);
                return true;
            }
            Direct::Done | Direct::Failed => state.started += 1,
        }
        let is_done = state.direct == Direct::Done;
        let disk = self.disk.clone();
        std::thread::spawn(move || end(&disk, read, is_done));
        true
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

fn end(disk: &MemoryDisk, read: DirectRead, is_done: bool) {
    let mut bytes = vec![0; read.bytes];
    disk.read_at(read.offset, &mut bytes).unwrap();
    (read.done)(is_done.then_some(bytes));
}

impl ColdDisk {
    /// Returns the reads since the last call: without a thread, and blocking.
    fn reads(&self) -> (usize, usize) {
        let mut state = self.state.lock();
        (std::mem::take(&mut state.started), std::mem::take(&mut state.blocking))
    }
}

struct Answers(Sender<(Tag, Result<Reply, OpError>)>);

impl Sink for Answers {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        let _ = self.0.send((tag, result));
    }
}

/// 256 blocks of unique data, written out of order, so that neighbours in the volume are apart on
/// the drive, and 256 in order.
fn filled(direct: Direct, read_cache: u64) -> (Arc<ColdDisk>, Engine) {
    let geometry = ArrayGeometry::for_capacity(1 << 30).unwrap();
    let disk = MemoryDisk::new(geometry.capacity);
    Core::create(&disk, &geometry.check().unwrap(), ARRAY).unwrap();
    let disk = Arc::new(ColdDisk { disk: Arc::new(disk), state: Mutex::default() });
    let options = Options { read_cache, ..Options::for_geometry(&geometry) };
    let (core, _) = Core::recover(&*disk, Some(options)).unwrap();
    let engine = Engine::start(core, disk.clone());
    call(&engine, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 1 << 20 }])).unwrap();
    for block in (0..256).map(|block| block * 37 % 256).chain(256..512) {
        write(&engine, block, block + 1);
    }
    settle(&engine);
    disk.state.lock().direct = direct;
    disk.reads();
    (disk, engine)
}

fn write(engine: &Engine, block: u64, seed: u64) {
    call(engine, Op::Write { volume: VOLUME, lba: Lba(block * 8), data: data(seed, 8), fua: false }).unwrap();
}

/// After a checkpoint all data is on the drive.
fn settle(engine: &Engine) {
    engine.account_space(&|family| Owner { family, is_snapshot: false }, None).expect("a count");
}

fn read(block: u64, blocks: u64) -> Op {
    Op::Read { volume: VOLUME, range: BlockRange::new(Lba(block * 8), blocks * 8).unwrap() }
}

fn expected(block: u64, blocks: u64) -> Result<Reply, OpError> {
    let all: Vec<u8> = (block..block + blocks).flat_map(|block| data(block + 1, 8)).collect();
    Ok(Reply::Data(all.into()))
}

#[test]
fn cached_reads_need_no_thread_and_no_drive() {
    let (disk, engine) = filled(Direct::Done, 4 << 20);
    for block in (0..64).map(|block| block * 4) {
        assert_eq!(call(&engine, read(block, 1)), expected(block, 1));
    }
    assert_eq!(disk.reads(), (64, 0), "cold");
    for block in (0..64).map(|block| block * 4) {
        assert_eq!(call(&engine, read(block, 1)), expected(block, 1));
        let half = Op::Read { volume: VOLUME, range: BlockRange::new(Lba(block * 8 + 3), 2).unwrap() };
        let part = data(block + 1, 8).slice(3 * 512..5 * 512);
        assert_eq!(call(&engine, half), Ok(Reply::Data(part)));
    }
    assert_eq!(disk.reads(), (0, 0), "cached");
}

#[test]
fn read_of_many_places_is_cached_by_blocks() {
    let (disk, engine) = filled(Direct::Done, 4 << 20);
    assert_eq!(call(&engine, read(16, 16)), expected(16, 16));
    let (started, blocking) = disk.reads();
    assert!(started >= 8 && blocking == 0, "{started} started, {blocking} blocking");
    assert_eq!(call(&engine, read(300, 16)), expected(300, 16), "neighbours on the drive");
    assert_eq!(disk.reads(), (1, 0));
    for block in (16..32).chain(300..316) {
        assert_eq!(call(&engine, read(block, 1)), expected(block, 1));
    }
    assert_eq!((call(&engine, read(16, 16)), call(&engine, read(302, 9))), (expected(16, 16), expected(302, 9)));
    assert_eq!(disk.reads(), (0, 0));
}

#[test]
fn cache_never_returns_bytes_of_the_past() {
    let (_disk, engine) = filled(Direct::Done, 4 << 20);
    for round in 1..4 {
        for block in 0..256 {
            assert_eq!(call(&engine, read(block, 1)), Ok(Reply::Data(data(block + 1 + (round - 1) * 1000, 8))));
        }
        for block in 0..256 {
            write(&engine, block, block + 1 + round * 1000);
        }
        settle(&engine);
    }
    let range = BlockRange::new(Lba(0), 2048).unwrap();
    call(&engine, Op::Unmap { volume: VOLUME, ranges: vec![range] }).unwrap();
    assert_eq!(call(&engine, read(7, 1)), Ok(Reply::Data(vec![0; 4096].into())));
}

#[test]
fn failed_direct_reads_are_repeated_by_threads() {
    for direct in [Direct::Failed, Direct::Refused] {
        let (disk, engine) = filled(direct, 4 << 20);
        assert_eq!(call(&engine, read(5, 1)), expected(5, 1));
        assert_eq!(call(&engine, read(16, 16)), expected(16, 16));
        let (started, blocking) = disk.reads();
        assert_eq!(started, if direct == Direct::Failed { blocking } else { 0 }, "{blocking} blocking");
        assert!(blocking > 1);
        assert_eq!(call(&engine, read(5, 1)), expected(5, 1));
        assert_eq!(disk.reads(), (0, 0), "they are cached all the same");
    }
}

#[test]
fn damaged_block_is_a_medium_error_and_not_cached() {
    let (disk, engine) = filled(Direct::Done, 4 << 20);
    let wanted = data(41, 8);
    // The log has the block, too: every copy is damaged.
    let is_copy = |sector: &[u8]| sector[..64] == wanted[..64];
    let places: Vec<usize> = {
        let bytes = disk.disk.lock();
        (0..bytes.len()).step_by(512).filter(|at| is_copy(&bytes[*at..])).collect()
    };
    assert!(!places.is_empty());
    let flip = || places.iter().for_each(|place| disk.disk.lock()[*place] ^= 1);
    flip();
    assert_eq!(call(&engine, read(40, 1)), Err(OpError::MediumError { lba: Lba(320) }));
    flip();
    assert_eq!(call(&engine, read(40, 1)), expected(40, 1), "the bad bytes were not kept");
}

#[test]
fn scans_and_arrays_without_read_cache_use_threads() {
    let (disk, engine) = filled(Direct::Done, 4 << 20);
    assert_eq!(call(&engine, read(256, 128)), expected(256, 128));
    let (started, blocking) = disk.reads();
    assert!(started == 0 && blocking > 0, "{started} started");
    assert_eq!(call(&engine, read(256, 1)), expected(256, 1));
    assert_eq!(disk.reads().0, 1, "the scan left nothing in the cache");
    let (disk, engine) = filled(Direct::Done, 0);
    assert_eq!(call(&engine, read(5, 1)), expected(5, 1));
    assert_eq!(disk.reads(), (0, 1));
}

#[test]
fn engine_ends_after_its_direct_reads() {
    let (disk, engine) = filled(Direct::Held, 4 << 20);
    let (sender, answers) = channel();
    let sink: Arc<dyn Sink> = Arc::new(Answers(sender));
    (0..20).for_each(|block| engine.submit(read(block, 1), block, &sink));
    let held = std::mem::take(&mut disk.state.lock().held);
    assert_eq!(held.len(), 20, "under way together");
    let dropped = std::thread::spawn(move || drop(engine));
    // Half of them fail, and are repeated by threads of an engine that is ending.
    held.into_iter().enumerate().for_each(|(at, read)| end(&disk.disk, read, at % 2 == 0));
    dropped.join().unwrap();
    for _ in 0..20 {
        let (block, answer) = answers.recv_timeout(PATIENCE).expect("an answer");
        assert_eq!(answer, expected(block, 1));
    }
}
