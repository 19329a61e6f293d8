//! Compares the content of a pod on both arrays while hosts use it.
//!
//! The array that orders changes takes a snapshot of a volume: one record of the stream, so both
//! arrays have it at the same instant. Each computes digests of its own snapshot; the digests cross
//! the link. Snapshots of administrators do not change, and are compared as they are.

mod digest;
mod record;
mod wire;

pub use record::{Difference, DifferenceKind, VerifyState, VerifyStatus};
pub(crate) use wire::VerifyMessage;

use crate::environment::PodEngine;
use crate::objects::PodObjects;
use crate::persist;
use bytes::Bytes;
use engine::{Change, Op, OpError, call};
use platform::clock;
use platform::threads::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use types::{BlockRange, LBA_BYTES, Lba, StreamId, VolumeId};
use wire::{Answer, Digest, MOST_BLOCKS, MOST_PARTS, PART_BLOCKS, Question};

/// Mapped blocks of one comparison: 1 MiB.
const CHUNK_BLOCKS: u64 = 2048;
/// Bytes that are read per second at most.
const RATE: f64 = 128.0 * 1024.0 * 1024.0;
/// A question is asked again after this time.
const AGAIN: Duration = Duration::from_secs(5);
/// Time for the other array to answer, and for both to serve again.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks at what may end the comparison.
const SLICE: Duration = Duration::from_millis(20);
/// Attempts to confirm a difference: content that is on its way is none.
const CONFIRMATIONS: usize = 2;
/// Most differences in the log of events.
const LOGGED: usize = 100;
/// Longest reason that is stored, in bytes.
const LONGEST_REASON: usize = 500;

/// The pod as a verification needs it.
pub(crate) trait VerifiedPod: Send + Sync {
    /// Sends a message to the other array, if there is a session.
    fn send(&self, message: Bytes);
    /// Returns the epoch while both arrays serve and this one orders changes. `None` while they
    /// do not both serve.
    ///
    /// # Errors
    ///
    /// The other array orders changes, or has left.
    fn epoch(&self) -> Result<Option<u32>, String>;
}

/// A verification under way.
struct Run {
    must_stop: AtomicBool,
    /// The thread has not ended: it may still change snapshots.
    is_alive: AtomicBool,
    status: Mutex<VerifyStatus>,
    /// The question that waits for an answer, and the answer.
    asked: Mutex<(u64, Option<Vec<Digest>>)>,
    answered: Condvar,
}

/// The verifications of an array.
pub(crate) struct Verifier {
    engine: Arc<dyn PodEngine>,
    objects: Arc<dyn PodObjects>,
    /// The last verification of each pod.
    runs: Mutex<BTreeMap<StreamId, Arc<Run>>>,
    questions: AtomicU64,
    /// Streams about which a question is being answered.
    answering: Mutex<Vec<StreamId>>,
}

/// The end of a verification before it has compared everything.
enum End {
    Stopped,
    For(String),
}

impl From<OpError> for End {
    fn from(error: OpError) -> Self {
        Self::For(format!("this array cannot read its content: {error}"))
    }
}

impl Verifier {
    pub(crate) fn new(engine: Arc<dyn PodEngine>, objects: Arc<dyn PodObjects>) -> Self {
        let (runs, questions, answering) = (Mutex::default(), AtomicU64::new(1), Mutex::default());
        Self { engine, objects, runs, questions, answering }
    }

    /// Returns the last verification of a pod.
    pub(crate) fn status(&self, stream: StreamId) -> Option<VerifyStatus> {
        let run = self.runs.lock().get(&stream).cloned();
        match run {
            Some(run) => Some(run.status.lock().clone()),
            None => self.stored(stream),
        }
    }

    fn stored(&self, stream: StreamId) -> Option<VerifyStatus> {
        persist::verification(&*self.engine, stream).and_then(|bytes| VerifyStatus::decode(&bytes))
    }

    /// Returns the bytes that are known to differ, and when the first difference was found. Cheap:
    /// lists of pods call it often.
    pub(crate) fn difference(&self, stream: StreamId) -> Option<(u64, u64)> {
        let run = self.runs.lock().get(&stream).cloned();
        let figures = |status: &VerifyStatus| (status.different, status.found_ms);
        let (bytes, found_ms) = match run {
            Some(run) => figures(&run.status.lock()),
            None => figures(&self.status(stream)?),
        };
        (bytes > 0).then_some((bytes, found_ms))
    }

