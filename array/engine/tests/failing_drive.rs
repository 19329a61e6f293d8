//! An open engine on a drive that fails or does not answer.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{MemoryDisk, create, data};
use engine::{BlockService, Change, Core, Engine, Maintenance, Op, OpError, Reply, call};
use ondisk::ArrayGeometry;
use parking_lot::{Condvar, Mutex};
use platform::{Disk, DiskError, Durability, clock};
use std::sync::Arc;
use types::{BlockRange, Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 16 << 20, log_bytes: 256 << 10, segment_bytes: 64 << 10 };
const V1: VolumeId = VolumeId(1);

/// The behaviour of durable writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Fails,
    Hangs,
}

struct FaultyDisk {
    disk: MemoryDisk,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    fault: Fault,
    /// A write has reached the drive and does not return.
    is_hanging: bool,
}

impl FaultyDisk {
    fn set(&self, fault: Fault) {
        self.state.lock().fault = fault;
        self.changed.notify_all();
    }

    fn wait_hanging(&self) {
        self.changed.wait_while(&mut self.state.lock(), |state| !state.is_hanging);
    }
}

impl Disk for FaultyDisk {
    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.disk.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        if durability == Durability::Durable {
            let mut state = self.state.lock();
            while state.fault == Fault::Hangs {
                state.is_hanging = true;
                self.changed.notify_all();
                self.changed.wait(&mut state);
            }
            if state.fault == Fault::Fails {
                return Err(DiskError::Io("no answer".to_owned()));
            }
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

fn open() -> (Arc<FaultyDisk>, Engine) {
    let (disk, core) = create(GEOMETRY);
    drop(core);
    let state = Mutex::new(State { fault: Fault::None, is_hanging: false });
    let disk = Arc::new(FaultyDisk { disk, state, changed: Condvar::new() });
    let (core, _) = Core::recover(&*disk, None).unwrap();
    let engine = Engine::start(core, disk.clone() as Arc<dyn Disk>);
    assert_eq!(call(&engine, Op::Change(vec![Change::CreateVolume { volume: V1, blocks: 4096 }])), Ok(Reply::Done));
    assert_eq!(call(&engine, write(0)), Ok(Reply::Done));
    (disk, engine)
}

fn write(lba: u64) -> Op {
    Op::Write { volume: V1, lba: Lba(lba), data: data(lba, 8), fua: false }
}

fn read(lba: u64) -> Op {
    Op::Read { volume: V1, range: BlockRange::new(Lba(lba), 8).unwrap() }
}

#[test]
fn stopped_engine_reports_and_reads() {
    let (disk, engine) = open();
    assert_eq!((engine.stopped(), engine.health().stopped), (None, None));
    disk.set(Fault::Fails);
    let reason: Arc<str> = "input/output error: no answer".into();
    assert_eq!(call(&engine, write(8)), Err(OpError::Stopped(reason.clone())));
    assert_eq!(engine.stopped(), Some(reason.clone()));
    assert_eq!(engine.health().stopped, Some(reason.clone()));
    assert_eq!(call(&engine, read(0)), Ok(Reply::Data(data(0, 8))));
    assert_eq!(call(&engine, read(8)), Err(OpError::Stopped(reason.clone())), "the write may be on the drive");
    disk.set(Fault::None);
    assert_eq!(call(&engine, write(16)), Err(OpError::Stopped(reason.clone())), "only a new start ends this state");
    assert_eq!(engine.close(), Err(reason));
    let (core, _) = Core::recover(&*disk, None).unwrap();
    let engine = Engine::start(core, disk.clone() as Arc<dyn Disk>);
    assert_eq!(call(&engine, read(0)), Ok(Reply::Data(data(0, 8))));
    assert_eq!(call(&engine, write(8)), Ok(Reply::Done));
    engine.close().unwrap();
}

#[test]
fn hanging_io_is_visible_until_it_ends() {
    let (disk, engine) = open();
    let watch = engine.io_watch();
    disk.set(Fault::Hangs);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| call(&engine, write(8)));
        disk.wait_hanging();
        assert!(watch.longest(clock::now()).is_some());
        assert_eq!(call(&engine, read(0)), Ok(Reply::Data(data(0, 8))), "other requests continue");
        disk.set(Fault::None);
        assert_eq!(writer.join().unwrap(), Ok(Reply::Done));
    });
    engine.close().unwrap();
    assert_eq!(watch.longest(clock::now()), None);
}
