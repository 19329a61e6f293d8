//! Decides which operations are present after a crash.
//!
//! Every answered operation must be present. Any other must be present entirely or not at all. If
//! two operations write the same block, the later one requires the earlier one. Operations without
//! common blocks are decided separately, so each search covers only a few operations. With a write
//! cache, answered operations that may not be durable are decided in the same way.

use crate::history::{
    Footprint, History, PendingOp, SimViolation, VALUES, apply_in_part, describe, footprint, is_in_pieces,
    must_keep_order, order_matters,
};
use crate::state::{OracleState, span};
use std::collections::{BTreeSet, HashSet};
use types::VolumeId;

/// Maximum number of unanswered operations with common blocks that can be decided.
const MAX_UNDECIDED: usize = 12;

/// Maximum number of their pairs whose order is open.
const MAX_OPEN_PAIRS: usize = 16;

/// Outcome of the unanswered operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryOutcome {
    /// Number of operations that are present.
    pub present: u64,
    /// Number of operations that are absent.
    pub absent: u64,
}

/// Unanswered operations with common blocks.
pub(super) struct Group<'e> {
    entries: Vec<&'e PendingOp>,
    /// Pairs (earlier, later) of indices. The later operation requires the earlier one.
    kept: Vec<(usize, usize)>,
    /// Pairs (earlier, later) of indices that may have been done in either order.
    open: Vec<(usize, usize)>,
    touched: BTreeSet<(VolumeId, u64, u64)>,
}

impl<'e> Group<'e> {
    fn new(entries: Vec<&'e PendingOp>) -> Self {
        let footprints: Vec<Footprint> = entries.iter().map(|entry| footprint(&entry.op)).collect();
        let touched = footprints.iter().flat_map(|footprint| footprint.writes.iter().copied()).collect();
        let (mut kept, mut open) = (Vec::new(), Vec::new());
        for (earlier, later) in (0..entries.len()).flat_map(|later| (0..later).map(move |earlier| (earlier, later))) {
            if must_keep_order(&entries[earlier].op, &entries[later].op) {
                kept.push((earlier, later));
            } else if order_matters(&entries[earlier].op, &entries[later].op) {
                open.push((earlier, later));
            }
        }
        open.truncate(MAX_OPEN_PAIRS);
        Self { entries, kept, open, touched }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the possible orders, each once, starting with the order of submission.
    fn orders(&self) -> impl Iterator<Item = Vec<usize>> + '_ {
        let mut known = HashSet::new();
        (0..1_u32 << self.open.len()).filter_map(move |turned| {
            let mut before: Vec<(usize, usize)> = self.kept.clone();
            let open = self.open.iter().enumerate();
            before.extend(open.map(|(bit, (a, b))| if turned & (1 << bit) == 0 { (*a, *b) } else { (*b, *a) }));
            let mut order: Vec<usize> = Vec::new();
            while order.len() < self.entries.len() {
                let is_due = |index: &usize| {
                    !order.contains(index) && before.iter().all(|(first, then)| then != index || order.contains(first))
                };
                order.push((0..self.entries.len()).find(is_due)?);
            }
            known.insert(order.clone()).then_some(order)
        })
    }

    /// Returns whether every chosen operation has the earlier ones that it requires. With
    /// `may_fail`, an earlier one without a reply may have failed.
    fn is_closed(&self, chosen: u32, may_fail: bool) -> bool {
        let is_met = |earlier: usize| chosen & (1 << earlier) != 0 || (may_fail && !self.entries[earlier].is_answered);
        self.kept.iter().all(|(earlier, later)| chosen & (1 << later) == 0 || is_met(*earlier))
    }
}

