//! Copies into a pod that both arrays serve: only what the other array lacks crosses the link.
//!
//! ```text
//!  own stage ◀─ copy ─ source                                          stage of the other array
//!      │ marks of the pieces ─────────── Offer ──────────▶ copies pieces that it has, compares
//!      │ pieces that it lacks ◀───────── Want ────────────┤
//!      ├──────────────────────────────── Pieces ─────────▶ compares and writes them
//!      │                        ◀─────── Kept ────────────┘
//!      └─▶ the stream orders a copy from the stage to the destination: references at both arrays
//! ```
//!
//! A *stage* is a hidden volume of the pod's stream, which each array fills by itself. Each place
//! in it is filled once, so its content is the same at both arrays from `Kept` to the end of the
//! period. The engine refuses a copy from it in any other period. If something fails before the
//! copy is ordered, [`crate::border`] writes the data of the chunk.

mod filling;
mod fillings;
mod kept;
mod letters;
mod origins;
mod pieces;
mod places;
mod pool;

use crate::environment::Environment;
use crate::handle::{LinkSession, PodHandle};
use engine::{BlockService, Change, Gate, Op, OpError, Role, call};
use fillings::Fillings;
use kept::KeptChunks;
pub(crate) use letters::CopyMessage;
use letters::{ChunkOffer, MAX_FORGOTTEN, PIECES_PER_MESSAGE};
use origins::{Known, Origins};
use pieces::{Content, MAX_PIECES, PIECE_BYTES};
use places::Places;
use platform::clock;
use platform::threads::{Mutex, mpsc};
use pod::Side;
use pool::JobPool;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::{BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lba, Period, StreamId, VolumeId};

/// Blocks of a chunk.
pub(crate) const CHUNK_BLOCKS: u64 = MAX_PIECES as u64 * LBAS_PER_BLOCK;
/// Size of a stage: each chunk of a period has a place of its own in it.
const STAGE_BLOCKS: u64 = (1 << 50) / LBA_BYTES;
/// Chunks under way at a time, for own copies and for those of the other array.
const JOBS: usize = 24;
/// Time for the other array to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A chunk that no copy has used for this long is forgotten.
const KEPT_FOR: Duration = Duration::from_secs(20);
/// Time between two looks at the chunks that are kept.
const EXPIRY: Duration = Duration::from_secs(1);
/// Part of the pool's capacity that kept chunks may refer to.
const KEPT_PART: u64 = 8;

/// The pod of a stream, and the session of the link with its other array.
pub(crate) type Partner = (Arc<PodHandle>, LinkSession);
type Find = Box<dyn Fn(StreamId) -> Option<Partner> + Send + Sync>;

/// A chunk to be copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) source: VolumeId,
    pub(crate) from: BlockRange,
    pub(crate) destination: VolumeId,
    pub(crate) to: Lba,
}

/// The end of a chunk.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    /// Its data have to be written.
    Whole,
    Failed(OpError),
}

/// An answer of the other array.
enum Answer {
    Want(Vec<u8>),
    Kept(bool),
}

/// The stage of a pod for the copies of this array.
struct Stage {
    id: VolumeId,
    kept: KeptChunks,
}

/// Bytes of copies into a pod by way of this array, since the array has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiedBytes {
    /// Bytes that hosts have copied this way.
    pub copied: u64,
    /// Bytes of their pieces that have crossed the link.
    pub crossed: u64,
}

/// Copies into pods that both arrays serve.
pub(crate) struct Exchange {
    environment: Environment,
    service: Weak<dyn BlockService>,
    find: Find,
    copies: JobPool,
    fills: JobPool,
    stages: Mutex<BTreeMap<StreamId, Stage>>,
    /// Exchanges that wait for an answer, by their numbers.
    waiting: Mutex<BTreeMap<u64, (LinkSession, mpsc::Sender<Answer>)>>,
    next: AtomicU64,
    filling: Mutex<Fillings>,
    /// Places of copied chunks in volumes of pods.
    places: Mutex<Places>,
    /// Ranges that were copied into pods.
    origins: Mutex<Origins>,
    bytes: Mutex<BTreeMap<StreamId, CopiedBytes>>,
    /// Chunks are looked at from this time of the lease clock on.
    expires: Mutex<Duration>,
}

