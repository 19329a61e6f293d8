//! Copies of disks: what was written is copied, and nothing else.

use crate::content::Content;
use crate::disk::Report;
use crate::error::Result;
use crate::format::Format;
use crate::layout::join;
use crate::map::State;
use crate::mover::{Advance, ByHost, CopyOrder, Mover, MoverSettings};
use std::ops::Range;

/// A copy of one disk to another of the same size.
pub(crate) struct Copier<'a> {
    source: &'a Content,
    destination: &'a Content,
    format: Format,
    order: CopyOrder,
    mover: Mover,
}

impl<'a> Copier<'a> {
    /// A copy whose destination, a disk to which nobody has written, becomes one of `format`.
    pub(crate) fn new(
        (source, destination): (&'a Content, &'a Content),
        format: Format,
        order: CopyOrder,
        settings: MoverSettings,
    ) -> Self {
        Self { source, destination, format, order, mover: Mover::new(settings) }
    }

    /// What was sent so far, and why data went through the host.
    pub(crate) fn report(&self, by_host: Option<ByHost>) -> Report {
        Report { work: self.mover.work.work(), by_host }
    }

    /// True when it is known before the copy that all data go through the host.
    pub(crate) fn is_by_host(&self) -> bool {
        self.mover.by_host(self.source.disk(), self.order).is_some()
    }

    /// Copies the bytes of a range of whole blocks. Nobody may write to the source's range meanwhile, nor to the
    /// destination's. `advance` hears of every byte of the range, also of those that need not be moved.
    pub(crate) async fn copy(&self, range: Range<u64>, advance: Advance<'_>) -> Result<Option<ByHost>> {
        let (source, destination) = (self.source, self.destination);
        let written = source.placed(source.blocks(range.clone()), |state| state == State::Written);
        let blocks = destination.blocks(range.clone());
        if self.format.is_thick() {
            destination.allocate(blocks.clone()).await?;
        } else {
            for run in &written {
                destination.allocate(destination.blocks(run.offset..run.end())).await?;
            }
        }
        let room = destination.placed(blocks.clone(), |_| true);
        let joints = join(&written, &room, u64::from(source.disk().identity().block_bytes));
        let moved: u64 = joints.iter().map(|joint| joint.bytes).sum();
        let why = self.mover.copy((source.disk(), destination.disk()), &joints, self.order, advance).await?;
        destination.note_written(written).await?;
        let rest = (range.end - range.start).saturating_sub(moved);
        if self.format == Format::EagerZeroedThick {
            let left = destination.placed(blocks.clone(), |state| state == State::ToBeZeroed);
            let runs: Vec<_> = left.iter().map(|run| (run.lba, run.bytes / 512)).collect();
            self.mover.zero(destination.disk(), &runs, advance).await?;
            destination.note_written(left).await?;
        } else {
            advance(rest);
        }
        Ok(why)
    }
}
