use super::*;
use crate::state::{LEAF_BLOCKS, OracleVolume};
use engine::{Change, Reply};
use types::{Lba, VolumeId};

const VOLUME: VolumeId = VolumeId(1);

fn cached_history() -> History {
    let mut history = History::default();
    history.set_write_cache(true);
    answer(&mut history, 1000, &Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: LEAF_BLOCKS }]));
    history
}

fn answer(history: &mut History, tag: u64, op: &Op) {
    history.submit(tag, op);
    history.complete(tag, &Ok(Reply::Done)).unwrap();
}

fn write(lba: u64, byte: u8, fua: bool) -> Op {
    Op::Write { volume: VOLUME, lba: Lba(lba), data: vec![byte; 512].into(), fua }
}

/// Returns whether a crash may leave these bytes in the first blocks; 0 is unmapped.
fn allows(history: &History, bytes: &[u8]) -> bool {
    let mut history = history.clone();
    let mut volume = OracleVolume::new(LEAF_BLOCKS);
    for (lba, byte) in bytes.iter().enumerate().filter(|(_, byte)| **byte != 0) {
        let content = history.contents.id_of(&[*byte; 512]);
        volume.write(lba as u64, &[content]);
    }
    let seen = OracleState { volumes: [(VOLUME, volume)].into(), ..OracleState::default() };
    history.recover(&seen).is_ok()
}

#[test]
fn crash_loses_the_newest_cached_changes_only() {
    let mut history = cached_history();
    (0..3).for_each(|n| answer(&mut history, n, &write(n, n as u8 + 1, false)));
    for kept in [&[1, 2, 3][..], &[1, 2], &[1], &[]] {
        assert!(allows(&history, kept), "{kept:?}");
    }
    for torn in [&[0, 2, 3][..], &[1, 0, 3], &[0, 0, 3]] {
        assert!(!allows(&history, torn), "{torn:?}");
    }
}

#[test]
fn flush_makes_earlier_answered_changes_durable() {
    let mut history = cached_history();
    answer(&mut history, 1, &write(0, 1, false));
    history.submit(2, &Op::Flush);
    answer(&mut history, 3, &write(1, 2, false));
    history.complete(2, &Ok(Reply::Done)).unwrap();
    assert!(allows(&history, &[1]) && allows(&history, &[1, 2]));
    assert!(!allows(&history, &[]));
}

#[test]
fn changes_that_are_never_cached_are_durable() {
    let compare = |lba: u64, byte| Op::CompareAndWrite {
        volume: VOLUME,
        lba: Lba(lba),
        compare: vec![0; 512].into(),
        write: vec![byte; 512].into(),
    };
    for op in [write(1, 2, true), compare(1, 2)] {
        let mut history = cached_history();
        answer(&mut history, 1, &write(0, 1, false));
        history.submit(2, &op);
        answer(&mut history, 3, &write(2, 3, false));
        history.complete(2, &Ok(Reply::Done)).unwrap();
        assert!(allows(&history, &[1, 2]) && allows(&history, &[1, 2, 3]));
        assert!(!allows(&history, &[1]) && !allows(&history, &[0, 2]));
    }
}

#[test]
fn failed_change_makes_nothing_durable() {
    let mut history = cached_history();
    answer(&mut history, 1, &write(0, 1, false));
    let other = VolumeId(2);
    history.submit(2, &Op::Change(vec![Change::CreateVolume { volume: other, blocks: 8 }]));
    let late = Op::Write { volume: other, lba: Lba(0), data: vec![1; 512].into(), fua: true };
    history.submit(3, &late);
    history.complete(3, &Err(engine::OpError::NoSuchVolume(other))).unwrap();
    assert!(allows(&history, &[]) && allows(&history, &[1]));
}

#[test]
fn unanswered_change_needs_the_cached_ones_below_it() {
    let mut history = cached_history();
    answer(&mut history, 1, &write(0, 1, false));
    history.submit(2, &write(0, 2, false));
    history.submit(3, &write(1, 3, false));
    for kept in [&[][..], &[1], &[2], &[2, 3], &[1, 3]] {
        assert!(allows(&history, kept), "{kept:?}");
    }
    assert!(!allows(&history, &[3]) && !allows(&history, &[0, 3]));
}

/// A full cache answers the first write after its flush, and the second at once.
#[test]
fn concurrent_cached_changes_are_lost_in_any_order() {
    let mut history = cached_history();
    (0..2).for_each(|n| history.submit(n, &write(n, n as u8 + 1, false)));
    history.complete(1, &Ok(Reply::Done)).unwrap();
    history.submit(2, &write(2, 3, false));
    [0, 2].iter().for_each(|tag| history.complete(*tag, &Ok(Reply::Done)).unwrap());
    for kept in [&[][..], &[1], &[0, 2], &[1, 2], &[0, 2, 3], &[1, 2, 3]] {
        assert!(allows(&history, kept), "{kept:?}");
    }
    for torn in [&[0, 0, 3][..], &[1, 0, 3]] {
        assert!(!allows(&history, torn), "the second is earlier in the log than the third: {torn:?}");
    }
}

#[test]
fn durable_change_keeps_only_earlier_records() {
    let mut history = cached_history();
    history.submit(0, &write(0, 1, false));
    history.submit(1, &write(1, 2, false));
    history.submit(2, &write(1, 3, true));
    (0..3).for_each(|tag| history.complete(tag, &Ok(Reply::Done)).unwrap());
    assert!(allows(&history, &[0, 3]) && allows(&history, &[1, 3]));
    assert!(!allows(&history, &[1, 2]) && !allows(&history, &[1]));
}

/// Although the pool may be full, so that a write without a reply may have failed.
#[test]
fn answered_overwrite_requires_the_earlier_write() {
    let mut history = cached_history();
    history.tolerated.full = true;
    let both = Op::Write { volume: VOLUME, lba: Lba(0), data: [[1; 512], [2; 512]].concat().into(), fua: false };
    history.submit(0, &both);
    history.submit(1, &write(0, 3, false));
    (0..2).for_each(|tag| history.complete(tag, &Ok(Reply::Done)).unwrap());
    assert!(allows(&history, &[]) && allows(&history, &[1, 2]) && allows(&history, &[3, 2]));
    assert!(!allows(&history, &[3]));
}

#[test]
fn copies_of_unanswered_writes_are_not_submitted() {
    let mut history = cached_history();
    history.submit(1, &write(0, 1, true));
    let copy =
        |from, to| Op::Copy { source: VOLUME, from: crate::state::span(from, 8), destination: VOLUME, to: Lba(to) };
    assert!(!history.can_submit(&copy(0, 64)) && history.can_submit(&copy(64, 128)));
    history.submit(2, &copy(64, 128));
    assert!(!history.can_submit(&write(64, 1, false)) && history.can_submit(&write(8, 1, false)));
}
