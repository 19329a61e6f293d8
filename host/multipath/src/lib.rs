//! Multipathed disks as a host sees them: four offloads, several paths, counters, and the learned
//! state of each offload.
//!
//! [`SharedDisk`] is the interface. [`IscsiDisk`] is a disk of any iSCSI target, with one path per
//! portal. [`MemoryHostDisk`] is a disk of a [`MemoryArray`], for tests of higher layers. Every
//! host opens its own handle, and a [`FaultHook`] injects faults.
#![forbid(unsafe_code)]

mod counters;
mod disk;
mod error;
mod identity;
mod iscsi_disk;
mod memory;
mod spanned;
mod vaai;

pub use counters::{CountersSnapshot, DeviceCounters, Latencies, OffloadCount, Statistics};
pub use disk::{
    AtsOutcome, DeviceLimits, DiskFuture, IoPermission, ProvisioningExtent, SharedDisk, SpanMember, overlaps_itself,
};
pub use error::DeviceError;
pub use identity::DiskIdentity;
pub use initiator::CopyRun;
pub use iscsi_disk::{
    BEST_IO_LIMIT, CommandFault, DeviceEvent, DeviceLog, DiskOptions, FailedCommand, IscsiDisk, OpenError, PathConfig,
    PathPolicy, PathState, PathStatus, RetryRules, UnknownPolicy,
};
pub use memory::{FaultHook, InjectedOutcome, Injection, MemoryArray, MemoryHostDisk, Operation};
pub use scsi::lba_status::ProvisioningStatus;
pub use spanned::{MemberCopy, SpannedDisk, split_copy};
pub use vaai::{Primitive, PrimitiveState, Support, VaaiStatus};
