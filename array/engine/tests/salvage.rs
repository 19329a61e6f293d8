//! Salvage of arrays with metadata pages whose copies are both damaged: every block reads as
//! before or returns a medium error, and never anything else.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use bytes::Bytes;
use common::{MemoryDisk, create, data, run, settle};
use engine::{Change, Core, Op, OpError, Options, Reply};
use fsck::{FsckOptions, Region, SalvageError, SalvageReport, Structure, UnreadableRanges, check, layout};
use ondisk::{ArrayGeometry, SUPERBLOCK_BYTES, Superblock, superblock_offset};
use platform::{Disk, DiskError, Durability};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use testing::Rng;
use types::{BlockRange, LBAS_PER_BLOCK, Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 12 << 20, log_bytes: 1 << 20, segment_bytes: 64 << 10 };
const READ_ONLY: FsckOptions = FsckOptions { repair: false, check_data: true, threads: 2 };

fn write(volume: u64, lba: u64, data: Bytes) -> Op {
    Op::Write { volume: VolumeId(volume), lba: Lba(lba), data, fua: false }
}

fn range(start: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(start), blocks).unwrap()
}

/// An array with several pages of the slot table, a clone, a tree of two levels, overwritten blocks
/// and a log after the checkpoint.
fn image() -> Vec<u8> {
    let (disk, mut core) = create(GEOMETRY);
    let create = |volume, blocks| Op::Change(vec![Change::CreateVolume { volume: VolumeId(volume), blocks }]);
    for op in [create(1, 8192), create(2, 2048), create(4, 4096)] {
        run(&mut core, &disk, op).unwrap();
    }
    for part in 0..20 {
        run(&mut core, &disk, write(1, part * 200, data(part, 200))).unwrap();
    }
    core.request_checkpoint();
    settle(&mut core, &disk);
    for op in [
        Op::Change(vec![Change::CopyVolume { source: VolumeId(1), destination: VolumeId(3) }]),
        write(1, 96, data(100, 160)),
        write(2, 500, data(101, 37)),
        Op::Copy { source: VolumeId(1), from: range(0, 512), destination: VolumeId(2), to: Lba(1024) },
        Op::Unmap { volume: VolumeId(3), ranges: vec![range(2048, 512)] },
    ] {
        run(&mut core, &disk, op).unwrap();
    }
    core.request_checkpoint();
    settle(&mut core, &disk);
    for op in [
        write(2, 8, data(102, 8)),
        write(1, 1000, data(103, 3)),
        Op::Copy { source: VolumeId(3), from: range(0, 128), destination: VolumeId(4), to: Lba(64) },
    ] {
        run(&mut core, &disk, op).unwrap();
    }
    disk.image()
}

/// An array that has changed in 30 checkpoints, so that many pages have patches of several lists.
fn patched_image() -> Vec<u8> {
    let (disk, mut core) = create(GEOMETRY);
    let create = |volume, blocks| Op::Change(vec![Change::CreateVolume { volume: VolumeId(volume), blocks }]);
    let mut rng = Rng::new(1);
    for op in [create(1, 8192), create(2, 4096)] {
        run(&mut core, &disk, op).unwrap();
    }
    for _ in 0..30 {
        for _ in 0..rng.below(12) {
            let volume = 1 + rng.below(2);
            let lba = rng.below(4000);
            let op = match rng.below(10) {
                // A leaf is gone, and its slot holds another page later.
                0 => Op::Unmap { volume: VolumeId(volume), ranges: vec![range(lba / 2048 * 2048, 2048)] },
                1 => Op::Copy { source: VolumeId(1), from: range(lba & !7, 64), destination: VolumeId(2), to: Lba(64) },
                2 => Op::Change(vec![Change::CopyVolume { source: VolumeId(1), destination: VolumeId(3) }]),
                _ => write(volume, lba, data(rng.below(200), 1 + rng.below(30))),
            };
            run(&mut core, &disk, op).unwrap();
        }
        core.request_checkpoint();
        settle(&mut core, &disk);
        assert_clean(&disk);
    }
    disk.image()
}

