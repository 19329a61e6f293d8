//! Chunks of the other array that wait for pieces.

use crate::exchange::letters::ChunkOffer;
use crate::exchange::pieces::PIECE_BYTES;
use crate::handle::LinkSession;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;

/// Most chunks that wait for pieces.
const MAX_FILLINGS: usize = 64;

/// A chunk that waits for pieces.
pub(super) struct Filling {
    pub(super) offer: ChunkOffer,
    /// The pieces that this array lacks.
    pub(super) missing: Vec<usize>,
    /// Those of them that have come, one after the other.
    pub(super) data: BytesMut,
}

impl Filling {
    /// Creates a chunk whose pieces have not come.
    pub(super) fn new(offer: ChunkOffer, missing: Vec<usize>) -> Self {
        Self { offer, missing, data: BytesMut::new() }
    }
}

/// The chunks that wait for pieces, by session and number.
#[derive(Default)]
pub(super) struct Fillings(BTreeMap<(LinkSession, u64), Filling>);

impl Fillings {
    /// A session has ended.
    pub(super) fn end(&mut self, link: LinkSession) {
        self.0.retain(|(session, _), _| *session != link);
    }

    /// Adds a chunk. The oldest one goes if there are too many: the other array has given it up.
    pub(super) fn add(&mut self, link: LinkSession, number: u64, filling: Filling) {
        self.0.insert((link, number), filling);
        if self.0.len() > MAX_FILLINGS {
            self.0.pop_first();
        }
    }

    /// Takes pieces of a chunk. Returns it when all have come; `None` too if it does not wait.
    pub(super) fn take(&mut self, link: LinkSession, number: u64, data: &Bytes) -> Option<Filling> {
        let filling = self.0.get_mut(&(link, number))?;
        filling.data.extend_from_slice(data);
        let is_complete = filling.data.len() >= filling.missing.len() * PIECE_BYTES;
        if is_complete { self.0.remove(&(link, number)) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Lba, VolumeId};

    #[test]
    fn pieces_are_gathered_in_their_session() {
        let offer = ChunkOffer {
            stage: VolumeId(1),
            at: Lba(0),
            source: (VolumeId(2), Lba(0)),
            destination: (VolumeId(3), Lba(0)),
            marks: vec![[7; 32]; 3],
        };
        let filling = || Filling::new(offer.clone(), vec![0, 2]);
        let (mut fillings, piece) = (Fillings::default(), Bytes::from(vec![9; PIECE_BYTES]));
        fillings.add([1; 16], 5, filling());
        assert!(fillings.take([2; 16], 5, &piece).is_none(), "of another session");
        assert!(fillings.take([1; 16], 5, &piece).is_none(), "one is missing");
        assert!(fillings.take([1; 16], 5, &piece).is_some());
        assert!(fillings.take([1; 16], 5, &piece).is_none());
        for number in 0..=MAX_FILLINGS as u64 {
            fillings.add([1; 16], number, filling());
        }
        let both = Bytes::from(vec![9; 2 * PIECE_BYTES]);
        assert!(fillings.take([1; 16], 0, &both).is_none(), "the oldest one is gone");
        assert!(fillings.take([1; 16], 1, &both).is_some());
        fillings.end([1; 16]);
        assert!(fillings.take([1; 16], 2, &both).is_none());
    }
}
