//! An aged array at real size: a volume of distinct blocks, fragmented by random overwrites, on a
//! disk that computes its contents. Arguments select phases by name; none selects all.
//!
//! * `opening`: reads and time to open arrays of 256 GiB to 2 TiB, each read of the disk 1 ms, 2
//!   GiB of memory.
//! * `snapshots`: random 4 KiB writes to 1 TiB with the memory of `ibid serve`, before and after
//!   snapshots; the last two are kept.
//! * `crash`: random writes until the log is as long as it gets, then the time to open the array,
//!   each read of the disk 1 ms, 2 GiB of memory.
//! * `copies`: a clone of 100 GiB by EXTENDED COPY, UNMAP of it, deletion, and a restart.
//! * `week`: a snapshot each hour, the last 24 kept, for 168 hours. An hour is a number of random 4
//!   KiB writes. Its idle time is left out, so dropping snapshots competes with writes.
//!
//! `AGED_GIB` (1024) is the size of the last four, `AGED_FULL` (0.8) the part of data segments in
//! use, `AGED_SECONDS` (10) the time of each phase of writes, `AGED_MEMORY_MIB` (a quarter of the
//! machine's memory) the memory of the array, `AGED_WRITE_KIB` (4) the size of the writes before
//! the crash, `AGED_HOUR` (8000) the writes of an hour. `AGED_SNAPSHOTS` (5) and `AGED_DAYS` (7)
//! make runs shorter.
//!
//! *cpu* is the processor time of a write in microseconds, without that of the drive, which a real
//! drive does not take.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints its results"
)]

use bench::{AGED_VOLUME, AgedDisk, noise_block};
use engine::{
    BlockService, Change, Core, DriveWrites, Engine, Maintenance, Op, OpError, Options, Reply, Sink, Tag, call,
};
use platform::{clock, memory};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use testing::SplitMix64;
use types::{BlockRange, LBAS_PER_BLOCK, Lba, VolumeId};

const GIB: u64 = 1 << 30;
const DEPTH: u64 = 32;
const COPY_BYTES: u64 = 16 << 20;
/// Memory for the writes of a window. The drive takes it before the time is measured.
const SPARE_BYTES: u64 = 2 << 30;

fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Passes replies to the thread that submits.
struct Replies(parking_lot::Mutex<Sender<(Tag, Instant)>>);

impl Sink for Replies {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        result.expect("every operation succeeds");
        self.0.lock().send((tag, Instant::now())).expect("the receiver lives as long as the load");
    }
}

/// An open array with a load.
struct Load {
    disk: Arc<AgedDisk>,
    engine: Engine,
    sink: Arc<dyn Sink>,
    replies: Receiver<(Tag, Instant)>,
    random: SplitMix64,
    next_seed: u64,
}

impl Load {
    fn open(disk: Arc<AgedDisk>, options: Options) -> Self {
        let (core, _) = Core::recover(&*disk, Some(options)).expect("the array opens");
        let (sender, replies) = channel();
        let engine = Engine::start(core, disk.clone());
        let sink: Arc<dyn Sink> = Arc::new(Replies(parking_lot::Mutex::new(sender)));
        Self { disk, engine, sink, replies, random: SplitMix64::new(1), next_seed: 1 }
    }

    fn write(&mut self) -> Op {
        self.next_seed += 1;
        let block = self.random.below(self.disk.volume_blocks());
        let data = noise_block(self.next_seed).into();
        Op::Write { volume: AGED_VOLUME, lba: Lba(block * LBAS_PER_BLOCK), data, fua: false }
    }

    /// Runs operations, [`DEPTH`] at a time, until `next` has no more. Returns their latencies in
    /// ascending order.
    fn run(&mut self, mut next: impl FnMut(&mut Self) -> Option<Op>) -> Vec<Duration> {
        let mut started = vec![Instant::now(); DEPTH as usize];
        let (mut latencies, mut is_over) = (Vec::new(), false);
        let mut free: Vec<Tag> = (0..DEPTH).collect();
        while !is_over || (free.len() as u64) < DEPTH {
            while !is_over && let Some(tag) = free.pop() {
                let Some(op) = next(self) else {
                    is_over = true;
                    free.push(tag);
                    break;
                };
                started[tag as usize] = Instant::now();
                self.engine.submit(op, tag, &self.sink);
            }
            self.engine.kick();
            if (free.len() as u64) == DEPTH {
                break;
            }
            let first = self.replies.recv().expect("the sink lives as long as the load");
            for (tag, ended) in std::iter::once(first).chain(self.replies.try_iter()) {
                latencies.push(ended.duration_since(started[tag as usize]));
                free.push(tag);
            }
        }
        latencies.sort_unstable();
        latencies
    }

