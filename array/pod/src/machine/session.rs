//! Sessions, heartbeats, watermarks.

use super::{Consent, Join, Machine, Session, Source};
use crate::event::{Action, Alert};
use crate::message::{Beat, Hello, Message, Note};
use crate::planted::Bug;
use crate::state::{Role, Rule, TieRule};
use std::time::Duration;
use types::{Period, Position};

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Machine {
    pub(super) fn session_up(&mut self, id: u64) {
        if self.session.is_some() {
            self.drop_session();
        }
        self.contact_from.get_or_insert(self.now);
        self.session = Some(Session {
            id,
            began: self.now,
            last_sign: self.now,
            said: None,
            heard: None,
            is_judged: false,
            is_attached: false,
            consent: Consent::None,
            source: None,
            beat: None,
            echoed: None,
            reported: None,
            peer_durable: None,
            go_sync: None,
            register: None,
            first_question: self.mediator.last_question + 1,
            is_whole: false,
        });
    }

    /// The session has ended.
    pub(super) fn drop_session(&mut self) {
        let Some(session) = self.session.take() else { return };
        if self.join.is_some() {
            self.abandon_join();
        }
        if self.stored.role == Role::Solo && session.source.is_some() {
            self.end_source();
        }
    }

    /// Ends the session.
    pub(super) fn end_session(&mut self) {
        if let Some(session) = self.session {
            self.actions.push(Action::EndSession(session.id));
            self.drop_session();
        }
    }

    /// Reports the state, once it is durable.
    pub(super) fn say_hello(&mut self) {
        let is_durable = self.is_durable();
        let (durable, last) = self.positions();
        let is_resumable = (self.is_fresh || self.has(Bug::ResumeRestarted)) && self.asking.is_none();
        let hello = Hello {
            role: self.stored.role,
            is_hurt: self.stored.is_hurt,
            is_resumable,
            is_fresh: self.is_fresh,
            epoch: self.stored.epoch,
            period: self.stored.period,
            durable,
            last,
            max_payload: self.facts.max_payload,
        };
        if let Some(session) = self.session.as_mut().filter(|session| session.said.is_none() && is_durable) {
            session.said = Some(hello);
            self.send(Message::Hello(hello));
        }
    }

    pub(super) fn receive(&mut self, id: u64, message: Message) {
        let now = self.now;
        let Some(session) = self.session.as_mut().filter(|session| session.id == id) else { return };
        session.last_sign = now;
        match message {
            Message::Hello(hello) => {
                session.heard.get_or_insert(hello);
            }
            Message::Beat(beat) => self.receive_beat(beat),
            Message::Durable { period, position } => session.peer_durable = Some((period, position, false)),
            Message::Start { epoch, period, last } => self.receive_start(epoch, period, last),
            Message::GoSync { epoch, last } => session.go_sync = Some((epoch, last)),
            Message::MayI => self.receive_may_i(),
            Message::Take => self.receive_take(),
            Message::Yielded => self.receive_yielded(),
        }
    }

    /// Whether this array grants leases.
    fn grants(&self) -> bool {
        self.is_in_step() && self.is_durable() && self.unheard_for() < self.times.unheard_grants
    }

    /// Sends a heartbeat when it is time. It grants a lease if the peer is in step, too.
    pub(super) fn beat(&mut self) {
        let Some(session) = self.session else { return };
        let Some(peer) = session.said.map(|_| session.beat) else { return };
        let is_due = self.next_beat <= self.now;
        if !is_due {
            return;
        }
        self.next_beat = self.now.saturating_add(self.times.heartbeat);
        let is_peer_in_step = |beat: Beat| beat.is_in_step && beat.period == self.stored.period;
        // A time is returned once. A second grant of it would extend nothing but the own wait.
        let is_new = |beat: Beat| session.echoed != Some(beat.clock);
        let may_grant = |beat: Beat| self.grants() && is_peer_in_step(beat) && is_new(beat);
        let echo = peer.filter(|(beat, _)| may_grant(*beat)).map(|(beat, _)| beat.clock);
        if echo.is_some() {
            self.leases.grant(self.now);
            if let Some(session) = &mut self.session {
                session.echoed = echo;
            }
        }
        let (reaches_mediator, has_lost_mediator) = self.mediator_flags();
        self.send(Message::Beat(Beat {
            period: self.stored.period,
            is_in_step: self.is_in_step() && self.is_durable(),
            clock: micros(self.now),
            echo,
            reaches_mediator,
            has_lost_mediator,
        }));
    }

    fn receive_beat(&mut self, beat: Beat) {
        let (now, is_in_step) = (self.now, self.is_in_step());
        let is_peer_in_step = beat.is_in_step && beat.period == self.stored.period;
        if let Some(session) = &mut self.session {
            session.beat = Some((beat, now));
        }
        if !is_in_step || !is_peer_in_step {
            return;
        }
        self.in_step_at = now;
        self.contact_from = None;
        // The own clock does not run backwards, so the peer returns no time of the future.
        if let Some(echo) = beat.echo.map(Duration::from_micros).filter(|echo| *echo <= now) {
            self.leases.extend(echo, self.times.lease);
        }
    }

    /// Reports how far the own log is durable, if that is news.
    pub(super) fn report_durable(&mut self) {
        let is_joining = matches!(self.join, Some(Join::Storing(_)));
        let is_stated = self.is_durable() && self.asking.is_none() && !is_joining;
        // An array that has left still confirms the record that removed it.
        let is_open = self.is_running() || self.stored.role == Role::Left;
        let place = (self.stored.period, self.facts.durable);
        let is_place = self.facts.period == place.0;
        let has_started = |session: &Session| match self.stored.role {
            Role::Solo => matches!(session.source, Some(Source::Started(_))),
            Role::Sync | Role::Target | Role::Left => session.is_attached,
            Role::Local | Role::Lost | Role::Diverged => false,
        };
        let Some(session) = self.session.filter(has_started) else { return };
        if !is_stated || !is_open || !is_place || session.reported == Some(place) {
            return;
        }
        if let Some(session) = &mut self.session {
            session.reported = Some(place);
        }
        self.send(Message::Durable { period: place.0, position: place.1 });
    }

    /// Passes the peer's watermark to the stream, once its period runs here.
    pub(super) fn pass_heard(&mut self) {
        if !self.is_running() {
            return;
        }
        let period = self.stored.period;
        let Some(session) = self.session.as_mut().filter(|session| session.is_attached) else { return };
        if let Some((of, position, is_known @ false)) = &mut session.peer_durable
            && *of == period
        {
            *is_known = true;
            self.actions.push(Action::Heard { period, position: *position });
        }
    }

    /// The turn of a record without content has come at the follower.
    pub(super) fn receive_note(&mut self, period: Period, position: Position, note: Note) {
        let follows = match self.stored.role {
            Role::Target => true,
            Role::Sync => !self.is_sequencer(),
            _ => false,
        };
        if !follows || period != self.stored.period {
            return;
        }
        match note {
            Note::Epoch(rule) => {
                self.stored.epoch = self.stored.epoch.next();
                let before = self.stored.rule.current;
                self.stored.rule = TieRule { current: rule, before, pending: Some(position) };
            }
            Note::Whole => self.stored.is_whole = self.stored.role == Role::Target,
            Note::Mark => self.stored.is_whole = false,
            Note::Leave => {
                self.stored.role = Role::Left;
                self.leases.drop_own();
            }
        }
        self.log(note, position);
        if self.stored.role == Role::Left {
            self.close();
        }
        if matches!(self.stored.rule.current, Rule::Only(_)) && matches!(note, Note::Epoch(_)) {
            self.since = self.now;
        }
    }

    /// Ends a session that leads to nothing, or whose peer is silent.
    pub(super) fn watch_session(&mut self) {
        let Some(session) = self.session else { return };
        let age = self.now.saturating_sub(session.began);
        let is_silent = self.now.saturating_sub(session.last_sign) >= self.times.silence;
        let is_late = match session.source {
            Some(Source::Started(at)) => {
                self.peer_durable().is_none() && self.now.saturating_sub(at) >= self.times.target
            }
            _ => false,
        };
        let is_stuck = self.is_in_step() && self.unheard_for() >= self.times.unheard_session;
        if is_silent || is_late || is_stuck || self.is_contact_vain(&session, age) {
            self.end_session();
        }
    }

    /// Whether both have reported, and nothing follows from it.
    fn is_contact_vain(&self, session: &Session, age: Duration) -> bool {
        if age < self.times.contact || session.is_attached || session.source.is_some() {
            return false;
        }
        let can_agree = |role: Role| matches!(role, Role::Sync | Role::Solo | Role::Target | Role::Lost);
        let Some(peer) = session.heard else { return true };
        // The peer is the source, and prepares.
        let awaits_start = peer.role == Role::Solo && peer.epoch >= self.stored.epoch && !peer.is_hurt;
        can_agree(self.stored.role) && can_agree(peer.role) && !awaits_start
    }

    /// A person has to decide.
    pub(super) fn alert_person(&mut self) {
        self.alert(Alert::PersonDecides);
    }
}
