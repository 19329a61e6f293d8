//! A minimal array that consists of a log, for tests of the simulator itself.
//! `FaultyModel<CORRECT>` is correct; the others have one known bug each.

use crate::subject::{DriveIo, OpenError, SimAction, SimScale, SimSubject};
use bytes::Bytes;
use engine::model::Model;
use engine::{Change, Op, OpError, Reply, Tag};
use platform::{Disk, DiskError, Durability};
use std::collections::BTreeMap;
use std::sync::Arc;
use testing::Rng;
use types::{BlockRange, Lba, VolumeId};

pub(crate) const CORRECT: u8 = 0;
/// Replies when the write to the log starts.
pub(crate) const ANSWERS_BEFORE_COMMIT: u8 = 1;
/// Accepts a torn log group.
pub(crate) const IGNORES_CHECKSUM: u8 = 2;
/// Drops the last operation of a group of several.
pub(crate) const DROPS_LAST_OP: u8 = 3;
/// Does half of an unmap in one log group and the rest in the next.
pub(crate) const SPLITS_UNMAP: u8 = 4;
/// Returns uncommitted data.
pub(crate) const READS_UNCOMMITTED: u8 = 5;

const LOG: u64 = 4096;
const LOG_BYTES: u64 = 24 << 20;
const HEADER: usize = 24;
const MAGIC: u64 = 0x1b1d_7070_0000_0001;

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    log_bytes: u64,
    flushes: bool,
}

pub(crate) struct FaultyModel<const BUG: u8> {
    model: Model,
    setup: Setup,
    queue: Vec<(Op, Tag)>,
    group: Vec<(Tag, Result<Reply, OpError>)>,
    busy: bool,
    tail: u64,
    sequence: u64,
    next_io: u64,
    actions: Vec<SimAction<Self>>,
    flushing: bool,
    stopped: bool,
}

impl<const BUG: u8> FaultyModel<BUG> {
    fn commit(&mut self) {
        if self.busy || self.stopped || self.queue.is_empty() {
            return;
        }
        let mut payload = Vec::new();
        let mut logged = Vec::new();
        let mut later = Vec::new();
        for (op, tag) in std::mem::take(&mut self.queue) {
            if self.tail + payload.len() as u64 + size(&op) + 8192 > LOG + self.setup.log_bytes && size(&op) > 1000 {
                self.group.push((tag, Err(OpError::NoSpace)));
                continue;
            }
            let op = match op {
                Op::Unmap { volume, ranges }
                    if BUG == SPLITS_UNMAP && ranges.len() > 3 && self.model.volumes.contains_key(&volume) =>
                {
                    later.push((Op::Unmap { volume, ranges: ranges[2..].to_vec() }, tag));
                    Op::Unmap { volume, ranges: ranges[..2].to_vec() }
                }
                op => op,
            };
            let result = self.model.apply(&op);
            if result.is_ok() {
                logged.push(op);
            }
            if !later.iter().any(|(_, other)| *other == tag) {
                self.group.push((tag, result));
            }
        }
        self.queue = later;
        if BUG == DROPS_LAST_OP && logged.len() > 1 {
            logged.pop();
        }
        logged.iter().for_each(|op| encode(op, &mut payload));
        self.sequence += 1;
        let mut group = Vec::new();
        for word in [MAGIC ^ self.sequence, payload.len() as u64, u64::from(sum(&payload))] {
            group.extend_from_slice(&word.to_le_bytes());
        }
        group.extend_from_slice(&payload);
        group.resize(group.len().next_multiple_of(4096), 0);
        let offset = self.tail;
        self.tail += group.len() as u64;
        let durability = if self.setup.flushes { Durability::Volatile } else { Durability::Durable };
        self.ask(DriveIo::Write { offset, data: vec![group.into()], durability });
        self.busy = true;
        if BUG == ANSWERS_BEFORE_COMMIT {
            self.answer();
        }
    }

    fn ask(&mut self, io: DriveIo) {
        self.next_io += 1;
        self.actions.push(SimAction::Io { id: self.next_io, io });
    }

    fn answer(&mut self) {
        self.actions.extend(self.group.drain(..).map(|(tag, result)| SimAction::Complete { tag, result }));
    }
}

impl<const BUG: u8> SimSubject for FaultyModel<BUG> {
    type Setup = Setup;
    type Plan = ();
    type Work = ();
    type Done = ();
    type Pinned = ();
    type Scrub = ();

    fn draw(rng: &mut Rng) -> Setup {
        Setup { log_bytes: if rng.percent(30) { 1 << 20 } else { LOG_BYTES }, flushes: rng.percent(50) }
    }

