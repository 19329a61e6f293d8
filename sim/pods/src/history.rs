//! An online check that the history of one block is linearisable over both arrays.
//!
//! The check keeps the *configurations* that explain the answers so far: the block's value, and the
//! open writes that have taken effect. It leaves one out if another has the same value, and fewer
//! of the writes that get no answer: these may still take effect there, and need not. Without this
//! rule, each such write doubles their number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A value: the number of the write that made it, or 0.
pub type Value = u64;

/// A read that was planned: the state of the history at that moment.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    version: usize,
}

/// The history of one block.
#[derive(Clone, Debug)]
pub struct BlockHistory {
    open: Vec<Value>,
    /// Writes that ended with an error and may have taken effect, or may yet. They must not take
    /// effect once a write that began after the error is answered.
    undecided: Vec<(Value, Value)>,
    /// Open writes that get no answer any more: nothing will show that they have taken effect, or
    /// have not.
    unanswered: BTreeSet<Value>,
    configurations: BTreeSet<(Value, Vec<Value>)>,
    /// Writes that take effect only on this value.
    conditions: BTreeMap<Value, Value>,
    /// The values that the block may have had, after each change.
    past: Vec<BTreeSet<Value>>,
}

impl BlockHistory {
    /// Creates the history of a block that was never written.
    pub fn new() -> Self {
        let configurations: BTreeSet<_> = [(0, vec![])].into();
        let (open, undecided, conditions) = (vec![], vec![], BTreeMap::new());
        let (unanswered, past) = (BTreeSet::new(), vec![[0].into()]);
        Self { open, undecided, unanswered, configurations, conditions, past }
    }

    /// Whether some order of the writes explains every answer.
    pub fn is_linearisable(&self) -> bool {
        !self.configurations.is_empty()
    }

    /// Returns the count of writes without an outcome.
    pub fn open_writes(&self) -> usize {
        self.open.len()
    }

    /// A host sends a write.
    pub fn invoke(&mut self, id: Value) {
        self.open.push(id);
        self.close();
        self.changed();
    }

    /// A host sends a comparison that writes if the block has a value.
    pub fn invoke_if(&mut self, id: Value, expected: Value) {
        self.conditions.insert(id, expected);
        self.invoke(id);
    }

    /// A host gets GOOD for a write.
    pub fn answer(&mut self, id: Value) {
        self.forget(id, |has_happened| has_happened);
        let (late, open): (Vec<_>, Vec<_>) = self.undecided.iter().partition(|(_, newest)| id > *newest);
        self.undecided = open;
        late.into_iter().for_each(|(id, _)| self.forget(id, |_| true));
        self.changed();
    }

    /// A write ends with an error. It has had no effect, and has none later.
    pub fn refuse(&mut self, id: Value) {
        self.forget(id, |has_happened| !has_happened);
        self.changed();
    }

    /// A write ends with an error, and may have taken effect, or may yet. `newest` is the newest
    /// write so far.
    pub fn fail(&mut self, id: Value, newest: Value) {
        self.undecided.push((id, newest));
        self.lose(id);
    }

    /// A write gets no answer any more. It may have taken effect, or may yet.
    pub fn lose(&mut self, id: Value) {
        self.unanswered.insert(id);
        self.leave_out();
    }

    /// A read is planned.
    pub fn plan(&self) -> Planned {
        Planned { version: self.past.len() - 1 }
    }

    /// A read that was planned is answered.
    pub fn read(&mut self, planned: Planned, value: Value) {
        self.read_one_of(planned, |read| read == value);
    }

    /// A read that was planned is answered with the content of several writes.
    pub fn read_one_of(&mut self, planned: Planned, is_it: impl Fn(Value) -> bool) {
        if planned.version + 1 == self.past.len() {
            self.close();
            self.configurations.retain(|(current, _)| is_it(*current));
            self.changed();
        } else if !self.past.iter().skip(planned.version).flatten().any(|value| is_it(*value)) {
            self.configurations.clear();
        }
    }

    /// Whether the block may have had another value at some time since a moment.
    pub fn may_differ(&self, planned: Planned, value: Value) -> bool {
        self.past.iter().skip(planned.version).flatten().any(|past| *past != value)
    }

