//! Streams: orders of changes that a peer follows. See [`crate::stream_service`].
//!
//! ```text
//! record ─▶ position ─▶ group of the log ─▶ durable here ──┬─▶ committed: reply, locks released
//!                └────▶ event for the peer ─▶ its report ──┘   (Gate::Both)
//! ```
//!
//! A task of a stream keeps its locks until its records are committed, so no reader sees content
//! that the peer could lack. The map has that content before, like content that is not flushed.
//! Records that the peer may lack are the *tail* of the stream, which a checkpoint stores.

mod account;
mod credit;
mod forms;
mod leaving;
mod removal;
mod tail;

pub(crate) use account::{Credited, Outgoing, Room};
use forms::is_copy_to_stage;
pub(crate) use forms::{FULL_DELTA_BLOCKS, is_for_peer, is_of_delta, is_volume_change, volumes_of};
pub(crate) use removal::Removal;

use super::io::TaskId;
use super::steps::UNMAP_STEP_RANGES;
use crate::delta_op::{DeltaMode, DeltaOp};
use crate::service::{Change, EqualCopy, Op, OpError};
use crate::stream_credit::Credit;
use crate::stream_record::{FollowedRecord, MAX_FOLLOWED_OPS, StreamChange, StreamRecord};
use crate::stream_service::{Gate, NewPeriod, Role, StreamStatus};
use account::Account;
use bytes::Bytes;
use forms::{check_change, check_record, is_value, ranges_for_tail, reads_earlier, volume_of_delta_op};
use ondisk::{ManifestStream, ManifestTail, manifest_stream_bytes};
use std::collections::{BTreeMap, VecDeque};
use tail::Tail;
use types::{BLOCK_BYTES, BlockRange, Lsn, Period, Position, StreamId, VolumeId};
use wal::{LogOp, StreamEntry};

/// Bytes of the log for each range that a tail lists at most.
const LOG_BYTES_PER_RANGE: u64 = 2048;
const MIN_TAIL_RANGES: usize = 64;
const MAX_TAIL_RANGES: usize = 1 << 15;

/// Fewest bytes of data that the records of a period may hold: two blocks of 4 KiB.
const MIN_PAYLOAD: u64 = 2 * BLOCK_BYTES;

const _: () = assert!(UNMAP_STEP_RANGES <= MAX_FOLLOWED_OPS);

/// The streams of an array.
#[derive(Default)]
pub(crate) struct OrderedStreams {
    streams: BTreeMap<StreamId, OrderedStream>,
    /// Ranges that a tail lists at most.
    max_tail: usize,
    /// Room that is lent to peers and not used yet.
    promised: Credit,
}

/// Tasks of a stream that was closed.
pub(crate) struct ClosedTasks {
    /// Waited for the commit of their records.
    pub(crate) committing: Vec<TaskId>,
    /// Waited for their turn.
    pub(crate) turn: Vec<TaskId>,
    /// Waited for credit.
    pub(crate) credit: Vec<TaskId>,
}

/// One stream.
struct OrderedStream {
    period: Period,
    /// Position of the last record.
    last: Position,
    /// Everything up to this position is on stable storage here.
    durable: Position,
    /// The peer has reported everything up to this position as durable.
    heard: Position,
    base: (Period, Position),
    role: Role,
    gate: Gate,
    delta: DeltaMode,
    /// Changes of hosts wait until the tail is in the deltas.
    awaits_tail: bool,
    /// Most bytes of data in a record that is ordered.
    max_payload: u64,
    /// The checkpoint that must be complete before the first record.
    stored_with: u64,
    is_ready: bool,
    is_hurt: bool,
    /// It is being removed.
    removal: Option<Removal>,
    tail: Tail,
    /// Last position that a followed record was submitted with.
    entered: Position,
    /// Records in groups that are not durable yet.
    unflushed: VecDeque<(Lsn, Position)>,
    /// Tasks whose records are not committed yet.
    commit_waiters: VecDeque<(Position, TaskId)>,
    /// Followed records that wait for earlier ones.
    turn_waiters: BTreeMap<Position, TaskId>,
    account: Account,
}

