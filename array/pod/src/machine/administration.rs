//! Requests of administrators, and orderly stops. Rules 16, 17 and 19.

use super::{Consent, Machine};
use crate::event::{Action, Request};
use crate::message::{Hello, Message};
use crate::state::{Epoch, Role, Rule, TieRule};
use types::{Period, Position};

impl Machine {
    pub(super) fn request(&mut self, request: Request) {
        let done = match request {
            Request::Prefer(side) => {
                self.stored.preference = side;
                self.store();
                Ok(())
            }
            Request::UseMediator(instance) => {
                self.stored.mediator = instance;
                self.mediator = super::MediatorView {
                    last_question: self.mediator.last_question,
                    ..super::MediatorView::default()
                };
                self.store();
                Ok(())
            }
            Request::Stretch => self.stretch(),
            Request::Resign => self.resign(),
            Request::Unstretch => self.unstretch(),
            Request::Force => self.force(),
            Request::Discard => self.discard(),
        };
        if let Err(reason) = done {
            self.actions.push(Action::Refused(request, reason));
        }
    }

    fn stretch(&mut self) -> Result<(), &'static str> {
        if self.stored.role != Role::Local {
            return Err("the pod is on two arrays already");
        }
        self.enter_solo(self.stored.epoch.decided());
        Ok(())
    }

    fn resign(&mut self) -> Result<(), &'static str> {
        if !self.is_in_step() {
            return Err("the arrays are not in step");
        }
        if self.session.is_some_and(|session| session.consent != Consent::None) {
            return Err("the arrays agree on a hand-over already");
        }
        self.agree(Consent::Resigning);
        self.send(Message::MayI);
        Ok(())
    }

    fn unstretch(&mut self) -> Result<(), &'static str> {
        if !self.is_sequencer() || !self.is_in_step() {
            return Err("only the array that orders changes removes the other, while they are in step");
        }
        self.wants_leave = true;
        Ok(())
    }

    /// Continues although the protocol does not allow it. The caller has stated the risk. While the
    /// arrays are connected, only if the other one has reported that it serves nothing by itself.
    fn force(&mut self) -> Result<(), &'static str> {
        let heard = self.session.map(|session| session.heard);
        let is_peer_idle = |peer: Hello| peer.role == Role::Diverged || peer.is_hurt;
        if heard.is_some_and(|heard| !heard.is_some_and(is_peer_idle)) {
            return Err("the arrays are connected, and the other one may serve");
        }
        match self.stored.role {
            Role::Sync if self.is_in_step() => return Err("the arrays are in step"),
            Role::Target if !self.stored.is_whole => return Err("the content of this array is a mixture"),
            Role::Solo if self.stored.is_hurt => {}
            Role::Solo | Role::Local => return Err("this array serves"),
            Role::Left => return Err("this array was removed from the pod"),
            Role::Sync | Role::Target | Role::Lost | Role::Diverged => {}
        }
        if self.now < self.peer_lease_end() {
            return Err("the other array may hold a lease for two more seconds");
        }
        let known = self.mediator.register.map_or(Epoch(0), |register| register.epoch);
        let peer = heard.flatten().map_or(Epoch(0), |peer| peer.epoch);
        self.close();
        self.enter_solo(self.stored.epoch.max(known).max(peer).decided());
        Ok(())
    }

    /// Discards the content of a diverged array: it becomes TARGET, and gets every block. Only if
    /// the other array has reported that it serves: otherwise both could discard.
    fn discard(&mut self) -> Result<(), &'static str> {
        if self.stored.role != Role::Diverged {
            return Err("the array has not diverged");
        }
        match self.session.and_then(|session| session.heard) {
            Some(Hello { role: Role::Solo, is_hurt: false, .. }) => {}
            Some(Hello { role: Role::Diverged, .. }) => {
                return Err("the other array has stopped, too: promote the one whose content is kept first");
            }
            Some(_) => return Err("the other array does not serve the pod"),
            None => return Err("the arrays are not connected, so the other one may not have the pod"),
        }
        self.stored.role = Role::Target;
        (self.stored.period, self.stored.start) = (Period(0), Position(0));
        (self.stored.is_whole, self.stored.is_hurt) = (false, false);
        self.stored.rule = TieRule::in_force(Rule::Only(self.side.other()));
        self.store();
        self.end_session();
        Ok(())
    }
}
