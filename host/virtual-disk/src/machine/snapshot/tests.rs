use super::*;
use crate::descriptor::CreateType;
use crate::disk::CopyTarget;
use crate::format::DiskFormat;
use crate::machine::DiskSpec;
use crate::mover::{HostCopyReason, MoverSettings};
use crate::offload::OffloadForbidden;
use crate::store::FileAccess;
use crate::testing::{datastore, quiet};
use crate::vmx::Vmx;
use bytes::Bytes;

const MIB: u64 = 1 << 20;

async fn machine(ds: &Datastore, format: DiskFormat) -> VirtualMachine {
    let vmx = Vmx { memory_mib: 4, ..Vmx::new("vm") };
    let spec = DiskSpec { bytes: 8 * MIB + 4096, format };
    VirtualMachine::create(ds, vmx, &[spec], MoverSettings::default(), &quiet).await.unwrap()
}

/// Writes a byte at places of the machine's disk.
async fn write(machine: &VirtualMachine, byte: u8, places: &[u64]) {
    let path = &machine.disk_paths()[0];
    let disk = VirtualDisk::open(machine.datastore(), path, FileAccess::Write, MoverSettings::default()).await.unwrap();
    for at in places {
        disk.write(*at, Bytes::from(vec![byte; 4096])).await.unwrap();
    }
    disk.close().await.unwrap();
}

/// Returns the first byte at places of the machine's disk.
async fn read(machine: &VirtualMachine, places: &[u64]) -> Vec<u8> {
    let path = &machine.disk_paths()[0];
    let disk = VirtualDisk::open(machine.datastore(), path, FileAccess::Read, MoverSettings::default()).await.unwrap();
    let mut found = Vec::new();
    for at in places {
        found.push(disk.read(*at, 4096).await.unwrap()[0]);
    }
    // Across blocks, with and without own data.
    let all = disk.read(0, disk.bytes()).await.unwrap();
    assert!(places.iter().zip(&found).all(|(at, byte)| all[*at as usize] == *byte));
    disk.close().await.unwrap();
    found
}

const PLACES: [u64; 6] = [0, 4096, 3 * MIB, 5 * MIB + 8192, 7 * MIB, 8 * MIB];

