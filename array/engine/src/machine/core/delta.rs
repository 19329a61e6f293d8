//! Deltas of volumes: their blocks, and the tail of a stream that enters them.

use super::Core;
use crate::machine::ordered::FULL_DELTA_BLOCKS;
use crate::service::{Extent, ExtentState};
use blockmap::{LEAF_REFS, Ref, Root};
use types::{BlockRange, LBAS_PER_BLOCK, Lba, StreamId, VolumeId};

/// Most runs of a delta that one reply looks at: those of 16 leaves of the map.
const MAX_RUNS: usize = 16 * LEAF_REFS;

impl Core {
    /// Returns runs of blocks that a peer may lack, or has, from `from` to the first page that is
    /// not loaded, and at least for one block.
    pub(super) fn delta_extents(&self, volume: VolumeId, from: Lba, limit: usize) -> Vec<Extent> {
        let Some(held) = self.state.volumes.get(&volume) else { return Vec::new() };
        let delta = volume.delta().and_then(|delta| self.state.volumes.get(&delta));
        let root = delta.map_or(Root::empty(0), |delta| delta.root);
        let is_full = delta.is_some_and(|delta| delta.blocks == FULL_DELTA_BLOCKS);
        let (mut first, end) = (from.0 / LBAS_PER_BLOCK, held.blocks / LBAS_PER_BLOCK);
        let mut runs: Vec<(u64, u64, bool)> = Vec::new();
        for _ in 0..MAX_RUNS {
            let run = match root.mapped {
                0 if is_full => Some((Ref::ZERO, end)),
                // Without blocks in it, nothing is known of its size.
                0 => Some((Ref::HOLE, end)),
                _ => self.state.map.run_at(&root, first),
            };
            let Some((reference, run_end)) = run.filter(|_| first < end) else { break };
            let (is_lacking, run_end) = (reference != Ref::HOLE, run_end.min(end));
            let is_continued = runs.last().is_some_and(|(_, _, state)| *state == is_lacking);
            let is_full = runs.len() >= limit.max(1);
            match runs.last_mut().filter(|_| is_continued) {
                Some((_, last, _)) => *last = run_end,
                None if is_full => break,
                None => runs.push((first, run_end, is_lacking)),
            }
            first = run_end;
        }
        let extent = |(first, end, is_lacking): (u64, u64, bool)| {
            let range = BlockRange::new(Lba(first * LBAS_PER_BLOCK), (end - first) * LBAS_PER_BLOCK).ok()?;
            Some(Extent { range, state: if is_lacking { ExtentState::Mapped } else { ExtentState::Deallocated } })
        };
        runs.into_iter().filter_map(extent).collect()
    }

    /// The tail of a stream is in its deltas: changes of hosts continue.
    pub(super) fn tail_added(&mut self, stream: StreamId) {
        self.state.streams.tail_added(stream);
        self.scheduler.wake_admission_waiters();
    }
}
