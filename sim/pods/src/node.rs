//! One array: its process, log and clock, and the commands of its hosts.

use crate::history::Value;
use crate::log::{Log, Record};
use crate::packet::{Forward, Outcome};
use pod::{Bug, Changes, Facts, Forwarder, Hosts, Machine, Orderer, Ports, Reads};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{Position, RequestId};

/// A command of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) host: usize,
    pub(crate) block: usize,
    /// The value that it writes; none for a read.
    pub(crate) write: Option<Value>,
    /// Number of the command.
    pub(crate) number: u64,
}

/// A write that was ordered for a host of this array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) op: Op,
    pub(crate) position: Position,
}

/// A forward that waits at the array that orders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub(crate) forward: Forward,
    pub(crate) attempt: u64,
    pub(crate) session: u64,
    /// The stream has it: it waits for its block only.
    pub(crate) is_begun: bool,
}

/// One array.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) machine: Option<Machine>,
    pub(crate) incarnation: u32,
    pub(crate) log: Log,
    /// Rate of the clock in parts per million, and its start.
    pub(crate) rate: u64,
    pub(crate) offset: u64,
    /// The process does nothing before this time.
    pub(crate) stopped_until: u64,
    pub(crate) is_flushing: bool,
    pub(crate) slow_until: u64,
    pub(crate) generation: u64,
    pub(crate) session: Option<u64>,
    /// The session that has had a `Start`, a `GoSync` or a resumption: it carries records.
    pub(crate) streaming: Option<u64>,
    pub(crate) service: Hosts,
    /// Records that the peer has not confirmed.
    pub(crate) window: VecDeque<Record>,
    /// Records of a period that has not begun here.
    pub(crate) early: VecDeque<Record>,
    /// Blocks with a record that is not committed.
    pub(crate) locks: BTreeMap<usize, Position>,
    pub(crate) waiting: VecDeque<Op>,
    pub(crate) pending: Vec<Pending>,
    /// Writes of this array's hosts that the peer orders.
    pub(crate) forwarder: Forwarder<Op, (usize, Value), ()>,
    /// Those that the peer has ordered, with the positions of their records.
    pub(crate) named: Vec<(Position, RequestId)>,
    /// The session that the peer takes forwards in, and its clock then.
    pub(crate) peer_accepts: Option<(u64, Duration)>,
    /// Forwards of the peer.
    pub(crate) orderer: Orderer<Outcome>,
    pub(crate) queue: VecDeque<Queued>,
    /// The session that this array takes forwards in.
    pub(crate) accepts: Option<u64>,
    /// A mask that is being stored: session, and record of the log.
    pub(crate) mask_wait: Option<(u64, u64)>,
    pub(crate) facts: Option<Facts>,
}

impl Node {
    pub(crate) fn new(log: Log, rate: u64, offset: u64) -> Self {
        Self {
            machine: None,
            incarnation: 0,
            log,
            rate,
            offset,
            stopped_until: 0,
            is_flushing: false,
            slow_until: 0,
            generation: 0,
            session: None,
            streaming: None,
            service: no_service(),
            window: VecDeque::new(),
            early: VecDeque::new(),
            locks: BTreeMap::new(),
            waiting: VecDeque::new(),
            pending: vec![],
            forwarder: Forwarder::default(),
            named: vec![],
            peer_accepts: None,
            orderer: Orderer::default(),
            queue: VecDeque::new(),
            accepts: None,
            mask_wait: None,
            facts: None,
        }
    }

    /// Returns the time of the lease clock.
    pub(crate) fn clock(&self, now: u64) -> Duration {
        let scaled = u128::from(now) * u128::from(self.rate) / 1_000_000;
        Duration::from_micros(self.offset + u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// Whether a read may be answered now.
    pub(crate) fn may_read(&self, now: u64) -> bool {
        match self.service.reads {
            Reads::Never => false,
            Reads::Always => true,
            Reads::Until(end) => self.clock(now) < end,
        }
    }

    /// Returns the stream for the state machine.
    pub(crate) fn current_facts(&self) -> Facts {
        let is_open = !self.pending.is_empty() || !self.locks.is_empty();
        self.log.facts(self.service.is_held() && !is_open)
    }

    /// A process begins: it has no forwards.
    pub(crate) fn begin_forwards(&mut self, bug: Option<Bug>) {
        self.forwarder.set_origin(u64::from(self.incarnation) + 1);
        self.forwarder.plant(bug);
        self.orderer.plant(bug);
    }

    /// Forgets what only the process knows. Returns the commands that had no answer: those that
    /// waited, and those that may have happened.
    pub(crate) fn forget(&mut self) -> (Vec<Op>, Vec<Op>) {
        self.machine = None;
        self.incarnation += 1;
        (self.is_flushing, self.generation) = (false, 0);
        (self.session, self.streaming) = (None, None);
        self.service = no_service();
        self.window.clear();
        self.early.clear();
        self.locks.clear();
        let forwarded = self.forwarder.end();
        (self.forwarder, self.orderer) = (Forwarder::default(), Orderer::default());
        self.named.clear();
        self.queue.clear();
        (self.peer_accepts, self.accepts) = (None, None);
        (self.mask_wait, self.facts) = (None, None);
        let ordered = std::mem::take(&mut self.pending).into_iter().map(|pending| pending.op);
        let open = forwarded.into_iter().map(|ended| ended.waiting).chain(ordered).collect();
        (self.waiting.drain(..).collect(), open)
    }
}

fn no_service() -> Hosts {
    let ports = Ports::Unavailable;
    Hosts { changes: Changes::Hold, reads: Reads::Never, own_ports: ports, peer_ports: Ports::Active }
}
