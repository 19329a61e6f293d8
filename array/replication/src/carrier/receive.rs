//! The side that receives: frames of sessions become requests of the engine.

use super::Carrier;
use crate::outbox::Outbox;
use crate::window::bytes_of;
use crate::wire::{WireError, durable_position, lent_total, max_record_bytes, stream_of};
use engine::{Change, FollowedRecord, MAX_TRANSFER_BYTES, Op, OpError, Reply, Role, Sink, StreamRecord, Tag};
use link::{Frame, Kind, PodReceiver, PodSession};
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::{Period, RequestId, StreamId};

/// Time between two looks for room to lend.
const LEND_INTERVAL: Duration = Duration::from_millis(200);

impl PodReceiver for Carrier {
    fn began(&self, session: &PodSession) {
        let (outbox, sending) = Outbox::open(session.clone());
        let _turn = self.turn.lock();
        self.receiving.lock().began(session.id());
        let former = self.streams.lock().began(session.array(), outbox);
        self.runtime.spawn(sending);
        self.runtime.spawn(lend_in(self.this.clone(), session.clone()));
        if let Some(owner) = self.owner.get() {
            former.into_iter().for_each(|former| owner.ended(session.array(), former));
            owner.began(session.array(), session.id());
        }
    }

    fn receive(&self, session: &PodSession, frame: Frame) -> Result<(), String> {
        self.receiving.lock().check_order(session.id(), frame.kind).map_err(text)?;
        match frame.kind {
            Kind::Durable => self.take_durable(session, &frame),
            Kind::Credit => self.take_credit(session, &frame),
            Kind::PodMessage => self.take_message(session, &frame),
            _ => self.take_part(session, frame),
        }
    }

    fn batch_ended(&self, session: &PodSession) {
        let has_records = self.receiving.lock().take_records(session.id());
        if has_records {
            self.engine.kick();
            self.lend(session, false);
        }
    }

    fn ended(&self, session: &PodSession) {
        // A frame that ends the session may follow records of other streams.
        self.batch_ended(session);
        self.receiving.lock().ended(session.id());
        let _turn = self.turn.lock();
        let was_present = self.streams.lock().ended(session.array(), session.id());
        self.owner
            .get()
            .filter(|_| was_present)
            .into_iter()
            .for_each(|owner| owner.ended(session.array(), session.id()));
    }
}

impl Carrier {
    /// Lends room for more records of the streams that this array follows in a session. Reports
    /// that have not changed are sent again if it `repeats`.
    fn lend(&self, session: &PodSession, repeats: bool) {
        let followed = self.streams.lock().followed_in(session.id());
        followed.into_iter().for_each(|(stream, period)| self.lend_to(stream, period, repeats));
    }

    fn lend_to(&self, stream: StreamId, period: Period, repeats: bool) {
        // The period may have ended.
        if let Ok(total) = self.engine.lend_room(stream, period) {
            self.streams.lock().lent(stream, period, total, repeats);
        }
    }

    fn take_credit(&self, session: &PodSession, frame: &Frame) -> Result<(), String> {
        let (stream, period) = (stream_of(frame).map_err(text)?, Period(frame.period));
        let total = lent_total(frame).map_err(text)?;
        if self.streams.lock().carried_to(session.array(), stream, period)?.is_some() {
            // The stream may have been closed, or the engine stopped.
            let _ = self.engine.stream_lent(stream, period, total);
        }
        Ok(())
    }

    fn take_durable(&self, session: &PodSession, frame: &Frame) -> Result<(), String> {
        let (stream, period) = (stream_of(frame).map_err(text)?, Period(frame.period));
        let position = durable_position(frame).map_err(text)?;
        // It stays true after its session, and before the stream is attached here.
        match self.streams.lock().carried_to(session.array(), stream, period)? {
            Some(carried) if carried.is_possible(position) => carried.heard(position),
            Some(_) => return Err(format!("position {position} of {stream}, which no record has")),
            None => return Ok(()),
        }
        // The stream may have been closed, or the engine stopped.
        let _ = self.engine.stream_heard(stream, period, position);
        self.owner.get().into_iter().for_each(|owner| owner.progressed(stream));
        Ok(())
    }

    fn take_message(&self, session: &PodSession, frame: &Frame) -> Result<(), String> {
        let stream = stream_of(frame).map_err(text)?;
        let message = self.receiving.lock().add_message(session.id(), frame).map_err(text)?;
        let Some(message) = message else { return Ok(()) };
        match self.owner.get() {
            Some(owner) => owner.message(session.array(), session.id(), stream, message),
            None => Err("a message about a pod, and this array shares none".to_owned()),
        }
    }

