//! Initiators that are logged in, were logged in, or were refused.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

/// Maximum number of ended sessions that are kept.
const MAX_ENDED: usize = 1024;
/// Maximum number of refused logins that are kept, one for each initiator and source.
const MAX_REFUSED: usize = 256;

/// A session as it was logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Initiator name, in lower case.
    pub initiator: String,
    /// Initiator session id (RFC 7143 11.12.5), 12 hexadecimal digits.
    pub isid: String,
    /// Target session handle.
    pub tsih: u16,
    /// Address of the initiator.
    pub peer: SocketAddr,
    /// Address to which the initiator is connected.
    pub portal: SocketAddr,
    /// Time of the login (ms since 1970).
    pub since_ms: u64,
    /// True if the initiator was authenticated by CHAP.
    pub is_authenticated: bool,
    /// Negotiated values, as (key of RFC 7143, value).
    pub parameters: Vec<(&'static str, String)>,
}

/// A session that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSession {
    /// Number of the session, unique since the start of the process.
    pub id: u64,
    /// The login.
    pub info: SessionInfo,
}

/// A session that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedSession {
    /// The login.
    pub info: SessionInfo,
    /// Time of the end (ms since 1970).
    pub ended_ms: u64,
    /// Why it ended.
    pub reason: String,
}

/// Refused logins of one initiator from one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedLogin {
    /// Initiator name as sent, without control characters, shortened to 223 characters.
    pub initiator: String,
    /// Address of the last attempt.
    pub peer: SocketAddr,
    /// Time of the last attempt (ms since 1970).
    pub last_ms: u64,
    /// Number of attempts.
    pub count: u64,
    /// Why the last attempt was refused.
    pub reason: String,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// Number of changes of the lists below.
    version: u64,
    live: BTreeMap<u64, SessionInfo>,
    ended: VecDeque<EndedSession>,
    refused: VecDeque<RefusedLogin>,
}

/// All sessions, and the recent past.
#[derive(Default)]
pub struct SessionTable(Mutex<Table>);

/// Keeps a session in the table.
pub struct SessionGuard {
    table: Arc<SessionTable>,
    id: u64,
}

impl SessionTable {
    /// Adds a session. It ends with [`SessionGuard::end`].
    pub fn add(self: &Arc<Self>, info: SessionInfo) -> SessionGuard {
        let mut table = self.0.lock();
        table.next += 1;
        table.version += 1;
        let id = table.next;
        table.live.insert(id, info);
        SessionGuard { table: self.clone(), id }
    }

    /// Notes a login that was refused at `now_ms`.
    pub fn refuse(&self, initiator: &str, peer: SocketAddr, reason: &str, now_ms: u64) {
        const MAX_NAME: usize = 223;
        let initiator: String = initiator.chars().filter(|char| !char.is_control()).take(MAX_NAME).collect();
        let mut table = self.0.lock();
        let is_same = |known: &RefusedLogin| known.initiator == initiator && known.peer.ip() == peer.ip();
        let earlier = table.refused.iter().position(is_same).and_then(|at| table.refused.remove(at));
        let count = earlier.map_or(0, |earlier| earlier.count) + 1;
        table.version += 1;
        if table.refused.len() >= MAX_REFUSED {
            table.refused.pop_front();
        }
        table.refused.push_back(RefusedLogin { initiator, peer, last_ms: now_ms, count, reason: reason.to_owned() });
    }

    /// Returns a number that changes whenever one of the lists does.
    pub fn version(&self) -> u64 {
        self.0.lock().version
    }

    /// Returns the sessions that exist, in order of their logins.
    pub fn live(&self) -> Vec<LiveSession> {
        self.0.lock().live.iter().map(|(id, info)| LiveSession { id: *id, info: info.clone() }).collect()
    }

    /// Returns the ended sessions, latest last.
    pub fn ended(&self) -> Vec<EndedSession> {
        self.0.lock().ended.iter().cloned().collect()
    }

    /// Returns the refused logins, latest last.
    pub fn refused(&self) -> Vec<RefusedLogin> {
        self.0.lock().refused.iter().cloned().collect()
    }
}

impl SessionGuard {
    /// Ends the session at `now_ms`.
    pub fn end(self, reason: &str, now_ms: u64) {
        let mut table = self.table.0.lock();
        if let Some(info) = table.live.remove(&self.id) {
            table.version += 1;
            if table.ended.len() >= MAX_ENDED {
                table.ended.pop_front();
            }
            table.ended.push_back(EndedSession { info, ended_ms: now_ms, reason: reason.to_owned() });
        }
    }
}

impl Drop for SessionGuard {
    /// A session whose task was cancelled ends without a record.
    fn drop(&mut self) {
        let mut table = self.table.0.lock();
        if table.live.remove(&self.id).is_some() {
            table.version += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(initiator: &str) -> SessionInfo {
        SessionInfo {
            initiator: initiator.to_owned(),
            isid: "800000000001".to_owned(),
            tsih: 1,
            peer: ([192, 0, 2, 1], 40_000).into(),
            portal: ([192, 0, 2, 9], 3260).into(),
            since_ms: 5,
            is_authenticated: false,
            parameters: Vec::new(),
        }
    }

    #[test]
    fn ended_sessions_are_kept_and_bounded() {
        let table = Arc::new(SessionTable::default());
        let kept = table.add(info("kept"));
        for n in 0..=MAX_ENDED as u64 {
            table.add(info("other")).end("logged out", n);
        }
        assert_eq!(table.live().iter().map(|session| session.info.initiator.as_str()).collect::<Vec<_>>(), ["kept"]);
        assert_eq!((table.ended().len(), table.ended()[0].ended_ms), (MAX_ENDED, 1));
        drop(kept);
        assert!(table.live().is_empty());
    }

    #[test]
    fn refused_logins_are_counted_by_name_and_address() {
        let table = SessionTable::default();
        let peer = |last, port| ([192, 0, 2, last], port).into();
        table.refuse("iqn.a\nforged", peer(1, 1), "unknown", 10);
        table.refuse("iqn.a\nforged", peer(1, 2), "unknown", 20);
        table.refuse("iqn.a\nforged", peer(2, 1), "unknown", 30);
        let refused = table.refused();
        assert_eq!(refused.iter().map(|login| (login.count, login.last_ms)).collect::<Vec<_>>(), [(2, 20), (1, 30)]);
        assert_eq!(refused[0].initiator, "iqn.aforged");
        (0..2 * MAX_REFUSED).for_each(|n| table.refuse(&format!("iqn.{n}"), peer(1, 1), "unknown", 40));
        assert_eq!(table.refused().len(), MAX_REFUSED);
    }
}
