//! Questions about content, and their answers. Numbers are little-endian.

use super::VerifyStatus;
use bytes::{BufMut, Bytes, BytesMut};
use types::{BlockRange, Lba, VolumeId};

/// Blocks of a part: 4 KiB.
pub(crate) const PART_BLOCKS: u64 = 8;
/// Most blocks of a question.
pub(crate) const MOST_BLOCKS: u64 = 512 << 11;
/// Most parts of an answer: 1 MiB.
pub(crate) const MOST_PARTS: usize = 256;

const QUESTION: u8 = 1;
const ANSWER: u8 = 2;
const OUTCOME: u8 = 3;
const QUESTION_BYTES: usize = 1 + 5 * 8 + 1;
const DIGEST_BYTES: usize = 17;
/// More than an outcome with the most differences and the longest reason has.
const MOST_OUTCOME_BYTES: usize = 32 << 10;

/// The digest of a content; none if it cannot be read.
pub(crate) type Digest = Option<u128>;

/// Asks for digests of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The number of the question; the answer repeats it.
    pub(crate) number: u64,
    pub(crate) volume: VolumeId,
    pub(crate) range: BlockRange,
    /// Seed of the digests.
    pub(crate) seed: u64,
    /// A digest for each part of 4 KiB is wanted, in place of one.
    pub(crate) is_by_parts: bool,
}

/// The digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) number: u64,
    /// Empty if the array cannot answer now, or has no such volume.
    pub(crate) digests: Vec<Digest>,
}

/// A question, an answer, or the outcome of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VerifyMessage {
    Question(Question),
    Answer(Answer),
    /// As the receiver has it. It has an end.
    Outcome(VerifyStatus),
}

impl Question {
    /// Returns the number of digests of its answer.
    pub(crate) fn parts(&self) -> usize {
        if self.is_by_parts {
            usize::try_from(self.range.blocks().div_ceil(PART_BLOCKS)).unwrap_or(usize::MAX)
        } else {
            1
        }
    }
}

