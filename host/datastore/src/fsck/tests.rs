use super::*;
use crate::heartbeat::sector_of;
use crate::layout::cluster::Cluster;
use crate::layout::descriptor::Descriptor;
use crate::layout::geometry::Resource;
use crate::layout::image_of;
use crate::layout::lock::{Guarded, Kind};
use crate::layout::superblock::Superblock;
use crate::{Datastore, FormatOptions, Mode, MountOptions, TokioRuntime};
use bytes::Bytes;
use multipath::MemoryArray;

async fn filled() -> (Arc<dyn SharedDisk>, Arc<dyn Runtime>, Superblock, u64) {
    let array = MemoryArray::new("iqn.2026-11.test:array");
    let name = array.create(2 << 20);
    let disk: Arc<dyn SharedDisk> = Arc::new(array.open(&name, "a").unwrap());
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::default());
    Datastore::format(&disk, &FormatOptions::new("checked", Mode::V6), &runtime).await.unwrap();
    let datastore = Datastore::mount(Arc::clone(&disk), &MountOptions::new("a"), Arc::clone(&runtime)).await.unwrap();
    datastore.create_directory("/vm").await.unwrap();
    datastore.write_file("/vm/vm.vmx", &[1; 100]).await.unwrap();
    let file = datastore.create("/vm/vm.vmdk").await.unwrap();
    file.set_size(40 << 20).await.unwrap();
    file.allocate(0..40, crate::BlockFill::Written).await.unwrap();
    file.close().await.unwrap();
    datastore.unmount().await.unwrap();
    let found = volume_of(&disk, &runtime, Timing::default(), crate::io::Purpose::Inspect).await.unwrap().unwrap();
    (disk, runtime, found.superblock, found.partition)
}

/// Changes one sector of metadata.
async fn edit<T: Guarded>(disk: &Arc<dyn SharedDisk>, lba: u64, change: impl FnOnce(&mut T)) {
    let image = image_of(&disk.read(lba, 1).await.unwrap());
    let mut content = T::read_from_bytes(&image).unwrap();
    change(&mut content);
    disk.write(lba, Bytes::copy_from_slice(&content.encode())).await.unwrap();
}

#[tokio::test]
async fn check_of_an_intact_datastore_is_clean() {
    let (disk, runtime, ..) = filled().await;
    let report = check(&disk, &runtime).await.unwrap();
    assert_eq!((report.problems, report.notes), (vec![], vec![]));
    assert_eq!((report.files, report.directories, report.blocks_used), (2, 2, 41));
}

#[tokio::test]
async fn check_reports_a_dead_host_as_a_note() {
    let (disk, runtime, ..) = filled().await;
    let datastore = Datastore::mount(Arc::clone(&disk), &MountOptions::new("b"), Arc::clone(&runtime)).await.unwrap();
    let file = datastore.create("/open").await.unwrap();
    let report = check(&disk, &runtime).await.unwrap();
    assert_eq!(report.problems, []);
    assert!(
        report.notes.contains(&CheckNote::OpenFile { descriptor: file.descriptor(), slot: datastore.owner().slot })
    );
    assert!(
        matches!(&report.notes[0], CheckNote::Host { name, unfinished: false, .. } if name == "b"),
        "{:?}",
        report.notes
    );
}

