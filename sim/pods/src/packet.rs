//! Packets that the arrays send to each other in a session.

use crate::history::Value;
use crate::log::Record;
use pod::{Arrival, Refusal};
use std::time::Duration;
use types::RequestId;

/// A write of the follower's hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forward {
    /// As the array that orders takes it.
    pub(crate) arrival: Arrival,
    pub(crate) block: usize,
    pub(crate) value: Value,
}

/// The outcome of a forward without a record.
pub(crate) type Outcome = Option<Refusal>;

/// A packet in one direction of a session.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    /// A message of the control plane, as bytes.
    Control(Vec<u8>),
    /// A record of the stream.
    Record(Record),
    /// The sender orders changes and takes forwards, and states its clock.
    Accepts(Duration),
    /// The sender states its clock.
    Clock(Duration),
    /// A write of the follower's hosts.
    Forward(Forward),
    /// A host has given a forward up.
    Cancel(RequestId),
    /// A forward was refused, or the stream was closed.
    Outcome(RequestId, Outcome),
    /// The source asks for the target's mask.
    MaskRequest,
    /// The mask.
    Mask(u32),
}

impl Packet {
    /// Whether it takes the way of forwards, which may be slow by itself.
    pub(crate) fn is_of_forwards(&self) -> bool {
        matches!(self, Packet::Forward(_) | Packet::Cancel(_))
    }
}
