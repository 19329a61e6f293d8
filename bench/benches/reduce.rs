//! Cost of data reduction: fingerprint, index, probe, compression and decompression, for one block
//! and for a full group.

use bench::database_like;
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput};
use reduction::{Index, Scratch, fingerprint, looks_compressible, pack, pack_dense, unpack};
use std::hint::black_box;
use std::time::Duration;
use testing::{SplitMix64, noise};

const BLOCKS: usize = 1024;

/// Returns the next `length` blocks, cyclically.
fn rotate<'a>(blocks: &'a [Bytes], length: usize) -> impl FnMut() -> &'a [Bytes] {
    let mut at = 0;
    move || {
        at = (at + length) % blocks.len();
        &blocks[at..at + length]
    }
}

fn groups(criterion: &mut Criterion) {
    let database = database_like(1, BLOCKS);
    let random: Vec<Bytes> = (0..BLOCKS as u64).map(|seed| noise(seed, 4096).into()).collect();
    let mut scratch = Scratch::default();
    for (name, blocks) in [("database", &database), ("incompressible", &random)] {
        let mut benchmarks = criterion.benchmark_group(name);
        for length in [1, 8] {
            let id = |what| BenchmarkId::new(what, format!("{}KiB", length * 4));
            benchmarks.throughput(Throughput::Bytes(length as u64 * 4096));
            let mut next = rotate(blocks, length);
            benchmarks.bench_function(id("probe"), |bencher| bencher.iter(|| looks_compressible(black_box(next()))));
            benchmarks.bench_function(id("pack"), |bencher| bencher.iter(|| pack(next(), &mut scratch)));
            benchmarks.bench_function(id("pack-dense"), |bencher| bencher.iter(|| pack_dense(next(), &mut scratch)));
            if let Some(packed) = pack(next(), &mut scratch) {
                println!("{name}, {length} blocks: {:.2} to 1", length as f64 * 4096.0 / packed.len() as f64);
                benchmarks.bench_function(id("unpack"), |bencher| bencher.iter(|| unpack(black_box(&packed), length)));
            }
            if let Some(packed) = pack_dense(next(), &mut scratch) {
                benchmarks
                    .bench_function(id("unpack-dense"), |bencher| bencher.iter(|| unpack(black_box(&packed), length)));
            }
        }
        benchmarks.finish();
    }
}

/// Looks up random fingerprints in an index of 45 million entries, so that each lookup misses the
/// CPU caches.
fn index(criterion: &mut Criterion) {
    const ENTRIES: u64 = 45_000_000;
    let mut random = SplitMix64::new(1);
    let block = Bytes::from(noise(1, 4096));
    criterion.bench_function("fingerprint", |bencher| bencher.iter(|| fingerprint(black_box(&block))));
    let mut draw = move || u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
    let mut index = Index::new(ENTRIES * 8);
    (0..ENTRIES * 4 / 5).for_each(|slot| index.insert(draw(), slot));
    criterion.bench_function("index-lookup", |bencher| bencher.iter(|| index.lookup(draw())));
    criterion.bench_function("index-insert", |bencher| bencher.iter(|| index.insert(draw(), 1)));
}

fn main() {
    let mut criterion = Criterion::default()
        .configure_from_args()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1));
    groups(&mut criterion);
    index(&mut criterion);
    criterion.final_summary();
}
