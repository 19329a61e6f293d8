//! Aborts, resets, reinstatement and lost connections: answered when the outcome is certain, and nothing is left behind.

mod support;

use bytes::Bytes;
use engine::Service;
use engine::model::ModelEngine;
use iscsi::initiator_connection::InitiatorLoginConfig;
use iscsi::pdu::{TaskFunction, TaskOutcome};
use iscsi_target::{CommandClass, TargetConfig};
use scsi::asc;
use scsi::cdb::{CdbSize, Command, CopyResults, Transfer};
use scsi::copy::{CopyList, CopyState, CopyStatus, ListIdUsage, Segment, build_copy_list};
use scsi::inquiry::Naa;
use std::sync::Arc;
use support::{ALPHA, Array, BETA, Ended, Host};
use types::Lba;

const GOOD: Ended = Ended::Good(Bytes::new());

fn transfer(lba: u64, blocks: u32) -> Transfer {
    Transfer { size: CdbSize::Ten, lba: Lba(lba), blocks, dpo: false, fua: false }
}

fn write(lba: u64) -> Command {
    Command::Write(transfer(lba, 1))
}

#[tokio::test]
async fn abort_task_is_answered_when_the_write_has_ended() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    array.gate.shut();
    let stuck = host.submit(1, &write(0), vec![7; 512]).await;
    array.gate.arrived(1).await;
    let abort = host.start_function(TaskFunction::AbortTask, 1, Some(stuck)).await;
    assert!(host.is_open(abort).await);
    array.gate.open();
    assert_eq!(host.outcome_of(abort).await, TaskOutcome::Complete);
    assert!(!host.has_ended(stuck), "an aborted command gets no answer");
    // Given to the engine, so it may be there; what counts is that it is certain now.
    assert_eq!(host.run(1, Command::Read(transfer(0, 1))).await.data(), vec![7; 512]);
}

#[tokio::test]
async fn a_reset_ends_the_commands_of_all_sessions_and_tells_them() {
    let array = Array::start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    array.gate.shut();
    let on_shared = alpha.submit(1, &write(0), vec![1; 512]).await;
    let elsewhere = alpha.submit(2, &write(0), vec![1; 512]).await;
    array.gate.arrived(2).await;
    let reset = beta.start_function(TaskFunction::LogicalUnitReset, 1, None).await;
    assert!(beta.is_open(reset).await);
    array.gate.open();
    assert_eq!(beta.outcome_of(reset).await, TaskOutcome::Complete);
    assert_eq!(alpha.end_of(on_shared).await, Ended::Aborted);
    assert_eq!(alpha.end_of(elsewhere).await, GOOD);
    for host in [&mut alpha, &mut beta] {
        assert_eq!(host.news(1).await, [asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED.0]);
        assert!(host.news(2).await.is_empty());
    }
}

#[tokio::test]
async fn a_reset_ends_the_writes_of_others_whose_data_are_still_coming() {
    for function in [TaskFunction::ClearTaskSet, TaskFunction::LogicalUnitReset] {
        let array = Array::start().await;
        let offer = iscsi::Parameters { immediate_data: false, ..iscsi::Parameters::default() };
        let config = InitiatorLoginConfig { offer, ..Host::config(&array.catalog.target_iqn(), ALPHA, 1) };
        let mut alpha = Host::login_with(array.address, config).await.expect("a login");
        let mut beta = array.host(BETA).await;
        alpha.hear_news().await;
        array.gate.shut_reads();
        // Not until alpha listens again does it hear that its data are wanted.
        let [on_shared, elsewhere] =
            [alpha.submit(1, &write(0), vec![7; 512]).await, alpha.submit(2, &write(0), vec![7; 512]).await];
        let behind = alpha.submit(2, &Command::Read(transfer(1, 1)), Bytes::new()).await;
        array.gate.arrived(1).await;
        let reset = beta.start_function(function, 1, None).await;
        assert_eq!(beta.outcome_of(reset).await, TaskOutcome::Complete);
        array.gate.open();
        assert_eq!(alpha.end_of(on_shared).await, Ended::Aborted, "{function:?}");
        assert_eq!(alpha.end_of(elsewhere).await, GOOD);
        assert_eq!(alpha.end_of(behind).await.data(), vec![0; 512]);
        alpha.hear_news().await;
        beta.hear_news().await;
        assert_eq!(beta.run(1, Command::Read(transfer(0, 1))).await.data(), vec![0; 512], "{function:?}");
        assert_eq!(alpha.run_with(1, write(0), vec![8; 512]).await, GOOD);
    }
}

