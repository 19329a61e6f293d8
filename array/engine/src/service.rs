//! The engine's interface: block requests, catalog values and maintenance.
//!
//! A request is submitted with a tag. Its reply goes to the [`Sink`] that came with it, exactly
//! once, from any thread, possibly before `submit` returns. Requests that do not overlap may
//! complete in any order. Overlapping requests take effect in the order of submission.

pub use crate::change::Change;
pub use crate::equal_copy::EqualCopy;
pub use types::Source;

use crate::delta_op::DeltaOp;
use crate::stream_record::{FollowedRecord, StreamChange};
use bytes::Bytes;
use platform::threads::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use types::{BlockRange, Lba, Period, RequestId, VolumeId};

/// Most bytes that one request may carry: 32 MiB.
pub const MAX_TRANSFER_BYTES: u64 = 32 << 20;
/// Most blocks that one COMPARE AND WRITE may cover.
pub const MAX_COMPARE_BLOCKS: u64 = 255;

/// A request. Ranges are in 512-byte blocks. A range outside the volume fails with
/// [`OpError::OutOfRange`].
#[derive(Clone, Debug)]
pub enum Op {
    /// Returns [`Reply::Data`] with the bytes of the range.
    Read {
        /// The volume to read.
        volume: VolumeId,
        /// The range to read; at most [`MAX_TRANSFER_BYTES`].
        range: BlockRange,
    },
    /// Writes `data` at `lba`. The length is a multiple of 512 bytes.
    Write {
        /// The volume to write.
        volume: VolumeId,
        /// First block.
        lba: Lba,
        /// The bytes to write.
        data: Bytes,
        /// Force unit access: durable before the reply, even with the write cache on.
        fua: bool,
    },
    /// Sets every block of the range to `pattern`. Zeros, or one repeated 32-bit word, take no
    /// space.
    WriteSame {
        /// The volume to write.
        volume: VolumeId,
        /// The range to set; any length.
        range: BlockRange,
        /// The block to repeat, 512 bytes.
        pattern: Bytes,
    },
    /// Sets the range to zeros, which count as mapped.
    Zero {
        /// The volume to write.
        volume: VolumeId,
        /// The range to set; any length.
        range: BlockRange,
    },
    /// Deallocates the ranges, which then read as zeros. Needs no space for data: it fails only on
    /// a pool that is full of map pages.
    Unmap {
        /// The volume to unmap.
        volume: VolumeId,
        /// The ranges to deallocate; any number and length, may overlap.
        ranges: Vec<BlockRange>,
    },
    /// Writes `write` at `lba` if the blocks there equal `compare`, atomically. Otherwise fails
    /// with [`OpError::Miscompare`].
    ///
    /// Durable before the reply, even with the write cache on, and so is everything that was
    /// written before: hosts use it as a lock, which a crash must not grant twice.
    CompareAndWrite {
        /// The volume.
        volume: VolumeId,
        /// First block.
        lba: Lba,
        /// Expected bytes, as long as `write`.
        compare: Bytes,
        /// New bytes; at most [`MAX_COMPARE_BLOCKS`] blocks.
        write: Bytes,
    },
    /// Writes (old OR `data`) at `lba`, atomically. Durable before the reply, as
    /// [`Op::CompareAndWrite`].
    Or {
        /// The volume.
        volume: VolumeId,
        /// First block.
        lba: Lba,
        /// The bits to set.
        data: Bytes,
    },
    /// Compares the blocks at `lba` with `data`. Fails with [`OpError::Miscompare`] if they differ.
    Compare {
        /// The volume.
        volume: VolumeId,
        /// First block.
        lba: Lba,
        /// Expected bytes.
        data: Bytes,
    },
    /// Copies a range like memmove: the ranges may overlap.
    ///
    /// A copy is atomic up to 32 MiB if source and destination have the same offset within 4 KiB,
    /// and at any length if they have the same offset within 1 MiB. Other copies run in steps; an
    /// error may leave some of them done.
    Copy {
        /// The volume to copy from.
        source: VolumeId,
        /// The range to copy.
        from: BlockRange,
        /// The volume to copy to; may be the same.
        destination: VolumeId,
        /// First block of the destination.
        to: Lba,
    },
    /// Copies a range, by way of an equal one in the stream of the destination. Atomic.
    ///
    /// Fails with [`OpError::Miscompare`] at the first block whose reference is not known to be
    /// that of the other range, although the bytes may be equal, and at 0 while a change of the
    /// source is in progress. The caller then copies in another way.
    CopyIfEqual(Box<EqualCopy>),
    /// Completes when everything acknowledged before is on stable storage.
    Flush,
    /// Returns [`Reply::Extents`]: the provisioning state from `lba` on.
    Status {
        /// The volume.
        volume: VolumeId,
        /// First block.
        lba: Lba,
        /// Most extents to return; 0 counts as 1.
        limit: usize,
    },
    /// Applies administrative changes atomically, in one log record.
    Change(Vec<Change>),
    /// Changes a stream that this engine orders: volumes as a whole, catalog values, and a message
    /// for the peer, in one record with one position. It is ordered after every request that was
    /// answered before, and after those submitted before that change a volume which it makes,
    /// removes, resizes or replaces. It needs no credit, and the peer always gets it as it is,
    /// never a mark. Completes when it is committed, as other changes of the stream; its values are
    /// visible when it is ordered. If it fails while the stream is open, nothing has changed, and
    /// no position was used. A request without changes and without a message is malformed.
    StreamChange(Box<StreamChange>),
    /// Applies a record that the peer has ordered. Completes when it is committed. Records are
    /// submitted in the order of their positions; one that does not follow the one before is
    /// refused. If a record cannot be applied, its stream is closed.
    Follow(Box<FollowedRecord>),
    /// Brings blocks of the peer into step without a change of the volume here. Only at a source:
    /// a sequencer with [`Gate::Local`](crate::Gate) and [`DeltaMode::Source`](crate::DeltaMode).
    ///
    /// While the range is locked, orders one record that sets the peer's blocks to exactly the
    /// present content: holes and zeros as fills, other blocks as data. Here, the record only takes
    /// these blocks out of the delta; the tail lists them until the peer has reported the record.
    /// All blocks of the range are sent, so the caller names those that the delta has.
    /// It begins at the start of the range, and covers as much of it as one record can have: the
    /// period's `max_payload` and 1 MiB of data, 32 operations, the credit that is left. Returns
    /// [`Reply::Synced`] when that is committed; the caller continues after it. If the volume has
    /// no delta, its blocks are in step, and no record is ordered.
    ///
    /// Where there is no credit for the first block, the request waits for credit without a lock,
    /// so that changes of hosts go first. It never becomes a mark. If a block or a page of the
    /// delta cannot be read, it fails with [`OpError::MediumError`], and if the pool is full of
    /// pages, with [`OpError::NoSpace`]; the delta keeps all then.
    Sync {
        /// The volume.
        volume: VolumeId,
        /// The present period. Refused in any other one.
        period: Period,
        /// The blocks, in whole 4 KiB; any length. Cut at the end of the volume: beyond it, nothing
        /// is done, and the reply has 0 blocks.
        range: BlockRange,
    },
    /// Reads or changes what a stream's volumes have that the peer may lack.
    Delta(DeltaOp),
}

