//! What the engine does for those above it: requests in, completions out.
//!
//! A request is submitted with a tag and answered exactly once through the [`Sink`] that came with it, from any thread,
//! possibly before `submit` returns. Requests of one submitter that do not overlap may be answered in any order;
//! overlapping ones behave as if executed one after the other in the order of submission.

use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use types::{BlockRange, Lba, VolumeId};

/// The most bytes that one read or one data-carrying request may move: 32 MiB.
pub const MAX_TRANSFER_BYTES: u64 = 32 << 20;
/// The most blocks that one COMPARE AND WRITE may cover.
pub const MAX_COMPARE_BLOCKS: u64 = 255;

/// One thing to do. Ranges are in 512-byte blocks and lie inside the volume, or the answer is [`OpError::OutOfRange`].
#[derive(Clone, Debug)]
pub enum Op {
    /// Answers [`Reply::Data`] with the bytes of the range.
    Read {
        /// The volume to read.
        volume: VolumeId,
        /// What to read; at most [`MAX_TRANSFER_BYTES`].
        range: BlockRange,
    },
    /// Stores `data` from `lba` on. The length is a multiple of 512 bytes.
    Write {
        /// The volume to write.
        volume: VolumeId,
        /// First block.
        lba: Lba,
        /// What to write.
        data: Bytes,
        /// Force unit access: durable before the answer even where the write cache is on.
        fua: bool,
    },
    /// Sets every block of the range to `pattern` (512 bytes). A pattern of zeros, or of one repeated 32-bit word, costs no space.
    WriteSame {
        /// The volume to write.
        volume: VolumeId,
        /// What to cover; any length.
        range: BlockRange,
        /// The block to repeat, 512 bytes.
        pattern: Bytes,
    },
    /// Sets the range to zeros that count as mapped.
    Zero {
        /// The volume to write.
        volume: VolumeId,
        /// What to cover; any length.
        range: BlockRange,
    },
    /// Deallocates the ranges; they read as zeros afterwards. Needs no room for data: only a pool that is full of map pages refuses it.
    Unmap {
        /// The volume to unmap.
        volume: VolumeId,
        /// What to cover; any number and length, may overlap.
        ranges: Vec<BlockRange>,
    },
    /// Atomically: when the blocks at `lba` equal `compare`, stores `write` there; else answers [`OpError::Miscompare`].
    CompareAndWrite {
        /// The volume.
        volume: VolumeId,
        /// First block.
        lba: Lba,
        /// Expected bytes, as long as `write`.
        compare: Bytes,
        /// New bytes; at most [`MAX_COMPARE_BLOCKS`] blocks.
        write: Bytes,
        /// Force unit access.
        fua: bool,
    },
    /// Stores (old OR `data`) from `lba` on, atomically.
    Or {
        /// The volume.
        volume: VolumeId,
        /// First block.
        lba: Lba,
        /// The bits to set.
        data: Bytes,
        /// Force unit access.
        fua: bool,
    },
    /// Compares the blocks at `lba` with `data`; answers [`OpError::Miscompare`] where they differ.
    Compare {
        /// The volume.
        volume: VolumeId,
        /// First block.
        lba: Lba,
        /// Expected bytes.
        data: Bytes,
    },
    /// Copies as memmove does: the destination gets what the source held before the operation, even where they overlap. Where both
    /// ends stand at the same place of a 4 KiB block, up to 32 MiB are copied wholly or not at all, and any length where they stand at
    /// the same place of a MiB. Other copies go in pieces, and an error may leave some of them done.
    Copy {
        /// Where to copy from.
        source: VolumeId,
        /// First block and length.
        from: BlockRange,
        /// Where to copy to; may be the same volume.
        destination: VolumeId,
        /// First block there.
        to: Lba,
    },
    /// Answers when everything acknowledged before is on stable storage.
    Flush,
    /// Answers [`Reply::Extents`]: the provisioning state from `lba` on.
    Status {
        /// The volume.
        volume: VolumeId,
        /// First block.
        lba: Lba,
        /// The most extents to answer; at least one is.
        limit: usize,
    },
    /// Applies administrative changes atomically: all of them or none, one log record.
    Change(Vec<Change>),
}

