//! A core after errors of the drive: the requests that it serves, and the errors that stop it.

use super::*;
use crate::machine::io::{Io, perform};
use crate::machine::options::Options;
use crate::service::{Change, Reply, Tag};
use bytes::Bytes;
use ondisk::ArrayGeometry;
use platform::{DiskError, Durability};
use std::collections::BTreeMap;
use testing::MemoryDisk;
use types::{BlockRange, Lba, VolumeId};

const V1: VolumeId = VolumeId(1);
const BLOCKS: u64 = 8192;

/// Which I/O fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Log,
    Flush,
    Allocate,
}

struct Rig {
    disk: MemoryDisk,
    core: Core,
    fault: Fault,
    answers: BTreeMap<Tag, Result<Reply, OpError>>,
    tag: Tag,
}

impl Rig {
    fn new(page_budget: Option<u64>) -> Self {
        let geometry = ArrayGeometry { capacity: 32 << 20, log_bytes: 1 << 20, segment_bytes: 128 << 10 };
        let geometry = geometry.check().unwrap();
        let disk = MemoryDisk::new(geometry.capacity);
        Core::create(&disk, &geometry, [3; 16]).unwrap();
        let (core, _) = Core::recover(&disk, None).unwrap();
        let mut rig = Self { disk, core, fault: Fault::None, answers: BTreeMap::new(), tag: 0 };
        let volume = rig.run(Op::Change(vec![Change::CreateVolume { volume: V1, blocks: BLOCKS }]));
        assert_eq!(volume, Some(Ok(Reply::Done)));
        for lba in (0..4096).step_by(64) {
            assert_eq!(rig.run(write(lba, 64)), Some(Ok(Reply::Done)));
        }
        if let Some(page_budget) = page_budget {
            rig.core.request_checkpoint();
            rig.settle();
            let options = Options { page_budget, ..Options::for_geometry(&geometry) };
            (rig.core, _) = Core::recover(&rig.disk, Some(options)).unwrap();
        }
        rig
    }

    fn submit(&mut self, op: Op) -> Tag {
        self.tag += 1;
        self.core.submit(op, self.tag);
        self.tag
    }

    fn run(&mut self, op: Op) -> Option<Result<Reply, OpError>> {
        let tag = self.submit(op);
        self.settle();
        self.answers.remove(&tag)
    }

    fn fails(&self, io: &Io) -> bool {
        match io {
            Io::Write { durability: Durability::Durable, .. } => self.fault == Fault::Log,
            Io::Flush => self.fault == Fault::Flush,
            Io::Allocate { .. } => self.fault == Fault::Allocate,
            _ => false,
        }
    }

    /// Runs the core until it is idle, or for 1000 rounds.
    fn settle(&mut self) {
        for _ in 0..1000 {
            self.core.kick();
            self.core.tick();
            let mut actions = Vec::new();
            self.core.poll(&mut actions);
            if actions.is_empty() && !self.core.wants_tick() {
                return;
            }
            for action in actions {
                match action {
                    Action::Complete { tag, result } => drop(self.answers.insert(tag, result)),
                    Action::Read(plan) => drop(self.answers.insert(plan.tag(), plan.execute(&self.disk))),
                    Action::Fetch { id, plan } => self.core.fetched(id, plan.execute(&self.disk)),
                    Action::Work { id, work } => self.core.worked(id, work.perform(&self.disk)),
                    Action::Io { id, io } if self.fails(&io) => {
                        self.core.io_done(id, Err(DiskError::Io("no answer".to_owned())));
                    }
                    Action::Io { id, io } => self.core.io_done(id, perform(&self.disk, &io)),
                }
            }
        }
    }

    fn is_stopped(&mut self, op: Op) -> bool {
        matches!(self.run(op), Some(Err(OpError::Stopped(_))))
    }
}

fn range(start: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(start), blocks).unwrap()
}

fn data(lba: u64, blocks: u64) -> Bytes {
    testing::noise(lba, blocks as usize * 512).into()
}

fn write(lba: u64, blocks: u64) -> Op {
    Op::Write { volume: V1, lba: Lba(lba), data: data(lba, blocks), fua: false }
}

fn read(lba: u64, blocks: u64) -> Op {
    Op::Read { volume: V1, range: range(lba, blocks) }
}

fn stop_while_writing(rig: &mut Rig) {
    rig.fault = Fault::Log;
    // Overlaps blocks 64 to 128, which are durable.
    let write = Op::Write { volume: V1, lba: Lba(100), data: data(7, 8), fua: false };
    assert!(rig.is_stopped(write));
    assert!(rig.core.stopped().is_some());
}

