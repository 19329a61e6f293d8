//! Sums over runs of a pair.

/// The work of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairTotals {
    /// Runs.
    pub runs: u64,
    /// Records that a sequencer has ordered.
    pub records: u64,
    /// Those of them that are copies within volumes.
    pub copies: u64,
    /// Those of them by way of an equal range.
    pub equal_copies: u64,
    /// Those of them that make, remove, replace or resize volumes.
    pub volume_changes: u64,
    /// Those of them that have a message.
    pub messages: u64,
    /// Those of them that send content without a write.
    pub synced: u64,
    /// Times that the stream was removed from both arrays and made again.
    pub renewed: u64,
    /// Requests answered.
    pub answered: u64,
    /// Ends of an array: power or process.
    pub crashes: u64,
    /// Times that an array began to serve alone.
    pub failovers: u64,
    /// Times that both were in step again.
    pub resyncs: u64,
    /// Those of them by deltas, while hosts went on.
    pub by_delta: u64,
    /// Tails that entered the deltas although pages could not be read.
    pub lost_pages: u64,
    /// Removals from deltas that were late.
    pub late: u64,
    /// Blocks that the resyncs have copied.
    pub copied: u64,
    /// Records that were skipped for lack of credit.
    pub marks: u64,
    /// Requests that a full pool has refused.
    pub full: u64,
    /// Times that a follower had no block to lend.
    pub starved: u64,
    /// Times that a pool could not be emptied, and grew.
    pub grown: u64,
}

impl PairTotals {
    /// Adds the sums of other runs.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.records += other.records;
        self.copies += other.copies;
        self.equal_copies += other.equal_copies;
        self.volume_changes += other.volume_changes;
        self.messages += other.messages;
        self.synced += other.synced;
        self.renewed += other.renewed;
        self.answered += other.answered;
        self.crashes += other.crashes;
        self.failovers += other.failovers;
        self.resyncs += other.resyncs;
        self.by_delta += other.by_delta;
        self.lost_pages += other.lost_pages;
        self.late += other.late;
        self.copied += other.copied;
        self.marks += other.marks;
        self.full += other.full;
        self.starved += other.starved;
        self.grown += other.grown;
    }
}
