//! Resync by deltas: the array that has served alone sends the blocks that its deltas name, while
//! its hosts continue.

use super::{CatalogueRecord, Mode, Open, World, failed};
use crate::history::SimViolation;
use crate::machine::Answers;
use crate::pair::bug::PairBug;
use crate::pair::contents::{PairContents, STREAM, bytes_of};
use bytes::Bytes;
use engine::{
    DeltaMode, DeltaOp, ExtentState, Gate, LogOp, MAX_DELTA_RANGES, NewPeriod, Op, OpError, Reply, Role, StreamRecord,
    StreamStatus, Tag, WHOLE_VOLUME_BLOCKS,
};
use std::collections::BTreeMap;
use types::{BlockRange, Lba, Position, VolumeId};

/// Blocks that are sent at a time.
const CHUNK_BLOCKS: u64 = 64;
/// Logical blocks of a block of 4 KiB.
const WHOLE_BLOCKS: u64 = 8;
/// Most changes of volumes that the target repeats; the record has room for others.
const MOST_REPEATED: usize = 16;

/// Most removals that are late.
const MOST_LATE: usize = 4;
/// Most steps of an array that cannot read a page.
const MOST_BLIND: u32 = 500;

/// Blocks of volumes.
type Parts = Vec<(VolumeId, BlockRange)>;

