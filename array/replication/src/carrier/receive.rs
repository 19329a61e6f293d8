//! The side that receives: frames of sessions become requests of the engine.

use super::Carrier;
use crate::outbox::Outbox;
use crate::window::bytes_of;
use crate::wire::{WireError, durable_position, max_record_bytes, stream_of};
use engine::{MAX_TRANSFER_BYTES, Op, OpError, Reply, Role, Sink, StreamRecord, Tag};
use link::{Frame, Kind, PodReceiver, PodSession};
use std::sync::{Arc, Weak};
use types::{Period, StreamId};

impl PodReceiver for Carrier {
    fn began(&self, session: &PodSession) {
        let (outbox, sending) = Outbox::open(session.clone());
        self.receiving.lock().began(session.id());
        self.streams.lock().began(session.array(), outbox);
        self.runtime.spawn(sending);
        self.owner.get().into_iter().for_each(|owner| owner.began(session.array()));
    }

    fn receive(&self, session: &PodSession, frame: Frame) -> Result<(), String> {
        self.receiving.lock().check_order(session.id(), frame.kind).map_err(text)?;
        match frame.kind {
            Kind::Durable => self.take_durable(session, &frame),
            _ => self.take_part(session, frame),
        }
    }

    fn batch_ended(&self, session: &PodSession) {
        let has_records = self.receiving.lock().take_records(session.id());
        if has_records {
            self.engine.kick();
        }
    }

    fn ended(&self, session: &PodSession) {
        self.receiving.lock().ended(session.id());
        let was_present = self.streams.lock().ended(session.array(), session.id());
        self.owner.get().filter(|_| was_present).into_iter().for_each(|owner| owner.ended(session.array()));
    }
}

impl Carrier {
    fn take_durable(&self, session: &PodSession, frame: &Frame) -> Result<(), String> {
        let (stream, period) = (stream_of(frame).map_err(text)?, Period(frame.period));
        let position = durable_position(frame).map_err(text)?;
        match self.streams.lock().receiving(session, stream, period)? {
            Some(carried) => carried.heard(position),
            None => return Ok(()),
        }
        match self.engine.stream_heard(stream, period, position) {
            Err(error @ OpError::Malformed(_)) => Err(error.to_string()),
            // The stream may have been closed, or the engine stopped.
            _ => Ok(()),
        }
    }

    fn take_part(&self, session: &PodSession, frame: Frame) -> Result<(), String> {
        let (stream, period) = (stream_of(&frame).map_err(text)?, Period(frame.period));
        let max_payload = match self.streams.lock().receiving(session, stream, period)? {
            Some(carried) if carried.run.role == Role::Follower => carried.run.max_payload,
            Some(_) => return Err("a record, but this array orders the stream".to_owned()),
            // It is late, and ignored when it is complete.
            None => MAX_TRANSFER_BYTES,
        };
        let record = self.receiving.lock().add(session.id(), frame, max_record_bytes(max_payload)).map_err(text)?;
        record.map_or(Ok(()), |record| self.follow(session, record))
    }

    /// Submits a record to the engine.
    fn follow(&self, session: &PodSession, record: StreamRecord) -> Result<(), String> {
        let (stream, period, position) = (record.stream, record.period, record.position);
        match self.streams.lock().receiving(session, stream, period)? {
            Some(carried) => carried.arrive(&record)?,
            None => return Ok(()),
        }
        let sink = Followed { carrier: self.this.clone(), stream, period, bytes: bytes_of(&record) };
        let sink: Arc<dyn Sink> = Arc::new(sink);
        self.engine.submit(Op::Follow(Box::new(record)), position.0, &sink);
        Ok(())
    }

    /// The engine has finished a record. It closes the stream if it could not apply the record.
    fn followed(&self, followed: &Followed, result: Result<Reply, OpError>) {
        let Followed { stream, period, bytes, .. } = *followed;
        let was_stopped = self.streams.lock().finished(stream, period, bytes, result.is_err());
        if let Some(error) = result.err().filter(|_| was_stopped) {
            self.report_stopped(stream, format!("a record cannot be applied: {error}"));
        }
    }
}

/// Receives the engine's answer to a record.
struct Followed {
    carrier: Weak<Carrier>,
    stream: StreamId,
    period: Period,
    /// Bytes of data in the record.
    bytes: u64,
}

impl Sink for Followed {
    fn complete(&self, _: Tag, result: Result<Reply, OpError>) {
        if let Some(carrier) = self.carrier.upgrade() {
            carrier.followed(self, result);
        }
    }
}

fn text(error: WireError) -> String {
    error.to_string()
}
