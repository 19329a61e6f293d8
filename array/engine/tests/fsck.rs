//! `fsck` on arrays of the engine: intact ones are clean, and a flipped bit anywhere is found and
//! named.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use bytes::Bytes;
use common::{MemoryDisk, create, data, run, settle};
use engine::{Change, Core, Op, Options};
use fsck::{Finding, FsckOptions, FsckReport, Region, Severity, Structure, check, layout};
use ondisk::ArrayGeometry;
use std::collections::BTreeSet;
use types::{BlockRange, Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 4 << 20, log_bytes: 256 << 10, segment_bytes: 64 << 10 };
const READ_ONLY: FsckOptions = FsckOptions { repair: false, check_data: true, threads: 2 };
const MENDING: FsckOptions = FsckOptions { repair: true, ..READ_ONLY };

fn write(volume: u64, lba: u64, data: Bytes) -> Op {
    Op::Write { volume: VolumeId(volume), lba: Lba(lba), data, fua: false }
}

fn range(start: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(start), blocks).unwrap()
}

/// Highly compressible bytes.
fn dense(seed: u64, blocks: u64) -> Bytes {
    data(seed, blocks).chunks(16).flat_map(|chunk| [chunk[0]; 16]).collect()
}

fn checkpoint(core: &mut Core, disk: &MemoryDisk) {
    core.request_checkpoint();
    settle(core, disk);
}

/// An array with an instance of every structure: shared and compressed blocks, a snapshot, a tree
/// of two levels, deleted data, pages with patches, and log groups after the checkpoint.
fn filled() -> (MemoryDisk, Core) {
    filled_with(Options::for_geometry(&GEOMETRY))
}

fn filled_with(options: Options) -> (MemoryDisk, Core) {
    let (disk, _) = create(GEOMETRY);
    let (mut core, _) = Core::recover(&disk, Some(options)).unwrap();
    let change = |changes: Vec<Change>| Op::Change(changes);
    for op in [
        change(vec![Change::CreateVolume { volume: VolumeId(1), blocks: 8192 }]),
        change(vec![Change::CreateVolume { volume: VolumeId(2), blocks: 2048 }]),
        change(vec![Change::Put { key: b"key".to_vec(), value: b"value".to_vec() }]),
        write(1, 0, data(1, 64)),
        write(1, 2048, dense(2, 64)),
        write(1, 4099, data(3, 9)),
        Op::Copy { source: VolumeId(1), from: range(0, 64), destination: VolumeId(2), to: Lba(64) },
        Op::Zero { volume: VolumeId(1), range: range(512, 64) },
    ] {
        run(&mut core, &disk, op).unwrap();
    }
    checkpoint(&mut core, &disk);
    for op in [
        change(vec![Change::CopyVolume { source: VolumeId(1), destination: VolumeId(3) }]),
        write(1, 0, data(4, 16)),
        write(2, 64, data(1, 16)),
        Op::Unmap { volume: VolumeId(3), ranges: vec![range(2048, 2048)] },
    ] {
        run(&mut core, &disk, op).unwrap();
    }
    checkpoint(&mut core, &disk);
    for seed in 10..13 {
        run(&mut core, &disk, write(2, seed * 8, data(seed, 8))).unwrap();
    }
    (disk, core)
}

fn flip(disk: &MemoryDisk, byte: u64, bit: u32) {
    disk.lock()[byte as usize] ^= 1 << bit;
}

fn tell(report: &FsckReport) -> String {
    report.findings.iter().map(|finding| format!("{:?} {finding}\n", finding.severity)).collect()
}

fn assert_clean(disk: &MemoryDisk) {
    let report = check(disk, READ_ONLY);
    assert_eq!(report.findings, [], "{}", tell(&report));
}

#[test]
fn an_intact_array_is_clean_and_counted() {
    let (disk, _) = filled();
    let report = check(&disk, READ_ONLY);
    assert!(report.is_clean() && report.findings.is_empty(), "{}", tell(&report));
    assert_eq!((report.volumes, report.log_totals.groups, report.log_totals.records), (3, 3, 3));
    assert!(report.mark_totals.pages > 4 && report.mark_totals.references > report.mark_totals.blocks);
    assert!(report.read_totals.groups > 0 && report.read_totals.data > 0 && report.read_totals.summaries > 1);
    let (empty, _) = create(GEOMETRY);
    assert_clean(&empty);
}

/// The bytes of a region to try: the first, the last, and some between.
fn tried(region: &Region) -> Vec<u64> {
    let (from, bytes) = (region.span.offset, region.span.bytes);
    BTreeSet::from([from, from + bytes / 3, from + bytes / 2, from + bytes - 1]).into_iter().collect()
}

