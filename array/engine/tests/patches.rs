//! Checkpoints that store entries of pages in place of the pages.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{create, data, run};
use engine::{Change, Core, DriveWrites, Op, Options, RecoverError};
use ondisk::{
    ArrayGeometry, Manifest, ManifestRun, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, Superblock, superblock_offset,
};
use platform::{Disk, Durability};
use testing::{MemoryDisk, Rng};
use types::{BlockRange, Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 256 << 20, log_bytes: 8 << 20, segment_bytes: 1 << 20 };
const VOLUME: VolumeId = VolumeId(1);
/// 4 KiB blocks of the volume: 128 leaves.
const BLOCKS: u64 = 128 * 256;

fn options(max_patch_bytes: u64) -> Options {
    Options { max_patch_bytes: Some(max_patch_bytes), ..Options::for_geometry(&GEOMETRY) }
}

fn open(disk: &MemoryDisk, options: Options) -> Core {
    Core::recover(disk, Some(options)).unwrap().0
}

/// Creates an array with a volume that is written, and stored by a checkpoint.
fn written(options: Options) -> (MemoryDisk, Core) {
    let (disk, _) = create(GEOMETRY);
    let mut core = open(&disk, options);
    let change = Change::CreateVolume { volume: VOLUME, blocks: 8 * BLOCKS };
    run(&mut core, &disk, Op::Change(vec![change])).unwrap();
    for first in (0..BLOCKS).step_by(256) {
        let data = data(first, 8 * 256);
        run(&mut core, &disk, Op::Write { volume: VOLUME, lba: Lba(8 * first), data, fua: false }).unwrap();
    }
    checkpoint(&mut core, &disk);
    (disk, core)
}

fn checkpoint(core: &mut Core, disk: &MemoryDisk) {
    let before = core.checkpoints();
    core.request_checkpoint();
    common::settle(core, disk);
    assert!(core.checkpoints() > before);
}

/// Overwrites `count` random blocks, then takes a checkpoint. Returns what that wrote.
fn overwrite(core: &mut Core, disk: &MemoryDisk, rng: &mut Rng, count: u64) -> DriveWrites {
    let before = core.space().drive_writes;
    for _ in 0..count {
        let lba = Lba(8 * rng.below(BLOCKS));
        let data = data(rng.next_u64() >> 8, 8);
        run(core, disk, Op::Write { volume: VOLUME, lba, data, fua: false }).unwrap();
    }
    checkpoint(core, disk);
    let after = core.space().drive_writes;
    DriveWrites {
        patches: after.patches - before.patches,
        leaves: after.leaves - before.leaves,
        interior_pages: after.interior_pages - before.interior_pages,
        slot_pages: after.slot_pages - before.slot_pages,
        ..DriveWrites::default()
    }
}

/// Returns the newest superblock and the manifest that it names.
fn newest(disk: &MemoryDisk) -> (Superblock, Manifest) {
    let copies = std::array::from_fn(|copy| read(disk, superblock_offset(copy), SUPERBLOCK_BYTES));
    let superblock = Superblock::choose(&copies).unwrap();
    let geometry = superblock.geometry;
    let part = |run: &ManifestRun| read(disk, geometry.sector_start(run.segment(), run.sector()), run.bytes() as usize);
    let manifest: Vec<u8> = superblock.manifest.iter().flat_map(part).collect();
    (superblock, Manifest::decode(manifest.into()).unwrap())
}

fn read(disk: &MemoryDisk, offset: u64, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    disk.read_at(offset, &mut buffer).unwrap();
    buffer
}

/// Returns the bytes of the patches that the newest checkpoint names.
fn patch_bytes(disk: &MemoryDisk) -> u64 {
    newest(disk).1.patches.iter().flat_map(|list| &list.parts).map(|part| u64::from(part.bytes)).sum()
}

#[test]
fn few_changes_are_stored_as_patches() {
    let (disk, mut core) = written(options(1 << 20));
    let mut rng = Rng::new(1);
    let writes = overwrite(&mut core, &disk, &mut rng, 400);
    assert!(writes.patches > 0 && writes.patches < 128 << 10, "{writes:?}");
    assert!(writes.leaves + writes.slot_pages < 64 << 10, "{writes:?}");
    assert!(newest(&disk).0.has_patches);
    core.audit(&disk).unwrap();
    // The same without patches: nearly every page is stored again.
    let (disk, mut core) = written(options(0));
    let whole = overwrite(&mut core, &disk, &mut Rng::new(1), 400);
    assert_eq!((whole.patches, newest(&disk).0.has_patches), (0, false));
    assert!(whole.leaves + whole.slot_pages > 4 * (writes.patches + writes.leaves + writes.slot_pages), "{whole:?}");
}

