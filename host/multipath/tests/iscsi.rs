//! Tests of multipathed disks with a scripted target.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

#[path = "../../initiator/tests/support/mod.rs"]
mod support;

use bytes::Bytes;
use initiator::{InitiatorConfig, Url};
use iscsi::pdu::TaskFunction;
use iscsi::target_connection::{CommandCompletion, TargetCommand};
use multipath::{
    AtsOutcome, CopyRun, DeviceError, DiskOptions, IscsiDisk, OpenError, PathConfig, PathPolicy, PathState, Primitive,
    RetryRules, SharedDisk, Support,
};
use scsi::{Cdb, Command, Sense, SenseFormat, Status, asc};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use support::{LBA_LEN, Reply, Served, Target, status};

fn paths(served: &Served, count: usize) -> Vec<PathConfig> {
    let url: Url = served.url().parse().unwrap();
    vec![PathConfig { config: InitiatorConfig::new("iqn.2026-11.test:host", &url), lun: url.lun }; count]
}

/// Options with short pauses, to keep the tests fast.
fn options() -> DiskOptions {
    let rules = RetryRules {
        first_reconnect: Duration::from_millis(1),
        conflict_pause: Duration::from_millis(1),
        busy_pause: Duration::from_millis(1),
        paths_down_timeout: Duration::from_millis(200),
        ..RetryRules::default()
    };
    DiskOptions { rules, ..DiskOptions::default() }
}

async fn open(served: &Served, count: usize) -> IscsiDisk {
    IscsiDisk::open(paths(served, count), options()).await.unwrap()
}

fn block(byte: u8, blocks: usize) -> Bytes {
    vec![byte; LBA_LEN * blocks].into()
}

fn check(sense: Sense) -> Reply {
    Reply::Answer(CommandCompletion::check_condition(sense.to_bytes(SenseFormat::Fixed)))
}

fn command(task: &TargetCommand) -> Command {
    Cdb::parse(&task.cdb).unwrap()
}

/// Replies to the first `count` commands for which `to` holds; the disk answers the rest.
fn first(
    count: u32,
    to: impl Fn(&Command) -> bool + Send + 'static,
    reply: impl Fn() -> Reply + Send + 'static,
) -> impl FnMut(&TargetCommand) -> Reply + Send + 'static {
    let mut left = count;
    move |task| {
        if left > 0 && to(&command(task)) {
            left -= 1;
            reply()
        } else {
            Reply::Disk
        }
    }
}

fn is_read(command: &Command) -> bool {
    matches!(command, Command::Read(_))
}

fn is_ats(command: &Command) -> bool {
    matches!(command, Command::CompareAndWrite { .. })
}

#[tokio::test]
async fn all_commands_work_over_iscsi() {
    let served = Target::new(4096).serve();
    let disk = open(&served, 2).await;
    assert_eq!((disk.identity().name.as_str(), disk.identity().blocks), ("naa.60606060606060606060606060606060", 4096));
    disk.write(0, block(1, 8)).await.unwrap();
    disk.write_same(2, 2, block(7, 1)).await.unwrap();
    disk.unmap(vec![(4, 1), (6, 1)]).await.unwrap();
    disk.copy(&disk, vec![CopyRun { source: 0, destination: 100, blocks: 8 }]).await.unwrap();
    let expected = [1, 1, 7, 7, 0, 1, 0, 1].map(|byte| block(byte, 1)).concat();
    assert_eq!(disk.read(100, 8).await.unwrap(), expected);
    assert_eq!(disk.compare_and_write(0, block(1, 1), block(2, 1)).await, Ok(AtsOutcome::Written));
    assert_eq!(disk.compare_and_write(0, block(1, 1), block(3, 1)).await, Ok(AtsOutcome::Miscompare { offset: 0 }));
    assert_eq!(disk.get_lba_status(9).await.unwrap()[0].blocks, 4087);
    disk.reserve().await.unwrap();
    disk.release().await.unwrap();
    disk.synchronize().await.unwrap();
    disk.reset().await.unwrap();
    let numbers = disk.counters();
    assert_eq!((numbers.reads, numbers.writes, numbers.read_bytes, numbers.write_bytes), (1, 1, 4096, 4096));
    assert_eq!((numbers.ats.done, numbers.ats.failed, numbers.zero.bytes, numbers.delete.bytes), (1, 1, 1024, 1024));
    assert_eq!(
        (numbers.clone_read.bytes, numbers.clone_write.bytes, numbers.active, numbers.queued),
        (4096, 4096, 0, 0)
    );
    assert!(Primitive::ALL.iter().all(|primitive| disk.vaai().of(*primitive).support == Support::Supported));
    assert_eq!((disk.latencies().ats.len(), disk.latencies().read.len()), (1, 1));
    disk.close().await;
    assert_eq!(disk.read(0, 1).await, Err(DeviceError::PathsDown));
}

