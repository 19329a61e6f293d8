//! The streams that are shared with other arrays, and the queues of the sessions with them.

use crate::outbox::Outbox;
use crate::window::{MAX_UNHEARD_BYTES, MAX_UNHEARD_RECORDS, Window, bytes_of};
use engine::{Credit, Role, StreamRecord};
use link::PodSession;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;
use types::{Period, Position, StreamId};

/// A period during which a stream is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The period.
    pub period: Period,
    /// The part of this array.
    pub role: Role,
    /// Position of the last record before the period, which both arrays have.
    pub last: Position,
    /// Most bytes of data in a record: as in [`engine::NewPeriod`].
    pub max_payload: u64,
}

/// A stream cannot be attached to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AttachError {
    /// The stream is not carried.
    #[error("the stream is not carried")]
    NotCarried,
    /// There is no session with the array.
    #[error("there is no session with the other array")]
    NoSession,
    /// The peer lacks records that were forgotten, because it had reported them as durable.
    #[error("the other array lacks records that it had reported as durable")]
    Forgotten,
    /// The stream is attached to this session already.
    #[error("the stream is attached already")]
    Attached,
    /// The peer has records that were not sent.
    #[error("the other array has records that do not exist here")]
    Unknown,
}

/// The state of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarrierStatus {
    /// Id of the other array.
    pub array: String,
    /// The period during which it is carried, if it is.
    pub run: Option<Run>,
    /// It is attached to the present session.
    pub is_attached: bool,
    /// Sequencer: records that the peer has not reported as durable, and their bytes of data.
    pub unheard: (usize, u64),
    /// Follower: position of the last record that has arrived.
    pub arrived: Position,
    /// Follower: records that are not committed, and their bytes of data.
    pub unfinished: (usize, u64),
}

/// A stream that is carried.
pub(crate) struct Carried {
    pub(crate) run: Run,
    /// The session that it is attached to.
    session: Option<[u8; 16]>,
    window: Window,
    /// The last position that the engine has reported as durable in this period.
    durable: Position,
    arrived: Position,
    unfinished: (usize, u64),
    /// The total of the room lent that the peer was sent in this session.
    credit_sent: Credit,
}

/// A stream, and the array that it is shared with.
struct Shared {
    array: Arc<str>,
    carried: Option<Carried>,
}

/// All streams and sessions.
#[derive(Default)]
pub(crate) struct Streams {
    streams: BTreeMap<StreamId, Shared>,
    /// By the id of the other array.
    outboxes: BTreeMap<Arc<str>, Outbox>,
}

impl Carried {
    fn new(run: Run) -> Self {
        let window = Window::after(run.last);
        Self {
            run,
            session: None,
            window,
            durable: Position(0),
            arrived: run.last,
            unfinished: (0, 0),
            credit_sent: Credit::default(),
        }
    }

    /// Returns true if the peer can have a position: a sequencer knows all of them.
    pub(crate) fn is_possible(&self, position: Position) -> bool {
        self.run.role == Role::Follower || position <= self.window.last()
    }

    /// Notes a report of the peer.
    pub(crate) fn heard(&mut self, position: Position) {
        self.window.forget(position);
    }

    /// Takes a record that has arrived.
    ///
    /// # Errors
    ///
    /// The peer has broken the order, or has sent more than it may.
    pub(crate) fn arrive(&mut self, record: &StreamRecord) -> Result<(), String> {
        let (stream, due) = (record.stream, self.arrived.next());
        if record.position != due {
            return Err(format!("record {} of {stream} where {due} was due", record.position));
        }
        let unfinished = (self.unfinished.0 + 1, self.unfinished.1 + bytes_of(record));
        // The peer keeps at most half of this, unless this array is the slower one.
        if unfinished.0 > 2 * MAX_UNHEARD_RECORDS || unfinished.1 > 2 * MAX_UNHEARD_BYTES {
            return Err(format!("more records of {stream} than this array has room for"));
        }
        (self.arrived, self.unfinished) = (record.position, unfinished);
        Ok(())
    }
}

impl Shared {
    /// Returns the stream if it is carried in this period.
    fn carried_in(&mut self, period: Period) -> Option<&mut Carried> {
        self.carried.as_mut().filter(|carried| carried.run.period == period)
    }
}

impl Streams {
    /// Shares a stream with an array.
    pub(crate) fn share(&mut self, stream: StreamId, array: &str) {
        self.streams.insert(stream, Shared { array: array.into(), carried: None });
    }