#[test]
fn patches_survive_restarts_and_eviction() {
    let options = Options { page_budget: 64 << 10, ..options(1 << 20) };
    let (disk, mut core) = written(options);
    let mut rng = Rng::new(2);
    for round in 0..6 {
        overwrite(&mut core, &disk, &mut rng, 300);
        core.audit(&disk).unwrap();
        let opened = open(&disk, options);
        assert_eq!(opened.audit(&disk).unwrap(), core.audit(&disk).unwrap(), "round {round}");
        if round % 2 == 1 {
            core = opened;
        }
    }
}

#[test]
fn pages_above_the_leaves_are_stored_as_patches() {
    // Little memory for pages, and little room for patches, so that they are released.
    for (options, is_whole) in [(options(1 << 20), false), (options(4 << 10), true), (options(0), true)] {
        let options = Options { page_budget: 64 << 10, ..options };
        let (disk, mut core) = written(options);
        let mut rng = Rng::new(4);
        let copy = |number| Change::CopyVolume { source: VOLUME, destination: VolumeId(number) };
        let mut whole = 0;
        for round in 0..12 {
            if round % 3 == 0 {
                run(&mut core, &disk, Op::Change(vec![copy(2 + round)])).unwrap();
                overwrite(&mut core, &disk, &mut rng, 1);
            }
            whole += overwrite(&mut core, &disk, &mut rng, 20).interior_pages;
            assert_eq!(newest(&disk).0.has_interior_patches, newest(&disk).0.has_patches);
            let opened = open(&disk, options);
            assert_eq!(opened.audit(&disk).unwrap(), core.audit(&disk).unwrap(), "round {round}");
            if round % 2 == 1 {
                core = opened;
            }
        }
        assert_eq!(whole > 0, is_whole, "{whole} bytes of whole pages above the leaves");
        let changes = [2, 5, 8].map(|number| Change::DeleteVolume { volume: VolumeId(number) });
        run(&mut core, &disk, Op::Change(changes.to_vec())).unwrap();
        checkpoint(&mut core, &disk);
        assert_eq!(open(&disk, options).audit(&disk).unwrap(), core.audit(&disk).unwrap());
    }
}

#[test]
fn small_pools_have_no_interior_patches() {
    for segments in [127, 128] {
        let geometry = ArrayGeometry { segment_bytes: 128 << 10, log_bytes: 1 << 20, ..GEOMETRY };
        let geometry = ArrayGeometry { capacity: geometry.segment_start(segments), ..geometry };
        assert_eq!(geometry.segments(), segments);
        let (disk, mut core) = create(geometry);
        let changes = [
            Change::CreateVolume { volume: VOLUME, blocks: 8 * BLOCKS },
            Change::CopyVolume { source: VOLUME, destination: VolumeId(2) },
        ];
        let mut whole = 0;
        for (round, change) in changes.into_iter().enumerate() {
            run(&mut core, &disk, Op::Change(vec![change])).unwrap();
            for leaf in 0..8 {
                let (lba, data) = (Lba(8 * 256 * leaf), data(round as u64 * 8 + leaf, 8));
                run(&mut core, &disk, Op::Write { volume: VOLUME, lba, data, fua: false }).unwrap();
                let before = core.space().drive_writes.interior_pages;
                checkpoint(&mut core, &disk);
                whole += u64::from(core.space().drive_writes.interior_pages > before);
            }
        }
        let superblock = newest(&disk).0;
        assert_eq!((superblock.has_patches, superblock.has_interior_patches), (true, segments == 128));
        // Every checkpoint, or those that follow a new page.
        assert_eq!(whole, if segments == 128 { 2 } else { 16 });
        let opened = Core::recover(&disk, None).unwrap().0;
        assert_eq!(opened.audit(&disk).unwrap(), core.audit(&disk).unwrap());
    }
}

#[test]
fn old_patches_are_released() {
    let (disk, mut core) = written(options(32 << 10));
    let mut rng = Rng::new(3);
    for _ in 0..40 {
        overwrite(&mut core, &disk, &mut rng, 100);
        let parts = patch_bytes(&disk);
        assert!(parts <= 4 * (32 << 10), "{parts} bytes of patches");
    }
    core.audit(&disk).unwrap();
    // The next program keeps none: it stores pages in memory whole, and releases the patches.
    let mut core = open(&disk, options(0));
    for first in (0..BLOCKS).step_by(256) {
        let range = BlockRange::new(Lba(8 * first), 8 * 256).unwrap();
        run(&mut core, &disk, Op::Read { volume: VOLUME, range }).unwrap();
    }
    for _ in 0..4 {
        overwrite(&mut core, &disk, &mut rng, 20);
    }
    assert_eq!((patch_bytes(&disk), newest(&disk).0.has_patches), (0, false));
    open(&disk, options(0)).audit(&disk).unwrap();
}

