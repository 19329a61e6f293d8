//! Removal of streams. Each delta of such a stream becomes one without pages, so that the
//! checkpoint which leaves the stream out can leave its deltas out, too. Its stages are deleted.

use super::Core;
use crate::machine::ordered::{FULL_DELTA_BLOCKS, Outgoing, Removal};
use crate::machine::page_loader::PageWaiter;
use crate::machine::space::View;
use crate::machine::space::admission::Admission;
use crate::service::{OpError, Tag};
use blockmap::RefTarget;
use bytes::Bytes;
use types::{StreamId, VolumeId};
use wal::LogOp;

impl Core {
    /// Removes a closed stream. See [`crate::StreamService::remove_stream`].
    ///
    /// # Errors
    ///
    /// There is no such stream, it is open, its last record is not durable, or the core has
    /// stopped.
    pub fn remove_stream(&mut self, stream: StreamId) -> Result<(), OpError> {
        self.check_writable()?;
        self.state.streams.remove(stream)
    }

    /// True if [`Core::remove_streams`] has work that nothing else starts.
    pub(super) fn is_removal_due(&self) -> bool {
        self.state.streams.removals().any(|(_, removal)| self.may_remove(removal))
    }

    fn may_remove(&self, removal: Removal) -> bool {
        removal == Removal::Wanted || (removal == Removal::Loading && !self.loader.is_loading())
    }

    /// Continues to remove streams.
    pub(super) fn remove_streams(&mut self) {
        if self.state.streams.is_empty() {
            return;
        }
        let due: Vec<_> = self.state.streams.removals().filter(|(_, removal)| self.may_remove(*removal)).collect();
        for (stream, removal) in due {
            let next = self.drop_delta_pages(stream, removal);
            self.state.streams.set_removal(stream, next);
        }
    }

    /// Slots that could not be read may be readable now.
    pub(super) fn retry_removals(&mut self) {
        let stuck = self.state.streams.removals().filter(|(_, removal)| *removal == Removal::Stuck);
        let stuck: Vec<StreamId> = stuck.map(|(stream, _)| stream).collect();
        stuck.into_iter().for_each(|stream| self.state.streams.set_removal(stream, Removal::Wanted));
    }

    /// Makes the deltas of a stream that have pages full, which keeps more and needs no page, and
    /// deletes its stages.
    fn drop_delta_pages(&mut self, stream: StreamId, removal: Removal) -> Removal {
        let is_due = |(id, held): &(&VolumeId, &super::Volume)| {
            let has_page = matches!(held.root.reference.target(), RefTarget::Page(_));
            id.stream() == Some(stream) && (id.is_stage() || id.is_delta() && has_page)
        };
        let mut volumes: Vec<VolumeId> = self.state.volumes.iter().filter(is_due).map(|(id, _)| *id).collect();
        volumes.sort_unstable();
        let drop = |volume: VolumeId| {
            let delete = LogOp::Delete { volume };
            let fill = LogOp::Create { volume, blocks: FULL_DELTA_BLOCKS };
            if volume.is_stage() { vec![delete] } else { vec![delete, fill] }
        };
        let records: Vec<Vec<LogOp>> = volumes.into_iter().map(drop).collect();
        let missing = self.state.missing_in_deltas(&records.concat());
        if !missing.is_empty() {
            if removal == Removal::Loading {
                return Removal::Stuck;
            }
            for absent in missing {
                let Self { loader, state, checkpointer, dispatcher, .. } = self;
                let result = loader.load(absent, PageWaiter::Prefetch, state, checkpointer, dispatcher);
                self.stop_on_error(result);
            }
            return Removal::Loading;
        }
        let is_done = records.iter().all(|record| self.sequence_if_admitted(record));
        self.kick();
        if is_done { Removal::With(self.request_checkpoint()) } else { Removal::Wanted }
    }

    fn sequence_if_admitted(&mut self, record: &[LogOp]) -> bool {
        let view = View { state: &self.state, checkpointer: &self.checkpointer, dirty: &self.destager.dirty };
        let is_dropping = self.loader.is_dropping(&self.state.map);
        let open_sectors = self.destager.open_sectors();
        let admission = self.space.admit(record, view, &self.log, open_sectors, is_dropping, false);
        let outgoing = Outgoing::Operations(Bytes::new());
        admission == Admission::Now && self.sequence(record, None, (Tag::default(), true), outgoing).is_ok()
    }

    /// A checkpoint is complete: removes the streams that it does not list. Their volumes are plain
    /// volumes from now on.
    pub(super) fn finish_removals(&mut self) {
        for stream in self.state.streams.take_removed(self.checkpointer.completed()) {
            let is_own = |id: &&VolumeId| id.is_delta() && id.stream() == Some(stream);
            let deltas: Vec<VolumeId> = self.state.volumes.keys().filter(is_own).copied().collect();
            for delta in deltas {
                self.state.volumes.remove(delta);
            }
        }
    }
}
