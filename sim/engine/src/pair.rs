//! Two engines and one stream: a sequencer, a follower, and queues of messages between them. From
//! one seed, in one thread, without a network.
//!
//! Hosts change and copy blocks at the sequencer and read at both; volumes are made, removed,
//! resized, copied and restored. The counts of references are full at different records in the two
//! arrays. Each array crashes at any access of its
//! drive, in recovery too, or its process ends, or only the connection is cut. Then one of the two
//! serves alone, the other is brought into step from the *tails* of both, and may be interrupted in
//! that, too. Volumes that a tail names as a whole are made again at the other array, by the
//! first record that it is given. In runs with an even seed, the array that serves alone keeps
//! *deltas*, and sends the blocks that they name while its hosts continue; the other repeats the
//! changes of volumes that were made alone.
//!
//! The follower lends room in messages that are delayed, repeated and lost. In half of the runs one
//! or both pools are so small that a plain volume fills them: then hosts of the pair wait, and an
//! array that sends its content reports marks. A follower must refuse no record within its credit.
//!
//! Some changes carry messages: the sequencer stores values of its own with them, and the follower
//! values that it derives from the message. An array has the values of a record exactly if it has
//! the record. Sometimes the stream is removed from both arrays, and made again.
//!
//! After each restart an array must hold a prefix of the records that it was given, with everything
//! that it has reported as durable or answered. A read must show a committed state: durable on both
//! arrays, or on the one that serves alone. Whenever both are in step, their contents are equal.

mod bug;
mod catalog;
mod contents;
mod kind;
mod node;
mod totals;
mod world;

pub use bug::PairBug;
pub use totals::PairTotals;

use crate::disk::SimDisk;
use crate::history::SimViolation;
use contents::DISK_BYTES;
use kind::PairKind;
use testing::Rng;
use world::World;

/// Runs one seed. The totals count the work before a violation.
pub fn run_pair(seed: u64, bug: Option<PairBug>) -> (PairTotals, Result<(), SimViolation>) {
    let mut rng = Rng::new(seed);
    let disks = [SimDisk::new(DISK_BYTES, rng.next_u64()), SimDisk::new(DISK_BYTES, rng.next_u64())];
    let unit = rng.pick(&[512, 4096]);
    disks.iter().for_each(|disk| disk.set_unit(unit));
    let kind = PairKind { uses_delta: seed.is_multiple_of(2), is_small: seed % 4 > 1 };
    let mut world = match World::new(&disks, rng, bug, kind) {
        Ok(world) => world,
        Err(violation) => return (PairTotals { runs: 1, ..PairTotals::default() }, Err(violation)),
    };
    let result = world.run();
    (PairTotals { runs: 1, ..world.totals }, result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::ops::RangeInclusive;

    /// Returns the first of these seeds whose run violates an invariant.
    fn first_violation(seeds: RangeInclusive<u64>, bug: Option<PairBug>) -> Option<(u64, SimViolation)> {
        seeds.into_iter().find_map(|seed| run_pair(seed, bug).1.err().map(|violation| (seed, violation)))
    }

    #[test]
    fn pair_of_engines_has_no_violation() {
        assert_eq!(first_violation(1..=25, None), None);
    }

    #[test]
    fn leaves_with_absent_slots_are_sent() {
        // Two leaves whose slots are in one page, which is not in memory.
        assert_eq!(first_violation(1580..=1580, None), None);
    }

    #[test]
    fn writes_that_cleaning_cannot_serve_end() {
        // The cleaner finds something to move in each segment, and never gains one.
        assert_eq!(first_violation(554..=554, None), None);
    }

    #[test]
    fn runs_fail_over_and_come_into_step() {
        let mut totals = PairTotals::default();
        (1..=30).for_each(|seed| totals.add(&run_pair(seed, None).0));
        let PairTotals { runs: _, records, copies, volume_changes, answered, crashes, .. } = totals;
        let PairTotals { failovers, resyncs, by_delta, copied, marks, full, starved, .. } = totals;
        let PairTotals { messages, synced, renewed, equal_copies, .. } = totals;
        let counts = [
            records,
            copies,
            volume_changes,
            answered,
            crashes,
            failovers,
            resyncs,
            by_delta,
            copied,
            marks,
            full,
            starved,
            messages,
            synced,
            renewed,
            equal_copies,
        ];
        assert!(counts.iter().all(|count| *count > 10), "{totals:?}");
        assert_eq!(run_pair(3, None), run_pair(3, None), "the same seed, the same run");
    }

    #[test]
    fn injected_bugs_are_found() {
        for bug in PairBug::value_variants().iter().copied() {
            assert!(first_violation(1..=60, Some(bug)).is_some(), "{bug:?} is not found");
        }
    }
}
