//! The end of service: an engine that has stopped, and an orderly stop of the target.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::Bytes;
use engine::model::ModelEngine;
use iscsi_target::{BoundPortal, TargetConfig};
use platform::net::Stream;
use scsi::cdb::{CdbSize, SelectReport, StartStop, Transfer};
use scsi::{Command, SenseKey, asc};
use std::sync::Arc;
use std::time::Duration;
use support::{ALPHA, Array, BETA, Ended};
use types::Lba;

fn transfer(lba: u64) -> Transfer {
    Transfer { size: CdbSize::Ten, lba: Lba(lba), blocks: 1, dpo: false, fua: false }
}

const NOT_READY: Ended = Ended::Check(SenseKey::NotReady, asc::LOGICAL_UNIT_NOT_READY_MANUAL_INTERVENTION_REQUIRED);

#[tokio::test]
async fn stopped_engine_is_not_ready() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    let data = Bytes::from(vec![7; 512]);
    assert_eq!(host.run_with(1, Command::Write(transfer(0)), data.clone()).await, Ended::Good(Bytes::new()));
    array.gate.stop();
    let start = StartStop {
        immediate: false,
        modifier: 0,
        power_condition: 0,
        no_flush: false,
        load_eject: false,
        start: true,
    };
    let refused = [Command::TestUnitReady, Command::StartStop(start)];
    for command in refused {
        assert_eq!(host.run(1, command).await, NOT_READY, "{command:?}");
    }
    assert_eq!(host.run_with(1, Command::Write(transfer(1)), data.clone()).await, NOT_READY);
    let sense = host.run(1, Command::RequestSense { descriptor: false, allocation: 252 }).await.data();
    assert_eq!((sense[2] & 0xf, sense[12], sense[13]), (2, 4, 3));
    // Hosts still find the unit, and read from it.
    host.run(1, Command::Inquiry { page: None, allocation: 96 }).await.data();
    host.run(1, Command::ReportLuns { select: SelectReport::Addressable, allocation: 64 }).await.data();
    host.run(1, Command::ReadCapacity10).await.data();
    assert_eq!(host.run(1, Command::Read(transfer(0))).await.data(), data);
}

#[tokio::test]
async fn shutdown_requests_logouts_and_waits() {
    let config = TargetConfig { logout_within: Duration::from_secs(3600), ..TargetConfig::default() };
    let array = Arc::new(Array::start_on(Arc::new(ModelEngine::default()), config).await);
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    let stopping = tokio::spawn({
        let array = array.clone();
        async move { array.target.shutdown().await }
    });
    for host in [&mut alpha, &mut beta] {
        assert_eq!(host.logout_request().await, 3600);
    }
    // Commands are served until the logout.
    assert_eq!(beta.run(1, Command::TestUnitReady).await, Ended::Good(Bytes::new()));
    alpha.logout().await;
    assert!(!stopping.is_finished());
    beta.logout().await;
    stopping.await.unwrap();
    assert_eq!(array.target.sessions(), 0);
}

#[tokio::test]
async fn shutdown_closes_sessions_without_logout() {
    let config = TargetConfig { logout_within: Duration::ZERO, ..TargetConfig::default() };
    let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
    let host = array.host(ALPHA).await;
    array.target.shutdown().await;
    host.wait_closed().await;
}

#[tokio::test]
async fn bound_portal_answers_only_when_opened() {
    let array = Array::start().await;
    let portal = BoundPortal::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = portal.address();
    assert!(!array.target.portals().contains(&address));
    assert!(BoundPortal::bind(address).await.is_err(), "the address is in use");
    array.target.open(portal);
    assert!(array.target.portals().contains(&address));
    Stream::connect(address).await.unwrap();
    // A portal that is dropped releases its address.
    let portal = BoundPortal::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = portal.address();
    drop(portal);
    BoundPortal::bind(address).await.unwrap();
}
