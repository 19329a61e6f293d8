//! The latest change of each kind of objects, and the places of the streams that report them.
//!
//! The feed holds one number per kind and no queue. A stream that is slow, or was cut, reads the
//! kinds that changed since its own number. It therefore misses nothing, and costs no memory.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Maximum number of streams.
pub(crate) const MAX_STREAMS: usize = 32;
/// Maximum number of streams of one administrator, so that others get theirs.
pub(crate) const MAX_STREAMS_OF_ADMIN: usize = 16;
/// Minimum time between two messages of a stream. Changes in between are one message.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum time without a message. Also bounds how late the end of an idle session is noticed.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// A kind of objects whose changes are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Admins,
    AlertDelivery,
    Alerts,
    Arrays,
    Audits,
    Connections,
    HostGroups,
    Hosts,
    IscsiSessions,
    Performance,
    Pods,
    Policies,
    ProtectionGroupSnapshots,
    ProtectionGroups,
    Sessions,
    Space,
    VolumeGroups,
    VolumeSnapshots,
    Volumes,
}

impl ChangeKind {
    pub(crate) const ALL: [Self; 19] = [
        Self::Admins,
        Self::AlertDelivery,
        Self::Alerts,
        Self::Arrays,
        Self::Audits,
        Self::Connections,
        Self::HostGroups,
        Self::Hosts,
        Self::IscsiSessions,
        Self::Performance,
        Self::Pods,
        Self::Policies,
        Self::ProtectionGroupSnapshots,
        Self::ProtectionGroups,
        Self::Sessions,
        Self::Space,
        Self::VolumeGroups,
        Self::VolumeSnapshots,
        Self::Volumes,
    ];

    /// Returns the name in messages: the path of the list, where one list shows the objects.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Admins => "admins",
            Self::AlertDelivery => "alert-delivery",
            Self::Alerts => "alerts",
            Self::Arrays => "arrays",
            Self::Audits => "audits",
            Self::Connections => "connections",
            Self::HostGroups => "host-groups",
            Self::Hosts => "hosts",
            Self::IscsiSessions => "iscsi-sessions",
            Self::Performance => "performance",
            Self::Pods => "pods",
            Self::Policies => "policies",
            Self::ProtectionGroupSnapshots => "protection-group-snapshots",
            Self::ProtectionGroups => "protection-groups",
            Self::Sessions => "sessions",
            Self::Space => "space",
            Self::VolumeGroups => "volume-groups",
            Self::VolumeSnapshots => "volume-snapshots",
            Self::Volumes => "volumes",
        }
    }
}

/// The latest change of each kind, by its number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changes {
    /// Number of the latest change of any kind.
    pub(crate) last: u64,
    /// In the order of [`ChangeKind::ALL`].
    of_kinds: [u64; ChangeKind::ALL.len()],
    /// The server stops.
    pub(crate) is_closed: bool,
}

impl Changes {
    /// Returns the kinds that changed after the change `number`.
    pub(crate) fn since(&self, number: u64) -> Vec<ChangeKind> {
        let changed = ChangeKind::ALL.into_iter().zip(self.of_kinds).filter(|(_, latest)| *latest > number);
        changed.map(|(kind, _)| kind).collect()
    }
}

/// Times of streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamTimes {
    pub(crate) interval: Duration,
    pub(crate) heartbeat: Duration,
}

impl Default for StreamTimes {
    fn default() -> Self {
        Self { interval: MESSAGE_INTERVAL, heartbeat: HEARTBEAT_INTERVAL }
    }
}

/// The changes of an array since the program started.
#[derive(Debug, Default)]
pub(crate) struct ChangeFeed {
    latest: watch::Sender<Changes>,
    /// Number of streams by administrator.
    streams: Mutex<HashMap<String, usize>>,
    pub(crate) times: Mutex<StreamTimes>,
}

impl ChangeFeed {
    /// Reports a change of these kinds.
    pub(crate) fn note(&self, kinds: &[ChangeKind]) {
        if kinds.is_empty() {
            return;
        }
        self.latest.send_modify(|changes| {
            changes.last += 1;
            for kind in kinds {
                if let Some(latest) = changes.of_kinds.get_mut(*kind as usize) {
                    *latest = changes.last;
                }
            }
        });
    }

    /// Ends all streams, because the server stops.
    pub(crate) fn close(&self) {
        self.latest.send_modify(|changes| changes.is_closed = true);
    }

    /// Returns the receiver of a stream.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Changes> {
        self.latest.subscribe()
    }

    /// Takes a place for a stream of an administrator. Returns `None` if no place is free.
    pub(crate) fn take_place(self: &Arc<Self>, admin: &str) -> Option<StreamPlace> {
        let mut streams = self.streams.lock();
        let own = streams.get(admin).copied().unwrap_or(0);
        if own >= MAX_STREAMS_OF_ADMIN || streams.values().sum::<usize>() >= MAX_STREAMS {
            return None;
        }
        streams.insert(admin.to_owned(), own + 1);
        Some(StreamPlace { feed: self.clone(), admin: admin.to_owned() })
    }
}

/// The place of one stream. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    feed: Arc<ChangeFeed>,
    admin: String,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut streams = self.feed.streams.lock();
        if let Some(count) = streams.get_mut(&self.admin) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.admin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ChangeKind::{Hosts, Space, Volumes};

    #[test]
    fn kinds_since_a_number_are_merged() {
        let feed = ChangeFeed::default();
        feed.note(&[]);
        feed.note(&[Volumes, Space]);
        feed.note(&[Hosts]);
        feed.note(&[Volumes]);
        let changes = *feed.latest.borrow();
        assert_eq!(changes.last, 3);
        assert_eq!(changes.since(0), [Hosts, Space, Volumes]);
        assert_eq!(changes.since(1), [Hosts, Volumes]);
        assert_eq!(changes.since(2), [Volumes]);
        assert_eq!(changes.since(3), []);
    }

    #[test]
    fn kinds_are_listed_in_order_of_their_numbers() {
        let numbers: Vec<usize> = ChangeKind::ALL.into_iter().map(|kind| kind as usize).collect();
        assert_eq!(numbers, (0..ChangeKind::ALL.len()).collect::<Vec<_>>());
        assert!(ChangeKind::ALL.map(ChangeKind::name).is_sorted());
    }

    #[test]
    fn streams_are_bounded_and_shared() {
        let feed = Arc::new(ChangeFeed::default());
        let mut places: Vec<_> = (0..MAX_STREAMS_OF_ADMIN).map(|_| feed.take_place("one").unwrap()).collect();
        assert!(feed.take_place("one").is_none());
        places.extend((0..MAX_STREAMS - MAX_STREAMS_OF_ADMIN).map(|_| feed.take_place("two").unwrap()));
        assert!(feed.take_place("three").is_none());
        drop(places.pop());
        assert!(feed.take_place("three").is_some());
        drop(places);
        assert!(feed.streams.lock().is_empty());
    }
}
