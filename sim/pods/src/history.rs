//! An online check that the history of one block is linearisable over both arrays.
//!
//! The check keeps every *configuration* that explains the answers so far: the block's value, and
//! the open writes that have taken effect.

use std::collections::{BTreeMap, BTreeSet};

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
        Self { open, undecided, configurations, conditions, past: vec![[0].into()] }
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

    /// Adds every configuration that open writes can reach.
    fn close(&mut self) {
        let mut todo: Vec<_> = self.configurations.iter().cloned().collect();
        while let Some((value, done)) = todo.pop() {
            let can_happen = |id: &&Value| self.conditions.get(id).is_none_or(|expected| *expected == value);
            for id in self.open.iter().filter(|id| !done.contains(id)).filter(can_happen) {
                let mut outcomes = done.clone();
                outcomes.push(*id);
                outcomes.sort_unstable();
                let next = (*id, outcomes);
                if self.configurations.insert(next.clone()) {
                    todo.push(next);
                }
            }
        }
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
