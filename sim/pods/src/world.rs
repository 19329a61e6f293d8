//! Two arrays, the link, the mediator and the hosts, in one simulated time.

mod commands;
mod data;
mod faults;
mod forwards;
mod link;
mod mediator;
mod oracle;
mod process;
#[cfg(test)]
mod scenarios;

use crate::bug::SimBug;
use crate::fault::{Fault, Overtaking};
use crate::history::{BlockHistory, Planned, Value};
use crate::log::{ALL, BLOCKS, Log};
use crate::node::{Node, Op};
use crate::packet::Packet;
use crate::totals::{Profile, Totals, Violation};
use pod::{Answer, Epoch, Event, Owner, Question, Register, Role, Side, Stored};
use std::collections::BTreeMap;
use testing::Rng;
use types::Period;

/// A microsecond is the unit of time.
pub(crate) const MS: u64 = 1000;
pub(crate) const SECOND: u64 = 1_000_000;

/// Something that happens at a time.
#[derive(Clone, Debug)]
enum Task {
    Tick { node: usize, incarnation: u32 },
    Flushed { node: usize, incarnation: u32, count: usize },
    Arrive { to: usize, session: u64, packet: Packet },
    SessionUp { node: usize, session: u64 },
    SessionDown { node: usize, session: u64 },
    Connect,
    AtMediator { node: usize, incarnation: u32, number: u64, question: Question, answers: bool },
    Answered { node: usize, incarnation: u32, number: u64, answer: Answer },
    Issue { host: usize },
    Submit { node: usize, incarnation: u32, op: Op },
    ReadDone { node: usize, incarnation: u32, op: Op, planned: Planned, value: Value, period: Period },
    Timeout { host: usize, number: u64 },
    Start { node: usize },
    Fault(Fault),
    Resync { node: usize, incarnation: u32 },
    Overtake { node: usize, kind: Overtaking },
    Dead { host: usize, op: Op },
}

impl Task {
    /// Returns the array whose process carries out the task.
    fn process(&self) -> Option<usize> {
        match self {
            Task::Tick { node, .. }
            | Task::Flushed { node, .. }
            | Task::SessionUp { node, .. }
            | Task::SessionDown { node, .. }
            | Task::Answered { node, .. }
            | Task::Submit { node, .. }
            | Task::ReadDone { node, .. }
            | Task::Resync { node, .. } => Some(*node),
            Task::Arrive { to, .. } => Some(*to),
            Task::Connect | Task::AtMediator { .. } | Task::Issue { .. } | Task::Timeout { .. } => None,
            Task::Start { .. } | Task::Fault(_) | Task::Overtake { .. } | Task::Dead { .. } => None,
        }
    }
}

/// A host, and the command that has no answer.
#[derive(Clone, Copy, Debug)]
struct Host {
    path: usize,
    open: Option<Op>,
    /// A write that it has given up, and whose end it waits for.
    aborts: Option<Op>,
    /// A write that it repeats by way of the other array: its block and value.
    repeats: Option<(usize, Value)>,
    /// The block that it writes next.
    wants: Option<usize>,
}

/// The link between the arrays.
#[derive(Clone, Debug)]
struct Link {
    /// Until when messages from each array are lost.
    cut_until: [u64; 2],
    /// Until when they are delayed.
    stalled_until: [u64; 2],
    /// When the last message from each array arrives.
    last_arrival: [u64; 2],
    /// The same for forwards, which have a way of their own.
    forwards_stalled_until: [u64; 2],
    last_forward: [u64; 2],
    /// The newest session, and whether it carries messages from each array.
    session: u64,
    is_open: bool,
    carries: [bool; 2],
}

/// Both arrays and everything around them.
pub(crate) struct World {
    now: u64,
    sequence: u64,
    tasks: BTreeMap<(u64, u64), Task>,
    nodes: [Node; 2],
    link: Link,
    register: Register,
    unreachable_until: [u64; 2],
    late_until: u64,
    hosts: Vec<Host>,
    histories: Vec<BlockHistory>,
    next_value: Value,
    next_number: u64,
    are_hosts_done: bool,
    may_wait_for_person: bool,
    last_good: u64,
    /// Hosts send more commands then.
    busy: std::ops::Range<u64>,
    /// The longest pause of hosts.
    longest: u64,
    rng: Rng,
    bug: Option<SimBug>,
    profile: Profile,
    pub(crate) totals: Totals,
    violation: Option<Violation>,
    pub(crate) trace: Option<Vec<String>>,
}

fn side_of(node: usize) -> Side {
    if node == 0 { Side::A } else { Side::B }
}

