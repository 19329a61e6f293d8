//! The oracle of the write cache: changes that were answered before they are durable.
//!
//! The log is durable up to some record, so a crash loses the newest changes only. A reply to
//! [`Op::Flush`] makes all changes durable that were answered before its submission. So does the
//! reply to a change that is never cached: FUA, compare and write, OR, and administration.

use super::cached_changes::CachedChange;
use super::{Footprint, History, PendingOp, apply_in_part, footprint, is_in_pieces, is_read_only, meet};
use crate::content::Contents;
use crate::history::recovery::groups;
use crate::state::OracleState;
use engine::Op;

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
        let change = CachedChange { op: entry.op.clone(), number: self.changes, is_whole };
        if !is_never_cached(&entry.op) {
            return self.cache.changes.push(change);
        }
        // Earlier in the log are the changes answered before its submission, and changes of the
        // same blocks, whose locks it awaited.
        let writes = footprint(&entry.op).writes;
        let is_earlier =
            |other: &CachedChange| other.number < entry.since || meet(&footprint(&other.op).writes, &writes);
        let count = self.cache.changes.iter().rposition(is_earlier).map_or(0, |index| index + 1);
        self.make_durable(count);
        apply(&change, &mut self.cache.durable, &mut self.contents);
    }

    /// Makes the first `count` cached changes durable.
    fn make_durable(&mut self, count: usize) {
        for change in self.cache.changes.drain(..count) {
            apply(&change, &mut self.cache.durable, &mut self.contents);
        }
    }

    /// Records the reply to a flush that was submitted after `since` answered changes.
    pub(super) fn cache_flushed(&mut self, since: u64) {
        let count = self.cache.changes.iter().take_while(|change| change.number < since).count();
        self.make_durable(count);
    }

    /// Returns the states that the answered changes allow after a crash, likely ones first. Each
    /// comes with the footprints of the changes that it lacks.
    pub(super) fn answered_states(&mut self) -> Vec<(OracleState, Vec<Footprint>)> {
        if !self.cache.is_on {
            return vec![(self.base.clone(), Vec::new())];
        }
        let mut states = vec![self.cache.durable.clone()];
        for change in &self.cache.changes {
            let mut next = states[states.len() - 1].clone();
            apply(change, &mut next, &mut self.contents);
            states.push(next);
        }
        let states = states.into_iter().enumerate().rev();
        let allowed = states.map(|(count, mut state)| {
            let lost = &self.cache.changes[count..];
            // A copy in pieces may be durable in part.
            lost.iter().filter(|change| is_in_pieces(&change.op)).for_each(|change| {
                apply_in_part(&mut state, &mut self.contents, &change.op);
            });
            (state, lost.iter().map(|change| footprint(&change.op)).collect())
        });
        allowed.collect()
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
        entries.push(PendingOp { tag: 0, op: op.clone(), since: 0, is_stopped: false });
        groups(&entries).iter().all(|group| group.len() <= MAX_COMMON)
    }
}

#[cfg(test)]
mod tests;
