//! Access control: logins, LUN maps and their changes, and copies within the map of a session.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::{Bytes, BytesMut};
use catalog::{Chap, HostEdit, Secret};
use iscsi::Output;
use iscsi::initiator_connection::{ChapIdentity, InitiatorLoginConfig, LoginError, MutualChap};
use iscsi::pdu::{LoginRequest, Stage};
use iscsi_target::{IscsiTarget, TargetConfig};
use platform::net::Stream;
use scsi::cdb::{CdbSize, Command, SelectReport, Transfer, WriteSame};
use scsi::copy::{CopyList, Segment, build_copy_list};
use scsi::inquiry::Naa;
use scsi::inquiry::vpd::{self, BlockLimits};
use scsi::lun::parse_report_luns;
use scsi::unmap::build_unmap;
use scsi::{SenseKey, asc};
use support::{ALPHA, Array, BETA, BLOCKS, Ended, Host};
use types::{BlockRange, Lba};

const GOOD: Ended = Ended::Good(Bytes::new());
const REPORT_LUNS: Command = Command::ReportLuns { select: SelectReport::All, allocation: 1024 };

fn transfer(lba: u64, blocks: u32) -> Transfer {
    Transfer { size: CdbSize::Ten, lba: Lba(lba), blocks, dpo: false, fua: false }
}

async fn luns(host: &mut Host, through: u16) -> Vec<u16> {
    let data = host.run(through, REPORT_LUNS).await.data();
    parse_report_luns(&data).expect("a LUN list").into_iter().map(scsi::Lun::number).collect()
}

fn naa(array: &Array, volume: &str) -> Naa {
    let state = array.catalog.state();
    Naa::from_serial(&state.volume(volume).expect("a volume").serial).expect("a serial number")
}

fn copy(source: Naa, destination: Naa, blocks: u16) -> (Command, Vec<u8>) {
    let segment = Segment { source: 0, destination: 1, blocks, source_lba: Lba(0), destination_lba: Lba(64) };
    let list = build_copy_list(&CopyList::between(source, destination, vec![segment]));
    (Command::ExtendedCopy { length: list.len() as u32 }, list)
}

#[tokio::test]
async fn host_sees_only_its_own_volumes() {
    let array = Array::start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    assert_eq!(alpha.run_with(2, Command::Write(transfer(0, 1)), vec![0xaa; 512]).await, Ended::Good(Bytes::new()));
    assert_eq!(beta.run(2, Command::Read(transfer(0, 1))).await.data(), vec![0; 512]);
    assert_eq!(alpha.run_with(1, Command::Write(transfer(0, 1)), vec![0x11; 512]).await, Ended::Good(Bytes::new()));
    assert_eq!(beta.run(1, Command::Read(transfer(0, 1))).await.data(), vec![0x11; 512]);
    assert_eq!(luns(&mut alpha, 1).await, [1, 2]);
}

async fn unmap_granularity(host: &mut Host, lun: u16) -> u32 {
    let inquiry = Command::Inquiry { page: Some(vpd::BLOCK_LIMITS), allocation: 255 };
    let page = host.run(lun, inquiry).await.data();
    BlockLimits::from_body(vpd::body_of(vpd::BLOCK_LIMITS, &page).expect("page B0h")).unmap_granularity
}

#[tokio::test]
async fn personality_decides_the_unmap_granularity() {
    let array = Array::start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    assert_eq!(unmap_granularity(&mut alpha, 1).await, 8);
    let set = |personality: Option<&'static str>| {
        array.change(move |draft| {
            let personality = Some(personality.map(str::to_owned));
            draft.edit_host("alpha", &HostEdit { personality, ..HostEdit::default() }).map(|_| ())
        })
    };
    set(Some("esxi")).await;
    assert_eq!(alpha.attentions(1).await, [asc::INQUIRY_DATA_HAS_CHANGED.0]);
    assert_eq!((unmap_granularity(&mut alpha, 1).await, unmap_granularity(&mut alpha, 2).await), (2048, 2048));
    assert_eq!((unmap_granularity(&mut beta, 1).await, beta.attentions(1).await), (8, Vec::new()));
    set(Some("hpux")).await;
    assert_eq!(unmap_granularity(&mut alpha, 1).await, 8);
}

