//! The state of the whole system: two arrays, the link, the mediator, and the hosts' view.

mod administration;
mod commands;
mod contact;
mod failover;
mod resync;
mod session;

use crate::array::Array;
use crate::block_history::BlockHistory;
use crate::budget::Budget;
use crate::bug::{Bug, Bugs};
use crate::message::Message;
use crate::names::{BLOCKS, Block, Command, Owner, Pair, Register, Role, Side};
use std::hash::{Hash, Hasher};

/// The constants of a run: its bounds and its planted bugs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// How often each event may happen.
    pub limits: Budget,
    /// Rules that are broken.
    pub bugs: Bugs,
}

/// Equal in every state of a run, so it does not distinguish states.
impl Hash for Setup {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// A state of the system.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The run.
    pub setup: Setup,
    /// The arrays.
    pub arrays: Pair<Array>,
    /// Messages under way from each array, oldest first.
    pub queues: Pair<Vec<Message>>,
    /// Whether messages from each array arrive.
    pub directions: Pair<bool>,
    /// A session exists.
    pub has_session: bool,
    /// The mediator's register.
    pub register: Register,
    /// Whether each array reaches the mediator.
    pub reaches_mediator: Pair<bool>,
    /// The history of each block.
    pub histories: [BlockHistory; BLOCKS],
    /// A forced promotion has accepted that two arrays may serve until they meet.
    pub is_risk_accepted: bool,
    /// Events so far.
    pub spent: Budget,
}

impl World {
    /// Returns a new pod in SYNC, with the array A as sequencer.
    pub fn new(setup: Setup) -> World {
        World {
            setup,
            arrays: Pair([Array::new(), Array::new()]),
            queues: Pair([vec![], vec![]]),
            directions: Pair([true; 2]),
            has_session: true,
            register: Register { epoch: 1, owner: Owner::Both },
            reaches_mediator: Pair([true; 2]),
            histories: [BlockHistory::new(), BlockHistory::new()],
            is_risk_accepted: false,
            spent: Budget::default(),
        }
    }

    /// Whether a rule is broken in this run.
    pub fn has(&self, bug: Bug) -> bool {
        self.setup.bugs.has(bug)
    }

    /// Whether both directions of the link work.
    pub fn is_link_whole(&self) -> bool {
        self.directions[Side::A] && self.directions[Side::B]
    }

    /// Whether nothing is under way between the arrays.
    pub fn is_link_quiet(&self) -> bool {
        Side::BOTH.iter().all(|side| self.queues[*side].is_empty())
    }

    /// Whether both arrays are durably in the same SYNC and exchange heartbeats. Leases are renewed
    /// only then.
    pub fn is_together(&self) -> bool {
        let in_step = |side: Side| {
            let array = &self.arrays[side];
            let is_durable = array.disk.role == Role::Sync && array.disk.period == array.memory.period;
            array.is_up && array.is_in_step() && is_durable
        };
        let periods = Side::BOTH.map(|side| self.arrays[side].memory.period);
        in_step(Side::A) && in_step(Side::B) && periods[0] == periods[1] && self.has_session && self.is_link_whole()
    }

    /// Whether another command holds a block.
    pub fn is_locked(&self, side: Side, block: Block) -> bool {
        let array = &self.arrays[side];
        let is_unflushed = array.memory.block(block) != array.disk.block(block);
        let is_uncommitted = || array.memory.tail.iter().any(|(_, b)| *b == Some(block));
        match array.memory.role {
            Role::Sync if self.has(Bug::OwnDurability) && array.memory.sequencer != side => is_unflushed,
            Role::Sync => is_unflushed || is_uncommitted(),
            _ => is_unflushed,
        }
    }

    /// Whether an array may answer reads.
    pub fn serves_reads(&self, side: Side) -> bool {
        let array = &self.arrays[side];
        if array.memory.role == Role::Sync {
            let may = array.has_lease || self.has(Bug::NoLeaseCheck);
            return may && !array.is_asking && array.is_fresh && !array.is_joining;
        }
        array.is_durable_owner()
    }

    /// Returns the history of a command's block.
    fn history(&mut self, command: Command) -> &mut BlockHistory {
        let at = usize::from(command.block).min(BLOCKS - 1);
        &mut self.histories[at]
    }

    /// Sends a message, if there is a session and the direction works.
    fn send(&mut self, from: Side, message: Message) {
        if self.has_session && self.directions[from] {
            self.queues[from].push(message);
        }
    }
}
