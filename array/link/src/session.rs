//! One session of two arrays: a control connection, then a data connection.

use crate::data::DataConnection;
use crate::pipe::Outgoing;
use crate::remote::Remote;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::sync::watch;

/// The end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// The link failed; it is made again.
    Lost(String),
    /// The other array removed the connection.
    Removed,
    /// This array removed the connection, or stops.
    Stopped,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: [u8; 16],
    pub(crate) remote: Remote,
    /// The origin of the times in heartbeats.
    pub(crate) opened: Instant,
    /// To the control connection.
    pub(crate) control: Outgoing,
    data: OnceLock<Arc<DataConnection>>,
    ended: watch::Sender<Option<SessionEnd>>,
    /// Heartbeats: sent, answered.
    heartbeats: Mutex<(u64, u64)>,
}

impl Session {
    pub(crate) fn new(id: [u8; 16], remote: Remote, control: Outgoing) -> Arc<Self> {
        Arc::new(Self {
            id,
            remote,
            opened: platform::clock::now(),
            control,
            data: OnceLock::new(),
            ended: watch::Sender::new(None),
            heartbeats: Mutex::default(),
        })
    }

    /// Ends the session. The first reason counts.
    pub(crate) fn end(&self, end: SessionEnd) {
        self.ended.send_if_modified(|ended| ended.is_none() && ended.replace(end).is_none());
        if let Some(data) = self.data.get() {
            data.close();
        }
    }

    /// Waits for the end.
    pub(crate) async fn ended(&self) -> SessionEnd {
        let mut ended = self.ended.subscribe();
        // The sender is in this struct.
        let end = ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        end.unwrap_or(SessionEnd::Stopped)
    }

    /// Adds the data connection. Returns false if there is one.
    pub(crate) fn attach(&self, data: Arc<DataConnection>) -> bool {
        self.data.set(data).is_ok()
    }

    pub(crate) fn data(&self) -> Option<&Arc<DataConnection>> {
        self.data.get()
    }

    pub(crate) fn count_sent(&self) {
        self.heartbeats.lock().0 += 1;
    }

    pub(crate) fn count_answered(&self) {
        self.heartbeats.lock().1 += 1;
    }

    /// Returns the number of heartbeats sent, and of those answered.
    pub(crate) fn heartbeats(&self) -> (u64, u64) {
        *self.heartbeats.lock()
    }
}
