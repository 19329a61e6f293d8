//! Random 4 KiB reads of a file that is not in the page cache, beside the same reads by fio (if it
//! is installed) and by threads without the engine, in turns. Linux only.
//!
//! `COLD_DIR` (`tmp` of the target directory) receives a file of 1.5 × `COLD_GIB` (4).
//! `COLD_SECONDS` (4) is the time of a turn, `COLD_ROUNDS` (3) the number of turns, `COLD_DEPTH`
//! (32) the number of reads under way.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark reads the clock, starts programs and prints its results"
)]

use bytes::Bytes;
use engine::{BlockService, Change, Core, Engine, Maintenance, Op, OpError, Options, Owner, Reply, Sink, Tag, call};
use ondisk::ArrayGeometry;
use platform::FileDisk;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::scope;
use std::time::{Duration, Instant};
use testing::{Rng, noise};
use types::{BlockRange, Lba, VolumeId};

const MIB: u64 = 1 << 20;
const VOLUME: VolumeId = VolumeId(1);
/// Processor time of `/proc/self/stat` is counted in units of 10 ms.
const TICKS_PER_SECOND: f64 = 100.0;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Passes the tags of completed reads to the thread of the load.
struct Completions(Sender<Tag>);

impl Sink for Completions {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        assert!(matches!(result.expect("a read"), Reply::Data(data) if data.len() == 4096));
        // Reads may complete after the load has ended.
        let _ = self.0.send(tag);
    }
}

/// Consumption of the process: processor seconds, and bytes that the drive has read for it.
fn consumed() -> (f64, u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a stat");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    let ticks: f64 = fields[11..13].iter().map(|ticks| ticks.parse::<f64>().expect("ticks")).sum();
    let io = std::fs::read_to_string("/proc/self/io").expect("counters");
    let read = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")).expect("a counter");
    (ticks / TICKS_PER_SECOND, read.parse().expect("a number"))
}

/// Reads per second with `depth` reads under way, the processor time and drive bytes of each.
fn measure(reads: impl FnOnce() -> (u64, Duration)) -> (f64, f64, f64) {
    let (time, bytes) = consumed();
    let (count, elapsed) = reads();
    let (time_after, bytes_after) = consumed();
    let each = |total: f64| total / count as f64;
    (count as f64 / elapsed.as_secs_f64(), each((time_after - time) * 1e6), each((bytes_after - bytes) as f64))
}

/// Reads of the volume, each block at most once in the order of `blocks`.
fn engine_reads(engine: &Engine, depth: u64, seconds: u64, blocks: &mut impl Iterator<Item = u64>) -> (u64, Duration) {
    let (sender, receiver) = channel();
    let sink: Arc<dyn Sink> = Arc::new(Completions(sender));
    let mut submit = |tag| {
        let block = blocks.next().expect("more blocks than reads: set COLD_GIB");
        let range = BlockRange::new(Lba(block * 8), 8).expect("a range");
        engine.submit(Op::Read { volume: VOLUME, range }, tag, &sink);
    };
    let (begin, mut count) = (Instant::now(), 0);
    (0..depth).for_each(&mut submit);
    while begin.elapsed() < Duration::from_secs(seconds) {
        let tag = receiver.recv().expect("a reply");
        count += 1;
        submit(tag);
    }
    let elapsed = begin.elapsed();
    receiver.iter().take(depth as usize).for_each(|_| {});
    (count, elapsed)
}

/// Reads of the file that bypass the page cache, on `depth` threads.
fn thread_reads(disk: &FileDisk, depth: u64, seconds: u64, blocks: &[u64]) -> (u64, Duration) {
    let (begin, next) = (Instant::now(), AtomicU64::new(0));
    let read = || {
        while begin.elapsed() < Duration::from_secs(seconds) {
            let block = blocks[next.fetch_add(1, Ordering::Relaxed) as usize % blocks.len()];
            disk.read_uncached(block * 4096).expect("a read");
        }
    };
    scope(|scope| {
        for _ in 0..depth {
            scope.spawn(read);
        }
    });
    (next.into_inner(), begin.elapsed())
}

