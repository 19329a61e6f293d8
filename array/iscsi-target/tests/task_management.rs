//! Aborts, resets, session reinstatement and lost connections, answered once outcomes are certain.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::Bytes;
use engine::Service;
use engine::model::ModelEngine;
use iscsi::initiator_connection::InitiatorLoginConfig;
use iscsi::pdu::{TaskFunction, TaskOutcome};
use iscsi_target::TargetConfig;
use scsi::asc;
use scsi::cdb::{CdbSize, Command, CopyResults, Transfer};
use scsi::copy::{CopyList, CopyState, CopyStatus, ListIdUsage, Segment, build_copy_list};
use scsi::inquiry::Naa;
use std::sync::Arc;
use support::{ALPHA, Array, BETA, Ended, Host};
use telemetry::CommandClass;
use types::Lba;

const GOOD: Ended = Ended::Good(Bytes::new());

fn transfer(lba: u64, blocks: u32) -> Transfer {
    Transfer { size: CdbSize::Ten, lba: Lba(lba), blocks, dpo: false, fua: false }
}

fn write(lba: u64) -> Command {
    Command::Write(transfer(lba, 1))
}

#[tokio::test]
async fn abort_task_is_answered_after_the_write_ends() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    array.gate.block_changes();
    let stuck = host.submit(1, &write(0), vec![7; 512]).await;
    array.gate.wait_blocked(1).await;
    let abort = host.start_function(TaskFunction::AbortTask, 1, Some(stuck)).await;
    assert!(host.is_pending(abort).await);
    array.gate.release();
    assert_eq!(host.outcome_of(abort).await, TaskOutcome::Complete);
    assert!(!host.has_ended(stuck), "an aborted command gets no answer");
    // The engine had the write already, so it completed. The answer shows that this is certain.
    assert_eq!(host.run(1, Command::Read(transfer(0, 1))).await.data(), vec![7; 512]);
}

#[tokio::test]
async fn lun_reset_aborts_commands_of_all_sessions() {
    let array = Array::start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    array.gate.block_changes();
    let on_shared = alpha.submit(1, &write(0), vec![1; 512]).await;
    let elsewhere = alpha.submit(2, &write(0), vec![1; 512]).await;
    array.gate.wait_blocked(2).await;
    let reset = beta.start_function(TaskFunction::LogicalUnitReset, 1, None).await;
    assert!(beta.is_pending(reset).await);
    array.gate.release();
    assert_eq!(beta.outcome_of(reset).await, TaskOutcome::Complete);
    assert_eq!(alpha.end_of(on_shared).await, Ended::Aborted);
    assert_eq!(alpha.end_of(elsewhere).await, GOOD);
    for host in [&mut alpha, &mut beta] {
        assert_eq!(host.attentions(1).await, [asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED.0]);
        assert!(host.attentions(2).await.is_empty());
    }
}

#[tokio::test]
async fn reset_aborts_writes_whose_data_is_in_transit() {
    for function in [TaskFunction::ClearTaskSet, TaskFunction::LogicalUnitReset] {
        let array = Array::start().await;
        let offer = iscsi::Parameters { immediate_data: false, ..iscsi::Parameters::default() };
        let config = InitiatorLoginConfig { offer, ..Host::config(&array.catalog.target_iqn(), ALPHA, 1) };
        let mut alpha = Host::login_with(array.address, config).await.expect("a login");
        let mut beta = array.host(BETA).await;
        alpha.drain_attentions().await;
        array.gate.block_reads();
        // Alpha reads the R2Ts, and sends its data, only when it receives again below.
        let [on_shared, elsewhere] =
            [alpha.submit(1, &write(0), vec![7; 512]).await, alpha.submit(2, &write(0), vec![7; 512]).await];
        let later = alpha.submit(2, &Command::Read(transfer(1, 1)), Bytes::new()).await;
        array.gate.wait_blocked(1).await;
        let reset = beta.start_function(function, 1, None).await;
        assert_eq!(beta.outcome_of(reset).await, TaskOutcome::Complete);
        array.gate.release();
        assert_eq!(alpha.end_of(on_shared).await, Ended::Aborted, "{function:?}");
        assert_eq!(alpha.end_of(elsewhere).await, GOOD);
        assert_eq!(alpha.end_of(later).await.data(), vec![0; 512]);
        alpha.drain_attentions().await;
        beta.drain_attentions().await;
        assert_eq!(beta.run(1, Command::Read(transfer(0, 1))).await.data(), vec![0; 512], "{function:?}");
        assert_eq!(alpha.run_with(1, write(0), vec![8; 512]).await, GOOD);
    }
}

