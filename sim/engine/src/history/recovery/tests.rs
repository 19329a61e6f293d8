use super::*;
use crate::content::Content;
use crate::state::{LEAF_BLOCKS, OracleVolume};
use engine::{Change, Op, OpError, Reply};
use types::Lba;

const VOLUME: VolumeId = VolumeId(1);

fn history() -> History {
    let mut history = History::default();
    let op = Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 2 * LEAF_BLOCKS }]);
    history.submit(1000, &op);
    history.complete(1000, &Ok(Reply::Done)).unwrap();
    history
}

fn write(lba: u64, blocks: usize, byte: u8) -> Op {
    Op::Write { volume: VOLUME, lba: Lba(lba), data: vec![byte; blocks * 512].into(), fua: false }
}

/// Creates the state that was found: one block per byte, from the first block on.
fn found(history: &mut History, bytes: &[u8]) -> OracleState {
    let mut volume = OracleVolume::new(2 * LEAF_BLOCKS);
    for (lba, byte) in bytes.iter().enumerate() {
        let content = if *byte == 0 { Content::UNMAPPED } else { history.contents.id_of(&[*byte; 512]) };
        volume.write(lba as u64, &[content]);
    }
    OracleState { volumes: [(VOLUME, volume)].into(), ..OracleState::default() }
}

fn recover(history: &History, bytes: &[u8]) -> Result<RecoveryOutcome, SimViolation> {
    let mut history = history.clone();
    let seen = found(&mut history, bytes);
    history.recover(&seen)
}

#[test]
fn answered_write_must_survive_a_crash() {
    let mut history = history();
    history.submit(1, &write(0, 2, 1));
    history.complete(1, &Ok(Reply::Done)).unwrap();
    assert!(recover(&history, &[1, 1]).is_ok());
    assert!(recover(&history, &[1, 0]).is_err());
    assert!(recover(&history, &[]).is_err());
    assert!(recover(&history, &[1, 1, 1]).is_err(), "never written");
}

#[test]
fn unanswered_write_is_present_entirely_or_not() {
    let mut history = history();
    history.submit(1, &write(0, 2, 1));
    assert_eq!(recover(&history, &[1, 1]), Ok(RecoveryOutcome { present: 1, absent: 0 }));
    assert_eq!(recover(&history, &[]), Ok(RecoveryOutcome { present: 0, absent: 1 }));
    assert!(recover(&history, &[1, 0]).is_err());
}

#[test]
fn later_overlapping_write_requires_the_earlier_one() {
    let mut history = history();
    history.submit(1, &write(0, 2, 1));
    history.submit(2, &write(1, 2, 2));
    for good in [&[0, 0, 0], &[1, 1, 0], &[1, 2, 2]] {
        assert!(recover(&history, good).is_ok(), "{good:?}");
    }
    assert!(recover(&history, &[0, 2, 2]).is_err());
    history.tolerated.full = true;
    assert!(recover(&history, &[0, 2, 2]).is_ok(), "the first may have been refused");
}

#[test]
fn operations_without_overlap_are_independent() {
    let mut history = history();
    history.submit(1, &write(0, 1, 1));
    history.submit(2, &write(8, 1, 2));
    assert_eq!(recover(&history, &[0, 0, 0, 0, 0, 0, 0, 0, 2]), Ok(RecoveryOutcome { present: 1, absent: 1 }));
}

#[test]
fn copy_and_write_to_its_source_have_no_order() {
    let mut history = history();
    history.submit(1, &write(0, 1, 1));
    history.complete(1, &Ok(Reply::Done)).unwrap();
    history.submit(2, &write(0, 1, 2));
    history.submit(3, &Op::Copy { source: VOLUME, from: span(0, 1), destination: VOLUME, to: Lba(1) });
    for good in [[1, 0], [2, 0], [1, 1], [2, 1], [2, 2]] {
        assert!(recover(&history, &good).is_ok(), "{good:?}");
    }
    assert!(recover(&history, &[1, 2]).is_err());
}

#[test]
fn catalog_change_is_atomic_after_a_crash() {
    let mut history = history();
    let changes = vec![
        Change::Put { key: b"a".to_vec(), value: vec![1] },
        Change::ResizeVolume { volume: VOLUME, blocks: LEAF_BLOCKS },
    ];
    history.submit(1, &Op::Change(changes));
    let mut check = |blocks: u64, value: Option<u8>| {
        let mut seen = found(&mut history, &[]);
        seen.volumes.insert(VOLUME, OracleVolume::new(blocks));
        seen.values.extend(value.map(|value| (b"a".to_vec(), vec![value])));
        history.clone().recover(&seen).is_ok()
    };
    assert!(check(2 * LEAF_BLOCKS, None));
    assert!(check(LEAF_BLOCKS, Some(1)));
    assert!(!check(LEAF_BLOCKS, None));
    assert!(!check(2 * LEAF_BLOCKS, Some(1)));
    assert!(!check(LEAF_BLOCKS, Some(2)));
}

#[test]
fn copy_in_pieces_may_be_partly_present() {
    let mut history = history();
    history.submit(1, &write(0, 2, 1));
    history.complete(1, &Ok(Reply::Done)).unwrap();
    let long = Op::Copy { source: VOLUME, from: span(0, 2000), destination: VOLUME, to: Lba(2001) };
    history.submit(2, &long);
    let mut there = vec![0; 2005];
    there[..2].fill(1);
    there[2001] = 1;
    assert!(recover(&history, &there).is_ok());
    there[2001] = 2;
    assert!(recover(&history, &there).is_err());
}

#[test]
fn oracle_continues_from_the_recovered_state() {
    let mut history = history();
    history.submit(1, &write(0, 1, 1));
    let seen = found(&mut history, &[1]);
    history.recover(&seen).unwrap();
    history.submit(2, &Op::Compare { volume: VOLUME, lba: Lba(0), data: vec![1; 512].into() });
    assert!(history.clone().complete(2, &Err(OpError::Miscompare { offset: 0 })).is_err());
    history.complete(2, &Ok(Reply::Done)).unwrap();
}
