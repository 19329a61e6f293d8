//! The device as who has files on it may use it: while the host's heartbeat is young, and with a host's patience when
//! another host has reserved the unit.

use crate::mounted::Mounted;
use bytes::Bytes;
use device::{
    Answer, Compared, CopyRun, CountersSnapshot, DiskError, DiskIdentity, Extent, Latencies, Limits, Primitive,
    SharedDisk, VaaiStatus,
};
use std::future::Future;
use std::sync::Arc;

/// A device behind a lease.
pub(crate) struct FencedDisk(pub(crate) Arc<Mounted>);

impl FencedDisk {
    fn disk(&self) -> &dyn SharedDisk {
        &*self.0.io.disk
    }

    /// Issues a command, again and again while another host has the unit reserved.
    fn issue<'a, T, F>(&'a self, command: impl Fn() -> F + Send + 'a) -> Answer<'a, T>
    where
        T: Send + 'a,
        F: Future<Output = Result<T, DiskError>> + Send + 'a,
    {
        Box::pin(async move {
            let mut backoff = self.0.io.backoff();
            loop {
                // A host that may be taken for dead has no path, as far as its virtual machines are concerned.
                self.0.io.check().map_err(|_| DiskError::PathsDown)?;
                match command().await {
                    Err(DiskError::ReservationConflict) => {
                        let waited = backoff.wait(DiskError::ReservationConflict).await;
                        waited.map_err(|_| DiskError::ReservationConflict)?;
                    }
                    answer => return answer,
                }
            }
        })
    }
}

impl SharedDisk for FencedDisk {
    fn identity(&self) -> &DiskIdentity {
        self.disk().identity()
    }

    fn read(&self, lba: u64, blocks: u32) -> Answer<'_, Bytes> {
        self.issue(move || self.disk().read(lba, blocks))
    }

    fn write(&self, lba: u64, data: Bytes) -> Answer<'_, ()> {
        self.issue(move || self.disk().write(lba, data.clone()))
    }

    fn compare_and_write(&self, lba: u64, compare: Bytes, write: Bytes) -> Answer<'_, Compared> {
        self.issue(move || self.disk().compare_and_write(lba, compare.clone(), write.clone()))
    }

    fn write_same(&self, lba: u64, blocks: u64, pattern: Bytes) -> Answer<'_, ()> {
        self.issue(move || self.disk().write_same(lba, blocks, pattern.clone()))
    }

    fn unmap(&self, ranges: Vec<(u64, u64)>) -> Answer<'_, ()> {
        self.issue(move || self.disk().unmap(ranges.clone()))
    }

    fn copy(&self, destination: &DiskIdentity, runs: Vec<CopyRun>) -> Answer<'_, ()> {
        let destination = destination.clone();
        Box::pin(async move { self.issue(|| self.disk().copy(&destination, runs.clone())).await })
    }

    fn reserve(&self) -> Answer<'_, ()> {
        self.issue(move || self.disk().reserve())
    }

    fn release(&self) -> Answer<'_, ()> {
        self.issue(move || self.disk().release())
    }

    fn reset(&self) -> Answer<'_, ()> {
        self.issue(move || self.disk().reset())
    }

    fn synchronize(&self) -> Answer<'_, ()> {
        self.issue(move || self.disk().synchronize())
    }

    fn get_lba_status(&self, lba: u64) -> Answer<'_, Vec<Extent>> {
        self.issue(move || self.disk().get_lba_status(lba))
    }

    fn vaai(&self) -> VaaiStatus {
        self.disk().vaai()
    }

    fn enable(&self, primitive: Primitive, enabled: bool) {
        self.disk().enable(primitive, enabled);
    }

    fn limits(&self) -> Limits {
        self.disk().limits()
    }

    fn counters(&self) -> CountersSnapshot {
        self.disk().counters()
    }

    fn latencies(&self) -> Latencies {
        self.disk().latencies()
    }
}
