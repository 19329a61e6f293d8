//! Limits for connections whose certificate is not known yet.
//!
//! If all places are taken, the oldest such connection gives way: of the same source if that has
//! its share, else of the source that has most. A client with a known certificate leaves the table
//! within milliseconds, so a flood does not keep it out.

use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Notify;

/// Maximum number of unknown connections.
const MAX_UNKNOWN: usize = 32;
/// Maximum number of unknown connections of one source.
const MAX_PER_SOURCE: usize = 8;

#[derive(Debug)]
struct Place {
    id: u64,
    source: IpAddr,
    evicted: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// In order of arrival.
    places: Vec<Place>,
}

impl Table {
    fn count(&self, source: IpAddr) -> usize {
        self.places.iter().filter(|place| place.source == source).count()
    }

    fn make_room(&mut self, source: IpAddr) {
        let victim = if self.count(source) >= MAX_PER_SOURCE {
            self.places.iter().position(|place| place.source == source)
        } else if self.places.len() >= MAX_UNKNOWN {
            let most = self.places.iter().map(|place| self.count(place.source)).max();
            self.places.iter().position(|place| Some(self.count(place.source)) == most)
        } else {
            None
        };
        if let Some(victim) = victim {
            self.places.remove(victim).evicted.notify_one();
        }
    }
}

/// The unknown connections.
#[derive(Debug, Default)]
pub struct Strangers(Mutex<Table>);

impl Strangers {
    /// Gives a place to a connection.
    pub fn admit(self: &Arc<Self>, source: IpAddr) -> Stranger {
        let mut table = self.0.lock();
        let source = platform::net::counted_source(source);
        table.make_room(source);
        table.next += 1;
        let (id, evicted) = (table.next, Arc::<Notify>::default());
        table.places.push(Place { id, source, evicted: evicted.clone() });
        Stranger { table: self.clone(), id, evicted }
    }
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub struct Stranger {
    table: Arc<Strangers>,
    id: u64,
    evicted: Arc<Notify>,
}

impl Stranger {
    /// Waits until the connection has to give way.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.table.0.lock().places.retain(|place| place.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn is_evicted(stranger: &Stranger) -> bool {
        let held = stranger.table.0.lock().places.iter().any(|place| place.id == stranger.id);
        !held
    }

    #[tokio::test]
    async fn source_with_its_share_loses_its_oldest() {
        let table = Arc::<Strangers>::default();
        let other = table.admit(source(9));
        let mine: Vec<Stranger> = (0..MAX_PER_SOURCE).map(|_| table.admit(source(1))).collect();
        let next = table.admit(source(1));
        mine[0].evicted().await;
        assert!(is_evicted(&mine[0]) && !is_evicted(&mine[1]) && !is_evicted(&next) && !is_evicted(&other));
    }

    #[test]
    fn full_table_evicts_of_the_source_with_most() {
        let table = Arc::<Strangers>::default();
        let first = table.admit(source(100));
        let greedy: Vec<Stranger> = (0..MAX_PER_SOURCE).map(|_| table.admit(source(1))).collect();
        let rest: Vec<Stranger> =
            (2..).take(MAX_UNKNOWN - MAX_PER_SOURCE - 1).map(|at| table.admit(source(at))).collect();
        let new = table.admit(source(200));
        assert!(is_evicted(&greedy[0]) && !is_evicted(&first) && !is_evicted(&new) && !is_evicted(&rest[0]));
        drop((greedy, rest, new));
        assert_eq!(table.0.lock().places.len(), 1);
    }
}
