//! Target ports over real sessions: each portal is a port of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::Bytes;
use scsi::cdb::Command;
use scsi::inquiry::{DesignatorKind, parse_designators, vpd};
use scsi::persistent_reservation::{InAction, OutAction, OutParameters, parse_keys};
use scsi::port_groups::parse_port_groups;
use support::{ALPHA, Array, Ended, Host};

const GOOD: Ended = Ended::Good(Bytes::new());

/// An array with two portals, and a session of the same initiator port through each.
async fn two_paths() -> (Array, Host, Host) {
    let array = Array::start().await;
    let second = array.target.listen(([127, 0, 0, 1], 0).into()).await.expect("a second portal");
    let mut first = array.host(ALPHA).await;
    let mut other = Host::login(second, &array.catalog.target_iqn(), ALPHA, 1).await.expect("a login");
    other.drain_attentions().await;
    first.drain_attentions().await;
    (array, first, other)
}

async fn port_ids(host: &mut Host) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let page = host.run(1, Command::Inquiry { page: Some(0x83), allocation: 1024 }).await.data();
    let designators = parse_designators(vpd::body_of(0x83, &page).expect("page 83h"));
    let port = |kind| designators.iter().find(|d| d.kind == kind && d.names_port).expect("an identifier").bytes.clone();
    (port(DesignatorKind::RelativePort), port(DesignatorKind::PortGroup), port(DesignatorKind::ScsiName))
}

#[tokio::test]
async fn each_portal_is_a_port_of_one_group() {
    let (array, mut first, mut second) = two_paths().await;
    let name = |tag: u8| format!("{},t,0x{tag:04x}", array.catalog.target_iqn());
    for (host, number) in [(&mut first, 1), (&mut second, 2)] {
        let (relative, group, scsi_name) = port_ids(host).await;
        assert_eq!((relative, group), (vec![0, 0, 0, number], vec![0, 0, 0, 1]));
        assert!(scsi_name.starts_with(name(number).as_bytes()));
        let report = Command::ReportTargetPortGroups { extended: false, allocation: 1024 };
        let groups = parse_port_groups(&host.run(1, report).await.data()).expect("groups");
        assert_eq!(groups.iter().map(|g| (g.id, g.ports.clone())).collect::<Vec<_>>(), [(1, vec![1, 2])]);
    }
}

#[tokio::test]
async fn send_targets_gives_each_portal_its_tag() {
    let (_array, mut first, _second) = two_paths().await;
    let records = first.targets().await;
    let tags: Vec<_> = records[0].addresses.iter().map(|a| a.rsplit(',').next().unwrap().to_owned()).collect();
    assert_eq!(tags, ["1", "2"]);
}

#[tokio::test]
async fn same_initiator_port_may_log_in_at_each_port() {
    let (array, mut first, mut second) = two_paths().await;
    assert_eq!(array.target.sessions(), 2);
    assert_eq!(first.run(1, Command::TestUnitReady).await, GOOD);
    assert_eq!(second.run(1, Command::TestUnitReady).await, GOOD);
}

#[tokio::test]
async fn registration_covers_one_port_unless_all_are_asked() {
    let (_array, mut first, mut second) = two_paths().await;
    let keys = Command::PersistentReserveIn { action: InAction::ReadKeys, allocation: 1024 };
    assert_eq!(first.reserve_out(1, OutAction::Register, 0, 0xa1, false).await, GOOD);
    assert_eq!(parse_keys(&second.run(1, keys).await.data()).expect("keys").1, [0xa1]);
    // The second path is another nexus, which has no key yet.
    assert_eq!(second.reserve_out(1, OutAction::Clear, 0xa1, 0, false).await, Ended::Conflict);
    assert_eq!(first.reserve_out(1, OutAction::Register, 0xa1, 0, false).await, GOOD);

    let all =
        OutParameters { key: 0, service_key: 0xb2, initiator_ports: None, all_target_ports: true, persist: false };
    let register = Command::PersistentReserveOut { action: OutAction::Register, kind: None, length: 24 };
    assert_eq!(first.run_with(1, register, all.to_bytes().to_vec()).await, GOOD);
    assert_eq!(second.reserve_out(1, OutAction::Clear, 0xb2, 0, false).await, GOOD);
}
