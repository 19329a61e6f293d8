//! Chooses the next operation: all kinds and sizes, aligned and unaligned.
//! Operations never overlap open ones, so that the content of every block stays known.

use super::journal::{Kind, Operation};
use super::model::Model;
use super::stamp::Stamp;
use testing::SplitMix64;

/// Blocks in 256 KiB: the largest write.
const MAX_WRITE: u32 = 512;
/// Blocks in 4 MiB: the largest zero, unmap and copy.
const MAX_OFFLOAD: u32 = 8192;
/// Blocks in 1 MiB: the usual alignment of offloads by file systems.
const ALIGNED_OFFLOAD: u32 = 2048;
/// Attempts to find idle blocks before the slot waits.
const ATTEMPTS: u32 = 16;

/// Optional commands of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// EXTENDED COPY.
    pub(crate) copy: bool,
    /// UNMAP, with zeros read afterwards (LBPRZ).
    pub(crate) unmap: bool,
    /// WRITE SAME(16).
    pub(crate) write_same: bool,
    /// The UNMAP bit of WRITE SAME(16).
    pub(crate) write_same_unmap: bool,
    /// Maximum blocks of a COMPARE AND WRITE; 0 if not supported.
    pub(crate) compare_and_write: u32,
}

/// The next step of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Change blocks.
    Change(Operation),
    /// Read blocks that no open operation touches, and check them.
    Read {
        /// First block.
        lba: u64,
        /// Number of blocks.
        blocks: u32,
    },
    /// COMPARE AND WRITE with wrong data: it must miscompare and change nothing.
    Miscompare {
        /// The block to compare.
        lba: u64,
    },
    /// SYNCHRONIZE CACHE.
    Flush,
}

/// Makes the random choices of the load.
#[derive(Debug)]
pub(crate) struct Planner {
    random: SplitMix64,
    abilities: Abilities,
}

impl Planner {
    /// Creates a planner that uses only commands in `abilities`.
    pub(crate) fn new(seed: u64, abilities: Abilities) -> Self {
        Self { random: SplitMix64::new(seed), abilities }
    }

    /// Stops using a command that the target reports but does not implement.
    pub(crate) fn disable(&mut self, kind: Kind) {
        let abilities = &mut self.abilities;
        match kind {
            Kind::Write => {}
            Kind::WriteSame | Kind::Zero => abilities.write_same = false,
            Kind::ZeroUnmap => abilities.write_same_unmap = false,
            Kind::Unmap => abilities.unmap = false,
            Kind::Copy { .. } => abilities.copy = false,
            Kind::CompareAndWrite => abilities.compare_and_write = 0,
        }
    }

    /// Returns the next step; `None` if no idle blocks were found, so that the slot waits.
    pub(crate) fn next(&mut self, model: &Model) -> Option<Step> {
        (0..ATTEMPTS).find_map(|_| self.draw(model))
    }

    fn draw(&mut self, model: &Model) -> Option<Step> {
        let roll = self.random.below(100);
        let abilities = self.abilities;
        match roll {
            0..40 => self.change(model, Kind::Write, MAX_WRITE),
            40..46 if abilities.write_same => self.change(model, Kind::WriteSame, MAX_OFFLOAD),
            46..52 if abilities.write_same => self.change(model, Kind::Zero, MAX_OFFLOAD),
            52..56 if abilities.write_same_unmap => self.change(model, Kind::ZeroUnmap, MAX_OFFLOAD),
            56..62 if abilities.unmap => self.change(model, Kind::Unmap, MAX_OFFLOAD),
            62..74 if abilities.copy => self.copy(model),
            74..84 if abilities.compare_and_write > 0 => {
                self.change(model, Kind::CompareAndWrite, abilities.compare_and_write)
            }
            84..86 if abilities.compare_and_write > 0 => self.miscompare(model),
            86..98 => {
                let (lba, blocks) = self.place(model, MAX_WRITE)?;
                model.is_idle(lba, blocks).then_some(Step::Read { lba, blocks })
            }
            98.. => Some(Step::Flush),
            _ => None,
        }
    }

    fn change(&mut self, model: &Model, kind: Kind, limit: u32) -> Option<Step> {
        let (mut lba, mut blocks) = self.place(model, limit)?;
        if kind == Kind::Unmap {
            // A target may ignore parts of its own allocation unit; 4 KiB is supported by all.
            blocks = blocks.next_multiple_of(8);
            lba &= !7;
            if lba < model.header().first || lba + u64::from(blocks) > model.header().first + model.header().blocks {
                return None;
            }
        }
        if kind == Kind::CompareAndWrite && model.stamps(lba, blocks)?.contains(&Stamp::Unknown) {
            return None;
        }
        model.is_idle(lba, blocks).then(|| Step::Change(self.operation(model, kind, lba, blocks)))
    }