/// State of a run of blocks, as GET LBA STATUS (SBC-4 5.6) reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentState {
    /// Data, or zeros that were written: mapped.
    Mapped,
    /// Never written, or unmapped.
    Deallocated,
}

/// A run of blocks of one provisioning state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The blocks.
    pub range: BlockRange,
    /// Their state.
    pub state: ExtentState,
}

/// A successful reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done; durable unless the write cache is on.
    Done,
    /// The bytes that were read.
    Data(Bytes),
    /// Provisioning state from the requested block on, ascending, without gaps.
    Extents(Vec<Extent>),
    /// The reply to [`Op::Sync`].
    Synced {
        /// 512-byte blocks from the start of the range that are done: a multiple of 8, and 0 only
        /// if the range is empty or begins beyond the volume.
        blocks: u64,
        /// Bytes of data that were sent for them: holes and zeros need none.
        data: u64,
    },
}

/// Why a request failed. It changed nothing, except for the completed steps of a copy in steps.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpError {
    /// No volume has this id.
    #[error("no such volume: {0}")]
    NoSuchVolume(VolumeId),
    /// A volume has this id already.
    #[error("volume {0} already exists")]
    VolumeExists(VolumeId),
    /// A range exceeds the volume.
    #[error("range exceeds the volume of {blocks} blocks")]
    OutOfRange {
        /// Size of the volume in blocks.
        blocks: u64,
    },
    /// The request has an invalid length, alignment or count.
    #[error("malformed request: {0}")]
    Malformed(&'static str),
    /// The bytes differ from those expected.
    #[error("miscompare at byte {offset}")]
    Miscompare {
        /// Offset of the first difference, in bytes.
        offset: u64,
    },
    /// The pool has no space for the data.
    #[error("out of space")]
    NoSpace,
    /// The drive cannot read stored bytes, or they do not match their checksum.
    #[error("medium error at {lba}")]
    MediumError {
        /// The first damaged block.
        lba: Lba,
    },
    /// The stream of the volume does not serve this request now. An operation that was ordered
    /// before may have happened.
    #[error("stream is not available: {0}")]
    Unavailable(&'static str),
    /// The arrays of a pod have not agreed in time. An operation that was ordered before may have
    /// happened. The engine itself does not answer so.
    #[error("the pod is in transition: {0}")]
    Transition(&'static str),
    /// Another array that orders the change has not carried it out, and will not: it came too late,
    /// or too many changes wait. The host repeats it. The engine itself does not answer so.
    #[error("the change was not carried out: {0}")]
    Busy(&'static str),
    /// The array is open for reading only.
    #[error("array is read-only")]
    ReadOnly,
    /// The engine has stopped after a drive error and accepts no changes. Reads fail if they need
    /// a range that was being changed.
    #[error("engine stopped: {0}")]
    Stopped(Arc<str>),
}

/// Identifies a request to its submitter.
pub type Tag = u64;

/// Receives replies, on any thread. Must not block.
pub trait Sink: Send + Sync {
    /// Receives the reply to the request that was submitted with `tag`.
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>);
    /// Returns the name of the request if another array has forwarded it. May be called under the
    /// engine's mutex.
    fn request(&self) -> Option<RequestId> {
        None
    }
    /// Returns the sender of the requests of this sink, if it is known.
    fn source(&self) -> Option<Source> {
        None
    }
}

/// Space of the pool, in bytes. Exact when queried; takes constant time.
///
/// `system + data = used`. The pool has `kept` bytes more than `capacity`, for checkpoints and for
/// the cleaner. Hosts may get some of them, so `used` may exceed the capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolSpace {
    /// Space that hosts may fill, metadata included. Changes only when the array grows.
    pub capacity: u64,
    /// Space of the pool that hosts cannot count on.
    pub kept: u64,
    /// Space that data and metadata take.
    pub used: u64,
    /// Live data after reduction.
    pub data: u64,
    /// Part of `data` with several references from leaves of the map: blocks that deduplicated or
    /// were copied. Blocks that volumes share through whole map pages, as after a snapshot, are
    /// not included; [`SpaceByFamily`] has those.
    pub repeated: u64,
    /// Metadata: the map, the slot table and checkpoints.
    pub system: u64,
    /// Data that hosts have written in all volumes, before reduction: mapped blocks, including
    /// written zeros.
    pub written: u64,
    /// Data stored for hosts since the array was opened. Blocks that the cleaner moves do not add
    /// to it.
    pub data_stored: u64,
    /// LSN of the newest log record. Rises with each change of a volume or a catalog value.
    pub changes: u64,
    /// Bytes written to the drive.
    pub drive_writes: DriveWrites,
    /// Data compressed again while the array was quiet.
    pub recompression: Recompression,
    /// The file system below has no space for the pool's next segments, so writes fail as if the
    /// pool were full.
    pub backing_fs_full: bool,
}

impl PoolSpace {
    /// Returns the space of the pool, whatever it is for.
    pub fn size(&self) -> u64 {
        self.capacity.saturating_add(self.kept)
    }

    /// Returns the space that hosts may still fill.
    pub fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }
}

