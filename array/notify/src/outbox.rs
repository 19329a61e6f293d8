//! Queues of notices: one for each destination, bounded, with retries.
//!
//! A destination that fails delays no other. Nothing here sends or reads a clock.

use crate::{DestinationId, Notice};
use api::DeliveryStatus;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of notices that wait for one destination. A new one replaces the oldest.
pub const MAX_WAITING: usize = 64;
/// Maximum number of attempts for one notice: about three hours.
pub const MAX_ATTEMPTS: u32 = 24;
/// Pause after the first failed attempt. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// Maximum pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// The queue of one destination.
#[derive(Debug, Default)]
struct Outbox {
    waiting: VecDeque<Arc<Notice>>,
    /// An attempt is under way.
    is_sending: bool,
    /// Failed attempts for the first notice.
    failures: u32,
    /// Time of the next attempt after a failure.
    retry_at: Option<Instant>,
    status: DeliveryStatus,
}

/// The queues of all destinations.
#[derive(Debug, Default)]
pub struct Outboxes(BTreeMap<DestinationId, Outbox>);

impl Outboxes {
    /// Adds a notice to the queue of a destination.
    pub fn offer(&mut self, id: DestinationId, notice: Arc<Notice>) {
        let outbox = self.0.entry(id).or_default();
        if outbox.waiting.len() >= MAX_WAITING {
            // The first one may be under way.
            outbox.waiting.remove(usize::from(outbox.is_sending));
            outbox.status.dropped += 1;
            outbox.failures = if outbox.is_sending { outbox.failures } else { 0 };
        }
        outbox.waiting.push_back(notice);
    }

    /// Removes the queues of destinations that no longer exist.
    pub fn retain(&mut self, exists: impl Fn(&DestinationId) -> bool) {
        self.0.retain(|id, outbox| exists(id) || outbox.is_sending);
    }

    /// Returns the destinations whose next attempt is due. The caller starts sending to each, and
    /// ends it with [`Self::finish`].
    pub fn start_due(&mut self, now: Instant) -> Vec<DestinationId> {
        let is_due = |outbox: &Outbox| {
            !outbox.is_sending && !outbox.waiting.is_empty() && outbox.retry_at.is_none_or(|retry_at| retry_at <= now)
        };
        let due = self.0.iter_mut().filter(|(_, outbox)| is_due(outbox));
        due.map(|(id, outbox)| {
            outbox.is_sending = true;
            id.clone()
        })
        .collect()
    }

    /// Returns the notice to send next.
    pub fn next(&self, id: &DestinationId) -> Option<Arc<Notice>> {
        self.0.get(id)?.waiting.front().cloned()
    }

    /// Removes all notices of a destination that no longer asks for any, and ends sending.
    pub fn discard(&mut self, id: &DestinationId) {
        if let Some(outbox) = self.0.get_mut(id) {
            outbox.waiting.clear();
            (outbox.is_sending, outbox.failures, outbox.retry_at) = (false, 0, None);
        }
    }

    /// Records the outcome of an attempt. Returns true if the next notice is to be sent at once;
    /// otherwise, sending has ended.
    pub fn finish(&mut self, id: &DestinationId, outcome: Result<(), String>, now: Instant, now_ms: u64) -> bool {
        let Some(outbox) = self.0.get_mut(id) else { return false };
        outbox.status.last_attempt = Some(now_ms);
        match outcome {
            Ok(()) => {
                outbox.waiting.pop_front();
                (outbox.failures, outbox.retry_at) = (0, None);
                (outbox.status.last_success, outbox.status.last_error) = (Some(now_ms), None);
                outbox.is_sending = !outbox.waiting.is_empty();
            }
            Err(error) => {
                outbox.failures += 1;
                outbox.status.last_error = Some(error);
                outbox.retry_at = Some(now + pause(outbox.failures));
                outbox.is_sending = false;
                if outbox.failures >= MAX_ATTEMPTS {
                    outbox.waiting.pop_front();
                    outbox.status.dropped += 1;
                    outbox.failures = 0;
                }
            }
        }
        outbox.is_sending
    }

    /// Records the outcome of a test, which has no place in the queue.
    pub fn record_test(&mut self, id: &DestinationId, error: Option<String>, now_ms: u64) {
        let outbox = self.0.entry(id.clone()).or_default();
        outbox.status.last_attempt = Some(now_ms);
        if error.is_none() {
            outbox.status.last_success = Some(now_ms);
            // The destination works again, so waiting notices need not wait for their next attempt.
            outbox.retry_at = None;
        }
        outbox.status.last_error = error;
    }

