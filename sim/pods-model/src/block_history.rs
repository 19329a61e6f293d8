//! An online check that the history of one block is linearisable over both arrays.
//!
//! The check keeps every *configuration* that explains the answers so far: the block's value, and
//! the outcome of each open command that has taken effect. A history is linearisable as long as one
//! configuration is left.

use crate::names::{Command, Value};
use std::collections::BTreeSet;

/// An open command that has taken effect: its id, and whether it has written.
type Outcome = (Value, bool);

/// The history of one block.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockHistory {
    open: Vec<Command>,
    /// Commands answered with an error before their fate was known, each with the newest id at that
    /// moment. They may take effect until a newer command is answered with GOOD.
    undecided: Vec<(Value, Value)>,
    configurations: BTreeSet<(Value, Vec<Outcome>)>,
}

impl BlockHistory {
    /// Returns the history of a block that holds zero.
    pub fn new() -> Self {
        BlockHistory { open: vec![], undecided: vec![], configurations: [(0, vec![])].into() }
    }

    /// Whether an order of the commands explains every answer.
    pub fn is_linearisable(&self) -> bool {
        !self.configurations.is_empty()
    }

    /// Whether no command is open.
    pub fn is_quiet(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether reading `value` excludes a configuration. Other reads need no step of their own.
    pub fn learns_from(&self, value: Value) -> bool {
        self.configurations.iter().any(|(v, _)| *v != value)
    }

    /// Whether the command has been answered with an error, undecided.
    pub fn is_undecided(&self, id: Value) -> bool {
        self.undecided.iter().any(|(undecided, _)| *undecided == id)
    }

    /// A host sends a command.
    pub fn invoke(&mut self, command: Command) {
        self.open.push(command);
        self.open.sort();
        self.close();
    }

    /// A host reads the block.
    pub fn read(&mut self, value: Value) {
        self.close();
        self.configurations.retain(|(v, _)| *v == value);
    }

    /// A host gets GOOD (`has_written`) or a miscompare.
    pub fn answer(&mut self, id: Value, has_written: bool) {
        self.forget(id, |outcome| outcome == Some(has_written));
        let (late, open): (Vec<_>, Vec<_>) = self.undecided.iter().partition(|(_, newest)| id > *newest);
        self.undecided = open;
        late.into_iter().for_each(|(id, _)| self.fail(id));
    }

    /// A host gets an error. The command has taken effect already, or never will.
    pub fn fail(&mut self, id: Value) {
        self.forget(id, |_| true);
    }

    /// A host gets an error, or gives up, while the command may still take effect. It must not do
    /// so after a command newer than `newest` has been answered with GOOD.
    pub fn fail_undecided(&mut self, id: Value, newest: Value) {
        self.undecided.push((id, newest));
    }

    /// Restarts the history with a value: a forced promotion accepts the loss of newer changes.
    pub fn reset(&mut self, value: Value) {
        *self = BlockHistory { configurations: [(value, vec![])].into(), ..BlockHistory::new() };
    }

    /// Adds every configuration that one or more open commands can reach by taking effect.
    fn close(&mut self) {
        let mut todo: Vec<_> = self.configurations.iter().cloned().collect();
        while let Some((value, done)) = todo.pop() {
            for command in self.open.iter().filter(|c| done.iter().all(|(id, _)| *id != c.id)) {
                let writes = !command.compares || value == 0;
                let mut outcomes = done.clone();
                outcomes.push((command.id, writes));
                outcomes.sort_unstable();
                let next = (if writes { command.id } else { value }, outcomes);
                if self.configurations.insert(next.clone()) {
                    todo.push(next);
                }
            }
        }
    }

    /// Ends a command: keeps the configurations whose outcome for it passes.
    fn forget(&mut self, id: Value, passes: impl Fn(Option<bool>) -> bool) {
        self.close();
        for (value, mut done) in std::mem::take(&mut self.configurations) {
            let at = done.iter().position(|(other, _)| *other == id);
            if passes(at.map(|at| done.remove(at).1)) {
                self.configurations.insert((value, done));
            }
        }
        self.open.retain(|c| c.id != id);
    }
}

impl Default for BlockHistory {
    fn default() -> Self {
        BlockHistory::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(id: Value) -> Command {
        Command { id, block: 0, compares: false }
    }

    #[test]
    fn a_read_must_see_the_last_answered_write() {
        let mut history = BlockHistory::new();
        history.invoke(write(1));
        history.answer(1, true);
        let mut stale = history.clone();
        stale.read(0);
        assert!(!stale.is_linearisable());
        history.read(1);
        assert!(history.is_linearisable());
    }

    #[test]
    fn two_compare_and_writes_cannot_both_succeed() {
        let mut history = BlockHistory::new();
        history.invoke(Command { compares: true, ..write(1) });
        history.invoke(Command { compares: true, ..write(2) });
        history.answer(1, true);
        history.answer(2, true);
        assert!(!history.is_linearisable());
    }

    #[test]
    fn a_failed_write_cannot_overwrite_a_newer_one() {
        let mut history = BlockHistory::new();
        history.invoke(write(1));
        history.fail_undecided(1, 1);
        history.invoke(write(2));
        history.answer(2, true);
        history.read(2);
        assert!(history.is_linearisable());
        history.read(1);
        assert!(!history.is_linearisable());
    }

    #[test]
    fn an_open_write_may_take_effect_at_any_time() {
        let mut history = BlockHistory::new();
        history.invoke(write(1));
        history.read(0);
        history.read(1);
        assert!(history.is_linearisable());
        history.read(0);
        assert!(!history.is_linearisable());
    }
}
