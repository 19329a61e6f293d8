//! Requests that send the present content of blocks to the peer.

use super::Core;
use super::request::Step;
use crate::machine::io::TaskId;
use crate::machine::ordered::Outgoing;
use crate::machine::sync_step::{MAX_SYNC_BLOCKS, SyncLimits, SyncStep};
use crate::machine::task::{Task, Wait};
use crate::machine::volume::is_lacking;
use crate::service::{Op, OpError, Reply};
use crate::stream_credit::Credit;
use blockmap::{LEAF_REFS, Need, RefTarget};
use types::{BLOCK_BYTES, BlockRange, LBAS_PER_BLOCK, Lba, StreamId, VolumeId};
use wal::FillValue;

/// Most runs of a map that one record looks at: those of 16 leaves.
const MAX_RUNS: usize = 16 * LEAF_REFS;

impl Core {
    /// Cuts a request that sends content to the part that one record can have, so that it does not
    /// lock more. Where a page of the map is not in memory, that is an estimate.
    pub(super) fn cut_sync(&self, op: Op) -> Op {
        let Op::Sync { volume, period, range } = op else { return op };
        let range = self.held_part(volume, range);
        let credit = Credit { bytes: u64::MAX, blocks: u64::MAX, records: u64::MAX };
        let (step, absent) = self.collect(volume, range, SyncLimits { blocks: MAX_SYNC_BLOCKS, credit });
        let end = absent.map_or(step.end(), |block| block + MAX_SYNC_BLOCKS) * LBAS_PER_BLOCK;
        let end = end.min(range.end().0);
        let range = BlockRange::new(range.start(), end.saturating_sub(range.start().0)).unwrap_or_default();
        Op::Sync { volume, period, range }
    }

    /// Returns the part of a range that its volume has.
    fn held_part(&self, volume: VolumeId, range: BlockRange) -> BlockRange {
        let blocks = self.state.volumes.get(&volume).map_or(0, |held| held.blocks);
        let end = range.end().0.min(blocks);
        BlockRange::new(range.start(), end.saturating_sub(range.start().0)).unwrap_or_default()
    }

    /// Collects the content of a range from its start on, and returns the first block whose page
    /// is not in memory.
    fn collect(&self, volume: VolumeId, range: BlockRange, limits: SyncLimits) -> (SyncStep, Option<u64>) {
        let mut step = SyncStep::new(range.start().0 / LBAS_PER_BLOCK, limits);
        let (Some(root), end) = (self.state.root(volume), range.end().0 / LBAS_PER_BLOCK) else { return (step, None) };
        for _ in 0..MAX_RUNS {
            let next = step.end();
            if next >= end {
                break;
            }
            let Some((reference, run_end)) = self.state.map.run_at(&root, next) else { return (step, Some(next)) };
            let fill = match reference.target() {
                RefTarget::Hole => Some(FillValue::Hole),
                RefTarget::Zero => Some(FillValue::Zero),
                _ => None,
            };
            if !step.push(run_end.min(end), fill) {
                break;
            }
        }
        (step, None)
    }

    pub(super) fn step_sync(&mut self, id: TaskId, task: &mut Task, volume: VolumeId, range: BlockRange) -> Step {
        let range = self.held_part(volume, range);
        let Some(stream) = self.state.streams.of_volume(volume).filter(|_| !range.is_empty()) else {
            return Step::Replied(Ok(Reply::Synced { blocks: 0, data: 0 }));
        };
        let delta = volume.delta().and_then(|delta| Some((delta, self.state.volumes.get(&delta)?)));
        if !delta.is_some_and(|(id, delta)| is_lacking(id, delta)) {
            return Step::Replied(Ok(Reply::Synced { blocks: range.blocks(), data: 0 }));
        }
        let content = match task.sync.take() {
            Some(content) => content,
            None => match self.plan_sync(id, task, volume, range, stream) {
                Ok(content) => Box::new(content),
                Err(step) => return step,
            },
        };
        let (done, window) = (content.range(), content.window());
        task.sync = Some(content);
        if let Some(step) = window.and_then(|window| self.fetch_window(id, task, volume, window)) {
            return step;
        }
        let own = self.state.sync_ops(volume, done);
        let step = self.log_step(id, task, own, 0, true);
        if let Step::Sequenced = step {
            task.done = done.blocks();
        }
        step
    }

    /// Decides about the content of the next record. `Err` if the task waits for pages or for
    /// credit.
    fn plan_sync(
        &mut self,
        id: TaskId,
        task: &mut Task,
        volume: VolumeId,
        range: BlockRange,
        stream: StreamId,
    ) -> Result<SyncStep, Step> {
        let blocks = MAX_SYNC_BLOCKS.min(self.state.streams.max_payload(volume) / BLOCK_BYTES);
        let limits = SyncLimits { blocks, credit: self.state.streams.credit_left(stream) };
        let (content, absent) = self.collect(volume, range, limits);
        if let Some(block) = absent {
            let start = Lba(block * LBAS_PER_BLOCK);
            let blocks = (range.end().0 - start.0).min(MAX_SYNC_BLOCKS * LBAS_PER_BLOCK);
            let part = BlockRange::new(start, blocks).unwrap_or_default();
            let missing = self.state.missing_once(volume, part, Need::References);
            // A page that is in memory and cannot be entered is damaged.
            let damaged = Step::Replied(Err(OpError::MediumError { lba: start }));
            return Err(self.load_missing(missing, id, task).unwrap_or(damaged));
        }
        if content.range().is_empty() {
            return Err(self.await_sync_credit(id, task, stream));
        }
        Ok(content)
    }

    /// Reads the bytes that the record of a task has. `None` if it has them already.
    fn fetch_window(&mut self, id: TaskId, task: &mut Task, volume: VolumeId, window: BlockRange) -> Option<Step> {
        if !task.fetched.is_empty() {
            return None;
        }
        let missing = self.state.missing_once(volume, window, Need::Places);
        if let Some(step) = self.load_missing(missing, id, task) {
            return Some(step);
        }
        let plan = self.plan(volume, window, task.tag);
        match plan.execute_in_memory() {
            Some(Ok(Reply::Data(data))) => task.fetched.push(data),
            Some(Ok(_)) => return Some(Step::Replied(Err(OpError::Malformed("read returned no data")))),
            Some(Err(error)) => return Some(Step::Replied(Err(error))),
            None => {
                self.dispatcher.fetch(id, plan);
                return Some(Step::Wait(Wait::Bytes));
            }
        }
        None
    }

    /// Returns the content that a task sends. `Err` if the credit for it was used since it was
    /// collected.
    pub(super) fn sync_content(&mut self, id: TaskId, task: &mut Task, volume: VolumeId) -> Result<Outgoing, Step> {
        let Some(stream) = self.state.streams.of_volume(volume) else { return Ok(Outgoing::Content(Vec::new())) };
        let bytes = task.fetched.first().cloned().unwrap_or_default();
        let ops = task.sync.as_ref().map(|content| content.ops(volume, &bytes)).unwrap_or_default();
        if self.state.streams.credit_left(stream).covers(&Credit::of(&ops)) {
            return Ok(Outgoing::Content(ops));
        }
        Err(self.await_sync_credit(id, task, stream))
    }

    /// Lets a task wait for credit without its lock: changes of hosts need none.
    fn await_sync_credit(&mut self, id: TaskId, task: &mut Task, stream: StreamId) -> Step {
        task.sync = None;
        task.fetched.clear();
        self.scheduler.release(id, task);
        task.awaits_credit = true;
        self.state.streams.await_credit(stream, id);
        Step::Wait(Wait::Credit)
    }
}