#[tokio::test]
async fn unknown_initiator_is_limited_to_discovery() {
    let array = Array::start().await;
    let name = array.catalog.target_iqn();
    let stranger = Host::login(array.address, &name, "iqn.2026-11.org.ibid:stranger", 1).await;
    assert_eq!(stranger.err(), Some(LoginError::Refused(0x0202)));
    let elsewhere = Host::login(array.address, "iqn.2026-11.org.ibid:elsewhere", ALPHA, 1).await;
    assert_eq!(elsewhere.err(), Some(LoginError::Refused(0x0203)));
    let mut discovery = Host::login(array.address, "", "iqn.2026-11.org.ibid:stranger", 1).await.expect("discovery");
    let targets = discovery.targets().await;
    assert_eq!(targets.len(), 1);
    assert_eq!(targets[0].name, name);
    assert_eq!(targets[0].addresses, [format!("{},1", array.address)]);
    discovery.logout().await;
}

#[tokio::test]
async fn absent_lun_answers_discovery_commands() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    assert_eq!(luns(&mut host, 0).await, [1, 2]);
    let inquiry = host.run(0, Command::Inquiry { page: None, allocation: 96 }).await.data();
    assert_eq!(inquiry[0], 0x7f, "qualifier 011b, type 1Fh");
    let absent = Ended::Check(SenseKey::IllegalRequest, asc::LOGICAL_UNIT_NOT_SUPPORTED);
    assert_eq!(host.run(0, Command::TestUnitReady).await, absent);
    assert_eq!(host.run(9, Command::Read(transfer(0, 1))).await, absent);
    let sense = host.run(0, Command::RequestSense { descriptor: false, allocation: 18 }).await.data();
    assert_eq!((sense[2], sense[12]), (0x05, 0x25));
}

#[tokio::test]
async fn lun_map_changes_raise_attentions_and_take_effect() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    array
        .change(|draft| {
            draft.create_volume("new", 1 << 20, 0).and_then(|_| draft.connect("alpha", "new", Some(3))).map(|_| ())
        })
        .await;
    assert_eq!(host.attentions(1).await, [asc::REPORTED_LUNS_DATA_HAS_CHANGED.0]);
    assert_eq!(luns(&mut host, 1).await, [1, 2, 3]);
    assert!(host.attentions(2).await.is_empty(), "REPORT LUNS has cleared it on all units");
    assert_eq!(host.attentions(3).await, [asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED.0]);

    array.change(|draft| draft.resize_volume("shared", 2 * BLOCKS * 512, false, 0).map(|_| ())).await;
    assert_eq!(host.attentions(1).await, [asc::CAPACITY_DATA_HAS_CHANGED.0]);
    let capacity = host.run(1, Command::ReadCapacity10).await.data();
    assert_eq!(capacity[..4], (2 * BLOCKS as u32 - 1).to_be_bytes());

    array.change(|draft| draft.disconnect("alpha", "new").map(|_| ())).await;
    let absent = Ended::Check(SenseKey::IllegalRequest, asc::LOGICAL_UNIT_NOT_SUPPORTED);
    assert_eq!(host.run(3, Command::TestUnitReady).await, absent);
    assert_eq!(luns(&mut host, 1).await, [1, 2]);
}

#[tokio::test]
async fn copy_reaches_only_volumes_of_its_own_session() {
    let array = Array::start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    alpha.run_with(2, Command::Write(transfer(0, 8)), vec![0x5a; 4096]).await.data();
    beta.run_with(2, Command::Write(transfer(0, 8)), vec![0xb0; 4096]).await.data();
    let (a, b, shared) = (naa(&array, "a"), naa(&array, "b"), naa(&array, "shared"));
    let unreachable = Ended::Check(SenseKey::CopyAborted, asc::COPY_TARGET_DEVICE_NOT_REACHABLE);

    for (source, destination) in [(a, b), (b, a), (b, b)] {
        let (command, list) = copy(source, destination, 8);
        assert_eq!(alpha.run_with(1, command, list).await, unreachable, "{source} to {destination}");
    }
    assert_eq!(beta.run(2, Command::Read(transfer(64, 8))).await.data(), vec![0; 4096]);
    assert_eq!(alpha.run(2, Command::Read(transfer(64, 8))).await.data(), vec![0; 4096]);

    let (command, list) = copy(a, shared, 8);
    assert_eq!(alpha.run_with(1, command, list).await, Ended::Good(Bytes::new()));
    assert_eq!(beta.run(1, Command::Read(transfer(64, 8))).await.data(), vec![0x5a; 4096]);
}

