//! Tests of a disk that two arrays serve, each with a port group of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

#[path = "../../initiator/tests/support/mod.rs"]
mod support;

use bytes::Bytes;
use initiator::{CopyRun, InitiatorConfig, Url};
use iscsi::pdu::TaskFunction;
use iscsi::target_connection::{CommandCompletion, TargetCommand};
use multipath::{DiskOptions, IscsiDisk, PathConfig, PathPolicy, PathState, RetryRules, SharedDisk};
use scsi::port_groups::AccessState::{self, ActiveNonOptimized, ActiveOptimized, Transitioning, Unavailable};
use scsi::port_groups::{PortGroup, StateCause, port_groups_data};
use scsi::{Asc, Cdb, Command, Sense, SenseFormat, SenseKey, asc};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{LBA_LEN, Reply, Served, Target};

const SOON: Duration = Duration::from_millis(1);
const LATER: Duration = Duration::from_secs(3600);

/// The states of the ports of two arrays, and the arrays whose session has a pending attention.
struct Ports {
    states: [AccessState; 2],
    has_changed: [bool; 2],
    /// Copies that each array has made.
    copies: [u32; 2],
}

/// Two arrays. The disk of each is filled with its number, which a read shows.
struct Pair {
    ports: Arc<Mutex<Ports>>,
    arrays: [Served; 2],
}

fn check(key: SenseKey, asc: Asc) -> Reply {
    Reply::Answer(CommandCompletion::check_condition(Sense::new(key, asc).to_bytes(SenseFormat::Fixed)))
}

/// VPD page 83h: the same NAA identifier at both arrays, and the group of the port.
fn identification(group: u8) -> Vec<u8> {
    let body = [&[0x01, 0x03, 0, 16][..], &[0x60; 16], &[0x51, 0x95, 0, 4, 0, 0, 0, group]].concat();
    [&[0, 0x83, 0, body.len() as u8][..], &body].concat()
}

fn groups(states: [AccessState; 2]) -> Vec<u8> {
    let group = |(id, state)| PortGroup {
        id,
        state,
        preferred: false,
        supported: PortGroup::ACTIVE_OR_NOT,
        cause: StateCause::ByArray,
        ports: vec![id * 256],
    };
    port_groups_data(&[1, 2].into_iter().zip(states).map(group).collect::<Vec<_>>(), None)
}

/// Answers as the array with this index.
fn answer(ports: &Mutex<Ports>, array: usize, task: &TargetCommand) -> Reply {
    let mut ports = ports.lock().unwrap();
    let command = Cdb::parse(&task.cdb).unwrap();
    if let Command::Inquiry { page, .. } = command {
        return match page {
            Some(0x83) => Reply::Answer(CommandCompletion::read(identification(array as u8 + 1))),
            _ => Reply::Disk,
        };
    }
    if let Command::ExtendedCopy { .. } = command {
        ports.copies[array] += 1;
        return Reply::Answer(CommandCompletion::good());
    }
    if std::mem::take(&mut ports.has_changed[array]) {
        return check(SenseKey::UnitAttention, asc::ASYMMETRIC_ACCESS_STATE_CHANGED);
    }
    match (command, ports.states[array]) {
        (Command::ReportTargetPortGroups { .. }, _) => Reply::Answer(CommandCompletion::read(groups(ports.states))),
        (Command::ReadCapacity16 { .. }, _) | (_, ActiveOptimized | ActiveNonOptimized) => Reply::Disk,
        (_, Transitioning) => {
            check(SenseKey::NotReady, asc::LOGICAL_UNIT_NOT_ACCESSIBLE_ASYMMETRIC_ACCESS_STATE_TRANSITION)
        }
        (_, _) => check(SenseKey::NotReady, asc::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_UNAVAILABLE_STATE),
    }
}

impl Pair {
    fn start(states: [AccessState; 2]) -> Self {
        let ports = Arc::new(Mutex::new(Ports { states, has_changed: [false; 2], copies: [0; 2] }));
        let arrays = [0, 1].map(|array| {
            let shown = ports.clone();
            let mut target = Target::scripted(64, move |task| answer(&shown, array, task));
            target.disk.data.fill(array as u8 + 1);
            target.serve()
        });
        Self { ports, arrays }
    }

