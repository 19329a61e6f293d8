//! The workload of the hosts. They open shared files exclusively, write and verify stamps, read
//! files together with other hosts, and create, rename and remove files.

use crate::Result;
use crate::oracle::{Oracle, ProcessId};
use bytes::Bytes;
use datastore::{
    BlockFill, Datastore, DatastoreError, ExtentState, FS_BLOCK_BYTES, File, FileAccess, FormatOptions, Mode, Runtime,
};
use multipath::SharedDisk;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use testing::SplitMix64;

/// Directories of the shared files and of the hosts' own files.
const SHARED: &str = "/locks";
const OWN: &str = "/work";
/// Process of the final check.
const VERIFIER: ProcessId = ProcessId::MAX;
/// Number of private files per host, and as many renamed ones. With 64 hosts there are no
/// descriptors for more.
const OWN_FILES: u64 = 1;

/// State shared by all hosts of a run.
pub(crate) struct Workload {
    pub(crate) oracle: Arc<Oracle>,
    files: usize,
    /// Lock operations done by each host.
    done: Vec<AtomicU64>,
    /// Lock operations to do per host.
    pub(crate) operations: u64,
    refused: AtomicU64,
    stopped: AtomicBool,
}

/// One process of a host.
pub(crate) struct HostProcess {
    pub(crate) workload: Arc<Workload>,
    pub(crate) host: usize,
    pub(crate) process: ProcessId,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) random: SplitMix64,
    /// Maximum idle time of the host, with a file open or not.
    pub(crate) think_time: Duration,
}

impl Workload {
    pub(crate) fn new(oracle: Arc<Oracle>, hosts: usize, files: usize, operations: u64) -> Self {
        let done = (0..hosts).map(|_| AtomicU64::new(0)).collect();
        Self { oracle, files, done, operations, refused: AtomicU64::new(0), stopped: AtomicBool::new(false) }
    }

    /// Returns the lock operations done by all hosts.
    pub(crate) fn done(&self) -> u64 {
        self.done.iter().map(|done| done.load(Ordering::Relaxed)).sum()
    }

    /// Returns the number of opens refused because another host had the lock.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Stops all hosts.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns whether a host has done its operations.
    pub(crate) fn is_done(&self, host: usize) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.done[host].load(Ordering::Relaxed) >= self.operations
    }

    /// Creates the directories and the shared files.
    pub(crate) async fn prepare(&self, disk: Arc<dyn SharedDisk>, datastore: &Datastore) -> Result<()> {
        datastore.create_directory(SHARED).await?;
        datastore.create_directory(OWN).await?;
        for file in 0..self.files {
            let made = datastore.create(&shared_name(file)).await?;
            made.set_size(FS_BLOCK_BYTES).await?;
            made.allocate(0..1, BlockFill::Written).await?;
            if let [extent] = made.extents(0..1)[..]
                && let ExtentState::Written { lba } = extent.state
            {
                disk.write(lba, sector_of(0)).await?;
                self.oracle.add_file(lba);
            }
            made.close().await?;
        }
        Ok(())
    }

    /// Final check: every lock can be acquired, and every name and file is as acknowledged.
    pub(crate) async fn verify(&self, datastore: &Datastore, runtime: &Arc<dyn Runtime>) -> Result<()> {
        for file in 0..self.files {
            let opened = retry(runtime, || Box::pin(open_shared(datastore, file))).await;
            match opened {
                Ok(opened) => {
                    self.oracle.acquired(file, VERIFIER, datastore);
                    let stamp = retry(runtime, || Box::pin(read_stamp(datastore, &self.oracle, file))).await?;
                    self.oracle.found(file, VERIFIER, datastore, stamp);
                    self.oracle.releasing(file, VERIFIER);
                    opened.close().await?;
                }
                Err(error) => self.oracle.record_violation(format!("lost lock: file {file}: {error}")),
            }
        }
        let names: Vec<String> = datastore.list(OWN).await?.into_iter().map(|entry| entry.name).collect();
        self.oracle.check_names(&names);
        for name in names {
            let path = format!("{OWN}/{name}");
            let removed = retry(runtime, || Box::pin(datastore.remove(&path))).await;
            if let Err(error) = removed {
                self.oracle.record_violation(format!("lost lock: '{path}': {error}"));
            }
        }
        Ok(())
    }
}

/// Formats a disk for a run.
pub(crate) async fn format(disk: &Arc<dyn SharedDisk>, runtime: &Arc<dyn Runtime>) -> Result<()> {
    let options = FormatOptions::new("simulated", Mode::V6);
    let options = &options;
    let format = || Datastore::format(disk, options, runtime);
    retry(runtime, || Box::pin(async move { format().await.map(|_| ()) })).await
}

