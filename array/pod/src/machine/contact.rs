//! Contact: both arrays have reported their durable states, and each decides what follows. Rule 14.

use super::failover::no_base;
use super::{Consent, Machine};
use crate::event::{Action, Alert};
use crate::message::Hello;
use crate::planted::Bug;
use crate::register::{Owner, Register};
use crate::state::{Epoch, Role, Side};

impl Machine {
    /// Judges the reports of a session, once it has both.
    pub(super) fn judge_contact(&mut self) {
        let Some(session) = self.session.filter(|session| !session.is_judged) else { return };
        let (Some(said), Some(hello)) = (session.said, session.heard) else { return };
        if !self.is_durable() || self.awaits_register(&hello) {
            return;
        }
        if let Some(session) = &mut self.session {
            session.is_judged = true;
        }
        let own = self.stored.epoch;
        if self.stored.is_hurt && self.stored.role == Role::Solo {
            // It serves nothing. An owner of a later epoch shows that its content is old.
            if hello.role == Role::Solo && hello.epoch > own && !hello.is_hurt {
                self.meet_owner(&hello, session.register);
            }
            return;
        }
        if hello.is_hurt && self.view().may_peer_have_been_alone(session.register) {
            self.alert_person();
            return;
        }
        match (self.stored.role, hello.role) {
            (Role::Solo, Role::Solo | Role::Local) => self.meet_owner(&hello, session.register),
            (Role::Solo, Role::Left) => self.note_left(),
            (Role::Solo, Role::Diverged) => {}
            (Role::Solo, _) if hello.epoch > own => self.renumber(&hello),
            (Role::Solo, _) => self.meet_follower(&hello),
            (Role::Sync, Role::Local) => self.lose(),
            (Role::Sync, Role::Solo) if hello.epoch > own => self.lose(),
            (Role::Lost, Role::Lost) => self.meet_lost(&said, &hello),
            (Role::Sync, Role::Lost | Role::Left) => self.meet_yielded(&hello),
            (Role::Sync, Role::Target) if hello.epoch < own => self.meet_yielded(&hello),
            (Role::Sync, Role::Sync) => self.meet_sync(&said, &hello),
            _ => {}
        }
    }

    /// The peer has left, also if this array did not know it when it continued alone.
    fn note_left(&mut self) {
        if self.stored.leaving.is_none() {
            self.stored.leaving = Some(self.stored.start);
            self.store();
        }
    }

    /// Whether the decision needs the register, and an answer may still come: the peer is damaged,
    /// or is an owner of the same epoch.
    fn awaits_register(&self, hello: &Hello) -> bool {
        let is_equal_owner = self.stored.role == Role::Solo && hello.role == Role::Solo;
        let needs = hello.is_hurt || is_equal_owner && hello.epoch == self.stored.epoch;
        let Some(session) = self.session.filter(|_| needs && self.stored.mediator.is_some()) else { return false };
        let age = self.now.saturating_sub(session.began);
        session.register.is_none() && age.saturating_mul(2) < self.times.contact
    }

    /// Whether this array ranks before the peer: epoch, then a process that has not restarted (its
    /// hosts have sessions), then position, then array id. Both compare the same two reports, and
    /// both hold everything that was answered.
    fn ranks_before(&self, said: &Hello, hello: &Hello) -> bool {
        let is_lower_id = self.side == Side::A;
        let own = (said.epoch, said.is_fresh, said.durable, is_lower_id);
        own > (hello.epoch, hello.is_fresh, hello.durable, !is_lower_id)
    }

    fn continues(&self, said: &Hello, hello: &Hello) -> bool {
        !said.is_hurt && (hello.is_hurt || self.ranks_before(said, hello))
    }

    fn decided_epoch(&self, hello: &Hello) -> Epoch {
        self.stored.epoch.max(hello.epoch).decided()
    }

    /// Neither has been alone since both yielded, so each holds everything that was acknowledged.
    fn meet_lost(&mut self, said: &Hello, hello: &Hello) {
        if self.continues(said, hello) {
            self.enter_solo(self.decided_epoch(hello));
        }
    }

    /// The peer cannot be active, nor become so without this array: it has reported so in this
    /// session, and no `GoSync` was sent in it.
    fn meet_yielded(&mut self, hello: &Hello) {
        if self.session.is_some_and(|session| session.is_attached) {
            return;
        }
        if self.stored.is_hurt || hello.period > self.stored.period {
            self.lose();
        } else if !self.has(Bug::NoWayBack) {
            self.enter_solo(self.decided_epoch(hello));
        }
    }

    /// Both are in SYNC: they resume if neither has restarted or asked, otherwise one yields.
    fn meet_sync(&mut self, said: &Hello, hello: &Hello) {
        let is_own_resumable = said.is_resumable && self.asking.is_none() && !said.is_hurt;
        let is_resumable = is_own_resumable && hello.is_resumable && !hello.is_hurt;
        if hello.period == said.period && is_resumable {
            self.resume(hello);
        } else if self.continues(said, hello) {
            let epoch = self.decided_epoch(hello);
            self.agree(Consent::Wins(epoch));
        } else {
            self.agree(Consent::Yields);
            self.lose();
        }
    }

    pub(super) fn agree(&mut self, consent: Consent) {
        if let Some(session) = &mut self.session {
            session.consent = consent;
        }
    }

    /// Continues the session before: rule 7.
    fn resume(&mut self, hello: &Hello) {
        if self.has(Bug::ResumeRestarted) && !self.is_fresh {
            // The bug takes the stream for open.
            self.is_fresh = true;
            self.begin_sync();
        }
        let Some(session) = &mut self.session else { return };
        session.is_attached = true;
        self.actions.push(Action::Resume { session: session.id, after: hello.last });
        self.in_step_at = self.now;
        self.contact_from = None;
        self.unheard = None;
        self.attached_at = self.now;
    }

    /// Two owners meet after a forced promotion: the older epoch stops. If the epochs are equal, an
    /// array continues only if the register holds this epoch and names it. Rule 19.
    fn meet_owner(&mut self, hello: &Hello, register: Option<Register>) {
        let own = self.stored.epoch;
        let is_registered = register == Some(Register { epoch: own, owner: Owner::One(self.side) });
        let stops = match hello.role {
            Role::Local => true,
            _ if own == hello.epoch => !is_registered,
            _ => own < hello.epoch,
        };
        if stops {
            self.leave_role(Role::Diverged);
            self.alert(Alert::Diverged);
            // The other array has heard the state of before.
            self.end_session();
        }
    }

    /// An owner meets a follower with a higher epoch: only a forced promotion that did not know it
    /// leads here. The owner takes a higher number. Its base is void, so that the peer gets every
    /// block.
    fn renumber(&mut self, hello: &Hello) {
        let epoch = self.decided_epoch(hello);
        (self.stored.epoch, self.stored.period) = (epoch, epoch.period());
        self.stored.base = no_base(epoch);
        self.store();
        self.end_session();
    }
}
