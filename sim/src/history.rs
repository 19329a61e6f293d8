//! The oracle: what was asked, what was answered, and what the array may hold because of it.
//!
//! Operations that overlap behave as if done one after the other in the order of submission, so one state at a time is
//! enough: the one after all operations up to the first that has no answer yet. An answer is judged when all operations
//! before it have theirs. See [`crate::recovered`] for what may be there after a crash.

use crate::content::{Content, Contents};
use crate::state::{State, brief, judge, span};
use engine::{Change, Op, OpError, Reply, Tag};
use std::collections::VecDeque;
use thiserror::Error;
use units::{BLOCKS_PER_MAP_BLOCK, BlockRange, VolumeId};

/// The array broke a promise.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Violation(pub String);

impl Violation {
    /// A violation in so many words.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

/// An operation that was submitted, and its answer.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The submitter's name for it.
    pub tag: Tag,
    /// What was asked.
    pub op: Op,
    /// What was answered, if it was.
    pub answer: Option<Result<Reply, OpError>>,
    /// The answer was that the engine has stopped: done or not, who knows.
    pub is_stopped: bool,
}

/// What may be answered besides what is right.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leniency {
    /// The pool may be full.
    pub full: bool,
    /// The drive may fail.
    pub failing: bool,
}

/// The oracle of one run.
#[derive(Clone, Default)]
pub struct History {
    /// The contents of all blocks, by name.
    pub contents: Contents,
    /// The state after all operations before the window.
    pub(crate) base: State,
    /// Operations from the first without an answer on.
    pub(crate) window: VecDeque<Entry>,
    latest: State,
    /// What may be answered besides what is right.
    pub leniency: Leniency,
    /// Answers that were judged.
    pub judged: u64,
}

impl History {
    /// The state if all that was submitted is done. Not exact while operations fail; it is for choosing what to submit.
    pub fn latest(&self) -> &State {
        &self.latest
    }

    /// Operations without an answer.
    pub fn unanswered(&self) -> usize {
        self.window.iter().filter(|entry| entry.answer.is_none()).count()
    }

    /// Operations from the first without an answer on.
    pub fn window(&self) -> impl Iterator<Item = &Entry> {
        self.window.iter()
    }

    /// Notes that an operation is being submitted.
    pub fn submit(&mut self, tag: Tag, op: &Op) {
        // An error here is an expected answer of the array, and no change.
        let _ = self.latest.apply(&mut self.contents, op, None);
        self.window.push_back(Entry { tag, op: op.clone(), answer: None, is_stopped: false });
    }

    /// Notes an answer, and judges those that can be judged now.
    pub fn complete(&mut self, tag: Tag, answer: Result<Reply, OpError>) -> Result<(), Violation> {
        let Some(entry) =
            self.window.iter_mut().find(|entry| entry.tag == tag && entry.answer.is_none() && !entry.is_stopped)
        else {
            return Err(Violation::new(format!("operation {tag} is answered twice, or was never submitted")));
        };
        if matches!(answer, Err(OpError::Stopped(_))) {
            entry.is_stopped = true;
            if !self.leniency.failing {
                return Err(Violation::new(format!(
                    "operation {tag}: the engine stopped on a good drive: {}",
                    brief(&answer)
                )));
            }
            return Ok(());
        }
        entry.answer = Some(answer);
        while self.window.front().is_some_and(|entry| entry.answer.is_some()) {
            if let Some(entry) = self.window.pop_front() {
                step(&mut self.base, &mut self.contents, &entry, self.leniency)?;
                self.judged += 1;
            }
        }
        if self.window.is_empty() {
            self.latest = self.base.clone();
        }
        Ok(())
    }

    /// Begins anew from a state that was recovered and found good.
    pub(crate) fn restart(&mut self, state: State) {
        self.window.clear();
        self.latest = state.clone();
        self.base = state;
    }

    /// What the array must hold now that nothing is under way.
    pub fn base(&self) -> &State {
        &self.base
    }
}

/// Carries a state over one answered operation, and judges the answer.
pub(crate) fn step(
    state: &mut State,
    contents: &mut Contents,
    entry: &Entry,
    leniency: Leniency,
) -> Result<(), Violation> {
    let Some(answer) = &entry.answer else {
        return Err(Violation::new("an operation without an answer has no outcome"));
    };
    match answer {
        Err(OpError::NoSpace) if leniency.full && may_lack_space(&entry.op) => {
            smear(state, contents, &entry.op);
            return Ok(());
        }
        Err(OpError::MediumError { .. }) if leniency.failing => {
            smear(state, contents, &entry.op);
            return Ok(());
        }
        _ => {}
    }
    let expected = state.apply(contents, &entry.op, Some(answer));
    judge(contents, &expected, answer)
        .map_err(|what| Violation(format!("operation {} ({}): {what}", entry.tag, describe(&entry.op))))?;
    if let (Op::Read { volume, range }, Ok(Reply::Data(data))) = (&entry.op, answer) {
        learn(state, contents, *volume, *range, data);
    }
    Ok(())
}

/// A copy whose two ends are not congruent moves data, in pieces, and is the one operation that may be done in part.
pub(crate) fn is_in_pieces(op: &Op) -> bool {
    matches!(op, Op::Copy { from, to, .. } if from.start().0 % BLOCKS_PER_MAP_BLOCK != to.0 % BLOCKS_PER_MAP_BLOCK)
}

/// After a copy in pieces has failed, each block of its destination is the old or the new one.
pub(crate) fn smear(state: &mut State, contents: &mut Contents, op: &Op) {
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
fn learn(state: &mut State, contents: &mut Contents, volume: VolumeId, range: BlockRange, data: &[u8]) {
    let Some(volume) = state.volumes.get_mut(&volume) else {
        return;
    };
    let held = volume.read(range);
    for (index, (content, block)) in held.iter().zip(data.chunks_exact(crate::content::BLOCK)).enumerate() {
        if !contents.is_certain(*content) {
            let seen = contents.name(block);
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
        Change::Put { key, value } => format!("put {} ({} bytes)", String::from_utf8_lossy(key), value.len()),
        Change::Remove { key } => format!("remove {}", String::from_utf8_lossy(key)),
    }
}

#[cfg(test)]
mod tests;
