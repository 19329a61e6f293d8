//! QoS limits of volumes and volume groups: throttled commands delay no other volume, can be
//! aborted, and resume when the limits change.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::Bytes;
use catalog::{QosEdit, VolumeEdit};
use engine::model::ModelEngine;
use iscsi::initiator_connection::CommandId;
use iscsi::pdu::{TaskFunction, TaskOutcome};
use iscsi_target::TargetConfig;
use scsi::cdb::{CdbSize, Command, Transfer};
use scsi::{SenseKey, asc};
use std::sync::Arc;
use std::time::Duration;
use support::{ALPHA, Array, BETA, BLOCKS, Ended, Host};
use types::Lba;

const GOOD: Ended = Ended::Good(Bytes::new());
/// Number of reads of the whole volume, 1 MiB each. A limit of 1 MiB/s throttles them for over a
/// minute, and their data exceeds the memory limit of a session.
const READS: u64 = 100;

async fn start() -> Array {
    let config = TargetConfig { space_poll: Duration::from_millis(1), ..TargetConfig::default() };
    Array::start_on(Arc::new(ModelEngine::default()), config).await
}

fn transfer(lba: u64, blocks: u32) -> Transfer {
    Transfer { size: CdbSize::Sixteen, lba: Lba(lba), blocks, dpo: false, fua: false }
}

async fn limit(array: &Array, bandwidth: Option<u64>) {
    let qos = QosEdit { bandwidth_limit: Some(bandwidth), iops_limit: None };
    let edit = VolumeEdit { qos, threshold_percent: None };
    array.change(move |draft| draft.edit_volume("shared", &edit).map(|_| ())).await;
    array.gate.wait_checked().await;
}

/// Puts the volumes `shared` and `a` into a group, and sets the limit of the group.
async fn limit_group(array: &Array, bandwidth: Option<u64>) {
    let edit = QosEdit { bandwidth_limit: Some(bandwidth), iops_limit: None };
    array
        .change(move |draft| {
            if draft.state().volume_group("vg").is_err() {
                draft.create_volume_group("vg", 0)?;
                draft.move_volume("shared", Some("vg"))?;
                draft.move_volume("a", Some("vg"))?;
            }
            draft.edit_volume_group("vg", &edit).map(|_| ())
        })
        .await;
    array.gate.wait_checked().await;
}

async fn submit_reads(host: &mut Host) -> Vec<CommandId> {
    submit_some(host, 1, READS).await
}

async fn submit_some(host: &mut Host, lun: u16, count: u64) -> Vec<CommandId> {
    let mut reads = Vec::new();
    for _ in 0..count {
        reads.push(host.submit(lun, &Command::Read(transfer(0, BLOCKS as u32)), Bytes::new()).await);
    }
    host.ping().await;
    reads
}

#[tokio::test]
async fn throttled_reads_delay_no_other_volume() {
    let array = start().await;
    let mut host = array.host(ALPHA).await;
    limit(&array, Some(1 << 20)).await;
    let reads = submit_reads(&mut host).await;
    assert_eq!(host.run(2, Command::Read(transfer(0, 8))).await.data(), vec![0; 4096]);
    // A COMPARE AND WRITE completes although many reads are throttled.
    let lock = Command::CompareAndWrite { lba: Lba(0), blocks: 1, dpo: false, fua: false };
    assert_eq!(host.run_with(1, lock, [[0; 512], [1; 512]].concat()).await, GOOD);
    let last = *reads.last().expect("reads");
    assert!(!host.has_ended(last));
    limit(&array, None).await;
    for read in reads {
        assert_eq!(host.end_of(read).await.data().len() as u64, BLOCKS * 512);
    }
}

#[tokio::test]
async fn throttled_commands_can_be_aborted() {
    let array = start().await;
    let mut host = array.host(ALPHA).await;
    limit(&array, Some(1 << 20)).await;
    let reads = submit_reads(&mut host).await;
    let (last, before) = (reads[reads.len() - 1], reads[reads.len() - 2]);
    let abort = host.start_function(TaskFunction::AbortTask, 1, Some(last)).await;
    assert_eq!(host.outcome_of(abort).await, TaskOutcome::Complete);
    assert!(!host.has_ended(before), "the other reads still wait");
    let mut beta = array.host(BETA).await;
    let reset = beta.start_function(TaskFunction::LogicalUnitReset, 1, None).await;
    assert_eq!(beta.outcome_of(reset).await, TaskOutcome::Complete);
    assert_eq!(host.end_of(before).await, Ended::Aborted);
}

