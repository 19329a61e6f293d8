//! One array of a pair: its drive, its core while it runs, and the records that it was given.

use super::catalog::{Catalog, catalog_after};
use super::contents::{Entry, PairContents};
use crate::disk::{Faults, SimDisk};
use crate::engine_subject::{EngineSetup, EngineSubject};
use crate::history::SimViolation;
use crate::machine::{Answers, SimMachine};
use crate::subject::SimSubject;
use engine::{Core, StreamEvent};
use testing::Rng;
use types::{Period, Position};

/// Most steps that end the accesses in flight.
const MOST_DRAINED: u32 = 500;

/// One array.
pub(super) struct Node<'a> {
    disk: &'a SimDisk,
    pub(super) setup: EngineSetup,
    machine: Option<SimMachine<'a, EngineSubject>>,
    /// Everything that the array was given, in order.
    pub(super) entries: Vec<Entry>,
    /// Entries that must survive a crash: reported as durable, or answered to a host.
    pub(super) promised: usize,
    /// Position that the array has last reported as durable.
    pub(super) durable: Position,
}

impl<'a> Node<'a> {
    /// Creates an array, and opens it.
    pub(super) fn create(disk: &'a SimDisk, setup: EngineSetup) -> Result<Self, SimViolation> {
        EngineSubject::create(disk, &setup).map_err(SimViolation)?;
        let mut node = Self { disk, setup, machine: None, entries: Vec::new(), promised: 0, durable: Position(0) };
        node.open()?;
        Ok(node)
    }

    /// Opens the array. False if the drive has stopped in between.
    pub(super) fn open(&mut self) -> Result<bool, SimViolation> {
        match EngineSubject::recover(self.disk, &self.setup) {
            Ok(subject) => {
                self.machine = Some(SimMachine::new(subject, self.disk));
                Ok(true)
            }
            Err(_) if self.disk.is_crashed() => Ok(false),
            Err(error) => Err(SimViolation(format!("the array does not open: {error}"))),
        }
    }

    /// Stops the drive at its n-th access from now.
    pub(super) fn arm(&self, crash_at: Option<u64>) {
        self.disk.arm(Faults { crash_at, ..Faults::default() });
    }

    pub(super) fn is_up(&self) -> bool {
        self.machine.is_some()
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.is_up() && self.disk.is_crashed()
    }

    /// Ends the array: the process alone, or with it the power.
    pub(super) fn stop(&mut self, is_process_only: bool) {
        self.machine = None;
        if is_process_only { self.disk.kill_process() } else { self.disk.crash() }
    }

    /// Returns the core of an array that runs.
    pub(super) fn core(&mut self) -> Result<&mut Core, SimViolation> {
        let machine = self.machine.as_mut().ok_or_else(|| SimViolation::new("the array does not run"))?;
        Ok(machine.subject.core())
    }

    /// Does one step of the array: of its I/O, of its log, or of its background work.
    pub(super) fn step(&mut self, rng: &mut Rng, answers: &mut Answers) {
        let Some(machine) = &mut self.machine else { return };
        match rng.weighted(&[12, 3, 1]) {
            0 => machine.advance(Some(rng), answers),
            1 => machine.subject.flush_log(),
            _ => machine.subject.tick(),
        }
        machine.pass_time();
        machine.poll(answers);
    }

    /// Ends all accesses and computations in flight. False if that takes too many steps.
    pub(super) fn drain(&mut self, answers: &mut Answers) -> bool {
        let Some(machine) = &mut self.machine else { return false };
        (0..MOST_DRAINED).any(|_| {
            machine.poll(answers);
            machine.advance(None, answers);
            machine.is_idle()
        })
    }

