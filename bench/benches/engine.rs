//! The engine's budgets (ARCHITECTURE.md): the cost of each operation on one core, without drive and network.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads and writes its report")]

use bench::{Bench, Random, noise};
use bytes::Bytes;
use criterion::{Criterion, Throughput};
use engine::{Core, Op};
use std::hint::black_box;
use std::time::Duration;
use store::Geometry;
use units::{BlockRange, Lba, VolumeId};

const GIB: u64 = 1 << 30;
const MIB_BLOCKS: u64 = 2048;

fn geometry() -> Geometry {
    Geometry { capacity: 4 * GIB, log_bytes: 256 << 20, segment_bytes: 16 << 20 }.check().expect("a sound geometry")
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
    let mut random = Random::new(1);
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
    let block = noise(3, 512);
    let mut random = Random::new(2);
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

/// Half of a page is text-like, half is random: what a database writes.
fn database_page(seed: u64) -> Bytes {
    let mut page = noise(seed, 4096).to_vec();
    page[2048..].iter_mut().for_each(|byte| *byte = b'a' + *byte % 16);
    page.into()
}

fn reads_and_writes(criterion: &mut Criterion) {
    let mut bench = Bench::new(geometry());
    let volume = bench.create_volume(1, GIB);
    bench.fill(volume, GIB);
    let pages: Vec<Bytes> = (0..512).map(database_page).collect();
    let mut random = Random::new(3);
    let mut group = criterion.benchmark_group("4KiB");
    group.throughput(Throughput::Elements(32));
    group.measurement_time(Duration::from_secs(10));
    group.bench_function("write-qd32", |bencher| {
        bencher.iter(|| {
            let ops: Vec<Op> = (0..32)
                .map(|_| {
                    let data = pages[random.below(512) as usize].clone();
                    Op::Write { volume, lba: Lba(random.below(GIB / 4096) * 8), data, fua: false }
                })
                .collect();
            bench.run(ops)
        });
    });
    group.bench_function("read-qd32", |bencher| {
        bencher.iter(|| {
            let ops: Vec<Op> =
                (0..32).map(|_| Op::Read { volume, range: range(random.below(GIB / 4096) * 8, 8) }).collect();
            black_box(bench.run(ops))
        });
    });
    group.finish();
}

/// A log of 2 GiB full of 4 KiB writes, read back.
fn recovery(criterion: &mut Criterion) {
    let geometry =
        Geometry { capacity: 8 * GIB, log_bytes: 4 * GIB, segment_bytes: 16 << 20 }.check().expect("a sound geometry");
    let mut bench = Bench::new(geometry);
    let volume = bench.create_volume(1, 2 * GIB);
    let mut random = Random::new(4);
    while bench.core.usage().log_used < 2 * GIB - (64 << 20) {
        let ops: Vec<Op> = (0..64)
            .map(|_| Op::Write {
                volume,
                lba: Lba(random.below(GIB / 4096) * 8),
                data: noise(random.draw(), 4096),
                fua: false,
            })
            .collect();
        bench.run(ops);
        if bench.core.checkpoints() > 0 {
            eprintln!(
                "note: a checkpoint came before the log held 2 GiB; it holds {} MiB",
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

/// One line per budget: what was measured, what is allowed.
fn table() {
    // Name in criterion's folder, what it is, microseconds of one iteration that the budget allows.
    const BUDGETS: [(&str, &str, f64); 7] = [
        ("xcopy-16MiB-aligned", "XCOPY 16 MiB, leaf-aligned", 10.0),
        ("xcopy-16MiB-misaligned", "XCOPY 16 MiB, 4 KiB-misaligned", 150.0),
        ("write-same-1MiB-zero", "WRITE SAME 1 MiB of zeros", 3.0),
        ("write-same-1MiB-data", "WRITE SAME 1 MiB of any block", f64::INFINITY),
        ("unmap-1MiB", "UNMAP 1 MiB", 3.0),
        ("4KiB/write-qd32", "4 KiB write (32 a commit)", 32.0 * 1e6 / 90_000.0),
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
    recovery(&mut criterion);
    criterion.final_summary();
    table();
}
