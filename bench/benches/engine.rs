//! Performance budgets of the engine (ARCHITECTURE.md): the cost of each operation on one core,
//! without drive and network.
#![allow(clippy::disallowed_methods, clippy::expect_used, reason = "a benchmark reads and writes its report")]

use bench::{Bench, database_like};
use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput};
use engine::{Change, Core, Op};
use ondisk::ArrayGeometry;
use std::hint::black_box;
use std::time::Duration;
use testing::{SplitMix64, noise};
use types::{BlockRange, Lba, VolumeId};

const GIB: u64 = 1 << 30;
const MIB_BLOCKS: u64 = 2048;

fn geometry() -> ArrayGeometry {
    ArrayGeometry { capacity: 4 * GIB, log_bytes: 256 << 20, segment_bytes: 16 << 20 }
        .check()
        .expect("a valid geometry")
}

fn range(start: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(start), blocks).expect("a range inside the volume")
}

fn copy(source: VolumeId, from: u64, blocks: u64, destination: VolumeId, to: u64) -> Op {
    Op::Copy { source, from: range(from, blocks), destination, to: Lba(to) }
}

fn copies(criterion: &mut Criterion) {
    let mut bench = Bench::new(geometry());
    let source = bench.create_volume(1, GIB);
    let target = bench.create_volume(2, 64 * GIB);
    bench.fill(source, GIB / 2);
    let mut random = SplitMix64::new(1);
    let blocks = 16 * MIB_BLOCKS;
    criterion.bench_function("xcopy-16MiB-aligned", |bencher| {
        bencher.iter(|| {
            let from = random.below(32) * blocks;
            let to = random.below(4000) * blocks;
            bench.run([copy(source, from, blocks, target, to)])
        });
    });
    criterion.bench_function("xcopy-16MiB-misaligned", |bencher| {
        bencher.iter(|| {
            let from = random.below(31) * blocks + 8;
            let to = random.below(4000) * blocks;
            bench.run([copy(source, from, blocks, target, to)])
        });
    });
}

fn fills(criterion: &mut Criterion) {
    let mut bench = Bench::new(geometry());
    let volume = bench.create_volume(1, 1024 * GIB);
    let zeros = Bytes::from_static(&[0; 512]);
    let block = Bytes::from(noise(3, 512));
    let mut random = SplitMix64::new(2);
    let mut at = move || range(random.below(1 << 20) * MIB_BLOCKS, MIB_BLOCKS);
    criterion.bench_function("write-same-1MiB-zero", |bencher| {
        bencher.iter(|| bench.run([Op::WriteSame { volume, range: at(), pattern: zeros.clone() }]));
    });
    criterion.bench_function("write-same-1MiB-data", |bencher| {
        bencher.iter(|| bench.run([Op::WriteSame { volume, range: at(), pattern: block.clone() }]));
    });
    criterion.bench_function("unmap-1MiB", |bencher| {
        bencher.iter(|| bench.run([Op::Unmap { volume, ranges: vec![at()] }]));
    });
}

/// Operations per commit. A busy array collects about this many during the previous flush.
const BATCH: u64 = 32;

/// Returns a copy of a page from a pool, made unique by a number in its header, as databases do.
fn stamped(page: &Bytes, number: u64) -> Bytes {
    let mut page = page.to_vec();
    page.chunks_exact_mut(4096).zip(0..).for_each(|(block, index)| {
        block[8..16].copy_from_slice(&(number << 8 | index).to_le_bytes());
    });
    page.into()
}

