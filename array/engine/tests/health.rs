//! Space accounting, audit and scrub of a running array.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use bytes::Bytes;
use common::{MemoryDisk, create, data};
use engine::{Change, Core, Engine, FamilySpace, Health, Maintenance, Op, OpError, Owner, Reply, SpaceByFamily, call};
use fsck::{Structure, layout};
use ondisk::ArrayGeometry;
use platform::Disk;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use testing::Rng;
use types::{BlockRange, Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 16 << 20, log_bytes: 256 << 10, segment_bytes: 64 << 10 };
const FAST: u64 = 1 << 40;

fn open() -> (Arc<MemoryDisk>, Engine) {
    let (disk, core) = create(GEOMETRY);
    drop(core);
    let disk = Arc::new(disk);
    start(disk)
}

fn start(disk: Arc<MemoryDisk>) -> (Arc<MemoryDisk>, Engine) {
    let (core, _) = Core::recover(&*disk, None).unwrap();
    let engine = Engine::start(core, disk.clone() as Arc<dyn Disk>);
    (disk, engine)
}

fn done(engine: &Engine, op: Op) {
    assert_eq!(call(engine, op), Ok(Reply::Done));
}

fn write(engine: &Engine, volume: u64, lba: u64, data: Bytes) {
    done(engine, Op::Write { volume: VolumeId(volume), lba: Lba(lba), data, fua: false });
}

fn change(engine: &Engine, changes: Vec<Change>) {
    done(engine, Op::Change(changes));
}

/// Volume 3 is a snapshot of volume 1; every other volume is its own family.
fn owner(volume: VolumeId) -> Owner {
    Owner { family: if volume.0 == 3 { VolumeId(1) } else { volume }, is_snapshot: volume.0 == 3 }
}

fn sum(accounting: &SpaceByFamily) -> u64 {
    accounting.families.values().map(FamilySpace::physical).sum::<u64>() + accounting.released
}

fn scrub(engine: &Engine) -> Health {
    let before = engine.health().scrubs;
    engine.scrub(FAST);
    while engine.health().scrubs == before {
        std::thread::yield_now();
    }
    engine.health()
}

fn flip(disk: &MemoryDisk, byte: u64) {
    disk.lock()[byte as usize] ^= 0x20;
}

/// Three volumes: one unique block each, one block that the first two share, and a snapshot that
/// keeps an overwritten block.
fn filled() -> (Arc<MemoryDisk>, Engine) {
    let (disk, engine) = open();
    let create = |volume| Change::CreateVolume { volume: VolumeId(volume), blocks: 4096 };
    change(&engine, vec![create(1), create(2)]);
    write(&engine, 1, 0, data(1, 16));
    write(&engine, 2, 0, data(2, 8));
    change(&engine, vec![Change::CopyVolume { source: VolumeId(1), destination: VolumeId(3) }]);
    write(&engine, 1, 0, data(3, 8));
    let from = BlockRange::new(Lba(8), 8).unwrap();
    done(&engine, Op::Copy { source: VolumeId(1), from, destination: VolumeId(2), to: Lba(64) });
    (disk, engine)
}

#[test]
fn every_stored_byte_is_accounted_once() {
    let (_disk, engine) = filled();
    let accounting = engine.account_space(&owner, None).expect("a accounting");
    assert_eq!(sum(&accounting), engine.space().data);
    // Block 0 of volume 1 was overwritten, and its snapshot keeps the old one; block 1 is shared
    // with volume 2.
    let first = FamilySpace { written: 8192, unique: 4096, snapshots: 4096, shared: 2048 };
    assert_eq!(accounting.families[&VolumeId(1)], first);
    assert_eq!(
        accounting.families[&VolumeId(2)],
        FamilySpace { written: 8192, unique: 4096, snapshots: 0, shared: 2048 }
    );
    assert_eq!((accounting.shared(), accounting.snapshots(), accounting.families.len()), (4096, 4096, 2));
    // For any grouping into families, every byte is counted exactly once.
    for families in 1..4 {
        let odd = |volume: VolumeId| Owner { family: VolumeId(volume.0 % families), is_snapshot: volume.0 == 2 };
        assert_eq!(sum(&engine.account_space(&odd, None).unwrap()), engine.space().data);
    }
    change(&engine, vec![Change::DeleteVolume { volume: VolumeId(1) }, Change::DeleteVolume { volume: VolumeId(3) }]);
    let accounting = engine.account_space(&owner, None).unwrap();
    assert_eq!(accounting.families[&VolumeId(2)].unique + accounting.released, engine.space().data);
    assert_eq!(accounting.shared(), 0);
}

