//! Volumes that two arrays serve, over real sessions: port groups, access states, unit attentions,
//! reservations and copies.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::Bytes;
use catalog::{CatalogError, Draft, HostEdit, PodPeer};
use engine::OpError;
use iscsi::pdu::{TaskFunction, TaskOutcome};
use iscsi_target::{
    FunctionEnd, PodPortStates, PodPorts, PortState, PortWatcher, SharedFunction, SharedReservationChange,
};
use parking_lot::Mutex;
use scsi::cdb::{CdbSize, Command, ModeSense, ReportOpcodes, ReportingOptions, SelectReport, Transfer};
use scsi::copy::{CopyList, Segment, build_copy_list};
use scsi::inquiry::Naa;
use scsi::persistent_reservation::{InAction, OutAction};
use scsi::port_groups::{AccessState, parse_port_groups};
use scsi::{Asc, Sense, SenseKey, asc};
use std::collections::BTreeMap;
use std::sync::Arc;
use support::{ALPHA, Array, BETA, Ended, Host};
use types::{Lba, ObjectId, VolumeId};

/// Id of array 2.
const PEER: &str = "73697874-6565-4e20-a279-746573206f6b";
const GOOD: Ended = Ended::Good(Bytes::new());
const READ: Command = Command::Read(Transfer { size: CdbSize::Ten, lba: Lba(0), blocks: 1, dpo: false, fua: false });
const CHANGED: Ended = Ended::Check(SenseKey::UnitAttention, asc::ASYMMETRIC_ACCESS_STATE_CHANGED);
const UNAVAILABLE: Ended =
    Ended::Check(SenseKey::NotReady, asc::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_UNAVAILABLE_STATE);
const TRANSITION: Ended =
    Ended::Check(SenseKey::NotReady, asc::LOGICAL_UNIT_NOT_ACCESSIBLE_ASYMMETRIC_ACCESS_STATE_TRANSITION);

/// Pods whose states the test sets.
#[derive(Default)]
struct Pods {
    states: Mutex<BTreeMap<VolumeId, PodPortStates>>,
    watchers: Mutex<Vec<PortWatcher>>,
    /// Functions that wait for the other array.
    functions: Mutex<Vec<(Vec<VolumeId>, SharedFunction, FunctionEnd)>>,
}

/// Returns the content of a volume, which has not moved.
fn content(volume: ObjectId) -> VolumeId {
    VolumeId(volume.0)
}

impl PodPorts for Pods {
    fn ports(&self, content: VolumeId) -> Option<PodPortStates> {
        self.states.lock().get(&content).copied()
    }

    fn execute(&self, contents: Vec<VolumeId>, function: SharedFunction, end: FunctionEnd) {
        self.functions.lock().push((contents, function, end));
    }

    fn reservations_changed(&self, _content: VolumeId, _change: SharedReservationChange, end: FunctionEnd) {
        end(true);
    }

    fn subscribe(&self, watcher: PortWatcher) {
        self.watchers.lock().push(watcher);
    }
}

impl Pods {
    /// Changes the states of a volume, without a notification.
    fn set(&self, volume: ObjectId, own: PortState, peer: PortState) {
        let states = PodPortStates { own, peer, peer_number: 2, peer_ports: 2 };
        self.states.lock().insert(content(volume), states);
    }

    fn notify(&self) {
        self.watchers.lock().iter().for_each(|watcher| watcher());
    }
}

/// An array that serves the volume `shared` together with array 2, and a session of alpha.
async fn start(own: PortState, peer: PortState) -> (Arc<Pods>, Array, Host) {
    let pods = Arc::new(Pods::default());
    let array = Array::start_with_pods(1, pods.clone()).await;
    pods.set(array.volume("shared"), own, peer);
    let alpha = array.host(ALPHA).await;
    (pods, array, alpha)
}

fn groups_command(extended: bool) -> Command {
    Command::ReportTargetPortGroups { extended, allocation: 1024 }
}

async fn states(host: &mut Host) -> Vec<(u16, AccessState)> {
    states_of(host, 1).await
}

