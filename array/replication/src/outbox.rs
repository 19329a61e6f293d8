//! The queue of a session, and the task that sends it.

use crate::window::{MAX_UNHEARD_BYTES, bytes_of};
use crate::wire::{credit_frame, durable_frame, message_frames, record_frames};
use bytes::Bytes;
use engine::{Credit, StreamRecord};
use link::{PodSession, SessionEnded};
use platform::threads::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;
use types::{Period, Position, StreamId};

/// Most bytes of data in a queue: two windows, because a stream may begin again while the records
/// of before wait.
const MAX_QUEUED_BYTES: u64 = 2 * MAX_UNHEARD_BYTES;
/// Bytes that a record counts beyond its data.
const RECORD_BYTES: u64 = 256;

/// Something to send.
enum Outgoing {
    Record(Arc<StreamRecord>),
    /// The newest reports about a stream.
    Reports(StreamId),
    /// A message between the arrays of a pod.
    Message(StreamId, Bytes),
}

/// Reports about a stream that are not sent yet. A newer one replaces the one before.
#[derive(Clone, Copy, Default)]
struct Reports {
    durable: Option<(Period, Position)>,
    credit: Option<(Period, Credit)>,
}

/// Content of a queue.
#[derive(Default)]
struct Content {
    bytes: AtomicU64,
    reports: Mutex<BTreeMap<StreamId, Reports>>,
}

/// The queue of a session.
#[derive(Clone)]
pub(crate) struct Outbox {
    pub(crate) session: [u8; 16],
    link: PodSession,
    content: Arc<Content>,
    queue: mpsc::UnboundedSender<Outgoing>,
}

impl Outbox {
    /// Creates the queue of a session. The future sends its content until the session or the queue
    /// ends.
    pub(crate) fn open(session: PodSession) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, waiting) = mpsc::unbounded_channel();
        let content = Arc::<Content>::default();
        let outbox = Self { session: session.id(), link: session.clone(), content: content.clone(), queue };
        (outbox, send(session, content, waiting))
    }

    /// Queues a record. A peer that takes no frames while it reports positions loses the session.
    pub(crate) fn push_record(&self, record: Arc<StreamRecord>) {
        let bytes = bytes_of(&record) + RECORD_BYTES;
        if self.content.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_QUEUED_BYTES {
            return self.end("the other array takes no records");
        }
        // The next session sends the rest.
        let _ = self.queue.send(Outgoing::Record(record));
    }

    /// Queues a report: everything up to a position is durable here.
    pub(crate) fn push_durable(&self, stream: StreamId, period: Period, position: Position) {
        self.report(stream, |reports| reports.durable = Some((period, position)));
    }

    /// Queues a report of the room that was lent in a period, in total.
    pub(crate) fn push_credit(&self, stream: StreamId, period: Period, total: Credit) {
        self.report(stream, |reports| reports.credit = Some((period, total)));
    }

    /// Queues a message. It arrives after the records that were queued before.
    pub(crate) fn push_message(&self, stream: StreamId, message: Bytes) {
        let bytes = message.len() as u64 + RECORD_BYTES;
        if self.content.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_QUEUED_BYTES {
            return self.end("the other array takes no messages");
        }
        let _ = self.queue.send(Outgoing::Message(stream, message));
    }

    /// Ends the session for a reason.
    pub(crate) fn end(&self, reason: &str) {
        self.link.end(reason);
    }

    fn report(&self, stream: StreamId, change: impl FnOnce(&mut Reports)) {
        let mut reports = self.content.reports.lock();
        let is_queued = reports.contains_key(&stream);
        change(reports.entry(stream).or_default());
        drop(reports);
        if !is_queued {
            let _ = self.queue.send(Outgoing::Reports(stream));
        }
    }
}

async fn send(session: PodSession, content: Arc<Content>, mut waiting: mpsc::UnboundedReceiver<Outgoing>) {
    while let Some(outgoing) = waiting.recv().await {
        if send_one(&session, &content, outgoing).await.is_err() {
            return;
        }
    }
}

async fn send_one(session: &PodSession, content: &Content, outgoing: Outgoing) -> Result<(), SessionEnded> {
    match outgoing {
        Outgoing::Record(record) => {
            for frame in record_frames(&record) {
                session.send(frame).await?;
            }
            content.bytes.fetch_sub(bytes_of(&record) + RECORD_BYTES, Ordering::Relaxed);
        }
        Outgoing::Message(stream, message) => {
            for frame in message_frames(stream, &message) {
                session.send(frame).await?;
            }
            content.bytes.fetch_sub(message.len() as u64 + RECORD_BYTES, Ordering::Relaxed);
        }
        Outgoing::Reports(stream) => {
            let Reports { durable, credit } = content.reports.lock().remove(&stream).unwrap_or_default();
            if let Some((period, position)) = durable {
                session.send(durable_frame(stream, period, position)).await?;
            }
            if let Some((period, total)) = credit {
                session.send(credit_frame(stream, period, total)).await?;
            }
        }
    }
    Ok(())
}
