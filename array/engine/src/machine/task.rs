//! Tasks: requests that have no reply yet, or whose changes are not durable yet.

use super::locks::{Claim, Claims, add_claim};
use super::ranges::fill_of;
use super::steps::{COPY_DATA_STEP_BLOCKS, COPY_STEP_BLOCKS, UNMAP_STEP_RANGES, copy_step, unmap_step};
use super::sync_step::SyncStep;
use crate::delta_op::DeltaOp;
use crate::service::{Change, Op, OpError, Reply, Tag};
use bytes::Bytes;
use smallvec::SmallVec;
use types::{BlockRange, LBA_BYTES, Lba, VolumeId};
use wal::{FillValue, LogOp};

/// The event that a task waits for. Waking the task for another reason has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Its turn to run.
    Turn,
    /// Its ranges, which other tasks hold.
    Range,
    /// Pages of the map or of the slot table.
    Pages,
    /// Permission to load such pages: the pages that others load take more than the budget.
    Memory,
    /// Bytes that the present step depends on.
    Bytes,
    /// The records of its stream that come before.
    Order,
    /// Room for its record at the peer.
    Credit,
    /// Admission of its record.
    Admission,
    /// Durability of its record. The task never runs again.
    Commit,
}

/// A request in progress.
pub(crate) struct Task {
    pub(crate) tag: Tag,
    pub(crate) op: Op,
    pub(crate) wait: Wait,
    pub(crate) claims: Claims,
    /// The task holds its claims; it does not only wait for them.
    pub(crate) is_holding: bool,
    /// Bytes fetched for the present step.
    pub(crate) fetched: SmallVec<[Bytes; 2]>,
    /// Pages that it waits for.
    pub(crate) loads: usize,
    /// Blocks of a copy, or ranges of an UNMAP, that earlier steps have done. Blocks whose content
    /// was sent to the peer.
    pub(crate) done: u64,
    /// One of the pages that it waits for cannot be read.
    pub(crate) has_lost: bool,
    /// The pages that it waits for are of deltas.
    pub(crate) is_for_delta: bool,
    /// Its steps add whole volumes to deltas: there is no space for their pages, or one cannot be
    /// read.
    pub(crate) is_coarse: bool,
    /// It is in the queue of those that wait for credit.
    pub(crate) awaits_credit: bool,
    /// The content that it sends to the peer.
    pub(crate) sync: Option<Box<SyncStep>>,
    /// Why a request in steps ends early. Reported when the completed steps are durable: a reader
    /// must not see them before.
    pub(crate) failure: Option<OpError>,
}

impl Task {
    pub(crate) fn new(tag: Tag, op: Op, claims: Claims) -> Self {
        Self {
            tag,
            op,
            wait: Wait::Turn,
            claims,
            is_holding: false,
            fetched: SmallVec::new(),
            loads: 0,
            done: 0,
            has_lost: false,
            is_for_delta: false,
            is_coarse: false,
            awaits_credit: false,
            sync: None,
            failure: None,
        }
    }

    /// Returns the block to report where a damaged page leaves open which block is lost: the
    /// first of the range; for a copy, the first of its source.
    pub(crate) fn first_lba(&self) -> Lba {
        match &self.op {
            Op::Copy { from, .. } => from.start(),
            Op::CopyIfEqual(copy) => copy.from.start(),
            _ => self.claims.first().map_or(Lba(0), |claim| Lba(claim.start)),
        }
    }

    /// Continues without the pages of deltas, if possible. A removal of blocks is not: it fails.
    pub(crate) fn become_coarse(&mut self) -> bool {
        let is_removal = matches!(self.op, Op::Delta(DeltaOp::Clear { .. } | DeltaOp::Next { .. }) | Op::Sync { .. });
        !is_removal && !std::mem::replace(&mut self.is_coarse, true)
    }

    /// Counts the present step of a request in steps as done. `data_step` is the most blocks that
    /// a step of a copy moves as data.
    pub(crate) fn finish_step(&mut self, data_step: u64) {
        // The next step may find its pages.
        self.is_coarse = false;
        match &self.op {
            Op::Copy { source, from, destination, to } => {
                self.done += copy_step(source == destination, *from, *to, self.done, data_step).blocks;
                self.fetched.clear();
            }
            Op::Unmap { .. } | Op::Delta(_) => self.done += UNMAP_STEP_RANGES as u64,
            _ => {}
        }
    }

    /// Returns the reply when its changes are committed.
    pub(crate) fn reply(&self) -> Reply {
        match &self.op {
            Op::Sync { .. } => {
                let data = self.sync.as_ref().map_or(0, |content| content.data_bytes());
                Reply::Synced { blocks: self.done, data }
            }
            _ => Reply::Done,
        }
    }