/// An administrative change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Makes an empty volume. `blocks` is its size.
    CreateVolume {
        /// Its name, never used before.
        volume: VolumeId,
        /// Size in 512-byte blocks, a multiple of 8.
        blocks: u64,
    },
    /// Removes a volume and everything in it.
    DeleteVolume {
        /// Which.
        volume: VolumeId,
    },
    /// Grows, or truncates, a volume.
    ResizeVolume {
        /// Which.
        volume: VolumeId,
        /// New size in 512-byte blocks, a multiple of 8.
        blocks: u64,
    },
    /// Makes `destination` hold exactly what `source` holds at this instant, in its size: a snapshot, a clone, a restore. It comes
    /// into being where there is none, and loses what it held where there is one. Costs the same for any size: the two share
    /// their map until one of them is written.
    CopyVolume {
        /// Whose content.
        source: VolumeId,
        /// Who gets it; not the source.
        destination: VolumeId,
    },
    /// Stores a value of the catalogue; the engine does not know what it means.
    Put {
        /// At most 255 bytes.
        key: Vec<u8>,
        /// At most 1 MiB.
        value: Vec<u8>,
    },
    /// Removes a value of the catalogue; removing what is not there is no error.
    Remove {
        /// Which.
        key: Vec<u8>,
    },
}

/// State of a run of blocks, as GET LBA STATUS tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provisioning {
    /// Data, or zeros that were written: mapped.
    Mapped,
    /// Never written, or unmapped.
    Deallocated,
}

/// A run of blocks of one provisioning state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where.
    pub range: BlockRange,
    /// In which state.
    pub state: Provisioning,
}

/// A good answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done; durable unless the write cache is on.
    Done,
    /// The bytes that were read.
    Data(Bytes),
    /// Provisioning state from the asked block on, ascending, without gaps.
    Extents(Vec<Extent>),
}

/// Why a request was not done. Nothing of it was done then, except pieces of a copy that goes in pieces.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpError {
    /// No volume of that name.
    #[error("no such volume: {0}")]
    NoSuchVolume(VolumeId),
    /// The name is taken.
    #[error("volume {0} exists already")]
    VolumeExists(VolumeId),
    /// A range passes the end of the volume.
    #[error("range passes the end of the volume ({blocks} blocks)")]
    OutOfRange {
        /// Size of the volume in blocks.
        blocks: u64,
    },
    /// A length, alignment or count is not one that the operation takes.
    #[error("malformed request: {0}")]
    Malformed(&'static str),
    /// COMPARE AND WRITE or Compare: byte `offset` is the first that differs.
    #[error("miscompare at byte {offset}")]
    Miscompare {
        /// Offset from the first byte compared.
        offset: u64,
    },
    /// The pool has no room for the data.
    #[error("out of space")]
    NoSpace,
    /// Stored bytes did not pass their checksum, or the drive could not read them. `lba` is the first such block.
    #[error("medium error at {lba}")]
    MediumError {
        /// First damaged block.
        lba: Lba,
    },
    /// The engine has stopped after an error of the drive; nothing more is accepted.
    #[error("the engine has stopped: {0}")]
    Stopped(Arc<str>),
}

/// The submitter's name for a request.
pub type Tag = u64;

/// Takes answers. Called once per request, on any thread; must not block.
pub trait Sink: Send + Sync {
    /// The answer to the request that was submitted with `tag`.
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>);
}

/// How full the pool is, in bytes. Exact at the moment of asking, and read in constant time.
///
/// `system + data = used`, and `used + free = capacity`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// What the pool can hold, metadata included.
    pub capacity: u64,
    /// What data and metadata occupy.
    pub used: u64,
    /// Live data as stored: reduced.
    pub data: u64,
    /// Of that, what several references of the map's leaves name: found equal when it was written, or copied block by block. Not
    /// what volumes hold together because they share pages of the map, as after a snapshot: who holds what is for a [`Census`].
    pub repeated: u64,
    /// Metadata: the map, the slot table, checkpoints; and the reserve's share that is in use.
    pub system: u64,
    /// What hosts see as written in all volumes, in bytes before reduction: mapped blocks, zeros that were written included.
    pub written: u64,
    /// Data written by hosts and stored by the engine since it was opened: metadata copies add nothing to it.
    pub data_stored: u64,
    /// Number of the log's newest record: greater after each change of a volume, or of what is kept beside them.
    pub changes: u64,
    /// The file system below has no room for what the pool needs next, though the pool itself may have: hosts are refused as if it were full.
    pub is_refused_below: bool,
}