    /// Runs random writes until `is_over`.
    fn window(&mut self, mut is_over: impl FnMut(u64) -> bool) -> Window {
        let (before, begin) = (self.engine.space().drive_writes, Instant::now());
        let (cpu, drive_cpu) = (clock::process_cpu_time(), self.disk.cpu_time());
        self.disk.take_reads();
        let mut count = 0;
        let latencies = self.run(|load| {
            count += 1;
            (!is_over(count - 1)).then(|| load.write())
        });
        let took = begin.elapsed();
        let drive_cpu = self.disk.cpu_time() - drive_cpu;
        let cpu = (clock::process_cpu_time() - cpu).saturating_sub(drive_cpu);
        let (reads, _) = self.disk.take_reads();
        Window { latencies, took, cpu, drive_cpu, reads, before, after: self.engine.space().drive_writes }
    }

    /// Writes for `seconds`, and prints the figures. Returns the writes per second.
    fn measure(&mut self, name: &str, seconds: f64) -> f64 {
        self.disk.provide(SPARE_BYTES);
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        let window = self.window(|_| Instant::now() >= end);
        window.print(name);
        window.rate()
    }

    fn change(&self, change: Change) -> Duration {
        let begin = Instant::now();
        call(&self.engine, Op::Change(vec![change])).expect("a change");
        begin.elapsed()
    }
}

/// Some writes, with their latencies.
struct Window {
    /// In ascending order.
    latencies: Vec<Duration>,
    took: Duration,
    /// Processor time of the process without its drive, and of the drive.
    cpu: Duration,
    drive_cpu: Duration,
    /// Reads of the drive.
    reads: u64,
    before: DriveWrites,
    after: DriveWrites,
}

impl Window {
    fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }

    /// Adds the window that follows this one.
    fn extend(&mut self, next: Self) {
        self.latencies.extend(next.latencies);
        self.latencies.sort_unstable();
        self.took += next.took;
        self.cpu += next.cpu;
        self.drive_cpu += next.drive_cpu;
        self.reads += next.reads;
        self.after = next.after;
    }

    fn head() {
        println!(
            "{:34} {:>11} {:>8} {:>8} {:>8} {:>6} {:>6} {:>6} {:>8} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}",
            "random 4 KiB writes",
            "",
            "p50 ms",
            "p99",
            "worst",
            "cpu us",
            "drive",
            "reads",
            "written",
            "moved",
            "leaves",
            "upper",
            "slots",
            "direct",
            "patch"
        );
    }

    fn print(&self, name: &str) {
        let host = (self.after.host - self.before.host).max(1) as f64;
        let part = |figure: fn(&DriveWrites) -> u64| (figure(&self.after) - figure(&self.before)) as f64 / host;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / self.latencies.len() as f64;
        let at = |permille: usize| self.latencies[(self.latencies.len() - 1) * permille / 1000].as_secs_f64() * 1e3;
        println!(
            "{name:34} {:9.0}/s {:8.1} {:8.1} {:8.1} {:6.0} {:6.0} {:6.2} {:8.2} {:6.2} {:6.2} {:6.2} {:6.2} {:6.2} {:6.2}",
            self.rate(),
            at(500),
            at(990),
            at(1000),
            each(self.cpu),
            each(self.drive_cpu),
            self.reads as f64 / self.latencies.len() as f64,
            part(DriveWrites::total),
            part(|w| w.moved),
            part(|w| w.leaves),
            part(|w| w.interior_pages),
            part(|w| w.slot_pages),
            part(|w| w.directory),
            part(|w| w.patches),
        );
    }
}

fn made(gib: u64) -> Arc<AgedDisk> {
    let begin = Instant::now();
    let disk = AgedDisk::new(gib, setting("AGED_FULL", 0.8));
    println!("{gib} GiB made in {:.0} s", begin.elapsed().as_secs_f64());
    Arc::new(disk)
}

