//! Reservations of a volume that two arrays serve, over real sessions. One engine is the content of
//! both arrays, as the stream of a pod makes it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::Bytes;
use catalog::{CatalogError, Draft, PodPeer, reservation_place};
use engine::model::ModelEngine;
use engine::{Op, Reply, Service, call};
use iscsi::pdu::{TaskFunction, TaskOutcome};
use iscsi_target::{
    FunctionEnd, IscsiTarget, PodPortStates, PodPorts, PortState, PortWatcher, SharedFunction, SharedReservationChange,
    TargetConfig,
};
use parking_lot::Mutex;
use scsi::cdb::{CdbSize, Command, ReportOpcodes, ReportingOptions, Transfer};
use scsi::persistent_reservation::{
    InAction, OutAction, OutParameters, ReservationType, Reservations, parse_keys, parse_reservation,
};
use scsi::{SenseKey, Status, asc};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use support::{ALPHA, Array, BETA, Ended, Host};
use types::{Lba, VolumeId};

const GOOD: Ended = Ended::Good(Bytes::new());
const BUSY: Ended = Ended::Other(Status::Busy);
const WRITE: Command = Command::Write(Transfer { size: CdbSize::Ten, lba: Lba(0), blocks: 1, dpo: false, fua: false });
type Reserve = Box<dyn Fn(VolumeId, SharedReservationChange, FunctionEnd) + Send + Sync>;

/// The pods of one of two arrays.
#[derive(Default)]
struct Pods {
    states: Mutex<Option<PodPortStates>>,
    watchers: Mutex<Vec<PortWatcher>>,
    /// Takes up changes at the other array.
    peer: OnceLock<Reserve>,
    /// Changes that the other array has not taken up; `None` if they are passed on at once.
    held: Mutex<Option<Vec<(VolumeId, SharedReservationChange, FunctionEnd)>>>,
}

impl PodPorts for Pods {
    fn ports(&self, content: VolumeId) -> Option<PodPortStates> {
        self.states.lock().filter(|_| content.stream().is_some())
    }

    fn execute(&self, _: Vec<VolumeId>, _: SharedFunction, end: FunctionEnd) {
        end(true);
    }

    fn reservations_changed(&self, content: VolumeId, change: SharedReservationChange, end: FunctionEnd) {
        match &mut *self.held.lock() {
            Some(held) => held.push((content, change, end)),
            None => self.pass(content, change, end),
        }
    }

    fn subscribe(&self, watcher: PortWatcher) {
        self.watchers.lock().push(watcher);
    }
}

impl Pods {
    fn pass(&self, content: VolumeId, change: SharedReservationChange, end: FunctionEnd) {
        self.peer.get().expect("another array")(content, change, end);
    }

    /// Passes the changes on that were held.
    fn release(&self) {
        let held = self.held.lock().take().expect("changes are held");
        held.into_iter().for_each(|(content, change, end)| self.pass(content, change, end));
    }

    fn set(&self, states: Option<(PortState, PortState)>) {
        let states = states.map(|(own, peer)| PodPortStates { own, peer, peer_number: 2, peer_ports: 1 });
        *self.states.lock() = states;
        self.watchers.lock().iter().for_each(|watcher| watcher());
    }
}

/// Two arrays that serve the volume `shared`: alpha uses the first, beta the second.
struct Two {
    pods: [Arc<Pods>; 2],
    arrays: [Array; 2],
    alpha: Host,
    beta: Host,
}

fn stretch(draft: &mut Draft) -> Result<(), CatalogError> {
    draft.create_pod("dc1", None, 0)?;
    draft.move_volume_to_pod("shared", Some("dc1"))?;
    let peer = PodPeer { id: "73697874-6565-4e20-a279-746573206f6b".to_owned(), name: "array-2".to_owned() };
    draft.stretch_pod("dc1", 7, peer, 0).map(|_| ())
}

fn peer_of(target: &IscsiTarget) -> Reserve {
    Box::new(target.shared_reservations())
}

impl Two {
    async fn start() -> Self {
        let engine: Arc<dyn Service> = Arc::new(ModelEngine::default());
        let pods = [Arc::new(Pods::default()), Arc::new(Pods::default())];
        let start = |number: usize| {
            let pods: Arc<dyn PodPorts> = pods[number].clone();
            Array::start_as(1 + number as u8, engine.clone(), TargetConfig::default(), Some(pods))
        };
        let first = start(0).await;
        first.change(stretch).await;
        let arrays = [first, start(1).await];
        assert!(pods[0].peer.set(peer_of(&arrays[1].target)).is_ok());
        assert!(pods[1].peer.set(peer_of(&arrays[0].target)).is_ok());
        pods.iter().for_each(|pods| pods.set(Some((PortState::Active, PortState::Active))));
        let (alpha, beta) = (arrays[0].host(ALPHA).await, arrays[1].host(BETA).await);
        Self { pods, arrays, alpha, beta }
    }

