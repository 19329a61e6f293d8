//! A disk that records the commands sent through it, to explain where time goes.

use bytes::Bytes;
use multipath::{
    AtsOutcome, CopyRun, CountersSnapshot, DeviceLimits, DiskFuture, DiskIdentity, IoPermission, IscsiDisk, Latencies,
    Primitive, ProvisioningExtent, SharedDisk, VaaiStatus,
};
use platform::clock;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most commands of one record.
const MOST: usize = 200_000;

/// Kind of a recorded command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceKind {
    Read,
    Write,
    /// WRITE of zeros only.
    WriteZeros,
    Ats,
    WriteSame,
    Unmap,
    Xcopy,
    /// RESERVE, RELEASE, resets and SYNCHRONIZE CACHE.
    Other,
}

/// One recorded command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceEntry {
    /// Start, measured from the start of the record.
    pub(crate) at: Duration,
    /// Duration.
    pub(crate) took: Duration,
    pub(crate) kind: TraceKind,
    /// First block; 0 if the command has several ranges.
    pub(crate) lba: u64,
    /// Bytes described or transferred.
    pub(crate) bytes: u64,
}

struct Record {
    begun: Instant,
    entries: Vec<TraceEntry>,
}

/// A disk with a record of its commands, if one was started.
pub(crate) struct TracedDisk {
    disk: Arc<IscsiDisk>,
    record: Mutex<Option<Record>>,
}

impl TracedDisk {
    pub(crate) fn new(disk: Arc<IscsiDisk>) -> Self {
        Self { disk, record: Mutex::new(None) }
    }

    // Each change of the record is one call, so that it is valid after a panic.
    fn record(&self) -> MutexGuard<'_, Option<Record>> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a new record.
    pub(crate) fn start(&self) {
        *self.record() = Some(Record { begun: clock::now(), entries: Vec::new() });
    }

    /// Ends the record and returns its completed commands.
    pub(crate) fn stop(&self) -> Vec<TraceEntry> {
        self.record().take().map(|record| record.entries).unwrap_or_default()
    }

    /// Closes the device.
    pub(crate) async fn close(&self) {
        self.disk.close().await;
    }

    fn is_recording(&self) -> bool {
        self.record().is_some()
    }

    async fn noted<T>(&self, kind: TraceKind, lba: u64, blocks: u64, command: impl Future<Output = T>) -> T {
        let since = clock::now();
        let result = command.await;
        if let Some(record) = self.record().as_mut().filter(|record| record.entries.len() < MOST) {
            let took = clock::now().duration_since(since);
            let bytes = blocks * u64::from(self.disk.identity().block_bytes);
            record.entries.push(TraceEntry { at: since.duration_since(record.begun), took, kind, lba, bytes });
        }
        result
    }

    fn blocks(&self, data: &Bytes) -> u64 {
        data.len() as u64 / u64::from(self.disk.identity().block_bytes.max(1))
    }
}

impl SharedDisk for TracedDisk {
    fn identity(&self) -> &DiskIdentity {
        self.disk.identity()
    }

    fn read(&self, lba: u64, blocks: u32) -> DiskFuture<'_, Bytes> {
        Box::pin(self.noted(TraceKind::Read, lba, blocks.into(), self.disk.read(lba, blocks)))
    }

    fn write(&self, lba: u64, data: Bytes) -> DiskFuture<'_, ()> {
        let zeros = self.is_recording() && data.iter().all(|byte| *byte == 0);
        let kind = if zeros { TraceKind::WriteZeros } else { TraceKind::Write };
        let blocks = self.blocks(&data);
        Box::pin(self.noted(kind, lba, blocks, self.disk.write(lba, data)))
    }

    fn compare_and_write(&self, lba: u64, compare: Bytes, write: Bytes) -> DiskFuture<'_, AtsOutcome> {
        let blocks = self.blocks(&write);
        Box::pin(self.noted(TraceKind::Ats, lba, blocks, self.disk.compare_and_write(lba, compare, write)))
    }

    fn write_same(&self, lba: u64, blocks: u64, pattern: Bytes) -> DiskFuture<'_, ()> {
        Box::pin(self.noted(TraceKind::WriteSame, lba, blocks, self.disk.write_same(lba, blocks, pattern)))
    }

    fn unmap(&self, ranges: Vec<(u64, u64)>) -> DiskFuture<'_, ()> {
        let blocks = ranges.iter().map(|(_, blocks)| blocks).sum();
        let lba = ranges.first().map_or(0, |(lba, _)| *lba);
        Box::pin(self.noted(TraceKind::Unmap, lba, blocks, self.disk.unmap(ranges)))
    }

    fn copy<'a>(&'a self, destination: &'a dyn SharedDisk, runs: Vec<CopyRun>) -> DiskFuture<'a, ()> {
        let blocks = runs.iter().map(|run| run.blocks).sum();
        let lba = runs.first().map_or(0, |run| run.source);
        Box::pin(self.noted(TraceKind::Xcopy, lba, blocks, self.disk.copy(destination, runs)))
    }

    fn reserve(&self) -> DiskFuture<'_, ()> {
        Box::pin(self.noted(TraceKind::Other, 0, 0, self.disk.reserve()))
    }

    fn release(&self) -> DiskFuture<'_, ()> {
        Box::pin(self.noted(TraceKind::Other, 0, 0, self.disk.release()))
    }

    fn reset(&self) -> DiskFuture<'_, ()> {
        Box::pin(self.noted(TraceKind::Other, 0, 0, self.disk.reset()))
    }

    fn clear_task_set(&self) -> DiskFuture<'_, bool> {
        Box::pin(self.noted(TraceKind::Other, 0, 0, self.disk.clear_task_set()))
    }

    fn synchronize(&self) -> DiskFuture<'_, ()> {
        Box::pin(self.noted(TraceKind::Other, 0, 0, self.disk.synchronize()))
    }

    fn get_lba_status(&self, lba: u64) -> DiskFuture<'_, Vec<ProvisioningExtent>> {
        self.disk.get_lba_status(lba)
    }

    fn vaai(&self) -> VaaiStatus {
        self.disk.vaai()
    }

    fn enable(&self, primitive: Primitive, enabled: bool) {
        self.disk.enable(primitive, enabled);
    }

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
