//! A scan of a checkpoint while hosts need the segments that it pins.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{ARRAY, MemoryDisk, data};
use engine::{Change, Core, Engine, Maintenance, Op, OpError, Owner, Reply, call};
use ondisk::ArrayGeometry;
use parking_lot::{Condvar, Mutex};
use platform::{Disk, DiskError, Durability};
use std::sync::Arc;
use types::{Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 16 << 20, log_bytes: 512 << 10, segment_bytes: 128 << 10 };
/// Logical blocks of the first volume.
const BLOCKS: u64 = 10_240;
const SCANNER: &str = "scanner";

#[derive(Default)]
struct Gate {
    is_closed: bool,
    is_waiting: bool,
}

/// A drive that can hold the reads of the thread [`SCANNER`].
struct GatedDisk {
    disk: MemoryDisk,
    gate: Mutex<Gate>,
    changed: Condvar,
}

impl GatedDisk {
    fn set_closed(&self, is_closed: bool) {
        self.gate.lock().is_closed = is_closed;
        self.changed.notify_all();
    }

    /// Blocks until the scanner waits for a read.
    fn wait_for_scanner(&self) {
        self.changed.wait_while(&mut self.gate.lock(), |gate| !gate.is_waiting);
    }
}

impl Disk for GatedDisk {
    fn size(&self) -> u64 {
        self.disk.size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        if std::thread::current().name() == Some(SCANNER) {
            let mut gate = self.gate.lock();
            gate.is_waiting = true;
            self.changed.notify_all();
            self.changed.wait_while(&mut gate, |gate| gate.is_closed);
        }
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

fn write(engine: &Engine, volume: u64, lba: u64, seed: u64) -> Result<Reply, OpError> {
    call(engine, Op::Write { volume: VolumeId(volume), lba: Lba(lba), data: data(seed, 128), fua: false })
}

fn change(engine: &Engine, change: Change) {
    assert_eq!(call(engine, Op::Change(vec![change])), Ok(Reply::Done));
}

#[test]
fn scan_begins_again_after_hosts_took_its_space() {
    let disk = MemoryDisk::new(GEOMETRY.capacity);
    Core::create(&disk, &GEOMETRY.check().unwrap(), ARRAY).unwrap();
    let (core, _) = Core::recover(&disk, None).unwrap();
    let disk = Arc::new(GatedDisk { disk, gate: Mutex::default(), changed: Condvar::new() });
    let engine = Engine::start(core, disk.clone());
    change(&engine, Change::CreateVolume { volume: VolumeId(1), blocks: BLOCKS });
    change(&engine, Change::CreateVolume { volume: VolumeId(2), blocks: 1 << 20 });
    let overwrite = |round: u64| {
        for lba in (0..BLOCKS).step_by(128) {
            assert_eq!(write(&engine, 1, lba, round * BLOCKS + lba), Ok(Reply::Done));
        }
    };
    overwrite(0);
    disk.set_closed(true);
    let owner = |volume| Owner { family: volume, is_snapshot: false };
    let counted = std::thread::scope(|scope| {
        let scanner = std::thread::Builder::new().name(SCANNER.to_owned());
        let scanner = scanner.spawn_scoped(scope, || engine.account_space(&owner, None)).unwrap();
        disk.wait_for_scanner();
        change(&engine, Change::CreateVolume { volume: VolumeId(3), blocks: 8 });
        // No write waits for the scanner, whose drive has stopped: neither here nor on a full pool.
        (1..4).for_each(overwrite);
        let refused = (0..1 << 20).step_by(128).find_map(|lba| write(&engine, 2, lba, 1 << 40 | lba).err());
        assert_eq!(refused, Some(OpError::NoSpace));
        change(&engine, Change::DeleteVolume { volume: VolumeId(2) });
        disk.set_closed(false);
        scanner.join().unwrap()
    });
    let counted = counted.expect("a count");
    assert!(counted.families.contains_key(&VolumeId(3)), "the count is that of a newer checkpoint");
    assert_eq!(counted.families[&VolumeId(1)].written, BLOCKS * 512);
}
