//! Executes one run: creates, uses, crashes, recovers and checks an array several times.

use crate::disk::{DriveBug, Faults, SimDisk};
use crate::history::{History, SimViolation, ToleratedErrors, describe};
use crate::inspect::inspect;
use crate::machine::{Answers, SimMachine};
use crate::ops::Mix;
use crate::state::summary;
use crate::subject::{SimScale, SimSubject};
use engine::OpError;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use testing::Rng;

/// Background steps that are enough for a checkpoint of such a small array.
const TICKS_OF_A_CHECKPOINT: u32 = 40;
/// Maximum checkpoints before space accounting is compared. The second one sees the effect of the
/// first; more are needed only if the cleaner has moved data since.
const CHECKPOINTS_TO_REST: u32 = 8;
/// Recovery attempts that another crash may interrupt. The next attempt is not interrupted.
const INTERRUPTED_RECOVERIES: u32 = 3;

/// A bug injected into the drive, to show that the simulator detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum InjectedBug {
    /// Do not flush writes to the log.
    SkipLogFlush,
    /// Do not flush writes to the superblock.
    SkipSuperblockFlush,
    /// Omit the flush before the superblock write.
    SkipCheckpointFlush,
    /// Omit one flush in three.
    SkipSomeFlushes,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// Seed of all random decisions of the run.
    pub seed: u64,
    /// Injected bug.
    pub bug: Option<InjectedBug>,
    /// Numbers of operations to omit, to shorten a trace.
    pub skip: BTreeSet<u64>,
    /// Record a trace.
    pub is_traced: bool,
}

impl RunPlan {
    /// Plans the run of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, bug: None, skip: BTreeSet::new(), is_traced: false }
    }
}

/// Counters of one run or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Runs.
    pub runs: u64,
    /// Crashes, including those during recovery.
    pub crashes: u64,
    /// Crashes during recovery.
    pub crashes_in_recovery: u64,
    /// Operations submitted.
    pub submitted: u64,
    /// Operations answered.
    pub answered: u64,
    /// Operations refused for lack of space.
    pub refused: u64,
    /// Unanswered operations that were present after a crash.
    pub present: u64,
    /// Unanswered operations that were absent after a crash.
    pub absent: u64,
    /// Drive failures.
    pub failures: u64,
    /// Writes, flushes and allocations.
    pub ios: u64,
    /// Arrays checked by fsck after a crash.
    pub fscks: u64,
    /// Comparisons of space accounting with the stored data.
    pub accounting_checks: u64,
}

impl Totals {
    /// Adds the counters of `other`.
    pub fn add(&mut self, other: &Totals) {
        let sums: Vec<u64> = self.counts().iter().zip(other.counts()).map(|(a, b)| a + b).collect();
        *self = Self::from_counts(&sums).unwrap_or(*self);
    }

    /// Returns all counters in the order of their declaration.
    pub fn counts(&self) -> [u64; 12] {
        let Self { runs, crashes, crashes_in_recovery, submitted, answered, refused, .. } = *self;
        let Self { present, absent, failures, ios, fscks, accounting_checks, .. } = *self;
        [
            runs,
            crashes,
            crashes_in_recovery,
            submitted,
            answered,
            refused,
            present,
            absent,
            failures,
            ios,
            fscks,
            accounting_checks,
        ]
    }

    /// Creates totals from counters in that order.
    pub fn from_counts(counts: &[u64]) -> Option<Self> {
        let [runs, crashes, crashes_in_recovery, submitted, answered, refused, rest @ ..] = counts else { return None };
        let [present, absent, failures, ios, fscks, accounting_checks] = rest else { return None };
        Some(Self {
            runs: *runs,
            crashes: *crashes,
            crashes_in_recovery: *crashes_in_recovery,
            submitted: *submitted,
            answered: *answered,
            refused: *refused,
            present: *present,
            absent: *absent,
            failures: *failures,
            ios: *ios,
            fscks: *fscks,
            accounting_checks: *accounting_checks,
        })
    }
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Counters.
    pub totals: Totals,
    /// The violation, if any.
    pub violation: Option<SimViolation>,
    /// Trace, if it was requested.
    pub trace: Vec<String>,
    /// Numbers of the submitted operations.
    pub numbers: Vec<u64>,
}