    /// Shares a stream no longer.
    pub(crate) fn unshare(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
    }

    /// Begins to carry a stream. False if it is not shared.
    pub(crate) fn start(&mut self, stream: StreamId, run: Run) -> bool {
        let shared = self.streams.get_mut(&stream);
        shared.map(|shared| shared.carried = Some(Carried::new(run))).is_some()
    }

    /// Ends carrying a stream.
    pub(crate) fn stop(&mut self, stream: StreamId) {
        self.streams.get_mut(&stream).into_iter().for_each(|shared| shared.carried = None);
    }

    /// Attaches a stream to the session with its array: sends the records that have not `arrived`
    /// at the peer, and the durable position that the engine has `stated` for its present period.
    pub(crate) fn attach(
        &mut self,
        stream: StreamId,
        arrived: Position,
        stated: Option<(Period, Position)>,
    ) -> Result<(), AttachError> {
        let shared = self.streams.get_mut(&stream).ok_or(AttachError::NotCarried)?;
        let carried = shared.carried.as_mut().ok_or(AttachError::NotCarried)?;
        let outbox = self.outboxes.get(&shared.array).ok_or(AttachError::NoSession)?;
        if carried.session == Some(outbox.session) {
            return Err(AttachError::Attached);
        }
        if carried.run.role == Role::Sequencer {
            if arrived > carried.window.last() {
                return Err(AttachError::Unknown);
            }
            let missing = carried.window.records_after(arrived).ok_or(AttachError::Forgotten)?;
            missing.for_each(|record| outbox.push_record(record));
        }
        carried.session = Some(outbox.session);
        carried.credit_sent = Credit::default();
        // The engine reports each position once, perhaps before now, perhaps before the period was
        // carried.
        let stated = stated.filter(|(period, _)| *period == carried.run.period).map(|(_, position)| position);
        let position = stated.unwrap_or_default().max(carried.durable);
        outbox.push_durable(stream, carried.run.period, position);
        Ok(())
    }

    /// Returns the queue of a session with an array, if it is the present one.
    pub(crate) fn session(&self, array: &str, session: [u8; 16]) -> Option<&Outbox> {
        self.outbox(array, Some(session))
    }

    /// Returns true if there is a session with an array.
    pub(crate) fn has_session(&self, array: &str) -> bool {
        self.outboxes.contains_key(array)
    }

    /// Returns the state of a stream.
    pub(crate) fn status(&self, stream: StreamId) -> Option<CarrierStatus> {
        let shared = self.streams.get(&stream)?;
        let carried = shared.carried.as_ref();
        Some(CarrierStatus {
            array: shared.array.to_string(),
            run: carried.map(|carried| carried.run),
            is_attached: carried.is_some_and(|carried| carried.session.is_some()),
            unheard: carried.map(|carried| carried.window.size()).unwrap_or_default(),
            arrived: carried.map(|carried| carried.arrived).unwrap_or_default(),
            unfinished: carried.map(|carried| carried.unfinished).unwrap_or_default(),
        })
    }

    /// The engine has ordered a record. Returns why the stream cannot be carried any more.
    pub(crate) fn ordered(&mut self, record: StreamRecord) -> Option<String> {
        let shared = self.streams.get_mut(&record.stream)?;
        let carried = shared.carried_in(record.period)?;
        let record = Arc::new(record);
        carried.window.push(record.clone());
        let (session, (records, bytes)) = (carried.session, carried.window.size());
        if records > MAX_UNHEARD_RECORDS || bytes > MAX_UNHEARD_BYTES {
            shared.carried = None;
            return Some(format!("the other array has not received {records} records with {} MiB", bytes >> 20));
        }
        let array = shared.array.clone();
        self.outbox(&array, session).into_iter().for_each(|outbox| outbox.push_record(record.clone()));
        None
    }

    /// The engine's log is durable up to a position.
    pub(crate) fn durable(&mut self, stream: StreamId, period: Period, position: Position) {
        let Some(shared) = self.streams.get_mut(&stream) else { return };
        let Some(carried) = shared.carried_in(period) else { return };
        carried.durable = position;
        let (session, array) = (carried.session, shared.array.clone());
        self.outbox(&array, session).into_iter().for_each(|outbox| outbox.push_durable(stream, period, position));
    }

