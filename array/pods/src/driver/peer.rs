//! Sessions and messages.
//!
//! A session of a pod lives within one of the link. It ends with that, or when an array begins
//! again; the other pods of the link are not concerned.

use super::Driver;
use crate::attempts::number_of;
use crate::forward::Session;
use crate::handle::LinkSession;
use crate::message::PodMessage;
use bytes::Bytes;
use platform::clock;
use pod::{Event, Message};
use std::time::Duration;

/// Pauses before the next attempt: the first one, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// A session that lasts so long lets the next one begin soon.
const LONG: Duration = Duration::from_secs(5);
/// Time for the objects of the catalog to be those of the engine.
const OBJECTS: Duration = Duration::from_secs(1);

impl Driver {
    /// Sends a message in the session of the pod.
    pub(super) fn send(&self, message: &PodMessage) {
        if let (Some(link), Some(session)) = (self.link, self.session) {
            self.send_in(link, session, message);
        }
    }

    fn send_in(&self, link: LinkSession, session: Session, message: &PodMessage) {
        self.environment.carrier.send(&self.handle.array, link, self.handle.stream, message.encode(session));
    }

    /// A session of the link has begun.
    pub(super) fn link_up(&mut self, link: LinkSession) {
        if self.link == Some(link) {
            return;
        }
        if let Some(before) = self.link {
            self.link_down(before);
        }
        self.link = Some(link);
        (self.attempts.peer, self.attempts.is_peer_without) = (0, false);
        self.attempt();
    }

    pub(super) fn link_down(&mut self, link: LinkSession) {
        if self.link != Some(link) {
            return;
        }
        self.leave_session();
        (self.link, self.attempts.due, self.attempts.is_peer_without) = (None, None, false);
    }

    /// Announces another attempt.
    fn attempt(&mut self) {
        let Some(link) = self.link else { return };
        self.attempts.own += 1;
        (self.attempts.is_seen, self.attempts.due) = (false, None);
        self.send_in(link, 0, &PodMessage::Here { own: self.attempts.own, seen: self.attempts.peer });
    }

    /// Makes the attempt that is due.
    pub(super) fn meet_again(&mut self, now: Duration) {
        if self.attempts.due.is_some_and(|due| due <= now) {
            self.attempt();
        }
    }

    /// The other array has announced an attempt, or knows that of this array.
    fn take_attempt(&mut self, link: LinkSession, own: u64, seen: u64) {
        self.attempts.is_peer_without = false;
        let is_new = own != self.attempts.peer;
        if is_new {
            self.leave_session_for(own);
        }
        // An attempt that is due later is made now: the other array has begun again.
        if self.attempts.due.is_some() && is_new {
            self.attempt();
        }
        self.attempts.is_seen = seen == self.attempts.own;
        if is_new || !self.attempts.is_seen {
            self.send_in(link, 0, &PodMessage::Here { own: self.attempts.own, seen: own });
        }
        if self.attempts.is_seen && self.session.is_none() && self.attempts.due.is_none() {
            self.enter_session(link);
        }
    }

    fn enter_session(&mut self, link: LinkSession) {
        let (own, peer) = (self.attempts.own, self.attempts.peer);
        let attempts = if self.handle.side == pod::Side::A { [own, peer] } else { [peer, own] };
        let session = number_of(link, attempts);
        self.session = Some(session);
        self.attempts.began = clock::lease_time();
        self.report_room();
        self.handle.step(Event::SessionUp(session));
    }

    /// The other array has begun again.
    fn leave_session_for(&mut self, attempt: u64) {
        self.forget_session();
        self.attempts.peer = attempt;
    }

    /// Ends the session of the pod. The next attempt follows after a pause.
    pub(super) fn leave_session(&mut self) {
        let now = clock::lease_time();
        let has_lasted = now.saturating_sub(self.attempts.began) >= LONG;
        let next = if has_lasted { PAUSES.0 } else { (self.attempts.pause * 2).clamp(PAUSES.0, PAUSES.1) };
        self.forget_session();
        self.attempts.pause = next;
        if self.link.is_some() {
            self.attempts.due = Some(now + next);
        }
    }

