//! Entry point of the fuzz target, with a short seeded run for `cargo test`.
#![allow(clippy::expect_used, reason = "a fuzz target panics when it finds something")]

use crate::wire::{Assembler, MessageParts, durable_position, max_record_bytes, record_frames};
use bytes::BytesMut;
use link::{Decoder, Kind};

/// Most bytes of data in a record.
const MAX_PAYLOAD: u64 = 256 << 10;

/// Reads arbitrary bytes as frames of a link, and those about pods as records and positions. A
/// record survives encoding and decoding.
pub fn fuzz_records(data: &[u8]) {
    let (mut decoder, mut assembler) = (Decoder::default(), Assembler::default());
    let mut messages = MessageParts::default();
    let mut input = BytesMut::from(data);
    while let Ok(Some(frame)) = decoder.next(&mut input) {
        if frame.kind == Kind::Durable {
            durable_position(&frame).expect("its length was checked");
            continue;
        }
        if frame.kind == Kind::PodMessage {
            // A refused part ends the session.
            let Ok(_) = messages.add(&frame) else { return };
            continue;
        }
        if !frame.kind.is_of_pod() {
            continue;
        }
        let Ok(joined) = assembler.add(frame, max_record_bytes(MAX_PAYLOAD)) else { return };
        if let Some(record) = joined {
            let mut again = Assembler::default();
            let frames = record_frames(&record);
            let joined = frames.into_iter().filter_map(|frame| again.add(frame, u32::MAX).expect("frames of a record"));
            assert_eq!(joined.collect::<Vec<_>>(), [record]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{message, write};
    use link::{Encoder, Frame};
    use testing::Rng;

    #[test]
    fn damaged_streams_of_records_cause_no_panic() {
        let mut rng = Rng::new(20_261_127);
        let records = [write(512), write(4096), write(70_144), message(20), message(70_000)];
        for _ in 0..5000 {
            let (mut encoder, mut stream) = (Encoder::default(), BytesMut::new());
            let frames = record_frames(&records[rng.index(records.len())]);
            let frames = frames.into_iter().filter(|_| !rng.percent(5)).collect::<Vec<Frame>>();
            frames.iter().for_each(|frame| encoder.encode(frame, &mut stream));
            for _ in 0..rng.below(3) {
                let at = rng.index(stream.len().clamp(1, 200));
                stream[at..].iter_mut().take(1).for_each(|byte| *byte = rng.next_u64().to_le_bytes()[0]);
            }
            fuzz_records(&stream);
        }
    }
}
