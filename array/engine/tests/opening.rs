//! The reads of the drive that opening an array takes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use bytes::Bytes;
use common::{create, data, run, settle};
use engine::{Change, Core, Engine, Op, Options, Reply};
use ondisk::{
    ArrayGeometry, Manifest, ManifestRun, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, Superblock, encode_manifest,
    superblock_offset,
};
use platform::{Disk, DiskError, Durability};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testing::MemoryDisk;
use types::{BlockRange, Lba, VolumeId};

const VOLUME: VolumeId = VolumeId(1);

/// A drive that counts its reads.
struct WatchedDisk {
    disk: MemoryDisk,
    /// Time that a read takes.
    pause: Duration,
    /// Reads that it serves side by side.
    parallel: usize,
    reads: AtomicU64,
    under_way: AtomicU64,
    /// Most reads at a time.
    most: AtomicU64,
}

impl WatchedDisk {
    fn new(disk: MemoryDisk) -> Self {
        let [reads, under_way, most] = [0; 3].map(AtomicU64::new);
        Self { disk, pause: Duration::ZERO, parallel: 1, reads, under_way, most }
    }
}

impl Disk for WatchedDisk {
    fn size(&self) -> u64 {
        self.disk.size()
    }
    fn parallel_reads(&self) -> usize {
        self.parallel
    }
    #[allow(clippy::disallowed_methods, reason = "the drive is slow on purpose")]
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let now = 1 + self.under_way.fetch_add(1, Ordering::Relaxed);
        self.most.fetch_max(now, Ordering::Relaxed);
        if !self.pause.is_zero() {
            std::thread::sleep(self.pause);
        }
        let result = self.disk.read_at(offset, buffer);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        result
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        self.disk.write_at(offset, parts, durability)
    }
    fn flush(&self) -> Result<(), DiskError> {
        self.disk.flush()
    }
    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        self.disk.allocate(offset, bytes)
    }
}

/// Opens the array and returns the core, the replayed groups and the reads.
fn open(disk: MemoryDisk) -> (Core, u64, u64) {
    let disk = WatchedDisk::new(disk);
    let (core, report) = Core::recover(&disk, None).expect("the array opens");
    (core, report.groups, disk.reads.load(Ordering::Relaxed))
}

#[test]
fn log_groups_are_read_together() {
    let geometry = ArrayGeometry { capacity: 64 << 20, log_bytes: 8 << 20, segment_bytes: 256 << 10 };
    let (disk, mut core) = create(geometry);
    assert_eq!(
        run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 8 }])),
        Ok(Reply::Done)
    );
    for seed in 0..500 {
        let write = Op::Write { volume: VOLUME, lba: Lba(0), data: data(seed, 8), fua: false };
        assert_eq!(run(&mut core, &disk, write), Ok(Reply::Done));
    }
    drop(core);
    let (_, groups, reads) = open(disk);
    assert!(groups > 300, "each write has a group: {groups}");
    assert!(reads < 40, "{groups} groups take {reads} reads");
}

/// Logical blocks in a write of the large array.
const PIECE: u64 = 2048;

/// Blocks that all differ and are compressed to an eighth.
fn unique(piece: u64) -> Bytes {
    let mut data = vec![0; PIECE as usize * 512];
    for (block, bytes) in data.chunks_mut(4096).enumerate() {
        bytes[..8].copy_from_slice(&(1 + piece * PIECE + block as u64).to_le_bytes());
    }
    data.into()
}

/// An array with `mib` MiB of unique data, after a checkpoint that has stored its pages whole.
fn filled(mib: u64) -> MemoryDisk {
    let geometry = ArrayGeometry { capacity: 192 << 20, log_bytes: 8 << 20, segment_bytes: 1 << 20 };
    let (disk, _) = create(geometry);
    let options = Options { max_patch_bytes: Some(0), ..Options::for_geometry(&geometry) };
    let (mut core, _) = Core::recover(&disk, Some(options)).expect("a new array");
    let blocks = mib << 11;
    let created = run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks }]));
    assert_eq!(created, Ok(Reply::Done));
    for piece in 0..blocks / PIECE {
        let op = Op::Write { volume: VOLUME, lba: Lba(piece * PIECE), data: unique(piece), fua: false };
        assert_eq!(run(&mut core, &disk, op), Ok(Reply::Done));
    }
    core.request_checkpoint();
    settle(&mut core, &disk);
    disk
}

#[test]
fn reads_do_not_grow_with_the_data() {
    let (_, _, few) = open(filled(48));
    let disk = filled(384);
    let copy = MemoryDisk::from_image(disk.image());
    let (_, _, many) = open(disk);
    assert!(many <= few + 2, "{few} reads for 48 MiB, {many} for 384 MiB");
    let (core, _) = Core::recover(&copy, None).expect("the array opens");
    core.audit(&copy).expect("the slots are those that were stored");
}

