//! The oracle: what was asked, what was answered, and what the array may hold because of it.
//!
//! Changes are answered in the order in which they were logged, so one state at a time is enough: the one after all
//! changes that were answered. A read is as old as its submission or as new as its answer, and all of it is of one
//! instant. See [`crate::recovered`] for what may be there after a crash.

mod recovery;

pub use recovery::RecoveryOutcome;

use crate::content::{Content, Contents};
use crate::state::{OracleState, check_answer, span, summary};
use engine::{Change, Op, OpError, Reply, Tag};
use std::collections::VecDeque;
use thiserror::Error;
use types::{BlockRange, LBAS_PER_BLOCK, VolumeId};

/// The array broke a promise.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SimViolation(pub String);

impl SimViolation {
    /// A violation in so many words.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

/// An operation that was submitted and has no answer.
#[derive(Clone, Debug)]
pub struct PendingOp {
    /// The submitter's name for it.
    pub tag: Tag,
    /// What was asked.
    pub op: Op,
    /// How many changes were answered before it was submitted.
    since: u64,
    /// The answer was that the engine has stopped: done or not, who knows.
    is_stopped: bool,
}

/// What may be answered besides what is right.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToleratedErrors {
    /// The pool may be full.
    pub full: bool,
    /// The drive may fail.
    pub drive_failing: bool,
}

/// The oracle of one run.
#[derive(Clone, Default)]
pub struct History {
    /// The contents of all blocks, by name.
    pub contents: Contents,
    /// The state after all answered changes.
    pub(crate) base: OracleState,
    /// How many they are.
    changes: u64,
    /// Earlier states, by number of changes, that a read which was submitted then may still be answered from.
    past: VecDeque<(u64, OracleState)>,
    /// Operations without an answer, in the order of submission.
    pub(crate) pending: Vec<PendingOp>,
    latest: OracleState,
    /// What may be answered besides what is right.
    pub tolerated: ToleratedErrors,
    /// Answers that were judged.
    pub judged: u64,
    /// Volumes have shared their map. Unmapping a part of what is shared needs map pages of its own, and a pool can be full of them.
    has_shared: bool,
}

impl History {
    /// The state if all that was submitted is done. Not exact while operations fail; it is for choosing what to submit.
    pub fn latest(&self) -> &OracleState {
        &self.latest
    }

    /// Operations without an answer.
    pub fn unanswered(&self) -> usize {
        self.pending.iter().filter(|entry| !entry.is_stopped).count()
    }

    /// Notes that an operation is being submitted.
    pub fn submit(&mut self, tag: Tag, op: &Op) {
        // An error here is an expected answer of the array, and no change.
        let _ = self.latest.apply(&mut self.contents, op, None);
        self.has_shared |= match op {
            Op::Copy { .. } => true,
            Op::Change(changes) => changes.iter().any(|change| matches!(change, Change::CopyVolume { .. })),
            _ => false,
        };
        self.pending.push(PendingOp { tag, op: op.clone(), since: self.changes, is_stopped: false });
    }

    /// Notes an answer, and judges it.
    pub fn complete(&mut self, tag: Tag, answer: &Result<Reply, OpError>) -> Result<(), SimViolation> {
        let Some(index) = self.pending.iter().position(|entry| entry.tag == tag && !entry.is_stopped) else {
            return Err(SimViolation::new(format!("operation {tag} is answered twice, or was never submitted")));
        };
        if matches!(answer, Err(OpError::Stopped(_))) {
            self.pending[index].is_stopped = true;
            let why = format!("operation {tag}: the engine stopped on a good drive: {}", summary(answer));
            return if self.tolerated.drive_failing { Ok(()) } else { Err(SimViolation(why)) };
        }
        let entry = self.pending.remove(index);
        self.judged += 1;
        let verdict = if is_read_only(&entry.op) {
            self.check_read(&entry, answer)
        } else {
            self.check_change(&entry, index, answer)
        };
        verdict.map_err(|what| SimViolation(format!("operation {tag} ({}): {what}", describe(&entry.op))))?;
        let oldest = self.pending.iter().map(|entry| entry.since).min().unwrap_or(u64::MAX);
        self.past.retain(|(changes, _)| *changes >= oldest);
        if self.pending.is_empty() {
            self.latest = self.base.clone();
        }
        Ok(())
    }

