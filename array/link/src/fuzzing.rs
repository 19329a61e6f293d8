//! Entry point of the fuzz target, with a short seeded run for `cargo test`.
#![allow(clippy::expect_used, reason = "a fuzz target panics when it finds something")]

use crate::frame::{Decoder, Encoder, HEADER_BYTES, Kind, MAX_BODY_BYTES};
use crate::hello::Hello;
use crate::message::{Refusal, one_number, two_numbers};
use bytes::BytesMut;

/// Reads arbitrary bytes as the frames of a connection, and their bodies. A frame survives encoding
/// and decoding, and the buffer grows only for a frame within bounds.
pub fn fuzz_frames(data: &[u8]) {
    let (mut decoder, mut encoder, mut check) = (Decoder::default(), Encoder::default(), Decoder::default());
    let mut input = BytesMut::from(data);
    while let Ok(Some(frame)) = decoder.next(&mut input) {
        let mut output = BytesMut::new();
        encoder.encode(&frame, &mut output);
        assert_eq!(check.next(&mut output).expect("a frame decodes").as_ref(), Some(&frame));
        match frame.kind {
            Kind::Hello => {
                if let Ok(hello) = Hello::decode(&frame.body) {
                    let again = Hello::decode(&hello.encode().body).expect("a hello decodes");
                    assert_eq!(again, hello);
                }
            }
            Kind::Refuse => assert!(!Refusal::decode(&frame.body).text.contains(char::is_control)),
            Kind::Ping | Kind::Pong | Kind::TestResult => assert!(two_numbers(&frame.body).is_some()),
            Kind::BulkReceived | Kind::TestRequest => assert!(one_number(&frame.body).is_some()),
            Kind::Introduce | Kind::Accept => assert_eq!(frame.body.len(), 32),
            Kind::Disconnect => assert!(frame.body.is_empty()),
            Kind::Bulk | Kind::Record | Kind::RecordPart => assert!(frame.body.len() <= MAX_BODY_BYTES as usize),
            Kind::Durable => assert!(frame.pod != 0 && frame.body.len() == 8),
            Kind::Credit => assert!(frame.pod != 0 && frame.body.len() == 24),
            Kind::PodMessage => assert!(frame.pod != 0 && frame.body.len() >= 2),
        }
    }
    assert!(input.capacity() <= data.len().max(2 * (HEADER_BYTES + MAX_BODY_BYTES as usize)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::hello::tests::hello;
    use crate::message::{Cause, bulk_received, ping};
    use testing::Rng;

    #[test]
    fn damaged_streams_of_frames_cause_no_panic() {
        let seed = 20_261_126;
        let mut rng = Rng::new(seed);
        let frames = [
            hello().encode(),
            ping(1, 2),
            Refusal::new(Cause::Key, "used").encode(),
            bulk_received(7),
            Frame::new(Kind::Bulk, vec![1; 100]),
            Frame::of_pod(Kind::Record, 1, 1, vec![2; 100]),
            Frame::of_pod(Kind::Durable, 1, 1, vec![3; 8]),
        ];
        for _ in 0..20_000 {
            let (mut encoder, mut stream) = (Encoder::default(), BytesMut::new());
            for _ in 0..1 + rng.below(4) {
                encoder.encode(&frames[rng.below(frames.len() as u64) as usize], &mut stream);
            }
            for _ in 0..rng.below(4) {
                let at = rng.below(stream.len() as u64) as usize;
                stream[at] = rng.below(256) as u8;
            }
            stream.truncate(1 + rng.below(stream.len() as u64) as usize);
            fuzz_frames(&stream);
        }
    }
}