impl World<'_> {
    /// Adds the tail of an array that begins to serve alone to its deltas.
    pub(super) fn add_tail(&mut self, node: usize) -> Result<(), SimViolation> {
        let StreamStatus { period, tail, .. } = self.status(node)?;
        let add = Op::Delta(DeltaOp::AddTail { stream: STREAM, period });
        let is_blind = self.is_quiet(node) && self.rng.percent(80) && self.is_stored(node)?;
        // Refused if another period begins before. Changes of hosts wait until one is carried out.
        let tag = self.submit(node, add.clone(), if is_blind { Open::Blind } else { Open::Lax })?;
        let mut lost = if is_blind { self.lose_pages(node, tag)? } else { 0 };
        if lost > 0 && self.status(node)?.awaits_tail {
            // It needs the slots of its pages.
            self.submit(node, add, Open::Lax)?;
            lost = 0;
        }
        self.totals.lost_pages += u64::from(lost > 0);
        let is_forgotten = match self.bug {
            Some(PairBug::TailNotInDelta) => true,
            Some(PairBug::LostPageForgotten) => lost > 0,
            _ => false,
        };
        if is_forgotten {
            tail.unwrap_or_default().into_iter().for_each(|(volume, range)| self.defer_clear(node, volume, range));
        }
        Ok(())
    }

    /// Stores the pages of an array, so that those which do not fit into its memory leave it.
    fn is_stored(&mut self, node: usize) -> Result<bool, SimViolation> {
        let wanted = self.nodes[node].core()?.request_checkpoint();
        self.run_until(|world| Ok(world.nodes[node].core()?.checkpoints() >= wanted))?;
        let mut answers = Answers::new();
        let is_idle = self.nodes[node].drain(&mut answers);
        self.process(node, answers)?;
        Ok(is_idle && self.is_quiet(node))
    }

    /// Runs an array until it has answered a request. Reads of pages fail. Returns their number.
    fn lose_pages(&mut self, node: usize, tag: Tag) -> Result<u64, SimViolation> {
        let mut lost = 0;
        for _ in 0..MOST_BLIND {
            if !self.open.contains_key(&(node, tag)) {
                break;
            }
            let mut answers = Answers::new();
            lost += self.nodes[node].step_blind(&mut answers);
            self.process(node, answers)?;
        }
        Ok(lost)
    }

    /// Notes a record that an array has ordered while it serves alone, before it is among its
    /// entries.
    pub(super) fn note_ordered(&mut self, node: usize, record: &StreamRecord) {
        if !self.uses_delta || self.mode == Mode::Sync {
            return;
        }
        let is_born = |op: &&LogOp| is_volume_change(op) && !self.is_source;
        self.born.extend(record.ops.iter().filter(is_born).map(|op| (record.period, record.position, op.clone())));
        let Some(bug) = self.bug else { return };
        let before = PairContents::after(&self.nodes[node].entries);
        let size = |volume: &VolumeId| before.0.get(volume).map(|held| held.len() as u64);
        for op in &record.ops {
            let wrong = match (bug, self.is_source, op) {
                (PairBug::CopyNotPropagated, true, LogOp::Copy { from, destination, to, .. }) => {
                    Some((*destination, part(to.0, to.0 + from.blocks())))
                }
                (PairBug::PartialClears, true, LogOp::Write { volume, lba, data }) => {
                    let end = lba.0 + data.len() as u64 / 512;
                    Some((*volume, part(lba.0 - lba.0 % WHOLE_BLOCKS, end.next_multiple_of(WHOLE_BLOCKS))))
                }
                (PairBug::SnapshotEmpty, false, LogOp::CopyVolume { destination, .. }) => {
                    size(destination).is_none().then_some((*destination, part(0, WHOLE_VOLUME_BLOCKS)))
                }
                (PairBug::RestoreNotAll, false, LogOp::CopyVolume { destination, .. }) => {
                    size(destination).map(|_| (*destination, part(0, WHOLE_VOLUME_BLOCKS)))
                }
                _ => None,
            };
            if let Some((volume, range)) = wrong {
                self.defer_clear(node, volume, range);
            }
        }
    }

    /// Notes the changes of a record that the target does not get for lack of credit.
    pub(super) fn note_skipped(&mut self, node: usize, skipped: &[LogOp]) {
        self.totals.marks += u64::from(!skipped.is_empty());
        if self.bug != Some(PairBug::MarkNotInDelta) {
            return;
        }
        for op in skipped {
            let changed = match op {
                LogOp::Write { volume, lba, data } => Some((*volume, lba.0, lba.0 + data.len() as u64 / 512)),
                LogOp::Fill { volume, range, .. } | LogOp::Same { volume, range, .. } => {
                    Some((*volume, range.start().0, range.end().0))
                }
                LogOp::Copy { from, destination, to, .. } => Some((*destination, to.0, to.0 + from.blocks())),
                _ => None,
            };
            if let Some((volume, start, end)) = changed {
                let range = part(start - start % WHOLE_BLOCKS, end.next_multiple_of(WHOLE_BLOCKS));
                self.defer_clear(node, volume, range);
            }
        }
    }

    /// Submits what breaks a rule of the deltas.
    pub(super) fn submit_deferred(&mut self) -> Result<(), SimViolation> {
        for (node, volume, range) in std::mem::take(&mut self.deferred) {
            if self.nodes[node].is_up() {
                let period = self.status(node)?.period;
                let clear = DeltaOp::Clear { volume, period, ranges: vec![range] };
                self.submit(node, Op::Delta(clear), Open::Lax)?;
            }
        }
        Ok(())
    }

    pub(super) fn defer_clear(&mut self, node: usize, volume: VolumeId, range: BlockRange) {
        self.deferred.push((node, volume, range));
    }

    /// Submits removals of blocks that were sent in an earlier period. Hosts may have changed these
    /// blocks since.
    pub(super) fn remove_late(&mut self, node: usize) -> Result<(), SimViolation> {
        let present = self.status(node)?.period;
        for (volume, period, range) in std::mem::take(&mut self.sent) {
            let is_named = self.bug == Some(PairBug::LateRemoval);
            let (period, open) = if is_named { (present, Open::Lax) } else { (period, Open::Late) };
            self.submit(node, Op::Delta(DeltaOp::Clear { volume, period, ranges: vec![range] }), open)?;
            self.totals.late += 1;
        }
        Ok(())
    }

    /// False if an array ends before both hold the same.
    pub(super) fn send_deltas(&mut self, may_crash: bool) -> Result<bool, SimViolation> {
        let (source, target) = (self.sequencer, 1 - self.sequencer);
        if !self.is_ready_for_resync(may_crash)? {
            return Ok(false);
        }
        let Some(mut mask) = self.mask(target)? else { return Ok(false) };
        let made = self.catalogue(&mut mask)?;
        for volume in self.volumes(source)?.into_keys() {
            let ranges: Vec<_> = mask.iter().filter(|(other, _)| *other == volume).map(|(_, range)| *range).collect();
            for some in ranges.chunks(MAX_DELTA_RANGES) {
                let add = DeltaOp::Add { volume, ranges: some.to_vec() };
                self.submit(source, Op::Delta(add), Open::Own)?;
            }
        }
        if !self.run_until(|world| Ok(world.is_quiet(source)))? {
            return Ok(false);
        }
        self.begin_source(made)?;
        if !self.send_blocks(source)? || !self.is_in_step()? {
            return Ok(false);
        }
        for volume in self.volumes(target)?.into_keys() {
            let (period, ranges) = (self.status(target)?.period, vec![part(0, WHOLE_VOLUME_BLOCKS)]);
            self.submit(target, Op::Delta(DeltaOp::Clear { volume, period, ranges }), Open::Own)?;
        }
        if !self.run_until(|world| Ok(world.is_quiet(target)))? {
            return Ok(false);
        }
        self.settle_both()?;
        self.totals.by_delta += 1;
        self.born.clear();
        (self.catalogue, self.is_source) = (None, false);
        Ok(true)
    }

    /// Begins a period whose records go to the target. Its first record there makes the volumes
    /// those of the source.
    fn begin_source(&mut self, made: Vec<LogOp>) -> Result<(), SimViolation> {
        let (source, target) = (self.sequencer, 1 - self.sequencer);
        let (period, last) = (self.next_period(), self.status(source)?.position);
        let max_payload = self.max_payload()?;
        let new =
            NewPeriod { period, role: Role::Sequencer, gate: Gate::Local, last, max_payload, delta: DeltaMode::Source };
        self.begin(source, new)?;
        self.is_source = true;
        if self.status(source)?.awaits_tail {
            return Err(SimViolation::new("an array that has served alone with deltas has a tail"));
        }
        let first = if made.is_empty() { last } else { Position(last.0 - 1) };
        let new = NewPeriod { role: Role::Follower, last: first, delta: DeltaMode::Off, ..new };
        self.begin(target, new)?;
        self.is_connected = true;
        // Nothing else reports these if no record follows.
        for node in [source, target] {
            let durable = self.status(node)?.durable;
            self.send(node, super::Message::Durable(period, durable));
        }
        if !made.is_empty() {
            self.catalogue = Some(CatalogueRecord { period, position: last, count: self.born.len() });
            self.follow(
                target,
                StreamRecord {
                    stream: STREAM,
                    period,
                    position: last,
                    ops: made,
                    message: Bytes::new(),
                    request: None,
                },
            )?;
        }
        Ok(())
    }

    /// Returns the blocks that the source may lack: the tail of the target, and its own deltas.
    /// `None` if a drive has stopped.
    fn mask(&mut self, target: usize) -> Result<Option<Parts>, SimViolation> {
        let mut mask = self.tail(target)?;
        for volume in self.volumes(target)?.into_keys() {
            let Some(ranges) = self.lacking(target, volume)? else { return Ok(None) };
            mask.extend(ranges.into_iter().map(|range| (volume, range)));
        }
        Ok(Some(mask))
    }

    /// Returns the changes that give the target the volumes of the source: those that the source
    /// has made alone, in order, from the target's own volumes; and the rest. Adds to
    /// the mask what the target makes from masked volumes, and volumes that it makes empty.
    fn catalogue(&mut self, mask: &mut Parts) -> Result<Vec<LogOp>, SimViolation> {
        let (source, target) = (self.sequencer, 1 - self.sequencer);
        let has = |entries: &[super::Entry], period, position| {
            entries.iter().any(|entry| (entry.period, entry.position) == (period, position) && !entry.ops.is_empty())
        };
        if let Some(CatalogueRecord { period, position, count }) = self.catalogue.take()
            && has(&self.nodes[target].entries, period, position)
        {
            self.born.drain(..count);
        }
        let entries = &self.nodes[source].entries;
        self.born.retain(|(period, position, _)| has(entries, *period, *position));
        let (wanted, held) = (self.volumes(source)?, self.volumes(target)?);
        let whole = part(0, WHOLE_VOLUME_BLOCKS);
        let (mut now, mut masked) = (held.clone(), mask.clone());
        let mut made: Vec<LogOp> = self.born.iter().map(|(_, _, op)| op.clone()).collect();
        made.retain(|op| repeat(op, &mut now, &mut masked));
        if made.len() > MOST_REPEATED || !has_known_order(&made) {
            (now, made) = (held, Vec::new());
            let touched = self.born.iter().flat_map(|(_, _, op)| op.volumes());
            masked = mask.iter().copied().chain(touched.map(|volume| (volume, whole))).collect();
        }
        let stays = |volume: &VolumeId| now.get(volume) == wanted.get(volume);
        made.extend(now.keys().filter(|volume| !stays(volume)).map(|volume| LogOp::Delete { volume: *volume }));
        for (volume, blocks) in wanted.iter().filter(|(volume, _)| !stays(volume)) {
            made.push(LogOp::Create { volume: *volume, blocks: *blocks });
            masked.push((*volume, whole));
        }
        if let (true, false, Some((volume, blocks))) = (made.is_empty(), self.born.is_empty(), wanted.first_key_value())
        {
            // States that nothing has to be repeated.
            made.push(LogOp::Resize { volume: *volume, blocks: *blocks });
        }
        *mask = masked;
        Ok(made)
    }

    /// Sends blocks while hosts continue, until no delta has any. False if a drive has stopped.
    fn send_blocks(&mut self, source: usize) -> Result<bool, SimViolation> {
        let mut hosts = if self.rng.percent(70) { self.rng.between(0, 80) } else { 0 };
        loop {
            let mut chunks = Vec::new();
            for volume in self.volumes(source)?.into_keys() {
                let Some(ranges) = self.lacking(source, volume)? else { return Ok(false) };
                chunks.extend(ranges.into_iter().flat_map(pieces_of).map(|piece| (volume, piece)));
            }
            if chunks.is_empty() && hosts == 0 {
                return Ok(true);
            }
            for _ in 0..if chunks.is_empty() { hosts } else { 0 } {
                hosts -= 1;
                self.host()?;
                self.step()?;
            }
            for (volume, piece) in chunks {
                for _ in 0..self.rng.below(3).min(hosts) {
                    hosts -= 1;
                    self.host()?;
                }
                if self.rng.percent(70) && !self.await_credit()? {
                    return Ok(false);
                }
                let is_sent = match self.rng.percent(70) {
                    true => self.sync(source, volume, piece)?,
                    false => self.compare_with_itself(source, volume, piece)?,
                };
                if !is_sent {
                    return Ok(false);
                }
                let period = self.status(source)?.period;
                self.sent.push_back((volume, period, piece));
                if self.sent.len() > MOST_LATE {
                    self.sent.pop_front();
                }
            }
            // A source never waits for its peer.
            if self.rng.percent(30) {
                self.run_alone(source)?;
            }
            if !self.run_until(|world| Ok(world.is_quiet(source)))? {
                return Ok(false);
            }
        }
    }

    /// Sends blocks by a write of the bytes that were read. False if a drive has stopped.
    fn compare_with_itself(
        &mut self,
        source: usize,
        volume: VolumeId,
        piece: BlockRange,
    ) -> Result<bool, SimViolation> {
        let tag = self.submit(source, Op::Read { volume, range: piece }, Open::Lax)?;
        if !self.run_until(|world| Ok(!world.open.contains_key(&(source, tag))))? {
            return Ok(false);
        }
        let Some(numbers) = self.own.remove(&tag) else { return Ok(true) };
        let data = bytes_of(&numbers);
        // Nothing has changed the blocks in between, or they are sent again.
        let op = Op::CompareAndWrite { volume, lba: piece.start(), compare: data.clone(), write: data };
        self.submit(source, op, Open::Change(None))?;
        self.totals.copied += piece.blocks();
        Ok(true)
    }

    /// Sends blocks without a write here. False if a drive has stopped.
    fn sync(&mut self, source: usize, volume: VolumeId, piece: BlockRange) -> Result<bool, SimViolation> {
        if self.has_crash() {
            return Ok(false);
        }
        let period = self.status(source)?.period;
        // Also beyond the blocks that the peer lacks, and beyond the volume.
        let times = if self.rng.percent(30) { self.rng.between(1, 200) } else { 1 };
        let (start, blocks) = (piece.start().0, piece.blocks() * times);
        let range = part(start, start + blocks);
        if self.bug == Some(PairBug::SyncWithoutRecord) {
            let clear = DeltaOp::Clear { volume, period, ranges: vec![piece] };
            return self.submit(source, Op::Delta(clear), Open::Lax).map(|_| true);
        }
        self.submit(source, Op::Sync { volume, period, range }, Open::Sync(range, None))?;
        if self.bug == Some(PairBug::SyncClearsTooMuch) {
            self.defer_clear(source, volume, part(start, start + piece.blocks() + WHOLE_BLOCKS));
        }
        self.totals.copied += piece.blocks();
        Ok(true)
    }

    /// Notes the position of a record that a request has become.
    pub(super) fn note_position(&mut self, node: usize, tag: Tag, record: &StreamRecord) {
        let blocks_of = |op: &LogOp| match op {
            LogOp::Write { volume, lba, data } => Some((*volume, part(lba.0, lba.0 + data.len() as u64 / 512))),
            LogOp::Fill { volume, range, .. } => Some((*volume, *range)),
            _ => None,
        };
        match self.open.get_mut(&(node, tag)) {
            Some(Open::Change(position)) => *position = Some(record.position),
            Some(Open::Sync(_, ordered)) => {
                let sent: Parts = record.ops.iter().filter_map(blocks_of).collect();
                *ordered = Some((record.position, sent.iter().map(|(_, range)| range.blocks()).sum()));
                self.synced.extend(sent);
                self.totals.synced += 1;
            }
            _ => {}
        }
    }

    /// Checks the answer to a request that sends content.
    pub(super) fn check_synced(
        &mut self,
        node: usize,
        range: BlockRange,
        ordered: Option<(Position, u64)>,
        result: Result<Reply, OpError>,
    ) -> Result<(), SimViolation> {
        match (ordered, result) {
            (Some((position, sent)), Ok(Reply::Synced { blocks, .. })) if blocks == sent && blocks > 0 => {
                self.nodes[node].promise(position, "content in step")
            }
            // The volume has no delta any more, or is smaller or gone.
            (None, Ok(Reply::Synced { blocks, .. })) if blocks <= range.blocks() => Ok(()),
            (None, Err(OpError::NoSuchVolume(_) | OpError::Unavailable("another period has begun"))) => Ok(()),
            (None, Err(OpError::NoSpace)) if self.small[node] => {
                self.totals.full += 1;
                Ok(())
            }
            (ordered, result) => {
                Err(SimViolation(format!("content of {range:?} was sent as {ordered:?} and ended with {result:?}")))
            }
        }
    }

    /// Returns the blocks that the delta of a volume names. `None` if a drive has stopped.
    fn lacking(&mut self, node: usize, volume: VolumeId) -> Result<Option<Vec<BlockRange>>, SimViolation> {
        let (mut from, mut ranges) = (Lba(0), Vec::new());
        while self.volumes(node)?.get(&volume).is_some_and(|blocks| from.0 < *blocks) {
            let limit = self.rng.between(1, 40) as usize;
            let tag = self.submit(node, Op::Delta(DeltaOp::Next { volume, from, limit }), Open::Lax)?;
            if !self.run_until(|world| Ok(!world.open.contains_key(&(node, tag))))? {
                return Ok(None);
            }
            let Some(extents) = self.extents.remove(&tag) else { break };
            for extent in extents {
                if extent.range.start() != from || extent.range.is_empty() {
                    return Err(SimViolation(format!("the extents of a delta have a gap before {}", from.0)));
                }
                from = extent.range.end();
                ranges.extend((extent.state == ExtentState::Mapped).then_some(extent.range));
            }
        }
        Ok(Some(ranges))
    }

    /// Ends the periods of two arrays that hold the same, and begins one of both.
    pub(super) fn settle_both(&mut self) -> Result<(), SimViolation> {
        for node in [self.sequencer, 1 - self.sequencer] {
            self.nodes[node].core()?.settle_stream(STREAM).map_err(failed("settle"))?;
            self.close(node)?;
        }
        self.synced.clear();
        self.disconnect();
        self.begin_sync()
    }
}

