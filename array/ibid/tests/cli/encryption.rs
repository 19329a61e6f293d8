//! Arrays that are encrypted at rest.

use crate::array::{Array, Scratch, Served, ibid};
use crate::host::{Host, noise};
use ondisk::{KEY_BLOCK_COPIES, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, key_block_offset, superblock_offset};
use platform::files::{self, Access};
use platform::{Disk, Durability, FileDisk};
use std::path::{Path, PathBuf};

const PIECE: usize = 64 << 10;
/// A name that appears on the drive of an array that is not encrypted.
const NAME: &str = "payroll-of-the-board";

fn key_file(scratch: &Scratch, name: &str, passphrase: &str) -> PathBuf {
    let path = scratch.0.join(name);
    files::replace(&path, format!("{passphrase}\n").as_bytes(), Access::Owner).unwrap();
    path
}

fn stored(path: &Path) -> Vec<u8> {
    let disk = FileDisk::open_read_only(path).unwrap();
    let mut bytes = vec![0; disk.size() as usize];
    disk.read_at(0, &mut bytes).unwrap();
    bytes
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|found| found == text)
}

/// Runs a command on the stopped array of a directory. Returns its exit code and output.
fn run(words: &[&str], path: &Path, key: Option<&Path>) -> (Option<i32>, String) {
    let mut command = ibid();
    command.args(words);
    if let Some(key) = key {
        command.arg("--key-file").arg(key);
    }
    let output = command.arg(if words[0] == "serve" { "--data" } else { "--" }).arg(path).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text)
}

#[track_caller]
fn refused(words: &[&str], path: &Path, key: Option<&Path>, reason: &str) {
    let (code, text) = run(words, path, key);
    assert_ne!(code, Some(0), "{text}");
    assert!(text.contains(reason), "{reason}: {text}");
}

const SERVE: [&str; 5] = ["serve", "--iscsi", "127.0.0.1:0", "--api", "127.0.0.1:0"];

#[test]
fn encrypted_array_is_readable_with_its_key_only() {
    let plain = Array::new("not-encrypted");
    plain.text(&format!("volume create {NAME} --size 64M"));
    let data = Scratch::new("encrypted");
    let keys = Scratch::new("encrypted-keys");
    let key = key_file(&keys, "key", "correct horse battery");
    let option = ["--key-file", key.to_str().unwrap()];
    let array = Array { served: Served::start(&data.0, &option), scratch: data };
    assert!(array.text("array show").contains("AES-256-XTS"));
    assert!(plain.json("array show")["array"]["encryption"]["data_at_rest"]["enabled"] == false);
    array.text(&format!("volume create {NAME} --size 64M"));
    let mut host = Host::new(&array, NAME);
    (0..16).for_each(|piece| host.write(piece * 128, noise(piece, PIECE)));
    drop(host);
    let Array { served, scratch } = array;
    served.end("KILL");
    let bytes = stored(&scratch.0.join("array"));
    assert!(holds(&stored(&plain.scratch.0.join("array")), NAME.as_bytes()), "the search finds names");
    assert!(!holds(&bytes, NAME.as_bytes()));
    assert!((0..16).all(|piece| !holds(&bytes, &noise(piece, PIECE)[..16])));

    refused(&SERVE, &scratch.0, None, "the array is encrypted");
    let wrong = key_file(&keys, "wrong", "correct horse buttery");
    refused(&SERVE, &scratch.0, Some(&wrong), "wrong passphrase");
    refused(&SERVE, &scratch.0, Some(&keys.0.join("none")), "no such file");
    refused(&["fsck"], &scratch.0, None, "the array is encrypted");
    let (code, text) = run(&["fsck"], &scratch.0, Some(&key));
    assert_eq!(code, Some(0), "{text}");
    let array = Array { served: Served::start(&scratch.0, &option), scratch };
    let mut host = Host::log_in(&array, 1);
    assert!((0..16).all(|piece| host.read(piece * 128, (PIECE / 512) as u32) == noise(piece, PIECE)));

    let Array { served, scratch } = plain;
    assert_eq!(served.end("TERM").0, Some(0));
    refused(&SERVE, &scratch.0, Some(&key), "the array is not encrypted");
}

