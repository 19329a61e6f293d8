//! The worker of a source: sends the blocks that the peer lacks, at the pace that the pod allows.

mod pace;

use crate::objects::PodObjects;
use engine::{DeltaOp, ExtentState, Op, OpError, Reply, Sink, Tag, call};
use pace::Pace;
use platform::threads::{Condvar, Mutex};
use replication::Replica;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use types::{BlockRange, LBA_BYTES, Lba, Period, StreamId, VolumeId};

/// Blocks under way at a time, in requests.
const DEPTH: usize = 16;
/// Extents that are asked for at a time.
const EXTENTS: usize = 1024;
/// Most bytes of data that a request sends.
const MAX_DATA: u64 = 1 << 20;
/// Time between two looks for the limit.
const LOOK: Duration = Duration::from_millis(200);
/// Pause when nothing is missing.
const PAUSE: Duration = Duration::from_millis(20);
/// Pause when blocks cannot be sent.
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// How far a source has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Bytes that the peer lacked in the present pass.
    pub(crate) total: AtomicU64,
    /// Bytes of them that were sent.
    pub(crate) sent: AtomicU64,
    /// Bytes that were sent in all passes.
    pub(crate) moved: AtomicU64,
}

impl Progress {
    fn note(&self, blocks: u64) {
        let bytes = blocks * LBA_BYTES;
        self.sent.fetch_add(bytes, Ordering::Relaxed);
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }
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
    /// Starts a worker for a period.
    ///
    /// # Errors
    ///
    /// There is no thread for it.
    pub(crate) fn start(
        engine: Arc<dyn Replica>,
        objects: Arc<dyn PodObjects>,
        stream: StreamId,
        period: Period,
    ) -> io::Result<Self> {
        let (stop, progress) = (Arc::<AtomicBool>::default(), Arc::<Progress>::default());
        let pace = Mutex::default();
        let worker = Worker { engine, objects, stream, period, stop: stop.clone(), progress: progress.clone(), pace };
        platform::threads::spawn("resync", move || worker.run())?;
        Ok(Self { stop, progress })
    }
}

struct Worker {
    engine: Arc<dyn Replica>,
    objects: Arc<dyn PodObjects>,
    stream: StreamId,
    period: Period,
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
    /// The pace, and when its limit was looked for.
    pace: Mutex<(Pace, Option<Instant>)>,
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
    /// Rests of ranges that need more than one request.
    rests: Vec<BlockRange>,
    error: Option<OpError>,
}

/// A request.
struct Sending {
    window: Arc<Window>,
    worker: Arc<Worker>,
    volume: VolumeId,
    range: BlockRange,
}

impl Sending {
    fn note(&self, blocks: u64) {
        if is_shown(self.volume) {
            self.worker.progress.note(blocks);
        }
    }
}

/// True for a volume whose size counts in the progress. That of the reservations is large, and
/// nearly empty.
fn is_shown(volume: VolumeId) -> bool {
    volume.stream().is_none_or(|stream| stream.reservations() != volume)
}

/// Returns the bytes that the request for a range is charged.
fn charge_of(range: BlockRange) -> u64 {
    range.bytes().min(MAX_DATA)
}

impl Sink for Sending {
    fn complete(&self, _: Tag, result: Result<Reply, OpError>) {
        let (done, data) = match &result {
            Ok(Reply::Synced { blocks, data }) => (*blocks, *data),
            _ => (0, 0),
        };
        self.worker.pace.lock().0.refund(charge_of(self.range).saturating_sub(data));
        let rest = self.range.blocks().saturating_sub(done);
        let rest =
            BlockRange::new(Lba(self.range.start().0 + done), rest).ok().filter(|rest| done > 0 && !rest.is_empty());
        if result.is_ok() {
            self.note(if rest.is_some() { done } else { self.range.blocks() });
        }
        let mut state = self.window.state.lock();
        state.count -= 1;
        state.rests.extend(rest);
        // The delta of a whole volume is longer than the volume.
        if let Err(error) = result
            && !matches!(error, OpError::OutOfRange { .. })
        {
            state.error = Some(error);
        }
        self.window.changed.notify_all();
    }
}

impl Worker {
    fn run(self) {
        let worker = Arc::new(self);
        let mut problem = None;
        while !worker.is_over() {
            let is_complete = worker.engine.stream_status(worker.stream).is_none_or(|status| status.is_delta_empty);
            let has_failed = !is_complete && worker.pass(&mut problem);
            if is_complete || has_failed {
                platform::clock::sleep(if has_failed { LONG_PAUSE } else { PAUSE });
            }
        }
    }

