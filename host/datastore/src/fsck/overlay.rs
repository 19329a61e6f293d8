//! A disk view that keeps writes in memory.

use bytes::{Bytes, BytesMut};
use multipath::{
    AtsOutcome, CopyRun, CountersSnapshot, DeviceError, DeviceLimits, DiskFuture, DiskIdentity, IoPermission,
    Latencies, Primitive, ProvisioningExtent, SharedDisk, VaaiStatus,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A view of a disk. Writes are visible only through this view.
pub(super) struct OverlayDisk {
    disk: Arc<dyn SharedDisk>,
    written: Mutex<BTreeMap<u64, Bytes>>,
}

impl OverlayDisk {
    pub(super) fn new(disk: Arc<dyn SharedDisk>) -> Self {
        Self { disk, written: Mutex::default() }
    }

    fn block_bytes(&self) -> usize {
        self.disk.identity().block_bytes as usize
    }

    fn put(&self, lba: u64, data: &Bytes) {
        let block = self.block_bytes();
        let mut written = self.written.lock();
        for (lba, at) in (lba..).zip((0..data.len()).step_by(block)) {
            written.insert(lba, data.slice(at..(at + block).min(data.len())));
        }
    }
}

/// Refuses commands that recovery does not need.
fn refused<'a, T: Send + 'a>(primitive: Primitive) -> DiskFuture<'a, T> {
    Box::pin(std::future::ready(Err(DeviceError::Unsupported(primitive))))
}

impl SharedDisk for OverlayDisk {
    fn identity(&self) -> &DiskIdentity {
        self.disk.identity()
    }

    fn read(&self, lba: u64, blocks: u32) -> DiskFuture<'_, Bytes> {
        Box::pin(async move {
            let mut data = BytesMut::from(&self.disk.read(lba, blocks).await?[..]);
            for (at, block) in self.written.lock().range(lba..lba + u64::from(blocks)) {
                let offset = (at - lba) as usize * self.block_bytes();
                data[offset..offset + block.len()].copy_from_slice(block);
            }
            Ok(data.freeze())
        })
    }

    fn write(&self, lba: u64, data: Bytes) -> DiskFuture<'_, ()> {
        self.put(lba, &data);
        Box::pin(std::future::ready(Ok(())))
    }

    fn compare_and_write(&self, lba: u64, compare: Bytes, write: Bytes) -> DiskFuture<'_, AtsOutcome> {
        Box::pin(async move {
            let found = self.read(lba, (compare.len() / self.block_bytes()) as u32).await?;
            if found != compare {
                return Ok(AtsOutcome::Miscompare { offset: 0 });
            }
            self.put(lba, &write);
            Ok(AtsOutcome::Written)
        })
    }

    fn write_same(&self, _: u64, _: u64, _: Bytes) -> DiskFuture<'_, ()> {
        refused(Primitive::Zero)
    }

    fn unmap(&self, _: Vec<(u64, u64)>) -> DiskFuture<'_, ()> {
        refused(Primitive::Delete)
    }

    fn copy<'a>(&'a self, _: &'a dyn SharedDisk, _: Vec<CopyRun>) -> DiskFuture<'a, ()> {
        refused(Primitive::Clone)
    }

    fn reserve(&self) -> DiskFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn release(&self) -> DiskFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn reset(&self) -> DiskFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn clear_task_set(&self) -> DiskFuture<'_, bool> {
        Box::pin(std::future::ready(Ok(true)))
    }

    fn synchronize(&self) -> DiskFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn get_lba_status(&self, lba: u64) -> DiskFuture<'_, Vec<ProvisioningExtent>> {
        self.disk.get_lba_status(lba)
    }

    fn vaai(&self) -> VaaiStatus {
        self.disk.vaai()
    }

    /// The view must not change the device.
    fn enable(&self, _: Primitive, _: bool) {}

    fn limit_command_time(&self, lifetime: Duration) {
        self.disk.limit_command_time(lifetime);
    }

    fn io_permission(&self) -> IoPermission {
        self.disk.io_permission()
    }

    fn limits(&self) -> DeviceLimits {
        self.disk.limits()
    }

    fn counters(&self) -> CountersSnapshot {
        self.disk.counters()
    }

    fn latencies(&self) -> Latencies {
        self.disk.latencies()
    }
}