impl VerifyMessage {
    /// Returns the bytes.
    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        match self {
            Self::Question(question) => {
                let Question { number, volume, range, seed, is_by_parts } = question;
                bytes.put_u8(QUESTION);
                let numbers = [*number, volume.0, range.start().0, range.blocks(), *seed];
                numbers.iter().for_each(|number| bytes.put_u64_le(*number));
                bytes.put_u8(u8::from(*is_by_parts));
            }
            Self::Answer(Answer { number, digests }) => {
                bytes.put_u8(ANSWER);
                bytes.put_u64_le(*number);
                for digest in digests {
                    bytes.put_u8(u8::from(digest.is_some()));
                    bytes.put_u128_le(digest.unwrap_or_default());
                }
            }
            Self::Outcome(status) => {
                bytes.put_u8(OUTCOME);
                bytes.put_slice(&status.encode());
            }
        }
        bytes.freeze()
    }

    /// Parses a message. `None` if the bytes are none, or ask for more than one message may.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, body) = bytes.split_first()?;
        match *kind {
            QUESTION if bytes.len() == QUESTION_BYTES => {
                let (numbers, [is_by_parts]) = body.as_chunks::<8>() else { return None };
                let [number, volume, start, blocks, seed] = *numbers else { return None };
                let [number, volume, start, blocks, seed] =
                    [number, volume, start, blocks, seed].map(u64::from_le_bytes);
                let range = BlockRange::new(Lba(start), blocks).ok()?;
                let is_by_parts = match is_by_parts {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                let question = Question { number, volume: VolumeId(volume), range, seed, is_by_parts };
                let is_short = blocks <= MOST_BLOCKS && question.parts() <= MOST_PARTS;
                (blocks > 0 && is_short).then_some(Self::Question(question))
            }
            ANSWER => {
                let (number, rest) = body.split_first_chunk::<8>()?;
                let (digests, []) = rest.as_chunks::<DIGEST_BYTES>() else { return None };
                let digest = |[is_known, digest @ ..]: &[u8; DIGEST_BYTES]| match is_known {
                    0 if *digest == [0; 16] => Some(None),
                    1 => Some(Some(u128::from_le_bytes(*digest))),
                    _ => None,
                };
                let digests: Vec<Digest> = digests.iter().map(digest).collect::<Option<_>>()?;
                let number = u64::from_le_bytes(*number);
                (digests.len() <= MOST_PARTS).then_some(Self::Answer(Answer { number, digests }))
            }
            OUTCOME => {
                if body.len() > MOST_OUTCOME_BYTES {
                    return None;
                }
                // One that runs is decoded as one that a restart has ended.
                VerifyStatus::decode(body).filter(|status| *status.encode() == *body).map(Self::Outcome)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Difference, DifferenceKind, VerifyState};
    use super::*;
    use testing::Rng;

    fn samples() -> [VerifyMessage; 3] {
        let range = BlockRange::new(Lba(8), 16).unwrap();
        let question = Question { number: 1, volume: VolumeId(2), range, seed: 3, is_by_parts: true };
        let mut outcome = VerifyStatus::begin(None, 4, 5);
        outcome.add(Difference { volume: VolumeId(2), range, kind: DifferenceKind::Content }, true, 6);
        outcome.end(VerifyState::Ended("no answer".to_owned()), true, 7);
        [
            VerifyMessage::Question(question),
            VerifyMessage::Answer(Answer { number: 1, digests: vec![Some(u128::MAX - 1), None] }),
            VerifyMessage::Outcome(outcome),
        ]
    }

    #[test]
    fn messages_have_the_golden_bytes() {
        let golden = [
            "01010000000000000002000000000000000800000000000000100000000000000003000000000000000\
             1",
            "02010000000000000001feffffffffffffffffffffffffffffff0000000000000000000000000000000000",
            "0302030100000000000000050000000000000007000000000000000000000000000000040000000000000000200000000000\
             00060000000000000009000000000000006e6f20616e7377657202000000000000000800000000000000100000000000000001",
        ];
        for (message, golden) in samples().into_iter().zip(golden) {
            assert_eq!(types::hex::encode(&message.encode()), golden);
            assert_eq!(VerifyMessage::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn outcome_of_one_that_runs_is_malformed() {
        let running = VerifyMessage::Outcome(VerifyStatus::begin(None, 4, 5)).encode();
        assert_eq!(VerifyMessage::decode(&running), None);
        let mut long = VerifyStatus::begin(None, 4, 5);
        let range = BlockRange::new(Lba(8), 16).unwrap();
        long.differences = vec![Difference { volume: VolumeId(2), range, kind: DifferenceKind::Content }; 1400];
        long.end(VerifyState::Complete, true, 7);
        assert_eq!(VerifyMessage::decode(&VerifyMessage::Outcome(long).encode()), None);
    }

    #[test]
    fn questions_are_bounded() {
        let VerifyMessage::Question(question) = samples()[0].clone() else { panic!("no question") };
        for (blocks, is_by_parts, is_good) in
            [(2048, true, true), (2049, true, false), (MOST_BLOCKS, false, true), (MOST_BLOCKS + 1, false, false)]
        {
            let range = BlockRange::new(Lba(0), blocks).unwrap();
            let bytes = VerifyMessage::Question(Question { range, is_by_parts, ..question }).encode();
            assert_eq!(VerifyMessage::decode(&bytes).is_some(), is_good, "{blocks} blocks");
        }
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut rng = Rng::new(20_261_128);
        for _ in 0..20_000 {
            let mut bytes = samples()[rng.index(3)].encode().to_vec();
            for _ in 0..rng.below(4) {
                let at = rng.index(bytes.len());
                bytes[at] = rng.next_u64() as u8;
            }
            bytes.truncate(rng.index(bytes.len() + 1));
            if let Some(message) = VerifyMessage::decode(&bytes) {
                assert_eq!(message.encode(), bytes);
            }
        }
    }
}
