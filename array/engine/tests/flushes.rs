//! Writes continue while the drive executes the flush or the superblock of a checkpoint.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{ARRAY, MemoryDisk, data};
use engine::{BlockService, Change, Core, Engine, Op, OpError, Options, Reply, Sink, Tag, call};
use ondisk::{ArrayGeometry, SUPERBLOCK_AREA_BYTES};
use parking_lot::{Condvar, Mutex};
use platform::{Disk, DiskError, Durability};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use types::{Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 256 << 20, log_bytes: 64 << 20, segment_bytes: 1 << 20 };
const VOLUME: VolumeId = VolumeId(1);
const PATIENCE: Duration = Duration::from_secs(60);
const DIRTY_LIMIT: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Flush,
    Superblock,
}

/// A drive that does not answer one step of a checkpoint.
struct HangingDisk {
    disk: MemoryDisk,
    /// The step that hangs, and whether it has reached the drive.
    hangs: Mutex<(Option<Step>, bool)>,
    changed: Condvar,
}

impl HangingDisk {
    fn pass(&self, step: Step) {
        let mut hangs = self.hangs.lock();
        while hangs.0 == Some(step) {
            hangs.1 = true;
            self.changed.notify_all();
            self.changed.wait(&mut hangs);
        }
    }

    fn set(&self, step: Option<Step>) {
        *self.hangs.lock() = (step, false);
        self.changed.notify_all();
    }

    fn wait_hanging(&self) {
        let mut hangs = self.hangs.lock();
        while !hangs.1 {
            assert!(!self.changed.wait_for(&mut hangs, PATIENCE).timed_out(), "no checkpoint");
        }
    }
}

impl Disk for HangingDisk {
    fn size(&self) -> u64 {
        self.disk.size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.disk.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        if offset < SUPERBLOCK_AREA_BYTES {
            self.pass(Step::Superblock);
        }
        self.disk.write_at(offset, parts, durability)
    }
    fn flush(&self) -> Result<(), DiskError> {
        self.pass(Step::Flush);
        self.disk.flush()
    }
    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        self.disk.allocate(offset, bytes)
    }
}

struct Answers(Sender<Result<Reply, OpError>>);

impl Sink for Answers {
    fn complete(&self, _: Tag, result: Result<Reply, OpError>) {
        self.0.send(result).unwrap();
    }
}

#[test]
fn writes_continue_during_the_flush_of_a_checkpoint() {
    let disk = MemoryDisk::new(GEOMETRY.capacity);
    Core::create(&disk, &GEOMETRY.check().unwrap(), ARRAY).unwrap();
    let disk = Arc::new(HangingDisk { disk, hangs: Mutex::default(), changed: Condvar::new() });
    let options = Options { dirty_limit: DIRTY_LIMIT, ..Options::for_geometry(&GEOMETRY) };
    let (core, _) = Core::recover(&*disk, Some(options)).unwrap();
    let engine = Engine::start(core, disk.clone());
    call(&engine, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 1 << 17 }])).unwrap();
    let (sender, answers) = channel();
    let sink: Arc<dyn Sink> = Arc::new(Answers(sender));
    for (step, seed) in [(Step::Flush, 0), (Step::Superblock, 100)] {
        disk.set(Some(step));
        engine.with_core(Core::request_checkpoint);
        disk.wait_hanging();
        // More than may be dirty, so the destager must write.
        for write in 0..8 * DIRTY_LIMIT / (128 << 10) {
            let op = Op::Write { volume: VOLUME, lba: Lba(write * 256), data: data(seed + write, 256), fua: false };
            engine.submit(op, 0, &sink);
            engine.kick();
            assert_eq!(answers.recv_timeout(PATIENCE), Ok(Ok(Reply::Done)), "write {write}, {step:?} hangs");
        }
        disk.set(None);
    }
    engine.close().unwrap();
}