fn opening() {
    println!("opening: reads of the disk take 1 ms, 2 GiB of memory");
    for gib in [256, 512, 1024, 2048] {
        let disk = made(gib);
        disk.set_read_time(Duration::from_millis(1));
        let options = Options::for_memory(&disk.geometry(), 2 * GIB, None);
        disk.take_reads();
        let begin = Instant::now();
        let (core, _) = Core::recover(&*disk, Some(options)).expect("the array opens");
        let took = begin.elapsed();
        let (reads, bytes) = disk.take_reads();
        drop(core);
        println!(
            "{gib:6} GiB {reads:6} reads {:8.1} MiB {:8.3} s",
            bytes as f64 / f64::from(1 << 20),
            took.as_secs_f64()
        );
    }
}

/// The options of `ibid serve` without `--memory`.
fn default_options(disk: &AgedDisk) -> Options {
    let total = memory::total().unwrap_or(16 * GIB);
    let bytes = setting("AGED_MEMORY_MIB", total >> 22) << 20;
    println!("memory of the array: {} MiB", bytes >> 20);
    Options::for_memory(&disk.geometry(), bytes, Some(bytes / 4))
}

fn snapshots(gib: u64) {
    let disk = made(gib);
    let options = default_options(&disk);
    let mut load = Load::open(disk, options);
    let seconds: f64 = setting("AGED_SECONDS", 10.0);
    Window::head();
    load.measure("after the start", seconds);
    let before = load.measure("before the first snapshot", seconds);
    for number in 1..=setting("AGED_SNAPSHOTS", 5) {
        let copy = Change::CopyVolume { source: AGED_VOLUME, destination: VolumeId(1 + number) };
        let took = load.change(copy);
        let rate = load.measure(&format!("after snapshot {number}"), seconds);
        println!(
            "  snapshot in {:.1} ms; {:.2} x the writes before the first",
            took.as_secs_f64() * 1e3,
            rate / before
        );
        load.measure("  later", seconds);
        if number > 2 {
            let took = load.change(Change::DeleteVolume { volume: VolumeId(number - 1) });
            println!("  deletion of snapshot {} in {:.1} ms", number - 2, took.as_secs_f64() * 1e3);
        }
    }
    load.engine.close().expect("a last checkpoint");
}

/// The memory that the process uses, in MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() >> 10
}

fn week(gib: u64) {
    const DAY: u64 = 24;
    let disk = made(gib);
    let options = default_options(&disk);
    let mut load = Load::open(disk, options);
    let hour: u64 = setting("AGED_HOUR", 8000);
    let days: u64 = setting("AGED_DAYS", 7);
    println!(
        "an hour is {hour} writes; the second one, with which the days are compared, is {} writes",
        DAY * hour / 4
    );
    Window::head();
    let writes = |load: &mut Load, count: u64| {
        load.disk.provide(SPARE_BYTES / 4);
        let window = load.window(|done| done == count);
        // Between two windows, so that it does not count.
        load.disk.compact();
        window
    };
    writes(&mut load, hour);
    writes(&mut load, DAY * hour / 4).print("before the first snapshot");
    let (mut second, mut last) = (0.0, 0.0);
    for day in 0..days {
        let mut sum: Option<Window> = None;
        for number in day * DAY + 1..=(day + 1) * DAY {
            load.change(Change::CopyVolume { source: AGED_VOLUME, destination: VolumeId(1 + number) });
            if number > DAY {
                load.change(Change::DeleteVolume { volume: VolumeId(1 + number - DAY) });
            }
            let window = writes(&mut load, if number == 2 { DAY * hour / 4 } else { hour });
            if number == 2 {
                window.print("the second hour");
                second = window.rate();
            }
            match &mut sum {
                Some(sum) => sum.extend(window),
                None => sum = Some(window),
            }
        }
        let sum = sum.expect("a day has hours");
        sum.print(&format!("day {}", day + 1));
        last = sum.rate();
        let space = load.engine.space();
        println!(
            "  metadata of {} MiB, data of {} GiB; {} MiB resident",
            space.system >> 20,
            space.data >> 30,
            resident()
        );
    }
    println!("the last day has {:.2} x the rate of the second hour; the goal is 0.7 x", last / second);
    load.engine.close().expect("a last checkpoint");
}