/// Removes the sums from the manifest, as an older program stored it.
fn without_sums(disk: &MemoryDisk) -> MemoryDisk {
    let mut image = disk.image();
    let copies: [Vec<u8>; SUPERBLOCK_COPIES] =
        std::array::from_fn(|copy| image[superblock_offset(copy) as usize..][..SUPERBLOCK_BYTES].to_vec());
    let mut superblock = Superblock::choose(&copies).unwrap();
    let geometry = superblock.geometry;
    let offsets = |run: &ManifestRun| {
        let first = geometry.sector_start(run.segment(), run.sector());
        [first as usize, geometry.mirror_offset(first, run.mirror()) as usize]
    };
    let stored = superblock.manifest.iter().flat_map(|run| image[offsets(run)[0]..][..run.bytes() as usize].to_vec());
    let Manifest { slot_pages, sums, next_usage, volumes, values, segments, directory, drops, .. } =
        Manifest::decode(stored.collect::<Vec<u8>>().into()).unwrap();
    assert!(sums.is_some());
    let segments = segments.into_iter();
    let mut rest =
        Bytes::from(encode_manifest(slot_pages, None, next_usage, &volumes, &values, segments, &directory, &drops));
    for run in &mut superblock.manifest {
        let part = rest.split_to(rest.len().min(run.bytes() as usize));
        offsets(run).into_iter().for_each(|at| image[at..][..part.len()].copy_from_slice(&part));
        let crc = crc_fast::crc32_iscsi(&part);
        *run = ManifestRun::new(run.segment(), run.mirror(), run.sector(), part.len() as u32, crc);
    }
    for copy in 0..SUPERBLOCK_COPIES {
        let bytes = superblock.encode(copy);
        image[superblock_offset(copy) as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    MemoryDisk::from_image(image)
}

#[test]
fn slots_without_sums_are_counted_once() {
    let disk = without_sums(&filled(384));
    let (mut core, _) = Core::recover(&disk, None).expect("the array opens");
    core.audit(&disk).expect("the slots are those that were stored");
    let (_, _, counting) = open(MemoryDisk::from_image(disk.image()));
    // 98 304 slots of data in pages of 256, which are read together.
    assert!(counting < 96, "384 pages take {counting} reads");
    core.request_checkpoint();
    settle(&mut core, &disk);
    let (core, _, trusting) = open(MemoryDisk::from_image(disk.image()));
    assert!(trusting < counting, "the next checkpoint states the sums: {trusting} reads");
    core.audit(&disk).expect("the sums are right");
}

#[test]
fn closing_does_not_wait_for_the_index() {
    let pause = Duration::from_millis(10);
    let disk = Arc::new(WatchedDisk { pause, ..WatchedDisk::new(filled(384)) });
    let (core, _) = Core::recover(&*disk, None).expect("the array opens");
    let segments = core.geometry().segments();
    let before = disk.reads.load(Ordering::Relaxed);
    Engine::start(core, disk.clone()).close().expect("a last checkpoint");
    let reads = disk.reads.load(Ordering::Relaxed) - before;
    assert!(reads < 100, "{reads} reads; the summaries of up to {segments} segments fill the index");
}

/// Writes to many leaves of a map that is not in memory, and fails before a checkpoint.
fn crashed(disk: MemoryDisk) -> (MemoryDisk, Vec<(u64, Bytes)>) {
    let (mut core, _) = Core::recover(&disk, None).expect("the array opens");
    let written: Vec<(u64, Bytes)> = (0..40).map(|at| (at * 9 * PIECE + at % 7 * 8, data(at, 8))).collect();
    for (lba, data) in &written {
        let write = Op::Write { volume: VOLUME, lba: Lba(*lba), data: data.clone(), fua: true };
        assert_eq!(run(&mut core, &disk, write), Ok(Reply::Done));
    }
    // A copy, a resize and a volume that exists only in the log are replayed as well.
    let copy = Change::CopyVolume { source: VOLUME, destination: VolumeId(2) };
    assert_eq!(run(&mut core, &disk, Op::Change(vec![copy])), Ok(Reply::Done));
    for (lba, data) in &written[..4] {
        let write = Op::Write { volume: VolumeId(2), lba: Lba(lba + 64), data: data.clone(), fua: true };
        assert_eq!(run(&mut core, &disk, write), Ok(Reply::Done));
    }
    let resize = Change::ResizeVolume { volume: VolumeId(2), blocks: 100 * PIECE };
    assert_eq!(run(&mut core, &disk, Op::Change(vec![resize])), Ok(Reply::Done));
    (disk, written)
}

#[test]
fn pages_of_a_replay_are_read_side_by_side() {
    let (disk, written) = crashed(filled(384));
    let image = disk.image();
    let watched = WatchedDisk::new(MemoryDisk::from_image(disk.image()));
    let disk = WatchedDisk { pause: Duration::from_millis(1), parallel: 16, ..watched };
    let (mut core, report) = Core::recover(&disk, None).expect("the array opens");
    assert_eq!(report.records, 40 + 4 + 2);
    let most = disk.most.load(Ordering::Relaxed);
    assert!((8..=16).contains(&most), "at most {most} reads at a time");
    core.audit(&disk).expect("the map is whole");
    let one_by_one = MemoryDisk::from_image(image);
    let (mut expected, _) = Core::recover(&one_by_one, None).expect("the array opens");
    for (lba, data) in &written {
        for (volume, lba) in [(VOLUME, *lba), (VolumeId(2), lba + 64)] {
            let range = BlockRange::new(Lba(lba), 8).unwrap();
            let read = run(&mut core, &disk.disk, Op::Read { volume, range });
            assert_eq!(read, run(&mut expected, &one_by_one, Op::Read { volume, range }));
            if volume == VOLUME {
                assert_eq!(read, Ok(Reply::Data(data.clone())));
            }
        }
    }
}