#[test]
fn part_of_patches_is_read_from_the_other_copy() {
    let (disk, mut core) = written(options(1 << 20));
    overwrite(&mut core, &disk, &mut Rng::new(4), 50);
    let expected = core.audit(&disk).unwrap();
    let (_, manifest) = newest(&disk);
    let part = manifest.patches[0].parts[0];
    let mirror = manifest.segments[part.segment as usize].and_then(|segment| segment.mirror).unwrap();
    let [first, second] = [part.segment, mirror].map(|segment| GEOMETRY.sector_start(segment, part.sector));
    damage(&disk, first);
    assert_eq!(open(&disk, options(1 << 20)).audit(&disk).unwrap(), expected);
    damage(&disk, second);
    let refused = Core::recover(&disk, Some(options(1 << 20))).err().unwrap();
    assert_eq!(refused, RecoverError::LostPatches);
}

#[test]
fn unstated_interior_patches_are_refused() {
    let (disk, mut core) = written(options(1 << 20));
    let mut rng = Rng::new(4);
    let copy = Change::CopyVolume { source: VOLUME, destination: VolumeId(2) };
    run(&mut core, &disk, Op::Change(vec![copy])).unwrap();
    for _ in 0..2 {
        overwrite(&mut core, &disk, &mut rng, 20);
    }
    set_feature(&disk, false);
    let refused = Core::recover(&disk, Some(options(1 << 20))).err().unwrap();
    assert_eq!(refused, RecoverError::LostPatches);
}

#[test]
fn array_of_an_older_program_gets_the_feature() {
    // Only leaves and pages of the slot table have patches.
    let (disk, _) = written(options(0));
    let (mut core, mut rng) = (open(&disk, options(1 << 20)), Rng::new(4));
    overwrite(&mut core, &disk, &mut rng, 20);
    let expected = core.audit(&disk).unwrap();
    assert!(patch_bytes(&disk) > 0);
    set_feature(&disk, false);
    let mut core = open(&disk, options(1 << 20));
    assert_eq!(core.audit(&disk).unwrap(), expected);
    overwrite(&mut core, &disk, &mut rng, 20);
    assert!(newest(&disk).0.has_interior_patches);
    assert_eq!(open(&disk, options(1 << 20)).audit(&disk).unwrap(), core.audit(&disk).unwrap());
}

/// A pool that makes no patches above the leaves keeps the feature while it has lists.
#[test]
fn small_array_keeps_the_feature_of_its_lists() {
    let geometry = ArrayGeometry { capacity: 64 << 20, ..GEOMETRY };
    let (disk, mut core) = create(geometry);
    let change = Change::CreateVolume { volume: VOLUME, blocks: 8 * BLOCKS };
    run(&mut core, &disk, Op::Change(vec![change])).unwrap();
    for round in 0..8 {
        for leaf in 0..16 {
            let lba = Lba(8 * (256 * leaf + round));
            run(&mut core, &disk, Op::Write { volume: VOLUME, lba, data: data(lba.0, 8), fua: false }).unwrap();
        }
        checkpoint(&mut core, &disk);
    }
    let features = |disk: &MemoryDisk| (newest(disk).0.has_patches, newest(disk).0.has_interior_patches);
    assert_eq!(features(&disk), (true, false));
    set_feature(&disk, true);
    let (mut core, _) = Core::recover(&disk, None).unwrap();
    run(&mut core, &disk, Op::Write { volume: VOLUME, lba: Lba(8), data: data(9, 8), fua: false }).unwrap();
    checkpoint(&mut core, &disk);
    assert_eq!(features(&disk), (true, true));
}

/// Stores the newest superblock with or without the feature of patches above the leaves.
fn set_feature(disk: &MemoryDisk, has_interior_patches: bool) {
    let superblock = Superblock { has_interior_patches, ..newest(disk).0 };
    for copy in 0..SUPERBLOCK_COPIES {
        let bytes = superblock.encode(copy);
        disk.write_at(superblock_offset(copy), &[&bytes], Durability::Durable).unwrap();
    }
}

fn damage(disk: &MemoryDisk, offset: u64) {
    let byte = read(disk, offset, 1)[0] ^ 1;
    disk.write_at(offset, &[&[byte]], Durability::Durable).unwrap();
}
