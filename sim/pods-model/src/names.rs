//! The vocabulary of the model: arrays, positions, epochs, roles, tie rules.

use std::ops::{Index, IndexMut};

/// Number of an epoch. A pod gets a new epoch with each change of tie rule and each failover.
pub type Epoch = u8;
/// Position of a record in the pod's stream.
pub type Position = u8;
/// A block of the pod's volume.
pub type Block = u8;
/// Content of a block: the id of the command that wrote it, or zero.
pub type Value = u8;

/// Blocks in the model.
pub const BLOCKS: usize = 2;

/// One of the two arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The array that sequences first.
    A,
    /// The array that follows first.
    B,
}

impl Side {
    /// Both arrays.
    pub const BOTH: [Side; 2] = [Side::A, Side::B];

    /// Returns the other array.
    pub fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }

    /// Rank in ties: the lower array id wins.
    pub fn rank(self) -> u8 {
        match self {
            Side::A => 1,
            Side::B => 0,
        }
    }
}

/// One value for each array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pair<T>(pub [T; 2]);

impl<T> Index<Side> for Pair<T> {
    type Output = T;

    fn index(&self, side: Side) -> &T {
        let [a, b] = &self.0;
        match side {
            Side::A => a,
            Side::B => b,
        }
    }
}

impl<T> IndexMut<Side> for Pair<T> {
    fn index_mut(&mut self, side: Side) -> &mut T {
        let [a, b] = &mut self.0;
        match side {
            Side::A => a,
            Side::B => b,
        }
    }
}

/// A set of blocks: the model's delta volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockSet(u8);

impl BlockSet {
    /// No block.
    pub const NONE: BlockSet = BlockSet(0);
    /// Every block.
    pub const ALL: BlockSet = BlockSet((1 << BLOCKS) - 1);

    /// Adds a block.
    pub fn insert(&mut self, block: Block) {
        self.0 |= 1 << block;
    }

    /// Removes a block.
    pub fn remove(&mut self, block: Block) {
        self.0 &= !(1 << block);
    }

    /// Adds the blocks of another set.
    pub fn extend(&mut self, other: BlockSet) {
        self.0 |= other.0;
    }

    /// Whether the set has no block.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the lowest block of the set.
    pub fn first(self) -> Option<Block> {
        (0..BLOCKS as Block).find(|b| self.0 >> b & 1 == 1)
    }
}

/// A host's change of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Command {
    /// Also the value that it writes. Hosts issue commands in the order of their ids.
    pub id: Value,
    /// The block that it writes.
    pub block: Block,
    /// COMPARE AND WRITE: writes only if the block holds zero.
    pub compares: bool,
}

/// An array's part in the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Both arrays hold the same content and serve hosts.
    Sync,
    /// Serves hosts alone, and records which blocks the peer lacks.
    Solo,
    /// Receives content from the peer; its own is a mixture until the source says otherwise.
    Target,
    /// Has yielded to the peer and serves nothing.
    Lost,
    /// Served alone while the peer did so too, after a forced promotion. An administrator decides.
    Diverged,
    /// Was removed from the pod.
    Left,
    /// The pod is not stretched any more; this array has it.
    Local,
}

impl Role {
    /// Whether an array in this role serves without its peer.
    pub fn is_owner(self) -> bool {
        matches!(self, Role::Solo | Role::Local)
    }
}

/// The array that may continue without its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The array whose compare-and-swap of the mediator's register succeeds.
    Mediator,
    /// One array, by its own right.
    Only(Side),
}

/// The tie rule of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TieRule {
    /// The rule of this epoch.
    pub current: Rule,
    /// The rule of the epoch before.
    pub before: Rule,
    /// Position of the `Epoch` record, until this array knows that it is durable on both.
    pub pending: Option<Position>,
}

impl TieRule {
    /// Returns a rule that is in force.
    pub fn in_force(rule: Rule) -> TieRule {
        TieRule { current: rule, before: rule, pending: None }
    }
}

/// The mediator's register for the pod: an epoch and the array that owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register {
    /// Epoch of the last change.
    pub epoch: Epoch,
    /// Who may serve.
    pub owner: Owner,
}

/// Owner in the mediator's register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Neither array has asked.
    Both,
    /// One array continues alone.
    One(Side),
    /// The pod is not stretched any more. Permanent.
    Retired,
}
