//! Sessions: what `login` opens and `logout` or half an hour of silence ends.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

/// How long a session lives without a request.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// The most sessions; the one that was silent longest makes room for another.
const MAX_SESSIONS: usize = 1024;

#[derive(Debug)]
struct Session {
    admin: String,
    last: Instant,
}

/// The open sessions by token. Kept in memory only: a restart ends them, and clients log in again.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Session>>);

impl Sessions {
    /// Opens a session and gives its token.
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

    /// Whose session it is, when it is one that is alive; it lives on from now.
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

    /// Ends a session.
    pub(crate) fn close(&self, token: &str) -> bool {
        self.0.lock().remove(token).is_some()
    }

    /// Ends all sessions of an administrator, as when the token that opened them is replaced.
    pub(crate) fn close_all(&self, admin: &str) {
        self.0.lock().retain(|_, session| session.admin != admin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_after_half_an_hour_of_silence() {
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
    fn tokens_differ_and_end_one_by_one() {
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
    fn there_are_never_too_many() {
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
