//! Limits of a volume: bytes and commands per second, over all hosts that see it.
//!
//! A command that the limits have no room for waits in the volume's [`Queue`], in the lane of its nexus. Nexuses take
//! turns by what they have had, so that a host with a deep queue does not push one with a shallow queue aside.
//!
//! COMPARE AND WRITE and transfers of one block are what clusters live by: locks and heartbeats, of which a late one
//! makes a host believe that its datastore is lost. They go before all others, and may run up to half the limits into
//! debt that the others then pay. So they wait only when they alone ask for more than half of what the volume may do.
//!
//! Time comes from outside, as what has passed since some instant of the caller's; nothing here waits or wakes.

use crate::nexus::NexusId;
use catalog::Qos;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use std::time::Duration;

/// How far ahead of its rate a volume may be: what it may do at once after it has been idle. Much shorter than what a
/// person or a benchmark sees, longer than the batches in which commands arrive.
const BURST: Duration = Duration::from_millis(20);

/// What a command costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Bytes that go over the wire. An offload moves none: that is what it is for.
    pub(crate) bytes: u64,
    /// A lock or a heartbeat.
    pub(crate) is_urgent: bool,
}

/// Names a command that waits, for as long as the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(u64);

/// What becomes of a command that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It goes at once.
    Go,
    /// It waits. `is_first`: nobody waited before, so somebody has to call [`Queue::release`] from now on.
    Wait { ticket: Ticket, is_first: bool },
}

/// One limit: so much per second. What has been admitted is due at its rate, at `due` all of it.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    rate: Option<NonZeroU64>,
    due: Duration,
}

impl Meter {
    /// The time that so much takes at the rate.
    fn time_of(&self, amount: u64) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let nanoseconds = u128::from(amount) * 1_000_000_000 / u128::from(rate.get());
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    fn charge(&mut self, now: Duration, amount: u64) {
        if self.rate.is_some() {
            self.due = self.due.max(now).saturating_add(self.time_of(amount));
        }
    }

    /// When the next command may go.
    fn opens(&self) -> Duration {
        if self.rate.is_some() { self.due.saturating_sub(BURST) } else { Duration::ZERO }
    }

    /// Goes on with another rate. What is due already is due in proportion: a debt of a slow past does not hold up a
    /// fast future.
    fn set(&mut self, now: Duration, rate: Option<NonZeroU64>) {
        let debt = self.due.saturating_sub(now).as_nanos();
        let (old, new) = (self.rate.map_or(0, NonZeroU64::get), rate.map_or(u64::MAX, NonZeroU64::get));
        let debt = debt.saturating_mul(u128::from(old)) / u128::from(new);
        self.due = now.saturating_add(Duration::from_nanos(u64::try_from(debt).unwrap_or(u64::MAX)));
        self.rate = rate;
    }
}

/// The two limits together.
#[derive(Clone, Copy, Debug, Default)]
struct Meters {
    commands: Meter,
    bytes: Meter,
}

impl Meters {
    fn charge(&mut self, now: Duration, cost: Cost) {
        self.commands.charge(now, 1);
        self.bytes.charge(now, cost.bytes);
    }

    fn opens(&self) -> Duration {
        self.commands.opens().max(self.bytes.opens())
    }

    /// What a command costs of the volume's time: by whichever limit it uses more.
    fn time_of(&self, cost: Cost) -> Duration {
        self.commands.time_of(1).max(self.bytes.time_of(cost.bytes))
    }

    fn set(&mut self, now: Duration, commands: Option<NonZeroU64>, bytes: Option<NonZeroU64>) {
        self.commands.set(now, commands);
        self.bytes.set(now, bytes);
    }
}

/// The commands of one nexus that wait, in their order.
#[derive(Debug)]
struct Line<T> {
    /// What the nexus has had of the volume's time, on the clock of its lane.
    had: Duration,
    commands: VecDeque<(Ticket, Cost, T)>,
}

/// Commands of one urgency that wait. The nexus that has had least goes next (start-time fair queueing).
#[derive(Debug)]
struct Lane<T> {
    lines: BTreeMap<NexusId, Line<T>>,
    /// What the nexus that went last had had. One that comes starts here: having been away saves nothing up.
    clock: Duration,
}

