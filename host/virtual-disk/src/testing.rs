//! Datastores in memory, for the tests of this crate.

use datastore::{Datastore, FormatOptions, Mode, MountOptions, Runtime, TokioRuntime};
use multipath::{MemoryArray, SharedDisk};
use std::sync::Arc;

/// A progress callback that does nothing.
pub(crate) fn quiet(_: u64) {}

async fn mount(array: &MemoryArray, label: &str) -> Datastore {
    mount_with(array, &FormatOptions::new(label, Mode::V6)).await
}

/// Creates a datastore of 4 GiB with these options on an array.
pub(crate) async fn mount_with(array: &MemoryArray, options: &FormatOptions) -> Datastore {
    let name = array.create(4 << 30 >> 9);
    let disk: Arc<dyn SharedDisk> = Arc::new(array.open(&name, "esx01").unwrap());
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::default());
    Datastore::format(&disk, options, &runtime).await.unwrap();
    Datastore::mount(disk, &MountOptions::new("esx01"), runtime).await.unwrap()
}

/// Creates a datastore of 4 GiB.
pub(crate) async fn datastore() -> (MemoryArray, Datastore) {
    let array = MemoryArray::new("iqn.2026-11.org.ibid:vdisk");
    let ds = mount(&array, "ds1").await;
    (array, ds)
}

/// Creates two datastores on one array.
pub(crate) async fn two_datastores() -> (MemoryArray, Datastore, Datastore) {
    let array = MemoryArray::new("iqn.2026-11.org.ibid:vdisk");
    let (one, two) = (mount(&array, "ds1").await, mount(&array, "ds2").await);
    (array, one, two)
}
