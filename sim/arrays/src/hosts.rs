//! Hosts: they write and read single blocks through both arrays.

use crate::oracle::{Oracle, fail};
use crate::site::{Command, Process, Site, volume};
use crate::totals::Totals;
use bytes::Bytes;
use engine::{Op, OpError, Reply};
use platform::clock;
use platform::simulation::{below, time};
use platform::threads::mpsc;
use pods_sim::{Planned, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use types::{BlockRange, LBAS_PER_BLOCK, Lba};

/// Blocks that hosts use. They are far from each other.
pub(crate) const BLOCKS: usize = 6;
/// Blocks between two of them.
const STRIDE: u64 = 24;
/// A host gives up a request after this time.
const PATIENCE: Duration = Duration::from_millis(6500);
/// Time for the end of a request that was given up.
const ABORT: Duration = Duration::from_secs(3);
/// A host fails over later than this, so that its young forwards are dead.
const FAILOVER: Duration = Duration::from_millis(250);
/// Writes of a block without a known end, above which hosts repeat all of them.
const MOST_OPEN: usize = 4;
/// Bytes of a block.
const BYTES: usize = 4096;

/// The first LBA of a block.
pub(crate) fn lba_of(block: usize) -> Lba {
    Lba(block as u64 * STRIDE * LBAS_PER_BLOCK)
}

fn range_of(block: usize) -> BlockRange {
    BlockRange::new(lba_of(block), LBAS_PER_BLOCK).unwrap_or_else(|_| unreachable!("the blocks are in a volume"))
}

/// The content of a block that a write has made.
pub(crate) fn content(value: Value) -> Bytes {
    value.to_le_bytes().repeat(BYTES / 8).into()
}

/// The write that has made the content of a block.
pub(crate) fn value_of(block: usize, data: &[u8]) -> Value {
    let value = data.first_chunk::<8>().map_or(0, |bytes| Value::from_le_bytes(*bytes));
    if content(value) != *data {
        fail(&format!("block {block} has parts of several writes: {value} at the start"));
    }
    value
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Write,
    WriteSame,
    Unmap,
    Zero,
    Compare,
}

/// The end of a request.
enum End {
    Answer(Result<Reply, OpError>),
    /// The array has gone, or does not answer.
    Lost,
}

/// The work of hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Blocks that they use.
    blocks: u64,
    /// Most microseconds between two requests.
    pause: u64,
    /// Changes, in percent of the requests.
    writes: u64,
}

impl Load {
    /// Hosts with all blocks, or hosts that read two blocks all the time.
    pub(crate) fn new(is_busy: bool) -> Self {
        match is_busy {
            false => Self { blocks: BLOCKS as u64, pause: 60_000, writes: 55 },
            true => Self { blocks: 2, pause: 6000, writes: 25 },
        }
    }
}

/// A host.
pub(crate) struct Host {
    pub(crate) number: usize,
    pub(crate) sites: [Arc<Site>; 2],
    pub(crate) oracle: Arc<Oracle>,
    pub(crate) is_over: Arc<AtomicBool>,
    pub(crate) totals: Arc<Totals>,
    load: Load,
    path: usize,
    next: u64,
    /// Contents that it has seen.
    seen: BTreeMap<usize, Value>,
    /// Writes whose end it does not know.
    open: BTreeMap<usize, Vec<Value>>,
}

impl Host {
    pub(crate) fn new(
        number: usize,
        sites: [Arc<Site>; 2],
        oracle: Arc<Oracle>,
        is_over: Arc<AtomicBool>,
        totals: Arc<Totals>,
        load: Load,
    ) -> Self {
        let (seen, open) = (BTreeMap::new(), BTreeMap::new());
        Self { number, sites, oracle, is_over, totals, load, path: number % 2, next: 0, seen, open }
    }