async fn states_of(host: &mut Host, lun: u16) -> Vec<(u16, AccessState)> {
    let groups = parse_port_groups(&host.run(lun, groups_command(false)).await.data()).expect("groups");
    groups.iter().map(|group| (group.id, group.state)).collect()
}

fn opcodes(opcode: Option<u8>) -> Command {
    let options = if opcode.is_some() { ReportingOptions::Either } else { ReportingOptions::All };
    let opcode = opcode.unwrap_or(0);
    Command::ReportOpcodes(ReportOpcodes { timeouts: false, options, opcode, service_action: 0, allocation: 4096 })
}

fn reserve_in(action: InAction) -> Command {
    Command::PersistentReserveIn { action, allocation: 1024 }
}

fn mode_pages() -> Command {
    let control = scsi::cdb::PageControl::Current;
    Command::ModeSense(ModeSense {
        size: CdbSize::Ten,
        no_block_descriptors: false,
        long_lba: false,
        control,
        page: 0x3f,
        subpage: 0,
        allocation: 1024,
    })
}

/// Commands that only describe the volume.
fn descriptions() -> Vec<Command> {
    vec![
        Command::Inquiry { page: None, allocation: 255 },
        Command::Inquiry { page: Some(0x80), allocation: 255 },
        Command::Inquiry { page: Some(0x83), allocation: 1024 },
        Command::ReportLuns { select: SelectReport::Addressable, allocation: 256 },
        Command::ReadCapacity10,
        Command::ReadCapacity16 { allocation: 32 },
        mode_pages(),
        Command::RequestSense { descriptor: false, allocation: 252 },
        opcodes(None),
        groups_command(false),
        groups_command(true),
        reserve_in(InAction::ReportCapabilities),
        reserve_in(InAction::ReadKeys),
    ]
}

#[tokio::test]
async fn two_arrays_report_the_same_two_groups() {
    let pods = [Arc::new(Pods::default()), Arc::new(Pods::default())];
    let mut reports = Vec::new();
    for (number, pods) in [1, 2].into_iter().zip(pods) {
        let array = Array::start_with_pods(number, pods.clone()).await;
        let second = array.target.listen(([127, 0, 0, 1], 0).into()).await.expect("a second portal");
        assert_ne!(second, array.address);
        let (own, peer) = match number {
            1 => (PortState::Active, PortState::Unavailable),
            _ => (PortState::Unavailable, PortState::Active),
        };
        let states = PodPortStates { own, peer, peer_number: 3 - number, peer_ports: 2 };
        pods.states.lock().insert(content(array.volume("shared")), states);
        let mut host = array.host(ALPHA).await;
        let page = host.run(1, Command::Inquiry { page: Some(0x83), allocation: 1024 }).await.data();
        assert!(page.windows(8).any(|id| id == [0x51, 0x95, 0, 4, 0, 0, 0, number]), "the own group in VPD page 83h");
        reports.push(host.run(1, groups_command(true)).await.data());
    }
    let expected = [
        &[0, 0, 0, 36, 0x10, 10, 0, 0][..],
        &[0x00, 0x8b, 0, 1, 0, 2, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2],
        &[0x03, 0x8b, 0, 2, 0, 2, 0, 2, 0, 0, 1, 1, 0, 0, 1, 2],
    ];
    assert_eq!(reports, [expected.concat(), expected.concat()]);
}

#[tokio::test]
async fn plain_volumes_are_described_as_before() {
    let (_pods, _array, mut alpha) = start(PortState::Unavailable, PortState::Active).await;
    let other = Array::start().await;
    let mut before = other.host(ALPHA).await;
    for command in descriptions() {
        assert_eq!(alpha.run(2, command).await, before.run(2, command).await, "{command:?}");
    }
    assert_eq!(alpha.run(2, Command::TestUnitReady).await, GOOD);
    assert_eq!(alpha.reserve_out(2, OutAction::Register, 0, 0xa1, false).await, GOOD);
    assert_eq!(alpha.run(2, READ).await.data().len(), 512);
    assert_eq!(alpha.reserve_out(2, OutAction::Clear, 0xa1, 0, false).await, GOOD);
}

