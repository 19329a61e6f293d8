//! A device that permits I/O only while the host's lease is valid.
//!
//! Commands are retried while another host has reserved the unit or the device does not answer. The
//! device itself ends a command after seconds ([`SharedDisk::limit_command_time`]); users of files
//! see an error only after the longer timeouts of this module.

use crate::mounted::Mounted;
use bytes::Bytes;
use multipath::{
    AtsOutcome, CopyRun, CountersSnapshot, DeviceError, DeviceLimits, DiskFuture, DiskIdentity, IoPermission,
    Latencies, Primitive, ProvisioningExtent, SharedDisk, SpanMember, VaaiStatus,
};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A device with I/O limited by a lease.
pub(crate) struct FencedDisk(pub(crate) Arc<Mounted>);

/// Whether a command may be sent again if its outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetryPolicy {
    Repeatable,
    Never,
    /// Reads may be repeated at will, and a read whose caller is gone has no effect.
    Reads,
}

/// A command in flight. If its caller drops it, the command may still take effect on the device.
struct InFlight<'a>(Option<&'a Mounted>);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if let Some(mounted) = self.0 {
            mounted.abandon();
        }
    }
}

impl FencedDisk {
    fn disk(&self) -> &dyn SharedDisk {
        &*self.0.io.disk
    }

    /// Issues a command. Retries it while another host has the unit reserved and, if the command is
    /// repeatable, while the device does not answer. `other` is a second unit that the command
    /// changes.
    fn issue<'a, T, F>(
        &'a self,
        policy: RetryPolicy,
        other: Option<&'a dyn SharedDisk>,
        command: impl Fn() -> F + Send + 'a,
    ) -> DiskFuture<'a, T>
    where
        T: Send + 'a,
        F: Future<Output = Result<T, DeviceError>> + Send + 'a,
    {
        Box::pin(async move {
            let io = &self.0.io;
            let since = io.runtime.now();
            let mut permission = self.permission_with(other, since);
            let mut backoff = None;
            let mut in_flight = InFlight((policy != RetryPolicy::Reads).then_some(&*self.0));
            let answer = loop {
                let error = match permission {
                    IoPermission::Allowed(_) => match command().await {
                        Err(error) if should_retry(&error, policy) => error,
                        answer => break answer,
                    },
                    // Other hosts may consider this host dead, so to its virtual machines the
                    // device has no path.
                    IoPermission::Suspended | IoPermission::Revoked => DeviceError::PathsDown,
                };
                let timeout = match error {
                    DeviceError::ReservationConflict => io.timing.busy_timeout,
                    _ => io.paths_down_timeout,
                };
                let now = io.runtime.now();
                if self.permission_with(other, now) == IoPermission::Revoked || now >= since + timeout {
                    break Err(error);
                }
                backoff.get_or_insert_with(|| io.backoff()).pause().await;
                permission = self.permission_with(other, io.runtime.now());
            };
            in_flight.0 = None;
            answer
        })
    }

    /// Returns whether a command may be issued at `now`.
    fn permission_at(&self, now: Duration) -> IoPermission {
        let io = &self.0.io;
        match io.check_at(now) {
            Ok(()) => IoPermission::Allowed(io.timing.io_lifetime),
            Err(_) if io.lease.has_ended() => IoPermission::Revoked,
            Err(_) => IoPermission::Suspended,
        }
    }

    /// Returns whether a command may be issued that also changes the unit `other`. Limits the
    /// command to the time that the hosts of that unit allow.
    fn permission_with(&self, other: Option<&dyn SharedDisk>, now: Duration) -> IoPermission {
        let here = self.permission_at(now);
        let Some(other) = other else { return here };
        let permission = here.and(other.io_permission());
        if let IoPermission::Allowed(lifetime) = permission {
            self.disk().limit_command_time(lifetime);
        }
        permission
    }
}