    /// Does a step of the array's I/O and of its log, without background work. Reads of pages
    /// fail. Returns how many have failed.
    pub(super) fn step_blind(&mut self, answers: &mut Answers) -> u64 {
        let Some(machine) = &mut self.machine else { return 0 };
        let failed = machine.failed_reads;
        machine.fail_page_reads(true);
        machine.poll(answers);
        machine.advance(None, answers);
        machine.subject.flush_log();
        machine.poll(answers);
        machine.fail_page_reads(false);
        machine.failed_reads - failed
    }

    /// Returns the news of the stream, and passes new requests of the core on.
    pub(super) fn collect(&mut self, answers: &mut Answers) -> Vec<StreamEvent> {
        let Some(machine) = &mut self.machine else { return Vec::new() };
        machine.poll(answers);
        std::iter::from_fn(|| machine.subject.core().next_stream_event()).collect()
    }

    /// Notes a record that the array was given, or the beginning of a period.
    pub(super) fn given(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// Checks that the array has exactly the values of its records.
    pub(super) fn check_values(&mut self) -> Result<(), SimViolation> {
        let expected = catalog_after(&self.entries);
        let values = self.core()?.scan(b"");
        let found: Catalog = values.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        if found == expected {
            return Ok(());
        }
        let all = expected.keys().chain(found.keys());
        let wrong: Vec<_> = all.filter(|key| expected.get(*key) != found.get(*key)).collect();
        let wrong: Vec<_> = wrong.into_iter().map(|key| String::from_utf8_lossy(key)).collect();
        Err(SimViolation(format!("values that are not those of the records: {wrong:?}")))
    }

    /// Returns the number of entries up to the newest one with this position.
    pub(super) fn count_to(&self, position: Position) -> Option<usize> {
        let found = self.entries.iter().rposition(|entry| entry.position == position).map(|index| index + 1);
        found.or_else(|| (position == Position(0)).then_some(0))
    }

    /// The entries up to this position must survive.
    pub(super) fn promise(&mut self, position: Position, what: &str) -> Result<(), SimViolation> {
        let Some(count) = self.count_to(position) else {
            return Err(SimViolation(format!("{what} of position {position}, which an array does not have")));
        };
        self.promised = self.promised.max(count);
        Ok(())
    }

    /// Cuts the entries to those that the array has applied, whose last one is this: after a
    /// restart, or when records that it was given were dropped.
    pub(super) fn cut_to(&mut self, period: Period, position: Position) -> Result<(), SimViolation> {
        let is_last = |entry: &Entry| (entry.period, entry.position) == (period, position);
        let found = self.entries.iter().rposition(is_last).map(|index| index + 1);
        let Some(count) = found.or_else(|| (position == Position(0)).then_some(0)) else {
            return Err(SimViolation(format!("last record never was: {period} {position}")));
        };
        // Periods that began without a record may be unknown after a restart.
        let lost = self.entries.get(count..self.promised).unwrap_or_default();
        if lost.iter().any(Entry::has_effect) {
            let last = self.entries[self.promised - 1].position;
            return Err(SimViolation(format!("promised up to {last}, the array has records up to {position}")));
        }
        self.entries.truncate(count);
        self.promised = self.promised.min(count);
        Ok(())
    }

    /// Returns what the volumes must hold.
    pub(super) fn expected(&self) -> PairContents {
        PairContents::after(&self.entries)
    }

    /// Checks the drive with independent code, while the array does not run.
    pub(super) fn fsck(&self) -> Result<(), SimViolation> {
        EngineSubject::fsck(self.disk).map_err(|what| SimViolation(format!("fsck: {what}")))
    }

    /// Checks the invariants of the core.
    pub(super) fn audit(&mut self) -> Result<(), SimViolation> {
        let disk = self.disk;
        let Some(machine) = &self.machine else { return Ok(()) };
        machine.subject.audit(disk).map_err(|what| SimViolation(format!("audit: {what}")))
    }

    /// Returns the first misuse of the drive.
    pub(super) fn misuse(&self) -> Result<(), SimViolation> {
        self.disk.violation().map_or(Ok(()), |what| Err(SimViolation(what)))
    }
}
