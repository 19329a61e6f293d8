//! Tests that `torture-verify` finds all lost or torn writes of a failing target, and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

#[path = "../../initiator/tests/support/mod.rs"]
mod support;

use iscsi::target_connection::TargetCommand;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use support::{LBA_LEN, Reply, Served, Target};

/// Blocks of the region: 4 MiB.
const BLOCKS: u64 = 8192;

/// A journal file that is removed on drop.
struct Journal(PathBuf);

impl Journal {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ibid-torture-{test}-{}", std::process::id()));
        let _ = platform::files::remove(&path);
        Self(path)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = platform::files::remove(&self.0);
    }
}

fn run(verb: &str, served: &Served, journal: &Journal, words: &[&str]) -> Output {
    let journal = journal.0.to_str().unwrap();
    let program = env!("CARGO_BIN_EXE_ibid-host");
    Command::new(program).args([verb, &served.url(), "--journal", journal, "--json"]).args(words).output().unwrap()
}

fn torture(served: &Served, journal: &Journal) -> Value {
    let output = run("torture", served, journal, &["--until-killed", "--span", "4M", "--qd", "8"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn verify(served: &Served, journal: &Journal) -> (i32, Value, String) {
    let output = run("torture-verify", served, journal, &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or_default(), stderr)
}

/// Returns true for commands that change blocks.
fn changes(task: &TargetCommand) -> bool {
    matches!(task.cdb[0], 0x8a | 0x93 | 0x42 | 0x83 | 0x89)
}

/// Returns a target that executes `count` changes and answers the next one with `last`.
fn dying(count: usize, last: fn() -> Reply) -> Served {
    let mut left = Some(count);
    Target::scripted(BLOCKS, move |task| match &mut left {
        Some(0) if changes(task) => {
            left = None;
            last()
        }
        Some(more) if changes(task) => {
            *more -= 1;
            Reply::Disk
        }
        _ => Reply::Disk,
    })
    .serve()
}

#[test]
fn correct_target_passes_after_every_disconnect() {
    let journal = Journal::new("honest");
    let mut disk = None;
    for (count, last) in
        [(300, (|| Reply::Hangup) as fn() -> Reply), (200, || Reply::HangupAfter), (250, || Reply::Hangup)]
    {
        let served = dying(count, last);
        if let Some(data) = disk.take() {
            served.target.lock().unwrap().disk.data = data;
        }
        let counts = torture(&served, &journal);
        assert_eq!((counts["target_gone"].as_bool(), counts["errors"].as_u64()), (Some(true), Some(0)), "{counts}");
        assert!(counts["acknowledged"].as_u64().unwrap() > 100 && counts["open"].as_u64().unwrap() > 0, "{counts}");
        let (code, report, stderr) = verify(&served, &journal);
        assert_eq!((code, report["wrong"].as_u64()), (0, Some(0)), "{stderr}");
        assert_eq!(report["open"], counts["open"]);
        disk = Some(std::mem::take(&mut served.target.lock().unwrap().disk.data));
    }
}

#[test]
fn changed_acknowledged_blocks_are_found() {
    let served = dying(200, || Reply::Hangup);
    let journal = Journal::new("lost");
    torture(&served, &journal);
    let whole = served.target.lock().unwrap().disk.data.clone();
    for block in (0..BLOCKS as usize).step_by(1023) {
        let at = block * LBA_LEN + block % LBA_LEN;
        served.target.lock().unwrap().disk.data[at] ^= 0x40;
        let (code, report, stderr) = verify(&served, &journal);
        assert_eq!((code, report["wrong"].as_u64()), (1, Some(1)), "block {block}: {stderr}");
        assert!(stderr.contains(&format!("LBA {block} ")), "{stderr}");
        served.target.lock().unwrap().disk.data.copy_from_slice(&whole);
    }
    assert_eq!(verify(&served, &journal).0, 0);
}

#[test]
fn torn_write_is_found() {
    // After 150 changes, the first write of several blocks is applied by half and the connection
    // closed.
    let mut left = 150;
    let served = Target::scripted(BLOCKS, move |task| {
        left -= usize::from(changes(task) && left > 0);
        if left == 0 && task.cdb[0] == 0x8a && task.data.len() >= 2 * LBA_LEN { Reply::HangupHalf } else { Reply::Disk }
    })
    .serve();
    let journal = Journal::new("half");
    torture(&served, &journal);
    let (code, report, stderr) = verify(&served, &journal);
    assert_eq!((code, report["in_pieces"].as_u64()), (1, Some(1)), "{report}");
    assert!(stderr.contains("not acknowledged: torn"), "{stderr}");
    // The load must not continue on such a disk, because that would hide the error.
    let output = run("torture", &served, &journal, &["--secs", "0.1"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn dropped_acknowledged_write_is_found() {
    let (mut writes, mut dropped) = (0, false);
    let served = Target::scripted(BLOCKS, move |task| {
        writes += usize::from(task.cdb[0] == 0x8a);
        match std::mem::replace(&mut dropped, writes == 60 && task.cdb[0] == 0x8a) {
            // With one open command at a time, this is the first one after the dropped write.
            true => Reply::Hangup,
            false if dropped => Reply::Answer(iscsi::target_connection::CommandCompletion::good()),
            false => Reply::Disk,
        }
    })
    .serve();
    let journal = Journal::new("dropped");
    let output = run("torture", &served, &journal, &["--until-killed", "--span", "4M", "--qd", "1"]);
    assert!(output.status.success());
    // The check fails either way: the block is lost, or the operation that covers it is torn.
    assert_eq!(verify(&served, &journal).0, 1);
}

#[test]
fn timed_load_leaves_no_open_operations() {
    let served = Target::new(BLOCKS).serve();
    let journal = Journal::new("time");
    let output = run("torture", &served, &journal, &["--secs", "0.2", "--span", "4M"]);
    let counts: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((counts["open"].as_u64(), counts["target_gone"].as_bool()), (Some(0), Some(false)));
    let (code, report, _) = verify(&served, &journal);
    assert_eq!((code, report["blocks"].as_u64()), (0, Some(BLOCKS)));
}

#[test]
fn non_journal_file_is_refused_and_kept() {
    let served = Target::new(BLOCKS).serve();
    let journal = Journal::new("other");
    platform::files::replace(&journal.0, &[b'x'; 200], platform::files::Access::Owner).unwrap();
    assert_eq!(run("torture", &served, &journal, &["--secs", "0.1"]).status.code(), Some(2));
    assert_eq!(run("torture-verify", &served, &journal, &[]).status.code(), Some(2));
    assert_eq!(platform::files::read_text(&journal.0, 1000).unwrap(), Some("x".repeat(200)), "it was left alone");
}

#[test]
fn load_avoids_reported_but_missing_commands() {
    let served = Target::scripted(BLOCKS, |task| match task.cdb[0] {
        0x83 | 0x89 => {
            let sense = scsi::Sense::illegal(scsi::asc::INVALID_COMMAND_OPERATION_CODE);
            Reply::Answer(iscsi::target_connection::CommandCompletion::check_condition(
                sense.to_bytes(scsi::SenseFormat::Fixed),
            ))
        }
        _ => Reply::Disk,
    })
    .serve();
    let journal = Journal::new("claims");
    let output = run("torture", &served, &journal, &["--secs", "0.3", "--span", "4M"]);
    let counts: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((counts["errors"].as_u64(), counts["first_error"].is_null()), (Some(0), true), "{counts}");
    assert_eq!(verify(&served, &journal).0, 0);
}
