//! Packets that the arrays send to each other in a session.

use crate::history::Value;
use crate::log::Record;
use crate::node::Forward;

/// A packet in one direction of a session.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    /// A message of the control plane, as bytes.
    Control(Vec<u8>),
    /// A record of the stream.
    Record(Record),
    /// A write of the follower's hosts.
    Forward(Forward),
    /// A forward that was too old: it has no effect.
    Reject(Value),
    /// The source asks for the target's mask.
    MaskRequest,
    /// The mask.
    Mask(u32),
}