impl World {
    /// Creates a pod that is being stretched from the array A to B.
    pub(crate) fn new(seed: u64, bug: Option<SimBug>, profile: Profile) -> Self {
        let mut rng = Rng::new(seed);
        let mediator = rng.percent(if profile == Profile::Single { 100 } else { 85 }).then_some(1);
        let drift = if bug == Some(SimBug::ClockDrift) { 100_000 } else { 40_000 };
        let fast = if profile == Profile::Lease { drift } else { rng.below(drift + 1) };
        let mut rates = [1_000_000, 1_000_000 + fast];
        if rng.percent(50) {
            rates.reverse();
        }
        // The preferred array decides first: the sooner, the faster its clock runs.
        let is_fast = profile == Profile::Lease;
        let preference = if is_fast { side_of(usize::from(rates[1] > rates[0])) } else { rng.pick(&Side::BOTH) };
        let source = Stored { role: Role::Solo, epoch: Epoch(1), ..Stored::local(Side::A) };
        let source = Stored { mediator, preference, period: Epoch(1).period(), ..source };
        let target = Stored { mediator, preference, ..Stored::empty_target(Side::A) };
        let logs = [Log::new(source, ALL), Log::new(target, 0)];
        let nodes = logs.map(|log| Node::new(log, 0, rng.below(1000 * SECOND)));
        let mut world = Self {
            now: 0,
            sequence: 0,
            tasks: BTreeMap::new(),
            nodes,
            link: Link {
                cut_until: [0; 2],
                stalled_until: [0; 2],
                last_arrival: [0; 2],
                forwards_stalled_until: [0; 2],
                last_forward: [0; 2],
                session: 0,
                is_open: false,
                carries: [true; 2],
            },
            register: Register { epoch: Epoch(0), owner: Owner::Both },
            unreachable_until: [0; 2],
            late_until: 0,
            hosts: (0..6)
                .map(|host| Host { path: host % 2, open: None, aborts: None, repeats: None, wants: None })
                .collect(),
            histories: vec![BlockHistory::new(); BLOCKS],
            next_value: 0,
            next_number: 0,
            are_hosts_done: false,
            may_wait_for_person: false,
            last_good: 0,
            busy: 0..0,
            longest: 0,
            rng,
            bug,
            profile,
            totals: Totals { runs: 1, ..Totals::default() },
            violation: None,
            trace: None,
        };
        for (node, rate) in rates.into_iter().enumerate() {
            world.nodes[node].rate = rate;
            world.start(node);
        }
        world.at(10 * MS, Task::Connect);
        (0..world.hosts.len()).for_each(|host| world.at(host as u64 * MS, Task::Issue { host }));
        world.plan_faults();
        world
    }

    /// Runs until a time, or to a violation.
    pub(crate) fn run_until(&mut self, end: u64) -> Result<(), Violation> {
        while let Some(entry) = self.tasks.first_entry() {
            let time = entry.key().0;
            if time > end {
                break;
            }
            let task = entry.remove();
            self.now = time;
            self.carry_out(task);
            if let Some(violation) = &self.violation {
                return Err(violation.clone());
            }
        }
        self.now = end;
        Ok(())
    }

    /// Plans a task after a delay.
    fn at(&mut self, delay: u64, task: Task) {
        self.sequence += 1;
        self.tasks.insert((self.now + delay, self.sequence), task);
    }

    fn violate(&mut self, reason: String) {
        let at = self.now / MS;
        self.violation.get_or_insert(Violation(format!("{reason}, at {at} ms")));
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9.3} {}", now as f64 / 1000.0, text()));
        }
    }

    /// Whether the process with this incarnation runs.
    fn runs(&self, node: usize, incarnation: u32) -> bool {
        self.nodes[node].incarnation == incarnation && self.nodes[node].machine.is_some()
    }

    fn carry_out(&mut self, task: Task) {
        if let Some(node) = task.process()
            && self.nodes[node].stopped_until > self.now
        {
            let delay = self.nodes[node].stopped_until - self.now;
            self.at(delay, task);
            return;
        }
        match task {
            Task::Tick { node, incarnation } => self.tick(node, incarnation),
            Task::Flushed { node, incarnation, count } if self.runs(node, incarnation) => self.flushed(node, count),
            Task::Arrive { to, session, packet } => self.arrive(to, session, packet),
            Task::SessionUp { node, session } => self.session_up(node, session),
            Task::SessionDown { node, session } => self.session_down(node, session),
            Task::Connect => self.connect(),
            Task::AtMediator { node, incarnation, number, question, answers } => {
                self.at_mediator(node, incarnation, number, question, answers);
            }
            Task::Answered { node, incarnation, number, answer } if self.runs(node, incarnation) => {
                self.feed(node, Event::Mediator { question: number, answer });
            }
            Task::Issue { host } => self.issue(host),
            Task::Submit { node, incarnation, op } => self.submit(node, incarnation, op),
            Task::ReadDone { node, incarnation, op, planned, value, period } if self.runs(node, incarnation) => {
                self.read_done(node, op, planned, value, period);
            }
            Task::Timeout { host, number } => self.timeout(host, number),
            Task::Start { node } => self.start(node),
            Task::Fault(fault) => self.fault(fault),
            Task::Resync { node, incarnation } => self.resync(node, incarnation),
            Task::Overtake { node, kind } => self.leave_path(node, kind),
            Task::Dead { host, op } => self.dead(host, op),
            Task::Flushed { .. } | Task::Answered { .. } | Task::ReadDone { .. } => {}
        }
    }
}
