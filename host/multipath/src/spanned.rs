//! Several disks as one: the extents of a datastore, one after the other.

use crate::counters::{CountersSnapshot, Latencies};
use crate::disk::{AtsOutcome, DeviceLimits, DiskFuture, IoPermission, ProvisioningExtent, SharedDisk, SpanMember};
use crate::error::DeviceError;
use crate::identity::DiskIdentity;
use crate::vaai::{Primitive, Support, VaaiStatus};
use bytes::{Bytes, BytesMut};
use initiator::CopyRun;
use std::sync::Arc;
use std::time::Duration;

/// A disk that consists of parts of others. It has the identity of the first, and the offloads that
/// all of them have.
pub struct SpannedDisk {
    identity: DiskIdentity,
    members: Vec<SpanMember>,
}

/// A range of blocks within one member: offset in the request, block on the member, and count.
struct Part<'a> {
    offset: u64,
    lba: u64,
    blocks: u64,
    disk: &'a dyn SharedDisk,
}

/// Returns the part of a range that begins at `first`. A disk without members is one part.
fn part<'a>(disk: &'a dyn SharedDisk, first: u64, blocks: u64) -> Option<Part<'a>> {
    if disk.members().is_empty() {
        return Some(Part { offset: 0, lba: first, blocks, disk });
    }
    let member = disk.members().iter().find(|member| first >= member.first && first < member.first + member.blocks)?;
    let skip = first - member.first;
    Some(Part { offset: 0, lba: member.lba + skip, blocks: blocks.min(member.blocks - skip), disk: &*member.disk })
}

/// One EXTENDED COPY between two disks without members: source, destination and runs.
pub type MemberCopy<'a> = (&'a dyn SharedDisk, &'a dyn SharedDisk, Vec<CopyRun>);

/// Splits a copy into copies between members. A disk without members is its own member.
///
/// # Errors
/// [`DeviceError::OutOfRange`] if a run reaches beyond the last member.
pub fn split_copy<'a>(
    source: &'a dyn SharedDisk,
    destination: &'a dyn SharedDisk,
    runs: &[CopyRun],
) -> Result<Vec<MemberCopy<'a>>, DeviceError> {
    if source.members().is_empty() && destination.members().is_empty() {
        return Ok(vec![(source, destination, runs.to_vec())]);
    }
    let mut copies: Vec<MemberCopy<'a>> = Vec::new();
    for run in runs {
        let mut done = 0;
        while done < run.blocks {
            let find = |disk: &'a dyn SharedDisk, first: u64| {
                part(disk, first + done, run.blocks - done).ok_or(DeviceError::OutOfRange { lba: first + done })
            };
            let (from, to) = (find(source, run.source)?, find(destination, run.destination)?);
            let blocks = from.blocks.min(to.blocks);
            let piece = CopyRun { source: from.lba, destination: to.lba, blocks };
            let same = |copy: &&mut MemberCopy<'a>| {
                copy.0.identity().name == from.disk.identity().name && copy.1.identity().name == to.disk.identity().name
            };
            match copies.iter_mut().find(same) {
                Some((_, _, pieces)) => pieces.push(piece),
                None => copies.push((from.disk, to.disk, vec![piece])),
            }
            done += blocks;
        }
    }
    Ok(copies)
}

impl SpannedDisk {
    /// Joins members in the order of their first blocks; `None` without members.
    pub fn new(members: Vec<SpanMember>) -> Option<Self> {
        let (first, last) = (members.first()?, members.last()?);
        let identity = DiskIdentity { blocks: last.first + last.blocks, ..first.disk.identity().clone() };
        Some(Self { identity, members })
    }

    /// Returns the parts of a range.
    fn parts(&self, first: u64, blocks: u64) -> Result<Vec<Part<'_>>, DeviceError> {
        let (mut parts, mut done) = (Vec::new(), 0);
        while done < blocks {
            let lba = first + done;
            let found = part(self, lba, blocks - done).ok_or(DeviceError::OutOfRange { lba })?;
            let found = Part { offset: done, ..found };
            done += found.blocks;
            parts.push(found);
        }
        Ok(parts)
    }

    fn block_bytes(&self) -> usize {
        self.identity.block_bytes as usize
    }

    /// Returns the members' disks.
    fn disks(&self) -> impl Iterator<Item = &Arc<dyn SharedDisk>> {
        self.members.iter().map(|member| &member.disk)
    }
}

/// Returns the part of a buffer that belongs to a part of a range.
fn slice(data: &Bytes, part: &Part<'_>, block: usize) -> Bytes {
    let (from, to) = (part.offset as usize * block, (part.offset + part.blocks) as usize * block);
    data.slice(from.min(data.len())..to.min(data.len()))
}

impl SharedDisk for SpannedDisk {
    fn identity(&self) -> &DiskIdentity {
        &self.identity
    }

    fn members(&self) -> &[SpanMember] {
        &self.members
    }

