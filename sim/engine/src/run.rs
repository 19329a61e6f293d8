//! Executes one run: creates, uses, crashes, recovers and checks an array several times.

use crate::disk::SimDisk;
use crate::faults::FaultProfile;
use crate::history::{History, SimViolation, ToleratedErrors, describe};
use crate::injected_bug::InjectedBug;
use crate::inspect::inspect;
use crate::machine::{Answers, SimMachine};
use crate::ops::Mix;
use crate::state::summary;
use crate::subject::{OpenError, SimScale, SimSubject};
use crate::totals::Totals;
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
/// Percent of recoveries after which a crash hits the idle array. Drawn from a stream of its own,
/// so that the seeds of fixed bugs keep their histories.
const IDLE_CRASH_PERCENT: u64 = 10;
const IDLE_CRASH_STREAM: u64 = u64::MAX - 16;
/// Maximum number of checkpoints that are pinned at a time, to be counted and audited later.
const MOST_PINS: usize = 2;
/// Stream of the decisions of scrubs. One of its own, so that the seeds of fixed bugs keep their
/// histories.
const SCRUB_STREAM: u64 = u64::MAX - 15;

/// Percent of the histories that overwrite a few blocks, with ids that come back soon, while one
/// access or computation in [`HOT_HANGS_IN`] hangs. Drawn from a stream of its own, so that the
/// others keep their histories.
const HOT_PERCENT: u64 = 8;
const HOT_STREAM: u64 = u64::MAX - 17;
const HOT_HANGS_IN: u64 = 4;
/// Simulated time of one step of these histories: most hung items end before the next crash.
const HOT_STEP_MS: u64 = 500;

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
    weights: [u64; 9],
    most_unanswered: usize,
    operations: u64,
    steps: u64,
}

impl Pace {
    fn draw(rng: &mut Rng) -> Self {
        let mut weight = |choices: &[u64]| rng.pick(choices);
        // Submit, advance, commit, poll only, tick, write back, checkpoint, grow, census.
        let weights = [
            weight(&[5, 10, 20]),
            weight(&[2, 5, 20, 40, 80]),
            weight(&[1, 5, 10, 30]),
            weight(&[1, 3]),
            weight(&[0, 1, 3, 10, 30]),
            weight(&[0, 0, 1]),
            weight(&[0, 0, 0, 1]),
            weight(&[0, 0, 0, 0, 1]),
            weight(&[0, 0, 0, 1]),
        ];
        let operations = weight(&[2, 10, 30, 60, 100]);
        let most_unanswered = weight(&[1, 2, 4, 8, 8, 64]) as usize;
        Self { weights, most_unanswered, operations, steps: operations * 30 }
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
    profile: FaultProfile,
    /// Pinned checkpoints, to be counted and audited later.
    pins: Vec<S::Pinned>,
    /// A scrub between two of its steps.
    scrub: Option<S::Scrub>,
    /// Percent of the steps at which a scrub does one of its own.
    scrub_percent: u64,
    /// Selects the segment and the time of scrubs.
    scrub_rng: Rng,
    /// Number of places of the drive that were damaged.
    damages: u64,
    /// The damage includes the log, whose operations may be lost.
    has_damaged_log: bool,
    /// Byte range of the damage in a superblock copy. A crash can tear a second copy.
    damaged_superblock: Option<(u64, u64)>,
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
    let mut setup = S::draw(&mut rng);
    if let Some(bug) = plan.bug {
        S::inject(&mut setup, bug);
    }
    let is_hot = plan.bug == Some(InjectedBug::RepeatTickets) || Rng::part(plan.seed, HOT_STREAM).percent(HOT_PERCENT);
    if is_hot {
        S::reuse_ids(&mut setup);
    }
    let scale = S::scale(&setup);
    let mut profile = FaultProfile::draw(&mut rng, S::log_extent(&setup), scale, plan.bug);
    if is_hot {
        (profile.delays.one_hangs_in, profile.delays.step_ms) = (HOT_HANGS_IN, HOT_STEP_MS);
    }
    let mut scrub_rng = Rng::part(plan.seed, SCRUB_STREAM);
    let mut run: Run<'_, S> = Run {
        plan,
        disk: SimDisk::new(scale.disk_bytes, rng.next_u64()),
        history: History::default(),
        mix: Mix::draw(&mut rng, scale.max_write_blocks, is_hot),
        rng,
        next_volume: 0,
        next_number: 0,
        report,
        setup,
        scale,
        profile,
        pins: Vec::new(),
        scrub: None,
        scrub_percent: scrub_rng.pick(&[0, 0, 0, 10, 50]),
        scrub_rng,
        damages: 0,
        has_damaged_log: false,
        damaged_superblock: None,
        has_read_badly: false,
        is_damaged: false,
    };
    run.note(|| format!("seed {}", plan.seed));
    run.disk.set_unit(profile.unit);
    run.disk.watch((0, scale.disk_bytes));
    run.history.set_write_cache(scale.write_cache);
    let setup = format!("{:?} {:?} {profile:?}", run.setup, run.mix);
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

