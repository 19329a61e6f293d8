//! Dirty blocks: slots whose bytes are in memory and in the log, and not yet on the drive.

use blockmap::SlotId;
use bytes::Bytes;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use types::{BLOCK_BYTES, VolumeId};

/// The mask of a block with every 512-byte sector in memory.
pub(crate) const ALL_SECTORS: u8 = 0xFF;

/// The progress of a dirty block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Waits for destage.
    Waiting,
    /// Waits for a read of the sectors that it lacks.
    Filling,
    /// Being fingerprinted, compared or compressed.
    Reducing,
    /// Has a place; the write is in flight.
    Writing,
}

/// The origin of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Written by a host.
    Written {
        /// The volume, whose map refers to it at `block`.
        volume: VolumeId,
        /// Number of the 4 KiB block.
        block: u64,
        /// Number of the write.
        write: u64,
    },
    /// Relocated by the cleaner.
    Moved {
        /// Number of the cleaning.
        victim: u64,
        /// Blocks with neighbouring positions may be compressed together.
        position: u64,
    },
}

impl Origin {
    /// Returns a sort key. Blocks that follow each other in it may be compressed together.
    pub(crate) fn batch(&self) -> (bool, u64, u64) {
        match *self {
            Self::Written { block, write, .. } => (false, write, block),
            Self::Moved { victim, position } => (true, victim, position),
        }
    }

    pub(crate) fn is_moved(&self) -> bool {
        matches!(self, Self::Moved { .. })
    }
}

/// A block in memory.
#[derive(Clone, Debug)]
pub(crate) struct DirtyBlock {
    /// 4 KiB; only the sectors in `mask` are valid.
    pub(crate) data: Bytes,
    pub(crate) mask: u8,
    /// The stored block that holds the other sectors; it has a counted reference.
    pub(crate) base: Option<SlotId>,
    pub(crate) stage: Stage,
    pub(crate) origin: Origin,
    /// No equal block is looked up, or not again.
    pub(crate) is_unique: bool,
    /// A second lookup has been made.
    pub(crate) was_looked_up_twice: bool,
    /// The sectors that it lacked could not be read. It is stored with a wrong checksum, so that
    /// reads fail until it is overwritten as a whole.
    pub(crate) is_damaged: bool,
}

/// All dirty blocks, in the order of their writes.
#[derive(Default)]
pub(crate) struct DirtyBlocks {
    blocks: FxHashMap<SlotId, DirtyBlock>,
    queue: VecDeque<SlotId>,
    unplaced: u64,
    unplaced_moved: u64,
    reducing: u64,
    /// Writes of hosts, and segments relocated by the cleaner, since the array was opened.
    writes: u64,
}

impl DirtyBlocks {
    /// Returns a number for the blocks of one operation: they may be compressed together.
    pub(crate) fn begin_write(&mut self) -> u64 {
        self.writes += 1;
        self.writes
    }

    pub(crate) fn get(&self, id: SlotId) -> Option<&DirtyBlock> {
        self.blocks.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: SlotId) -> Option<&mut DirtyBlock> {
        self.blocks.get_mut(&id)
    }

    pub(crate) fn insert(&mut self, id: SlotId, data: Bytes, mask: u8, base: Option<SlotId>, origin: Origin) {
        assert!(data.len() as u64 == BLOCK_BYTES && (base.is_none() == (mask == ALL_SECTORS)));
        let is_moved = origin.is_moved();
        let stage = Stage::Waiting;
        let block = DirtyBlock {
            data,
            mask,
            base,
            stage,
            origin,
            is_unique: is_moved,
            was_looked_up_twice: false,
            is_damaged: false,
        };
        assert!(self.blocks.insert(id, block).is_none(), "block {id:?} is dirty twice");
        self.queue.push_back(id);
        self.unplaced += 1;
        self.unplaced_moved += u64::from(is_moved);
    }

    /// Removes a block and returns it.
    pub(crate) fn remove(&mut self, id: SlotId) -> Option<DirtyBlock> {
        let block = self.blocks.remove(&id)?;
        self.reducing -= u64::from(block.stage == Stage::Reducing);
        if block.stage != Stage::Writing {
            self.unplaced -= 1;
            self.unplaced_moved -= u64::from(block.origin.is_moved());
        }
        Some(block)
    }