    fn take_part(&self, session: &PodSession, frame: Frame) -> Result<(), String> {
        let (stream, period) = (stream_of(&frame).map_err(text)?, Period(frame.period));
        let max_payload = match self.streams.lock().receiving(session, stream, period)? {
            Some(carried) if carried.run.role == Role::Follower => carried.run.max_payload,
            Some(_) => return Err(format!("a record of {stream}, which this array orders")),
            // It is late, and ignored when it is complete.
            None => MAX_TRANSFER_BYTES,
        };
        let record = self.receiving.lock().add(session.id(), frame, max_record_bytes(max_payload)).map_err(text)?;
        record.map_or(Ok(()), |record| self.follow(session, record))
    }

    /// Submits a record to the engine.
    fn follow(&self, session: &PodSession, record: StreamRecord) -> Result<(), String> {
        let (stream, period, position) = (record.stream, record.period, record.position);
        // Held until the engine has the record: sessions that follow each other keep the order.
        let _order = self.order.lock();
        match self.streams.lock().receiving(session, stream, period)? {
            Some(carried) => carried.arrive(&record)?,
            None => return Ok(()),
        }
        let (bytes, request) = (bytes_of(&record), record.request);
        let followed = Followed { carrier: self.this.clone(), stream, period, bytes, request };
        if let (Some(request), Some(owner)) = (request, self.owner.get()) {
            owner.named(stream, request);
        }
        if platform::planted::is_planted("ack-before-flush") {
            self.streams.lock().durable(stream, period, position);
        }
        match self.values_of(&record) {
            Ok(values) => {
                let sink: Arc<dyn Sink> = Arc::new(followed);
                self.engine.submit(Op::Follow(Box::new(FollowedRecord { record, values })), position.0, &sink);
            }
            Err(reason) => self.stop_following(&followed, &reason),
        }
        Ok(())
    }

    /// Returns the values that are stored with a record. The order of records is locked.
    fn values_of(&self, record: &StreamRecord) -> Result<Vec<Change>, String> {
        if record.message.is_empty() {
            return Ok(Vec::new());
        }
        let owner = self.owner.get().ok_or("nothing reads its message")?;
        owner.values(record.stream, record.period, record.position, &record.message)
    }

    /// The engine has finished a record. If it could not apply the record, nothing after it may be
    /// applied: the stream is closed.
    fn followed(&self, followed: &Followed, result: Result<Reply, OpError>) {
        match result {
            Ok(_) => {
                let Followed { stream, period, bytes, .. } = *followed;
                let is_last = {
                    let mut streams = self.streams.lock();
                    streams.finished(stream, period, bytes, false);
                    !streams.has_unfinished(stream, period)
                };
                // The end of their batch was too early for it: they had not used their room.
                if is_last {
                    self.lend_to(stream, period, false);
                }
                if let (Some(request), Some(owner)) = (followed.request, self.owner.get()) {
                    owner.carried_out(followed.stream, request);
                }
            }
            Err(error) => self.stop_following(followed, &error.to_string()),
        }
    }

    /// A record cannot be applied.
    fn stop_following(&self, followed: &Followed, reason: &str) {
        let Followed { stream, period, bytes, .. } = *followed;
        if self.streams.lock().finished(stream, period, bytes, true) {
            if self.engine.stream_status(stream).is_some_and(|status| status.period == period) {
                // The engine has closed it already unless it refused the record at once.
                let _ = self.engine.close_stream(stream);
            }
            self.report_stopped(stream, period, format!("a record cannot be applied: {reason}"));
        }
    }
}

/// Lends room from time to time: a full pool may have space again, and the peer may have ignored a
/// report.
async fn lend_in(carrier: Weak<Carrier>, session: PodSession) {
    let lending = async {
        loop {
            platform::tasks::sleep(LEND_INTERVAL).await;
            let Some(carrier) = carrier.upgrade() else { return };
            carrier.lend(&session, true);
        }
    };
    tokio::select! {
        biased;
        () = lending => {}
        () = session.ended() => {}
    }
}

/// Receives the engine's answer to a record.
struct Followed {
    carrier: Weak<Carrier>,
    stream: StreamId,
    period: Period,
    /// Bytes of data in the record.
    bytes: u64,
    /// The request of this array that ends with the record.
    request: Option<RequestId>,
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