    fn forget_session(&mut self) {
        let session = self.session.take();
        (self.streams_in, self.ready, self.image) = (None, None, None);
        (self.wanted_mask, self.taking, self.reading, self.takes_forwards) = (None, None, None, None);
        (self.is_attached, self.room.is_peer_full) = (false, false);
        if let Some(session) = session {
            self.handle.gate.forget_session(session);
            self.handle.step(Event::SessionDown(session));
        }
        self.handle.gate.detach_forwards();
        self.handle.gate.hold_objects(false);
    }

    pub(super) fn message(&mut self, link: LinkSession, session: Session, message: PodMessage) {
        if self.link != Some(link) {
            return;
        }
        if let PodMessage::Here { own, seen } = message {
            return self.take_attempt(link, own, seen);
        }
        if message == PodMessage::Gone {
            return self.peer_is_gone();
        }
        if self.session != Some(session) {
            return;
        }
        match message {
            PodMessage::Control(body) => self.control(&body),
            PodMessage::Ready { period, arrived } => {
                self.ready = Some((session, period, arrived));
                self.attach_sequencer();
            }
            PodMessage::Accepts(clock) => {
                self.takes_forwards = Some((session, Duration::from_micros(clock)));
                self.attach_forwards();
            }
            PodMessage::Clock(peer) => {
                let (peer, now) = (Duration::from_micros(peer), clock::lease_time());
                self.handle.gate.forwards(|forwards| forwards.hear_clock(session, peer, now));
            }
            PodMessage::MaskRequest => self.send_mask(link, session),
            PodMessage::Mask(part) => self.take_part(part),
            PodMessage::Image(image) => self.image = Some(image),
            PodMessage::Room { is_full } => self.take_room(is_full),
            // The others do not come to this thread.
            _ => {}
        }
    }

    fn control(&mut self, body: &Bytes) {
        match Message::decode(body) {
            Ok((session, message)) => self.handle.step(Event::Received { session, message }),
            Err(error) => {
                tracing::warn!(stream = %self.handle.stream, "{error}");
                self.leave_session();
            }
        }
    }

    /// Sends a message of the state machine. Before `Start`, the target gets the objects.
    pub(super) fn send_control(&mut self, session: u64, message: &Message) {
        if self.session != Some(session) {
            return;
        }
        if matches!(message, Message::Start { .. }) {
            match self.own_image() {
                Ok(image) => self.send(&PodMessage::Image(image)),
                Err(reason) => {
                    tracing::warn!(stream = %self.handle.stream, "the other array is not brought into step: {reason}");
                    return self.leave_session();
                }
            }
        }
        self.send(&PodMessage::Control(message.encode(session).into()));
        if matches!(message, Message::Start { .. } | Message::GoSync { .. }) {
            self.let_records_go(session);
        }
    }

    /// Returns the image of the pod. No volume is being made or removed, but the catalog may not
    /// know the last one yet.
    fn own_image(&self) -> Result<Bytes, String> {
        let (environment, stream) = (&self.environment, self.handle.stream);
        let until = clock::lease_time() + OBJECTS;
        loop {
            let image = environment.objects.image(stream).ok_or("the catalog has no such pod")?;
            let held = environment.engine.stream_volumes(stream);
            if environment.objects.volume_changes(stream, &image, &held, &[])?.is_empty() {
                return Ok(image);
            }
            if clock::lease_time() > until {
                return Err("the catalog has other volumes than the engine".to_owned());
            }
            clock::sleep(Duration::from_millis(5));
        }
    }

    /// The state machine ends its session.
    pub(super) fn end_session(&mut self, session: u64) {
        if self.session == Some(session) {
            self.leave_session();
        }
    }
}