#[test]
fn a_slow_count_is_abandoned() {
    let (_disk, engine) = filled();
    assert_eq!(engine.account_space(&owner, Some(Duration::ZERO)), None);
    assert!(engine.account_space(&owner, Some(Duration::from_secs(3600))).is_some());
}

#[test]
fn ownership_changes_invalidate_space_accounting() {
    let (_disk, engine) = filled();
    engine.account_space(&owner, None).expect("a accounting");
    let before = engine.space();
    engine.account_space(&owner, None).expect("a accounting");
    assert_eq!((engine.space().changes, engine.space().data), (before.changes, before.data));
    // Block 1 of volume 1, shared with volume 2, becomes a block that volume 3 holds: stored and
    // written bytes stay the same.
    let from = BlockRange::new(Lba(0), 8).unwrap();
    done(&engine, Op::Copy { source: VolumeId(3), from, destination: VolumeId(1), to: Lba(8) });
    let after = engine.space();
    assert_eq!((after.data, after.written), (before.data, before.written));
    assert!(after.changes > before.changes);
}

/// Content by number: no two blocks are equal, and none is compressible.
type Content = Vec<Option<u64>>;

/// Expected accounting, computed from the content of the volumes: `(unique, snapshots, shared)` of
/// each family, and the total of shared bytes. `shared` is scaled by 6, so that it is an integer
/// for two and for three owners.
fn expected(volumes: &BTreeMap<u64, Content>) -> (BTreeMap<VolumeId, (u64, u64, u64)>, u64) {
    let mut holders: BTreeMap<u64, BTreeSet<(VolumeId, bool)>> = BTreeMap::new();
    for (volume, content) in volumes {
        let Owner { family, is_snapshot } = family_of(VolumeId(*volume));
        for held in content.iter().flatten() {
            holders.entry(*held).or_default().insert((family, is_snapshot));
        }
    }
    let mut families: BTreeMap<VolumeId, (u64, u64, u64)> =
        volumes.keys().map(|volume| (family_of(VolumeId(*volume)).family, (0, 0, 0))).collect();
    let mut shared = 0;
    for held in holders.values() {
        let (family, is_snapshot) = *held.first().unwrap();
        if held.iter().any(|(other, _)| *other != family) {
            shared += 4096;
            let together: BTreeSet<VolumeId> = held.iter().map(|(family, _)| *family).collect();
            for family in &together {
                families.get_mut(family).unwrap().2 += 6 * 4096 / together.len() as u64;
            }
        } else {
            // The volume precedes its snapshots: blocks that it holds are its own.
            let (unique, snapshots, _) = families.get_mut(&family).unwrap();
            *(if is_snapshot { snapshots } else { unique }) += 4096;
        }
    }
    (families, shared)
}

/// Volumes 1, 2, 3; 11, 12, … are snapshots of 1, 21, 22, … of 2.
fn family_of(volume: VolumeId) -> Owner {
    let is_snapshot = volume.0 > 9;
    Owner { family: if is_snapshot { VolumeId(volume.0 / 10) } else { volume }, is_snapshot }
}