/// Weights of the simulator's steps, drawn for each cycle.
struct Pace {
    weights: [u64; 8],
    most_unanswered: usize,
    operations: u64,
    steps: u64,
}

impl Pace {
    fn draw(rng: &mut Rng) -> Self {
        let mut weight = |choices: &[u64]| rng.pick(choices);
        // Submit, advance, commit, poll only, tick, write back, checkpoint, grow.
        let weights = [
            weight(&[5, 10, 20]),
            weight(&[2, 5, 20, 40, 80]),
            weight(&[1, 5, 10, 30]),
            weight(&[1, 3]),
            weight(&[0, 1, 3, 10, 30]),
            weight(&[0, 0, 1]),
            weight(&[0, 0, 0, 1]),
            weight(&[0, 0, 0, 0, 1]),
        ];
        let operations = weight(&[2, 10, 30, 60, 100]);
        Self { weights, most_unanswered: weight(&[1, 2, 4, 8, 8]) as usize, operations, steps: operations * 30 }
    }
}

struct Run<'p, S: SimSubject> {
    plan: &'p RunPlan,
    setup: S::Setup,
    scale: SimScale,
    disk: SimDisk,
    history: History,
    mix: Mix,
    rng: Rng,
    next_volume: u64,
    next_number: u64,
    report: &'p mut RunReport,
    /// The drive has returned bad data or read errors.
    has_read_badly: bool,
    /// Some blocks are permanently unreadable, so the array has nothing more to guarantee.
    is_damaged: bool,
}

/// Executes a run. A panic is a violation too.
pub fn run<S: SimSubject>(plan: &RunPlan) -> RunReport {
    let totals = Totals { runs: 1, ..Totals::default() };
    let mut report = RunReport { totals, violation: None, trace: Vec::new(), numbers: Vec::new() };
    let result = catch_unwind(AssertUnwindSafe(|| execute::<S>(plan, &mut report)));
    report.violation = match result {
        Ok(result) => result.err(),
        Err(payload) => {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(SimViolation(format!("panic: {}", text.unwrap_or_default())))
        }
    };
    report
}

fn execute<S: SimSubject>(plan: &RunPlan, report: &mut RunReport) -> Result<(), SimViolation> {
    let mut rng = Rng::new(plan.seed);
    let setup = S::draw(&mut rng);
    let scale = S::scale(&setup);
    let mut run: Run<'_, S> = Run {
        plan,
        disk: SimDisk::new(scale.disk_bytes, rng.next_u64()),
        history: History::default(),
        mix: Mix::draw(&mut rng, scale.max_write_blocks),
        rng,
        next_volume: 0,
        next_number: 0,
        report,
        setup,
        scale,
        has_read_badly: false,
        is_damaged: false,
    };
    run.note(|| format!("seed {}", plan.seed));
    let setup = format!("{:?} {:?}", run.setup, run.mix);
    run.note(|| setup);
    let result = run.cycles();
    run.report.totals.answered = run.history.judged;
    result
}