    /// Alpha registers and reserves, and beta registers.
    async fn reserve(&mut self, aptpl: bool) {
        assert_eq!(out(&mut self.alpha, OutAction::Register, 0, 0xa1, aptpl).await, GOOD);
        assert_eq!(out(&mut self.alpha, OutAction::Reserve, 0xa1, 0, aptpl).await, GOOD);
        assert_eq!(out(&mut self.beta, OutAction::Register, 0, 0xb2, aptpl).await, GOOD);
    }
}

/// Sends a command again while it is answered BUSY, as a host does.
async fn patient(host: &mut Host, command: Command, data: Vec<u8>) -> Ended {
    for _ in 0..500 {
        match host.run_with(1, command, data.clone()).await {
            BUSY => tokio::time::sleep(Duration::from_millis(2)).await,
            ended => return ended,
        }
    }
    BUSY
}

fn out_command(action: OutAction, key: u64, service_key: u64, persist: bool) -> (Command, Vec<u8>) {
    let list = OutParameters { key, service_key, persist, ..OutParameters::default() }.to_bytes();
    let kind = action.uses_type().then_some(ReservationType::WriteExclusive);
    (Command::PersistentReserveOut { action, kind, length: list.len() as u32 }, list.to_vec())
}

async fn out(host: &mut Host, action: OutAction, key: u64, service_key: u64, persist: bool) -> Ended {
    let (command, list) = out_command(action, key, service_key, persist);
    patient(host, command, list).await
}

async fn write(host: &mut Host) -> Ended {
    patient(host, WRITE, vec![1; 512]).await
}

async fn read_in(host: &mut Host, action: InAction) -> Bytes {
    patient(host, Command::PersistentReserveIn { action, allocation: 1024 }, Vec::new()).await.data()
}

async fn keys(host: &mut Host) -> Vec<u64> {
    parse_keys(&read_in(host, InAction::ReadKeys).await).expect("keys").1
}

#[tokio::test]
async fn both_arrays_have_one_reservation() {
    let mut two = Two::start().await;
    two.reserve(false).await;
    for host in [&mut two.alpha, &mut two.beta] {
        assert_eq!(keys(host).await, [0xa1, 0xb2]);
        let held = parse_reservation(&read_in(host, InAction::ReadReservation).await);
        assert_eq!(held, Some((0xa1, ReservationType::WriteExclusive)));
    }
    assert_eq!(write(&mut two.alpha).await, GOOD);
    assert_eq!(write(&mut two.beta).await, Ended::Conflict);
    assert_eq!(out(&mut two.alpha, OutAction::Release, 0xa1, 0, false).await, GOOD);
    assert_eq!(write(&mut two.beta).await, GOOD);
    assert_eq!(out(&mut two.beta, OutAction::Reserve, 0xb2, 0, false).await, GOOD);
    assert_eq!(write(&mut two.alpha).await, Ended::Conflict);
    assert_eq!(out(&mut two.alpha, OutAction::Register, 0xa1, 0, false).await, GOOD, "it registers no more");
    assert_eq!(keys(&mut two.beta).await, [0xb2]);
    assert_eq!(out(&mut two.beta, OutAction::Clear, 0xb2, 0, false).await, GOOD);
    assert!(keys(&mut two.alpha).await.is_empty());
    assert_eq!(write(&mut two.alpha).await, GOOD);
}

