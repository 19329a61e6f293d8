//! Tests of sessions with a scripted target.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::Bytes;
use initiator::{
    CommandRefusal, ConnectError, Credentials, InitiatorConfig, LogicalUnit, RunError, Session, SessionError,
};
use iscsi::initiator_connection::LoginError;
use iscsi::pdu::{TaskFunction, TaskOutcome};
use iscsi::target_connection::CommandCompletion;
use iscsi::{Digests, Parameters};
use scsi::{Lun, Sense, SenseFormat, Status, asc};
use support::{LBA_LEN, LIMITS, NAME, Reply, Served, Target};

const INITIATOR: &str = "iqn.2026-11.test:host";

fn config(served: &Served) -> InitiatorConfig {
    InitiatorConfig::new(INITIATOR, &served.url().parse().unwrap())
}

async fn open(served: &Served) -> (Session, LogicalUnit) {
    let mut session = Session::connect(&config(served)).await.unwrap();
    let unit = session.open_unit(Lun::default()).await.unwrap();
    (session, unit)
}

fn pattern(blocks: usize, seed: u8) -> Bytes {
    (0..blocks * LBA_LEN).map(|at| (at / LBA_LEN) as u8 ^ at as u8 ^ seed).collect::<Vec<_>>().into()
}

fn check(sense: Sense) -> Reply {
    Reply::Answer(CommandCompletion::check_condition(sense.to_bytes(SenseFormat::Fixed)))
}

#[tokio::test]
async fn open_unit_reports_size_limits_and_designator() {
    let served = Target::new(1000).serve();
    let (_, unit) = open(&served).await;
    assert_eq!((unit.blocks, unit.block_bytes, unit.reads_zeros), (1000, 512, true));
    assert_eq!(unit.limits.compare_and_write, LIMITS.compare_and_write);
    assert_eq!(unit.limits.max_write_same, 16_384);
    assert!(unit.limits.unmap && unit.limits.write_same_unmap && unit.limits.copy);
    assert_eq!(unit.name.unwrap().bytes, [0x60; 16]);
    assert_eq!(served.target.lock().unwrap().logins[0].initiator, INITIATOR);
}

#[tokio::test]
async fn write_reads_back_for_all_transfer_modes() {
    let small = Parameters { max_receive_segment: 4096, max_burst_length: 8192, ..Parameters::offer_of_target() };
    for (number, offer) in [Parameters::offer_of_target(), small].into_iter().enumerate() {
        for (immediate_data, initial_r2t) in [(true, false), (true, true), (false, false), (false, true)] {
            for digest in [false, true] {
                let served = Target { offer: offer.clone(), ..Target::new(4096) }.serve();
                let digests = Digests { header: digest, data: digest };
                let config = InitiatorConfig { immediate_data, initial_r2t, digests, ..config(&served) };
                let mut session = Session::connect(&config).await.unwrap();
                assert_eq!(session.parameters().digests, digests);
                let unit = session.open_unit(Lun::default()).await.unwrap();
                let data = pattern(1023, number as u8);
                session.run(unit.write(7, data.clone(), false)).await.unwrap();
                let read = session.run(unit.read(7, 1023, false)).await.unwrap();
                assert!(read == data, "immediate {immediate_data}, R2T {initial_r2t}, digests {digest}");
            }
        }
    }
}

#[tokio::test]
async fn many_commands_complete_through_a_small_window() {
    let served = Target { window: 4, ..Target::new(4096) }.serve();
    let (mut session, unit) = open(&served).await;
    for token in 0..100u64 {
        session.submit(unit.write(token * 8, pattern(8, token as u8), false), token);
    }
    let mut ended: Vec<u64> = Vec::new();
    while session.open_commands() > 0 || ended.len() < 100 {
        let completion = session.next().await.unwrap();
        assert_eq!(completion.status, Some(Status::Good));
        ended.push(completion.token);
    }
    ended.sort_unstable();
    assert_eq!(ended, (0..100).collect::<Vec<_>>());
    for token in 0..100u64 {
        assert_eq!(session.run(unit.read(token * 8, 8, false)).await.unwrap(), pattern(8, token as u8));
    }
}

#[tokio::test]
async fn run_keeps_completions_of_other_commands() {
    let served = Target::new(64).serve();
    let (mut session, unit) = open(&served).await;
    session.submit(unit.read(1, 1, false), 5);
    session.submit(unit.read(2, 1, false), 6);
    session.run(unit.test_unit_ready()).await.unwrap();
    let tokens = [session.next().await.unwrap().token, session.next().await.unwrap().token];
    assert_eq!(tokens, [5, 6]);
    assert!(session.try_next().is_none());
}

