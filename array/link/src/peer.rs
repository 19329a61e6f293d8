//! A connected array at run time: its session, its figures and its simulated distance.

use crate::distance::Distance;
use crate::pipe::Traffic;
use crate::rtt::RttWindow;
use crate::session::{Session, SessionEnd};
use crate::store::PeerRecord;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// State of a connection between two arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkStatus {
    /// The session has its control and its data connection.
    Connected,
    /// The data connection is missing.
    PartlyConnected,
    /// There is no session.
    Connecting,
}

#[derive(Debug)]
pub(crate) struct PeerState {
    pub(crate) session: Option<Arc<Session>>,
    /// Start of the session, or of its absence, in milliseconds since 1970.
    pub(crate) since_ms: u64,
    /// Why there is no session.
    pub(crate) problem: Option<String>,
    pub(crate) rtt: RttWindow,
    /// The wall clock of the other array minus this one's, in milliseconds.
    pub(crate) clock_ahead_ms: Option<i64>,
    /// Version of the other array's program, from the last session.
    pub(crate) version: Option<String>,
    /// The run of the other array's program, from the last session.
    pub(crate) incarnation: Option<u64>,
}

/// A connected array.
#[derive(Debug)]
pub(crate) struct Peer {
    record: Mutex<PeerRecord>,
    pub(crate) state: Mutex<PeerState>,
    pub(crate) distance: watch::Sender<Distance>,
    /// The connection was removed.
    removed: watch::Sender<bool>,
    pub(crate) traffic: Arc<Traffic>,
    /// Number of sessions since the start of the program.
    pub(crate) sessions: AtomicU64,
    /// Held during a link test.
    pub(crate) testing: tokio::sync::Mutex<()>,
}

impl Peer {
    pub(crate) fn new(record: PeerRecord) -> Arc<Self> {
        let state = PeerState {
            session: None,
            since_ms: platform::clock::unix_millis(),
            problem: None,
            rtt: RttWindow::default(),
            clock_ahead_ms: None,
            version: None,
            incarnation: None,
        };
        Arc::new(Self {
            distance: watch::Sender::new(record.distance),
            record: Mutex::new(record),
            state: Mutex::new(state),
            removed: watch::Sender::new(false),
            traffic: Arc::default(),
            sessions: AtomicU64::new(0),
            testing: tokio::sync::Mutex::new(()),
        })
    }

    pub(crate) fn record(&self) -> PeerRecord {
        self.record.lock().clone()
    }

    pub(crate) fn name(&self) -> String {
        self.record.lock().name.clone()
    }

    /// Changes the record. The caller stores it.
    pub(crate) fn set_record(&self, record: PeerRecord) {
        if self.distance.send_if_modified(|distance| std::mem::replace(distance, record.distance) != record.distance) {
            self.state.lock().rtt.clear();
        }
        *self.record.lock() = record;
    }

    /// Makes a session the current one. An older one ends: the other array has begun again.
    pub(crate) fn begin(&self, session: Arc<Session>) {
        let remote = session.remote.clone();
        let older = {
            let mut state = self.state.lock();
            state.since_ms = platform::clock::unix_millis();
            state.problem = None;
            state.rtt.clear();
            state.version = Some(remote.version);
            if state.incarnation.is_some_and(|known| known != remote.incarnation) {
                tracing::info!(array = self.name(), "the program of the other array was restarted");
            }
            state.incarnation = Some(remote.incarnation);
            state.session.replace(session)
        };
        self.sessions.fetch_add(1, Ordering::Relaxed);
        if let Some(older) = older {
            older.end(SessionEnd::Lost("replaced by a newer session".to_owned()));
        }
    }

    /// Records the end of a session, unless another one is current.
    pub(crate) fn finish(&self, session: &Arc<Session>, end: &SessionEnd) {
        let mut state = self.state.lock();
        if state.session.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            state.session = None;
            state.since_ms = platform::clock::unix_millis();
            if let SessionEnd::Lost(reason) = end {
                state.problem = Some(reason.clone());
                tracing::warn!(array = self.name(), "link lost: {reason}");
            }
        }
    }

    /// Records why no session can be made. Returns false if that is known already.
    pub(crate) fn set_problem(&self, problem: String) -> bool {
        let known = self.state.lock().problem.replace(problem.clone());
        known != Some(problem)
    }

    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        self.state.lock().session.clone()
    }

    /// Records a round trip, and the wall clock of the other array at its middle.
    pub(crate) fn record_rtt(&self, rtt: Duration, remote_wall_ms: u64) {
        let middle = platform::clock::unix_millis().saturating_sub(u64::try_from(rtt.as_millis()).unwrap_or(0) / 2);
        let ahead = i64::try_from(i128::from(remote_wall_ms) - i128::from(middle)).ok();
        let mut state = self.state.lock();
        state.rtt.record(rtt);
        state.clock_ahead_ms = ahead;
    }

    /// Ends the connection for good.
    pub(crate) fn remove(&self) {
        self.removed.send_replace(true);
        if let Some(session) = self.session() {
            session.end(SessionEnd::Stopped);
        }
    }

    pub(crate) fn is_removed(&self) -> bool {
        *self.removed.borrow()
    }

    /// Waits until the connection was removed.
    pub(crate) async fn removed(&self) {
        // The sender is in this struct.
        let _ = self.removed.subscribe().wait_for(|removed| *removed).await;
    }
}