#[tokio::test]
async fn functions_on_absent_luns_are_rejected() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    for function in [TaskFunction::LogicalUnitReset, TaskFunction::ClearTaskSet, TaskFunction::AbortTaskSet] {
        let id = host.start_function(function, 9, None).await;
        assert_eq!(host.outcome_of(id).await, TaskOutcome::NoSuchLun, "{function:?}");
    }
    let id = host.start_function(TaskFunction::ClearAca, 1, None).await;
    assert_eq!(host.outcome_of(id).await, TaskOutcome::NotSupported);
}

#[tokio::test]
async fn target_reset_is_limited_to_visible_units() {
    let array = Array::start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    let warm = alpha.start_function(TaskFunction::TargetWarmReset, 0, None).await;
    assert_eq!(alpha.outcome_of(warm).await, TaskOutcome::Complete);
    assert_eq!(beta.attentions(1).await, [asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED.0]);
    assert!(beta.attentions(2).await.is_empty(), "alpha does not see this unit");
    let cold = alpha.start_function(TaskFunction::TargetColdReset, 0, None).await;
    assert_eq!(alpha.outcome_of(cold).await, TaskOutcome::Complete);
    alpha.wait_closed().await;
}

#[tokio::test]
async fn relogin_waits_for_commands_of_the_old_session() {
    let array = Array::start().await;
    let mut old = array.host(ALPHA).await;
    array.gate.block_changes();
    old.submit(1, &write(0), vec![0x01; 512]).await;
    array.gate.wait_blocked(1).await;
    let (address, name) = (array.address, array.catalog.target_iqn());
    let again = tokio::spawn(async move { Host::login(address, &name, ALPHA, 1).await.expect("a login") });
    // The old connection is closed at once. The new login waits for the write in the engine.
    old.wait_closed().await;
    assert!(!again.is_finished());
    array.gate.release();
    let mut new = again.await.expect("the new session");
    new.drain_attentions().await;
    assert_eq!(new.run(1, Command::Read(transfer(0, 1))).await.data(), vec![0x01; 512]);
    assert_eq!(array.target.sessions(), 1);
}

#[tokio::test]
async fn different_isid_opens_a_second_session() {
    let array = Array::start().await;
    let mut first = array.host(ALPHA).await;
    let name = array.catalog.target_iqn();
    let mut second = Host::login(array.address, &name, ALPHA, 2).await.expect("a second session");
    second.drain_attentions().await;
    assert_eq!(first.run(1, Command::TestUnitReady).await, GOOD);
    assert_eq!(array.target.sessions(), 2);
}

#[tokio::test]
async fn writes_complete_after_connection_loss() {
    let array = Array::start().await;
    let mut lost = array.host(ALPHA).await;
    array.gate.block_changes();
    for lba in 0..8 {
        lost.submit(1, &write(lba), vec![0x22; 512]).await;
    }
    array.gate.wait_blocked(8).await;
    drop(lost);
    array.gate.release();
    let mut host = array.host(ALPHA).await;
    assert_eq!(host.run(1, Command::Read(transfer(0, 8))).await.data(), vec![0x22; 4096]);
    assert_eq!(array.target.sessions(), 1);
}

