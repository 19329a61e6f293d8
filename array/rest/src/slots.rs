//! Connection slots: a limit for connections without a valid session, and one for the others.
//!
//! A new connection is anonymous until a request on it has a valid session. If the anonymous slots
//! are full, the oldest anonymous connection gives way, first among those of the same source. An
//! administrator therefore always gets a connection, and keeps it after login.

use crate::source::Source;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::{Notify, watch};

/// Maximum number of anonymous connections.
const MAX_ANONYMOUS: usize = 512;
/// Maximum number of anonymous connections of one source.
const MAX_ANONYMOUS_PER_SOURCE: usize = 128;
/// Maximum number of connections with a valid session. Further ones remain anonymous.
const MAX_AUTHENTICATED: usize = 256;

struct Anonymous {
    source: Source,
    evicted: Arc<Notify>,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// In order of arrival.
    anonymous: BTreeMap<u64, Anonymous>,
    by_source: HashMap<Source, usize>,
    authenticated: usize,
}

impl Table {
    fn remove_anonymous(&mut self, id: u64) -> Option<Anonymous> {
        let removed = self.anonymous.remove(&id)?;
        if let Some(count) = self.by_source.get_mut(&removed.source) {
            *count -= 1;
            if *count == 0 {
                self.by_source.remove(&removed.source);
            }
        }
        Some(removed)
    }

    fn count_of(&self, source: Source) -> usize {
        self.by_source.get(&source).copied().unwrap_or(0)
    }

    /// Evicts a connection if a new one of `source` needs its slot: the oldest of the same source,
    /// or of the sources that have the most.
    fn make_room(&mut self, source: Source) {
        let is_greedy = self.count_of(source) >= MAX_ANONYMOUS_PER_SOURCE;
        if !is_greedy && self.anonymous.len() < MAX_ANONYMOUS {
            return;
        }
        let most = self.by_source.values().max().copied().unwrap_or(0);
        let gives_way = |candidate: Source| match is_greedy {
            true => candidate == source,
            false => self.count_of(candidate) == most,
        };
        let oldest = self.anonymous.iter().find(|(_, connection)| gives_way(connection.source)).map(|(id, _)| *id);
        if let Some(evicted) = oldest.and_then(|id| self.remove_anonymous(id)) {
            evicted.evicted.notify_one();
        }
    }
}

/// The slots of all connections to one listener.
pub(crate) struct ConnectionSlots {
    table: Mutex<Table>,
    /// Number of connections, also of evicted ones until they have ended.
    count: watch::Sender<usize>,
}

impl Default for ConnectionSlots {
    fn default() -> Self {
        Self { table: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl ConnectionSlots {
    /// Returns the slot of a new connection. An older connection may have to give way.
    pub(crate) fn accept(self: &Arc<Self>, source: Source) -> Arc<ConnectionSlot> {
        let evicted = Arc::new(Notify::new());
        let mut table = self.table.lock();
        table.make_room(source);
        let id = table.next;
        table.next += 1;
        table.anonymous.insert(id, Anonymous { source, evicted: evicted.clone() });
        *table.by_source.entry(source).or_default() += 1;
        self.count.send_modify(|count| *count += 1);
        Arc::new(ConnectionSlot { slots: self.clone(), id, source, evicted, is_authenticated: Mutex::new(false) })
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
    source: Source,
    evicted: Arc<Notify>,
    is_authenticated: Mutex<bool>,
}

impl ConnectionSlot {
    /// Returns the source of the connection.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Notes that a request had a valid session. The connection gives way to no other afterwards.
    pub(crate) fn authenticate(&self) {
        let mut is_authenticated = self.is_authenticated.lock();
        if *is_authenticated {
            return;
        }
        let mut table = self.slots.table.lock();
        // An evicted connection is being closed.
        if table.authenticated < MAX_AUTHENTICATED && table.remove_anonymous(self.id).is_some() {
            table.authenticated += 1;
            *is_authenticated = true;
        }
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
        if *self.is_authenticated.get_mut() {
            table.authenticated -= 1;
        }
        drop(table);
        self.slots.count.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn source(n: u8) -> Source {
        Source::network(IpAddr::from([10, 0, 0, n]))
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        !*slot.is_authenticated.lock() && !slot.slots.table.lock().anonymous.contains_key(&slot.id)
    }

    #[test]
    fn oldest_anonymous_connection_gives_way() {
        let slots = Arc::new(ConnectionSlots::default());
        let victim = slots.accept(source(2));
        let held: Vec<_> = (0..MAX_ANONYMOUS_PER_SOURCE).map(|_| slots.accept(source(1))).collect();
        held[0].authenticate();
        let last = slots.accept(source(1));
        assert!(!held.iter().any(|slot| is_evicted(slot)), "an authenticated connection has no anonymous slot");
        let _more = slots.accept(source(1));
        assert!(is_evicted(&held[1]) && !is_evicted(&held[0]) && !is_evicted(&held[2]));
        assert!(!is_evicted(&victim) && !is_evicted(&last));
    }

    #[test]
    fn source_with_most_connections_gives_way() {
        let slots = Arc::new(ConnectionSlots::default());
        let greedy: Vec<_> = (0..MAX_ANONYMOUS_PER_SOURCE).map(|_| slots.accept(source(1))).collect();
        let others: Vec<_> =
            (0..MAX_ANONYMOUS - MAX_ANONYMOUS_PER_SOURCE).map(|n| slots.accept(source(2 + (n % 100) as u8))).collect();
        let late = slots.accept(source(200));
        assert!(is_evicted(&greedy[0]) && !is_evicted(&greedy[1]) && !is_evicted(&late));
        assert!(!others.iter().any(|slot| is_evicted(slot)));
    }

    #[test]
    fn oldest_connection_gives_way_among_equal_sources() {
        let slots = Arc::new(ConnectionSlots::default());
        let source = |n: usize| Source::network(IpAddr::from((n as u32).to_be_bytes()));
        let held: Vec<_> = (0..MAX_ANONYMOUS + 5).map(|n| slots.accept(source(n))).collect();
        let evicted: Vec<usize> = (0..held.len()).filter(|n| is_evicted(&held[*n])).collect();
        assert_eq!(evicted, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn ended_connections_free_their_slots() {
        let slots = Arc::new(ConnectionSlots::default());
        for _ in 0..2 * MAX_AUTHENTICATED {
            let slot = slots.accept(source(1));
            slot.authenticate();
            slot.authenticate();
            assert!(*slot.is_authenticated.lock());
        }
        let table = slots.table.lock();
        assert_eq!((table.authenticated, table.anonymous.len(), table.by_source.len()), (0, 0, 0));
        assert_eq!(*slots.count.borrow(), 0);
    }
}
