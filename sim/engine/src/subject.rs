//! What the simulator drives: a deterministic engine that does no I/O of its own.

use bytes::Bytes;
use engine::{Op, OpError, Reply, Tag};
use platform::{Disk, DiskError, Durability};
use std::collections::BTreeMap;
use testing::Rng;

/// An access to the drive that the subject wants.
#[derive(Clone, Debug)]
pub enum DriveIo {
    /// Read so many bytes.
    Read {
        /// Where.
        offset: u64,
        /// How many.
        bytes: usize,
    },
    /// Write the parts one after the other.
    Write {
        /// Where.
        offset: u64,
        /// What.
        data: Vec<Bytes>,
        /// What is promised when it is done.
        durability: Durability,
    },
    /// Make stable what was written before.
    Flush,
    /// Make sure of room.
    Allocate {
        /// Where.
        offset: u64,
        /// How much.
        bytes: u64,
    },
}

/// What the world shall do for the subject. A plan is a read that needs the drive
/// and no longer the subject.
pub enum SimAction<S: SimSubject> {
    /// Give a host its answer.
    Complete {
        /// The operation.
        tag: Tag,
        /// The answer.
        result: Result<Reply, OpError>,
    },
    /// Execute a read for a host, any time.
    Read {
        /// The operation.
        tag: Tag,
        /// The read.
        plan: S::Plan,
    },
    /// Execute a read for the subject, and tell what came of it.
    Fetch {
        /// The subject's name for it.
        id: u64,
        /// The read.
        plan: S::Plan,
    },
    /// Work something out for the subject, and tell what came of it.
    Work {
        /// The subject's name for it.
        id: u64,
        /// What to do.
        work: S::Work,
    },
    /// Access the drive, and tell when it is done.
    Io {
        /// The subject's name for it.
        id: u64,
        /// What to do.
        io: DriveIo,
    },
}

/// How large the world of a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimScale {
    /// Bytes of the drive.
    pub disk_bytes: u64,
    /// The most blocks that one write carries.
    pub max_write_blocks: u64,
    /// Room that the file system has for the array; None for endless.
    pub space: Option<u64>,
    /// True when hosts may fill the pool.
    pub may_fill: bool,
}

/// A system under test.
pub trait SimSubject: Sized {
    /// Geometry and options of a run.
    type Setup: Clone + std::fmt::Debug;
    /// A read that was planned.
    type Plan;
    /// Something to be worked out with no more than the drive.
    type Work;
    /// What comes of it.
    type Done;

    /// A geometry by chance.
    fn draw(rng: &mut Rng) -> Self::Setup;
    /// How large the world is that goes with it.
    fn scale(setup: &Self::Setup) -> SimScale;
    /// Makes an empty array.
    fn create(disk: &dyn Disk, setup: &Self::Setup) -> Result<(), String>;
    /// Opens the array that is on the drive, whatever happened to it.
    fn recover(disk: &dyn Disk, setup: &Self::Setup) -> Result<Self, String>;
    /// Takes an operation.
    fn submit(&mut self, op: Op, tag: Tag);
    /// Tells what the world shall do now.
    fn poll(&mut self, actions: &mut Vec<SimAction<Self>>);
    /// Executes a planned read.
    fn execute(plan: &Self::Plan, disk: &dyn Disk) -> Result<Reply, OpError>;
    /// Hears what came of a read that it had asked for.
    fn fetched(&mut self, id: u64, result: Result<Reply, OpError>);
    /// Works something out.
    fn perform(work: &Self::Work, disk: &dyn Disk) -> Self::Done;
    /// Hears what came of it.
    fn worked(&mut self, id: u64, done: Self::Done);
    /// Hears that an access is done.
    fn io_done(&mut self, id: u64, result: Result<Bytes, DiskError>);
    /// Begins to commit what was gathered.
    fn flush_log(&mut self);
    /// Does what is done in the background.
    fn tick(&mut self);
    /// Makes itself larger, as far as the drive reaches. `odd` decides by how much.
    fn grow(&mut self, selector: u64);
    /// Begins a checkpoint, due or not.
    fn checkpoint(&mut self);
    /// All values of the catalogue.
    fn values(&self) -> BTreeMap<Vec<u8>, Vec<u8>>;
    /// Checks its own invariants. The drive is there for what it does not hold in memory.
    fn audit(&self, disk: &dyn Disk) -> Result<(), String>;
    /// Checks what is on the drive with nothing of the subject's own code, while no subject is switched on.
    fn fsck(disk: &dyn Disk) -> Result<(), String>;
    /// True when nothing has been moved in the background since the newest checkpoint.
    fn is_settled(&self) -> bool {
        true
    }
    /// Compares its accounts of space with what is on the drive, right behind a checkpoint with nothing since. `odd` decides who
    /// belongs to whom.
    fn check_accounting(&self, disk: &dyn Disk, selector: u64) -> Result<(), String>;
    /// Its state in a line, for whoever looks into a violation.
    fn describe(&self) -> String;
    /// Offsets (from, to) on the drive of the log, whose durable writes a planted bug makes volatile.
    fn log_extent(setup: &Self::Setup) -> (u64, u64);
}