impl OrderedStream {
    fn new(period: Period, last: Position, heard: Position, base: (Period, Position)) -> Self {
        Self {
            period,
            last,
            durable: last,
            heard,
            base,
            role: Role::Follower,
            gate: Gate::Closed,
            delta: DeltaMode::Off,
            awaits_tail: false,
            max_payload: u64::MAX,
            stored_with: 0,
            is_ready: true,
            is_hurt: false,
            removal: None,
            tail: Tail::default(),
            entered: last,
            unflushed: VecDeque::new(),
            commit_waiters: VecDeque::new(),
            turn_waiters: BTreeMap::new(),
            account: Account::default(),
        }
    }

    /// Returns the position up to which changes are committed.
    fn committed(&self) -> Position {
        match self.gate {
            Gate::Both if platform::planted::is_planted("own-durability") => self.durable,
            Gate::Both => self.durable.min(self.heard),
            Gate::Local => self.durable,
            Gate::Closed => Position(0),
        }
    }

    /// Checks that a new period can begin.
    fn check_period(&self, new: NewPeriod) -> Result<(), &'static str> {
        let continues_alone = self.role == Role::Sequencer && (new.role, new.gate) == (Role::Sequencer, Gate::Local);
        let is_closed = self.gate == Gate::Closed;
        let refusals = [
            (self.removal.is_some(), "the stream is being removed"),
            (!self.is_ready, "the stream is not stored in a checkpoint yet"),
            (new.gate == Gate::Closed, "a period does not begin closed"),
            (new.max_payload < MIN_PAYLOAD, "records of the period hold too few bytes"),
            (new.period <= self.period, "the period is not a later one"),
            (!is_closed && !continues_alone, "the period before is not closed"),
            (is_closed && self.durable < self.last, "records of the period before are not durable yet"),
            (
                new.delta != DeltaMode::Off && (new.role, new.gate) != (Role::Sequencer, Gate::Local),
                "only a sequencer that does not wait for its peer has a delta",
            ),
            (
                self.is_hurt && (new.role, new.gate) != (Role::Follower, Gate::Local),
                "the log was damaged; the peer's content must be copied first",
            ),
            (new.role == Role::Sequencer && new.last != self.last, "the last position is another one"),
            (
                new.gate == Gate::Both && (new.last != self.last || self.heard < self.last),
                "the peer has not reported the last record as durable",
            ),
            (new.gate == Gate::Both && !self.tail.is_empty(), "the peer may lack changes"),
        ];
        refusals.iter().find(|(is_refused, _)| *is_refused).map_or(Ok(()), |(_, reason)| Err(*reason))
    }

    fn begin(&mut self, new: NewPeriod) {
        self.tail.end_period();
        (self.period, self.role, self.gate, self.delta) = (new.period, new.role, new.gate, new.delta);
        self.awaits_tail = new.delta != DeltaMode::Off && !self.tail.is_empty();
        self.max_payload = new.max_payload;
        if new.role == Role::Follower {
            (self.last, self.durable, self.entered) = (new.last, new.last, new.last);
        }
        // The peer may have had records of the period before that do not exist here.
        self.heard = self.heard.min(self.last);
    }

    /// Notes a record that was ordered or replayed. `is_skipped` if the peer gets a mark.
    fn add(&mut self, entry: StreamEntry, ops: &[LogOp], max_tail: usize, is_skipped: bool) {
        self.last = entry.position;
        // A peer that receives nothing lacks what the deltas have.
        let is_in_delta = is_skipped || self.delta == DeltaMode::Alone;
        let ranges = if is_in_delta { Vec::new() } else { ranges_for_tail(ops) };
        if !ranges.is_empty() {
            self.tail.push(ManifestTail { period: entry.period, position: entry.position, ranges }, max_tail);
        }
    }
}

