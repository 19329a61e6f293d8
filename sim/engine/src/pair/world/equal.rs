//! Copies by way of an equal range: of one that was copied before.

use super::{Open, World};
use crate::history::SimViolation;
use crate::pair::bug::PairBug;
use engine::{EqualCopy, LogOp, Op, StreamRecord, Tag};
use std::collections::BTreeMap;
use types::{BlockRange, Lba, VolumeId};

/// Logical blocks of 4 KiB.
const WHOLE_BLOCKS: u64 = 8;

impl World<'_> {
    /// Submits a copy, of a range that was copied before if there is one.
    pub(super) fn submit_copy(&mut self, volumes: &BTreeMap<VolumeId, u64>) -> Result<(), SimViolation> {
        let node = self.sequencer;
        if let Some(copied) = self.last_copy.filter(|_| self.rng.percent(30)) {
            return self.submit_equal_copy(copied, volumes);
        }
        let op = self.copy(volumes);
        if let Op::Copy { source, from, destination, to } = op
            && (from.start().0 | from.blocks() | to.0).is_multiple_of(WHOLE_BLOCKS)
        {
            self.last_copy = Some(EqualCopy { source, from, other: destination, at: to, destination, to });
        }
        self.submit(node, op, Open::Change(None)).map(drop)
    }

    /// Copies a part of an earlier copy, by way of its destination.
    fn submit_equal_copy(&mut self, copied: EqualCopy, volumes: &BTreeMap<VolumeId, u64>) -> Result<(), SimViolation> {
        let (destination, room) = self.any_volume(volumes).unwrap_or_default();
        let skipped = self.rng.below(copied.from.blocks() / WHOLE_BLOCKS) * WHOLE_BLOCKS;
        let most = (copied.from.blocks() - skipped).min(room) / WHOLE_BLOCKS;
        let blocks = if self.rng.percent(50) { most } else { self.rng.between(1, most) } * WHOLE_BLOCKS;
        let to = Lba(self.rng.below((room - blocks) / WHOLE_BLOCKS + 1) * WHOLE_BLOCKS);
        let from = BlockRange::new(Lba(copied.from.start().0 + skipped), blocks).unwrap_or_default();
        let copy = EqualCopy { from, at: Lba(copied.at.0 + skipped), destination, to, ..copied };
        let op = match (self.bug, copied_range(&copy)) {
            // As if the ranges were not compared.
            (Some(PairBug::EqualNotCompared), from) => Op::Copy { source: copy.other, from, destination, to },
            _ => Op::CopyIfEqual(Box::new(copy)),
        };
        let node = self.sequencer;
        // It may be ordered at once.
        self.equal.insert((node, self.next_tag + 1), copy);
        self.submit(node, op, Open::Change(None)).map(drop)
    }

    /// Checks the record of such a copy: both ranges are equal when it is ordered.
    pub(super) fn check_equal_copy(
        &mut self,
        node: usize,
        tag: Tag,
        record: &StreamRecord,
        skipped: &[LogOp],
    ) -> Result<(), SimViolation> {
        let Some(copy) = self.equal.remove(&(node, tag)) else { return Ok(()) };
        let EqualCopy { other, destination, to, .. } = copy;
        let ops = if skipped.is_empty() { &record.ops } else { skipped };
        let is_expected = matches!(ops, [LogOp::Copy { source, from, destination: held, to: at }]
            if (*source, *from, *held, *at) == (other, copied_range(&copy), destination, to));
        let before = self.nodes[node].expected();
        let source = before.range(copy.source, copy.from);
        if !is_expected || source.is_none() || source != before.range(other, copied_range(&copy)) {
            return Err(SimViolation(format!("{copy:?} became the record {record:?}, and its ranges differ")));
        }
        self.totals.equal_copies += 1;
        Ok(())
    }
}

fn copied_range(copy: &EqualCopy) -> BlockRange {
    BlockRange::new(copy.at, copy.from.blocks()).unwrap_or_default()
}