    fn check_read(&mut self, entry: &PendingOp, answer: &Result<Reply, OpError>) -> Result<(), String> {
        if self.is_tolerated(entry, answer) {
            return Ok(());
        }
        if let Op::Status { volume, .. } = &entry.op
            && self
                .pending
                .iter()
                .any(|other| footprint(&other.op).writes.iter().any(|(touched, ..)| touched == volume))
        {
            // It is told block by block while others change: there is no one instant to hold it against.
            return Ok(());
        }
        let now = self.base.apply(&mut self.contents, &entry.op, Some(answer));
        let verdict = check_answer(&mut self.contents, &now, answer);
        if let (Ok(()), Op::Read { volume, range }, Ok(Reply::Data(data))) = (&verdict, &entry.op, answer) {
            narrow(&mut self.base, &mut self.contents, *volume, *range, data);
        }
        if verdict.is_ok() {
            return Ok(());
        }
        for (_, state) in self.past.iter_mut().filter(|(changes, _)| *changes >= entry.since) {
            let then = state.apply(&mut self.contents, &entry.op, Some(answer));
            if check_answer(&mut self.contents, &then, answer).is_ok() {
                return Ok(());
            }
        }
        verdict
    }

    /// `index` operations without an answer were submitted before this one.
    fn check_change(&mut self, entry: &PendingOp, index: usize, answer: &Result<Reply, OpError>) -> Result<(), String> {
        if self.is_tolerated(entry, answer) {
            apply_in_part(&mut self.base, &mut self.contents, &entry.op);
            return Ok(());
        }
        let overtaken =
            self.pending[..index].iter().find(|other| !other.is_stopped && must_keep_order(&other.op, &entry.op));
        if let (Some(other), Ok(_)) = (overtaken, answer) {
            return Err(format!("overtook operation {} ({})", other.tag, describe(&other.op)));
        }
        let mut next = self.base.clone();
        let expected = next.apply(&mut self.contents, &entry.op, Some(answer));
        check_answer(&mut self.contents, &expected, answer)?;
        self.copy_from_pieces(entry, &mut next);
        let before = std::mem::replace(&mut self.base, next);
        if self.pending.iter().any(|entry| is_read_only(&entry.op)) {
            self.past.push_back((self.changes, before));
        }
        self.changes += 1;
        Ok(())
    }

    /// A copy in pieces is logged piece by piece: another copy, or a snapshot, may have taken its source from between two of them.
    fn copy_from_pieces(&mut self, entry: &PendingOp, next: &mut OracleState) {
        let Footprint { reads, writes } = footprint(&entry.op);
        let is_copying = match &entry.op {
            Op::Copy { .. } => true,
            Op::Change(changes) => changes.iter().any(|change| matches!(change, Change::CopyVolume { .. })),
            _ => false,
        };
        let under_way = |other: &&PendingOp| is_in_pieces(&other.op) && meet(&reads, &footprint(&other.op).writes);
        let pieces: Vec<Op> = self.pending.iter().filter(under_way).map(|other| other.op.clone()).collect();
        if !is_copying || pieces.is_empty() {
            return;
        }
        let mut between = self.base.clone();
        pieces.iter().for_each(|op| apply_in_part(&mut between, &mut self.contents, op));
        if between.apply(&mut self.contents, &entry.op, None).is_err() {
            return;
        }
        for (volume, from, to) in writes {
            if let (Some(copied), Some(target)) = (between.volumes.get(&volume), next.volumes.get_mut(&volume)) {
                let to = to.min(target.blocks);
                target.write(from, &copied.read(span(from, to.saturating_sub(from))));
            }
        }
    }

    /// True for an error that needs no other reason than the state of the pool, of the drive, or of a volume that is
    /// just being made, resized or deleted.
    fn is_tolerated(&self, entry: &PendingOp, answer: &Result<Reply, OpError>) -> bool {
        match answer {
            // A drive that cannot give room is as good as full.
            Err(OpError::NoSpace) => {
                let may_lack = may_lack_space(&entry.op) || (self.has_shared && matches!(entry.op, Op::Unmap { .. }));
                (self.tolerated.full || self.tolerated.drive_failing) && may_lack
            }
            Err(OpError::MediumError { .. }) => self.tolerated.drive_failing,
            Err(OpError::NoSuchVolume(_) | OpError::VolumeExists(_) | OpError::OutOfRange { .. }) => {
                let touched = footprint(&entry.op);
                let is_whole =
                    |other: &&PendingOp| matches!(other.op, Op::Change(_)) && touched.overlaps(&footprint(&other.op));
                self.pending.iter().find(is_whole).is_some()
            }
            _ => false,
        }
    }