impl Exchange {
    /// Creates the copies of an array. `find` returns the pod of a stream.
    pub(crate) fn new(environment: Environment, service: Weak<dyn BlockService>, find: Find) -> Arc<Self> {
        let pool = || JobPool::new(environment.runtime.clone(), JOBS);
        let (copies, fills) = (pool(), pool());
        Arc::new(Self {
            environment,
            service,
            find,
            copies,
            fills,
            stages: Mutex::default(),
            waiting: Mutex::default(),
            next: AtomicU64::new(0),
            filling: Mutex::default(),
            places: Mutex::default(),
            origins: Mutex::default(),
            bytes: Mutex::default(),
            expires: Mutex::default(),
        })
    }

    /// Returns the bytes that were copied into a pod.
    pub(crate) fn bytes(&self, stream: StreamId) -> CopiedBytes {
        self.bytes.lock().get(&stream).copied().unwrap_or_default()
    }

    fn count(&self, stream: StreamId, copied: u64, crossed: u64) {
        let mut bytes = self.bytes.lock();
        let counted = bytes.entry(stream).or_default();
        counted.copied += copied;
        counted.crossed += crossed;
    }

    /// Copies a chunk if its pod serves at both arrays; `then` receives the end. Returns false if
    /// it cannot be copied so.
    pub(crate) fn copy(self: &Arc<Self>, chunk: Chunk, then: impl FnOnce(Outcome) + Send + 'static) -> bool {
        let is_aligned = (chunk.from.start().0 | chunk.from.blocks() | chunk.to.0).is_multiple_of(LBAS_PER_BLOCK);
        let partner = chunk.destination.stream().and_then(|stream| (self.find)(stream));
        let Some((handle, link)) = partner.filter(|(handle, _)| is_aligned && handle.is_in_step()) else {
            return false;
        };
        let exchange = self.clone();
        self.copies.run(move || then(exchange.copy_now(&chunk, &handle, link)));
        true
    }

    /// Returns the range of `source` that begins at block `start`, with its copy in the pod of
    /// `destination` if this array orders the changes of that pod. None is known of a source in a
    /// pod: its array may not be allowed to read it, which nothing would check.
    pub(crate) fn known_at(&self, source: VolumeId, start: u64, destination: VolumeId) -> Known {
        let status = |stream| self.environment.engine.stream_status(stream);
        let stream = destination.stream().filter(|stream| {
            source.stream().is_none()
                && status(*stream).is_some_and(|status| status.role == Role::Sequencer && status.gate != Gate::Closed)
        });
        let unknown = Known { blocks: u64::MAX, copy: None };
        stream.map_or(unknown, |stream| self.origins.lock().at(stream, source, start))
    }

    /// The pod of a volume has no copy of `start..end` of `source`.
    pub(crate) fn forget_copy(&self, source: VolumeId, start: u64, end: u64, destination: VolumeId) {
        if let Some(stream) = destination.stream() {
            self.origins.lock().forget(stream, source, start, end);
        }
    }

    /// Bytes were copied from a copy that the pod of a volume had.
    pub(crate) fn count_equal(&self, destination: VolumeId, bytes: u64) {
        if let Some(stream) = destination.stream() {
            self.count(stream, bytes, 0);
        }
    }

    fn copy_now(&self, chunk: &Chunk, handle: &PodHandle, link: LinkSession) -> Outcome {
        let Some(service) = self.service.upgrade() else { return Outcome::Whole };
        let Some((stage, place)) = self.own_place(handle) else { return Outcome::Whole };
        let kept = self.keep(&*service, chunk, (handle, link), (stage, place));
        let Some(at) = kept else {
            self.release(stage, place, false);
            return Outcome::Whole;
        };
        let Ok(from) = BlockRange::new(at, chunk.from.blocks()) else { return Outcome::Whole };
        let (destination, to) = (chunk.destination, chunk.to);
        let result = call(&*service, Op::Copy { source: stage, from, destination, to });
        let is_unknown = matches!(&result, Err(OpError::Unavailable(_) | OpError::Transition(_) | OpError::Stopped(_)));
        self.release(stage, at, is_unknown);
        match result {
            Ok(_) => {
                self.count(handle.stream, chunk.from.bytes(), 0);
                self.origins.lock().note(handle.stream, chunk.source, chunk.from, (destination, to));
                Outcome::Done
            }
            // Another period has begun.
            Err(OpError::Malformed(_)) => Outcome::Whole,
            Err(OpError::NoSuchVolume(volume)) if volume == stage => Outcome::Whole,
            Err(error) => Outcome::Failed(error),
        }
    }

