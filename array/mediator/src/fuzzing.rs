//! Entry point of the fuzz target, with a short seeded run for `cargo test`.
#![allow(clippy::expect_used, reason = "a fuzz target panics when it finds something")]

use crate::message::{REPLY_BYTES, REQUEST_BYTES, Reply, Request};
use crate::register::{Entry, Holder, Outcome, Registers};
use std::time::Instant;

/// Reads arbitrary bytes as requests of three clients, and carries them out. A decoded message
/// survives encoding, and no epoch ever goes back.
///
/// Returns the number of changes.
pub fn fuzz_requests(data: &[u8], now: Instant) -> usize {
    let (mut registers, mut changes) = (Registers::default(), 0);
    let arrays = [[0; 32], [1; 32]];
    registers.put(Entry { pod: [1; 16], arrays, epoch: 1, owner: Holder::Both, changed_ms: 0 });
    for (client, bytes) in (0_u8..3).cycle().zip(data.chunks_exact(REQUEST_BYTES)) {
        let bytes: &[u8; REQUEST_BYTES] = bytes.try_into().expect("the length of a request");
        if let Ok(reply) = Reply::decode(bytes[..REPLY_BYTES].try_into().expect("the length of a reply")) {
            assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
        }
        let Ok(request) = Request::decode(bytes) else { continue };
        assert_eq!(Request::decode(&request.encode()), Ok(request));
        let of = (request.pod, [client; 32]);
        let before = registers.content(&of.0, &of.1);
        let outcome = match request.action {
            crate::message::Action::Create { peer, nonce, epoch } => registers.create(of, peer, (nonce, epoch), now, 0),
            crate::message::Action::Swap { expected, new } => registers.swap(of, expected, new, 0),
            crate::message::Action::Retire { expected } => registers.retire(of, expected, 0),
            _ => registers.read(&of.0, &of.1),
        };
        if let Outcome::Store(entry) = outcome {
            assert!(before.is_none_or(|before| entry.epoch >= before.epoch));
            registers.put(entry);
            changes += 1;
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::requests;
    use testing::Rng;

    #[test]
    fn damaged_requests_cause_no_panic() {
        let mut rng = Rng::new(20_261_127);
        let (requests, mut changes) = (requests(), 0);
        for _ in 0..3000 {
            let mut stream = Vec::new();
            for _ in 0..1 + rng.below(12) {
                let mut request = requests[rng.index(requests.len())].encode();
                for _ in 0..rng.below(3) {
                    let at = rng.index(REQUEST_BYTES);
                    request[at] = rng.below(4).to_le_bytes()[0];
                }
                stream.extend_from_slice(&request);
            }
            changes += fuzz_requests(&stream, platform::clock::now());
        }
        assert!(changes > 100, "{changes}");
    }
}
