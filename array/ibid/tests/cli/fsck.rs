//! `ibid fsck` on a clean, a damaged and a running array.

use crate::array::{Array, ibid};
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

#[test]
fn fsck_of_a_missing_path_exits_with_8() {
    assert_eq!(fsck(Path::new("/nowhere/at/all"), &[]).status.code(), Some(8));
}
