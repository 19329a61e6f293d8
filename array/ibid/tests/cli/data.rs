//! Effects of administration on the data that a connected host reads and writes.

use crate::array::{Array, Served, ibid};
use crate::host::{BLOCK, Host, noise};
use client::{Client, Trust};
use fsck::Structure;
use platform::{Disk, Durability, FileDisk};
use serde_json::Value;
use std::sync::mpsc;

const MIB: u64 = 1 << 20;
/// Size of a host write, in bytes.
const PIECE: usize = 64 << 10;
const PIECE_BLOCKS: u64 = PIECE as u64 / 512;

/// A REST client of the array.
fn client(array: &Array) -> Client {
    let file = |name: &str| platform::files::read_text(&array.scratch.0.join(name), 1 << 16).unwrap().unwrap();
    let trust = Trust::certificate(&file("certificate.pem")).unwrap();
    Client::new(array.endpoints()["url"].as_str().unwrap(), file("admin-token").trim(), &trust).unwrap()
}

fn restarted(array: Array, signal: &str) -> Array {
    let Array { served, scratch } = array;
    served.end(signal);
    Array { served: Served::start(&scratch.0, &[]), scratch }
}

#[test]
fn array_grows_while_a_host_writes() {
    let array = Array::new("grow");
    array.text("volume create v --size 1G");
    let mut host = Host::new(&array, "v");
    let before = array.json("array show")["array"]["capacity"].as_u64().unwrap();
    let (report, counts) = mpsc::sync_channel(1);
    let (stop, stopped) = mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        let mut written = 0;
        while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
            host.write(written % 1024 * PIECE_BLOCKS, noise(written, PIECE));
            written += 1;
            let _ = report.try_send(written);
        }
        written
    });
    // The channel holds one count, which may be old. The third count from here was sent later.
    let progress = || [(); 3].map(|()| counts.recv().unwrap())[2];
    let first = progress();
    let grown = array.json("array grow --capacity 768MiB")["capacity"].as_u64().unwrap();
    let second = progress();
    let patch = api::ArrayPatch { capacity: Some(1 << 30), ..api::ArrayPatch::default() };
    let largest = client(&array).change_array(&patch).unwrap().capacity;
    assert!(first < second && second < progress(), "host writes continue during growth");
    stop.send(()).unwrap();
    let written = writer.join().unwrap();
    // A remainder smaller than a segment does not count as capacity, and the reserve grows, too.
    assert!(
        before + 220 * MIB < grown && grown + 220 * MIB < largest && largest <= 1 << 30,
        "{before} {grown} {largest}"
    );
    let array = restarted(array, "KILL");
    assert_eq!(array.json("array show")["array"]["capacity"], largest);
    let mut host = Host::log_in(&array, 1);
    for last in written.saturating_sub(1024)..written {
        assert!(host.read(last % 1024 * PIECE_BLOCKS, PIECE_BLOCKS as u32) == noise(last, PIECE), "piece {last}");
    }
}

