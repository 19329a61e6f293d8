//! Two arrays, the messages between them, and their hosts.

mod delta;
mod equal;
mod load;
mod renew;
mod room;
mod rounds;
mod told;

use super::bug::PairBug;
use super::contents::{
    Entry, PLAIN, PLAIN_BLOCKS, PairContents, STREAM, VOLUME_BLOCKS, VOLUMES, bytes_of, numbers_of, whole_volume,
};
use super::kind::PairKind;
use super::node::Node;
use super::totals::PairTotals;
use crate::disk::SimDisk;
use crate::engine_subject::EngineSetup;
use crate::history::SimViolation;
use crate::machine::Answers;
use engine::{
    Change, Credit, DeltaMode, EqualCopy, Extent, Gate, LogOp, NewPeriod, Op, OpError, Reply, Role, StreamChange,
    StreamEvent, StreamRecord, StreamStatus, Tag,
};
use std::collections::{BTreeMap, VecDeque};
use testing::Rng;
use types::{BlockRange, Lba, Period, Position, VolumeId};

/// Steps after which requests without an answer count as hung.
const MAX_STEPS: u32 = 200_000;

/// A message between the arrays.
enum Message {
    Record(StreamRecord),
    /// Everything up to this position is durable at the sender.
    Durable(Period, Position),
    /// The room that the sender has lent in a period.
    Lent(Period, Credit),
}

/// A request without an answer.
#[derive(Debug)]
enum Open {
    /// A read of a host; it must find at least the entries of the sequencer up to this count.
    Read { volume: VolumeId, range: BlockRange, seen: usize },
    /// A change of a host, with the position of its last record.
    Change(Option<Position>),
    /// A record to follow.
    Follow,
    /// Content that a source sends, with the position and the blocks of its record.
    Sync(BlockRange, Option<(Position, u64)>),
    /// A request of the simulator itself.
    Own,
    /// Such a request about a volume that may be gone, or smaller.
    Lax,
    /// As `Lax`, while no page can be read.
    Blind,
    /// A removal from a delta that is late: it must be refused.
    Late,
    /// A request for a volume that is in no stream.
    Plain,
    /// Such a request that frees the pool. Where it is refused, the pool grows.
    Freeing,
}

/// The record that gave the target the volumes of the source.
#[derive(Clone, Copy)]
struct CatalogueRecord {
    period: Period,
    position: Position,
    /// Changes of [`World::born`] that it has repeated.
    count: usize,
}

/// The arrays that serve the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Both arrays; the records of the sequencer go to the other.
    Sync,
    /// The sequencer alone.
    Solo,
}

/// A pair of arrays.
pub(super) struct World<'a> {
    pub(super) nodes: [Node<'a>; 2],
    /// Messages to each node.
    inbox: [VecDeque<Message>; 2],
    pub(super) rng: Rng,
    pub(super) sequencer: usize,
    pub(super) mode: Mode,
    /// Messages arrive.
    pub(super) is_connected: bool,
    pub(super) bug: Option<PairBug>,
    open: BTreeMap<(usize, Tag), Open>,
    next_tag: Tag,
    period: u64,
    /// Highest position that a host knows of.
    answered: Position,
    own: BTreeMap<Tag, Vec<u64>>,
    extents: BTreeMap<Tag, Vec<Extent>>,
    /// An array that serves alone keeps deltas.
    uses_delta: bool,
    /// The array that serves alone sends its records to the other.
    is_source: bool,
    /// Changes of volumes that an array has made alone, in order.
    born: Vec<(Period, Position, LogOp)>,
    catalogue: Option<CatalogueRecord>,
    /// Removals of blocks that a source has sent, with their period.
    sent: VecDeque<(VolumeId, Period, BlockRange)>,
    /// Changes with messages that are not ordered yet.
    told: BTreeMap<(usize, Tag), StreamChange>,
    /// A copy that may be made again by way of its destination.
    last_copy: Option<EqualCopy>,
    /// Such copies that are not ordered yet.
    equal: BTreeMap<(usize, Tag), EqualCopy>,
    /// Values that are stored apart from their records.
    late_values: Vec<(usize, Vec<Change>)>,
    /// Content that a source has sent without a write.
    synced: Vec<(VolumeId, BlockRange)>,
    /// Requests that break a rule of the deltas, not submitted yet.
    deferred: Vec<(usize, VolumeId, BlockRange)>,
    /// Room that was lent before, to be reported again.
    lent: Option<(usize, Period, Credit)>,
    /// Arrays whose pool a plain volume fills.
    small: [bool; 2],
    /// The pool of the follower has become full.
    is_full: bool,
    pub(super) totals: PairTotals,
}