#[tokio::test]
async fn unavailable_volume_is_described_and_not_lost() {
    let (pods, array, mut alpha) = start(PortState::Active, PortState::Active).await;
    let described = |command: &Command| {
        !matches!(command, Command::PersistentReserveIn { .. } | Command::RequestSense { .. })
            && !matches!(command, Command::ReportTargetPortGroups { .. })
    };
    let mut before = Vec::new();
    for command in descriptions().into_iter().filter(described) {
        before.push(alpha.run(1, command).await.data());
    }
    pods.set(array.volume("shared"), PortState::Unavailable, PortState::Active);
    pods.notify();
    assert_eq!(alpha.attentions(1).await, [0x2a06]);
    for (command, data) in descriptions().into_iter().filter(described).zip(before) {
        assert_eq!(alpha.run(1, command).await.data(), data, "{command:?}");
    }
    let inquiry = alpha.run(1, Command::Inquiry { page: None, allocation: 36 }).await.data();
    assert_eq!(inquiry[0], 0, "the peripheral qualifier is 000b");
    let sense = alpha.run(1, Command::RequestSense { descriptor: false, allocation: 252 }).await.data();
    assert_eq!(Sense::from_bytes(&sense).map(|sense| sense.asc), Ok(Asc(0x040c)));
    assert_eq!(states(&mut alpha).await, [(1, AccessState::Unavailable), (2, AccessState::ActiveOptimized)]);
    let refused = [
        Command::TestUnitReady,
        READ,
        Command::GetLbaStatus { lba: Lba(0), allocation: 512 },
        Command::Reserve { size: CdbSize::Six },
        Command::Release { size: CdbSize::Six },
        reserve_in(InAction::ReadKeys),
    ];
    for command in refused {
        assert_eq!(alpha.run(1, command).await, UNAVAILABLE, "{command:?}");
    }
    let write = Command::Write(Transfer { size: CdbSize::Ten, lba: Lba(0), blocks: 1, dpo: false, fua: false });
    assert_eq!(alpha.run_with(1, write, vec![1; 512]).await, UNAVAILABLE);
    assert_eq!(alpha.reserve_out(1, OutAction::Register, 0, 0xa1, false).await, UNAVAILABLE);
    pods.set(array.volume("shared"), PortState::Active, PortState::Active);
    assert_eq!(alpha.run(1, READ).await, CHANGED);
    assert_eq!(alpha.run(1, READ).await.data(), vec![0; 512], "nothing was written");
}

#[tokio::test]
async fn commands_wait_in_the_engine_in_transition() {
    let (pods, array, mut alpha) = start(PortState::Active, PortState::Active).await;
    pods.set(array.volume("shared"), PortState::Transitioning, PortState::Active);
    assert_eq!(alpha.run(1, Command::TestUnitReady).await, CHANGED);
    assert_eq!(alpha.run(1, Command::TestUnitReady).await, TRANSITION);
    assert_eq!(states(&mut alpha).await[0], (1, AccessState::Transitioning));
    assert_eq!(alpha.run(1, READ).await.data(), vec![0; 512], "the engine decides");
    array.gate.fail(Some(OpError::Transition("undecided")));
    assert_eq!(alpha.run(1, READ).await, TRANSITION);
    let sense = alpha.run(1, Command::RequestSense { descriptor: false, allocation: 252 }).await.data();
    assert_eq!(Sense::from_bytes(&sense).map(|sense| sense.asc), Ok(Asc(0x040a)));
}

