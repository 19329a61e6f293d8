//! Raw device mappings: disks whose content is a whole device.

use crate::descriptor::{CreateType, Descriptor, SECTOR_BYTES};
use crate::error::{Result, VirtualDiskError};
use crate::flat::{FileAnswer, FileRun, FlatFile};
use crate::map::State;
use crate::store::{Store, beside};
use datastore::{Datastore, DatastoreError, FS_BLOCK_BYTES};
use multipath::SharedDisk;
use std::ops::Range;
use std::sync::Arc;

/// The content of a device as a file. Its blocks cannot be allocated or freed.
pub(crate) struct RawDevice(pub(crate) Arc<dyn SharedDisk>);

impl RawDevice {
    fn blocks(&self) -> u64 {
        bytes(self.0.as_ref()) / FS_BLOCK_BYTES
    }
}

fn bytes(device: &dyn SharedDisk) -> u64 {
    device.identity().blocks.saturating_mul(u64::from(device.identity().block_bytes))
}

fn refused<'a, T: Send + 'a>() -> FileAnswer<'a, T> {
    Box::pin(async { Err(VirtualDiskError::Kind) })
}

impl FlatFile for RawDevice {
    fn disk(&self) -> &Arc<dyn SharedDisk> {
        &self.0
    }

    fn block_bytes(&self) -> u64 {
        FS_BLOCK_BYTES
    }

    fn runs(&self) -> FileAnswer<'_, Vec<FileRun>> {
        let run = FileRun { first: 0, blocks: self.blocks(), lba: 0, state: State::Written };
        Box::pin(async move { Ok(vec![run]) })
    }

    fn allocate(&self, _: Range<u64>) -> FileAnswer<'_, Vec<FileRun>> {
        refused()
    }

    fn set_written(&self, _: Range<u64>) -> FileAnswer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn grow(&self, _: u64) -> FileAnswer<'_, ()> {
        refused()
    }

    fn punch(&self, _: Range<u64>) -> FileAnswer<'_, ()> {
        refused()
    }

    fn close(&self) -> FileAnswer<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// Creates a raw device mapping (`vmkfstools -r`, `-z`). The mapping file has the device's name.
///
/// # Errors
/// [`VirtualDiskError::Kind`] if the size of the device is not a multiple of 1 MiB.
pub async fn create_mapping(datastore: &Datastore, path: &str, device: &dyn SharedDisk) -> Result<()> {
    let store = Store::new(datastore);
    let bytes = bytes(device);
    if !bytes.is_multiple_of(FS_BLOCK_BYTES) || u64::from(device.identity().block_bytes) != SECTOR_BYTES {
        return Err(VirtualDiskError::Kind);
    }
    let file = path.rsplit('/').next().unwrap_or(path);
    let name = file.strip_suffix(".vmdk").unwrap_or(file);
    let descriptor = Descriptor::of_kind(CreateType::RawDeviceMap, name, bytes, store.new_uuid()?);
    let mapping = beside(path, descriptor.first_file());
    if store.exists(path).await? {
        return Err(VirtualDiskError::Datastore(DatastoreError::Exists));
    }
    store.create_text(&mapping, &format!("{}\n", device.identity().name)).await?;
    if let Err(error) = store.create_text(path, &descriptor.to_string()).await {
        // The error is returned; the mapping alone is removed.
        let _ = store.remove(&mapping).await;
        return Err(error);
    }
    store.keep(&mapping);
    store.keep(path);
    Ok(())
}

/// Returns the name of the device that a disk maps; `None` if it is not a raw device mapping.
pub async fn mapped_device(datastore: &Datastore, path: &str) -> Result<Option<String>> {
    let store = Store::new(datastore);
    let descriptor = store.read_descriptor(path).await?;
    if descriptor.create_type != CreateType::RawDeviceMap {
        return Ok(None);
    }
    let name = store.read_text(&beside(path, descriptor.first_file())).await?;
    Ok(Some(name.trim().to_owned()))
}
