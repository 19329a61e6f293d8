//! Messages of copies between the two arrays of a pod: kinds 30 to 35.
//!
//! The first byte is the kind; then comes the number of the exchange. Numbers are little-endian.

use crate::exchange::pieces::{MAX_PIECES, Mark, PIECE_BYTES};
use bytes::{BufMut, Bytes, BytesMut};
use types::{Lba, VolumeId};

const OFFER: u8 = 30;
const WANT: u8 = 31;
const PIECES: u8 = 32;
const KEPT: u8 = 33;
const FORGET: u8 = 34;

/// Bytes before the body: kind and number.
const HEAD: usize = 9;
/// Most pieces in one message.
pub(crate) const PIECES_PER_MESSAGE: usize = 64;
/// Most chunks in one message that are kept no longer.
pub(crate) const MAX_FORGOTTEN: usize = 4096;

/// The pieces of a chunk, which the sender has at this place of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkOffer {
    pub(crate) stage: VolumeId,
    pub(crate) at: Lba,
    /// The place that the pieces come from.
    pub(crate) source: (VolumeId, Lba),
    /// The place that they go to.
    pub(crate) destination: (VolumeId, Lba),
    pub(crate) marks: Vec<Mark>,
}

/// A message of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyMessage {
    /// Asks the receiver to fill the same place of its stage.
    Offer(ChunkOffer),
    /// The sender lacks these pieces: a bit for each one, the lowest first.
    Want(Vec<u8>),
    /// Some of the pieces that the receiver lacks, in order.
    Pieces(Bytes),
    /// The sender has the chunk, or cannot have it.
    Kept(bool),
    /// The sender uses these chunks of a stage no more: their first blocks.
    Forget(VolumeId, Vec<Lba>),
}

impl CopyMessage {
    /// Returns the bytes of the message about an exchange.
    pub(crate) fn encode(&self, number: u64) -> Bytes {
        let mut bytes = BytesMut::with_capacity(HEAD + 64);
        let mut head = |kind: u8| {
            bytes.put_u8(kind);
            bytes.put_u64_le(number);
        };
        match self {
            Self::Offer(offer) => {
                head(OFFER);
                let (source, to) = (offer.source, offer.destination);
                let numbers = [offer.stage.0, offer.at.0, source.0.0, source.1.0, to.0.0, to.1.0];
                numbers.iter().for_each(|number| bytes.put_u64_le(*number));
                bytes.put_slice(offer.marks.as_flattened());
            }
            Self::Want(bits) => {
                head(WANT);
                bytes.put_slice(bits);
            }
            Self::Pieces(data) => {
                head(PIECES);
                bytes.put_slice(data);
            }
            Self::Kept(is_kept) => {
                head(KEPT);
                bytes.put_u8(u8::from(*is_kept));
            }
            Self::Forget(stage, chunks) => {
                head(FORGET);
                bytes.put_u64_le(stage.0);
                chunks.iter().for_each(|at| bytes.put_u64_le(at.0));
            }
        }
        bytes.freeze()
    }

    /// True for the bytes of a message of a copy.
    pub(crate) fn is_kind(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|kind| (OFFER..=FORGET).contains(kind))
    }

    /// Parses a message, with the number of its exchange. `None` if the bytes are none.
    pub(crate) fn decode(bytes: &Bytes) -> Option<(u64, Self)> {
        let (kind, rest) = bytes.split_first()?;
        let (number, body) = rest.split_first_chunk::<8>()?;
        let message = match *kind {
            OFFER => {
                let (numbers, marks) = body.split_first_chunk::<48>()?;
                let (marks, rest) = marks.as_chunks::<32>();
                let [stage, at, source, from, destination, to] = numbers.as_chunks::<8>().0 else { return None };
                let is_valid = rest.is_empty() && !marks.is_empty() && marks.len() <= MAX_PIECES;
                let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
                is_valid.then(|| {
                    Self::Offer(ChunkOffer {
                        stage: VolumeId(number(stage)),
                        at: Lba(number(at)),
                        source: (VolumeId(number(source)), Lba(number(from))),
                        destination: (VolumeId(number(destination)), Lba(number(to))),
                        marks: marks.to_vec(),
                    })
                })?
            }
            WANT if body.len() <= MAX_PIECES / 8 => Self::Want(body.to_vec()),
            PIECES if body.len() <= PIECES_PER_MESSAGE * PIECE_BYTES && body.len().is_multiple_of(PIECE_BYTES) => {
                Self::Pieces(bytes.slice(HEAD..))
            }
            KEPT => match body {
                [is_kept @ 0..=1] => Self::Kept(*is_kept == 1),
                _ => return None,
            },
            FORGET => {
                let (stage, chunks) = body.split_first_chunk::<8>()?;
                let (chunks, rest) = chunks.as_chunks::<8>();
                if !rest.is_empty() || chunks.len() > MAX_FORGOTTEN {
                    return None;
                }
                let chunks = chunks.iter().map(|at| Lba(u64::from_le_bytes(*at))).collect();
                Self::Forget(VolumeId(u64::from_le_bytes(*stage)), chunks)
            }
            _ => return None,
        };
        Some((u64::from_le_bytes(*number), message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::Rng;

    fn samples() -> Vec<CopyMessage> {
        let (stage, source, destination) = (VolumeId(7), (VolumeId(8), Lba(16)), (VolumeId(9), Lba(24)));
        vec![
            CopyMessage::Offer(ChunkOffer { stage, at: Lba(8), source, destination, marks: vec![[3; 32]] }),
            CopyMessage::Want(vec![1]),
            CopyMessage::Pieces(Bytes::new()),
            CopyMessage::Kept(true),
            CopyMessage::Forget(stage, vec![Lba(9)]),
        ]
    }

    #[test]
    fn messages_of_copies_have_the_golden_bytes() {
        let golden = [
            "1e10000000000000000700000000000000080000000000000008000000000000001000000000000000\
             09000000000000001800000000000000\
             0303030303030303030303030303030303030303030303030303030303030303",
            "1f100000000000000001",
            "201000000000000000",
            "21100000000000000001",
            "22100000000000000007000000000000000900000000000000",
        ];
        for (message, golden) in samples().into_iter().zip(golden) {
            let bytes = message.encode(16);
            assert_eq!(types::hex::encode(&bytes), golden, "{message:?}");
            assert!(CopyMessage::is_kind(&bytes));
            assert_eq!(CopyMessage::decode(&bytes), Some((16, message)));
        }
    }

    #[test]
    fn random_messages_of_copies_never_panic() {
        let mut rng = Rng::new(20_261_128);
        for _ in 0..50_000 {
            let samples = samples();
            let mut bytes = samples[rng.index(samples.len())].encode(rng.next_u64()).to_vec();
            for _ in 0..rng.below(4) {
                let at = rng.index(bytes.len());
                bytes[at] = rng.next_u64() as u8;
            }
            bytes.truncate(rng.index(bytes.len() + 1));
            let bytes = Bytes::from(bytes);
            if let Some((number, message)) = CopyMessage::decode(&bytes) {
                assert_eq!(message.encode(number), bytes);
            }
        }
    }
}