    /// Returns a new place in the stage of a pod, which exists.
    fn own_place(&self, handle: &PodHandle) -> Option<(VolumeId, Lba)> {
        let period = self.period(handle)?;
        let id = handle.stream.stage(period, handle.side == Side::B);
        let now = clock::lease_time();
        let mut stages = self.stages.lock();
        if stages.get(&handle.stream).is_none_or(|stage| stage.id != id) {
            // Places of one that exists may be named already.
            let is_new = self.prepare(handle.stream, id, period).ok()?;
            is_new.then(|| stages.insert(handle.stream, Stage { id, kept: KeptChunks::default() }))?;
        }
        stages.get_mut(&handle.stream)?.kept.place(STAGE_BLOCKS, now).map(|at| (id, at))
    }

    /// Returns the period of a pod that both arrays serve.
    fn period(&self, handle: &PodHandle) -> Option<Period> {
        let status = self.environment.engine.stream_status(handle.stream)?;
        (status.gate == Gate::Both && handle.is_in_step()).then_some(status.period)
    }

    /// Makes a stage if it does not exist, and removes those of earlier periods. Returns whether it
    /// is new.
    fn prepare(&self, stream: StreamId, stage: VolumeId, period: Period) -> Result<bool, OpError> {
        let engine = &self.environment.engine;
        let stages = engine.stream_stages(stream);
        let late = stages.iter().filter(|stage| !stage.is_stage_of(period));
        let mut changes: Vec<_> = late.map(|late| Change::DeleteVolume { volume: *late }).collect();
        let is_new = !stages.contains(&stage);
        if is_new {
            changes.push(Change::CreateVolume { volume: stage, blocks: STAGE_BLOCKS });
        }
        if !changes.is_empty() {
            call(&**engine, Op::Change(changes))?;
        }
        Ok(is_new)
    }

    /// Brings a chunk into the stages of both arrays. Returns its place, which the caller uses; the
    /// new place is free then if it is another one.
    fn keep(
        &self,
        service: &dyn BlockService,
        chunk: &Chunk,
        (handle, link): (&PodHandle, LinkSession),
        (stage, at): (VolumeId, Lba),
    ) -> Option<Lba> {
        let fill = Op::Copy { source: chunk.source, from: chunk.from, destination: stage, to: at };
        call(service, fill).ok()?;
        let pieces = usize::try_from(chunk.from.blocks() / LBAS_PER_BLOCK).ok()?;
        let content = pieces::read(&*self.environment.engine, stage, at, pieces).ok()?;
        let name = pieces::name_of(&content.marks);
        // The other array may copy the same to this one.
        self.places.lock().note(name, (chunk.destination, chunk.to));
        if let Some(held) = self.with_kept(stage, |kept, now| kept.find(&name, now)).flatten() {
            self.release(stage, at, false);
            return Some(held);
        }
        let (source, destination) = ((chunk.source, chunk.from.start()), (chunk.destination, chunk.to));
        let offer = ChunkOffer { stage, at, source, destination, marks: content.marks.clone() };
        if !self.offer(handle, link, offer, &content) {
            return None;
        }
        self.with_kept(stage, |kept, _| kept.keep(at, name))?;
        Some(at)
    }