/// Bytes written to the drive since the array was opened, by kind. Both copies of metadata count.
/// Divided by `host`, they are the write amplification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveWrites {
    /// Data that hosts have written, before reduction. Not written by itself, hence no part of
    /// [`DriveWrites::total`]. Includes the records that were replayed.
    pub host: u64,
    /// Groups of the log.
    pub log: u64,
    /// Blocks of hosts, after reduction.
    pub data: u64,
    /// Blocks that the cleaner moved.
    pub moved: u64,
    /// Leaves of the map.
    pub leaves: u64,
    /// Pages of the map above the leaves.
    pub interior_pages: u64,
    /// Pages of the slot table.
    pub slot_pages: u64,
    /// Pages of the slot directory.
    pub directory: u64,
    /// Changed entries of leaves and of pages of the slot table, in place of whole pages.
    pub patches: u64,
    /// Summaries of segments.
    pub summaries: u64,
    /// Manifests.
    pub manifest: u64,
    /// Copies of the superblock.
    pub superblock: u64,
}

impl DriveWrites {
    /// Returns the bytes of pages that were stored whole.
    pub(crate) fn pages(&self) -> u64 {
        self.leaves + self.interior_pages + self.slot_pages + self.directory
    }

    /// Returns all bytes written to the drive.
    pub fn total(&self) -> u64 {
        let pages = self.pages() + self.patches;
        self.log + self.data + self.moved + pages + self.summaries + self.manifest + self.superblock
    }
}