impl Space {
    /// What is not in use.
    pub fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }
}

/// What one volume holds, in bytes. Exact and in constant time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeSpace {
    /// Its size.
    pub provisioned: u64,
    /// Mapped blocks, before reduction.
    pub written: u64,
}

/// Who answers for the data of a volume in a [`Census`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The volume that the space is told of: itself, or the one that a snapshot was taken of.
    pub family: VolumeId,
    /// True for a snapshot.
    pub is_snapshot: bool,
}

/// What belongs to whom, counted block by block at one instant. Every stored byte is in exactly one figure:
/// `unique`, `snapshots` and `shared` of all families and `released` are together the data of the array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// By family.
    pub families: std::collections::BTreeMap<VolumeId, FamilySpace>,
    /// Stored bytes that nobody holds any more, and that are being given back.
    pub released: u64,
}

impl Census {
    /// Stored bytes that more than one family holds.
    pub fn shared(&self) -> u64 {
        self.families.values().map(|family| family.shared).sum()
    }

    /// Stored bytes that only snapshots of one family hold.
    pub fn snapshots(&self) -> u64 {
        self.families.values().map(|family| family.snapshots).sum()
    }
}

/// The space of a volume and its snapshots: of one *family*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilySpace {
    /// What the volume had mapped at that instant, before reduction.
    pub written: u64,
    /// Stored bytes that the volume holds, and no other family.
    pub unique: u64,
    /// Stored bytes that only its snapshots hold.
    pub snapshots: u64,
    /// Its part of the stored bytes that it holds together with other families: of what n families hold, each has an nth.
    pub shared: u64,
}

impl FamilySpace {
    /// All stored bytes that are reckoned to it.
    pub fn physical(&self) -> u64 {
        self.unique + self.snapshots + self.shared
    }
}

/// Something that could not be read as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The volume that has lost something, where it is known.
    pub volume: Option<VolumeId>,
    /// What it is, and where it stands in the volume or on the drive, in words.
    pub what: String,
}

/// What is known of the soundness of what is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// A scrub is under way.
    pub is_scrubbing: bool,
    /// Bytes that the present scrub has checked, or the last one.
    pub scrubbed: u64,
    /// Scrubs that were completed since the array was opened.
    pub scrubs: u64,
    /// Damage that is known and not mended: what the last scrub has told, at most 1000, then what reads have met since it began.
    pub damage: Vec<Damage>,
}

/// The engine as those above see it.
pub trait Service: Send + Sync {
    /// Starts a request; `sink` gets the answer under `tag`.
    fn submit(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>);
    /// Tells that a batch of submissions has ended, so that what was gathered goes to the log in one flush.
    fn kick(&self) {}
    /// A value of the catalogue.
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
    /// All values whose key begins with `prefix`, in order of key.
    fn scan(&self, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)>;
    /// Space of the pool.
    fn space(&self) -> Space;
    /// Space of a volume.
    fn volume_space(&self, volume: VolumeId) -> Option<VolumeSpace>;
    /// True when writes are acknowledged before they are durable.
    fn write_cache(&self) -> bool;
    /// Counts what belongs to whom: reads the whole map, so for a background thread. `None` where it could not be read, the engine is
    /// ending, or it would have taken longer than `patience`.
    fn census(&self, owner: &dyn Fn(VolumeId) -> Owner, patience: Option<Duration>) -> Option<Census>;
    /// Makes the pool larger, to `capacity` bytes, while it serves. The drive has to have that size already. Blocks.
    fn grow(&self, capacity: u64) -> Result<(), OpError>;
    /// Checks everything that is stored against its checksum, at most so many bytes a second, in the background.
    fn scrub(&self, bytes_per_second: u64);
    /// What scrubs and reads have found.
    fn health(&self) -> Health;
}

/// Submits one request and blocks the calling thread until it is answered. Not for use on a runtime's own threads.
pub fn call(service: &dyn Service, op: Op) -> Result<Reply, OpError> {
    struct Once(parking_lot::Mutex<Option<Result<Reply, OpError>>>, parking_lot::Condvar);
    impl Sink for Once {
        fn complete(&self, _: Tag, result: Result<Reply, OpError>) {
            *self.0.lock() = Some(result);
            self.1.notify_one();
        }
    }
    let once = Arc::new(Once(parking_lot::Mutex::new(None), parking_lot::Condvar::new()));
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