#[tokio::test(start_paused = true)]
async fn snapshots_freeze_revert_and_merge() {
    for format in DiskFormat::ALL {
        let (_array, ds) = datastore().await;
        let mut vm = machine(&ds, format).await;
        write(&vm, 1, &[0, 4096, 8 * MIB]).await;
        vm.take_snapshot("first").await.unwrap();
        write(&vm, 2, &[4096, 3 * MIB]).await;
        vm.take_snapshot("second").await.unwrap();
        write(&vm, 3, &[3 * MIB, 5 * MIB + 8192]).await;
        assert_eq!(read(&vm, &PLACES).await, [1, 2, 3, 3, 0, 1], "{format}");
        let mut vm = VirtualMachine::open(&ds, "vm", MoverSettings::default()).await.unwrap();
        let names: Vec<String> = vm.snapshots().await.unwrap().into_iter().map(|snapshot| snapshot.name).collect();
        assert_eq!((names, vm.has_snapshots().await.unwrap()), (vec!["first".to_owned(), "second".to_owned()], true));
        vm.revert().await.unwrap();
        assert_eq!(read(&vm, &PLACES).await, [1, 2, 2, 0, 0, 1], "{format}");
        write(&vm, 4, &[7 * MIB]).await;
        vm.remove_snapshots(&quiet).await.unwrap();
        assert_eq!(read(&vm, &PLACES).await, [1, 2, 2, 0, 4, 1], "{format}");
        assert!(!vm.has_snapshots().await.unwrap());
        let left: Vec<String> = ds.list("vm").await.unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(left, ["vm-flat.vmdk", "vm.vmdk", "vm.vmsd", "vm.vmx"], "{format}");
        assert!(matches!(vm.remove_snapshots(&quiet).await, Err(VirtualDiskError::Snapshots(_))));
        vm.remove().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn interrupted_removal_leaves_no_snapshots() {
    let (_array, ds) = datastore().await;
    let mut vm = machine(&ds, DiskFormat::Thin).await;
    write(&vm, 1, &[0, 4096]).await;
    vm.take_snapshot("first").await.unwrap();
    write(&vm, 2, &[4096, 3 * MIB]).await;
    vm.take_snapshot("second").await.unwrap();
    write(&vm, 3, &[3 * MIB]).await;
    let before = read(&vm, &PLACES).await;
    // The changes of the first snapshot are merged, those of the second cannot be read.
    let names = ds.list("vm").await.unwrap().into_iter().map(|entry| entry.name);
    let data = names.filter(|name| name.contains("-000002") && !name.ends_with("-000002.vmdk")).collect::<Vec<_>>();
    assert_eq!(data.len(), 1, "{data:?}");
    let (file, away) = (format!("vm/{}", data[0]), "vm/away");
    ds.rename(&file, away).await.unwrap();
    assert!(vm.remove_snapshots(&quiet).await.is_err());
    ds.rename(away, &file).await.unwrap();
    let mut vm = VirtualMachine::open(&ds, "vm", MoverSettings::default()).await.unwrap();
    assert_eq!(vm.snapshots().await.unwrap(), []);
    assert!(matches!(vm.revert().await, Err(VirtualDiskError::Snapshots(_))));
    assert_eq!(read(&vm, &PLACES).await, before);
    vm.remove_snapshots(&quiet).await.unwrap();
    assert_eq!(read(&vm, &PLACES).await, before);
    assert!(matches!(vm.remove_snapshots(&quiet).await, Err(VirtualDiskError::Snapshots(_))));
}

#[tokio::test(start_paused = true)]
async fn copy_of_a_snapshot_has_all_layers_and_no_offload() {
    let (_array, ds) = datastore().await;
    let mut vm = machine(&ds, DiskFormat::Thin).await;
    write(&vm, 1, &[0, 4096, 8 * MIB]).await;
    vm.take_snapshot("one").await.unwrap();
    write(&vm, 2, &[4096, 3 * MIB]).await;
    let (copy, report) = vm.clone_to(&ds, "copy", Some(DiskFormat::ZeroedThick), &quiet).await.unwrap();
    assert_eq!(report.by_host, Some(HostCopyReason::Forbidden(OffloadForbidden::SparseOrHosted)));
    assert_eq!(read(&copy, &PLACES).await, [1, 2, 2, 0, 0, 1]);
    assert!(!copy.has_snapshots().await.unwrap());
    let moved = vm.migrate(&ds, None, &quiet).await;
    assert!(matches!(moved, Err(VirtualDiskError::Snapshots(_))), "{:?}", moved.err());
    let path = &vm.disk_paths()[0];
    let disk = VirtualDisk::open(&ds, path, FileAccess::Write, MoverSettings::default()).await.unwrap();
    assert!(matches!(disk.inflate(&quiet).await, Err(VirtualDiskError::Delta)));
    assert_eq!(disk.unmap(3 * MIB, MIB).await.unwrap(), 0);
    disk.close().await.unwrap();
    assert_eq!(read(&vm, &PLACES).await, [1, 2, 2, 0, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn linked_clones_share_and_protect_their_parent() {
    let (_array, ds) = datastore().await;
    let mut vm = machine(&ds, DiskFormat::ZeroedThick).await;
    write(&vm, 1, &[0, 3 * MIB]).await;
    assert!(matches!(vm.link("none").await, Err(VirtualDiskError::Snapshots(_))));
    vm.take_snapshot("base").await.unwrap();
    let before = ds.space().await.unwrap().free;
    let (one, two) = (vm.link("one").await.unwrap(), vm.link("two").await.unwrap());
    assert!(before - ds.space().await.unwrap().free <= 8, "a linked clone copies no data");
    write(&one, 2, &[0]).await;
    write(&vm, 3, &[0]).await;
    for (machine, expected) in [(&one, [2, 0, 1]), (&two, [1, 0, 1]), (&vm, [3, 0, 1])] {
        assert_eq!(read(machine, &[0, MIB, 3 * MIB]).await, expected, "{}", machine.name());
    }
    let running = one.power_on().await.unwrap();
    assert!(matches!(vm.remove_snapshots(&quiet).await, Err(VirtualDiskError::Snapshots(_))));
    running.power_off().await.unwrap();
    let refused = vm.clone().remove().await.err().unwrap().to_string();
    assert!(refused.contains("'one'"), "{refused}");
    one.remove().await.unwrap();
    two.remove().await.unwrap();
    vm.remove_snapshots(&quiet).await.unwrap();
    assert_eq!(read(&vm, &[0, MIB, 3 * MIB]).await, [3, 0, 1]);
    vm.remove().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn machine_on_a_hosted_disk_is_only_copied() {
    let (_array, ds) = datastore().await;
    for kind in [CreateType::SplitSparse, CreateType::MonolithicSparse, CreateType::HostedFlat] {
        let mut vm = machine(&ds, DiskFormat::Thin).await;
        write(&vm, 1, &[0, 4096, 8 * MIB]).await;
        let path = vm.disk_paths().remove(0);
        VirtualDisk::rename(&ds, &path, "vm/old.vmdk").await.unwrap();
        let old = VirtualDisk::open(&ds, "vm/old.vmdk", FileAccess::Read, MoverSettings::default()).await.unwrap();
        let target = CopyTarget { kind, ..CopyTarget::new(&ds, &path) };
        old.clone_to(&target, &quiet).await.unwrap().0.close().await.unwrap();
        old.close().await.unwrap();
        let refused = vm.power_on().await.err();
        assert!(matches!(refused, Some(VirtualDiskError::NotImported(0))), "{refused:?}");
        // Its disks of changes have larger blocks than the sparse disk.
        vm.take_snapshot("one").await.unwrap();
        let before = read(&vm, &PLACES).await;
        write(&vm, 2, &[4096]).await;
        assert_eq!(read(&vm, &PLACES[..1]).await, before[..1]);
        assert!(matches!(vm.power_on().await.err(), Some(VirtualDiskError::NotImported(0))));
        let (copy, report) = vm.clone_to(&ds, "copy", None, &quiet).await.unwrap();
        assert_eq!(report.by_host, Some(HostCopyReason::Forbidden(OffloadForbidden::SparseOrHosted)));
        assert_eq!(read(&copy, &PLACES).await, read(&vm, &PLACES).await);
        copy.power_on().await.unwrap().power_off().await.unwrap().remove().await.unwrap();
        vm.remove_snapshots(&quiet).await.unwrap();
        assert_eq!(read(&vm, &[4096]).await, [2]);
        vm.remove().await.unwrap();
        assert_eq!(ds.list("/").await.unwrap().len(), 0);
    }
}
