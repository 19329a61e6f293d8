//! Connection slots: limits for strangers before login, and for each host afterwards.
//!
//! A connection starts in an anonymous slot, which it keeps in a discovery session. If these are
//! full, the oldest connection gives way, first among those of the same source, so a stranger
//! displaces its own connections and a login always finds a slot. A source is an IPv4 address or an
//! IPv6 network of 64 bits. Normal sessions have slots of their own, which only configured hosts
//! reach. Initiators that only the wildcard admits take at most half of them.

use crate::config::TargetConfig;
use parking_lot::Mutex;
use platform::net::counted_source;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, watch};

struct Anonymous {
    source: IpAddr,
    evicted: Arc<Notify>,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// In order of arrival.
    anonymous: BTreeMap<u64, Anonymous>,
    by_source: HashMap<IpAddr, usize>,
    /// The number of normal sessions of each initiator name.
    sessions: HashMap<String, usize>,
    session_count: usize,
    /// The number of normal sessions of initiators that only the wildcard admits.
    wildcard_count: usize,
}

impl Table {
    fn remove_anonymous(&mut self, id: u64) -> Option<Anonymous> {
        let removed = self.anonymous.remove(&id)?;
        release(&mut self.by_source, &removed.source);
        Some(removed)
    }

    /// Evicts the oldest connection of `source`, or of the sources that have the most.
    fn evict(&mut self, source: Option<IpAddr>) {
        let most = self.by_source.values().max().copied();
        let is_greedy = |candidate: &IpAddr| match source {
            Some(source) => *candidate == source,
            None => self.by_source.get(candidate).copied() == most,
        };
        let oldest = self.anonymous.iter().find(|(_, connection)| is_greedy(&connection.source)).map(|(id, _)| *id);
        if let Some(evicted) = oldest.and_then(|id| self.remove_anonymous(id)) {
            evicted.evicted.notify_one();
        }
    }
}

/// Decrements a counter and removes it at zero.
fn release<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// The slots of all connections.
pub(crate) struct ConnectionSlots {
    table: Mutex<Table>,
    /// Number of connections, also of evicted ones until they have ended.
    count: watch::Sender<usize>,
    max_anonymous: usize,
    max_per_source: usize,
    max_sessions: usize,
    max_per_host: usize,
}

impl ConnectionSlots {
    pub(crate) fn new(config: &TargetConfig) -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::default(),
            count: watch::Sender::new(0),
            max_anonymous: config.max_anonymous.max(1),
            max_per_source: config.max_anonymous_per_source.max(1),
            max_sessions: config.max_sessions,
            max_per_host: config.max_sessions_per_host,
        })
    }

    /// Returns the slot of a new connection. An older connection may have to give way.
    pub(crate) fn accept(self: &Arc<Self>, peer: IpAddr) -> Arc<ConnectionSlot> {
        let source = counted_source(peer);
        let evicted = Arc::new(Notify::new());
        let mut table = self.table.lock();
        if table.by_source.get(&source).is_some_and(|count| *count >= self.max_per_source) {
            table.evict(Some(source));
        } else if table.anonymous.len() >= self.max_anonymous {
            table.evict(None);
        }
        let id = table.next;
        table.next += 1;
        table.anonymous.insert(id, Anonymous { source, evicted: evicted.clone() });
        *table.by_source.entry(source).or_default() += 1;
        self.count.send_modify(|count| *count += 1);
        Arc::new(ConnectionSlot {
            slots: self.clone(),
            id,
            source,
            evicted,
            session: Mutex::new(None),
            is_session: AtomicBool::new(false),
        })
    }

    /// Waits until all connections have ended.
    pub(crate) async fn wait_empty(&self) {
        // Fails only if the sender is dropped, which `self` owns.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// The slot of one connection. Dropping it frees the slot.
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    id: u64,
    source: IpAddr,
    evicted: Arc<Notify>,
    session: Mutex<Option<CountedSession>>,
    is_session: AtomicBool,
}

/// A normal session, as it is counted.
struct CountedSession {
    initiator: String,
    is_wildcard: bool,
}

