use super::*;
use crate::{BlockFill, Datastore, FormatOptions, Mode, MountOptions, TokioRuntime};
use multipath::MemoryArray;

struct Lab {
    arrays: [MemoryArray; 2],
    names: Vec<(usize, String)>,
    runtime: Arc<dyn Runtime>,
}

impl Lab {
    /// Creates a datastore of 64 MiB, and devices of 512 and of 96 MiB, the last on another array.
    async fn new() -> Self {
        let arrays = ["iqn.2026-11.test:a", "iqn.2026-11.test:b"].map(MemoryArray::new);
        let sizes = [(0, 64), (0, 512), (1, 96)];
        let names = sizes.map(|(at, mib): (usize, u64)| (at, arrays[at].create(mib << 11))).to_vec();
        let lab = Self { arrays, names, runtime: Arc::new(TokioRuntime::default()) };
        Datastore::format(&lab.disk(0), &FormatOptions::new("ds", Mode::V5), &lab.runtime).await.unwrap();
        lab
    }

    fn disk(&self, number: usize) -> Arc<dyn SharedDisk> {
        let (array, name) = &self.names[number];
        Arc::new(self.arrays[*array].open(name, "a").unwrap())
    }

    async fn whole(&self) -> Arc<dyn SharedDisk> {
        let others = [self.disk(2), self.disk(1)];
        Datastore::whole_disk(&self.disk(0), &others, &self.runtime).await.unwrap()
    }

    async fn mount(&self) -> Datastore {
        Datastore::mount(self.whole().await, &MountOptions::new("a"), Arc::clone(&self.runtime)).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn extended_datastore_uses_all_extents() {
    let lab = Lab::new().await;
    let one = lab.mount().await;
    let before = one.space().await.unwrap();
    let refused = Datastore::extend(&lab.disk(0), &lab.disk(1), &lab.runtime).await;
    assert!(matches!(refused, Err(DatastoreError::Unsuitable(_))), "mounted: {refused:?}");
    one.unmount().await.unwrap();
    for number in [1, 2] {
        Datastore::extend(&lab.whole().await, &lab.disk(number), &lab.runtime).await.unwrap();
    }
    let again = Datastore::extend(&lab.whole().await, &lab.disk(1), &lab.runtime).await;
    assert!(matches!(again, Err(DatastoreError::Unsuitable(_))), "{again:?}");
    let datastore = lab.mount().await;
    assert_eq!(datastore.info().extents, 3);
    let space = datastore.space().await.unwrap();
    assert_eq!(space.free, space.blocks);
    assert!((before.blocks + 600..before.blocks + 608).contains(&space.blocks), "{space:?} after {before:?}");
    let file = datastore.create("all").await.unwrap();
    file.set_size(space.blocks << 20).await.unwrap();
    file.allocate(0..space.blocks, BlockFill::ToBeZeroed).await.unwrap();
    assert_eq!(datastore.space().await.unwrap().free, 0);
    let places = file.extents(0..space.blocks);
    assert!(places.len() >= 3, "{places:?}");
    // The first and last byte of each run of blocks.
    for (at, byte) in places.iter().zip(1..) {
        file.write(at.block << 20, &[byte]).await.unwrap();
        file.write(((at.block + at.blocks) << 20) - 1, &[byte]).await.unwrap();
    }
    file.close().await.unwrap();
    datastore.unmount().await.unwrap();
    let report = crate::check(&lab.whole().await, &lab.runtime).await.unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    let datastore = lab.mount().await;
    let file = datastore.open("all", crate::FileAccess::Read).await.unwrap();
    for (at, byte) in places.iter().zip(1..) {
        assert_eq!(file.read(at.block << 20, 1).await.unwrap(), [byte]);
        assert_eq!(file.read(((at.block + at.blocks) << 20) - 1, 1).await.unwrap(), [byte]);
    }
    file.close().await.unwrap();
    datastore.remove("all").await.unwrap();
    assert_eq!(datastore.space().await, Ok(space));
    datastore.unmount().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn missing_extent_is_reported_and_not_mounted() {
    let lab = Lab::new().await;
    Datastore::extend(&lab.disk(0), &lab.disk(1), &lab.runtime).await.unwrap();
    let missing = Some(DatastoreError::MissingExtent(1));
    assert_eq!(Datastore::whole_disk(&lab.disk(0), &[lab.disk(2)], &lab.runtime).await.err(), missing);
    let options = MountOptions::new("a");
    assert_eq!(Datastore::mount(lab.disk(0), &options, Arc::clone(&lab.runtime)).await.err(), missing);
    assert_eq!(Datastore::probe_space(&lab.disk(0), &lab.runtime).await.err(), missing);
    assert_eq!(crate::check(&lab.disk(0), &lab.runtime).await.err(), missing);
    // A new datastore on the first device has no extents.
    Datastore::format(&lab.disk(0), &FormatOptions::new("new", Mode::V6), &lab.runtime).await.unwrap();
    assert_eq!(Datastore::probe(&lab.disk(0), &lab.runtime).await.unwrap().map(|info| info.extents), Some(1));
}