    fn copy(&mut self, model: &Model) -> Option<Step> {
        let (lba, blocks) = self.place(model, MAX_OFFLOAD)?;
        let (mut source, _) = self.place(model, blocks)?;
        if self.random.percent(75) {
            // Most copies are congruent modulo 4 KiB, as from real hosts; half of these modulo 1
            // MiB.
            let unit = if self.random.percent(50) { u64::from(ALIGNED_OFFLOAD) } else { 8 };
            source = (source & !(unit - 1)) | (lba & (unit - 1));
        }
        model.stamps(source, blocks)?;
        let apart = source + u64::from(blocks) <= lba || lba + u64::from(blocks) <= source;
        let free = apart && model.is_idle(lba, blocks) && model.is_idle(source, blocks);
        free.then(|| Step::Change(self.operation(model, Kind::Copy { source }, lba, blocks)))
    }

    fn miscompare(&mut self, model: &Model) -> Option<Step> {
        let (lba, _) = self.place(model, 1)?;
        let known = *model.stamps(lba, 1)?.first()? != Stamp::Unknown;
        (known && model.is_idle(lba, 1)).then_some(Step::Miscompare { lba })
    }

    fn operation(&self, model: &Model, kind: Kind, lba: u64, blocks: u32) -> Operation {
        Operation { sequence: model.last_sequence() + 1, kind, lba, blocks }
    }

    /// Returns a random range of up to `limit` blocks.
    /// Each power of two is equally likely as a length. Half of the ranges are aligned: long ones
    /// to 1 MiB, others to 4 KiB.
    fn place(&mut self, model: &Model, limit: u32) -> Option<(u64, u32)> {
        let header = model.header();
        let limit = u64::from(limit).min(header.blocks);
        let magnitude = self.random.below(u64::from(limit.ilog2()) + 1);
        let mut blocks = (1 << magnitude) + self.random.below(1 << magnitude);
        blocks = blocks.min(limit).max(1);
        let mut unit = 1;
        if self.random.percent(50) {
            unit = if blocks >= u64::from(ALIGNED_OFFLOAD) / 2 { u64::from(ALIGNED_OFFLOAD) } else { 8 };
            let aligned = blocks.next_multiple_of(unit);
            blocks = if aligned <= limit { aligned } else { blocks };
        }
        let lba = header.first + self.random.below(header.blocks - blocks + 1);
        let lba = if lba / unit * unit >= header.first { lba / unit * unit } else { lba };
        Some((lba, u32::try_from(blocks).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::journal::{Header, Outcome};
    use super::*;
    use std::collections::HashSet;

    const ALL: Abilities =
        Abilities { copy: true, unmap: true, write_same: true, write_same_unmap: true, compare_and_write: 255 };

    /// Plans `steps` steps with up to 8 open operations, completing the oldest first.
    fn plan(abilities: Abilities, steps: usize) -> Vec<Step> {
        let mut model = Model::new(Header { seed: 1, first: 5, blocks: 40_000 });
        model.start(Operation { sequence: 1, kind: Kind::Zero, lba: 5, blocks: 40_000 }).unwrap();
        model.finish(1, Outcome::Applied).unwrap();
        let mut planner = Planner::new(42, abilities);
        let mut planned = Vec::new();
        while planned.len() < steps {
            let step = planner.next(&model);
            if let Some(Step::Change(operation)) = step {
                model.start(operation).expect("a planned operation can start");
            }
            planned.extend(step);
            let open: Vec<u64> = model.open().map(|operation| operation.sequence).collect();
            if step.is_none() || open.len() == 8 {
                model.finish(open[0], Outcome::Applied).unwrap();
            }
        }
        planned
    }

    #[test]
    fn planner_covers_all_kinds_without_conflicts() {
        let steps = plan(ALL, 5000);
        let mut kinds = HashSet::new();
        let (mut sub_block, mut odd, mut leaf, mut misaligned_copy) = (false, false, false, false);
        for step in &steps {
            kinds.insert(std::mem::discriminant(step));
            let Step::Change(operation) = step else { continue };
            sub_block |= operation.blocks < 8;
            odd |= operation.lba % 8 != 0 && operation.blocks > 8;
            leaf |= operation.lba % 2048 == 0 && operation.blocks % 2048 == 0;
            misaligned_copy |= !operation.is_atomic();
        }
        assert_eq!(kinds.len(), 4);
        assert!(sub_block && odd && leaf && misaligned_copy);
        let changes: HashSet<_> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Change(operation) => Some(std::mem::discriminant(&operation.kind)),
                _ => None,
            })
            .collect();
        assert_eq!(changes.len(), 7);
    }

    #[test]
    fn planner_uses_only_supported_commands() {
        let none =
            Abilities { copy: false, unmap: false, write_same: false, write_same_unmap: false, compare_and_write: 0 };
        for step in plan(none, 500) {
            match step {
                Step::Change(operation) => assert_eq!(operation.kind, Kind::Write),
                Step::Miscompare { .. } => panic!("no COMPARE AND WRITE was to be sent"),
                Step::Read { .. } | Step::Flush => {}
            }
        }
    }
}
