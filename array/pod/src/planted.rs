//! Rules that a simulator breaks on purpose, to show that it finds the consequence.
//!
//! Without the feature `planted`, no bug can be set.

macro_rules! bugs {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A rule that is broken on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(not(feature = "planted"), allow(dead_code, unreachable_pub, reason = "only a simulator sets them"))]
        pub enum Bug { $($(#[$doc])* $variant,)* }

        #[cfg(feature = "planted")]
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
    /// The source trusts its delta without comparing period and position.
    NoPositionCheck = "no-position-check",
    /// `GoSync` is sent before SYNC is durable.
    JoinEarly = "join-early",
    /// A restarted array resumes the session.
    ResumeRestarted = "resume-restarted",
    /// A restarted array does not wait for the leases that it granted.
    RestartForgetsGrants = "restart-forgets-grants",
    /// The array that ONLY excludes asks the mediator.
    ExcludedAsks = "excluded-asks",
    /// ONLY's array uses its right before the record is durable on both.
    RightEarly = "right-early",
    /// MEDIATOR is used before the record is durable on both.
    AskEarly = "ask-early",
    /// A peer that has durably yielded does not end SYNC.
    NoWayBack = "no-way-back",
    /// A host is answered when the record of its forward arrives, before it is durable.
    AnswerBeforeDurable = "answer-before-durable",
    /// A forward that is named again is ordered again.
    RepeatOrdersTwice = "repeat-orders-twice",
    /// Forwards of any age are ordered.
    NoForwardAge = "no-forward-age",
    /// A forward is ordered although its initiator has used the other path since.
    DirectChangeIgnored = "direct-change-ignored",
    /// A cancel is answered without asking the array that orders.
    NoCancel = "no-cancel",
}

/// The bug that is planted, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Planted {
    #[cfg(feature = "planted")]
    pub(crate) bug: Option<Bug>,
}

impl Planted {
    /// Whether a rule is broken.
    #[cfg(feature = "planted")]
    pub(crate) fn has(self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether a rule is broken: never.
    #[cfg(not(feature = "planted"))]
    pub(crate) fn has(self, _: Bug) -> bool {
        false
    }
}