#[tokio::test]
async fn wildcard_host_admits_every_initiator() {
    let array = Array::start().await;
    array
        .change(|draft| {
            let edit = HostEdit { iqns: Some(vec!["*".to_owned()]), ..HostEdit::default() };
            draft.create_host("any", &edit, 0)?;
            draft.connect("any", "shared", Some(5)).map(|_| ())
        })
        .await;
    let name = array.catalog.target_iqn();
    let mut stranger = Host::login(array.address, &name, "iqn.2026-11.org.ibid:stranger", 1).await.expect("a login");
    assert_eq!(luns(&mut stranger, 0).await, [5]);
}

#[tokio::test]
async fn mutual_chap_is_required_where_configured() {
    let array = Array::start().await;
    array
        .change(|draft| {
            let pair = |name: &str, secret: &str| Some((name.to_owned(), Secret::new(secret)));
            let chap = Chap { host: pair("alpha", "a secret of alpha"), target: pair("array", "a secret of array") };
            draft.edit_host("alpha", &HostEdit { chap: Some(chap), ..HostEdit::default() }).map(|_| ())
        })
        .await;
    let name = array.catalog.target_iqn();
    let login = |secret: &str, of_target: &str| {
        let clear = |text: &str| iscsi::ChapSecret::new(text.as_bytes().to_vec());
        let mutual = Some(MutualChap {
            user: Some("array".to_owned()),
            secret: clear(of_target),
            identifier: 9,
            challenge: (0..16).collect(),
        });
        let chap = ChapIdentity { user: "alpha".to_owned(), secret: clear(secret), md5_only: false, mutual };
        Host::login_with(array.address, InitiatorLoginConfig { chap: Some(chap), ..Host::config(&name, ALPHA, 1) })
    };
    assert!(login("a secret of alpha", "a secret of array").await.is_ok());
    assert_eq!(login("another secret", "a secret of array").await.err(), Some(LoginError::Refused(0x0201)));
    assert!(matches!(login("a secret of alpha", "another").await.err(), Some(LoginError::Authentication(_))));
    let without = Host::login(array.address, &name, ALPHA, 1).await;
    assert_eq!(without.err(), Some(LoginError::Refused(0x0201)));
    assert!(Host::login(array.address, &name, BETA, 1).await.is_ok(), "beta has no secrets");
}

#[tokio::test]
async fn connected_snapshot_is_read_only() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    let write = |byte| (Command::Write(transfer(0, 8)), vec![byte; 4096]);
    let (command, old) = write(1);
    assert_eq!(host.run_with(1, command, old.clone()).await, GOOD);
    array
        .change(|draft| {
            draft.create_snapshots(&["shared"], Some("before"), 0)?;
            draft.connect("alpha", "shared.before", Some(3)).map(|_| ())
        })
        .await;
    while host.run(3, Command::TestUnitReady).await != GOOD {}
    host.drain_attentions().await;
    let (command, new) = write(2);
    assert_eq!(host.run_with(1, command, new).await, GOOD);
    assert_eq!(host.run(3, Command::Read(transfer(0, 8))).await.data(), old);

    let protected = Ended::Check(SenseKey::DataProtect, asc::WRITE_PROTECTED);
    let everything = build_unmap(&[BlockRange::new(Lba(0), BLOCKS).expect("a range")]);
    let same = WriteSame { size: CdbSize::Sixteen, lba: Lba(0), blocks: 8, unmap: false, no_data: true };
    let changes = [
        write(3),
        (Command::CompareAndWrite { lba: Lba(0), blocks: 1, dpo: false, fua: false }, vec![0; 1024]),
        (Command::WriteSame(same), Vec::new()),
        (Command::Unmap { length: everything.len() as u16 }, everything),
    ];
    for (command, data) in changes {
        assert_eq!(host.run_with(3, command, data).await, protected, "{command:?}");
    }
    assert_eq!(host.run(3, Command::Read(transfer(0, 8))).await.data(), old);
    // The WP bit of the DEVICE-SPECIFIC PARAMETER shows the write protection before any write.
    let sense = [0x1a, 0x08, 0x3f, 0, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(host.run_raw(3, sense, Vec::new(), 255).await.data()[2] & 0x80, 0x80);
    assert_eq!(host.run_raw(1, sense, Vec::new(), 255).await.data()[2] & 0x80, 0);
}

