use super::*;
use crate::{BlockFill, Cursor, ExtentState, FS_BLOCK_BYTES, FileExtent, TokioRuntime};
use multipath::{
    AtsOutcome, DeviceError, FaultHook, InjectedOutcome, Injection, MemoryArray, MemoryHostDisk, Operation, Primitive,
};
use std::time::Duration;

const BLOCKS: u64 = 4 << 20;

/// A LUN of 2 GiB shared by several hosts.
struct Lab {
    array: MemoryArray,
    name: String,
    runtime: Arc<dyn Runtime>,
}

impl Lab {
    async fn new() -> Self {
        let lab = Self::unformatted();
        let options = FormatOptions::new("datastore1", Mode::V6);
        Datastore::format(&lab.disk("format"), &options, &lab.runtime).await.unwrap();
        lab
    }

    fn unformatted() -> Self {
        let array = MemoryArray::new("iqn.2026-11.test:array");
        let name = array.create(BLOCKS);
        Self { array, name, runtime: Arc::new(TokioRuntime::default()) }
    }

    /// Creates a second datastore on the same array.
    async fn second(&self) -> Self {
        let (array, runtime) = (self.array.clone(), Arc::clone(&self.runtime));
        let lab = Self { name: array.create(BLOCKS), array, runtime };
        let options = FormatOptions::new("datastore2", Mode::V6);
        Datastore::format(&lab.disk("format"), &options, &lab.runtime).await.unwrap();
        lab
    }

    fn open(&self, host: &str) -> MemoryHostDisk {
        self.array.open(&self.name, host).unwrap()
    }

    fn disk(&self, host: &str) -> Arc<dyn SharedDisk> {
        Arc::new(self.open(host))
    }

    async fn mount(&self, host: &str) -> Datastore {
        Datastore::mount(self.disk(host), &MountOptions::new(host), Arc::clone(&self.runtime)).await.unwrap()
    }
}

fn names(entries: Vec<DirectoryEntry>) -> Vec<String> {
    entries.into_iter().map(|entry| entry.name).collect()
}

#[tokio::test]
async fn format_probe_and_mount_a_datastore() {
    let lab = Lab::unformatted();
    assert_eq!(Datastore::probe(&lab.disk("a"), &lab.runtime).await.unwrap(), None);
    let options = FormatOptions { partition_lba: 63, size: Some(1 << 30), ..FormatOptions::new("odd", Mode::V5) };
    let made = Datastore::format(&lab.disk("a"), &options, &lab.runtime).await.unwrap();
    assert_eq!(Datastore::probe(&lab.disk("b"), &lab.runtime).await.unwrap(), Some(made.clone()));
    assert_eq!((made.partition_lba, made.sectors, made.mode), (63, 2 << 20, Mode::V5));
    let datastore = lab.mount("b").await;
    let space = datastore.space().await.unwrap();
    assert_eq!(space, DatastoreSpace { blocks: made.blocks, free: made.blocks });
    assert_eq!(Datastore::probe_space(&lab.disk("a"), &lab.runtime).await, Ok(space));
    assert!((1000..1024).contains(&space.blocks), "{}", space.blocks);
    datastore.unmount().await.unwrap();
    assert!(!datastore.is_alive());
}

#[tokio::test]
async fn files_are_created_listed_renamed_and_removed() {
    let lab = Lab::new().await;
    let (one, two) = (lab.mount("one").await, lab.mount("two").await);
    one.create_directory("/vm1").await.unwrap();
    one.write_file("/vm1/vm1.vmx", b"displayName = \"vm1\"").await.unwrap();
    two.write_file("/vm1/vm1.vmdk", &[7; 3000]).await.unwrap();
    assert_eq!(names(two.list("/vm1").await.unwrap()), ["vm1.vmdk", "vm1.vmx"]);
    assert_eq!(two.read_file("/vm1/vm1.vmx").await.unwrap(), b"displayName = \"vm1\"");
    assert_eq!(one.read_file("/vm1/vm1.vmdk").await.unwrap(), vec![7; 3000]);
    two.rename("/vm1/vm1.vmx", "/vm1/other.vmx").await.unwrap();
    two.create_directory("/vm2").await.unwrap();
    one.rename("/vm1/other.vmx", "/vm2/vm2.vmx").await.unwrap();
    assert_eq!(names(one.list("/vm2").await.unwrap()), ["vm2.vmx"]);
    assert_eq!(one.rename("/vm1/vm1.vmdk", "/vm2/vm2.vmx").await, Err(DatastoreError::Exists));
    assert_eq!(one.remove("/vm2").await, Err(DatastoreError::NotEmpty));
    one.remove("/vm2/vm2.vmx").await.unwrap();
    one.remove("/vm2").await.unwrap();
    one.remove("/vm1/vm1.vmdk").await.unwrap();
    assert_eq!(one.stat("/vm2").await, Err(DatastoreError::NotFound));
    assert_eq!(names(two.list("/").await.unwrap()), ["vm1"]);
    let space = two.space().await.unwrap();
    assert_eq!(space.free, space.blocks);
}

