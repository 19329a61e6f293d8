//! The interface of the system under test: a deterministic engine without I/O of its own.

use crate::injected_bug::InjectedBug;
use bytes::Bytes;
use engine::{Op, OpError, Reply, Tag};
use platform::{Disk, DiskError, Durability};
use std::collections::BTreeMap;
use std::fmt;
use testing::Rng;

/// A drive access that the subject requests.
#[derive(Clone, Debug)]
pub enum DriveIo {
    /// Reads bytes.
    Read {
        /// Offset on the drive.
        offset: u64,
        /// Length.
        bytes: usize,
    },
    /// Writes the parts one after the other.
    Write {
        /// Offset on the drive.
        offset: u64,
        /// Parts to write.
        data: Vec<Bytes>,
        /// Guarantee when the write is done.
        durability: Durability,
    },
    /// Makes earlier writes stable.
    Flush,
    /// Reserves space.
    Allocate {
        /// Offset on the drive.
        offset: u64,
        /// Length.
        bytes: u64,
    },
    /// Releases space whose content is not needed.
    Discard {
        /// Offset on the drive.
        offset: u64,
        /// Length.
        bytes: u64,
    },
}

/// An action that the simulator must do for the subject. A plan is a read that needs the drive but
/// not the subject.
pub enum SimAction<S: SimSubject> {
    /// Sends a reply to a host.
    Complete {
        /// The operation.
        tag: Tag,
        /// The reply.
        result: Result<Reply, OpError>,
    },
    /// Executes a read for a host, at any time.
    Read {
        /// The operation.
        tag: Tag,
        /// The read.
        plan: S::Plan,
    },
    /// Executes a read for the subject and reports the result.
    Fetch {
        /// Id given by the subject.
        id: u64,
        /// The read.
        plan: S::Plan,
    },
    /// Does a computation for the subject and reports the result.
    Work {
        /// Id given by the subject.
        id: u64,
        /// The computation.
        work: S::Work,
    },
    /// Accesses the drive and reports the result.
    Io {
        /// Id given by the subject.
        id: u64,
        /// The access.
        io: DriveIo,
    },
}

/// Sizes and limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimScale {
    /// Size of the drive.
    pub disk_bytes: u64,
    /// Maximum blocks per write.
    pub max_write_blocks: u64,
    /// Space of the file system for the array, in bytes; `None` is unlimited.
    pub space: Option<u64>,
    /// Hosts may fill the pool.
    pub may_fill: bool,
    /// Changes may be answered before they are durable.
    pub write_cache: bool,
    /// Bytes of a segment of the array; 0 for a subject whose drive is not damaged.
    pub segment_bytes: u64,
}

/// Why an array could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Acknowledged operations are lost with a damaged part of the log.
    LogLoss(String),
    /// A structure is damaged.
    Damaged(String),
    /// Anything else.
    Other(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::LogLoss(what) | Self::Damaged(what) | Self::Other(what)) = self;
        f.write_str(what)
    }
}

/// A system under test.
pub trait SimSubject: Sized {
    /// Geometry and options of a run.
    type Setup: Clone + std::fmt::Debug;
    /// A planned read.
    type Plan;
    /// A computation that needs nothing but the drive.
    type Work;
    /// The result of a computation.
    type Done;
    /// A checkpoint that is kept while later ones are stored.
    type Pinned;
    /// A scrub of one segment, between two of its steps.
    type Scrub;

