//! The data mover: zeroes and copies runs of blocks, by offloads where allowed and supported,
//! otherwise by reads and writes, with enough concurrent commands to keep the array busy.

mod outstanding;
mod pace;
mod work;

use crate::layout::{Joint, commands};
use crate::offload::OffloadForbidden;
use crate::transfer::{EsxiRelease, TRANSFER_KIB, pieces};
use bytes::Bytes;
use datastore::FS_BLOCK_BYTES;
use datastore::Mode;
use esxi_host::{Setting, Settings};
use futures_util::{StreamExt, TryStreamExt, stream};
use multipath::{CopyRun, DeviceError, Primitive, SharedDisk};
pub use outstanding::Outstanding;
use pace::Pace;
use platform::clock;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;
pub(crate) use work::WorkMeter;
pub use work::{CommandTotal, MoverWork};

/// Bytes per READ or WRITE between datastores of equal block size, and between others.
const TRANSFER_BYTES: u64 = 1 << 20;
const SMALL_TRANSFER_BYTES: u64 = 64 << 10;

/// The permissions of the data mover, from the host's advanced settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoverSettings {
    /// `/DataMover/HardwareAcceleratedMove`: EXTENDED COPY.
    pub hardware_move: bool,
    /// `/DataMover/HardwareAcceleratedInit`: WRITE SAME.
    pub hardware_init: bool,
    /// `/DataMover/MaxHWTransferSize`, in KiB.
    pub max_transfer_kib: u32,
    /// `/VMFS3/EnableBlockDelete`: pass on UNMAP from guests.
    pub block_delete: bool,
    /// The emulated release of ESXi.
    pub release: EsxiRelease,
    /// Concurrent commands of one operation.
    pub outstanding: Outstanding,
}

impl MoverSettings {
    /// Returns the settings of a host for disks on a datastore of this mode. A host with VMFS 5
    /// emulates ESXi 5.
    pub fn of(settings: &Settings, mode: Mode) -> Self {
        let kib = settings.get(Setting::MaxHwTransferSize);
        Self {
            hardware_move: settings.is_on(Setting::HardwareAcceleratedMove),
            hardware_init: settings.is_on(Setting::HardwareAcceleratedInit),
            max_transfer_kib: u32::try_from(kib).unwrap_or(TRANSFER_KIB.2),
            block_delete: settings.is_on(Setting::EnableBlockDelete),
            release: match mode {
                Mode::V5 => EsxiRelease::Esxi5,
                Mode::V6 => EsxiRelease::Esxi6,
            },
            outstanding: Outstanding::default(),
        }
    }
}

impl Default for MoverSettings {
    /// The defaults of ESXi 6.
    fn default() -> Self {
        Self {
            hardware_move: true,
            hardware_init: true,
            max_transfer_kib: TRANSFER_KIB.2,
            block_delete: false,
            release: EsxiRelease::Esxi6,
            outstanding: Outstanding::default(),
        }
    }
}

/// Why data went through the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HostCopyReason {
    /// A rule excludes EXTENDED COPY for this copy.
    #[error(transparent)]
    Forbidden(#[from] OffloadForbidden),
    /// The host's setting is 0.
    #[error("/DataMover/HardwareAcceleratedMove is 0")]
    SwitchedOff,
    /// The device does not support the primitive, or it is disabled for the device.
    #[error("the device does not support Clone")]
    Unsupported,
    /// The device refused a command.
    #[error("the device refused EXTENDED COPY")]
    Refused,
}

/// The constraints of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyOrder {
    /// The rule that excludes the offload, if any.
    pub(crate) forbidden: Option<OffloadForbidden>,
    /// The most bytes per EXTENDED COPY.
    pub(crate) xcopy_bytes: u64,
}

/// Called with the number of bytes just completed.
pub(crate) type Advance<'a> = &'a (dyn Fn(u64) + Send + Sync);

/// One operation on one or two disks, with its settings and its cost.
#[derive(Debug)]
pub(crate) struct Mover {
    settings: MoverSettings,
    /// The commands sent.
    pub(crate) work: WorkMeter,
    /// Set when a device refused an EXTENDED COPY: the rest of the copy goes through the host.
    refused: AtomicBool,
}

impl Mover {
    /// Creates a mover with these settings.
    pub(crate) fn new(settings: MoverSettings) -> Self {
        Self { settings, work: WorkMeter::default(), refused: AtomicBool::new(false) }
    }

    /// Returns the settings.
    pub(crate) fn settings(&self) -> MoverSettings {
        self.settings
    }

