//! The resources that waiting requests lack, and the space that a replay of the log needs.

use super::ranges::BLOCK_LEN;
use types::{BLOCK_BYTES, LBAS_PER_BLOCK};
use wal::LogOp;

/// The resources that requests lack while they wait for admission. Each flag makes the background
/// work due that frees the resource.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backpressure {
    pub(crate) log: bool,
    pub(crate) memory: bool,
    pub(crate) metadata: bool,
    pub(crate) space: bool,
}

impl Backpressure {
    /// True if any request waits.
    pub(crate) fn is_any(self) -> bool {
        self.log || self.memory || self.metadata || self.space
    }
}

/// The space that a replay of the log would need, and the space that it would have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReplayReserve {
    /// Blocks admitted between the newest valid checkpoint and the freeze of the one in progress.
    before: u64,
    /// Blocks admitted since.
    since: u64,
    /// Free segments at the newest valid checkpoint.
    free: u64,
    /// Free segments at the freeze of the checkpoint in progress.
    next_free: u64,
}

impl ReplayReserve {
    /// Starts with `free` free segments at the newest checkpoint.
    pub(crate) fn new(free: u64) -> Self {
        Self { free, ..Self::default() }
    }

    /// A record was admitted or replayed.
    pub(crate) fn admit(&mut self, record: &[LogOp]) {
        self.since += record.iter().map(blocks_needed).sum::<u64>();
    }

    /// A checkpoint was frozen while `free` segments were free.
    pub(crate) fn frozen(&mut self, free: u64) {
        self.before += std::mem::take(&mut self.since);
        self.next_free = free;
    }

    /// The checkpoint in progress is valid.
    pub(crate) fn checkpointed(&mut self) {
        (self.before, self.free) = (0, self.next_free);
    }

    /// True if a replay has space for `blocks` blocks more and for the metadata that it changes:
    /// `checkpoint` segments. While a checkpoint is being stored, the replay changes the metadata
    /// of two intervals before one checkpoint stores them. One more segment is lost with the
    /// unused end of the one that was open.
    pub(crate) fn fits(&self, blocks: u64, checkpoint: u64, is_being_stored: bool, blocks_per_segment: u64) -> bool {
        let promised = self.before + self.since;
        let checkpoints = 1 + u64::from(is_being_stored);
        let segments = self.free.saturating_sub(checkpoints * checkpoint + 1);
        promised == 0 || promised + blocks <= segments * blocks_per_segment
    }
}

/// Returns the bytes that an operation adds to its record.
pub(crate) fn payload_bytes(op: &LogOp) -> u64 {
    match op {
        LogOp::Write { data, .. } => data.len() as u64,
        LogOp::Same { pattern, .. } => pattern.len() as u64,
        LogOp::Put { key, value } => (key.len() + value.len()) as u64,
        LogOp::Remove { key } => key.len() as u64,
        _ => 0,
    }
}

/// Returns the 4 KiB blocks that an operation may hold in memory.
pub(crate) fn blocks_touched(op: &LogOp) -> u64 {
    match op {
        LogOp::Write { data, .. } => (data.len() as u64).div_ceil(BLOCK_BYTES) + 1,
        LogOp::Same { .. } => 3,
        LogOp::Fill { range, .. } => {
            let is_aligned = (range.start().0 | range.end().0).is_multiple_of(LBAS_PER_BLOCK);
            if is_aligned { 0 } else { 2 }
        }
        _ => 0,
    }
}

/// Returns the 4 KiB blocks of data for which an operation needs space.
pub(crate) fn blocks_needed(op: &LogOp) -> u64 {
    match op {
        LogOp::Write { data, .. } => {
            let repeats_no_word = |chunk: &&[u8]| chunk[..chunk.len() - 4] != chunk[4..];
            data.chunks(BLOCK_LEN).filter(repeats_no_word).count() as u64 + 1
        }
        LogOp::Same { .. } => 3,
        LogOp::Fill { .. } => blocks_touched(op),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use types::{Lba, VolumeId};

    /// Returns a record that needs space for `blocks` blocks, including the extra one that every
    /// write needs.
    fn write(blocks: usize) -> [LogOp; 1] {
        let data: Vec<u8> = (0..(blocks - 1) * BLOCK_BYTES as usize).map(|byte| (byte % 251) as u8).collect();
        [LogOp::Write { volume: VolumeId(1), lba: Lba(0), data: Bytes::from(data) }]
    }

    #[test]
    fn replay_reserve_covers_metadata_of_two_intervals() {
        let mut reserve = ReplayReserve::new(20);
        assert!(reserve.fits(1 << 30, 4, false, 10), "the first record after a checkpoint is never refused");
        reserve.admit(&write(100));
        assert!(reserve.fits(50, 4, false, 10) && !reserve.fits(51, 4, false, 10), "20 - 4 - 1 segments of 10");
        reserve.frozen(8);
        assert!(reserve.fits(10, 4, true, 10) && !reserve.fits(11, 4, true, 10), "20 - 8 - 1");
        reserve.admit(&write(10));
        assert!(
            reserve.fits(0, 4, true, 10) && !reserve.fits(1, 4, true, 10),
            "blocks admitted before the freeze still count"
        );
        reserve.checkpointed();
        assert!(
            reserve.fits(20, 4, false, 10) && !reserve.fits(21, 4, false, 10),
            "8 - 4 - 1 segments, and 10 blocks since the freeze"
        );
    }
}