#[test]
fn a_flipped_bit_in_any_structure_is_found_and_named() {
    let (disk, _) = filled();
    let regions = layout(&disk).expect("a sound array");
    let kinds: BTreeSet<Structure> = regions.iter().map(|region| region.structure).collect();
    use Structure::{
        Data, KeyBlock, Log, Manifest, MapPage, Owner, PatchList, SlotDirectory, SlotTable, Summary, Superblock,
    };
    assert_eq!(
        kinds,
        BTreeSet::from([
            Superblock,
            Owner,
            KeyBlock,
            Manifest,
            PatchList,
            SlotDirectory,
            SlotTable,
            MapPage,
            Data,
            Summary,
            Log
        ])
    );
    for region in &regions {
        for byte in tried(region) {
            flip(&disk, byte, byte as u32 % 8);
            let report = check(&disk, READ_ONLY);
            let is_named = |structure: Structure| {
                report.findings.iter().any(|finding| {
                    let covers = finding
                        .place
                        .is_some_and(|place| (place.offset..place.offset + place.bytes.max(4096)).contains(&byte));
                    finding.structure == structure && (covers || structure == Log)
                })
            };
            assert!(is_named(region.structure), "byte {byte} of {region:?}:\n{}", tell(&report));
            flip(&disk, byte, byte as u32 % 8);
        }
    }
    assert_clean(&disk);
}

#[test]
fn bytes_between_structures_are_ignored() {
    let (disk, _) = filled();
    let regions = layout(&disk).expect("a sound array");
    for byte in (0..GEOMETRY.capacity).step_by(4099) {
        if regions.iter().all(|region| !(region.span.offset..region.span.offset + region.span.bytes).contains(&byte)) {
            flip(&disk, byte, 3);
            assert_clean(&disk);
            flip(&disk, byte, 3);
        }
    }
}

#[test]
fn a_bad_copy_is_repaired_from_the_good_one() {
    let (disk, _) = filled();
    let sound = disk.image();
    for region in layout(&disk).expect("a sound array") {
        if matches!(region.structure, Structure::Data | Structure::Log) {
            continue;
        }
        flip(&disk, region.span.offset + region.span.bytes / 2, 1);
        let report = check(&disk, READ_ONLY);
        let is_in_data = region.structure == Structure::Summary && report.worst() == Some(Severity::Damage);
        if is_in_data {
            // The summary of a data segment has one copy.
            flip(&disk, region.span.offset + region.span.bytes / 2, 1);
            continue;
        }
        assert_eq!(report.worst(), Some(Severity::Redundancy), "{region:?}: {}", tell(&report));
        let report = check(&disk, MENDING);
        assert!(report.findings.iter().all(|finding| finding.is_repaired), "{}", tell(&report));
        assert!(disk.image() == sound, "{region:?} was not restored");
    }
    assert_clean(&disk);
}

#[test]
fn lost_data_is_reported_by_volume_and_block() {
    let (disk, _) = filled();
    // A raw block of the first write, which volumes 1 (changed since), 2 and 3 shared.
    let regions = layout(&disk).expect("a sound array");
    for region in regions.iter().filter(|region| region.structure == Structure::Data) {
        flip(&disk, region.span.offset, 0);
        let report = check(&disk, READ_ONLY);
        assert_eq!(report.worst(), Some(Severity::Damage));
        assert!(!report.unreadable.is_empty(), "{}", tell(&report));
        let (volume, hurt) = report.unreadable.iter().next().unwrap();
        let (start, blocks) = hurt.runs[0];
        let (mut core, _) = Core::recover(&disk, None).unwrap();
        if volume.0 != 2 {
            // Volume 2 was written after the checkpoint.
            let answer = run(&mut core, &disk, Op::Read { volume: *volume, range: range(start, blocks) });
            assert!(matches!(answer, Err(engine::OpError::MediumError { .. })), "{volume} {start}: {answer:?}");
        }
        flip(&disk, region.span.offset, 0);
    }
}

#[test]
fn acknowledged_groups_differ_from_torn_ones() {
    let (disk, _) = filled();
    let groups: Vec<Region> =
        layout(&disk).unwrap().into_iter().filter(|region| region.structure == Structure::Log).collect();
    assert_eq!(groups.len(), 3);
    let verdicts = groups.iter().map(|group| {
        flip(&disk, group.span.offset + 100, 2);
        let report = check(&disk, READ_ONLY);
        flip(&disk, group.span.offset + 100, 2);
        (report.worst(), report.log_totals.groups)
    });
    let verdicts: Vec<_> = verdicts.collect();
    assert_eq!(verdicts, [(Some(Severity::Damage), 0), (Some(Severity::Damage), 1), (Some(Severity::Note), 2)]);
}

#[test]
fn a_drive_without_an_array_is_reported() {
    let disk = MemoryDisk::new(1 << 20);
    let report = check(&disk, READ_ONLY);
    assert_eq!(report.worst(), Some(Severity::Damage));
    assert!(report.checkpoint.is_none() && report.findings.iter().all(|f| f.structure == Structure::Superblock));
}