impl<S: SimSubject> Run<'_, S> {
    fn note(&mut self, what: impl FnOnce() -> String) {
        if self.plan.is_traced {
            self.report.trace.push(what());
        }
    }

    fn faults(&self) -> Faults {
        let (from, to) = S::log_extent(&self.setup);
        let bug = self.plan.bug.map(|bug| match bug {
            InjectedBug::SkipLogFlush => DriveBug::Durable { from, to },
            InjectedBug::SkipSuperblockFlush => DriveBug::Durable { from: 0, to: from },
            InjectedBug::SkipCheckpointFlush => DriveBug::Flush,
            InjectedBug::SkipSomeFlushes => DriveBug::SomeFlushes(3),
        });
        Faults { bug, space: self.scale.space, ..Faults::default() }
    }

    fn cycles(&mut self) -> Result<(), SimViolation> {
        self.history.tolerated.full = self.scale.may_fill;
        self.disk.arm(self.faults());
        S::create(&self.disk, &self.setup).map_err(|error| SimViolation(format!("array creation failed: {error}")))?;
        for _ in 0..self.rng.between(1, 4) {
            let disk = std::mem::replace(&mut self.disk, SimDisk::new(0, 0));
            let result = self.cycle(&disk);
            let result = result.and_then(|()| disk.violation().map_or(Ok(()), |what| Err(SimViolation(what))));
            self.disk = disk;
            result?;
            if self.is_damaged {
                return Ok(());
            }
        }
        let disk = std::mem::replace(&mut self.disk, SimDisk::new(0, 0));
        self.recover(&disk).map(|_| ())
    }

    /// Recovers and checks the array, then works until the next crash.
    fn cycle(&mut self, disk: &SimDisk) -> Result<(), SimViolation> {
        let mut machine = self.recover(disk)?;
        if self.is_damaged {
            return Ok(());
        }
        machine.notes = self.plan.is_traced.then(Vec::new);
        let pace = Pace::draw(&mut self.rng);
        let mut faults = self.faults();
        // After a start the engine prepares segments first. Most faults should hit later accesses.
        let at = self.rng.below(64) + self.rng.size(pace.operations * 3);
        match self.rng.below(10) {
            0..4 => faults.crash_at = Some(at),
            4 => faults.error_at = Some(at),
            5 => faults.bad = self.places(),
            6 => faults.rotten = self.places(),
            _ => {}
        }
        self.has_read_badly |= !faults.bad.is_empty() || !faults.rotten.is_empty();
        let is_failing = faults.error_at.is_some() || !faults.bad.is_empty() || !faults.rotten.is_empty();
        self.history.tolerated = ToleratedErrors { full: self.scale.may_fill, drive_failing: is_failing };
        self.note(|| format!("-- work, {} operations, faults {faults:?}", pace.operations));
        disk.arm(faults.clone());
        let result = self.work(disk, &mut machine, &pace);
        self.report.totals.ios += disk.done();
        self.drain_notes(&mut machine);
        result?;
        self.note(|| "-- crash".to_owned());
        disk.crash();
        self.report.totals.crashes += 1;
        self.fsck(disk)
    }

    /// Checks with fsck that a crash leaves no damage, unless the drive has read badly.
    fn fsck(&mut self, disk: &SimDisk) -> Result<(), SimViolation> {
        if self.has_read_badly || self.plan.bug.is_some() {
            return Ok(());
        }
        self.report.totals.fscks += 1;
        S::fsck(disk).map_err(|what| SimViolation(format!("fsck after the crash: {what}")))
    }

    /// Draws a few byte ranges after the log.
    fn places(&mut self) -> Vec<(u64, u64)> {
        let (_, from) = S::log_extent(&self.setup);
        let mut places = Vec::new();
        for _ in 0..self.rng.between(1, 4) {
            let start = self.rng.between(from.min(self.scale.disk_bytes - 1), self.scale.disk_bytes - 1);
            places.push((start, start + self.rng.size(256 << 10)));
        }
        places
    }

    fn drain_notes(&mut self, machine: &mut SimMachine<'_, S>) {
        if let Some(notes) = &mut machine.notes {
            self.report.trace.append(notes);
        }
    }

    /// Opens the array after a crash and checks all of it. Further crashes may interrupt recovery.
    fn recover<'d>(&mut self, disk: &'d SimDisk) -> Result<SimMachine<'d, S>, SimViolation> {
        for attempt in 0..=INTERRUPTED_RECOVERIES {
            let mut faults = self.faults();
            if attempt < INTERRUPTED_RECOVERIES && self.rng.percent(30) {
                faults.crash_at = Some(self.rng.size(5));
            }
            disk.arm(faults);
            match S::recover(disk, &self.setup) {
                Ok(subject) if !disk.is_crashed() => {
                    if let Some(machine) = self.check(disk, subject)? {
                        return Ok(machine);
                    }
                }
                Err(error) if !disk.is_crashed() => return Err(SimViolation(format!("recovery failed: {error}"))),
                _ => {}
            }
            self.note(|| "-- crash in recovery".to_owned());
            disk.crash();
            self.report.totals.crashes += 1;
            self.report.totals.crashes_in_recovery += 1;
        }
        Err(SimViolation::new("last recovery attempt stopped without an injected fault"))
    }

    /// Compares a recovered array with the allowed states. Returns `None` if the drive stops.
    fn check<'d>(&mut self, disk: &'d SimDisk, subject: S) -> Result<Option<SimMachine<'d, S>>, SimViolation> {
        subject.audit(disk).map_err(|what| SimViolation(format!("audit after recovery: {what}")))?;
        let mut machine = SimMachine::new(subject, disk);
        let Some(found) = inspect(&mut machine, &mut self.history.contents, self.next_volume, self.has_read_badly)?
        else {
            return Ok(None);
        };
        self.is_damaged = found.unreadable > 0;
        let outcome = self.history.recover(&found.state)?;
        self.note(|| format!("-- recovered: {} operations present, {} absent", outcome.present, outcome.absent));
        self.report.totals.present += outcome.present;
        self.report.totals.absent += outcome.absent;
        Ok(Some(machine))
    }

    /// Executes random steps until the operations are used up or the drive stops.
    fn work(&mut self, disk: &SimDisk, machine: &mut SimMachine<'_, S>, pace: &Pace) -> Result<(), SimViolation> {
        let mut left = pace.operations;
        for _ in 0..pace.steps {
            let mut answers = Answers::new();
            match self.rng.weighted(&pace.weights) {
                0 if left > 0 && self.history.unanswered() < pace.most_unanswered => {
                    left -= 1;
                    self.submit(machine);
                }
                1 => machine.advance(Some(&mut self.rng), &mut answers),
                2 => machine.subject.flush_log(),
                4 => machine.subject.tick(),
                5 => disk.write_back(),
                6 => machine.subject.checkpoint(),
                7 => {
                    let selector = self.rng.next_u64();
                    self.note(|| "-- grow".to_owned());
                    machine.subject.grow(selector);
                }
                _ => {}
            }
            machine.poll(&mut answers);
            self.drain_notes(machine);
            if disk.is_crashed() {
                self.drain_notes(machine);
                return Ok(());
            }
            if self.take(machine, answers)? {
                // The engine has stopped, as it must after a drive error.
                self.report.totals.failures += 1;
                return Ok(());
            }
        }
        match self.rng.below(10) {
            0..3 => self.rest(disk, machine),
            3..7 => self.end_in_a_commit(machine),
            _ => Ok(()),
        }
    }

    /// Commits pending operations without reporting anything back.
    fn end_in_a_commit(&mut self, machine: &mut SimMachine<'_, S>) -> Result<(), SimViolation> {
        let mut answers = Answers::new();
        machine.subject.flush_log();
        machine.poll(&mut answers);
        self.take(machine, answers)?;
        machine.do_all();
        Ok(())
    }

    fn submit(&mut self, machine: &mut SimMachine<'_, S>) {
        let number = self.next_number;
        self.next_number += 1;
        let mut rng = Rng::part(self.plan.seed, number);
        let op = if self.next_volume == 0 {
            self.mix.first(&mut rng, &mut self.next_volume)
        } else {
            self.mix.next(&mut rng, self.history.latest(), &self.history.contents, &mut self.next_volume)
        };
        if self.plan.skip.contains(&number) {
            return;
        }
        self.drain_notes(machine);
        self.note(|| format!("{number} submit {}", describe(&op)));
        self.report.numbers.push(number);
        self.report.totals.submitted += 1;
        self.history.submit(number, &op);
        machine.subject.submit(op, number);
    }

    /// Checks replies. Returns whether the engine has stopped.
    fn take(&mut self, machine: &mut SimMachine<'_, S>, answers: Answers) -> Result<bool, SimViolation> {
        self.drain_notes(machine);
        let mut has_stopped = false;
        for (tag, answer) in answers {
            self.note(|| format!("{tag} answered {}", summary(&answer)));
            has_stopped |= matches!(answer, Err(OpError::Stopped(_)));
            self.report.totals.refused += u64::from(matches!(answer, Err(OpError::NoSpace)));
            self.history.complete(tag, &answer)?;
        }
        Ok(has_stopped)
    }

    /// Waits until nothing is in flight, then checks the complete state of the array.
    fn rest(&mut self, disk: &SimDisk, machine: &mut SimMachine<'_, S>) -> Result<(), SimViolation> {
        let mut answers = Answers::new();
        let waiting = self.history.unanswered();
        machine.settle(&mut answers, |answers| answers.len() >= waiting)?;
        if disk.is_crashed() || self.take(machine, answers)? {
            return Ok(());
        }
        if self.history.tolerated.drive_failing {
            return Ok(());
        }
        machine.subject.audit(disk).map_err(|what| SimViolation(format!("audit at rest: {what}")))?;
        self.check_accounting(disk, machine)?;
        self.note(|| "-- at rest".to_owned());
        match inspect(machine, &mut self.history.contents, self.next_volume, false)? {
            Some(found) => self.history.recover(&found.state).map(|_| ()),
            None => Ok(()),
        }
    }
}

