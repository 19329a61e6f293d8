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
    let (found, invalid) = VirtualMachine::list(&ds, MoverSettings::default()).await.unwrap();
    assert_eq!((found.len(), invalid.len()), (1, 0));
    assert_eq!(found[0].vmx().disks, ["web01.vmdk", "web01_1.vmdk"]);
    assert!(found[0].descriptors().await.unwrap()[1].thin);
    found.into_iter().next().unwrap().remove().await.unwrap();
    assert!(names(&ds, "/").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn interrupted_removal_leaves_no_broken_machine() {
    let (_array, ds) = datastore().await;
    let mut partial = 0;
    for steps in (0..).step_by(20) {
        machine(&ds, "vm").await;
        let all = names(&ds, "vm").await;
        let interruption = async {
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            removed = ds.remove_tree("vm") => removed.unwrap(),
            () = interruption => {}
        }
        // The operation that was under way ends, and the locks are released.
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        if names(&ds, "/").await.is_empty() {
            assert!(partial > 0);
            return;
        }
        let left = names(&ds, "vm").await;
        assert!(left == all || !left.contains(&"vm.vmx".to_owned()), "{left:?} after {steps} steps");
        partial += u32::from(left != all);
        ds.remove_tree("vm").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn incomplete_machines_do_not_hide_the_others() {
    let (_array, ds) = datastore().await;
    machine(&ds, "web01").await;
    for (name, text) in [("killed", ""), ("torn", "config.version")] {
        ds.create_directory(name).await.unwrap();
        ds.write_file(&format!("{name}/{name}.vmx"), text.as_bytes()).await.unwrap();
    }
    ds.create_directory("early").await.unwrap();
    ds.write_file("early/early.vmx~", b"config.version").await.unwrap();
    let (found, mut invalid) = VirtualMachine::list(&ds, MoverSettings::default()).await.unwrap();
    invalid.sort();
    assert_eq!((found.len(), found[0].name(), invalid), (1, "web01", vec!["killed".to_owned(), "torn".to_owned()]));
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

/// Returns every path of a datastore below the root.
async fn all_files(ds: &Datastore) -> Vec<String> {
    let mut all = Vec::new();
    for directory in names(ds, "/").await {
        all.extend(names(ds, &directory).await.into_iter().map(|name| format!("{directory}/{name}")));
    }
    all
}

#[tokio::test(start_paused = true)]
async fn destroying_a_machine_in_use_changes_nothing() {
    let (_array, ds) = datastore().await;
    let machine = machine(&ds, "vm").await;
    let running = machine.power_on().await.unwrap();
    let (files, free) = (all_files(&ds).await, ds.space().await.unwrap().free);
    assert!(matches!(machine.clone().remove().await, Err(VirtualDiskError::PoweredOn)));
    let deleted = VirtualDisk::delete(&ds, "vm/vm.vmdk").await;
    assert!(matches!(deleted, Err(VirtualDiskError::Datastore(datastore::DatastoreError::Locked { .. }))));
    assert_eq!((all_files(&ds).await, ds.space().await.unwrap().free), (files, free));
    let machine = running.power_off().await.unwrap();
    // A second disk that is being copied is found only after the first one was locked.
    let disk = VirtualDisk::open(&ds, "vm/vm_1.vmdk", FileAccess::Read, MoverSettings::default()).await.unwrap();
    let (files, free) = (all_files(&ds).await, ds.space().await.unwrap().free);
    let removed = machine.clone().remove().await;
    assert!(matches!(removed, Err(VirtualDiskError::Datastore(datastore::DatastoreError::Locked { .. }))));
    assert_eq!((all_files(&ds).await, ds.space().await.unwrap().free), (files, free));
    disk.close().await.unwrap();
    machine.power_on().await.unwrap().power_off().await.unwrap();
    machine.remove().await.unwrap();
    assert!(names(&ds, "/").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn failed_migration_of_a_machine_leaves_nothing() {
    let (_array, here, there) = two_datastores().await;
    let mut machine = machine(&here, "vm").await;
    let space = there.space().await.unwrap();
    // The second disk does not fit.
    let filler = there.create("filler").await.unwrap();
    filler.set_size((space.free - 24) << 20).await.unwrap();
    filler.allocate(0..space.free - 24, datastore::BlockFill::Written).await.unwrap();
    let (files, free) = (all_files(&here).await, there.space().await.unwrap().free);
    let format = Some(DiskFormat::ZeroedThick);
    let moved = machine.migrate(&there, format, &quiet).await;
    assert!(matches!(moved, Err(VirtualDiskError::Datastore(datastore::DatastoreError::NoSpace))));
    assert_eq!((names(&there, "/").await, there.space().await.unwrap().free), (vec!["filler".to_owned()], free));
    assert_eq!(all_files(&here).await, files);
    let mut running = machine.power_on().await.unwrap();
    let files = all_files(&here).await;
    assert!(running.migrate(&there, format, &quiet).await.is_err());
    assert_eq!((names(&there, "/").await, all_files(&here).await), (vec!["filler".to_owned()], files));
    running.power_off().await.unwrap();
    assert!(machine.clone_to(&there, "copy", format, &quiet).await.is_err());
    assert_eq!(names(&there, "/").await, ["filler"]);
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
    assert_eq!(VirtualMachine::list(&here, MoverSettings::default()).await.unwrap().0.len(), 1);
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

/// Returns the number in each sector of a disk.
async fn numbers(disk: &VirtualDisk, sectors: u64) -> Vec<u64> {
    let data = disk.read(0, sectors * 512).await.unwrap();
    data.chunks(512).map(|sector| u64::from_le_bytes(sector[..8].try_into().unwrap())).collect()
}

/// Delays every command, so that the guest runs during a copy.
struct Delays;

impl multipath::FaultHook for Delays {
    fn inject(&self, _: &str, _: &str, _: &multipath::Operation) -> multipath::Injection {
        let delay = std::time::Duration::from_micros(20);
        multipath::Injection { before: delay, after: delay, outcome: multipath::InjectedOutcome::Done }
    }
}

#[tokio::test(start_paused = true)]
async fn clone_of_a_running_machine_is_one_instant() {
    const SECTORS: u64 = 48;
    let (array, one, two) = two_datastores().await;
    array.set_hook(Some(std::sync::Arc::new(Delays)));
    let running = machine(&one, "vm").await.power_on().await.unwrap();
    // The guest writes its numbers to both disks in turn, each after the previous one completed.
    let written = std::cell::Cell::new(0);
    let guest = async {
        for number in 1u64.. {
            let mut data = vec![0; 512];
            data[..8].copy_from_slice(&number.to_le_bytes());
            let disk = &running.disks()[number as usize % 2];
            disk.write(number / 2 % SECTORS * 512, Bytes::from(data)).await.unwrap();
            written.set(number);
            tokio::task::yield_now().await;
        }
    };
    let before = written.get();
    let (copy, report) = tokio::select! {
        cloned = running.clone_to(&two, "copy", None, &quiet) => cloned.unwrap(),
        () = guest => unreachable!("the guest runs without end"),
    };
    assert!(report.work.xcopy.commands > 0 && written.get() > before);
    running.power_off().await.unwrap();
    assert_ne!(copy.descriptors().await.unwrap()[0].uuid, copy.descriptors().await.unwrap()[1].uuid);
    let copy = copy.power_on().await.unwrap();
    let found = [numbers(&copy.disks()[0], SECTORS).await, numbers(&copy.disks()[1], SECTORS).await];
    let last = found.iter().flatten().copied().max().unwrap();
    assert!(last > 0 && last <= written.get() + 1, "{last}");
    for number in (last.saturating_sub(2 * SECTORS) + 1)..=last {
        assert_eq!(found[number as usize % 2][(number / 2 % SECTORS) as usize], number, "of {last}");
    }
    copy.power_off().await.unwrap();
    assert_eq!(names(&two, "copy").await.len(), names(&one, "vm").await.len());
}
