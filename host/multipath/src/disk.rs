//! The interface of a disk: the commands that a host can send to a logical unit.

use crate::counters::{CountersSnapshot, Latencies};
use crate::error::DeviceError;
use crate::identity::DiskIdentity;
use crate::vaai::{Primitive, VaaiStatus};
use bytes::Bytes;
use initiator::CopyRun;
use scsi::lba_status::ProvisioningStatus;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The future result of a command.
pub type DiskFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, DeviceError>> + Send + 'a>>;

/// The result of a COMPARE AND WRITE that the device executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtsOutcome {
    /// The blocks matched and were written.
    Written,
    /// The blocks did not match and are unchanged.
    Miscompare {
        /// Offset in bytes of the first difference, if the device reports it (SBC-4 5.3); else 0.
        offset: u64,
    },
}

/// A run of blocks with one provisioning status (GET LBA STATUS, SBC-4 5.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProvisioningExtent {
    /// First block.
    pub lba: u64,
    /// Number of blocks, at least one.
    pub blocks: u64,
    /// Provisioning status.
    pub provisioning: ProvisioningStatus,
}

/// Limits of one command, in blocks. If the device reports no limit, it is the maximum that the
/// fields of the command can express. No limit is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// READ and WRITE.
    pub transfer_blocks: u32,
    /// COMPARE AND WRITE, 1 to 255.
    pub compare_blocks: u32,
    /// WRITE SAME.
    pub write_same_blocks: u64,
    /// UNMAP, all ranges together.
    pub unmap_blocks: u64,
    /// Number of ranges of one UNMAP.
    pub unmap_ranges: usize,
    /// EXTENDED COPY, all runs together.
    pub copy_blocks: u64,
    /// Number of runs of one EXTENDED COPY, each at most [`copy_run_blocks`](Self::copy_run_blocks)
    /// long.
    pub copy_runs: usize,
    /// One run of an EXTENDED COPY.
    pub copy_run_blocks: u64,
}

/// Whether a host may send commands to a unit now ([`SharedDisk::io_permission`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoPermission {
    /// Commands are allowed; none takes longer than this ([`SharedDisk::limit_command_time`]).
    Allowed(Duration),
    /// Commands are not allowed for now: other hosts may consider this host dead.
    Suspended,
    /// Commands are no longer allowed through this handle: another host has taken over.
    Revoked,
}

impl IoPermission {
    /// Combines the permissions of two units that one command involves: the stricter one, with the
    /// shorter time.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Allowed(one), Self::Allowed(two)) => Self::Allowed(one.min(two)),
            (Self::Revoked, _) | (_, Self::Revoked) => Self::Revoked,
            (Self::Suspended, _) | (_, Self::Suspended) => Self::Suspended,
        }
    }
}

/// A part of a spanned disk.
#[derive(Clone)]
pub struct SpanMember {
    /// First block on the spanned disk.
    pub first: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// First block on the member.
    pub lba: u64,
    /// The member.
    pub disk: Arc<dyn SharedDisk>,
}

/// A logical unit as one host sees it. Each host has its own handle.
///
/// Every call is one SCSI command, plus the retries of the host's driver. Data must be whole
/// blocks; other lengths fail with [`DeviceError::Length`]. After a transport error
/// ([`DeviceError::PathsDown`], [`DeviceError::TimedOut`]) it is unknown whether the command was
/// executed.
///
/// Tasks may share a handle. Concurrent commands may be executed in any order.
pub trait SharedDisk: Send + Sync {
    /// Returns the identity and size of the unit.
    fn identity(&self) -> &DiskIdentity;

    /// Returns the members of a disk that consists of others; none for a single device.
    fn members(&self) -> &[SpanMember] {
        &[]
    }

    /// Sends READ(16).
    fn read(&self, lba: u64, blocks: u32) -> DiskFuture<'_, Bytes>;

    /// Sends WRITE(16). When it completes, the data is durable on an array, or in the cache of a
    /// device that has one: see [`synchronize`](Self::synchronize).
    fn write(&self, lba: u64, data: Bytes) -> DiskFuture<'_, ()>;