#[tokio::test]
async fn hosts_learn_of_a_change_before_its_errors() {
    let (pods, array, mut alpha) = start(PortState::Active, PortState::Active).await;
    let mut beta = array.host(BETA).await;
    let shared = array.volume("shared");
    // The engine has the read when the states change, and the array was not notified.
    array.gate.block_reads();
    let reading = alpha.submit(1, &READ, Bytes::new()).await;
    array.gate.wait_blocked(1).await;
    pods.set(shared, PortState::Unavailable, PortState::Active);
    array.gate.fail_blocked(&OpError::Unavailable("yielded"));
    assert_eq!(alpha.end_of(reading).await, CHANGED);
    assert_eq!(alpha.run(1, READ).await, UNAVAILABLE);
    assert_eq!(beta.run(1, Command::TestUnitReady).await, CHANGED);
    assert_eq!(beta.run(1, Command::TestUnitReady).await, UNAVAILABLE);
    // Another volume has no attention.
    assert_eq!(alpha.run(2, READ).await.data().len(), 512);
    // The state of the other array counts, too. Nothing repeats without a change.
    pods.set(shared, PortState::Unavailable, PortState::Transitioning);
    pods.notify();
    pods.notify();
    for host in [&mut alpha, &mut beta] {
        assert_eq!(host.run(1, READ).await, CHANGED);
        assert_eq!(host.run(1, READ).await, UNAVAILABLE);
    }
    // A change that is over before the next command is reported, too.
    pods.set(shared, PortState::Active, PortState::Active);
    pods.notify();
    pods.set(shared, PortState::Unavailable, PortState::Transitioning);
    pods.notify();
    assert_eq!(alpha.attentions(1).await, [0x2a06]);
}

#[tokio::test]
async fn volume_that_becomes_shared_gets_an_attention() {
    let pods = Arc::new(Pods::default());
    let array = Array::start_with_pods(1, pods.clone()).await;
    let mut alpha = array.host(ALPHA).await;
    assert_eq!(states(&mut alpha).await, [(1, AccessState::ActiveOptimized)]);
    pods.set(array.volume("shared"), PortState::Active, PortState::Active);
    pods.notify();
    assert_eq!(alpha.attentions(1).await, [0x2a06]);
    assert_eq!(states(&mut alpha).await.len(), 2);
    pods.states.lock().clear();
    assert_eq!(alpha.attentions(1).await, [0x2a06]);
    assert_eq!(states(&mut alpha).await.len(), 1);
}

/// The functions that reach the other array.
const FUNCTIONS: [(TaskFunction, SharedFunction); 3] = [
    (TaskFunction::ClearTaskSet, SharedFunction::ClearTaskSet),
    (TaskFunction::LogicalUnitReset, SharedFunction::LogicalUnitReset),
    (TaskFunction::TargetWarmReset, SharedFunction::TargetReset),
];

#[tokio::test]
async fn resets_are_answered_after_the_other_array() {
    let (pods, array, mut alpha) = start(PortState::Active, PortState::Active).await;
    let shared = content(array.volume("shared"));
    for (function, sent) in FUNCTIONS {
        for (is_certain, outcome) in [(true, TaskOutcome::Complete), (false, TaskOutcome::Rejected)] {
            let id = alpha.start_function(function, 1, None).await;
            assert!(alpha.is_pending(id).await, "{function:?}");
            let (contents, asked, end) = pods.functions.lock().pop().expect("a function");
            assert_eq!((contents, asked), (vec![shared], sent), "the volume of one array is not sent");
            end(is_certain);
            assert_eq!(alpha.outcome_of(id).await, outcome, "{function:?}");
        }
    }
    // Other functions, and those on a volume of one array, do not reach it.
    for (function, lun) in [(TaskFunction::AbortTaskSet, 1), (TaskFunction::LogicalUnitReset, 2)] {
        let id = alpha.start_function(function, lun, None).await;
        assert_eq!(alpha.outcome_of(id).await, TaskOutcome::Complete);
    }
    // Neither do they if the other array executes nothing, or this one is out.
    for (own, peer) in [(PortState::Active, PortState::Unavailable), (PortState::Unavailable, PortState::Active)] {
        pods.set(array.volume("shared"), own, peer);
        for (function, _) in FUNCTIONS {
            let id = alpha.start_function(function, 1, None).await;
            assert_eq!(alpha.outcome_of(id).await, TaskOutcome::Complete, "{function:?}");
        }
    }
    assert!(pods.functions.lock().is_empty());
}