    /// Zeroes runs of blocks of a disk, as (first, count), in pieces of 1 MiB as ESXi does.
    pub(crate) async fn zero(
        &self,
        disk: &dyn SharedDisk,
        runs: &[(u64, u64)],
        advance: Advance<'_>,
    ) -> Result<(), DeviceError> {
        let block = u64::from(disk.identity().block_bytes);
        let step = FS_BLOCK_BYTES.min(disk.limits().write_same_blocks.saturating_mul(block)) / block;
        let zeros = Bytes::from(vec![0; usize::try_from(FS_BLOCK_BYTES).unwrap_or(0)]);
        let cut = runs.iter().copied();
        let cut = cut.flat_map(move |(lba, blocks)| pieces(blocks, step).map(move |(at, n)| (lba + at, n)));
        let by_array = self.settings.hardware_init && disk.vaai().is_usable(Primitive::Zero);
        let Outstanding { write_same, transfers, .. } = self.settings.outstanding;
        let open = if by_array { write_same } else { transfers };
        let zeros = &zeros;
        stream::iter(cut.map(|(lba, blocks)| async move {
            self.zero_piece(disk, lba, blocks, zeros).await?;
            advance(blocks * block);
            Ok(())
        }))
        .buffer_unordered(open.into())
        .try_collect()
        .await
    }

    /// Zeroes at most 1 MiB.
    async fn zero_piece(&self, disk: &dyn SharedDisk, lba: u64, blocks: u64, zeros: &Bytes) -> Result<(), DeviceError> {
        let block = disk.identity().block_bytes as usize;
        if self.settings.hardware_init && disk.vaai().is_usable(Primitive::Zero) {
            match disk.write_same(lba, blocks, zeros.slice(..block)).await {
                Ok(()) => {
                    self.work.write_same(blocks * block as u64);
                    return Ok(());
                }
                Err(error) if error.is_refusal() => {}
                Err(error) => return Err(error),
            }
        }
        for (at, count) in pieces(blocks, disk.limits().transfer_blocks.into()) {
            let bytes = usize::try_from(count).unwrap_or(0) * block;
            disk.write(lba + at, zeros.slice(..bytes)).await?;
            self.work.write(bytes as u64);
        }
        Ok(())
    }

    /// Copies joints between two disks or within one. Returns why data went through the host, if it
    /// did.
    pub(crate) async fn copy(
        &self,
        (source, destination): (&dyn SharedDisk, &dyn SharedDisk),
        joints: &[Joint],
        order: CopyOrder,
        advance: Advance<'_>,
    ) -> Result<Option<HostCopyReason>, DeviceError> {
        if let Some(reason) = self.by_host(source, order) {
            let small = order.forbidden == Some(OffloadForbidden::BlockSizes);
            self.copy_by_host(source, destination, joints, small, advance).await?;
            return Ok(Some(reason));
        }
        let block = u64::from(source.identity().block_bytes);
        let limits = source.limits();
        let most = order.xcopy_bytes.min(limits.copy_blocks.saturating_mul(block)).max(block);
        // Split runs first at the largest length of a segment.
        let longest = limits.copy_run_blocks.max(1) * block;
        // Prefer whole blocks of the datastore, so that transfers stay as large as possible.
        let longest = if longest > FS_BLOCK_BYTES { longest / FS_BLOCK_BYTES * FS_BLOCK_BYTES } else { longest };
        let runs = match self.settings.release {
            // One run per command: the blocks of a thin disk are scattered, and 5.x copies them one
            // by one.
            EsxiRelease::Esxi5 => 1,
            EsxiRelease::Esxi6 => limits.copy_runs.max(1),
        };
        let cut: Vec<Joint> = joints.iter().flat_map(|joint| split(joint, longest, block)).collect();
        let pace = &Pace::new(self.settings.outstanding.xcopy);
        stream::iter(commands(&cut, most, runs, block).into_iter().map(|runs| async move {
            let bytes = runs.iter().map(|run| run.blocks).sum::<u64>() * block;
            let (permit, begun) = (pace.begin().await, clock::now());
            self.copy_piece(source, destination, runs, bytes).await?;
            pace.end(permit, clock::now().duration_since(begun));
            advance(bytes);
            Ok::<(), DeviceError>(())
        }))
        .buffer_unordered(self.settings.outstanding.xcopy.into())
        .try_collect::<()>()
        .await?;
        Ok(self.refused.load(Ordering::Relaxed).then_some(HostCopyReason::Refused))
    }

    /// Returns why a copy cannot start as an offload.
    pub(crate) fn by_host(&self, source: &dyn SharedDisk, order: CopyOrder) -> Option<HostCopyReason> {
        if !self.settings.hardware_move {
            Some(HostCopyReason::SwitchedOff)
        } else if let Some(rule) = order.forbidden {
            Some(HostCopyReason::Forbidden(rule))
        } else if !source.vaai().is_usable(Primitive::Clone) {
            Some(HostCopyReason::Unsupported)
        } else if self.refused.load(Ordering::Relaxed) {
            Some(HostCopyReason::Refused)
        } else {
            None
        }
    }

