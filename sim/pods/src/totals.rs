//! The work of runs, and their findings.

use thiserror::Error;

/// The kind of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// One failure; the pause of hosts is measured.
    Single,
    /// Several failures at random times.
    Mixed,
    /// The link is cut again and again while hosts write and read two blocks, with clocks that run
    /// as differently as they may.
    Lease,
    /// Hosts use one path after the other while forwards are slow.
    Paths,
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Violation(pub String);

/// Half seconds of the distribution of pauses.
pub const PAUSES: usize = 12;

/// The work of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Runs.
    pub runs: u64,
    /// Writes with GOOD.
    pub writes: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Those of them that the follower has forwarded.
    pub forwards: u64,
    /// Forwards that the sequencer has refused.
    pub refused: u64,
    /// Forwards that hosts have given up.
    pub cancels: u64,
    /// Ends of a process.
    pub crashes: u64,
    /// Faults of other kinds.
    pub faults: u64,
    /// Times when an array began to serve alone.
    pub alone: u64,
    /// Times when both arrays came into step.
    pub in_step: u64,
    /// Sessions that resumed the one before.
    pub resumed: u64,
    /// Times when all blocks had to be sent.
    pub full_resyncs: u64,
    /// Records of tie rules.
    pub rules: u64,
    /// Swaps that the mediator carried out.
    pub swaps: u64,
    /// Swaps that it carried out after their array had given up.
    pub late_swaps: u64,
    /// Orderly hand-overs.
    pub hand_overs: u64,
    /// Runs that wait for a person in the end.
    pub person: u64,
    /// Pauses after single failures, by half seconds.
    pub pauses: [u64; PAUSES],
    /// The longest of them, in milliseconds.
    pub longest_pause: u64,
}

impl Totals {
    /// Adds the work of other runs.
    pub fn add(&mut self, other: &Totals) {
        self.runs += other.runs;
        self.writes += other.writes;
        self.reads += other.reads;
        self.forwards += other.forwards;
        self.refused += other.refused;
        self.cancels += other.cancels;
        self.crashes += other.crashes;
        self.faults += other.faults;
        self.alone += other.alone;
        self.in_step += other.in_step;
        self.resumed += other.resumed;
        self.full_resyncs += other.full_resyncs;
        self.rules += other.rules;
        self.swaps += other.swaps;
        self.late_swaps += other.late_swaps;
        self.hand_overs += other.hand_overs;
        self.person += other.person;
        self.pauses.iter_mut().zip(other.pauses).for_each(|(sum, count)| *sum += count);
        self.longest_pause = self.longest_pause.max(other.longest_pause);
    }
}