impl<'a> World<'a> {
    /// Creates two arrays with a stream.
    pub(super) fn new(
        disks: &'a [SimDisk; 2],
        mut rng: Rng,
        bug: Option<PairBug>,
        kind: PairKind,
    ) -> Result<Self, SimViolation> {
        let small = if kind.is_small { rng.pick(&[[true, false], [false, true], [true, true]]) } else { [false; 2] };
        let mut setups = small.map(|is_small| match is_small {
            true => EngineSetup::of_small_pair(&mut rng),
            false => EngineSetup::of_pair(&mut rng),
        });
        if bug == Some(PairBug::LentNotCounted) {
            setups.iter_mut().for_each(EngineSetup::forget_promises);
        }
        let nodes = [Node::create(&disks[0], setups[0])?, Node::create(&disks[1], setups[1])?];
        let mut world = Self {
            nodes,
            inbox: Default::default(),
            rng,
            sequencer: 0,
            mode: Mode::Sync,
            is_connected: false,
            bug,
            open: BTreeMap::new(),
            next_tag: 0,
            period: 0,
            answered: Position(0),
            own: BTreeMap::new(),
            extents: BTreeMap::new(),
            uses_delta: kind.uses_delta,
            is_source: false,
            born: Vec::new(),
            catalogue: None,
            sent: VecDeque::new(),
            told: BTreeMap::new(),
            last_copy: None,
            equal: BTreeMap::new(),
            late_values: Vec::new(),
            synced: Vec::new(),
            deferred: Vec::new(),
            lent: None,
            small,
            is_full: false,
            totals: PairTotals::default(),
        };
        for node in 0..2 {
            let create = (0..VOLUMES)
                .map(|number| Change::CreateVolume { volume: STREAM.volume(number), blocks: VOLUME_BLOCKS })
                .chain([Change::CreateVolume { volume: PLAIN, blocks: PLAIN_BLOCKS }]);
            let tag = world.submit(node, Op::Change(create.collect()), Open::Own)?;
            world.run_until(|world| Ok(!world.open.contains_key(&(node, tag))))?;
            world.nodes[node].core()?.create_stream(STREAM).map_err(failed("create a stream"))?;
            world.run_until(|world| Ok(world.status(node)?.is_ready))?;
        }
        Ok(world)
    }

    pub(super) fn status(&mut self, node: usize) -> Result<StreamStatus, SimViolation> {
        let status = self.nodes[node].core()?.stream_status(STREAM);
        status.ok_or_else(|| SimViolation::new("an array has forgotten its stream"))
    }

    /// Returns the number of the next period.
    pub(super) fn next_period(&mut self) -> Period {
        self.period += 1;
        Period(self.period)
    }

    /// Begins a period at a node.
    pub(super) fn begin(&mut self, node: usize, new: NewPeriod) -> Result<(), SimViolation> {
        let began = self.nodes[node].core()?.begin_period(STREAM, new);
        began.map_err(failed(&format!("begin {new:?} at {:?}", self.status(node)?)))?;
        self.nodes[node].given(Entry::new(new.period, new.last, Vec::new()));
        self.nodes[node].durable = self.status(node)?.durable;
        self.collect(node)
    }