    /// Whether a verification of a pod is under way.
    pub(crate) fn is_running(&self, stream: StreamId) -> bool {
        self.runs.lock().get(&stream).is_some_and(|run| run.is_alive.load(Ordering::Acquire))
    }

    /// Begins to verify a pod, on a thread of its own.
    ///
    /// # Errors
    ///
    /// The reason in words.
    pub(crate) fn start(self: &Arc<Self>, stream: StreamId, pod: Box<dyn VerifiedPod>) -> Result<(), String> {
        if pod.epoch()?.is_none() {
            return Err("the arrays are not in step".to_owned());
        }
        let before = self.status(stream);
        let mut runs = self.runs.lock();
        if let Some(run) = runs.get(&stream).filter(|run| run.is_alive.load(Ordering::Acquire)) {
            let has_ended = run.status.lock().is_over();
            let reason =
                if has_ended { "the verification before is ending; try again" } else { "it is being verified already" };
            return Err(reason.to_owned());
        }
        let run = Arc::new(Run {
            must_stop: AtomicBool::new(false),
            is_alive: AtomicBool::new(true),
            status: Mutex::new(VerifyStatus::begin(before.as_ref(), 0, clock::unix_millis())),
            asked: Mutex::default(),
            answered: Condvar::new(),
        });
        let work = Work { verifier: self.clone(), run: run.clone(), stream, pod, seed: random()?, has_found: false };
        let thread = platform::threads::spawn("pod-verify", move || work.run());
        thread.map_err(|error| format!("no thread for it: {error}"))?;
        runs.insert(stream, run);
        Ok(())
    }

    /// Stops a verification: its state says so when this returns. Does not wait for the other
    /// array.
    ///
    /// # Errors
    ///
    /// None is under way.
    pub(crate) fn stop(&self, stream: StreamId) -> Result<(), String> {
        let run = self.runs.lock().get(&stream).cloned().filter(|run| !run.status.lock().is_over());
        let run = run.ok_or("it is not being verified")?;
        run.must_stop.store(true, Ordering::Relaxed);
        run.status.lock().end(VerifyState::Stopped, false, clock::unix_millis());
        run.answered.notify_all();
        Ok(())
    }

    /// The array stops: all verifications end.
    pub(crate) fn end(&self) {
        let runs: Vec<_> = self.runs.lock().keys().copied().collect();
        runs.into_iter().for_each(|stream| drop(self.stop(stream)));
    }

    /// The pod is on this array no longer.
    pub(crate) fn forget(&self, stream: StreamId) {
        let _ = self.stop(stream);
        self.runs.lock().remove(&stream);
    }

    /// Reads a message of the other array.
    ///
    /// # Errors
    ///
    /// The message is malformed, or names a volume of another pod.
    pub(crate) fn read(stream: StreamId, message: &[u8]) -> Result<VerifyMessage, String> {
        match VerifyMessage::decode(message).ok_or("a malformed message about a verification")? {
            VerifyMessage::Question(question) if question.volume.stream() != Some(stream) => {
                Err("a verification of a volume of another pod".to_owned())
            }
            VerifyMessage::Outcome(status)
                if status.differences.iter().any(|found| found.volume.stream() != Some(stream)) =>
            {
                Err("a difference of a volume of another pod".to_owned())
            }
            message => Ok(message),
        }
    }

    /// Takes an answer.
    pub(crate) fn answered(&self, stream: StreamId, answer: Answer) {
        let Some(run) = self.runs.lock().get(&stream).cloned() else { return };
        let mut asked = run.asked.lock();
        if asked.0 == answer.number {
            asked.1 = Some(answer.digests);
            run.answered.notify_all();
        }
    }

    /// Returns the message with the outcome of the last verification of a pod, for the other array,
    /// if it has an end.
    pub(crate) fn outcome(&self, stream: StreamId) -> Option<Bytes> {
        let status = self.status(stream).filter(VerifyStatus::is_over)?;
        Some(VerifyMessage::Outcome(status.mirrored()).encode())
    }

