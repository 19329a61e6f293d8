//! One array: its durable state, and what its process knows.

use crate::message::Record;
use crate::names::{BLOCKS, Block, BlockSet, Command, Epoch, Position, Role, Rule, Side, TieRule, Value};

/// Position of a new pod. Positions begin at one, so zero means that nothing was reported.
const FIRST_POSITION: Position = 1;

/// The state that an array keeps in its log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// Part in the pod.
    pub role: Role,
    /// Number of the epoch.
    pub epoch: Epoch,
    /// First epoch of this period of SYNC, SOLO or TARGET. `Epoch` records do not end a period.
    pub period: Epoch,
    /// The array that orders changes.
    pub sequencer: Side,
    /// Tie rule of the epoch.
    pub rule: TieRule,
    /// Content.
    pub blocks: [Value; BLOCKS],
    /// Last position applied.
    pub last: Position,
    /// Records applied here that are not known to be durable at the peer, with the block of each.
    pub tail: Vec<(Position, Option<Block>)>,
    /// SOLO: blocks that the peer lacks. LOST and TARGET: own blocks that the source must send
    /// again.
    pub delta: BlockSet,
    /// Period and position that the peer last reported as durable.
    pub base: (Epoch, Position),
    /// TARGET: the content is a prefix of the source's order.
    pub is_whole: bool,
    /// Position of the record with which the peer leaves the pod.
    pub leaving: Option<Position>,
}

impl Stored {
    /// Returns the state of a new pod in SYNC.
    pub fn new() -> Stored {
        Stored {
            role: Role::Sync,
            epoch: 1,
            period: 1,
            sequencer: Side::A,
            rule: TieRule::in_force(Rule::Mediator),
            blocks: [0; BLOCKS],
            last: FIRST_POSITION,
            tail: vec![],
            delta: BlockSet::NONE,
            base: (1, FIRST_POSITION),
            is_whole: false,
            leaving: None,
        }
    }

    /// Returns the blocks of the delta and of the tail.
    pub fn mask(&self) -> BlockSet {
        let mut mask = self.delta;
        self.tail.iter().filter_map(|(_, block)| *block).for_each(|block| mask.insert(block));
        mask
    }

    /// Notes what the peer has reported in this SYNC.
    pub fn note_base(&mut self) {
        self.base = (self.period, self.last - self.tail.len() as Position);
    }

    /// Moves the tail into the delta.
    pub fn absorb_tail(&mut self) {
        self.delta = self.mask();
        self.tail.clear();
    }

    /// Whether both report the same role, epoch and period: a `Hello` of `self` is durable in
    /// `disk`.
    pub fn is_same_state(&self, disk: &Stored) -> bool {
        (self.role, self.epoch, self.period) == (disk.role, disk.epoch, disk.period)
    }

    /// Returns the content of a block.
    pub fn block(&self, block: Block) -> Value {
        self.blocks.get(usize::from(block)).copied().unwrap_or_default()
    }

    /// Sets the content of a block.
    pub fn set_block(&mut self, block: Block, value: Value) {
        if let Some(content) = self.blocks.get_mut(usize::from(block)) {
            *content = value;
        }
    }
}

impl Default for Stored {
    fn default() -> Self {
        Stored::new()
    }
}

/// How far a host's command has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// Sent to the sequencer, or waiting to be.
    Forwarded,
    /// Has a position.
    Ordered(Position),
}

/// Progress of an agreement about which array yields. Ends with the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consent {
    /// Nothing is agreed.
    None,
    /// This array asked to yield in an orderly way.
    Resigning,
    /// This array continues in the given epoch when the peer has yielded.
    Wins(Epoch),
    /// This array has reported that it is LOST.
    Reported,
}

