//! Limits of a volume: what has no room waits, in its session and no other; it can be aborted, and goes on when the
//! limits change.

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
/// Reads of the whole volume, a MiB each, that a limit of 1 MiB/s keeps back for more than a minute; more than a session may have in memory.
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
    array.gate.looked_at().await;
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
async fn what_waits_holds_up_no_other_volume_and_goes_when_the_limit_is_lifted() {
    let array = start().await;
    let mut host = array.host(ALPHA).await;
    limit(&array, Some(1 << 20)).await;
    let reads = submit_reads(&mut host).await;
    assert_eq!(host.run(2, Command::Read(transfer(0, 8))).await.data(), vec![0; 4096]);
    // A lock is taken although many reads wait on the volume.
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
async fn what_waits_can_be_aborted_at_once() {
    let array = start().await;
    let mut host = array.host(ALPHA).await;
    limit(&array, Some(1 << 20)).await;
    let reads = submit_reads(&mut host).await;
    let (last, before) = (reads[reads.len() - 1], reads[reads.len() - 2]);
    let abort = host.start_function(TaskFunction::AbortTask, 1, Some(last)).await;
    assert_eq!(host.outcome_of(abort).await, TaskOutcome::Complete);
    assert!(!host.has_ended(before), "the others wait still");
    let mut beta = array.host(BETA).await;
    let reset = beta.start_function(TaskFunction::LogicalUnitReset, 1, None).await;
    assert_eq!(beta.outcome_of(reset).await, TaskOutcome::Complete);
    assert_eq!(host.end_of(before).await, Ended::Aborted);
}

#[tokio::test]
async fn a_session_that_ends_leaves_nothing_in_line() {
    let array = start().await;
    let mut host = array.host(ALPHA).await;
    limit(&array, Some(1 << 20)).await;
    submit_reads(&mut host).await;
    drop(host);
    // The seat is free again only when the old session's commands have ended.
    let mut host = array.host(ALPHA).await;
    assert_eq!(host.run(2, Command::TestUnitReady).await, GOOD);
    assert_eq!(array.target.sessions(), 1);
}

#[tokio::test]
async fn what_waited_does_not_reach_a_volume_that_was_taken_away() {
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