    /// Takes the outcome of a verification by the other array, if it is later than the one that is
    /// known here. Blocks.
    pub(crate) fn learn(&self, stream: StreamId, outcome: VerifyStatus) {
        let run = Arc::new(Run {
            must_stop: AtomicBool::new(true),
            is_alive: AtomicBool::new(false),
            status: Mutex::new(outcome.clone()),
            asked: Mutex::default(),
            answered: Condvar::new(),
        });
        let stored = self.stored(stream);
        {
            let mut runs = self.runs.lock();
            let last = runs.get(&stream);
            // Two outcomes may come at the same time.
            let own = last.map_or(stored, |last| Some(last.status.lock().clone()));
            let is_running = last.is_some_and(|last| last.is_alive.load(Ordering::Acquire));
            if is_running || own.is_some_and(|own| !outcome.is_later(&own)) {
                return;
            }
            runs.insert(stream, run.clone());
        }
        self.store(stream, &run);
    }

    /// Stores the state of a verification, so that differences outlast the process.
    fn store(&self, stream: StreamId, run: &Arc<Run>) {
        let is_present = self.runs.lock().get(&stream).is_some_and(|present| Arc::ptr_eq(present, run));
        if !is_present {
            return;
        }
        let value = run.status.lock().encode();
        let put = Change::Put { key: persist::verification_key(stream), value };
        if let Err(error) = call(&*self.engine, Op::Change(vec![put])) {
            tracing::warn!(%stream, "the outcome of a verification is not stored: {error}");
        }
    }

    /// Whether a question may be answered now: one about each stream at a time. The other array
    /// asks again. The caller then calls [`Self::answer`].
    pub(crate) fn may_answer(&self, stream: StreamId) -> bool {
        let mut answering = self.answering.lock();
        let may = !answering.contains(&stream);
        answering.extend(may.then_some(stream));
        may
    }

    /// Answers a question. Blocks while it reads.
    pub(crate) fn answer(&self, stream: StreamId, question: &Question) -> Bytes {
        // An answer without digests says that there is none now.
        let digests = digest::digests(&*self.engine, question).unwrap_or_default();
        self.answering.lock().retain(|other| *other != stream);
        VerifyMessage::Answer(Answer { number: question.number, digests }).encode()
    }

    /// Removes snapshots of verifications that have ended, where this array orders changes.
    pub(crate) fn tidy(&self, stream: StreamId) {
        if !self.is_running(stream)
            && let Err(error) = self.objects.drop_verify_snapshots(stream)
        {
            tracing::debug!(%stream, "snapshots of a verification are not removed yet: {error}");
        }
    }
}

fn random() -> Result<u64, String> {
    Ok(u64::from_le_bytes(platform::random::bytes().map_err(|error| error.to_string())?))
}

/// The thread of a verification.
struct Work {
    verifier: Arc<Verifier>,
    run: Arc<Run>,
    stream: StreamId,
    pod: Box<dyn VerifiedPod>,
    /// Of the digests: new for each verification.
    seed: u64,
    has_found: bool,
}

impl Work {
    fn run(mut self) {
        tracing::info!(stream = %self.stream, "verification of a pod begun");
        let end = match self.compare_all() {
            Ok(()) => VerifyState::Complete,
            Err(End::Stopped) => VerifyState::Stopped,
            Err(End::For(mut reason)) => {
                while reason.len() > LONGEST_REASON {
                    reason.pop();
                }
                VerifyState::Ended(reason)
            }
        };
        {
            let mut status = self.run.status.lock();
            // An administrator may have stopped it.
            if !status.is_over() {
                status.end(end, self.has_found, clock::unix_millis());
            }
            tracing::info!(stream = %self.stream, state = ?status.state, different = status.different, "verification of a pod ended");
        }
        self.store();
        // It is sent again with each new session.
        if let Some(outcome) = self.verifier.outcome(self.stream) {
            self.pod.send(outcome);
        }
        self.run.is_alive.store(false, Ordering::Release);
        // It may wait for the other array.
        self.verifier.tidy(self.stream);
    }

    fn engine(&self) -> &dyn PodEngine {
        &*self.verifier.engine
    }

    fn store(&self) {
        self.verifier.store(self.stream, &self.run);
    }

