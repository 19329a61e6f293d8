//! The array that a chunk is offered to: fills its stage.

use super::Exchange;
use crate::exchange::fillings::Filling;
use crate::exchange::letters::{ChunkOffer, CopyMessage};
use crate::exchange::pieces::{self, HOLE, MAX_PIECES, Mark, PIECE_BYTES, ZEROS, range_of};
use crate::handle::{LinkSession, PodHandle};
use bytes::Bytes;
use engine::{Op, OpError, call};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use types::{LBAS_PER_BLOCK, Lba};

/// Returns the runs of neighbours in an ascending list: the first one and the length of each.
fn runs(list: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    let mut runs = Vec::<(usize, usize)>::new();
    for at in list {
        match runs.last_mut().filter(|(first, length)| first + length == at) {
            Some((_, length)) => *length += 1,
            None => runs.push((at, 1)),
        }
    }
    runs
}

/// Returns the places of the pieces that have one of two marks, where the stage has the other.
fn differing<'a>(wanted: &'a [Mark], held: &'a [Mark], mark: Mark) -> impl Iterator<Item = usize> + 'a {
    (0..wanted.len()).filter(move |at| wanted[*at] == mark && held[*at] != mark)
}

impl Exchange {
    /// The other array offers a chunk.
    pub(super) fn take_offer(
        self: &Arc<Self>,
        handle: &Arc<PodHandle>,
        link: LinkSession,
        number: u64,
        offer: ChunkOffer,
    ) {
        let (exchange, handle) = (self.clone(), handle.clone());
        self.fills.run(move || {
            let answer = match exchange.fill(&handle, &offer) {
                Ok(missing) if missing.is_empty() => CopyMessage::Kept(true),
                Ok(missing) => {
                    let mut bits = vec![0_u8; MAX_PIECES / 8];
                    missing.iter().for_each(|at| bits[at / 8] |= 1 << (at % 8));
                    exchange.filling.lock().add(link, number, Filling::new(offer, missing));
                    CopyMessage::Want(bits)
                }
                Err(error) => {
                    tracing::debug!(stream = %handle.stream, "a chunk of a copy is not kept: {error}");
                    CopyMessage::Kept(false)
                }
            };
            exchange.send(&handle, link, number, &answer);
        });
    }

    /// Pieces have come.
    pub(super) fn take_pieces(self: &Arc<Self>, handle: &Arc<PodHandle>, link: LinkSession, number: u64, data: &Bytes) {
        let Some(filling) = self.filling.lock().take(link, number, data) else { return };
        let (exchange, handle) = (self.clone(), handle.clone());
        self.fills.run(move || {
            let is_kept = exchange.finish(&filling);
            let problem = is_kept.as_ref().err();
            problem.iter().for_each(|error| tracing::debug!("pieces of a copy are not kept: {error}"));
            exchange.send(&handle, link, number, &CopyMessage::Kept(is_kept.is_ok()));
        });
    }

    /// Fills a place of the stage with what this array has. Returns the pieces that it lacks.
    fn fill(&self, handle: &PodHandle, offer: &ChunkOffer) -> Result<Vec<usize>, OpError> {
        let refused = OpError::Unavailable("the pod is not served at both arrays in this period");
        let period = self.period(handle).filter(|period| offer.stage.is_stage_of(*period)).ok_or(refused)?;
        {
            // One at a time makes the stage.
            let _stages = self.stages.lock();
            self.prepare(handle.stream, offer.stage, period)?;
        }
        let (engine, name) = (&self.environment.engine, pieces::name_of(&offer.marks));
        let (stage, at, count) = (offer.stage, offer.at, offer.marks.len());
        let known = self.places.lock().find(&name);
        self.places.lock().note(name, offer.destination);
        for (source, from) in known.into_iter().chain([offer.source]) {
            // A plain volume of this id is another one here.
            let is_shared = |stream| (self.find)(stream).is_some_and(|(other, _)| other.array == handle.array);
            if !source.is_ordered() || !source.stream().is_some_and(is_shared) {
                continue;
            }
            let copy = Op::Copy { source, from: range_of(from, count)?, destination: stage, to: at };
            if call(&**engine, copy).is_ok() {
                break;
            }
        }
        let held = pieces::read(&**engine, stage, at, count)?;
        let range = |(first, length): (usize, usize)| range_of(Lba(at.0 + first as u64 * LBAS_PER_BLOCK), length);
        for run in runs(differing(&offer.marks, &held.marks, HOLE)) {
            call(&**engine, Op::Unmap { volume: stage, ranges: vec![range(run)?] })?;
        }
        for run in runs(differing(&offer.marks, &held.marks, ZEROS)) {
            call(&**engine, Op::Zero { volume: stage, range: range(run)? })?;
        }
        let is_data = |mark: &Mark| *mark != HOLE && *mark != ZEROS;
        let pairs = offer.marks.iter().zip(&held.marks).enumerate();
        Ok(pairs.filter(|(_, (wanted, held))| wanted != held && is_data(wanted)).map(|(at, _)| at).collect())
    }

    /// Writes the pieces that have come.
    fn finish(&self, filling: &Filling) -> Result<(), OpError> {
        let Filling { offer, missing, data } = filling;
        let is_right = data.len() == missing.len() * PIECE_BYTES
            && data.chunks_exact(PIECE_BYTES).zip(missing).all(|(piece, at)| {
                let mark: Mark = Sha256::digest(piece).into();
                mark == offer.marks[*at]
            });
        if !is_right {
            return Err(OpError::Malformed("pieces of another content"));
        }
        let (data, mut from) = (Bytes::copy_from_slice(data), 0);
        for (first, length) in runs(missing.iter().copied()) {
            let lba = Lba(offer.at.0 + first as u64 * LBAS_PER_BLOCK);
            let end = from + length * PIECE_BYTES;
            let write = Op::Write { volume: offer.stage, lba, data: data.slice(from..end), fua: false };
            call(&*self.environment.engine, write)?;
            from = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_neighbours() {
        assert_eq!(runs([0, 1, 4, 6, 7, 8].into_iter()), [(0, 2), (4, 1), (6, 3)]);
        assert_eq!(runs(std::iter::empty()), []);
    }
}