/// Data that was compressed again while the array was quiet, in bytes, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recompression {
    /// Space that it took before.
    pub before: u64,
    /// Space that it takes since.
    pub after: u64,
}

/// Space of one volume, in bytes. Exact when queried; takes constant time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeSpace {
    /// Size of the volume.
    pub provisioned: u64,
    /// Mapped blocks, before reduction.
    pub written: u64,
}

/// The family to which [`SpaceByFamily`] assigns the space of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The volume itself; for a snapshot, the volume that it was taken of.
    pub family: VolumeId,
    /// True for a snapshot.
    pub is_snapshot: bool,
}

/// Stored bytes by family, counted block by block at one instant. Every stored byte is in exactly
/// one figure: `unique`, `snapshots` and `shared` of all families plus `released` are the data of
/// the array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceByFamily {
    /// Space of each family.
    pub families: BTreeMap<VolumeId, FamilySpace>,
    /// Stored bytes without an owner, which are being freed.
    pub released: u64,
}

impl SpaceByFamily {
    /// Returns the stored bytes that several families share.
    pub fn shared(&self) -> u64 {
        self.families.values().map(|family| family.shared).sum()
    }

    /// Returns the stored bytes that only snapshots of one family hold.
    pub fn snapshots(&self) -> u64 {
        self.families.values().map(|family| family.snapshots).sum()
    }
}

/// Space of a family: a volume and its snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilySpace {
    /// Mapped blocks of the volume, before reduction.
    pub written: u64,
    /// Stored bytes that the volume holds and no other family does.
    pub unique: u64,
    /// Stored bytes that only snapshots of the family hold.
    pub snapshots: u64,
    /// Its part of the stored bytes shared with other families: 1/n of what n families share.
    pub shared: u64,
}

impl FamilySpace {
    /// Returns all stored bytes assigned to the family.
    pub fn physical(&self) -> u64 {
        self.unique + self.snapshots + self.shared
    }
}

/// Stored bytes that are lost or cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The volume that has lost data, if known.
    pub volume: Option<VolumeId>,
    /// The damaged bytes and their location in the volume or on the drive, for people.
    pub description: String,
}

/// Results of scrubs, and damage found by reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// A scrub is running.
    pub is_scrubbing: bool,
    /// Bytes checked by the running scrub, or by the last one.
    pub scrubbed: u64,
    /// Scrubs completed since the array was opened.
    pub scrubs: u64,
    /// Since when the last scrub lacks its audit of counts, in milliseconds since 1970. The audit
    /// is repeated, and the scrub completes with it.
    pub audit_postponed_since: Option<u64>,
    /// Known damage: at most 1000 entries of the last scrub, then damage that reads have found
    /// since it began.
    pub damage: Vec<Damage>,
    /// Acknowledged operations that were lost when the array was opened.
    pub log_loss: Option<Arc<str>>,
    /// Metadata that was lost when the array was opened for reading only.
    pub salvage: Option<Arc<str>>,
    /// Why the engine has stopped. Only a new start ends this state.
    pub stopped: Option<Arc<str>>,
    /// Since when requests are refused for lack of space, in milliseconds since 1970.
    pub refusing_since: Option<u64>,
    /// I/Os that have taken longer than 30 s and have not ended, at most 100.
    pub hung_ios: Vec<SlowIo>,
}