    /// Draws geometry and options.
    fn draw(rng: &mut Rng) -> Self::Setup;
    /// Returns the sizes and limits for a setup.
    fn scale(setup: &Self::Setup) -> SimScale;
    /// Creates an empty array.
    fn create(disk: &dyn Disk, setup: &Self::Setup) -> Result<(), String>;
    /// Opens the array on the drive, after any crash.
    fn recover(disk: &dyn Disk, setup: &Self::Setup) -> Result<Self, OpenError>;
    /// Changes the setup so that [`SimSubject::recover`] opens an array in spite of a loss in the
    /// log.
    fn accept_loss(_setup: &mut Self::Setup) {}
    /// Changes the setup so that the ids of blocks come back while work on them is in flight.
    fn reuse_ids(_setup: &mut Self::Setup) {}
    /// Injects a bug of the array itself. Most bugs are bugs of the drive and change nothing here.
    fn inject(_setup: &mut Self::Setup, _bug: InjectedBug) {}
    /// Submits an operation.
    fn submit(&mut self, op: Op, tag: Tag);
    /// Returns the actions to do now.
    fn poll(&mut self, actions: &mut Vec<SimAction<Self>>);
    /// Executes a planned read.
    fn execute(plan: &Self::Plan, disk: &dyn Disk) -> Result<Reply, OpError>;
    /// Reports the result of a read requested by [`SimAction::Fetch`].
    fn fetched(&mut self, id: u64, result: Result<Reply, OpError>);
    /// Does a computation.
    fn perform(work: &Self::Work, disk: &dyn Disk) -> Self::Done;
    /// Reports the result of a computation.
    fn worked(&mut self, id: u64, done: Self::Done);
    /// Reports that a drive access is done.
    fn io_done(&mut self, id: u64, result: Result<Bytes, DiskError>);
    /// Starts to commit the pending operations.
    fn flush_log(&mut self);
    /// Does one step of background work.
    fn tick(&mut self);
    /// Does the work of a slow timer, every half second of simulated time.
    fn slow_tick(&mut self) {}
    /// Grows the array within the drive. `selector` is a random number that chooses by how much.
    fn grow(&mut self, selector: u64);
    /// Starts a checkpoint, due or not.
    fn checkpoint(&mut self);
    /// Returns all values of the catalog.
    fn values(&self) -> BTreeMap<Vec<u8>, Vec<u8>>;
    /// Checks the subject's own invariants. `disk` is for state that is not in memory.
    fn audit(&self, disk: &dyn Disk) -> Result<(), String>;
    /// Checks the drive with independent code, while no subject is running.
    fn fsck(disk: &dyn Disk) -> Result<(), String>;
    /// Returns whether nothing was moved in the background since the last checkpoint.
    fn is_settled(&self) -> bool {
        true
    }
    /// Returns whether it has compressed stored data again since it was opened.
    fn has_recompressed(&self) -> bool {
        false
    }
    /// Compares space accounting with the drive, directly after a checkpoint. `selector` is a
    /// random number that chooses the owner of each volume.
    fn check_accounting(&self, disk: &dyn Disk, selector: u64) -> Result<(), String>;
    /// Keeps the newest checkpoint until the returned value is dropped.
    fn pin(&mut self) -> Self::Pinned;
    /// Accounts for the space of a kept checkpoint and audits it. `selector` is a random number.
    /// Returns false if the subject no longer keeps the checkpoint and has reported so.
    fn count_pinned(pinned: &Self::Pinned, disk: &dyn Disk, selector: u64) -> Result<bool, String>;
    /// Does one step of a scrub, or begins the scrub of a segment that `selector` chooses. Returns
    /// the scrub if it has more steps, or the damage that it reports.
    fn scrub(
        &mut self,
        scrub: Option<Self::Scrub>,
        disk: &dyn Disk,
        selector: u64,
    ) -> Result<Option<Self::Scrub>, String>;
    /// Describes the state in one line, for the analysis of a violation.
    fn describe(&self) -> String;
    /// Returns the offsets (from, to) of the log. An injected bug makes durable writes there
    /// volatile.
    fn log_extent(setup: &Self::Setup) -> (u64, u64);
    /// Returns whether two superblock copies outside of the `damaged` byte range are equal.
    fn has_quorum(_disk: &dyn Disk, _damaged: (u64, u64)) -> bool {
        true
    }
}