    fn scale(setup: &Setup) -> SimScale {
        SimScale {
            disk_bytes: LOG + LOG_BYTES,
            max_write_blocks: 256,
            space: None,
            may_fill: setup.log_bytes < LOG_BYTES,
            write_cache: false,
            segment_bytes: 0,
        }
    }

    fn create(disk: &dyn Disk, _: &Setup) -> Result<(), String> {
        disk.write_at(0, &[&MAGIC.to_le_bytes()], Durability::Volatile)
            .and_then(|()| disk.flush())
            .map_err(|error| error.to_string())
    }

    fn recover(disk: &dyn Disk, setup: &Setup) -> Result<Self, OpenError> {
        let failed = |error: DiskError| OpenError::Other(error.to_string());
        let mut model = Model::default();
        let (mut tail, mut sequence) = (LOG, 0);
        loop {
            let mut header = [0; HEADER];
            disk.read_at(tail, &mut header).map_err(failed)?;
            let [magic, len, expected] =
                std::array::from_fn(|word| u64::from_le_bytes(header[word * 8..][..8].try_into().unwrap()));
            if magic != MAGIC ^ (sequence + 1) || tail + len > LOG + LOG_BYTES {
                break;
            }
            let mut payload = vec![0; len as usize];
            disk.read_at(tail + HEADER as u64, &mut payload).map_err(failed)?;
            if BUG != IGNORES_CHECKSUM && u64::from(sum(&payload)) != expected {
                break;
            }
            let mut rest = &payload[..];
            while let Some(op) = decode(&mut rest) {
                let _ = model.apply(&op);
            }
            sequence += 1;
            tail += (HEADER as u64 + len).next_multiple_of(4096);
        }
        // Erases the remains of a torn group, so that they are not replayed as a new group.
        disk.write_at(tail, &[&[0; 4096]], Durability::Durable).map_err(failed)?;
        Ok(Self {
            model,
            setup: setup.clone(),
            queue: Vec::new(),
            group: Vec::new(),
            busy: false,
            tail,
            sequence,
            next_io: 0,
            actions: Vec::new(),
            flushing: false,
            stopped: false,
        })
    }

    fn submit(&mut self, op: Op, tag: Tag) {
        match op {
            Op::Read { .. } if BUG == READS_UNCOMMITTED => {
                let mut ahead = self.model.clone();
                self.queue.iter().for_each(|(op, _)| drop(ahead.apply(op)));
                self.actions.push(SimAction::Complete { tag, result: ahead.apply(&op) });
            }
            op => self.queue.push((op, tag)),
        }
    }

    fn poll(&mut self, actions: &mut Vec<SimAction<Self>>) {
        actions.append(&mut self.actions);
    }

    fn execute((): &(), _: &dyn Disk) -> Result<Reply, OpError> {
        unreachable!("the model plans no reads")
    }

    fn fetched(&mut self, _: u64, _: Result<Reply, OpError>) {}

    fn perform((): &(), _: &dyn Disk) {}

    fn worked(&mut self, _: u64, (): ()) {}

    fn io_done(&mut self, _: u64, result: Result<Bytes, DiskError>) {
        if let Err(error) = result {
            self.stopped = true;
            let why: Arc<str> = error.to_string().into();
            let waiting: Vec<Tag> =
                self.group.drain(..).map(|(tag, _)| tag).chain(self.queue.drain(..).map(|(_, tag)| tag)).collect();
            self.group.extend(waiting.into_iter().map(|tag| (tag, Err(OpError::Stopped(why.clone())))));
        } else if self.setup.flushes && !self.flushing {
            self.flushing = true;
            self.ask(DriveIo::Flush);
            return;
        }
        self.flushing = false;
        self.busy = false;
        self.answer();
    }

    fn flush_log(&mut self) {
        self.commit();
    }

    fn tick(&mut self) {}

    fn grow(&mut self, _: u64) {}

    fn checkpoint(&mut self) {}

    fn values(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.model.values.clone()
    }

    fn audit(&self, _: &dyn Disk) -> Result<(), String> {
        Ok(())
    }

    fn fsck(_: &dyn Disk) -> Result<(), String> {
        Ok(())
    }

    fn check_accounting(&self, _: &dyn Disk, _: u64) -> Result<(), String> {
        Ok(())
    }

    fn pin(&mut self) {}

    fn count_pinned((): &(), _: &dyn Disk, _: u64) -> Result<bool, String> {
        Ok(true)
    }

    fn scrub(&mut self, _: Option<()>, _: &dyn Disk, _: u64) -> Result<Option<()>, String> {
        Ok(None)
    }

    fn describe(&self) -> String {
        format!("{} queued, {} in the group", self.queue.len(), self.group.len())
    }

    fn log_extent(_: &Setup) -> (u64, u64) {
        (LOG, LOG + LOG_BYTES)
    }
}

