//! The sessions that exist, by initiator port: there is at most one of each name (RFC 7143 6.3.5).

use crate::nexus::inbox::{Event, Inbox};
use crate::nexus::{InitiatorPort, NexusId};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

struct Entry {
    /// `None` for a discovery session, of which there may be any number.
    port: Option<InitiatorPort>,
    inbox: Arc<Inbox>,
    /// Closed when the session has ended.
    ended: watch::Receiver<()>,
}

/// All sessions of the target.
#[derive(Default)]
pub(crate) struct Registry {
    sessions: Mutex<HashMap<NexusId, Entry>>,
    next: AtomicU64,
}

/// The right to be a session; given back when dropped.
pub(crate) struct Seat {
    registry: Arc<Registry>,
    pub(crate) id: NexusId,
    _ended: watch::Sender<()>,
}

impl Registry {
    /// Takes the name `port`, if it is a normal session's. A session that has it is told to close, and has ended, with
    /// all its commands, when this returns (session reinstatement, RFC 7143 6.3.5).
    pub(crate) async fn sit(self: &Arc<Self>, port: Option<&InitiatorPort>, inbox: &Arc<Inbox>) -> Seat {
        loop {
            let mut ended = match self.try_sit(port, inbox) {
                Ok(seat) => return seat,
                Err(ended) => ended,
            };
            // The sender is never used, only dropped: an error is the news.
            while ended.changed().await.is_ok() {}
        }
    }

    fn try_sit(
        self: &Arc<Self>,
        port: Option<&InitiatorPort>,
        inbox: &Arc<Inbox>,
    ) -> Result<Seat, watch::Receiver<()>> {
        let mut sessions = self.sessions.lock();
        // Logins are rare and sessions few, so a walk is quick enough.
        if let Some(old) = port.and_then(|port| sessions.values().find(|old| old.port.as_ref() == Some(port))) {
            old.inbox.post(Event::Close { reason: "the initiator has logged in again" });
            return Err(old.ended.clone());
        }
        let (sender, ended) = watch::channel(());
        let id = NexusId(self.next.fetch_add(1, Ordering::Relaxed) + 1);
        sessions.insert(id, Entry { port: port.cloned(), inbox: inbox.clone(), ended });
        Ok(Seat { registry: self.clone(), id, _ended: sender })
    }

    /// Tells every session to close.
    pub(crate) fn close_all(&self, reason: &'static str) {
        self.sessions.lock().values().for_each(|entry| entry.inbox.post(Event::Close { reason }));
    }

    /// Number of normal sessions.
    pub(crate) fn len(&self) -> usize {
        self.sessions.lock().values().filter(|entry| entry.port.is_some()).count()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.registry.sessions.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(isid: u8) -> InitiatorPort {
        InitiatorPort { iqn: "iqn.2026-11.org.ibid:host".to_owned(), isid: [0x80, 0, 0, 0, 0, isid] }
    }

    #[tokio::test]
    async fn the_second_session_of_a_name_waits_for_the_end_of_the_first() {
        let registry = Arc::new(Registry::default());
        let (first_inbox, second_inbox) = (Arc::new(Inbox::default()), Arc::new(Inbox::default()));
        let first = registry.sit(Some(&port(1)), &first_inbox).await;
        let other = registry.sit(Some(&port(2)), &second_inbox).await;
        assert_ne!(first.id, other.id);

        let waiting = tokio::spawn({
            let (registry, inbox) = (registry.clone(), second_inbox.clone());
            async move { registry.sit(Some(&port(1)), &inbox).await }
        });
        first_inbox.filled().await;
        let (mut completions, mut events) = (Vec::new(), Vec::new());
        first_inbox.take(&mut completions, &mut events);
        assert!(matches!(events[..], [Event::Close { .. }]));
        assert!(!waiting.is_finished());

        drop(first);
        let second = waiting.await.expect("the second session sits down");
        assert_eq!(registry.len(), 2);
        drop(second);
        drop(other);
        assert_eq!(registry.len(), 0);
    }
}
