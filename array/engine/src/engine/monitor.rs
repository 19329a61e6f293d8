//! Requests to the scrubber, and what scrubs and reads have found.

use super::read_errors::{ReadErrors, described};
use crate::service::{Damage, Health, OpError};
use fsck::UnreadableRanges;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::VolumeId;

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

    /// Blocks until a scrub is requested. Returns its bytes per second, and the read errors known
    /// when it begins. `None` once `is_ending` is true.
    pub(super) fn next_request(&self, is_ending: impl Fn() -> bool) -> Option<(u64, ReadErrors)> {
        let mut state = self.state.lock();
        while state.wanted.is_none() && !is_ending() {
            self.changed.wait(&mut state);
        }
        let bytes_per_second = state.wanted.take().filter(|_| !is_ending())?;
        Some((bytes_per_second, state.read_errors.clone()))
    }

    /// A scrub has ended: with the damage that it found, or early (`None`). `known` are the read
    /// errors from before it began, which its result replaces.
    pub(super) fn scrub_ended(&self, damage: Option<Vec<Damage>>, known: &ReadErrors) {
        let mut state = self.state.lock();
        state.health.is_scrubbing = false;
        if let Some(damage) = damage {
            state.health.scrubs += 1;
            state.health.damage = damage;
            state.read_errors.forget(known);
        }
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