    /// Sends what the peer lacks once. Returns whether something could not be sent; `problem` is
    /// the last error, which is reported once.
    fn pass(self: &Arc<Self>, problem: &mut Option<OpError>) -> bool {
        let volumes = self.engine.stream_volumes(self.stream);
        let shown = volumes.iter().filter(|(volume, _)| is_shown(*volume));
        let lacking = shown.map(|(volume, blocks)| self.lacking(*volume, *blocks)).sum::<u64>();
        self.progress.total.store(lacking * LBA_BYTES, Ordering::Relaxed);
        self.progress.sent.store(0, Ordering::Relaxed);
        let mut has_failed = false;
        for (volume, _) in volumes {
            match self.send_volume(volume) {
                Ok(()) | Err(OpError::NoSuchVolume(_)) => {}
                // Blocks that cannot be read stay in the delta. The end of the period is no error.
                Err(error) => {
                    has_failed = true;
                    if !self.is_over() && problem.as_ref() != Some(&error) {
                        tracing::error!(%volume, "blocks cannot be sent to the other array: {error}");
                        *problem = Some(error);
                    }
                }
            }
        }
        has_failed
    }

    /// The period has ended, or the source.
    fn is_over(&self) -> bool {
        let status = self.engine.stream_status(self.stream);
        self.stop.load(Ordering::Relaxed) || status.is_none_or(|status| status.period != self.period)
    }

    /// Returns the next extents of a delta, and where the ones after them begin.
    fn extents(&self, volume: VolumeId, from: Lba) -> Result<Option<(Vec<BlockRange>, Lba)>, OpError> {
        let next = Op::Delta(DeltaOp::Next { volume, from, limit: EXTENTS });
        let extents = match call(&*self.engine, next) {
            Ok(Reply::Extents(extents)) => extents,
            // The delta of a whole volume is longer than the volume.
            Ok(_) | Err(OpError::OutOfRange { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(end) = extents.last().map(|last| last.range.end()).filter(|end| *end > from) else { return Ok(None) };
        let mapped = extents.iter().filter(|extent| extent.state == ExtentState::Mapped);
        Ok(Some((mapped.map(|extent| extent.range).collect(), end)))
    }

    /// Returns the blocks of a volume of this size that the peer lacks, unless they are unreadable.
    fn lacking(&self, volume: VolumeId, size: u64) -> u64 {
        let (mut blocks, mut from) = (0, Lba(0));
        while let Ok(Some((ranges, next))) = self.extents(volume, from) {
            blocks += ranges.iter().map(|range| range.end().0.min(size).saturating_sub(range.start().0)).sum::<u64>();
            from = next;
            if self.is_over() {
                break;
            }
        }
        blocks
    }

    /// Sends what the peer lacks of a volume.
    fn send_volume(self: &Arc<Self>, volume: VolumeId) -> Result<(), OpError> {
        let (window, mut ranges, mut next) = (Arc::<Window>::default(), VecDeque::new(), Some(Lba(0)));
        loop {
            if let Some(from) = next.filter(|_| ranges.is_empty()) {
                let found = self.extents(volume, from)?;
                next = found.as_ref().map(|(_, next)| *next);
                ranges.extend(found.into_iter().flat_map(|(ranges, _)| ranges));
                continue;
            }
            let Some(range) = self.enter(&window, &mut ranges) else { break };
            self.submit(&window, volume, range);
            if self.is_over() {
                return Ok(());
            }
        }
        window.state.lock().error.take().map_or(Ok(()), Err)
    }

    /// Waits for a place and for the pace, and returns the next range: rests first. `None` at the
    /// end, when nothing is under way.
    fn enter(&self, window: &Window, ranges: &mut VecDeque<BlockRange>) -> Option<BlockRange> {
        while !self.stop.load(Ordering::Relaxed) {
            let pace = self.pace();
            let mut state = window.state.lock();
            let has_range = !state.rests.is_empty() || !ranges.is_empty();
            if state.count == 0 && !has_range {
                return None;
            }
            let is_free = state.count < DEPTH && has_range;
            if is_free && pace.is_zero() {
                let range = state.rests.pop().or_else(|| ranges.pop_front())?;
                state.count += 1;
                drop(state);
                self.pace.lock().0.charge(platform::clock::now(), charge_of(range));
                return Some(range);
            }
            window.changed.wait_for(&mut state, if is_free { pace.min(PAUSE) } else { PAUSE });
        }
        None
    }

    /// Returns the time until a request may be made.
    fn pace(&self) -> Duration {
        let mut pace = self.pace.lock();
        let (now, (pace, looked)) = (platform::clock::now(), &mut *pace);
        if looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK) {
            *looked = Some(now);
            pace.set(self.objects.resync_limit(self.stream));
        }
        pace.wait(now)
    }

    fn submit(self: &Arc<Self>, window: &Arc<Window>, volume: VolumeId, range: BlockRange) {
        let sending = Sending { window: window.clone(), worker: self.clone(), volume, range };
        let sink: Arc<dyn Sink> = Arc::new(sending);
        self.engine.submit(Op::Sync { volume, period: self.period, range }, 0, &sink);
        self.engine.kick();
    }
}