impl ConnectionSlot {
    /// Moves the connection to a session slot of `initiator`. Returns false if the host or the
    /// target has too many sessions. A session that `replaces` another of its host is admitted.
    /// `is_wildcard` is true if no host lists the initiator by its name.
    pub(crate) fn admit_session(&self, initiator: &str, is_wildcard: bool, replaces: bool) -> bool {
        let mut table = self.slots.table.lock();
        let count = table.sessions.get(initiator).copied().unwrap_or(0);
        let is_full = count >= self.slots.max_per_host
            || table.session_count >= self.slots.max_sessions
            || (is_wildcard && table.wildcard_count >= self.slots.max_sessions / 2);
        // An evicted connection is being closed.
        if (is_full && !replaces) || table.remove_anonymous(self.id).is_none() {
            return false;
        }
        *table.sessions.entry(initiator.to_owned()).or_default() += 1;
        table.session_count += 1;
        table.wildcard_count += usize::from(is_wildcard);
        *self.session.lock() = Some(CountedSession { initiator: initiator.to_owned(), is_wildcard });
        self.is_session.store(true, Ordering::Release);
        true
    }

    /// Returns the source of the connection: an IPv4 address, or an IPv6 network of 64 bits.
    pub(crate) fn source(&self) -> IpAddr {
        self.source
    }

    /// Returns true for a normal session.
    pub(crate) fn is_session(&self) -> bool {
        self.is_session.load(Ordering::Acquire)
    }

    /// Waits until the connection has to give way to another.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut table = self.slots.table.lock();
        table.remove_anonymous(self.id);
        if let Some(session) = self.session.get_mut().take() {
            release(&mut table.sessions, &session.initiator);
            table.session_count -= 1;
            table.wildcard_count -= usize::from(session.is_wildcard);
        }
        drop(table);
        self.slots.count.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots() -> Arc<ConnectionSlots> {
        ConnectionSlots::new(&TargetConfig {
            max_anonymous: 4,
            max_anonymous_per_source: 3,
            max_sessions: 3,
            max_sessions_per_host: 2,
            ..TargetConfig::default()
        })
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        !slot.slots.table.lock().anonymous.contains_key(&slot.id)
    }

    #[test]
    fn oldest_connection_of_a_source_gives_way() {
        let (slots, greedy, other) = (slots(), IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let held: Vec<_> = (0..3).map(|_| slots.accept(greedy)).collect();
        let victim = slots.accept(other);
        let fourth = slots.accept(greedy);
        assert_eq!(held.iter().map(|slot| is_evicted(slot)).collect::<Vec<_>>(), [true, false, false]);
        // All slots are taken: the source with the most connections loses its oldest.
        let late = slots.accept(other);
        assert_eq!(held.iter().map(|slot| is_evicted(slot)).collect::<Vec<_>>(), [true, true, false]);
        assert!([&victim, &fourth, &late].into_iter().all(|slot| !is_evicted(slot)));
    }

    #[test]
    fn sessions_are_limited_per_host_and_in_all() {
        let (slots, source) = (slots(), IpAddr::from([10, 0, 0, 1]));
        let open = |name: &str, replaces| {
            let slot = slots.accept(source);
            slot.admit_session(name, false, replaces).then_some(slot)
        };
        let held = [open("a", false), open("a", false)];
        assert!(held.iter().all(Option::is_some));
        assert!(open("a", false).is_none());
        assert!(open("a", true).is_some());
        let third = open("b", false);
        assert!(third.is_some());
        assert!(open("c", false).is_none());
        drop(held);
        assert!(open("c", false).is_some());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_source() {
        let slots = slots();
        let address = |host: u64| IpAddr::from((0x2001_0db8_0001_0002_u128 << 64 | u128::from(host)).to_be_bytes());
        let held: Vec<_> = (0..4).map(|host| slots.accept(address(host << 40))).collect();
        assert_eq!(held.iter().map(|slot| is_evicted(slot)).collect::<Vec<_>>(), [true, false, false, false]);
    }

    #[test]
    fn oldest_connection_gives_way_among_equal_sources() {
        let slots = slots();
        let held: Vec<_> = (0..9).map(|host| slots.accept(IpAddr::from([10, 0, 0, host]))).collect();
        let evicted: Vec<bool> = held.iter().map(|slot| is_evicted(slot)).collect();
        assert_eq!(evicted, [true, true, true, true, true, false, false, false, false]);
    }

    #[test]
    fn wildcard_leaves_session_slots_to_listed_hosts() {
        let slots = ConnectionSlots::new(&TargetConfig { max_sessions: 4, ..TargetConfig::default() });
        let open = |name: &str, is_wildcard| {
            let slot = slots.accept(IpAddr::from([10, 0, 0, 1]));
            slot.admit_session(name, is_wildcard, false).then_some(slot)
        };
        let strangers = [open("x1", true), open("x2", true)];
        assert!(strangers.iter().all(Option::is_some) && open("x3", true).is_none());
        let hosts = [open("a", false), open("b", false)];
        assert!(hosts.iter().all(Option::is_some) && open("c", false).is_none());
        drop(strangers);
        assert!(open("x4", true).is_some());
    }
}
