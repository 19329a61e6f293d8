//! An in-memory drive, and a loop that runs the core on it.
#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod served;

use bytes::Bytes;
use engine::{Action, Core, Io, Op, OpError, Reply, Tag};
use ondisk::ArrayGeometry;
use platform::{Disk, DiskError};
use std::collections::BTreeMap;
pub(crate) use testing::MemoryDisk;

pub(crate) type Answers = BTreeMap<Tag, Result<Reply, OpError>>;

/// Runs the core until it has no work left.
pub(crate) fn settle(core: &mut Core, disk: &MemoryDisk) -> Answers {
    let mut answers = Answers::new();
    for _ in 0..100_000 {
        core.kick();
        core.tick();
        if !carry_out(core, disk, &mut answers) && !core.wants_tick() {
            return answers;
        }
    }
    panic!("the core never becomes idle: {:?}", core.usage());
}

/// Runs the pending actions of the core once and collects its answers. False if there were none.
pub(crate) fn carry_out(core: &mut Core, disk: &MemoryDisk, answers: &mut Answers) -> bool {
    let mut actions = Vec::new();
    core.poll(&mut actions);
    let has_done = !actions.is_empty();
    for action in actions {
        match action {
            Action::Complete { tag, result } => drop(answers.insert(tag, result)),
            Action::Read(plan) => drop(answers.insert(plan.tag(), plan.execute(disk))),
            Action::Fetch { id, plan } => core.fetched(id, plan.execute(disk)),
            Action::Work { id, work } => core.worked(id, work.perform(disk)),
            Action::Io { id, io } => core.io_done(id, perform(disk, &io)),
        }
    }
    has_done
}

pub(crate) fn perform(disk: &MemoryDisk, io: &Io) -> Result<Bytes, DiskError> {
    match io {
        Io::Read { offset, bytes, .. } => {
            let mut buffer = vec![0; *bytes];
            disk.read_at(*offset, &mut buffer).map(|()| Bytes::from(buffer))
        }
        Io::Write { offset, data, durability } => {
            let parts: Vec<&[u8]> = data.iter().map(|part| &part[..]).collect();
            disk.write_at(*offset, &parts, *durability).map(|()| Bytes::new())
        }
        Io::Flush => disk.flush().map(|()| Bytes::new()),
        Io::Allocate { offset, bytes } => disk.allocate(*offset, *bytes).map(|()| Bytes::new()),
        Io::Discard { offset, bytes } => disk.discard(*offset, *bytes).map(|()| Bytes::new()),
    }
}

/// Runs one operation and returns its answer.
pub(crate) fn run(core: &mut Core, disk: &MemoryDisk, op: Op) -> Result<Reply, OpError> {
    core.submit(op, 0);
    settle(core, disk).remove(&0).expect("an answer")
}

pub(crate) const ARRAY: [u8; 16] = *b"an array's name.";

/// A new array on an in-memory drive.
pub(crate) fn create(geometry: ArrayGeometry) -> (MemoryDisk, Core) {
    let disk = MemoryDisk::new(geometry.capacity);
    Core::create(&disk, &geometry.check().unwrap(), ARRAY).unwrap();
    let (core, _) = Core::recover(&disk, None).unwrap();
    (disk, core)
}

/// Returns `blocks` logical blocks of random data.
pub(crate) fn data(seed: u64, blocks: u64) -> Bytes {
    testing::noise(seed, blocks as usize * 512).into()
}
