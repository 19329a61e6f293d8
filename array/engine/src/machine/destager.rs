//! The destager: gives dirty blocks places in the open data segments, in batches. A batch is
//! fingerprinted, compared with blocks that may be equal, and compressed; then each group of up to
//! eight blocks of one write is appended.

mod equal;
mod place;

use super::checkpointer::Checkpointer;
use super::dedup::Dedup;
use super::dirty::{ALL_SECTORS, DirtyBlocks, Stage, Ticket};
use super::dispatcher::{Dispatcher, IoPurpose, WorkPurpose};
use super::group::{StoredGroup, block};
use super::io::{Io, Urgency};
use super::page_loader::PageLoader;
use super::plan::patch;
use super::ranges::BLOCK_LEN;
use super::space::{Space, View};
use super::state::ArrayState;
use super::work::Work;
use blockmap::Ref;
use bytes::{Bytes, BytesMut};
use ondisk::{SECTOR_BYTES, SegmentWriter};
use types::BLOCK_BYTES;

/// Chunks in flight at the same time.
const MAX_CHUNK_WRITES: u32 = 4;
/// Blocks of one batch.
const BATCH_BLOCKS: usize = 256;
/// Index of the open segment of blocks that the cleaner moved.
const MOVED: usize = 1;
/// Batches in flight at the same time.
const MAX_BATCHES: usize = 3;

/// The parts of the core that the destager works with.
pub(crate) struct DestageContext<'a> {
    pub(crate) state: &'a mut ArrayState,
    pub(crate) checkpointer: &'a Checkpointer,
    pub(crate) loader: &'a mut PageLoader,
    pub(crate) space: &'a mut Space,
    pub(crate) dispatcher: &'a mut Dispatcher,
}

/// Dirty blocks and their way to the open data segments.
pub(crate) struct Destager {
    pub(crate) dirty: DirtyBlocks,
    pub(crate) dedup: Dedup,
    /// The open segments: of blocks that hosts wrote, and of blocks that the cleaner moved. Moved
    /// blocks live longer, so segments that hold no others are emptied less often.
    open: [OpenSegment; 2],
    /// Batches in the reduction pipeline.
    batches: usize,
    chunk_writes: u32,
}

/// An open data segment.
#[derive(Default)]
struct OpenSegment {
    writer: Option<SegmentWriter>,
    /// Blocks with a place in the open chunk.
    chunk: Vec<Ticket>,
}

impl Destager {
    pub(crate) fn new(dedup: Dedup, dirty: DirtyBlocks) -> Self {
        Self { dirty, dedup, open: Default::default(), batches: 0, chunk_writes: 0 }
    }

    /// Returns the number of chunks in flight.
    pub(crate) fn chunk_writes(&self) -> u32 {
        self.chunk_writes
    }

    /// Returns the free sectors of the open segments. If no segment can be opened, blocks of hosts
    /// are placed in that of moved blocks. Less than a block is of no use.
    pub(crate) fn open_sectors(&self) -> u32 {
        let free = self.open.iter().map(|open| open.writer.as_ref().map_or(0, SegmentWriter::free_sectors));
        free.filter(|sectors| u64::from(*sectors) * SECTOR_BYTES >= BLOCK_BYTES).sum()
    }

    /// True if destage must continue to the last dirty block.
    fn is_urgent(&self, space: &Space, checkpointer: &Checkpointer) -> bool {
        let pressure = &space.backpressure;
        pressure.memory || pressure.space || checkpointer.is_draining() || space.cleaner.is_placing()
    }

    /// True if a batch or the open chunk should be sent on its way.
    pub(crate) fn is_due(&self, state: &ArrayState, space: &Space, checkpointer: &Checkpointer) -> bool {
        let waiting = self.dirty.waiting() * BLOCK_BYTES;
        let is_much = waiting >= threshold(state) && self.dirty.has_waiting();
        let has_open_chunk =
            self.open.iter().any(|open| open.writer.as_ref().is_some_and(SegmentWriter::has_open_chunk));
        let is_last = has_open_chunk && self.batches == 0;
        let is_wanted = is_much || (self.is_urgent(space, checkpointer) && (self.dirty.has_waiting() || is_last));
        let can_proceed = self.has_place(state, space, checkpointer) || self.dirty.unplaced_moved() > 0;
        is_wanted && self.chunk_writes < MAX_CHUNK_WRITES && self.batches < MAX_BATCHES && can_proceed
    }

    /// True if there is space for a block, or no block waits. Otherwise batches that find no place
    /// would return to the queue again and again.
    pub(crate) fn has_place(&self, state: &ArrayState, space: &Space, checkpointer: &Checkpointer) -> bool {
        self.open_sectors() > 0
            || space.pool.ready() > space.checkpoint_segments(state, checkpointer)
            || !self.dirty.has_waiting()
    }

