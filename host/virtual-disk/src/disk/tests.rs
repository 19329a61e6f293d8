use super::*;
use crate::mover::HostCopyReason;
use crate::offload::OffloadForbidden;
use crate::testing::{datastore, mount_with, quiet, two_datastores};
use multipath::Primitive;

const MIB: u64 = 1 << 20;

async fn create(ds: &Datastore, path: &str, mib: u64, format: DiskFormat) -> VirtualDisk {
    VirtualDisk::create(ds, path, mib * MIB, format, MoverSettings::default(), &quiet).await.unwrap().0
}

fn pattern(byte: u8, bytes: u64) -> Bytes {
    Bytes::from(vec![byte; bytes as usize])
}

#[tokio::test(start_paused = true)]
async fn only_eager_zeroed_disks_are_zeroed_at_creation() {
    let (_array, ds) = datastore().await;
    for (format, zeroed, allocated) in [
        (DiskFormat::EagerZeroedThick, 16, (16, 0)),
        (DiskFormat::ZeroedThick, 0, (16, 16)),
        (DiskFormat::Thin, 0, (0, 0)),
    ] {
        let path = format!("{format}.vmdk");
        let (disk, work) =
            VirtualDisk::create(&ds, &path, 16 * MIB, format, MoverSettings::default(), &quiet).await.unwrap();
        assert_eq!((work.write_same.commands, disk.allocated()), (zeroed, allocated), "{format}");
        assert_eq!(disk.format(), format);
        disk.close().await.unwrap();
        VirtualDisk::check(&ds, &path).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn reopened_disk_has_the_same_content() {
    let (_array, ds) = datastore().await;
    for format in DiskFormat::ALL {
        let path = format!("{format}.vmdk");
        let disk = create(&ds, &path, 8, format).await;
        disk.write(3 * MIB + 512, pattern(7, 4096)).await.unwrap();
        disk.close().await.unwrap();
        let disk = VirtualDisk::open(&ds, &path, FileAccess::Read, MoverSettings::default()).await.unwrap();
        assert_eq!((disk.bytes(), disk.format()), (8 * MIB, format));
        let read = disk.read(3 * MIB, 8192).await.unwrap();
        assert!(read[..512].iter().all(|b| *b == 0) && read[512..4608].iter().all(|b| *b == 7));
        disk.close().await.unwrap();
        assert!(matches!(disk.read(0, 512).await, Err(VirtualDiskError::Retired)));
    }
}

#[tokio::test(start_paused = true)]
async fn disk_has_one_writer_or_many_readers() {
    let (_array, ds) = datastore().await;
    let settings = MoverSettings::default();
    let disk = create(&ds, "a.vmdk", 2, DiskFormat::Thin).await;
    let second = VirtualDisk::open(&ds, "a.vmdk", FileAccess::Write, settings).await;
    assert!(matches!(second.err(), Some(VirtualDiskError::Datastore(datastore::DatastoreError::Locked { .. }))));
    disk.close().await.unwrap();
    let one = VirtualDisk::open(&ds, "a.vmdk", FileAccess::Read, settings).await.unwrap();
    let two = VirtualDisk::open(&ds, "a.vmdk", FileAccess::Read, settings).await.unwrap();
    one.close().await.unwrap();
    two.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn clone_copies_written_blocks_by_xcopy() {
    let (_array, here, there) = two_datastores().await;
    let disk = create(&here, "template.vmdk", 64, DiskFormat::ZeroedThick).await;
    for mib in 0..32 {
        disk.write(mib * MIB, pattern(mib as u8 + 1, 4096)).await.unwrap();
    }
    let (copy, report) = disk.clone_to(&CopyTarget::new(&there, "copy.vmdk"), &quiet).await.unwrap();
    assert_eq!(report.by_host, None);
    assert_eq!((report.work.xcopy.commands, report.work.xcopy.bytes), (8, 32 * MIB), "32 of 64 MiB, 4 MiB a command");
    assert_eq!((report.work.read.commands, report.work.write.commands), (0, 0));
    assert_eq!((copy.format(), copy.allocated()), (DiskFormat::ZeroedThick, (64, 32)));
    assert_eq!(copy.read(0, 64 * MIB).await.unwrap(), disk.read(0, 64 * MIB).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn clone_converts_between_all_formats() {
    let (_array, here, there) = two_datastores().await;
    for from in DiskFormat::ALL {
        let disk = create(&here, &format!("{from}.vmdk"), 12, from).await;
        for mib in [0, 3, 4, 9] {
            disk.write(mib * MIB + 8192, pattern(mib as u8 + 1, 4096)).await.unwrap();
        }
        let expected = disk.read(0, 12 * MIB).await.unwrap();
        for to in DiskFormat::ALL {
            let target = CopyTarget { format: Some(to), ..CopyTarget::new(&there, &format!("{from}-{to}.vmdk")) };
            let (copy, report) = disk.clone_to(&target, &quiet).await.unwrap();
            assert_eq!(copy.read(0, 12 * MIB).await.unwrap(), expected, "{from} {to}");
            let forbidden = from == DiskFormat::EagerZeroedThick && to == DiskFormat::Thin;
            let why = forbidden.then_some(HostCopyReason::Forbidden(OffloadForbidden::EagerZeroedToThin));
            assert_eq!(report.by_host, why, "{from} {to}");
            assert_eq!(report.work.xcopy.commands == 0, forbidden);
            // A thin copy has only the written blocks; an eager-zeroed source is written entirely.
            let all = if from == DiskFormat::EagerZeroedThick { 12 } else { 4 };
            assert_eq!(copy.allocated().0, if to == DiskFormat::Thin { all } else { 12 }, "{from} {to}");
            copy.close().await.unwrap();
        }
        disk.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn thin_source_copy_size_depends_on_the_release() {
    use crate::transfer::EsxiRelease;
    let (_array, here, there) = two_datastores().await;
    let disk = create(&here, "a.vmdk", 32, DiskFormat::Thin).await;
    for mib in 0..32 {
        disk.write(mib * MIB, pattern(1, 512)).await.unwrap();
    }
    disk.close().await.unwrap();
    for (release, commands) in [(EsxiRelease::Esxi5, 32), (EsxiRelease::Esxi6, 2)] {
        let settings = MoverSettings { release, max_transfer_kib: 16384, ..MoverSettings::default() };
        let disk = VirtualDisk::open(&here, "a.vmdk", FileAccess::Read, settings).await.unwrap();
        let target = CopyTarget::new(&there, &format!("{release:?}.vmdk"));
        let (copy, report) = disk.clone_to(&target, &quiet).await.unwrap();
        assert_eq!(report.work.xcopy.commands, commands, "{release:?}");
        copy.close().await.unwrap();
        disk.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn clone_without_xcopy_goes_through_the_host() {
    let (array, here, there) = two_datastores().await;
    array.refuse(&here.disk().identity().name, Primitive::Clone, true);
    let disk = create(&here, "a.vmdk", 8, DiskFormat::EagerZeroedThick).await;
    disk.write(5 * MIB, pattern(9, 4096)).await.unwrap();
    let (copy, report) = disk.clone_to(&CopyTarget::new(&there, "b.vmdk"), &quiet).await.unwrap();
    assert_eq!((report.by_host, report.work.read.bytes), (Some(HostCopyReason::Refused), 8 * MIB));
    assert_eq!(copy.read(0, 8 * MIB).await.unwrap(), disk.read(0, 8 * MIB).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn migration_moves_a_disk_and_removes_old_files() {
    let (_array, here, there) = two_datastores().await;
    let before = (here.space().await.unwrap().free, there.space().await.unwrap().free);
    let disk = create(&here, "a.vmdk", 16, DiskFormat::ZeroedThick).await;
    disk.write(MIB, pattern(5, MIB)).await.unwrap();
    let guest = disk.clone();
    let target = CopyTarget { format: Some(DiskFormat::Thin), ..CopyTarget::new(&there, "b.vmdk") };
    let report = disk.migrate(&target, &quiet).await.unwrap();
    assert_eq!((report.by_host, report.work.xcopy.bytes), (None, MIB));
    guest.write(0, pattern(6, 512)).await.unwrap();
    assert_eq!((guest.path().as_str(), guest.format(), guest.allocated().0), ("b.vmdk", DiskFormat::Thin, 2));
    assert_eq!(here.list("/").await.unwrap().len(), 0);
    guest.close().await.unwrap();
    VirtualDisk::delete(&there, "b.vmdk").await.unwrap();
    let after = (here.space().await.unwrap().free, there.space().await.unwrap().free);
    assert_eq!(after, before, "all blocks were freed");
}

#[tokio::test(start_paused = true)]
async fn failed_creation_leaves_no_files() {
    let (_array, ds) = datastore().await;
    let before = ds.space().await.unwrap();
    let settings = MoverSettings::default();
    let too_large = VirtualDisk::create(&ds, "big.vmdk", 1 << 40, DiskFormat::ZeroedThick, settings, &quiet).await;
    assert!(matches!(too_large.err(), Some(VirtualDiskError::Datastore(datastore::DatastoreError::NoSpace))));
    assert_eq!((ds.space().await.unwrap().free, ds.list("/").await.unwrap().len()), (before.free, 0));
    let first = create(&ds, "a.vmdk", 1, DiskFormat::Thin).await;
    let again = VirtualDisk::create(&ds, "a.vmdk", MIB, DiskFormat::Thin, settings, &quiet).await;
    assert!(matches!(again.err(), Some(VirtualDiskError::Datastore(datastore::DatastoreError::Exists))));
    first.write(0, pattern(1, 512)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn disks_are_converted_and_grown_in_place() {
    let (_array, ds) = datastore().await;
    let thin = create(&ds, "a.vmdk", 8, DiskFormat::Thin).await;
    thin.write(2 * MIB, pattern(1, MIB)).await.unwrap();
    thin.write(4 * MIB, pattern(0, MIB)).await.unwrap();
    assert_eq!((thin.allocated().0, thin.punch_zeros(&quiet).await.unwrap(), thin.allocated().0), (2, 1, 1));
    thin.inflate(&quiet).await.unwrap();
    assert_eq!((thin.format(), thin.allocated()), (DiskFormat::EagerZeroedThick, (8, 0)));
    assert!(matches!(thin.punch_zeros(&quiet).await, Err(VirtualDiskError::NotThin)));
    assert!(matches!(thin.unmap(0, MIB).await, Err(VirtualDiskError::NotThin)));
    let grown = thin.grow(10 * MIB + 512, false, &quiet).await.unwrap();
    assert_eq!((grown.bytes(), grown.allocated()), (10 * MIB + 512, (11, 0)), "the disk stays eager-zeroed");
    assert_eq!(grown.read(2 * MIB, MIB).await.unwrap(), pattern(1, MIB));
    grown.write_zeros(&quiet).await.unwrap();
    assert!(grown.read(0, grown.bytes()).await.unwrap().iter().all(|byte| *byte == 0));
    assert!(matches!(grown.grow(MIB, false, &quiet).await, Err(VirtualDiskError::NotLarger)));
    let lazy = create(&ds, "b.vmdk", 4, DiskFormat::ZeroedThick).await;
    lazy.eager_zero(&quiet).await.unwrap();
    assert_eq!(lazy.format(), DiskFormat::EagerZeroedThick);
}

#[tokio::test(start_paused = true)]
async fn sequential_first_writes_share_metadata_changes() {
    const BLOCKS: u64 = 256;
    let (_array, ds) = datastore().await;
    for format in [DiskFormat::Thin, DiskFormat::ZeroedThick] {
        let disk = create(&ds, &format!("{format}.vmdk"), BLOCKS, format).await;
        let before = ds.disk().counters();
        for block in 0..BLOCKS {
            disk.write(block * MIB, pattern(1, 512)).await.unwrap();
        }
        let sent = ds.disk().counters().since(&before);
        // One change for each block takes 3 COMPARE AND WRITE and 4 journal and metadata writes.
        assert!(sent.ats.done * 2 < BLOCKS, "{format}: {} COMPARE AND WRITE", sent.ats.done);
        assert!((sent.writes - BLOCKS) * 2 < BLOCKS, "{format}: {} metadata writes", sent.writes - BLOCKS);
        disk.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn blocks_prepared_ahead_are_freed_and_not_copied() {
    let (_array, here, there) = two_datastores().await;
    let free = here.space().await.unwrap().free;
    let disk = create(&here, "a.vmdk", 64, DiskFormat::Thin).await;
    for block in 0..21 {
        disk.write(block * MIB, pattern(block as u8 + 1, 512)).await.unwrap();
    }
    assert_eq!(disk.allocated().0, 37, "16 blocks after the last one");
    let (copy, report) = disk.clone_to(&CopyTarget::new(&there, "b.vmdk"), &quiet).await.unwrap();
    assert_eq!((copy.allocated().0, report.work.xcopy.bytes), (21, 21 * MIB));
    disk.close().await.unwrap();
    let disk = VirtualDisk::open(&here, "a.vmdk", FileAccess::Write, MoverSettings::default()).await.unwrap();
    assert_eq!(disk.allocated().0, 21);
    assert_eq!(copy.read(0, 64 * MIB).await.unwrap(), disk.read(0, 64 * MIB).await.unwrap());
    disk.write(21 * MIB, pattern(7, 512)).await.unwrap();
    disk.write(22 * MIB, pattern(7, 512)).await.unwrap();
    let disk = disk.grow(65 * MIB, false, &quiet).await.unwrap();
    disk.close().await.unwrap();
    let left = here.stat("a-flat.vmdk").await.unwrap();
    VirtualDisk::delete(&here, "a.vmdk").await.unwrap();
    assert_eq!((left.blocks, here.space().await.unwrap().free), (23, free));
}

#[tokio::test(start_paused = true)]
async fn rename_moves_descriptor_and_flat_file() {
    let (_array, ds) = datastore().await;
    create(&ds, "a.vmdk", 1, DiskFormat::Thin).await.close().await.unwrap();
    VirtualDisk::rename(&ds, "a.vmdk", "b.vmdk").await.unwrap();
    let names: Vec<_> = ds.list("/").await.unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), 2);
    assert!(names.contains(&"b.vmdk".to_owned()) && names.contains(&"b-flat.vmdk".to_owned()));
    VirtualDisk::check(&ds, "b.vmdk").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn raw_device_and_hosted_disk_are_copied_by_the_host() {
    let (array, ds) = datastore().await;
    let settings = MoverSettings::default();
    let name = array.create(8 * MIB / 512);
    let device: Arc<dyn SharedDisk> = Arc::new(array.open(&name, "esx01").unwrap());
    device.write(100, Bytes::from(vec![7; 512])).await.unwrap();
    crate::create_mapping(&ds, "raw.vmdk", device.as_ref()).await.unwrap();
    assert_eq!(crate::mapped_device(&ds, "raw.vmdk").await.unwrap(), Some(name));
    assert!(matches!(
        VirtualDisk::open(&ds, "raw.vmdk", FileAccess::Read, settings).await.err(),
        Some(VirtualDiskError::Kind)
    ));
    let raw = VirtualDisk::open_mapping(&ds, "raw.vmdk", device, settings).await.unwrap();
    let target = CopyTarget { kind: CreateType::HostedFlat, ..CopyTarget::new(&ds, "hosted.vmdk") };
    let (hosted, report) = raw.clone_to(&target, &quiet).await.unwrap();
    assert_eq!(report.by_host.unwrap().to_string(), OffloadForbidden::RdmToVirtualDisk.to_string());
    assert_eq!(hosted.read(100 * 512, 512).await.unwrap(), vec![7; 512]);
    let (_, report) = hosted.clone_to(&CopyTarget::new(&ds, "plain.vmdk"), &quiet).await.unwrap();
    assert_eq!(report.by_host.unwrap().to_string(), OffloadForbidden::SparseOrHosted.to_string());
    assert_eq!(crate::mapped_device(&ds, "plain.vmdk").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn block_sizes_differ_and_copies_go_through_the_host() {
    let (array, small) = datastore().await;
    let options =
        datastore::FormatOptions { block_mib: 8, ..datastore::FormatOptions::new("ds8", datastore::Mode::V5) };
    let large = mount_with(&array, &options).await;
    assert_eq!(large.info().block_bytes, 8 * MIB);
    // Old data of the device must not appear in the rest of a block.
    let old = create(&large, "old.vmdk", 64, DiskFormat::ZeroedThick).await;
    for at in 0..64 {
        old.write(at * MIB, pattern(9, MIB)).await.unwrap();
    }
    old.close().await.unwrap();
    VirtualDisk::delete(&large, "old.vmdk").await.unwrap();
    for format in DiskFormat::ALL {
        let disk = create(&small, "a.vmdk", 21, DiskFormat::Thin).await;
        for at in [2, 3, 11, 20] {
            disk.write(at * MIB, pattern(at as u8, MIB)).await.unwrap();
        }
        let there = CopyTarget { format: Some(format), ..CopyTarget::new(&large, "b.vmdk") };
        let (copy, report) = disk.clone_to(&there, &quiet).await.unwrap();
        assert_eq!(report.by_host, Some(HostCopyReason::Forbidden(OffloadForbidden::BlockSizes)));
        let (back, report) = copy.clone_to(&CopyTarget::new(&small, "c.vmdk"), &quiet).await.unwrap();
        assert_eq!(report.by_host, Some(HostCopyReason::Forbidden(OffloadForbidden::BlockSizes)));
        for at in 0..21 {
            let byte = if [2, 3, 11, 20].contains(&at) { at as u8 } else { 0 };
            assert_eq!(copy.read(at * MIB, MIB).await.unwrap(), pattern(byte, MIB), "{format} {at}");
            assert_eq!(back.read(at * MIB, MIB).await.unwrap(), pattern(byte, MIB), "{format} {at}");
        }
        for (ds, disk, path) in [(&small, disk, "a.vmdk"), (&large, copy, "b.vmdk"), (&small, back, "c.vmdk")] {
            disk.close().await.unwrap();
            VirtualDisk::delete(ds, path).await.unwrap();
        }
    }
    let space = large.space().await.unwrap();
    assert_eq!(space.free, space.blocks);
}
