//! Recompression: on a quiet array with space, the cleaner relocates segments that are stored
//! smaller thereby. It ends as soon as hosts write.

use super::clean::CleanContext;
use super::{Space, View};
use crate::machine::cleaner::{CleanerPhase, Relocation};
use crate::machine::dirty::DirtyBlocks;
use crate::machine::dispatcher::WorkPurpose;
use crate::machine::options::Options;
use crate::machine::pool::{Kind, Phase, Segment};
use crate::machine::survey::{Survey, SurveyResult};
use crate::machine::work::Work;

/// Part of the pool that must be free for hosts, beyond the space that the cleaner keeps free.
const MIN_FREE_PART: u64 = 16;

impl Space {
    /// True if a segment should be surveyed or compressed again.
    pub(super) fn is_recompression_due(&self, view: View<'_>) -> bool {
        self.recompressor.has_next()
            && !self.recompressor.is_surveying()
            && !self.recompressor.is_pausing()
            && self.may_recompress(view)
    }

    /// True if the array is quiet and has space to recompress. Segments that became empty are free
    /// with the next checkpoint only.
    fn may_recompress(&self, view: View<'_>) -> bool {
        let View { state, checkpointer, .. } = view;
        if !self.recompressor.is_quiet(&state.options) || self.backpressure.space {
            return false;
        }
        let least = self.margin(state, checkpointer) + u64::from(state.geometry.segments()) / MIN_FREE_PART;
        let reserve = self.reserve(state, checkpointer) + self.lendable_segments(state, checkpointer);
        !self.is_enough_empty(self.recompressor.emptied())
            && self.pool.free() > reserve + least
            && self.pool.ready() > reserve + self.promised_segments(view) + 1
    }

    /// True if a checkpoint should be taken so that recompressed segments become free: enough of
    /// them for one, or all.
    pub(super) fn is_recompression_checkpoint_due(&self, view: View<'_>) -> bool {
        self.recompressor.emptied() > 0
            && self.cleaner.phase == CleanerPhase::Idle
            && self.recompressor.is_quiet(&view.state.options)
            && !(self.recompressor.has_next() && self.may_recompress(view))
    }

    /// True while the cleaner relocates a segment only to recompress it.
    pub(super) fn is_recompressing(&self) -> bool {
        self.cleaner.relocation.is_some_and(|relocation| relocation.recompressed.is_some())
    }

    /// True while recompression waits for the next slow tick.
    pub(super) fn is_recompression_pausing(&self) -> bool {
        self.is_recompressing() && self.recompressor.is_pausing()
    }

    /// True if a recompression in progress must end, because hosts write.
    pub(super) fn must_end_recompression(&self, view: View<'_>) -> bool {
        self.is_recompressing() && (self.backpressure.space || !self.recompressor.is_quiet(&view.state.options))
    }

    /// Ends a recompression in progress. The blocks that have no new place yet stay in their old
    /// one, and the segment is surveyed again later.
    pub(super) fn end_recompression(&mut self, dirty: &mut DirtyBlocks) {
        self.cleaner.victim = None;
        self.cleaner.phase = CleanerPhase::Placing;
        dirty.forget_moved();
        if let Some(Relocation { segment, usage, .. }) = self.cleaner.relocation {
            self.pool.note_survey(segment, usage, false);
        }
    }

    /// Starts the next step of recompression: relocates the chosen segment, or surveys another.
    pub(super) fn recompress(&mut self, cx: &mut CleanContext<'_>) {
        if !self.is_recompression_due(cx.view()) {
            return;
        }
        if let Some((segment, usage)) = self.recompressor.take_chosen() {
            let now = self.pool.segments()[segment as usize];
            if is_sealed_data(&now, usage) {
                let recompressed = Some(now.live);
                self.cleaner.relocation = Some(Relocation { segment, usage, moved: 0, recompressed });
                // Hosts and peers keep their space.
                let lendable = self.lendable_segments(cx.state, cx.checkpointer);
                self.cleaner.kept = self.reserve(cx.state, cx.checkpointer) + lendable + 1;
                self.read_victim(segment, cx);
            }
            return;
        }
        let next = self.pool.unsurveyed();
        let chain = next.and_then(|segment| cx.state.summaries_of(&self.pool, segment));
        self.recompressor.searched(chain.is_some());
        if let Some(chain) = chain {
            let purpose = WorkPurpose::Survey { segment: chain.id.segment, usage: chain.id.usage };
            cx.dispatcher.start_work(Work::survey(Survey { chain }), purpose);
        }
    }

    /// A segment was surveyed.
    pub(crate) fn surveyed(&mut self, segment: u32, usage: u64, result: SurveyResult, options: &Options) {
        let is_unchanged = self.pool.segments().get(segment as usize).is_some_and(|now| is_sealed_data(now, usage));
        if is_unchanged {
            self.pool.note_survey(segment, usage, true);
        }
        let has_gain = result.has_gain() || options.recompress_after.is_some();
        self.recompressor.surveyed(result.blocks, (is_unchanged && has_gain).then_some((segment, usage)));
    }
}

/// True for a sealed segment of data in this use that holds something.
fn is_sealed_data(segment: &Segment, usage: u64) -> bool {
    segment.kind == Kind::Data && segment.phase == Phase::Sealed && segment.usage == usage && segment.live > 0
}