impl OrderedStreams {
    /// Restores the streams that a manifest lists, for an array whose log has `log_bytes` bytes.
    /// They are closed.
    pub(crate) fn restore(listed: Vec<ManifestStream>, log_bytes: u64) -> Self {
        let streams = listed.into_iter().map(|listed| {
            let mut stream = OrderedStream::new(listed.period, listed.position, listed.heard, listed.base);
            stream.tail = Tail::restore(listed.period, listed.tail, listed.unlisted);
            stream.is_hurt = listed.is_hurt;
            (listed.id, stream)
        });
        let ranges = (log_bytes / LOG_BYTES_PER_RANGE) as usize;
        let max_tail = ranges.clamp(MIN_TAIL_RANGES, MAX_TAIL_RANGES);
        Self { streams: streams.collect(), max_tail, promised: Credit::default() }
    }

    /// Returns the streams as the manifest of the checkpoint of this number lists them.
    pub(crate) fn listed(&self, checkpoint: u64) -> Vec<ManifestStream> {
        let listed = self.streams.iter().filter(|(_, stream)| !stream.is_left_out(checkpoint));
        let listed = listed.map(|(id, stream)| ManifestStream {
            id: *id,
            period: stream.period,
            position: stream.last,
            // A follower may hear of records that it has not received yet.
            heard: stream.heard.min(stream.last),
            base: stream.base,
            is_hurt: stream.is_hurt,
            unlisted: stream.tail.unlisted(),
            tail: stream.tail.listed().cloned().collect(),
        });
        listed.collect()
    }

    /// Returns the bytes that the streams take in a manifest.
    pub(crate) fn manifest_bytes(&self) -> u64 {
        let counts = self.streams.values().map(|stream| stream.tail.counts());
        let (records, ranges) = counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        manifest_stream_bytes(self.streams.len() as u64, records, ranges)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Returns the stream whose changes a volume's changes are, if there is one. Changes of a stage
    /// are of none.
    pub(crate) fn of_volume(&self, volume: VolumeId) -> Option<StreamId> {
        volume.stream().filter(|stream| !volume.is_stage() && self.streams.contains_key(stream))
    }

    /// Returns the stream of a volume that requests name. They cannot name a delta.
    fn of_hosted(&self, volume: VolumeId) -> Result<Option<StreamId>, OpError> {
        match self.of_volume(volume) {
            Some(_) if volume.is_delta() => Err(OpError::NoSuchVolume(volume)),
            stream => Ok(stream),
        }
    }

    /// Returns what records of a stream do to deltas.
    pub(crate) fn delta_mode(&self, stream: StreamId) -> DeltaMode {
        self.streams.get(&stream).map_or(DeltaMode::Off, |stream| stream.delta)
    }

    /// True if the changes of a stream wait until its tail is in the deltas.
    pub(crate) fn awaits_tail(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(|stream| stream.awaits_tail)
    }

    /// Returns the present period of a stream.
    pub(crate) fn period(&self, stream: StreamId) -> Option<Period> {
        self.streams.get(&stream).map(|stream| stream.period)
    }

    /// Returns the ranges that the tail of a stream lists after the first `skipped` ones, or `None`
    /// if the tail is all volumes.
    pub(crate) fn tail_from(
        &self,
        stream: StreamId,
        skipped: usize,
    ) -> Option<impl Iterator<Item = (VolumeId, BlockRange)> + '_> {
        self.streams.get(&stream).and_then(|stream| stream.tail.ranges_from(skipped))
    }

