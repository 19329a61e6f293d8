//! `ibid fsck` on a clean, a damaged and a running array.

use crate::array::{Array, Served, ibid};
use crate::host::{Host, noise};
use ::fsck::Structure;
use platform::{Disk, Durability, FileDisk};
use std::path::Path;
use std::process::Output;

/// Offset of the second superblock copy, in bytes.
const COPY: u64 = 16384;

fn fsck(path: &Path, more: &[&str]) -> Output {
    ibid().arg("fsck").arg(path).args(more).output().unwrap()
}

fn flip(path: &Path, byte: u64) {
    let disk = FileDisk::open(&path.join("array"), 0).unwrap();
    let mut held = [0];
    disk.read_at(byte, &mut held).unwrap();
    disk.write_at(byte, &[&[held[0] ^ 4]], Durability::Volatile).unwrap();
}

#[test]
fn fsck_reports_and_repairs_a_flipped_bit() {
    let array = Array::new("fsck");
    array.text("volume create vm1 --size 1T");
    let path = array.scratch.0.clone();
    let running = fsck(&path, &[]);
    assert_eq!(running.status.code(), Some(8), "{running:?}");
    assert!(String::from_utf8_lossy(&running.stderr).contains("it is in use by process"), "{running:?}");
    let Array { served, scratch } = array;
    assert_eq!(served.end("KILL").0, None);
    let clean = fsck(&path, &["--json"]);
    assert_eq!(clean.status.code(), Some(0), "{clean:?}");
    let report: serde_json::Value = serde_json::from_slice(&clean.stdout).unwrap();
    assert_eq!((&report["status"], report["findings"].as_array().map(Vec::len)), (&"clean".into(), Some(0)));
    assert!(report["log_records"].as_u64() > Some(0), "{report}");
    flip(&path, COPY + 300);
    let damaged = fsck(&path, &[]);
    let text = String::from_utf8_lossy(&damaged.stdout).into_owned();
    assert_eq!(damaged.status.code(), Some(4), "{text}");
    assert!(
        text.contains("copy lost: copy 1 of the superblock (4096 bytes at 16384 of the drive): its checksum"),
        "{text}"
    );
    let repaired = fsck(&path, &["--repair"]);
    assert_eq!(repaired.status.code(), Some(1), "{repaired:?}");
    assert_eq!(fsck(&path, &[]).status.code(), Some(0));
    drop(scratch);
}

/// CRC32C of bytes, one bit after the other.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 })
    })
}

#[test]
fn array_of_a_newer_program_is_not_called_damaged() {
    let array = Array::new("newer");
    let path = array.scratch.0.clone();
    let Array { served, scratch } = array;
    assert_eq!(served.end("TERM").0, Some(0));
    let disk = FileDisk::open(&path.join("array"), 0).unwrap();
    for copy in 0..4 {
        let mut bytes = [0; 4096];
        disk.read_at(copy * COPY, &mut bytes).unwrap();
        bytes[8..10].copy_from_slice(&99_u16.to_le_bytes());
        let sum = crc(&bytes[..4080]);
        bytes[4080..4084].copy_from_slice(&sum.to_le_bytes());
        disk.write_at(copy * COPY, &[&bytes], Durability::Durable).unwrap();
    }
    drop(disk);
    let serve = ibid().args(["serve", "--data"]).arg(&path).output().unwrap();
    for (output, code) in [(fsck(&path, &[]), 8), (fsck(&path, &["--repair"]), 8), (serve, 1)] {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains("format version 99 is not supported") && text.contains("or a newer one"), "{text}");
    }
    drop(scratch);
}

#[test]
fn fsck_of_a_missing_path_exits_with_8() {
    assert_eq!(fsck(Path::new("/nowhere/at/all"), &[]).status.code(), Some(8));
}

#[test]
fn fsck_salvages_a_lost_slot_table_and_map() {
    let array = Array::new("salvage");
    array.text("volume create vm1 --size 1G");
    let mut host = Host::new(&array, "vm1");
    (0..4).for_each(|piece| host.write(piece * 4096, noise(piece, 64 << 10)));
    drop(host);
    let Array { served, scratch } = array;
    assert_eq!(served.end("TERM").0, Some(0));
    let path = scratch.0.clone();
    let regions = ::fsck::layout(&FileDisk::open(&path.join("array"), 0).unwrap()).unwrap();
    let damage = |structure: Structure| {
        let regions = regions.iter().filter(|region| region.structure == structure);
        regions.for_each(|region| flip(&path, region.span.offset + region.span.bytes / 2));
    };
    damage(Structure::SlotTable);
    assert_eq!(fsck(&path, &[]).status.code(), Some(4));
    let salvaged = fsck(&path, &["--salvage"]);
    assert_eq!(salvaged.status.code(), Some(1), "{salvaged:?}");
    assert_eq!(fsck(&path, &[]).status.code(), Some(0));
    let regions = ::fsck::layout(&FileDisk::open(&path.join("array"), 0).unwrap()).unwrap();
    let leaf = |region: &&::fsck::Region| region.structure == Structure::MapPage && region.span.bytes == 2048;
    let first = regions.iter().find(leaf).unwrap().name.clone();
    regions.iter().filter(|region| region.name == first).for_each(|region| flip(&path, region.span.offset + 8));
    let salvaged = fsck(&path, &["--salvage", "--json"]);
    assert_eq!(salvaged.status.code(), Some(2), "{salvaged:?}");
    let report: serde_json::Value = serde_json::from_slice(&salvaged.stdout).unwrap();
    let lost = &report["lost"][0];
    assert_eq!((&report["status"], &lost["name"], &lost["blocks"]), (&"salvaged".into(), &"vm1".into(), &2048.into()));
    let clean = fsck(&path, &[]);
    assert_eq!(clean.status.code(), Some(0));
    assert!(
        String::from_utf8_lossy(&clean.stdout).contains("lost: 2048 blocks of 512 bytes of volume vm1"),
        "{clean:?}"
    );
    let array = Array { served: Served::start(&path, &[]), scratch };
    let mut host = Host::log_in(&array, 1);
    let pieces: Vec<_> = (0..4).map(|piece| host.try_read(piece * 4096, 128)).collect();
    let readable = |piece: &u64| pieces[*piece as usize].as_ref().is_ok_and(|data| *data == noise(*piece, 64 << 10));
    assert_eq!((0..4).filter(readable).count(), 3, "one piece is in the lost leaf");
    assert_eq!(pieces.iter().filter(|piece| piece.is_err()).count(), 1);
}
