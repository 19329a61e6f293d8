//! What reaches a connection from elsewhere: answers of the engine and requests of other connections.

use crate::session::task_management::{Hold, Waiter};
use crate::unit::qos::Ticket;
use engine::{OpError, Reply, Sink, Tag};
use parking_lot::Mutex;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use types::VolumeId;

/// An answer of the engine.
pub(crate) type Completion = (Tag, Result<Reply, OpError>);

/// A request of another connection, or of the program.
#[derive(Debug)]
pub(crate) enum Event {
    /// Abort every task of this nexus on `volume` (or on all volumes), and let go of `hold` when the outcome of each is
    /// certain.
    Abort { volume: Option<VolumeId>, hold: Arc<Hold> },
    /// All commands that this waited for have ended.
    Released { waiter: Waiter },
    /// The limits of its volume let a command of this connection go that waited for them.
    Admitted { tag: Tag, ticket: Ticket },
    /// End the session: another one has taken its name, or the target stops.
    Close { reason: &'static str },
}

#[derive(Default)]
struct Letters {
    completions: Vec<Completion>,
    events: Vec<Event>,
    waker: Option<Waker>,
    is_closed: bool,
}

/// The one queue of a connection. Whoever fills it wakes the connection only when it sleeps, so answers that the engine
/// gives from within `submit` cost no wake-up.
#[derive(Default)]
pub(crate) struct Inbox(Mutex<Letters>);

impl Inbox {
    /// Leaves a request.
    pub(crate) fn post(&self, event: Event) {
        let waker = {
            let mut letters = self.0.lock();
            if letters.is_closed {
                // The lock goes before the event, whose end may post to another inbox.
                drop(letters);
                return;
            }
            letters.events.push(event);
            letters.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes everything that is there, into empty vectors of the caller (whose memory serves again).
    pub(crate) fn take(&self, completions: &mut Vec<Completion>, events: &mut Vec<Event>) {
        let mut letters = self.0.lock();
        letters.waker = None;
        std::mem::swap(&mut letters.completions, completions);
        if !letters.events.is_empty() {
            events.append(&mut letters.events);
        }
    }

    /// Ready when there is something to take; else `context` is woken when there is.
    pub(crate) fn poll_filled(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut letters = self.0.lock();
        if !letters.completions.is_empty() || !letters.events.is_empty() {
            return Poll::Ready(());
        }
        match &mut letters.waker {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits until there is something to take. Cancel safe.
    pub(crate) async fn filled(&self) {
        poll_fn(|context| self.poll_filled(context)).await;
    }

    /// Nobody will take anything any more: what waits is let go, and what is left later as well.
    pub(crate) fn close(&self) {
        // Letting go of a letter may post to another inbox, so it happens outside the lock.
        let letters = std::mem::replace(&mut *self.0.lock(), Letters { is_closed: true, ..Letters::default() });
        drop(letters);
    }
}

impl Sink for Inbox {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        let waker = {
            let mut letters = self.0.lock();
            letters.completions.push((tag, result));
            letters.waker.take()
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
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_sleeping_connection_is_woken_once_and_a_busy_one_not_at_all() {
        let inbox = Inbox::default();
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        inbox.complete(1, Ok(Reply::Done));
        assert_eq!(bell.0.load(Ordering::SeqCst), 0);
        let (mut completions, mut events) = (Vec::new(), Vec::new());
        inbox.take(&mut completions, &mut events);
        assert_eq!(completions, [(1, Ok(Reply::Done))]);

        let mut sleep = Box::pin(inbox.filled());
        let mut context = std::task::Context::from_waker(&waker);
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        inbox.complete(2, Ok(Reply::Done));
        inbox.complete(3, Err(OpError::NoSpace));
        assert_eq!(bell.0.load(Ordering::SeqCst), 1);
        assert!(sleep.as_mut().poll(&mut context).is_ready());
    }
}
