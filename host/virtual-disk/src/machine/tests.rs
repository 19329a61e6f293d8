use super::*;
use crate::testing::{datastore, quiet, two_datastores};
use bytes::Bytes;

const MIB: u64 = 1 << 20;

async fn machine(ds: &Datastore, name: &str) -> VirtualMachine {
    let vmx = Vmx { memory_mib: 4, ..Vmx::new(name) };
    let disks = [DiskFormat::ZeroedThick, DiskFormat::Thin].map(|format| DiskSpec { bytes: 16 * MIB, format });
    VirtualMachine::create(ds, vmx, &disks, MoverSettings::default(), &quiet).await.unwrap()
}

async fn names(ds: &Datastore, directory: &str) -> Vec<String> {
    let mut names: Vec<_> = ds.list(directory).await.unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn machine_files_are_in_its_directory() {
    let (_array, ds) = datastore().await;
    machine(&ds, "web01").await;
    let files = ["web01-flat.vmdk", "web01.vmdk", "web01.vmx", "web01_1-flat.vmdk", "web01_1.vmdk"];
    assert_eq!(names(&ds, "web01").await, files);
    let found = VirtualMachine::list(&ds, MoverSettings::default()).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].vmx().disks, ["web01.vmdk", "web01_1.vmdk"]);
    assert!(found[0].descriptors().await.unwrap()[1].thin);
    found.into_iter().next().unwrap().remove().await.unwrap();
    assert!(names(&ds, "/").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn power_on_locks_and_power_off_cleans_up() {
    let (_array, ds) = datastore().await;
    let machine = machine(&ds, "vm").await;
    let free = ds.space().await.unwrap().free;
    let running = machine.power_on().await.unwrap();
    assert!(machine.is_running().await.unwrap());
    assert!(free - ds.space().await.unwrap().free >= 4, "the swap file holds the memory");
    assert!(matches!(machine.power_on().await.err(), Some(VirtualDiskError::PoweredOn)));
    assert!(running.boot(&BootWorkload { reads: 20, writes: 3, ..BootWorkload::default() }).await.unwrap() > 0);
    let machine = running.power_off().await.unwrap();
    assert!(!machine.is_running().await.unwrap());
    assert!(!names(&ds, "vm").await.iter().any(|name| name.ends_with(".vswp") || name.ends_with(".lck")));
    machine.power_on().await.unwrap().power_off().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn template_is_deployed_but_not_powered_on() {
    let (_array, here, there) = two_datastores().await;
    let mut template = machine(&here, "template").await;
    template.set_template(true).await.unwrap();
    assert!(matches!(template.power_on().await.err(), Some(VirtualDiskError::Template)));
    let (one, two) = tokio::join!(
        template.clone_to(&there, "vm1", None, &quiet),
        template.clone_to(&there, "vm2", Some(DiskFormat::Thin), &quiet)
    );
    let ((one, _), (two, _)) = (one.unwrap(), two.unwrap());
    assert!(!one.vmx().template);
    assert!(two.descriptors().await.unwrap()[0].thin);
    one.power_on().await.unwrap().power_off().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn machine_migrates_powered_off_and_on() {
    let (_array, here, there) = two_datastores().await;
    let mut machine = machine(&here, "vm").await;
    machine.migrate(&there, None, &quiet).await.unwrap();
    assert!(names(&here, "/").await.is_empty());
    let mut running = machine.power_on().await.unwrap();
    let guest = running.disks()[0].clone();
    guest.write(MIB, Bytes::from(vec![3; 4096])).await.unwrap();
    running.migrate(&here, Some(DiskFormat::Thin), &quiet).await.unwrap();
    assert_eq!(&guest.read(MIB, 512).await.unwrap()[..], &[3; 512]);
    assert!(names(&there, "/").await.is_empty());
    let machine = running.power_off().await.unwrap();
    assert!(machine.descriptors().await.unwrap()[0].thin);
    assert_eq!(VirtualMachine::list(&here, MoverSettings::default()).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn machine_with_snapshots_is_copied_by_the_host() {
    let (_array, here, there) = two_datastores().await;
    let mut machine = machine(&here, "vm").await;
    let disk = VirtualDisk::open(&here, "vm/vm.vmdk", FileAccess::Write, MoverSettings::default()).await.unwrap();
    disk.write(0, Bytes::from(vec![3; 4096])).await.unwrap();
    disk.close().await.unwrap();
    assert!(!machine.has_snapshots().await.unwrap());
    here.write_file("vm/vm.vmsd", b"snapshot.numSnapshots = \"1\"\n").await.unwrap();
    assert!(machine.has_snapshots().await.unwrap());
    let report = machine.migrate(&there, None, &quiet).await.unwrap();
    assert_eq!(report.by_host, Some(crate::HostCopyReason::Forbidden(crate::offload::OffloadForbidden::Snapshots)));
}

#[tokio::test(start_paused = true)]
async fn machine_names_outside_the_datastore_are_refused() {
    let (_array, ds) = datastore().await;
    for name in ["", "../a", "a/b", ".hidden"] {
        let made = VirtualMachine::create(&ds, Vmx::new(name), &[], MoverSettings::default(), &quiet).await;
        assert!(matches!(made.err(), Some(VirtualDiskError::MachineName(_))), "{name}");
    }
}