impl<S: SimSubject> Run<'_, S> {
    /// Takes checkpoints with nothing in flight until the cleaner stops moving data, then compares
    /// space accounting with the stored data.
    fn check_accounting(&mut self, disk: &SimDisk, machine: &mut SimMachine<'_, S>) -> Result<(), SimViolation> {
        let (mut compared, mut selector) = (Ok(()), None);
        for checkpoint in 1..=CHECKPOINTS_TO_REST {
            let mut answers = Answers::new();
            machine.subject.checkpoint();
            for _ in 0..TICKS_OF_A_CHECKPOINT {
                machine.settle(&mut answers, |_| true)?;
                machine.subject.tick();
            }
            machine.settle(&mut answers, |_| true)?;
            if disk.is_crashed() || self.has_read_badly || self.take(machine, answers)? {
                return Ok(());
            }
            if checkpoint > 1 {
                let selector = *selector.get_or_insert_with(|| self.rng.next_u64());
                compared = machine.subject.check_accounting(disk, selector);
                if compared.is_ok() || machine.subject.is_settled() {
                    break;
                }
            }
        }
        self.report.totals.accounting_checks += 1;
        compared.map_err(|what| SimViolation(format!("space accounting at rest: {what}")))
    }
}

/// Returns the kind of a violation: its first characters without digits.
fn kind(violation: &SimViolation) -> String {
    violation.0.chars().filter(|c| !c.is_ascii_digit()).take(30).collect()
}

/// Omits operations as long as the violation remains, within `budget` runs. Returns the shortened
/// plan.
pub fn shrink<S: SimSubject>(plan: &RunPlan, budget: u32) -> RunPlan {
    let mut best = plan.clone();
    let whole = run::<S>(&best);
    let mut numbers = whole.numbers;
    let kind = whole.violation.as_ref().map(kind);
    let mut runs = 0;
    let mut piece = numbers.len().div_ceil(2).max(1);
    while runs < budget {
        let mut at = 0;
        while at < numbers.len() && runs < budget {
            let mut tried = best.clone();
            tried.skip.extend(numbers[at..(at + piece).min(numbers.len())].iter().filter(|number| **number > 0));
            let report = run::<S>(&tried);
            runs += 1;
            if report.violation.as_ref().map(self::kind) == kind && report.numbers.len() < numbers.len() {
                best = tried;
                numbers = report.numbers;
            } else {
                at += piece;
            }
        }
        if piece == 1 {
            break;
        }
        piece = piece.div_ceil(2);
    }
    best
}

#[cfg(test)]
mod tests;
