//! The expected content of every block, derived from the journal.
//! Completed operations determine the stamp of each block. Open operations may or may not have been
//! applied.

use super::journal::{Header, JournalError, Kind, Operation, Outcome, Record};
use super::stamp::{BLOCK, Stamp};
use std::collections::BTreeMap;

/// Maximum blocks of a region: 4 GiB, with a model of about 200 MB.
pub(crate) const MAX_BLOCKS: u64 = 8 << 20;

/// The expected content of the region.
#[derive(Debug)]
pub(crate) struct Model {
    header: Header,
    stamps: Vec<Stamp>,
    open: BTreeMap<u64, Operation>,
    last: u64,
}

/// State of the blocks of an open operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All blocks are as after the operation.
    Applied,
    /// All blocks are as before the operation.
    NotApplied,
    /// Each block is as before or after, but not all are the same.
    Torn,
    /// A block is neither as before nor as after.
    Foreign {
        /// LBA of that block.
        lba: u64,
    },
}

impl Model {
    /// Creates a model of a region with unknown content.
    pub(crate) fn new(header: Header) -> Self {
        let blocks = usize::try_from(header.blocks.min(MAX_BLOCKS)).unwrap_or_default();
        Self { header, stamps: vec![Stamp::Unknown; blocks], open: BTreeMap::new(), last: 0 }
    }

    /// Creates the model that results from the records of a journal.
    pub(crate) fn replay(header: Header, records: &[Record]) -> Result<Self, JournalError> {
        let mut model = Self::new(header);
        for (index, record) in records.iter().enumerate() {
            let accepted = match record {
                Record::Sent(operation) => model.start(*operation),
                Record::Answered(sequence, outcome) => model.finish(*sequence, *outcome),
            };
            accepted.ok_or(JournalError::Order(index))?;
        }
        Ok(model)
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the highest sequence used so far.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.last
    }

    /// Returns the operations without an answer, in the order of sending.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Operation> {
        self.open.values()
    }

    /// Returns true if no open operation reads or changes any of these blocks.
    pub(crate) fn is_idle(&self, lba: u64, blocks: u32) -> bool {
        let end = lba + u64::from(blocks);
        !self.open.values().any(|operation| operation.touches(lba, end))
    }

    /// Returns the stamps of a range of blocks; `None` if it is not within the region.
    pub(crate) fn stamps(&self, lba: u64, blocks: u32) -> Option<&[Stamp]> {
        let from = usize::try_from(lba.checked_sub(self.header.first)?).ok()?;
        self.stamps.get(from..from.checked_add(blocks as usize)?)
    }

    /// Returns the stamps of the blocks of `operation` after it is applied.
    pub(crate) fn effect(&self, operation: &Operation) -> Option<Vec<Stamp>> {
        let Operation { sequence, kind, lba, blocks } = *operation;
        self.stamps(lba, blocks)?;
        Some(match kind {
            Kind::Write | Kind::CompareAndWrite => {
                (lba..operation.end()).map(|lba| Stamp::Written { sequence, lba }).collect()
            }
            Kind::WriteSame => vec![Stamp::Written { sequence, lba }; blocks as usize],
            Kind::Zero | Kind::ZeroUnmap | Kind::Unmap => vec![Stamp::Zero; blocks as usize],
            Kind::Copy { source } => self.stamps(source, blocks)?.to_vec(),
        })
    }

    /// Adds an operation that is about to be sent.
    /// Returns `None` if it is invalid: a sequence used before, blocks outside the region, or
    /// blocks that an open operation touches.
    #[must_use]
    pub(crate) fn start(&mut self, operation: Operation) -> Option<()> {
        self.effect(&operation)?;
        let quiet = self.is_idle(operation.lba, operation.blocks)
            && operation.source().is_none_or(|source| self.is_idle(source, operation.blocks));
        if operation.sequence <= self.last || operation.blocks == 0 || !quiet {
            return None;
        }
        self.last = operation.sequence;
        self.open.insert(operation.sequence, operation);
        Some(())
    }

    /// Records the result of an operation; returns `None` if no such operation is open.
    #[must_use]
    pub(crate) fn finish(&mut self, sequence: u64, outcome: Outcome) -> Option<()> {
        let operation = self.open.remove(&sequence)?;
        let after = match outcome {
            Outcome::Applied => self.effect(&operation)?,
            Outcome::NotApplied => return Some(()),
            Outcome::Unknown => vec![Stamp::Unknown; operation.blocks as usize],
        };
        let from = usize::try_from(operation.lba - self.header.first).ok()?;
        self.stamps[from..from + after.len()].copy_from_slice(&after);
        Some(())
    }

    /// Compares data read from idle blocks with the expected stamps and returns the first LBA that
    /// differs.
    pub(crate) fn first_difference(&self, lba: u64, data: &[u8]) -> Option<u64> {
        let blocks = u32::try_from(data.len() / BLOCK).ok()?;
        let expected = self.stamps(lba, blocks)?;
        let mut pairs = expected.iter().zip(data.chunks_exact(BLOCK));
        pairs.position(|(stamp, block)| !stamp.matches(self.header.seed, block)).map(|index| lba + index as u64)
    }

    /// Determines from the blocks of an open operation whether it was applied.
    pub(crate) fn classify(&self, operation: &Operation, data: &[u8]) -> Option<Verdict> {
        let before = self.stamps(operation.lba, operation.blocks)?;
        let after = self.effect(operation)?;
        let (mut applied, mut untouched) = (true, true);
        for (index, block) in data.chunks_exact(BLOCK).enumerate() {
            let is_after = after.get(index)?.matches(self.header.seed, block);
            let is_before = before.get(index)?.matches(self.header.seed, block);
            if !is_after && !is_before {
                return Some(Verdict::Foreign { lba: operation.lba + index as u64 });
            }
            applied &= is_after;
            untouched &= is_before;
        }
        Some(match (applied, untouched) {
            (true, _) => Verdict::Applied,
            (false, true) => Verdict::NotApplied,
            (false, false) => Verdict::Torn,
        })
    }
}

#[cfg(test)]
mod tests;