/// Repeats a change of volumes on the sizes and the mask of a target. False if it is not possible.
fn repeat(op: &LogOp, volumes: &mut BTreeMap<VolumeId, u64>, mask: &mut Parts) -> bool {
    match op {
        LogOp::Create { volume, blocks } => {
            let is_new = !volumes.contains_key(volume);
            if is_new {
                volumes.insert(*volume, *blocks);
            }
            is_new
        }
        LogOp::Delete { volume } => volumes.remove(volume).is_some(),
        LogOp::Resize { volume, blocks } => volumes.get_mut(volume).map(|held| *held = *blocks).is_some(),
        LogOp::CopyVolume { source, destination } => {
            let Some(blocks) = volumes.get(source).copied() else { return false };
            volumes.insert(*destination, blocks);
            let of_source: Vec<_> =
                mask.iter().filter(|(volume, _)| volume == source).map(|(_, range)| *range).collect();
            mask.extend(of_source.into_iter().map(|range| (*destination, range)));
            true
        }
        _ => false,
    }
}

/// True if one record may have these changes: it resizes no volume that it has copied.
fn has_known_order(ops: &[LogOp]) -> bool {
    let is_copied = |volume: &VolumeId, before: &[LogOp]| {
        before.iter().any(|op| matches!(op, LogOp::CopyVolume { destination, .. } if destination == volume))
    };
    !(0..ops.len()).any(|at| matches!(&ops[at], LogOp::Resize { volume, .. } if is_copied(volume, &ops[..at])))
}

fn is_volume_change(op: &LogOp) -> bool {
    matches!(op, LogOp::Create { .. } | LogOp::Delete { .. } | LogOp::Resize { .. } | LogOp::CopyVolume { .. })
}

fn part(start: u64, end: u64) -> BlockRange {
    BlockRange::new(Lba(start), end.saturating_sub(start)).unwrap_or_default()
}

fn pieces_of(range: BlockRange) -> impl Iterator<Item = BlockRange> {
    let (start, end) = (range.start().0, range.end().0);
    (start..end).step_by(CHUNK_BLOCKS as usize).map(move |at| part(at, (at + CHUNK_BLOCKS).min(end)))
}