    /// Starts batches of dirty blocks while that is due.
    ///
    /// # Errors
    ///
    /// A block that a partly written one needs is stored nowhere: the core must stop.
    pub(crate) fn destage(&mut self, cx: &mut DestageContext<'_>) -> Result<(), &'static str> {
        if !self.is_due(cx.state, cx.space, cx.checkpointer) {
            return Ok(());
        }
        if !self.has_place(cx.state, cx.space, cx.checkpointer) {
            self.dirty.forget_moved();
            return Ok(());
        }
        let is_urgent = self.is_urgent(cx.space, cx.checkpointer);
        let floor = threshold(cx.state) / 2;
        while self.batches < MAX_BATCHES && (is_urgent || self.dirty.waiting() * BLOCK_BYTES > floor) {
            let (tickets, blocks) = self.next_batch(cx)?;
            if tickets.is_empty() {
                break;
            }
            self.batches += 1;
            cx.dispatcher.start_work(Work::fingerprint(blocks), WorkPurpose::Fingerprint(tickets));
        }
        if is_urgent && self.batches == 0 && self.chunk_writes < MAX_CHUNK_WRITES {
            self.cut_chunks(cx.space, cx.checkpointer, cx.dispatcher);
        }
        Ok(())
    }

    /// Takes whole blocks from the queue. For a partly written block it starts reading the rest.
    fn next_batch(&mut self, cx: &mut DestageContext<'_>) -> Result<(Vec<Ticket>, Vec<Bytes>), &'static str> {
        let (mut tickets, mut blocks) = (Vec::with_capacity(BATCH_BLOCKS), Vec::with_capacity(BATCH_BLOCKS));
        while tickets.len() < BATCH_BLOCKS {
            match self.dirty.next_to_reduce() {
                Some((ticket, Some(data))) => {
                    tickets.push(ticket);
                    blocks.push(data);
                }
                Some((ticket, None)) => self.read_base(ticket, cx)?,
                None => break,
            }
        }
        Ok((tickets, blocks))
    }

    /// Starts reading the sectors that a partly written block lacks.
    fn read_base(&mut self, ticket: Ticket, cx: &mut DestageContext<'_>) -> Result<(), &'static str> {
        let Some(base) = self.dirty.held(ticket).and_then(|block| block.base) else { return Ok(()) };
        // The block below may itself be relocated at present: then it is in memory.
        let whole = self
            .dirty
            .get(base)
            .filter(|block| block.mask == ALL_SECTORS && !block.is_damaged)
            .map(|block| block.data.clone());
        if let Some(block) = self.dirty.held_mut(ticket) {
            block.stage = Stage::Filling;
        }
        if whole.is_some() {
            self.base_loaded(ticket, whole, cx);
            return Ok(());
        }
        let (group, index) = cx
            .state
            .stored_group(&cx.space.pool, base)
            .ok_or("block below a partly written one is neither in memory nor on the drive")?;
        let io = Io::Read { offset: group.offset, bytes: group.bytes(), urgency: Urgency::Background };
        let purpose = IoPurpose::BaseBlock { ticket, group, index, _pin: cx.space.pool.pin(group.segment) };
        cx.dispatcher.start_io(io, purpose);
        Ok(())
    }

    /// The group of the block below a partly written one was read, or could not be.
    pub(crate) fn base_read(
        &mut self,
        ticket: Ticket,
        group: StoredGroup,
        index: u8,
        bytes: Option<Bytes>,
        cx: &mut DestageContext<'_>,
    ) {
        let blocks = bytes.and_then(|bytes| group.unpack(bytes));
        self.base_loaded(ticket, blocks.map(|blocks| block(&blocks, index)), cx);
    }

    /// Completes a partly written block with the bytes of the block below, or marks it damaged if
    /// they could not be read.
    fn base_loaded(&mut self, ticket: Ticket, base_bytes: Option<Bytes>, cx: &mut DestageContext<'_>) {
        let Some(block) = self.dirty.held_mut(ticket).filter(|block| block.stage == Stage::Filling) else { return };
        block.is_damaged = base_bytes.is_none();
        let mut whole = base_bytes.map_or_else(|| BytesMut::zeroed(BLOCK_LEN), |bytes| BytesMut::from(&bytes[..]));
        patch(&mut whole, &block.data, block.mask);
        block.data = whole.freeze();
        block.mask = ALL_SECTORS;
        block.stage = Stage::Waiting;
        let base = block.base.take();
        self.dirty.put_back(ticket);
        if let Some(base) = base {
            cx.state.map.release(Ref::data(base));
            cx.state.release_freed(&mut cx.space.pool, &mut self.dirty);
        }
    }

    /// A chunk of data is on the drive and can be read there.
    pub(crate) fn chunk_written(&mut self, tickets: &[Ticket]) {
        self.chunk_writes -= 1;
        tickets.iter().for_each(|ticket| self.dirty.written(*ticket));
    }

    /// A view for decisions about space.
    fn view<'a>(&'a self, cx: &'a DestageContext<'_>) -> View<'a> {
        View { state: cx.state, checkpointer: cx.checkpointer, dirty: &self.dirty }
    }
}

/// Returns the dirty bytes at which destage begins; it ends at half of them.
fn threshold(state: &ArrayState) -> u64 {
    state.options.dirty_limit / 4
}
