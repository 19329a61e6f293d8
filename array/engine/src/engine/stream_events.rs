//! Streams of an open engine.

use super::Engine;
use crate::service::OpError;
use crate::stream_credit::Credit;
use crate::stream_service::{NewPeriod, StreamService, StreamSink, StreamStatus};
use std::sync::Arc;
use types::{Period, Position, StreamId, VolumeId};

impl StreamService for Engine {
    fn create_stream(&self, stream: StreamId) -> Result<(), OpError> {
        self.shared.locked(|core| core.create_stream(stream))
    }

    fn remove_stream(&self, stream: StreamId) -> Result<(), OpError> {
        self.shared.locked(|core| core.remove_stream(stream))
    }

    fn begin_period(&self, stream: StreamId, new: NewPeriod) -> Result<(), OpError> {
        self.shared.locked(|core| core.begin_period(stream, new))
    }

    fn close_stream(&self, stream: StreamId) -> Result<(), OpError> {
        self.shared.locked(|core| core.close_stream(stream))
    }

    fn stream_heard(&self, stream: StreamId, period: Period, position: Position) -> Result<(), OpError> {
        self.shared.locked(|core| core.stream_heard(stream, period, position))
    }

    fn lend_room(&self, stream: StreamId, period: Period) -> Result<Credit, OpError> {
        self.shared.locked(|core| core.lend_room(stream, period))
    }

    fn stream_lent(&self, stream: StreamId, period: Period, total: Credit) -> Result<(), OpError> {
        self.shared.locked(|core| core.stream_lent(stream, period, total))
    }

    fn settle_stream(&self, stream: StreamId) -> Result<(), OpError> {
        self.shared.locked(|core| core.settle_stream(stream))
    }

    fn stream_status(&self, stream: StreamId) -> Option<StreamStatus> {
        self.shared.inner.lock().core.stream_status(stream)
    }

    fn stream_volumes(&self, stream: StreamId) -> Vec<(VolumeId, u64)> {
        self.shared.inner.lock().core.stream_volumes(stream)
    }

    fn stream_stages(&self, stream: StreamId) -> Vec<VolumeId> {
        self.shared.inner.lock().core.stream_stages(stream)
    }

    fn set_stream_sink(&self, sink: Arc<dyn StreamSink>) {
        self.shared.inner.lock().stream_sink = Some(sink);
    }
}