#[tokio::test]
async fn open_file_is_exclusive_or_shared_for_reading() {
    let lab = Lab::new().await;
    let (one, two) = (lab.mount("one").await, lab.mount("two").await);
    let file = one.create("/disk").await.unwrap();
    let locked = DatastoreError::Locked { owner: Some(one.owner()), host: "one".to_owned() };
    assert_eq!(two.open("/disk", FileAccess::Write).await.err(), Some(locked.clone()));
    assert_eq!(two.open("/disk", FileAccess::Read).await.err(), Some(locked.clone()));
    assert_eq!(one.open("/disk", FileAccess::Write).await.err(), Some(locked.clone()));
    assert_eq!(two.remove("/disk").await, Err(locked));
    assert_eq!(two.stat("/disk").await.unwrap().owner, Some(one.owner()));
    file.close().await.unwrap();
    let readers = [
        two.open("/disk", FileAccess::Read).await.unwrap(),
        two.open("/disk", FileAccess::Read).await.unwrap(),
        one.open("/disk", FileAccess::Read).await.unwrap(),
    ];
    assert_eq!(one.stat("/disk").await.unwrap().readers, 2);
    assert_eq!(readers[0].set_size(5).await, Err(DatastoreError::ReadOnly));
    for (reader, host) in readers.into_iter().zip([&two, &two, &one]) {
        let error = one.open("/disk", FileAccess::Write).await.err();
        let Some(DatastoreError::Locked { owner: Some(owner), .. }) = error else { panic!("{error:?}") };
        assert_eq!(owner, host.owner());
        reader.close().await.unwrap();
    }
    one.open("/disk", FileAccess::Write).await.unwrap().close().await.unwrap();
    one.unmount().await.unwrap();
    two.remove("/disk").await.unwrap();
}

#[tokio::test]
async fn files_in_use_are_removed_together_or_not_at_all() {
    let lab = Lab::new().await;
    let (one, two) = (lab.mount("one").await, lab.mount("two").await);
    for name in ["/a", "/b", "/c"] {
        one.write_file(name, &[7; 3000]).await.unwrap();
    }
    let free = one.space().await.unwrap().free;
    let paths = ["/a", "/b", "/c"].map(str::to_owned);
    for access in [FileAccess::Write, FileAccess::Read] {
        let held = two.open("/b", access).await.unwrap();
        assert!(matches!(one.remove_files(&paths).await, Err(DatastoreError::Locked { .. })));
        held.close().await.unwrap();
        assert_eq!((names(one.list("/").await.unwrap()).len(), one.space().await.unwrap().free), (3, free));
        assert_eq!(two.read_file("/a").await.unwrap(), [7; 3000], "no lock remains");
    }
    one.remove_files(&paths).await.unwrap();
    assert_eq!((names(two.list("/").await.unwrap()).len(), one.space().await.unwrap().free), (0, free + 3));
}

#[tokio::test]
async fn blocks_are_allocated_and_freed() {
    let lab = Lab::new().await;
    let one = lab.mount("one").await;
    let file = one.create("/disk").await.unwrap();
    let free = one.space().await.unwrap().free;
    file.set_size(1000 * FS_BLOCK_BYTES).await.unwrap();
    assert_eq!(file.extents(0..2000), [FileExtent { block: 0, blocks: 1000, state: ExtentState::Hole }]);
    file.allocate(0..900, BlockFill::ToBeZeroed).await.unwrap();
    file.allocate(950..951, BlockFill::Written).await.unwrap();
    assert_eq!((file.allocated(), one.space().await.unwrap().free), (901, free - 901));
    file.mark_written(10..20).await.unwrap();
    let lba = |extent: &FileExtent| match extent.state {
        ExtentState::Hole => 0,
        ExtentState::ToBeZeroed { lba } | ExtentState::Written { lba } => lba,
    };
    let written = file.extents(10..20);
    assert!(written.iter().all(|extent| matches!(extent.state, ExtentState::Written { .. })));
    assert!(written.iter().all(|extent| lba(extent) % 2048 == 0), "blocks are aligned to 1 MiB of the device");
    let punched = file.punch(10..15).await.unwrap();
    assert_eq!(punched, [(lba(&written[0]), 5 * 2048)]);
    assert_eq!(file.punch(20..1001).await, Err(DatastoreError::OutOfRange));
    file.close().await.unwrap();
    let file = one.open("/disk", FileAccess::Write).await.unwrap();
    assert_eq!((file.allocated(), file.blocks()), (896, 1000));
    assert_eq!(file.extents(9..16)[1], FileExtent { block: 10, blocks: 5, state: ExtentState::Hole });
    file.set_size(FS_BLOCK_BYTES / 2).await.unwrap();
    assert_eq!((file.allocated(), one.space().await.unwrap().free), (1, free - 1));
    assert_eq!(file.allocate(0..2, BlockFill::Written).await, Err(DatastoreError::OutOfRange));
    file.set_size(10_000 * FS_BLOCK_BYTES).await.unwrap();
    assert_eq!(file.allocate(0..10_000, BlockFill::Written).await, Err(DatastoreError::NoSpace));
    file.close().await.unwrap();
    one.remove("/disk").await.unwrap();
    assert_eq!(one.space().await.unwrap().free, free);
}