#[tokio::test]
async fn shared_volume_has_persistent_reservations_only() {
    let mut two = Two::start().await;
    let unknown = Ended::Check(SenseKey::IllegalRequest, asc::INVALID_COMMAND_OPERATION_CODE);
    for size in [CdbSize::Six, CdbSize::Ten] {
        assert_eq!(two.alpha.run(1, Command::Reserve { size }).await, unknown);
        assert_eq!(two.alpha.run(1, Command::Release { size }).await, GOOD);
    }
    let capabilities = read_in(&mut two.alpha, InAction::ReportCapabilities).await;
    assert_eq!(&capabilities[..], [0, 8, 0x0d, 0x80, 0xea, 0x01, 0, 0], "CRH is zero");
    for (opcode, supported) in [(0x16, 1), (0x56, 1), (0x5f, 3), (0x5e, 3), (0x17, 3)] {
        let options = ReportingOptions::Either;
        let about = ReportOpcodes { timeouts: false, options, opcode, service_action: 0, allocation: 4096 };
        let data = two.alpha.run(1, Command::ReportOpcodes(about)).await.data();
        assert_eq!(data[1], supported, "{opcode:02x}");
    }
    let mut bad = out_command(OutAction::Register, 0, 1, false);
    bad.1[20] = 0xff;
    let ended = patient(&mut two.alpha, bad.0, bad.1).await;
    assert_eq!(ended, Ended::Check(SenseKey::IllegalRequest, asc::PARAMETER_LIST_LENGTH_ERROR));
    assert_eq!(out(&mut two.alpha, OutAction::Reserve, 1, 0, false).await, Ended::Conflict);
}

#[tokio::test]
async fn preempted_host_writes_at_neither_array() {
    let mut two = Two::start().await;
    two.reserve(false).await;
    // Alpha's write waits in the engine of its array.
    two.arrays[0].gate.block_changes();
    let stuck = two.alpha.submit(1, &WRITE, vec![0xee; 512]).await;
    two.arrays[0].gate.wait_blocked(1).await;
    let (preempt, list) = out_command(OutAction::PreemptAndAbort, 0xb2, 0xa1, false);
    let preempting = two.beta.submit(1, &preempt, list).await;
    two.beta.ping().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    two.beta.ping().await;
    assert!(!two.beta.has_ended(preempting), "the outcome of alpha's write is not certain yet");
    two.arrays[0].gate.release();
    assert_eq!(two.beta.end_of(preempting).await, GOOD);
    assert_eq!(two.alpha.end_of(stuck).await, Ended::Aborted);
    assert_eq!(two.alpha.attentions(1).await, [asc::REGISTRATIONS_PREEMPTED.0]);
    assert_eq!(write(&mut two.alpha).await, Ended::Conflict);
    assert_eq!(write(&mut two.beta).await, GOOD);
}

#[tokio::test]
async fn change_is_good_after_both_arrays_have_it() {
    let mut two = Two::start().await;
    assert_eq!(out(&mut two.alpha, OutAction::Register, 0, 0xa1, false).await, GOOD);
    *two.pods[0].held.lock() = Some(Vec::new());
    let (reserve, list) = out_command(OutAction::Reserve, 0xa1, 0, false);
    let reserving = two.alpha.submit(1, &reserve, list).await;
    while two.pods[0].held.lock().as_ref().is_some_and(Vec::is_empty) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(write(&mut two.beta).await, GOOD, "the other array has not taken it up");
    two.alpha.ping().await;
    assert!(!two.alpha.has_ended(reserving));
    two.pods[0].release();
    assert_eq!(two.alpha.end_of(reserving).await, GOOD);
    assert_eq!(write(&mut two.beta).await, Ended::Conflict);
}

#[tokio::test]
async fn array_that_was_away_reads_before_it_admits() {
    use PortState::{Active, Transitioning, Unavailable};
    let mut two = Two::start().await;
    two.pods[1].set(Some((Unavailable, Active)));
    two.pods[0].set(Some((Active, Unavailable)));
    assert_eq!(two.alpha.attentions(1).await, [asc::ASYMMETRIC_ACCESS_STATE_CHANGED.0]);
    *two.pods[0].held.lock() = Some(Vec::new());
    assert_eq!(out(&mut two.alpha, OutAction::Register, 0, 0xa1, false).await, GOOD);
    assert_eq!(out(&mut two.alpha, OutAction::Reserve, 0xa1, 0, false).await, GOOD);
    assert_eq!(two.pods[0].held.lock().as_ref().map(Vec::len), Some(0), "an array that does not serve is not asked");
    two.pods[1].set(Some((Transitioning, Active)));
    two.beta.attentions(1).await;
    let transition = asc::LOGICAL_UNIT_NOT_ACCESSIBLE_ASYMMETRIC_ACCESS_STATE_TRANSITION;
    let ended = two.beta.run_with(1, WRITE, vec![2; 512]).await;
    assert_eq!(ended, Ended::Check(SenseKey::NotReady, transition), "it would be held, and executed later");
    two.arrays[1].gate.block_reads();
    two.pods[1].set(Some((Active, Active)));
    two.beta.attentions(1).await;
    // Commands wait for the reading, and can be aborted; those on other volumes do not wait.
    let (written, aborted) =
        (two.beta.submit(1, &WRITE, vec![2; 512]).await, two.beta.submit(1, &WRITE, vec![2; 512]).await);
    assert_eq!(two.beta.run_with(2, WRITE, vec![2; 512]).await, GOOD);
    let abort = two.beta.start_function(TaskFunction::AbortTask, 1, Some(aborted)).await;
    assert_eq!(two.beta.outcome_of(abort).await, TaskOutcome::Complete);
    assert!(!two.beta.has_ended(written));
    two.arrays[1].gate.release();
    assert_eq!(two.beta.end_of(written).await, Ended::Conflict);
    assert_eq!(keys(&mut two.beta).await, [0xa1]);
}