    /// Works until the end of the history.
    pub(crate) fn work(mut self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let Load { blocks, pause, writes } = self.load;
            clock::sleep(Duration::from_micros(500 + below(pause)));
            let Some(process) = self.sites[self.path].process() else {
                self.fail_over();
                continue;
            };
            // A write that may have happened is repeated first.
            let block = self.open.keys().next().copied();
            match block {
                Some(block) => self.change(&process, block),
                None if below(100) < writes => self.change(&process, below(blocks) as usize),
                None => self.read(&process, below(blocks) as usize),
            }
            if below(4) == 0 {
                self.path = self.number % 2;
            }
        }
    }

    fn fail_over(&mut self) {
        clock::sleep(FAILOVER + Duration::from_micros(below(50_000)));
        self.path = 1 - self.path;
    }

    /// Sends a request, and waits for its end.
    fn ask(&mut self, process: &Arc<Process>, op: Op) -> End {
        let (sender, answers) = mpsc::channel();
        self.next += 1;
        let (tag, sink) = (self.next, process.sink(self.number, sender));
        let nexus = sink.source().map_or(0, |source| source.nexus);
        if !process.submit(self.number, Command { op, tag, sink }) {
            return End::Lost;
        }
        let until = time() + PATIENCE;
        while time() < until {
            if let Ok((_, result)) = answers.recv_timeout(Duration::from_millis(100)) {
                return End::Answer(result);
            }
            let is_present = self.sites[self.path].process().is_some_and(|present| Arc::ptr_eq(&present, process));
            if !is_present {
                return End::Lost;
            }
        }
        Totals::count(&self.totals.aborts);
        process.cancel(nexus, tag);
        match answers.recv_timeout(ABORT) {
            Ok((_, result)) => End::Answer(result),
            Err(_) => End::Lost,
        }
    }

    fn read(&mut self, process: &Arc<Process>, block: usize) {
        let planned = self.oracle.plan(block);
        match self.ask(process, Op::Read { volume: volume(), range: range_of(block) }) {
            End::Answer(Ok(Reply::Data(data))) => {
                let value = value_of(block, &data);
                let (number, path) = (self.number, self.path);
                self.oracle.note(|| format!("host {number} reads {value} of block {block} at array {path}"));
                self.oracle.read(block, planned, value);
                self.seen.insert(block, value);
                Totals::count(&self.totals.reads);
            }
            End::Answer(Ok(reply)) => fail(&format!("a read is answered by {reply:?}")),
            End::Answer(Err(error)) => self.refused(&error),
            End::Lost => self.fail_over(),
        }
    }

    fn change(&mut self, process: &Arc<Process>, block: usize) {
        let expected = self.seen.get(&block).copied().filter(|seen| *seen != 0);
        let kind = match (below(10), expected) {
            (0, _) => Kind::Unmap,
            (1, _) => Kind::Zero,
            (2, _) => Kind::WriteSame,
            (3..6, Some(_)) if !self.open.contains_key(&block) => Kind::Compare,
            _ => Kind::Write,
        };
        let expected = expected.filter(|_| kind == Kind::Compare);
        let id = self.oracle.next(matches!(kind, Kind::Unmap | Kind::Zero));
        let (volume, range, lba) = (volume(), range_of(block), lba_of(block));
        let op = match (kind, expected) {
            (Kind::Unmap, _) => Op::Unmap { volume, ranges: vec![range] },
            (Kind::Zero, _) => Op::Zero { volume, range },
            (Kind::WriteSame, _) => Op::WriteSame { volume, range, pattern: content(id).slice(..512) },
            (Kind::Compare, Some(expected)) => {
                Op::CompareAndWrite { volume, lba, compare: content(expected), write: content(id) }
            }
            _ => Op::Write { volume, lba, data: content(id), fua: false },
        };
        let (number, path) = (self.number, self.path);
        self.oracle.note(|| format!("host {number}: {kind:?} {id} of block {block} at array {path}, on {expected:?}"));
        let planned = self.oracle.invoke(block, id, expected);
        let end = self.ask(process, op);
        self.changed((block, id), (planned, expected), end);
    }

    fn changed(&mut self, (block, id): (usize, Value), (planned, expected): (Planned, Option<Value>), end: End) {
        let number = self.number;
        match end {
            End::Answer(Ok(_)) => {
                self.oracle.note(|| format!("host {number}: write {id} of block {block} is answered"));
                let before = self.open.remove(&block).unwrap_or_default();
                self.oracle.answer(block, id, &before);
                Totals::count(&self.totals.writes);
            }
            End::Answer(Err(OpError::Miscompare { .. })) if expected.is_some() => {
                self.oracle.note(|| format!("host {number}: comparison {id} of block {block} differs"));
                self.oracle.differs(block, planned, id, expected.unwrap_or_default());
                self.seen.remove(&block);
            }
            End::Answer(Err(error)) => {
                self.oracle.note(|| format!("host {number}: write {id} of block {block}: {error}"));
                match error {
                    OpError::Busy(_) => self.oracle.refuse(block, id),
                    _ => self.leave_open(block, id),
                }
                self.refused(&error);
            }
            End::Lost => {
                self.oracle.note(|| format!("host {number}: write {id} of block {block} is lost"));
                self.leave_open(block, id);
                self.fail_over();
            }
        }
    }

    /// The end of a write is not known: the host repeats it, or forgets it as a host that ends.
    fn leave_open(&mut self, block: usize, id: Value) {
        self.oracle.lose(block, id);
        if below(2) == 0 || self.oracle.open_writes(block) > MOST_OPEN {
            self.open.entry(block).or_default().push(id);
        }
    }

    /// A request ends with an error.
    fn refused(&mut self, error: &OpError) {
        Totals::count(&self.totals.refused);
        match error {
            OpError::Busy(_) => clock::sleep(Duration::from_millis(20)),
            OpError::Unavailable(_) | OpError::Transition(_) | OpError::Stopped(_) => self.fail_over(),
            error => fail(&format!("a host gets an error that nothing explains: {error}")),
        }
    }
}
