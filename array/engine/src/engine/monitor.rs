//! Requests to the scrubber, and what scrubs and reads have found.

use super::read_errors::{ReadErrors, described};
use crate::service::{Damage, Health, OpError};
use fsck::UnreadableRanges;
use platform::threads::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::VolumeId;

/// Most damage that is kept.
const MAX_DAMAGE: usize = 1000;

/// The scrubber's requests and results.
#[derive(Default)]
pub(super) struct ScrubMonitor {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    health: Health,
    /// Metadata that was lost when the array was opened.
    salvage: Option<Arc<str>>,
    /// Blocks that reads could not return.
    read_errors: ReadErrors,
    /// Bytes per second of a scrub that is requested and has not begun.
    wanted: Option<u64>,
    /// Read errors known when the scrub began whose audit is postponed.
    known: ReadErrors,
}

/// Work for the scrubber.
#[derive(Debug)]
pub(super) enum ScrubRequest {
    /// A scrub at this many bytes per second, with the read errors known when it begins.
    Scrub(u64, ReadErrors),
    /// The audit that the last scrub lacks.
    Audit,
}

/// The result of a scrub that did not end early.
pub(super) struct ScrubResult {
    pub(super) damage: Vec<Damage>,
    /// False if the counts were not audited, because hosts needed the space of the checkpoint.
    pub(super) is_audited: bool,
}

impl State {
    /// Notes the completion of a scrub. `known` are the read errors that its result replaces.
    fn completed(&mut self, known: &ReadErrors) {
        self.health.scrubs += 1;
        self.health.damage.truncate(MAX_DAMAGE);
        self.health.audit_postponed_since = None;
        self.read_errors.forget(known);
    }
}

impl ScrubMonitor {
    /// Requests a scrub, unless one is running.
    pub(super) fn request(&self, bytes_per_second: u64) {
        let mut state = self.state.lock();
        if !state.health.is_scrubbing {
            state.health.is_scrubbing = true;
            state.health.scrubbed = 0;
            state.wanted = Some(bytes_per_second.max(1));
            self.changed.notify_all();
        }
    }

    /// Blocks until a scrub is requested, or until a postponed audit has waited for `pause`.
    /// Returns `None` once `is_ending` is true.
    pub(super) fn next_request(&self, pause: Duration, is_ending: impl Fn() -> bool) -> Option<ScrubRequest> {
        let mut state = self.state.lock();
        while !is_ending() {
            if let Some(bytes_per_second) = state.wanted.take() {
                return Some(ScrubRequest::Scrub(bytes_per_second, state.read_errors.clone()));
            }
            if state.health.audit_postponed_since.is_none() {
                self.changed.wait(&mut state);
            } else if self.changed.wait_for(&mut state, pause).timed_out() && !is_ending() {
                return Some(ScrubRequest::Audit);
            }
        }
        None
    }

    /// A scrub has ended: with a result, or early (`None`). `known` are the read errors from before
    /// it began, which its result replaces. Without an audit, the scrub is not complete yet.
    pub(super) fn scrub_ended(&self, result: Option<ScrubResult>, known: ReadErrors, now_ms: u64) {
        let mut state = self.state.lock();
        state.health.is_scrubbing = false;
        let Some(ScrubResult { damage, is_audited }) = result else { return };
        state.health.damage = damage;
        state.health.damage.truncate(MAX_DAMAGE);
        if is_audited {
            state.completed(&known);
        } else {
            state.health.audit_postponed_since.get_or_insert(now_ms);
            state.known = known;
        }
    }

    /// The postponed audit has completed, and found this damage.
    pub(super) fn audit_ended(&self, damage: Vec<Damage>) {
        let mut state = self.state.lock();
        state.health.damage.extend(damage);
        let known = std::mem::take(&mut state.known);
        state.completed(&known);
    }

    /// Notes the losses from before the array was opened.
    pub(super) fn salvaged(&self, summary: &str, unreadable: &BTreeMap<VolumeId, UnreadableRanges>) {
        let mut state = self.state.lock();
        state.salvage = Some(summary.into());
        state.health.damage.extend(unreadable.iter().map(|(volume, ranges)| described(*volume, ranges)));
    }

    /// Counts bytes that the running scrub has checked.
    pub(super) fn add_scrubbed(&self, bytes: u64) {
        self.state.lock().health.scrubbed += bytes;
    }

    pub(super) fn health(&self) -> Health {
        let state = self.state.lock();
        let mut health = state.health.clone();
        health.damage.extend(state.read_errors.damage());
        health.salvage.clone_from(&state.salvage);
        health
    }

    /// Notes the error of a request on `volume`.
    pub(super) fn note(&self, volume: VolumeId, error: &OpError) {
        self.state.lock().read_errors.note(volume, error);
    }

    /// Wakes the scrubber, so that it sees that the engine is closing.
    pub(super) fn wake(&self) {
        drop(self.state.lock());
        self.changed.notify_all();
    }

    /// Sleeps for `time`, or until [`ScrubMonitor::wake`].
    pub(super) fn pause(&self, time: Duration) {
        self.changed.wait_for(&mut self.state.lock(), time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damage(description: &str) -> Damage {
        Damage { volume: None, description: description.to_owned() }
    }

    #[test]
    fn postponed_audit_is_repeated_until_it_completes() {
        let monitor = ScrubMonitor::default();
        let next = || monitor.next_request(Duration::ZERO, || false).expect("a request");
        let scrub = |is_audited, now_ms| {
            monitor.request(5);
            let ScrubRequest::Scrub(5, known) = next() else { panic!("no scrub") };
            monitor.scrub_ended(Some(ScrubResult { damage: vec![damage("data")], is_audited }), known, now_ms);
        };
        let read_error = || monitor.note(VolumeId(1), &OpError::MediumError { lba: types::Lba(8) });
        read_error();
        scrub(false, 100);
        let health = monitor.health();
        assert_eq!((health.is_scrubbing, health.scrubs, health.audit_postponed_since), (false, 0, Some(100)));
        assert_eq!(health.damage.len(), 2, "the scrub's, and a read error that is not replaced yet");
        assert!(matches!(next(), ScrubRequest::Audit) && matches!(next(), ScrubRequest::Audit));
        scrub(false, 200);
        assert_eq!(monitor.health().audit_postponed_since, Some(100), "the first one counts");
        assert!(matches!(next(), ScrubRequest::Audit));
        monitor.audit_ended(vec![damage("count")]);
        let health = monitor.health();
        assert_eq!((health.scrubs, health.audit_postponed_since), (1, None));
        assert_eq!(health.damage, [damage("data"), damage("count")]);
        scrub(false, 300);
        scrub(true, 400);
        assert_eq!((monitor.health().scrubs, monitor.health().audit_postponed_since), (2, None));
    }
}
