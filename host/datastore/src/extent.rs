//! Extents: the devices of a datastore after the first. Locks, journals and files' metadata stay on
//! the first one; each extent has the clusters of its own blocks.
//!
//! The datastore sees one disk: the first device up to the end of its partition, then the
//! partitions of the extents.

use crate::format::{FoundVolume, inspection_io, new_uuid, refuse_mounted, reserve, volume_of, write_images};
use crate::io::{Io, Purpose};
use crate::layout::SECTOR_BYTES;
use crate::layout::cluster::Cluster;
use crate::layout::extent::ExtentHeader;
use crate::layout::geometry::{BACKUP_AT, EXTENT_CLUSTERS_AT, Resource};
use crate::layout::gpt::{self, DEFAULT_PARTITION_LBA, Partition, TABLE_SECTORS};
use crate::layout::lock::Guarded;
use crate::layout::superblock::Superblock;
use crate::options::Timing;
use crate::{DatastoreError, Result, Runtime, VolumeUuid};
use bytes::Bytes;
use multipath::{SharedDisk, SpanMember, SpannedDisk};
use std::sync::Arc;

/// Fails if a disk lacks an extent of the datastore on it.
pub(crate) fn require_all(disk: &Arc<dyn SharedDisk>, found: &FoundVolume) -> Result<()> {
    let missing = found.superblock.extents.len().saturating_sub(disk.members().len().saturating_sub(1));
    if missing == 0 { Ok(()) } else { Err(DatastoreError::MissingExtent(missing)) }
}

/// Returns the header of the extent on a device, and the first sector of its partition.
async fn header_of(disk: &Arc<dyn SharedDisk>, runtime: &Arc<dyn Runtime>) -> Result<Option<(ExtentHeader, u64)>> {
    let identity = disk.identity();
    if identity.block_bytes as usize != SECTOR_BYTES || identity.blocks < TABLE_SECTORS {
        return Ok(None);
    }
    let table = inspection_io(disk, 0, runtime, Timing::default()).read(0, TABLE_SECTORS).await?;
    let partition = gpt::decode(&table).filter(|partition| gpt::fits(*partition, identity.blocks));
    let Some(partition) = partition else { return Ok(None) };
    let image = inspection_io(disk, partition.first, runtime, Timing::default()).read_image(0).await?;
    let header = ExtentHeader::decode(&image).filter(|header| header.sectors <= partition.sectors);
    Ok(header.map(|header| (header, partition.first)))
}

/// Returns the whole disk of a datastore; the device itself if it has no extents.
pub(crate) async fn whole_disk(
    disk: &Arc<dyn SharedDisk>,
    others: &[Arc<dyn SharedDisk>],
    runtime: &Arc<dyn Runtime>,
) -> Result<Arc<dyn SharedDisk>> {
    let found = volume_of(disk, runtime, Timing::default(), Purpose::Inspect).await?;
    let Some(found) = found.filter(|found| !found.superblock.extents.is_empty()) else { return Ok(Arc::clone(disk)) };
    let superblock = &found.superblock;
    let mut first = found.partition + superblock.geometry.sectors;
    let mut members = vec![SpanMember { first: 0, blocks: first, lba: 0, disk: Arc::clone(disk) }];
    let mut known = Vec::new();
    for other in others {
        if let Some((header, lba)) = header_of(other, runtime).await? {
            known.push((header, lba, other));
        }
    }
    for (uuid, sectors) in superblock.extents.iter().zip(superblock.geometry.extents) {
        let expected = ExtentHeader { volume: superblock.uuid, uuid: *uuid, sectors };
        let Some((_, lba, other)) = known.iter().find(|(header, ..)| *header == expected) else {
            return Err(DatastoreError::MissingExtent(superblock.extents.len() + 1 - members.len()));
        };
        members.push(SpanMember { first, blocks: sectors, lba: *lba, disk: Arc::clone(other) });
        first += sectors;
    }
    let spanned = SpannedDisk::new(members).ok_or(DatastoreError::NotADatastore)?;
    Ok(Arc::new(spanned))
}

