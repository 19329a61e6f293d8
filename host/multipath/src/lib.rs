//! A logical unit as a host sees it: a disk with four offloads, several paths, counters, and a memory of what it can do.
//!
//! [`SharedDisk`] is the interface. [`IscsiDisk`] is a disk of any iSCSI target, over as many paths as there are portals.
//! [`MemoryDisk`] is a disk of a [`MemoryArray`], for tests of what is built on disks:
//! every host opens its own handle, and a [`Hook`] decides what goes wrong.
#![forbid(unsafe_code)]

mod counters;
mod disk;
mod error;
mod identity;
mod iscsi;
mod memory;
mod vaai;

pub use counters::{Counters, CountersSnapshot, Latencies, OffloadCount, Statistics};
pub use disk::{Answer, Compared, Extent, Limits, SharedDisk, Standing, overlaps_itself};
pub use error::DiskError;
pub use identity::DiskIdentity;
pub use initiator::CopyRun;
pub use iscsi::{
    BEST_IO_LIMIT, DiskOptions, IscsiDisk, OpenError, PathConfig, PathPolicy, PathState, PathStatus, RetryRules,
    UnknownPolicy,
};
pub use memory::{Fate, Hook, MemoryArray, MemoryDisk, Operation, Verdict};
pub use scsi::lba_status::Provisioning;
pub use vaai::{Primitive, PrimitiveState, Support, VaaiStatus};