fn crash(gib: u64) {
    let disk = made(gib);
    let options = Options::for_memory(&disk.geometry(), 2 * GIB, None);
    let blocks = setting("AGED_WRITE_KIB", 4_u64) / 4;
    let mut load = Load::open(disk.clone(), options);
    let (mut used, mut peak, mut checkpoints) = (0, 0, 0);
    while checkpoints == 0 || used < peak / 20 * 19 {
        let mut left = 4096 / blocks;
        load.run(|load| {
            left = left.checked_sub(1)?;
            let block = load.random.below(load.disk.volume_blocks() - blocks);
            let parts = (0..blocks).map(|part| noise_block(load.next_seed + part)).collect::<Vec<_>>();
            load.next_seed += blocks;
            let (lba, data) = (Lba(block * LBAS_PER_BLOCK), parts.concat().into());
            Some(Op::Write { volume: AGED_VOLUME, lba, data, fua: false })
        });
        let now = load.engine.with_core(|core| core.usage().log_used);
        checkpoints += u32::from(now < used);
        (used, peak) = (now, peak.max(now));
    }
    disk.power_off();
    drop(load);
    disk.power_on();
    disk.take_reads();
    disk.set_read_time(Duration::from_millis(1));
    let begin = Instant::now();
    let (core, report) = Core::recover(&*disk, Some(options)).expect("the array opens");
    let took = begin.elapsed();
    let (reads, bytes) = disk.take_reads();
    drop(core);
    println!(
        "opening after a crash: {} MiB of log, {} writes of {} KiB, {reads} reads of 1 ms, {:.1} MiB, {:.2} s",
        used >> 20,
        report.records,
        blocks * 4,
        bytes as f64 / f64::from(1 << 20),
        took.as_secs_f64()
    );
}

fn copies(gib: u64) {
    let disk = made(gib);
    let options = default_options(&disk);
    let mut load = Load::open(disk.clone(), options);
    let clone = VolumeId(2);
    let bytes = (gib * GIB).min(100 * GIB);
    load.change(Change::CreateVolume { volume: clone, blocks: bytes / 512 });
    let blocks = COPY_BYTES / 512;
    let pieces = bytes / COPY_BYTES;
    let mut piece = 0;
    let mut timed = |load: &mut Load, name: &str, op: &dyn Fn(u64) -> Op| {
        piece = 0;
        let begin = Instant::now();
        let latencies = load.run(|_| {
            piece += 1;
            (piece <= pieces).then(|| op((piece - 1) * blocks))
        });
        let worst = latencies.last().map_or(0.0, Duration::as_secs_f64) * 1e3;
        println!("{name:34} {:8.2} s, worst {worst:.1} ms", begin.elapsed().as_secs_f64());
    };
    let range = |start: u64| BlockRange::new(Lba(start), blocks).expect("a range");
    timed(&mut load, &format!("XCOPY of {} GiB", bytes / GIB), &|start| Op::Copy {
        source: AGED_VOLUME,
        from: range(start),
        destination: clone,
        to: Lba(start),
    });
    timed(&mut load, "UNMAP of the clone", &|start| Op::Unmap { volume: clone, ranges: vec![range(start)] });
    let took = load.change(Change::CopyVolume { source: AGED_VOLUME, destination: VolumeId(3) });
    println!("{:34} {:8.4} s", "a clone of the whole volume", took.as_secs_f64());
    let took = load.change(Change::DeleteVolume { volume: VolumeId(3) });
    println!("{:34} {:8.4} s", "its deletion", took.as_secs_f64());
    load.measure("writes after that", setting("AGED_SECONDS", 10.0));
    let begin = Instant::now();
    load.engine.close().expect("a last checkpoint");
    println!("{:34} {:8.2} s", "close", begin.elapsed().as_secs_f64());
    disk.take_reads();
    disk.set_read_time(Duration::from_millis(1));
    let begin = Instant::now();
    let (core, _) = Core::recover(&*disk, Some(options)).expect("the array opens");
    let (reads, _) = disk.take_reads();
    drop(core);
    println!("{:34} {:8.2} s, {reads} reads of 1 ms", "opening", begin.elapsed().as_secs_f64());
}

fn main() {
    memory::limit_malloc_retention();
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |name: &str| named.is_empty() || named.iter().any(|wanted| wanted == name);
    let gib = setting("AGED_GIB", 1024);
    if is_wanted("opening") {
        opening();
    }
    if is_wanted("snapshots") {
        snapshots(gib);
    }
    if is_wanted("crash") {
        crash(gib);
    }
    if is_wanted("copies") {
        copies(gib);
    }
    if is_wanted("week") {
        week(gib);
    }
}
