//! Room: the credit that the follower lends, and plain volumes that fill the pools.

use super::{Message, Mode, Open, World, failed};
use crate::history::SimViolation;
use crate::machine::Answers;
use crate::pair::bug::PairBug;
use crate::pair::contents::{DISK_BYTES, PLAIN, PLAIN_BLOCKS, STREAM};
use engine::{Credit, Gate, Op, Role};
use types::{BlockRange, Lba, Period};

/// Segments that a pool grows by if it cannot be emptied.
const GROWN_SEGMENTS: u64 = 16;
/// Logical blocks of one request for a plain volume.
const REQUEST_BLOCKS: u64 = 64;
/// Most open requests with which hosts of the pair begin another write.
const MOST_OPEN: usize = 24;
/// Most open requests for a plain volume.
const MOST_PLAIN: usize = 4;
/// Bytes that a resync sends in one record.
const SENT_BYTES: u64 = 32 << 10;
/// Most steps of an array that serves alone until it has answered its hosts.
const MOST_ALONE: u32 = 20_000;
/// Writes of hosts when the pool of the follower has become full.
const MOST_BURST: u32 = 4;

impl World<'_> {
    /// Lends room, now and then, and submits a request for a plain volume where the pool is small.
    pub(super) fn use_room(&mut self) -> Result<(), SimViolation> {
        if self.period == 0 {
            return Ok(());
        }
        if self.is_connected && self.rng.percent(8) {
            self.lend()?;
        }
        let may_burst = self.is_connected && (self.mode == Mode::Sync || self.is_source);
        if std::mem::take(&mut self.is_full) && may_burst {
            (0..MOST_BURST).try_for_each(|_| self.write_much())?;
        }
        let follower = 1 - self.sequencer;
        // An array that serves alone has hosts of its own, the other one not. A source must be
        // able to write the blocks that it sends.
        let node = match self.mode {
            Mode::Sync => self.rng.index(2),
            Mode::Solo if self.is_connected => follower,
            Mode::Solo => self.sequencer,
        };
        if self.small[node] && self.rng.percent(10) { self.use_plain(node) } else { Ok(()) }
    }

    /// Submits a write of a host that needs as much room as one for a plain volume.
    fn write_much(&mut self) -> Result<(), SimViolation> {
        let volume = STREAM.volume(0);
        let blocks = self.volumes(self.sequencer)?.get(&volume).copied().unwrap_or_default();
        if blocks < REQUEST_BLOCKS || self.open.len() >= MOST_OPEN || !self.nodes[self.sequencer].is_up() {
            return Ok(());
        }
        let lba = Lba(self.rng.below(blocks - REQUEST_BLOCKS + 1));
        let first = self.rng.next_u64();
        let numbers: Vec<u64> = (0..REQUEST_BLOCKS).map(|block| first.wrapping_add(block)).collect();
        self.write(volume, lba, &numbers)
    }

    fn lend(&mut self) -> Result<(), SimViolation> {
        let follower = 1 - self.sequencer;
        if let Some((node, period, total)) = self.lent.filter(|_| self.rng.percent(20)) {
            // The connection is another one, or the report is old.
            self.send(node, Message::Lent(period, total));
        }
        if !self.nodes[follower].is_up() || self.nodes[follower].has_crashed() {
            return Ok(());
        }
        let status = self.status(follower)?;
        if status.gate == Gate::Closed || status.role != Role::Follower {
            return Ok(());
        }
        let total = self.nodes[follower].core()?.lend_room(STREAM, status.period).map_err(failed("lend room"))?;
        self.totals.starved += u64::from(total.blocks == status.used.blocks);
        if self.rng.percent(30) {
            self.lent = Some((follower, status.period, total));
        }
        self.send(follower, Message::Lent(status.period, total));
        Ok(())
    }

    /// The peer of a node has lent room.
    pub(super) fn hear_of_room(&mut self, node: usize, period: Period, total: Credit) -> Result<(), SimViolation> {
        let all = Credit { bytes: u64::MAX, blocks: u64::MAX, records: u64::MAX };
        let total = if self.bug == Some(PairBug::CreditOverdrawn) { all } else { total };
        let heard = self.nodes[node].core()?.stream_lent(STREAM, period, total);
        if heard.is_err() && self.has_crash() {
            return Ok(());
        }
        heard.map_err(failed("hear of room"))?;
        self.collect(node)
    }

    /// Waits until the sequencer has credit for a part of a resync. False if a drive has stopped.
    pub(super) fn await_credit(&mut self) -> Result<bool, SimViolation> {
        let source = self.sequencer;
        self.run_until(|world| {
            let status = world.status(source)?;
            Ok((status.lent - status.used).covers(&Credit::of_longest(SENT_BYTES)) && world.is_quiet(source))
        })
    }

    /// Checks that both arrays have counted the same, if they are in the same period.
    pub(super) fn check_credit(&mut self) -> Result<(), SimViolation> {
        let (sequencer, follower) = (self.status(self.sequencer)?, self.status(1 - self.sequencer)?);
        let is_alike = sequencer.used == follower.used && follower.lent.covers(&sequencer.used);
        if sequencer.period != follower.period || is_alike {
            return Ok(());
        }
        Err(SimViolation(format!("credit used: {:?}, and the follower counts {:?}", sequencer.used, follower.used)))
    }

    /// Runs one array until it has answered its hosts.
    pub(super) fn run_alone(&mut self, node: usize) -> Result<(), SimViolation> {
        for _ in 0..MOST_ALONE {
            let is_waiting = |(of, open): (usize, &Open)| {
                of == node && !matches!(open, Open::Plain | Open::Freeing | Open::Sync(..))
            };
            if !self.open.iter().any(|((of, _), open)| is_waiting((*of, open))) || self.has_crash() {
                return Ok(());
            }
            self.submit_deferred()?;
            let mut answers = Answers::new();
            self.nodes[node].step(&mut self.rng, &mut answers);
            self.process(node, answers)?;
        }
        Err(SimViolation(format!("hosts of array {node}, which serves alone, wait for its peer")))
    }

    fn use_plain(&mut self, node: usize) -> Result<(), SimViolation> {
        let is_plain = |(of, open): (usize, &Open)| of == node && matches!(open, Open::Plain | Open::Freeing);
        let open = self.open.iter().filter(|((of, _), open)| is_plain((*of, open))).count();
        if open >= MOST_PLAIN || !self.nodes[node].is_up() || self.nodes[node].has_crashed() {
            return Ok(());
        }
        let lba = Lba(self.rng.below(PLAIN_BLOCKS - REQUEST_BLOCKS));
        let lba = Lba(lba.0 - lba.0 % 8);
        let range = BlockRange::new(lba, REQUEST_BLOCKS).unwrap_or_default();
        let op = match self.rng.weighted(&[70, 8, 20, 2]) {
            0 => {
                let data = testing::noise(self.rng.next_u64(), range.bytes() as usize).into();
                Op::Write { volume: PLAIN, lba, data, fua: false }
            }
            1 => Op::Zero { volume: PLAIN, range },
            2 => Op::Unmap { volume: PLAIN, ranges: vec![range] },
            _ => return self.trim(node),
        };
        self.submit(node, op, Open::Plain).map(drop)
    }

    /// Adds segments to a pool, as an administrator does.
    pub(super) fn grow(&mut self, node: usize) -> Result<(), SimViolation> {
        self.totals.grown += 1;
        let core = self.nodes[node].core()?;
        let geometry = core.geometry();
        let capacity = geometry.capacity + GROWN_SEGMENTS * geometry.segment_bytes;
        if capacity > DISK_BYTES {
            return Err(SimViolation::new("a pool cannot be emptied, and its drive is full"));
        }
        core.grow(capacity).map_err(failed("grow"))
    }

    /// Makes a pool empty, except for the pair's volumes.
    pub(super) fn trim(&mut self, node: usize) -> Result<(), SimViolation> {
        if !self.small[node] {
            return Ok(());
        }
        let all = BlockRange::new(Lba(0), PLAIN_BLOCKS).unwrap_or_default();
        self.submit(node, Op::Unmap { volume: PLAIN, ranges: vec![all] }, Open::Freeing).map(drop)
    }
}
