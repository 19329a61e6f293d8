//! One running array: a subject, its drive, and everything in flight between them.
//!
//! Time is the order of steps. A drive access is requested, done and reported in three steps, and
//! other steps may come in between.

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
}

/// Replies, as (tag, reply).
pub type Answers = Vec<(Tag, Result<Reply, OpError>)>;

/// A running array.
pub struct SimMachine<'a, S: SimSubject> {
    /// The system under test.
    pub subject: S,
    disk: &'a SimDisk,
    in_flight: Vec<InFlight<S>>,
    actions: Vec<SimAction<S>>,
    next_own_tag: Tag,
    /// Notes for the trace, if wanted.
    pub notes: Option<Vec<String>>,
}

impl<'a, S: SimSubject> SimMachine<'a, S> {
    /// Starts with an array that was just recovered.
    pub fn new(subject: S, disk: &'a SimDisk) -> Self {
        Self { subject, disk, in_flight: Vec::new(), actions: Vec::new(), next_own_tag: OWN_TAGS, notes: None }
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
                SimAction::Read { tag, plan } => self.in_flight.push(InFlight::Read { tag, plan }),
                SimAction::Fetch { id, plan } => self.in_flight.push(InFlight::Fetch { id, plan }),
                SimAction::Work { id, work } => self.in_flight.push(InFlight::Work { id, work }),
                SimAction::Io { id, io } => {
                    self.note(|| format!("io {id} requested: {}", describe_io(&io)));
                    // A flush covers the writes whose end the caller knows when it requests the
                    // flush.
                    let flush = matches!(io, DriveIo::Flush).then(|| self.disk.start_flush());
                    self.in_flight.push(InFlight::Asked { id, io, flush });
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
    pub fn advance(&mut self, rng: Option<&mut Rng>, answers: &mut Answers) {
        if self.in_flight.is_empty() {
            return;
        }
        let index = rng.map_or(0, |rng| rng.index(self.in_flight.len()));
        match self.in_flight.remove(index) {
            InFlight::Read { tag, plan } => answers.push((tag, S::execute(&plan, self.disk))),
            InFlight::Fetch { id, plan } => {
                let result = S::execute(&plan, self.disk);
                self.in_flight.insert(index, InFlight::Fetched { id, result });
            }
            InFlight::Fetched { id, result } => self.subject.fetched(id, result),
            InFlight::Work { id, work } => {
                let done = S::perform(&work, self.disk);
                self.in_flight.insert(index, InFlight::Worked { id, done });
            }
            InFlight::Worked { id, done } => self.subject.worked(id, done),
            InFlight::Asked { id, io, flush } => {
                let (result, write) = self.access(io, flush.as_ref());
                self.note(|| {
                    format!("io {id} done{}", result.as_ref().err().map_or(String::new(), |error| format!(": {error}")))
                });
                self.in_flight.insert(index, InFlight::Done { id, result, write });
            }
            InFlight::Done { id, result, write } => {
                self.note(|| format!("io {id} reported"));
                if let Some(write) = write {
                    self.disk.finish_write(write);
                }
                self.subject.io_done(id, result);
            }
        }
    }

    /// Does all requested accesses but reports none. A crash then finds a drive that was faster
    /// than the array.
    pub fn do_all(&mut self) {
        for in_flight in std::mem::take(&mut self.in_flight) {
            self.in_flight.push(match in_flight {
                InFlight::Asked { id, io, flush } => {
                    let (result, write) = self.access(io, flush.as_ref());
                    InFlight::Done { id, result, write }
                }
                other => other,
            });
        }
    }

    fn access(&self, io: DriveIo, flush: Option<&Flush>) -> (Result<Bytes, DiskError>, Option<WriteId>) {
        match io {
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
                self.subject.flush_log();
                self.poll(answers);
                if self.in_flight.is_empty() && idle > 1 {
                    self.subject.tick();
                }
            } else {
                self.advance(None, answers);
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
    }
}
