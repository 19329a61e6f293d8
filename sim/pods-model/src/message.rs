//! Messages between the arrays, and the records of the stream.

use crate::names::{Block, BlockSet, Command, Epoch, Position, Role, Rule, Value};

/// A record of the pod's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// A host's change.
    Write(Command),
    /// Content that the source sends to the target.
    Sync(Block, Value),
    /// A new epoch with this tie rule.
    Epoch(Rule),
    /// Keeps the position of a change that was not streamed.
    Mark,
    /// The target's content is from here on a prefix of the source's order.
    Whole,
    /// The follower leaves the pod.
    Leave,
}

impl Record {
    /// Returns the block that the record changes.
    pub fn block(&self) -> Option<Block> {
        match self {
            Record::Write(command) => Some(command.block),
            Record::Sync(block, _) => Some(*block),
            Record::Epoch(_) | Record::Mark | Record::Whole | Record::Leave => None,
        }
    }
}

/// The first message of each side in a session. Reports only durable states.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hello {
    /// Epoch of the sender.
    pub epoch: Epoch,
    /// First epoch of the sender's period.
    pub period: Epoch,
    /// Role of the sender.
    pub role: Role,
    /// The sender's process has not restarted in this period and has not asked the mediator.
    pub is_resumable: bool,
    /// The sender's process has not restarted in this period.
    pub is_fresh: bool,
    /// The sender's log was damaged.
    pub is_hurt: bool,
    /// Last position that the sender has applied.
    pub last: Position,
    /// Blocks that the sender cannot vouch for: its tail and its own delta.
    pub mask: BlockSet,
    /// Forwarded commands that the sender still wants.
    pub wanted: Vec<Command>,
}

/// A message in one direction of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// Opens a session.
    Hello(Hello),
    /// A change that a host sent to the follower.
    Forward(Epoch, Command),
    /// The host has given up a forwarded change.
    Cancel(Command),
    /// A record of the stream: period, position, content.
    Record(Epoch, Position, Record),
    /// The comparison of a forwarded command failed.
    Miscompare(Epoch, Command),
    /// A forwarded change was too old; it has no effect.
    Busy(Command),
    /// Everything up to this position is durable at the sender: period, position.
    Durable(Epoch, Position),
    /// The sender brings the receiver into step: epoch, position.
    Start(Epoch, Position),
    /// Both arrays are in step: epoch of the new SYNC, position.
    GoSync(Epoch, Position),
    /// May the sender yield to the receiver in an orderly way?
    MayI,
    /// Answer to [`Message::MayI`]: the sender of this message takes over.
    Take,
    /// The sender is LOST, durably.
    Yielded,
}