    /// Notes the values that the block may have from now on: an open write may take effect at any
    /// time.
    fn changed(&mut self) {
        self.close();
        let values = self.configurations.iter().map(|(value, _)| *value).collect();
        self.past.push(values);
    }

    /// Adds the configurations that open writes can reach: those with few writes first, which may
    /// make others needless.
    fn close(&mut self) {
        let mut todo: VecDeque<_> = self.configurations.iter().cloned().collect();
        while let Some((value, done)) = todo.pop_front() {
            let can_happen = |id: &&Value| self.conditions.get(id).is_none_or(|expected| *expected == value);
            for id in self.open.iter().filter(|id| !done.contains(id)).filter(can_happen) {
                let mut outcomes = done.clone();
                outcomes.push(*id);
                outcomes.sort_unstable();
                let next = (*id, outcomes);
                if !self.is_needless(&next) && self.configurations.insert(next.clone()) {
                    todo.push_back(next);
                }
            }
        }
        self.leave_out();
    }

    /// Whether another configuration with the same value allows all that this one allows.
    fn is_needless(&self, (value, done): &(Value, Vec<Value>)) -> bool {
        let same = self.configurations.range((*value, vec![])..(*value + 1, vec![])).map(|(_, other)| other);
        let is_less = |other: &&Vec<Value>| other.len() < done.len() && other.iter().all(|id| done.contains(id));
        same.filter(is_less).any(|other| done.iter().all(|id| other.contains(id) || self.unanswered.contains(id)))
    }

    fn leave_out(&mut self) {
        let needless: Vec<_> = self.configurations.iter().filter(|one| self.is_needless(one)).cloned().collect();
        needless.iter().for_each(|one| {
            self.configurations.remove(one);
        });
    }

    /// Ends a write: keeps the configurations that pass.
    fn forget(&mut self, id: Value, passes: impl Fn(bool) -> bool) {
        self.close();
        for (value, mut done) in std::mem::take(&mut self.configurations) {
            let at = done.iter().position(|other| *other == id);
            if passes(at.map(|at| done.remove(at)).is_some()) {
                self.configurations.insert((value, done));
            }
        }
        self.open.retain(|other| *other != id);
        self.undecided.retain(|(other, _)| *other != id);
        self.unanswered.remove(&id);
        self.conditions.remove(&id);
    }
}

impl Default for BlockHistory {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_sees_the_last_answered_write() {
        let mut history = BlockHistory::new();
        history.invoke(1);
        history.answer(1);
        let mut stale = history.clone();
        stale.read(stale.plan(), 0);
        assert!(!stale.is_linearisable());
        history.read(history.plan(), 1);
        assert!(history.is_linearisable());
    }

    #[test]
    fn a_read_may_see_what_was_while_it_ran() {
        let mut history = BlockHistory::new();
        let before = history.plan();
        history.invoke(1);
        history.answer(1);
        let after = history.plan();
        history.invoke(2);
        history.answer(2);
        history.read(before, 0);
        history.read(after, 1);
        assert!(history.is_linearisable());
        history.read(after, 0);
        assert!(!history.is_linearisable());
    }

    #[test]
    fn a_failed_write_is_dead_after_a_newer_one() {
        let mut history = BlockHistory::new();
        history.invoke(1);
        history.fail(1, 1);
        history.invoke(2);
        history.answer(2);
        let plan = history.plan();
        history.read(plan, 2);
        history.read(history.plan(), 1);
        assert!(!history.is_linearisable());
    }

    #[test]
    fn an_open_write_may_be_seen_after_an_older_read() {
        let mut history = BlockHistory::new();
        history.invoke(1);
        history.read(history.plan(), 0);
        let plan = history.plan();
        history.read(plan, 0);
        history.read(plan, 1);
        assert!(history.is_linearisable());
    }

    #[test]
    fn writes_without_an_answer_take_effect_once() {
        let mut history = BlockHistory::new();
        for id in 1..=40 {
            history.invoke(id);
            history.lose(id);
        }
        assert_eq!(history.configurations.len(), 41, "one for each value");
        let read = |history: &mut BlockHistory, value| {
            history.read(history.plan(), value);
            history.is_linearisable()
        };
        assert!([17, 40, 3].iter().all(|value| read(&mut history, *value)));
        let mut other = history.clone();
        assert!(!read(&mut other, 17), "it was read before another value");
        assert!(read(&mut history, 5));
        (1..=40).for_each(|id| history.fail(id, 40));
        history.invoke(41);
        history.answer(41);
        assert!(read(&mut history, 41) && !read(&mut history, 6), "all are older than an answered one");
    }

