//! Dirty blocks: slots whose bytes are in memory and in the log, and not yet on the drive.

use blockmap::SlotId;
use bytes::Bytes;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use types::{BLOCK_BYTES, VolumeId};

/// The mask of a block with every 512-byte sector in memory.
pub(crate) const ALL_SECTORS: u8 = 0xFF;

/// Identifies a dirty block in flight: in the queue, in a batch, in a read or in a write. The
/// generation of a slot comes back after 16 384 uses. A host that overwrites one block reaches that
/// while an I/O hangs. The number is used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) id: SlotId,
    number: u64,
}

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
    /// Number of its ticket.
    number: u64,
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
pub(crate) struct DirtyBlocks {
    blocks: FxHashMap<SlotId, DirtyBlock>,
    queue: VecDeque<Ticket>,
    /// Number of the last ticket.
    tickets: u64,
    /// The number after which tickets start with 0 again.
    last_ticket: u64,
    unplaced: u64,
    unplaced_moved: u64,
    reducing: u64,
    /// Writes of hosts, and segments relocated by the cleaner, since the array was opened.
    writes: u64,
}

impl DirtyBlocks {
    /// No dirty blocks. See [`Options::last_ticket`](super::options::Options::last_ticket).
    pub(crate) fn new(last_ticket: Option<u64>) -> Self {
        Self {
            blocks: FxHashMap::default(),
            queue: VecDeque::new(),
            tickets: 0,
            last_ticket: last_ticket.unwrap_or(u64::MAX),
            unplaced: 0,
            unplaced_moved: 0,
            reducing: 0,
            writes: 0,
        }
    }

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

    /// Returns the block of a ticket; `None` if it was freed since.
    pub(crate) fn held(&self, ticket: Ticket) -> Option<&DirtyBlock> {
        self.blocks.get(&ticket.id).filter(|block| block.number == ticket.number)
    }

    /// As [`DirtyBlocks::held`], to change it.
    pub(crate) fn held_mut(&mut self, ticket: Ticket) -> Option<&mut DirtyBlock> {
        self.blocks.get_mut(&ticket.id).filter(|block| block.number == ticket.number)
    }

    pub(crate) fn insert(&mut self, id: SlotId, data: Bytes, mask: u8, base: Option<SlotId>, origin: Origin) {
        assert!(data.len() as u64 == BLOCK_BYTES && (base.is_none() == (mask == ALL_SECTORS)));
        let is_moved = origin.is_moved();
        let stage = Stage::Waiting;
        self.tickets = if self.tickets < self.last_ticket { self.tickets + 1 } else { 0 };
        let number = self.tickets;
        let block = DirtyBlock {
            number,
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
        self.queue.push_back(Ticket { id, number });
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
    pub(crate) fn written(&mut self, ticket: Ticket) {
        if self.held(ticket).is_some_and(|block| block.stage == Stage::Writing) {
            self.blocks.remove(&ticket.id);
        }
    }

    /// A block has a place. Returns its origin if it is still dirty.
    pub(crate) fn placed(&mut self, ticket: Ticket) -> Option<Origin> {
        let block = self.held_mut(ticket).filter(|block| block.stage == Stage::Reducing)?;
        block.stage = Stage::Writing;
        let origin = block.origin;
        self.reducing -= 1;
        self.unplaced -= 1;
        self.unplaced_moved -= u64::from(origin.is_moved());
        Some(origin)
    }

    /// Removes the oldest waiting block from the queue. Returns its bytes if it is whole, which is
    /// then in the reduction pipeline.
    pub(crate) fn next_to_reduce(&mut self) -> Option<(Ticket, Option<Bytes>)> {
        loop {
            let ticket = self.queue.pop_front()?;
            let Some(block) = self.held_mut(ticket).filter(|block| block.stage == Stage::Waiting) else {
                continue;
            };
            if block.mask != ALL_SECTORS {
                return Some((ticket, None));
            }
            block.stage = Stage::Reducing;
            let data = block.data.clone();
            self.reducing += 1;
            return Some((ticket, Some(data)));
        }
    }

    /// Returns a block in the reduction pipeline; `None` if it was freed since.
    pub(crate) fn get_reducing(&self, ticket: Ticket) -> Option<&DirtyBlock> {
        self.held(ticket).filter(|block| block.stage == Stage::Reducing)
    }

    /// Returns a block to the front of the queue, either for a place of its own or, once, for
    /// another lookup of an equal block.
    pub(crate) fn wait_again(&mut self, ticket: Ticket, look_again: bool) {
        if let Some(block) = self.held_mut(ticket).filter(|block| block.stage == Stage::Reducing) {
            (block.stage, block.is_unique) = (Stage::Waiting, !look_again || block.was_looked_up_twice);
            block.was_looked_up_twice = true;
            self.reducing -= 1;
            self.queue.push_front(ticket);
        }
    }

    /// The pool has no space for the block. A block written by a host waits again; a relocated one
    /// stays at its old place.
    pub(crate) fn no_place(&mut self, ticket: Ticket) {
        match self.get_reducing(ticket).map(|block| block.origin.is_moved()) {
            Some(true) => drop(self.remove(ticket.id)),
            Some(false) => self.wait_again(ticket, false),
            None => {}
        }
    }

    /// Removes every relocated block that waits: it stays at its old place.
    pub(crate) fn forget_moved(&mut self) {
        let is_moved = |block: &DirtyBlock| block.stage == Stage::Waiting && block.origin.is_moved();
        let moved: Vec<Ticket> =
            self.queue.iter().copied().filter(|ticket| self.held(*ticket).is_some_and(is_moved)).collect();
        moved.into_iter().for_each(|ticket| drop(self.remove(ticket.id)));
        let mut queue = std::mem::take(&mut self.queue);
        queue.retain(|ticket| self.held(*ticket).is_some_and(|block| block.stage == Stage::Waiting));
        self.queue = queue;
    }

    /// Returns the number of blocks that have no place and are not in the reduction pipeline.
    pub(crate) fn waiting(&self) -> u64 {
        self.unplaced - self.reducing
    }

    /// Puts a block back at the front of the queue.
    pub(crate) fn put_back(&mut self, ticket: Ticket) {
        self.queue.push_front(ticket);
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
        // The queue may hold tickets of blocks that were freed.
        self.waiting() > 0 && !self.queue.is_empty()
    }
}
