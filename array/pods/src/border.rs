//! Copies from or to a volume of a pod. Parts are committed one by one, and an error ends the
//! copy, so a host copies the rest itself.
//!
//! ```text
//!  part ──▶ the pod has a copy of it ──▶ a copy within the pod, if the blocks are equal yet
//!    │ ▲                                      │ no: without the hint
//!    │ └──────────────────────────────────────┘
//!    ├────▶ both arrays serve the pod ──▶ crate::exchange: what the other array lacks crosses
//!    └────▶ otherwise ──▶ read and written, as a host would do it
//! ```

use crate::exchange::{CHUNK_BLOCKS, Chunk, Exchange, Outcome};
use engine::{BlockService, EqualCopy, MAX_TRANSFER_BYTES, Op, OpError, Reply, Sink, Tag};
use platform::threads::{Mutex, MutexGuard};
use std::sync::{Arc, Weak};
use types::{BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lba, Source, VolumeId};

/// Parts under way.
const LANES: usize = 8;
/// Longest part that is copied within the pod.
const EQUAL_BLOCKS: u64 = MAX_TRANSFER_BYTES / LBA_BYTES;

/// A copy.
struct Border {
    service: Weak<dyn BlockService>,
    exchange: Option<Arc<Exchange>>,
    source: VolumeId,
    from: BlockRange,
    destination: VolumeId,
    to: Lba,
    tag: Tag,
    sink: Arc<dyn Sink>,
    state: Mutex<State>,
}

struct State {
    /// Ranges to be copied. The last one is the next.
    rest: Vec<Part>,
    /// Parts under way.
    lanes: usize,
    /// A thread begins parts.
    is_beginning: bool,
    error: Option<OpError>,
}

/// A part of the copy.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Its first block, from the start of the copy.
    at: u64,
    blocks: u64,
    /// A copy that the pod has may be looked for.
    may_be_equal: bool,
}

/// The request that a part waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Equal,
    Read,
    Write,
}

struct Step {
    border: Arc<Border>,
    part: Part,
    kind: Kind,
}

/// Starts a copy whose ends are not in one pod, and not both outside of pods.
pub(crate) fn copy(
    service: &Arc<dyn BlockService>,
    exchange: Option<Arc<Exchange>>,
    op: Op,
    tag: Tag,
    sink: &Arc<dyn Sink>,
) {
    let Op::Copy { source, from, destination, to } = op else { return };
    let whole = Part { at: 0, blocks: from.blocks(), may_be_equal: true };
    let state = Mutex::new(State { rest: vec![whole], lanes: 0, is_beginning: false, error: None });
    let service = Arc::downgrade(service);
    let sink = sink.clone();
    let border = Arc::new(Border { service, exchange, source, from, destination, to, tag, sink, state });
    border.proceed(border.state.lock());
}