    /// Sends COMPARE AND WRITE, the primitive ATS: writes `write` if the blocks equal `compare`,
    /// atomically for all hosts. Both have the same length. A miscompare is a result, not an error.
    fn compare_and_write(&self, lba: u64, compare: Bytes, write: Bytes) -> DiskFuture<'_, AtsOutcome>;

    /// Sends WRITE SAME(16), the primitive Zero: writes the one-block `pattern` to each of `blocks`
    /// blocks.
    fn write_same(&self, lba: u64, blocks: u64, pattern: Bytes) -> DiskFuture<'_, ()>;

    /// Sends one UNMAP, the primitive Delete, of (first block, count) ranges.
    fn unmap(&self, ranges: Vec<(u64, u64)>) -> DiskFuture<'_, ()>;

    /// Sends one EXTENDED COPY, the primitive Clone, from this unit to `destination`, which may be
    /// this unit. This unit receives the command, but `destination` changes. The
    /// [`io_permission`](Self::io_permission) of both units must therefore allow it.
    fn copy<'a>(&'a self, destination: &'a dyn SharedDisk, runs: Vec<CopyRun>) -> DiskFuture<'a, ()>;

    /// Sends RESERVE(6) to reserve the whole unit for this host. Other hosts get
    /// [`DeviceError::ReservationConflict`].
    fn reserve(&self) -> DiskFuture<'_, ()>;

    /// Sends RELEASE(6). It succeeds even if this host holds no reservation.
    fn release(&self) -> DiskFuture<'_, ()>;

    /// Sends LOGICAL UNIT RESET: ends all open commands and breaks any reservation. Hosts use it to
    /// break the reservation of a dead host.
    fn reset(&self) -> DiskFuture<'_, ()>;

    /// Sends CLEAR TASK SET: ends the open and queued commands of all hosts and keeps reservations.
    /// Afterwards none of those commands is executed any more; their senders get TASK ABORTED.
    /// Returns false if the device does not support the function; [`reset`](Self::reset) then has
    /// the same effect and more.
    fn clear_task_set(&self) -> DiskFuture<'_, bool>;

    /// Sends SYNCHRONIZE CACHE for the whole unit.
    fn synchronize(&self) -> DiskFuture<'_, ()>;

    /// Sends GET LBA STATUS. Returns the extents from `lba` on that fit in one response; the first
    /// begins at `lba`.
    fn get_lba_status(&self, lba: u64) -> DiskFuture<'_, Vec<ProvisioningExtent>>;

    /// Returns the known state of the offloads.
    fn vaai(&self) -> VaaiStatus;

    /// Enables or disables one offload for this device on this host. A disabled offload fails at
    /// once with [`DeviceError::Unsupported`].
    fn enable(&self, primitive: Primitive, enabled: bool);

    /// Limits the time of every call to `lifetime`, including queueing and retries. When a call
    /// ends, its command has been executed or never will be. A command that runs out of time fails
    /// with [`DeviceError::TimedOut`] or the error that delayed it. The shortest limit ever set
    /// applies.
    ///
    /// Locks with timeouts depend on this: a late command would overwrite data that another host
    /// owns by then.
    fn limit_command_time(&self, lifetime: Duration);

    /// Returns whether commands may be sent now. A command of another unit checks it before it
    /// changes this one.
    fn io_permission(&self) -> IoPermission;

    /// Returns the limits of one command.
    fn limits(&self) -> DeviceLimits;

    /// Returns the counters of this handle's host since it was opened.
    fn counters(&self) -> CountersSnapshot;

    /// Returns the latency histograms.
    fn latencies(&self) -> Latencies;
}

/// Returns true if a copy within one unit writes blocks that it also reads. Repeating such a copy
/// would change its result.
pub fn overlaps_itself(runs: &[CopyRun]) -> bool {
    let meet =
        |a: u64, b: u64, a_blocks: u64, b_blocks: u64| a < b.saturating_add(b_blocks) && b < a.saturating_add(a_blocks);
    runs.iter().any(|from| runs.iter().any(|to| meet(from.source, to.destination, from.blocks, to.blocks)))
}
