//! Latency of writes while space accounting, audits and scrubs run: an array that is 80 % full, on
//! a drive whose reads take 4 ms. `SCANS_GIB` (1) is its size, `SCANS_SECONDS` (30) the time of
//! each phase: without the scans, and with them. Fails if the scans delay a write beyond 500 ms
//! that would not have taken as long without them.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints its results"
)]

use engine::{Change, Core, Engine, Maintenance, Op, Options, Owner, call};
use ondisk::ArrayGeometry;
use platform::{Disk, DiskError, Durability};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};
use testing::{MemoryDisk, Rng};
use types::{Lba, VolumeId};

const VOLUME: VolumeId = VolumeId(1);
const WRITERS: u64 = 8;
const MIB: u64 = 1 << 20;
/// Longest time that scans may delay a write.
const LIMIT: Duration = Duration::from_millis(500);

/// A drive whose reads take 4 ms.
struct SlowReads(MemoryDisk, AtomicU64);

impl Disk for SlowReads {
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(4));
        self.0.read_at(offset, buffer)
    }
    fn try_read_at(&self, _: u64, _: &mut [u8]) -> Result<bool, DiskError> {
        Ok(false)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        self.0.write_at(offset, parts, durability)
    }
    fn flush(&self) -> Result<(), DiskError> {
        self.0.flush()
    }
    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        self.0.allocate(offset, bytes)
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn write(engine: &Engine, lba: u64, seed: u64, bytes: u64) {
    let data = testing::noise(seed, bytes as usize).into();
    call(engine, Op::Write { volume: VOLUME, lba: Lba(lba), data, fua: false }).expect("a write");
}

/// Overwrites random 16 KiB for `seconds`. Returns the latencies in ascending order.
fn overwrite(engine: &Engine, blocks: u64, seconds: u64, phase: u64) -> Vec<Duration> {
    let is_over = AtomicBool::new(false);
    let mut all: Vec<Duration> = scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut rng = Rng::part(phase, writer);
                    let mut latencies = Vec::new();
                    while !is_over.load(Ordering::Relaxed) {
                        let lba = rng.below(blocks / 32) * 32;
                        let start = Instant::now();
                        write(engine, lba, rng.next_u64(), 16 << 10);
                        latencies.push(start.elapsed());
                        // Leaves processor time to the scans on a small machine.
                        sleep(Duration::from_millis(2));
                    }
                    latencies
                })
            })
            .collect();
        sleep(Duration::from_secs(seconds));
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().expect("a writer")).collect()
    });
    all.sort_unstable();
    all
}

fn report(name: &str, latencies: &[Duration]) {
    let at = |part: usize| latencies[(latencies.len() - 1) * part / 1000];
    println!("{name}: {} writes, p50 {:.1?}, p99.9 {:.1?}, worst {:.1?}", latencies.len(), at(500), at(999), at(1000));
}

/// Reports whether the writes beside the scans keep the limit. Returns false if they do not.
fn judge(without: &[Duration], with: &[Duration]) -> bool {
    let late = |latencies: &[Duration]| latencies.iter().filter(|latency| **latency > LIMIT).count();
    let longest = without.last().copied().unwrap_or_default().max(LIMIT);
    let is_met = with.last().is_some_and(|worst| *worst <= longest);
    let verdict = if is_met { "met" } else { "MISSED" };
    println!("writes over {LIMIT:?}: {} without scans, {} with: {verdict}", late(without), late(with));
    is_met
}

/// Runs space accounting and scrubs, each with an audit, one after the other.
fn scan(engine: &Engine, disk: &SlowReads, is_over: &AtomicBool) {
    let (mut counts, mut postponed, mut longest) = (0, 0, Duration::ZERO);
    let owner = |volume| Owner { family: volume, is_snapshot: false };
    while !is_over.load(Ordering::Relaxed) {
        engine.scrub(64 * MIB);
        let (start, reads) = (Instant::now(), disk.1.load(Ordering::Relaxed));
        match engine.account_space(&owner, None) {
            Some(_) => counts += 1,
            None => postponed += 1,
        }
        longest = longest.max(start.elapsed());
        println!("  count in {:.1?}, {} reads", start.elapsed(), disk.1.load(Ordering::Relaxed) - reads);
    }
    let scrubs = engine.health().scrubs;
    println!("scans: {counts} counts, longest {longest:.1?}, {postponed} postponed; {scrubs} scrubs with an audit");
    assert!(counts > 0 || scrubs > 0, "nothing was scanned");
    assert!(engine.health().damage.is_empty(), "{:?}", engine.health().damage);
}

fn main() -> ExitCode {
    let (capacity, seconds) = (setting("SCANS_GIB", 1) << 30, setting("SCANS_SECONDS", 30));
    let geometry = ArrayGeometry::for_capacity(capacity).expect("a geometry");
    let disk = Arc::new(SlowReads(MemoryDisk::new(capacity), AtomicU64::new(0)));
    Core::create(&disk.0, &geometry, [7; 16]).expect("an array");
    let options = Options::for_memory(&geometry, 256 * MIB, None);
    let (core, _) = Core::recover(&disk.0, Some(options)).expect("a core");
    let engine = Engine::start(core, disk.clone());
    let pool = engine.space().capacity;
    let blocks = pool / 10 * 8 / MIB * MIB / 512;
    call(&engine, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks }])).expect("a volume");
    (0..blocks / 2048).for_each(|mib| write(&engine, mib * 2048, mib, MIB));
    let space = engine.space();
    println!("{} MiB of {} MiB are used", space.used / MIB, pool / MIB);
    // Until the cleaner works at the pace of the writes.
    overwrite(&engine, blocks, seconds / 2, 0);
    let without = overwrite(&engine, blocks, seconds, 1);
    report("without scans", &without);
    let is_over = AtomicBool::new(false);
    let latencies = scope(|scope| {
        let scanning = scope.spawn(|| scan(&engine, &disk, &is_over));
        let latencies = overwrite(&engine, blocks, seconds, 2);
        is_over.store(true, Ordering::Relaxed);
        engine.cancel_background_scans();
        scanning.join().expect("the scans");
        latencies
    });
    report("with scans", &latencies);
    engine.close().expect("the engine closes");
    if judge(&without, &latencies) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
