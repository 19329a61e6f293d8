//! The runs: bounds without a planted bug, and the bounds within which each bug is found.

/// Bounds that every test run exhausts.
pub const SMALL: &[&str] = &[
    "commands=2 cuts=1 early_errors=1 epochs=11",
    "commands=1 cuts=1 asks=1 epochs=7",
    "crashes=1 asks=1 epochs=8",
    "asks=1 outages=2 rule_changes=1 epochs=9",
    "commands=1 asks=1 damages=1 epochs=5",
    "commands=1 asks=1 marks=1 epochs=8",
    "commands=2 failovers=1 epochs=9",
    "commands=1 resigns=2 epochs=9",
    "crashes=1 asks=1 leaves=1 epochs=9",
    "asks=1 forces=1 epochs=12",
];

/// Bounds that a campaign exhausts: some minutes, and up to 12 GB of memory.
pub const LARGE: &[&str] = &[
    "asks=2 outages=4 rule_changes=2 epochs=11",
    "crashes=1 asks=1 outages=2 rule_changes=1 epochs=11",
    "cuts=1 asks=2 outages=2 rule_changes=1 epochs=11",
    "commands=1 asks=1 damages=1 epochs=8",
    "commands=1 crashes=1 asks=1 epochs=8",
    "commands=1 cuts=1 asks=1 epochs=10",
    "asks=1 outages=2 rule_changes=1 damages=1 epochs=9",
    "crashes=1 asks=1 damages=1 epochs=8",
    "commands=1 crashes=1 resigns=1 epochs=9",
    "crashes=1 cuts=1 asks=1 leaves=1 epochs=9",
    "crashes=1 asks=1 forces=1 epochs=12",
    "commands=3 failovers=1 epochs=9",
];

/// Random histories that must come back to SYNC.
pub const RECOVERS: &str = "commands=5 crashes=3 cuts=3 outages=4 rule_changes=2 asks=100 early_errors=2 marks=2 failovers=1 resigns=2 epochs=250";

/// Random histories after which the mediator stays away: one array must serve.
pub const RECOVERS_WITHOUT_MEDIATOR: &str = "commands=3 crashes=2 cuts=2 outages=6 rule_changes=1 asks=6 epochs=200";

/// A planted bug, and bounds that are enough to find it.
pub struct Planted {
    /// Names of bugs, separated by commas.
    pub bugs: &'static str,
    /// Bounds.
    pub limits: &'static str,
}

const fn planted(bugs: &'static str, limits: &'static str) -> Planted {
    Planted { bugs, limits }
}

/// Bugs that a search finds within small bounds.
pub const PLANTED: &[Planted] = &[
    planted("no-lease-wait", "commands=1 cuts=1 asks=1"),
    planted("no-lease-check", "commands=1 cuts=1 asks=1"),
    planted("own-durability", "commands=1 crashes=1 asks=1"),
    planted("ack-before-flush", "commands=1 crashes=1 asks=1"),
    planted("tail-not-in-delta", "commands=1 cuts=1 asks=1"),
    planted("no-mask", "commands=1 cuts=1 asks=1"),
    planted("no-delta", "commands=1 cuts=1 asks=1"),
    planted("target-forgets,no-position-check", "commands=1 crashes=1 asks=1"),
    planted("resume-restarted", "commands=2 crashes=1"),
    planted("late-forward", "commands=2 asks=1"),
    planted("twice", "commands=2 cuts=1"),
    planted("join-early", "crashes=1 asks=1"),
    planted("requests-outlive-session", "commands=2 cuts=1 early_errors=1"),
    planted("restart-forgets-grants", "crashes=1 asks=1"),
    planted("no-position-check", "commands=1 asks=1 damages=1"),
    planted("hurt-wins", "commands=1 crashes=1 asks=1 damages=1"),
    planted("excluded-asks", "cuts=1 asks=2 outages=2 rule_changes=1"),
    planted("right-early", "cuts=1 asks=2 outages=2 rule_changes=1"),
    planted("ask-early", "crashes=1 asks=2 outages=2 rule_changes=1"),
    planted("transit-asks", "crashes=1 asks=2 outages=2 rule_changes=2"),
    planted("restart-in-force", "crashes=1 asks=2 outages=2 rule_changes=2"),
    planted("rule-overlap", "crashes=1 asks=2 outages=4 rule_changes=2"),
    planted("mark-not-in-delta", "commands=1 asks=1 marks=1"),
    planted("no-cancel", "commands=2 failovers=1"),
    planted("speaks-for-peer", "asks=1"),
    planted("resign-unasked", "resigns=2"),
    planted("both-resign", "resigns=2"),
    planted("resign-answers-early", "commands=1 resigns=1"),
    planted("local-at-leave", "asks=1 leaves=1"),
    planted("leave-unheard", "crashes=1 asks=1 leaves=1"),
    planted("mark-keeps-whole", "commands=1 asks=1 marks=1"),
    planted("whole-early", "commands=1 asks=1 marks=1"),
    planted("own-right-after-restart", "crashes=1 asks=1 outages=2 rule_changes=1 forces=1"),
    planted("older-owner-continues", "asks=1 forces=1"),
    planted("equal-owners-continue", "asks=1 outages=2 rule_changes=1 forces=1"),
    planted("old-register-decides", "asks=1 outages=1 forces=1"),
];

/// Bugs that need larger bounds. A campaign finds them.
pub const PLANTED_DEEP: &[Planted] = &[
    planted("hurt-forgotten", "commands=1 crashes=1 asks=2 damages=1"),
    planted("old-forward", "commands=3 failovers=1"),
];

/// Bugs that random histories find: a state that nothing leaves.
pub const STUCK: &[Planted] = &[planted("no-way-back", RECOVERS_WITHOUT_MEDIATOR)];
