//! The oracle: the operations submitted, the replies, and the states that they allow.
//!
//! Changes of common blocks are answered in order. So one state suffices: the state after all
//! answered changes. A read may reflect any state between its submission and its reply, but only
//! one state for all its blocks. [`recovery`] covers the states allowed after a crash.

mod cache;
mod cached_changes;
mod recovery;

pub use recovery::RecoveryOutcome;

use crate::content::{Content, Contents};
use crate::state::{OracleState, check_answer, span, summary};
use cached_changes::CachedChanges;
use engine::{Change, Op, OpError, Reply, Tag};
use std::collections::VecDeque;
use thiserror::Error;
use types::{BlockRange, LBAS_PER_BLOCK, VolumeId};

/// The array violated an invariant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SimViolation(pub String);

impl SimViolation {
    /// Creates a violation from a description.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

/// A submitted operation without a reply.
#[derive(Clone, Debug)]
pub struct PendingOp {
    /// Tag given by the submitter.
    pub tag: Tag,
    /// The operation.
    pub op: Op,
    /// Number of changes that were answered before the submission.
    since: u64,
    /// The reply was that the engine stopped. The operation may be done or not.
    is_stopped: bool,
    /// It succeeded, but may not be durable.
    is_answered: bool,
}

/// Errors that are acceptable replies.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToleratedErrors {
    /// The pool may be full.
    pub full: bool,
    /// The drive may fail.
    pub drive_failing: bool,
    /// Places of the drive are damaged: reads may fail, but the engine must not stop.
    pub damaged: bool,
}

impl ToleratedErrors {
    /// Returns whether an operation may fail although the oracle expects success.
    pub fn any(&self) -> bool {
        self.full || self.drive_failing || self.damaged
    }
}

/// The oracle of one run.
#[derive(Clone, Default)]
pub struct History {
    /// Contents of all blocks, by id.
    pub contents: Contents,
    /// State after all answered changes.
    pub(crate) base: OracleState,
    /// Number of answered changes.
    changes: u64,
    /// Earlier states by number of changes. A read submitted at that time may still return them.
    past: VecDeque<(u64, OracleState)>,
    /// Operations without a reply, in order of submission.
    pub(crate) pending: Vec<PendingOp>,
    latest: OracleState,
    /// Errors that are acceptable replies.
    pub tolerated: ToleratedErrors,
    /// Number of checked replies.
    pub judged: u64,
    /// Changes that were answered from the write cache.
    pub(crate) cache: CachedChanges,
    /// Volumes have shared their maps. Unmapping part of a shared range needs new map pages, which
    /// a full pool may not have.
    has_shared: bool,
}

impl History {
    /// Returns the state if all submitted operations succeed. Not exact if operations fail; only
    /// for choosing the next operation.
    pub fn latest(&self) -> &OracleState {
        &self.latest
    }

    /// Returns the number of operations without a reply.
    pub fn unanswered(&self) -> usize {
        self.pending.iter().filter(|entry| !entry.is_stopped).count()
    }

    /// Records the submission of an operation.
    pub fn submit(&mut self, tag: Tag, op: &Op) {
        // An error here is a valid reply of the array and changes nothing.
        let _ = self.latest.apply(&mut self.contents, op, None);
        self.has_shared |= match op {
            Op::Copy { .. } => true,
            Op::Change(changes) => changes.iter().any(|change| matches!(change, Change::CopyVolume { .. })),
            _ => false,
        };
        self.pending.push(PendingOp {
            tag,
            op: op.clone(),
            since: self.changes,
            is_stopped: false,
            is_answered: false,
        });
    }

