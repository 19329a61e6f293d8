//! The log and the stream of one array, in memory, with the contract of the engine's
//! `StreamService`: a crash loses the end that is not flushed, a period begins only when the
//! engine would begin one, and deltas change with the records.

use crate::bug::SimBug;
use crate::history::Value;
use pod::{BeginPeriod, Facts, Note, Role, Stored, StreamDelta, StreamGate, StreamRole};
use testing::Rng;
use types::{Period, Position, RequestId};

/// Blocks of the pod.
pub(crate) const BLOCKS: usize = 10;
/// All blocks.
pub(crate) const ALL: u32 = (1 << BLOCKS) - 1;

/// A record of the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) period: Period,
    pub(crate) position: Position,
    pub(crate) change: Change,
    /// The forwarded write that it carries out.
    pub(crate) request: Option<RequestId>,
}

/// The content of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// A block gets a value.
    Block(usize, Value),
    /// A note.
    Note(Note),
}

/// The content of the log, up to one of its records.
#[derive(Clone, Debug)]
struct Image {
    stored: Stored,
    generation: u64,
    values: [Value; BLOCKS],
    delta: u32,
    tail: Vec<(Period, Position, usize)>,
    period: Period,
    position: Position,
    heard: Position,
    base: (Period, Position),
    /// Number of the record of the log.
    number: u64,
    /// Follower periods begun before, and the last position then.
    begin: u64,
    last: Position,
}

/// The open stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) role: StreamRole,
    pub(crate) gate: StreamGate,
    pub(crate) delta: StreamDelta,
}

/// The log and the stream of one array.
#[derive(Debug)]
pub(crate) struct Log {
    memory: Image,
    durable: Image,
    /// The durable image before the last flush.
    previous: Image,
    unflushed: Vec<Image>,
    pub(crate) open: Option<Open>,
    pub(crate) period: Period,
    pub(crate) last: Position,
    pub(crate) durable_to: Position,
    pub(crate) heard: Position,
    pub(crate) awaits_tail: bool,
    pub(crate) is_hurt: bool,
}

impl Log {
    pub(crate) fn new(stored: Stored, delta: u32) -> Self {
        let image = Image {
            stored,
            generation: 0,
            values: [0; BLOCKS],
            delta,
            tail: vec![],
            period: Period(0),
            position: Position(0),
            heard: Position(0),
            base: (Period(0), Position(0)),
            number: 0,
            begin: 0,
            last: Position(0),
        };
        Self {
            memory: image.clone(),
            durable: image.clone(),
            previous: image,
            unflushed: vec![],
            open: None,
            period: Period(0),
            last: Position(0),
            durable_to: Position(0),
            heard: Position(0),
            awaits_tail: false,
            is_hurt: false,
        }
    }

    pub(crate) fn stored(&self) -> &Stored {
        &self.memory.stored
    }

    pub(crate) fn values(&self) -> &[Value; BLOCKS] {
        &self.memory.values
    }

    pub(crate) fn value(&self, block: usize) -> Value {
        self.memory.values.get(block).copied().unwrap_or_default()
    }

    pub(crate) fn delta(&self) -> u32 {
        self.memory.delta
    }

    /// The delta and the tail: what the peer may lack, or has otherwise.
    pub(crate) fn mask(&self) -> u32 {
        self.memory.tail.iter().fold(self.memory.delta, |mask, (_, _, block)| mask | 1 << block)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.unflushed.is_empty()
    }

    /// Returns the number of the last record of the log.
    pub(crate) fn number(&self) -> u64 {
        self.memory.number
    }

    pub(crate) fn facts(&self, is_still: bool) -> Facts {
        Facts {
            period: self.period,
            position: self.last,
            durable: self.durable_to,
            base: self.memory.base,
            is_delta_empty: self.memory.delta == 0,
            awaits_tail: self.awaits_tail,
            is_still,
            is_hurt: self.is_hurt,
            max_payload: 1 << 20,
            is_peer_full: false,
        }
    }

    fn append(&mut self) {
        self.memory.number += 1;
        self.memory.heard = self.heard.min(self.last);
        self.memory.last = self.last;
        self.unflushed.push(self.memory.clone());
    }

    pub(crate) fn store(&mut self, generation: u64, stored: Stored) {
        (self.memory.stored, self.memory.generation) = (stored, generation);
        self.append();
    }

    /// Logs a record of the stream, and a state with it. As sequencer, `position` is the next one.
    pub(crate) fn record(&mut self, record: Record, state: Option<(u64, Stored)>) {
        self.last = record.position;
        (self.memory.period, self.memory.position) = (record.period, record.position);
        if let Change::Block(block, value) = record.change
            && let Some(held) = self.memory.values.get_mut(block)
        {
            *held = value;
            let delta = self.open.map_or(StreamDelta::Off, |open| open.delta);
            match delta {
                StreamDelta::Alone => self.memory.delta |= 1 << block,
                StreamDelta::Source => self.memory.delta &= !(1 << block),
                StreamDelta::Off => {}
            }
            if delta != StreamDelta::Alone {
                self.memory.tail.push((record.period, record.position, block));
            }
        }
        if let Some((generation, stored)) = state {
            (self.memory.stored, self.memory.generation) = (stored, generation);
        }
        self.append();
    }

    /// Begins a flush. Returns the number of images that it makes durable.
    pub(crate) fn begin_flush(&self) -> usize {
        self.unflushed.len()
    }

