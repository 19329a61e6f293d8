//! Copies of disks. Only written blocks are copied.

use crate::content::Content;
use crate::error::{Result, VirtualDiskError};
use crate::format::DiskFormat;
use crate::layout::{Placed, join};
use crate::map::State;
use crate::mover::{Advance, CopyOrder, HostCopyReason, Mover, MoverSettings, MoverWork};
use crate::transfer::pieces;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::ops::Range;

/// Bytes per read of a copy to a hosted sparse format.
const GRAINS_BYTES: u64 = 1 << 20;

/// The cost of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// The commands sent, without those for datastore metadata.
    pub work: MoverWork,
    /// Why data went through the host; `None` if the array copied everything or nothing was copied.
    pub by_host: Option<HostCopyReason>,
}

impl CopyReport {
    /// Adds the cost of another disk of the same machine.
    pub(crate) fn add(&mut self, other: Self) {
        self.work.add(other.work);
        self.by_host = self.by_host.or(other.by_host);
    }
}

/// A copy of one disk to another of equal size.
pub(crate) struct Copier<'a> {
    source: &'a Content,
    destination: &'a Content,
    format: DiskFormat,
    order: CopyOrder,
    mover: Mover,
}

impl<'a> Copier<'a> {
    /// Creates a copy. The destination is a new, unwritten disk and gets `format`.
    pub(crate) fn new(
        (source, destination): (&'a Content, &'a Content),
        format: DiskFormat,
        order: CopyOrder,
        settings: MoverSettings,
    ) -> Self {
        Self { source, destination, format, order, mover: Mover::new(settings) }
    }

    /// Returns the commands sent so far; `by_host` is the reason for copying through the host.
    pub(crate) fn report(&self, by_host: Option<HostCopyReason>) -> CopyReport {
        CopyReport { work: self.mover.work.work(), by_host }
    }

    /// Returns whether it is known in advance that all data goes through the host.
    pub(crate) fn is_by_host(&self) -> bool {
        self.mover.by_host(self.source.disk(), self.order).is_some()
    }

    /// Copies a range of whole blocks. Neither range may be written during the copy. `advance` is
    /// called for all bytes of the range, including those that need no copy.
    pub(crate) async fn copy(&self, range: Range<u64>, advance: Advance<'_>) -> Result<Option<HostCopyReason>> {
        let (source, destination) = (self.source, self.destination);
        let (end, block) = (destination.end(), u64::from(source.disk().identity().block_bytes));
        let layers = source.layers(range.clone()).into_iter();
        let layers: Vec<_> = layers.map(|(layer, runs)| (layer, before(runs, end, block))).collect();
        let mut written: Vec<_> = layers.iter().flat_map(|(_, runs)| runs.clone()).collect();
        written.sort_by_key(|run| run.offset);
        if destination.file().is_sparse() {
            return self.copy_grains(written, range, advance).await;
        }
        let blocks = destination.blocks(range.clone());
        if self.format.is_thick() {
            destination.allocate(blocks.clone()).await?;
        } else {
            for run in &written {
                destination.allocate(destination.blocks(run.offset..run.end())).await?;
            }
        }
        let least = layers.iter().map(|(layer, _)| layer.file().block_bytes()).min();
        if least.is_some_and(|least| least < destination.file().block_bytes()) {
            // A block that the copy covers only in part has old data in the rest.
            for run in &written {
                destination.zero_rest(destination.blocks(run.offset..run.end()), &|_| ()).await?;
            }
        }
        let room = destination.placed(blocks.clone(), |_| true);
        let (mut moved, mut why) = (0, None);
        for (layer, runs) in &layers {
            let joints = join(runs, &room, block);
            moved += joints.iter().map(|joint| joint.bytes).sum::<u64>();
            let by_host = self.mover.copy((layer.disk(), destination.disk()), &joints, self.order, advance).await?;
            why = why.or(by_host);
        }
        destination.note_written(written).await?;
        let rest = (range.end - range.start).saturating_sub(moved);
        if self.format == DiskFormat::EagerZeroedThick {
            let left = destination.placed(blocks.clone(), |state| state == State::ToBeZeroed);
            let runs: Vec<_> = left.iter().map(|run| (run.lba, run.bytes / 512)).collect();
            self.mover.zero(destination.disk(), &runs, advance).await?;
            destination.note_written(left).await?;
        } else {
            advance(rest);
        }
        Ok(why)
    }

    /// Copies runs of the source to a disk in a hosted sparse format, without grains of zeros.
    async fn copy_grains(
        &self,
        runs: Vec<Placed>,
        range: Range<u64>,
        advance: Advance<'_>,
    ) -> Result<Option<HostCopyReason>> {
        let written: u64 = runs.iter().map(|run| run.bytes).sum();
        let parts = runs.iter().flat_map(|run| pieces(run.bytes, GRAINS_BYTES).map(|(at, n)| (run.offset + at, n)));
        let copied = stream::iter(parts.map(|(offset, bytes)| async move {
            let bytes = bytes.min(self.source.bytes().saturating_sub(offset));
            if bytes > 0 {
                self.mover.work.read(bytes);
                self.write_grains(offset, self.source.read(offset, bytes).await?).await?;
            }
            advance(bytes);
            Ok::<(), VirtualDiskError>(())
        }));
        let transfers = self.mover.settings().outstanding.transfers;
        copied.buffer_unordered(transfers.into()).try_collect::<()>().await?;
        advance((range.end - range.start).saturating_sub(written));
        Ok(self.mover.by_host(self.source.disk(), self.order))
    }

    /// Writes the grains of a part of the disk that are not zeros.
    async fn write_grains(&self, offset: u64, data: Bytes) -> Result<()> {
        let grain = usize::try_from(self.destination.file().block_bytes()).unwrap_or(usize::MAX);
        let skipped = usize::try_from(offset % grain as u64).unwrap_or(0);
        let mut runs: Vec<Range<usize>> = Vec::new();
        let (mut at, mut end) = (0, (grain - skipped).min(data.len()));
        while at < data.len() {
            if data.get(at..end).is_some_and(|part| part.iter().any(|byte| *byte != 0)) {
                match runs.last_mut().filter(|last| last.end == at) {
                    Some(last) => last.end = end,
                    None => runs.push(at..end),
                }
            }
            (at, end) = (end, (end + grain).min(data.len()));
        }
        for run in runs {
            self.mover.work.write(run.len() as u64);
            self.destination.write(offset + run.start as u64, data.slice(run)).await?;
        }
        Ok(())
    }
}

/// Returns the parts of runs before `end`: the last block of a disk may be longer than the disk.
fn before(runs: Vec<Placed>, end: u64, block: u64) -> Vec<Placed> {
    let cut = |run: Placed| run.part(run.offset, end.saturating_sub(run.offset), block);
    runs.into_iter().map(cut).filter(|run| run.bytes > 0).collect()
}