    /// Performs one EXTENDED COPY, or reads and writes if the device refuses it.
    async fn copy_piece(
        &self,
        source: &dyn SharedDisk,
        destination: &dyn SharedDisk,
        runs: Vec<CopyRun>,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        if !self.refused.load(Ordering::Relaxed) {
            match source.copy(destination, runs.clone()).await {
                Ok(()) => {
                    self.work.xcopy(bytes);
                    return Ok(());
                }
                Err(error) if error.is_refusal() => self.refused.store(true, Ordering::Relaxed),
                Err(error) => return Err(error),
            }
        }
        let step = TRANSFER_BYTES / u64::from(source.identity().block_bytes);
        for run in runs {
            for (at, blocks) in pieces(run.blocks, step) {
                self.transfer(source, destination, CopyRun { blocks, ..moved(run, at) }).await?;
            }
        }
        Ok(())
    }

    /// Reads and writes all joints with many concurrent transfers.
    async fn copy_by_host(
        &self,
        source: &dyn SharedDisk,
        destination: &dyn SharedDisk,
        joints: &[Joint],
        small: bool,
        advance: Advance<'_>,
    ) -> Result<(), DeviceError> {
        let block = u64::from(source.identity().block_bytes);
        let most = source.limits().transfer_blocks.min(destination.limits().transfer_blocks);
        let bytes = if small { SMALL_TRANSFER_BYTES } else { TRANSFER_BYTES };
        let step = (bytes / block).min(most.into()).max(1);
        let runs = joints.iter().copied().flat_map(move |joint| {
            let run = CopyRun { source: joint.source, destination: joint.destination, blocks: joint.bytes / block };
            pieces(run.blocks, step).map(move |(at, blocks)| CopyRun { blocks, ..moved(run, at) })
        });
        stream::iter(runs.map(|run| async move {
            self.transfer(source, destination, run).await?;
            advance(run.blocks * block);
            Ok(())
        }))
        .buffer_unordered(self.settings.outstanding.transfers.into())
        .try_collect()
        .await
    }

    /// Copies blocks with one READ and one WRITE, up to the limits of the devices.
    async fn transfer(
        &self,
        source: &dyn SharedDisk,
        destination: &dyn SharedDisk,
        run: CopyRun,
    ) -> Result<(), DeviceError> {
        let most = source.limits().transfer_blocks.min(destination.limits().transfer_blocks);
        for (at, blocks) in pieces(run.blocks, most.into()) {
            let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
            let data = source.read(run.source + at, blocks).await?;
            let bytes = data.len() as u64;
            self.work.read(bytes);
            destination.write(run.destination + at, data).await?;
            self.work.write(bytes);
        }
        Ok(())
    }

    /// Unmaps runs of blocks on the array. Returns `Ok(false)` if the device does not support
    /// UNMAP.
    pub(crate) async fn unmap(&self, disk: &dyn SharedDisk, runs: &[(u64, u64)]) -> Result<bool, DeviceError> {
        if !disk.vaai().is_usable(Primitive::Delete) {
            return Ok(false);
        }
        let limits = disk.limits();
        let block = u64::from(disk.identity().block_bytes);
        let done = stream::iter(unmap_commands(runs, limits.unmap_blocks, limits.unmap_ranges).into_iter().map(
            |ranges| async move {
                let bytes = ranges.iter().map(|(_, blocks)| blocks).sum::<u64>() * block;
                match disk.unmap(ranges).await {
                    Ok(()) => {
                        self.work.unmap(bytes);
                        Ok(true)
                    }
                    Err(error) if error.is_refusal() => Ok(false),
                    Err(error) => Err(error),
                }
            },
        ))
        .buffer_unordered(self.settings.outstanding.unmap.into());
        done.try_fold(true, |all, one| async move { Ok(all && one) }).await
    }
}

/// Returns the rest of a run after `blocks` blocks.
fn moved(run: CopyRun, blocks: u64) -> CopyRun {
    CopyRun { source: run.source + blocks, destination: run.destination + blocks, blocks: run.blocks - blocks }
}

/// Splits a joint into pieces of at most `longest` bytes.
fn split(joint: &Joint, longest: u64, block: u64) -> impl Iterator<Item = Joint> + use<> {
    let joint = *joint;
    pieces(joint.bytes, longest).map(move |(at, bytes)| Joint {
        offset: joint.offset + at,
        bytes,
        source: joint.source + at / block,
        destination: joint.destination + at / block,
    })
}

/// Groups ranges into UNMAP commands within the device's limits of blocks and ranges.
fn unmap_commands(runs: &[(u64, u64)], most_blocks: u64, most_ranges: usize) -> Vec<Vec<(u64, u64)>> {
    let (mut commands, mut ranges, mut room) = (Vec::new(), Vec::new(), most_blocks.max(1));
    for (lba, blocks) in runs {
        let mut done = 0;
        while done < *blocks {
            let count = room.min(blocks - done);
            ranges.push((lba + done, count));
            done += count;
            room -= count;
            if room == 0 || ranges.len() >= most_ranges {
                commands.push(std::mem::take(&mut ranges));
                room = most_blocks.max(1);
            }
        }
    }
    commands.extend((!ranges.is_empty()).then_some(ranges));
    commands
}

#[cfg(test)]
mod tests;
