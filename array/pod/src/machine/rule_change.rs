//! Changes of the tie rule, one at a time, when everything is committed. Rule 13.

use super::Machine;
use crate::message::Note;
use crate::register::{Owner, Register};
use crate::state::{Role, Rule, TieRule};
use types::Position;

impl Machine {
    /// Whether the sequencer opens the register for a MEDIATOR epoch. Nothing may ask while ONLY is
    /// in force, so this comes early.
    pub(super) fn opens_register(&self, register: Register) -> bool {
        let is_only = matches!(self.stored.rule.current, Rule::Only(_)) && self.stored.rule.pending.is_none();
        is_only && self.do_both_reach() && register.epoch <= self.stored.epoch && register.owner != Owner::Retired
    }

    fn do_both_reach(&self) -> bool {
        let peer = self.session.and_then(|session| session.beat);
        self.mediator_flags().0 && peer.is_some_and(|(beat, _)| beat.reaches_mediator)
    }

    fn have_both_lost(&self) -> bool {
        let peer = self.session.and_then(|session| session.beat);
        self.mediator_flags().1 && peer.is_some_and(|(beat, _)| beat.has_lost_mediator)
    }

    /// Returns the rule that should follow the present one.
    fn wanted_rule(&self) -> Option<Rule> {
        let preferred = Rule::Only(self.stored.preference);
        let open = Register { epoch: self.stored.epoch.next(), owner: Owner::Both };
        match self.stored.rule.current {
            Rule::Mediator => self.have_both_lost().then_some(preferred),
            Rule::Only(_) if self.stored.mediator.is_some() => {
                (self.do_both_reach() && self.mediator.register == Some(open)).then_some(Rule::Mediator)
            }
            Rule::Only(_) => (self.stored.rule.current != preferred).then_some(preferred),
        }
    }

    /// Puts a rule in force when its record is durable on both arrays.
    pub(super) fn put_rule_in_force(&mut self) {
        let heard = self.peer_durable();
        let is_known = |n| self.facts.durable >= n && heard.is_some_and(|heard| heard >= n);
        if self.is_running() && self.stored.rule.pending.is_some_and(is_known) {
            self.stored.rule.pending = None;
            self.store();
        }
    }

    /// Orders a record that must be alone: holds changes, waits until everything is committed, and
    /// logs it with the state that follows.
    pub(super) fn change_rule(&mut self) {
        let is_free = self.stored.rule.pending.is_none() && self.stored.leaving.is_none();
        let may_order = self.is_sequencer() && self.is_in_step() && is_free && self.is_durable();
        let note = if self.wants_leave { Some(Note::Leave) } else { self.wanted_rule().map(Note::Epoch) };
        let Some(note) = note.filter(|_| may_order && self.now >= self.hold_after) else {
            self.hold = self.hold.filter(|_| self.stored.rule.pending.is_some());
            return;
        };
        let since = *self.hold.get_or_insert(self.now);
        let is_held = self.facts.is_still && self.hosts.is_some_and(|hosts| hosts.is_held());
        if is_held && self.is_all_committed() {
            self.order(note);
        } else if self.now.saturating_sub(since) >= self.times.hold {
            self.hold = None;
            self.hold_after = self.now.saturating_add(self.times.hold_retry);
        }
    }

    fn order(&mut self, note: Note) {
        let position = self.facts.position.next();
        match note {
            Note::Epoch(rule) => {
                self.stored.epoch = self.stored.epoch.next();
                let before = self.stored.rule.current;
                self.stored.rule = TieRule { current: rule, before, pending: Some(position) };
            }
            _ => {
                self.stored.leaving = Some(position);
                self.wants_leave = false;
            }
        }
        self.log(note, position);
    }

    /// Whether the record with which the peer leaves is durable on both arrays.
    pub(super) fn has_left(&self, position: Position) -> bool {
        let heard = self.peer_durable();
        self.facts.durable >= position && heard.is_some_and(|heard| heard >= position)
    }

    /// The peer has left when its watermark has passed the record: this array is alone, and LOCAL
    /// when the register is retired.
    pub(super) fn finish_leave(&mut self) {
        let Some(position) = self.stored.leaving.filter(|_| self.is_durable()) else { return };
        let is_retired = self.mediator.register.is_some_and(|register| register.owner == Owner::Retired);
        match self.stored.role {
            Role::Sync if self.has_left(position) && self.asking.is_none() => {
                self.enter_solo(self.stored.epoch.decided());
            }
            Role::Solo if self.is_alone() && (self.stored.mediator.is_none() || is_retired) => {
                self.stored.role = Role::Local;
                self.store();
            }
            _ => {}
        }
    }
}