type Blocks = BTreeMap<(VolumeId, u64), Result<Bytes, OpError>>;

/// Opens the array and reads every block of every volume.
fn contents(disk: &MemoryDisk) -> Blocks {
    let (mut core, _) = Core::recover(disk, None).unwrap();
    let mut blocks = Blocks::new();
    for (volume, size) in core.volumes() {
        for block in 0..size / LBAS_PER_BLOCK {
            let op = Op::Read { volume, range: range(block * LBAS_PER_BLOCK, LBAS_PER_BLOCK) };
            let read = run(&mut core, disk, op).map(|reply| match reply {
                Reply::Data(data) => data.to_vec().into(),
                other => panic!("{other:?}"),
            });
            blocks.insert((volume, block), read);
        }
    }
    blocks
}

fn damage(disk: &MemoryDisk, region: &Region) {
    disk.lock()[(region.span.offset + region.span.bytes / 2) as usize] ^= 16;
}

/// The regions of a kind, each with all of its copies.
fn items(regions: &[Region], structure: Structure) -> Vec<Vec<Region>> {
    let mut items = BTreeMap::<String, Vec<Region>>::new();
    for region in regions.iter().filter(|region| region.structure == structure) {
        items.entry(region.name.clone()).or_default().push(region.clone());
    }
    items.into_values().collect()
}

fn salvage(disk: &dyn Disk) -> Result<SalvageReport, SalvageError> {
    fsck::salvage(disk, &|_| {})
}

fn assert_clean(disk: &MemoryDisk) {
    let report = check(disk, READ_ONLY);
    assert!(report.is_clean(), "{:#?}", report.findings);
}

/// Compares blocks with those of the intact array. Returns those that return a medium error.
fn lost_blocks(intact: &Blocks, found: &Blocks) -> Vec<(VolumeId, u64)> {
    assert!(intact.keys().eq(found.keys()));
    let mut lost = Vec::new();
    for (at, block) in found {
        match block {
            Ok(_) => assert!(*block == intact[at], "{at:?} has other data"),
            Err(OpError::MediumError { .. }) => lost.push(*at),
            Err(error) => panic!("{at:?}: {error}"),
        }
    }
    lost
}

/// Writes, deletes and audits a salvaged array.
fn assert_usable(disk: &MemoryDisk, lost: &[(VolumeId, u64)]) {
    let (mut core, _) = Core::recover(disk, None).unwrap();
    for (volume, block) in lost {
        run(&mut core, disk, write(volume.0, block * LBAS_PER_BLOCK, data(*block, 8))).unwrap();
    }
    core.request_checkpoint();
    settle(&mut core, disk);
    core.audit(disk).unwrap();
    drop(core);
    assert_clean(disk);
    assert!(contents(disk).values().all(Result::is_ok));
}

#[test]
fn lost_slot_tables_are_rebuilt_without_loss() {
    let intact = MemoryDisk::from_image(image());
    let (before, regions) = (contents(&MemoryDisk::from_image(intact.image())), layout(&intact).unwrap());
    for structure in [Structure::SlotTable, Structure::SlotDirectory] {
        let items = items(&regions, structure);
        assert_eq!(items.len(), if structure == Structure::SlotTable { 4 } else { 1 });
        for item in items {
            assert_eq!(item.len(), 2);
            let disk = MemoryDisk::from_image(intact.image());
            item.iter().for_each(|copy| damage(&disk, copy));
            // Unless the array needs the page to open, its blocks cannot be read, and no others.
            if Core::recover(&MemoryDisk::from_image(disk.image()), None).is_ok() {
                assert_eq!(structure, Structure::SlotTable);
                let lost = lost_blocks(&before, &contents(&MemoryDisk::from_image(disk.image())));
                assert!(!lost.is_empty() && lost.len() < before.len());
            }
            let report = salvage(&disk).unwrap();
            assert_eq!((report.map_pages, report.blocks, report.unreadable.len()), (0, 0, 0));
            assert!(report.slots > 0 || structure == Structure::SlotDirectory);
            assert_clean(&disk);
            assert!(contents(&MemoryDisk::from_image(disk.image())) == before, "{}", item[0].name);
            assert_usable(&disk, &[]);
        }
    }
}

