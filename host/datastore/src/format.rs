//! Creates a datastore on a device, and finds an existing one.

use crate::heartbeat::read_slots;
use crate::io::{Io, Purpose};
use crate::layout::cluster::Cluster;
use crate::layout::descriptor::{Descriptor, FileKind, ROOT_DIRECTORY};
use crate::layout::geometry::{BACKUP_AT, Geometry, HEARTBEATS_AT, Resource};
use crate::layout::gpt::{self, Partition, TABLE_SECTORS};
use crate::layout::heartbeat::{Slot, SlotState};
use crate::layout::lock::Guarded;
use crate::layout::superblock::{MAX_LABEL_BYTES, Superblock};
use crate::layout::{FS_BLOCK_SECTORS, Image, MAX_HOSTS, SECTOR_BYTES};
use crate::options::{FormatOptions, Timing};
use crate::{DatastoreError, Result, Runtime, VolumeUuid};
use bytes::{Bytes, BytesMut};
use multipath::SharedDisk;
use std::sync::Arc;

/// Block sizes of a datastore.
const BLOCK_MIB: [u32; 4] = [1, 2, 4, 8];

/// A datastore found on a device.
pub(crate) struct FoundVolume {
    /// First sector of the partition.
    pub(crate) partition: u64,
    pub(crate) superblock: Superblock,
}

/// Returns access to a device that is only inspected, or that no other host uses yet.
pub(crate) fn inspection_io(
    disk: &Arc<dyn SharedDisk>,
    partition: u64,
    runtime: &Arc<dyn Runtime>,
    timing: Timing,
) -> Io {
    Io::new(Arc::clone(disk), partition, Arc::clone(runtime), timing, Purpose::Inspect)
}

/// Returns the datastore of a device, if there is one.
pub(crate) async fn volume_of(
    disk: &Arc<dyn SharedDisk>,
    runtime: &Arc<dyn Runtime>,
    timing: Timing,
    purpose: Purpose,
) -> Result<Option<FoundVolume>> {
    let identity = disk.identity();
    if identity.block_bytes as usize != SECTOR_BYTES || identity.blocks < TABLE_SECTORS {
        return Ok(None);
    }
    let at = |partition| Io::new(Arc::clone(disk), partition, Arc::clone(runtime), timing, purpose);
    let table = at(0).read(0, TABLE_SECTORS).await?;
    let Some(partition) = gpt::decode(&table) else { return Ok(None) };
    if !gpt::fits(partition, identity.blocks) {
        return Ok(None);
    }
    let io = at(partition.first);
    for copy in [0, BACKUP_AT] {
        if copy < partition.sectors
            && let Some(superblock) = Superblock::decode(&io.read_image(copy).await?)
            && superblock.geometry.sectors <= partition.sectors
        {
            return Ok(Some(FoundVolume { partition: partition.first, superblock }));
        }
    }
    Ok(None)
}

/// Creates a datastore. The content of the partition is lost.
pub(crate) async fn format(
    disk: &Arc<dyn SharedDisk>,
    options: &FormatOptions,
    runtime: &Arc<dyn Runtime>,
) -> Result<Superblock> {
    let identity = disk.identity();
    if identity.block_bytes as usize != SECTOR_BYTES {
        return Err(DatastoreError::Unsuitable("cannot create a datastore: device block size is not 512 bytes"));
    }
    if options.label.is_empty() || options.label.len() > MAX_LABEL_BYTES || options.label.contains(['/', '\0']) {
        return Err(DatastoreError::Unsuitable(
            "cannot create a datastore: label must have 1 to 127 bytes without '/'",
        ));
    }
    let room = identity.blocks.saturating_sub(options.partition_lba).saturating_sub(TABLE_SECTORS - 1);
    let sectors = options.size.map_or(room, |bytes| bytes / SECTOR_BYTES as u64);
    let partition = Partition { first: options.partition_lba, sectors };
    if !gpt::fits(partition, identity.blocks) {
        return Err(DatastoreError::Unsuitable("cannot create a datastore: partition does not fit on the device"));
    }
    if !BLOCK_MIB.contains(&options.block_mib) {
        return Err(DatastoreError::Unsuitable("cannot create a datastore: block size must be 1, 2, 4 or 8 MiB"));
    }
    let block_sectors = options.block_mib * FS_BLOCK_SECTORS as u32;
    let geometry = Geometry::plan(sectors, block_sectors).ok_or(DatastoreError::Unsuitable(
        "cannot create a datastore: partition has fewer than 16 blocks after 32 MiB, or more than 2 PiB",
    ))?;
    let uuid = options.uuid.unwrap_or_else(|| new_uuid(runtime));
    let superblock = Superblock {
        uuid,
        label: options.label.clone(),
        mode: options.mode,
        created: runtime.unix_millis(),
        partition_lba: partition.first,
        geometry,
        extents: Vec::new(),
    };
    refuse_mounted(disk, runtime).await?;
    // Reserves the unit, as ESXi does, so that no other host accesses it.
    reserve(disk).await?;
    let written = write_all(disk, runtime, partition, &superblock).await;
    disk.release().await?;
    written.map(|()| superblock)
}

