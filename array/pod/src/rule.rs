//! The tie rules: which array may continue without its peer. Rule 13 of `docs/pods-protocol.md`.

use crate::planted::{Bug, Planted};
use crate::register::{Owner, Register};
use crate::state::{Role, Rule, Side, Stored};

/// The fate of an array that asks, as the register shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The register names this array in a later epoch.
    Won(Register),
    /// It names the peer in a later epoch, or the pod has moved on without this array.
    Lost,
    /// Nothing has been decided; this swap may decide it.
    MaySwap(Register),
    /// Nothing has been decided, and this array cannot.
    Open,
}

/// The state of one array, and its side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) side: Side,
    pub(crate) stored: &'a Stored,
    pub(crate) planted: Planted,
}

impl View<'_> {
    /// Whether the array may ask the mediator.
    pub(crate) fn may_ask(&self) -> bool {
        let rule = self.stored.rule;
        let is_in_force = rule.pending.is_none();
        let by_rule = match rule.current {
            Rule::Only(preferred) if preferred == self.side => {
                is_in_force || rule.before != Rule::Only(self.side.other())
            }
            Rule::Only(_) => self.planted.has(Bug::ExcludedAsks),
            Rule::Mediator => is_in_force || rule.before == Rule::Only(self.side) || self.planted.has(Bug::AskEarly),
        };
        by_rule && self.stored.mediator.is_some() && !self.stored.is_hurt
    }

    /// Whether the array may continue without the mediator, once the peer's lease is over.
    pub(crate) fn has_own_right(&self, is_fresh: bool) -> bool {
        let rule = self.stored.rule;
        let is_in_force = rule.pending.is_none() || self.planted.has(Bug::RightEarly);
        rule.current == Rule::Only(self.side) && is_in_force && is_fresh && !self.stored.is_hurt
    }

    /// Judges the register for an array that asks.
    pub(crate) fn judge(&self, register: Register) -> Verdict {
        let own = self.stored.epoch;
        let is_later = register.epoch > own;
        match register.owner {
            Owner::Retired => return Verdict::Lost,
            Owner::One(owner) if owner == self.side && is_later => return Verdict::Won(register),
            Owner::One(_) if is_later => return Verdict::Lost,
            Owner::Both if is_later && self.stored.rule.current == Rule::Mediator => return Verdict::Lost,
            Owner::One(_) | Owner::Both => {}
        }
        let is_open = register == Register { epoch: own, owner: Owner::Both };
        let may_swap = match self.stored.rule.current {
            Rule::Mediator => is_open,
            Rule::Only(_) if self.planted.has(Bug::ExcludedAsks) => register.owner == Owner::Both,
            Rule::Only(preferred) => {
                let is_free = register.owner != Owner::One(self.side.other());
                preferred == self.side && is_free && register.epoch <= own.next()
            }
        };
        let new = Register { epoch: own.swapped(), owner: Owner::One(self.side) };
        if may_swap { Verdict::MaySwap(new) } else { Verdict::Open }
    }

    /// Whether the peer, whose log is damaged, may have been alone: the tie rule or the register
    /// names it, or the register cannot be read (rule 12).
    pub(crate) fn may_peer_have_been_alone(&self, register: Option<Register>) -> bool {
        let (rule, peer) = (self.stored.rule, self.side.other());
        let is_registered = register.is_some_and(|r| r.owner == Owner::One(peer) && r.epoch > self.stored.epoch);
        let is_unknown = rule.may_apply(Rule::Mediator) && register.is_none();
        self.stored.role != Role::Solo && (rule.may_apply(Rule::Only(peer)) || is_unknown || is_registered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Epoch, TieRule};
    use types::Position;

    const RULES: [Rule; 3] = [Rule::Mediator, Rule::Only(Side::A), Rule::Only(Side::B)];

    fn stored(current: Rule, before: Rule, is_pending: bool) -> Stored {
        let rule = TieRule { current, before, pending: is_pending.then_some(Position(1)) };
        Stored { role: Role::Sync, epoch: Epoch(5), rule, mediator: Some(1), ..Stored::local(Side::A) }
    }

    fn view(stored: &Stored, side: Side) -> View<'_> {
        View { side, stored, planted: Planted::default() }
    }

    fn may_swap(stored: &Stored, side: Side, epoch: u32, owner: Owner) -> bool {
        let register = Register { epoch: Epoch(epoch), owner };
        view(stored, side).may_ask() && matches!(view(stored, side).judge(register), Verdict::MaySwap(_))
    }

    #[test]
    fn mediator_in_force_lets_either_swap() {
        let stored = stored(Rule::Mediator, Rule::Only(Side::A), false);
        for side in Side::BOTH {
            assert!(may_swap(&stored, side, 5, Owner::Both));
            assert!(!may_swap(&stored, side, 4, Owner::Both) && !may_swap(&stored, side, 5, Owner::One(side)));
            assert!(!view(&stored, side).has_own_right(true));
        }
    }

    #[test]
    fn only_in_force_lets_one_array_continue() {
        let stored = stored(Rule::Only(Side::A), Rule::Only(Side::A), false);
        assert!(view(&stored, Side::A).has_own_right(true) && !view(&stored, Side::A).has_own_right(false));
        assert!(!view(&stored, Side::B).has_own_right(true) && !view(&stored, Side::B).may_ask());
        assert!(may_swap(&stored, Side::A, 6, Owner::Both) && may_swap(&stored, Side::A, 3, Owner::One(Side::A)));
        assert!(!may_swap(&stored, Side::A, 7, Owner::Both) && !may_swap(&stored, Side::A, 3, Owner::One(Side::B)));
        assert!(!may_swap(&stored, Side::A, 3, Owner::Retired));
    }

    #[test]
    fn permissions_wait_until_a_rule_is_in_force() {
        let only = Rule::Only;
        // From, to, the arrays that may swap until then.
        let cases = [
            (Rule::Mediator, only(Side::A), [true, false]),
            (only(Side::A), Rule::Mediator, [true, false]),
            (only(Side::B), Rule::Mediator, [false, true]),
            (only(Side::A), only(Side::B), [false, false]),
            (only(Side::B), only(Side::A), [false, false]),
        ];
        for (before, current, expected) in cases {
            let stored = stored(current, before, true);
            let found = Side::BOTH.map(|side| may_swap(&stored, side, 5, Owner::Both));
            assert_eq!(found, expected, "{before:?} to {current:?}");
            assert!(Side::BOTH.iter().all(|side| !view(&stored, *side).has_own_right(true)));
        }
    }

    #[test]
    fn damaged_array_takes_part_in_no_tie() {
        for rule in RULES {
            let stored = Stored { is_hurt: true, ..stored(rule, rule, false) };
            assert!(Side::BOTH.iter().all(|s| !view(&stored, *s).may_ask() && !view(&stored, *s).has_own_right(true)));
        }
    }

    #[test]
    fn register_decides_about_an_array_that_asks() {
        let stored = stored(Rule::Mediator, Rule::Mediator, false);
        let judge = |epoch, owner| view(&stored, Side::A).judge(Register { epoch: Epoch(epoch), owner });
        assert!(matches!(judge(7, Owner::One(Side::A)), Verdict::Won(_)));
        assert_eq!(judge(5, Owner::One(Side::A)), Verdict::Open);
        assert_eq!(judge(7, Owner::One(Side::B)), Verdict::Lost);
        assert_eq!(judge(6, Owner::Both), Verdict::Lost);
        assert_eq!(judge(1, Owner::Retired), Verdict::Lost);
    }

    #[test]
    fn damaged_peer_that_a_rule_names_may_be_newer() {
        let both = Some(Register { epoch: Epoch(5), owner: Owner::Both });
        let peers = Some(Register { epoch: Epoch(7), owner: Owner::One(Side::B) });
        let mediator = stored(Rule::Mediator, Rule::Mediator, false);
        let may = |stored: &Stored, register| view(stored, Side::A).may_peer_have_been_alone(register);
        assert!(!may(&mediator, both) && may(&mediator, None) && may(&mediator, peers));
        let only = |side| stored(Rule::Only(side), Rule::Only(side), false);
        assert!(may(&only(Side::B), both) && !may(&only(Side::A), None) && may(&only(Side::A), peers));
        assert!(may(&stored(Rule::Only(Side::A), Rule::Only(Side::B), true), both));
    }
}
