//! Sessions and messages.

use super::Driver;
use crate::forward::Session;
use crate::message::PodMessage;
use bytes::Bytes;
use pod::{Event, Message};

/// Returns the number of a session for the state machine: equal on both arrays.
pub(super) fn number_of(session: Session) -> u64 {
    let (first, _) = session.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    u64::from_le_bytes(*first)
}

impl Driver {
    pub(super) fn send(&self, session: Session, message: &PodMessage) {
        self.environment.carrier.send(&self.handle.array, session, self.handle.stream, message.encode());
    }

    pub(super) fn session_up(&mut self, session: Session) {
        if let Some(before) = self.session {
            self.session_down(before);
        }
        self.session = Some(session);
        self.send(session, &PodMessage::Here { is_answer: false });
    }

    pub(super) fn session_down(&mut self, session: Session) {
        if self.session != Some(session) {
            return;
        }
        (self.session, self.streams_in, self.ready, self.image) = (None, None, None, None);
        (self.taking, self.reading, self.takes_forwards) = (None, None, None);
        self.is_attached = false;
        *self.handle.accepts.lock() = None;
        let forgotten = self.handle.gate.forget_session(session);
        self.handle.served.lock().forget_running(|number| forgotten.contains(&number));
        self.handle.gate.forwards(crate::forward::Forwards::detach);
        self.handle.gate.hold_objects(false);
        if std::mem::take(&mut self.is_met) {
            self.handle.step(Event::SessionDown(number_of(session)));
        }
    }

    /// The other array knows the pod in this session: both talk about it.
    fn meet(&mut self, session: Session) {
        if std::mem::replace(&mut self.is_met, true) {
            return;
        }
        // A follower accepts records before the state machine can say so.
        self.handle.step(Event::SessionUp(number_of(session)));
    }

    pub(super) fn message(&mut self, session: Session, message: PodMessage) {
        if self.session != Some(session) {
            return;
        }
        match message {
            PodMessage::Here { is_answer } => {
                if !is_answer {
                    self.send(session, &PodMessage::Here { is_answer: true });
                }
                self.meet(session);
            }
            PodMessage::Control(body) => self.control(session, &body),
            PodMessage::Ready { period, arrived } => {
                self.ready = Some((session, period, arrived));
                self.attach_sequencer();
            }
            PodMessage::Accepts => {
                self.takes_forwards = Some(session);
                self.attach_forwards();
            }
            PodMessage::MaskRequest => self.send_mask(session),
            PodMessage::Mask(part) => self.take_part(part),
            PodMessage::Image(image) => self.image = Some(image),
            // The others do not come to this thread.
            _ => {}
        }
    }

    fn control(&mut self, session: Session, body: &Bytes) {
        match Message::decode(body) {
            Ok((number, message)) => self.handle.step(Event::Received { session: number, message }),
            Err(error) => {
                let reason = error.to_string();
                self.environment.carrier.end_session(&self.handle.array, session, &reason);
            }
        }
    }

    /// Sends a message of the state machine. Before `Start`, the target gets the objects.
    pub(super) fn send_control(&mut self, number: u64, message: &Message) {
        let Some(session) = self.session.filter(|session| number_of(*session) == number) else { return };
        if matches!(message, Message::Start { .. })
            && let Some(image) = self.own_image()
        {
            self.send(session, &PodMessage::Image(image));
        }
        self.send(session, &PodMessage::Control(message.encode(number).into()));
        if matches!(message, Message::Start { .. } | Message::GoSync { .. }) {
            self.let_records_go(number);
        }
    }

    pub(super) fn end_session(&mut self, number: u64) {
        if let Some(session) = self.session.filter(|session| number_of(*session) == number) {
            self.environment.carrier.end_session(&self.handle.array, session, "the arrays of a pod begin again");
            // The state machine has forgotten it.
            self.is_met = false;
            self.session_down(session);
        }
    }
}