/// Reads of the file by fio. `None` if it is not installed.
fn fio_reads(path: &Path, depth: u64, seconds: u64) -> Option<f64> {
    let run = Command::new("fio")
        .args(["--name=cold", "--direct=1", "--ioengine=libaio", "--rw=randread", "--bs=4k", "--readonly"])
        .args(["--time_based", "--norandommap", "--output-format=terse", "--terse-version=3"])
        .args([format!("--iodepth={depth}"), format!("--runtime={seconds}")])
        .args([format!("--filename={}", path.display()), format!("--size={}", number("COLD_GIB", 4) << 30)])
        .output();
    let output = String::from_utf8(run.ok()?.stdout).expect("text");
    // The eighth field of the terse format is the rate of reads.
    Some(output.lines().find_map(|line| line.split(';').nth(7)).and_then(|rate| rate.parse().ok()).expect("a rate"))
}

/// Drops the pages of the file from the page cache.
fn drop_cache(path: &Path) {
    let file = format!("if={}", path.display());
    let status = Command::new("dd").args(["iflag=nocache", "count=0", "status=none", &file]).status();
    assert!(status.expect("dd").success(), "dd has dropped the cache");
}

fn shuffled(count: u64, rng: &mut Rng) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count).collect();
    (1..order.len()).rev().for_each(|at| order.swap(at, rng.below(at as u64 + 1) as usize));
    order
}

fn main() {
    let (gib, seconds, rounds, depth) =
        (number("COLD_GIB", 4), number("COLD_SECONDS", 4), number("COLD_ROUNDS", 3), number("COLD_DEPTH", 32));
    let folder = std::env::var("COLD_DIR").unwrap_or_else(|_| env!("CARGO_TARGET_TMPDIR").into());
    let path = PathBuf::from(folder).join("ibid-cold");
    let _ = std::fs::remove_file(&path);
    let geometry = ArrayGeometry::for_capacity((gib << 30) * 3 / 2).expect("a geometry");
    let disk = Arc::new(FileDisk::create(&path, geometry.capacity).expect("a new file"));
    Core::create(&*disk, &geometry, [7; 16]).expect("an array");
    let (core, _) = Core::recover(&*disk, Some(Options::for_memory(&geometry, 1 << 30, None))).expect("a core");
    let engine = Engine::start(core, disk.clone());
    let blocks = gib << 30 >> 12;
    call(&engine, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: blocks * 8 }])).expect("a volume");
    let mut rng = Rng::new(1);
    for mib in 0..gib << 10 {
        let data = Bytes::from(noise(mib, MIB as usize));
        call(&engine, Op::Write { volume: VOLUME, lba: Lba(mib * 2048), data, fua: false }).expect("a write");
    }
    // After a checkpoint all data is in segments.
    engine.account_space(&|family| Owner { family, is_snapshot: false }, None).expect("a count");
    let mut order = shuffled(blocks, &mut rng).into_iter().cycle();
    let places = shuffled(blocks, &mut rng);
    println!(
        "{gib} GiB, depth {depth}, reads per second; engine: microseconds of processor and bytes of the drive each"
    );
    for _ in 0..rounds {
        let fio = fio_reads(&path, depth, seconds);
        let (threads, ..) = measure(|| thread_reads(&disk, depth, seconds, &places));
        drop_cache(&path);
        let (rate, time, bytes) = measure(|| engine_reads(&engine, depth, seconds, &mut order));
        let fio = fio.map_or("none".to_owned(), |fio| format!("{fio:.0}, engine {:.2} x", rate / fio));
        println!(
            "engine {rate:.0} ({time:.1} us, {bytes:.0} B); threads {threads:.0}, engine {:.2} x; fio {fio}",
            rate / threads
        );
    }
    engine.close().expect("the engine closes");
    std::fs::remove_file(&path).expect("the file");
}
