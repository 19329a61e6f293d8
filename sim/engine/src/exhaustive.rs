//! Crashes all short sequences of operations at every drive access, on a volume of four leaves.
//!
//! Random runs find likely failures; this search finds failures of small cases. Each sequence runs
//! in two modes: all operations at once, and one after the other with background work in between.
//! For each write, flush and allocation of the sequence, one execution crashes there and is then
//! recovered and checked.

use crate::disk::{Faults, SimDisk};
use crate::history::{History, SimViolation, describe};
use crate::inspect::inspect;
use crate::machine::{Answers, SimMachine};
use crate::state::{LEAF_BLOCKS, span};
use crate::subject::SimSubject;
use bytes::Bytes;
use engine::{Change, Op};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use testing::Rng;
use types::{Lba, VolumeId};

const VOLUME: VolumeId = VolumeId(1);
/// Background steps after the operations of a sequence: enough for a complete checkpoint.
const TICKS: u32 = 4;
/// Upper limit of accesses per sequence. A sequence that never ends is a violation too.
const MOST_ACCESSES: u64 = 2000;

/// How the operations of a sequence are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitMode {
    /// Submit all operations, then commit.
    Together,
    /// Wait for the reply and do background work before the next operation.
    OneByOne,
}

/// Counters of an exhaustive search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchTotals {
    /// Number of executed sequences, counted per mode.
    pub sequences: u64,
    /// Number of crashes.
    pub crashes: u64,
}

/// A violation and the sequence that causes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceViolation {
    /// Description of the executed sequence.
    pub sequence: String,
    /// Access that crashed; `None` if the violation needs no crash.
    pub crash_at: Option<u64>,
    /// The violation.
    pub violation: SimViolation,
}

/// Returns the operations that sequences are made of. The volume initially holds data in its first
/// leaf and in part of the second.
pub fn alphabet() -> Vec<Op> {
    let leaf = LEAF_BLOCKS;
    let data = |seed: u64, blocks: usize| {
        let mut data = vec![0; blocks * 512];
        Rng::new(seed).fill(&mut data);
        Bytes::from(data)
    };
    let write = |lba, data| Op::Write { volume: VOLUME, lba: Lba(lba), data, fua: false };
    let copy =
        |from, blocks, to| Op::Copy { source: VOLUME, from: span(from, blocks), destination: VOLUME, to: Lba(to) };
    vec![
        write(8, data(101, 8)),
        write(3, data(102, 7)),
        write(leaf - 4, data(103, 16)),
        Op::Zero { volume: VOLUME, range: span(4, leaf) },
        Op::Unmap { volume: VOLUME, ranges: vec![span(0, 16), span(leaf, 2 * leaf)] },
        copy(0, leaf, 2 * leaf),
        copy(8, 64, 16),
        copy(0, 12, 21),
        Op::CompareAndWrite { volume: VOLUME, lba: Lba(8), compare: data(101, 8).slice(..512), write: data(104, 1) },
        Op::WriteSame { volume: VOLUME, range: span(leaf - 8, leaf + 16), pattern: data(105, 1) },
        Op::Change(vec![
            Change::ResizeVolume { volume: VOLUME, blocks: leaf + 8 },
            Change::ResizeVolume { volume: VOLUME, blocks: 4 * leaf },
            Change::Put { key: b"size".to_vec(), value: vec![4] },
        ]),
    ]
}

/// The array that each sequence starts from.
struct Start<S: SimSubject> {
    setup: S::Setup,
    disk: SimDisk,
    history: History,
}

