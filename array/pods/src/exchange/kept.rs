//! The chunks that both arrays have in a stage, at the array whose copies it serves.
//!
//! Each chunk gets a place of its own, which is never filled twice: a late message about it can do
//! no harm. A chunk that no copy uses is forgotten after a while, or if there are too many.

use crate::exchange::pieces::{MAX_PIECES, Mark};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use types::{LBAS_PER_BLOCK, Lba};

/// Blocks of a place.
pub(crate) const PLACE_BLOCKS: u64 = MAX_PIECES as u64 * LBAS_PER_BLOCK;

/// A chunk.
#[derive(Debug)]
struct Kept {
    /// Both arrays have this content; `None` if that is not known.
    name: Option<Mark>,
    /// Copies that use it.
    users: usize,
    used_at: Duration,
    /// A record may name it that has no outcome: it stays.
    is_pinned: bool,
}

/// The chunks of a stage.
#[derive(Debug, Default)]
pub(crate) struct KeptChunks {
    next: u64,
    by_name: HashMap<Mark, u64>,
    by_place: BTreeMap<u64, Kept>,
}

impl KeptChunks {
    /// Returns a new place, which the caller uses; `None` if a stage of this many blocks is full.
    pub(crate) fn place(&mut self, blocks: u64, now: Duration) -> Option<Lba> {
        let at = self.next;
        if at + PLACE_BLOCKS > blocks {
            return None;
        }
        self.next += PLACE_BLOCKS;
        self.by_place.insert(at, Kept { name: None, users: 1, used_at: now, is_pinned: false });
        Some(Lba(at))
    }

    /// Returns the place of a chunk that both arrays have, which the caller uses from now on.
    pub(crate) fn find(&mut self, name: &Mark, now: Duration) -> Option<Lba> {
        let at = *self.by_name.get(name)?;
        let kept = self.by_place.get_mut(&at)?;
        (kept.users, kept.used_at) = (kept.users + 1, now);
        Some(Lba(at))
    }

    /// Both arrays have a chunk at a place.
    pub(crate) fn keep(&mut self, at: Lba, name: Mark) {
        if let Some(kept) = self.by_place.get_mut(&at.0) {
            kept.name = Some(name);
            self.by_name.insert(name, at.0);
        }
    }

    /// A caller uses a place no more. It stays for the rest of the period if a record may name it
    /// that has no outcome.
    pub(crate) fn release(&mut self, at: Lba, now: Duration, is_unknown: bool) {
        if let Some(kept) = self.by_place.get_mut(&at.0) {
            (kept.users, kept.used_at) = (kept.users.saturating_sub(1), now);
            kept.is_pinned |= is_unknown;
        }
    }

    /// Removes chunks that no copy has used since `before`, those that are of no use, and the
    /// oldest beyond `most`. Returns at most `limit` places.
    pub(crate) fn forget(&mut self, before: Duration, most: usize, limit: usize) -> Vec<Lba> {
        let mut excess = self.by_place.len().saturating_sub(most);
        let mut idle: Vec<(Duration, u64)> = self
            .by_place
            .iter()
            .filter(|(_, kept)| kept.users == 0 && !kept.is_pinned)
            .map(|(at, kept)| (if kept.name.is_some() { kept.used_at } else { Duration::ZERO }, *at))
            .collect();
        idle.sort_unstable();
        let is_due = |(used_at, _): &&(Duration, u64)| {
            let is_excess = excess > 0;
            excess = excess.saturating_sub(1);
            is_excess || *used_at < before
        };
        let due: Vec<u64> = idle.iter().take_while(is_due).take(limit).map(|(_, at)| *at).collect();
        for at in &due {
            let name = self.by_place.remove(at).and_then(|kept| kept.name);
            if let Some(name) = name.filter(|name| self.by_name.get(name) == Some(at)) {
                self.by_name.remove(&name);
            }
        }
        due.into_iter().map(Lba).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const BLOCKS: u64 = 4 * PLACE_BLOCKS;

    #[test]
    fn chunk_is_found_until_it_is_forgotten() {
        let mut kept = KeptChunks::default();
        let at = kept.place(BLOCKS, SECOND).unwrap();
        assert_eq!(kept.find(&[7; 32], SECOND), None, "the other array lacks it");
        kept.keep(at, [7; 32]);
        assert_eq!(kept.find(&[7; 32], 2 * SECOND), Some(at));
        kept.release(at, 2 * SECOND, false);
        assert_eq!(kept.forget(9 * SECOND, 9, 9), [], "a copy uses it");
        kept.release(at, 3 * SECOND, false);
        assert_eq!(kept.forget(3 * SECOND, 9, 9), []);
        assert_eq!(kept.forget(4 * SECOND, 9, 9), [at]);
        assert_eq!((kept.find(&[7; 32], SECOND), kept.by_place.len()), (None, 0));
        assert_ne!(kept.place(BLOCKS, SECOND), Some(at), "no place is used twice");
    }

    #[test]
    fn oldest_chunks_go_first_and_pinned_ones_stay() {
        let mut kept = KeptChunks::default();
        let places: Vec<Lba> = (0..4).map(|_| kept.place(BLOCKS, SECOND).unwrap()).collect();
        assert_eq!(kept.place(BLOCKS, SECOND), None, "the stage is full");
        for (at, place) in places.iter().enumerate().skip(1) {
            kept.keep(*place, [at as u8; 32]);
            kept.release(*place, SECOND * (10 - at as u32), at == 3);
        }
        kept.release(places[0], 20 * SECOND, false);
        assert_eq!(kept.forget(SECOND, 9, 9), [places[0]], "its content is not known");
        assert_eq!(kept.forget(SECOND, 2, 9), [places[2]], "the one used first, but for a pinned one");
        assert_eq!(kept.forget(99 * SECOND, 0, 9), [places[1]]);
        assert_eq!(kept.by_place.len(), 1);
    }
}