    /// A record is in the log that ends adding the tail to the deltas.
    pub(crate) fn tail_added(&mut self, stream: StreamId) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.awaits_tail = false;
            stream.tail = Tail::default();
        }
    }

    /// True if a stream serves requests.
    pub(crate) fn is_open(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(|stream| stream.gate != Gate::Closed)
    }

    /// Returns the stream that orders a request.
    pub(crate) fn of_op(&self, op: &Op) -> Option<StreamId> {
        if self.is_empty() {
            return None;
        }
        match op {
            Op::Write { volume, .. }
            | Op::WriteSame { volume, .. }
            | Op::Zero { volume, .. }
            | Op::Unmap { volume, .. }
            | Op::CompareAndWrite { volume, .. }
            | Op::Or { volume, .. }
            | Op::Sync { volume, .. }
            | Op::Copy { destination: volume, .. } => self.of_volume(*volume),
            Op::CopyIfEqual(copy) => self.of_volume(copy.destination),
            Op::Change(changes) => {
                changes.iter().flat_map(volumes_of).flatten().find_map(|volume| self.of_volume(volume))
            }
            Op::StreamChange(change) => Some(change.stream),
            Op::Follow(followed) => Some(followed.record.stream),
            _ => None,
        }
    }

    /// Returns why a request cannot be executed in the present state of its stream.
    pub(crate) fn admit(&self, op: &Op) -> Result<(), OpError> {
        if self.is_empty() && !matches!(op, Op::Follow(_) | Op::Delta(_) | Op::StreamChange(_) | Op::Sync { .. }) {
            return Ok(());
        }
        match op {
            Op::Read { volume, .. } | Op::Status { volume, .. } | Op::Compare { volume, .. } => {
                self.of_hosted(*volume)?.map_or(Ok(()), |stream| self.open(stream, None).map(drop))
            }
            Op::Write { volume, .. }
            | Op::WriteSame { volume, .. }
            | Op::Zero { volume, .. }
            | Op::Unmap { volume, .. }
            | Op::CompareAndWrite { volume, .. }
            | Op::Or { volume, .. } => self.open_for(self.of_hosted(*volume)?),
            Op::Copy { source, destination, .. } => match (self.of_hosted(*source)?, self.of_hosted(*destination)?) {
                (None, Some(to)) if source.is_stage() => self.admit_from_stage(*source, to),
                // A stage takes pieces of other streams, too.
                (Some(from), None) if destination.is_stage() => self.open(from, None).map(drop),
                (None, None) => Ok(()),
                (from, to) if from == to => self.open_for(to),
                _ => Err(OpError::Malformed("a copy from or to a volume of another stream, or of none")),
            },
            Op::CopyIfEqual(copy) => self.admit_equal_copy(copy),
            Op::Change(changes) => self.admit_changes(changes),
            Op::StreamChange(change) => {
                check_change(change)?;
                self.open(change.stream, Some(Role::Sequencer)).map(drop)
            }
            Op::Follow(followed) => self.admit_record(followed),
            Op::Sync { volume, period, .. } => self.admit_sync(*volume, *period),
            Op::Delta(delta) => self.admit_delta(delta),
            Op::Flush => Ok(()),
        }
    }

    fn admit_equal_copy(&self, copy: &EqualCopy) -> Result<(), OpError> {
        let (other, to) = (self.of_hosted(copy.other)?, self.of_hosted(copy.destination)?);
        let has_stage = [copy.source, copy.other, copy.destination].iter().any(|volume| volume.is_stage());
        if other != to || has_stage {
            return Err(OpError::Malformed("a copy by way of a volume of another stream, or of a stage"));
        }
        // Its array may not be allowed to read it, which is decided outside of the engine.
        if self.of_hosted(copy.source)?.is_some_and(|source| Some(source) != to) {
            return Err(OpError::Malformed("a copy by way of equal content from another stream"));
        }
        self.open_for(to)
    }

    /// Checks that a stream can order a copy of pieces that its stage has. Both arrays have filled
    /// it for this period, and neither notes in a delta that the other one could lack them.
    fn admit_from_stage(&self, stage: VolumeId, to: StreamId) -> Result<(), OpError> {
        let stream = self.open(to, Some(Role::Sequencer))?;
        let is_present = stage.stream() == Some(to) && stage.is_stage_of(stream.period);
        if is_present && stream.gate == Gate::Both {
            return Ok(());
        }
        Err(OpError::Malformed("the stage is not of the present period of the stream"))
    }

    fn admit_record(&self, followed: &FollowedRecord) -> Result<(), OpError> {
        check_record(followed)?;
        let record = &followed.record;
        let stream = self.open(record.stream, Some(Role::Follower))?;
        if record.is_mark() && stream.gate == Gate::Both {
            return Err(OpError::Malformed("a mark, but both arrays have every change of the period"));
        }
        if record.period == stream.period && record.position > stream.last {
            return Ok(());
        }
        Err(OpError::Unavailable("the record is of another period, or was applied already"))
    }

    /// Checks that the content of a volume can be sent.
    fn admit_sync(&self, volume: VolumeId, period: Period) -> Result<(), OpError> {
        let stream = self.of_hosted(volume)?.ok_or(OpError::Malformed("the volume is in no stream"))?;
        let stream = self.open(stream, Some(Role::Sequencer))?;
        if stream.period != period {
            return Err(OpError::Unavailable("another period has begun"));
        }
        let is_source = stream.delta == DeltaMode::Source;
        if is_source { Ok(()) } else { Err(OpError::Unavailable("this array is not the source of its peer")) }
    }

    /// Returns why a change of a stream cannot be ordered as its next record. `has_delta` if a
    /// delta of the stream has a block.
    pub(crate) fn check_next(&self, change: &StreamChange, has_delta: bool) -> Result<(), OpError> {
        let next = self.streams.get(&change.stream).map(|stream| stream.last.next());
        if change.position.is_some() && change.position != next {
            return Err(OpError::Unavailable("the next position of the stream is another one"));
        }
        if change.needs_empty_deltas && has_delta {
            return Err(OpError::Unavailable("a delta is not empty"));
        }
        Ok(())
    }

    /// Checks that a request about deltas is possible in the present state of its stream.
    fn admit_delta(&self, op: &DeltaOp) -> Result<(), OpError> {
        let has_delta = |stream: &OrderedStream| {
            let refused = OpError::Unavailable("the period has no delta");
            if stream.delta == DeltaMode::Off { Err(refused) } else { Ok(()) }
        };
        let is_present = |stream: StreamId, period: Period| {
            let is_present = self.period(stream) == Some(period);
            if is_present { Ok(()) } else { Err(OpError::Unavailable("another period has begun")) }
        };
        if let DeltaOp::AddTail { stream, period } = op {
            has_delta(self.open(*stream, Some(Role::Sequencer))?)?;
            return is_present(*stream, *period);
        }
        let volume = volume_of_delta_op(op).unwrap_or_default();
        let stream = self.of_hosted(volume)?.ok_or(OpError::Malformed("the volume is in no stream"))?;
        match op {
            DeltaOp::Add { .. } => has_delta(self.open(stream, Some(Role::Sequencer))?),
            DeltaOp::Clear { period, .. } => {
                let is_kept = self.streams.get(&stream).is_none_or(|held| held.removal.is_none());
                let kept = if is_kept { Ok(()) } else { Err(OpError::Unavailable("the stream is being removed")) };
                kept.and(is_present(stream, *period))
            }
            _ => Ok(()),
        }
    }

    /// Checks changes of volumes as a whole, which may be in one stream or in none.
    fn admit_changes(&self, changes: &[Change]) -> Result<(), OpError> {
        for change in changes {
            let is_of_stage = volumes_of(change).into_iter().flatten().any(VolumeId::is_stage);
            match change {
                Change::CreateVolume { volume, .. } if is_of_stage => {
                    let stream = volume.stream().ok_or(OpError::NoSuchVolume(*volume))?;
                    self.open(stream, None)?;
                }
                Change::DeleteVolume { .. } => {}
                _ if is_of_stage => return Err(OpError::Malformed("a stage is resized, or copied as a whole")),
                _ => {}
            }
        }
        let streams = || changes.iter().flat_map(volumes_of).flatten().map(|volume| self.of_volume(volume));
        let Some(stream) = streams().flatten().next() else { return Ok(()) };
        if streams().any(|other| other != Some(stream)) || changes.iter().any(is_value) {
            return Err(OpError::Malformed("a change of a stream's volumes with another volume, or with a value"));
        }
        if changes.len() > MAX_FOLLOWED_OPS {
            return Err(OpError::Malformed("more than 32 changes of a stream's volumes in one record"));
        }
        self.open_for(Some(stream))
    }

    /// Checks that a host's change can be ordered in a stream, if it is in one.
    fn open_for(&self, stream: Option<StreamId>) -> Result<(), OpError> {
        stream.map_or(Ok(()), |stream| self.open(stream, Some(Role::Sequencer)).map(drop))
    }

    /// Returns a stream that serves requests, in the role that they need.
    fn open(&self, stream: StreamId, role: Option<Role>) -> Result<&OrderedStream, OpError> {
        let stream = self.streams.get(&stream).ok_or(OpError::Malformed("no such stream"))?;
        if stream.gate == Gate::Closed {
            return Err(OpError::Unavailable("the stream is closed"));
        }
        if role.is_some_and(|role| role != stream.role) {
            return Err(OpError::Unavailable("the peer orders the changes of the stream"));
        }
        Ok(stream)
    }

    /// A record to follow was submitted. Refuses one that does not follow the one before, and, as
    /// [`OpError::Unavailable`], one beyond the credit.
    pub(crate) fn enter(&mut self, record: &StreamRecord) -> Result<(), OpError> {
        let Some(stream) = self.streams.get_mut(&record.stream) else { return Ok(()) };
        if record.position != stream.entered.next() {
            return Err(OpError::Malformed("the record does not follow the one before"));
        }
        stream.enter_account(record)?;
        stream.entered = record.position;
        Ok(())
    }

    /// True if a followed record is the next one, so that the state is that before it.
    pub(crate) fn is_turn(&self, record: &StreamRecord) -> bool {
        self.streams.get(&record.stream).is_some_and(|stream| record.position == stream.last.next())
    }

    /// True if the pages that a followed record needs are known only when it is the next one.
    pub(crate) fn must_wait(&self, record: &StreamRecord) -> bool {
        reads_earlier(record) && !self.is_turn(record)
    }

    /// True if it is the turn of a followed record. Otherwise its task waits for
    /// [`OrderedStreams::next_turn`].
    pub(crate) fn take_turn(&mut self, record: &StreamRecord, task: TaskId) -> bool {
        let Some(stream) = self.streams.get_mut(&record.stream) else { return false };
        let is_next = record.position == stream.last.next();
        if !is_next {
            stream.turn_waiters.insert(record.position, task);
        }
        is_next
    }

    /// Returns the task that follows the record that was applied last.
    pub(crate) fn next_turn(&mut self, stream: StreamId) -> Option<TaskId> {
        let stream = self.streams.get_mut(&stream)?;
        stream.turn_waiters.remove(&stream.last.next())
    }

    /// Returns the place of the next record of a stream.
    pub(crate) fn next_entry(&self, stream: StreamId) -> Option<StreamEntry> {
        let held = self.streams.get(&stream)?;
        let position = held.last.next();
        Some(StreamEntry { stream, period: held.period, position, heard: held.heard.min(position) })
    }

    /// A record with these operations was put into the log at this place. If this engine orders the
    /// stream, returns the record for the peer, and the operations that it does not get.
    pub(crate) fn sequenced(
        &mut self,
        entry: StreamEntry,
        ops: &[LogOp],
        lsn: Lsn,
        outgoing: Outgoing,
    ) -> Option<(StreamRecord, Vec<LogOp>)> {
        self.use_credit(entry.stream, ops, &outgoing);
        let (max_tail, is_skipped) = (self.max_tail, matches!(outgoing, Outgoing::Mark));
        let stream = self.streams.get_mut(&entry.stream)?;
        debug_assert!(stream.gate != Gate::Closed && entry.position == stream.last.next());
        stream.add(entry, ops, max_tail, is_skipped);
        stream.tail.heard(entry.period, stream.heard);
        stream.unflushed.push_back((lsn, entry.position));
        let StreamEntry { stream: id, period, position, .. } = entry;
        let is_ordered = stream.role == Role::Sequencer;
        is_ordered.then(|| {
            let on_volumes = || ops.iter().filter(|op| is_for_peer(op)).cloned().collect();
            let (ops, message, skipped) = match outgoing {
                Outgoing::Operations(message) => (on_volumes(), message, Vec::new()),
                Outgoing::Content(content) => (content, Bytes::new(), Vec::new()),
                Outgoing::Mark => (Vec::new(), Bytes::new(), on_volumes()),
            };
            (StreamRecord { stream: id, period, position, ops, message, request: None }, skipped)
        })
    }

    /// Returns the operations of a record and notes its place, when it is replayed.
    pub(crate) fn replay<'a>(&mut self, record: &'a [LogOp]) -> Result<&'a [LogOp], &'static str> {
        let Some((LogOp::Stream(entry), ops)) = record.split_first() else {
            // A delta changes without its volume, too, and a stage takes pieces of volumes.
            let is_plain = |volume: VolumeId| self.of_volume(volume).is_none() || volume.is_delta();
            let is_allowed = |op: &LogOp| is_copy_to_stage(op) || op.volumes().all(is_plain);
            let are_plain = self.is_empty() || record.iter().all(is_allowed);
            return if are_plain { Ok(record) } else { Err("a change of a stream's volume has no position") };
        };
        let max_tail = self.max_tail;
        let stream = self.streams.get_mut(&entry.stream).ok_or("a record is of an unknown stream")?;
        let is_own = |volume: VolumeId| volume.stream() == Some(entry.stream);
        if !ops.iter().flat_map(LogOp::volumes).all(is_own) {
            return Err("a record of a stream changes another volume");
        }
        let is_first = entry.period > stream.period;
        let is_next = is_first || (entry.period == stream.period && entry.position == stream.last.next());
        if !is_next || entry.position.0 == 0 || entry.heard > entry.position {
            return Err("a record does not follow the last one of its stream");
        }
        if is_first {
            stream.tail.end_period();
            stream.period = entry.period;
        }
        if entry.heard > stream.heard {
            stream.base = stream.base.max((entry.period, entry.heard));
        }
        stream.heard = entry.heard;
        // A record that was skipped adds all that it changes to deltas.
        stream.add(*entry, ops, max_tail, false);
        stream.tail.heard(entry.period, entry.heard);
        (stream.durable, stream.entered) = (stream.last, stream.last);
        Ok(ops)
    }

    /// The log is durable up to a record. Returns the streams that it is news for.
    pub(crate) fn group_written(&mut self, durable: Lsn) -> Vec<(StreamId, Period, Position)> {
        let mut news = Vec::new();
        for (id, stream) in &mut self.streams {
            let before = stream.durable;
            while let Some((_, position)) = stream.unflushed.pop_front_if(|(lsn, _)| *lsn <= durable) {
                stream.durable = position;
            }
            if stream.durable != before {
                news.push((*id, stream.period, stream.durable));
            }
        }
        news
    }

    /// Adds a task that waits until everything sequenced in its stream now is committed. Returns
    /// false if it is committed already.
    pub(crate) fn await_commit(&mut self, stream: StreamId, task: TaskId) -> bool {
        let Some(stream) = self.streams.get_mut(&stream) else { return false };
        let is_waiting = stream.committed() < stream.last;
        if is_waiting {
            stream.commit_waiters.push_back((stream.last, task));
        }
        is_waiting
    }

    /// Removes the tasks whose records are committed, and returns them.
    pub(crate) fn take_committed(&mut self) -> Vec<TaskId> {
        let mut tasks = Vec::new();
        for stream in self.streams.values_mut() {
            let committed = stream.committed();
            while let Some((_, task)) = stream.commit_waiters.pop_front_if(|(position, _)| *position <= committed) {
                tasks.push(task);
            }
        }
        tasks
    }

    /// Makes a stream that the checkpoint of this number stores first.
    pub(crate) fn create(&mut self, id: StreamId, stored_with: u64) -> Result<(), OpError> {
        if self.streams.contains_key(&id) {
            return Err(OpError::Malformed("the stream exists already"));
        }
        let mut stream = OrderedStream::new(Period(0), Position(0), Position(0), Default::default());
        (stream.stored_with, stream.is_ready) = (stored_with, false);
        self.streams.insert(id, stream);
        Ok(())
    }

    /// A checkpoint of this number is complete.
    pub(crate) fn checkpointed(&mut self, completed: u64) {
        for stream in self.streams.values_mut().filter(|stream| stream.stored_with <= completed) {
            stream.is_ready = true;
        }
    }

    /// Begins a period. Returns the tasks that have waited for credit.
    pub(crate) fn begin(&mut self, stream: StreamId, new: NewPeriod) -> Result<Vec<TaskId>, OpError> {
        let stream = self.held(stream)?;
        stream.check_period(new).map_err(OpError::Unavailable)?;
        let waiting = stream.close_account();
        stream.begin(new);
        self.sum_promised();
        Ok(waiting)
    }

    /// Closes a stream. Returns its tasks that wait.
    pub(crate) fn close(&mut self, stream: StreamId) -> Result<ClosedTasks, OpError> {
        let stream = self.held(stream)?;
        (stream.gate, stream.delta, stream.awaits_tail) = (Gate::Closed, DeltaMode::Off, false);
        let committing = std::mem::take(&mut stream.commit_waiters).into_iter().map(|(_, task)| task).collect();
        let turn = std::mem::take(&mut stream.turn_waiters).into_values().collect();
        let credit = stream.close_account();
        self.sum_promised();
        Ok(ClosedTasks { committing, turn, credit })
    }

    /// True if a task of this stream and period fails for a reason that its peer does not have: the
    /// stream cannot continue then.
    pub(crate) fn is_following(&self, record: &StreamRecord) -> bool {
        let held = self.streams.get(&record.stream);
        held.is_some_and(|stream| stream.gate != Gate::Closed && stream.period == record.period)
    }

    /// The peer's log is durable up to a position.
    pub(crate) fn heard(&mut self, stream: StreamId, period: Period, position: Position) -> Result<(), OpError> {
        let stream = self.held(stream)?;
        if period != stream.period {
            return Ok(());
        }
        if position > stream.last && stream.role == Role::Sequencer {
            return Err(OpError::Malformed("the peer reports a position that no record has"));
        }
        // A follower may hear of records that it has not received yet.
        if position >= stream.heard {
            stream.heard = position;
            stream.base = (period, position);
            stream.tail.heard(period, position);
        }
        Ok(())
    }

    /// The peer lacks nothing.
    pub(crate) fn settle(&mut self, stream: StreamId) -> Result<(), OpError> {
        let stream = self.held(stream)?;
        if stream.heard < stream.last || stream.durable < stream.last {
            return Err(OpError::Unavailable("the last record is not durable on both sides"));
        }
        stream.tail.settle();
        (stream.is_hurt, stream.awaits_tail) = (false, false);
        Ok(())
    }

    /// The array was opened in spite of lost records.
    pub(crate) fn mark_hurt(&mut self) {
        self.streams.values_mut().for_each(|stream| stream.is_hurt = true);
    }

    /// The core has stopped: no task waits any more.
    pub(crate) fn stop(&mut self) {
        for stream in self.streams.values_mut() {
            stream.commit_waiters.clear();
            stream.turn_waiters.clear();
            stream.forget_waiters();
        }
    }

    /// Returns the most bytes of data in a record of a volume's stream.
    pub(crate) fn max_payload(&self, volume: VolumeId) -> u64 {
        let stream = self.of_volume(volume).and_then(|stream| self.streams.get(&stream));
        stream.filter(|stream| stream.role == Role::Sequencer).map_or(u64::MAX, |stream| stream.max_payload)
    }

    /// Returns the state of a stream, on an array that logs `max_payload` bytes of data in a
    /// record. `has_delta` if a delta of the stream has a block.
    pub(crate) fn status(&self, stream: StreamId, max_payload: u64, has_delta: bool) -> Option<StreamStatus> {
        let stream = self.streams.get(&stream)?;
        Some(StreamStatus {
            period: stream.period,
            position: stream.last,
            durable: stream.durable,
            heard: stream.heard,
            base: stream.base,
            role: stream.role,
            gate: stream.gate,
            delta: stream.delta,
            awaits_tail: stream.awaits_tail,
            is_delta_empty: !has_delta,
            max_payload,
            lent: stream.account.lent,
            used: stream.account.used,
            is_ready: stream.is_ready,
            is_hurt: stream.is_hurt,
            tail: stream.tail.blocks(),
        })
    }

    fn held(&mut self, stream: StreamId) -> Result<&mut OrderedStream, OpError> {
        self.streams.get_mut(&stream).ok_or(OpError::Malformed("no such stream"))
    }
}