#[test]
fn volume_and_system_space_add_up_to_used() {
    let array = Array::new("sum");
    array.text("volume create a --size 1G");
    array.text("volume create equal --size 1G");
    let (mut a, mut equal) = (Host::new(&array, "a"), Host::new(&array, "equal"));
    for piece in 0..64 {
        a.write(piece * PIECE_BLOCKS, noise(piece, PIECE));
    }
    array.text("snap create a --suffix s");
    array.text("volume copy a clone");
    for piece in 0..8 {
        a.write(piece * PIECE_BLOCKS, noise(1000 + piece, PIECE));
        equal.write(piece * PIECE_BLOCKS, noise(32 + piece, PIECE));
        equal.write((64 + piece) * PIECE_BLOCKS, vec![0; PIECE].into());
    }
    let array_space = array.json("array space --refresh")["space"].clone();
    let volumes = array.json("volume list --all --space");
    let figure = |space: &Value, name: &str| space[name].as_u64().unwrap();
    let sum = |name: &str| volumes.as_array().unwrap().iter().map(|volume| figure(&volume["space"], name)).sum::<u64>();
    for name in ["unique", "shared", "snapshots"] {
        assert_eq!(sum(name), figure(&array_space, name), "{name}");
    }
    assert_eq!(sum("total_physical") + figure(&array_space, "system"), figure(&array_space, "total_physical"));
    let space = |name: &str| {
        let named = volumes.as_array().unwrap().iter().find(|volume| volume["name"] == name);
        named.unwrap()["space"].clone()
    };
    let (a, clone, equal) = (space("a"), space("clone"), space("equal"));
    assert_eq!(figure(&a, "unique"), 8 * PIECE as u64, "written after the copy");
    assert_eq!((figure(&clone, "unique"), figure(&clone, "snapshots")), (0, 0));
    assert_eq!((figure(&equal, "unique"), figure(&equal, "virtual")), (0, 16 * PIECE as u64));
    assert_eq!(figure(&array_space, "shared"), 64 * PIECE as u64, "random data is stored once, uncompressed");
    for (space, written) in [(&a, 64), (&clone, 64), (&equal, 16)] {
        let held = (figure(space, "unique") + figure(space, "shared")) as f64;
        let reduction = space["data_reduction"].as_f64().unwrap();
        assert!((reduction * held / PIECE as f64 - f64::from(written)).abs() < 1e-6, "{space}");
        let total = space["total_reduction"].as_f64().unwrap();
        assert!((total * held / (1024 * MIB) as f64 - 1.0).abs() < 1e-6, "{space}");
    }
    // Shared data is divided evenly among its volumes. A snapshot belongs to its volume.
    assert!(figure(&equal, "shared").abs_diff(8 * PIECE as u64 / 3) <= 1, "{equal}");
    assert!(figure(&clone, "shared").abs_diff(56 * PIECE as u64 / 2 + 8 * PIECE as u64 / 3) <= 1, "{clone}");
    assert!(array.text("volume list --space").contains("equal  1GiB"), "{}", array.text("volume list --space"));
}

#[test]
fn restore_undo_and_recovery_keep_the_data() {
    let array = Array::new("undo");
    array.text("volume create data --size 1G");
    array.text("volume create log --size 1G");
    let (mut data, mut log) = (Host::new(&array, "data"), Host::new(&array, "log"));
    let all = |seed| noise(seed, PIECE);
    data.write(0, all(1));
    log.write(BLOCK, all(2));
    // The snapshots of a group are taken at one instant.
    array.text("snap create data log --suffix pair");
    data.write(0, all(3));
    log.write(BLOCK, all(4));
    let mut pair = (Host::new(&array, "data.pair"), Host::new(&array, "log.pair"));
    assert_eq!((pair.0.read(0, PIECE_BLOCKS as u32), pair.1.read(BLOCK, PIECE_BLOCKS as u32)), (all(1), all(2)));
    assert!(pair.0.try_write(0, all(9)).is_err(), "a snapshot is read-only");
    // A restore replaces the content while the host is connected. The old content can be recovered.
    array.text("volume copy data.pair data --overwrite");
    assert_eq!(data.read(0, PIECE_BLOCKS as u32), all(1));
    let undo = array.json("snap list --destroyed")[0]["name"].as_str().unwrap().to_owned();
    array.text(&format!("snap recover {undo}"));
    array.text(&format!("volume copy {undo} data --overwrite"));
    assert_eq!(data.read(0, PIECE_BLOCKS as u32), all(3));
    // A destroyed volume is recovered with its data and snapshots, even after SIGKILL.
    for unit in ["log", "log.pair"] {
        array.text(&format!("host disconnect any {unit}"));
    }
    array.text("volume destroy log");
    let array = restarted(array, "KILL");
    array.text("volume recover log");
    let mut log = Host::new(&array, "log");
    assert_eq!((log.read(BLOCK, PIECE_BLOCKS as u32), log.blocks()), (all(4), (1 << 30) / 512));
    assert_eq!(Host::new(&array, "log.pair").read(BLOCK, PIECE_BLOCKS as u32), all(2));
}