/// Retries an operation that another host's lock or slot prevents, until the lease of any dead
/// host has expired.
pub(crate) async fn retry<'a, T>(
    runtime: &Arc<dyn Runtime>,
    operation: impl Fn() -> Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>,
) -> Result<T> {
    for _ in 0..120 {
        match operation().await {
            Err(DatastoreError::Locked { .. } | DatastoreError::Busy | DatastoreError::NoSlot) => {
                runtime.sleep(Duration::from_millis(500)).await;
            }
            Err(DatastoreError::Disk(error)) if error.is_in_doubt() => runtime.sleep(Duration::from_millis(500)).await,
            answer => return answer,
        }
    }
    operation().await
}

async fn open_shared(datastore: &Datastore, file: usize) -> Result<File> {
    datastore.open(&shared_name(file), FileAccess::Write).await
}

fn shared_name(file: usize) -> String {
    format!("{SHARED}/disk{file}.vmdk")
}

fn sector_of(stamp: u64) -> Bytes {
    stamp.to_le_bytes().repeat(datastore::SECTOR_BYTES / 8).into()
}

async fn read_stamp(datastore: &Datastore, oracle: &Oracle, file: usize) -> Result<u64> {
    let lba = oracle.lba(file).ok_or(DatastoreError::NotFound)?;
    let sector = datastore.disk().read(lba, 1).await?;
    let mut first = [0; 8];
    first.copy_from_slice(&sector[..8]);
    let stamp = u64::from_le_bytes(first);
    if sector != sector_of(stamp) {
        oracle.record_violation(format!("file {file} holds a torn stamp"));
    }
    Ok(stamp)
}

impl HostProcess {
    /// Works until the host has done its operations or this process has lost its lease.
    pub(crate) async fn run_host(mut self, datastore: Datastore) -> Result<()> {
        let mut refusals = 0;
        while !self.workload.is_done(self.host) && self.workload.oracle.violation().is_none() {
            let outcome = match self.random.below(20) {
                0..=3 => self.own_files(&datastore).await,
                4..=6 => self.read_shared(&datastore).await,
                _ => self.stamp(&datastore).await,
            };
            match outcome {
                Ok(()) => {
                    refusals = 0;
                    self.workload.done[self.host].fetch_add(1, Ordering::Relaxed);
                }
                Err(DatastoreError::Locked { .. } | DatastoreError::Busy | DatastoreError::TooManyReaders) => {
                    self.workload.refused.fetch_add(1, Ordering::Relaxed);
                    // Wait longer each time: a dead host may have the file until its lease expires.
                    refusals = (refusals + 1).min(9);
                    self.runtime.sleep(Duration::from_micros(self.random.below(1000 << refusals))).await;
                }
                // The path and the lease may come back. If another host has taken the slot, this
                // process ends.
                Err(DatastoreError::LeaseLost | DatastoreError::Disk(_)) if datastore.is_lease_recoverable() => {
                    self.runtime.sleep(Duration::from_millis(500)).await;
                }
                Err(DatastoreError::LeaseLost | DatastoreError::Disk(_)) => return Ok(()),
                Err(error) => {
                    let (host, process) = (self.host, self.process);
                    self.workload.oracle.record_violation(format!("host {host}, process {process}: {error}"));
                }
            }
        }
        datastore.unmount().await
    }

    /// Idles for a random time, in one of three cases.
    async fn idle(&mut self) {
        if self.random.once_in(3) {
            let time = self.random.below(self.think_time.as_micros() as u64 + 1);
            self.runtime.sleep(Duration::from_micros(time)).await;
        }
    }

    /// Opens a shared file exclusively, then writes and verifies stamps.
    async fn stamp(&mut self, datastore: &Datastore) -> Result<()> {
        let file = self.random.below(self.workload.files as u64) as usize;
        let opened = datastore.open(&shared_name(file), FileAccess::Write).await?;
        if !datastore.is_alive() {
            // The host was paused after its command: another host may have the file by now.
            opened.close().await?;
            return Err(DatastoreError::LeaseLost);
        }
        let oracle = Arc::clone(&self.workload.oracle);
        oracle.acquired(file, self.process, datastore);
        let outcome = self.stamp_exclusively(datastore, file).await;
        oracle.releasing(file, self.process);
        // Closes the file in any case. If that fails, the lock is released later or broken.
        let closed = opened.close().await;
        outcome.and(closed)
    }

