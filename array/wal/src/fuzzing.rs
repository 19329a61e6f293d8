//! Entry points for the fuzz targets. The unit tests run a short seeded slice of each.
#![allow(clippy::expect_used, reason = "a fuzz target panics when it finds something")]

use crate::record;
use crate::{Chain, GroupBuilder, LogOp, Replay, Ring};
use bytes::{Bytes, BytesMut};
use types::{Lba, Lsn, VolumeId, to_usize};

const CAPACITY: usize = 64 << 10;

/// Decodes arbitrary bytes as a log record. The decoder must not panic or reserve more memory than
/// the input justifies.
pub fn fuzz_record(data: &[u8]) {
    let mut body = Bytes::copy_from_slice(data);
    if let Ok(record) = record::decode(&mut body) {
        let mut parts = Vec::new();
        let length = record::encode(&record, &mut BytesMut::new(), &mut parts);
        assert_eq!(length, parts.iter().map(|part| part.len()).sum::<usize>());
    }
}

/// Writes a log, damages it as `data` specifies, and replays it. The replay must yield a prefix of
/// the written records and nothing else.
///
/// The first byte of `data` sets the number of groups. Each following five bytes are one damage: an
/// offset (32 bits) and a value to add to the byte there.
pub fn fuzz_replay(data: &[u8]) {
    let Some((count, damages)) = data.split_first() else { return };
    let start = Chain { array: [3; 16], epoch: 1, sequence: 1, lsn: Lsn(1), previous: 0 };
    let (mut area, written) = write_log(start, u64::from(count % 12));
    for damage in damages.chunks_exact(5) {
        let at = u32::from_le_bytes([damage[0], damage[1], damage[2], damage[3]]) as usize % area.len();
        area[at] = area[at].wrapping_add(damage[4]);
    }
    let mut replay = Replay::new(start, CAPACITY as u64, 0);
    let mut read = |offset: u64, length: usize| {
        let from = to_usize(offset);
        area.get(from..from + length).map(Bytes::copy_from_slice).ok_or("past the end of the ring")
    };
    let mut found = Vec::new();
    while let Some(group) = replay.next(&mut read).expect("damage ends the log and never yields malformed records") {
        found.extend(group);
    }
    assert_eq!(found, written[..found.len()]);
}

#[expect(clippy::cast_possible_truncation, reason = "there are at most 11 groups of 3 records")]
fn write_log(mut chain: Chain, groups: u64) -> (Vec<u8>, Vec<(Lsn, Vec<LogOp>)>) {
    let (mut area, mut ring, mut written) = (vec![0; CAPACITY], Ring::new(CAPACITY as u64, 0), Vec::new());
    for group in 0..groups {
        let mut builder = GroupBuilder::default();
        for record in 0..=group % 3 {
            let data = Bytes::from(vec![group as u8; 512 * (1 + record as usize)]);
            let ops = vec![LogOp::Write { volume: VolumeId(group), lba: Lba(record), data }];
            builder.push(&ops);
            written.push((Lsn(chain.lsn.0 + record), ops));
        }
        let sequence = chain.sequence;
        let sealed = builder.seal(&mut chain);
        let Some(offset) = ring.reserve(sequence, sealed.bytes) else { break };
        let mut at = to_usize(offset);
        for part in sealed.parts {
            area[at..at + part.len()].copy_from_slice(&part);
            at += part.len();
        }
    }
    (area, written)
}
