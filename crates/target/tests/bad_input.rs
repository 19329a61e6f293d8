//! What strangers and the dead send: it ends their connection and touches nobody else's.

mod support;

use bytes::{Bytes, BytesMut};
use engine::model::ModelEngine;
use scsi::cdb::Command;
use std::sync::Arc;
use std::time::Duration;
use support::{ALPHA, Array, Ended, Host};
use target::Config;
use world::net::Stream;

const GOOD: Ended = Ended::Good(Bytes::new());

async fn closed(mut stream: Stream) {
    let mut input = BytesMut::new();
    while stream.read(&mut input).await.unwrap_or(0) > 0 {
        input.clear();
    }
}

#[tokio::test]
async fn garbage_ends_its_own_connection() {
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
async fn half_a_login_is_given_up_after_its_time() {
    let config = Config { login_timeout: Duration::from_millis(20), ..Config::default() };
    let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
    let mut stream = Stream::connect(array.address).await.expect("a connection");
    stream.write_all(&[0x43, 0x87]).await.expect("two bytes are sent");
    closed(stream).await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed() {
    let config = Config { max_connections: 1, ..Config::default() };
    let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
    let mut host = array.host(ALPHA).await;
    closed(Stream::connect(array.address).await.expect("a connection")).await;
    assert_eq!(host.run(1, Command::TestUnitReady).await, GOOD);
}

#[tokio::test]
async fn an_initiator_that_does_not_answer_a_ping_is_given_up() {
    let times = Duration::from_millis(20);
    let config = Config { ping_after: times, pong_within: times, ..Config::default() };
    let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
    let host = Host::login(array.address, &array.catalog.target_iqn(), ALPHA, 1).await.expect("a login");
    closed(host.into_stream()).await;
}

#[tokio::test]
async fn an_initiator_that_answers_pings_is_kept() {
    let config =
        Config { ping_after: Duration::from_millis(5), pong_within: Duration::from_secs(60), ..Config::default() };
    let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
    let mut host = array.host(ALPHA).await;
    for _ in 0..3 {
        host.pinged().await;
    }
    assert_eq!(host.run(1, Command::TestUnitReady).await, GOOD);
}