    /// A flush of `count` images is done. Returns the newest generation of a state that is durable.
    pub(crate) fn flushed(&mut self, count: usize) -> u64 {
        if let Some(image) = self.unflushed.drain(..count.min(self.unflushed.len())).next_back() {
            self.previous = std::mem::replace(&mut self.durable, image);
        }
        if self.durable.begin == self.memory.begin {
            self.durable_to = self.durable_to.max(self.durable.last);
        }
        self.durable.generation
    }

    pub(crate) fn durable_number(&self) -> u64 {
        self.durable.number
    }

    /// The process ends. A part of the end that was not flushed may survive.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        let kept = rng.index(self.unflushed.len() + 1);
        self.flushed(kept);
        self.reopen();
    }

    /// The process ends, and the last flush is lost. False if the state does not allow it: an owner
    /// with a damaged log is refused.
    pub(crate) fn damage(&mut self) -> bool {
        let is_damageable = |role: Role| matches!(role, Role::Sync | Role::Target | Role::Lost);
        let may = is_damageable(self.durable.stored.role) && is_damageable(self.previous.stored.role);
        if may {
            self.durable = self.previous.clone();
            self.is_hurt = true;
        }
        may
    }

    fn reopen(&mut self) {
        self.unflushed.clear();
        self.durable.generation = 0;
        self.memory = self.durable.clone();
        self.memory.begin += 1;
        self.durable.begin = self.memory.begin;
        (self.period, self.last, self.durable_to) = (self.memory.period, self.memory.position, self.memory.position);
        self.durable.last = self.last;
        (self.heard, self.open, self.awaits_tail) = (self.memory.heard, None, false);
    }

    pub(crate) fn reopen_after_damage(&mut self) {
        self.reopen();
    }

    /// Begins a period, with the checks of the engine.
    pub(crate) fn begin(&mut self, new: &BeginPeriod) -> Result<Position, &'static str> {
        let last = new.last.unwrap_or(self.last);
        let continues =
            self.open.is_some_and(|open| open.role == StreamRole::Sequencer) && is_alone(new.role, new.gate);
        let is_copy = (new.role, new.gate) == (StreamRole::Follower, StreamGate::Local);
        let is_both = new.gate == StreamGate::Both;
        let may_have_delta = new.delta != StreamDelta::Off || is_copy;
        let refusals = [
            (new.period <= self.period, "the period is not a later one"),
            (self.open.is_some() && !continues, "the period before is not closed"),
            (self.open.is_none() && self.durable_to < self.last, "records of the period before are not durable"),
            (!may_have_delta && self.memory.delta != 0, "a delta is not empty"),
            (self.is_hurt && !is_copy, "the log was damaged"),
            (new.role == StreamRole::Sequencer && last != self.last, "the last position is another one"),
            (is_both && (last != self.last || self.heard < self.last), "the peer has not reported the last record"),
            (is_both && !self.memory.tail.is_empty(), "the peer may lack changes"),
        ];
        if let Some((_, reason)) = refusals.iter().find(|(is_refused, _)| *is_refused) {
            return Err(reason);
        }
        self.period = new.period;
        self.open = Some(Open { role: new.role, gate: new.gate, delta: new.delta });
        self.awaits_tail = new.delta != StreamDelta::Off && !self.memory.tail.is_empty();
        if new.role == StreamRole::Follower {
            self.memory.begin += 1;
            (self.last, self.durable_to) = (last, last);
        }
        self.heard = self.heard.min(self.last);
        Ok(last)
    }

    pub(crate) fn close(&mut self) {
        (self.open, self.awaits_tail) = (None, false);
    }

    /// The peer has reported a position.
    pub(crate) fn heard(&mut self, period: Period, position: Position) -> Result<(), &'static str> {
        let Some(open) = self.open.filter(|_| period == self.period) else { return Ok(()) };
        if position > self.last && open.role == StreamRole::Sequencer {
            return Err("the peer reports a position that no record has");
        }
        if position >= self.heard {
            self.heard = position;
            self.memory.base = (period, position);
            self.memory.tail.retain(|(of, at, _)| *of != period || *at > position);
        }
        Ok(())
    }

    /// Both hold the same.
    pub(crate) fn settle(&mut self) -> Result<(), &'static str> {
        if self.memory.delta != 0 {
            return Err("a delta is not empty");
        }
        if self.heard < self.last || self.durable_to < self.last {
            return Err("the last record is not durable on both sides");
        }
        self.memory.tail.clear();
        self.is_hurt = false;
        self.append();
        Ok(())
    }

    pub(crate) fn clear_deltas(&mut self) {
        self.memory.delta = 0;
        self.append();
    }

    /// Adds the tail to the deltas.
    pub(crate) fn add_tail(&mut self, bug: Option<SimBug>) {
        if bug != Some(SimBug::TailNotInDelta) {
            self.memory.delta = self.mask();
        }
        self.memory.tail.clear();
        self.awaits_tail = false;
        self.append();
    }

    /// Adds blocks to the deltas.
    pub(crate) fn add(&mut self, blocks: u32) {
        self.memory.delta |= blocks;
        self.append();
    }

    /// Returns the position up to which changes are committed.
    pub(crate) fn committed(&self) -> Option<Position> {
        self.open.map(|open| match open.gate {
            StreamGate::Both => self.durable_to.min(self.heard),
            StreamGate::Local => self.durable_to,
        })
    }
}

fn is_alone(role: StreamRole, gate: StreamGate) -> bool {
    (role, gate) == (StreamRole::Sequencer, StreamGate::Local)
}