#[test]
fn lost_map_pages_become_unreadable_ranges() {
    let intact = MemoryDisk::from_image(image());
    let (before, regions) = (contents(&MemoryDisk::from_image(intact.image())), layout(&intact).unwrap());
    let items = items(&regions, Structure::MapPage);
    assert!(items.len() > 5);
    for item in items {
        let disk = MemoryDisk::from_image(intact.image());
        item.iter().for_each(|copy| damage(&disk, copy));
        let report = salvage(&disk).unwrap();
        assert_eq!((report.map_pages, report.slot_pages), (1, 0), "{}", item[0].name);
        assert_clean(&disk);
        let listed = check(&disk, READ_ONLY).unreadable;
        assert_eq!(listed, report.unreadable);
        let lost = lost_blocks(&before, &contents(&MemoryDisk::from_image(disk.image())));
        assert!(!lost.is_empty());
        let is_listed = |volume: &VolumeId, block: u64| {
            let in_run = |(first, blocks): &(u64, u64)| (*first..first + blocks).contains(&(block * LBAS_PER_BLOCK));
            listed.get(volume).is_some_and(|ranges: &UnreadableRanges| ranges.runs.iter().any(in_run))
        };
        // The log may have copied lost blocks to volume 4.
        assert!(lost.iter().all(|(volume, block)| volume.0 == 4 || is_listed(volume, *block)));
        assert_usable(&disk, &lost);
    }
}

#[test]
fn intact_array_is_not_changed() {
    let disk = MemoryDisk::from_image(image());
    let before = disk.image();
    assert_eq!(salvage(&disk).unwrap().checkpoint, None);
    assert!(disk.image() == before);
}

#[test]
fn random_damage_never_returns_other_data() {
    let intact = MemoryDisk::from_image(image());
    let (before, regions) = (contents(&MemoryDisk::from_image(intact.image())), layout(&intact).unwrap());
    let structures =
        [Structure::MapPage, Structure::SlotTable, Structure::SlotDirectory, Structure::Summary, Structure::Data];
    let all: Vec<Vec<Region>> = structures.iter().flat_map(|structure| items(&regions, *structure)).collect();
    let mut rng = Rng::new(5);
    for round in 0..150 {
        let disk = MemoryDisk::from_image(intact.image());
        for _ in 0..=rng.below(8) {
            all[rng.below(all.len() as u64) as usize].iter().for_each(|copy| damage(&disk, copy));
        }
        salvage(&disk).unwrap();
        let lost = lost_blocks(&before, &contents(&disk));
        assert!(lost.len() < before.len(), "round {round}");
    }
}

#[test]
fn pages_with_patches_are_salvaged() {
    let intact = MemoryDisk::from_image(patched_image());
    let (before, regions) = (contents(&MemoryDisk::from_image(intact.image())), layout(&intact).unwrap());
    for structure in [Structure::SlotTable, Structure::SlotDirectory] {
        let disk = MemoryDisk::from_image(intact.image());
        items(&regions, structure).concat().iter().for_each(|copy| damage(&disk, copy));
        assert!(salvage(&disk).unwrap().checkpoint.is_some());
        assert_eq!(lost_blocks(&before, &contents(&disk)), []);
        assert_usable(&disk, &[]);
    }
    let pages: Vec<_> = [Structure::MapPage, Structure::SlotTable].map(|kind| items(&regions, kind)).concat();
    let mut rng = Rng::new(6);
    for round in 0..40 {
        let disk = MemoryDisk::from_image(intact.image());
        for _ in 0..=rng.below(4) {
            pages[rng.below(pages.len() as u64) as usize].iter().for_each(|copy| damage(&disk, copy));
        }
        salvage(&disk).unwrap();
        let lost = lost_blocks(&before, &contents(&disk));
        assert!(lost.len() < before.len(), "round {round}");
        assert_usable(&disk, &lost);
    }
    let parts = items(&regions, Structure::PatchList);
    assert!(parts.len() > 4, "{}", parts.len());
    for part in parts {
        let disk = MemoryDisk::from_image(intact.image());
        part.iter().for_each(|copy| damage(&disk, copy));
        let damaged = disk.image();
        assert!(salvage(&disk).is_err() && Core::recover(&disk, None).is_err());
        assert!(disk.image() == damaged);
    }
}