#[tokio::test]
async fn ended_session_leaves_no_throttled_commands() {
    let array = start().await;
    let mut host = array.host(ALPHA).await;
    limit(&array, Some(1 << 20)).await;
    submit_reads(&mut host).await;
    drop(host);
    // The login succeeds only after the commands of the old session have ended.
    let mut host = array.host(ALPHA).await;
    assert_eq!(host.run(2, Command::TestUnitReady).await, GOOD);
    assert_eq!(array.target.sessions(), 1);
}

#[tokio::test]
async fn throttled_reads_fail_after_volume_disconnect() {
    let array = start().await;
    let mut host = array.host(ALPHA).await;
    limit(&array, Some(1 << 20)).await;
    let reads = submit_reads(&mut host).await;
    array.change(|draft| draft.disconnect("alpha", "shared").map(|_| ())).await;
    host.ping().await;
    limit(&array, None).await;
    let gone = Ended::Check(SenseKey::IllegalRequest, asc::LOGICAL_UNIT_NOT_SUPPORTED);
    assert_eq!(host.end_of(*reads.last().expect("reads")).await, gone);
}

#[tokio::test]
async fn volumes_of_a_group_wait_for_one_limit() {
    let array = start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    limit_group(&array, Some(1 << 20)).await;
    // The other volume of the group waits as well, and a volume outside it does not.
    let reads = submit_some(&mut alpha, 1, 20).await;
    let others = submit_some(&mut alpha, 2, 20).await;
    assert_eq!(beta.run(2, Command::Read(transfer(0, BLOCKS as u32))).await.data().len() as u64, BLOCKS * 512);
    let (last, last_other) = (reads[reads.len() - 1], others[others.len() - 1]);
    assert!(!alpha.has_ended(last) && !alpha.has_ended(last_other));
    // A volume that leaves the group waits no longer for new commands.
    array.change(|draft| draft.move_volume("vg/a", None).map(|_| ())).await;
    array.gate.wait_checked().await;
    assert_eq!(alpha.run(2, Command::Read(transfer(0, 8))).await.data(), vec![0; 4096]);
    assert!(!alpha.has_ended(last_other), "commands that wait already keep their place");
    limit_group(&array, None).await;
    for read in reads.into_iter().chain(others) {
        assert_eq!(alpha.end_of(read).await.data().len() as u64, BLOCKS * 512);
    }
}

#[tokio::test]
async fn commands_pass_the_limits_of_volume_and_group() {
    let array = start().await;
    let mut host = array.host(ALPHA).await;
    limit_group(&array, Some(1 << 20)).await;
    let set = |bandwidth: Option<u64>| {
        let qos = QosEdit { bandwidth_limit: Some(bandwidth), iops_limit: None };
        array.change(move |draft| {
            draft.edit_volume("vg/shared", &VolumeEdit { qos, threshold_percent: None }).map(|_| ())
        })
    };
    set(Some(2 << 20)).await;
    array.gate.wait_checked().await;
    let reads = submit_reads(&mut host).await;
    let (last, before) = (reads[reads.len() - 1], reads[reads.len() - 2]);
    // Without the limit of the volume, the commands wait for that of the group, and can be aborted.
    set(None).await;
    array.gate.wait_checked().await;
    host.ping().await;
    assert!(!host.has_ended(last));
    let abort = host.start_function(TaskFunction::AbortTask, 1, Some(last)).await;
    assert_eq!(host.outcome_of(abort).await, TaskOutcome::Complete);
    assert!(!host.has_ended(before), "the other reads still wait");
    limit_group(&array, None).await;
    assert_eq!(host.end_of(before).await.data().len() as u64, BLOCKS * 512);
    assert_eq!(host.run(1, Command::Read(transfer(0, 8))).await.data(), vec![0; 4096]);
}