fn reads_and_writes(criterion: &mut Criterion) {
    let mut bench = Bench::new(geometry());
    let volume = bench.create_volume(1, GIB);
    bench.fill(volume, GIB);
    let pages = database_like(1, 4096);
    let noise_pool: Vec<Bytes> = (0..64).map(|seed| noise(seed, 32 << 10).into()).collect();
    let mut random = SplitMix64::new(3);
    let mut number = 0;
    let mut group = criterion.benchmark_group("4KiB");
    group.throughput(Throughput::Elements(BATCH));
    group.measurement_time(Duration::from_secs(10));
    // The data are created outside the measurement, because that is work of the host.
    let mut writes = |bytes: u64, data: &mut dyn FnMut(&mut SplitMix64) -> Bytes| -> Vec<Op> {
        let mut write = |random: &mut SplitMix64| {
            let data = data(random);
            Op::Write { volume, lba: Lba(random.below(GIB / bytes) * (bytes / 512)), data, fua: false }
        };
        (0..BATCH).map(|_| write(&mut random)).collect()
    };
    group.bench_function("write-database", |bencher| {
        let mut page = |random: &mut SplitMix64| {
            number += 1;
            stamped(&pages[random.below(4096) as usize], number)
        };
        bencher.iter_batched(|| writes(4096, &mut page), |ops| bench.run(ops), BatchSize::PerIteration);
    });
    pages.iter().zip(0..).for_each(|(page, index)| {
        bench.run([Op::Write { volume, lba: Lba(index * 8), data: page.clone(), fua: false }]);
    });
    group.bench_function("write-duplicate", |bencher| {
        let mut page = |random: &mut SplitMix64| pages[random.below(4096) as usize].clone();
        bencher.iter_batched(|| writes(4096, &mut page), |ops| bench.run(ops), BatchSize::PerIteration);
    });
    group.bench_function("write-32KiB-incompressible", |bencher| {
        let mut page = |random: &mut SplitMix64| {
            number += 1;
            stamped(&noise_pool[random.below(64) as usize], number)
        };
        bencher.iter_batched(|| writes(32 << 10, &mut page), |ops| bench.run(ops), BatchSize::PerIteration);
    });
    // Working set that fits in the caches: compressible pages that are read repeatedly.
    let blocks = 8192;
    for block in 0..blocks {
        number += 1;
        let data = stamped(&pages[(block % 4096) as usize], number);
        bench.run([Op::Write { volume, lba: Lba(block * 8), data, fua: false }]);
    }
    bench.core.request_checkpoint();
    bench.settle();
    let mut random = SplitMix64::new(5);
    let mut read = |bench: &mut Bench, blocks: u64| {
        let ops: Vec<Op> = (0..BATCH).map(|_| Op::Read { volume, range: range(random.below(blocks) * 8, 8) }).collect();
        black_box(bench.run(ops))
    };
    group.bench_function("read-cached", |bencher| bencher.iter(|| read(&mut bench, blocks)));
    group.bench_function("read-any", |bencher| bencher.iter(|| read(&mut bench, GIB / 4096)));
    group.finish();
}

/// Replaces a snapshot by a new one. The cost must not depend on the size of the volume.
fn snapshots(criterion: &mut Criterion) {
    let mut bench = Bench::new(geometry());
    let small = bench.create_volume(1, GIB);
    bench.fill(small, GIB / 2);
    let large = bench.create_volume(2, 10 << 40);
    for tebibyte in 0..10 {
        bench.run([copy(small, 0, GIB / 1024, large, tebibyte << 31)]);
    }
    for (name, source) in [("snapshot-1GiB", small), ("snapshot-10TiB", large)] {
        let mut next = 1000;
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                next = 1000 + (next + 1) % 100;
                bench.run([Op::Change(vec![Change::CopyVolume { source, destination: VolumeId(next) }])])
            });
        });
    }
}

