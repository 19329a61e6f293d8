//! The rounds of a run: both arrays serve, one fails, the other continues, both come into step.

use super::{Message, Mode, Open, World};
use crate::history::SimViolation;
use crate::pair::bug::PairBug;
use crate::pair::contents::{Entry, STREAM};
use bytes::Bytes;
use engine::{DeltaMode, Gate, LogOp, NewPeriod, Op, Role, StreamRecord, WHOLE_VOLUME_BLOCKS};
use std::collections::{BTreeMap, BTreeSet};
use types::{BlockRange, Lba, Position, VolumeId};

/// Blocks that one step of the resync copies.
const RESYNC_BLOCKS: u64 = 64;
/// Attempts of a recovery or a resync that may be interrupted.
const MAX_INTERRUPTED: u32 = 3;

impl World<'_> {
    /// Serves, fails over and comes into step again, a few times.
    pub(in crate::pair) fn run(&mut self) -> Result<(), SimViolation> {
        self.begin_sync()?;
        for _ in 0..self.rng.between(2, 5) {
            self.serve()?;
            self.fail_over()?;
            self.bring_into_step()?;
            if self.rng.percent(20) {
                self.renew()?;
            }
        }
        self.end()
    }

    /// Begins a period when both arrays hold the same.
    pub(super) fn begin_sync(&mut self) -> Result<(), SimViolation> {
        let (sequencer, follower) = (self.sequencer, 1 - self.sequencer);
        let (period, last) = (self.next_period(), self.status(sequencer)?.position);
        let max_payload = self.max_payload()?;
        let is_lax = self.bug == Some(PairBug::ReadUncommitted);
        let gate = if is_lax { Gate::Local } else { Gate::Both };
        (self.mode, self.is_connected) = (Mode::Sync, true);
        self.begin(
            follower,
            NewPeriod { period, role: Role::Follower, gate, last, max_payload, delta: DeltaMode::Off },
        )?;
        self.begin(
            sequencer,
            NewPeriod { period, role: Role::Sequencer, gate: Gate::Both, last, max_payload, delta: DeltaMode::Off },
        )
    }

    /// Returns the most bytes of data in a record for both arrays.
    pub(super) fn max_payload(&mut self) -> Result<u64, SimViolation> {
        Ok(self.status(0)?.max_payload.min(self.status(1)?.max_payload))
    }

    /// Lets hosts work until an array ends, the connection is cut, or the time is over.
    fn serve(&mut self) -> Result<(), SimViolation> {
        for node in 0..2 {
            let crash_at = self.rng.percent(45).then(|| self.rng.between(1, 120));
            self.nodes[node].arm(crash_at);
        }
        let steps = self.rng.between(200, 1500);
        for _ in 0..steps {
            if self.has_crash() {
                return Ok(());
            }
            if self.rng.percent(12) {
                self.host()?;
            }
            self.step()?;
        }
        if self.rng.percent(30) {
            // Both are in step when nothing is open.
            self.nodes.iter().for_each(|node| node.arm(None));
            self.run_until(|world| Ok(world.is_quiet(0) && world.is_quiet(1) && !world.has_messages()))?;
            self.compare()?;
        } else if self.rng.percent(50) {
            let node = self.rng.index(2);
            self.stop(node, true);
        }
        Ok(())
    }

    /// One array begins to serve alone.
    fn fail_over(&mut self) -> Result<(), SimViolation> {
        for node in 0..2 {
            if self.nodes[node].has_crashed() {
                self.stop(node, false);
            }
            self.nodes[node].arm(None);
        }
        self.disconnect();
        // Either may continue: an answer needed both.
        let mut winner = self.rng.index(2);
        if !self.nodes[winner].is_up() && self.nodes[1 - winner].is_up() && self.rng.percent(50) {
            winner = 1 - winner;
        }
        let was_serving = self.nodes[winner].is_up() && winner == self.sequencer;
        if !was_serving {
            self.take_over(winner)?;
        }
        if self.nodes[1 - winner].is_up() {
            self.close(1 - winner)?;
        }
        self.begin_solo(winner)?;
        self.totals.failovers += 1;
        for _ in 0..self.rng.between(0, 400) {
            if self.rng.percent(12) {
                self.host()?;
            }
            self.step()?;
            if self.rng.percent(1) {
                self.remove_late(winner)?;
            }
        }
        Ok(())
    }

    /// Makes an array ready to order the stream: after a restart, or from a follower's part.
    fn take_over(&mut self, node: usize) -> Result<(), SimViolation> {
        if !self.nodes[node].is_up() {
            return self.revive(node);
        }
        self.close(node)?;
        self.await_durable(node).map(drop)
    }

    /// Waits until everything in the stream is durable at a node.
    pub(super) fn await_durable(&mut self, node: usize) -> Result<bool, SimViolation> {
        self.run_until(|world| {
            let status = world.status(node)?;
            Ok(status.durable == status.position)
        })
    }

    /// Opens an array after its end. It then holds a prefix of its records.
    fn revive(&mut self, node: usize) -> Result<(), SimViolation> {
        for attempt in 0.. {
            let crash_at = (attempt < MAX_INTERRUPTED && self.rng.percent(30)).then(|| self.rng.between(1, 12));
            if attempt == 0 || self.rng.percent(20) {
                self.nodes[node].fsck()?;
            }
            self.nodes[node].arm(crash_at);
            if self.nodes[node].open()? && !self.nodes[node].has_crashed() {
                break;
            }
            self.stop(node, false);
        }
        self.nodes[node].arm(None);
        let status = self.status(node)?;
        self.nodes[node].cut_to(status.period, status.position)?;
        // Reads need an open stream. The content is that of the records which survived.
        let (period, last, max_payload) = (self.next_period(), status.position, status.max_payload);
        self.begin(
            node,
            NewPeriod { period, role: Role::Follower, gate: Gate::Local, last, max_payload, delta: DeltaMode::Off },
        )?;
        self.check_contents(node)?;
        self.close(node)
    }

    /// Checks that an array holds the content of its records.
    pub(super) fn check_contents(&mut self, node: usize) -> Result<(), SimViolation> {
        self.nodes[node].check_values().map_err(|what| SimViolation(format!("array {node} holds {what}")))?;
        let expected = self.nodes[node].expected();
        let Some(found) = self.read_all(node)? else { return Ok(()) };
        match found.difference(&expected) {
            None => self.nodes[node].audit(),
            Some(what) => Err(SimViolation(format!("array {node} holds {what}"))),
        }
    }

    /// Checks that both arrays hold the same.
    fn compare(&mut self) -> Result<(), SimViolation> {
        self.check_credit()?;
        self.check_messages()?;
        for node in [self.sequencer, 1 - self.sequencer] {
            let expected = self.nodes[self.sequencer].expected();
            let Some(found) = self.read_all(node)? else { return Ok(()) };
            if let Some(what) = found.difference(&expected) {
                return Err(SimViolation(format!("in step, but array {node} holds {what}")));
            }
        }
        Ok(())
    }

    /// Checks that the records which both arrays have came with the same messages, and that each
    /// array has its values.
    fn check_messages(&mut self) -> Result<(), SimViolation> {
        for node in 0..2 {
            self.nodes[node].check_values().map_err(|what| SimViolation(format!("array {node} holds {what}")))?;
        }
        let [first, second] = &self.nodes;
        let place = |entry: &Entry| (entry.period, entry.position);
        let has_effect = |entry: &&Entry| entry.has_effect() && entry.position > Position(0);
        let held: BTreeMap<_, _> =
            second.entries.iter().filter(has_effect).map(|entry| (place(entry), entry)).collect();
        for entry in first.entries.iter().filter(has_effect) {
            if held.get(&place(entry)).is_some_and(|other| other.message != entry.message) {
                return Err(SimViolation(format!("record {} has different messages at the arrays", entry.position)));
            }
        }
        Ok(())
    }

    /// Copies what the other array may lack, until both hold the same. Either may end in between;
    /// the one that has served alone stays the source.
    fn bring_into_step(&mut self) -> Result<(), SimViolation> {
        for attempt in 0.. {
            let may_crash = attempt < MAX_INTERRUPTED;
            if if self.uses_delta { self.send_deltas(may_crash)? } else { self.copy_tails(may_crash)? } {
                break;
            }
            let source = self.sequencer;
            for node in [source, 1 - source] {
                if self.nodes[node].has_crashed() {
                    self.stop(node, false);
                }
                self.nodes[node].arm(None);
            }
            self.disconnect();
            if !self.nodes[source].is_up() {
                self.revive(source)?;
                self.begin_solo(source)?;
            } else if self.uses_delta {
                self.begin_solo(source)?;
            }
        }
        self.nodes.iter().for_each(|node| node.arm(None));
        self.totals.resyncs += 1;
        self.run_until(|world| Ok(!world.has_messages()))?;
        self.compare()
    }

    /// Opens the target and waits until both arrays are quiet. False if an array ends before.
    pub(super) fn is_ready_for_resync(&mut self, may_crash: bool) -> Result<bool, SimViolation> {
        let (source, target) = (self.sequencer, 1 - self.sequencer);
        if !self.nodes[target].is_up() {
            self.revive(target)?;
        } else if self.status(target)?.gate != Gate::Closed {
            self.close(target)?;
        }
        for node in [source, target] {
            let crash_at = (may_crash && self.rng.percent(25)).then(|| self.rng.between(1, 60));
            self.nodes[node].arm(crash_at);
        }
        if !self.run_until(|world| Ok(world.is_quiet(source)))? || !self.await_durable(target)? {
            return Ok(false);
        }
        // The source could not write the blocks that it sends.
        self.trim(source)?;
        if self.status(source)?.position == Position(0) {
            // The target needs a position for its volumes.
            let range = BlockRange::new(Lba(0), 8).unwrap_or_default();
            let tag = self.submit(source, Op::Zero { volume: STREAM.volume(0), range }, Open::Own)?;
            if !self.run_until(|world| Ok(!world.open.contains_key(&(source, tag))))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// False if an array ends before both hold the same.
    fn copy_tails(&mut self, may_crash: bool) -> Result<bool, SimViolation> {
        if !self.is_ready_for_resync(may_crash)? {
            return Ok(false);
        }
        let (source, target) = (self.sequencer, 1 - self.sequencer);
        let tails = [self.tail(source)?, self.tail(target)?];
        let volumes = self.volumes(source)?;
        let parts = parts_of(tails.into_iter().flatten(), &volumes);
        let made = self.remake(target, &volumes, &parts)?;
        let (period, last) = (self.next_period(), self.status(source)?.position);
        let max_payload = self.max_payload()?;
        self.begin(
            source,
            NewPeriod { period, role: Role::Sequencer, gate: Gate::Local, last, max_payload, delta: DeltaMode::Off },
        )?;
        // The first record of the target makes its volumes those of the source.
        let first = if made.is_empty() { last } else { Position(last.0 - 1) };
        self.begin(
            target,
            NewPeriod {
                period,
                role: Role::Follower,
                gate: Gate::Local,
                last: first,
                max_payload,
                delta: DeltaMode::Off,
            },
        )?;
        self.is_connected = true;
        // Nothing else reports these if no record follows.
        for node in [source, target] {
            let durable = self.status(node)?.durable;
            self.send(node, Message::Durable(period, durable));
        }
        if !made.is_empty() {
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
        for (volume, piece) in pieces(&parts, &volumes) {
            let Some(numbers) = self.read(source, volume, piece)? else { return Ok(false) };
            if !self.await_credit()? {
                return Ok(false);
            }
            self.write(volume, piece.start(), &numbers)?;
            self.totals.copied += piece.blocks();
        }
        if !self.is_in_step()? {
            return Ok(false);
        }
        self.settle_both()?;
        Ok(true)
    }

    /// Waits until both arrays have all records. False if a drive has stopped before.
    pub(super) fn is_in_step(&mut self) -> Result<bool, SimViolation> {
        let (source, target) = (self.sequencer, 1 - self.sequencer);
        self.run_until(|world| {
            let (source, target) = (world.status(source)?, world.status(target)?);
            let is_heard = source.heard == source.position && target.heard == target.position;
            Ok(is_heard && source.position == target.position && world.is_quiet(0) && world.is_quiet(1))
        })
    }

    /// Returns the blocks that the peer of an array may lack.
    pub(super) fn tail(&mut self, node: usize) -> Result<Vec<(VolumeId, BlockRange)>, SimViolation> {
        if self.bug == Some(PairBug::TailForgotten) && node != self.sequencer {
            return Ok(Vec::new());
        }
        let whole = BlockRange::new(Lba(0), WHOLE_VOLUME_BLOCKS).unwrap_or_default();
        let Some(mut tail) = self.status(node)?.tail else {
            return Ok(self.volumes(node)?.into_keys().map(|volume| (volume, whole)).collect());
        };
        if self.bug == Some(PairBug::VolumeForgotten) {
            tail.retain(|(_, range)| *range != whole);
        }
        Ok(tail)
    }

    /// Returns the changes that give the target the volumes of the source. Those that a tail names
    /// as a whole are made again.
    fn remake(
        &mut self,
        target: usize,
        volumes: &BTreeMap<VolumeId, u64>,
        parts: &[(VolumeId, BlockRange)],
    ) -> Result<Vec<LogOp>, SimViolation> {
        let is_marked = |volume: &VolumeId| parts.iter().any(|(other, part)| other == volume && is_whole(*part));
        let held = self.volumes(target)?;
        let stays = |volume: &VolumeId| held.get(volume) == volumes.get(volume) && !is_marked(volume);
        let gone = held.keys().filter(|volume| !stays(volume)).map(|volume| LogOp::Delete { volume: *volume });
        let new = volumes.iter().filter(|(volume, _)| !stays(volume));
        let new = new.map(|(volume, blocks)| LogOp::Create { volume: *volume, blocks: *blocks });
        Ok(gone.chain(new).collect())
    }

    /// Stops both arrays in order, and checks their drives.
    fn end(&mut self) -> Result<(), SimViolation> {
        for node in 0..2 {
            self.nodes[node].misuse()?;
            self.stop(node, true);
            self.revive(node)?;
            self.nodes[node].misuse()?;
        }
        Ok(())
    }
}

/// True for the range that means all of a volume.
fn is_whole(range: BlockRange) -> bool {
    range.blocks() == WHOLE_VOLUME_BLOCKS
}

/// Returns the parts of the tails that are in volumes of the source.
fn parts_of(
    tails: impl Iterator<Item = (VolumeId, BlockRange)>,
    volumes: &BTreeMap<VolumeId, u64>,
) -> Vec<(VolumeId, BlockRange)> {
    tails.filter(|(volume, range)| !range.is_empty() && volumes.contains_key(volume)).collect()
}

/// Returns ranges of at most [`RESYNC_BLOCKS`], aligned to that, that hold all of these parts.
fn pieces(parts: &[(VolumeId, BlockRange)], volumes: &BTreeMap<VolumeId, u64>) -> Vec<(VolumeId, BlockRange)> {
    let mut pieces = BTreeSet::new();
    for (volume, range) in parts {
        // The volume may be smaller now.
        let end = volumes.get(volume).map_or(0, |blocks| range.end().0.min(*blocks));
        let numbers = range.start().0 / RESYNC_BLOCKS..end.div_ceil(RESYNC_BLOCKS);
        pieces.extend(numbers.map(|number| (*volume, number)));
    }
    let range = |(volume, number): (VolumeId, u64)| {
        let start = number * RESYNC_BLOCKS;
        let blocks = volumes.get(&volume)?.saturating_sub(start).min(RESYNC_BLOCKS);
        BlockRange::new(Lba(start), blocks).ok().map(|range| (volume, range))
    };
    pieces.into_iter().filter_map(range).collect()
}
