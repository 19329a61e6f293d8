//! Pages that are needed but not in memory, and the purposes for which they are needed.

use crate::reference::SlotId;

/// A page that is needed but not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Absent {
    /// A page of the map. Its slot, which holds its location, is in memory.
    Page(SlotId),
    /// A page of the slot table.
    Slots(u32),
}

/// Purpose of a walk. It determines the slots that are needed in addition to the map pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Inspecting references. No slots are needed.
    References,
    /// Reading. The slots of the blocks are needed.
    Places,
    /// Counting up the references that `Map::collect` takes. The slots of the blocks, and of the
    /// pages taken as a whole, are needed. A page whose count is full is not taken as a whole: the
    /// pages below are needed in its place.
    Sharing {
        /// Copies that the same step makes before, which may fill counts.
        earlier: u32,
    },
    /// Replacing blocks. The slots of all blocks and of every page on the path are needed. So are
    /// the slots of everything that a shared page references, because copying the page counts these
    /// references up.
    Edit {
        /// Blocks that an earlier operation of the same step may copy. Pages that are entirely
        /// within this range may become shared.
        may_be_shared: Option<(u64, u64)>,
    },
    /// As [`Need::Edit`], if the step replaces whole blocks of one leaf and changes nothing before.
    /// A page that is shared now is shared then, so the blocks that a copy of the leaf counts
    /// through aliases keep a reference, and their slots are not needed.
    Replace,
}