/// Extends a datastore by the space of another device.
pub(crate) async fn extend(
    disk: &Arc<dyn SharedDisk>,
    addition: &Arc<dyn SharedDisk>,
    runtime: &Arc<dyn Runtime>,
) -> Result<()> {
    let timing = Timing::default();
    let found = volume_of(disk, runtime, timing, Purpose::Inspect).await?.ok_or(DatastoreError::NotADatastore)?;
    require_all(disk, &found)?;
    let identity = addition.identity();
    if identity.block_bytes as usize != SECTOR_BYTES {
        return Err(DatastoreError::Unsuitable("cannot extend a datastore: device block size is not 512 bytes"));
    }
    let is_used = volume_of(addition, runtime, timing, Purpose::Inspect).await?.is_some()
        || header_of(addition, runtime).await?.is_some();
    if is_used {
        return Err(DatastoreError::Unsuitable(
            "cannot extend a datastore: the device holds a datastore or an extent; use an empty one",
        ));
    }
    refuse_mounted(disk, runtime).await?;
    let room = identity.blocks.saturating_sub(DEFAULT_PARTITION_LBA).saturating_sub(TABLE_SECTORS - 1);
    let FoundVolume { partition, mut superblock } = found;
    superblock.geometry = superblock.geometry.extended(room).ok_or(DatastoreError::Unsuitable(
        "cannot extend a datastore: the device has fewer than 16 blocks, or the datastore has 9 extents or 2^31 blocks",
    ))?;
    let uuid = new_uuid(runtime);
    superblock.extents.push(uuid.0);
    reserve(addition).await?;
    let written = write_extent(addition, runtime, room, &superblock, uuid).await;
    addition.release().await?;
    written?;
    let head = disk.members().first().map_or(disk, |member| &member.disk);
    let io = inspection_io(head, partition, runtime, timing);
    reserve(head).await?;
    let written = write_superblocks(&io, &superblock).await;
    head.release().await?;
    written
}

/// Writes the partition table, the clusters and the header of a new extent, the last one.
async fn write_extent(
    disk: &Arc<dyn SharedDisk>,
    runtime: &Arc<dyn Runtime>,
    sectors: u64,
    superblock: &Superblock,
    uuid: VolumeUuid,
) -> Result<()> {
    let timing = Timing::default();
    let partition = Partition { first: DEFAULT_PARTITION_LBA, sectors };
    for (sector, bytes) in gpt::encode(partition, disk.identity().blocks, uuid.0) {
        inspection_io(disk, 0, runtime, timing).write(sector, bytes.into()).await?;
    }
    let io = inspection_io(disk, partition.first, runtime, timing);
    let geometry = &superblock.geometry;
    let Some(plan) = geometry.extents().last().copied() else { return Ok(()) };
    let cluster = |index: u32| {
        let mut cluster = Cluster::new(Resource::Blocks, index, geometry, superblock.uuid);
        let first = (index - plan.first_cluster) * geometry.blocks_per_cluster;
        for bit in 0..plan.reserved.saturating_sub(first).min(geometry.blocks_per_cluster) {
            cluster.take(bit);
        }
        cluster.encode()
    };
    let clusters = plan.first_cluster..plan.first_cluster + plan.clusters;
    write_images(&io, EXTENT_CLUSTERS_AT, clusters.map(cluster)).await?;
    let header = ExtentHeader { volume: superblock.uuid, uuid: uuid.0, sectors };
    io.write(0, Bytes::copy_from_slice(&header.encode())).await
}

async fn write_superblocks(io: &Io, superblock: &Superblock) -> Result<()> {
    let image = superblock.encode();
    for sector in [BACKUP_AT, 0] {
        io.write(sector, Bytes::copy_from_slice(&image)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
