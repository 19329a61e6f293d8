//! Dirty blocks: slots whose bytes are in memory and in the log, and not yet at a place on the drive.

use blockmap::SlotId;
use bytes::Bytes;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use types::{BLOCK_BYTES, VolumeId};

/// The mask of a block of which every 512-byte sector is in memory.
pub(crate) const ALL_SECTORS: u8 = 0xFF;

/// How far a dirty block has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Waits for destage.
    Waiting,
    /// The sectors that it lacks are being read.
    Filling,
    /// It is being fingerprinted, compared or compressed.
    Reducing,
    /// It has a place, and the write to it is under way.
    Writing,
}

/// Where a block comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A host has written it.
    Written {
        /// To this volume, whose map names it at `block`.
        volume: VolumeId,
        /// Number of the 4 KiB block.
        block: u64,
        /// Which write it was.
        write: u64,
    },
    /// The cleaner has taken it up.
    Moved {
        /// Out of which of the segments that it cleaned.
        victim: u64,
        /// Blocks with neighbouring positions may be compressed together.
        position: u64,
    },
}

impl Origin {
    /// Blocks of one batch may be compressed together; in it, they stand in this order.
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
    /// 4 KiB, of which the sectors in `mask` count.
    pub(crate) data: Bytes,
    pub(crate) mask: u8,
    /// The stored block that the other sectors are taken from; one reference to it is counted.
    pub(crate) base: Option<SlotId>,
    pub(crate) stage: Stage,
    pub(crate) origin: Origin,
    /// No equal block is looked for (any more).
    pub(crate) is_unique: bool,
    /// It was looked for twice.
    pub(crate) has_looked_again: bool,
    /// The sectors that it lacked could not be read: it is stored with a checksum that never fits, so that reading it fails
    /// until it is written as a whole.
    pub(crate) is_damaged: bool,
}

/// All dirty blocks, in the order of their writing.
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

    pub(crate) fn get(&self, name: SlotId) -> Option<&DirtyBlock> {
        self.blocks.get(&name)
    }

    pub(crate) fn get_mut(&mut self, name: SlotId) -> Option<&mut DirtyBlock> {
        self.blocks.get_mut(&name)
    }

    pub(crate) fn insert(&mut self, name: SlotId, data: Bytes, mask: u8, base: Option<SlotId>, origin: Origin) {
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
            has_looked_again: false,
            is_damaged: false,
        };
        assert!(self.blocks.insert(name, block).is_none(), "block {name:?} is dirty twice");
        self.queue.push_back(name);
        self.unplaced += 1;
        self.unplaced_moved += u64::from(is_moved);
    }

    /// Forgets a block; gives it back.
    pub(crate) fn remove(&mut self, name: SlotId) -> Option<DirtyBlock> {
        let block = self.blocks.remove(&name)?;
        self.reducing -= u64::from(block.stage == Stage::Reducing);
        if block.stage != Stage::Writing {
            self.unplaced -= 1;
            self.unplaced_moved -= u64::from(block.origin.is_moved());
        }
        Some(block)
    }

    /// What was written of a block is on the drive: it is forgotten, unless it has been freed and taken again meanwhile.
    pub(crate) fn written(&mut self, name: SlotId) {
        if let Entry::Occupied(block) = self.blocks.entry(name)
            && block.get().stage == Stage::Writing
        {
            block.remove();
        }
    }

    /// The block has got a place: where it comes from, when it is still there.
    pub(crate) fn placed(&mut self, name: SlotId) -> Option<Origin> {
        let block = self.blocks.get_mut(&name).filter(|block| block.stage == Stage::Reducing)?;
        block.stage = Stage::Writing;
        self.reducing -= 1;
        self.unplaced -= 1;
        self.unplaced_moved -= u64::from(block.origin.is_moved());
        Some(block.origin)
    }

    /// The next block that waits, oldest first, and its bytes when it is whole: then it is on its way to a place. It leaves the queue.
    pub(crate) fn next_to_reduce(&mut self) -> Option<(SlotId, Option<Bytes>)> {
        loop {
            let name = self.queue.pop_front()?;
            let Some(block) = self.blocks.get_mut(&name).filter(|block| block.stage == Stage::Waiting) else {
                continue;
            };
            if block.mask != ALL_SECTORS {
                return Some((name, None));
            }
            block.stage = Stage::Reducing;
            self.reducing += 1;
            return Some((name, Some(block.data.clone())));
        }
    }

    /// The block is where the pipeline has it: neither freed nor freed and taken again.
    pub(crate) fn get_reducing(&self, name: SlotId) -> Option<&DirtyBlock> {
        self.blocks.get(&name).filter(|block| block.stage == Stage::Reducing)
    }

    /// The block waits again, before all others: for a place of its own, or, once, for another look for an equal one.
    pub(crate) fn wait_again(&mut self, name: SlotId, shall_look: bool) {
        if let Some(block) = self.blocks.get_mut(&name).filter(|block| block.stage == Stage::Reducing) {
            (block.stage, block.is_unique) = (Stage::Waiting, !shall_look || block.has_looked_again);
            block.has_looked_again = true;
            self.reducing -= 1;
            self.queue.push_front(name);
        }
    }

    /// There is no place for the block: one that a host has written waits again, one that was taken up stays where it was.
    pub(crate) fn no_place(&mut self, name: SlotId) {
        match self.get_reducing(name).map(|block| block.origin.is_moved()) {
            Some(true) => drop(self.remove(name)),
            Some(false) => self.wait_again(name, false),
            None => {}
        }
    }

    /// Gives up every block that was taken up and waits for a place: it stays where it was.
    pub(crate) fn forget_moved(&mut self) {
        let is_moved = |block: &DirtyBlock| block.stage == Stage::Waiting && block.origin.is_moved();
        let names: Vec<SlotId> =
            self.queue.iter().copied().filter(|name| self.blocks.get(name).is_some_and(is_moved)).collect();
        names.into_iter().for_each(|name| drop(self.remove(name)));
        let blocks = &self.blocks;
        self.queue.retain(|name| blocks.get(name).is_some_and(|block| block.stage == Stage::Waiting));
    }

    /// Blocks that neither have a place nor are on their way to one.
    pub(crate) fn waiting(&self) -> u64 {
        self.unplaced - self.reducing
    }

    /// Puts a block back at the front of the queue.
    pub(crate) fn put_back(&mut self, name: SlotId) {
        self.queue.push_front(name);
    }

    /// The stored blocks that partly written ones need.
    pub(crate) fn bases(&self) -> impl Iterator<Item = SlotId> + '_ {
        self.blocks.values().filter_map(|block| block.base)
    }

    /// Blocks without a place.
    pub(crate) fn unplaced(&self) -> u64 {
        self.unplaced
    }

    /// Those of them that the cleaner has taken up.
    pub(crate) fn unplaced_moved(&self) -> u64 {
        self.unplaced_moved
    }

    /// Bytes in memory, those being written included.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK_BYTES
    }

    /// True when a block waits in the queue.
    pub(crate) fn has_waiting(&self) -> bool {
        // Names of blocks that were freed meanwhile may stand in it.
        self.waiting() > 0 && !self.queue.is_empty()
    }
}
