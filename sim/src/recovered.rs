//! What an array may hold after a crash.
//!
//! Every answered operation is there. Each of the others is there wholly or not at all, and of two that overlap the later
//! one only with the earlier one. Operations that touch nothing in common are decided apart from each other, so the
//! search is over a few operations at a time. Answers that were given but could not be judged before the crash (because
//! of an earlier operation without an answer) are judged here, against each outcome that is tried: what was read before
//! the crash must not be gone after it.

use crate::history::{Entry, History, Violation, describe, is_in_pieces, is_read_only, smear, step};
use crate::state::{State, span};
use engine::{Change, Op};
use std::collections::BTreeSet;
use units::VolumeId;

/// The most unanswered operations that touch each other and can be decided.
pub const MAX_UNDECIDED: usize = 12;

/// Blocks that an operation reads or writes: (volume, from, to). The catalogue's values are a volume of their own.
type Footprint = Vec<(VolumeId, u64, u64)>;
const VALUES: VolumeId = VolumeId(u64::MAX);

/// What became of the unanswered operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How many are there.
    pub present: u64,
    /// How many are not.
    pub absent: u64,
}

impl History {
    /// Holds what was found after a crash against what may be there, and goes on from it.
    pub fn recover(&mut self, seen: &State) -> Result<Outcome, Violation> {
        let entries: Vec<Entry> = self.window.iter().cloned().collect();
        let footprints: Vec<Footprint> = entries.iter().map(|entry| footprint(&entry.op)).collect();
        let mut outcome = Outcome::default();
        let mut present = vec![true; entries.len()];
        for group in groups(&footprints) {
            let free: Vec<usize> = group.iter().copied().filter(|index| is_free(&entries[*index])).collect();
            let chosen = self.decide(&entries, &footprints, &group, &free, seen)?;
            for (bit, index) in free.iter().enumerate() {
                present[*index] = chosen & (1 << bit) != 0;
                *(if present[*index] { &mut outcome.present } else { &mut outcome.absent }) += 1;
            }
        }
        let all: Vec<usize> = (0..entries.len()).collect();
        let mut state = self.outcome(&entries, &all, |index| present[index])?;
        self.compare_all(&state, seen)?;
        self.learn_all(&mut state, seen);
        self.restart(state);
        Ok(outcome)
    }

    /// The outcome, as bits over `free`, that explains what was found in the blocks of `group`.
    fn decide(
        &mut self,
        entries: &[Entry],
        footprints: &[Footprint],
        group: &[usize],
        free: &[usize],
        seen: &State,
    ) -> Result<u32, Violation> {
        if free.len() > MAX_UNDECIDED {
            return Err(Violation::new(format!(
                "{} unanswered operations touch each other: too many to decide",
                free.len()
            )));
        }
        let touched: BTreeSet<(VolumeId, u64, u64)> =
            group.iter().flat_map(|index| footprints[*index].iter().copied()).collect();
        let mut first_reason = None;
        for chosen in candidates(free.len()) {
            if !self.leniency.full && !is_closed(chosen, free, footprints) {
                continue;
            }
            let bit =
                |index: usize| free.iter().position(|one| *one == index).is_none_or(|bit| chosen & (1 << bit) != 0);
            let verdict =
                self.outcome(entries, group, bit).and_then(|state| self.compare_touched(&state, seen, &touched));
            match verdict {
                Ok(()) => return Ok(chosen),
                Err(reason) => first_reason = Some(first_reason.unwrap_or(reason)),
            }
        }
        let tell = |index: &usize| {
            let entry = &entries[*index];
            let state = if entry.answer.is_some() { "answered" } else { "not answered" };
            format!("  {} {} ({state})", entry.tag, describe(&entry.op))
        };
        let list = group.iter().map(tell).collect::<Vec<_>>().join("\n");
        let reason = first_reason.map_or_else(String::new, |violation| violation.0);
        Err(Violation(format!(
            "after the crash, no outcome of these operations explains what is there ({reason}):\n{list}"
        )))
    }

    /// The state after the operations of `group` of which `is_present` says that they are there.
    fn outcome(
        &mut self,
        entries: &[Entry],
        group: &[usize],
        is_present: impl Fn(usize) -> bool,
    ) -> Result<State, Violation> {
        let mut state = self.base.clone();
        for index in group {
            let entry = &entries[*index];
            if entry.answer.is_some() {
                step(&mut state, &mut self.contents, entry, self.leniency)?;
            } else if is_in_pieces(&entry.op) {
                smear(&mut state, &mut self.contents, &entry.op);
            } else if !is_read_only(&entry.op) && is_present(*index) {
                // It may have been going to fail, which changes nothing.
                let _ = state.apply(&mut self.contents, &entry.op, None);
            }
        }
        Ok(state)
    }

    fn compare_touched(
        &self,
        state: &State,
        seen: &State,
        touched: &BTreeSet<(VolumeId, u64, u64)>,
    ) -> Result<(), Violation> {
        for (volume, from, to) in touched {
            if *volume == VALUES {
                compare_values(state, seen)?;
            } else {
                self.compare_volume(state, seen, *volume, *from, *to)?;
            }
        }
        Ok(())
    }

    fn compare_all(&self, state: &State, seen: &State) -> Result<(), Violation> {
        let volumes: BTreeSet<VolumeId> = state.volumes.keys().chain(seen.volumes.keys()).copied().collect();
        for volume in volumes {
            self.compare_volume(state, seen, volume, 0, u64::MAX)?;
        }
        compare_values(state, seen)
    }

