//! Deltas of a stream's volumes, at the engine's interface.
//!
//! The *delta* of a volume says which 4 KiB blocks a peer may lack. It is a thin hidden volume: a
//! block is zero where the peer's block may differ, and a hole where it is equal. A record changes
//! the volume and its delta together, so the delta is as durable and as exact as the volume. It
//! exists from the first block that the peer may lack on. Hosts cannot address it, and it counts
//! in no figure of space.

use types::{BlockRange, Lba, Period, StreamId, VolumeId};

/// The effect on deltas of the records of a sequencer that does not wait for its peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeltaMode {
    /// Nothing: the deltas are empty. The tail has what the peer may lack.
    #[default]
    Off,
    /// The peer receives no records. Changed blocks enter the delta, and with a restore all blocks.
    /// A new snapshot or clone begins with the delta of its source: the peer makes it from its own
    /// copy of the source, before it receives anything else.
    Alone,
    /// The peer receives the records, in order. Blocks that they replace as a whole leave the
    /// delta; those that they copy take the delta of their source.
    Source,
}

/// Most ranges of one request about deltas. Claims of that many are compared with each other.
pub const MAX_DELTA_RANGES: usize = 1024;

/// A request about deltas. None of them is reported to the peer or has a position. After some
/// steps of a long one, other requests run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeltaOp {
    /// Adds the tail of the stream to the deltas, and empties the tail. Changes of hosts wait for
    /// this when a period with a delta begins: a later copy must find in the delta of its source
    /// all that the peer lacks. Does nothing if no change waits for it: the tail is that of the
    /// present period then. If there is no space for the blocks, or a page of a delta cannot be
    /// read, all blocks of the volume enter, as with [`DeltaOp::Add`].
    AddTail {
        /// The stream.
        stream: StreamId,
        /// The period that has begun.
        period: Period,
    },
    /// Adds blocks that the peer may lack for another reason, such as those that it has changed
    /// itself. Waits for no other request: it is right at any time. A volume that is copied before
    /// the reply may get a part of them: add them to it, too. The stream serves with a delta.
    Add {
        /// The volume.
        volume: VolumeId,
        /// The blocks; at most [`MAX_DELTA_RANGES`], of any length. A 4 KiB block with a part in
        /// them is added as a whole. They may exceed the volume, and a range of
        /// [`WHOLE_VOLUME_BLOCKS`](crate::WHOLE_VOLUME_BLOCKS) is all of it.
        ranges: Vec<BlockRange>,
    },
    /// Removes the 4 KiB blocks that are in the ranges as a whole: the peer has them. Waits for
    /// changes of the ranges that were submitted before. Fails if a page of the delta cannot be
    /// read; all blocks can be added or removed then. The caller knows that nothing has changed
    /// the ranges since the peer had them. A clear of [`WHOLE_VOLUME_BLOCKS`] ends the delta.
    ///
    /// [`WHOLE_VOLUME_BLOCKS`]: crate::WHOLE_VOLUME_BLOCKS
    Clear {
        /// The volume.
        volume: VolumeId,
        /// The period when the peer had the blocks. Refused in any other one: blocks may have been
        /// added since.
        period: Period,
        /// The blocks, as in [`DeltaOp::Add`].
        ranges: Vec<BlockRange>,
    },
    /// Returns [`Reply::Extents`](crate::Reply::Extents) without gaps, from `from` on: mapped where
    /// the peer may lack the blocks. The last extent ends where the next request begins, or where
    /// the volume ends. Possible in any state of the stream.
    Next {
        /// The volume.
        volume: VolumeId,
        /// First block; a multiple of 8.
        from: Lba,
        /// Most extents to return; 0 counts as 1.
        limit: usize,
    },
}