#[test]
fn damaged_data_is_a_medium_error_and_an_alert() {
    let array = Array::new("damage");
    array.text("volume create v --size 1G");
    Host::new(&array, "v").write(0, noise(5, PIECE));
    let Array { served, scratch } = array;
    assert_eq!(served.end("TERM").0, Some(0));
    let path = scratch.0.join("array");
    let flip = |disk: &FileDisk, byte: u64| {
        let mut held = [0];
        disk.read_at(byte, &mut held).unwrap();
        disk.write_at(byte, &[&[held[0] ^ 1]], Durability::Volatile).unwrap();
    };
    let disk = FileDisk::open(&path, 0).unwrap();
    let regions = fsck::layout(&disk).unwrap();
    let stored = regions.iter().find(|region| region.structure == Structure::Data).unwrap().span;
    flip(&disk, stored.offset + 100);
    let array = Array { served: Served::start(&scratch.0, &[]), scratch };
    let mut host = Host::log_in(&array, 1);
    assert!(array.json("alert list").as_array().unwrap().is_empty());
    let refused = host.try_read(0, PIECE_BLOCKS as u32).unwrap_err().to_string();
    assert!(refused.contains("11/00"), "{refused}");
    let alert = &array.json("alert list")[0];
    assert_eq!((&alert["severity"], &alert["component_name"]), (&"critical".into(), &"v".into()));
    let summary = alert["summary"].as_str().unwrap();
    assert!(summary.starts_with("damaged: volume v: 1 block of 4 KiB cannot be read: "), "{summary}");
    assert!(array.text("scrub status").contains("damaged: volume v: 1 block"), "{}", array.text("scrub status"));
    // After the bit is restored, a scrub finds no damage.
    flip(&disk, stored.offset + 100);
    assert_eq!(host.read(0, PIECE_BLOCKS as u32), noise(5, PIECE));
    array.text("scrub start --pace 1G");
    crate::snapshots::eventually(|| array.json("scrub status")["completed"] == 1);
    assert!(array.json("alert list").as_array().unwrap().is_empty());
}

#[test]
fn a_damaged_log_is_refused_until_it_is_accepted() {
    let array = Array::new("log-loss");
    array.text("volume create v --size 1G");
    let mut host = Host::new(&array, "v");
    (0..4).for_each(|piece| host.write(piece * PIECE_BLOCKS, noise(piece, PIECE)));
    drop(host);
    let Array { served, scratch } = array;
    assert_eq!(served.end("KILL").0, None);
    let disk = FileDisk::open(&scratch.0.join("array"), 0).unwrap();
    let groups: Vec<_> =
        fsck::layout(&disk).unwrap().into_iter().filter(|region| region.structure == Structure::Log).collect();
    assert!(groups.len() > 2, "{groups:?}");
    let (at, mut held) = (groups[groups.len() - 3].span.offset + 100, [0]);
    disk.read_at(at, &mut held).unwrap();
    disk.write_at(at, &[&[held[0] ^ 1]], Durability::Volatile).unwrap();
    let refused = ibid().arg("serve").arg("--data").arg(&scratch.0).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("prove that it was acknowledged"), "{text}");
    assert!(text.contains("lost change: volume ") && text.contains("--accept-log-loss"), "{text}");
    let array = Array { served: Served::start(&scratch.0, &["--accept-log-loss"]), scratch };
    let alert = &array.json("alert list")[0];
    assert_eq!(alert["severity"], "critical", "{alert}");
    assert!(alert["summary"].as_str().unwrap().contains("operations are lost"), "{alert}");
    let kept = std::process::Command::new("ls").arg(&array.scratch.0).output().unwrap();
    assert!(String::from_utf8_lossy(&kept.stdout).contains("lost-log-"), "{kept:?}");
    let Array { served, scratch } = array;
    assert_eq!(served.end("TERM").0, Some(0));
    // The next start needs no option.
    let array = Array { served: Served::start(&scratch.0, &[]), scratch };
    assert!(array.json("alert list").as_array().unwrap().is_empty());
}