    fn compare_all(&mut self) -> Result<(), End> {
        let objects = self.verifier.objects.clone();
        objects.drop_verify_snapshots(self.stream).map_err(End::For)?;
        let sizes: BTreeMap<VolumeId, u64> = self.engine().stream_volumes(self.stream).into_iter().collect();
        let wanted = objects.verified(self.stream);
        let total: u64 = wanted.iter().filter_map(|(volume, _)| sizes.get(volume)).sum();
        self.run.status.lock().total = total * LBA_BYTES;
        self.store();
        for (volume, is_fixed) in wanted {
            self.epoch()?;
            let content = if is_fixed {
                Some(volume)
            } else {
                objects
                    .take_verify_snapshot(self.stream, volume)
                    .map_err(|error| End::For(format!("no snapshot of a volume can be taken: {error}")))?
            };
            // It may have been removed since.
            let held: BTreeMap<VolumeId, u64> = self.engine().stream_volumes(self.stream).into_iter().collect();
            if let Some((content, size)) = content.and_then(|content| Some((content, *held.get(&content)?))) {
                match self.compare(volume, content, Lba(size)) {
                    // An administrator has removed the volume or snapshot since.
                    Err(End::For(_)) if !objects.verified(self.stream).contains(&(volume, is_fixed)) => {
                        self.epoch()?;
                    }
                    compared => compared?,
                }
            }
            self.check()?;
            if !is_fixed {
                objects.drop_verify_snapshots(self.stream).map_err(End::For)?;
            }
        }
        Ok(())
    }

    /// Compares a content that does not change, and reports differences of `volume`.
    fn compare(&mut self, volume: VolumeId, content: VolumeId, end: Lba) -> Result<(), End> {
        let mut from = Lba(0);
        while from < end {
            let begun = clock::now();
            let (range, mapped) = self.chunk(content, from, end)?;
            self.compare_range(volume, content, range)?;
            from = range.end();
            self.run.status.lock().compared += range.bytes();
            // At most half of the time is spent with reading, and at most a rate.
            let least = Duration::from_secs_f64((mapped * LBA_BYTES) as f64 / RATE);
            self.pause(clock::now().saturating_duration_since(begun).max(least))?;
        }
        Ok(())
    }

