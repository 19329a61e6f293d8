use super::*;
use crate::disk::VirtualDisk;
use crate::format::DiskFormat;
use crate::testing::{datastore, quiet};
use bytes::Bytes;
use multipath::{FaultHook, Injection, MemoryArray, Operation};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;

/// Returns a datastore after deletion of a disk with data, and the bytes that the array still
/// stores.
async fn datastore_after_delete() -> (MemoryArray, Datastore, u64) {
    let (array, ds) = datastore().await;
    let settings = MoverSettings::default();
    let (disk, _) = VirtualDisk::create(&ds, "a.vmdk", 64 * MIB, DiskFormat::Thin, settings, &quiet).await.unwrap();
    for mib in 0..64 {
        disk.write(mib * MIB, Bytes::from(vec![1; MIB as usize])).await.unwrap();
    }
    disk.close().await.unwrap();
    VirtualDisk::delete(&ds, "a.vmdk").await.unwrap();
    let stored = array.stored_bytes(&ds.disk().identity().name);
    assert!(stored >= 64 * MIB);
    (array, ds, stored)
}

#[tokio::test(start_paused = true)]
async fn unmap_runs_in_logged_iterations() {
    let (array, ds, stored) = datastore_after_delete().await;
    let lines = Mutex::new(Vec::new());
    let log = |line: &str| lines.lock().unwrap().push(line.to_owned());
    let free = ds.space().await.unwrap().free;
    let settings = MoverSettings::default();
    let summary = unmap(&ds, Some(100), CountRule::Any, settings, &log).await.unwrap();
    assert_eq!((summary.unit, summary.blocks, summary.overridden), (100, free, false));
    let lines = lines.into_inner().unwrap();
    assert_eq!(lines.len() as u64, summary.iterations);
    assert_eq!(lines[0], format!("Unmap: Async Unmapped 100 blocks from volume {}", ds.info().uuid));
    let name = ds.disk().identity().name.clone();
    assert!(stored - array.stored_bytes(&name) >= 64 * MIB);
    assert_eq!((ds.space().await.unwrap().free, ds.list("/").await.unwrap().len()), (free, 0));
}

#[tokio::test(start_paused = true)]
async fn unmap_unit_above_one_percent_is_overridden() {
    let (_array, ds, _) = datastore_after_delete().await;
    let summary = unmap(&ds, Some(60_000), CountRule::OnePercent, MoverSettings::default(), &|_| ()).await.unwrap();
    assert_eq!((summary.unit, summary.overridden), (200, true));
}

#[tokio::test(start_paused = true)]
async fn unmap_error_names_the_volume() {
    let (_array, ds, _) = datastore_after_delete().await;
    ds.disk().enable(Primitive::Delete, false);
    let refused = unmap(&ds, None, CountRule::Any, MoverSettings::default(), &|_| ()).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("Devices backing volume {} do not support UNMAP", ds.info().uuid));
    assert!(ds.list("/").await.unwrap().is_empty());
}

/// Makes every UNMAP take some time.
struct SlowUnmap;

impl FaultHook for SlowUnmap {
    fn inject(&self, _: &str, _: &str, operation: &Operation) -> Injection {
        let slow = matches!(operation, Operation::Unmap(_));
        Injection { before: Duration::from_secs(u64::from(slow)), ..Injection::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn balloon_can_fill_the_datastore() {
    let (array, ds, _) = datastore_after_delete().await;
    let settings = MoverSettings::default();
    let (thin, _) = VirtualDisk::create(&ds, "thin.vmdk", 1 << 30, DiskFormat::Thin, settings, &quiet).await.unwrap();
    array.set_hook(Some(Arc::new(SlowUnmap)));
    let free = ds.space().await.unwrap().free;
    let blocks = AtomicU64::new(0);
    let begin = |count: u64| blocks.store(count, Ordering::Relaxed);
    let balloon = balloon(&ds, ".vmfsBalloonA1b2C3", 99, settings, &begin);
    let guest = async {
        // Until the balloon file has its blocks.
        while ds.space().await.unwrap().free > free - free * 98 / 100 {
            tokio::task::yield_now().await;
        }
        for mib in 0..1024 {
            if thin.write(mib * MIB, Bytes::from(vec![2; 512])).await.is_err() {
                return mib;
            }
        }
        1024
    };
    let (summary, grown) = tokio::join!(balloon, guest);
    assert_eq!(summary.unwrap().blocks, free * 99 / 100);
    assert_eq!(blocks.into_inner(), free * 99 / 100);
    assert!(grown <= free - free * 99 / 100, "the thin disk got no further block: {grown}");
    assert!(ds.list("/").await.unwrap().iter().all(|entry| !entry.name.starts_with(".vmfsBalloon")));
    // After the balloon file is removed, the disk can grow again.
    thin.write(grown * MIB, Bytes::from(vec![2; 512])).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn automatic_unmap_keeps_the_rate_of_its_priority() {
    let (array, ds, stored) = datastore_after_delete().await;
    let name = ds.disk().identity().name.clone();
    let round = automatic(&ds, ReclaimPriority::Low, MoverSettings::default());
    tokio::pin!(round);
    assert!(tokio::time::timeout(Duration::from_secs(64 / 25), &mut round).await.is_err(), "25 MB/s");
    let summary = round.await.unwrap();
    assert!(summary.blocks >= 64 && summary.blocks < 80, "only mapped blocks: {}", summary.blocks);
    // The block map of the file that held the blocks is new and small.
    assert!(stored - array.stored_bytes(&name) >= 60 * MIB);
    let again = automatic(&ds, ReclaimPriority::High, MoverSettings::default()).await.unwrap();
    assert_eq!(again.blocks, 0);
    assert_eq!(automatic(&ds, ReclaimPriority::None, MoverSettings::default()).await.unwrap(), UnmapSummary::default());
}

#[tokio::test(start_paused = true)]
async fn stopped_automatic_unmap_frees_its_blocks() {
    let (_array, ds, _) = datastore_after_delete().await;
    let free = ds.space().await.unwrap().free;
    let stop = AtomicBool::new(false);
    let settings = MoverSettings::default();
    let later = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        stop.store(true, Ordering::Relaxed);
    };
    let (summary, ()) = tokio::join!(automatic_until(&ds, ReclaimPriority::Low, settings, &stop), later);
    assert_eq!(summary.unwrap().blocks, 50, "two seconds' worth");
    assert_eq!((ds.space().await.unwrap().free, ds.list("/").await.unwrap().len()), (free, 0));
}

#[tokio::test(start_paused = true)]
async fn unmaps_at_once_succeed_or_find_the_file_in_use() {
    let (_array, ds, _) = datastore_after_delete().await;
    let free = ds.space().await.unwrap().free;
    for round in 0..20 {
        let begin = |delay: u64| {
            let ds = &ds;
            async move {
                tokio::time::sleep(Duration::from_micros(delay * round * 7)).await;
                unmap(ds, Some(free / (1 + delay)), CountRule::Any, MoverSettings::default(), &|_| ()).await
            }
        };
        for outcome in futures_util::future::join_all((0..4).map(begin)).await {
            match outcome {
                Ok(summary) => assert!(summary.blocks <= free),
                Err(VirtualDiskError::Datastore(DatastoreError::Locked { .. })) => {}
                Err(error) => panic!("round {round}: {error}"),
            }
        }
        assert_eq!((ds.space().await.unwrap().free, ds.list("/").await.unwrap().len()), (free, 0));
    }
}