#[tokio::test]
async fn functions_on_units_that_are_not_there_say_so() {
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
async fn a_target_reset_reaches_what_the_session_sees_and_a_cold_one_ends_it() {
    let array = Array::start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    let warm = alpha.start_function(TaskFunction::TargetWarmReset, 0, None).await;
    assert_eq!(alpha.outcome_of(warm).await, TaskOutcome::Complete);
    assert_eq!(beta.news(1).await, [asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED.0]);
    assert!(beta.news(2).await.is_empty(), "a unit that alpha does not see");
    let cold = alpha.start_function(TaskFunction::TargetColdReset, 0, None).await;
    assert_eq!(alpha.outcome_of(cold).await, TaskOutcome::Complete);
    alpha.hung_up().await;
}

#[tokio::test]
async fn a_login_of_the_same_name_comes_after_the_end_of_the_old_sessions_commands() {
    let array = Array::start().await;
    let mut old = array.host(ALPHA).await;
    array.gate.shut();
    old.submit(1, &write(0), vec![0x01; 512]).await;
    array.gate.arrived(1).await;
    let (address, name) = (array.address, array.catalog.target_iqn());
    let again = tokio::spawn(async move { Host::login(address, &name, ALPHA, 1).await.expect("a login") });
    // The old connection is closed at once; the new login waits for the write that the engine still holds.
    old.hung_up().await;
    assert!(!again.is_finished());
    array.gate.open();
    let mut new = again.await.expect("the new session");
    new.hear_news().await;
    assert_eq!(new.run(1, Command::Read(transfer(0, 1))).await.data(), vec![0x01; 512]);
    assert_eq!(array.target.sessions(), 1);
}

#[tokio::test]
async fn another_isid_is_another_session() {
    let array = Array::start().await;
    let mut first = array.host(ALPHA).await;
    let name = array.catalog.target_iqn();
    let mut second = Host::login(array.address, &name, ALPHA, 2).await.expect("a second session");
    second.hear_news().await;
    assert_eq!(first.run(1, Command::TestUnitReady).await, GOOD);
    assert_eq!(array.target.sessions(), 2);
}

#[tokio::test]
async fn a_connection_lost_in_the_middle_of_a_write_leaves_nothing_behind() {
    let array = Array::start().await;
    let mut lost = array.host(ALPHA).await;
    array.gate.shut();
    for lba in 0..8 {
        lost.submit(1, &write(lba), vec![0x22; 512]).await;
    }
    array.gate.arrived(8).await;
    drop(lost);
    array.gate.open();
    let mut host = array.host(ALPHA).await;
    assert_eq!(host.run(1, Command::Read(transfer(0, 8))).await.data(), vec![0x22; 4096]);
    assert_eq!(array.target.sessions(), 1);
}

#[tokio::test]
async fn a_shutdown_waits_for_what_the_engine_was_given() {
    let engine: Arc<dyn Service> = Arc::new(ModelEngine::default());
    let array = Arc::new(Array::start_on(engine, TargetConfig::default()).await);
    let mut host = array.host(ALPHA).await;
    array.gate.shut();
    host.submit(1, &write(0), vec![0x33; 512]).await;
    array.gate.arrived(1).await;
    let stopping = tokio::spawn({
        let array = array.clone();
        async move { array.target.shutdown().await }
    });
    host.hung_up().await;
    assert!(!stopping.is_finished());
    array.gate.open();
    stopping.await.expect("the shutdown ends");
    assert_eq!(array.gate.waiting(), 0);
}

#[tokio::test]
async fn commands_are_counted_by_what_they_do() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    host.run_with(1, write(0), vec![1; 512]).await.data();
    host.run(1, Command::Read(transfer(0, 8))).await.data();
    let miscompare = Command::CompareAndWrite { lba: Lba(0), blocks: 1, dpo: false, fua: false };
    let ended = host.run_with(1, miscompare, [vec![2; 512], vec![3; 512]].concat()).await;
    assert_eq!(ended, Ended::Check(scsi::SenseKey::Miscompare, asc::MISCOMPARE_DURING_VERIFY_OPERATION));
    assert_eq!(host.sense.and_then(|sense| sense.information), Some(0));
    let counters = array.target.counters(array.volume("shared"));
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
async fn an_aborted_copy_ends_between_two_segments_and_its_status_says_so() {
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
    let told = |data: &[u8]| CopyStatus::from_bytes(data).map(|status| (status.state, status.segments));

    array.gate.shut();
    let stuck = host.submit(1, &copy, list.clone()).await;
    array.gate.arrived(1).await;
    assert_eq!(told(&host.run(1, status).await.data()), Some((CopyState::InProgress, 0)));
    let abort = host.start_function(TaskFunction::AbortTask, 1, Some(stuck)).await;
    assert!(host.is_open(abort).await);
    array.gate.open();
    assert_eq!(host.outcome_of(abort).await, TaskOutcome::Complete);
    assert_eq!(told(&host.run(1, status).await.data()).map(|told| told.0), Some(CopyState::Failed));
    assert_eq!(host.run(1, Command::Read(transfer(128, 8))).await.data(), vec![0; 4096], "the second segment");

    assert_eq!(host.run_with(1, copy, list).await, GOOD);
    assert_eq!(told(&host.run(1, status).await.data()), Some((CopyState::Done, 2)));
    assert_eq!(host.run(1, Command::Read(transfer(128, 8))).await.data(), vec![0x77; 4096]);
    let counters = array.target.counters(array.volume("shared")).get(CommandClass::Copy);
    assert_eq!((counters.commands, counters.errors, counters.bytes), (2, 1, 8192));
}
