//! The check that every block is linearisable over both arrays.

use platform::simulation::{World, time};
use platform::threads::Mutex;
use pods_sim::{BlockHistory, Planned, Value};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

/// Lines of a trace, which outlive the world.
pub(crate) type Trace = Arc<std::sync::Mutex<Vec<String>>>;

struct State {
    histories: Vec<BlockHistory>,
    /// The writes whose content is zeros.
    zeros: BTreeSet<Value>,
    last: Value,
}

/// The histories of all blocks.
pub(crate) struct Oracle {
    state: Mutex<State>,
    trace: Option<Trace>,
}

impl Oracle {
    pub(crate) fn new(blocks: usize, trace: Option<Trace>) -> Self {
        let histories = vec![BlockHistory::new(); blocks];
        Self { state: Mutex::new(State { histories, zeros: [0].into(), last: 0 }), trace }
    }

    /// Notes an event, if there is a trace.
    pub(crate) fn note<T: Display>(&self, line: impl FnOnce() -> T) {
        if let Some(trace) = &self.trace
            && let Ok(mut trace) = trace.lock()
        {
            trace.push(format!("{:>10.6} {}", time().as_secs_f64(), line()));
        }
    }

    /// Returns the number of a new write. `is_zeros`: of zeros.
    pub(crate) fn next(&self, is_zeros: bool) -> Value {
        let mut state = self.state.lock();
        state.last += 1;
        let last = state.last;
        if is_zeros {
            state.zeros.insert(last);
        }
        last
    }

    /// A host sends a write; `expected`: one that compares before.
    pub(crate) fn invoke(&self, block: usize, id: Value, expected: Option<Value>) -> Planned {
        let mut state = self.state.lock();
        match expected {
            Some(expected) => state.histories[block].invoke_if(id, expected),
            None => state.histories[block].invoke(id),
        }
        state.histories[block].plan()
    }

    /// A host sends a read.
    pub(crate) fn plan(&self, block: usize) -> Planned {
        self.state.lock().histories[block].plan()
    }

    /// Returns the number of writes of a block that have no known end.
    pub(crate) fn open_writes(&self, block: usize) -> usize {
        self.state.lock().histories[block].open_writes()
    }

    /// A host has the content of a read.
    pub(crate) fn read(&self, block: usize, planned: Planned, found: Value) {
        let mut state = self.state.lock();
        let State { histories, zeros, .. } = &mut *state;
        let is_it = |value: Value| if found == 0 { zeros.contains(&value) } else { value == found };
        histories[block].read_one_of(planned, is_it);
        self.check(&state, block, &format!("{found} is read"));
    }

    /// A write is answered. `before`: earlier ones of the same host whose end it does not know;
    /// they must not take effect any more.
    pub(crate) fn answer(&self, block: usize, id: Value, before: &[Value]) {
        let mut state = self.state.lock();
        let history = &mut state.histories[block];
        before.iter().for_each(|before| history.fail(*before, id - 1));
        history.answer(id);
        self.check(&state, block, &format!("write {id} is answered"));
    }

    /// A write gets no answer any more. It may have taken effect, or may yet.
    pub(crate) fn lose(&self, block: usize, id: Value) {
        self.state.lock().histories[block].lose(id);
    }

    /// A write was refused: it has no effect.
    pub(crate) fn refuse(&self, block: usize, id: Value) {
        let mut state = self.state.lock();
        state.histories[block].refuse(id);
        self.check(&state, block, &format!("write {id} is refused"));
    }

    /// A comparison has found another content.
    pub(crate) fn differs(&self, block: usize, planned: Planned, id: Value, expected: Value) {
        let mut state = self.state.lock();
        if !state.histories[block].may_differ(planned, expected) {
            fail(&format!("block {block} is compared with {expected}, which it has, and differs"));
        }
        state.histories[block].refuse(id);
        self.check(&state, block, &format!("comparison {id} differs"));
    }

    fn check(&self, state: &State, block: usize, event: &str) {
        if !state.histories[block].is_linearisable() {
            self.note(|| format!("block {block}: {event}: no order explains it"));
            fail(&format!("block {block}: {event}, which no order of the writes explains"));
        }
    }
}

/// Ends the history with a violation.
pub(crate) fn fail(why: &str) -> ! {
    match World::current() {
        Some(world) => world.fail(why),
        None => panic!("{why}"),
    }
}