    /// Returns the ranges whose bytes the present step depends on.
    pub(crate) fn bytes_needed(&self, data_step: u64) -> SmallVec<[(VolumeId, BlockRange); 2]> {
        let covered = |volume: VolumeId, lba: Lba, data: &Bytes| {
            let range = BlockRange::new(lba, data.len() as u64 / LBA_BYTES);
            range.map(|range| (volume, range)).into_iter().collect()
        };
        match &self.op {
            Op::CompareAndWrite { volume, lba, compare: data, .. }
            | Op::Or { volume, lba, data, .. }
            | Op::Compare { volume, lba, data } => covered(*volume, *lba, data),
            Op::Copy { source, from, to, destination } => {
                let step = copy_step(source == destination, *from, *to, self.done, data_step);
                step.data_from().map(|range| (*source, range)).collect()
            }
            _ => SmallVec::new(),
        }
    }

    /// Returns the record of the present step, and whether it is the last one. `Err` holds the
    /// reply if nothing is recorded.
    pub(crate) fn record(&mut self, data_step: u64) -> Result<(Vec<LogOp>, bool), Result<Reply, OpError>> {
        let single = |op: LogOp| Ok((vec![op], true));
        match &self.op {
            Op::Write { volume, lba, data, .. } => {
                single(LogOp::Write { volume: *volume, lba: *lba, data: data.clone() })
            }
            Op::WriteSame { volume, range, pattern } if !range.is_empty() => single(match fill_of(pattern) {
                Some(fill) => LogOp::Fill { volume: *volume, range: *range, fill },
                None => LogOp::Same { volume: *volume, range: *range, pattern: pattern.clone() },
            }),
            Op::Zero { volume, range } if !range.is_empty() => {
                single(LogOp::Fill { volume: *volume, range: *range, fill: FillValue::Zero })
            }
            Op::Unmap { volume, ranges } => {
                let hole = |range: &BlockRange| LogOp::Fill { volume: *volume, range: *range, fill: FillValue::Hole };
                let is_last = self.done + UNMAP_STEP_RANGES as u64 >= ranges.len() as u64;
                Ok((unmap_step(ranges, self.done).map(hole).collect(), is_last))
            }
            Op::Compare { data, .. } => Err(compare(&self.fetched[0], data).map(|()| Reply::Done)),
            Op::CompareAndWrite { volume, lba, compare: expected, write, .. } => {
                compare(&self.fetched[0], expected).map_err(Err)?;
                single(LogOp::Write { volume: *volume, lba: *lba, data: write.clone() })
            }
            Op::Or { volume, lba, data, .. } => {
                let data = self.fetched[0].iter().zip(data).map(|(old, new)| old | new).collect();
                single(LogOp::Write { volume: *volume, lba: *lba, data })
            }
            Op::Copy { source, from, destination, to } => {
                let step = copy_step(source == destination, *from, *to, self.done, data_step);
                let record = step.record(*source, *destination, std::mem::take(&mut self.fetched));
                // The step needs the fetched bytes again if its record must wait for admission.
                self.fetched = record.iter().filter_map(written_data).collect();
                Ok((record, self.done + step.blocks == from.blocks()))
            }
            Op::CopyIfEqual(copy) => single(copy.record()),
            Op::Change(changes) => Ok((changes.iter().map(log_change).collect(), true)),
            Op::StreamChange(change) => {
                Ok((change.changes.iter().chain(&change.values).map(log_change).collect(), true))
            }
            Op::Follow(followed) => {
                let values = followed.values.iter().map(log_change);
                Ok((followed.record.ops.iter().cloned().chain(values).collect(), true))
            }
            Op::WriteSame { .. } | Op::Zero { .. } => Ok((Vec::new(), true)),
            Op::Read { .. } | Op::Flush | Op::Status { .. } | Op::Delta(_) | Op::Sync { .. } => {
                Err(Err(OpError::Malformed("not a change")))
            }
        }
    }
}

/// True if the reply must wait for durability even with a write cache.
pub(crate) fn must_be_durable(op: &Op) -> bool {
    match op {
        Op::Write { fua, .. } => *fua,
        // Hosts lock with these: a crash must not grant a lock twice.
        Op::CompareAndWrite { .. } | Op::Or { .. } => true,
        // Administrative changes are never cached.
        Op::Change(_) | Op::StreamChange(_) | Op::Delta(_) | Op::Sync { .. } => true,
        _ => false,
    }
}

/// True for a request that changes nothing.
pub(crate) fn is_reader(op: &Op) -> bool {
    matches!(op, Op::Read { .. } | Op::Compare { .. } | Op::Status { .. } | Op::Delta(DeltaOp::Next { .. }))
}