    /// Closes the stream at a node. Its requests have no answer any more.
    pub(super) fn close(&mut self, node: usize) -> Result<(), SimViolation> {
        self.open.retain(|(of, _), _| *of != node);
        self.nodes[node].core()?.close_stream(STREAM).map_err(failed("close"))?;
        self.collect(node)?;
        // Records that waited for their turn are not applied any more.
        let status = self.status(node)?;
        self.nodes[node].cut_to(status.period, status.position)
    }

    /// Cuts the connection: messages in flight are lost.
    pub(super) fn disconnect(&mut self) {
        self.is_connected = false;
        self.inbox.iter_mut().for_each(VecDeque::clear);
    }

    fn submit(&mut self, node: usize, op: Op, open: Open) -> Result<Tag, SimViolation> {
        self.next_tag += 1;
        let tag = self.next_tag;
        self.open.insert((node, tag), open);
        if let Op::StreamChange(change) = &op {
            // It may be ordered at once.
            self.told.insert((node, tag), (**change).clone());
        }
        self.nodes[node].core()?.submit(op, tag);
        self.collect(node)?;
        Ok(tag)
    }

    /// True if a node has answered all requests.
    pub(super) fn is_quiet(&self, node: usize) -> bool {
        !self.open.iter().any(|((of, _), open)| *of == node && !matches!(open, Open::Plain | Open::Freeing))
    }

    pub(super) fn has_messages(&self) -> bool {
        self.inbox.iter().any(|inbox| !inbox.is_empty())
    }

    pub(super) fn has_crash(&self) -> bool {
        self.nodes.iter().any(Node::has_crashed)
    }

    /// Ends a node that runs.
    pub(super) fn stop(&mut self, node: usize, is_process_only: bool) {
        self.nodes[node].stop(is_process_only);
        self.open.retain(|(of, _), _| *of != node);
        self.deferred.retain(|(of, ..)| *of != node);
        self.totals.crashes += 1;
        self.disconnect();
    }

    /// Takes a random step until a condition holds. False if a drive has stopped before.
    pub(super) fn run_until(
        &mut self,
        mut is_done: impl FnMut(&mut Self) -> Result<bool, SimViolation>,
    ) -> Result<bool, SimViolation> {
        for _ in 0..MAX_STEPS {
            if self.has_crash() {
                return Ok(false);
            }
            if is_done(self)? {
                return Ok(true);
            }
            self.step()?;
        }
        let open = self.open.len();
        let mut usage: String = self.open.iter().take(9).map(|open| format!(" {open:?}")).collect();
        for node in 0..2 {
            let credit = self.status(node).map(|status| status.lent - status.used);
            usage += &format!(
                ", array {node} with credit {credit:?} {:?}",
                self.nodes[node].core().map(|core| core.usage())
            );
        }
        Err(SimViolation(format!("{open} requests unanswered, or an array never becomes idle{usage}")))
    }

    /// Takes one random step: of an array, or of a message.
    pub(super) fn step(&mut self) -> Result<(), SimViolation> {
        self.submit_deferred()?;
        self.submit_late_values()?;
        self.use_room()?;
        let node = self.rng.index(2);
        if self.rng.percent(30) {
            return self.deliver(node);
        }
        let mut answers = Answers::new();
        self.nodes[node].step(&mut self.rng, &mut answers);
        self.process(node, answers)
    }

    fn deliver(&mut self, node: usize) -> Result<(), SimViolation> {
        if !self.nodes[node].is_up() {
            return Ok(());
        }
        if self.bug == Some(PairBug::FollowerOutOfOrder)
            && self.rng.percent(20)
            && let [Message::Record(first), Message::Record(second), ..] = self.inbox[node].make_contiguous()
        {
            std::mem::swap(&mut first.ops, &mut second.ops);
        }
        if self.bug == Some(PairBug::CopyTooEarly)
            && let [Message::Record(first), Message::Record(second), ..] = self.inbox[node].make_contiguous()
            && second.ops.iter().any(|op| copies_from(op, &first.ops))
        {
            std::mem::swap(&mut first.ops, &mut second.ops);
        }
        if self.bug == Some(PairBug::MessageLost)
            && self.rng.percent(50)
            && let Some(Message::Record(record)) = self.inbox[node].front_mut()
            && !record.ops.is_empty()
        {
            record.message.clear();
        }
        match self.inbox[node].pop_front() {
            Some(Message::Record(record)) => self.follow(node, record),
            Some(Message::Durable(period, position)) => {
                let heard = self.nodes[node].core()?.stream_heard(STREAM, period, position);
                // An array whose drive has crashed has stopped.
                if heard.is_err() && self.has_crash() {
                    return Ok(());
                }
                heard.map_err(failed("hear of a position"))?;
                self.collect(node)
            }
            Some(Message::Lent(period, total)) => self.hear_of_room(node, period, total),
            None => Ok(()),
        }
    }