/// Reads a number of a stored structure.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes[at..at + length].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Changes the count of the first slot that has count `from`, and corrects all checksums above it.
/// Only a recount can find this. The array has no patches.
fn forge_count(disk: &MemoryDisk, from: u32, to: u32) -> Option<u64> {
    let mut image = disk.lock();
    let superblock = |image: &[u8], at: usize, length: usize| number(image, at, length);
    let [log_bytes, segment_bytes] = [48, 56].map(|at| superblock(&image, at, 8));
    let place = |location: &[u8]| {
        let (segment, sector) = (number(location, 0, 4), number(location, 4, 4));
        (65536 + log_bytes + segment * segment_bytes + sector * 512) as usize
    };
    // Writes both copies of a metadata item, which are equal, and returns the checksum.
    let store = |image: &mut [u8], at: usize, bytes: &[u8]| {
        let before = image[at..at + bytes.len()].to_vec();
        let places = (0..image.len() - bytes.len()).step_by(512);
        let copies: Vec<usize> = places.filter(|place| image[*place..].starts_with(&before)).collect();
        assert!(copies.len() == 2 && copies.contains(&at), "{copies:?}");
        copies.into_iter().for_each(|place| image[place..place + bytes.len()].copy_from_slice(bytes));
        crc32c::crc32c(bytes)
    };
    assert_eq!(superblock(&image, 12, 4), 1, "one run");
    let run = image[240..260].to_vec();
    // A location with the sector of the run.
    let (run_at, run_bytes) = (place(&[&run[..4], &run[8..12]].concat()), number(&run, 12, 4) as usize);
    let mut manifest = image[run_at..run_at + run_bytes].to_vec();
    // The location of the only directory page precedes the drops.
    let drops = (0..).find(|drops| number(&manifest, run_bytes - 8 * (drops + 1), 8) == *drops as u64)?;
    let location = run_bytes - 8 * (drops + 1) - 16;
    let directory_at = place(&manifest[location..location + 16]);
    let mut directory = image[directory_at..directory_at + 4096].to_vec();
    let table_at = place(&directory[..16]);
    let mut table = image[table_at..table_at + 4096].to_vec();
    let slot = (0..256).find(|slot| number(&table, slot * 16 + 12, 4) == u64::from(from))?;
    table[slot * 16 + 12..slot * 16 + 16].copy_from_slice(&to.to_le_bytes());
    let crc = store(&mut image, table_at, &table);
    directory[12..16].copy_from_slice(&crc.to_le_bytes());
    let crc = store(&mut image, directory_at, &directory);
    manifest[location + 12..location + 16].copy_from_slice(&crc.to_le_bytes());
    let crc = store(&mut image, run_at, &manifest);
    for copy in 0..4 {
        let at = copy * 16384;
        image[at + 256..at + 260].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32c::crc32c(&image[at..at + 4080]);
        image[at + 4080..at + 4084].copy_from_slice(&crc.to_le_bytes());
    }
    Some(slot as u64)
}

#[test]
fn every_audit_finds_a_forged_count() {
    for (from, to) in [(1, 2), (2, 1), (2, 3), (1, 1000)] {
        let (disk, core) = filled_with(Options { max_patch_bytes: Some(0), ..Options::for_geometry(&GEOMETRY) });
        drop(core);
        let slot = forge_count(&disk, from, to).expect("a slot to forge");
        let report = check(&disk, READ_ONLY);
        let counts: Vec<_> = report.findings.iter().filter(|finding| finding.structure == Structure::Count).collect();
        assert_eq!(counts.len(), 1, "{from} to {to}: {}", tell(&report));
        // The summaries still list the pages with their old checksums, and the sum of shared
        // sectors may change.
        let is_expected = |finding: &&Finding| match finding.structure {
            Structure::Count | Structure::Summary => true,
            structure => structure == Structure::SlotTable && finding.name == "sums of the slot table",
        };
        assert_eq!(report.findings.iter().filter(is_expected).count(), report.findings.len(), "{}", tell(&report));
        let told = format!("reference count of slot {slot}: {to} references are recorded, but {from} were found");
        assert!(counts[0].to_string().starts_with(&told), "{}", counts[0]);
        // The engine's own audit, after replay, which may have changed the count.
        let (core, _) = Core::recover(&disk, None).unwrap();
        assert!(core.audit(&disk).is_err(), "{from} to {to}");
        // The audit that reads a checkpoint of a running array.
        let findings = fsck::FsckFindings::default();
        let checkpoint = fsck::Checkpoint::open(&disk, core.newest_superblock().clone(), &findings).unwrap();
        fsck::audit(&checkpoint, &findings, &|| true);
        let counts = findings.take().0.into_iter().filter(|finding| finding.structure == Structure::Count);
        assert_eq!(counts.count(), 1);
    }
}
