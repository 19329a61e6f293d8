//! The queue of a session, and the task that sends it.

use crate::wire::{durable_frame, record_frames};
use engine::StreamRecord;
use link::{PodSession, SessionEnded};
use std::sync::Arc;
use tokio::sync::mpsc;
use types::{Period, Position, StreamId};

/// Things that are taken from the queue at a time.
const BATCH: usize = 64;

/// Something to send.
#[derive(Clone, Debug)]
pub(crate) enum Outgoing {
    /// A record that the engine has ordered.
    Record(Arc<StreamRecord>),
    /// Everything up to a position is durable here.
    Durable(StreamId, Period, Position),
}

/// The queue of a session. The bound of its content are the windows of the streams.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    pub(crate) session: [u8; 16],
    queue: mpsc::UnboundedSender<Outgoing>,
}

impl Outbox {
    /// Creates the queue of a session. The future sends its content until the session or the
    /// queue ends.
    pub(crate) fn open(session: PodSession) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, waiting) = mpsc::unbounded_channel();
        (Self { session: session.id(), queue }, send(session, waiting))
    }

    /// Queues something. What a session does not send any more is sent by the next one.
    pub(crate) fn push(&self, outgoing: Outgoing) {
        let _ = self.queue.send(outgoing);
    }
}

async fn send(session: PodSession, mut waiting: mpsc::UnboundedReceiver<Outgoing>) {
    let mut batch = Vec::with_capacity(BATCH);
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        if send_batch(&session, &mut batch).await.is_err() {
            return;
        }
    }
}

async fn send_batch(session: &PodSession, batch: &mut Vec<Outgoing>) -> Result<(), SessionEnded> {
    // A later position includes the earlier ones.
    let newest = |stream: StreamId, period: Period| {
        batch.iter().rposition(|other| matches!(other, Outgoing::Durable(s, p, _) if (*s, *p) == (stream, period)))
    };
    let is_sent = |(at, outgoing): (usize, &Outgoing)| match outgoing {
        Outgoing::Record(_) => true,
        Outgoing::Durable(stream, period, _) => newest(*stream, *period) == Some(at),
    };
    let sent: Vec<bool> = batch.iter().enumerate().map(is_sent).collect();
    for (outgoing, _) in batch.drain(..).zip(sent).filter(|(_, is_sent)| *is_sent) {
        match outgoing {
            Outgoing::Record(record) => {
                for frame in record_frames(&record) {
                    session.send(frame).await?;
                }
            }
            Outgoing::Durable(stream, period, position) => {
                session.send(durable_frame(stream, period, position)).await?;
            }
        }
    }
    Ok(())
}