#[test]
fn rekey_replaces_the_passphrase() {
    let (data, keys) = (Scratch::new("rekey"), Scratch::new("rekey-keys"));
    let old = key_file(&keys, "old", "correct horse battery");
    let new = key_file(&keys, "new", "staple and a pencil");
    let short = key_file(&keys, "short", "seven77");
    let served = Served::start(&data.0, &["--key-file", old.to_str().unwrap()]);
    let rekey = |to: &Path| ["rekey", "--new-key-file", to.to_str().unwrap()].map(str::to_owned);
    let words = |rekey: &[String; 3]| -> Vec<String> { rekey.to_vec() };
    let asked = |to: &Path, from: &Path| {
        let words = words(&rekey(to));
        run(&words.iter().map(String::as_str).collect::<Vec<_>>(), &data.0, Some(from))
    };
    let running = asked(&new, &old);
    assert!(running.0 != Some(0) && running.1.contains("stop the array first"), "{}", running.1);
    assert_eq!(served.end("TERM").0, Some(0));
    assert!(asked(&short, &old).1.contains("shorter than 8 bytes"));
    assert!(asked(&old, &new).1.contains("wrong passphrase"));
    let changed = asked(&new, &old);
    assert_eq!(changed.0, Some(0), "{}", changed.1);
    refused(&SERVE, &data.0, Some(&old), "wrong passphrase");
    let served = Served::start(&data.0, &["--key-file", new.to_str().unwrap()]);
    assert_eq!(served.end("TERM").0, Some(0));
}

#[test]
fn damaged_key_blocks_are_found_and_repaired() {
    let (data, keys) = (Scratch::new("key-blocks"), Scratch::new("key-blocks-keys"));
    let key = key_file(&keys, "key", "correct horse battery");
    let option = ["--key-file", key.to_str().unwrap()];
    assert_eq!(Served::start(&data.0, &option).end("TERM").0, Some(0));
    let path = data.0.join("array");
    let damage = |copies: std::ops::Range<usize>| {
        let disk = FileDisk::open(&path, 0).unwrap();
        for copy in copies {
            disk.write_at(key_block_offset(copy) + 40, &[&[0x5A; 4]], Durability::Volatile).unwrap();
        }
    };
    damage(0..3);
    let (code, text) = run(&["fsck"], &data.0, Some(&key));
    assert_eq!(code, Some(4), "{text}");
    assert_eq!(text.matches("copy lost: copy").count(), 3, "{text}");
    assert!(text.contains("copy 2 of the key block"), "{text}");
    assert_eq!(Served::start(&data.0, &option).end("TERM").0, Some(0));
    let (code, text) = run(&["fsck"], &data.0, Some(&key));
    assert_eq!(code, Some(0), "the start has rewritten the copies: {text}");
    let kept = stored(&path)[key_block_offset(0) as usize..][..512].to_vec();
    damage(0..KEY_BLOCK_COPIES);
    refused(&SERVE, &data.0, Some(&key), "all copies of the key block are damaged");
    // As docs/guides/backup.md restores one copy.
    let disk = FileDisk::open(&path, 0).unwrap();
    disk.write_at(key_block_offset(0), &[&kept], Durability::Volatile).unwrap();
    drop(disk);
    assert_eq!(Served::start(&data.0, &option).end("TERM").0, Some(0));
    assert_eq!(run(&["fsck"], &data.0, Some(&key)).0, Some(0));
}

#[test]
fn interrupted_encrypted_start_is_repeated() {
    let (data, keys) = (Scratch::new("key-device"), Scratch::new("key-device-keys"));
    let key = key_file(&keys, "key", "correct horse battery");
    let device = keys.0.join("device");
    drop(FileDisk::create(&device, 512 << 20).unwrap());
    let option = ["--key-file", key.to_str().unwrap(), "--device", device.to_str().unwrap()];
    assert_eq!(Served::start(&data.0, &option).end("TERM").0, Some(0));
    let directory = |name: &str| data.0.join(name);
    // As if the start had ended before the first copy of the superblock: a blank log, no owner.
    let disk = FileDisk::open(&device, 0).unwrap();
    for copy in 0..SUPERBLOCK_COPIES {
        disk.write_at(superblock_offset(copy), &[&[0; SUPERBLOCK_BYTES]], Durability::Volatile).unwrap();
    }
    let with_device = |words: &[&str], data: &Path, key: Option<&Path>| {
        let words: Vec<&str> = words.iter().copied().chain(["--device", device.to_str().unwrap()]).collect();
        run(&words, data, key)
    };
    let kept = with_device(&SERVE, &directory("a"), Some(&key));
    assert!(kept.0 == Some(1) && kept.1.contains("it was not changed"), "the log is not blank: {}", kept.1);
    disk.write_at(4096, &[&vec![0; 4096]], Durability::Volatile).unwrap();
    disk.write_at(64 << 10, &[&vec![0; 1 << 20]], Durability::Volatile).unwrap();
    drop(disk);
    let asked = with_device(&SERVE, &directory("b"), None);
    assert!(asked.0 == Some(2) && asked.1.contains("the array is encrypted"), "{}", asked.1);
    let served = Served::start(&directory("c"), &option);
    assert_eq!(served.end("TERM").0, Some(0));
    let (code, text) = run(&["fsck"], &device, Some(&key));
    assert_eq!(code, Some(0), "{text}");
}