#[tokio::test]
async fn check_reports_every_kind_of_damage() {
    let (disk, runtime, superblock, partition) = filled().await;
    let geometry = superblock.geometry;
    let cluster = |resource, index| partition + geometry.cluster_sector(resource, index);
    let problems = async || check(&disk, &runtime).await.unwrap().problems;
    // A file's block that its cluster marks as free, and a wrong free count with it.
    let mut block = 0;
    for index in 0..geometry.clusters(Resource::Blocks) {
        let image = image_of(&disk.read(cluster(Resource::Blocks, index), 1).await.unwrap());
        let found = Cluster::load(&image, Resource::Blocks, index, &geometry, superblock.uuid).unwrap();
        if found.free() == 0 {
            block = index * geometry.blocks_per_cluster;
            break;
        }
    }
    let sector = cluster(Resource::Blocks, block / geometry.blocks_per_cluster);
    edit::<Cluster>(&disk, sector, |cluster| assert!(cluster.free_item(0))).await;
    assert_eq!(problems().await, [Problem::NotMarked { what: "block", number: block }]);
    edit::<Cluster>(&disk, sector, |cluster| assert!(cluster.take(0))).await;
    // Pages that no file uses.
    edit::<Cluster>(&disk, cluster(Resource::Pages, 1), |cluster| assert!(cluster.take(5) && cluster.take(7))).await;
    assert_eq!(problems().await, [Problem::Leaked { what: "page", first: 261, count: 2 }]);
    edit::<Cluster>(&disk, cluster(Resource::Pages, 1), |cluster| {
        assert!(cluster.free_item(5) && cluster.free_item(7));
    })
    .await;
    // A descriptor that is cleared: its directory entry dangles and its blocks are leaked.
    let victim = (0..geometry.descriptors).rev();
    let mut lost = None;
    for index in victim {
        let image = image_of(&disk.read(partition + geometry.descriptor_sector(index), 1).await.unwrap());
        let descriptor = Descriptor::decode(&image, Kind::Descriptor, index, superblock.uuid).unwrap();
        if descriptor.leaves.get() == 40 {
            lost = Some((index, image));
        }
    }
    let (index, image) = lost.unwrap();
    let lba = partition + geometry.descriptor_sector(index);
    edit::<Descriptor>(&disk, lba, Descriptor::end).await;
    let found = problems().await;
    let dangling = |problem: &Problem| matches!(problem, Problem::Dangling { name, .. } if name == "vm.vmdk");
    assert!(found.iter().any(dangling), "{found:?}");
    assert!(found.contains(&Problem::Leaked { what: "descriptor", first: index, count: 1 }), "{found:?}");
    assert!(found.iter().any(|problem| matches!(problem, Problem::Leaked { what: "block", .. })), "{found:?}");
    disk.write(lba, Bytes::copy_from_slice(&image)).await.unwrap();
    // Damaged sectors.
    disk.write(partition, Bytes::from_static(&[0; 512])).await.unwrap();
    disk.write(partition + sector_of(9), Bytes::from_static(&[0; 512])).await.unwrap();
    let expected = [Problem::Superblock { sector: 0 }, Problem::Slot { index: 9, sector: sector_of(9) }];
    assert_eq!(problems().await, expected);
    assert!(expected.iter().all(|problem| !problem.to_string().is_empty()));
}

#[tokio::test(start_paused = true)]
async fn fix_frees_locks_and_space_of_dead_hosts() {
    let (disk, runtime, superblock, partition) = filled().await;
    let dead = Datastore::mount(Arc::clone(&disk), &MountOptions::new("dead"), Arc::clone(&runtime)).await.unwrap();
    let _file = dead.open("/vm/vm.vmdk", crate::FileAccess::Write).await.unwrap();
    let _reader = dead.open("/vm/vm.vmx", crate::FileAccess::Read).await.unwrap();
    // The heartbeat stops, and nothing is released.
    dead.mounted().io.lease.end();
    let sector = partition + superblock.geometry.cluster_sector(Resource::Pages, 1);
    edit::<Cluster>(&disk, sector, |cluster| assert!(cluster.take(5) && cluster.take(7))).await;
    let options = MountOptions::new("fixer");
    let live = Datastore::mount(Arc::clone(&disk), &MountOptions::new("live"), Arc::clone(&runtime)).await.unwrap();
    let first = fix(&disk, &options, &runtime).await.unwrap();
    assert_eq!((first.broken_hosts, first.live_hosts), (vec!["dead".to_owned()], vec!["live".to_owned()]));
    assert_eq!((first.released_locks, first.cleared_readers, first.repaired_clusters), (1, 1, 0));
    live.unmount().await.unwrap();
    let second = fix(&disk, &options, &runtime).await.unwrap();
    assert_eq!(second, FixReport { repaired_clusters: 1, ..FixReport::default() });
    let report = check(&disk, &runtime).await.unwrap();
    assert_eq!((report.problems, report.notes, report.blocks_used), (vec![], vec![], 41));
}