    #[test]
    fn what_is_left_out_changes_no_verdict() {
        let mut ends = [0; 2];
        for seed in 0..2000 {
            let mut rng = testing::Rng::new(seed);
            // The second one does not hear of lost writes, so it leaves nothing out.
            let mut pair = [BlockHistory::new(), BlockHistory::new()];
            let (mut last, mut running, mut lost) = (0, vec![], vec![]);
            for _ in 0..40 {
                let of = |list: &mut Vec<Value>, rng: &mut testing::Rng| list.remove(rng.index(list.len()));
                match rng.below(8) {
                    0..=2 if running.len() + lost.len() < 6 => {
                        last += 1;
                        running.push(last);
                        let (is_comparison, expected) = (rng.percent(30), rng.below(last));
                        pair.iter_mut().for_each(|history| match is_comparison {
                            true => history.invoke_if(last, expected),
                            false => history.invoke(last),
                        });
                    }
                    3 if !running.is_empty() => {
                        let id = of(&mut running, &mut rng);
                        pair.iter_mut().for_each(|history| history.answer(id));
                    }
                    4 if !running.is_empty() => {
                        let id = of(&mut running, &mut rng);
                        pair.iter_mut().for_each(|history| history.refuse(id));
                    }
                    5 if !running.is_empty() => {
                        let id = of(&mut running, &mut rng);
                        lost.push(id);
                        pair[0].lose(id);
                    }
                    6 if !lost.is_empty() => {
                        let id = of(&mut lost, &mut rng);
                        pair[0].fail(id, last);
                        pair[1].undecided.push((id, last));
                    }
                    _ => {
                        // Mostly a value that it may have.
                        let known: Vec<Value> = pair[1].past.last().into_iter().flatten().copied().collect();
                        let value =
                            if rng.percent(90) && !known.is_empty() { rng.pick(&known) } else { rng.below(last + 1) };
                        pair.iter_mut().for_each(|history| history.read(history.plan(), value));
                    }
                }
                let [less, all] = &pair;
                assert_eq!(less.is_linearisable(), all.is_linearisable(), "seed {seed}");
                assert_eq!(less.past.last(), all.past.last(), "seed {seed}");
                assert!(less.configurations.is_subset(&all.configurations), "seed {seed}");
            }
            ends[usize::from(pair[0].is_linearisable())] += 1;
        }
        assert!(ends.iter().all(|count| *count > 200), "{ends:?}");
    }

    #[test]
    fn answered_writes_are_not_left_out() {
        let mut history = BlockHistory::new();
        history.invoke(1);
        history.invoke(2);
        history.lose(1);
        history.answer(2);
        let mut other = history.clone();
        history.read(history.plan(), 1);
        assert!(history.is_linearisable());
        other.read(other.plan(), 0);
        assert!(!other.is_linearisable(), "the answered write has taken effect");
    }

    #[test]
    fn a_refused_write_has_no_effect() {
        let mut history = BlockHistory::new();
        history.invoke(1);
        history.refuse(1);
        history.read(history.plan(), 1);
        assert!(!history.is_linearisable());
    }

    #[test]
    fn a_comparison_writes_on_its_value_only() {
        let mut history = BlockHistory::new();
        history.invoke_if(1, 7);
        let plan = history.plan();
        assert!(history.may_differ(plan, 7) && !history.may_differ(plan, 0));
        let mut other = history.clone();
        other.answer(1);
        assert!(!other.is_linearisable(), "the block has another value");
        history.invoke(7);
        history.read(history.plan(), 1);
        assert!(history.is_linearisable());
        history.answer(7);
        history.answer(1);
        history.read_one_of(history.plan(), |value| value < 3);
        assert!(history.is_linearisable());
        history.read_one_of(history.plan(), |value| value > 3);
        assert!(!history.is_linearisable());
    }
}