impl Border {
    /// Begins parts while some may be begun. Answers when the last one has ended. The lock is the
    /// one under which a part has ended: between the two, another thread could answer.
    fn proceed<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>) {
        if std::mem::replace(&mut state.is_beginning, true) {
            // Its thread looks again: an answer may come before the call that submits returns.
            return;
        }
        loop {
            let next = if state.lanes < LANES && state.error.is_none() { self.cut(&mut state.rest) } else { None };
            let Some((part, equal)) = next else { break };
            state.lanes += 1;
            drop(state);
            self.begin(part, equal);
            state = self.state.lock();
        }
        state.is_beginning = false;
        if state.lanes == 0 {
            let result = state.error.take().map_or(Ok(Reply::Done), Err);
            drop(state);
            self.sink.complete(self.tag, result);
        }
    }

    /// Takes the next part, and returns where the pod has a copy of it.
    fn cut(&self, rest: &mut Vec<Part>) -> Option<(Part, Option<(VolumeId, Lba)>)> {
        let Part { at, blocks, may_be_equal } = rest.pop_if(|part| part.blocks > 0)?;
        let mut equal = None;
        let mut length = CHUNK_BLOCKS.min(blocks);
        let is_aligned = (self.from.start().0 | self.to.0 | at).is_multiple_of(LBAS_PER_BLOCK);
        if let Some(exchange) = self.exchange.as_ref().filter(|_| may_be_equal && is_aligned) {
            let known = exchange.known_at(self.source, self.from.start().0 + at, self.destination);
            let common = known.blocks.min(blocks).min(EQUAL_BLOCKS) / LBAS_PER_BLOCK * LBAS_PER_BLOCK;
            equal = known.copy.filter(|_| common > 0);
            length = if equal.is_some() { common } else { length.min(known.blocks) };
        }
        if length < blocks {
            rest.push(Part { at: at + length, blocks: blocks - length, may_be_equal });
        }
        Some((Part { at, blocks: length, may_be_equal }, equal))
    }

    fn begin(self: &Arc<Self>, part: Part, equal: Option<(VolumeId, Lba)>) {
        let Ok(from) = BlockRange::new(Lba(self.from.start().0 + part.at), part.blocks) else {
            return self.end(Err(OpError::Malformed("the range of a copy")), &[]);
        };
        let (source, destination, to) = (self.source, self.destination, Lba(self.to.0 + part.at));
        if let Some((other, at)) = equal {
            let copy = EqualCopy { source, from, other, at, destination, to };
            return self.submit(Op::CopyIfEqual(Box::new(copy)), part, Kind::Equal);
        }
        let border = self.clone();
        let then = move |outcome| match outcome {
            Outcome::Done => border.end(Ok(()), &[]),
            Outcome::Failed(error) => border.end(Err(error), &[]),
            Outcome::Whole => border.submit(Op::Read { volume: source, range: from }, part, Kind::Read),
        };
        let chunk = Chunk { source, from, destination, to };
        if !self.exchange.as_ref().is_some_and(|exchange| exchange.copy(chunk, then)) {
            self.submit(Op::Read { volume: source, range: from }, part, Kind::Read);
        }
    }

    fn submit(self: &Arc<Self>, op: Op, part: Part, kind: Kind) {
        let step: Arc<dyn Sink> = Arc::new(Step { border: self.clone(), part, kind });
        match self.service.upgrade() {
            Some(service) => {
                service.submit(op, 0, &step);
                service.kick();
            }
            None => step.complete(0, Err(OpError::Unavailable("the array stops"))),
        }
    }

    /// A part has ended, and leaves these.
    fn end(self: &Arc<Self>, result: Result<(), OpError>, rest: &[Part]) {
        let mut state = self.state.lock();
        state.lanes -= 1;
        state.rest.extend_from_slice(rest);
        if let Err(error) = result {
            state.error.get_or_insert(error);
        }
        self.proceed(state);
    }

    /// A copy within the pod has ended.
    fn end_equal(self: &Arc<Self>, part: Part, result: Result<Reply, OpError>) {
        let first = self.from.start().0 + part.at;
        let Part { at, blocks, .. } = part;
        match result {
            Ok(_) => {
                if let Some(exchange) = &self.exchange {
                    exchange.count_equal(self.destination, blocks * LBA_BYTES);
                }
                self.end(Ok(()), &[]);
            }
            Err(OpError::Miscompare { offset }) => {
                let same = (offset / LBA_BYTES).min(blocks);
                let chunk = CHUNK_BLOCKS.min(blocks - same);
                let after = Part { at: at + same + chunk, blocks: blocks - same - chunk, may_be_equal: true };
                let other = Part { at: at + same, blocks: chunk, may_be_equal: false };
                let before = Part { at, blocks: same, may_be_equal: true };
                let is_some = |part: &Part| part.blocks > 0;
                let rest: Vec<Part> = [after, other, before].into_iter().filter(is_some).collect();
                self.end(Ok(()), &rest);
            }
            // A damaged page may be one of the copy alone.
            Err(
                OpError::Malformed(_)
                | OpError::NoSuchVolume(_)
                | OpError::OutOfRange { .. }
                | OpError::MediumError { .. },
            ) => {
                if let Some(exchange) = &self.exchange {
                    exchange.forget_copy(self.source, first, first + blocks, self.destination);
                }
                self.end(Ok(()), &[Part { may_be_equal: false, ..part }]);
            }
            Err(error) => self.end(Err(error), &[]),
        }
    }
}

impl Sink for Step {
    /// The initiator changes the volume; the steps of its copy are not given up one by one.
    fn source(&self) -> Option<Source> {
        self.border.sink.source().map(|source| Source { nexus: 0, ..source })
    }

