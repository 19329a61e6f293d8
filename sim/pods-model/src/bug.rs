//! Planted bugs: rules of the protocol that a run breaks on purpose.

macro_rules! bugs {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A rule that is broken on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Bug { $($(#[$doc])* $variant,)* }

        impl Bug {
            /// Every bug, with its name on the command line.
            pub const ALL: &[(Bug, &str)] = &[$((Bug::$variant, $name),)*];
        }
    };
}

bugs! {
    /// SOLO begins while the peer may still hold a lease.
    NoLeaseWait = "no-lease-wait",
    /// Reads are answered without a lease.
    NoLeaseCheck = "no-lease-check",
    /// The follower commits when its own log is durable.
    OwnDurability = "own-durability",
    /// The follower reports a record as durable before its flush.
    AckBeforeFlush = "ack-before-flush",
    /// SOLO begins without the tail in the delta.
    TailNotInDelta = "tail-not-in-delta",
    /// The source ignores the target's mask.
    NoMask = "no-mask",
    /// SOLO does not record its changes in the delta.
    NoDelta = "no-delta",
    /// TARGET forgets its own mask when the source begins again.
    TargetForgets = "target-forgets",
    /// A restarted array resumes the session.
    ResumeRestarted = "resume-restarted",
    /// A forward of an older period is ordered.
    LateForward = "late-forward",
    /// A request that is named again is ordered twice.
    Twice = "twice",
    /// `GoSync` is sent before SYNC is durable.
    JoinEarly = "join-early",
    /// Requests outlive their session.
    RequestsOutliveSession = "requests-outlive-session",
    /// A restarted array does not wait for the leases that it granted.
    RestartForgetsGrants = "restart-forgets-grants",
    /// The source trusts its delta without comparing period and position.
    NoPositionCheck = "no-position-check",
    /// An array with a damaged log takes part in ties.
    HurtWins = "hurt-wins",
    /// HURT ends when TARGET begins, not when it is durable.
    HurtForgotten = "hurt-forgotten",
    /// The array that ONLY excludes asks the mediator.
    ExcludedAsks = "excluded-asks",
    /// ONLY's array uses its right before the record is durable on both.
    RightEarly = "right-early",
    /// MEDIATOR is used before the record is durable on both.
    AskEarly = "ask-early",
    /// From ONLY(Y) to ONLY(X): X acts before the record is durable on both.
    TransitAsks = "transit-asks",
    /// A restart takes the rule for being in force.
    RestartInForce = "restart-in-force",
    /// A tie rule is changed while an earlier change is not in force.
    RuleOverlap = "rule-overlap",
    /// A peer that has durably yielded does not end SYNC.
    NoWayBack = "no-way-back",
    /// A change that is not streamed is not recorded in the delta.
    MarkNotInDelta = "mark-not-in-delta",
    /// A host's forward is ordered after a newer change that it sent directly.
    OldForward = "old-forward",
    /// A lost nexus at the follower does not cancel its forwards.
    NoCancel = "no-cancel",
    /// An array reports the peer's ports as unavailable without knowing it.
    SpeaksForPeer = "speaks-for-peer",
    /// An array yields without asking the peer.
    ResignUnasked = "resign-unasked",
    /// Both arrays accept each other's resignation.
    BothResign = "both-resign",
    /// The hosts of an array that resigned get errors while the peer may order their commands.
    ResignAnswersEarly = "resign-answers-early",
    /// The sequencer is LOCAL as soon as it has ordered `Leave`.
    LocalAtLeave = "local-at-leave",
    /// `Leave` counts before the peer has made it durable.
    LeaveUnheard = "leave-unheard",
    /// A record without content leaves TARGET whole.
    MarkKeepsWhole = "mark-keeps-whole",
    /// `Whole` is sent while blocks are missing.
    WholeEarly = "whole-early",
    /// A restarted array uses its own right.
    OwnRightAfterRestart = "own-right-after-restart",
    /// Two owners meet, and the older epoch continues.
    OlderOwnerContinues = "older-owner-continues",
    /// Two owners meet with equal epochs, and both continue.
    EqualOwnersContinue = "equal-owners-continue",
    /// Two owners meet with equal epochs, and each trusts an entry of any epoch in the register.
    OldRegisterDecides = "old-register-decides",
}

/// A set of planted bugs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bugs(u64);

impl Bugs {
    /// Returns a set.
    pub fn of(bugs: &[Bug]) -> Bugs {
        Bugs(bugs.iter().fold(0, |set, bug| set | 1 << *bug as u8))
    }

    /// Whether the bug is planted.
    pub fn has(self, bug: Bug) -> bool {
        self.0 >> bug as u8 & 1 == 1
    }

    /// Parses names separated by commas.
    pub fn parse(names: &str) -> Option<Bugs> {
        let find = |name: &str| Bug::ALL.iter().find(|(_, n)| *n == name).map(|(bug, _)| *bug);
        let bugs: Option<Vec<Bug>> = names.split(',').filter(|n| !n.is_empty()).map(find).collect();
        bugs.map(|bugs| Bugs::of(&bugs))
    }
}
