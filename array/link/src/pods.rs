//! Frames about pods: sessions as the part of the array sees them that keeps pods.

use crate::data::{DataConnection, PodFrames};
use crate::frame::Frame;
use crate::session::{Session, SessionEnd};
use std::sync::Arc;

/// A session with another array, for frames about pods.
#[derive(Clone, Debug)]
pub struct PodSession {
    array: Arc<str>,
    way: Way,
}

/// The way of the frames of a session.
#[derive(Clone, Debug)]
enum Way {
    Link {
        session: Arc<Session>,
        data: Arc<DataConnection>,
    },
    /// Between arrays in one simulated world.
    #[cfg(feature = "simulation")]
    Simulated(Arc<dyn SimulatedSession>),
}

/// A session between arrays in one simulated world.
#[cfg(feature = "simulation")]
pub trait SimulatedSession: std::fmt::Debug + Send + Sync {
    /// Returns the id of the session.
    fn id(&self) -> [u8; 16];
    /// Sends a frame.
    ///
    /// # Errors
    ///
    /// The session has ended.
    fn send(&self, frame: Frame) -> Result<(), SessionEnded>;
    /// Ends the session for a reason.
    fn end(&self, reason: &str);
    /// Changes once, when the session ends.
    fn watch(&self) -> tokio::sync::watch::Receiver<bool>;
}

/// The session has ended: a frame was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionEnded;

impl PodSession {
    pub(crate) fn new(array: &str, session: Arc<Session>, data: Arc<DataConnection>) -> Self {
        Self { array: array.into(), way: Way::Link { session, data } }
    }

    /// Creates a session with an array in the same simulated world.
    #[cfg(feature = "simulation")]
    pub fn simulated(array: &str, session: Arc<dyn SimulatedSession>) -> Self {
        Self { array: array.into(), way: Way::Simulated(session) }
    }

    /// Returns the id of the other array, a UUID.
    pub fn array(&self) -> &str {
        &self.array
    }

    /// Returns the id of the session. No two sessions have the same.
    pub fn id(&self) -> [u8; 16] {
        match &self.way {
            Way::Link { session, .. } => session.id,
            #[cfg(feature = "simulation")]
            Way::Simulated(session) => session.id(),
        }
    }

    /// Queues a frame, which must be about a pod; waits for a place in the queue. Frames arrive in
    /// this order.
    ///
    /// # Errors
    ///
    /// The session has ended. Frames before may have arrived or not.
    pub async fn send(&self, frame: Frame) -> Result<(), SessionEnded> {
        match &self.way {
            Way::Link { data, .. } => data.send(frame).await.map_err(|_| SessionEnded),
            #[cfg(feature = "simulation")]
            Way::Simulated(session) => session.send(frame),
        }
    }

    /// Ends the session for a reason, which an administrator reads. The link is made again.
    pub fn end(&self, reason: &str) {
        match &self.way {
            Way::Link { session, .. } => session.end(SessionEnd::Lost(reason.to_owned())),
            #[cfg(feature = "simulation")]
            Way::Simulated(session) => session.end(reason),
        }
    }

    /// Waits until the session has ended.
    pub async fn ended(&self) {
        match &self.way {
            Way::Link { session, .. } => drop(session.ended().await),
            #[cfg(feature = "simulation")]
            Way::Simulated(session) => drop(session.watch().wait_for(|has_ended| *has_ended).await.map(|_| ())),
        }
    }
}

/// Receives the frames about pods. It is called by the tasks of sessions, must not block, and may
/// be called for several sessions at a time. Calls for one session are in order.
pub trait PodReceiver: Send + Sync {
    /// A session with another array has begun; frames can be sent.
    fn began(&self, session: &PodSession);
    /// A frame about a pod has arrived. Its kind and length are within bounds, nothing else of it
    /// was checked.
    ///
    /// # Errors
    ///
    /// The frame breaks the protocol. The session ends for this reason.
    fn receive(&self, session: &PodSession, frame: Frame) -> Result<(), String>;
    /// No frame waits any more: the work that the last ones have begun can be done together.
    fn batch_ended(&self, session: &PodSession);
    /// The session has ended. Nothing of it arrives any more.
    fn ended(&self, session: &PodSession);
}

/// The way of frames about pods from a data connection to their receiver.
pub(crate) struct PodChannel {
    session: PodSession,
    receiver: Option<Arc<dyn PodReceiver>>,
}

impl PodChannel {
    /// Begins a session.
    pub(crate) fn begin(session: PodSession, receiver: Option<Arc<dyn PodReceiver>>) -> Self {
        receiver.iter().for_each(|receiver| receiver.began(&session));
        Self { session, receiver }
    }
}

impl PodFrames for PodChannel {
    fn receive(&self, frame: Frame) -> Result<(), String> {
        match &self.receiver {
            Some(receiver) => receiver.receive(&self.session, frame),
            None => Err("a frame about a pod, and this array shares none".to_owned()),
        }
    }

    fn batch_ended(&self) {
        self.receiver.iter().for_each(|receiver| receiver.batch_ended(&self.session));
    }
}

impl Drop for PodChannel {
    fn drop(&mut self) {
        self.receiver.iter().for_each(|receiver| receiver.ended(&self.session));
    }
}