    fn read(&self, lba: u64, blocks: u32) -> DiskFuture<'_, Bytes> {
        Box::pin(async move {
            let parts = self.parts(lba, blocks.into())?;
            if let [one] = parts.as_slice() {
                return one.disk.read(one.lba, blocks).await;
            }
            let mut data = BytesMut::with_capacity(blocks as usize * self.block_bytes());
            for part in parts {
                data.extend_from_slice(&part.disk.read(part.lba, part.blocks as u32).await?);
            }
            Ok(data.freeze())
        })
    }

    fn write(&self, lba: u64, data: Bytes) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            for part in self.parts(lba, (data.len() / self.block_bytes()) as u64)? {
                part.disk.write(part.lba, slice(&data, &part, self.block_bytes())).await?;
            }
            Ok(())
        })
    }

    fn compare_and_write(&self, lba: u64, compare: Bytes, write: Bytes) -> DiskFuture<'_, AtsOutcome> {
        Box::pin(async move {
            match self.parts(lba, (write.len() / self.block_bytes()) as u64)?.as_slice() {
                [one] => one.disk.compare_and_write(one.lba, compare, write).await,
                // Two devices cannot change atomically.
                _ => Err(DeviceError::Length(write.len())),
            }
        })
    }

    fn write_same(&self, lba: u64, blocks: u64, pattern: Bytes) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            for part in self.parts(lba, blocks)? {
                part.disk.write_same(part.lba, part.blocks, pattern.clone()).await?;
            }
            Ok(())
        })
    }

    fn unmap(&self, ranges: Vec<(u64, u64)>) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let mut by_member: Vec<(&dyn SharedDisk, Vec<(u64, u64)>)> = Vec::new();
            for (lba, blocks) in ranges {
                for part in self.parts(lba, blocks)? {
                    let same =
                        |(disk, _): &&mut (&dyn SharedDisk, _)| disk.identity().name == part.disk.identity().name;
                    match by_member.iter_mut().find(same) {
                        Some((_, ranges)) => ranges.push((part.lba, part.blocks)),
                        None => by_member.push((part.disk, vec![(part.lba, part.blocks)])),
                    }
                }
            }
            for (disk, ranges) in by_member {
                disk.unmap(ranges).await?;
            }
            Ok(())
        })
    }

    fn copy<'a>(&'a self, destination: &'a dyn SharedDisk, runs: Vec<CopyRun>) -> DiskFuture<'a, ()> {
        Box::pin(async move {
            for (source, destination, runs) in split_copy(self, destination, &runs)? {
                source.copy(destination, runs).await?;
            }
            Ok(())
        })
    }

    fn reserve(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            for (at, disk) in self.disks().enumerate() {
                if let Err(error) = disk.reserve().await {
                    for held in self.disks().take(at) {
                        // The error of the reservation is returned.
                        let _ = held.release().await;
                    }
                    return Err(error);
                }
            }
            Ok(())
        })
    }

    fn release(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let mut released = Ok(());
            for disk in self.disks() {
                released = released.and(disk.release().await);
            }
            released
        })
    }

    fn reset(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            for disk in self.disks() {
                disk.reset().await?;
            }
            Ok(())
        })
    }

    fn clear_task_set(&self) -> DiskFuture<'_, bool> {
        Box::pin(async move {
            let mut cleared = true;
            for disk in self.disks() {
                cleared &= disk.clear_task_set().await?;
            }
            Ok(cleared)
        })
    }

    fn synchronize(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            for disk in self.disks() {
                disk.synchronize().await?;
            }
            Ok(())
        })
    }

    fn get_lba_status(&self, lba: u64) -> DiskFuture<'_, Vec<ProvisioningExtent>> {
        Box::pin(async move {
            let blocks = self.identity.blocks.saturating_sub(lba);
            let part = part(self, lba, blocks).ok_or(DeviceError::OutOfRange { lba })?;
            let end = part.lba + part.blocks;
            let extents = part.disk.get_lba_status(part.lba).await?;
            let within = extents.into_iter().filter(|extent| extent.lba < end);
            let moved = |extent: ProvisioningExtent| ProvisioningExtent {
                lba: lba + extent.lba.saturating_sub(part.lba),
                blocks: extent.blocks.min(end - extent.lba),
                ..extent
            };
            Ok(within.map(moved).collect())
        })
    }

    fn vaai(&self) -> VaaiStatus {
        let mut all = VaaiStatus::default();
        for primitive in Primitive::ALL {
            let states: Vec<_> = self.disks().map(|disk| disk.vaai().of(primitive)).collect();
            let any = |support| states.iter().any(|state| state.support == support);
            let state = all.of_mut(primitive);
            state.enabled = states.iter().all(|state| state.enabled);
            state.support = match (any(Support::Unsupported), any(Support::Unknown)) {
                (true, _) => Support::Unsupported,
                (false, true) => Support::Unknown,
                (false, false) => Support::Supported,
            };
        }
        all
    }

    fn enable(&self, primitive: Primitive, enabled: bool) {
        self.disks().for_each(|disk| disk.enable(primitive, enabled));
    }

    fn limit_command_time(&self, lifetime: Duration) {
        self.disks().for_each(|disk| disk.limit_command_time(lifetime));
    }

    fn io_permission(&self) -> IoPermission {
        let permissions = self.disks().map(|disk| disk.io_permission());
        permissions.reduce(IoPermission::and).unwrap_or(IoPermission::Revoked)
    }

    fn limits(&self) -> DeviceLimits {
        let least = |one: DeviceLimits, two: DeviceLimits| DeviceLimits {
            transfer_blocks: one.transfer_blocks.min(two.transfer_blocks),
            compare_blocks: one.compare_blocks.min(two.compare_blocks),
            write_same_blocks: one.write_same_blocks.min(two.write_same_blocks),
            unmap_blocks: one.unmap_blocks.min(two.unmap_blocks),
            unmap_ranges: one.unmap_ranges.min(two.unmap_ranges),
            copy_blocks: one.copy_blocks.min(two.copy_blocks),
            copy_runs: one.copy_runs.min(two.copy_runs),
            copy_run_blocks: one.copy_run_blocks.min(two.copy_run_blocks),
        };
        let first = self.members[0].disk.limits();
        self.disks().map(|disk| disk.limits()).fold(first, least)
    }

    fn counters(&self) -> CountersSnapshot {
        self.disks().fold(CountersSnapshot::default(), |sum, disk| sum.plus(&disk.counters()))
    }

    fn latencies(&self) -> Latencies {
        self.members[0].disk.latencies()
    }
}

#[cfg(test)]
mod tests;