    fn cycles(&mut self) -> Result<(), SimViolation> {
        self.history.tolerated.full = self.scale.may_fill;
        self.disk.arm(self.profile.armed(false));
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
        let Some(mut machine) = self.recover(disk)? else { return Ok(()) };
        if self.is_damaged {
            return Ok(());
        }
        machine.notes = self.plan.is_traced.then(Vec::new);
        machine.set_delays(self.profile.delays, self.rng.next_u64());
        let pace = Pace::draw(&mut self.rng);
        let mut faults = self.profile.armed(false);
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
        let damaged = self.damages > 0;
        self.history.tolerated = ToleratedErrors { full: self.scale.may_fill, drive_failing: is_failing, damaged };
        self.note(|| format!("-- work, {} operations, faults {faults:?}", pace.operations));
        disk.arm(faults.clone());
        let result = self.work(disk, &mut machine, &pace);
        self.report.totals.ios += disk.done();
        self.report.totals.hung += machine.hung;
        self.report.totals.recompressions += u64::from(machine.subject.has_recompressed());
        self.drain_notes(&mut machine);
        result?;
        self.pins.clear();
        self.scrub = None;
        self.crash(disk);
        self.fsck(disk)
    }

    /// Ends the process or fails the power, and damages the drive.
    fn crash(&mut self, disk: &SimDisk) {
        if self.rng.percent(self.profile.process_crashes) {
            self.note(|| "-- crash of the process".to_owned());
            disk.kill_process();
            self.report.totals.process_crashes += 1;
        } else {
            self.note(|| "-- crash".to_owned());
            disk.crash();
        }
        self.report.totals.crashes += 1;
        if self.rng.percent(self.profile.damage) {
            self.damage(disk);
        }
    }

    fn damage(&mut self, disk: &SimDisk) {
        let Some((range, kind)) = self.profile.damage(disk, &mut self.rng) else { return };
        self.note(|| format!("-- damage {range:?} {kind:?}"));
        let log = S::log_extent(&self.setup);
        self.has_damaged_log |= (log.0..log.1).contains(&range.0);
        if range.0 < log.0 {
            self.damaged_superblock = Some(range);
        }
        self.damages += 1;
        self.report.totals.damages += 1;
        self.has_read_badly = true;
        self.history.tolerated.damaged = true;
    }

    /// Checks with fsck that a crash leaves no damage, unless the drive has read badly. On a drive
    /// with damage, fsck must only end without a panic.
    fn fsck(&mut self, disk: &SimDisk) -> Result<(), SimViolation> {
        if self.has_read_badly || self.plan.bug.is_some() {
            if self.damages > 0 {
                drop(S::fsck(disk));
            }
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
    /// Returns `None` if the array refuses to open because of damage.
    fn recover<'d>(&mut self, disk: &'d SimDisk) -> Result<Option<SimMachine<'d, S>>, SimViolation> {
        for attempt in 0..=INTERRUPTED_RECOVERIES {
            let mut faults = self.profile.armed(true);
            if attempt < INTERRUPTED_RECOVERIES && self.rng.percent(30) {
                faults.crash_at = Some(self.rng.size(5));
            }
            disk.arm(faults);
            match S::recover(disk, &self.setup) {
                Ok(subject) if !disk.is_crashed() => {
                    if let Some(machine) = self.check(disk, subject)? {
                        // Hosts have read everything, and nothing was written since: a crash now
                        // must lose none of it.
                        let is_last = attempt == INTERRUPTED_RECOVERIES;
                        let mut stream = Rng::part(self.rng.clone().next_u64(), IDLE_CRASH_STREAM);
                        if is_last || !stream.percent(IDLE_CRASH_PERCENT) {
                            return Ok(Some(machine));
                        }
                    }
                }
                Err(error) if !disk.is_crashed() => return self.check_closed(disk, &error).map(|()| None),
                _ => {}
            }
            self.note(|| "-- crash in recovery".to_owned());
            self.crash(disk);
            self.report.totals.crashes_in_recovery += 1;
        }
        Err(SimViolation::new("last recovery attempt stopped without an injected fault"))
    }

