//! Copies from or to a volume of a pod. Chunks are committed one by one, and an error ends the
//! copy, so a host copies the rest itself.
//!
//! A chunk goes into a pod that both arrays serve by way of [`crate::exchange`]. Any other one is
//! read and written by the array, as a host would do it.

use crate::exchange::{CHUNK_BLOCKS, Chunk, Exchange, Outcome};
use engine::{BlockService, Op, OpError, Reply, Sink, Tag};
use platform::threads::Mutex;
use std::sync::{Arc, Weak};
use types::{BlockRange, Lba, Source, VolumeId};

/// Chunks under way.
const LANES: usize = 8;

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
    /// Blocks whose copy has begun.
    begun: u64,
    /// Chunks under way.
    lanes: usize,
    error: Option<OpError>,
}

/// A part of the copy that waits for its data, or for its write.
struct Step {
    border: Arc<Border>,
    at: u64,
    is_read: bool,
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
    let state = Mutex::new(State { begun: 0, lanes: LANES, error: None });
    let service = Arc::downgrade(service);
    let sink = sink.clone();
    let border = Arc::new(Border { service, exchange, source, from, destination, to, tag, sink, state });
    (0..LANES).for_each(|_| border.next());
}

impl Border {
    /// Begins the next chunk, or ends its lane.
    fn next(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let at = state.begun;
        if at < self.from.blocks() && state.error.is_none() {
            let blocks = CHUNK_BLOCKS.min(self.from.blocks() - at);
            state.begun += blocks;
            drop(state);
            match BlockRange::new(Lba(self.from.start().0 + at), blocks) {
                Ok(range) => self.begin(range, at),
                Err(_) => self.fail(OpError::Malformed("the range of a copy")),
            }
            return;
        }
        state.lanes -= 1;
        if state.lanes == 0 {
            let result = state.error.take().map_or(Ok(Reply::Done), Err);
            drop(state);
            self.sink.complete(self.tag, result);
        }
    }

    /// Copies a chunk.
    fn begin(self: &Arc<Self>, range: BlockRange, at: u64) {
        let (source, destination, to) = (self.source, self.destination, Lba(self.to.0 + at));
        let chunk = Chunk { source, from: range, destination, to };
        let border = self.clone();
        let then = move |outcome| match outcome {
            Outcome::Done => border.next(),
            Outcome::Failed(error) => border.fail(error),
            Outcome::Whole => border.submit(Op::Read { volume: source, range }, at, true),
        };
        if !self.exchange.as_ref().is_some_and(|exchange| exchange.copy(chunk, then)) {
            self.submit(Op::Read { volume: source, range }, at, true);
        }
    }

    fn submit(self: &Arc<Self>, op: Op, at: u64, is_read: bool) {
        let step: Arc<dyn Sink> = Arc::new(Step { border: self.clone(), at, is_read });
        match self.service.upgrade() {
            Some(service) => {
                service.submit(op, 0, &step);
                service.kick();
            }
            None => step.complete(0, Err(OpError::Unavailable("the array stops"))),
        }
    }

    fn fail(self: &Arc<Self>, error: OpError) {
        self.state.lock().error.get_or_insert(error);
        self.next();
    }
}

impl Sink for Step {
    /// The initiator changes the volume; the steps of its copy are not given up one by one.
    fn source(&self) -> Option<Source> {
        self.border.sink.source().map(|source| Source { nexus: 0, ..source })
    }

    fn complete(&self, _: Tag, result: Result<Reply, OpError>) {
        let border = &self.border;
        match result {
            Ok(Reply::Data(data)) if self.is_read => {
                let lba = Lba(border.to.0 + self.at);
                border.submit(Op::Write { volume: border.destination, lba, data, fua: true }, self.at, false);
            }
            Ok(_) => border.next(),
            Err(error) => border.fail(error),
        }
    }
}
