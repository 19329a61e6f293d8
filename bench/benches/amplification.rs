//! Bytes written to the drive for each byte that hosts write, by kind: random 4 KiB overwrites of
//! an aged volume, at 50 % and 84 % of the drive and at 84 % of what hosts can fill, in a short and
//! a long run, and around snapshots with a slot table of 4 and 11 times the memory for metadata.
//!
//! `AMPLIFICATION_GIB` (1) is the size of the array; all counts of writes scale with it.
//! `AMPLIFICATION_CASES` (`half,capacity,full,snapshots`) selects cases.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints its results"
)]

use bench::{NoiseDisk, noise_block};
use engine::{
    BlockService, Change, Core, DriveWrites, Engine, Maintenance, Op, OpError, Options, Reply, Sink, Tag, call,
};
use ondisk::ArrayGeometry;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use testing::SplitMix64;
use types::{Lba, VolumeId};

const VOLUME: VolumeId = VolumeId(1);
const DEPTH: u64 = 32;
const MIB: u64 = 1 << 20;
/// The size for which counts of writes are given.
const FULL_SIZE_GIB: f64 = 16.0;

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Passes replies to the thread that submits.
struct Replies(parking_lot::Mutex<Sender<(Tag, Instant)>>);

impl Sink for Replies {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        result.expect("every write succeeds");
        self.0.lock().send((tag, Instant::now())).expect("the receiver lives as long as the load");
    }
}

/// An array with one volume that a load overwrites.
struct Load {
    disk: Arc<NoiseDisk>,
    engine: Engine,
    sink: Arc<dyn Sink>,
    replies: Receiver<(Tag, Instant)>,
    /// Writes for each thousand of the full size.
    scale: f64,
    blocks: u64,
    random: SplitMix64,
    next_seed: u64,
    next_snapshot: u64,
}

impl Load {
    /// Creates an array of `gib` GiB and fills a volume of `part` of its drive.
    fn new(gib: f64, part: f64) -> Self {
        Self::filled(gib, |drive, _| drive as f64 * part)
    }

    /// Creates an array of `gib` GiB and fills a volume. `size` returns its bytes for those of the
    /// drive and those that hosts may fill.
    fn filled(gib: f64, size: impl Fn(u64, u64) -> f64) -> Self {
        let geometry = ArrayGeometry::for_capacity((gib * 1024.0) as u64 * MIB).expect("a geometry");
        let disk = Arc::new(NoiseDisk::new(geometry.capacity, geometry.segment_start(0)));
        Core::create(&*disk, &geometry, [7; 16]).expect("an array");
        let engine = open(&disk, None);
        let blocks = size(geometry.capacity, engine.space().capacity) as u64 / MIB * MIB / 4096;
        call(&engine, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: blocks * 8 }])).expect("a volume");
        let (sender, replies) = channel();
        let sink: Arc<dyn Sink> = Arc::new(Replies(parking_lot::Mutex::new(sender)));
        let scale = gib / FULL_SIZE_GIB * 1000.0;
        let mut load = Self {
            disk,
            engine,
            sink,
            replies,
            scale,
            blocks,
            random: SplitMix64::new(1),
            next_seed: 1,
            next_snapshot: 2,
        };
        let mut next = 0;
        load.submit(blocks, |load| {
            next += 1;
            load.op(next - 1)
        });
        load
    }

    fn op(&mut self, block: u64) -> Op {
        self.next_seed += 1;
        Op::Write { volume: VOLUME, lba: Lba(block * 8), data: noise_block(self.next_seed).into(), fua: false }
    }

    /// Runs `count` operations, [`DEPTH`] at a time. Returns their latencies in ascending order.
    fn submit(&mut self, count: u64, mut next: impl FnMut(&mut Self) -> Op) -> Vec<Duration> {
        let mut started = vec![Instant::now(); DEPTH as usize];
        let (mut begun, mut latencies) = (0, Vec::with_capacity(count as usize));
        let mut free: Vec<Tag> = (0..DEPTH).collect();
        while (latencies.len() as u64) < count {
            for tag in free.drain(..).take((count - begun) as usize) {
                let op = next(self);
                started[tag as usize] = Instant::now();
                self.engine.submit(op, tag, &self.sink);
                begun += 1;
            }
            self.engine.kick();
            let first = self.replies.recv().expect("the sink lives as long as the load");
            for (tag, ended) in std::iter::once(first).chain(self.replies.try_iter()) {
                latencies.push(ended.duration_since(started[tag as usize]));
                free.push(tag);
            }
        }
        latencies.sort_unstable();
        latencies
    }

    /// Overwrites random blocks, `thousands` of them at full size.
    fn overwrite(&mut self, thousands: f64) -> Vec<Duration> {
        let count = (thousands * self.scale) as u64;
        self.submit(count.max(64), |load| {
            let block = load.random.below(load.blocks);
            load.op(block)
        })
    }

    /// Overwrites, and prints what that wrote.
    fn measure(&mut self, name: &str, thousands: f64) {
        let (before, begin) = (self.engine.space().drive_writes, Instant::now());
        let latencies = self.overwrite(thousands);
        let took = begin.elapsed();
        let after = self.engine.space().drive_writes;
        let host = (after.host - before.host) as f64;
        let part = |figure: fn(&DriveWrites) -> u64| (figure(&after) - figure(&before)) as f64 / host;
        let metadata =
            |w: &DriveWrites| w.directory + w.patches + w.interior_pages + w.summaries + w.manifest + w.superblock;
        let at = |permille: usize| latencies[(latencies.len() - 1) * permille / 1000].as_secs_f64() * 1e3;
        println!(
            "{name:28} {:8} {:7.2} {:6.2} {:6.2} {:6.2} {:7.2} {:7.2} {:6.2} {:8.0} {:8.1} {:8.1}",
            latencies.len(),
            part(DriveWrites::total),
            part(|w| w.log),
            part(|w| w.data),
            part(|w| w.moved),
            part(|w| w.leaves),
            part(|w| w.slot_pages),
            part(metadata),
            latencies.len() as f64 / took.as_secs_f64(),
            at(999),
            at(1000),
        );
    }

    fn snapshot(&mut self) {
        let destination = VolumeId(self.next_snapshot);
        self.next_snapshot += 1;
        let copy = Change::CopyVolume { source: VOLUME, destination };
        call(&self.engine, Op::Change(vec![copy])).expect("a snapshot");
    }

    /// Opens the array again, with `pages` bytes of memory for metadata.
    fn reopen(self, pages: u64) -> Self {
        let Self { disk, engine, sink, replies, scale, blocks, random, next_seed, next_snapshot } = self;
        engine.close().expect("a last checkpoint");
        let engine = open(&disk, Some(pages));
        Self { disk, engine, sink, replies, scale, blocks, random, next_seed, next_snapshot }
    }
}