/// An array: disk and process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Array {
    /// The process runs.
    pub is_up: bool,
    /// State on stable storage.
    pub disk: Stored,
    /// State in memory. A flush copies it to the disk.
    pub memory: Stored,
    /// State on the disk before the last flush; kept only in runs that lose a flush.
    pub previous: Stored,
    /// The log was damaged. Stored at once; ends when TARGET is durable.
    pub is_hurt: bool,
    /// The process has not restarted since this period began.
    pub is_fresh: bool,
    /// Wants to continue alone: asks the mediator, or waits for the peer's lease to end.
    pub is_asking: bool,
    /// The session with the peer has been agreed on.
    pub is_attached: bool,
    /// May answer reads in SYNC.
    pub has_lease: bool,
    /// SOLO and bringing the peer into step.
    pub is_source: bool,
    /// Has logged SYNC and has not sent `GoSync`.
    pub is_joining: bool,
    /// Agreement with the peer in this session.
    pub consent: Consent,
    /// Highest position that the peer reported as durable in this period; zero if it has not.
    pub peer_durable: Position,
    /// Requests of the peer that are not ordered.
    pub requests: Vec<Command>,
    /// Commands of this array's hosts.
    pub pending: Vec<(Command, Progress)>,
    /// Records that the peer has not acknowledged.
    pub window: Vec<(Position, Record)>,
    /// Newest command that a host sent directly to this array while it ordered; rule 6.
    pub newest_direct: Value,
    /// Commands whose array crashed; their hosts may give up.
    pub orphans: Vec<Command>,
}

impl Array {
    /// Returns an array of a new pod in SYNC.
    pub fn new() -> Array {
        Array {
            is_up: true,
            disk: Stored::new(),
            memory: Stored::new(),
            previous: Stored::new(),
            is_hurt: false,
            is_fresh: true,
            is_asking: false,
            is_attached: true,
            has_lease: true,
            is_source: false,
            is_joining: false,
            consent: Consent::None,
            peer_durable: FIRST_POSITION,
            requests: vec![],
            pending: vec![],
            window: vec![],
            newest_direct: 0,
            orphans: vec![],
        }
    }

    /// Whether the array is in SYNC, in a session, and has not begun to leave it.
    pub fn is_in_step(&self) -> bool {
        self.memory.role == Role::Sync && !self.is_asking && self.is_attached && self.is_fresh && !self.is_joining
    }

    /// Whether hosts may send changes to this array.
    pub fn serves_changes(&self) -> bool {
        self.is_in_step() || self.memory.role.is_owner()
    }

    /// Whether an owner's state is durable. Nothing is answered in SOLO before that.
    pub fn is_durable_owner(&self) -> bool {
        self.memory.role.is_owner() && self.memory.is_same_state(&self.disk)
    }

    /// Whether the sequencer holds new changes: an `Epoch` or `Leave` record is not in force.
    pub fn holds_changes(&self) -> bool {
        self.memory.rule.pending.is_some() || self.memory.leaving.is_some()
    }

    /// Whether everything is durable on both arrays, here known.
    pub fn is_all_committed(&self) -> bool {
        self.disk == self.memory && self.memory.tail.is_empty() && self.peer_durable == self.memory.last
    }

    /// Takes a position for a record, and keeps the record until the peer has it.
    pub fn append(&mut self, record: Record) -> Position {
        self.memory.last += 1;
        let position = self.memory.last;
        self.memory.tail.push((position, record.block()));
        self.window.push((position, record));
        position
    }

    /// Puts the tie rule in force once its record is durable on both arrays.
    pub fn put_rule_in_force(&mut self) {
        let is_known =
            |n: Position| self.disk.period == self.memory.period && self.disk.last >= n && self.peer_durable >= n;
        if self.memory.rule.pending.is_some_and(is_known) {
            self.memory.rule.pending = None;
        }
    }

    /// Ends the source's work. The delta takes over the records that the peer has not acknowledged.
    pub fn end_source(&mut self) {
        self.is_source = false;
        self.window.clear();
        self.memory.is_whole = false;
        self.memory.absorb_tail();
    }

    /// Forgets what only the process knows.
    pub fn forget_process(&mut self) {
        *self = Array {
            is_up: false,
            memory: self.disk.clone(),
            disk: std::mem::take(&mut self.disk),
            previous: std::mem::take(&mut self.previous),
            is_hurt: self.is_hurt,
            is_fresh: false,
            is_attached: false,
            has_lease: false,
            peer_durable: 0,
            orphans: std::mem::take(&mut self.orphans),
            ..Array::new()
        };
    }
}

impl Default for Array {
    fn default() -> Self {
        Array::new()
    }
}