    /// Returns the next range to compare, with at most as much data as is read at a time, and the
    /// blocks that have some.
    fn chunk(&self, content: VolumeId, from: Lba, end: Lba) -> Result<(BlockRange, u64), End> {
        let limit = Lba(end.0.min(from.0.saturating_add(MOST_BLOCKS)));
        let (mut mapped, mut at) = (0, from);
        'chunk: while at < limit {
            let (found, next) = digest::mapped(self.engine(), content, at, limit)?;
            for range in found {
                if mapped + range.blocks() >= CHUNK_BLOCKS {
                    // A multiple of parts, so that the next one begins at a part.
                    let blocks = (CHUNK_BLOCKS - mapped).next_multiple_of(PART_BLOCKS);
                    at = Lba(limit.0.min(range.start().0 + blocks));
                    mapped = CHUNK_BLOCKS;
                    break 'chunk;
                }
                mapped += range.blocks();
            }
            at = next;
        }
        let at = Lba(limit.0.min(at.0.next_multiple_of(PART_BLOCKS)));
        let range = BlockRange::new(from, at.0 - from.0).map_err(|_| End::For("a range is too long".to_owned()))?;
        Ok((range, mapped))
    }

    /// Compares a range; halves it while it is long and differs.
    fn compare_range(&mut self, volume: VolumeId, content: VolumeId, range: BlockRange) -> Result<(), End> {
        let (own, peer) = self.both(content, range, false)?;
        if own == peer && !own.contains(&None) {
            return Ok(());
        }
        let parts = MOST_PARTS as u64 * PART_BLOCKS;
        if range.blocks() > parts {
            let first = (range.blocks() / 2).next_multiple_of(PART_BLOCKS);
            for (start, blocks) in [(range.start().0, first), (range.start().0 + first, range.blocks() - first)] {
                if let Ok(half) = BlockRange::new(Lba(start), blocks) {
                    self.compare_range(volume, content, half)?;
                }
            }
            return Ok(());
        }
        let (mut own, mut peer) = self.both(content, range, true)?;
        for _ in 0..CONFIRMATIONS {
            if own == peer {
                break;
            }
            (own, peer) = self.both(content, range, true)?;
        }
        for (at, (own, peer)) in own.iter().zip(&peer).enumerate() {
            let start = range.start().0 + at as u64 * PART_BLOCKS;
            let kind = match (own, peer) {
                (None, _) => DifferenceKind::UnreadableHere,
                (_, None) => DifferenceKind::UnreadableThere,
                (own, peer) if own != peer => DifferenceKind::Content,
                _ => continue,
            };
            if let Ok(range) = BlockRange::new(Lba(start), PART_BLOCKS.min(range.end().0 - start)) {
                self.found(Difference { volume, range, kind });
            }
        }
        self.store();
        Ok(())
    }

    fn found(&mut self, found: Difference) {
        let mut status = self.run.status.lock();
        if status.is_over() {
            return;
        }
        if status.differences.len() < LOGGED {
            tracing::warn!(stream = %self.stream, ?found, "the arrays of a pod differ");
        }
        status.add(found, !self.has_found, clock::unix_millis());
        self.has_found = true;
    }

    /// Returns the digests of both arrays, of a time when both served.
    fn both(&self, volume: VolumeId, range: BlockRange, is_by_parts: bool) -> Result<(Vec<Digest>, Vec<Digest>), End> {
        let until = clock::now() + PATIENCE;
        let mut asked: Option<(u32, Question, Vec<Digest>)> = None;
        while clock::now() < until {
            let epoch = self.epoch()?;
            // The same question again: the other array may still be reading for its answer.
            let (_, question, own) = match asked.take().filter(|(before, ..)| *before == epoch) {
                Some(again) => {
                    self.ask(&again.1);
                    again
                }
                None => {
                    let number = self.verifier.questions.fetch_add(1, Ordering::Relaxed);
                    let question = Question { number, volume, range, seed: self.seed, is_by_parts };
                    *self.run.asked.lock() = (number, None);
                    self.ask(&question);
                    (epoch, question, digest::digests(self.engine(), &question)?)
                }
            };
            let peer = self.answer(question.number)?;
            // An array that was brought into step between may have answered before that.
            if let Some(peer) = peer.filter(|peer| peer.len() == own.len())
                && self.epoch()? == epoch
            {
                return Ok((own, peer));
            }
            asked = Some((epoch, question, own));
            self.pause(SLICE * 10)?;
        }
        Err(End::For("the other array does not answer".to_owned()))
    }

    fn ask(&self, question: &Question) {
        self.pod.send(VerifyMessage::Question(*question).encode());
    }

    /// Waits for an answer. `None` if there is none in time, or the other array has none now.
    fn answer(&self, number: u64) -> Result<Option<Vec<Digest>>, End> {
        let until = clock::now() + AGAIN;
        let mut asked = self.run.asked.lock();
        loop {
            self.check()?;
            if asked.0 == number
                && let Some(digests) = asked.1.take()
            {
                return Ok((!digests.is_empty()).then_some(digests));
            }
            if clock::now() >= until {
                return Ok(None);
            }
            self.run.answered.wait_for(&mut asked, SLICE);
        }
    }

    /// Returns the epoch once both arrays serve.
    fn epoch(&self) -> Result<u32, End> {
        let until = clock::now() + PATIENCE;
        loop {
            self.check()?;
            let epoch = self.pod.epoch().map_err(End::For)?;
            let mut status = self.run.status.lock();
            if !status.is_over() {
                status.state = if epoch.is_some() { VerifyState::Running } else { VerifyState::Waiting };
            }
            drop(status);
            match epoch {
                Some(epoch) => return Ok(epoch),
                None if clock::now() >= until => {
                    return Err(End::For("the arrays have not come into step again in time".to_owned()));
                }
                None => clock::sleep(SLICE),
            }
        }
    }

    fn check(&self) -> Result<(), End> {
        if self.run.must_stop.load(Ordering::Relaxed) { Err(End::Stopped) } else { Ok(()) }
    }

    fn pause(&self, time: Duration) -> Result<(), End> {
        let until = clock::now() + time;
        while clock::now() < until {
            self.check()?;
            clock::sleep(SLICE.min(until.saturating_duration_since(clock::now())));
        }
        self.check()
    }
}
