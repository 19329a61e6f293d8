//! Arrays on devices and in files: one user at a time, and a first start that fails.

use crate::array::{Array, Scratch, Served, ibid};
use engine::Core;
use ondisk::{
    ArrayGeometry, OWNER_BYTES, OWNER_OFFSET, OwnerBlock, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, superblock_offset,
};
use platform::{Disk, Durability, FileDisk, files};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const BYTES: u64 = 512 << 20;

fn blank(scratch: &Scratch, name: &str) -> PathBuf {
    let path = scratch.0.join(name);
    drop(FileDisk::create(&path, BYTES).unwrap());
    path
}

/// Runs `ibid serve`, which must fail, and returns its errors.
#[track_caller]
fn refused(data: &Path, args: &[&str]) -> String {
    let mut command = ibid();
    command.args(["serve", "--iscsi", "127.0.0.1:0", "--api", "127.0.0.1:0"]).args(args);
    let output = command.arg("--data").arg(data).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn token(data: &Path) -> Option<String> {
    files::read_text(&data.join("admin-token"), 100).unwrap()
}

fn fsck(path: &Path) -> (Option<i32>, String) {
    let output = ibid().arg("fsck").arg(path).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text)
}

fn owner(disk: &FileDisk) -> OwnerBlock {
    OwnerBlock::decode(&disk.read_uncached(OWNER_OFFSET).unwrap()).unwrap()
}

#[test]
fn directory_follows_its_device() {
    let scratch = Scratch::new("follow");
    let (data, device) = (scratch.0.join("data"), blank(&scratch, "device"));
    let served = Served::start(&data, &["--device", device.to_str().unwrap()]);
    let before = token(&data).unwrap();
    assert_eq!(served.end("TERM").0, Some(0));
    assert_eq!(fsck(&data).0, Some(0), "{}", fsck(&data).1);
    let served = Served::start(&data, &[]);
    assert!(!files::exists(&data.join("array")).unwrap(), "no second array");
    assert_eq!(token(&data).unwrap(), before);
    let shown = ibid().args(["array", "show", "--data"]).arg(&data).output().unwrap();
    assert!(shown.status.success(), "the token still works: {shown:?}");
    assert_eq!(served.end("TERM").0, Some(0));
    let moved = scratch.0.join("moved");
    files::rename(&device, &moved).unwrap();
    let error = refused(&data, &[]);
    assert!(error.contains("device: no such device; ") && error.contains("belongs to array"), "{error}");
    let served = Served::start(&data, &["--device", moved.to_str().unwrap()]);
    assert_eq!(served.end("TERM").0, Some(0));
    drop(Served::start(&data, &[]));
}

#[test]
fn directory_refuses_any_other_device() {
    let scratch = Scratch::new("other-device");
    let (data, device, other) = (scratch.0.join("data"), blank(&scratch, "device"), blank(&scratch, "other"));
    drop(Served::start(&data, &["--device", device.to_str().unwrap()]));
    drop(Served::start(&scratch.0.join("elsewhere"), &["--device", other.to_str().unwrap()]));
    let before = token(&data);
    let error = refused(&data, &["--device", other.to_str().unwrap()]);
    assert!(error.contains("other: it holds array") && error.contains("data belongs to array"), "{error}");
    let empty = blank(&scratch, "empty");
    let error = refused(&data, &["--device", empty.to_str().unwrap()]);
    assert!(error.contains("not an array, or damaged; "), "{error}");
    // A directory of an older version does not name its device.
    files::remove(&data.join("device.json")).unwrap();
    let error = refused(&data, &[]);
    assert!(error.contains("belongs to an array that is not in it"), "{error}");
    let error = refused(&data, &["--device", empty.to_str().unwrap()]);
    assert!(error.contains("it is blank, but"), "{error}");
    assert_eq!(token(&data), before);
    assert!(!files::exists(&data.join("array")).unwrap());
    drop(Served::start(&data, &["--device", device.to_str().unwrap()]));
    let error = refused(&data, &["--device", empty.to_str().unwrap()]);
    assert!(error.contains("belongs to array"), "the old directory knows its device now: {error}");
    let file = Scratch::new("other-device-file");
    drop(Served::start(&file.0, &[]));
    let error = refused(&file.0, &["--device", empty.to_str().unwrap()]);
    assert!(error.contains("its array is in"), "{error}");
}

#[test]
fn file_of_a_running_array_is_refused() {
    let array = Array::new("file-in-use");
    let (file, pid) = (array.scratch.0.join("array"), array.endpoints()["pid"].to_string());
    let named = format!("array: it is in use by array 'ibid', process {pid} on host '");
    let elsewhere = Scratch::new("file-in-use-elsewhere");
    // The name reaches the owner block with the first beat.
    while !refused(&elsewhere.0.join("data"), &["--device", file.to_str().unwrap()]).contains(&named) {}
    assert!(!files::exists(&elsewhere.0.join("data")).unwrap(), "a refused start leaves nothing");
    let (code, text) = fsck(&file);
    assert!(code == Some(8) && text.contains(&named), "{text}");
    let Array { served, scratch: _scratch } = array;
    assert_eq!(served.end("TERM").0, Some(0));
    assert_eq!(fsck(&file).0, Some(0), "{}", fsck(&file).1);
}