    /// Returns the queue of a session, if it is the present one with the array.
    fn outbox(&self, array: &str, session: Option<[u8; 16]>) -> Option<&Outbox> {
        self.outboxes.get(array).filter(|outbox| Some(outbox.session) == session)
    }

    /// Returns a stream that is carried to an array in this period; `None` if frames about it are
    /// late, and ignored.
    ///
    /// # Errors
    ///
    /// The stream is not shared with the array.
    pub(crate) fn carried_to(
        &mut self,
        array: &str,
        stream: StreamId,
        period: Period,
    ) -> Result<Option<&mut Carried>, String> {
        let shared = self.streams.get_mut(&stream).filter(|shared| &*shared.array == array);
        let shared = shared.ok_or_else(|| format!("a frame of {stream}, which is not shared with the other array"))?;
        Ok(shared.carried_in(period))
    }

    /// Returns a stream whose records are accepted in this session and period.
    ///
    /// # Errors
    ///
    /// The stream is not shared with the array.
    pub(crate) fn receiving(
        &mut self,
        session: &PodSession,
        stream: StreamId,
        period: Period,
    ) -> Result<Option<&mut Carried>, String> {
        let carried = self.carried_to(session.array(), stream, period)?;
        Ok(carried.filter(|carried| carried.session == Some(session.id())))
    }

    /// Returns the streams that this array follows in a session, with their periods.
    pub(crate) fn followed_in(&self, session: [u8; 16]) -> Vec<(StreamId, Period)> {
        let carried = self.streams.iter().filter_map(|(id, shared)| Some((*id, shared.carried.as_ref()?)));
        let is_followed = |carried: &Carried| carried.session == Some(session) && carried.run.role == Role::Follower;
        carried.filter(|(_, carried)| is_followed(carried)).map(|(id, carried)| (id, carried.run.period)).collect()
    }

    /// Reports the room that the engine has lent in a period, in total. One that was sent already
    /// is sent again if it `repeats`: the peer ignores reports until it has begun the period.
    pub(crate) fn lent(&mut self, stream: StreamId, period: Period, total: Credit, repeats: bool) {
        let Some(shared) = self.streams.get_mut(&stream) else { return };
        let Some(carried) = shared.carried_in(period) else { return };
        if carried.credit_sent == total && !repeats {
            return;
        }
        carried.credit_sent = total;
        let (session, array) = (carried.session, shared.array.clone());
        self.outbox(&array, session).into_iter().for_each(|outbox| outbox.push_credit(stream, period, total));
    }

    /// The engine has finished a record with this many bytes of data. If it has failed, the stream
    /// is not carried any more; true then.
    pub(crate) fn finished(&mut self, stream: StreamId, period: Period, bytes: u64, has_failed: bool) -> bool {
        let Some(shared) = self.streams.get_mut(&stream) else { return false };
        let Some(carried) = shared.carried_in(period) else { return false };
        let (records, total) = carried.unfinished;
        carried.unfinished = (records.saturating_sub(1), total.saturating_sub(bytes));
        if has_failed {
            shared.carried = None;
        }
        has_failed
    }

    /// True if the engine has not finished all records of a period that have arrived.
    pub(crate) fn has_unfinished(&self, stream: StreamId, period: Period) -> bool {
        let carried = self.streams.get(&stream).and_then(|shared| shared.carried.as_ref());
        carried.is_some_and(|carried| carried.run.period == period && carried.unfinished.0 > 0)
    }

    /// A session with an array has begun. The streams of the one before, if its end is not known
    /// yet, are detached. Returns its id then.
    pub(crate) fn began(&mut self, array: &str, outbox: Outbox) -> Option<[u8; 16]> {
        let former = self.outboxes.insert(array.into(), outbox).map(|former| former.session);
        former.iter().for_each(|former| self.detach(*former));
        former
    }

    fn detach(&mut self, session: [u8; 16]) {
        let carried = self.streams.values_mut().filter_map(|shared| shared.carried.as_mut());
        carried.filter(|carried| carried.session == Some(session)).for_each(|carried| carried.session = None);
    }

    /// A session with an array has ended. Returns false if another one has replaced it.
    pub(crate) fn ended(&mut self, array: &str, session: [u8; 16]) -> bool {
        self.detach(session);
        let is_present = self.outboxes.get(array).is_some_and(|outbox| outbox.session == session);
        if is_present {
            self.outboxes.remove(array);
        }
        is_present
    }
}