    /// Offers a chunk to the other array. Returns whether it has it now.
    fn offer(&self, handle: &PodHandle, link: LinkSession, offer: ChunkOffer, content: &Content) -> bool {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answers) = mpsc::channel();
        self.waiting.lock().insert(number, (link, sender));
        let is_kept = self.send(handle, link, number, &CopyMessage::Offer(offer))
            && match answers.recv_timeout(PATIENCE) {
                Ok(Answer::Kept(is_kept)) => is_kept,
                Ok(Answer::Want(bits)) => {
                    self.send_pieces(handle, link, number, &bits, content)
                        && matches!(answers.recv_timeout(PATIENCE), Ok(Answer::Kept(true)))
                }
                Err(_) => false,
            };
        self.waiting.lock().remove(&number);
        is_kept
    }

    fn send_pieces(&self, handle: &PodHandle, link: LinkSession, number: u64, bits: &[u8], content: &Content) -> bool {
        let is_wanted = |at: usize| bits.get(at / 8).is_some_and(|bits| bits >> (at % 8) & 1 == 1);
        let pieces = content.data.chunks_exact(PIECE_BYTES).enumerate().filter(|(at, _)| is_wanted(*at));
        let wanted: Vec<&[u8]> = pieces.map(|(_, piece)| piece).collect();
        wanted.chunks(PIECES_PER_MESSAGE).all(|part| {
            self.count(handle.stream, 0, (part.len() * PIECE_BYTES) as u64);
            self.send(handle, link, number, &CopyMessage::Pieces(part.concat().into()))
        })
    }

    fn send(&self, handle: &PodHandle, link: LinkSession, number: u64, message: &CopyMessage) -> bool {
        self.environment.carrier.send(&handle.array, link, handle.stream, message.encode(number))
    }

    fn with_kept<T>(&self, stage: VolumeId, look: impl FnOnce(&mut KeptChunks, Duration) -> T) -> Option<T> {
        let mut stages = self.stages.lock();
        let held = stages.get_mut(&stage.stream()?).filter(|held| held.id == stage)?;
        Some(look(&mut held.kept, clock::lease_time()))
    }

    fn release(&self, stage: VolumeId, at: Lba, is_unknown: bool) {
        self.with_kept(stage, |kept, now| kept.release(at, now, is_unknown));
    }

    /// Forgets chunks that no copy has used for a while, at both arrays.
    pub(crate) fn expire(self: &Arc<Self>, now: Duration) {
        let Some(before) = now.checked_sub(KEPT_FOR) else { return };
        {
            let mut expires = self.expires.lock();
            if now < *expires {
                return;
            }
            *expires = now + EXPIRY;
        }
        let streams: Vec<StreamId> = self.stages.lock().keys().copied().collect();
        if streams.is_empty() {
            return;
        }
        let most = self.environment.engine.space().capacity / KEPT_PART / (CHUNK_BLOCKS * LBA_BYTES);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        for stream in streams {
            let due = self
                .stages
                .lock()
                .get_mut(&stream)
                .map(|stage| (stage.id, stage.kept.forget(before, most, MAX_FORGOTTEN)));
            let Some((stage, chunks)) = due.filter(|(_, chunks)| !chunks.is_empty()) else { continue };
            if let Some((handle, link)) = (self.find)(stream) {
                self.send(&handle, link, 0, &CopyMessage::Forget(stage, chunks.clone()));
            }
            self.drop_chunks(stage, chunks);
        }
    }

    /// A pod has ended at this array.
    pub(crate) fn forget_pod(&self, stream: StreamId) {
        self.stages.lock().remove(&stream);
        self.bytes.lock().remove(&stream);
        self.origins.lock().forget_stream(stream);
    }

    /// A session of the link has ended.
    pub(crate) fn link_ended(&self, link: LinkSession) {
        self.waiting.lock().retain(|_, (session, _)| *session != link);
        self.filling.lock().end(link);
    }

    /// Takes a message of the other array of a pod.
    ///
    /// # Errors
    ///
    /// The message is none that the other array may send.
    pub(crate) fn message(
        self: &Arc<Self>,
        handle: &Arc<PodHandle>,
        link: LinkSession,
        message: &bytes::Bytes,
    ) -> Result<(), String> {
        let malformed = || format!("a malformed message of a copy into {}", handle.stream);
        let (number, message) = CopyMessage::decode(message).ok_or_else(malformed)?;
        let is_of_peer = |stage: VolumeId| {
            let is_of_stream = stage.is_stage() && stage.stream() == Some(handle.stream);
            is_of_stream && stage.is_second_stage() == (handle.side == Side::A)
        };
        match message {
            CopyMessage::Offer(offer) if is_of_peer(offer.stage) => self.take_offer(handle, link, number, offer),
            CopyMessage::Pieces(data) => self.take_pieces(handle, link, number, &data),
            CopyMessage::Want(bits) => self.answered(link, number, Answer::Want(bits)),
            CopyMessage::Kept(is_kept) => self.answered(link, number, Answer::Kept(is_kept)),
            CopyMessage::Forget(stage, chunks) if is_of_peer(stage) => self.drop_chunks(stage, chunks),
            CopyMessage::Offer(_) | CopyMessage::Forget(..) => return Err(malformed()),
        }
        Ok(())
    }

    /// Only an answer in the session of its question counts.
    fn answered(&self, link: LinkSession, number: u64, answer: Answer) {
        let waiting = self.waiting.lock();
        if let Some((_, sender)) = waiting.get(&number).filter(|(session, _)| *session == link) {
            // A copy that has ended takes no answer.
            let _ = sender.send(answer);
        }
    }

    /// Removes chunks from a stage here. A place is never filled again, so this may be late.
    fn drop_chunks(self: &Arc<Self>, stage: VolumeId, chunks: Vec<Lba>) {
        let engine = self.environment.engine.clone();
        self.fills.run(move || {
            let ranges = chunks.into_iter().filter_map(|at| BlockRange::new(at, CHUNK_BLOCKS).ok()).collect();
            match call(&*engine, Op::Unmap { volume: stage, ranges }) {
                // It went with its period.
                Ok(_) | Err(OpError::NoSuchVolume(_)) => {}
                Err(error) => tracing::warn!(%stage, "chunks of copies are kept longer: {error}"),
            }
        });
    }
}