/// Returns whether a command that failed with this error is sent again.
fn should_retry(error: &DeviceError, policy: RetryPolicy) -> bool {
    *error == DeviceError::ReservationConflict || (error.is_in_doubt() && policy != RetryPolicy::Never)
}

impl SharedDisk for FencedDisk {
    fn identity(&self) -> &DiskIdentity {
        self.disk().identity()
    }

    fn members(&self) -> &[SpanMember] {
        self.disk().members()
    }

    fn read(&self, lba: u64, blocks: u32) -> DiskFuture<'_, Bytes> {
        self.issue(RetryPolicy::Reads, None, move || self.disk().read(lba, blocks))
    }

    fn write(&self, lba: u64, data: Bytes) -> DiskFuture<'_, ()> {
        self.issue(RetryPolicy::Repeatable, None, move || self.disk().write(lba, data.clone()))
    }

    fn compare_and_write(&self, lba: u64, compare: Bytes, write: Bytes) -> DiskFuture<'_, AtsOutcome> {
        self.issue(RetryPolicy::Never, None, move || self.disk().compare_and_write(lba, compare.clone(), write.clone()))
    }

    fn write_same(&self, lba: u64, blocks: u64, pattern: Bytes) -> DiskFuture<'_, ()> {
        self.issue(RetryPolicy::Repeatable, None, move || self.disk().write_same(lba, blocks, pattern.clone()))
    }

    fn unmap(&self, ranges: Vec<(u64, u64)>) -> DiskFuture<'_, ()> {
        self.issue(RetryPolicy::Repeatable, None, move || self.disk().unmap(ranges.clone()))
    }

    fn copy<'a>(&'a self, destination: &'a dyn SharedDisk, runs: Vec<CopyRun>) -> DiskFuture<'a, ()> {
        let onto_itself = destination.identity().name == self.identity().name && multipath::overlaps_itself(&runs);
        let policy = if onto_itself { RetryPolicy::Never } else { RetryPolicy::Repeatable };
        Box::pin(async move {
            for (from, to, runs) in multipath::split_copy(self.disk(), destination, &runs)? {
                self.issue(policy, Some(destination), move || from.copy(to, runs.clone())).await?;
            }
            Ok(())
        })
    }

    fn reserve(&self) -> DiskFuture<'_, ()> {
        self.issue(RetryPolicy::Never, None, move || self.disk().reserve())
    }

    fn release(&self) -> DiskFuture<'_, ()> {
        self.issue(RetryPolicy::Never, None, move || self.disk().release())
    }

    fn reset(&self) -> DiskFuture<'_, ()> {
        self.issue(RetryPolicy::Never, None, move || self.disk().reset())
    }

    fn clear_task_set(&self) -> DiskFuture<'_, bool> {
        self.issue(RetryPolicy::Repeatable, None, move || self.disk().clear_task_set())
    }

    fn synchronize(&self) -> DiskFuture<'_, ()> {
        self.issue(RetryPolicy::Repeatable, None, move || self.disk().synchronize())
    }

    fn get_lba_status(&self, lba: u64) -> DiskFuture<'_, Vec<ProvisioningExtent>> {
        self.issue(RetryPolicy::Reads, None, move || self.disk().get_lba_status(lba))
    }

    fn vaai(&self) -> VaaiStatus {
        self.disk().vaai()
    }

    fn enable(&self, primitive: Primitive, enabled: bool) {
        self.disk().enable(primitive, enabled);
    }

    fn limit_command_time(&self, lifetime: Duration) {
        self.disk().limit_command_time(lifetime);
    }

    fn io_permission(&self) -> IoPermission {
        self.permission_at(self.0.io.runtime.now())
    }

    fn limits(&self) -> DeviceLimits {
        self.disk().limits()
    }

    fn counters(&self) -> CountersSnapshot {
        self.disk().counters()
    }

    fn latencies(&self) -> Latencies {
        self.disk().latencies()
    }
}
