//! Background work: drops, destage, checkpoints, cleaning, and segments made ready.

use super::Core;
use crate::machine::io::TaskId;
use types::BLOCK_BYTES;

/// Part of the limit of dirty blocks that may be left at the barrier of a checkpoint. Hosts wait
/// until they have places.
const BARRIER_PART: u64 = 64;
/// The same if hosts wait for the checkpoint, or soon will.
const URGENT_BARRIER_PART: u64 = 8;

impl Core {
    /// True if [`Core::tick`] has work that nothing else starts.
    pub fn wants_tick(&self) -> bool {
        self.stopped.is_none()
            && (self.scheduler.has_paused()
                || self.loader.is_dropping(&self.state.map)
                || self.is_destage_due()
                || self.is_checkpoint_due()
                || self.space.is_cleaning_due(self.view())
                || self.destager.dedup.is_rebuild_due()
                || self.state.map.slots.needs_free_slots(self.state.options.free_slots_target())
                || (self.scheduler.has_memory_waiters() && !self.loader.is_loading())
                || self.space.is_allocation_due(&self.state, &self.checkpointer)
                || self.space.pool.is_discard_due()
                || self.is_removal_due())
    }

    /// True if [`Core::tick`] should follow without a rest: there are actions, a request has paused
    /// for others, or the cleaner has more blocks to relocate. A tick relocates only some, and
    /// hosts wait for them in a full pool.
    pub fn must_tick_again(&self) -> bool {
        let is_due = || self.scheduler.has_paused() || self.space.is_relocation_due(self.view());
        self.has_actions() || (self.stopped.is_none() && is_due())
    }

    /// Runs background work. Bounded.
    pub fn tick(&mut self) {
        if self.stopped.is_some() {
            return self.tick_stopped();
        }
        self.stop_if_overdrawn();
        self.space.pool.free_unpinned();
        if self.space.backpressure.space && !self.frees_space() {
            self.space.pool.revoke_checkpoint_pins();
        }
        self.allocate_ahead();
        self.space.discard(&self.state.geometry, &mut self.dispatcher);
        self.drop_pages();
        self.remove_streams();
        let (space, mut cx) = self.clean_parts();
        let result = space.clean(&mut cx);
        self.stop_on_error(result);
        self.destage();
        self.drive_checkpoint();
        self.destager.rebuild_index(&self.state, &self.space.pool, &mut self.dispatcher);
        let result = self.loader.prefetch_free_slots(&mut self.state, &self.checkpointer, &mut self.dispatcher);
        self.stop_on_error(result);
        self.loader.evict_pages(&mut self.state);
        if !self.loader.is_loading() {
            self.scheduler.wake_memory_waiters();
        }
        self.scheduler.end_pause();
        self.run_woken();
    }

    /// Frees memory for the reads that a stopped core still serves.
    fn tick_stopped(&mut self) {
        self.loader.evict_pages(&mut self.state);
        if !self.loader.is_loading() {
            self.scheduler.wake_memory_waiters();
        }
        self.run();
    }

    /// For a slow timer, every half second. Retries operations that failed before (file system
    /// space for segments, reads of pages), marks the end of an idle log, and plans to release the
    /// space of segments that stay free.
    pub fn slow_tick(&mut self) {
        if self.stopped.is_none() {
            let result = self.log.mark_end(&self.state.geometry, &mut self.dispatcher);
            self.stop_on_error(result);
        }
        self.loader.retry_drops();
        self.retry_removals();
        self.space.retry_cleaning();
        self.space.recompressor.slow_tick();
        self.space.pool.retry_allocation();
        if self.stopped.is_none() {
            self.space.plan_discards(&self.state, &self.checkpointer);
        }
    }

    /// Requests a checkpoint of the present state, whether one is due or not. It is complete when
    /// [`Core::checkpoints`] reaches the returned number. A checkpoint already frozen does not
    /// count: it lacks changes made since.
    pub fn request_checkpoint(&mut self) -> u64 {
        self.checkpointer.request()
    }

    pub(super) fn allocate_ahead(&mut self) {
        self.space.allocate_ahead(&self.state, &self.checkpointer, &mut self.dispatcher);
    }

    fn drop_pages(&mut self) {
        let waiting = self.scheduler.has_memory_waiters();
        let Self { loader, state, checkpointer, space, destager, dispatcher, .. } = self;
        let result = loader.drop_pages(waiting, state, checkpointer, &mut space.pool, &mut destager.dirty, dispatcher);
        self.stop_on_error(result);
    }

