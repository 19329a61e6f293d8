//! One running array: a subject, its drive, and everything in flight between them.
//!
//! A drive access is requested, done and reported in three steps, and other steps may come in
//! between. Each step takes simulated time. A hung access, read or computation makes no progress
//! for seconds or minutes of it, while the others continue.

use crate::disk::{Flush, SimDisk, WriteId};
use crate::history::SimViolation;
use crate::subject::{DriveIo, SimAction, SimSubject};
use bytes::Bytes;
use engine::{Op, OpError, Reply, Tag};
use platform::{Disk, DiskError};
use testing::Rng;

/// Steps without progress after which the array counts as hung.
const MAX_IDLE_STEPS: u32 = 4000;
/// First tag of the simulator's own operations.
const OWN_TAGS: Tag = 1 << 60;
/// Simulated time between two slow ticks (ms), as in the engine's shell.
const SLOW_TICK_MS: u64 = 500;
/// Maximum number of slow ticks for one jump of the simulated clock.
const MAX_SLOW_TICKS: u64 = 4;
/// How long an item may hang (ms).
const HANG_MS: [u64; 3] = [5_000, 30_000, 600_000];

enum InFlight<S: SimSubject> {
    /// Planned read for a host.
    Read { tag: Tag, plan: S::Plan },
    /// Planned read for the subject.
    Fetch { id: u64, plan: S::Plan },
    /// Executed read, not reported yet.
    Fetched { id: u64, result: Result<Reply, OpError> },
    /// Computation for the subject.
    Work { id: u64, work: S::Work },
    /// Finished computation, not reported yet.
    Worked { id: u64, done: S::Done },
    /// Requested access, not done yet.
    Asked { id: u64, io: DriveIo, flush: Option<Flush> },
    /// Finished access, not reported yet.
    Done { id: u64, result: Result<Bytes, DiskError>, write: Option<WriteId> },
    /// Requested access whose end was reported before it was done: an injected bug.
    Late { io: DriveIo, flush: Option<Flush> },
}

/// An item in flight. It makes no progress before the time `until` (ms).
struct Item<S: SimSubject> {
    step: InFlight<S>,
    until: u64,
}

/// Delays of a running array.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delays {
    /// Simulated time of each step (ms).
    pub step_ms: u64,
    /// One item in this many hangs; 0 for none.
    pub one_hangs_in: u64,
    /// Inject a bug: report the end of a hung write or flush before it is done.
    pub reports_early: bool,
    /// Inject a bug: fail the reads of the subject.
    pub fails_page_reads: bool,
}

/// Replies, as (tag, reply).
pub type Answers = Vec<(Tag, Result<Reply, OpError>)>;

/// A running array.
pub struct SimMachine<'a, S: SimSubject> {
    /// The system under test.
    pub subject: S,
    disk: &'a SimDisk,
    in_flight: Vec<Item<S>>,
    actions: Vec<SimAction<S>>,
    next_own_tag: Tag,
    delays: Delays,
    /// Decides which items hang and for how long.
    rng: Rng,
    /// Simulated time since the start (ms).
    now: u64,
    next_slow_tick: u64,
    /// Number of items that hung.
    pub hung: u64,
    /// Number of reads of the subject that have failed because of an injected bug, or of
    /// [`SimMachine::fail_page_reads`].
    pub failed_reads: u64,
    /// Notes for the trace, if wanted.
    pub notes: Option<Vec<String>>,
}

impl<'a, S: SimSubject> SimMachine<'a, S> {
    /// Starts with an array that was just recovered.
    pub fn new(subject: S, disk: &'a SimDisk) -> Self {
        Self {
            subject,
            disk,
            in_flight: Vec::new(),
            actions: Vec::new(),
            next_own_tag: OWN_TAGS,
            delays: Delays { step_ms: 1, ..Delays::default() },
            rng: Rng::new(0),
            now: 0,
            next_slow_tick: SLOW_TICK_MS,
            hung: 0,
            failed_reads: 0,
            notes: None,
        }
    }

    /// Sets the delays of the following steps, drawn from a stream with this seed.
    pub fn set_delays(&mut self, delays: Delays, seed: u64) {
        (self.delays, self.rng) = (delays, Rng::new(seed));
    }

    /// Fails the reads of the subject from now on, or no longer.
    pub fn fail_page_reads(&mut self, fails: bool) {
        self.delays.fails_page_reads = fails;
    }