#[tokio::test]
async fn functions_of_the_other_array_abort_here() {
    for (_, function) in FUNCTIONS {
        let (_pods, array, mut alpha) = start(PortState::Active, PortState::Active).await;
        let execute = array.target.shared_functions();
        let shared = content(array.volume("shared"));
        array.gate.block_changes();
        let write = Command::Write(Transfer { size: CdbSize::Ten, lba: Lba(0), blocks: 1, dpo: false, fua: false });
        let [on_shared, elsewhere] =
            [alpha.submit(1, &write, vec![7; 512]).await, alpha.submit(2, &write, vec![7; 512]).await];
        array.gate.wait_blocked(2).await;
        let (sender, mut ended) = tokio::sync::oneshot::channel();
        execute(&[shared], function, Box::new(move |is_certain| sender.send(is_certain).expect("the test waits")));
        alpha.ping().await;
        assert!(ended.try_recv().is_err(), "the write has not ended");
        array.gate.release();
        assert!(ended.await.expect("an end"), "{function:?}");
        assert_eq!(alpha.end_of(on_shared).await, Ended::Aborted);
        assert_eq!(alpha.end_of(elsewhere).await, GOOD);
        let expected = match function {
            SharedFunction::ClearTaskSet => vec![],
            SharedFunction::LogicalUnitReset => vec![asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED.0],
            SharedFunction::TargetReset => vec![asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED.0],
        };
        assert_eq!(alpha.attentions(1).await, expected, "{function:?}");
        assert!(alpha.attentions(2).await.is_empty());
    }
}

/// Moves the volume `shared` into a pod that array 2 has, too.
fn stretch(draft: &mut Draft) -> Result<(), CatalogError> {
    draft.create_pod("dc1", None, 0)?;
    draft.move_volume_to_pod("shared", Some("dc1"))?;
    let peer = PodPeer { id: PEER.to_owned(), name: "array-2".to_owned() };
    draft.stretch_pod("dc1", 7, peer, 0).map(|_| ())
}

#[tokio::test]
async fn preferred_arrays_are_optimized_for_the_host() {
    use AccessState::{ActiveNonOptimized, ActiveOptimized, Unavailable};
    let pods = Arc::new(Pods::default());
    let array = Array::start_with_pods(1, pods.clone()).await;
    array.change(stretch).await;
    let (own, shared) = (array.catalog.state().array().id.clone(), array.catalog.state());
    let content = shared.volume("dc1::shared").unwrap().content();
    let set = |own, peer| {
        let states = PodPortStates { own, peer, peer_number: 2, peer_ports: 2 };
        pods.states.lock().insert(content, states);
    };
    set(PortState::Active, PortState::Active);
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    assert_eq!(states(&mut alpha).await, [(1, ActiveOptimized), (2, ActiveOptimized)]);
    for (arrays, own_state, peer_state) in [
        (vec![own.clone()], ActiveOptimized, ActiveNonOptimized),
        (vec![PEER.to_owned()], ActiveNonOptimized, ActiveOptimized),
        (vec![], ActiveOptimized, ActiveOptimized),
        (vec![PEER.to_owned()], ActiveNonOptimized, ActiveOptimized),
    ] {
        let edit = HostEdit { preferred_arrays: Some(arrays), ..HostEdit::default() };
        array.change(move |draft| draft.edit_host("alpha", &edit).map(|_| ())).await;
        assert_eq!(alpha.run(1, Command::TestUnitReady).await, CHANGED);
        assert_eq!(states(&mut alpha).await, [(1, own_state), (2, peer_state)]);
        assert_eq!(alpha.run(1, READ).await.data().len(), 512, "the ports serve in both states");
        assert_eq!(alpha.run(2, READ).await.data().len(), 512, "a volume of one array has no attention");
        assert_eq!(states_of(&mut alpha, 2).await, [(1, ActiveOptimized)]);
        assert_eq!(beta.run(1, READ).await.data().len(), 512, "another host has no attention");
        assert_eq!(states(&mut beta).await, [(1, ActiveOptimized), (2, ActiveOptimized)]);
    }
    // An array that does not serve is not available, preferred or not.
    set(PortState::Active, PortState::Unavailable);
    pods.notify();
    assert_eq!(alpha.attentions(1).await, [0x2a06]);
    assert_eq!(states(&mut alpha).await, [(1, ActiveNonOptimized), (2, Unavailable)]);
    array.change(|draft| draft.unstretch_pod("dc1").map(|_| ())).await;
    pods.states.lock().clear();
    assert_eq!(alpha.attentions(1).await, [0x2a06]);
    assert_eq!(states(&mut alpha).await, [(1, ActiveOptimized)]);
}

