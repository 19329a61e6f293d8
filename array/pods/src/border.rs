//! Copies from or to a volume of a pod: the array reads and writes, as a host would. Chunks are
//! committed one by one, and an error ends the copy, so a host copies the rest itself.

use engine::{BlockService, Op, OpError, Reply, Sink, Tag};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use types::{BlockRange, Lba, Source, VolumeId};

/// Blocks of one chunk: 1 MiB.
const CHUNK: u64 = 2048;
/// Chunks under way.
const LANES: usize = 4;

/// A copy.
struct Border {
    service: Weak<dyn BlockService>,
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
pub(crate) fn copy(service: &Arc<dyn BlockService>, op: Op, tag: Tag, sink: &Arc<dyn Sink>) {
    let Op::Copy { source, from, destination, to } = op else { return };
    let state = Mutex::new(State { begun: 0, lanes: LANES, error: None });
    let service = Arc::downgrade(service);
    let border = Arc::new(Border { service, source, from, destination, to, tag, sink: sink.clone(), state });
    (0..LANES).for_each(|_| border.next());
}

impl Border {
    /// Begins the next chunk, or ends its lane.
    fn next(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let at = state.begun;
        if at < self.from.blocks() && state.error.is_none() {
            let blocks = CHUNK.min(self.from.blocks() - at);
            state.begun += blocks;
            drop(state);
            match BlockRange::new(Lba(self.from.start().0 + at), blocks) {
                Ok(range) => self.submit(Op::Read { volume: self.source, range }, at, true),
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
