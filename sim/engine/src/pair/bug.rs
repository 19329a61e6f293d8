//! The bugs that can be injected into a pair of arrays.

/// A rule of streams that the pair breaks, to show that the simulator detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PairBug {
    /// Answer at the sequencer when its own log is durable, without the peer's report.
    OwnDurability,
    /// Report a record as durable when it is received.
    AckBeforeFlush,
    /// Apply two records at the follower in the wrong order.
    FollowerOutOfOrder,
    /// Leave the tail of the array that yields out of the resync.
    TailForgotten,
    /// Serve reads at the follower when its own log is durable, without the sequencer's report.
    ReadUncommitted,
}