fn start<S: SimSubject>(setup: S::Setup) -> Result<Start<S>, SimViolation> {
    let disk = SimDisk::new(S::scale(&setup).disk_bytes, 1);
    disk.arm(Faults { space: S::scale(&setup).space, ..Faults::default() });
    S::create(&disk, &setup).map_err(|error| SimViolation(format!("array creation failed: {error}")))?;
    let mut machine = SimMachine::new(open::<S>(&disk, &setup)?, &disk);
    let mut history = History::default();
    let mut data = vec![0; 80 * 512];
    Rng::new(100).fill(&mut data);
    let data = Bytes::from(data);
    let first = [
        Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 4 * LEAF_BLOCKS }]),
        Op::Write { volume: VOLUME, lba: Lba(0), data: data.clone(), fua: false },
        Op::Write { volume: VOLUME, lba: Lba(LEAF_BLOCKS - 8), data: data.slice(..32 * 512), fua: false },
    ];
    for (tag, op) in (1 << 32..).zip(first) {
        history.submit(tag, &op);
        let answer = machine.call(op, &mut Answers::new())?;
        history.complete(tag, &answer.ok_or_else(|| SimViolation::new("drive stopped without an injected fault"))?)?;
    }
    drop(machine);
    disk.crash();
    Ok(Start { setup, disk, history })
}

fn open<S: SimSubject>(disk: &SimDisk, setup: &S::Setup) -> Result<S, SimViolation> {
    S::recover(disk, setup).map_err(|error| SimViolation(format!("recovery failed: {error}")))
}

impl<S: SimSubject> Start<S> {
    /// Executes a sequence with a crash at access `crash_at`, then recovers and checks the array.
    /// Returns whether the sequence reached that access.
    fn execute(&self, ops: &[Op], mode: SubmitMode, case: u64, crash_at: u64) -> Result<bool, SimViolation> {
        let disk = self.disk.fork(Rng::part(case, crash_at).next_u64());
        let mut history = self.history.clone();
        let mut machine = SimMachine::new(open::<S>(&disk, &self.setup)?, &disk);
        disk.arm(Faults { crash_at: Some(crash_at), space: S::scale(&self.setup).space, ..Faults::default() });
        self.work(ops, mode, &mut machine, &mut history)?;
        drop(machine);
        let is_crashed = disk.is_crashed();
        disk.crash();
        let subject = open::<S>(&disk, &self.setup)?;
        subject.audit(&disk).map_err(|what| SimViolation(format!("audit after recovery: {what}")))?;
        let mut machine = SimMachine::new(subject, &disk);
        let seen = inspect(&mut machine, &mut history.contents, VOLUME.0, false)?;
        history.recover(&seen.ok_or_else(|| SimViolation::new("drive stopped without an injected fault"))?.state)?;
        disk.violation().map_or(Ok(is_crashed), |what| Err(SimViolation(what)))
    }

    fn work(
        &self,
        ops: &[Op],
        mode: SubmitMode,
        machine: &mut SimMachine<'_, S>,
        history: &mut History,
    ) -> Result<(), SimViolation> {
        let mut waiting = 0;
        for (tag, op) in (1..).zip(ops) {
            history.submit(tag, op);
            machine.subject.submit(op.clone(), tag);
            waiting += 1;
            if mode == SubmitMode::OneByOne || tag == ops.len() as u64 {
                let mut answers = Answers::new();
                machine.settle(&mut answers, |answers| answers.len() >= waiting)?;
                machine.subject.checkpoint();
                for _ in 0..TICKS {
                    machine.settle(&mut answers, |_| true)?;
                    machine.subject.tick();
                }
                machine.settle(&mut answers, |_| true)?;
                waiting -= answers.len();
                for (tag, answer) in answers {
                    history.complete(tag, &answer)?;
                }
            }
        }
        Ok(())
    }

    /// Executes a sequence with a crash at each access in turn.
    fn search(
        &self,
        ops: &[Op],
        mode: SubmitMode,
        case: u64,
        searched: &mut SearchTotals,
    ) -> Result<(), SequenceViolation> {
        searched.sequences += 1;
        let mut crash_at = 0;
        loop {
            crash_at += 1;
            let broken = |violation| SequenceViolation {
                sequence: describe_sequence(ops, mode),
                crash_at: Some(crash_at),
                violation,
            };
            let result = catch_unwind(AssertUnwindSafe(|| self.execute(ops, mode, case, crash_at)));
            let result = result.unwrap_or_else(|_| Err(SimViolation::new("panic: see stderr")));
            searched.crashes += 1;
            match result {
                Ok(true) if crash_at >= MOST_ACCESSES => {
                    return Err(broken(SimViolation::new("sequence does not end")));
                }
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(violation) => return Err(broken(violation)),
            }
        }
    }
}

