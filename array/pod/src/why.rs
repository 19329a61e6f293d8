//! Why a pod is not in the full service.

use std::time::Duration;

/// The event that a pod waits for, on this array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The peer, which is silent.
    Peer,
    /// The peer, which alone may continue, because the tie rule names it.
    PeerThatMayContinue,
    /// A report of the peer in this session.
    PeerState,
    /// The peer, which has to yield durably.
    PeerYields,
    /// An answer of the mediator.
    Mediator,
    /// The end of the peer's lease, at this time of the lease clock.
    LeaseEnd(Duration),
    /// The end of changes that are under way.
    Commit,
    /// The record of a tie rule, which has to be durable on both arrays.
    RuleInForce,
    /// The peer's list of blocks that it cannot vouch for.
    Mask,
    /// Content that is on its way to the target.
    Resync,
    /// Free space at the peer.
    PeerRoom,
    /// An owner that brings this array into step.
    Owner,
    /// A decision of an administrator.
    Person,
    /// Nothing: this array has left.
    Nothing,
}

/// Why a pod is not in the full service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Why {
    /// The event that would end it.
    pub waits_for: WaitsFor,
    /// Since this time of the lease clock.
    pub since: Duration,
}
