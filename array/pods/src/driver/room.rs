//! Free space: an array without room yields, so that the other one continues.

use super::Driver;
use crate::message::PodMessage;
use crate::room::Look;
use engine::{Credit, Gate, Role, StreamStatus};
use pod::{Event, Request, Role as Part};
use std::time::Duration;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(200);
/// Whether a stream has credit for a record of any length.
fn has_credit(status: &StreamStatus, max_payload: u64) -> bool {
    let left = status.lent - status.used;
    left.blocks >= Credit::of_longest(max_payload).blocks
}

impl Driver {
    /// Looks at the free space from time to time, and yields without any.
    pub(super) fn watch_room(&mut self, now: Duration) {
        if now < self.room.looked + INTERVAL {
            return;
        }
        self.room.looked = now;
        let (engine, handle) = (&self.environment.engine, &self.handle);
        let Some(status) = engine.stream_status(handle.stream) else { return };
        let (space, is_in_step) = (engine.space(), handle.is_in_step());
        let max_payload = self.run.map_or(0, |run| run.max_payload);
        let follows = status.role == Role::Follower && status.gate != Gate::Closed && self.is_attached;
        let look = Look {
            free: space.free(),
            capacity: space.capacity,
            is_stalled: follows && !has_credit(&status, max_payload),
            is_in_step,
        };
        if self.room.judge(now, look) {
            let is_full = self.room.is_full;
            tracing::info!(stream = %handle.stream, is_full, free = look.free, "free space of this array for a pod");
            self.report_room();
        }
        // An array that orders hands over only to one with room.
        let may_yield = follows || !self.room.is_peer_full && has_credit(&status, max_payload);
        if is_in_step && self.room.is_full && may_yield {
            self.handle.step(Event::Request(Request::Resign));
        }
    }

    /// Reports the free space in a session.
    pub(super) fn report_room(&self) {
        self.send(&PodMessage::Room { is_full: self.room.is_full });
    }

    /// The other array has reported its free space.
    pub(super) fn take_room(&mut self, is_full: bool) {
        self.room.is_peer_full = is_full;
        self.note_facts();
    }

    /// Whether this array waits for free space of its own.
    pub(super) fn awaits_room(&self) -> bool {
        let role = self.handle.with_machine(|machine| machine.stored().role);
        self.room.is_full && matches!(role, Part::Target | Part::Lost)
    }
}