#[tokio::test]
async fn shutdown_waits_for_submitted_operations() {
    let engine: Arc<dyn Service> = Arc::new(ModelEngine::default());
    let array = Arc::new(Array::start_on(engine, TargetConfig::default()).await);
    let mut host = array.host(ALPHA).await;
    array.gate.block_changes();
    host.submit(1, &write(0), vec![0x33; 512]).await;
    array.gate.wait_blocked(1).await;
    let stopping = tokio::spawn({
        let array = array.clone();
        async move { array.target.shutdown().await }
    });
    host.wait_closed().await;
    assert!(!stopping.is_finished());
    array.gate.release();
    stopping.await.expect("the shutdown ends");
    assert_eq!(array.gate.blocked(), 0);
}

#[tokio::test]
async fn commands_are_counted_by_class() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    host.run_with(1, write(0), vec![1; 512]).await.data();
    host.run(1, Command::Read(transfer(0, 8))).await.data();
    let miscompare = Command::CompareAndWrite { lba: Lba(0), blocks: 1, dpo: false, fua: false };
    let ended = host.run_with(1, miscompare, [vec![2; 512], vec![3; 512]].concat()).await;
    assert_eq!(ended, Ended::Check(scsi::SenseKey::Miscompare, asc::MISCOMPARE_DURING_VERIFY_OPERATION));
    assert_eq!(host.sense.and_then(|sense| sense.information), Some(0));
    let counters = array.target.totals_of(array.volume("shared"));
    let counts = |class| {
        let count = counters.get(class);
        (count.commands, count.errors, count.bytes)
    };
    assert_eq!(counts(CommandClass::Write), (1, 0, 512));
    assert_eq!(counts(CommandClass::Read), (1, 0, 4096));
    assert_eq!(counts(CommandClass::CompareAndWrite), (1, 1, 0));
    assert_eq!(counts(CommandClass::Copy), (0, 0, 0));
}

#[tokio::test]
async fn aborted_copy_stops_between_segments() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    assert_eq!(host.run_with(1, Command::Write(transfer(0, 8)), vec![0x77; 4096]).await, GOOD);
    let state = array.catalog.state();
    let naa = Naa::from_serial(&state.volume("shared").expect("a volume").serial).expect("a serial number");
    let segment = |to| Segment { source: 0, destination: 1, blocks: 8, source_lba: Lba(0), destination_lba: Lba(to) };
    let list = CopyList::between(naa, naa, vec![segment(64), segment(128)]);
    let list = build_copy_list(&CopyList { id: 5, usage: ListIdUsage::HoldData, ..list });
    let copy = Command::ExtendedCopy { length: list.len() as u32 };
    let status = Command::ReceiveCopyResults { action: CopyResults::CopyStatus, list: 5, allocation: 12 };
    let progress = |data: &[u8]| CopyStatus::from_bytes(data).map(|status| (status.state, status.segments));

    array.gate.block_changes();
    let stuck = host.submit(1, &copy, list.clone()).await;
    array.gate.wait_blocked(1).await;
    assert_eq!(progress(&host.run(1, status).await.data()), Some((CopyState::InProgress, 0)));
    let abort = host.start_function(TaskFunction::AbortTask, 1, Some(stuck)).await;
    assert!(host.is_pending(abort).await);
    array.gate.release();
    assert_eq!(host.outcome_of(abort).await, TaskOutcome::Complete);
    assert_eq!(progress(&host.run(1, status).await.data()).map(|progress| progress.0), Some(CopyState::Failed));
    assert_eq!(
        host.run(1, Command::Read(transfer(128, 8))).await.data(),
        vec![0; 4096],
        "the second segment was not copied"
    );

    assert_eq!(host.run_with(1, copy, list).await, GOOD);
    assert_eq!(progress(&host.run(1, status).await.data()), Some((CopyState::Done, 2)));
    assert_eq!(host.run(1, Command::Read(transfer(128, 8))).await.data(), vec![0x77; 4096]);
    let counters = array.target.totals_of(array.volume("shared")).get(CommandClass::Copy).clone();
    assert_eq!((counters.commands, counters.errors, counters.bytes), (2, 1, 8192));
}