fn sum(payload: &[u8]) -> u32 {
    payload.iter().fold(1, |sum: u32, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn size(op: &Op) -> u64 {
    let mut bytes = Vec::new();
    encode(op, &mut bytes);
    bytes.len() as u64
}

fn words(out: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

fn blob(out: &mut Vec<u8>, bytes: &[u8]) {
    words(out, &[bytes.len() as u64]);
    out.extend_from_slice(bytes);
}

fn encode(op: &Op, out: &mut Vec<u8>) {
    match op {
        Op::Write { volume, lba, data, .. } | Op::CompareAndWrite { volume, lba, write: data, .. } => {
            words(out, &[1, volume.0, lba.0]);
            blob(out, data);
        }
        Op::Or { volume, lba, data, .. } => {
            words(out, &[2, volume.0, lba.0]);
            blob(out, data);
        }
        Op::WriteSame { volume, range, pattern } => {
            words(out, &[3, volume.0, range.start().0, range.blocks()]);
            blob(out, pattern);
        }
        Op::Zero { volume, range } => words(out, &[4, volume.0, range.start().0, range.blocks()]),
        Op::Unmap { volume, ranges } => {
            words(out, &[5, volume.0, ranges.len() as u64]);
            ranges.iter().for_each(|range| words(out, &[range.start().0, range.blocks()]));
        }
        Op::Copy { source, from, destination, to } => {
            words(out, &[6, source.0, from.start().0, from.blocks(), destination.0, to.0]);
        }
        Op::Change(changes) => {
            words(out, &[7, changes.len() as u64]);
            for change in changes {
                match change {
                    Change::CreateVolume { volume, blocks } => words(out, &[1, volume.0, *blocks]),
                    Change::DeleteVolume { volume } => words(out, &[2, volume.0]),
                    Change::ResizeVolume { volume, blocks } => words(out, &[3, volume.0, *blocks]),
                    Change::CopyVolume { source, destination } => words(out, &[6, source.0, destination.0]),
                    Change::Put { key, value } => {
                        words(out, &[4]);
                        blob(out, key);
                        blob(out, value);
                    }
                    Change::Remove { key } => {
                        words(out, &[5]);
                        blob(out, key);
                    }
                }
            }
        }
        Op::Read { .. }
        | Op::Compare { .. }
        | Op::Flush
        | Op::Status { .. }
        | Op::Follow(_)
        | Op::StreamChange(_)
        | Op::Sync { .. }
        | Op::Delta(_)
        | Op::CopyIfEqual(_) => {}
    }
}

fn word(rest: &mut &[u8]) -> Option<u64> {
    let (word, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(u64::from_le_bytes(*word))
}

fn bytes(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let len = word(rest)? as usize;
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(bytes.to_vec())
}

fn range(rest: &mut &[u8]) -> Option<BlockRange> {
    let start = word(rest)?;
    BlockRange::new(Lba(start), word(rest)?).ok()
}

fn decode(rest: &mut &[u8]) -> Option<Op> {
    let kind = word(rest)?;
    if kind == 7 {
        return (0..word(rest)?).map(|_| decode_change(rest)).collect::<Option<Vec<_>>>().map(Op::Change);
    }
    let volume = VolumeId(word(rest)?);
    Some(match kind {
        1 => Op::Write { volume, lba: Lba(word(rest)?), data: bytes(rest)?.into(), fua: false },
        2 => Op::Or { volume, lba: Lba(word(rest)?), data: bytes(rest)?.into() },
        3 => Op::WriteSame { volume, range: range(rest)?, pattern: bytes(rest)?.into() },
        4 => Op::Zero { volume, range: range(rest)? },
        5 => Op::Unmap { volume, ranges: (0..word(rest)?).map(|_| range(rest)).collect::<Option<Vec<_>>>()? },
        6 => Op::Copy { source: volume, from: range(rest)?, destination: VolumeId(word(rest)?), to: Lba(word(rest)?) },
        _ => return None,
    })
}

fn decode_change(rest: &mut &[u8]) -> Option<Change> {
    Some(match word(rest)? {
        1 => Change::CreateVolume { volume: VolumeId(word(rest)?), blocks: word(rest)? },
        2 => Change::DeleteVolume { volume: VolumeId(word(rest)?) },
        3 => Change::ResizeVolume { volume: VolumeId(word(rest)?), blocks: word(rest)? },
        4 => Change::Put { key: bytes(rest)?, value: bytes(rest)? },
        5 => Change::Remove { key: bytes(rest)? },
        6 => Change::CopyVolume { source: VolumeId(word(rest)?), destination: VolumeId(word(rest)?) },
        _ => return None,
    })
}
