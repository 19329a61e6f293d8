//! Sessions: opened by `login`, ended by `logout` or 30 minutes without a request.

use crate::change_feed::{ChangeFeed, ChangeKind};
use crate::source::Source;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum time between two requests of a session.
pub(crate) const IDLE: Duration = Duration::from_secs(30 * 60);
/// Maximum number of sessions of one administrator. A new one replaces the session that was idle
/// longest, so that an administrator ends no sessions of others.
const MAX_SESSIONS: usize = 256;

/// The start of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// Time of the login.
    pub(crate) at: Instant,
    /// The same in milliseconds since 1970.
    pub(crate) unix_ms: u64,
    /// Source of the login.
    pub(crate) origin: Source,
}

#[derive(Debug)]
struct Session {
    admin: String,
    last: Instant,
    start: Start,
}

/// The open sessions by token. They are in memory only, so clients log in again after a restart.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<String, Session>>,
    changes: Arc<ChangeFeed>,
}

impl Sessions {
    /// Creates the list. Each start and end of a session is reported to `changes`.
    pub(crate) fn new(changes: Arc<ChangeFeed>) -> Self {
        Self { open: Mutex::default(), changes }
    }

    /// Opens a session and returns its token.
    pub(crate) fn open(&self, admin: &str, start: Start) -> io::Result<String> {
        let token: String = platform::random::bytes::<32>()?.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut sessions = self.open.lock();
        sessions.retain(|_, session| start.at.saturating_duration_since(session.last) < IDLE);
        let own = || sessions.iter().filter(|(_, session)| session.admin == admin);
        if own().count() >= MAX_SESSIONS {
            let oldest = own().min_by_key(|(_, session)| session.last).map(|(token, _)| token.clone());
            oldest.and_then(|oldest| sessions.remove(&oldest));
        }
        sessions.insert(token.clone(), Session { admin: admin.to_owned(), last: start.at, start });
        drop(sessions);
        self.changes.note(&[ChangeKind::Sessions]);
        Ok(token)
    }

    /// Returns the administrator of a session that has not expired, and restarts its idle time.
    pub(crate) fn touch(&self, token: &str, now: Instant) -> Option<String> {
        let mut sessions = self.open.lock();
        let session = sessions.get_mut(token)?;
        if now.duration_since(session.last) >= IDLE {
            sessions.remove(token);
            return None;
        }
        session.last = now;
        Some(session.admin.clone())
    }

    /// Returns the administrator of a session that has not expired. Its idle time continues.
    pub(crate) fn peek(&self, token: &str, now: Instant) -> Option<String> {
        let sessions = self.open.lock();
        let session = sessions.get(token)?;
        (now.duration_since(session.last) < IDLE).then(|| session.admin.clone())
    }

    /// Lists the sessions that have not expired, oldest first: administrator and start.
    pub(crate) fn list(&self, now: Instant) -> Vec<(String, Start)> {
        let sessions = self.open.lock();
        let open = sessions.values().filter(|session| now.saturating_duration_since(session.last) < IDLE);
        let mut listed: Vec<_> = open.map(|session| (session.admin.clone(), session.start)).collect();
        listed.sort_by_key(|(_, start)| start.at);
        listed
    }

    /// Ends a session. Returns false if it does not exist.
    pub(crate) fn close(&self, token: &str) -> bool {
        let is_open = self.open.lock().remove(token).is_some();
        if is_open {
            self.changes.note(&[ChangeKind::Sessions]);
        }
        is_open
    }

    /// Ends all sessions of an administrator, for example when the token is replaced.
    pub(crate) fn close_all(&self, admin: &str) {
        self.open.lock().retain(|_, session| session.admin != admin);
        self.changes.note(&[ChangeKind::Sessions]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn at(at: Instant) -> Start {
        Start { at, unix_ms: 7, origin: Source::network(IpAddr::from([192, 0, 2, 1])) }
    }

    #[test]
    fn session_expires_after_30_idle_minutes() {
        let sessions = Sessions::default();
        let start = platform::clock::now();
        let token = sessions.open("admin", at(start)).unwrap();
        let almost = IDLE - Duration::from_secs(1);
        assert_eq!(sessions.touch(&token, start + almost).as_deref(), Some("admin"));
        assert_eq!(sessions.touch(&token, start + 2 * almost).as_deref(), Some("admin"));
        assert_eq!(sessions.touch(&token, start + 2 * almost + IDLE), None);
        assert_eq!(sessions.touch(&token, start), None);
    }

    #[test]
    fn polls_do_not_prolong_a_session() {
        let sessions = Sessions::default();
        let start = platform::clock::now();
        let token = sessions.open("admin", at(start)).unwrap();
        let almost = IDLE - Duration::from_secs(1);
        assert_eq!(sessions.peek(&token, start + almost).as_deref(), Some("admin"));
        assert_eq!(sessions.peek(&token, start + IDLE), None);
        assert_eq!(sessions.touch(&token, start + IDLE), None);
    }

    #[test]
    fn sessions_have_distinct_tokens_and_end_singly() {
        let sessions = Sessions::default();
        let start = platform::clock::now();
        let (first, second) = (sessions.open("admin", at(start)).unwrap(), sessions.open("admin", at(start)).unwrap());
        assert_ne!(first, second);
        assert!(sessions.close(&first));
        assert!(!sessions.close(&first));
        assert!(sessions.touch(&second, start).is_some());
        sessions.close_all("admin");
        assert!(sessions.touch(&second, start).is_none());
    }

    #[test]
    fn session_count_is_bounded() {
        let sessions = Sessions::default();
        let start = platform::clock::now();
        let first = sessions.open("admin", at(start)).unwrap();
        for n in 1..=MAX_SESSIONS as u64 {
            sessions.open("admin", at(start + Duration::from_millis(n))).unwrap();
        }
        assert_eq!(sessions.open.lock().len(), MAX_SESSIONS);
        assert!(sessions.touch(&first, start).is_none());
        let other = sessions.open("other", at(start + Duration::from_secs(1))).unwrap();
        assert_eq!(sessions.list(start).len(), MAX_SESSIONS + 1);
        assert!(sessions.touch(&other, start).is_some(), "others have their own sessions");
    }
}