    /// Checks that an array has a reason not to open: a loss in the log, or several damaged places.
    /// One damaged place outside of the log has a good copy. For a superblock copy that is so
    /// unless a crash interrupted the update of the others.
    fn check_closed(&mut self, disk: &SimDisk, error: &OpenError) -> Result<(), SimViolation> {
        let may_be_closed = match error {
            OpenError::LogLoss(_) => self.has_damaged_log,
            OpenError::Damaged(_) => {
                let has_no_quorum = self.damaged_superblock.is_some_and(|damaged| !S::has_quorum(disk, damaged));
                self.damages > 1 || self.has_damaged_log || has_no_quorum
            }
            OpenError::Other(_) => false,
        };
        if !may_be_closed {
            return Err(SimViolation(format!("recovery failed with {} damaged places: {error}", self.damages)));
        }
        self.note(|| format!("-- not opened: {error}"));
        self.report.totals.closed += 1;
        self.is_damaged = true;
        disk.arm(self.profile.armed(true));
        if self.damages == 1 && self.has_damaged_log {
            let mut setup = self.setup.clone();
            S::accept_loss(&mut setup);
            let what = |what: String| SimViolation(format!("with the loss in the log accepted: {what}"));
            let subject = S::recover(disk, &setup).map_err(|error| what(format!("recovery failed: {error}")))?;
            subject.audit(disk).map_err(what)?;
        }
        Ok(())
    }

    /// Compares a recovered array with the allowed states. Returns `None` if the drive stops.
    fn check<'d>(&mut self, disk: &'d SimDisk, subject: S) -> Result<Option<SimMachine<'d, S>>, SimViolation> {
        if self.damages <= 1 {
            subject.audit(disk).map_err(|what| SimViolation(format!("audit after recovery: {what}")))?;
        }
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
                8 => self.pin_or_count(disk, machine)?,
                _ => {}
            }
            if self.scrub_rng.percent(self.scrub_percent) {
                self.scrub(disk, machine)?;
            }
            machine.pass_time();
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
        // A count or a scrub that does not end keeps segments from being reused, and so stops a
        // full array.
        self.scrub = None;
        while !self.pins.is_empty() {
            self.count_pinned(disk)?;
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
        if self.plan.skip.contains(&number) || !self.history.can_submit(&op) {
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
        if self.history.tolerated.drive_failing || self.damages > 1 {
            return Ok(());
        }
        machine.subject.audit(disk).map_err(|what| SimViolation(format!("audit at rest: {what}")))?;
        self.check_accounting(disk, machine)?;
        self.note(|| "-- at rest".to_owned());
        match inspect(machine, &mut self.history.contents, self.next_volume, self.damages > 0)? {
            Some(found) => self.history.compare_at_rest(&found.state),
            None => Ok(()),
        }
    }
}

impl<S: SimSubject> Run<'_, S> {
    /// Pins the newest checkpoint, or counts and audits one that was pinned long before. Operations
    /// and background work continue in between.
    fn pin_or_count(&mut self, disk: &SimDisk, machine: &mut SimMachine<'_, S>) -> Result<(), SimViolation> {
        if self.pins.len() < MOST_PINS {
            self.note(|| "-- checkpoint pinned".to_owned());
            self.pins.push(machine.subject.pin());
        } else if self.rng.percent(15) {
            self.count_pinned(disk)?;
        }
        Ok(())
    }

    /// Counts and audits the checkpoint that was pinned first, and releases it.
    fn count_pinned(&mut self, disk: &SimDisk) -> Result<(), SimViolation> {
        let pinned = self.pins.remove(0);
        if self.has_read_badly {
            return Ok(());
        }
        let selector = self.rng.next_u64();
        let result = S::count_pinned(&pinned, disk, selector);
        if disk.is_crashed() {
            return Ok(());
        }
        let is_counted =
            result.map_err(|what| SimViolation(format!("count and audit of a pinned checkpoint: {what}")))?;
        self.report.totals.censuses += u64::from(is_counted);
        Ok(())
    }

    /// Does one step of a scrub. It may report only damage of the drive.
    fn scrub(&mut self, disk: &SimDisk, machine: &mut SimMachine<'_, S>) -> Result<(), SimViolation> {
        let scrub = self.scrub.take();
        let has_begun = scrub.is_some();
        let result = machine.subject.scrub(scrub, disk, self.scrub_rng.next_u64());
        if disk.is_crashed() {
            return Ok(());
        }
        self.scrub = match result {
            Ok(scrub) => scrub,
            Err(damage) if self.has_read_badly => {
                self.note(|| format!("-- scrub: {damage}"));
                None
            }
            Err(damage) => return Err(SimViolation(format!("scrub of an undamaged drive: {damage}"))),
        };
        self.report.totals.scrubs += u64::from(has_begun && self.scrub.is_none());
        Ok(())
    }

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