    /// Returns the state of the delivery to a destination.
    pub fn status(&self, id: &DestinationId) -> DeliveryStatus {
        let status = |outbox: &Outbox| {
            let waiting = outbox.waiting.len() as u64;
            DeliveryStatus { waiting, ..outbox.status.clone() }
        };
        self.0.get(id).map(status).unwrap_or_default()
    }
}

fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DestinationKind;

    fn id(name: &str) -> DestinationId {
        DestinationId { kind: DestinationKind::Mail, name: name.to_owned() }
    }

    fn notice(number: u64) -> Arc<Notice> {
        Arc::new(Notice::test("a", "i", number))
    }

    #[test]
    fn failed_notice_is_retried_with_longer_pauses() {
        let (mut outboxes, start) = (Outboxes::default(), platform::clock::now());
        outboxes.offer(id("a"), notice(1));
        outboxes.offer(id("b"), notice(1));
        assert_eq!(outboxes.start_due(start), [id("a"), id("b")]);
        assert!(outboxes.start_due(start).is_empty(), "attempts are under way");
        assert!(!outboxes.finish(&id("b"), Ok(()), start, 7), "nothing else waits");
        let mut now = start;
        let mut pauses = Vec::new();
        for attempt in 1..=MAX_ATTEMPTS {
            assert!(!outboxes.finish(&id("a"), Err(format!("failure {attempt}")), now, 7));
            let retry_at = outboxes.0[&id("a")].retry_at.unwrap();
            pauses.push((retry_at - now).as_secs());
            assert!(outboxes.start_due(retry_at - Duration::from_millis(1)).is_empty());
            now = retry_at;
            assert_eq!(outboxes.start_due(now).len(), usize::from(attempt < MAX_ATTEMPTS));
        }
        assert_eq!(pauses[..9], [5, 10, 20, 40, 80, 160, 320, 600, 600]);
        let status = outboxes.status(&id("a"));
        assert_eq!((status.waiting, status.dropped, status.last_error), (0, 1, Some("failure 24".to_owned())));
        let status = outboxes.status(&id("b"));
        assert_eq!((status.last_success, status.last_error, status.dropped), (Some(7), None, 0));
    }

    #[test]
    fn success_sends_the_next_notice_at_once() {
        let (mut outboxes, now) = (Outboxes::default(), platform::clock::now());
        (1..=3).for_each(|number| outboxes.offer(id("a"), notice(number)));
        assert_eq!(outboxes.start_due(now), [id("a")]);
        for number in 1..=3 {
            assert_eq!(outboxes.next(&id("a")).unwrap().at_ms, number);
            assert_eq!(outboxes.finish(&id("a"), Ok(()), now, number), number < 3);
        }
        assert_eq!(outboxes.next(&id("a")), None);
    }

    #[test]
    fn queue_drops_the_oldest_but_not_the_one_under_way() {
        let (mut outboxes, now) = (Outboxes::default(), platform::clock::now());
        outboxes.offer(id("a"), notice(0));
        outboxes.start_due(now);
        (1..100).for_each(|number| outboxes.offer(id("a"), notice(number)));
        let status = outboxes.status(&id("a"));
        assert_eq!((status.waiting, status.dropped), (MAX_WAITING as u64, 100 - MAX_WAITING as u64));
        assert_eq!(outboxes.next(&id("a")).unwrap().at_ms, 0);
        assert!(outboxes.finish(&id("a"), Ok(()), now, 1));
        assert_eq!(outboxes.next(&id("a")).unwrap().at_ms, 100 - MAX_WAITING as u64 + 1);
    }

    #[test]
    fn queues_of_removed_destinations_end() {
        let (mut outboxes, now) = (Outboxes::default(), platform::clock::now());
        outboxes.offer(id("gone"), notice(1));
        outboxes.offer(id("kept"), notice(1));
        outboxes.retain(|id| id.name == "kept");
        assert_eq!(outboxes.start_due(now), [id("kept")]);
        outboxes.retain(|_| false);
        outboxes.discard(&id("kept"));
        outboxes.retain(|_| false);
        assert!(outboxes.0.is_empty());
    }

    #[test]
    fn successful_test_ends_the_pause() {
        let (mut outboxes, now) = (Outboxes::default(), platform::clock::now());
        outboxes.offer(id("a"), notice(1));
        outboxes.start_due(now);
        outboxes.finish(&id("a"), Err("refused".to_owned()), now, 1);
        outboxes.record_test(&id("a"), None, 2);
        assert_eq!(outboxes.start_due(now), [id("a")]);
        assert_eq!(outboxes.status(&id("a")).last_error, None);
    }
}
