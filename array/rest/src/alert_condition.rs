//! The kinds of alert, and conditions that raise one.

/// The kinds of alert. The numbers are part of the REST API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Code {
    PoolFills = 1,
    VolumeFills = 2,
    Damage = 3,
    BackingFull = 4,
    LogLoss = 5,
    ClockJump = 6,
    EngineStopped = 10,
    HungIo = 11,
    WritesRefused = 12,
    LockedSecrets = 13,
    Salvage = 14,
    AuditPostponed = 15,
    LinkLost = 16,
    PodAlone = 17,
    PodNotServed = 18,
    PodMediatorLost = 19,
    PodRefused = 20,
    PodFullResync = 21,
    PodDiverged = 22,
    PodFull = 23,
    PodDifferent = 24,
}

/// A condition that currently holds.
pub(crate) struct Condition {
    pub(crate) code: Code,
    pub(crate) component: String,
    pub(crate) severity: &'static str,
    pub(crate) summary: String,
    pub(crate) description: &'static str,
    pub(crate) actual: Option<String>,
    pub(crate) expected: Option<String>,
    /// Start of the condition, in milliseconds since 1970, if it is known.
    pub(crate) since: Option<u64>,
}