    fn complete(&self, _: Tag, result: Result<Reply, OpError>) {
        let (border, part) = (&self.border, self.part);
        match result {
            result if self.kind == Kind::Equal => border.end_equal(part, result),
            Ok(Reply::Data(data)) if self.kind == Kind::Read => {
                let lba = Lba(border.to.0 + part.at);
                border.submit(Op::Write { volume: border.destination, lba, data, fua: true }, part, Kind::Write);
            }
            Ok(_) => border.end(Ok(()), &[]),
            Err(error) => border.end(Err(error), &[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use platform::threads::mpsc::{Sender, channel};
    use platform::threads::{JoinHandle, spawn};
    use std::sync::atomic::{AtomicUsize, Ordering};

    type Answer = (Tag, Arc<dyn Sink>, Result<Reply, OpError>);

    /// Answers requests on several threads.
    struct Threads {
        answers: Mutex<Option<Sender<Answer>>>,
        threads: Vec<JoinHandle<()>>,
        writes: AtomicUsize,
        fails_at: Option<Lba>,
    }

    impl Threads {
        fn new(fails_at: Option<Lba>) -> Arc<Self> {
            let (sender, answers) = channel::<Answer>();
            let answers = Arc::new(Mutex::new(answers));
            let threads = (0..4).map(|_| {
                let answers = answers.clone();
                let next = move || answers.lock().recv();
                let answer = move || {
                    while let Ok((tag, sink, result)) = next() {
                        sink.complete(tag, result);
                    }
                };
                spawn("answer", answer).unwrap()
            });
            let threads = threads.collect();
            Arc::new(Self { answers: Mutex::new(Some(sender)), threads, writes: AtomicUsize::new(0), fails_at })
        }

        /// Waits until all requests are answered.
        fn end(self: Arc<Self>) -> usize {
            self.answers.lock().take();
            let Ok(this) = Arc::try_unwrap(self) else { panic!("a copy holds the service") };
            this.threads.into_iter().for_each(|thread| thread.join().unwrap());
            this.writes.into_inner()
        }
    }

    impl BlockService for Threads {
        fn submit(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>) {
            let result = match op {
                Op::Read { range, .. } if Some(range.start()) == self.fails_at => {
                    Err(OpError::MediumError { lba: range.start() })
                }
                Op::Read { .. } => Ok(Reply::Data(Bytes::new())),
                _ => {
                    self.writes.fetch_add(1, Ordering::Relaxed);
                    Ok(Reply::Done)
                }
            };
            let answers = self.answers.lock();
            answers.as_ref().unwrap().send((tag, sink.clone(), result)).unwrap();
        }

        fn write_cache(&self) -> bool {
            false
        }
    }

    /// Passes the answers on.
    struct Answers(Mutex<Sender<(Tag, Result<Reply, OpError>)>>);

    impl Sink for Answers {
        fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
            self.0.lock().send((tag, result)).unwrap();
        }
    }

    /// Makes copies of this many blocks, one after another. Returns all answers.
    fn answers(threads: Arc<Threads>, copies: u64, blocks: u64) -> (Vec<(Tag, Result<Reply, OpError>)>, usize) {
        let service: Arc<dyn BlockService> = threads.clone();
        let (sender, answers) = channel();
        let sink: Arc<dyn Sink> = Arc::new(Answers(Mutex::new(sender)));
        let from = BlockRange::new(Lba(0), blocks).unwrap();
        let mut received = Vec::new();
        for tag in 0..copies {
            let op = Op::Copy { source: VolumeId(1), from, destination: VolumeId(2), to: Lba(0) };
            copy(&service, None, op, tag, &sink);
            received.push(answers.recv().unwrap());
        }
        drop(service);
        let writes = threads.end();
        while let Ok(late) = answers.try_recv() {
            received.push(late);
        }
        (received, writes)
    }

    #[test]
    fn copy_is_answered_once() {
        let (received, writes) = answers(Threads::new(None), 20_000, 2 * CHUNK_BLOCKS);
        let expected: Vec<_> = (0..20_000).map(|tag| (tag, Ok(Reply::Done))).collect();
        assert!(received == expected, "{} answers", received.len());
        assert_eq!(writes, 40_000, "each part is written once");
        assert_eq!(answers(Threads::new(None), 1, 0).0, [(0, Ok(Reply::Done))]);
    }

    #[test]
    fn error_ends_a_copy() {
        let lba = Lba(CHUNK_BLOCKS);
        let (received, _) = answers(Threads::new(Some(lba)), 1000, 12 * CHUNK_BLOCKS);
        let expected: Vec<_> = (0..1000).map(|tag| (tag, Err(OpError::MediumError { lba }))).collect();
        assert!(received == expected, "{} answers", received.len());
    }
}