impl History {
    /// Compares the state found after a crash with the allowed states, and continues from it.
    pub fn recover(&mut self, seen: &OracleState) -> Result<RecoveryOutcome, SimViolation> {
        let mut first = None;
        for (base, optional) in self.allowed_losses() {
            match self.recover_from(&base, &optional, seen) {
                Ok((outcome, state)) => {
                    self.restart(state);
                    return Ok(outcome);
                }
                Err(violation) => first = Some(first.unwrap_or(violation)),
            }
        }
        Err(first.unwrap_or_else(|| SimViolation::new("no state is possible")))
    }

    /// Compares the state of an array at rest, all of whose operations are answered.
    pub fn compare_at_rest(&mut self, seen: &OracleState) -> Result<(), SimViolation> {
        let mut state = self.base.clone();
        self.compare_all(&state, seen)?;
        self.narrow_all(&mut state, seen);
        self.base = state;
        Ok(())
    }

    /// Tries to explain the state found by the changes in `base` and some of the `optional` ones.
    fn recover_from(
        &mut self,
        base: &OracleState,
        optional: &[PendingOp],
        seen: &OracleState,
    ) -> Result<(RecoveryOutcome, OracleState), SimViolation> {
        let mut outcome = RecoveryOutcome::default();
        let mut state = base.clone();
        for group in groups(optional) {
            let (chosen, order) = self.decide(base, &group, seen)?;
            self.apply(&mut state, &group, chosen, &order);
            for (index, entry) in group.entries.iter().enumerate() {
                if !is_in_pieces(&entry.op) && !entry.is_answered {
                    *(if chosen & (1 << index) != 0 { &mut outcome.present } else { &mut outcome.absent }) += 1;
                }
            }
        }
        self.compare_all(&state, seen)?;
        self.narrow_all(&mut state, seen);
        Ok((outcome, state))
    }

    /// Finds the operations (as bits) and the order that explain the blocks that the group touches.
    fn decide(
        &mut self,
        base: &OracleState,
        group: &Group<'_>,
        seen: &OracleState,
    ) -> Result<(u32, Vec<usize>), SimViolation> {
        let count = group.entries.len();
        if count > MAX_UNDECIDED {
            return Err(SimViolation::new(format!(
                "{count} unanswered operations with common blocks: too many to decide"
            )));
        }
        let mut first_reason = None;
        for order in group.orders() {
            for chosen in candidates(count) {
                if !group.is_closed(chosen, self.tolerated.any()) {
                    continue;
                }
                let mut state = base.clone();
                self.apply(&mut state, group, chosen, &order);
                match self.compare_touched(&state, seen, &group.touched) {
                    Ok(()) => return Ok((chosen, order)),
                    Err(reason) => first_reason = Some(first_reason.unwrap_or(reason)),
                }
            }
        }
        let list: Vec<String> =
            group.entries.iter().map(|entry| format!("  {} {}", entry.tag, describe(&entry.op))).collect();
        let reason = first_reason.map_or_else(String::new, |violation| violation.0);
        Err(SimViolation(format!(
            "after the crash, no outcome of these unanswered operations explains the state found ({reason}):\n{}",
            list.join("\n")
        )))
    }

    /// Applies the chosen operations of the group.
    fn apply(&mut self, state: &mut OracleState, group: &Group<'_>, chosen: u32, order: &[usize]) {
        for index in order {
            let op = &group.entries[*index].op;
            if is_in_pieces(op) {
                apply_in_part(state, &mut self.contents, op);
            } else if chosen & (1 << index) != 0 {
                // An operation that would have failed changes nothing.
                let _ = state.apply(&mut self.contents, op, None);
            }
        }
    }

    fn compare_touched(
        &self,
        state: &OracleState,
        seen: &OracleState,
        touched: &BTreeSet<(VolumeId, u64, u64)>,
    ) -> Result<(), SimViolation> {
        for (volume, from, to) in touched {
            if *volume == VALUES {
                compare_values(state, seen)?;
            } else {
                self.compare_volume(state, seen, *volume, *from, *to)?;
            }
        }
        Ok(())
    }

