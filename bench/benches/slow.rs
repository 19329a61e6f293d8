//! Throughput on slow drives, and beside a contended block. Each phase takes `SLOW_SECONDS` (4).
//! Arguments select phases by name: `reads`, `flush`, `log`, `hot`; none selects all.
//!
//! * `reads`: reads of the drive take 2 ms; 4 KiB reads that miss every cache.
//! * `flush`: a flush of the drive takes 2 s; 64 KiB writes.
//! * `log`: a durable write takes 10 ms; 1 MiB writes.
//! * `hot`: 2048 writers of one block beside 32 writers of another volume.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints its results"
)]

use bench::load::{run, run_for};
use bytes::Bytes;
use engine::{Change, Core, Engine, Maintenance, Op, Options, Owner, call};
use ondisk::ArrayGeometry;
use platform::{Disk, DiskError, Durability};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;
use testing::{MemoryDisk, Rng, noise};
use types::{BlockRange, Lba, VolumeId};

const MIB: u64 = 1 << 20;
const CAPACITY: u64 = 2 << 30;
const VOLUME_BYTES: u64 = 512 * MIB;
const FIRST: VolumeId = VolumeId(1);
const SECOND: VolumeId = VolumeId(2);
/// Rounds of the phase `log`.
const LOG_ROUNDS: usize = 3;

/// A drive in memory whose operations take additional time, in milliseconds.
struct SlowDisk {
    disk: MemoryDisk,
    read: AtomicU64,
    flush: AtomicU64,
    durable: AtomicU64,
}

fn delay(milliseconds: &AtomicU64) {
    match milliseconds.load(Ordering::Relaxed) {
        0 => {}
        time => sleep(Duration::from_millis(time)),
    }
}

impl Disk for SlowDisk {
    fn size(&self) -> u64 {
        self.disk.size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        delay(&self.read);
        self.disk.read_at(offset, buffer)
    }
    fn try_read_at(&self, _: u64, _: &mut [u8]) -> Result<bool, DiskError> {
        Ok(false)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        if durability == Durability::Durable {
            delay(&self.durable);
        }
        self.disk.write_at(offset, parts, durability)
    }
    fn flush(&self) -> Result<(), DiskError> {
        delay(&self.flush);
        self.disk.flush()
    }
    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        self.disk.allocate(offset, bytes)
    }
}

fn open() -> (Arc<SlowDisk>, Engine) {
    let geometry = ArrayGeometry::for_capacity(CAPACITY).expect("a geometry");
    // Little memory for unpacked groups, so that reads miss.
    open_with(geometry, Options::for_memory(&geometry, 128 * MIB, None))
}

/// The log of a large array, hence its memory for dirty blocks, in a drive that fits into memory.
fn large(log_bytes: u64) -> ArrayGeometry {
    ArrayGeometry { capacity: 4 * CAPACITY + log_bytes, log_bytes, segment_bytes: 8 * MIB }
}

fn open_with(geometry: ArrayGeometry, options: Options) -> (Arc<SlowDisk>, Engine) {
    let disk = MemoryDisk::new(geometry.capacity);
    let times = || AtomicU64::new(0);
    let disk = Arc::new(SlowDisk { disk, read: times(), flush: times(), durable: times() });
    Core::create(&*disk, &geometry, [7; 16]).expect("an array");
    let (core, _) = Core::recover(&*disk, Some(options)).expect("a core");
    let engine = Engine::start(core, disk.clone());
    for volume in [FIRST, SECOND] {
        call(&engine, Op::Change(vec![Change::CreateVolume { volume, blocks: VOLUME_BYTES / 512 }])).expect("a volume");
    }
    (disk, engine)
}

/// Incompressible bytes without copying them: slices of a pool, from any byte on.
fn data(pool: &Bytes, rng: &mut Rng, bytes: u64) -> Bytes {
    let from = rng.below(pool.len() as u64 - bytes) as usize;
    pool.slice(from..from + bytes as usize)
}

fn random_write(volume: VolumeId, pool: &Bytes, rng: &mut Rng, bytes: u64) -> Op {
    let lba = Lba(rng.below(VOLUME_BYTES / bytes) * (bytes / 512));
    Op::Write { volume, lba, data: data(pool, rng, bytes), fua: false }
}

