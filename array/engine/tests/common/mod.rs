//! A drive in memory, and a loop that drives the core on it.
#![allow(dead_code, reason = "not every test uses all of it")]

use bytes::Bytes;
use engine::{Action, Core, Io, Op, OpError, Reply, Tag};
use ondisk::ArrayGeometry;
use parking_lot::Mutex;
use platform::{Disk, DiskError, Durability};
use std::collections::BTreeMap;

/// A drive in memory. What lies outside is an error, never a panic.
pub(crate) struct Memory(pub(crate) Mutex<Vec<u8>>);

impl Memory {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(Mutex::new(vec![0; bytes as usize]))
    }

    pub(crate) fn image(&self) -> Vec<u8> {
        self.0.lock().clone()
    }
}

fn outside() -> DiskError {
    DiskError::Io("outside of the drive".into())
}

impl Disk for Memory {
    fn size(&self) -> u64 {
        self.0.lock().len() as u64
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        let image = self.0.lock();
        let end = (offset as usize).checked_add(buffer.len()).ok_or_else(outside)?;
        buffer.copy_from_slice(image.get(offset as usize..end).ok_or_else(outside)?);
        Ok(())
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]], _: Durability) -> Result<(), DiskError> {
        let data = parts.concat();
        let end = (offset as usize).checked_add(data.len()).ok_or_else(outside)?;
        self.0.lock().get_mut(offset as usize..end).ok_or_else(outside)?.copy_from_slice(&data);
        Ok(())
    }
    fn flush(&self) -> Result<(), DiskError> {
        Ok(())
    }
    fn allocate(&self, _: u64, _: u64) -> Result<(), DiskError> {
        Ok(())
    }
}

pub(crate) type Answers = BTreeMap<Tag, Result<Reply, OpError>>;

/// Drives the core until nothing is left to do.
pub(crate) fn settle(core: &mut Core, disk: &Memory) -> Answers {
    let mut answers = Answers::new();
    for _ in 0..100_000 {
        core.kick();
        core.tick();
        if !carry_out(core, disk, &mut answers) && !core.wants_tick() {
            return answers;
        }
    }
    panic!("the core never comes to rest: {:?}", core.usage());
}

/// Does once what the core asks for at present, and gathers its answers. False when it asked for nothing.
pub(crate) fn carry_out(core: &mut Core, disk: &Memory, answers: &mut Answers) -> bool {
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

pub(crate) fn perform(disk: &Memory, io: &Io) -> Result<Bytes, DiskError> {
    match io {
        Io::Read { offset, bytes } => {
            let mut buffer = vec![0; *bytes];
            disk.read_at(*offset, &mut buffer).map(|()| Bytes::from(buffer))
        }
        Io::Write { offset, data, durability } => {
            let parts: Vec<&[u8]> = data.iter().map(|part| &part[..]).collect();
            disk.write_at(*offset, &parts, *durability).map(|()| Bytes::new())
        }
        Io::Flush => disk.flush().map(|()| Bytes::new()),
        Io::Allocate { offset, bytes } => disk.allocate(*offset, *bytes).map(|()| Bytes::new()),
    }
}

/// Does one operation; gives its answer.
pub(crate) fn run(core: &mut Core, disk: &Memory, op: Op) -> Result<Reply, OpError> {
    core.submit(op, 0);
    settle(core, disk).remove(&0).expect("an answer")
}

pub(crate) const ARRAY: [u8; 16] = *b"an array's name.";

/// A new array on a drive in memory.
pub(crate) fn create(geometry: ArrayGeometry) -> (Memory, Core) {
    let disk = Memory::new(geometry.capacity);
    Core::create(&disk, &geometry.check().unwrap(), ARRAY).unwrap();
    let (core, _) = Core::recover(&disk, None).unwrap();
    (disk, core)
}

/// Bytes that repeat nothing.
pub(crate) fn data(seed: u64, blocks: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..blocks * 512).map(|_| next()).collect()
}
