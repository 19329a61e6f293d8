//! What a host can ask of a logical unit.

use crate::counters::{CountersSnapshot, Latencies};
use crate::error::DeviceError;
use crate::identity::DiskIdentity;
use crate::vaai::{Primitive, VaaiStatus};
use bytes::Bytes;
use initiator::CopyRun;
use scsi::lba_status::Provisioning;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// The answer to a command, when it comes.
pub type DiskFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, DeviceError>> + Send + 'a>>;

/// How a COMPARE AND WRITE ended that the device executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtsOutcome {
    /// The blocks were as they should be, and are written.
    Written,
    /// They were not, and stay as they are.
    Miscompare {
        /// Offset in bytes of the first byte that differs, as far as the device told it (SBC-4 5.3); else 0.
        offset: u64,
    },
}

/// A run of blocks and what holds them (GET LBA STATUS, SBC-4 5.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProvisioningExtent {
    /// First block.
    pub lba: u64,
    /// Number of blocks, at least one.
    pub blocks: u64,
    /// Whether they hold data.
    pub provisioning: Provisioning,
}

/// How much one command may ask for, in blocks of the device. What the device does not tell is filled in with what the
/// command's fields can say, so every limit is a number to reckon with and none is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// READ and WRITE.
    pub transfer_blocks: u32,
    /// COMPARE AND WRITE, 1 to 255.
    pub compare_blocks: u32,
    /// WRITE SAME.
    pub write_same_blocks: u64,
    /// UNMAP, all its ranges together.
    pub unmap_blocks: u64,
    /// Ranges of one UNMAP.
    pub unmap_ranges: usize,
    /// EXTENDED COPY, all its runs together.
    pub copy_blocks: u64,
    /// Runs of one EXTENDED COPY, each no longer than [`copy_run_blocks`](Self::copy_run_blocks).
    pub copy_runs: usize,
    /// Blocks of one run of an EXTENDED COPY.
    pub copy_run_blocks: u64,
}

/// Whether a host may issue commands to a unit now ([`SharedDisk::io_permission`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoPermission {
    /// It may, and each takes no longer than this ([`SharedDisk::limit_command_time`]).
    Allowed(Duration),
    /// Not now: other hosts may take this one for dead. Later perhaps.
    Suspended,
    /// Never again through this handle: another host has taken over.
    Revoked,
}

impl IoPermission {
    /// Of a command that concerns two units: the lesser of both, and the shorter time.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Allowed(one), Self::Allowed(two)) => Self::Allowed(one.min(two)),
            (Self::Revoked, _) | (_, Self::Revoked) => Self::Revoked,
            (Self::Suspended, _) | (_, Self::Suspended) => Self::Suspended,
        }
    }
}

/// A logical unit as one host sees it. The same unit opened by another host is another value.
///
/// Every call is one SCSI command (and the retries that a host's driver makes by itself). Data are whole blocks; a
/// length of no whole blocks is [`DeviceError::Length`]. A command that ends in an error of the transport
/// ([`DeviceError::PathsDown`], [`DeviceError::TimedOut`]) may or may not have been done.
///
/// Safe to use from many tasks at once; commands that are open together may be done in any order.
pub trait SharedDisk: Send + Sync {
    /// Who it is, and how large.
    fn identity(&self) -> &DiskIdentity;

    /// READ(16).
    fn read(&self, lba: u64, blocks: u32) -> DiskFuture<'_, Bytes>;

    /// WRITE(16). Answered when the data are durable on an array, or in the cache of a device that has one: see
    /// [`synchronize`](Self::synchronize).
    fn write(&self, lba: u64, data: Bytes) -> DiskFuture<'_, ()>;

    /// COMPARE AND WRITE, the primitive ATS: writes `write` where `compare` is found, at once for all hosts. Both have the
    /// same length. A miscompare is an answer, not an error.
    fn compare_and_write(&self, lba: u64, compare: Bytes, write: Bytes) -> DiskFuture<'_, AtsOutcome>;

    /// WRITE SAME(16), the primitive Zero: `pattern`, one block, on each of `blocks` blocks.
    fn write_same(&self, lba: u64, blocks: u64, pattern: Bytes) -> DiskFuture<'_, ()>;

    /// UNMAP, the primitive Delete: runs of blocks as (first, count), in one command.
    fn unmap(&self, ranges: Vec<(u64, u64)>) -> DiskFuture<'_, ()>;

    /// EXTENDED COPY, the primitive Clone, from this unit to `destination` (which may be this one), in one command. It is this
    /// unit's command, but what it changes is `destination`: it is issued where both units' [`io_permission`](Self::io_permission)
    /// allows it.
    fn copy<'a>(&'a self, destination: &'a dyn SharedDisk, runs: Vec<CopyRun>) -> DiskFuture<'a, ()>;

    /// RESERVE(6): the whole unit for this host. Others get [`DeviceError::ReservationConflict`].
    fn reserve(&self) -> DiskFuture<'_, ()>;

    /// RELEASE(6). No error when this host holds nothing.
    fn release(&self) -> DiskFuture<'_, ()>;

    /// LOGICAL UNIT RESET: ends what is open and takes the reservation from whoever has it, as a host does that finds
    /// the reservation of a dead one.
    fn reset(&self) -> DiskFuture<'_, ()>;

    /// CLEAR TASK SET: ends what is open or waits, from whatever host, and leaves reservations alone. After the answer each such
    /// command has been done or never will be; who sent it is told TASK ABORTED. False where the device does not know the
    /// function: [`reset`](Self::reset) does the same and more.
    fn clear_task_set(&self) -> DiskFuture<'_, bool>;

    /// SYNCHRONIZE CACHE of the whole unit.
    fn synchronize(&self) -> DiskFuture<'_, ()>;

    /// GET LBA STATUS: runs from `lba` on, as many as one answer holds; the first begins at `lba`.
    fn get_lba_status(&self, lba: u64) -> DiskFuture<'_, Vec<ProvisioningExtent>>;

    /// What is known of its offloads.
    fn vaai(&self) -> VaaiStatus;

    /// Switches one offload on or off for this device on this host. Off, its calls end at once in
    /// [`DeviceError::Unsupported`].
    fn enable(&self, primitive: Primitive, enabled: bool);

    /// From now on no call takes longer than `lifetime`, the wait in a queue and all retries included; and when it has
    /// ended, its command has been done or never will be. A command whose time is over ends in
    /// [`DeviceError::TimedOut`], or in what kept it waiting. The shortest time that anybody asked for holds. Locks that
    /// hosts take from each other need this: a command that comes too late would write what belongs to another by then.
    fn limit_command_time(&self, lifetime: Duration);

    /// Whether commands may be issued now: for those that another unit's command does to this one.
    fn io_permission(&self) -> IoPermission;

    /// How much one command may ask for.
    fn limits(&self) -> DeviceLimits;

    /// What was done through this handle's host since it was opened.
    fn counters(&self) -> CountersSnapshot;

    /// The same as distributions.
    fn latencies(&self) -> Latencies;
}

/// True when a copy within one unit writes where it reads: done twice, it would be another copy.
pub fn overlaps_itself(runs: &[CopyRun]) -> bool {
    let meet =
        |a: u64, b: u64, a_blocks: u64, b_blocks: u64| a < b.saturating_add(b_blocks) && b < a.saturating_add(a_blocks);
    runs.iter().any(|from| runs.iter().any(|to| meet(from.source, to.destination, from.blocks, to.blocks)))
}