    async fn stamp_exclusively(&mut self, datastore: &Datastore, file: usize) -> Result<()> {
        let oracle = Arc::clone(&self.workload.oracle);
        let lba = oracle.lba(file).ok_or(DatastoreError::NotFound)?;
        oracle.found(file, self.process, datastore, read_stamp(datastore, &oracle, file).await?);
        for _ in 0..=self.random.below(3) {
            let stamp = oracle.sending(file, self.process, datastore);
            datastore.disk().write(lba, sector_of(stamp)).await?;
            oracle.acknowledged(file, self.process, datastore, stamp);
            self.idle().await;
            let seen = read_stamp(datastore, &oracle, file).await?;
            if seen != stamp {
                oracle.record_violation(format!(
                    "process {} wrote stamp {stamp} to file {file} but read {seen}",
                    self.process
                ));
            }
        }
        Ok(())
    }

    /// Reads a shared file twice. No host may write it in between.
    async fn read_shared(&mut self, datastore: &Datastore) -> Result<()> {
        let file = self.random.below(self.workload.files as u64) as usize;
        let opened = datastore.open(&shared_name(file), FileAccess::Read).await?;
        let first = read_stamp(datastore, &self.workload.oracle, file).await;
        self.idle().await;
        let second = read_stamp(datastore, &self.workload.oracle, file).await;
        if let (Ok(first), Ok(second)) = (&first, &second)
            && first != second
        {
            self.workload.oracle.record_violation(format!(
                "file {file} changed from stamp {first} to {second} while it was open for reading"
            ));
        }
        let closed = opened.close().await;
        first.and(second).and(closed)
    }

    /// Creates, renames or removes a file of this host in a directory of all hosts.
    ///
    /// When locks of a dead process are broken, its unfinished change may complete at any time. So
    /// a name in doubt may exist or not, whatever was read before.
    async fn own_files(&mut self, datastore: &Datastore) -> Result<()> {
        let name = format!("h{}-{}", self.host, self.random.below(OWN_FILES));
        let in_doubt = [name.clone(), format!("{name}.old")].iter().any(|name| self.workload.oracle.is_in_doubt(name));
        match self.change_own(datastore, name).await {
            Err(DatastoreError::Exists | DatastoreError::NotFound) if in_doubt => Ok(()),
            outcome => outcome,
        }
    }

    async fn change_own(&mut self, datastore: &Datastore, name: String) -> Result<()> {
        let (path, other) = (format!("{OWN}/{name}"), format!("{name}.old"));
        let oracle = Arc::clone(&self.workload.oracle);
        match datastore.stat(&path).await {
            Err(DatastoreError::NotFound) => {
                oracle.name_in_doubt(&name);
                let file = datastore.create(&path).await?;
                oracle.name_is(&name, true);
                let blocks = 1 + self.random.below(40);
                let filled = fill(&file, blocks).await;
                file.close().await?;
                filled
            }
            Err(error) => Err(error),
            Ok(_) if self.random.once_in(2) => {
                oracle.name_in_doubt(&name);
                settle(datastore.remove(&path).await, &oracle, &[(&name, false)], &[(&name, true)])
            }
            Ok(_) => {
                let target = format!("{OWN}/{other}");
                oracle.name_in_doubt(&other);
                match datastore.remove(&target).await {
                    Err(DatastoreError::NotFound) | Ok(()) => oracle.name_is(&other, false),
                    Err(error) => return Err(error),
                }
                oracle.name_in_doubt(&name);
                oracle.name_in_doubt(&other);
                let renamed = datastore.rename(&path, &target).await;
                settle(renamed, &oracle, &[(&name, false), (&other, true)], &[(&name, true), (&other, false)])
            }
        }
    }
}

/// Records the outcome of a change of names: done, refused because of a lock, or in doubt.
fn settle(outcome: Result<()>, oracle: &Oracle, done: &[(&str, bool)], refused: &[(&str, bool)]) -> Result<()> {
    let known = match &outcome {
        Ok(()) => done,
        Err(DatastoreError::Locked { .. } | DatastoreError::Busy) => refused,
        Err(_) => &[],
    };
    known.iter().for_each(|(name, there)| oracle.name_is(name, *there));
    outcome
}

async fn fill(file: &File, blocks: u64) -> Result<()> {
    file.set_size(blocks * FS_BLOCK_BYTES).await?;
    match file.allocate(0..blocks, BlockFill::ToBeZeroed).await {
        // Many small files may fill the datastore, which is no violation.
        Err(DatastoreError::NoSpace) => {}
        allocated => allocated?,
    }
    if blocks > 2 {
        file.punch(1..2).await?;
    }
    file.mark_written(0..1).await
}