#[test]
fn accounting_is_exact_through_snapshots_and_clones() {
    const BLOCKS: usize = 300;
    let (_disk, engine) = open();
    let mut volumes: BTreeMap<u64, Content> = BTreeMap::new();
    let blocks = BLOCKS as u64 * 8;
    for volume in 1..=3 {
        change(&engine, vec![Change::CreateVolume { volume: VolumeId(volume), blocks: blocks.next_multiple_of(8) }]);
        volumes.insert(volume, vec![None; BLOCKS]);
    }
    let (mut rng, mut written) = (Rng::new(12345), 0);
    let mut pick = |below: u64| rng.below(below);
    for round in 0..60_u64 {
        let names: Vec<u64> = volumes.keys().copied().collect();
        let any = names[pick(names.len() as u64) as usize];
        let volume = pick(3) + 1;
        match pick(8) {
            0 | 1 => {
                let snapshot = volume * 10 + pick(4);
                let (source, destination) = (VolumeId(volume), VolumeId(snapshot));
                change(&engine, vec![Change::CopyVolume { source, destination }]);
                volumes.insert(snapshot, volumes[&volume].clone());
            }
            2 if any != volume => {
                let (source, destination) = (VolumeId(any), VolumeId(volume));
                change(&engine, vec![Change::CopyVolume { source, destination }]);
                volumes.insert(volume, volumes[&any].clone());
            }
            3 if any > 9 => {
                change(&engine, vec![Change::DeleteVolume { volume: VolumeId(any) }]);
                volumes.remove(&any);
            }
            4 => {
                let (from, to, length) = (pick(100) as usize, 150 + pick(100) as usize, 1 + pick(50) as usize);
                let source = BlockRange::new(Lba(from as u64 * 8), length as u64 * 8).unwrap();
                let (other, to_lba) = (VolumeId(volume % 3 + 1), Lba(to as u64 * 8));
                done(&engine, Op::Copy { source: VolumeId(volume), from: source, destination: other, to: to_lba });
                let copied = volumes[&volume][from..from + length].to_vec();
                volumes.get_mut(&other.0).unwrap()[to..to + length].copy_from_slice(&copied);
            }
            _ => {
                let (at, length) = (pick(250), 1 + pick(40));
                for block in at..at + length {
                    written += 1;
                    write(&engine, volume, block * 8, data(1000 + written, 8));
                    volumes.get_mut(&volume).unwrap()[block as usize] = Some(written);
                }
            }
        }
        if round % 4 != 3 {
            continue;
        }
        let accounting = engine.account_space(&family_of, None).expect("a accounting");
        let (families, shared) = expected(&volumes);
        assert_eq!(accounting.shared(), shared, "after {round} rounds");
        assert_eq!(accounting.families.len(), families.len());
        for (family, space) in &accounting.families {
            let (unique, snapshots, shared) = families[family];
            assert_eq!((space.unique, space.snapshots), (unique, snapshots), "{family} after {round} rounds");
            // Four combinations of families, each exact to the byte.
            assert!((6 * space.shared).abs_diff(shared) < 24, "{family} after {round} rounds: {space:?}");
            let mapped = volumes[&family.0].iter().flatten().count() as u64;
            assert_eq!(space.written, mapped * 4096);
        }
        let written: u64 = volumes.values().map(|content| content.iter().flatten().count() as u64 * 4096).sum();
        assert_eq!(engine.space().written, written);
    }
}

#[test]
fn a_scrub_of_an_intact_array_reads_everything() {
    let (_disk, engine) = filled();
    let health = scrub(&engine);
    assert_eq!((health.damage, health.scrubs, health.is_scrubbing), (vec![], 1, false));
    assert!(health.scrubbed >= engine.space().data);
    assert_eq!(scrub(&engine).scrubs, 2);
}

#[test]
fn background_scans_stop_on_request() {
    let (_disk, engine) = filled();
    engine.cancel_background_scans();
    assert_eq!(engine.account_space(&owner, None), None);
    engine.scrub(FAST);
    assert_eq!(call(&engine, Op::Flush), Ok(Reply::Done), "hosts must still be served");
    engine.close().unwrap();
}

