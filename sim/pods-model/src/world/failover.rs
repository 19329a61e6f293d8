//! Ties: asking, the register, entering SOLO, yielding.

use super::World;
use super::contact::UNDECIDED_STEP;
use crate::array::Consent;
use crate::bug::Bug;
use crate::message::{Message, Record};
use crate::names::{BlockSet, Epoch, Owner, Register, Role, Rule, Side, TieRule};

impl World {
    /// An array decides to continue alone. It ends the session and gives up its lease.
    pub fn ask(&mut self, side: Side) {
        self.spent.asks += 1;
        let array = &mut self.arrays[side];
        (array.is_asking, array.has_lease, array.is_joining) = (true, false, false);
        if self.has_session {
            self.end_session();
        }
    }

    /// The mediator carries out a compare-and-swap.
    ///
    /// A forced promotion without the mediator cannot prevent that the other array succeeds here
    /// later.
    pub fn swap_register(&mut self, side: Side) {
        self.is_risk_accepted |= self.spent.forces > 0 && self.arrays[side.other()].memory.role.is_owner();
        let epoch = self.arrays[side].memory.epoch + 2;
        self.register = Register { epoch, owner: Owner::One(side) };
    }

    /// Whether the compare-and-swap of an asking array succeeds.
    pub fn may_swap(&self, side: Side) -> bool {
        let own = &self.arrays[side].memory;
        let is_open = self.register == Register { epoch: own.epoch, owner: Owner::Both };
        match own.rule.current {
            Rule::Mediator => is_open,
            Rule::Only(_) if self.has(Bug::ExcludedAsks) => self.register.owner == Owner::Both,
            Rule::Only(preferred) => {
                let is_taken = matches!(self.register.owner, Owner::One(o) if o != side);
                preferred == side
                    && !is_taken
                    && self.register.owner != Owner::Retired
                    && self.register.epoch <= own.epoch + 1
            }
        }
    }

    /// Whether the register decides against or for an asking array.
    pub fn is_decided(&self, side: Side) -> bool {
        let own = &self.arrays[side].memory;
        match self.register.owner {
            Owner::Retired => true,
            Owner::One(owner) if owner == side => self.register.epoch > own.epoch && self.may_end_lease_wait(side),
            Owner::One(_) => self.register.epoch > own.epoch,
            Owner::Both => self.register.epoch > own.epoch && own.rule.current == Rule::Mediator,
        }
    }

    /// Whether the peer's lease is over. A restarted array counts the wait from its start (rule 4).
    fn may_end_lease_wait(&self, side: Side) -> bool {
        let forgets = self.has(Bug::RestartForgetsGrants) && !self.arrays[side].is_fresh;
        !self.arrays[side.other()].has_lease || self.has(Bug::NoLeaseWait) || forgets
    }

    /// An asking array learns the register.
    pub fn learn(&mut self, side: Side) {
        if self.register.owner == Owner::One(side) {
            self.enter_solo(side, self.register.epoch);
        } else {
            self.lose(side);
        }
        if self.has_session {
            self.end_session();
        }
    }

    /// Whether an asking array may continue without the mediator: ONLY names it, the rule is in
    /// force, its process has not restarted, and the peer's lease is over.
    pub fn has_own_right(&self, side: Side) -> bool {
        let array = &self.arrays[side];
        let is_in_force = array.memory.rule.pending.is_none() || self.has(Bug::RightEarly);
        let is_fresh = array.is_fresh || self.has(Bug::OwnRightAfterRestart);
        array.memory.rule.current == Rule::Only(side) && is_in_force && is_fresh && self.may_end_lease_wait(side)
    }

    /// An array continues by its own right.
    pub fn use_own_right(&mut self, side: Side) {
        let epoch = self.arrays[side].memory.epoch + UNDECIDED_STEP;
        self.enter_solo(side, epoch);
        if self.has_session {
            self.end_session();
        }
    }