#[tokio::test]
async fn chap_login_needs_the_right_secrets() {
    let pair = |user: &str, secret: &str| Some((user.to_owned(), secret.to_owned()));
    let (account, own_account) = (pair("me", "a secret of 16 b"), pair("array", "another secret 1"));
    let served = Target { account, own_account, ..Target::new(64) }.serve();
    let of = |user: &str, secret: &str| Some(Credentials { user: user.to_owned(), secret: secret.to_owned() });
    let own = of("me", "a secret of 16 b");
    for (chap_md5, (credentials, target_credentials, admitted)) in [
        (own.clone(), None, true),
        (own.clone(), of("array", "another secret 1"), true),
        (own.clone(), of("array", "a wrong secret 1"), false),
        (of("me", "a wrong secret 1"), None, false),
        (of("you", "a secret of 16 b"), None, false),
        (None, None, false),
    ]
    .into_iter()
    .flat_map(|case| [(false, case.clone()), (true, case)])
    {
        let words = format!("{credentials:?} {target_credentials:?}");
        let config = InitiatorConfig { credentials, target_credentials, chap_md5, ..config(&served) };
        match Session::connect(&config).await {
            Ok(mut session) => {
                assert!(admitted, "{words}");
                session.open_unit(Lun::default()).await.unwrap();
            }
            Err(error) => assert!(!admitted && matches!(error, ConnectError::Login { .. }), "{words}: {error}"),
        }
    }
}

#[tokio::test]
async fn unknown_target_fails_with_not_found() {
    let served = Target::new(64).serve();
    let config = InitiatorConfig { target: "iqn.2026-11.test:other".to_owned(), ..config(&served) };
    let error = Session::connect(&config).await.unwrap_err();
    assert!(matches!(error, ConnectError::Login { error: LoginError::Refused(0x0203), .. }), "{error}");
    assert!(error.hint().contains("targets"));
}

#[tokio::test]
async fn connecting_to_a_closed_port_fails_at_once() {
    let closed = platform::net::Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap().local_addr().unwrap();
    let url = format!("iscsi://{closed}/{NAME}/0").parse().unwrap();
    assert!(matches!(
        Session::connect(&InitiatorConfig::new(INITIATOR, &url)).await,
        Err(ConnectError::Connect { .. })
    ));
}

#[tokio::test]
async fn discovery_lists_the_targets() {
    let served = Target::new(64).serve();
    let targets = Session::discover(&config(&served)).await.unwrap();
    assert_eq!(targets.len(), 1);
    assert_eq!(targets[0].name, NAME);
}

#[tokio::test]
async fn refused_command_returns_its_sense_data() {
    let served = Target::new(64).serve();
    let (mut session, unit) = open(&served).await;
    let error = session.run(unit.read(64, 1, false)).await.unwrap_err();
    assert_eq!(error, RunError::Refused(CommandRefusal::Check(Sense::lba_out_of_range(64))));
    let data = [pattern(1, 9), pattern(1, 8)].concat();
    let miss = session.run(unit.compare_and_write(3, data.into(), false)).await.unwrap_err();
    assert!(matches!(miss, RunError::Refused(refusal) if refusal.is_miscompare()));
}

#[tokio::test]
async fn run_retries_busy_and_unit_attention() {
    let mut answers = vec![
        check(Sense::unit_attention(asc::POWER_ON_OCCURRED)),
        Reply::Answer(support::status(Status::Busy)),
        Reply::Answer(support::status(Status::TaskSetFull)),
    ];
    let served = Target::scripted(64, move |_| answers.pop().unwrap_or(Reply::Disk)).serve();
    let (_, unit) = open(&served).await;
    assert_eq!(unit.blocks, 64);
}

#[tokio::test]
async fn reservation_conflict_is_reported_as_such() {
    let served = Target::scripted(64, |command| match command.cdb[0] {
        0x8a => Reply::Answer(support::status(Status::ReservationConflict)),
        _ => Reply::Disk,
    })
    .serve();
    let (mut session, unit) = open(&served).await;
    let error = session.run(unit.write(0, pattern(1, 0), false)).await.unwrap_err();
    assert!(matches!(error, RunError::Refused(refusal) if refusal.is_conflict()));
}

#[tokio::test]
async fn aborted_command_ends_without_affecting_others() {
    let served = Target::scripted(64, |command| if command.cdb[0] == 0x88 { Reply::Hold } else { Reply::Disk }).serve();
    let (mut session, unit) = open(&served).await;
    session.submit(unit.read(0, 1, false), 1);
    session.submit(unit.read(1, 1, false), 2);
    let outcome = session.manage_tasks(TaskFunction::AbortTask, unit.lun, Some(1)).await.unwrap();
    assert_eq!(outcome, TaskOutcome::Complete);
    let completion = session.next().await.unwrap();
    assert_eq!((completion.token, completion.status), (1, Some(Status::TaskAborted)));
    assert_eq!(session.open_commands(), 1);
    session.run(unit.test_unit_ready()).await.unwrap();
    let outcome = session.manage_tasks(TaskFunction::LogicalUnitReset, unit.lun, None).await.unwrap();
    assert_eq!(outcome, TaskOutcome::Complete);
    assert_eq!(session.next().await.unwrap().token, 2);
    assert_eq!(session.open_commands(), 0);
}

#[tokio::test]
async fn ping_returns_its_data() {
    let served = Target::new(64).serve();
    let (mut session, _) = open(&served).await;
    assert_eq!(session.ping(Bytes::from_static(b"ping")).await.unwrap(), "ping");
    session.logout().await.unwrap();
}

#[tokio::test]
async fn closed_connection_ends_the_session() {
    let served =
        Target::scripted(64, |command| if command.cdb[0] == 0x8a { Reply::Hangup } else { Reply::Disk }).serve();
    let (mut session, unit) = open(&served).await;
    for _ in 0..2 {
        let error = session.run(unit.write(0, pattern(1, 0), false)).await.unwrap_err();
        assert_eq!(error, RunError::Session(SessionError::Closed));
    }
}
