//! Sessions: opened by `login`, ended by `logout` or 30 minutes without a request.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

/// Maximum time between two requests of a session.
pub(crate) const IDLE: Duration = Duration::from_secs(30 * 60);
/// Maximum number of sessions. A new one replaces the session that was idle longest.
const MAX_SESSIONS: usize = 1024;

#[derive(Debug)]
struct Session {
    admin: String,
    last: Instant,
}

/// The open sessions by token. They are in memory only, so clients log in again after a restart.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Session>>);

impl Sessions {
    /// Opens a session and returns its token.
    pub(crate) fn open(&self, admin: &str, now: Instant) -> io::Result<String> {
        let token: String = platform::random::bytes::<32>()?.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut sessions = self.0.lock();
        sessions.retain(|_, session| now.duration_since(session.last) < IDLE);
        if sessions.len() >= MAX_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.last).map(|(token, _)| token.clone());
            oldest.and_then(|oldest| sessions.remove(&oldest));
        }
        sessions.insert(token.clone(), Session { admin: admin.to_owned(), last: now });
        Ok(token)
    }

    /// Returns the administrator of a session that has not expired, and restarts its idle time.
    pub(crate) fn touch(&self, token: &str, now: Instant) -> Option<String> {
        let mut sessions = self.0.lock();
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
        let sessions = self.0.lock();
        let session = sessions.get(token)?;
        (now.duration_since(session.last) < IDLE).then(|| session.admin.clone())
    }

    /// Ends a session. Returns false if it does not exist.
    pub(crate) fn close(&self, token: &str) -> bool {
        self.0.lock().remove(token).is_some()
    }

    /// Ends all sessions of an administrator, for example when the token is replaced.
    pub(crate) fn close_all(&self, admin: &str) {
        self.0.lock().retain(|_, session| session.admin != admin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_expires_after_30_idle_minutes() {
        let sessions = Sessions::default();
        let start = platform::clock::now();
        let token = sessions.open("admin", start).unwrap();
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
        let token = sessions.open("admin", start).unwrap();
        let almost = IDLE - Duration::from_secs(1);
        assert_eq!(sessions.peek(&token, start + almost).as_deref(), Some("admin"));
        assert_eq!(sessions.peek(&token, start + IDLE), None);
        assert_eq!(sessions.touch(&token, start + IDLE), None);
    }

    #[test]
    fn sessions_have_distinct_tokens_and_end_singly() {
        let sessions = Sessions::default();
        let start = platform::clock::now();
        let (first, second) = (sessions.open("admin", start).unwrap(), sessions.open("admin", start).unwrap());
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
        let first = sessions.open("admin", start).unwrap();
        for n in 1..=MAX_SESSIONS as u64 {
            sessions.open("admin", start + Duration::from_millis(n)).unwrap();
        }
        assert_eq!(sessions.0.lock().len(), MAX_SESSIONS);
        assert!(sessions.touch(&first, start).is_none());
    }
}