#[tokio::test]
async fn array_that_continues_alone_admits_at_once() {
    use PortState::{Active, Transitioning, Unavailable};
    let mut two = Two::start().await;
    two.reserve(false).await;
    two.arrays[0].gate.block_reads();
    for states in [(Transitioning, Active), (Active, Unavailable)] {
        two.pods[0].set(Some(states));
        two.alpha.attentions(1).await;
        assert_eq!(two.alpha.run_with(1, WRITE, vec![3; 512]).await, GOOD, "{states:?}");
    }
    let read_keys = Command::PersistentReserveIn { action: InAction::ReadKeys, allocation: 1024 };
    let reading = two.alpha.submit(1, &read_keys, Vec::new()).await;
    two.alpha.ping().await;
    assert!(!two.alpha.has_ended(reading), "the other array may have stored a change");
    two.arrays[0].gate.release();
    assert_eq!(parse_keys(&two.alpha.end_of(reading).await.data()).expect("keys").1, [0xa1, 0xb2]);
}

#[tokio::test]
async fn changes_at_both_arrays_at_once_are_all_kept() {
    let two = Two::start().await;
    let mut hosts = Vec::new();
    for number in 0..12_u8 {
        let array = &two.arrays[usize::from(number % 2)];
        let name = array.catalog.target_iqn();
        let mut host = Host::login(array.address, &name, ALPHA, 16 + number).await.unwrap();
        host.drain_attentions().await;
        hosts.push(host);
    }
    let registering = hosts.into_iter().zip(1_u64..).map(|(mut host, key)| {
        tokio::spawn(async move {
            assert_eq!(out(&mut host, OutAction::Register, 0, key, false).await, GOOD, "{key}");
            host
        })
    });
    let registering: Vec<_> = registering.collect();
    let mut hosts = Vec::new();
    for registered in registering {
        hosts.push(registered.await.unwrap());
    }
    for host in &mut hosts {
        let mut found = keys(host).await;
        found.sort_unstable();
        assert_eq!(found, (1..=12).collect::<Vec<u64>>());
    }
}

#[tokio::test]
async fn volume_of_one_array_again_keeps_reservations() {
    for aptpl in [true, false] {
        let mut two = Two::start().await;
        two.reserve(aptpl).await;
        let (array, shared) = (&two.arrays[0], two.arrays[0].catalog.state().volume("dc1::shared").unwrap().clone());
        let (service, place) = (array.service.clone(), reservation_place(shared.content()).unwrap());
        let read = Op::Read { volume: place.0, range: place.1 };
        let stored = tokio::task::spawn_blocking(move || call(&*service, read)).await.unwrap().unwrap();
        let Reply::Data(stored) = stored else { panic!("a read without data") };
        let image = Reservations::from_padded_image(&stored).unwrap().to_image();
        array
            .change(move |draft| {
                draft.keep_reservations(shared.id, Some(image));
                draft.unstretch_pod("dc1").map(|_| ())
            })
            .await;
        // The pod ends: its states change once more when the hidden volume is gone.
        two.pods[0].set(Some((PortState::Active, PortState::Unavailable)));
        assert_eq!(two.alpha.attentions(1).await, [asc::ASYMMETRIC_ACCESS_STATE_CHANGED.0]);
        assert_eq!(keys(&mut two.alpha).await, [0xa1, 0xb2]);
        two.pods[0].set(None);
        assert_eq!(two.alpha.attentions(1).await, [asc::ASYMMETRIC_ACCESS_STATE_CHANGED.0]);
        assert_eq!(keys(&mut two.alpha).await, [0xa1, 0xb2]);
        let mut other = two.arrays[0].host(BETA).await;
        assert_eq!(write(&mut other).await, Ended::Conflict);
        assert_eq!(out(&mut two.alpha, OutAction::Release, 0xa1, 0, aptpl).await, GOOD);
        assert_eq!(write(&mut other).await, GOOD);
        let (array, pods): (_, Arc<dyn PodPorts>) = (&two.arrays[0], Arc::new(Pods::default()));
        array.target.shutdown().await;
        let service = array.service.clone();
        let again = Array::start_as(1, service, TargetConfig::default(), Some(pods)).await;
        let found = keys(&mut again.host(ALPHA).await).await;
        assert_eq!(found.is_empty(), !aptpl, "only APTPL survives a restart");
    }
}

