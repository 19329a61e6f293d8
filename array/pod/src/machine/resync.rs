//! RESYNC: the source brings the target into step, and both enter SYNC. Rules 11, 15 and 18.

use super::failover::has_base;
use super::{Join, Machine, Source};
use crate::event::{Action, Alert, BeginPeriod, StreamDelta, StreamGate, StreamRole};
use crate::message::{Hello, Message, Note};
use crate::planted::Bug;
use crate::state::{Epoch, Role, Rule, TieRule, epoch_of};
use types::{Period, Position};

impl Machine {
    /// An owner becomes the source of a peer that needs content. A peer that gets all of it because
    /// it has never had any, as after a stretch, has lost nothing.
    pub(super) fn meet_follower(&mut self, hello: &Hello) {
        let is_known = self.has(Bug::NoPositionCheck) || self.is_as_expected(hello);
        if !is_known && has_base(self.stored.base.max(self.facts.base)) {
            self.alert(Alert::PeerLostLog);
        }
        let Some(session) = &mut self.session else { return };
        session.source = Some(Source::Mask);
        self.actions.push(Action::TakeMask { session: session.id, is_all: !is_known });
    }

    /// Whether the peer is exactly what the delta is kept against: the position check. A target
    /// that had begun a later period of this SOLO has received `Start` in it, so everything that
    /// its base and its mask said was in the deltas before.
    fn is_as_expected(&self, hello: &Hello) -> bool {
        let (period, position) = self.stored.base.max(self.facts.base);
        let is_base = hello.period == period && hello.durable >= position;
        let is_of_this_solo = hello.role == Role::Target && epoch_of(hello.period) == self.stored.epoch;
        !hello.is_hurt && (is_base || is_of_this_solo && hello.period > period)
    }

    /// The mask of the peer is in the deltas.
    pub(super) fn note_mask(&mut self, id: u64) {
        let Some(session) = self.session.as_mut().filter(|session| session.id == id) else { return };
        if session.source == Some(Source::Mask) && self.stored.role == Role::Solo {
            session.source = Some(Source::Turn);
            self.take_turn();
        }
    }

    /// Takes the next number for a period of this SOLO, and stores it before it is used.
    pub(super) fn take_turn(&mut self) {
        let newest = self.stored.period.max(self.facts.period);
        self.stored.period = Period(newest.0.saturating_add(1));
        self.stored.base = self.stored.base.max(self.facts.base);
        self.stored.is_whole = false;
        self.store();
    }

    /// The session of a source has ended: records do not stream any more.
    pub(super) fn end_source(&mut self) {
        let is_streaming = self.part.1 && (self.is_running() || self.beginning.is_some());
        if is_streaming {
            self.take_turn();
        }
    }

    /// Begins the period of the state, if it is durable and the stream is ready.
    pub(super) fn begin_period(&mut self) {
        if !self.is_durable() || self.is_running() || self.beginning.is_some() {
            return;
        }
        let is_flushed = self.facts.durable == self.facts.position;
        let is_attached = self.session.is_some_and(|session| session.is_attached);
        let continues = self.begun.is_some() && self.part.0 == StreamRole::Sequencer;
        match self.stored.role {
            Role::Solo if (is_flushed || continues) && !self.stored.is_hurt => {
                let streams = self.session.is_some_and(|session| session.source == Some(Source::Turn));
                let delta = if streams { StreamDelta::Source } else { StreamDelta::Alone };
                self.begin(StreamRole::Sequencer, StreamGate::Local, None, delta);
            }
            Role::Target if is_attached && is_flushed => {
                self.begin(StreamRole::Follower, StreamGate::Local, Some(self.stored.start), StreamDelta::Off);
            }
            Role::Sync if self.is_fresh => self.begin_sync(),
            _ => {}
        }
    }

    /// Begins the period of a SYNC: both arrays hold the same.
    pub(super) fn begin_sync(&mut self) {
        let is_sequencer = self.is_sequencer();
        let role = if is_sequencer { StreamRole::Sequencer } else { StreamRole::Follower };
        if !is_sequencer {
            self.actions.push(Action::ClearDeltas);
        }
        self.actions.push(Action::Settle);
        self.close();
        self.begin(role, StreamGate::Both, Some(self.stored.start), StreamDelta::Off);
    }

    fn begin(&mut self, role: StreamRole, gate: StreamGate, last: Option<Position>, delta: StreamDelta) {
        let peer = self.session.and_then(|session| session.heard).map_or(u64::MAX, |hello| hello.max_payload);
        let max_payload = self.facts.max_payload.min(peer);
        let period = self.stored.period;
        self.beginning = Some(period);
        self.part = (role, delta == StreamDelta::Source);
        self.actions.push(Action::Begin(BeginPeriod { period, role, gate, last, max_payload, delta }));
    }

    /// A period has begun.
    pub(super) fn note_begun(&mut self, period: Period, last: Position) {
        if self.beginning != Some(period) {
            return;
        }
        (self.begun, self.beginning) = (Some(period), None);
        if period != self.stored.period {
            return;
        }
        match self.stored.role {
            Role::Solo if self.part.1 => self.start_target(last),
            Role::Solo => self.actions.push(Action::AddTail(period)),
            Role::Sync => self.sync_begun(),
            _ => {}
        }
    }

