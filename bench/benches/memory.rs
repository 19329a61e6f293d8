//! Memory use of the array for a given amount of data: unique, incompressible blocks, 16 GiB of
//! them with `MEMORY_GIB=16`.
//!
//! The drive discards data blocks, which it recognises by a mark in each sector, because they are
//! never read. It keeps metadata in a sparse file. The memory of the process is therefore that of
//! the array.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a benchmark reads the clock and its own memory use"
)]

use bench::Bench;
use bytes::Bytes;
use engine::{Op, Options};
use ondisk::{ArrayGeometry, SECTOR_BYTES};
use platform::{Disk, DiskError, Durability, FileDisk, TemporaryDirectory};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use testing::SplitMix64;
use types::Lba;

const GIB: u64 = 1 << 30;
const SECTOR: usize = SECTOR_BYTES as usize;

/// Returns the mark of a data sector: the first word, derived from the second.
fn mark(second: u64) -> u64 {
    second.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D
}

fn word(sector: &[u8], at: usize) -> u64 {
    sector[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// A drive that keeps everything except marked sectors and the log.
struct ForgetfulDisk {
    kept: FileDisk,
    log_start: u64,
    log_end: u64,
}

impl Disk for ForgetfulDisk {
    fn size(&self) -> u64 {
        self.kept.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.kept.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]], _: Durability) -> Result<(), DiskError> {
        if (self.log_start..self.log_end).contains(&offset) {
            return Ok(());
        }
        let bytes = parts.concat();
        let is_kept = |sector: &[u8]| sector.len() < SECTOR || word(sector, 0) != mark(word(sector, 8));
        let mut at = offset;
        for run in bytes.chunks(SECTOR).collect::<Vec<_>>().chunk_by(|a, b| is_kept(a) == is_kept(b)) {
            if is_kept(run[0]) {
                self.kept.write_at(at, run, Durability::Volatile)?;
            }
            at += run.iter().map(|sector| sector.len() as u64).sum::<u64>();
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn allocate(&self, _: u64, _: u64) -> Result<(), DiskError> {
        Ok(())
    }
}

/// Returns one MiB of unique, incompressible data.
fn unique(random: &mut SplitMix64) -> Bytes {
    let mut data = Vec::with_capacity(1 << 20);
    while data.len() < 1 << 20 {
        let second = random.next_u64();
        data.extend_from_slice(&mark(second).to_le_bytes());
        data.extend_from_slice(&second.to_le_bytes());
        (2..SECTOR / 8).for_each(|_| data.extend_from_slice(&random.next_u64().to_le_bytes()));
    }
    data.into()
}

/// Returns the resident memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or_default() << 10
}

/// Fills an array with `gib` GiB of unique data under a memory budget, and prints its memory use on
/// the way.
fn fill(directory: &Path, gib: u64, memory: u64) {
    let geometry = ArrayGeometry::for_capacity(gib * GIB * 9 / 8 + GIB).expect("a valid geometry");
    let kept = FileDisk::create(&directory.join(format!("drive-{memory}")), geometry.capacity).expect("a sparse file");
    let disk = ForgetfulDisk { kept, log_start: geometry.log_start(), log_end: geometry.segment_start(0) };
    let before = resident();
    let mut bench = Bench::on(disk, geometry, Options::for_memory(&geometry, memory, None));
    let volume = bench.create_volume(1, 2 * gib * GIB);
    let mut random = SplitMix64::new(memory);
    let (start, mib) = (Instant::now(), |bytes: u64| bytes >> 20);
    println!("\nmemory {} MiB, array of {} GiB", mib(memory), geometry.capacity / GIB);
    println!(
        "{:>8}{:>12}{:>10}{:>10}{:>10}{:>16}{:>8}",
        "unique", "resident", "slots", "pages", "index", "metadata a TiB", "MB/s"
    );
    for mebibyte in 0..gib << 10 {
        let data = unique(&mut random);
        bench.run([Op::Write { volume, lba: Lba(mebibyte << 11), data, fua: false }]);
        let held = mebibyte + 1;
        if held.is_multiple_of((gib << 10) / 4) {
            let (usage, taken) = (bench.core.usage(), resident().saturating_sub(before));
            // Memory that grows with the data. The rest of the resident memory is dirty blocks,
            // cache, buffers and memory kept by the allocator.
            let metadata = (usage.slots + usage.pages + usage.index) as f64 / (held << 20) as f64;
            let rate = (held << 20) as f64 / start.elapsed().as_secs_f64() / 1e6;
            let columns = [usage.slots, usage.pages, usage.index].map(mib);
            println!(
                "{:>4.1} GiB{:>8} MiB{:>10}{:>10}{:>10}{:>12.2} GiB{rate:>8.0}",
                held as f64 / 1024.0,
                mib(taken),
                columns[0],
                columns[1],
                columns[2],
                metadata * 1024.0,
            );
        }
    }
    bench.settle();
    let space = bench.core.space();
    assert!(space.data >= gib * GIB, "no data were deduplicated or compressed: {space:?}");
}

/// Returns a number from the environment.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn main() {
    let gib = setting("MEMORY_GIB").unwrap_or(2);
    if let Some(mib) = setting("MEMORY_MIB") {
        let directory = TemporaryDirectory::new(None, "ibid-memory").expect("a directory for the drive");
        return fill(directory.path(), gib, mib << 20);
    }
    // Measures 6 GiB per TiB of data, and an unlimited budget. Each run is a separate process, so
    // that the runs do not affect each other.
    let program = std::env::current_exe().expect("this program has a path");
    for mib in [6 * gib, 4 << 10] {
        let run = Command::new(&program).env("MEMORY_MIB", mib.to_string()).status().expect("this program runs again");
        assert!(run.success(), "{run}");
    }
}
