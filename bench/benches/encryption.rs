//! Reads and writes of a drive in memory, with and without encryption at rest, on one core.
#![allow(clippy::expect_used, reason = "a failed benchmark panics")]

use criterion::{BenchmarkId, Criterion, Throughput};
use encryption::{ArrayKey, EncryptedDisk};
use ondisk::SUPERBLOCK_AREA_BYTES;
use platform::{Disk, Durability};
use std::sync::Arc;
use testing::{MemoryDisk, noise};

const BYTES: u64 = 64 << 20;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let plain: Arc<dyn Disk> = Arc::new(MemoryDisk::filled(BYTES, 1));
    let key = ArrayKey::random().expect("random bytes");
    let encrypted: Arc<dyn Disk> = Arc::new(EncryptedDisk::new(Arc::new(MemoryDisk::filled(BYTES, 1)), key));
    for length in [4096, 65536, 1 << 20] {
        let data = noise(length as u64, length);
        for (name, disk) in [("plain", &plain), ("encrypted", &encrypted)] {
            let mut group = criterion.benchmark_group(name);
            group.throughput(Throughput::Bytes(length as u64));
            let (mut at, mut buffer) = (SUPERBLOCK_AREA_BYTES, vec![0; length]);
            let mut next = || {
                at += length as u64;
                if at + length as u64 > BYTES {
                    at = SUPERBLOCK_AREA_BYTES;
                }
                at
            };
            group.bench_function(BenchmarkId::new("write", length), |bencher| {
                bencher.iter(|| disk.write_at(next(), &[&data], Durability::Volatile));
            });
            group.bench_function(BenchmarkId::new("read", length), |bencher| {
                bencher.iter(|| disk.read_at(next(), &mut buffer));
            });
            group.finish();
        }
    }
}