    /// Advances the simulated clock by one step. Calls the subject's slow ticks that are due.
    pub fn pass_time(&mut self) {
        self.now += self.delays.step_ms;
        self.slow_ticks();
    }

    fn slow_ticks(&mut self) {
        let due = (self.now + SLOW_TICK_MS).saturating_sub(self.next_slow_tick) / SLOW_TICK_MS;
        (0..due.min(MAX_SLOW_TICKS)).for_each(|_| self.subject.slow_tick());
        self.next_slow_tick += due * SLOW_TICK_MS;
    }

    /// Advances the simulated clock until an item in flight can make progress.
    fn await_hung(&mut self) {
        let next = self.in_flight.iter().map(|item| item.until).min().unwrap_or(0);
        if next > self.now {
            self.now = next;
            self.note(|| format!("hung access continues at {next} ms"));
            self.slow_ticks();
        }
    }

    fn start(&mut self, step: InFlight<S>) {
        let hangs = self.delays.one_hangs_in > 0 && self.rng.below(self.delays.one_hangs_in) == 0;
        let until = if hangs { self.now + self.rng.pick(&HANG_MS) } else { 0 };
        let step = match step {
            InFlight::Asked { id, io, flush } if hangs => {
                self.note(|| format!("io {id} hangs until {until} ms"));
                let is_early = self.delays.reports_early && !matches!(io, DriveIo::Read { .. });
                if is_early {
                    self.in_flight
                        .push(Item { step: InFlight::Done { id, result: Ok(Bytes::new()), write: None }, until: 0 });
                    InFlight::Late { io, flush }
                } else {
                    InFlight::Asked { id, io, flush }
                }
            }
            step => step,
        };
        self.hung += u64::from(hangs);
        self.in_flight.push(Item { step, until });
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(notes) = &mut self.notes {
            notes.push(what());
        }
    }

    /// Collects the actions that the subject requests.
    pub fn poll(&mut self, answers: &mut Answers) {
        let mut actions = std::mem::take(&mut self.actions);
        self.subject.poll(&mut actions);
        for action in actions.drain(..) {
            match action {
                SimAction::Complete { tag, result } => answers.push((tag, result)),
                SimAction::Read { tag, plan } => self.start(InFlight::Read { tag, plan }),
                SimAction::Fetch { id, plan } => self.start(InFlight::Fetch { id, plan }),
                SimAction::Work { id, work } => self.start(InFlight::Work { id, work }),
                SimAction::Io { id, io } => {
                    self.note(|| format!("io {id} requested: {}", describe_io(&io)));
                    // A flush covers the writes whose end the caller knows when it requests the
                    // flush.
                    let flush = matches!(io, DriveIo::Flush).then(|| self.disk.start_flush());
                    self.start(InFlight::Asked { id, io, flush });
                }
            }
        }
        self.actions = actions;
    }

    /// Returns whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Advances one item in flight by one step: a random one, or the oldest if `rng` is `None`.
    /// Items that hang are left out.
    pub fn advance(&mut self, rng: Option<&mut Rng>, answers: &mut Answers) {
        let now = self.now;
        let is_ready = |item: &Item<S>| item.until <= now;
        let ready = self.in_flight.iter().filter(|item| is_ready(item)).count();
        if ready == 0 {
            return;
        }
        let nth = rng.map_or(0, |rng| rng.index(ready));
        let Some(index) = (0..self.in_flight.len()).filter(|index| is_ready(&self.in_flight[*index])).nth(nth) else {
            return;
        };
        let mut next = None;
        match self.in_flight.remove(index).step {
            InFlight::Read { tag, plan } => answers.push((tag, S::execute(&plan, self.disk))),
            InFlight::Fetch { id, plan } => {
                next = Some(InFlight::Fetched { id, result: S::execute(&plan, self.disk) });
            }
            InFlight::Fetched { id, result } => self.subject.fetched(id, result),
            InFlight::Work { id, work } => {
                next = Some(InFlight::Worked { id, done: S::perform(&work, self.disk) });
            }
            InFlight::Worked { id, done } => self.subject.worked(id, done),
            InFlight::Asked { id, io, flush } => {
                let (result, write) = self.access(io, flush.as_ref());
                self.note(|| {
                    format!("io {id} done{}", result.as_ref().err().map_or(String::new(), |error| format!(": {error}")))
                });
                next = Some(InFlight::Done { id, result, write });
            }
            InFlight::Late { io, flush } => {
                if let (_, Some(write)) = self.access(io, flush.as_ref()) {
                    self.disk.finish_write(write);
                }
            }
            InFlight::Done { id, result, write } => {
                self.note(|| format!("io {id} reported"));
                if let Some(write) = write {
                    self.disk.finish_write(write);
                }
                self.subject.io_done(id, result);
            }
        }
        if let Some(step) = next {
            self.in_flight.insert(index, Item { step, until: 0 });
        }
    }

