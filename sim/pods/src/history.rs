//! An online check that the history of one block is linearisable over both arrays.
//!
//! The check keeps every *configuration* that explains the answers so far: the block's value, and
//! the open writes that have taken effect.

use std::collections::BTreeSet;

/// A value: the number of the write that made it, or 0.
pub(crate) type Value = u64;

/// A read that was planned: the state of the history at that moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    version: usize,
}

/// The history of one block.
#[derive(Clone, Debug)]
pub(crate) struct BlockHistory {
    open: Vec<Value>,
    /// Writes that ended with an error and may have taken effect, or may yet. They must not take
    /// effect once a write that began after the error is answered.
    undecided: Vec<(Value, Value)>,
    configurations: BTreeSet<(Value, Vec<Value>)>,
    /// The values that the block may have had, after each change.
    past: Vec<BTreeSet<Value>>,
}

impl BlockHistory {
    pub(crate) fn new() -> Self {
        let configurations: BTreeSet<_> = [(0, vec![])].into();
        Self { open: vec![], undecided: vec![], configurations, past: vec![[0].into()] }
    }

    /// Whether some order of the writes explains every answer.
    pub(crate) fn is_linearisable(&self) -> bool {
        !self.configurations.is_empty()
    }

    /// Returns the count of writes without an outcome.
    pub(crate) fn open_writes(&self) -> usize {
        self.open.len()
    }

    /// A host sends a write.
    pub(crate) fn invoke(&mut self, id: Value) {
        self.open.push(id);
        self.close();
        self.changed();
    }

    /// A host gets GOOD for a write.
    pub(crate) fn answer(&mut self, id: Value) {
        self.forget(id, |has_happened| has_happened);
        let (late, open): (Vec<_>, Vec<_>) = self.undecided.iter().partition(|(_, newest)| id > *newest);
        self.undecided = open;
        late.into_iter().for_each(|(id, _)| self.forget(id, |_| true));
        self.changed();
    }

    /// A write ends with an error. It has had no effect, and has none later.
    pub(crate) fn refuse(&mut self, id: Value) {
        self.forget(id, |has_happened| !has_happened);
        self.changed();
    }

    /// A write ends with an error, and may have taken effect, or may yet. `newest` is the newest
    /// write so far.
    pub(crate) fn fail(&mut self, id: Value, newest: Value) {
        self.undecided.push((id, newest));
    }

    /// A read is planned.
    pub(crate) fn plan(&self) -> Planned {
        Planned { version: self.past.len() - 1 }
    }

    /// A read that was planned is answered.
    pub(crate) fn read(&mut self, planned: Planned, value: Value) {
        if planned.version + 1 == self.past.len() {
            self.close();
            self.configurations.retain(|(current, _)| *current == value);
            self.changed();
        } else if !self.past.iter().skip(planned.version).any(|values| values.contains(&value)) {
            self.configurations.clear();
        }
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
        while let Some((_, done)) = todo.pop() {
            for id in self.open.iter().filter(|id| !done.contains(id)) {
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
}
