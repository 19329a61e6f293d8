//! Disks over several paths to a target that follows a script.
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

/// Rules that are quick: what is tested is what happens, not when.
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
async fn every_command_reaches_the_disk() {
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
async fn round_robin_sends_as_many_commands_down_each_path() {
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
    assert_eq!(served.target.lock().unwrap().logins.len(), 4);
}

#[tokio::test]
async fn a_lost_path_costs_no_command_and_comes_back() {
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
async fn an_ats_in_doubt_is_not_sent_again() {
    let served = Target::scripted(64, first(1, is_ats, || Reply::HangupAfter)).serve();
    let disk = open(&served, 2).await;
    assert_eq!(disk.compare_and_write(0, block(0, 1), block(1, 1)).await, Err(DeviceError::TimedOut));
    assert_eq!(disk.read(0, 1).await.unwrap(), block(1, 1));
    assert_eq!(disk.compare_and_write(0, block(1, 1), block(2, 1)).await, Ok(AtsOutcome::Written));
    assert_eq!(disk.counters().aborts, 1);
}

#[tokio::test]
async fn a_command_that_is_never_answered_is_aborted_and_sent_again() {
    let served = Target::scripted(64, first(1, is_read, || Reply::Hold)).serve();
    let rules = RetryRules { command_timeout: Duration::from_millis(1), ..options().rules };
    let disk = IscsiDisk::open(paths(&served, 1), DiskOptions { rules, ..options() }).await.unwrap();
    assert_eq!(disk.read(0, 1).await.unwrap(), block(0, 1));
    assert_eq!(served.target.lock().unwrap().logins.len(), 1);
}

#[tokio::test]
async fn many_commands_that_are_never_answered_are_aborted_in_time() {
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
    assert_eq!(served.target.lock().unwrap().logins.len(), 1, "the session need not end");
}

/// Nothing of what was asked for has been sent when the disk is closed; the second command waits for the target's window.
#[tokio::test]
async fn what_is_open_when_a_disk_is_closed_ends_first() {
    let served = Target { window: 1, ..Target::new(64) }.serve();
    let disk = open(&served, 1).await;
    let (one, two, ()) = tokio::join!(disk.write(0, block(1, 1)), disk.write(1, block(2, 1)), disk.close());
    assert_eq!((one, two), (Ok(()), Ok(())));
}

#[tokio::test]
async fn busy_targets_attentions_and_conflicts_are_waited_out() {
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
async fn a_conflict_that_stays_is_told() {
    let script = first(u32::MAX, is_read, || Reply::Answer(status(Status::ReservationConflict)));
    let served = Target::scripted(64, script).serve();
    let disk = open(&served, 1).await;
    assert_eq!(disk.read(0, 1).await, Err(DeviceError::ReservationConflict));
    assert_eq!((disk.counters().conflicts, disk.counters().errors), (81, 1));
}

#[tokio::test]
async fn a_reservation_stays_on_its_path_and_falls_with_it() {
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

/// Another host resets the unit to break the reservation, and takes it: what is sent again then would land over that host's lock.
#[tokio::test]
async fn a_reservation_that_a_reset_took_is_not_believed_in() {
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
        assert_eq!(
            disk.write(0, block(1, 1)).await,
            Err(DeviceError::ReservationConflict),
            "not before it is released"
        );
        disk.release().await.unwrap();
        assert_eq!(disk.read(0, 1).await.unwrap(), block(0, 1), "nothing was written");
        disk.write(0, block(1, 1)).await.unwrap();
    }
}

#[tokio::test]
async fn what_waits_at_the_device_is_cleared_where_it_knows_how() {
    let served = Target::new(64).serve();
    let disk = open(&served, 1).await;
    assert_eq!(disk.clear_task_set().await, Ok(true));
    assert_eq!(served.target.lock().unwrap().functions, [TaskFunction::ClearTaskSet]);
    served.target.lock().unwrap().unknown = Some(TaskFunction::ClearTaskSet);
    assert_eq!(disk.clear_task_set().await, Ok(false));
    disk.reserve().await.unwrap();
    served.target.lock().unwrap().unknown = Some(TaskFunction::LogicalUnitReset);
    assert_eq!(disk.reset().await, Err(DeviceError::Nonsense));
    disk.release().await.unwrap();
    assert_eq!(disk.paths()[0].commands, 2, "what was not reset is released");
}

#[tokio::test]
async fn what_a_device_does_not_know_is_not_asked_again() {
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
async fn no_more_commands_are_open_than_the_queue_is_deep() {
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
    // Who loses interest is no longer counted.
    tasks.shutdown().await;
    assert_eq!((disk.counters().active, disk.counters().queued), (0, 0));
}

#[tokio::test]
async fn without_any_path_a_command_waits_and_then_fails() {
    let served = Target::scripted(64, |task| if is_read(&command(task)) { Reply::Hangup } else { Reply::Disk }).serve();
    let disk = open(&served, 1).await;
    served.target.lock().unwrap().account = Some(("nobody".to_owned(), "knows this one".to_owned()));
    assert_eq!(disk.read(0, 1).await, Err(DeviceError::PathsDown));
    assert_eq!(disk.paths()[0].state, PathState::Dead);
    assert!(disk.paths()[0].trouble.is_some());
    assert!(matches!(IscsiDisk::open(paths(&served, 2), options()).await, Err(OpenError::Connect(_))));
    assert!(matches!(IscsiDisk::open(Vec::new(), options()).await, Err(OpenError::NoPath)));
}

#[tokio::test]
async fn a_distance_is_added_to_every_round_trip() {
    let served = Target::new(64).serve();
    let far = DiskOptions { distance: Duration::from_millis(20), ..options() };
    let disk = IscsiDisk::open(paths(&served, 2), far).await.unwrap();
    disk.read(0, 1).await.unwrap();
    assert!(disk.latencies().read.min() >= 19_000_000);
}

/// A bound long enough for a command that is answered, and short beside what the rules allow.
const LIFETIME: Duration = Duration::from_millis(600);

#[tokio::test]
async fn a_bounded_command_is_not_sent_again_when_its_time_is_over() {
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
async fn a_bounded_command_that_no_abort_ends_ends_with_its_session() {
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
    assert_eq!(sent.load(Ordering::Relaxed), 1, "what was sent is over; nothing follows it");
    assert_eq!(disk.read(0, 1).await.unwrap(), block(0, 1), "by another session");
    assert_eq!(served.target.lock().unwrap().logins.len(), 2);
}
