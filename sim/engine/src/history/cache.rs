//! The oracle of the write cache: changes that were answered before they are durable.
//!
//! The log is durable up to some record, so a crash loses the newest changes only. Replies need
//! not come in log order: while the cache is full, a write is answered after its flush, and later
//! changes may be answered earlier. But a change is earlier in the log than another if it was
//! answered before the submission of the other, or if it has common blocks with it and was
//! answered first.
//!
//! A reply to [`Op::Flush`] makes all changes durable that were answered before its submission. So
//! does the reply to a change that is never cached: FUA, compare and write, OR, and administration.

use super::cached_changes::CachedChange;
use super::{History, PendingOp, apply_in_part, footprint, is_in_pieces, is_read_only, meet};
use crate::content::Contents;
use crate::history::recovery::groups;
use crate::state::OracleState;
use engine::Op;
use types::VolumeId;

/// Maximum number of unanswered operations with common blocks: more cannot be decided in time.
const MAX_COMMON: usize = 8;

fn apply(change: &CachedChange, state: &mut OracleState, contents: &mut Contents) {
    if change.is_whole {
        // A change that would have failed changes nothing.
        let _ = state.apply(contents, &change.op, None);
    } else {
        apply_in_part(state, contents, &change.op);
    }
}

/// Returns the answered change as an operation that may be present after a crash.
fn unflushed(change: &CachedChange) -> PendingOp {
    PendingOp { tag: 0, op: change.op.clone(), since: change.since, is_stopped: false, is_answered: true }
}

/// Returns whether the change is durable before its reply in write-cache mode too.
pub(crate) fn is_never_cached(op: &Op) -> bool {
    match op {
        Op::Write { fua, .. } => *fua,
        Op::CompareAndWrite { .. } | Op::Or { .. } | Op::Change(_) => true,
        _ => false,
    }
}

impl History {
    /// Turns the oracle of the write cache on.
    pub fn set_write_cache(&mut self, is_on: bool) {
        self.cache.is_on = is_on;
    }

    /// Records a change that was answered.
    pub(super) fn cache_change(&mut self, entry: &PendingOp, is_whole: bool) {
        // A change that failed is not in the log, except for a copy that was done in part.
        if !self.cache.is_on || !(is_whole || is_in_pieces(&entry.op)) {
            return;
        }
        let change = CachedChange { op: entry.op.clone(), since: entry.since, number: self.changes, is_whole };
        if is_never_cached(&change.op) {
            self.make_durable(change.since, footprint(&change.op).writes);
            apply(&change, &mut self.cache.durable, &mut self.contents);
        } else {
            self.cache.changes.push(change);
        }
    }

    /// Makes the cached changes durable that were answered before the change `since`, or that have
    /// common blocks with `writes`, and all changes that are earlier in the log than one of them.
    fn make_durable(&mut self, mut since: u64, mut writes: Vec<(VolumeId, u64, u64)>) {
        let mut durable = Vec::new();
        let mut kept = Vec::new();
        for change in std::mem::take(&mut self.cache.changes).into_iter().rev() {
            let own = footprint(&change.op).writes;
            if change.number < since || meet(&own, &writes) {
                since = since.max(change.since);
                writes.extend(own);
                durable.push(change);
            } else {
                kept.push(change);
            }
        }
        kept.reverse();
        self.cache.changes = kept;
        for change in durable.iter().rev() {
            apply(change, &mut self.cache.durable, &mut self.contents);
        }
    }

    /// Records the reply to a flush that was submitted after `since` answered changes.
    pub(super) fn cache_flushed(&mut self, since: u64) {
        self.make_durable(since, Vec::new());
    }

    /// Returns the losses that a crash may cause, likely ones first: a state that is certainly
    /// durable, and later changes that are durable or not. Those with common blocks are in order of
    /// submission.
    ///
    /// Consider the durable change that was submitted last. The changes answered before its
    /// submission are durable too. Any other durable change was under way at that time. So for each
    /// number of answered changes, only the changes under way then are undecided.
    pub(super) fn allowed_losses(&mut self) -> Vec<(OracleState, Vec<PendingOp>)> {
        let pending: Vec<PendingOp> = self.pending.iter().filter(|entry| !is_read_only(&entry.op)).cloned().collect();
        if !self.cache.is_on {
            return vec![(self.base.clone(), pending)];
        }
        let mut base = self.cache.durable.clone();
        let mut losses = Vec::new();
        for count in 0..=self.cache.changes.len() {
            let later = &self.cache.changes[count..];
            let now = later.first().map_or(self.changes, |change| change.number);
            let under_way = later.iter().map(unflushed).chain(pending.iter().cloned());
            losses.push((base.clone(), under_way.filter(|entry| entry.since <= now).collect()));
            if let Some(change) = later.first() {
                apply(change, &mut base, &mut self.contents);
            }
        }
        losses.reverse();
        losses
    }

    /// Returns whether the oracle can decide the outcome of `op` together with the operations
    /// without a reply.
    ///
    /// With a write cache, replies do not come in log order. So no copy may read blocks that an
    /// operation without a reply writes.
    pub fn can_submit(&self, op: &Op) -> bool {
        if is_read_only(op) {
            return true;
        }
        let own = footprint(op);
        let is_mixed = |other: &PendingOp| {
            let other = footprint(&other.op);
            meet(&own.reads, &other.writes) || meet(&own.writes, &other.reads)
        };
        let changes = || self.pending.iter().filter(|entry| !is_read_only(&entry.op));
        if self.cache.is_on && changes().any(is_mixed) {
            return false;
        }
        if self.pending.len() < MAX_COMMON {
            return true;
        }
        let mut entries: Vec<PendingOp> = changes().cloned().collect();
        entries.push(PendingOp { tag: 0, op: op.clone(), since: 0, is_stopped: false, is_answered: false });
        groups(&entries).iter().all(|group| group.len() <= MAX_COMMON)
    }
}

#[cfg(test)]
mod tests;