/// A disk that fails after a number of writes, as if the program had been killed.
struct Limited<'d>(&'d MemoryDisk, AtomicI64);

impl Disk for Limited<'_> {
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.0.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        match self.1.fetch_sub(1, Ordering::Relaxed) {
            1.. => self.0.write_at(offset, parts, durability),
            _ => Err(DiskError::Io("killed".into())),
        }
    }
    fn flush(&self) -> Result<(), DiskError> {
        Ok(())
    }
    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        self.0.allocate(offset, bytes)
    }
}

#[test]
fn interrupted_salvage_can_begin_again() {
    let intact = MemoryDisk::from_image(image());
    let (before, regions) = (contents(&MemoryDisk::from_image(intact.image())), layout(&intact).unwrap());
    let damaged = MemoryDisk::from_image(intact.image());
    for structure in [Structure::MapPage, Structure::SlotTable] {
        items(&regions, structure)[1].iter().for_each(|copy| damage(&damaged, copy));
    }
    let (mut writes, mut is_complete) = (0, false);
    while !is_complete {
        let disk = MemoryDisk::from_image(damaged.image());
        is_complete = salvage(&Limited(&disk, AtomicI64::new(writes))).is_ok();
        writes += 1;
        salvage(&disk).unwrap();
        assert_clean(&disk);
        assert!(!lost_blocks(&before, &contents(&disk)).is_empty());
    }
    assert!(writes > 8, "{writes}");
}

#[test]
fn read_only_array_accepts_only_catalog_values() {
    let disk = MemoryDisk::from_image(image());
    let options = Options { read_only: true, ..Options::for_geometry(&GEOMETRY) };
    let (mut core, _) = Core::recover(&disk, Some(options)).unwrap();
    let (volume, change) = (VolumeId(1), |change| Op::Change(vec![change]));
    let block = data(7, 8);
    for op in [
        write(1, 0, block.clone()),
        Op::WriteSame { volume, range: range(0, 8), pattern: data(7, 1) },
        Op::Zero { volume, range: range(0, 8) },
        Op::Unmap { volume, ranges: vec![range(0, 8)] },
        Op::Or { volume, lba: Lba(0), data: block.clone() },
        Op::CompareAndWrite { volume, lba: Lba(0), compare: block.clone(), write: block },
        Op::Copy { source: volume, from: range(0, 8), destination: volume, to: Lba(64) },
        change(Change::DeleteVolume { volume }),
        change(Change::CreateVolume { volume: VolumeId(9), blocks: 8 }),
    ] {
        assert_eq!(run(&mut core, &disk, op), Err(OpError::ReadOnly));
    }
    assert!(run(&mut core, &disk, change(Change::Put { key: b"k".to_vec(), value: b"v".to_vec() })).is_ok());
    assert!(run(&mut core, &disk, Op::Read { volume, range: range(0, 8) }).is_ok());
    assert_eq!(run(&mut core, &disk, Op::Flush), Ok(Reply::Done));
}

