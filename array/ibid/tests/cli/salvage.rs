//! A damaged array: refused by default, served for reading only with `--salvage`, and rebuilt.

use crate::array::{Array, Served, ibid};
use crate::host::{Host, noise};
use ::fsck::Structure;
use platform::{Disk, Durability, FileDisk};
use std::path::Path;

const PIECE: usize = 64 << 10;
/// Blocks of 512 bytes between two pieces: each is in a leaf of its own.
const STEP: u64 = 4096;

/// Bytes of the array apart from the owner block.
fn bytes(path: &Path) -> Vec<u8> {
    let disk = FileDisk::open_read_only(path).unwrap();
    let mut bytes = vec![0; disk.size() as usize];
    disk.read_at(0, &mut bytes).unwrap();
    bytes[4096..4608].fill(0);
    bytes
}

/// Damages both copies of a page of the slot table and of one leaf.
fn damage(path: &Path) {
    let disk = FileDisk::open(path, 0).unwrap();
    let regions = ::fsck::layout(&disk).unwrap();
    let is_leaf = |region: &&::fsck::Region| region.structure == Structure::MapPage && region.span.bytes == 2048;
    let leaf = &regions.iter().find(is_leaf).unwrap().name;
    for region in regions.iter().filter(|region| region.structure == Structure::SlotTable || region.name == *leaf) {
        let (at, mut held) = (region.span.offset + region.span.bytes / 2, [0]);
        disk.read_at(at, &mut held).unwrap();
        disk.write_at(at, &[&[held[0] ^ 1]], Durability::Volatile).unwrap();
    }
}

/// Reads the four pieces, and returns the number of those that fail with a medium error.
fn read_pieces(host: &mut Host) -> usize {
    let mut failed = 0;
    for piece in 0..4 {
        match host.try_read(piece * STEP, (PIECE / 512) as u32) {
            Ok(data) => assert!(data == noise(piece, PIECE), "piece {piece}"),
            Err(error) => {
                assert!(error.to_string().to_lowercase().contains("unrecovered read error"), "{error}");
                failed += 1;
            }
        }
    }
    failed
}

#[test]
fn damaged_array_is_served_read_only() {
    let array = Array::new("read-only");
    array.text("volume create vm1 --size 64M");
    let mut host = Host::new(&array, "vm1");
    (0..4).for_each(|piece| host.write(piece * STEP, noise(piece, PIECE)));
    drop(host);
    let Array { served, scratch } = array;
    assert_eq!(served.end("TERM").0, Some(0));
    let file = scratch.0.join("array");
    damage(&file);
    let before = bytes(&file);

    let refused = ibid().arg("serve").arg("--data").arg(&scratch.0).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("a page of the slot table is damaged"), "{text}");
    assert!(text.contains("`ibid serve --salvage`") && text.contains("`ibid fsck --salvage`"), "{text}");

    let array = Array { served: Served::start(&scratch.0, &["--salvage"]), scratch };
    let mut host = Host::log_in(&array, 1);
    assert_eq!(read_pieces(&mut host), 1);
    let error = host.try_write(0, noise(9, 4096)).unwrap_err().to_string();
    assert!(error.to_lowercase().contains("write protected"), "{error}");
    assert_eq!(array.json("array show")["array"]["status"], "read-only");
    let alerts = array.json("alert list");
    let alerts = alerts.as_array().unwrap();
    assert!(alerts.iter().all(|alert| alert["severity"] == "critical"), "{alerts:?}");
    let has =
        |text: &str| alerts.iter().any(|alert| alert["summary"].as_str().is_some_and(|found| found.contains(text)));
    assert!(has("array is read-only: 1MiB of 1 volumes") && has("256 blocks of 4 KiB cannot be read"), "{alerts:?}");
    assert!(array.refused("volume create vm2 --size 1M").contains("open for reading only"));
    assert!(array.refused("array grow --capacity 900M").contains("open for reading only"));
    drop(host);
    let Array { served, scratch } = array;
    assert_eq!(served.end("TERM").0, Some(0));
    assert!(bytes(&file) == before, "the array has changed");

    let salvaged = ibid().arg("fsck").arg(&scratch.0).arg("--salvage").output().unwrap();
    assert_eq!(salvaged.status.code(), Some(2), "{salvaged:?}");
    let array = Array { served: Served::start(&scratch.0, &[]), scratch };
    let mut host = Host::log_in(&array, 1);
    assert_eq!(read_pieces(&mut host), 1);
    (0..4).for_each(|piece| host.write(piece * STEP, noise(piece, PIECE)));
    assert_eq!(read_pieces(&mut host), 0);
}