    /// Records a reply and checks it.
    pub fn complete(&mut self, tag: Tag, answer: &Result<Reply, OpError>) -> Result<(), SimViolation> {
        let Some(index) = self.pending.iter().position(|entry| entry.tag == tag && !entry.is_stopped) else {
            return Err(SimViolation::new(format!("operation {tag} answered twice or never submitted")));
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
        if matches!((&entry.op, answer), (Op::Flush, Ok(_))) {
            self.cache_flushed(entry.since);
        }
        if let Op::Status { volume, .. } = &entry.op
            && self
                .pending
                .iter()
                .any(|other| footprint(&other.op).writes.iter().any(|(touched, ..)| touched == volume))
        {
            // The status is read block by block while others change, so it matches no single state.
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

    /// Checks the reply to a change. `index` operations without a reply were submitted before it.
    fn check_change(&mut self, entry: &PendingOp, index: usize, answer: &Result<Reply, OpError>) -> Result<(), String> {
        if self.is_tolerated(entry, answer) {
            apply_in_part(&mut self.base, &mut self.contents, &entry.op);
            self.cache_change(entry, false);
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
        if answer.is_ok() {
            self.cache_change(entry, true);
        }
        self.changes += 1;
        Ok(())
    }

    /// A copy in pieces logs one record per piece. Another copy or a snapshot may have read its
    /// source between two of them. Allows both contents there.
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

    /// Returns whether the reply is an error explained by the state of the pool or the drive, or by
    /// a pending change of the volume itself.
    fn is_tolerated(&self, entry: &PendingOp, answer: &Result<Reply, OpError>) -> bool {
        match answer {
            // A drive that cannot allocate space is as good as full.
            Err(OpError::NoSpace) => {
                let may_lack = may_lack_space(&entry.op) || (self.has_shared && matches!(entry.op, Op::Unmap { .. }));
                self.tolerated.any() && may_lack
            }
            Err(OpError::MediumError { .. }) => self.tolerated.drive_failing || self.tolerated.damaged,
            Err(OpError::NoSuchVolume(_) | OpError::VolumeExists(_) | OpError::OutOfRange { .. }) => {
                let touched = footprint(&entry.op);
                let is_whole =
                    |other: &&PendingOp| matches!(other.op, Op::Change(_)) && touched.overlaps(&footprint(&other.op));
                self.pending.iter().find(is_whole).is_some()
            }
            _ => false,
        }
    }

    /// Restarts from a recovered state that was checked.
    pub(crate) fn restart(&mut self, state: OracleState) {
        self.pending.clear();
        self.past.clear();
        self.latest = state.clone();
        self.cache.restart(state.clone());
        self.base = state;
    }
}

/// Blocks that an operation reads and writes: (volume, from, to). The values of the catalog count
/// as a volume of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footprint {
    pub(crate) reads: Vec<(VolumeId, u64, u64)>,
    pub(crate) writes: Vec<(VolumeId, u64, u64)>,
}

/// Pseudo-volume of the values of the catalog.
pub(crate) const VALUES: VolumeId = VolumeId(u64::MAX);

impl Footprint {
    /// Returns whether one writes what the other reads or writes.
    pub(crate) fn overlaps(&self, other: &Footprint) -> bool {
        meet(&self.writes, &other.writes) || meet(&self.reads, &other.writes) || meet(&self.writes, &other.reads)
    }
}

fn meet(a: &[(VolumeId, u64, u64)], b: &[(VolumeId, u64, u64)]) -> bool {
    a.iter().any(|(volume, from, to)| b.iter().any(|(other, start, end)| volume == other && from < end && start < to))
}

/// Returns whether the later operation must not be done before the earlier one. Reading the source
/// of a copy and storing values of the catalog need no order.
pub(crate) fn must_keep_order(earlier: &Op, later: &Op) -> bool {
    let blocks = |op: &Op| {
        let mut writes = footprint(op).writes;
        writes.retain(|(volume, ..)| *volume != VALUES);
        writes
    };
    meet(&blocks(earlier), &blocks(later))
}

/// Returns whether the order of two operations may change their result: they have common blocks, or
/// store the same value of the catalog.
pub(crate) fn order_matters(earlier: &Op, later: &Op) -> bool {
    let blocks = |op: &Op| {
        let mut footprint = footprint(op);
        footprint.writes.retain(|(volume, ..)| *volume != VALUES);
        footprint
    };
    let earlier_keys = keys(earlier);
    blocks(earlier).overlaps(&blocks(later)) || keys(later).iter().any(|key| earlier_keys.contains(key))
}

/// Returns the keys of the values of the catalog that an operation stores or removes.
fn keys(op: &Op) -> Vec<&[u8]> {
    let Op::Change(changes) = op else { return Vec::new() };
    let keys = changes.iter().filter_map(|change| match change {
        Change::Put { key, .. } | Change::Remove { key } => Some(&key[..]),
        _ => None,
    });
    keys.collect()
}

/// Returns the blocks that an operation reads and writes.
pub(crate) fn footprint(op: &Op) -> Footprint {
    let of = |volume: &VolumeId, range: &BlockRange| vec![(*volume, range.start().0, range.end().0)];
    let bytes = |volume: &VolumeId, lba: u64, len: usize| vec![(*volume, lba, lba.saturating_add(len as u64 / 512))];
    let (reads, writes) = match op {
        // Streams have a simulation of their own.
        Op::Follow(_) | Op::StreamChange(_) | Op::Sync { .. } | Op::Delta(_) | Op::CopyIfEqual(_) | Op::Flush => {
            (Vec::new(), Vec::new())
        }
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

/// Maximum length of a copy that certainly moves its data in one piece: half of what one record of
/// the smallest log can hold.
const PIECE_BLOCKS: u64 = 64;

/// Returns whether the operation is a copy in pieces. A copy with incongruent ends moves data, in
/// several pieces if it is long. It is the only operation that may be done in part.
pub(crate) fn is_in_pieces(op: &Op) -> bool {
    matches!(op, Op::Copy { from, to, .. }
        if from.blocks() > PIECE_BLOCKS && from.start().0 % LBAS_PER_BLOCK != to.0 % LBAS_PER_BLOCK)
}

/// Applies a failed copy in pieces: each destination block holds the old or the new content.
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

/// Decides undecided contents by the data of a read.
fn narrow(state: &mut OracleState, contents: &mut Contents, volume: VolumeId, range: BlockRange, data: &[u8]) {
    let Some(volume) = state.volumes.get_mut(&volume) else {
        return;
    };
    let held = volume.read(range);
    for (index, (content, block)) in held.iter().zip(data.chunks_exact(crate::content::LBA_LEN)).enumerate() {
        if !contents.is_certain(*content) {
            let seen = contents.id_of(block);
            // Zeros may be mapped or not, so the content stays undecided.
            if seen != Content::ZERO {
                volume.write(range.start().0 + index as u64, &[seen]);
            }
        }
    }
}

/// Returns whether a full pool may refuse the operation. Reads, unmaps and deletes are never
/// refused.
fn may_lack_space(op: &Op) -> bool {
    match op {
        Op::Read { .. } | Op::Compare { .. } | Op::Flush | Op::Status { .. } | Op::Unmap { .. } => false,
        Op::Follow(_) | Op::StreamChange(_) | Op::Sync { .. } | Op::Delta(_) | Op::CopyIfEqual(_) => false,
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

/// Returns whether the operation never changes anything.
pub(crate) fn is_read_only(op: &Op) -> bool {
    matches!(op, Op::Read { .. } | Op::Compare { .. } | Op::Flush | Op::Status { .. })
}

/// Describes an operation in one line.
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
        Op::CopyIfEqual(copy) => format!("{copy:?}"),
        Op::Flush => "flush".to_owned(),
        Op::Follow(followed) => format!("follow {} {}", followed.record.stream, followed.record.position),
        Op::StreamChange(change) => format!("change of {}", change.stream),
        Op::Sync { volume, range, .. } => format!("sync {volume} {}", at(range)),
        Op::Delta(op) => format!("{op:?}"),
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