/// Returns the ranges that a request locks.
pub(crate) fn claims_of(op: &Op) -> Claims {
    let mut claims = Claims::new();
    let mut add = |volume: VolumeId, start: u64, blocks: u64| {
        add_claim(&mut claims, Claim { volume, start, end: start + blocks });
    };
    match op {
        Op::Read { volume, range }
        | Op::WriteSame { volume, range, .. }
        | Op::Zero { volume, range }
        | Op::Sync { volume, range, .. } => {
            add(*volume, range.start().0, range.blocks());
        }
        Op::Write { volume, lba, data, .. } | Op::Or { volume, lba, data, .. } | Op::Compare { volume, lba, data } => {
            add(*volume, lba.0, data.len() as u64 / LBA_BYTES);
        }
        Op::CompareAndWrite { volume, lba, write, .. } => add(*volume, lba.0, write.len() as u64 / LBA_BYTES),
        Op::Unmap { volume, ranges } | Op::Delta(DeltaOp::Clear { volume, ranges, .. }) => {
            ranges.iter().for_each(|range| add(*volume, range.start().0, range.blocks()));
        }
        Op::Copy { source, from, destination, to } => {
            add(*destination, to.0, from.blocks());
            // A copy that fetches bytes must find the same source when it is sequenced.
            let is_fetching =
                copy_step(source == destination, *from, *to, 0, COPY_DATA_STEP_BLOCKS).data_from().next().is_some();
            // A stage gets committed content alone: nothing orders its copy after the source.
            if is_fetching || from.blocks() > COPY_STEP_BLOCKS || destination.is_stage() {
                add(*source, from.start().0, from.blocks());
            }
        }
        Op::CopyIfEqual(copy) => add(copy.destination, copy.to.0, copy.from.blocks()),
        Op::Status { volume, lba, .. } => add(*volume, lba.0, 1),
        Op::Change(changes) => claim_changed(changes, &mut claims),
        Op::StreamChange(change) => claim_changed(&change.changes, &mut claims),
        Op::Follow(followed) => followed.record.ops.iter().for_each(|op| match op {
            LogOp::Write { volume, lba, data } => add(*volume, lba.0, data.len() as u64 / LBA_BYTES),
            LogOp::Fill { volume, range, .. } | LogOp::Same { volume, range, .. } => {
                add(*volume, range.start().0, range.blocks());
            }
            LogOp::Copy { from, destination, to, .. } => add(*destination, to.0, from.blocks()),
            LogOp::Create { volume, .. }
            | LogOp::Delete { volume }
            | LogOp::Resize { volume, .. }
            | LogOp::CopyVolume { destination: volume, .. } => add(*volume, 0, u64::MAX),
            LogOp::Stream(_) | LogOp::Put { .. } | LogOp::Remove { .. } => {}
        }),
        // An addition is right at any time, also before a change that waits for its commit.
        Op::Delta(_) | Op::Flush => {}
    }
    claims
}

/// Claims the volumes that these changes make, remove, replace or resize.
fn claim_changed(changes: &[Change], claims: &mut Claims) {
    for change in changes {
        if let Change::CreateVolume { volume, .. }
        | Change::DeleteVolume { volume }
        | Change::ResizeVolume { volume, .. }
        | Change::CopyVolume { destination: volume, .. } = change
        {
            add_claim(claims, Claim::whole(*volume));
        }
    }
}

fn written_data(op: &LogOp) -> Option<Bytes> {
    match op {
        LogOp::Write { data, .. } => Some(data.clone()),
        _ => None,
    }
}

fn compare(held: &[u8], expected: &[u8]) -> Result<(), OpError> {
    match held.iter().zip(expected).position(|(a, b)| a != b) {
        Some(offset) => Err(OpError::Miscompare { offset: offset as u64 }),
        None => Ok(()),
    }
}

fn log_change(change: &Change) -> LogOp {
    match change {
        Change::CreateVolume { volume, blocks } => LogOp::Create { volume: *volume, blocks: *blocks },
        Change::DeleteVolume { volume } => LogOp::Delete { volume: *volume },
        Change::ResizeVolume { volume, blocks } => LogOp::Resize { volume: *volume, blocks: *blocks },
        Change::CopyVolume { source, destination } => LogOp::CopyVolume { source: *source, destination: *destination },
        Change::Put { key, value } => {
            LogOp::Put { key: Bytes::copy_from_slice(key), value: Bytes::copy_from_slice(value) }
        }
        Change::Remove { key } => LogOp::Remove { key: Bytes::copy_from_slice(key) },
    }
}
