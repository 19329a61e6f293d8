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
    /// Apply a copy at the follower before the record before it, which changes the source.
    CopyTooEarly,
    /// Copy by way of an earlier copy without a comparison.
    EqualNotCompared,
    /// Leave the tail of the array that yields out of the resync.
    TailForgotten,
    /// Leave volumes that were made, removed, replaced or resized out of the tails.
    VolumeForgotten,
    /// Leave the tail of the array that serves alone out of its deltas.
    TailNotInDelta,
    /// Leave that tail out if a page of the deltas cannot be read.
    LostPageForgotten,
    /// A removal from a delta that is late names the present period.
    LateRemoval,
    /// A copy that streams to the peer clears the delta of its destination.
    CopyNotPropagated,
    /// A write that streams clears blocks that it replaces in part.
    PartialClears,
    /// A snapshot that is taken alone begins with an empty delta.
    SnapshotEmpty,
    /// A volume that is restored alone has an empty delta.
    RestoreNotAll,
    /// Leave the blocks of a record that was skipped for lack of credit out of the delta.
    MarkNotInDelta,
    /// Send records without regard to the credit.
    CreditOverdrawn,
    /// Give the room that is lent to the peer to other requests.
    LentNotCounted,
    /// Serve reads at the follower when its own log is durable, without the sequencer's report.
    ReadUncommitted,
    /// Store the values of a record at the follower after it, in a record of their own.
    ValueNotWithRecord,
    /// Deliver a record without its message.
    MessageLost,
    /// Take blocks out of the delta without a record that sends their content.
    SyncWithoutRecord,
    /// Take more blocks out of the delta than the record sends.
    SyncClearsTooMuch,
    /// Leave blocks whose content was sent out of the tail.
    SyncNotInTail,
}