#[tokio::test]
async fn round_robin_spreads_commands_evenly() {
    let served = Target::new(64).serve();
    let disk = open(&served, 4).await;
    for lba in 0..20 {
        disk.read(lba, 1).await.unwrap();
    }
    let commands: Vec<u64> = disk.paths().iter().map(|path| path.commands).collect();
    assert_eq!(commands, [5; 4]);
    disk.set_policy(PathPolicy::Fixed { preferred: 2 });
    disk.read(0, 1).await.unwrap();
    disk.read(0, 1).await.unwrap();
    assert_eq!((disk.paths()[2].commands, disk.current_path()), (7, 2));
    let counted: Vec<(u64, u64)> = disk.path_counters().iter().map(|path| (path.reads, path.read_bytes)).collect();
    assert_eq!(counted, [(5, 2560), (5, 2560), (7, 3584), (5, 2560)]);
    disk.compare_and_write(0, block(0, 1), block(2, 1)).await.unwrap();
    disk.write(1, block(1, 2)).await.unwrap();
    let path = disk.path_counters()[2];
    assert_eq!((path.commands(), path.ats.done, path.writes, path.write_bytes), (9, 1, 1, 1024));
    assert!(path.read_ns > 0 && path.write_ns > 0);
    assert_eq!(served.target.lock().unwrap().logins.len(), 4);
}

#[tokio::test]
async fn lost_path_loses_no_command_and_reconnects() {
    for reply in [|| Reply::Hangup, || Reply::HangupAfter] {
        let served = Target::scripted(64, first(2, is_read, reply)).serve();
        let disk = open(&served, 3).await;
        disk.write(5, block(9, 1)).await.unwrap();
        assert_eq!(disk.read(5, 1).await.unwrap(), block(9, 1));
        while disk.paths().iter().any(|path| path.state != PathState::Active) {
            tokio::task::yield_now().await;
        }
        assert!(served.target.lock().unwrap().logins.len() >= 5);
    }
}

#[tokio::test]
async fn ats_with_unknown_outcome_is_not_resent() {
    let served = Target::scripted(64, first(1, is_ats, || Reply::HangupAfter)).serve();
    let disk = open(&served, 2).await;
    assert_eq!(disk.compare_and_write(0, block(0, 1), block(1, 1)).await, Err(DeviceError::TimedOut));
    assert_eq!(disk.read(0, 1).await.unwrap(), block(1, 1));
    assert_eq!(disk.compare_and_write(0, block(1, 1), block(2, 1)).await, Ok(AtsOutcome::Written));
    assert_eq!(disk.counters().aborts, 1);
}

#[tokio::test]
async fn unanswered_command_is_aborted_and_resent() {
    let served = Target::scripted(64, first(1, is_read, || Reply::Hold)).serve();
    let rules = RetryRules { command_timeout: Duration::from_millis(1), ..options().rules };
    let disk = IscsiDisk::open(paths(&served, 1), DiskOptions { rules, ..options() }).await.unwrap();
    assert_eq!(disk.read(0, 1).await.unwrap(), block(0, 1));
    assert_eq!(served.target.lock().unwrap().logins.len(), 1);
}

#[tokio::test]
async fn many_unanswered_commands_are_aborted_in_time() {
    let served = Target::scripted(64, first(30, is_read, || Reply::Hold)).serve();
    let rules = RetryRules { command_timeout: Duration::from_millis(1), ..options().rules };
    let disk = IscsiDisk::open(paths(&served, 1), DiskOptions { rules, ..options() }).await.unwrap();
    disk.limit_command_time(Duration::from_secs(2));
    let disk = Arc::new(disk);
    let mut reads = tokio::task::JoinSet::new();
    for lba in 0..30 {
        let disk = disk.clone();
        reads.spawn(async move { disk.read(lba, 1).await });
    }
    assert!(reads.join_all().await.iter().all(Result::is_ok));
    assert_eq!(served.target.lock().unwrap().logins.len(), 1, "the session survives");
}

/// When the disk is closed, no command has been sent; the second one waits for the target's window.
#[tokio::test]
async fn closing_a_disk_completes_open_commands() {
    let served = Target { window: 1, ..Target::new(64) }.serve();
    let disk = open(&served, 1).await;
    let (one, two, ()) = tokio::join!(disk.write(0, block(1, 1)), disk.write(1, block(2, 1)), disk.close());
    assert_eq!((one, two), (Ok(()), Ok(())));
}

