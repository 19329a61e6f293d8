//! Volumes: read, write, zero, unmap, copy, and compare and write. Each change is durable when
//! the reply is sent.
//!
//! The engine knows nothing of SCSI, hosts or names. Callers use the traits of [`Service`].

mod change;
mod delta_op;
mod engine;
mod equal_copy;
mod machine;
pub mod model;
mod service;
mod stream_credit;
mod stream_record;
mod stream_service;

pub use delta_op::{DeltaMode, DeltaOp, MAX_DELTA_RANGES};
pub use engine::{Engine, IoWatch};
pub use machine::{
    Action, AuditError, Core, CreateError, Io, IoId, Options, PinnedCheckpoint, PinnedSegment, ReadPlan, RecoverError,
    Recovery, SegmentContents, SegmentDamage, TaskId, Urgency, Usage, WithCore, Work, WorkDone, WorkId, read_or_zero,
};
pub use ondisk::WHOLE_VOLUME_BLOCKS;
pub use service::{
    BlockService, Change, Damage, DriveWrites, EqualCopy, Extent, ExtentState, FamilySpace, Health, KeyValue,
    MAX_COMPARE_BLOCKS, MAX_TRANSFER_BYTES, Maintenance, Op, OpError, Owner, PoolSpace, Recompression, Reply, Service,
    Sink, SlowIo, Source, SpaceByFamily, Tag, VolumeSpace, call,
};
pub use stream_credit::Credit;
pub use stream_record::{FollowedRecord, MAX_FOLLOWED_OPS, MAX_MESSAGE_BYTES, StreamChange, StreamRecord};
pub use stream_service::{Gate, NewPeriod, Role, StreamEvent, StreamService, StreamSink, StreamStatus};
pub use wal::{FillValue, LogLoss, LogOp};