/// An I/O that takes long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowIo {
    /// The operation, such as "read" or "durable write".
    pub operation: &'static str,
    /// First byte on the drive.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Age in seconds.
    pub seconds: u64,
}

/// Data plane: block requests.
pub trait BlockService: Send + Sync {
    /// Starts a request; `sink` receives the reply under `tag`.
    fn submit(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>);
    /// Gives up a change, named by the nexus of its [`Source`] and its tag, if it waits for another
    /// array that orders it. Its reply still follows, as soon as it is certain whether the change
    /// takes effect. Other requests are not affected.
    fn cancel(&self, nexus: u64, tag: Tag) {
        let _ = (nexus, tag);
    }
    /// Ends a batch of submissions: the records gathered so far go to the log in one flush.
    fn kick(&self) {}
    /// True if writes are acknowledged before they are durable.
    fn write_cache(&self) -> bool;
    /// Returns why the service has stopped: a drive error after which nothing may be written. It
    /// still serves reads that need nothing in doubt, and fails everything else with
    /// [`OpError::Stopped`] until a new start.
    fn stopped(&self) -> Option<Arc<str>> {
        None
    }
    /// True if volumes cannot be changed: such requests fail with [`OpError::ReadOnly`].
    fn is_read_only(&self) -> bool {
        false
    }
}

/// Catalog values, changed by [`Op::Change`].
pub trait KeyValue: Send + Sync {
    /// Returns a catalog value.
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
    /// Returns the catalog values whose key begins with `prefix`, in order of key.
    fn scan(&self, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)>;
}

/// Control plane: space, growth and integrity.
pub trait Maintenance: Send + Sync {
    /// Returns the space of the pool.
    fn space(&self) -> PoolSpace;
    /// Returns the space of a volume.
    fn volume_space(&self, volume: VolumeId) -> Option<VolumeSpace>;
    /// Returns the space of each volume. Costs less than to ask for one after the other.
    fn volume_spaces(&self, volumes: &[VolumeId]) -> Vec<Option<VolumeSpace>> {
        volumes.iter().map(|volume| self.volume_space(*volume)).collect()
    }
    /// Counts the stored bytes of each family. Blocks, because it reads the whole map. `None` if
    /// the map cannot be read, the engine is closing, or the count takes longer than `timeout`.
    fn account_space(&self, owner: &dyn Fn(VolumeId) -> Owner, timeout: Option<Duration>) -> Option<SpaceByFamily>;
    /// Grows the pool to `capacity` bytes. The drive already has that size. Blocks until the
    /// growth is durable.
    fn grow(&self, capacity: u64) -> Result<(), OpError>;
    /// Starts a scrub in the background: checks everything stored against its checksum, at most
    /// `bytes_per_second`.
    fn scrub(&self, bytes_per_second: u64);
    /// Returns what scrubs and reads have found.
    fn health(&self) -> Health;
}

/// All of the engine's interface.
pub trait Service: BlockService + KeyValue + Maintenance {}

impl<T: BlockService + KeyValue + Maintenance> Service for T {}

/// Submits one request and blocks until its reply. Must not run on the threads of an async
/// runtime.
pub fn call(service: &dyn BlockService, op: Op) -> Result<Reply, OpError> {
    struct Once(Mutex<Option<Result<Reply, OpError>>>, Condvar);
    impl Sink for Once {
        fn complete(&self, _: Tag, result: Result<Reply, OpError>) {
            *self.0.lock() = Some(result);
            self.1.notify_one();
        }
    }
    let once = Arc::new(Once(Mutex::new(None), Condvar::new()));
    let sink: Arc<dyn Sink> = once.clone();
    service.submit(op, 0, &sink);
    service.kick();
    let mut slot = once.0.lock();
    loop {
        if let Some(result) = slot.take() {
            return result;
        }
        once.1.wait(&mut slot);
    }
}