fn describe_sequence(ops: &[Op], mode: SubmitMode) -> String {
    format!("{mode:?}: {}", ops.iter().map(describe).collect::<Vec<_>>().join("; "))
}

/// Searches all sequences of up to `longest` operations of `alphabet`. `every` = n runs one
/// sequence in n. The number of threads does not change the result.
pub fn search<S: SimSubject>(
    setup: S::Setup,
    alphabet: &[Op],
    longest: u32,
    every: usize,
    jobs: usize,
) -> (SearchTotals, Vec<SequenceViolation>)
where
    S::Setup: Sync + Send,
{
    let start = match start::<S>(setup) {
        Ok(start) => start,
        Err(violation) => {
            return (
                SearchTotals::default(),
                vec![SequenceViolation { sequence: "initial state".to_owned(), crash_at: None, violation }],
            );
        }
    };
    let mut cases: Vec<(Vec<Op>, SubmitMode)> = Vec::new();
    for length in 1..=longest {
        for number in 0..alphabet.len().pow(length) {
            let ops: Vec<Op> = (0..length)
                .map(|place| alphabet[number / alphabet.len().pow(place) % alphabet.len()].clone())
                .collect();
            cases.push((ops.clone(), SubmitMode::Together));
            cases.push((ops, SubmitMode::OneByOne));
        }
    }
    let cases: Vec<_> = cases.into_iter().step_by(every.max(1)).collect();
    let next = AtomicUsize::new(0);
    let found: Mutex<(SearchTotals, Vec<(usize, SequenceViolation)>)> = Mutex::new(Default::default());
    let work = || {
        let mut searched = SearchTotals::default();
        while let Some((number, (ops, mode))) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, cases.get(n)?)))
        {
            if let Err(broken) = start.search(ops, *mode, number as u64, &mut searched) {
                found.lock().unwrap_or_else(PoisonError::into_inner).1.push((number, broken));
            }
        }
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        found.0.sequences += searched.sequences;
        found.0.crashes += searched.crashes;
    };
    std::thread::scope(|scope| {
        (1..jobs.max(1)).for_each(|_| {
            scope.spawn(work);
        });
        work();
    });
    let (searched, mut broken) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    broken.sort_by_key(|(number, _)| *number);
    (searched, broken.into_iter().map(|(_, broken)| broken).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faulty_model::{ANSWERS_BEFORE_COMMIT, CORRECT, DROPS_LAST_OP, FaultyModel};

    fn model_setup<S: SimSubject>() -> S::Setup {
        S::draw(&mut Rng::new(5))
    }

    #[test]
    fn exhaustive_search_passes_a_correct_model() {
        let (searched, broken) =
            search::<FaultyModel<CORRECT>>(model_setup::<FaultyModel<CORRECT>>(), &alphabet(), 2, 5, 2);
        assert_eq!(broken, Vec::new());
        assert!(searched.crashes > 2 * searched.sequences, "{searched:?}");
    }

    #[test]
    fn exhaustive_search_detects_faulty_models() {
        let broken = search::<FaultyModel<ANSWERS_BEFORE_COMMIT>>(
            model_setup::<FaultyModel<ANSWERS_BEFORE_COMMIT>>(),
            &alphabet(),
            1,
            1,
            1,
        )
        .1;
        assert!(!broken.is_empty());
        let broken =
            search::<FaultyModel<DROPS_LAST_OP>>(model_setup::<FaultyModel<DROPS_LAST_OP>>(), &alphabet(), 2, 3, 2).1;
        assert!(broken.iter().all(|broken| broken.sequence.starts_with("Together")) && !broken.is_empty());
    }
}