#[test]
fn only_the_range_of_a_lost_map_page_fails() {
    let intact = MemoryDisk::from_image(image());
    let (before, regions) = (contents(&MemoryDisk::from_image(intact.image())), layout(&intact).unwrap());
    let (mut opened, mut refused) = (0, 0);
    for item in items(&regions, Structure::MapPage) {
        let disk = MemoryDisk::from_image(intact.image());
        item.iter().for_each(|copy| damage(&disk, copy));
        match Core::recover(&disk, None) {
            // The log changes the range of the page.
            Err(error) => {
                assert_eq!(error.to_string(), "a page of the map is damaged");
                refused += 1;
            }
            Ok((mut core, _)) => {
                opened += 1;
                run(&mut core, &disk, write(4, 2048, data(9, 8))).unwrap();
                core.request_checkpoint();
                settle(&mut core, &disk);
                drop(core);
                let mut found = contents(&disk);
                assert!(found.insert((VolumeId(4), 256), before[&(VolumeId(4), 256)].clone()).unwrap().is_ok());
                assert!(!lost_blocks(&before, &found).is_empty());
            }
        }
    }
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
}

#[test]
fn bad_owner_block_is_reported_and_repaired() {
    let (disk, _) = create(GEOMETRY);
    disk.lock()[4096 + 40] = 1;
    let report = check(&disk, READ_ONLY);
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert_eq!((report.findings[0].structure, report.is_clean()), (Structure::Owner, false));
    assert!(check(&disk, FsckOptions { repair: true, ..READ_ONLY }).findings[0].is_repaired);
    assert_eq!(check(&disk, READ_ONLY).findings, []);
}

#[test]
fn cancelled_scans_end_at_once() {
    let disk = MemoryDisk::from_image(image());
    let (core, _) = Core::recover(&disk, None).unwrap();
    let findings = fsck::FsckFindings::default();
    let checkpoint = fsck::Checkpoint::open(&disk, core.newest_superblock().clone(), &findings).unwrap();
    disk.lock().fill(0);
    assert!(fsck::locate(&checkpoint, &[0].into_iter().collect(), &|| false).is_none());
    let counted = fsck::account_space(&checkpoint, &|volume| (volume, false), &|| false);
    assert_eq!(counted.unwrap_err().to_string(), "space accounting was cancelled");
    fsck::audit(&checkpoint, &findings, &|| false);
    assert_eq!(findings.take().0, []);
}

#[test]
fn interrupted_creation_is_recognized() {
    let (mut recognized, mut is_complete, mut writes) = (0, false, 0);
    while !is_complete {
        let disk = MemoryDisk::new(GEOMETRY.capacity);
        let limited = Limited(&disk, AtomicI64::new(writes));
        is_complete = Core::create(&limited, &GEOMETRY.check().unwrap(), common::ARRAY).is_ok();
        writes += 1;
        let copies = || {
            std::array::from_fn(|copy| {
                let at = superblock_offset(copy) as usize;
                disk.lock()[at..at + SUPERBLOCK_BYTES].to_vec()
            })
        };
        let is_valid = Superblock::choose(&copies()).is_ok();
        let is_blank = copies().iter().all(|copy| copy.iter().all(|byte| *byte == 0));
        let found = Superblock::interrupted_creation(&copies());
        assert_eq!(found.is_some(), !is_valid && !is_blank, "{writes} writes");
        recognized += u64::from(found.is_some());
        if found.is_some() {
            // A torn second copy, then bytes that no creation writes.
            disk.lock()[16384..16384 + 8].copy_from_slice(b"IBIDSUP\0");
            assert_eq!(Superblock::interrupted_creation(&copies()), None);
        }
    }
    assert_eq!(recognized, 1);
    // The log distinguishes an array that has acknowledged anything.
    let (disk, mut core) = create(GEOMETRY);
    let change = Change::CreateVolume { volume: VolumeId(1), blocks: 8 };
    assert_eq!(run(&mut core, &disk, Op::Change(vec![change])), Ok(Reply::Done));
    let log_start = usize::try_from(GEOMETRY.log_start()).unwrap();
    assert_eq!(disk.image()[log_start..log_start + 8], *b"IBIDLOG\0");
}
