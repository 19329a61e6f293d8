//! The worker of a source: sends the blocks that the peer lacks.

use engine::{DeltaOp, ExtentState, Op, OpError, Reply, Sink, Tag, call};
use parking_lot::{Condvar, Mutex};
use replication::Replica;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use types::{BlockRange, LBA_BYTES, Lba, Period, StreamId, VolumeId};

/// Blocks under way at a time, in requests.
const DEPTH: usize = 16;
/// Extents that are asked for at a time.
const EXTENTS: usize = 1024;
/// Pause when nothing is missing, or when blocks cannot be sent.
const PAUSE: Duration = Duration::from_millis(20);

/// How far a source has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Bytes that the peer lacked in the present pass.
    pub(crate) total: AtomicU64,
    /// Bytes of them that were sent.
    pub(crate) sent: AtomicU64,
}

/// A worker. It ends when it is dropped.
pub(crate) struct Resync {
    stop: Arc<AtomicBool>,
    pub(crate) progress: Arc<Progress>,
}

impl Drop for Resync {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Resync {
    /// Starts a worker for a period. `contents` returns the volumes of the pod.
    pub(crate) fn start(
        engine: Arc<dyn Replica>,
        stream: StreamId,
        period: Period,
        contents: impl Fn() -> Vec<VolumeId> + Send + 'static,
    ) -> Self {
        let (stop, progress) = (Arc::<AtomicBool>::default(), Arc::<Progress>::default());
        let worker = Worker { engine, stream, period, stop: stop.clone(), progress: progress.clone() };
        let started = std::thread::Builder::new().name("resync".to_owned()).spawn(move || worker.run(&contents));
        if let Err(error) = started {
            tracing::error!(%stream, "no thread for the resync: {error}");
        }
        Self { stop, progress }
    }
}

struct Worker {
    engine: Arc<dyn Replica>,
    stream: StreamId,
    period: Period,
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
}

/// Requests under way.
#[derive(Default)]
struct Window {
    state: Mutex<WindowState>,
    changed: Condvar,
}

#[derive(Default)]
struct WindowState {
    count: usize,
    error: Option<OpError>,
}

/// A range that is sent in one or more requests.
struct Sending {
    window: Arc<Window>,
    worker: Arc<Worker>,
    volume: VolumeId,
    range: BlockRange,
}

impl Sink for Sending {
    fn complete(&self, _: Tag, result: Result<Reply, OpError>) {
        let rest = match &result {
            Ok(Reply::Synced { blocks }) => self.range.blocks().saturating_sub(*blocks),
            _ => 0,
        };
        if let (Ok(Reply::Synced { blocks }), true) = (&result, rest > 0)
            && *blocks > 0
            && let Ok(range) = BlockRange::new(Lba(self.range.start().0 + blocks), rest)
        {
            self.worker.progress.sent.fetch_add(blocks * LBA_BYTES, Ordering::Relaxed);
            self.worker.submit(&self.window, self.volume, range);
            return;
        }
        self.worker.progress.sent.fetch_add(self.range.blocks() * LBA_BYTES, Ordering::Relaxed);
        let mut state = self.window.state.lock();
        state.count -= 1;
        if let Err(error) = result {
            state.error = Some(error);
        }
        self.window.changed.notify_all();
    }
}

impl Worker {
    fn run(self, contents: &dyn Fn() -> Vec<VolumeId>) {
        let worker = Arc::new(self);
        while !worker.is_over() {
            let mut has_sent = false;
            worker.progress.total.store(0, Ordering::Relaxed);
            worker.progress.sent.store(0, Ordering::Relaxed);
            for volume in contents() {
                match worker.send_volume(volume) {
                    Ok(sent) => has_sent |= sent,
                    // A volume may be gone. What cannot be read stays in the delta.
                    Err(error) => tracing::debug!(%volume, "blocks were not sent: {error}"),
                }
            }
            if !has_sent {
                platform::clock::sleep(PAUSE);
            }
        }
    }

    /// The period has ended, or the source.
    fn is_over(&self) -> bool {
        let status = self.engine.stream_status(self.stream);
        self.stop.load(Ordering::Relaxed) || status.is_none_or(|status| status.period != self.period)
    }

    /// Sends what the peer lacks of a volume. Returns whether there was anything.
    fn send_volume(self: &Arc<Self>, volume: VolumeId) -> Result<bool, OpError> {
        let (window, mut from, mut has_sent) = (Arc::<Window>::default(), Lba(0), false);
        loop {
            let next = Op::Delta(DeltaOp::Next { volume, from, limit: EXTENTS });
            let Reply::Extents(extents) = call(&*self.engine, next)? else { return Ok(has_sent) };
            let Some(last) = extents.last() else { break };
            let end = last.range.end();
            for extent in extents.iter().filter(|extent| extent.state == ExtentState::Mapped) {
                has_sent = true;
                self.progress.total.fetch_add(extent.range.blocks() * LBA_BYTES, Ordering::Relaxed);
                self.enter(&window)?;
                self.submit(&window, volume, extent.range);
                if self.is_over() {
                    return Ok(true);
                }
            }
            if end <= from {
                break;
            }
            from = end;
        }
        let mut state = window.state.lock();
        while state.count > 0 && !self.stop.load(Ordering::Relaxed) {
            window.changed.wait_for(&mut state, PAUSE);
        }
        state.error.take().map_or(Ok(has_sent), Err)
    }

    /// Waits for a place.
    fn enter(&self, window: &Window) -> Result<(), OpError> {
        let mut state = window.state.lock();
        while state.count >= DEPTH && !self.stop.load(Ordering::Relaxed) {
            window.changed.wait_for(&mut state, PAUSE);
        }
        state.count += 1;
        Ok(())
    }

    fn submit(self: &Arc<Self>, window: &Arc<Window>, volume: VolumeId, range: BlockRange) {
        let sending = Sending { window: window.clone(), worker: self.clone(), volume, range };
        let sink: Arc<dyn Sink> = Arc::new(sending);
        self.engine.submit(Op::Sync { volume, period: self.period, range }, 0, &sink);
        self.engine.kick();
    }
}