    /// Does all requested accesses that do not hang but reports none. A crash then finds a drive
    /// that was faster than the array.
    pub fn do_all(&mut self) {
        for Item { step, until } in std::mem::take(&mut self.in_flight) {
            let step = match step {
                InFlight::Asked { id, io, flush } if until <= self.now => {
                    let (result, write) = self.access(io, flush.as_ref());
                    InFlight::Done { id, result, write }
                }
                other => other,
            };
            self.in_flight.push(Item { step, until });
        }
    }

    fn access(&mut self, io: DriveIo, flush: Option<&Flush>) -> (Result<Bytes, DiskError>, Option<WriteId>) {
        match io {
            DriveIo::Read { .. } if self.delays.fails_page_reads => {
                self.failed_reads += 1;
                (Err(DiskError::Io("injected".to_owned())), None)
            }
            DriveIo::Read { offset, bytes } => {
                let mut buffer = vec![0; bytes];
                (self.disk.read_at(offset, &mut buffer).map(|()| buffer.into()), None)
            }
            DriveIo::Write { offset, data, durability } => {
                let parts: Vec<&[u8]> = data.iter().map(|part| &part[..]).collect();
                match self.disk.start_write(offset, &parts, durability) {
                    Ok(id) => (Ok(Bytes::new()), Some(id)),
                    Err(error) => (Err(error), None),
                }
            }
            DriveIo::Flush => {
                (flush.map_or(Ok(()), |flush| self.disk.finish_flush(flush)).map(|()| Bytes::new()), None)
            }
            DriveIo::Allocate { offset, bytes } => (self.disk.allocate(offset, bytes).map(|()| Bytes::new()), None),
            DriveIo::Discard { offset, bytes } => (self.disk.discard(offset, bytes).map(|()| Bytes::new()), None),
        }
    }

    /// Runs all steps in order until `is_done` returns true for the replies so far, or the drive
    /// stops.
    pub fn settle(&mut self, answers: &mut Answers, is_done: impl Fn(&Answers) -> bool) -> Result<(), SimViolation> {
        let mut idle = 0;
        loop {
            self.poll(answers);
            if self.disk.is_crashed() || (is_done(answers) && self.in_flight.is_empty()) {
                return Ok(());
            }
            if self.in_flight.is_empty() {
                idle += 1;
                if idle > MAX_IDLE_STEPS {
                    let state = self.subject.describe();
                    return Err(SimViolation(format!("operations unanswered although nothing is in flight: {state}")));
                }
                self.pass_time();
                self.subject.flush_log();
                self.poll(answers);
                if self.in_flight.is_empty() && idle > 1 {
                    self.subject.tick();
                }
            } else {
                self.await_hung();
                self.advance(None, answers);
                self.pass_time();
            }
        }
    }

    /// Executes one operation of the simulator and returns its reply, or `None` if the drive stops
    /// first. Replies to other operations go to `answers`.
    pub fn call(&mut self, op: Op, answers: &mut Answers) -> Result<Option<Result<Reply, OpError>>, SimViolation> {
        self.next_own_tag += 1;
        let tag = self.next_own_tag;
        self.subject.submit(op, tag);
        let mut all = Answers::new();
        self.settle(&mut all, |answers| answers.iter().any(|(answered, _)| *answered == tag))?;
        let own = all.iter().position(|(answered, _)| *answered == tag).map(|index| all.remove(index).1);
        answers.append(&mut all);
        Ok(own)
    }
}

fn describe_io(io: &DriveIo) -> String {
    match io {
        DriveIo::Read { offset, bytes } => format!("read {bytes} at {offset}"),
        DriveIo::Write { offset, data, durability } => {
            format!("write {} at {offset} {durability:?}", data.iter().map(Bytes::len).sum::<usize>())
        }
        DriveIo::Flush => "flush".to_owned(),
        DriveIo::Allocate { offset, bytes } => format!("allocate {bytes} at {offset}"),
        DriveIo::Discard { offset, bytes } => format!("discard {bytes} at {offset}"),
    }
}
