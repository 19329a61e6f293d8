//! The census, the auditor and the scrubber of an array that is running.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use bytes::Bytes;
use common::{Memory, create, data};
use engine::{Census, Change, Core, Engine, FamilySpace, Health, Op, Owner, Reply, Service, call};
use fsck::{Structure, layout};
use std::sync::Arc;
use store::Geometry;
use units::{BlockRange, Lba, VolumeId};
use world::Disk;

const GEOMETRY: Geometry = Geometry { capacity: 16 << 20, log_bytes: 256 << 10, segment_bytes: 64 << 10 };
const FAST: u64 = 1 << 40;

fn open() -> (Arc<Memory>, Engine) {
    let (disk, core) = create(GEOMETRY);
    drop(core);
    let disk = Arc::new(disk);
    start(disk)
}

fn start(disk: Arc<Memory>) -> (Arc<Memory>, Engine) {
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

/// Volume 3 is a snapshot of volume 1; all others are families of their own.
fn owner(volume: VolumeId) -> Owner {
    Owner { family: if volume.0 == 3 { VolumeId(1) } else { volume }, is_snapshot: volume.0 == 3 }
}

fn sum(census: &Census) -> u64 {
    let families = census.families.values().map(|family| family.unique + family.snapshots).sum::<u64>();
    families + census.shared + census.released
}

fn scrub(engine: &Engine) -> Health {
    let before = engine.health().scrubs;
    engine.scrub(FAST);
    while engine.health().scrubs == before {
        std::thread::yield_now();
    }
    engine.health()
}

fn flip(disk: &Memory, byte: u64) {
    disk.0.lock()[byte as usize] ^= 0x20;
}

/// Three volumes: a block of its own for each, one that the first two share, and a snapshot that keeps what was overwritten.
fn filled() -> (Arc<Memory>, Engine) {
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
fn every_stored_byte_is_in_one_figure_of_the_census() {
    let (_disk, engine) = filled();
    let census = engine.census(&owner).expect("a census");
    assert_eq!(sum(&census), engine.space().data);
    let family = |unique, snapshots| FamilySpace { unique, snapshots };
    // Block 0 of volume 1 was overwritten, and its snapshot keeps the first one; block 1 is shared with volume 2.
    assert_eq!(census.families[&VolumeId(1)], family(4096, 4096));
    assert_eq!(census.families[&VolumeId(2)], family(4096, 0));
    assert_eq!((census.shared, census.families.len()), (4096, 2));
    // Whatever the families are, nothing is counted twice or left out.
    for families in 1..4 {
        let odd = |volume: VolumeId| Owner { family: VolumeId(volume.0 % families), is_snapshot: volume.0 == 2 };
        assert_eq!(sum(&engine.census(&odd).unwrap()), engine.space().data);
    }
    change(&engine, vec![Change::DeleteVolume { volume: VolumeId(1) }, Change::DeleteVolume { volume: VolumeId(3) }]);
    let census = engine.census(&owner).unwrap();
    assert_eq!(census.families[&VolumeId(2)].unique + census.shared + census.released, engine.space().data);
}

#[test]
fn a_scrub_of_a_sound_array_finds_nothing_and_reads_everything() {
    let (_disk, engine) = filled();
    let health = scrub(&engine);
    assert_eq!((health.damage, health.scrubs, health.is_scrubbing), (vec![], 1, false));
    assert!(health.scrubbed >= engine.space().data);
    assert_eq!(scrub(&engine).scrubs, 2);
}

#[test]
fn chores_end_when_they_are_told_to() {
    let (_disk, engine) = filled();
    engine.stop_chores();
    assert_eq!(engine.census(&owner), None);
    engine.scrub(FAST);
    assert_eq!(call(&engine, Op::Flush), Ok(Reply::Done), "hosts are still served");
    engine.close().unwrap();
}

#[test]
fn a_scrub_names_what_is_lost_and_mends_what_stands_twice() {
    let (disk, engine) = filled();
    engine.census(&owner).unwrap();
    engine.close().unwrap();
    let regions = layout(&*disk).expect("a sound array");
    let (disk, engine) = start(disk);
    let of = |structure: Structure| regions.iter().filter(move |region| region.structure == structure);
    let lost = of(Structure::Data).next().unwrap();
    flip(&disk, lost.span.offset + 5);
    let (mut mended, metadata) = (0, [Structure::MapPage, Structure::SlotTable, Structure::SlotDirectory]);
    for region in metadata.into_iter().flat_map(of) {
        flip(&disk, region.span.offset + region.span.bytes / 2);
        mended += 1;
    }
    assert!(mended > 5);
    let damage: Vec<String> = scrub(&engine).damage.into_iter().map(|damage| damage.what).collect();
    // Both copies of each page were hit: those in memory are stored anew, and of the others one tells.
    assert!(
        damage.iter().any(|what| what.contains(&format!("{} of the drive) does not pass", lost.span.offset))),
        "{damage:?}"
    );
    drop((engine, disk));
}

#[test]
fn one_bad_copy_of_a_page_is_stored_anew() {
    let (disk, engine) = filled();
    engine.close().unwrap();
    let regions = layout(&*disk).expect("a sound array");
    let (disk, engine) = start(disk);
    let first_copies = regions.iter().enumerate().filter(|(index, region)| {
        let is_page = matches!(region.structure, Structure::MapPage | Structure::SlotTable | Structure::SlotDirectory);
        is_page && !regions[..*index].iter().any(|before| before.name == region.name)
    });
    first_copies.for_each(|(_, region)| flip(&disk, region.span.offset));
    assert_eq!(scrub(&engine).damage, []);
    engine.close().unwrap();
    let report = fsck::check(&*disk, fsck::Options { is_mending: false, has_data: true, threads: 1 });
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}