fn reads(seconds: u64, pool: &Bytes) {
    let (disk, engine) = open();
    let mut rng = Rng::new(1);
    for mib in 0..VOLUME_BYTES / MIB {
        let write = Op::Write { volume: FIRST, lba: Lba(mib * 2048), data: data(pool, &mut rng, MIB), fua: false };
        call(&engine, write).expect("a write");
    }
    // After a checkpoint all data is on the drive.
    engine.account_space(&|family| Owner { family, is_snapshot: false }, None).expect("a count");
    disk.read.store(2, Ordering::Relaxed);
    for depth in [1, 8, 32, 128] {
        let next = || {
            let range = BlockRange::new(Lba(rng.below(VOLUME_BYTES / 4096) * 8), 8).expect("a range");
            Op::Read { volume: FIRST, range }
        };
        run_for(&engine, depth, seconds, next).print(&format!("2 ms reads, 4 KiB, depth {depth}"), 4096);
    }
    disk.read.store(0, Ordering::Relaxed);
    engine.close().expect("the engine closes");
}

fn flush(seconds: u64, pool: &Bytes) {
    // Hosts write to the log during the drain and the flush of a checkpoint, and the flush of the
    // next one: 1 GiB of it, as on an array of 128 GiB, is short for that, and 2 GiB are not.
    for log_bytes in [1 << 30, 2 << 30] {
        let geometry = large(log_bytes);
        for time in [0, 2000] {
            let (disk, engine) = open_with(geometry, Options::for_geometry(&geometry));
            disk.flush.store(time, Ordering::Relaxed);
            let mut rng = Rng::new(2);
            let outcome = run_for(&engine, 8, 4 * seconds, || random_write(FIRST, pool, &mut rng, 64 << 10));
            let log = log_bytes >> 30;
            outcome.print(&format!("{log} GiB of log, flush {time} ms, 64 KiB, depth 8"), 64 << 10);
            disk.flush.store(0, Ordering::Relaxed);
            engine.close().expect("the engine closes");
        }
    }
}

fn log(seconds: u64, pool: &Bytes) {
    // In turns, because the speed of the machine changes.
    let mut parts = Vec::new();
    let geometry = large(1 << 30);
    for _ in 0..LOG_ROUNDS {
        let [without, with] = [0, 10].map(|time| {
            let (disk, engine) = open_with(geometry, Options::for_geometry(&geometry));
            disk.durable.store(time, Ordering::Relaxed);
            let rates = [1, 16].map(|depth| {
                let mut rng = Rng::new(3);
                let outcome = run_for(&engine, depth, seconds, || random_write(FIRST, pool, &mut rng, MIB));
                outcome.print(&format!("durable write {time} ms, 1 MiB, depth {depth}"), MIB);
                outcome.per_second
            });
            disk.durable.store(0, Ordering::Relaxed);
            engine.close().expect("the engine closes");
            rates
        });
        parts.push(with[1] / without[1]);
    }
    parts.sort_unstable_by(f64::total_cmp);
    println!("depth 16, 10 ms beside 0 ms: {:.2} x (median), {parts:.2?}", parts[parts.len() / 2]);
}

fn hot(seconds: u64, pool: &Bytes) {
    let (_disk, engine) = open();
    let mut rng = Rng::new(4);
    run_for(&engine, 32, seconds, || random_write(SECOND, pool, &mut rng, 4096)).print("4 KiB writes, alone", 4096);
    let is_over = AtomicBool::new(false);
    let (other, hot) = scope(|scope| {
        let hot = scope.spawn(|| {
            let mut rng = Rng::new(5);
            let next = || Op::Write { volume: FIRST, lba: Lba(0), data: data(pool, &mut rng, 4096), fua: false };
            run(&engine, 2048, &is_over, next)
        });
        let other = run_for(&engine, 32, seconds, || random_write(SECOND, pool, &mut rng, 4096));
        is_over.store(true, Ordering::Relaxed);
        (other, hot.join().expect("the load"))
    });
    other.print("4 KiB writes, beside 2048 of one block", 4096);
    hot.print("the 2048 writers of one block", 4096);
    engine.close().expect("the engine closes");
}

fn main() {
    let seconds = std::env::var("SLOW_SECONDS").ok().and_then(|value| value.parse().ok()).unwrap_or(4);
    let pool = Bytes::from(noise(1, 64 << 20));
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    type Phase = fn(u64, &Bytes);
    let phases: [(&str, Phase); 4] = [("reads", reads), ("flush", flush), ("log", log), ("hot", hot)];
    for (name, phase) in phases {
        if chosen.is_empty() || chosen.iter().any(|wanted| wanted == name) {
            phase(seconds, &pool);
        }
    }
}
