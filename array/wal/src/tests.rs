//! Tests of a log in memory: written, damaged and replayed.
#![expect(clippy::cast_possible_truncation, reason = "test values are small")]

use crate::*;
use bytes::Bytes;
use proptest::prelude::*;
use types::{BlockRange, Lba, Lsn, Period, Position, StreamId, VolumeId};

const CAPACITY: u64 = 64 * 1024;

fn chain() -> Chain {
    Chain { array: *b"an array's name.", epoch: 3, sequence: 7, lsn: Lsn(40), previous: 0xAB }
}

fn write(lba: u64, byte: u8, blocks: usize) -> Vec<LogOp> {
    vec![LogOp::Write { volume: VolumeId(1), lba: Lba(lba), data: Bytes::from(vec![byte; blocks * 512]) }]
}

fn put(area: &mut [u8], offset: u64, parts: &[Bytes]) {
    let mut at = offset as usize;
    for part in parts {
        area[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

fn read_all(area: &[u8], replay: &mut Replay) -> Vec<(Lsn, Vec<LogOp>)> {
    let mut all = Vec::new();
    let mut read = |offset: u64, length: usize| {
        Ok::<_, ()>(Bytes::copy_from_slice(&area[offset as usize..offset as usize + length]))
    };
    while let Some(group) = replay.next(&mut read).unwrap() {
        all.extend(group);
    }
    all
}

/// Writes one group per record and releases groups older than the last `keep`.
fn log(records: &[Vec<LogOp>], keep: u64) -> (Vec<u8>, Chain, u64, usize) {
    let (mut area, mut chain, mut ring) = (vec![0xEE; CAPACITY as usize], chain(), Ring::new(CAPACITY, 8192));
    let mut starts = Vec::new();
    for record in records {
        let mut builder = GroupBuilder::default();
        builder.push(record);
        ring.release_before(chain.sequence.saturating_sub(keep));
        starts.push((chain, ring.head()));
        let sequence = chain.sequence;
        let sealed = builder.seal(&mut chain);
        let offset = ring.reserve(sequence, sealed.bytes).expect("room");
        put(&mut area, offset, &sealed.parts);
    }
    let first = records.len().saturating_sub(keep as usize);
    (area, starts[first].0, starts[first].1, first)
}

#[test]
fn golden_bytes() {
    let mut builder = GroupBuilder::default();
    builder.push(&[LogOp::Delete { volume: VolumeId(0x0102) }]);
    let sealed = builder.seal(&mut chain());
    let bytes = sealed.parts.concat();
    assert_eq!((bytes.len(), sealed.bytes, sealed.last_lsn), (4096, 4096, Lsn(40)));
    assert_eq!(&bytes[..8], b"IBIDLOG\0");
    assert_eq!(bytes[8..16], [1, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(&bytes[16..32], b"an array's name.");
    assert_eq!(bytes[32..56], [3, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[56..60], [13, 0, 0, 0]);
    assert_eq!(bytes[72..85], [1, 0, 0, 0, 6, 2, 1, 0, 0, 0, 0, 0, 0]);
    assert!(bytes[85..].iter().all(|byte| *byte == 0));
}

fn entry() -> LogOp {
    LogOp::Stream(StreamEntry {
        stream: StreamId::new(0x0102_0304).unwrap(),
        period: Period(5),
        position: Position(0x0607),
        heard: Position(8),
    })
}

#[test]
fn golden_bytes_of_a_place_in_a_stream() {
    let mut builder = GroupBuilder::default();
    builder.push(&[entry(), LogOp::Delete { volume: VolumeId(9) }]);
    let bytes = builder.seal(&mut chain()).parts.concat();
    assert_eq!(bytes[72..81], [2, 0, 0, 0, 11, 4, 3, 2, 1]);
    assert_eq!(bytes[81..105], [5, 0, 0, 0, 0, 0, 0, 0, 7, 6, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[105..107], [6, 9]);
}

#[test]
fn place_in_a_stream_is_refused_inside_a_record() {
    let mut builder = GroupBuilder::default();
    builder.push(&[LogOp::Delete { volume: VolumeId(9) }, entry()]);
    let mut area = vec![0; CAPACITY as usize];
    put(&mut area, 0, &builder.seal(&mut chain()).parts);
    let read = Replay::new(chain(), CAPACITY, 0).next(reader(&area));
    assert!(matches!(read, Err(ReplayError::Malformed { sequence: 7, .. })), "{read:?}");
}

#[test]
fn replay_from_any_group_survives_ring_wrap() {
    let records: Vec<_> = (0..100u64).map(|n| write(n, n as u8, 1 + (n as usize * 7) % 20)).collect();
    for keep in 1..4 {
        let (area, chain, head, first) = log(&records, keep);
        let mut replay = Replay::new(chain, CAPACITY, head);
        let read: Vec<_> = read_all(&area, &mut replay).into_iter().map(|(_, ops)| ops).collect();
        assert_eq!(read, records[first..]);
        let (chain, ring) = replay.finish();
        assert_eq!(chain.lsn, Lsn(140));
        assert!(ring.used() > 0);
    }
}

#[test]
fn flipped_bit_ends_replay_before_its_group() {
    let records: Vec<_> = (0..4).map(|n| write(n, 9, 3)).collect();
    let (area, chain, head, _) = log(&records, 4);
    for at in [head as usize + 8192 + 1, head as usize + 8192 + 70, head as usize + 8192 + 500] {
        let mut damaged = area.clone();
        damaged[at] ^= 4;
        // Each group takes 4096 bytes here, so the damage is in the third.
        assert_eq!(read_all(&damaged, &mut Replay::new(chain, CAPACITY, head)).len(), 2);
    }
}

#[test]
fn log_of_another_array_is_not_replayed() {
    let (area, mut chain, head, _) = log(&[write(0, 1, 1)], 1);
    chain.array[0] ^= 1;
    assert!(read_all(&area, &mut Replay::new(chain, CAPACITY, head)).is_empty());
}

fn any_op() -> impl Strategy<Value = LogOp> {
    let range = (0..1u64 << 40, 0..1u64 << 20).prop_map(|(start, blocks)| BlockRange::new(Lba(start), blocks).unwrap());
    let volume = any::<u64>().prop_map(VolumeId);
    let bytes = proptest::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from);
    prop_oneof![
        (volume.clone(), any::<u32>(), 1..4usize, any::<u8>()).prop_map(|(volume, lba, blocks, byte)| LogOp::Write {
            volume,
            lba: Lba(lba.into()),
            data: vec![byte; blocks * 512].into()
        }),
        (
            volume.clone(),
            range.clone(),
            prop_oneof![Just(FillValue::Hole), Just(FillValue::Zero), any::<u32>().prop_map(FillValue::Word)]
        )
            .prop_map(|(volume, range, fill)| LogOp::Fill { volume, range, fill }),
        (volume.clone(), range.clone(), any::<u8>()).prop_map(|(volume, range, byte)| LogOp::Same {
            volume,
            range,
            pattern: vec![byte; 512].into()
        }),
        (volume.clone(), range, volume.clone(), any::<u64>()).prop_map(|(source, from, destination, to)| LogOp::Copy {
            source,
            from,
            destination,
            to: Lba(to)
        }),
        (volume.clone(), any::<u64>()).prop_map(|(volume, blocks)| LogOp::Create { volume, blocks }),
        (volume.clone(), any::<u64>()).prop_map(|(volume, blocks)| LogOp::Resize { volume, blocks }),
        (volume.clone(), any::<u64>()).prop_map(|(source, to)| LogOp::CopyVolume { source, destination: VolumeId(to) }),
        volume.prop_map(|volume| LogOp::Delete { volume }),
        (bytes.clone(), bytes.clone()).prop_map(|(key, value)| LogOp::Put { key, value }),
        bytes.prop_map(|key| LogOp::Remove { key }),
    ]
}

proptest! {
    #[test]
    fn records_round_trip(
        mut records in proptest::collection::vec(proptest::collection::vec(any_op(), 1..5), 1..8),
        ordered in any::<u8>(),
    ) {
        let is_ordered = |number: usize| ordered >> number & 1 == 1;
        (0..records.len()).filter(|number| is_ordered(*number)).for_each(|number| records[number].insert(0, entry()));
        let (mut chain, start) = (chain(), chain());
        let mut builder = GroupBuilder::default();
        records.iter().for_each(|record| builder.push(record));
        let mut area = vec![0; CAPACITY as usize];
        put(&mut area, 0, &builder.seal(&mut chain).parts);
        let read: Vec<_> = read_all(&area, &mut Replay::new(start, CAPACITY, 0)).into_iter().map(|(_, ops)| ops).collect();
        prop_assert_eq!(read, records);
    }

    #[test]
    fn arbitrary_record_bytes_do_not_panic(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        fuzzing::fuzz_record(&data);
    }

    #[test]
    fn damaged_log_replays_a_prefix(data in proptest::collection::vec(any::<u8>(), 0..60)) {
        fuzzing::fuzz_replay(&data);
    }
}

fn reader(area: &[u8]) -> impl FnMut(u64, usize) -> Result<Bytes, ()> {
    |offset, length| Ok(Bytes::copy_from_slice(&area[offset as usize..offset as usize + length]))
}

#[test]
fn damage_before_later_groups_is_a_loss() {
    let records: Vec<_> = (0..6).map(|n| write(n * 8, n as u8, 8)).collect();
    let (area, chain, head, _) = log(&records, 6);
    // Each group takes two units of 4096 bytes. Damage a byte of the header or of the body.
    for damaged in 0..6_u64 {
        for within in [20, 41, 70, 80, 3000] {
            let mut area = area.clone();
            area[(head + damaged * 8192 + within) as usize] ^= 4;
            let mut replay = Replay::new(chain, CAPACITY, head);
            assert_eq!(read_all(&area, &mut replay).len() as u64, damaged);
            let loss = replay.find_loss(reader(&area));
            if damaged == 5 {
                assert_eq!(loss, None, "the last group may be torn");
                continue;
            }
            let loss = loss.unwrap();
            assert_eq!((loss.sequence, loss.first), (chain.sequence + damaged, Lsn(chain.lsn.0 + damaged)));
            assert_eq!(loss.last, Lsn(chain.lsn.0 + 5));
            let later = loss.ranges.iter().filter(|(_, range)| range.start().0 > damaged * 8).count() as u64;
            assert_eq!(later, 5 - damaged, "the ranges of all later groups are listed");
        }
    }
}

#[test]
fn intact_and_wrapped_logs_have_no_loss() {
    for count in 1..40 {
        let records: Vec<_> = (0..count).map(|n| write(n * 8, n as u8, 8)).collect();
        let (area, chain, head, _) = log(&records, 5);
        let mut replay = Replay::new(chain, CAPACITY, head);
        read_all(&area, &mut replay);
        assert_eq!(replay.find_loss(reader(&area)), None, "{count} groups");
    }
}

#[test]
fn unreadable_group_is_a_loss_that_may_be_none() {
    let records: Vec<_> = (0..4).map(|n| write(n * 8, n as u8, 8)).collect();
    let (area, chain, head, _) = log(&records, 1);
    let mut replay = Replay::new(chain, CAPACITY, head);
    let read = |offset: u64, length: usize| match offset == head {
        true => Err(()),
        false => Ok(Bytes::copy_from_slice(&area[offset as usize..offset as usize + length])),
    };
    assert_eq!(replay.next(read), Err(ReplayError::Read(())));
    assert_eq!(replay.find_loss(read), None, "no later group exists");
    let loss = replay.unreadable_end();
    assert!(!loss.is_proven && loss.sequence == chain.sequence && loss.first == chain.lsn);
    assert!(loss.to_string().contains("cannot be read"), "{loss}");
}

#[test]
fn unreadable_unused_parts_of_the_ring_are_skipped() {
    let records: Vec<_> = (0..4).map(|n| write(n * 8, n as u8, 8)).collect();
    let (mut area, chain, head, _) = log(&records, 4);
    let bad = CAPACITY - GROUP_ALIGNMENT;
    let read = |area: Vec<u8>| {
        move |offset: u64, length: usize| match offset + length as u64 > bad {
            true => Err(()),
            false => Ok(Bytes::copy_from_slice(&area[offset as usize..offset as usize + length])),
        }
    };
    let mut replay = Replay::new(chain, CAPACITY, head);
    assert_eq!(read_all(&area, &mut replay).len(), 4);
    assert_eq!(replay.find_loss(read(area.clone())), None);
    area[(head + 8192 + 80) as usize] ^= 1;
    let mut replay = Replay::new(chain, CAPACITY, head);
    assert_eq!(read_all(&area, &mut replay).len(), 1);
    assert!(replay.find_loss(read(area)).is_some());
}