    fn compare_volume(
        &self,
        state: &State,
        seen: &State,
        volume: VolumeId,
        from: u64,
        to: u64,
    ) -> Result<(), Violation> {
        let (expected, seen) = match (state.volumes.get(&volume), seen.volumes.get(&volume)) {
            (None, None) => return Ok(()),
            (Some(_), None) => return Err(Violation::new(format!("{volume} is lost"))),
            (None, Some(_)) => return Err(Violation::new(format!("{volume} should not be there"))),
            (Some(expected), Some(seen)) => (expected, seen),
        };
        if expected.blocks != seen.blocks {
            return Err(Violation::new(format!("{volume} has {} blocks, expected {}", seen.blocks, expected.blocks)));
        }
        let to = to.min(expected.blocks);
        let range = span(from.min(to), to - from.min(to));
        match expected.first_difference(seen, range, &self.contents) {
            None => Ok(()),
            Some(lba) => Err(Violation::new(format!(
                "{volume} block {lba} holds {:?}, expected {:?}",
                seen.get(lba),
                self.contents.possible(expected.get(lba))
            ))),
        }
    }

    /// What was found tells which of several contents a block has.
    fn learn_all(&self, state: &mut State, seen: &State) {
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

fn compare_values(state: &State, seen: &State) -> Result<(), Violation> {
    let keys: BTreeSet<&Vec<u8>> = state.values.keys().chain(seen.values.keys()).collect();
    for key in keys {
        let (expected, found) = (state.values.get(key), seen.values.get(key));
        if expected != found {
            let size =
                |value: Option<&Vec<u8>>| value.map_or("none".to_owned(), |value| format!("{} bytes", value.len()));
            let name = String::from_utf8_lossy(key);
            return Err(Violation::new(format!("value of {name} is {}, expected {}", size(found), size(expected))));
        }
    }
    Ok(())
}

/// An operation of which nobody knows whether it is there.
fn is_free(entry: &Entry) -> bool {
    entry.answer.is_none() && !is_read_only(&entry.op) && !is_in_pieces(&entry.op)
}

/// Outcomes in the order in which they are likely: the first so many are there, then all others.
fn candidates(count: usize) -> impl Iterator<Item = u32> {
    let is_prefix = |chosen: &u32| (chosen & (chosen + 1)) == 0;
    let prefixes = (0..=count as u32).map(|first| (1 << first) - 1);
    prefixes.chain((0..1 << count).filter(move |chosen| !is_prefix(chosen)))
}

/// True when no operation is there without an earlier one that it overlaps.
fn is_closed(chosen: u32, free: &[usize], footprints: &[Footprint]) -> bool {
    let pairs = (0..free.len()).flat_map(|later| (0..later).map(move |earlier| (earlier, later)));
    let mut open = pairs.filter(|(earlier, later)| chosen & (1 << earlier) == 0 && chosen & (1 << later) != 0);
    !open.any(|(earlier, later)| overlap(&footprints[free[earlier]], &footprints[free[later]]))
}

fn overlap(a: &Footprint, b: &Footprint) -> bool {
    a.iter().any(|(volume, from, to)| b.iter().any(|(other, start, end)| volume == other && from < end && start < to))
}

/// The operations, by index, in groups that touch nothing in common.
fn groups(footprints: &[Footprint]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for index in 0..footprints.len() {
        let touches = |group: &Vec<usize>| group.iter().any(|other| overlap(&footprints[*other], &footprints[index]));
        let (touched, apart): (Vec<_>, Vec<_>) = groups.into_iter().partition(touches);
        let mut merged: Vec<usize> = touched.concat();
        merged.push(index);
        merged.sort_unstable();
        groups = apart;
        groups.push(merged);
    }
    groups
}

fn footprint(op: &Op) -> Footprint {
    let bytes = |volume: &VolumeId, lba: u64, len: usize| vec![(*volume, lba, lba.saturating_add(len as u64 / 512))];
    match op {
        Op::Flush => Vec::new(),
        Op::Read { volume, range } | Op::WriteSame { volume, range, .. } | Op::Zero { volume, range } => {
            vec![(*volume, range.start().0, range.end().0)]
        }
        Op::Write { volume, lba, data, .. } | Op::Or { volume, lba, data, .. } | Op::Compare { volume, lba, data } => {
            bytes(volume, lba.0, data.len())
        }
        Op::CompareAndWrite { volume, lba, write, .. } => bytes(volume, lba.0, write.len()),
        Op::Unmap { volume, ranges } => ranges.iter().map(|range| (*volume, range.start().0, range.end().0)).collect(),
        Op::Copy { source, from, destination, to } => {
            vec![(*source, from.start().0, from.end().0), (*destination, to.0, to.0.saturating_add(from.blocks()))]
        }
        Op::Status { volume, lba, .. } => vec![(*volume, lba.0, u64::MAX)],
        Op::Change(changes) => changes
            .iter()
            .map(|change| match change {
                Change::CreateVolume { volume, .. }
                | Change::DeleteVolume { volume }
                | Change::ResizeVolume { volume, .. } => (*volume, 0, u64::MAX),
                Change::Put { .. } | Change::Remove { .. } => (VALUES, 0, 1),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests;