    /// Begins anew from a state that was recovered and found good.
    pub(crate) fn restart(&mut self, state: OracleState) {
        self.pending.clear();
        self.past.clear();
        self.latest = state.clone();
        self.base = state;
    }
}

/// Blocks that an operation reads and writes: (volume, from, to). The catalogue's values are a volume of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footprint {
    pub(crate) reads: Vec<(VolumeId, u64, u64)>,
    pub(crate) writes: Vec<(VolumeId, u64, u64)>,
}

/// The volume that stands for the values of the catalogue.
pub(crate) const VALUES: VolumeId = VolumeId(u64::MAX);

impl Footprint {
    /// True when one of the two writes what the other reads or writes.
    pub(crate) fn overlaps(&self, other: &Footprint) -> bool {
        meet(&self.writes, &other.writes) || meet(&self.reads, &other.writes) || meet(&self.writes, &other.reads)
    }
}

fn meet(a: &[(VolumeId, u64, u64)], b: &[(VolumeId, u64, u64)]) -> bool {
    a.iter().any(|(volume, from, to)| b.iter().any(|(other, start, end)| volume == other && from < end && start < to))
}

/// True when the later one must not be done before the earlier one. Reading the source of a copy, and storing values of
/// the catalogue, waits for nobody.
pub(crate) fn must_keep_order(earlier: &Op, later: &Op) -> bool {
    let blocks = |op: &Op| {
        let mut writes = footprint(op).writes;
        writes.retain(|(volume, ..)| *volume != VALUES);
        writes
    };
    meet(&blocks(earlier), &blocks(later))
}

/// What an operation touches.
pub(crate) fn footprint(op: &Op) -> Footprint {
    let of = |volume: &VolumeId, range: &BlockRange| vec![(*volume, range.start().0, range.end().0)];
    let bytes = |volume: &VolumeId, lba: u64, len: usize| vec![(*volume, lba, lba.saturating_add(len as u64 / 512))];
    let (reads, writes) = match op {
        Op::Flush => (Vec::new(), Vec::new()),
        Op::Read { volume, range } => (of(volume, range), Vec::new()),
        Op::Compare { volume, lba, data } => (bytes(volume, lba.0, data.len()), Vec::new()),
        Op::Status { volume, lba, .. } => (vec![(*volume, lba.0, u64::MAX)], Vec::new()),
        Op::WriteSame { volume, range, .. } | Op::Zero { volume, range } => (Vec::new(), of(volume, range)),
        Op::Write { volume, lba, data, .. } | Op::Or { volume, lba, data, .. } => {
            (Vec::new(), bytes(volume, lba.0, data.len()))
        }
        Op::CompareAndWrite { volume, lba, write, .. } => (Vec::new(), bytes(volume, lba.0, write.len())),
        Op::Unmap { volume, ranges } => (Vec::new(), ranges.iter().flat_map(|range| of(volume, range)).collect()),
        Op::Copy { source, from, destination, to } => {
            (of(source, from), vec![(*destination, to.0, to.0.saturating_add(from.blocks()))])
        }
        Op::Change(changes) => {
            let sources = changes.iter().filter_map(|change| match change {
                Change::CopyVolume { source, .. } => Some((*source, 0, u64::MAX)),
                _ => None,
            });
            (sources.collect(), changes.iter().map(footprint_of_change).collect())
        }
    };
    Footprint { reads, writes }
}

fn footprint_of_change(change: &Change) -> (VolumeId, u64, u64) {
    match change {
        Change::CreateVolume { volume, .. }
        | Change::DeleteVolume { volume }
        | Change::ResizeVolume { volume, .. }
        | Change::CopyVolume { destination: volume, .. } => (*volume, 0, u64::MAX),
        Change::Put { .. } | Change::Remove { .. } => (VALUES, 0, 1),
    }
}

/// The most blocks that a copy surely moves as data in one piece: half of what a record of the smallest log may carry.
const PIECE_BLOCKS: u64 = 64;

/// A copy whose two ends are not congruent moves data, in pieces when it is long, and is the one operation that may be done
/// in part.
pub(crate) fn is_in_pieces(op: &Op) -> bool {
    matches!(op, Op::Copy { from, to, .. }
        if from.blocks() > PIECE_BLOCKS && from.start().0 % LBAS_PER_BLOCK != to.0 % LBAS_PER_BLOCK)
}

