use super::*;

const HEADER: Header = Header { seed: 1, first: 100, blocks: 64 };

fn operation(sequence: u64, kind: Kind, lba: u64, blocks: u32) -> Operation {
    Operation { sequence, kind, lba, blocks }
}

fn apply(model: &mut Model, operation: Operation) {
    model.start(operation).unwrap();
    model.finish(operation.sequence, Outcome::Applied).unwrap();
}

fn zeroed() -> Model {
    let mut model = Model::new(HEADER);
    apply(&mut model, operation(1, Kind::Zero, 100, 64));
    model
}

fn render(stamps: &[Stamp]) -> Vec<u8> {
    let mut data = vec![0; stamps.len() * BLOCK];
    stamps.iter().zip(data.chunks_mut(BLOCK)).for_each(|(stamp, block)| stamp.render(HEADER.seed, block));
    data
}

#[test]
fn each_operation_leaves_its_stamps() {
    let mut model = zeroed();
    apply(&mut model, operation(2, Kind::Write, 110, 2));
    apply(&mut model, operation(3, Kind::WriteSame, 112, 2));
    apply(&mut model, operation(4, Kind::Copy { source: 110 }, 120, 4));
    apply(&mut model, operation(5, Kind::Unmap, 110, 1));
    apply(&mut model, operation(6, Kind::CompareAndWrite, 111, 1));
    let written = |sequence, lba| Stamp::Written { sequence, lba };
    let expected = [Stamp::Zero, written(6, 111), written(3, 112), written(3, 112), Stamp::Zero];
    assert_eq!(model.stamps(110, 5), Some(&expected[..]));
    assert_eq!(model.stamps(120, 4), Some(&[written(2, 110), written(2, 111), written(3, 112), written(3, 112)][..]));
}

#[test]
fn blocks_of_open_operations_are_not_idle() {
    let mut model = zeroed();
    model.start(operation(2, Kind::Copy { source: 110 }, 120, 4)).unwrap();
    assert!(!model.is_idle(113, 1), "its source");
    assert!(!model.is_idle(118, 3), "its destination");
    assert!(model.is_idle(114, 6));
    assert_eq!(model.start(operation(3, Kind::Write, 111, 1)), None);
    assert_eq!(model.start(operation(2, Kind::Write, 140, 1)), None, "a sequence used before");
    assert_eq!(model.start(operation(4, Kind::Write, 160, 5)), None, "beyond the region");
    assert_eq!(model.start(operation(4, Kind::Copy { source: 99 }, 130, 2)), None, "from before the region");
    assert_eq!(model.finish(9, Outcome::Applied), None);
}

#[test]
fn failed_operation_makes_blocks_unknown() {
    let mut model = zeroed();
    model.start(operation(2, Kind::Write, 110, 2)).unwrap();
    model.finish(2, Outcome::Unknown).unwrap();
    assert_eq!(model.stamps(109, 4), Some(&[Stamp::Zero, Stamp::Unknown, Stamp::Unknown, Stamp::Zero][..]));
    model.start(operation(3, Kind::Write, 109, 1)).unwrap();
    model.finish(3, Outcome::NotApplied).unwrap();
    assert_eq!(model.stamps(109, 1), Some(&[Stamp::Zero][..]));
}

#[test]
fn open_operations_are_classified_by_their_blocks() {
    let mut model = zeroed();
    apply(&mut model, operation(2, Kind::Write, 110, 3));
    let open = operation(3, Kind::Write, 110, 3);
    model.start(open).unwrap();
    let before = render(model.stamps(110, 3).unwrap());
    let after = render(&model.effect(&open).unwrap());
    assert_eq!(model.classify(&open, &after), Some(Verdict::Applied));
    assert_eq!(model.classify(&open, &before), Some(Verdict::NotApplied));
    let torn = [&after[..BLOCK], &before[BLOCK..]].concat();
    assert_eq!(model.classify(&open, &torn), Some(Verdict::Torn));
    let mut foreign = after.clone();
    foreign[BLOCK + 40] ^= 0x10;
    assert_eq!(model.classify(&open, &foreign), Some(Verdict::Foreign { lba: 111 }));
}

#[test]
fn lost_write_is_detected() {
    let mut model = zeroed();
    let before = render(model.stamps(110, 4).unwrap());
    assert_eq!(model.first_difference(110, &before), None);
    apply(&mut model, operation(2, Kind::Write, 112, 1));
    assert_eq!(model.first_difference(110, &before), Some(112));
}

#[test]
fn invalid_journal_is_refused_on_replay() {
    let first = operation(1, Kind::Zero, 100, 64);
    let second = operation(2, Kind::Write, 101, 1);
    let model =
        Model::replay(HEADER, &[Record::Sent(first), Record::Answered(1, Outcome::Applied), Record::Sent(second)])
            .unwrap();
    assert_eq!(model.open().collect::<Vec<_>>(), [&second]);
    assert_eq!(model.last_sequence(), 2);
    let wrong = [Record::Sent(first), Record::Sent(second)];
    assert_eq!(Model::replay(HEADER, &wrong).err(), Some(JournalError::Order(1)));
}

#[test]
fn unaligned_copies_are_not_atomic() {
    assert!(operation(1, Kind::Copy { source: 108 }, 116, 8).is_atomic());
    assert!(!operation(1, Kind::Copy { source: 109 }, 116, 8).is_atomic());
    assert!(operation(1, Kind::Write, 3, 5).is_atomic());
}