/// Opens the array with `pages` bytes of memory for metadata.
fn open(disk: &Arc<NoiseDisk>, pages: Option<u64>) -> Engine {
    let (core, _) = Core::recover(&**disk, None).expect("the array opens");
    let geometry = *core.geometry();
    drop(core);
    let options = Options::for_geometry(&geometry);
    let page_budget = pages.unwrap_or(options.page_budget);
    let (core, _) = Core::recover(&**disk, Some(Options { page_budget, ..options })).expect("the array opens");
    Engine::start(core, disk.clone())
}

fn filled(name: &str, mut load: Load, short: f64) {
    let space = load.engine.space();
    let percent = |of: u64| 100.0 * space.used as f64 / of as f64;
    println!(
        "{name}: {:.1} % of the pool used, {:.1} % of its capacity",
        percent(space.size()),
        percent(space.capacity)
    );
    load.measure(&format!("{name}, short"), short);
    load.measure(&format!("{name}, next"), 1000.0);
    load.measure(&format!("{name}, long"), 1000.0);
    load.engine.close().expect("a last checkpoint");
}

/// The history that made the volume old in the measurements of docs/measures.md.
fn snapshots(gib: f64) {
    let mut load = Load::new(gib, 7.81 / FULL_SIZE_GIB);
    load.overwrite(930.0);
    load.measure("large memory, before", 180.0);
    load.snapshot();
    load.measure("large memory, after", 5.0);
    load.overwrite(445.0);
    load.snapshot();
    load.overwrite(150.0);
    let table = load.blocks * 16;
    for (ratio, before, windows) in
        [(4, 165.0, [1.3, 2.0, 2.5, 3.2, 20.0, 60.0]), (11, 210.0, [0.6, 0.74, 1.0, 1.34, 8.0, 5.0])]
    {
        load = load.reopen(table / ratio);
        load.measure(&format!("{ratio}:1, before"), before);
        load.snapshot();
        let mut end = 0.0;
        for window in windows {
            end += window;
            load.measure(&format!("{ratio}:1, to {end:.1} k after"), window);
        }
    }
    load.engine.close().expect("a last checkpoint");
}

fn main() {
    let gib: f64 = setting("AMPLIFICATION_GIB", "1").parse().expect("AMPLIFICATION_GIB is a number");
    let cases = setting("AMPLIFICATION_CASES", "half,capacity,full,snapshots");
    println!("{gib} GiB; bytes written for each byte of the host; latencies in ms");
    println!(
        "{:28} {:>8} {:>7} {:>6} {:>6} {:>6} {:>7} {:>7} {:>6} {:>8} {:>8} {:>8}",
        "", "writes", "all", "log", "data", "moved", "leaves", "slots", "other", "IOPS", "p99.9", "worst"
    );
    for case in cases.split(',') {
        match case {
            "half" => filled("50 %", Load::new(gib, 7.81 / FULL_SIZE_GIB), 930.0),
            "capacity" => {
                // Map and slot table take 0.5 % more than the data.
                let load = Load::filled(gib, |_, capacity| capacity as f64 * 0.84 / 1.005);
                filled("84 % of capacity", load, 687.0);
            }
            "full" => filled("84 %", Load::new(gib, 13.28 / FULL_SIZE_GIB), 687.0),
            "snapshots" => snapshots(gib),
            _ => println!("no case is named '{case}'"),
        }
    }
}
