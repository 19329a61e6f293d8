//! The mediator: questions, late answers, and whether it is reachable.

use super::Machine;
use crate::event::Action;
use crate::event::Alert;
use crate::register::{Answer, Owner, Question, Register};
use crate::rule::Verdict;
use crate::state::{Role, Rule};
use std::time::Duration;

impl Machine {
    /// Returns whether the mediator is reachable, and whether it is lost. Between the two is the
    /// time of a change.
    pub(super) fn mediator_flags(&self) -> (bool, bool) {
        let lasts = |since: Duration| self.now.saturating_sub(since) >= self.times.mediator_change;
        let has_mediator = self.stored.mediator.is_some();
        let is_reached = self.mediator.reached_since.is_some_and(|since| !self.mediator.was_lost || lasts(since));
        let is_lost = self.mediator.failed_since.is_some_and(lasts);
        (has_mediator && is_reached, !has_mediator || is_lost)
    }

    /// An answer, which may be late: a swap is found to be carried out.
    pub(super) fn note_answer(&mut self, number: u64, answer: Answer) {
        let open = self.mediator.open.take_if(|(open, ..)| *open == number);
        let asked = open.map_or(self.now, |(_, asked, _)| asked);
        let Answer::Is(register) = answer else {
            self.mediator.reached_since = None;
            self.mediator.failed_since.get_or_insert(asked);
            return;
        };
        // A late answer does not show that the mediator is reachable now.
        if open.is_some() {
            self.mediator.failed_since = None;
            self.mediator.reached_since.get_or_insert(self.now);
        }
        self.mediator.register = Some(register);
        if let Some(session) = self.session.as_mut().filter(|session| number >= session.first_question) {
            session.register = Some(register);
        }
        if self.asking.is_some() {
            self.judge_register(register);
        } else if self.stored.role == Role::Solo {
            self.check_register(register);
        }
        if self.wanted_question() != Question::Read {
            // A swap follows at once.
            self.mediator.asked = None;
        }
    }

    fn judge_register(&mut self, register: Register) {
        match self.view().judge(register) {
            Verdict::Won(register) => {
                if let Some(asking) = &mut self.asking {
                    asking.won = Some(register);
                }
            }
            Verdict::Lost => self.lose(),
            Verdict::MaySwap(_) | Verdict::Open => {}
        }
    }

    /// An owner compares the register: it names another array only after a forced promotion, or if
    /// the mediator has lost changes.
    fn check_register(&mut self, register: Register) {
        let is_other = register.owner == Owner::One(self.side.other()) && register.epoch > self.stored.epoch;
        if is_other || register.owner == Owner::Retired && self.stored.leaving.is_none() {
            self.alert(Alert::RegisterDisagrees);
        }
    }

    /// Returns the question that the state needs.
    fn wanted_question(&self) -> Question {
        let own = Register { epoch: self.stored.epoch, owner: Owner::One(self.side) };
        let known = self.mediator.register;
        let swap = |expected, new| Question::Swap { expected, new };
        match self.stored.role {
            Role::Sync if self.asking.is_some_and(|asking| asking.won.is_none()) => {
                let open = Register { epoch: self.stored.epoch, owner: Owner::Both };
                // Under MEDIATOR, only this value may be replaced.
                let guess = if self.stored.rule.current == Rule::Mediator { Some(open) } else { known };
                match guess.map(|register| (register, self.view().judge(register))) {
                    Some((expected, Verdict::MaySwap(new))) => swap(expected, new),
                    _ => Question::Read,
                }
            }
            Role::Sync if self.is_sequencer() && self.is_in_step() => {
                match known.filter(|register| self.opens_register(*register)) {
                    Some(expected) => swap(expected, Register { epoch: self.stored.epoch.next(), owner: Owner::Both }),
                    None => Question::Read,
                }
            }
            Role::Solo if self.is_alone() => match known.filter(|register| register.owner != Owner::Retired) {
                Some(expected) if expected.epoch < own.epoch => swap(expected, own),
                Some(expected) if self.stored.leaving.is_some() && expected == own => {
                    swap(expected, Register { owner: Owner::Retired, ..own })
                }
                _ => Question::Read,
            },
            _ => Question::Read,
        }
    }

    /// Asks the mediator when it is time.
    pub(super) fn ask_mediator(&mut self) {
        let is_active = matches!(self.stored.role, Role::Sync | Role::Solo | Role::Lost);
        if self.stored.mediator.is_none() || !is_active {
            return;
        }
        let (_, was_lost) = self.mediator_flags();
        self.note_reachability(was_lost);
        let session = self.session;
        let is_needed = session.is_some_and(|s| !s.is_judged && s.heard.is_some() && s.register.is_none());
        let is_asking = self.asking.is_some() && (self.view().may_ask() || self.view().has_own_right(true));
        let question = self.wanted_question();
        let is_urgent = is_asking || is_needed || question != Question::Read;
        let pause = if is_urgent { self.times.ask } else { self.times.mediator_poll };
        let is_open = self.mediator.open.is_some_and(|(number, asked, _)| {
            let is_of_session = session.is_none_or(|s| number >= s.first_question);
            self.now < asked.saturating_add(self.times.ask) && (is_of_session || !is_needed)
        });
        let is_time = self.mediator.asked.is_none_or(|asked| self.now >= asked.saturating_add(pause));
        if is_open || !is_time {
            return;
        }
        self.mediator.last_question += 1;
        let number = self.mediator.last_question;
        self.mediator.open = Some((number, self.now, question));
        self.mediator.asked = Some(self.now);
        self.actions.push(Action::Ask { number, question });
    }

    fn note_reachability(&mut self, is_lost: bool) {
        let (is_reached, _) = self.mediator_flags();
        if is_lost && !self.mediator.was_lost {
            self.mediator.was_lost = true;
            self.alert(Alert::MediatorLost);
        } else if is_reached && self.mediator.was_lost {
            self.mediator.was_lost = false;
            self.alert(Alert::MediatorBack);
        }
    }
}