#[tokio::test]
async fn busy_attention_and_conflict_are_retried() {
    let replies: [fn() -> Reply; 4] = [
        || Reply::Answer(status(Status::Busy)),
        || Reply::Answer(status(Status::TaskSetFull)),
        || Reply::Answer(status(Status::ReservationConflict)),
        || check(Sense::unit_attention(asc::REPORTED_LUNS_DATA_HAS_CHANGED)),
    ];
    for reply in replies {
        let served = Target::scripted(64, first(9, is_read, reply)).serve();
        let disk = open(&served, 2).await;
        assert_eq!(disk.read(0, 1).await.unwrap(), block(0, 1));
        assert_eq!(disk.counters().reads, 1);
    }
}

#[tokio::test]
async fn conflict_while_a_disk_opens_is_retried() {
    let is_capacity = |command: &Command| matches!(command, Command::ReadCapacity16 { .. });
    let conflict = || Reply::Answer(status(Status::ReservationConflict));
    let served = Target::scripted(64, first(9, is_capacity, conflict)).serve();
    assert_eq!(open(&served, 1).await.identity().blocks, 64);
    let served = Target::scripted(64, first(u32::MAX, is_capacity, conflict)).serve();
    let refused = IscsiDisk::open(paths(&served, 1), options()).await;
    assert!(matches!(refused, Err(OpenError::Unit { .. })));
}

#[tokio::test]
async fn persistent_conflict_is_reported() {
    let script = first(u32::MAX, is_read, || Reply::Answer(status(Status::ReservationConflict)));
    let served = Target::scripted(64, script).serve();
    let disk = open(&served, 1).await;
    assert_eq!(disk.read(0, 1).await, Err(DeviceError::ReservationConflict));
    assert_eq!((disk.counters().conflicts, disk.counters().errors), (81, 1));
}

#[tokio::test]
async fn reservation_is_lost_with_its_path() {
    let is_write = |command: &Command| matches!(command, Command::Write(_));
    let served = Target::scripted(64, first(1, is_write, || Reply::Hangup)).serve();
    let disk = open(&served, 2).await;
    disk.reserve().await.unwrap();
    for _ in 0..6 {
        disk.read(0, 1).await.unwrap();
    }
    let counts: Vec<u64> = disk.paths().iter().map(|path| path.commands).collect();
    assert_eq!(counts.iter().max(), Some(&7));
    assert_eq!(disk.write(0, block(1, 1)).await, Err(DeviceError::ReservationConflict));
    disk.release().await.unwrap();
    disk.write(0, block(1, 1)).await.unwrap();
}

/// Another host resets the unit to break the reservation and then takes it. A resent command would
/// overwrite that host's lock.
#[tokio::test]
async fn lost_reservation_stops_writes() {
    let is_write = |command: &Command| matches!(command, Command::Write(_));
    let lost: [fn() -> Reply; 3] = [
        || check(Sense::unit_attention(asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED)),
        || Reply::Answer(status(Status::ReservationConflict)),
        || Reply::Answer(status(Status::TaskAborted)),
    ];
    for reply in lost {
        let served = Target::scripted(64, first(1, is_write, reply)).serve();
        let disk = open(&served, 1).await;
        disk.reserve().await.unwrap();
        assert_eq!(disk.write(0, block(1, 1)).await, Err(DeviceError::ReservationConflict));
        assert_eq!(disk.write(0, block(1, 1)).await, Err(DeviceError::ReservationConflict), "until it is released");
        disk.release().await.unwrap();
        assert_eq!(disk.read(0, 1).await.unwrap(), block(0, 1), "nothing was written");
        disk.write(0, block(1, 1)).await.unwrap();
    }
}

#[tokio::test]
async fn clear_task_set_reports_if_unsupported() {
    let served = Target::new(64).serve();
    let disk = open(&served, 1).await;
    assert_eq!(disk.clear_task_set().await, Ok(true));
    assert_eq!(served.target.lock().unwrap().functions, [TaskFunction::ClearTaskSet]);
    served.target.lock().unwrap().unknown = Some(TaskFunction::ClearTaskSet);
    assert_eq!(disk.clear_task_set().await, Ok(false));
    disk.reserve().await.unwrap();
    served.target.lock().unwrap().unknown = Some(TaskFunction::LogicalUnitReset);
    assert_eq!(disk.reset().await, Err(DeviceError::InvalidResponse));
    disk.release().await.unwrap();
    assert_eq!(disk.paths()[0].commands, 2, "the reservation that was not reset is released");
}