    fn start_target(&mut self, last: Position) {
        let (epoch, period, now) = (self.stored.epoch, self.stored.period, self.now);
        let Some(session) = self.session.as_mut().filter(|session| session.source == Some(Source::Turn)) else {
            return;
        };
        session.source = Some(Source::Started(now));
        session.is_attached = true;
        self.send(Message::Start { epoch, period, last });
    }

    fn sync_begun(&mut self) {
        (self.in_step_at, self.attached_at, self.unheard) = (self.now, self.now, None);
        self.contact_from = None;
        self.alert(Alert::InStep);
        if self.join.take().is_some() {
            let (epoch, last) = (self.stored.epoch, self.stored.start);
            self.send(Message::GoSync { epoch, last });
        }
    }

    /// Declares the target whole, and begins to enter SYNC when nothing is missing.
    pub(super) fn drive_source(&mut self) {
        let is_started = |source| matches!(source, Some(Source::Started(_)));
        let is_streaming = self.session.is_some_and(|session| is_started(session.source)) && self.is_running();
        if self.stored.role != Role::Solo || !is_streaming || self.join.is_some() {
            return;
        }
        let is_complete = self.facts.is_delta_empty && self.peer_durable().is_some() && !self.facts.awaits_tail;
        let Some(session) = &mut self.session else { return };
        if !is_complete {
            session.is_whole = false;
            return;
        }
        if !session.is_whole {
            session.is_whole = true;
            self.actions.push(Action::Order(Note::Whole));
        }
        // It would have to yield again at once.
        if self.now >= self.hold_after && !self.facts.is_peer_full {
            self.join = Some(Join::Holding(self.now));
        }
    }

    /// Enters SYNC: holds changes, stores SYNC, begins its period, and then sends `GoSync`.
    pub(super) fn drive_join(&mut self) {
        match self.join {
            Some(Join::Holding(since)) => {
                let is_complete = self.facts.is_delta_empty && self.is_all_committed();
                if self.facts.is_still && is_complete && self.hosts.is_some_and(|hosts| hosts.is_held()) {
                    self.store_sync(since);
                } else if self.now.saturating_sub(since) >= self.times.hold {
                    self.join = None;
                    self.hold_after = self.now.saturating_add(self.times.hold_retry);
                }
            }
            Some(Join::Storing(since)) if self.now.saturating_sub(since) >= self.times.join => self.abandon_join(),
            _ => {}
        }
    }

    fn store_sync(&mut self, since: std::time::Duration) {
        let epoch = self.stored.epoch.next();
        self.stored.base = self.stored.base.max(self.facts.base);
        self.stored.role = Role::Sync;
        (self.stored.epoch, self.stored.period, self.stored.start) = (epoch, epoch.period(), self.facts.position);
        self.stored.rule = TieRule::in_force(Rule::Only(self.side));
        self.stored.is_whole = false;
        self.is_fresh = true;
        self.join = Some(Join::Storing(since));
        if let Some(session) = &mut self.session {
            session.source = None;
        }
        self.store();
        if self.has(Bug::JoinEarly) {
            self.durable_generation = self.generation;
        }
    }

    /// `GoSync` cannot be sent in time: returns to SOLO.
    pub(super) fn abandon_join(&mut self) {
        if self.stored.role == Role::Solo {
            self.join = None;
        } else {
            self.enter_solo(self.stored.epoch.decided());
        }
    }

    /// The peer is the source: becomes TARGET.
    pub(super) fn receive_start(&mut self, epoch: Epoch, period: Period, last: Position) {
        let may_follow = matches!(self.stored.role, Role::Sync | Role::Target | Role::Lost);
        if !may_follow || epoch < self.stored.epoch || period <= self.stored.period {
            return;
        }
        let peer = self.side.other();
        self.leave_role_for_target();
        (self.stored.epoch, self.stored.period, self.stored.start) = (epoch, period, last);
        (self.stored.sequencer, self.stored.rule) = (peer, TieRule::in_force(Rule::Only(peer)));
        (self.stored.is_whole, self.stored.leaving, self.stored.is_hurt) = (false, None, false);
        if let Some(session) = &mut self.session {
            session.is_attached = true;
        }
        self.store();
    }

    fn leave_role_for_target(&mut self) {
        self.stored.role = Role::Target;
        (self.asking, self.join, self.hold, self.unheard) = (None, None, None, None);
        self.is_fresh = false;
        self.leases.drop_own();
        self.close();
    }

    /// Enters SYNC as target, when everything up to `GoSync` is durable on both arrays.
    pub(super) fn enter_sync(&mut self) {
        let Some((epoch, last)) = self.session.and_then(|session| session.go_sync) else { return };
        let is_next = self.stored.role == Role::Target && epoch == self.stored.epoch.next();
        if !is_next || !self.is_running() || !self.is_all_committed() || self.facts.position != last {
            return;
        }
        if let Some(session) = &mut self.session {
            session.go_sync = None;
        }
        self.stored.role = Role::Sync;
        (self.stored.epoch, self.stored.period, self.stored.start) = (epoch, epoch.period(), last);
        self.stored.rule = TieRule::in_force(Rule::Only(self.side.other()));
        (self.stored.is_whole, self.stored.leaving) = (false, None);
        self.is_fresh = true;
        self.in_step_at = self.now;
        self.store();
    }
}