    async fn open(&self, policy: PathPolicy, standby_poll: Duration) -> IscsiDisk {
        self.open_at(&[0, 1], policy, standby_poll).await
    }

    /// Opens the disk with paths to these arrays, in this order.
    async fn open_at(&self, arrays: &[usize], policy: PathPolicy, standby_poll: Duration) -> IscsiDisk {
        let path = |array: &usize| {
            let url: Url = self.arrays[*array].url().replace(support::NAME, &target(*array)).parse().unwrap();
            PathConfig { config: InitiatorConfig::new("iqn.2026-11.test:host", &url), lun: url.lun }
        };
        let rules = RetryRules { busy_pause: Duration::from_millis(1), standby_poll, ..RetryRules::default() };
        let options = DiskOptions { rules, policy, ..DiskOptions::default() };
        IscsiDisk::open(arrays.iter().map(path).collect(), options).await.unwrap()
    }

    /// Changes the states, with or without unit attentions.
    fn set(&self, states: [AccessState; 2], has_changed: bool) {
        *self.ports.lock().unwrap() = Ports { states, has_changed: [has_changed; 2], copies: [0; 2] };
    }
}

/// Returns the target name of an array.
fn target(array: usize) -> String {
    format!("{}-{array}", support::NAME)
}

fn block(array: u8) -> Bytes {
    vec![array; LBA_LEN].into()
}

