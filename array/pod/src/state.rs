//! The state of one pod that an array keeps in its log.

pub(crate) mod encoding;

use types::{Period, Position};

/// One of the two arrays of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Side {
    /// The array with the lower id. It wins ties.
    A = 1,
    /// The array with the higher id.
    B = 2,
}

impl Side {
    /// Both arrays.
    pub const BOTH: [Side; 2] = [Side::A, Side::B];

    /// Returns the other array.
    #[must_use]
    pub fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
}

/// Number of an epoch: each change of tie rule and each failover has a higher one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub u32);

impl Epoch {
    /// Returns the number of an `Epoch` record, or of `GoSync`.
    #[must_use]
    pub fn next(self) -> Self {
        self.plus(1)
    }

    /// Returns the number of a swap of the register.
    #[must_use]
    pub fn swapped(self) -> Self {
        self.plus(2)
    }

    /// Returns the number of a decision without the mediator, if this is the highest known one.
    #[must_use]
    pub fn decided(self) -> Self {
        self.plus(4)
    }

    fn plus(self, step: u32) -> Self {
        Self(self.0.saturating_add(step))
    }

    /// Returns the first period of the epoch. A SOLO has several: one for each time that it begins
    /// to send to its peer or ceases to, because the log needs a new number each time.
    pub fn period(self) -> Period {
        Period(u64::from(self.0) << 32)
    }
}

/// Returns the epoch of the begin of a period.
pub fn epoch_of(period: Period) -> Epoch {
    Epoch((period.0 >> 32) as u32)
}

/// Part of an array in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// The pod is on this array alone.
    Local = 1,
    /// Both arrays hold the same content and serve.
    Sync = 2,
    /// Serves alone. As source, it also sends its content to the peer.
    Solo = 3,
    /// Receives content; its own is a mixture.
    Target = 4,
    /// Has yielded to the peer. Entered from SYNC only.
    Lost = 5,
    /// Served alone while the peer did so too.
    Diverged = 6,
    /// Was removed from the pod.
    Left = 7,
}

impl Role {
    pub(crate) const ALL: [Role; 7] =
        [Role::Local, Role::Sync, Role::Solo, Role::Target, Role::Lost, Role::Diverged, Role::Left];
}

/// The array that may continue without its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The array whose swap of the mediator's register succeeds.
    Mediator,
    /// One array, by its own right.
    Only(Side),
}

/// Tie rule of an epoch. A prohibition counts at once, a permission when the rule is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TieRule {
    /// The rule of this epoch.
    pub current: Rule,
    /// The rule of the epoch before.
    pub before: Rule,
    /// Position of the `Epoch` record, until it is known to be durable on both arrays.
    pub pending: Option<Position>,
}

impl TieRule {
    /// Returns a rule that is in force.
    pub fn in_force(rule: Rule) -> Self {
        Self { current: rule, before: rule, pending: None }
    }

    /// Whether a rule may apply: it is the current one, or the one before and the change is not in
    /// force.
    pub fn may_apply(&self, rule: Rule) -> bool {
        self.current == rule || self.pending.is_some() && self.before == rule
    }
}

/// The durable state of a pod on one array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// Part in the pod.
    pub role: Role,
    /// The log was damaged. Ends when TARGET is durable.
    pub is_hurt: bool,
    /// Number of the epoch.
    pub epoch: Epoch,
    /// Begin of this SYNC, SOLO or TARGET; also the number of the stream's period.
    pub period: Period,
    /// Position at which the period began.
    pub start: Position,
    /// The array that orders changes.
    pub sequencer: Side,
    /// Tie rule of the epoch.
    pub rule: TieRule,
    /// Period and position that the peer last reported as durable, when this state was stored.
    pub base: (Period, Position),
    /// TARGET: its content is a prefix of the source's order. SOLO: the target is whole.
    pub is_whole: bool,
    /// Position of the record with which the peer leaves. In SOLO: the peer has left.
    pub leaving: Option<Position>,
    /// Number of the mediator's instance, if the pod has a mediator.
    pub mediator: Option<u64>,
    /// The array that should continue.
    pub preference: Side,
}

impl Stored {
    /// Returns the state of a pod on one array, which is not stretched.
    pub fn local(side: Side) -> Self {
        Self {
            role: Role::Local,
            is_hurt: false,
            epoch: Epoch(0),
            period: Period(0),
            start: Position(0),
            sequencer: side,
            rule: TieRule::in_force(Rule::Only(side)),
            base: (Period(0), Position(0)),
            is_whole: false,
            leaving: None,
            mediator: None,
            preference: side,
        }
    }

    /// Returns the state of the array to which the pod of `owner` is stretched: nothing of the pod
    /// is here yet.
    pub fn empty_target(owner: Side) -> Self {
        Self { role: Role::Target, ..Self::local(owner) }
    }
}