#[tokio::test]
async fn free_space_walk_visits_every_block_once() {
    let lab = Lab::new().await;
    let (one, two) = (lab.mount("one").await, lab.mount("two").await);
    two.write_file("/data", &[1; 100]).await.unwrap();
    let free = one.space().await.unwrap().free;
    let balloon = one.create("/.asyncUnmapFile").await.unwrap();
    let (mut cursor, mut seen, mut rounds) = (Cursor::default(), std::collections::BTreeSet::new(), 0);
    loop {
        let runs = balloon.take_free(200, &mut cursor).await.unwrap();
        let taken: u64 = runs.iter().map(|(_, sectors)| sectors / 2048).sum();
        if taken == 0 {
            break;
        }
        rounds += 1;
        assert!(taken <= 200);
        for (lba, sectors) in runs {
            assert!((lba..lba + sectors).step_by(2048).all(|block| seen.insert(block)));
        }
        balloon.set_size(0).await.unwrap();
    }
    assert_eq!((seen.len() as u64, rounds), (free, free.div_ceil(200)));
    balloon.close().await.unwrap();
    one.remove("/.asyncUnmapFile").await.unwrap();
    assert_eq!(two.space().await.unwrap().free, free);
}

#[tokio::test]
async fn exchange_free_needs_fewer_commands() {
    let lab = Lab::new().await;
    let disk = Arc::new(lab.open("one"));
    let shared: Arc<dyn SharedDisk> = disk.clone();
    let one = Datastore::mount(shared, &MountOptions::new("one"), Arc::clone(&lab.runtime)).await.unwrap();
    let commands = || {
        let counters = disk.counters();
        counters.reads + counters.writes + counters.ats.done + counters.ats.failed
    };
    let free = one.space().await.unwrap().free;
    let mut spent = Vec::new();
    for exchanges in [false, true] {
        let balloon = one.create("/.asyncUnmapFile").await.unwrap();
        let (mut cursor, mut seen, before) = (Cursor::default(), std::collections::BTreeSet::new(), commands());
        loop {
            let runs = if exchanges {
                balloon.exchange_free(100, &mut cursor).await.unwrap()
            } else {
                balloon.punch(0..balloon.blocks()).await.unwrap();
                balloon.take_free(100, &mut cursor).await.unwrap()
            };
            if runs.is_empty() {
                break;
            }
            let taken: u64 = runs.iter().map(|(_, sectors)| sectors / 2048).sum();
            assert_eq!((balloon.allocated(), one.space().await.unwrap().free), (taken, free - taken));
            for (lba, sectors) in runs {
                assert!((lba..lba + sectors).step_by(2048).all(|block| seen.insert(block)));
            }
        }
        spent.push(commands() - before);
        assert_eq!((seen.len() as u64, balloon.allocated()), (free, 0));
        balloon.close().await.unwrap();
        one.remove("/.asyncUnmapFile").await.unwrap();
    }
    assert!(spent[1] * 4 < spent[0] * 3, "{spent:?} commands");
    one.unmount().await.unwrap();
    assert_eq!(crate::check(&lab.disk("two"), &lab.runtime).await.unwrap().problems, []);
}