/// Replays a log of 2 GiB of 4 KiB writes.
fn recovery(criterion: &mut Criterion) {
    let geometry = ArrayGeometry { capacity: 8 * GIB, log_bytes: 4 * GIB, segment_bytes: 16 << 20 }
        .check()
        .expect("a valid geometry");
    let mut bench = Bench::new(geometry);
    let volume = bench.create_volume(1, 2 * GIB);
    let mut random = SplitMix64::new(4);
    while bench.core.usage().log_used < 2 * GIB - (64 << 20) {
        let ops: Vec<Op> = (0..64)
            .map(|_| Op::Write {
                volume,
                lba: Lba(random.below(GIB / 4096) * 8),
                data: noise(random.next_u64(), 4096).into(),
                fua: false,
            })
            .collect();
        bench.run(ops);
        if bench.core.checkpoints() > 0 {
            eprintln!(
                "note: a checkpoint started before the log reached 2 GiB; it holds {} MiB",
                bench.core.usage().log_used >> 20
            );
            break;
        }
    }
    let mut group = criterion.benchmark_group("recovery");
    group.sample_size(10).measurement_time(Duration::from_secs(20));
    group.bench_function("log", |bencher| {
        bencher.iter(|| Core::recover(&bench.disk, None).expect("the array opens").1);
    });
    group.finish();
    let report = Core::recover(&bench.disk, None).expect("the array opens").1;
    println!("recovery: {} records, {} MiB of data", report.records, report.bytes >> 20);
}

/// Prints one line per budget: the measured and the permitted time.
fn table() {
    // Name in criterion's folder, description, and budget in microseconds per iteration.
    const BUDGETS: [(&str, &str, f64); 13] = [
        ("xcopy-16MiB-aligned", "XCOPY 16 MiB, leaf-aligned", 10.0),
        ("xcopy-16MiB-misaligned", "XCOPY 16 MiB, 4 KiB-misaligned", 150.0),
        ("write-same-1MiB-zero", "WRITE SAME 1 MiB of zeros", 3.0),
        ("write-same-1MiB-data", "WRITE SAME 1 MiB of any block", f64::INFINITY),
        ("unmap-1MiB", "UNMAP 1 MiB", 3.0),
        ("4KiB/write-database", "4 KiB write, database-like", 32.0 * 1e6 / 90_000.0),
        ("4KiB/write-duplicate", "4 KiB write, duplicate", 32.0 * 1e6 / 200_000.0),
        ("4KiB/write-32KiB-incompressible", "32 KiB write, incompressible", 32.0 * 32768.0 / 800.0),
        ("4KiB/read-cached", "4 KiB read, cached", 32.0 * 1e6 / 500_000.0),
        ("4KiB/read-any", "4 KiB read, anywhere in 1 GiB", f64::INFINITY),
        ("snapshot-1GiB", "snapshot of 1 GiB", 50.0),
        ("snapshot-10TiB", "snapshot of 10 TiB", 50.0),
        ("recovery/log", "recovery with 2 GiB of log", 5e6),
    ];
    println!("\n{:34}{:>14}{:>14}{:>9}", "engine alone, one core", "measured us", "budget us", "");
    let root =
        std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| format!("{}/../target", env!("CARGO_MANIFEST_DIR")));
    let mut rows = Vec::new();
    for (name, what, budget) in BUDGETS {
        let path = format!("{root}/criterion/{name}/new/estimates.json");
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let estimates: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let Some(nanoseconds) = estimates["median"]["point_estimate"].as_f64() else { continue };
        let (measured, scale) = (nanoseconds / 1e3, if name.starts_with("4KiB") { 32.0 } else { 1.0 });
        let verdict = if measured <= budget { "ok" } else { "OVER" };
        println!("{what:34}{:>14.2}{:>14.2}{verdict:>9}", measured / scale, budget / scale);
        rows.push(
            serde_json::json!({ "name": name, "measured_us": measured / scale, "is_within": measured <= budget }),
        );
    }
    let path = format!("{root}/criterion/budgets.json");
    match std::fs::write(&path, serde_json::json!(rows).to_string()) {
        Ok(()) => println!("written to {path}"),
        Err(error) => eprintln!("{path}: {error}"),
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args().warm_up_time(Duration::from_millis(500));
    copies(&mut criterion);
    fills(&mut criterion);
    reads_and_writes(&mut criterion);
    snapshots(&mut criterion);
    recovery(&mut criterion);
    criterion.final_summary();
    table();
}