    /// True if destage and the cleaner have the segments that they need to free others.
    fn frees_space(&self) -> bool {
        self.destager.has_place(&self.state, &self.space, &self.checkpointer) && self.space.may_move(self.view())
    }

    /// Returns the request that has waited longest while hosts wait for space.
    pub(crate) fn space_waiter(&self) -> Option<TaskId> {
        if self.space.backpressure.space { self.scheduler.first_admission_waiter() } else { None }
    }

    fn is_destage_due(&self) -> bool {
        self.destager.is_due(&self.state, &self.space, &self.checkpointer)
    }

    /// Starts batches of dirty blocks while that is due.
    pub(super) fn destage(&mut self) {
        let (destager, mut cx) = self.destage_parts();
        let result = destager.destage(&mut cx);
        self.stop_on_error(result);
    }

    /// Writes the open chunks of data.
    pub(super) fn cut_data_chunks(&mut self) {
        self.destager.cut_chunks(&mut self.space, &self.checkpointer, &mut self.dispatcher);
    }

    fn is_checkpoint_due(&self) -> bool {
        match self.checkpointer.is_idle() {
            true => self.checkpointer.is_due(&self.state, &self.log) || self.space.needs_checkpoint(self.view()),
            false => self.checkpointer.is_draining(),
        }
    }

    /// Advances the checkpoint until it waits for I/O.
    fn drive_checkpoint(&mut self) {
        if self.checkpointer.is_idle() && self.is_checkpoint_due() {
            self.checkpointer.start_draining();
            self.destage();
        }
        // Waits for segments that become ready soon: a checkpoint that has begun must find space.
        let has_space = |core: &Self| {
            let pool = &core.space.pool;
            pool.ready() >= core.space.checkpoint_segments(&core.state, &core.checkpointer)
                || !(pool.may_grow() || pool.coming() > 0)
        };
        if self.checkpointer.is_draining() && !has_space(self) {
            self.space.pool.revoke_checkpoint_pins();
        }
        // Most dirty blocks get places before the barrier, because the barrier stops all changes.
        let is_urgent = self.space.backpressure.is_any() || self.checkpointer.is_urgent(&self.state, &self.log);
        let part = if is_urgent { URGENT_BARRIER_PART } else { BARRIER_PART };
        let few = (self.state.options.dirty_limit / part / BLOCK_BYTES).max(1);
        let is_before_barrier = self.checkpointer.is_draining() && !self.checkpointer.is_barrier();
        if is_before_barrier && self.destager.dirty.unplaced() <= few && has_space(self) {
            self.checkpointer.start_barrier();
            self.destage();
        }
        // The freeze is between two groups: every record is in the checkpoint or in a later group.
        if self.checkpointer.is_barrier() && self.log.pending() > 0 {
            self.kick();
        }
        self.stop_if_overdrawn();
        let is_drained = self.destager.dirty.unplaced() == 0 && self.log.pending() == 0;
        if self.stopped.is_none() && self.checkpointer.is_barrier() && is_drained && has_space(self) {
            match self.freeze() {
                Some(()) => self.checkpointer.flush_if_written(&mut self.dispatcher),
                None => self.stop("no space for a checkpoint"),
            }
            self.stop_if_overdrawn();
        }
    }

    /// Stops the core if a segment has fewer live sectors than were removed from it.
    fn stop_if_overdrawn(&mut self) {
        if self.space.pool.is_overdrawn() {
            self.stop_inconsistent("the account of a segment is wrong; run `ibid fsck`");
        }
    }

    fn freeze(&mut self) -> Option<()> {
        self.cut_data_chunks();
        let Self { checkpointer, destager, state, space, log, dispatcher, .. } = self;
        checkpointer.freeze(destager.chunk_writes(), state, &mut space.pool, log, dispatcher)?;
        space.checkpoint_frozen(&state.geometry, &destager.dirty);
        Some(())
    }

    /// A copy of the superblock was written. After the last one, frees what only the old
    /// checkpoint needed.
    pub(super) fn superblock_written(&mut self, copy: usize) {
        let Some(superblock) = self.checkpointer.superblock_written(copy, &mut self.dispatcher) else { return };
        self.log.ring.release_before(superblock.log.sequence);
        self.state.map.pages.finish_writes();
        self.state.map.slots.finish_writes();
        self.space.checkpoint_completed(superblock.geometry == self.state.geometry);
        self.state.streams.checkpointed(self.checkpointer.completed());
        self.finish_removals();
    }
}