#[tokio::test]
async fn chap_guesses_are_limited_and_names_are_hidden() {
    let array = Array::start().await;
    array
        .change(|draft| {
            let host = Some(("alpha".to_owned(), Secret::new("a secret of alpha")));
            let chap = Chap { host, target: None };
            draft.edit_host("alpha", &HostEdit { chap: Some(chap), ..HostEdit::default() }).map(|_| ())
        })
        .await;
    let name = array.catalog.target_iqn();
    let login = |initiator: &str, secret: &str| {
        let secret = iscsi::ChapSecret::new(secret.as_bytes().to_vec());
        let chap = ChapIdentity { user: "alpha".to_owned(), secret, md5_only: false, mutual: None };
        Host::login_with(array.address, InitiatorLoginConfig { chap: Some(chap), ..Host::config(&name, initiator, 1) })
    };
    let failed = Some(LoginError::Refused(0x0201));
    // An unknown name gets the answers of a known one, with and without CHAP.
    assert_eq!(login("iqn.2026-11.org.ibid:stranger", "a guess of mine").await.err(), failed);
    assert_eq!(Host::login(array.address, &name, "iqn.2026-11.org.ibid:stranger", 1).await.err(), failed);
    assert_eq!(Host::login(array.address, &name, ALPHA, 1).await.err(), failed);
    assert!(login(ALPHA, "a secret of alpha").await.is_ok());
    for _ in 0..20 {
        assert_eq!(login(ALPHA, "a guess of mine").await.err(), failed);
    }
    assert_eq!(login(ALPHA, "a secret of alpha").await.err(), failed, "too many guesses");
    assert!(Host::login(array.address, &name, BETA, 1).await.is_ok(), "beta is not affected");
}

#[tokio::test]
async fn second_connection_of_a_session_is_refused() {
    let array = Array::start().await;
    let host = array.host(ALPHA).await;
    let status = |isid: u8, tsih| {
        let text = format!("InitiatorName={ALPHA}\0TargetName={}\0SessionType=Normal\0", array.catalog.target_iqn());
        let request = LoginRequest {
            stage: Stage::Operational,
            transit_to: Some(Stage::FullFeature),
            isid: [0x80, 0, 0, 0, 0, isid],
            tsih,
            cid: 2,
            data: Bytes::from(text),
            ..LoginRequest::default()
        };
        let mut output = Output::default();
        output.push(&request);
        let address = array.address;
        async move {
            let mut stream = Stream::connect(address).await.expect("a connection");
            stream.write_all(&output.take_all().concat()).await.expect("the request is sent");
            let mut answer = BytesMut::new();
            while answer.len() < 48 {
                assert_ne!(stream.read(&mut answer).await.expect("an answer"), 0);
            }
            u16::from_be_bytes([answer[36], answer[37]])
        }
    };
    assert_eq!(status(1, 1).await, 0x0206);
    assert_eq!(status(1, 9).await, 0x020a, "the initiator port has another session");
    assert_eq!(status(7, 1).await, 0x020a, "the session is of another initiator port");
    host.logout().await;
}

#[tokio::test]
async fn host_with_unreadable_secret_cannot_log_in() {
    let array = Array::start().await;
    array
        .change(|draft| {
            let host = Some(("alpha".to_owned(), Secret::new("a secret of alpha")));
            let chap = Chap { host, target: None };
            draft.edit_host("alpha", &HostEdit { chap: Some(chap), ..HostEdit::default() }).map(|_| ())
        })
        .await;
    let login = |address, name: String| {
        let secret = iscsi::ChapSecret::new(b"a secret of alpha".to_vec());
        let chap = ChapIdentity { user: "alpha".to_owned(), secret, md5_only: false, mutual: None };
        Host::login_with(address, InitiatorLoginConfig { chap: Some(chap), ..Host::config(&name, ALPHA, 1) })
    };
    assert!(login(array.address, array.catalog.target_iqn()).await.is_ok());
    // The same array, started without the key.
    let service = array.service.clone();
    let init = catalog::ArrayInit { name: "array".to_owned(), number: 1, identity: [7; 16], now_ms: 0 };
    let opened = tokio::task::spawn_blocking(move || {
        let catalog = catalog::Catalog::open(service, &init).expect("the catalog opens");
        catalog.unlock(catalog::SecretKeys::new(&[[4; 32]])).expect("the others are stored");
        catalog
    });
    let catalog = std::sync::Arc::new(opened.await.expect("the catalog is open"));
    let target = IscsiTarget::new(array.service.clone(), catalog.clone(), TargetConfig::default());
    let address = target.listen(([127, 0, 0, 1], 0).into()).await.expect("a portal");
    let name = catalog.target_iqn();
    assert_eq!(login(address, name.clone()).await.err(), Some(LoginError::Refused(0x0201)));
    let without = Host::login(address, &name, ALPHA, 2).await;
    assert_eq!(without.err(), Some(LoginError::Refused(0x0201)), "the secret is still required");
    assert!(Host::login(address, &name, BETA, 1).await.is_ok(), "beta has no secrets");
}