    /// Whether the tie rule lets an array ask. A permission counts from being in force, a
    /// prohibition from being applied.
    pub fn may_ask(&self, side: Side) -> bool {
        let array = &self.arrays[side];
        let rule = array.memory.rule;
        let is_in_force = rule.pending.is_none();
        let by_rule = match rule.current {
            Rule::Only(preferred) if preferred == side => {
                is_in_force || rule.before != Rule::Only(side.other()) || self.has(Bug::TransitAsks)
            }
            Rule::Only(_) => false,
            Rule::Mediator => is_in_force || rule.before == Rule::Only(side) || self.has(Bug::AskEarly),
        };
        !array.is_hurt && (by_rule || self.has(Bug::ExcludedAsks))
    }

    /// Continues alone in a new epoch and period. The delta takes over the tail.
    pub(super) fn enter_solo(&mut self, side: Side, epoch: Epoch) {
        let (keeps_requests, drops_tail) = (self.has(Bug::LateForward), self.has(Bug::TailNotInDelta));
        let array = &mut self.arrays[side];
        let memory = &mut array.memory;
        // A source that entered SYNC and returns keeps what its target reported last.
        if memory.role == Role::Sync && !array.is_joining {
            memory.note_base();
        }
        memory.absorb_tail();
        if drops_tail {
            memory.delta = BlockSet::NONE;
        }
        (memory.role, memory.epoch, memory.period) = (Role::Solo, epoch, epoch);
        (memory.sequencer, memory.rule) = (side, TieRule::in_force(Rule::Only(side)));
        (memory.is_whole, memory.leaving) = (false, None);
        array.window.clear();
        if !keeps_requests {
            array.requests.clear();
        }
        (array.is_asking, array.has_lease, array.is_source, array.is_joining) = (false, false, false, false);
    }

    /// Takes a role that serves nothing. Commands of hosts stay open.
    pub(super) fn leave_role(&mut self, side: Side, role: Role) {
        let array = &mut self.arrays[side];
        if array.memory.role == Role::Sync && role == Role::Lost {
            array.memory.note_base();
        }
        array.memory.role = role;
        array.memory.absorb_tail();
        array.window.clear();
        array.requests.clear();
        (array.is_asking, array.has_lease, array.is_source, array.is_joining) = (false, false, false, false);
    }

    /// Yields to the peer. No session carries a forward of this array, so its hosts get errors.
    pub(super) fn lose(&mut self, side: Side) {
        self.leave_role(side, Role::Lost);
        self.fail_pending(side);
    }

    /// Reports LOST, which is durable.
    pub fn report_yielded(&mut self, side: Side) {
        self.arrays[side].consent = Consent::Reported;
        self.send(side, Message::Yielded);
    }

    pub(super) fn receive_yielded(&mut self, side: Side) {
        let array = &self.arrays[side];
        if let (Role::Sync, Consent::Wins(epoch)) = (array.memory.role, array.consent) {
            self.enter_solo(side, epoch);
            self.arrays[side].is_fresh = true;
            self.end_session();
        }
    }

    /// An array does not reach the mediator.
    pub fn lose_mediator(&mut self, side: Side) {
        self.spent.outages += 1;
        self.reaches_mediator[side] = false;
    }

    /// An owner enters its epoch in the register.
    pub fn register_self(&mut self, side: Side) {
        self.register = Register { epoch: self.arrays[side].memory.epoch, owner: Owner::One(side) };
    }

    /// The sequencer opens the register for the next epoch, whose rule will be MEDIATOR. Nothing
    /// may ask while ONLY is in force, so this can come early.
    pub fn open_register(&mut self, side: Side) {
        self.register = Register { epoch: self.arrays[side].memory.epoch + 1, owner: Owner::Both };
    }

    /// The sequencer orders a new epoch with another tie rule.
    pub fn change_rule(&mut self, side: Side, rule: Rule) {
        self.spent.rule_changes += u8::from(rule != Rule::Mediator);
        let array = &mut self.arrays[side];
        let position = array.append(Record::Epoch(rule));
        let before = array.memory.rule.current;
        array.memory.rule = TieRule { current: rule, before, pending: Some(position) };
        array.memory.epoch += 1;
        let period = array.memory.period;
        self.send(side, Message::Record(period, position, Record::Epoch(rule)));
    }
}