#[tokio::test]
async fn unsupported_offload_is_not_sent_again() {
    let asked = Arc::new(AtomicU32::new(0));
    let seen = asked.clone();
    let served = Target::scripted(64, move |task| match command(task) {
        Command::WriteSame(_) => {
            seen.fetch_add(1, Ordering::Relaxed);
            check(Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE))
        }
        _ => Reply::Disk,
    })
    .serve();
    let disk = open(&served, 1).await;
    for _ in 0..3 {
        assert_eq!(disk.write_same(0, 8, block(0, 1)).await, Err(DeviceError::Unsupported(Primitive::Zero)));
    }
    assert_eq!((asked.load(Ordering::Relaxed), disk.counters().zero.failed), (1, 1));
    disk.enable(Primitive::Ats, false);
    let ats = disk.compare_and_write(0, block(0, 1), block(1, 1)).await;
    assert_eq!(ats, Err(DeviceError::Unsupported(Primitive::Ats)));
    assert_eq!(disk.vaai().ats.support, Support::Unknown);
}

#[tokio::test]
async fn queue_depth_limits_open_commands() {
    let served = Target::scripted(64, |task| if is_read(&command(task)) { Reply::Hold } else { Reply::Disk }).serve();
    let deep = DiskOptions { queue_depth: 3, ..options() };
    let disk = Arc::new(IscsiDisk::open(paths(&served, 2), deep).await.unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for lba in 0..50 {
        let disk = disk.clone();
        tasks.spawn(async move { disk.read(lba, 8).await });
    }
    let numbers = loop {
        let numbers = disk.counters();
        if numbers.active + numbers.queued == 50 {
            break numbers;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((numbers.active, numbers.queued), (3, 47));
    // Dropped calls are no longer counted.
    tasks.shutdown().await;
    assert_eq!((disk.counters().active, disk.counters().queued), (0, 0));
}

#[tokio::test]
async fn command_without_paths_waits_then_fails() {
    let served = Target::scripted(64, |task| if is_read(&command(task)) { Reply::Hangup } else { Reply::Disk }).serve();
    let disk = open(&served, 1).await;
    served.target.lock().unwrap().account = Some(("nobody".to_owned(), "knows this one".to_owned()));
    assert_eq!(disk.read(0, 1).await, Err(DeviceError::PathsDown));
    assert_eq!(disk.paths()[0].state, PathState::Dead);
    assert!(disk.paths()[0].last_error.is_some());
    assert!(matches!(IscsiDisk::open(paths(&served, 2), options()).await, Err(OpenError::Connect(_))));
    assert!(matches!(IscsiDisk::open(Vec::new(), options()).await, Err(OpenError::NoPath)));
}

#[tokio::test]
async fn distance_delays_every_round_trip() {
    let served = Target::new(64).serve();
    let far = DiskOptions { distance: Duration::from_millis(20), ..options() };
    let disk = IscsiDisk::open(paths(&served, 2), far).await.unwrap();
    disk.read(0, 1).await.unwrap();
    assert!(disk.latencies().read.min() >= 19_000_000);
}

/// A limit long enough for an answered command, and short compared to the retry rules.
const LIFETIME: Duration = Duration::from_millis(600);

#[tokio::test]
async fn expired_command_is_not_resent() {
    let busy = || Reply::Answer(status(Status::Busy));
    let served = Target::scripted(64, first(u32::MAX, is_read, busy)).serve();
    let rules = RetryRules { busy_retries: 5000, ..options().rules };
    let disk = IscsiDisk::open(paths(&served, 2), DiskOptions { rules, ..options() }).await.unwrap();
    disk.limit_command_time(LIFETIME);
    // Never longer again.
    disk.limit_command_time(LIFETIME * 100);
    assert_eq!(disk.read(0, 1).await, Err(DeviceError::TimedOut));
}

#[tokio::test]
async fn unabortable_command_ends_with_its_session() {
    let is_write = |command: &Command| matches!(command, Command::Write(_));
    let sent = Arc::new(AtomicU32::new(0));
    let seen = sent.clone();
    let served = Target::scripted(64, move |task| {
        if is_write(&command(task)) {
            seen.fetch_add(1, Ordering::Relaxed);
            return Reply::Stall;
        }
        Reply::Disk
    })
    .serve();
    let disk = open(&served, 1).await;
    disk.limit_command_time(LIFETIME);
    assert_eq!(disk.write(0, block(1, 1)).await, Err(DeviceError::TimedOut));
    assert_eq!(sent.load(Ordering::Relaxed), 1, "the command was sent once and not again");
    assert_eq!(disk.read(0, 1).await.unwrap(), block(0, 1), "over a new session");
    assert_eq!(served.target.lock().unwrap().logins.len(), 2);
}