/// After a copy in pieces has failed, each block of its destination is the old or the new one.
pub(crate) fn apply_in_part(state: &mut OracleState, contents: &mut Contents, op: &Op) {
    let Op::Copy { from, destination, to, .. } = op else {
        return;
    };
    let old = state.clone();
    if !is_in_pieces(op) || state.apply(contents, op, None).is_err() {
        return;
    }
    if let (Some(before), Some(after)) = (old.volumes.get(destination), state.volumes.get_mut(destination)) {
        let range = span(to.0, from.blocks());
        let old = before.read(range);
        let new = after.read(range);
        let either: Vec<Content> = old.iter().zip(&new).map(|(old, new)| contents.either(*old, *new)).collect();
        after.write(to.0, &either);
    }
}

/// A read tells which of several contents a block has.
fn narrow(state: &mut OracleState, contents: &mut Contents, volume: VolumeId, range: BlockRange, data: &[u8]) {
    let Some(volume) = state.volumes.get_mut(&volume) else {
        return;
    };
    let held = volume.read(range);
    for (index, (content, block)) in held.iter().zip(data.chunks_exact(crate::content::LBA_LEN)).enumerate() {
        if !contents.is_certain(*content) {
            let seen = contents.id_of(block);
            // Zeros may be mapped or not: what was possible stays possible.
            if seen != Content::ZERO {
                volume.write(range.start().0 + index as u64, &[seen]);
            }
        }
    }
}

/// Operations that store something may be refused by a full pool. Reading, unmapping and deleting may not.
fn may_lack_space(op: &Op) -> bool {
    match op {
        Op::Read { .. } | Op::Compare { .. } | Op::Flush | Op::Status { .. } | Op::Unmap { .. } => false,
        Op::Write { .. }
        | Op::WriteSame { .. }
        | Op::Zero { .. }
        | Op::CompareAndWrite { .. }
        | Op::Or { .. }
        | Op::Copy { .. } => true,
        Op::Change(changes) => {
            !changes.iter().all(|change| matches!(change, Change::DeleteVolume { .. } | Change::Remove { .. }))
        }
    }
}

/// True when the operation changes nothing, whatever happens.
pub(crate) fn is_read_only(op: &Op) -> bool {
    matches!(op, Op::Read { .. } | Op::Compare { .. } | Op::Flush | Op::Status { .. })
}

/// An operation in a line.
pub fn describe(op: &Op) -> String {
    let at = |range: &BlockRange| format!("{}+{}", range.start().0, range.blocks());
    match op {
        Op::Read { volume, range } => format!("read {volume} {}", at(range)),
        Op::Write { volume, lba, data, fua } => {
            format!("write {volume} {}+{}{}", lba.0, data.len() / 512, if *fua { " fua" } else { "" })
        }
        Op::WriteSame { volume, range, pattern } => {
            format!("write-same {volume} {} of {:02x?}..", at(range), pattern.get(..8).unwrap_or_default())
        }
        Op::Zero { volume, range } => format!("zero {volume} {}", at(range)),
        Op::Unmap { volume, ranges } => {
            format!("unmap {volume} {}", ranges.iter().map(at).collect::<Vec<_>>().join(" "))
        }
        Op::CompareAndWrite { volume, lba, write, .. } => {
            format!("compare-and-write {volume} {}+{}", lba.0, write.len() / 512)
        }
        Op::Or { volume, lba, data, .. } => format!("or {volume} {}+{}", lba.0, data.len() / 512),
        Op::Compare { volume, lba, data } => format!("compare {volume} {}+{}", lba.0, data.len() / 512),
        Op::Copy { source, from, destination, to } => {
            format!(
                "copy {source} {} to {destination} {}{}",
                at(from),
                to.0,
                if is_in_pieces(op) { " in pieces" } else { "" }
            )
        }
        Op::Flush => "flush".to_owned(),
        Op::Status { volume, lba, limit } => format!("status {volume} {} limit {limit}", lba.0),
        Op::Change(changes) => changes.iter().map(describe_change).collect::<Vec<_>>().join(", "),
    }
}

fn describe_change(change: &Change) -> String {
    match change {
        Change::CreateVolume { volume, blocks } => format!("create {volume} of {blocks}"),
        Change::DeleteVolume { volume } => format!("delete {volume}"),
        Change::ResizeVolume { volume, blocks } => format!("resize {volume} to {blocks}"),
        Change::CopyVolume { source, destination } => format!("copy {source} whole to {destination}"),
        Change::Put { key, value } => format!("put {} ({} bytes)", String::from_utf8_lossy(key), value.len()),
        Change::Remove { key } => format!("remove {}", String::from_utf8_lossy(key)),
    }
}

#[cfg(test)]
mod tests;