impl<T> Lane<T> {
    const fn new() -> Self {
        Self { lines: BTreeMap::new(), clock: Duration::ZERO }
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn push(&mut self, nexus: NexusId, ticket: Ticket, cost: Cost, command: T) {
        let clock = self.clock;
        let line = self.lines.entry(nexus).or_insert_with(|| Line { had: clock, commands: VecDeque::new() });
        line.commands.push_back((ticket, cost, command));
    }

    /// Takes the next command; `time_of` says what it costs.
    fn pop(&mut self, time_of: impl Fn(Cost) -> Duration) -> Option<(Ticket, Cost, T)> {
        let nexus = *self.lines.iter().min_by_key(|(_, line)| line.had)?.0;
        let line = self.lines.get_mut(&nexus)?;
        let next = line.commands.pop_front()?;
        self.clock = line.had;
        line.had = line.had.saturating_add(time_of(next.1));
        if line.commands.is_empty() {
            self.lines.remove(&nexus);
        }
        Some(next)
    }

    fn cancel(&mut self, nexus: NexusId, ticket: Ticket) -> bool {
        let Some(line) = self.lines.get_mut(&nexus) else { return false };
        let Some(at) = line.commands.iter().position(|(waiting, ..)| *waiting == ticket) else { return false };
        line.commands.remove(at);
        if line.commands.is_empty() {
            self.lines.remove(&nexus);
        }
        true
    }
}

/// The commands of a volume, under its limits. `T` is what the caller finds a command again by.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    all: Meters,
    /// Of the urgent commands alone: half of the limits.
    urgent: Meters,
    urgent_lane: Lane<T>,
    lane: Lane<T>,
    next_ticket: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let (all, urgent) = (Meters::default(), Meters::default());
        Self { all, urgent, urgent_lane: Lane::new(), lane: Lane::new(), next_ticket: 0 }
    }
}

impl<T> Queue<T> {
    /// Sets the limits; what waits goes on under the new ones from the next [`release`](Self::release) on.
    pub(crate) fn set(&mut self, now: Duration, qos: Qos) {
        let rate = |limit: Option<u64>| limit.map(|limit| NonZeroU64::new(limit).unwrap_or(NonZeroU64::MIN));
        let half = |limit: Option<u64>| rate(limit.map(|limit| limit / 2));
        self.all.set(now, rate(qos.iops_limit), rate(qos.bandwidth_limit));
        self.urgent.set(now, half(qos.iops_limit), half(qos.bandwidth_limit));
    }

    /// Nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.urgent_lane.is_empty() && self.lane.is_empty()
    }

    /// A command arrives. Where it has to wait, `command` is given back by [`release`](Self::release) when it may go.
    pub(crate) fn ask(&mut self, now: Duration, nexus: NexusId, cost: Cost, command: T) -> Admission {
        let is_alone = self.urgent_lane.is_empty() && (cost.is_urgent || self.lane.is_empty());
        if is_alone && self.opens(cost.is_urgent) <= now {
            self.charge(now, cost);
            return Admission::Go;
        }
        let is_first = self.is_empty();
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let lane = if cost.is_urgent { &mut self.urgent_lane } else { &mut self.lane };
        lane.push(nexus, ticket, cost, command);
        Admission::Wait { ticket, is_first }
    }

    /// Lets go what may go by now, in its order. Answers when to call again; `None` when nothing waits any more.
    pub(crate) fn release(&mut self, now: Duration, admitted: &mut Vec<(Ticket, T)>) -> Option<Duration> {
        loop {
            let lane = if !self.urgent_lane.is_empty() && self.opens(true) <= now {
                &mut self.urgent_lane
            } else if !self.lane.is_empty() && self.opens(false) <= now {
                &mut self.lane
            } else {
                break;
            };
            let all = self.all;
            let Some((ticket, cost, command)) = lane.pop(|cost| all.time_of(cost)) else { break };
            self.charge(now, cost);
            admitted.push((ticket, command));
        }
        let urgent = (!self.urgent_lane.is_empty()).then(|| self.opens(true));
        let other = (!self.lane.is_empty()).then(|| self.opens(false));
        urgent.into_iter().chain(other).min()
    }

    /// A command waits no longer: it was aborted. False when it has gone already.
    pub(crate) fn cancel(&mut self, nexus: NexusId, ticket: Ticket) -> bool {
        self.urgent_lane.cancel(nexus, ticket) || self.lane.cancel(nexus, ticket)
    }

    /// When the next command of that urgency may go. Urgent ones that keep others waiting have their half and no more.
    fn opens(&self, is_urgent: bool) -> Duration {
        match (is_urgent, self.lane.is_empty()) {
            (false, _) => self.all.opens(),
            (true, true) => self.all.opens().min(self.urgent.opens()),
            (true, false) => self.urgent.opens(),
        }
    }

    fn charge(&mut self, now: Duration, cost: Cost) {
        self.all.charge(now, cost);
        if cost.is_urgent {
            self.urgent.charge(now, cost);
        }
    }
}

#[cfg(test)]
mod tests;
