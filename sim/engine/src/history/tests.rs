use super::*;
use crate::state::LEAF_BLOCKS;
use bytes::Bytes;
use types::Lba;

const VOLUME: VolumeId = VolumeId(1);

/// Creates an oracle with one empty volume.
pub(crate) fn history() -> History {
    let mut history = History::default();
    let op = Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 4 * LEAF_BLOCKS }]);
    history.submit(1000, &op);
    history.complete(1000, &Ok(Reply::Done)).unwrap();
    history
}

fn write(lba: u64, byte: u8) -> Op {
    Op::Write { volume: VOLUME, lba: Lba(lba), data: vec![byte; 512].into(), fua: false }
}

fn read(lba: u64) -> Op {
    Op::Read { volume: VOLUME, range: span(lba, 1) }
}

fn data(byte: u8) -> Result<Reply, OpError> {
    Ok(Reply::Data(Bytes::from(vec![byte; 512])))
}

#[test]
fn read_may_return_states_since_its_submission() {
    let mut history = history();
    for (tag, byte) in [(1, 1), (3, 3), (4, 4)] {
        if tag == 3 {
            history.submit(2, &read(5));
        }
        history.submit(tag, &write(5, byte));
        history.complete(tag, &Ok(Reply::Done)).unwrap();
    }
    history.submit(5, &write(5, 5));
    for byte in [1, 3, 4] {
        history.clone().complete(2, &data(byte)).unwrap();
    }
    for byte in [0, 5] {
        assert!(history.clone().complete(2, &data(byte)).is_err(), "{byte}");
    }
}

#[test]
fn read_of_two_states_is_a_violation() {
    let mut history = history();
    history.submit(1, &Op::Read { volume: VOLUME, range: span(5, 2) });
    for (tag, byte) in [(2, 2), (3, 3)] {
        history.submit(tag, &Op::Write { volume: VOLUME, lba: Lba(5), data: vec![byte; 1024].into(), fua: false });
        history.complete(tag, &Ok(Reply::Done)).unwrap();
    }
    let torn = Ok(Reply::Data([[2; 512], [3; 512]].concat().into()));
    assert!(history.complete(1, &torn).is_err());
}

#[test]
fn overtaking_change_of_a_block_is_a_violation() {
    let mut history = history();
    history.submit(1, &write(5, 1));
    history.submit(2, &write(5, 2));
    history.submit(3, &write(6, 3));
    assert!(history.clone().complete(2, &Ok(Reply::Done)).is_err());
    history.complete(3, &Ok(Reply::Done)).unwrap();
    history.complete(1, &Ok(Reply::Done)).unwrap();
    history.complete(2, &Ok(Reply::Done)).unwrap();
}

#[test]
fn unrequested_or_repeated_reply_is_a_violation() {
    let mut history = history();
    assert!(history.clone().complete(1, &Ok(Reply::Done)).is_err());
    history.submit(1, &write(5, 1));
    history.submit(2, &write(6, 1));
    history.complete(2, &Ok(Reply::Done)).unwrap();
    assert!(history.complete(2, &Ok(Reply::Done)).is_err());
}

#[test]
fn no_space_is_accepted_only_from_a_full_pool() {
    let mut history = history();
    history.submit(1, &write(5, 1));
    assert!(history.clone().complete(1, &Err(OpError::NoSpace)).is_err());
    history.tolerated.full = true;
    history.complete(1, &Err(OpError::NoSpace)).unwrap();
    history.submit(2, &read(5));
    history.complete(2, &data(0)).unwrap();
    history.submit(3, &Op::Unmap { volume: VOLUME, ranges: vec![span(0, 8)] });
    assert!(history.complete(3, &Err(OpError::NoSpace)).is_err());
}

#[test]
fn engine_stop_is_accepted_only_on_drive_failure() {
    let mut history = history();
    history.submit(1, &write(5, 1));
    let stopped = Err(OpError::Stopped("drive".into()));
    assert!(history.clone().complete(1, &stopped).is_err());
    history.tolerated.drive_failing = true;
    history.complete(1, &stopped).unwrap();
    assert_eq!(history.unanswered(), 0);
    // The operation may be done or not.
    assert_eq!(history.pending.len(), 1);
}

#[test]
fn refused_copy_leaves_old_or_new_blocks() {
    let mut history = history();
    history.tolerated.full = true;
    for (tag, op) in [(1, write(0, 1)), (2, write(2009, 2))] {
        history.submit(tag, &op);
        history.complete(tag, &Ok(Reply::Done)).unwrap();
    }
    let copy = Op::Copy { source: VOLUME, from: span(0, 2000), destination: VOLUME, to: Lba(2009) };
    history.submit(3, &copy);
    history.complete(3, &Err(OpError::NoSpace)).unwrap();
    for byte in [1, 2] {
        let mut history = history.clone();
        history.submit(4, &read(2009));
        history.complete(4, &data(byte)).unwrap();
        // The content is decided now.
        history.submit(5, &read(2009));
        assert!(history.complete(5, &data(3 - byte)).is_err());
    }
    history.submit(4, &read(2009));
    assert!(history.complete(4, &data(3)).is_err());
}

#[test]
fn copy_may_run_between_pieces_of_another_copy() {
    let mut history = history();
    history.submit(1, &write(0, 1));
    history.complete(1, &Ok(Reply::Done)).unwrap();
    let copy = |from: u64, blocks: u64, to: u64| Op::Copy {
        source: VOLUME,
        from: span(from, blocks),
        destination: VOLUME,
        to: Lba(to),
    };
    history.submit(2, &copy(0, 2000, 2001));
    history.submit(3, &copy(2001, 1, 6001));
    history.complete(3, &Ok(Reply::Done)).unwrap();
    history.complete(2, &Ok(Reply::Done)).unwrap();
    for byte in [0, 1] {
        let mut history = history.clone();
        history.submit(4, &read(6001));
        history.complete(4, &data(byte)).unwrap();
    }
    history.submit(4, &read(6001));
    assert!(history.complete(4, &data(2)).is_err());
}