#[tokio::test]
async fn small_files_allow_unaligned_reads_and_writes() {
    let lab = Lab::new().await;
    let one = lab.mount("one").await;
    let file = one.create("/log").await.unwrap();
    file.set_size(3 * FS_BLOCK_BYTES).await.unwrap();
    file.write(FS_BLOCK_BYTES - 3, b"across").await.unwrap();
    file.write(700, b"x").await.unwrap();
    assert_eq!(file.read(FS_BLOCK_BYTES - 4, 8).await.unwrap(), b"\0across\0");
    assert_eq!(file.read(699, 3).await.unwrap(), b"\0x\0");
    assert_eq!(file.read(3 * FS_BLOCK_BYTES - 1, 10).await.unwrap(), [0]);
    assert_eq!(file.write(3 * FS_BLOCK_BYTES, b"x").await, Err(DatastoreError::OutOfRange));
    assert_eq!(file.allocated(), 2);
}

#[tokio::test]
async fn locks_without_ats_reserve_the_device() {
    let lab = Lab::new().await;
    let disk = Arc::new(lab.open("one"));
    let shared: Arc<dyn SharedDisk> = disk.clone();
    let options = MountOptions { ats: false, ..MountOptions::new("one") };
    let one = Datastore::mount(shared, &options, Arc::clone(&lab.runtime)).await.unwrap();
    one.write_file("/a", b"a").await.unwrap();
    assert_eq!((disk.counters().ats.done, disk.counters().ats.failed), (0, 0));
    assert!(disk.counters().reservations > 5);
    // A device that refuses ATS is detected automatically and used with reservations.
    lab.array.refuse(&lab.name, Primitive::Ats, true);
    let two = lab.mount("two").await;
    two.write_file("/b", b"b").await.unwrap();
    assert_eq!(names(one.list("/").await.unwrap()), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_tasks_share_one_mount() {
    let lab = Lab::new().await;
    let one = lab.mount("one").await;
    let work = (0..20).map(|n| {
        let one = one.clone();
        tokio::spawn(async move {
            let file = one.create(&format!("/f{n}")).await.unwrap();
            file.set_size(5 * FS_BLOCK_BYTES).await.unwrap();
            file.allocate(0..5, BlockFill::Written).await.unwrap();
        })
    });
    for task in work.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(one.list("/").await.unwrap().len(), 20);
    let space = one.space().await.unwrap();
    assert_eq!(space.free, space.blocks - 100);
}

/// Delays every write of file data by an hour.
struct Slow;

impl FaultHook for Slow {
    fn inject(&self, _: &str, _: &str, operation: &Operation) -> Injection {
        let slow = matches!(operation, Operation::Write(_, 8));
        Injection { before: Duration::from_secs(if slow { 3600 } else { 0 }), ..Injection::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn commands_of_a_mount_end_within_their_time_limit() {
    let lab = Lab::new().await;
    let one = lab.mount("one").await;
    lab.array.set_hook(Some(Arc::new(Slow)));
    let begun = platform::clock::now();
    let disk = one.disk();
    let swap = disk.compare_and_write(1 << 20, vec![0; 4096].into(), vec![1; 4096].into());
    assert_eq!(swap.await, Ok(AtsOutcome::Written));
    // The write is retried for as long as the host waits for a device.
    assert_eq!(disk.write(1 << 20, vec![7; 4096].into()).await, Err(DeviceError::TimedOut));
    let waited = platform::clock::now().duration_since(begun);
    assert!(waited >= Duration::from_secs(140) && waited < Duration::from_secs(150), "{waited:?}");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(lab.open("two").read(1 << 20, 8).await.unwrap(), vec![1; 4096], "none of them came late");
}

/// No other host has the datastore mounted and could break the reservation.
#[tokio::test(start_paused = true)]
async fn mount_breaks_the_reservation_of_a_dead_host() {
    let lab = Lab::new().await;
    lab.open("dead").reserve().await.unwrap();
    // A probe keeps the reservation: the device may hold no datastore, and its holder may be alive.
    assert!(Datastore::probe(&lab.disk("one"), &lab.runtime).await.is_err());
    assert_eq!(lab.open("one").read(0, 1).await, Err(DeviceError::ReservationConflict));
    let begun = platform::clock::now();
    let one = lab.mount("one").await;
    let timing = MountOptions::new("one").timing;
    let waited = platform::clock::now().duration_since(begun);
    assert!(waited > timing.reservation_timeout() && waited < timing.busy_timeout, "{waited:?}");
    one.create("/file").await.unwrap();
}

/// Refuses RESERVE, as a volume does that two arrays serve.
struct NoReservations;

impl FaultHook for NoReservations {
    fn inject(&self, _: &str, _: &str, operation: &Operation) -> Injection {
        let refusal = scsi::Sense::illegal(scsi::asc::INVALID_COMMAND_OPERATION_CODE);
        let outcome = match operation {
            Operation::Reserve => InjectedOutcome::Failed(DeviceError::Check(refusal)),
            _ => InjectedOutcome::Done,
        };
        Injection { outcome, ..Injection::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn device_without_reservations_needs_ats() {
    let lab = Lab::new().await;
    lab.array.set_hook(Some(Arc::new(NoReservations)));
    let disk: Arc<dyn SharedDisk> = Arc::new(lab.array.open(&lab.name, "one").unwrap());
    let options = FormatOptions::new("stretched", Mode::V6);
    Datastore::format(&disk, &options, &lab.runtime).await.unwrap();
    let mounted = lab.mount("one").await;
    mounted.create("/a").await.unwrap().close().await.unwrap();
    mounted.unmount().await.unwrap();
    lab.array.refuse(&lab.name, Primitive::Ats, true);
    let refused = Datastore::format(&disk, &options, &lab.runtime).await;
    assert!(matches!(refused, Err(DatastoreError::Disk(error)) if error.is_refusal()), "neither RESERVE nor ATS");
}

/// Performs a heartbeat of host "one" but loses its answer, then cuts the path until this time.
struct LostBeat(std::time::Instant);

impl FaultHook for LostBeat {
    fn inject(&self, host: &str, _: &str, operation: &Operation) -> Injection {
        let is_cut = host == "one" && platform::clock::now() < self.0;
        let outcome = match operation {
            Operation::CompareAndWrite(..) if is_cut => InjectedOutcome::AnswerLost(DeviceError::PathsDown),
            _ if is_cut => InjectedOutcome::Failed(DeviceError::PathsDown),
            _ => InjectedOutcome::Done,
        };
        Injection { outcome, ..Injection::default() }
    }
}

/// Other hosts measure the age of a heartbeat from when they saw it. A retry after ten seconds does
/// not make it younger.
#[tokio::test(start_paused = true)]
async fn lease_starts_at_the_first_heartbeat_attempt() {
    let lab = Lab::new().await;
    let (one, two) = (lab.mount("one").await, lab.mount("two").await);
    let (volume, fence) = (two.mounted.superblock.uuid, MountOptions::new("one").timing.fence);
    lab.array.set_hook(Some(Arc::new(LostBeat(platform::clock::now() + Duration::from_secs(13)))));
    let (mut seen, mut since, mut lapsed) = (None, platform::clock::now(), 0);
    for _ in 0..3000 {
        let slot = crate::heartbeat::read_slot(&two.mounted.io, one.owner().slot, volume).await.unwrap();
        let now = platform::clock::now();
        if seen.replace(slot.counter) != Some(slot.counter) {
            since = now;
        }
        lapsed += u32::from(!one.is_alive());
        assert!(!one.is_alive() || now < since + fence + Duration::from_millis(20), "{:?}", now - since);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(lapsed > 100 && one.is_alive(), "{lapsed}");
}

/// Over iSCSI, a command continues after its caller has dropped the future.
#[tokio::test(start_paused = true)]
async fn close_waits_for_abandoned_commands() {
    let lab = Lab::new().await;
    for unmounts in [false, true] {
        let one = lab.mount("one").await;
        let file = one.create(&format!("/disk{unmounts}")).await.unwrap();
        let disk = one.disk();
        lab.array.set_hook(Some(Arc::new(Slow)));
        let write = disk.write(1 << 20, vec![7; 4096].into());
        assert!(tokio::time::timeout(Duration::from_secs(1), write).await.is_err());
        let abandoned = platform::clock::now();
        lab.array.set_hook(None);
        let read = disk.read(1 << 20, 8);
        read.await.unwrap();
        if unmounts {
            one.unmount().await.unwrap();
        } else {
            file.close().await.unwrap();
        }
        let waited = platform::clock::now().duration_since(abandoned);
        assert!(waited >= MountOptions::new("one").timing.io_lifetime, "{waited:?}");
        // No abandoned command is left to wait for.
        one.mounted.wait_for_abandoned().await;
        assert_eq!(platform::clock::now().duration_since(abandoned), waited);
    }
}

#[tokio::test(start_paused = true)]
async fn file_io_waits_for_a_lost_device() {
    let lab = Lab::new().await;
    let disk = Arc::new(lab.open("one"));
    let shared: Arc<dyn SharedDisk> = disk.clone();
    let one = Datastore::mount(shared, &MountOptions::new("one"), Arc::clone(&lab.runtime)).await.unwrap();
    disk.set_paths(false);
    let data = one.disk();
    let write = tokio::spawn(async move { data.write(1 << 20, vec![7; 4096].into()).await });
    // Longer than the heartbeat is valid, shorter than the lease.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(!one.is_alive() && !write.is_finished());
    disk.set_paths(true);
    write.await.unwrap().unwrap();
    assert!(one.is_alive());
}

/// A process that records events and knows of ended processes.
#[derive(Default)]
struct Recorder {
    ended: std::sync::atomic::AtomicBool,
    events: parking_lot::Mutex<Vec<crate::MountEvent>>,
}

impl crate::HostProcess for Recorder {
    fn uuid(&self) -> [u8; 16] {
        [9; 16]
    }

    fn has_ended(&self, _: &LockOwner) -> bool {
        self.ended.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn notify(&self, event: &crate::MountEvent) {
        self.events.lock().push(event.clone());
    }
}

impl Lab {
    async fn mount_with(&self, disk: &Arc<MemoryHostDisk>, process: &Arc<Recorder>) -> Datastore {
        let shared: Arc<dyn SharedDisk> = disk.clone();
        let options = MountOptions { process: Some(process.clone()), ..MountOptions::new("two") };
        Datastore::mount(shared, &options, Arc::clone(&self.runtime)).await.unwrap()
    }
}

fn seconds_since(begun: std::time::Instant) -> f64 {
    platform::clock::now().duration_since(begun).as_secs_f64()
}

#[tokio::test(start_paused = true)]
async fn open_waits_for_a_silent_owner() {
    for (ended, expected) in [(false, 14.0..16.5), (true, 5.0..5.5)] {
        let lab = Lab::new().await;
        let (disk, process) = (Arc::new(lab.open("one")), Arc::new(Recorder::default()));
        let one = Datastore::mount(disk.clone(), &MountOptions::new("one"), Arc::clone(&lab.runtime)).await.unwrap();
        let two = lab.mount_with(&Arc::new(lab.open("two")), &process).await;
        assert_eq!(two.owner().uuid, [9; 16]);
        one.write_file("/read", b"1").await.unwrap();
        let writer = one.create("/disk").await.unwrap();
        let reader = one.open("/read", FileAccess::Read).await.unwrap();
        // A live owner is recognized by its next heartbeat.
        let begun = platform::clock::now();
        let error = two.open("/disk", FileAccess::Write).await.err();
        let expected_error = DatastoreError::Locked { owner: Some(one.owner()), host: "one".to_owned() };
        assert_eq!(error, Some(expected_error));
        assert!(seconds_since(begun) < 3.5 && process.events.lock().is_empty());
        disk.set_paths(false);
        process.ended.store(ended, std::sync::atomic::Ordering::Relaxed);
        let begun = platform::clock::now();
        two.open("/disk", FileAccess::Write).await.unwrap().close().await.unwrap();
        let waited = seconds_since(begun);
        assert!(expected.contains(&waited), "{waited} s");
        two.open("/read", FileAccess::Write).await.unwrap().close().await.unwrap();
        assert!(seconds_since(begun) < waited + 0.1, "the reader died with the writer");
        let events = process.events.lock().clone();
        let [crate::MountEvent::Waiting { host, slot, ended: seen, .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!((host.as_str(), *slot, *seen), ("one", one.owner().slot, ended));
        drop((writer, reader));
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_waits_for_a_lost_device() {
    let lab = Lab::new().await;
    let (disk, process) = (Arc::new(lab.open("two")), Arc::new(Recorder::default()));
    let two = lab.mount_with(&disk, &process).await;
    let file = two.create("/disk").await.unwrap();
    file.set_size(40 * FS_BLOCK_BYTES).await.unwrap();
    disk.set_paths(false);
    let there = two.clone();
    let work = tokio::spawn(async move {
        file.allocate(0..40, BlockFill::Written).await?;
        there.write_file("/other", b"2").await?;
        there.create_directory("/directory").await?;
        file.close().await
    });
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!two.is_alive() && !work.is_finished());
    disk.set_paths(true);
    work.await.unwrap().unwrap();
    assert_eq!(names(two.list("/").await.unwrap()), ["directory", "disk", "other"]);
    use crate::MountEvent::{AccessLost, AccessRestored};
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*process.events.lock(), [AccessLost, AccessRestored]);
    two.unmount().await.unwrap();
    assert_eq!(crate::check(&lab.disk("one"), &lab.runtime).await.unwrap().problems, []);
}

/// A host whose heartbeat another host broke during the outage gets an error at once.
#[tokio::test(start_paused = true)]
async fn broken_lease_is_not_waited_for() {
    let lab = Lab::new().await;
    let (disk, process) = (Arc::new(lab.open("two")), Arc::new(Recorder::default()));
    let (one, two) = (lab.mount("one").await, lab.mount_with(&disk, &process).await);
    let file = two.create("/disk").await.unwrap();
    disk.set_paths(false);
    tokio::time::sleep(Duration::from_secs(20)).await;
    one.open("/disk", FileAccess::Write).await.unwrap();
    disk.set_paths(true);
    let begun = platform::clock::now();
    assert_eq!(file.set_size(5).await, Err(DatastoreError::LeaseLost));
    assert!(seconds_since(begun) < 5.0);
    assert_eq!(process.events.lock().last(), Some(&crate::MountEvent::LeaseBroken));
}

/// The device is silent to all hosts. When it is back, no host has had an opportunity to renew its
/// heartbeat.
#[tokio::test(start_paused = true)]
async fn silence_of_the_device_breaks_no_lease() {
    let lab = Lab::new().await;
    let (first, second) = (Arc::new(lab.open("one")), Arc::new(lab.open("two")));
    let one = Datastore::mount(first.clone(), &MountOptions::new("one"), Arc::clone(&lab.runtime)).await.unwrap();
    let two = Datastore::mount(second.clone(), &MountOptions::new("two"), Arc::clone(&lab.runtime)).await.unwrap();
    let file = one.create("/disk").await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    first.set_paths(false);
    second.set_paths(false);
    tokio::time::sleep(Duration::from_secs(20)).await;
    second.set_paths(true);
    let opened = two.open("/disk", FileAccess::Write).await;
    assert!(matches!(opened.err(), Some(DatastoreError::Locked { .. })));
    first.set_paths(true);
    file.set_size(5).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unmount_removes_what_was_interrupted() {
    let lab = Lab::new().await;
    let (one, two) = (lab.mount("one").await, lab.mount("two").await);
    let free = two.space().await.unwrap().free;
    two.write_file("/other", b"2").await.unwrap();
    // A file of another host is never removed.
    assert_eq!(one.create_temporary("/other").await.err(), Some(DatastoreError::Exists));
    one.create_temporary_directory("/vm").await.unwrap();
    one.create_temporary_directory("/kept").await.unwrap();
    let file = one.create_temporary("/vm/disk").await.unwrap();
    one.create_temporary("/kept/disk").await.unwrap().close().await.unwrap();
    one.keep("/kept");
    one.create_temporary("/replaced").await.unwrap().close().await.unwrap();
    two.remove("/replaced").await.unwrap();
    two.create("/replaced").await.unwrap().close().await.unwrap();
    let work = async {
        file.set_size(1000 * FS_BLOCK_BYTES).await?;
        file.allocate(0..1000, BlockFill::Written).await?;
        std::future::pending::<Result<()>>().await
    };
    assert!(tokio::time::timeout(Duration::from_secs(1), work).await.is_err());
    assert!(two.space().await.unwrap().free < free - 1000);
    drop(file);
    one.unmount().await.unwrap();
    assert_eq!(names(two.list("/").await.unwrap()), ["kept", "other", "replaced"]);
    assert_eq!(two.space().await.unwrap().free, free - 1);
}

/// Makes every command take a millisecond, so that transactions of different hosts meet.
struct Slower;

impl FaultHook for Slower {
    fn inject(&self, _: &str, _: &str, _: &Operation) -> Injection {
        Injection { before: Duration::from_millis(1), ..Injection::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn readers_do_not_lock_each_other_out() {
    let lab = Lab::new().await;
    lab.mount("setup").await.write_file("/template", &[7; 3000]).await.unwrap();
    lab.array.set_hook(Some(Arc::new(Slower)));
    let lab = Arc::new(lab);
    let hosts = (0..8).map(|host| {
        let lab = Arc::clone(&lab);
        tokio::spawn(async move {
            let datastore = lab.mount(&format!("host{host}")).await;
            for _ in 0..10 {
                let file = datastore.open("/template", FileAccess::Read).await?;
                file.close().await?;
            }
            Ok::<(), DatastoreError>(())
        })
    });
    for host in hosts.collect::<Vec<_>>() {
        assert_eq!(host.await.unwrap(), Ok(()));
    }
    // A file that stays open is another matter.
    let (one, two) = (lab.mount("one").await, lab.mount("two").await);
    let writer = one.open("/template", FileAccess::Write).await.unwrap();
    let begun = platform::clock::now();
    assert!(matches!(two.open("/template", FileAccess::Read).await.err(), Some(DatastoreError::Locked { .. })));
    assert!(seconds_since(begun) < 1.0);
    writer.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn copy_needs_the_lease_of_both_datastores() {
    let lab = Lab::new().await;
    let target = lab.second().await;
    let (disk, other) = (Arc::new(target.open("one")), target.open("two"));
    let shared: Arc<dyn SharedDisk> = disk.clone();
    let here = lab.mount("one").await;
    let there = Datastore::mount(shared, &MountOptions::new("one"), Arc::clone(&lab.runtime)).await.unwrap();
    lab.open("one").write(1 << 20, vec![7; 4096].into()).await.unwrap();
    // The paths to the destination are lost. The command uses the paths to the source, which still
    // work.
    disk.set_paths(false);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(here.is_alive() && !there.is_alive());
    let run = || vec![multipath::CopyRun { source: 1 << 20, destination: 1 << 20, blocks: 8 }];
    let (from, to) = (here.disk(), there.disk());
    let copy = tokio::spawn(async move { from.copy(&*to, run()).await });
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(other.read(1 << 20, 8).await.unwrap(), vec![0; 4096], "the host may be taken for dead there");
    disk.set_paths(true);
    assert_eq!(copy.await.unwrap(), Ok(()));
    assert_eq!(other.read(1 << 20, 8).await.unwrap(), vec![7; 4096]);
    there.unmount().await.unwrap();
    assert_eq!(here.disk().copy(&*there.disk(), run()).await, Err(DeviceError::PathsDown));
}

#[tokio::test]
async fn copy_uses_the_shorter_time_limit_of_two_datastores() {
    let lab = Lab::new().await;
    let target = lab.second().await;
    let source = Arc::new(lab.open("one"));
    let shared: Arc<dyn SharedDisk> = source.clone();
    let here = Datastore::mount(shared, &MountOptions::new("one"), Arc::clone(&lab.runtime)).await.unwrap();
    let timing = crate::Timing { io_lifetime: Duration::from_secs(2), ..crate::Timing::default() };
    let options = MountOptions { timing, ..MountOptions::new("one") };
    let there = Datastore::mount(target.disk("one"), &options, Arc::clone(&lab.runtime)).await.unwrap();
    here.disk().copy(&*there.disk(), Vec::new()).await.unwrap();
    assert_eq!(source.io_permission(), multipath::IoPermission::Allowed(Duration::from_secs(2)));
}

/// Records task management functions. The device may or may not support CLEAR TASK SET.
struct Manager {
    knows: bool,
    seen: parking_lot::Mutex<Vec<Operation>>,
}

impl FaultHook for Manager {
    fn inject(&self, _: &str, _: &str, operation: &Operation) -> Injection {
        if matches!(operation, Operation::Clear | Operation::Reset | Operation::Reserve) {
            self.seen.lock().push(operation.clone());
        }
        let unknown = DeviceError::Check(scsi::Sense::illegal(scsi::asc::INVALID_COMMAND_OPERATION_CODE));
        let outcome = if *operation == Operation::Clear && !self.knows {
            InjectedOutcome::Failed(unknown)
        } else {
            InjectedOutcome::Done
        };
        Injection { outcome, ..Injection::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn queued_commands_are_aborted_before_locks_move() {
    use Operation::{Clear, Reserve, Reset};
    for (knows, ats, expected) in
        [(true, true, &[Clear][..]), (false, true, &[Clear, Reset]), (false, false, &[Clear, Reserve, Reset])]
    {
        let lab = Lab::new().await;
        let disk = Arc::new(lab.open("dead"));
        let dead = Datastore::mount(disk.clone(), &MountOptions::new("dead"), Arc::clone(&lab.runtime)).await.unwrap();
        dead.write_file("/disk", b"1").await.unwrap();
        let file = dead.open("/disk", FileAccess::Write).await.unwrap();
        let options = MountOptions { ats, ats_heartbeat: ats, ..MountOptions::new("heir") };
        let heir = Datastore::mount(lab.disk("heir"), &options, Arc::clone(&lab.runtime)).await.unwrap();
        disk.crash();
        let hook = Arc::new(Manager { knows, seen: parking_lot::Mutex::default() });
        lab.array.set_hook(Some(hook.clone()));
        while heir.open("/disk", FileAccess::Write).await.is_err() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let seen = hook.seen.lock().clone();
        let at = seen.iter().position(|operation| *operation == Clear).expect("it is cleared");
        assert_eq!(&seen[at..at + expected.len()], expected);
        drop(file);
    }
}

#[tokio::test]
async fn mount_refuses_unsafe_heartbeat_times() {
    let lab = Lab::new().await;
    let timing = crate::Timing { io_lifetime: Duration::from_secs(40), ..crate::Timing::default() };
    let options = MountOptions { timing, ..MountOptions::new("one") };
    let disk: Arc<dyn SharedDisk> = Arc::new(lab.open("one"));
    let mounted = Datastore::mount(disk, &options, Arc::clone(&lab.runtime)).await;
    assert!(matches!(mounted, Err(DatastoreError::Unsuitable(_))));
}