#[tokio::test]
async fn array_knows_if_a_volume_can_be_shared() {
    let array = Array::start().await;
    let (mut alpha, shared) = (array.host(ALPHA).await, array.volume("shared"));
    let is_held = || !array.target.can_share_reservations(shared);
    assert!(!is_held());
    assert_eq!(alpha.run(1, Command::Reserve { size: CdbSize::Six }).await, GOOD);
    assert!(is_held());
    assert_eq!(alpha.run(1, Command::Release { size: CdbSize::Six }).await, GOOD);
    assert!(!is_held());
    assert_eq!(alpha.reserve_out(1, OutAction::Register, 0, 0xa1, false).await, GOOD);
    assert!(!is_held(), "a registration comes to both arrays");
}

fn naa(array: &Array, volume: &str) -> Naa {
    let state = array.catalog.state();
    Naa::from_serial(&state.volume(volume).expect("a volume").serial).expect("a serial number")
}

/// Copies from LUN 1 to LUN 2 with a command to `lun`.
async fn copy(array: &Array, host: &mut Host, lun: u16) -> Ended {
    let segment = Segment { source: 0, destination: 1, blocks: 1, source_lba: Lba(0), destination_lba: Lba(64) };
    let list = build_copy_list(&CopyList::between(naa(array, "shared"), naa(array, "a"), vec![segment]));
    host.run_with(lun, Command::ExtendedCopy { length: list.len() as u32 }, list).await
}

#[tokio::test]
async fn copy_fails_at_the_paths_that_are_the_cause() {
    let (pods, array, mut alpha) = start(PortState::Active, PortState::Active).await;
    let shared = array.volume("shared");
    let aborted = Ended::Check(SenseKey::CopyAborted, asc::THIRD_PARTY_DEVICE_FAILURE);
    assert_eq!(copy(&array, &mut alpha, 2).await, GOOD);
    // The engine fails it: at the volume's own paths as their state, elsewhere as a failed copy.
    array.gate.fail(Some(OpError::Transition("undecided")));
    assert_eq!(copy(&array, &mut alpha, 1).await, TRANSITION);
    assert_eq!(copy(&array, &mut alpha, 2).await, aborted);
    array.gate.fail(Some(OpError::Unavailable("yielded")));
    assert_eq!(copy(&array, &mut alpha, 1).await, UNAVAILABLE);
    assert_eq!(copy(&array, &mut alpha, 2).await, aborted);
    // It is refused before the engine is asked.
    array.gate.fail(None);
    pods.set(shared, PortState::Unavailable, PortState::Active);
    assert_eq!(alpha.attentions(1).await, [0x2a06]);
    assert_eq!(copy(&array, &mut alpha, 1).await, UNAVAILABLE);
    assert_eq!(copy(&array, &mut alpha, 2).await, aborted);
}

#[tokio::test]
async fn content_that_is_replaced_is_not_a_lost_volume() {
    let (pods, array, mut alpha) = start(PortState::Active, PortState::Active).await;
    let miss = |name: &str| array.gate.fail(Some(OpError::NoSuchVolume(content(array.volume(name)))));
    miss("shared");
    assert_eq!(alpha.run(1, READ).await, TRANSITION);
    miss("a");
    let lost = Ended::Check(SenseKey::IllegalRequest, asc::LOGICAL_UNIT_NOT_SUPPORTED);
    assert_eq!(alpha.run(2, READ).await, lost, "a plain volume is gone");
    pods.states.lock().clear();
    miss("shared");
    assert_eq!(alpha.attentions(1).await, [0x2a06]);
    assert_eq!(alpha.run(1, READ).await, lost);
}