#[test]
fn start_after_a_crash_waits_only_for_other_boots() {
    let Array { served, scratch } = Array::new("owner");
    let file = scratch.0.join("array");
    assert_eq!(served.end("KILL").0, None);
    let killed = owner(&FileDisk::open_read_only(&file).unwrap());
    assert!(killed.is_in_use && killed.boot == platform::process::boot_id());
    let (code, log) = Served::start(&scratch.0, &[]).end("TERM");
    assert!(code == Some(0) && !log.contains("observing"), "{log}");
    let disk = FileDisk::open(&file, 0).unwrap();
    let released = owner(&disk);
    assert!(!released.is_in_use && released.epoch == killed.epoch + 1, "{released:?}");
    let mut bytes = [0; 4096];
    let foreign = OwnerBlock { is_in_use: true, boot: [1; 16], host: "node-b".to_owned(), ..released };
    bytes[..OWNER_BYTES].copy_from_slice(&foreign.encode());
    disk.write_uncached(OWNER_OFFSET, &bytes).unwrap();
    drop(disk);
    let (code, log) = Served::start(&scratch.0, &[]).end("TERM");
    assert!(code == Some(0) && log.contains("observing"), "{log}");
}

#[test]
fn displaced_array_ends_itself() {
    let Array { served, scratch } = Array::new("displaced");
    let disk = FileDisk::open(&scratch.0.join("array"), 0).unwrap();
    let own = owner(&disk);
    let mut bytes = [0; 4096];
    let (host, name) = ("node-b".to_owned(), "east".to_owned());
    let other = OwnerBlock { epoch: own.epoch + 1, boot: [1; 16], host, name, ..own };
    bytes[..OWNER_BYTES].copy_from_slice(&other.encode());
    let is_over = Arc::new(AtomicBool::new(false));
    let (until, both) = (is_over.clone(), bytes);
    // Repeated, because a beat that has read the block already overwrites it once.
    let writing = std::thread::spawn(move || {
        while !until.load(Ordering::Acquire) {
            disk.write_uncached(OWNER_OFFSET, &both).unwrap();
            platform::clock::sleep(Duration::from_millis(50));
        }
    });
    let (code, log) = served.wait();
    is_over.store(true, Ordering::Release);
    writing.join().unwrap();
    assert_eq!(code, Some(7), "{log}");
    assert!(log.contains("array opened by array 'east', process") && log.contains("'node-b'"), "{log}");
}

#[test]
fn failed_first_start_leaves_nothing() {
    let array = Array::new("first-taken");
    let taken = array.endpoints()["iscsi"][0].as_str().unwrap().to_owned();
    let scratch = Scratch::new("first");
    let data = scratch.0.join("a/b");
    let error = refused(&data, &["--capacity", "64M", "--iscsi", &taken]);
    assert!(error.contains("cannot listen for iSCSI"), "{error}");
    assert!(!files::exists(&scratch.0.join("a")).unwrap());
    let device = blank(&scratch, "device");
    refused(&data, &["--device", device.to_str().unwrap(), "--iscsi", &taken]);
    assert!(!files::exists(&scratch.0.join("a")).unwrap());
    let provided = scratch.0.join("provided");
    files::create_directory(&provided).unwrap();
    files::replace(&provided.join("notes"), b"kept", files::Access::Owner).unwrap();
    refused(&provided, &["--device", device.to_str().unwrap(), "--iscsi", &taken]);
    assert_eq!(files::names(&provided).unwrap(), ["notes"]);
    drop(Served::start(&data, &["--device", device.to_str().unwrap()]));
    let error = refused(&data, &["--iscsi", &taken]);
    assert!(error.contains("cannot listen for iSCSI") && token(&data).is_some(), "a later start keeps everything");
    drop(Served::start(&data, &[]));
}

/// Erases all copies of the superblock but the first.
fn erase_later_copies(device: &Path) {
    let disk = FileDisk::open(device, 0).unwrap();
    for copy in 1..SUPERBLOCK_COPIES {
        disk.write_at(superblock_offset(copy), &[&[0; SUPERBLOCK_BYTES]], Durability::Durable).unwrap();
    }
}

#[test]
fn interrupted_first_start_begins_again() {
    let scratch = Scratch::new("interrupted");
    let (data, device) = (scratch.0.join("data"), blank(&scratch, "device"));
    let disk = FileDisk::open(&device, 0).unwrap();
    Core::create(&disk, &ArrayGeometry::for_capacity(BYTES).unwrap(), [7; 16]).unwrap();
    drop(disk);
    erase_later_copies(&device);
    let args = ["--device", device.to_str().unwrap()];
    let (code, log) = Served::start(&data, &args).end("KILL");
    assert!(code.is_none() && log.contains("device: interrupted first start repeated"), "{log}");
    // An array that hosts may have used is never erased.
    erase_later_copies(&device);
    let error = refused(&scratch.0.join("elsewhere"), &args);
    assert!(error.contains("device: contains a damaged array; it was not changed"), "{error}");
}

#[test]
fn capacity_is_checked_before_anything_is_written() {
    let scratch = Scratch::new("capacity");
    let data = scratch.0.join("data");
    let error = refused(&data, &["--capacity", "60T"]);
    assert!(error.contains("capacity 60TiB exceeds the free space of its file system"), "{error}");
    assert!(error.contains("hint: choose a smaller --capacity"), "{error}");
    let device = blank(&scratch, "device");
    let error = refused(&data, &["--capacity", "1G", "--device", device.to_str().unwrap()]);
    assert!(error.contains("capacity 1GiB exceeds the device, which has 512MiB"), "{error}");
    assert_eq!(files::names(&scratch.0).unwrap(), ["device"]);
    let array = Array { served: Served::start(&scratch.0, &[]), scratch };
    let error = array.refused("array grow --capacity 60T");
    assert!(error.contains("The array cannot grow: its file system has space for"), "{error}");
}
