//! QoS scheduler of a volume or of a volume group: limits of bytes and commands per second, over
//! all hosts.
//!
//! A command above the limits waits in a [`Queue`]. Flows are served by the time under the limits
//! that they have used, so a host with a deep queue does not delay one with a shallow queue, and a
//! busy volume of a group does not delay the others.
//!
//! COMPARE AND WRITE and single-block transfers are urgent: they are the locks and heartbeats of
//! clusters, and a late heartbeat makes a host consider its datastore lost. Urgent commands go
//! first and may exceed the limits by up to half; the other commands pay for that later. Urgent
//! commands therefore wait only if they alone need more than half of the limits.
//!
//! The caller passes the time, as a duration since an origin of its choice. Nothing here blocks,
//! sleeps or wakes a task.

use crate::nexus::ids::{Flow, Ticket};
use catalog::Qos;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use std::time::Duration;

/// Burst after idle time: commands may run ahead of the rate by this much. A burst is too short to
/// affect a benchmark, but longer than a batch of commands.
const BURST: Duration = Duration::from_millis(20);

/// Cost of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Bytes that the array reads, compares or stores for the command.
    pub(crate) bytes: u64,
    /// True for a lock or a heartbeat.
    pub(crate) is_urgent: bool,
}

/// Answer to [`Queue::request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The command may start now.
    Go,
    /// The command waits. `is_first` is true if the queue was empty; the caller must then begin to
    /// call [`Queue::release`].
    Wait { ticket: Ticket, is_first: bool },
}

/// One limit, as a rate per second. At `due`, the rate has paid for everything admitted so far.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    rate: Option<NonZeroU64>,
    due: Duration,
}

impl Meter {
    /// Returns the time that `amount` takes at the rate.
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

    /// Returns when the next command may start.
    fn opens(&self) -> Duration {
        if self.rate.is_some() { self.due.saturating_sub(BURST) } else { Duration::ZERO }
    }

    /// Changes the rate. The outstanding debt is scaled with it, so that debt from a low rate does
    /// not delay commands under a high rate.
    fn set(&mut self, now: Duration, rate: Option<NonZeroU64>) {
        let debt = self.due.saturating_sub(now).as_nanos();
        let (old, new) = (self.rate.map_or(0, NonZeroU64::get), rate.map_or(u64::MAX, NonZeroU64::get));
        let debt = debt.saturating_mul(u128::from(old)) / u128::from(new);
        self.due = now.saturating_add(Duration::from_nanos(u64::try_from(debt).unwrap_or(u64::MAX)));
        self.rate = rate;
    }
}

/// Both limits.
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

    /// Returns the time that a command uses: the longer of its times under the two limits.
    fn time_of(&self, cost: Cost) -> Duration {
        self.commands.time_of(1).max(self.bytes.time_of(cost.bytes))
    }

    fn set(&mut self, now: Duration, commands: Option<NonZeroU64>, bytes: Option<NonZeroU64>) {
        self.commands.set(now, commands);
        self.bytes.set(now, bytes);
    }
}

/// The waiting commands of one flow, in order of arrival.
#[derive(Debug)]
struct Line<T> {
    /// The time that the flow has used, on the clock of its lane.
    used: Duration,
    commands: VecDeque<(Ticket, Cost, T)>,
}

/// The waiting commands of one urgency. The flow that has used the least time is served next
/// (start-time fair queueing).
#[derive(Debug)]
struct Lane<T> {
    lines: BTreeMap<Flow, Line<T>>,
    /// The used time of the flow that was served last. A flow that arrives starts at this value,
    /// so idle time earns no credit.
    clock: Duration,
}

impl<T> Lane<T> {
    const fn new() -> Self {
        Self { lines: BTreeMap::new(), clock: Duration::ZERO }
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn push(&mut self, flow: Flow, ticket: Ticket, cost: Cost, command: T) {
        let clock = self.clock;
        let line = self.lines.entry(flow).or_insert_with(|| Line { used: clock, commands: VecDeque::new() });
        line.commands.push_back((ticket, cost, command));
    }

    /// Takes the next command. `time_of` returns the time of a cost under the limits.
    fn pop(&mut self, time_of: impl Fn(Cost) -> Duration) -> Option<(Ticket, Cost, T)> {
        let flow = *self.lines.iter().min_by_key(|(_, line)| line.used)?.0;
        let line = self.lines.get_mut(&flow)?;
        let next = line.commands.pop_front()?;
        self.clock = line.used;
        line.used = line.used.saturating_add(time_of(next.1));
        if line.commands.is_empty() {
            self.lines.remove(&flow);
        }
        Some(next)
    }

    fn cancel(&mut self, flow: Flow, ticket: Ticket) -> bool {
        let Some(line) = self.lines.get_mut(&flow) else { return false };
        let Some(at) = line.commands.iter().position(|(waiting, ..)| *waiting == ticket) else { return false };
        line.commands.remove(at);
        if line.commands.is_empty() {
            self.lines.remove(&flow);
        }
        true
    }
}

/// The throttled commands of a volume or of a volume group. `T` identifies a command to the caller.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    all: Meters,
    /// Half of the limits, charged for urgent commands only.
    urgent: Meters,
    urgent_lane: Lane<T>,
    lane: Lane<T>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let (all, urgent) = (Meters::default(), Meters::default());
        Self { all, urgent, urgent_lane: Lane::new(), lane: Lane::new() }
    }
}

impl<T> Queue<T> {
    /// Sets the limits. The next [`release`](Self::release) applies them to waiting commands.
    pub(crate) fn set(&mut self, now: Duration, qos: Qos) {
        let rate = |limit: Option<u64>| limit.map(|limit| NonZeroU64::new(limit).unwrap_or(NonZeroU64::MIN));
        let half = |limit: Option<u64>| rate(limit.map(|limit| limit / 2));
        self.all.set(now, rate(qos.iops_limit), rate(qos.bandwidth_limit));
        self.urgent.set(now, half(qos.iops_limit), half(qos.bandwidth_limit));
    }

    /// Returns true if no command waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.urgent_lane.is_empty() && self.lane.is_empty()
    }

    /// Requests to start a command. If it has to wait, [`release`](Self::release) returns `command`
    /// once it may start.
    pub(crate) fn request(&mut self, now: Duration, flow: Flow, cost: Cost, command: T) -> Admission {
        let is_alone = self.urgent_lane.is_empty() && (cost.is_urgent || self.lane.is_empty());
        if is_alone && self.opens(cost.is_urgent) <= now {
            self.charge(now, cost);
            return Admission::Go;
        }
        let is_first = self.is_empty();
        let ticket = Ticket::next();
        let lane = if cost.is_urgent { &mut self.urgent_lane } else { &mut self.lane };
        lane.push(flow, ticket, cost, command);
        Admission::Wait { ticket, is_first }
    }

    /// Appends the commands that may start by `now` to `admitted`, in order. Returns when to call
    /// again, or `None` if no command waits.
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

    /// Removes an aborted command. Returns false if it has already been released.
    pub(crate) fn cancel(&mut self, flow: Flow, ticket: Ticket) -> bool {
        self.urgent_lane.cancel(flow, ticket) || self.lane.cancel(flow, ticket)
    }

    /// Returns when the next command of that urgency may start. While other commands wait, urgent
    /// ones are restricted to their half of the limits.
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