#[test]
fn read_damage_is_reported_until_a_clean_scrub() {
    let (disk, engine) = filled();
    engine.close().unwrap();
    let data: Vec<_> =
        layout(&*disk).unwrap().into_iter().filter(|region| region.structure == Structure::Data).collect();
    let (disk, engine) = start(disk);
    data.iter().for_each(|region| flip(&disk, region.span.offset + 3));
    assert_eq!(engine.health(), Health::default());
    let range = |lba| BlockRange::new(Lba(lba), 8).unwrap();
    let read = |volume, lba| call(&engine, Op::Read { volume: VolumeId(volume), range: range(lba) });
    let lost = |lba| Err(OpError::MediumError { lba: Lba(lba) });
    assert_eq!((read(2, 0), read(2, 64), read(2, 64)), (lost(0), lost(64), lost(64)));
    let (volume, compare, write_data) = (VolumeId(1), data_of(1), data_of(2));
    let swap = Op::CompareAndWrite { volume, lba: Lba(8), compare, write: write_data };
    assert_eq!(call(&engine, swap), lost(8));
    let told: Vec<_> =
        engine.health().damage.into_iter().map(|damage| (damage.volume.unwrap().0, damage.description)).collect();
    let text = |blocks: &str| format!("{blocks} (first block + blocks)");
    assert_eq!(
        told,
        [(1, text("1 block of 4 KiB cannot be read: 1+1")), (2, text("2 blocks of 4 KiB cannot be read: 0+1 8+1"))]
    );
    data.iter().for_each(|region| flip(&disk, region.span.offset + 3));
    assert_eq!(engine.health().damage.len(), 2, "no scrub has run since");
    assert_eq!(scrub(&engine).damage, []);
}

/// A logical block of 512 bytes.
fn data_of(seed: u64) -> Bytes {
    data(seed, 1)
}

#[test]
fn a_scrub_lists_losses_and_repairs_second_copies() {
    let (disk, engine) = filled();
    engine.account_space(&owner, None).unwrap();
    engine.close().unwrap();
    let regions = layout(&*disk).expect("an intact array");
    let (disk, engine) = start(disk);
    let of = |structure: Structure| regions.iter().filter(move |region| region.structure == structure);
    let lost = of(Structure::Data).next().unwrap();
    flip(&disk, lost.span.offset + 5);
    let (mut repaired, metadata) = (0, [Structure::MapPage, Structure::SlotTable, Structure::SlotDirectory]);
    for region in metadata.into_iter().flat_map(of) {
        flip(&disk, region.span.offset + region.span.bytes / 2);
        repaired += 1;
    }
    assert!(repaired > 5);
    let damage: Vec<String> = scrub(&engine).damage.into_iter().map(|damage| damage.description).collect();
    // Both copies of each page are damaged: pages in memory are stored again, one of the others is
    // reported.
    assert!(
        damage.iter().any(|what| what.contains(&format!("{} of the drive) does not pass", lost.span.offset))),
        "{damage:?}"
    );
    let by_volume: Vec<&String> = damage.iter().filter(|what| what.contains("of 4 KiB cannot be read")).collect();
    // The tree pages are damaged, so each volume of 2 MiB is lost as a whole.
    assert!(!by_volume.is_empty(), "{damage:?}");
    assert!(
        by_volume.iter().all(|what| what.starts_with("512 blocks of 4 KiB cannot be read: 0+512 ")),
        "{by_volume:?}"
    );
    drop((engine, disk));
}

#[test]
fn a_page_with_one_bad_copy_is_stored_again() {
    let (disk, engine) = filled();
    engine.close().unwrap();
    // Changes a page that is stored, so that the checkpoint at the end stores a patch of it.
    let (disk, engine) = start(disk);
    write(&engine, 1, 0, data(9, 8));
    engine.close().unwrap();
    let regions = layout(&*disk).expect("an intact array");
    assert!(regions.iter().any(|region| region.structure == Structure::PatchList));
    let (disk, engine) = start(disk);
    let first_copies = regions.iter().enumerate().filter(|(index, region)| {
        let is_page = matches!(
            region.structure,
            Structure::MapPage | Structure::SlotTable | Structure::SlotDirectory | Structure::PatchList
        );
        is_page && !regions[..*index].iter().any(|before| before.name == region.name)
    });
    first_copies.for_each(|(_, region)| flip(&disk, region.span.offset));
    assert_eq!(scrub(&engine).damage, []);
    engine.close().unwrap();
    let report = fsck::check(&*disk, fsck::FsckOptions { repair: false, check_data: true, threads: 1 });
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}
