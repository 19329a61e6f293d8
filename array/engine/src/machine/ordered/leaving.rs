//! Streams that leave the array.

use super::removal::Removal;
use super::{OrderedStream, OrderedStreams};
use crate::service::OpError;
use crate::stream_service::Gate;
use types::StreamId;

impl OrderedStream {
    /// Returns why the stream cannot be removed.
    fn check_removal(&self) -> Result<(), &'static str> {
        match (self.gate, self.durable < self.last) {
            (Gate::Both | Gate::Local, _) => Err("the stream is open"),
            (Gate::Closed, true) => Err("the last record is not durable yet"),
            (Gate::Closed, false) => Ok(()),
        }
    }

    /// True if the checkpoint of this number does not list the stream.
    pub(super) fn is_left_out(&self, checkpoint: u64) -> bool {
        matches!(self.removal, Some(Removal::With(first)) if first <= checkpoint)
    }
}

impl OrderedStreams {
    /// Begins to remove a stream, unless that has begun.
    pub(crate) fn remove(&mut self, stream: StreamId) -> Result<(), OpError> {
        let held = self.held(stream)?;
        if held.removal.is_none() {
            held.check_removal().map_err(OpError::Unavailable)?;
            held.removal = Some(Removal::Wanted);
        }
        Ok(())
    }

    /// Returns the streams that are being removed.
    pub(crate) fn removals(&self) -> impl Iterator<Item = (StreamId, Removal)> + '_ {
        self.streams.iter().filter_map(|(id, held)| Some((*id, held.removal?)))
    }

    /// Sets how far the removal of a stream is.
    pub(crate) fn set_removal(&mut self, stream: StreamId, removal: Removal) {
        self.streams.get_mut(&stream).into_iter().for_each(|held| held.removal = Some(removal));
    }

    /// True if the checkpoint of this number does not list a stream of this array.
    pub(crate) fn is_left_out(&self, stream: StreamId, checkpoint: u64) -> bool {
        self.streams.get(&stream).is_some_and(|held| held.is_left_out(checkpoint))
    }

    /// A checkpoint of this number is complete. Returns the streams that are gone.
    pub(crate) fn take_removed(&mut self, completed: u64) -> Vec<StreamId> {
        let gone = |(id, held): (&StreamId, &OrderedStream)| held.is_left_out(completed).then_some(*id);
        let gone: Vec<StreamId> = self.streams.iter().filter_map(gone).collect();
        gone.iter().for_each(|stream| drop(self.streams.remove(stream)));
        gone
    }
}