    /// The write of a block has ended: removes it, unless its slot was freed and reused since.
    pub(crate) fn written(&mut self, id: SlotId) {
        if let Entry::Occupied(block) = self.blocks.entry(id)
            && block.get().stage == Stage::Writing
        {
            block.remove();
        }
    }

    /// A block has a place. Returns its origin if it is still dirty.
    pub(crate) fn placed(&mut self, id: SlotId) -> Option<Origin> {
        let block = self.blocks.get_mut(&id).filter(|block| block.stage == Stage::Reducing)?;
        block.stage = Stage::Writing;
        self.reducing -= 1;
        self.unplaced -= 1;
        self.unplaced_moved -= u64::from(block.origin.is_moved());
        Some(block.origin)
    }

    /// Removes the oldest waiting block from the queue. Returns its bytes if it is whole, which is
    /// then in the reduction pipeline.
    pub(crate) fn next_to_reduce(&mut self) -> Option<(SlotId, Option<Bytes>)> {
        loop {
            let id = self.queue.pop_front()?;
            let Some(block) = self.blocks.get_mut(&id).filter(|block| block.stage == Stage::Waiting) else {
                continue;
            };
            if block.mask != ALL_SECTORS {
                return Some((id, None));
            }
            block.stage = Stage::Reducing;
            self.reducing += 1;
            return Some((id, Some(block.data.clone())));
        }
    }

    /// Returns a block in the reduction pipeline; `None` if it was freed since.
    pub(crate) fn get_reducing(&self, id: SlotId) -> Option<&DirtyBlock> {
        self.blocks.get(&id).filter(|block| block.stage == Stage::Reducing)
    }

    /// Returns a block to the front of the queue, either for a place of its own or, once, for
    /// another lookup of an equal block.
    pub(crate) fn wait_again(&mut self, id: SlotId, look_again: bool) {
        if let Some(block) = self.blocks.get_mut(&id).filter(|block| block.stage == Stage::Reducing) {
            (block.stage, block.is_unique) = (Stage::Waiting, !look_again || block.was_looked_up_twice);
            block.was_looked_up_twice = true;
            self.reducing -= 1;
            self.queue.push_front(id);
        }
    }

    /// The pool has no space for the block. A block written by a host waits again; a relocated one
    /// stays at its old place.
    pub(crate) fn no_place(&mut self, id: SlotId) {
        match self.get_reducing(id).map(|block| block.origin.is_moved()) {
            Some(true) => drop(self.remove(id)),
            Some(false) => self.wait_again(id, false),
            None => {}
        }
    }

    /// Removes every relocated block that waits: it stays at its old place.
    pub(crate) fn forget_moved(&mut self) {
        let is_moved = |block: &DirtyBlock| block.stage == Stage::Waiting && block.origin.is_moved();
        let ids: Vec<SlotId> =
            self.queue.iter().copied().filter(|id| self.blocks.get(id).is_some_and(is_moved)).collect();
        ids.into_iter().for_each(|id| drop(self.remove(id)));
        let blocks = &self.blocks;
        self.queue.retain(|id| blocks.get(id).is_some_and(|block| block.stage == Stage::Waiting));
    }

    /// Returns the number of blocks that have no place and are not in the reduction pipeline.
    pub(crate) fn waiting(&self) -> u64 {
        self.unplaced - self.reducing
    }

    /// Puts a block back at the front of the queue.
    pub(crate) fn put_back(&mut self, id: SlotId) {
        self.queue.push_front(id);
    }

    /// Returns the stored blocks that partly written ones need.
    pub(crate) fn bases(&self) -> impl Iterator<Item = SlotId> + '_ {
        self.blocks.values().filter_map(|block| block.base)
    }

    /// Returns the number of blocks without a place.
    pub(crate) fn unplaced(&self) -> u64 {
        self.unplaced
    }

    /// Returns the number of relocated blocks without a place.
    pub(crate) fn unplaced_moved(&self) -> u64 {
        self.unplaced_moved
    }

    /// Returns the bytes in memory, including those being written.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK_BYTES
    }

    /// True if a block waits in the queue.
    pub(crate) fn has_waiting(&self) -> bool {
        // The queue may hold ids of blocks that were freed.
        self.waiting() > 0 && !self.queue.is_empty()
    }
}
