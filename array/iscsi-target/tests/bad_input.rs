//! Malformed input and dead peers close their own connection and affect no other.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::{Bytes, BytesMut};
use engine::model::ModelEngine;
use iscsi::initiator_connection::LoginError;
use iscsi_target::TargetConfig;
use platform::net::Stream;
use scsi::cdb::Command;
use std::sync::Arc;
use std::time::Duration;
use support::{ALPHA, Array, BETA, Ended, Host};

const GOOD: Ended = Ended::Good(Bytes::new());

async fn closed(mut stream: Stream) {
    let mut input = BytesMut::new();
    while stream.read(&mut input).await.unwrap_or(0) > 0 {
        input.clear();
    }
}

#[tokio::test]
async fn garbage_closes_only_its_own_connection() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    for garbage in [vec![0xff; 4096], vec![0; 48], b"GET / HTTP/1.1\r\n\r\n".repeat(4), {
        // A login request whose data segment claims 16 MiB.
        let mut login = vec![0x43, 0x87, 0, 0, 0, 0xff, 0xff, 0xff];
        login.resize(48, 0);
        login
    }] {
        let mut stream = Stream::connect(array.address).await.expect("a connection");
        stream.write_all(&garbage).await.expect("the garbage is sent");
        closed(stream).await;
        assert_eq!(host.run(1, Command::TestUnitReady).await, GOOD);
    }
}

#[tokio::test]
async fn incomplete_login_times_out() {
    let config = TargetConfig { login_timeout: Duration::from_millis(20), ..TargetConfig::default() };
    let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
    let mut stream = Stream::connect(array.address).await.expect("a connection");
    stream.write_all(&[0x43, 0x87]).await.expect("two bytes are sent");
    closed(stream).await;
}

#[tokio::test]
async fn hosts_log_in_while_strangers_hold_connections() {
    let config = TargetConfig { max_anonymous: 16, max_anonymous_per_source: 8, ..TargetConfig::default() };
    let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
    let mut host = array.host(ALPHA).await;
    let mut strangers = Vec::new();
    for number in 0..100 {
        let mut stranger = Stream::connect(array.address).await.expect("a connection");
        if number % 2 == 0 {
            stranger.write_all(&[0x43, 0x87]).await.expect("two bytes are sent");
        }
        strangers.push(stranger);
        if number % 5 == 0 {
            array.host(BETA).await.logout().await;
        }
    }
    assert_eq!(host.run(1, Command::TestUnitReady).await, GOOD);
    // The oldest have given way.
    closed(strangers.swap_remove(0)).await;
}

#[tokio::test]
async fn sessions_of_one_host_are_limited() {
    let config = TargetConfig { max_sessions_per_host: 2, ..TargetConfig::default() };
    let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
    let target = array.catalog.target_iqn();
    let mut held = Vec::new();
    for isid in 1..=2 {
        held.push(Host::login(array.address, &target, ALPHA, isid).await.expect("a login"));
    }
    let refused = Host::login(array.address, &target, ALPHA, 3).await.err().expect("a refusal");
    assert!(matches!(refused, LoginError::Refused(0x0302)), "{refused:?}");
    // A session may be replaced, and other hosts are not affected.
    let replaced = Host::login(array.address, &target, ALPHA, 2).await.expect("a login");
    array.host(BETA).await.logout().await;
    replaced.logout().await;
    Host::login(array.address, &target, ALPHA, 3).await.expect("a login");
}

#[tokio::test]
async fn discovery_sessions_end_by_themselves() {
    let short = Duration::from_millis(20);
    for config in [
        TargetConfig { ping_after: short, ..TargetConfig::default() },
        TargetConfig { discovery_timeout: short, ..TargetConfig::default() },
    ] {
        let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
        let discovery = Host::login(array.address, "", "iqn.2026-11.org.ibid:nobody", 1).await.expect("a discovery");
        discovery.wait_closed().await;
    }
}

#[tokio::test]
async fn initiator_that_ignores_a_ping_is_disconnected() {
    let times = Duration::from_millis(20);
    let config = TargetConfig { ping_after: times, pong_within: times, ..TargetConfig::default() };
    let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
    let host = Host::login(array.address, &array.catalog.target_iqn(), ALPHA, 1).await.expect("a login");
    closed(host.into_stream()).await;
}

#[tokio::test]
async fn initiator_that_answers_pings_stays_connected() {
    let config = TargetConfig {
        ping_after: Duration::from_millis(5),
        pong_within: Duration::from_secs(60),
        ..TargetConfig::default()
    };
    let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
    let mut host = array.host(ALPHA).await;
    for _ in 0..3 {
        host.receive_and_answer().await;
    }
    assert_eq!(host.run(1, Command::TestUnitReady).await, GOOD);
}

/// Sends CDBs of every command with random fields and reserved bits, and data of unrelated length.
#[tokio::test]
async fn random_cdbs_are_answered_and_keep_the_session() {
    let array = Array::start().await;
    let (mut host, mut other) = (array.host(ALPHA).await, array.host(BETA).await);
    let mut rng = testing::Rng::new(0x1b1d);
    let mut random = || rng.next_u64() as usize;
    for round in 0..40 {
        for definition in scsi::cdb::COMMANDS {
            let mut cdb = [0; 16];
            cdb[0] = definition.opcode;
            for (byte, usage) in cdb.iter_mut().zip(definition.usage).skip(1) {
                // Few bits are set, so that many CDBs are valid. Every fourth round also sets
                // reserved bits.
                let allowed = if round % 4 == 0 { 0xff } else { *usage };
                *byte = allowed & (random() & random() & random()) as u8;
            }
            if let Some(action) = definition.service_action {
                cdb[1] = cdb[1] & 0xe0 | action;
            }
            let data = vec![round as u8; [0, 24, 512, 1000, 4096][random() % 5]];
            host.run_raw(2, cdb, data, [0, 8, 512, 65536][random() % 4]).await;
        }
    }
    host.drain_attentions().await;
    assert_eq!(other.run(1, Command::TestUnitReady).await, GOOD);
}
