//! Registry of sessions: at most one session per I_T nexus (RFC 7143 6.3.5).

use crate::nexus::ids::{NexusId, NexusName};
use crate::nexus::inbox::{Inbox, SessionEvent};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

struct Entry {
    /// `None` for a discovery session; any number of them may exist.
    name: Option<NexusName>,
    /// Target session identifying handle.
    tsih: u16,
    inbox: Arc<Inbox>,
    /// Closed when the session has ended.
    ended: watch::Receiver<()>,
}

/// All sessions of the target.
#[derive(Default)]
pub(crate) struct SessionRegistry {
    sessions: Mutex<HashMap<NexusId, Entry>>,
    next: AtomicU64,
}

/// A registered session. Dropping it ends the registration.
pub(crate) struct SessionSlot {
    registry: Arc<SessionRegistry>,
    pub(crate) id: NexusId,
    _ended: watch::Sender<()>,
}

impl SessionRegistry {
    /// Registers a session; `name` is `None` for a discovery session.
    ///
    /// A session of the same nexus is closed first. This returns after that session and all its
    /// commands have ended (session reinstatement, RFC 7143 6.3.5).
    pub(crate) async fn register(
        self: &Arc<Self>,
        name: Option<&NexusName>,
        tsih: u16,
        inbox: &Arc<Inbox>,
    ) -> SessionSlot {
        loop {
            let mut ended = match self.try_register(name, tsih, inbox) {
                Ok(slot) => return slot,
                Err(ended) => ended,
            };
            // Nothing is ever sent. The error shows that the sender was dropped.
            while ended.changed().await.is_ok() {}
        }
    }

    fn try_register(
        self: &Arc<Self>,
        name: Option<&NexusName>,
        tsih: u16,
        inbox: &Arc<Inbox>,
    ) -> Result<SessionSlot, watch::Receiver<()>> {
        let mut sessions = self.sessions.lock();
        // A linear search is fast enough, because logins are rare and sessions are few.
        if let Some(old) = name.and_then(|name| sessions.values().find(|old| old.name.as_ref() == Some(name))) {
            old.inbox.post(SessionEvent::Close { reason: "session replaced by a new login" });
            return Err(old.ended.clone());
        }
        let (sender, ended) = watch::channel(());
        let id = NexusId(self.next.fetch_add(1, Ordering::Relaxed) + 1);
        sessions.insert(id, Entry { name: name.cloned(), tsih, inbox: inbox.clone(), ended });
        Ok(SessionSlot { registry: self.clone(), id, _ended: sender })
    }

    /// Returns the handle of the session of a nexus.
    pub(crate) fn tsih(&self, name: &NexusName) -> Option<u16> {
        self.sessions.lock().values().find(|entry| entry.name.as_ref() == Some(name)).map(|entry| entry.tsih)
    }

    /// Asks every session to request a logout of its initiator within `seconds`.
    pub(crate) fn request_logouts(&self, seconds: u16) {
        self.sessions.lock().values().for_each(|entry| entry.inbox.post(SessionEvent::RequestLogout { seconds }));
    }

    /// Asks every session to close.
    pub(crate) fn close_all(&self, reason: &'static str) {
        self.sessions.lock().values().for_each(|entry| entry.inbox.post(SessionEvent::Close { reason }));
    }

    /// Waits until every normal session has ended.
    pub(crate) async fn wait_empty(&self) {
        loop {
            let next =
                self.sessions.lock().values().find(|entry| entry.name.is_some()).map(|entry| entry.ended.clone());
            let Some(mut ended) = next else { return };
            while ended.changed().await.is_ok() {}
        }
    }

    /// Returns the number of normal sessions.
    pub(crate) fn len(&self) -> usize {
        self.sessions.lock().values().filter(|entry| entry.name.is_some()).count()
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.registry.sessions.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nexus::ids::InitiatorPort;

    fn name(isid: u8, target_port: u16) -> NexusName {
        let isid = [0x80, 0, 0, 0, 0, isid];
        NexusName { initiator: InitiatorPort { iqn: "iqn.2026-11.org.ibid:host".to_owned(), isid }, target_port }
    }

    #[tokio::test]
    async fn one_initiator_port_has_a_session_at_each_port() {
        let registry = Arc::new(SessionRegistry::default());
        let inbox = Arc::new(Inbox::default());
        let _first = registry.register(Some(&name(1, 1)), 1, &inbox).await;
        let _second = registry.register(Some(&name(1, 2)), 2, &inbox).await;
        assert_eq!(registry.len(), 2);
        assert_eq!([1, 2, 3].map(|port| registry.tsih(&name(1, port))), [Some(1), Some(2), None]);
    }

    #[tokio::test]
    async fn second_login_of_a_nexus_waits_for_the_first_to_end() {
        let registry = Arc::new(SessionRegistry::default());
        let (first_inbox, second_inbox) = (Arc::new(Inbox::default()), Arc::new(Inbox::default()));
        let first = registry.register(Some(&name(1, 1)), 1, &first_inbox).await;
        let other = registry.register(Some(&name(2, 1)), 2, &second_inbox).await;
        assert_ne!(first.id, other.id);

        let waiting = tokio::spawn({
            let (registry, inbox) = (registry.clone(), second_inbox.clone());
            async move { registry.register(Some(&name(1, 1)), 3, &inbox).await }
        });
        first_inbox.filled().await;
        let (mut completions, mut events) = (Vec::new(), Vec::new());
        first_inbox.take(&mut completions, &mut events);
        assert!(matches!(events[..], [SessionEvent::Close { .. }]));
        assert!(!waiting.is_finished());

        drop(first);
        let second = waiting.await.expect("the second session is registered");
        assert_eq!(registry.len(), 2);
        drop(second);
        drop(other);
        assert_eq!(registry.len(), 0);
    }
}