    fn compare_all(&self, state: &OracleState, seen: &OracleState) -> Result<(), SimViolation> {
        let volumes: BTreeSet<VolumeId> = state.volumes.keys().chain(seen.volumes.keys()).copied().collect();
        for volume in volumes {
            self.compare_volume(state, seen, volume, 0, u64::MAX)?;
        }
        compare_values(state, seen)
    }

    fn compare_volume(
        &self,
        state: &OracleState,
        seen: &OracleState,
        volume: VolumeId,
        from: u64,
        to: u64,
    ) -> Result<(), SimViolation> {
        let (expected, seen) = match (state.volumes.get(&volume), seen.volumes.get(&volume)) {
            (None, None) => return Ok(()),
            (Some(_), None) => return Err(SimViolation::new(format!("{volume} is lost"))),
            (None, Some(_)) => return Err(SimViolation::new(format!("{volume} is present but should not be"))),
            (Some(expected), Some(seen)) => (expected, seen),
        };
        if expected.blocks != seen.blocks {
            return Err(SimViolation::new(format!(
                "{volume} has {} blocks, expected {}",
                seen.blocks, expected.blocks
            )));
        }
        let to = to.min(expected.blocks);
        let range = span(from.min(to), to - from.min(to));
        match expected.first_difference(seen, range, &self.contents) {
            None => Ok(()),
            Some(lba) => Err(SimViolation::new(format!(
                "{volume} block {lba} holds {:?}, expected {:?}",
                seen.get(lba),
                self.contents.possible(expected.get(lba))
            ))),
        }
    }

    /// Decides undecided contents by the state that was found.
    fn narrow_all(&self, state: &mut OracleState, seen: &OracleState) {
        for (id, volume) in &mut state.volumes {
            let held = volume.read(span(0, volume.blocks));
            for (lba, content) in held.iter().enumerate() {
                if let (false, Some(seen)) = (self.contents.is_certain(*content), seen.volumes.get(id)) {
                    volume.write(lba as u64, &[seen.get(lba as u64)]);
                }
            }
        }
    }
}

fn compare_values(state: &OracleState, seen: &OracleState) -> Result<(), SimViolation> {
    let keys: BTreeSet<&Vec<u8>> = state.values.keys().chain(seen.values.keys()).collect();
    for key in keys {
        let (expected, found) = (state.values.get(key), seen.values.get(key));
        if expected != found {
            let size =
                |value: Option<&Vec<u8>>| value.map_or("none".to_owned(), |value| format!("{} bytes", value.len()));
            let name = String::from_utf8_lossy(key);
            return Err(SimViolation::new(format!("value of {name} is {}, expected {}", size(found), size(expected))));
        }
    }
    Ok(())
}

/// Returns all combinations of present operations, likely ones first: the first n operations, then
/// all others.
fn candidates(count: usize) -> impl Iterator<Item = u32> {
    let is_prefix = |chosen: &u32| (chosen & (chosen + 1)) == 0;
    let prefixes = (0..=count as u32).map(|first| (1 << first) - 1);
    prefixes.chain((0..1 << count).filter(move |chosen| !is_prefix(chosen)))
}

/// Groups the operations so that different groups have no common blocks.
pub(super) fn groups(entries: &[PendingOp]) -> Vec<Group<'_>> {
    let footprints: Vec<Footprint> = entries.iter().map(|entry| footprint(&entry.op)).collect();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for index in 0..entries.len() {
        let touches = |group: &Vec<usize>| group.iter().any(|other| footprints[*other].overlaps(&footprints[index]));
        let (touched, apart): (Vec<_>, Vec<_>) = groups.into_iter().partition(touches);
        let mut merged: Vec<usize> = touched.concat();
        merged.push(index);
        merged.sort_unstable();
        groups = apart;
        groups.push(merged);
    }
    groups.into_iter().map(|group| Group::new(group.into_iter().map(|index| &entries[index]).collect())).collect()
}

#[cfg(test)]
mod tests;