/// Reserves a unit while its structures are made.
///
/// A unit without reservations, such as a volume that two arrays serve, is not reserved if it has
/// COMPARE AND WRITE, which protects the datastore from then on. A unit without both cannot hold a
/// datastore.
pub(crate) async fn reserve(disk: &Arc<dyn SharedDisk>) -> Result<()> {
    match disk.reserve().await {
        Err(error) if error.is_refusal() => {
            let sector = disk.read(0, 1).await?;
            match disk.compare_and_write(0, sector.clone(), sector).await {
                Ok(_) => Ok(()),
                Err(other) if other.is_refusal() => Err(error.into()),
                Err(other) => Err(other.into()),
            }
        }
        outcome => Ok(outcome?),
    }
}

pub(crate) fn new_uuid(runtime: &Arc<dyn Runtime>) -> VolumeUuid {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&runtime.random().to_le_bytes());
    uuid[8..].copy_from_slice(&runtime.random().to_le_bytes());
    VolumeUuid(uuid)
}

/// Fails if a host has a datastore of the device mounted.
pub(crate) async fn refuse_mounted(disk: &Arc<dyn SharedDisk>, runtime: &Arc<dyn Runtime>) -> Result<()> {
    if is_mounted(disk, runtime).await? {
        return Err(DatastoreError::Unsuitable(
            "a host has the datastore on the device mounted; end its commands and power off its machines",
        ));
    }
    Ok(())
}

/// Returns whether a host has a datastore of the device mounted: one of its heartbeats changes.
pub(crate) async fn is_mounted(disk: &Arc<dyn SharedDisk>, runtime: &Arc<dyn Runtime>) -> Result<bool> {
    let timing = Timing::default();
    let Some(found) = volume_of(disk, runtime, timing, Purpose::Inspect).await? else { return Ok(false) };
    let io = inspection_io(disk, found.partition, runtime, timing);
    let before = read_slots(&io, found.superblock.uuid).await?;
    if before.iter().flatten().all(|slot| slot.state == SlotState::Free) {
        return Ok(false);
    }
    runtime.sleep(timing.interval * 2).await;
    let after = read_slots(&io, found.superblock.uuid).await?;
    Ok(before.iter().flatten().zip(after.iter().flatten()).any(|(before, after)| before != after))
}

async fn write_all(
    disk: &Arc<dyn SharedDisk>,
    runtime: &Arc<dyn Runtime>,
    partition: Partition,
    superblock: &Superblock,
) -> Result<()> {
    let io = inspection_io(disk, partition.first, runtime, Timing::default());
    let blank = Bytes::from_static(&[0; SECTOR_BYTES]);
    // Both superblocks are blank until everything else is written, so a partial format is no
    // datastore.
    io.write(0, blank.clone()).await?;
    io.write(BACKUP_AT, blank).await?;
    let (geometry, uuid) = (&superblock.geometry, superblock.uuid);
    let slots = (0..MAX_HOSTS as u16).map(|index| Slot::new(index).encode(uuid));
    write_images(&io, HEARTBEATS_AT, slots).await?;
    for resource in [Resource::Descriptors, Resource::Pages, Resource::Blocks] {
        let cluster = |index| {
            let mut cluster = Cluster::new(resource, index, geometry, uuid);
            if resource == Resource::Descriptors && index == 0 {
                cluster.take(ROOT_DIRECTORY);
            }
            cluster.encode()
        };
        write_images(&io, geometry.clusters_at(resource), (0..geometry.clusters(resource)).map(cluster)).await?;
    }
    let descriptor = |index| {
        let mut descriptor = Descriptor::free(index, uuid);
        if index == ROOT_DIRECTORY {
            descriptor.begin(FileKind::Directory, ROOT_DIRECTORY, superblock.created);
        }
        descriptor.encode()
    };
    write_images(&io, geometry.descriptor_sector(0), (0..geometry.descriptors).map(descriptor)).await?;
    let sectors = disk.identity().blocks;
    let table = inspection_io(disk, 0, runtime, Timing::default());
    for (sector, bytes) in gpt::encode(partition, sectors, uuid.0) {
        table.write(sector, bytes.into()).await?;
    }
    let image = Bytes::copy_from_slice(&superblock.encode());
    io.write(BACKUP_AT, image.clone()).await?;
    io.write(0, image).await
}

/// Writes consecutive sectors in chunks of 1 MiB.
pub(crate) async fn write_images(io: &Io, first: u64, images: impl Iterator<Item = Image>) -> Result<()> {
    const CHUNK: usize = 1 << 20;
    let mut at = first;
    let mut chunk = BytesMut::with_capacity(CHUNK);
    let mut images = images.peekable();
    while let Some(image) = images.next() {
        chunk.extend_from_slice(&image);
        if chunk.len() == CHUNK || images.peek().is_none() {
            let sectors = (chunk.len() / SECTOR_BYTES) as u64;
            io.write(at, chunk.split().freeze()).await?;
            at += sectors;
        }
    }
    Ok(())
}