#[test]
fn stopped_core_reads_what_is_durable() {
    let mut rig = Rig::new(None);
    stop_while_writing(&mut rig);
    for lba in (0..4096).step_by(64).filter(|lba| *lba != 64) {
        assert_eq!(rig.run(read(lba, 64)), Some(Ok(Reply::Data(data(lba, 64)))), "LBA {lba}");
    }
    assert_eq!(rig.run(read(8000, 8)), Some(Ok(Reply::Data(vec![0; 4096].into()))));
    let status = rig.run(Op::Status { volume: V1, lba: Lba(4096), limit: 1 });
    assert!(matches!(status, Some(Ok(Reply::Extents(_)))));
    // The write may be on the drive or not.
    assert!(rig.is_stopped(read(100, 1)) && rig.is_stopped(read(0, 4096)));
    for op in [write(0, 8), Op::Zero { volume: V1, range: range(0, 8) }, Op::Change(Vec::new()), Op::Flush] {
        assert!(rig.is_stopped(op));
    }
}

#[test]
fn stopped_core_loads_pages_for_reads() {
    let mut rig = Rig::new(Some(0));
    stop_while_writing(&mut rig);
    // Overlapping reads in progress wait for each other's pages, and all end.
    let reads: Vec<(Tag, u64)> =
        (128..4096).step_by(64).flat_map(|lba| [lba, lba]).map(|lba| (rig.submit(read(lba, 64)), lba)).collect();
    rig.settle();
    for (tag, lba) in reads {
        assert_eq!(rig.answers.remove(&tag), Some(Ok(Reply::Data(data(lba, 64)))), "LBA {lba}");
    }
}

#[test]
fn inconsistent_core_serves_no_reads() {
    let mut rig = Rig::new(None);
    rig.core.stop_inconsistent("test");
    assert!(rig.is_stopped(read(0, 8)));
    let mut rig = Rig::new(None);
    stop_while_writing(&mut rig);
    rig.core.stop_inconsistent("test");
    assert!(rig.is_stopped(read(0, 8)));
}

#[test]
fn failed_flush_keeps_reads() {
    let mut rig = Rig::new(None);
    rig.fault = Fault::Flush;
    rig.core.request_checkpoint();
    rig.settle();
    assert!(rig.core.stopped().is_some());
    for lba in (0..4096).step_by(64) {
        assert_eq!(rig.run(read(lba, 64)), Some(Ok(Reply::Data(data(lba, 64)))), "LBA {lba}");
    }
}

#[test]
fn failed_allocations_are_retried_then_stop() {
    let mut rig = Rig::new(None);
    rig.fault = Fault::Allocate;
    for lba in (0..BLOCKS).step_by(64) {
        rig.submit(Op::Write { volume: V1, lba: Lba(lba), data: data(lba + 1, 64), fua: false });
        rig.settle();
    }
    // The drive has much space: writes wait, and none is refused.
    assert!(rig.answers.values().all(Result::is_ok), "{:?}", rig.answers);
    assert!(rig.answers.len() < (BLOCKS / 64) as usize, "the writes needed no allocation");
    assert!(rig.core.stopped().is_none() && !rig.core.space().backing_fs_full);
    for _ in 0..5 {
        rig.core.slow_tick();
        rig.settle();
    }
    assert!(rig.core.stopped().is_none());
    rig.fault = Fault::None;
    rig.core.slow_tick();
    rig.settle();
    assert_eq!(rig.run(write(0, 8)), Some(Ok(Reply::Done)), "one good allocation ends the count");

    rig.fault = Fault::Allocate;
    for lba in (0..BLOCKS).step_by(64) {
        rig.run(Op::Write { volume: V1, lba: Lba(lba), data: data(lba + 2, 64), fua: false });
        rig.core.slow_tick();
        rig.settle();
    }
    let reason = rig.core.stopped().expect("stopped after repeated failures").to_string();
    assert_eq!(reason, "cannot reserve space in the file system: input/output error: no answer");
}

#[test]
fn refusals_end_when_space_is_freed() {
    let mut rig = Rig::new(None);
    assert_eq!(rig.core.refusals(), (0, true));
    let blocks = 1 << 20;
    rig.run(Op::Change(vec![Change::ResizeVolume { volume: V1, blocks }]));
    let full = (0..blocks).step_by(64).find(|lba| rig.run(write(*lba, 64)) == Some(Err(OpError::NoSpace))).unwrap();
    assert_eq!(rig.core.refusals(), (1, false));
    assert_eq!(rig.run(write(full, 64)), Some(Err(OpError::NoSpace)));
    assert_eq!(rig.core.refusals(), (2, false));
    rig.run(Op::Unmap { volume: V1, ranges: vec![range(0, full / 2)] });
    rig.core.request_checkpoint();
    rig.settle();
    assert_eq!(rig.core.refusals(), (2, true));
    rig.core.forget_refusals();
    assert_eq!(rig.run(write(0, 64)), Some(Ok(Reply::Done)));
    assert_eq!(rig.core.refusals(), (2, true));
}
