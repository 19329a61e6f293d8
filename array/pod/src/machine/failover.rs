//! Silence, asking, entering SOLO, yielding. Rules 5, 11 and 13.

use super::{Asking, Consent, Machine};
use crate::event::Alert;
use crate::message::Message;
use crate::planted::Bug;
use crate::state::{Epoch, Role, Rule, Side, TieRule};
use std::time::Duration;
use types::{Period, Position};

/// Returns a base that no peer has: it gets every block. No target begins in the first period of a
/// SOLO.
pub(super) fn no_base(epoch: Epoch) -> (Period, Position) {
    (epoch.period(), Position(u64::MAX))
}

/// False for [`no_base`] of any epoch.
pub(super) fn has_base((_, position): (Period, Position)) -> bool {
    position != Position(u64::MAX)
}

impl Machine {
    /// Returns the moment from which the peer holds no lease.
    pub(super) fn peer_lease_end(&self) -> Duration {
        let forgets = self.has(Bug::RestartForgetsGrants) && !self.is_fresh;
        if self.has(Bug::NoLeaseWait) || forgets {
            return Duration::ZERO;
        }
        self.leases.peer_end(self.times.grantor_wait)
    }

    /// Whether the peer counts as silent: no sign that it is in step, no grant, or no confirmation
    /// of records.
    pub(super) fn is_peer_silent(&self) -> bool {
        let since = self
            .leases
            .end()
            .map_or(self.attached_at + self.times.lease, |end| end.max(self.attached_at + self.times.lease));
        self.now.saturating_sub(self.in_step_at) >= self.times.silence
            || self.is_in_step() && (self.now >= since || self.unheard_for() >= self.times.unheard_silence)
    }

    /// In SYNC, continues alone when the peer is silent and the tie rule allows it.
    pub(super) fn fail_over(&mut self) {
        if self.stored.role != Role::Sync || self.join.is_some() || !self.is_durable() {
            return;
        }
        if self.asking.is_some() {
            self.conclude();
            return;
        }
        // A period that begins has given the peer no sign yet.
        if !self.is_peer_silent() || self.is_fresh && !self.is_running() {
            return;
        }
        if self.session.is_some_and(|session| session.is_attached) {
            self.alert(Alert::PeerSilent);
            self.in_step_at = self.in_step_at.min(self.now.saturating_sub(self.times.silence));
            self.end_session();
        }
        let contact = |from: Duration| self.now < from.saturating_add(self.times.contact);
        if self.session.is_some() && self.contact_from.is_some_and(contact) {
            return;
        }
        let is_first = self.stored.preference == self.side || self.stored.rule.current == Rule::Only(self.side);
        let lag = if is_first { Duration::ZERO } else { self.times.not_preferred };
        let is_time = self.now >= self.in_step_at.saturating_add(self.times.silence).saturating_add(lag);
        let may = self.view().may_ask() || self.view().has_own_right(self.is_fresh);
        if is_time && may {
            self.asking = Some(Asking { since: self.now, won: None });
            self.leases.drop_own();
            self.end_session();
            self.conclude();
        }
    }

    /// An array that asks continues when it may and the peer's lease is over.
    fn conclude(&mut self) {
        if self.now < self.peer_lease_end() {
            return;
        }
        if self.view().has_own_right(self.is_fresh) {
            self.enter_solo(self.stored.epoch.decided());
        } else if let Some(register) = self.asking.and_then(|asking| asking.won) {
            self.enter_solo(register.epoch);
        }
    }

    /// Continues alone in a new epoch. Nothing is answered before that is durable and the period
    /// has begun; then the tail enters the deltas.
    pub(super) fn enter_solo(&mut self, epoch: Epoch) {
        self.stored.base = match self.stored.role {
            // The target has received no `GoSync`: its last report holds.
            Role::Sync if self.join.is_some() => self.stored.base,
            Role::Sync | Role::Lost if !self.stored.is_hurt => {
                (self.stored.period, self.peer_durable().unwrap_or(self.stored.start))
            }
            _ => no_base(epoch),
        };
        let is_follower = self.stored.sequencer != self.side;
        let leaving = self.stored.leaving.filter(|n| self.has_left(*n));
        let (_, last) = self.positions();
        self.stored.role = Role::Solo;
        (self.stored.epoch, self.stored.period, self.stored.start) = (epoch, epoch.period(), last);
        (self.stored.sequencer, self.stored.rule) = (self.side, TieRule::in_force(Rule::Only(self.side)));
        (self.stored.is_whole, self.stored.leaving, self.stored.is_hurt) = (false, leaving, false);
        self.end_sync();
        if is_follower {
            self.close();
        }
        self.store();
        self.alert(Alert::Alone);
        self.end_session();
    }

    /// Forgets what belongs to SYNC.
    fn end_sync(&mut self) {
        (self.asking, self.join, self.hold, self.unheard) = (None, None, None, None);
        (self.is_fresh, self.wants_leave) = (false, false);
        self.leases.drop_own();
    }

    /// Takes a role that serves nothing.
    pub(super) fn leave_role(&mut self, role: Role) {
        self.stored.role = role;
        self.end_sync();
        self.close();
        self.store();
    }

    /// Yields to the peer.
    pub(super) fn lose(&mut self) {
        self.leave_role(Role::Lost);
        self.alert(Alert::Yielded);
    }

    /// Reports LOST when it is durable, if the peer waits for it.
    pub(super) fn report_yielded(&mut self) {
        let owes = self.session.is_some_and(|session| session.consent == Consent::Yields);
        if owes && self.stored.role == Role::Lost && self.is_durable() {
            self.agree(Consent::Yielded);
            self.send(Message::Yielded);
        }
    }

    pub(super) fn receive_yielded(&mut self) {
        let consent = self.session.map(|session| session.consent);
        if let (Role::Sync, Some(Consent::Wins(epoch))) = (self.stored.role, consent) {
            self.enter_solo(epoch.max(self.stored.epoch.decided()));
        }
    }

    /// The peer wants to resign. If both do, the array with the lower id takes over.
    pub(super) fn receive_may_i(&mut self) {
        let accepts = match self.session.map(|session| session.consent) {
            Some(Consent::None) => true,
            Some(Consent::Resigning) => self.side == Side::A,
            _ => false,
        };
        if accepts && self.is_in_step() && !self.stored.is_hurt {
            self.agree(Consent::Wins(self.stored.epoch.decided()));
            self.send(Message::Take);
        }
    }

    /// The peer takes over: yields while the session lasts.
    pub(super) fn receive_take(&mut self) {
        let is_resigning = self.session.is_some_and(|session| session.consent == Consent::Resigning);
        if is_resigning && self.is_in_step() {
            self.agree(Consent::Yields);
            self.lose();
        }
    }
}
