//! Faults, and the moments at which they do the most harm.

use pod::Side;

/// Something that fails, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Messages from an array are lost.
    CutFrom(usize, u64),
    /// All messages are lost.
    Cut(u64),
    /// Messages from an array are late.
    Stall(usize, u64),
    /// The session breaks.
    Break,
    /// A process ends, and starts again later.
    Crash(usize, u64),
    /// Both do.
    CrashBoth(u64, u64),
    /// A process ends, and its log loses the last flush.
    Damage(usize, u64),
    /// A process does nothing for a time.
    Stop(usize, u64),
    /// The mediator is out of reach of an array.
    Mediator(usize, u64),
    /// It is out of reach of both.
    NoMediator(u64),
    /// It answers late, or carries out a question late and does not answer.
    LateMediator(u64),
    /// Flushes take up to 0.4 s.
    SlowLog(usize, u64),
    /// An administrator changes the preference.
    Prefer(Side),
    /// An array wants to stop in an orderly way.
    Resign(usize),
    /// The link is cut, and the process of an array may end for a time.
    CutAndCrash(u64, Option<(usize, u64)>),
    /// The way of forwards is slow, and hosts use another path.
    Overtake(Overtaking),
    /// The link notices that a session is over.
    Reopen(u64),
}

/// Ways for a host's later write to overtake its forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overtaking {
    /// It aborts the command, and continues when that is answered.
    Reset,
    /// It loses its path, and fails over.
    Path,
    /// It ends, and others take over.
    Death,
}

/// A moment at which a fault does more harm than at others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The sequencer has logged the rule that both use until a SYNC ends.
    Rule,
    /// It has logged one that takes a right from an array.
    RightMoves,
    /// `GoSync` was sent.
    GoSync,
    /// An array has yielded, or has begun to serve alone.
    Decision,
}
