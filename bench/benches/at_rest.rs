//! Reads of data as it was written, and of the same data at rest, when the array has compressed it
//! again: the size of both, and the speed of the second relative to the first. Argument: a file
//! whose content is the data, for example a disk image; without one, pages of a database.
//!
//! * `busy`: written in a hurry, so that there was only time for LZ4.
//! * `calm`: written with time for zstd where LZ4 saves little.
//! * `memory`: a drive that takes no time, the worst case: only processor time counts.
//! * `flash`: each read of the drive takes 80 µs.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints its results"
)]

use bench::{Bench, database_like};
use bytes::Bytes;
use engine::{Op, Options, Reply};
use ondisk::ArrayGeometry;
use platform::{Disk, DiskError, Durability};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use testing::{MemoryDisk, SplitMix64};
use types::{BlockRange, Lba, VolumeId};

const MIB: u64 = 1 << 20;
const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 1 << 30, log_bytes: 64 << 20, segment_bytes: 4 << 20 };
/// Data written, in MiB.
const SIZE: u64 = 256;
/// Rounds of each measurement; the median counts.
const ROUNDS: usize = 7;
const RANDOM_READS: u64 = 4000;
const FLASH: Duration = Duration::from_micros(80);
/// Slow ticks that are enough for an array to compress all data.
const SLOW_TICKS: usize = 400;

/// A drive in memory whose reads take additional time.
#[derive(Clone)]
struct TimedDisk(Arc<(MemoryDisk, AtomicU64)>);

impl TimedDisk {
    fn wait(&self) {
        let time = Duration::from_nanos(self.0.1.load(Ordering::Relaxed));
        let begin = Instant::now();
        while begin.elapsed() < time {
            std::hint::spin_loop();
        }
    }
}

impl Disk for TimedDisk {
    fn size(&self) -> u64 {
        self.0.0.size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.wait();
        self.0.0.read_at(offset, buffer)
    }
    fn try_read_at(&self, _: u64, _: &mut [u8]) -> Result<bool, DiskError> {
        Ok(false)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        self.0.0.write_at(offset, parts, durability)
    }
    fn flush(&self) -> Result<(), DiskError> {
        self.0.0.flush()
    }
    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        self.0.0.allocate(offset, bytes)
    }
}

struct Array {
    bench: Bench<TimedDisk>,
    volume: VolumeId,
}

impl Array {
    fn new(data: &[Bytes], dirty_limit: u64) -> Self {
        let disk = TimedDisk(Arc::new((MemoryDisk::new(GEOMETRY.capacity), AtomicU64::new(0))));
        // Hardly any read finds its data in the cache.
        let options = Options { cache_bytes: MIB, dirty_limit, ..Options::for_geometry(&GEOMETRY) };
        let mut bench = Bench::on(disk, GEOMETRY, options);
        let volume = bench.create_volume(1, data.len() as u64 * MIB);
        for (lba, data) in (0..).step_by(2048).zip(data) {
            bench.run([Op::Write { volume, lba: Lba(lba), data: data.clone(), fua: false }]);
        }
        bench.core.request_checkpoint();
        bench.settle();
        Self { bench, volume }
    }

    fn rest(&mut self) {
        for _ in 0..SLOW_TICKS {
            self.bench.core.slow_tick();
            self.bench.settle();
        }
    }

    fn stored(&self) -> u64 {
        self.bench.core.space().data
    }

    fn read(&mut self, lba: u64, blocks: u64) {
        let range = BlockRange::new(Lba(lba), blocks).expect("a range within the volume");
        let reply = self.bench.run([Op::Read { volume: self.volume, range }]);
        assert!(matches!(reply, Reply::Data(data) if data.len() as u64 == blocks * 512));
    }

    /// Returns the seconds of one pass over all data in reads of 1 MiB.
    fn sequential(&mut self, mebibytes: u64) -> f64 {
        let begin = Instant::now();
        (0..mebibytes).for_each(|mebibyte| self.read(mebibyte * 2048, 2048));
        begin.elapsed().as_secs_f64()
    }

    /// Returns the seconds of [`RANDOM_READS`] reads of 4 KiB.
    fn random(&mut self, mebibytes: u64, seed: u64) -> f64 {
        let mut places = SplitMix64::new(seed);
        let begin = Instant::now();
        (0..RANDOM_READS).for_each(|_| self.read(places.below(mebibytes * 256) * 8, 8));
        begin.elapsed().as_secs_f64()
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the data, in pieces of 1 MiB. Those that are all zeros take no space and are left out.
fn pieces() -> Vec<Bytes> {
    let path = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let Some(path) = path else {
        let pages = database_like(1, SIZE as usize * 256);
        return pages.chunks(256).map(|pages| pages.concat().into()).collect();
    };
    let whole = Bytes::from(std::fs::read(path).expect("the file of data can be read"));
    let pieces = (0..whole.len() / MIB as usize).map(|at| whole.slice(at << 20..(at + 1) << 20));
    pieces.filter(|piece| piece.iter().any(|byte| *byte != 0)).take(SIZE as usize).collect()
}

fn main() {
    let data = pieces();
    let mebibytes = data.len() as u64;
    let calm = Options::for_geometry(&GEOMETRY).dirty_limit;
    let mut rested = Array::new(&data, calm);
    rested.rest();
    for (name, dirty_limit) in [("busy", 2 * MIB), ("calm", calm)] {
        let written = Array::new(&data, dirty_limit);
        let ratio = |array: &Array| (mebibytes * MIB) as f64 / array.stored() as f64;
        println!("{name}: {:.2} to 1 as written, {:.2} to 1 at rest", ratio(&written), ratio(&rested));
        compare(written, &mut rested, mebibytes);
    }
}

/// Prints the speed of both arrays.
fn compare(mut written: Array, rested: &mut Array, mebibytes: u64) {
    for (name, time) in [("memory", Duration::ZERO), ("flash", FLASH)] {
        for array in [&written, &*rested] {
            array.bench.disk.0.1.store(time.as_nanos() as u64, Ordering::Relaxed);
        }
        let mut times: [Vec<f64>; 4] = Default::default();
        for round in 0..ROUNDS as u64 {
            times[0].push(written.sequential(mebibytes));
            times[1].push(rested.sequential(mebibytes));
            times[2].push(written.random(mebibytes, round));
            times[3].push(rested.random(mebibytes, round));
        }
        let [sequential, sequential_rested, random, random_rested] = times.map(median);
        println!(
            "{name:<8} 1 MiB in order: {:>6.0} and {:>6.0} MiB/s, {:.2} x; 4 KiB at random: {:>7.0} and {:>7.0}/s, {:.2} x",
            mebibytes as f64 / sequential,
            mebibytes as f64 / sequential_rested,
            sequential / sequential_rested,
            RANDOM_READS as f64 / random,
            RANDOM_READS as f64 / random_rested,
            random / random_rested
        );
    }
}
