//! Inbox of a connection: completions from the engine and events from other connections.

use crate::nexus::ids::Ticket;
use crate::pod_ports::FunctionEnd;
use engine::{OpError, Reply, Sink, Source, Tag};
use iscsi::target_connection::RequestId;
use parking_lot::Mutex;
use scsi::{Sense, Status};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use types::ObjectId;

/// A completion of the engine.
pub(crate) type Completion = (Tag, Result<Reply, OpError>);

/// The outcome of a command without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedOutcome {
    pub(crate) status: Status,
    /// Present only with CHECK CONDITION.
    pub(crate) sense: Option<Sense>,
}

/// A request to a session, sent by another session or by the target.
#[derive(Debug)]
pub(crate) enum SessionEvent {
    /// Abort all commands of this nexus on `volume`, or on all volumes if it is `None`. The session
    /// drops `barrier` once the outcome of every aborted command is certain.
    Abort { volume: Option<ObjectId>, barrier: Arc<AbortBarrier> },
    /// All commands that `waiter` waited for have ended, unless `is_certain` is false.
    AbortsDone { waiter: Waiter, is_certain: bool },
    /// A change of reservations that two arrays share has ended.
    ReservationsShared { tag: Tag, outcome: SharedOutcome },
    /// The stored reservations of `volume` have been read, or cannot be read now.
    ReservationsRead { volume: ObjectId },
    /// The limits of its volume admit a throttled command.
    Admitted { tag: Tag, ticket: Ticket },
    /// Request a logout of the initiator within `seconds`, because the target shuts down.
    RequestLogout { seconds: u16 },
    /// End the session, because another one replaces it or the target shuts down.
    Close { reason: &'static str },
}

/// A request that waits for commands to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A task management function.
    Function(RequestId),
    /// A PREEMPT AND ABORT, by the tag of its command.
    Command(u64),
}

/// The request that a barrier delays.
enum Requester {
    /// One of a session of this array, which owns the inbox.
    Session(Arc<Inbox>, Waiter),
    /// One of the other array.
    Peer(Mutex<Option<FunctionEnd>>),
}

/// Delays the answer to a task management function or a PREEMPT AND ABORT.
///
/// Every connection with affected commands holds a reference until each of them was answered by
/// the engine, or never reached it. Dropping the last reference, also because a connection failed,
/// notifies the requester.
pub(crate) struct AbortBarrier {
    requester: Requester,
    /// The other array could not be asked to abort its commands, or has not confirmed that they
    /// ended.
    is_uncertain: AtomicBool,
}

impl AbortBarrier {
    /// Creates a barrier for a waiter on the connection that owns `requester`.
    pub(crate) fn new(requester: Arc<Inbox>, waiter: Waiter) -> Arc<Self> {
        Self::of(Requester::Session(requester, waiter))
    }

    /// Creates a barrier for a function of the other array. `end` is called when it is dropped.
    pub(crate) fn for_peer(end: FunctionEnd) -> Arc<Self> {
        Self::of(Requester::Peer(Mutex::new(Some(end))))
    }

    fn of(requester: Requester) -> Arc<Self> {
        Arc::new(Self { requester, is_uncertain: AtomicBool::new(false) })
    }

    /// The end of some commands is not certain.
    pub(crate) fn fail(&self) {
        self.is_uncertain.store(true, Ordering::Release);
    }
}

impl Drop for AbortBarrier {
    fn drop(&mut self) {
        let is_certain = !self.is_uncertain.load(Ordering::Acquire);
        match &self.requester {
            Requester::Session(inbox, waiter) => inbox.post(SessionEvent::AbortsDone { waiter: *waiter, is_certain }),
            Requester::Peer(end) => {
                let end = end.lock().take();
                end.into_iter().for_each(|end| end(is_certain));
            }
        }
    }
}

impl std::fmt::Debug for AbortBarrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiter = match &self.requester {
            Requester::Session(_, waiter) => Some(waiter),
            Requester::Peer(_) => None,
        };
        f.debug_struct("AbortBarrier").field("waiter", &waiter).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Pending {
    completions: Vec<Completion>,
    events: Vec<SessionEvent>,
    waker: Option<Waker>,
    is_closed: bool,
}

/// The event queue of a connection.
///
/// A sender wakes the connection only if it sleeps, so completions that the engine delivers from
/// within `submit` cost no wake-up.
#[derive(Default)]
pub(crate) struct Inbox(Mutex<Pending>, OnceLock<Source>);

impl Inbox {
    /// Sets the sender of the operations that complete here.
    pub(crate) fn set_source(&self, source: Source) {
        let _ = self.1.set(source);
    }

    /// Queues an event. Drops it if the inbox is closed.
    pub(crate) fn post(&self, event: SessionEvent) {
        let waker = {
            let mut pending = self.0.lock();
            if pending.is_closed {
                // Dropping the event may post to another inbox, so the lock is released first.
                drop(pending);
                return;
            }
            pending.events.push(event);
            pending.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Moves everything that is queued into the caller's empty vectors, which are reused.
    pub(crate) fn take(&self, completions: &mut Vec<Completion>, events: &mut Vec<SessionEvent>) {
        let mut pending = self.0.lock();
        pending.waker = None;
        std::mem::swap(&mut pending.completions, completions);
        if !pending.events.is_empty() {
            events.append(&mut pending.events);
        }
    }

    /// Is ready if the inbox is not empty; otherwise registers `context` to be woken.
    pub(crate) fn poll_filled(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut pending = self.0.lock();
        if !pending.completions.is_empty() || !pending.events.is_empty() {
            return Poll::Ready(());
        }
        match &mut pending.waker {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits until the inbox is not empty. Cancel safe.
    pub(crate) async fn filled(&self) {
        poll_fn(|context| self.poll_filled(context)).await;
    }

    /// Drops everything that is queued, and every event that is posted later.
    pub(crate) fn close(&self) {
        // Dropping an event may post to another inbox, so it happens outside the lock.
        let pending = std::mem::replace(&mut *self.0.lock(), Pending { is_closed: true, ..Pending::default() });
        drop(pending);
    }
}

impl Sink for Inbox {
    fn source(&self) -> Option<Source> {
        self.1.get().copied()
    }

    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        let waker = {
            let mut pending = self.0.lock();
            pending.completions.push((tag, result));
            pending.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn inbox_wakes_only_a_sleeping_connection_and_once() {
        let inbox = Inbox::default();
        let wakes = Arc::new(WakeCounter::default());
        let waker = Waker::from(wakes.clone());
        inbox.complete(1, Ok(Reply::Done));
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
        let (mut completions, mut events) = (Vec::new(), Vec::new());
        inbox.take(&mut completions, &mut events);
        assert_eq!(completions, [(1, Ok(Reply::Done))]);

        let mut sleep = Box::pin(inbox.filled());
        let mut context = std::task::Context::from_waker(&waker);
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        inbox.complete(2, Ok(Reply::Done));
        inbox.complete(3, Err(OpError::NoSpace));
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        assert!(sleep.as_mut().poll(&mut context).is_ready());
    }
}
