//! Sends one command per chunk of a region and checks each result.

use super::outcome::Tally;
use super::pieces::Pieces;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::pump::{Route, Work};
use bytes::Bytes;
use initiator::{Completion, Request};

/// The work of most verbs: `make` builds the command of a chunk, `check` tests the data it
/// returned.
pub(crate) struct Sweep<Make, Check> {
    pieces: Pieces,
    block_bytes: u64,
    open: Vec<(u64, u32)>,
    what: &'static str,
    make: Make,
    check: Check,
    progress: Progress,
    /// If true, a full target ends the sweep without an error.
    pub(super) until_full: bool,
    /// First block that the target had no space for.
    pub(super) full_at: Option<u64>,
    pub(super) tally: Tally,
}

impl<Make, Check> Sweep<Make, Check>
where
    Make: FnMut(u64, u32) -> Request,
    Check: FnMut(u64, Bytes) -> Result<(), Failure>,
{
    /// Creates a sweep over `pieces` with `depth` slots.
    pub(crate) fn new(
        what: &'static str,
        (pieces, block_bytes): (Pieces, u32),
        depth: u16,
        progress: Progress,
        make: Make,
        check: Check,
    ) -> Self {
        let open = vec![(0, 0); usize::from(depth)];
        let (block_bytes, tally) = (u64::from(block_bytes), Tally::begin());
        Self { pieces, block_bytes, open, what, make, check, progress, until_full: false, full_at: None, tally }
    }
}

impl<Make, Check> Work for Sweep<Make, Check>
where
    Make: FnMut(u64, u32) -> Request,
    Check: FnMut(u64, Bytes) -> Result<(), Failure>,
{
    fn next(&mut self, slot: usize) -> Option<(Route, Request)> {
        if self.full_at.is_some() {
            return None;
        }
        let (lba, blocks) = self.pieces.next()?;
        self.open[slot] = (lba, blocks);
        Some((0, (self.make)(lba, blocks)))
    }

    fn done(&mut self, slot: usize, completion: Completion) -> Result<(), Failure> {
        let (lba, blocks) = self.open[slot];
        let refused =
            |refusal| Failure::Refused { what: format!("{} of {blocks} blocks at LBA {lba}", self.what), refusal };
        let data = match completion.into_result() {
            Err(refusal) if self.until_full && refusal.is_full() => {
                // Commands sent later may have succeeded; the lowest LBA that failed counts.
                self.full_at = Some(self.full_at.map_or(lba, |first| first.min(lba)));
                return Ok(());
            }
            answer => answer.map_err(refused)?,
        };
        let bytes = u64::from(blocks) * self.block_bytes;
        self.tally.add(bytes);
        self.progress.add(bytes);
        (self.check)(lba, data)
    }
}