    fn follow(&mut self, node: usize, record: StreamRecord) -> Result<(), SimViolation> {
        let (period, position) = (record.period, record.position);
        self.submit_followed(node, record)?;
        if self.bug == Some(PairBug::AckBeforeFlush) && self.mode == Mode::Sync {
            self.inbox[1 - node].push_back(Message::Durable(period, position));
        }
        Ok(())
    }

    fn collect(&mut self, node: usize) -> Result<(), SimViolation> {
        self.process(node, Answers::new())
    }

    /// Handles the news of a node, then its answers.
    fn process(&mut self, node: usize, mut answers: Answers) -> Result<(), SimViolation> {
        for event in self.nodes[node].collect(&mut answers) {
            match event {
                StreamEvent::Ordered { tag, record, skipped, .. } => {
                    let values = self.values_told(node, tag, &record, &skipped)?;
                    self.check_equal_copy(node, tag, &record, &skipped)?;
                    self.note_position(node, tag, &record);
                    self.note_ordered(node, &record);
                    self.note_skipped(node, &skipped);
                    let ops = if skipped.is_empty() { record.ops.clone() } else { skipped };
                    self.totals.records += 1;
                    match ops.first() {
                        Some(LogOp::Copy { .. }) => self.totals.copies += 1,
                        None | Some(LogOp::Write { .. } | LogOp::Fill { .. } | LogOp::Same { .. }) => {}
                        _ => self.totals.volume_changes += 1,
                    }
                    let message = record.message.clone();
                    let entry = Entry { message, values, ..Entry::new(record.period, record.position, ops) };
                    self.nodes[node].given(entry);
                    self.send(node, Message::Record(record));
                }
                StreamEvent::Durable { period, position, .. } => {
                    self.nodes[node].durable = position;
                    self.nodes[node].promise(position, "durability")?;
                    if self.bug == Some(PairBug::OwnDurability) && self.mode == Mode::Sync {
                        // As if the peer had reported it.
                        let _ = self.nodes[node].core()?.stream_heard(STREAM, period, position);
                    }
                    self.send(node, Message::Durable(period, position));
                }
            }
        }
        for (tag, result) in answers {
            if let Some(open) = self.open.remove(&(node, tag)) {
                self.answer(node, tag, open, result)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, from: usize, message: Message) {
        if self.is_connected {
            self.inbox[1 - from].push_back(message);
        }
    }

    fn answer(
        &mut self,
        node: usize,
        tag: Tag,
        open: Open,
        result: Result<Reply, OpError>,
    ) -> Result<(), SimViolation> {
        if self.has_crash() {
            return Ok(());
        }
        self.totals.answered += 1;
        match (open, result) {
            (Open::Read { volume, range, seen }, Ok(Reply::Data(data))) => {
                self.check_read(node, (volume, range), seen, &data)
            }
            (Open::Lax, Ok(Reply::Extents(extents))) => {
                self.extents.insert(tag, extents);
                Ok(())
            }
            (Open::Blind, Err(OpError::MediumError { .. })) => Ok(()),
            (
                Open::Lax | Open::Blind,
                Ok(Reply::Done) | Err(OpError::NoSuchVolume(_) | OpError::OutOfRange { .. } | OpError::Unavailable(_)),
            ) => Ok(()),
            (Open::Own | Open::Lax, Ok(Reply::Data(data))) => {
                let numbers = numbers_of(&data).ok_or_else(|| SimViolation::new("read bytes that nothing wrote"))?;
                self.own.insert(tag, numbers);
                Ok(())
            }
            (Open::Read { volume, range, seen }, Err(OpError::NoSuchVolume(_) | OpError::OutOfRange { .. })) => {
                self.check_refused(node, volume, range, seen)
            }
            (Open::Change(Some(position)), Ok(_)) => {
                self.answered = self.answered.max(position);
                let holders = if self.mode == Mode::Sync { vec![0, 1] } else { vec![self.sequencer] };
                holders.into_iter().try_for_each(|node| self.nodes[node].promise(position, "an answer"))
            }
            (Open::Sync(range, ordered), result) => self.check_synced(node, range, ordered, result),
            (Open::Change(None), Err(OpError::Unavailable(words))) if self.is_condition(words) => Ok(()),
            (Open::Freeing, Err(OpError::NoSpace)) if self.small[node] => self.grow(node),
            (Open::Plain | Open::Freeing, Ok(_) | Err(OpError::MediumError { .. })) => Ok(()),
            (open @ (Open::Plain | Open::Change(_)), Err(OpError::NoSpace)) if self.small[node] => {
                self.totals.full += 1;
                if matches!(open, Open::Plain) && node != self.sequencer && self.is_connected {
                    self.is_full = true;
                }
                Ok(())
            }
            (Open::Late, Err(OpError::NoSuchVolume(_) | OpError::Unavailable(_))) => Ok(()),
            // A comparison that failed, or nothing to do.
            (Open::Change(None), Ok(_) | Err(OpError::Miscompare { .. })) | (Open::Follow | Open::Own, Ok(_)) => Ok(()),
            // An earlier request has removed or resized the volume, or made it.
            (
                Open::Change(None),
                Err(OpError::NoSuchVolume(_) | OpError::OutOfRange { .. } | OpError::VolumeExists(_)),
            ) => Ok(()),
            (open, result) => {
                let usage = self.nodes[node].core().map(|core| core.usage());
                Err(SimViolation(format!("request at array {node} ended with {result:?} ({open:?}, {usage:?})")))
            }
        }
    }

    /// Checks what a host has read: the state after some record that was committed when the read
    /// ended, and not before one that the host knew when it began.
    fn check_read(
        &self,
        node: usize,
        (volume, range): (VolumeId, BlockRange),
        seen: usize,
        data: &[u8],
    ) -> Result<(), SimViolation> {
        let sequencer = &self.nodes[self.sequencer];
        let committed = match self.mode {
            Mode::Sync => self.nodes[0].durable.min(self.nodes[1].durable),
            Mode::Solo => sequencer.durable,
        };
        let last = sequencer.count_to(committed).unwrap_or_default().max(seen);
        let Some(numbers) = numbers_of(data) else {
            return Err(SimViolation::new("read bytes that nothing wrote"));
        };
        let mut contents = PairContents::after(&sequencer.entries[..seen]);
        let numbers = Some(&numbers[..]);
        let mut is_seen = contents.range(volume, range) == numbers;
        for entry in &sequencer.entries[seen..last] {
            contents.apply(entry);
            is_seen |= contents.range(volume, range) == numbers;
        }
        if is_seen {
            return Ok(());
        }
        let is_shown = |entry: &&Entry| {
            contents.apply(entry);
            contents.range(volume, range) == numbers
        };
        let shown = sequencer.entries[last..].iter().find(is_shown).map(|entry| entry.position);
        Err(SimViolation(format!(
            "read of {volume} {}+{} at array {node} in {:?} shows the state at {shown:?}, not one from entry {seen} to \
             {last}, position {committed}",
            range.start().0,
            range.blocks(),
            self.mode
        )))
    }

    /// Checks that a read was refused only because its range does not exist after some record. The
    /// record need not be committed: a volume is gone when its removal is ordered.
    fn check_refused(&self, node: usize, volume: VolumeId, range: BlockRange, seen: usize) -> Result<(), SimViolation> {
        // The follower knows the records that it was given.
        let entries = &self.nodes[node].entries;
        let seen = seen.min(entries.len());
        let mut contents = PairContents::after(&entries[..seen]);
        let mut lacks = |entry: &Entry| {
            contents.apply(entry);
            contents.range(volume, range).is_none()
        };
        let is_gone = PairContents::after(&entries[..seen]).range(volume, range).is_none();
        if is_gone || entries[seen..].iter().any(&mut lacks) {
            return Ok(());
        }
        Err(SimViolation(format!("a read of {volume} at array {node} was refused, although it was never gone")))
    }

    /// Reads all volumes at a node. `None` if a drive has stopped.
    pub(super) fn read_all(&mut self, node: usize) -> Result<Option<PairContents>, SimViolation> {
        let mut contents = BTreeMap::new();
        for (volume, blocks) in self.volumes(node)? {
            let mut numbers = Vec::new();
            for range in whole_volume(blocks) {
                let Some(piece) = self.read(node, volume, range)? else { return Ok(None) };
                numbers.extend(piece);
            }
            contents.insert(volume, numbers);
        }
        Ok(Some(PairContents(contents)))
    }

    /// Returns the volumes of a node with their sizes in blocks.
    pub(super) fn volumes(&mut self, node: usize) -> Result<BTreeMap<VolumeId, u64>, SimViolation> {
        let mut volumes = self.nodes[node].core()?.volumes();
        volumes.retain(|volume, _| volume.stream() == Some(STREAM));
        Ok(volumes)
    }

    /// Reads a range at a node. `None` if a drive has stopped.
    pub(super) fn read(
        &mut self,
        node: usize,
        volume: VolumeId,
        range: BlockRange,
    ) -> Result<Option<Vec<u64>>, SimViolation> {
        let tag = self.submit(node, Op::Read { volume, range }, Open::Own)?;
        let is_answered = self.run_until(|world| Ok(!world.open.contains_key(&(node, tag))))?;
        Ok(self.own.remove(&tag).filter(|_| is_answered))
    }

    /// Writes a range at the sequencer, as a host would.
    pub(super) fn write(&mut self, volume: VolumeId, lba: Lba, numbers: &[u64]) -> Result<(), SimViolation> {
        let op = Op::Write { volume, lba, data: bytes_of(numbers), fua: false };
        self.submit(self.sequencer, op, Open::Change(None)).map(drop)
    }

    /// Begins a period when a node orders the stream alone.
    pub(super) fn begin_solo(&mut self, node: usize) -> Result<(), SimViolation> {
        (self.sequencer, self.mode) = (node, Mode::Solo);
        let (period, StreamStatus { position: last, max_payload, .. }) = (self.next_period(), self.status(node)?);
        let delta = if self.uses_delta { DeltaMode::Alone } else { DeltaMode::Off };
        self.is_source = false;
        self.begin(node, NewPeriod { period, role: Role::Sequencer, gate: Gate::Local, last, max_payload, delta })?;
        if !self.uses_delta {
            return Ok(());
        }
        self.add_tail(node)?;
        if self.bug == Some(PairBug::SyncNotInTail) {
            std::mem::take(&mut self.synced)
                .into_iter()
                .for_each(|(volume, range)| self.defer_clear(node, volume, range));
        }
        Ok(())
    }
}

/// Returns the violation of a call that never fails.
pub(super) fn failed(what: &str) -> impl Fn(OpError) -> SimViolation {
    let what = what.to_owned();
    move |error| SimViolation(format!("cannot {what}: {error}"))
}

/// True if an operation copies from a volume that these operations change.
fn copies_from(op: &LogOp, before: &[LogOp]) -> bool {
    let (LogOp::Copy { source, .. } | LogOp::CopyVolume { source, .. }) = op else { return false };
    before.iter().any(|earlier| matches!(earlier, LogOp::Write { volume, .. } if volume == source))
}