async fn wait_for(disk: &IscsiDisk, states: [PathState; 2]) {
    while !disk.paths().iter().map(|path| path.state).eq(states) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn both_arrays_are_used_while_both_are_active() {
    let pair = Pair::start([ActiveOptimized; 2]);
    let disk = pair.open(PathPolicy::default(), SOON).await;
    let served = [disk.read(0, 1).await.unwrap(), disk.read(0, 1).await.unwrap()];
    assert!(served.contains(&block(1)) && served.contains(&block(2)));
    assert_eq!(disk.paths().iter().map(|path| path.group).collect::<Vec<_>>(), [Some(1), Some(2)]);
}

#[tokio::test]
async fn paths_of_two_arrays_follow_their_states() {
    for policy in [PathPolicy::default(), PathPolicy::Fixed { preferred: 0 }, PathPolicy::MostRecentlyUsed] {
        for has_attention in [true, false] {
            for out in [Unavailable, Transitioning] {
                let pair = Pair::start([ActiveOptimized, out]);
                // The other path is asked when one reports a change, not only at its interval.
                let disk = pair.open(policy, LATER).await;
                wait_for(&disk, [PathState::Active, PathState::Standby]).await;
                for _ in 0..3 {
                    assert_eq!(disk.read(0, 1).await.unwrap(), block(1));
                }
                pair.set([out, ActiveOptimized], has_attention);
                for _ in 0..3 {
                    assert_eq!(disk.read(0, 1).await.unwrap(), block(2), "{policy:?} {has_attention} {out:?}");
                }
                wait_for(&disk, [PathState::Standby, PathState::Active]).await;
                disk.write(1, block(7)).await.unwrap();
                assert_eq!(pair.arrays[1].target.lock().unwrap().disk.data[LBA_LEN], 7);
            }
        }
    }
}

#[tokio::test]
async fn optimized_paths_are_used_while_there_are_any() {
    for policy in [PathPolicy::default(), PathPolicy::Fixed { preferred: 0 }, PathPolicy::MostRecentlyUsed] {
        let pair = Pair::start([ActiveNonOptimized, ActiveOptimized]);
        let disk = pair.open(policy, LATER).await;
        wait_for(&disk, [PathState::Unoptimized, PathState::Active]).await;
        let reads = async |array: u8, cause: &str| {
            for _ in 0..4 {
                assert_eq!(disk.read(0, 1).await.unwrap(), block(array), "{policy:?}, {cause}");
            }
        };
        reads(2, "the second array is optimized").await;
        // The path of the first array carries no commands. It is used without a query of its state.
        pair.set([ActiveNonOptimized, Unavailable], true);
        reads(1, "the second array does not serve").await;
        pair.set([ActiveNonOptimized, ActiveOptimized], true);
        disk.read(0, 1).await.unwrap();
        wait_for(&disk, [PathState::Unoptimized, PathState::Active]).await;
        reads(2, "the second array serves again").await;
        // The preference moves.
        pair.set([ActiveOptimized, ActiveNonOptimized], true);
        disk.read(0, 1).await.unwrap();
        wait_for(&disk, [PathState::Active, PathState::Unoptimized]).await;
        reads(1, "the first array is optimized").await;
    }
}

#[tokio::test]
async fn commands_wait_until_an_array_serves_again() {
    let pair = Pair::start([Transitioning, Unavailable]);
    // The disk can be opened and described before.
    let disk = pair.open(PathPolicy::default(), SOON).await;
    assert_eq!(disk.identity().blocks, 64);
    wait_for(&disk, [PathState::Standby; 2]).await;
    let read = async {
        let reading = disk.read(0, 1);
        tokio::pin!(reading);
        // The read waits for a path.
        tokio::select! {
            biased;
            _ = &mut reading => panic!("no array serves the disk"),
            () = std::future::ready(()) => {}
        }
        pair.set([Unavailable, ActiveOptimized], false);
        reading.await
    };
    assert_eq!(read.await.unwrap(), block(2));
}

#[tokio::test]
async fn array_that_serves_again_is_used_again() {
    let pair = Pair::start([Unavailable, ActiveOptimized]);
    let disk = pair.open(PathPolicy::Fixed { preferred: 0 }, SOON).await;
    assert_eq!(disk.read(0, 1).await.unwrap(), block(2));
    // Its path carries no commands, so only the query of its port shows the return.
    pair.set([ActiveOptimized; 2], false);
    wait_for(&disk, [PathState::Active; 2]).await;
    assert_eq!(disk.read(0, 1).await.unwrap(), block(1));
}

#[tokio::test]
async fn copies_go_by_way_of_an_array_with_both_units() {
    let pair = Pair::start([ActiveOptimized; 2]);
    let stretched = pair.open(PathPolicy::default(), SOON).await;
    let plain = pair.open_at(&[1], PathPolicy::default(), SOON).await;
    assert_eq!(stretched.identity().arrays, [target(0), target(1)]);
    assert_eq!(plain.identity().arrays, [target(1)]);
    let runs = || vec![CopyRun { source: 0, destination: 8, blocks: 8 }];
    for _ in 0..4 {
        stretched.copy(&plain, runs()).await.unwrap();
        plain.copy(&stretched, runs()).await.unwrap();
    }
    assert_eq!(pair.ports.lock().unwrap().copies, [0, 8], "the first array does not have the plain unit");
    for _ in 0..4 {
        stretched.copy(&stretched, runs()).await.unwrap();
    }
    assert_eq!(pair.ports.lock().unwrap().copies, [2, 10], "both have the stretched one");
}

#[tokio::test]
async fn copy_without_an_array_of_both_units_is_refused() {
    let pair = Pair::start([ActiveOptimized, Unavailable]);
    let stretched = pair.open(PathPolicy::default(), SOON).await;
    let plain = pair.open_at(&[1], PathPolicy::default(), LATER).await;
    wait_for(&stretched, [PathState::Active, PathState::Standby]).await;
    // The first array serves the source, and does not have the destination: the host reads and
    // writes.
    let runs = vec![CopyRun { source: 0, destination: 8, blocks: 8 }];
    let error = stretched.copy(&plain, runs).await.unwrap_err();
    assert!(error.is_refusal(), "{error}");
    assert_eq!(pair.ports.lock().unwrap().copies, [0, 0]);
}

#[tokio::test]
async fn commands_are_cleared_at_both_arrays() {
    let pair = Pair::start([ActiveOptimized, Unavailable]);
    let disk = pair.open(PathPolicy::default(), SOON).await;
    wait_for(&disk, [PathState::Active, PathState::Standby]).await;
    assert_eq!(disk.clear_task_set().await, Ok(true));
    disk.reset().await.unwrap();
    for array in &pair.arrays {
        let functions = array.target.lock().unwrap().functions.clone();
        assert_eq!(functions, [TaskFunction::ClearTaskSet, TaskFunction::LogicalUnitReset]);
    }
}
