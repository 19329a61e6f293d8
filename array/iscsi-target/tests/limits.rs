//! QoS limits of a volume: throttled commands delay no other volume, can be aborted, and resume
//! when the limits change.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::Bytes;
use catalog::VolumeEdit;
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
    let edit = VolumeEdit { bandwidth_limit: Some(bandwidth), ..VolumeEdit::default() };
    array.change(move |draft| draft.edit_volume("shared", &edit).map(|_| ())).await;
    array.gate.wait_checked().await;
}

async fn submit_reads(host: &mut Host) -> Vec<CommandId> {
    let mut reads = Vec::new();
    for _ in 0..READS {
        reads.push(host.submit(1, &Command::Read(transfer(0, BLOCKS as u32)), Bytes::new()).await);
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