#[tokio::test]
async fn stretch_that_fails_leaves_reservations() {
    let pods = Arc::new(Pods::default());
    let array = Array::start_with_pods(1, pods.clone()).await;
    let mut alpha = array.host(ALPHA).await;
    assert_eq!(alpha.reserve_out(1, OutAction::Register, 0, 0xa1, false).await, GOOD);
    assert_eq!(alpha.reserve_out(1, OutAction::Reserve, 0xa1, 0, false).await, GOOD);
    array.change(stretch).await;
    pods.set(Some((PortState::Transitioning, PortState::Active)));
    array.change(|draft| draft.unstretch_pod("dc1").map(|_| ())).await;
    pods.set(None);
    alpha.attentions(1).await;
    assert_eq!(keys(&mut alpha).await, [0xa1]);
    assert_eq!(write(&mut array.host(BETA).await).await, Ended::Conflict);
}

#[tokio::test]
async fn stretched_volume_keeps_its_reservations() {
    for is_restarted in [false, true] {
        let engine: Arc<dyn Service> = Arc::new(ModelEngine::default());
        let pods = [Arc::new(Pods::default()), Arc::new(Pods::default())];
        let start = |number: u8| {
            let pods: Arc<dyn PodPorts> = pods[usize::from(number) - 1].clone();
            Array::start_as(number, engine.clone(), TargetConfig::default(), Some(pods))
        };
        let mut first = start(1).await;
        let mut alpha = first.host(ALPHA).await;
        assert_eq!(alpha.reserve_out(1, OutAction::Register, 0, 0xa1, true).await, GOOD);
        assert_eq!(alpha.reserve_out(1, OutAction::Reserve, 0xa1, 0, true).await, GOOD);
        first.change(stretch).await;
        if is_restarted {
            first.target.shutdown().await;
            first = start(1).await;
            alpha = first.host(ALPHA).await;
        }
        pods[0].set(Some((PortState::Active, PortState::Unavailable)));
        let second = start(2).await;
        assert!(pods[0].peer.set(peer_of(&second.target)).is_ok());
        assert_eq!(alpha.attentions(1).await, [asc::ASYMMETRIC_ACCESS_STATE_CHANGED.0]);
        assert_eq!(keys(&mut alpha).await, [0xa1]);
        pods.iter().for_each(|pods| pods.set(Some((PortState::Active, PortState::Active))));
        let mut beta = second.host(BETA).await;
        assert_eq!((keys(&mut beta).await, write(&mut beta).await), (vec![0xa1], Ended::Conflict));
        alpha.attentions(1).await;
        assert_eq!(out(&mut alpha, OutAction::Clear, 0xa1, 0, true).await, GOOD);
        assert_eq!(write(&mut beta).await, GOOD);
        first.target.shutdown().await;
        let again = start(1).await;
        assert!(keys(&mut again.host(ALPHA).await).await.is_empty(), "those of before do not come back");
    }
}

#[tokio::test]
async fn reservation_that_cannot_be_stored_is_refused() {
    let mut two = Two::start().await;
    two.arrays[0].gate.set_full(true);
    let ended = out(&mut two.alpha, OutAction::Register, 0, 0xa1, false).await;
    assert_eq!(ended, Ended::Check(SenseKey::IllegalRequest, asc::INSUFFICIENT_REGISTRATION_RESOURCES));
    two.arrays[0].gate.set_full(false);
    assert!(keys(&mut two.alpha).await.is_empty());
    let content = two.arrays[0].catalog.state().volume("dc1::shared").unwrap().content();
    let (hidden, range) = reservation_place(content).unwrap();
    let (engine, damaged) = (two.arrays[0].service.clone(), Bytes::from(vec![7; 512]));
    let damage = Op::Write { volume: hidden, lba: range.start(), data: damaged, fua: false };
    tokio::task::spawn_blocking(move || call(&*engine, damage)).await.unwrap().unwrap();
    assert_eq!(out(&mut two.alpha, OutAction::Register, 0, 0xa2, false).await, GOOD, "it replaces damaged ones");
    assert_eq!(keys(&mut two.beta).await, [0xa2]);
}
