//! Tests of both state machines against each other, in memory: all data arrives, whatever is
//! negotiated.
#![expect(clippy::cast_possible_truncation, reason = "the bytes of test patterns wrap around")]

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use crate::{
    digest::Digests,
    initiator_connection::{self, InitiatorCommand, InitiatorConnection, Response},
    login::LoginConfig,
    output::Output,
    parameters::Parameters,
    payload::PayloadChain,
    pdu::{AsyncEvent, LogoutReason, LogoutResult, Residual, TaskFunction, TaskOutcome, WireLun},
    target_connection::{
        self, CommandCompletion, ConnectionLimits, SendTargets, TargetCommand, TargetConnection, TargetRecord,
    },
    testing::{Authority, LUN, TARGET, initiator_config, log_in},
};

/// An initiator and a target connection joined in memory; bytes arrive a few at a time.
struct Loopback {
    initiator: InitiatorConnection,
    target: TargetConnection,
    at_initiator: BytesMut,
    at_target: BytesMut,
    /// Bytes delivered at once.
    step: usize,
}

impl Loopback {
    fn new(of_initiator: Parameters, of_target: Parameters, limits: ConnectionLimits, step: usize) -> Self {
        let config = initiator_connection::InitiatorLoginConfig { offer: of_initiator, ..initiator_config() };
        let login = LoginConfig { offer: of_target, command_window: limits.command_window, ..LoginConfig::default() };
        let (initiator, target) = log_in(config, login, &mut Authority::default());
        Self {
            initiator: InitiatorConnection::new(&initiator.unwrap(), Output::default()),
            target: TargetConnection::new(&target.unwrap(), limits, Output::default()),
            at_initiator: BytesMut::new(),
            at_target: BytesMut::new(),
            step: step.max(1),
        }
    }

    /// Moves bytes until neither end has output; returns the events of target and initiator.
    fn settle(&mut self) -> (Vec<target_connection::Event>, Vec<initiator_connection::Event>) {
        let (mut target_events, mut initiator_events) = (Vec::new(), Vec::new());
        loop {
            let to_target = self.initiator.output().take_all().concat();
            let to_initiator = self.target.output().take_all().concat();
            if to_target.is_empty() && to_initiator.is_empty() {
                return (target_events, initiator_events);
            }
            for part in to_target.chunks(self.step) {
                self.at_target.extend_from_slice(part);
                self.target.receive(&mut self.at_target, &mut target_events);
            }
            for part in to_initiator.chunks(self.step) {
                self.at_initiator.extend_from_slice(part);
                self.initiator.receive(&mut self.at_initiator, &mut initiator_events);
            }
        }
    }
}

/// One command of a random workload.
#[derive(Clone, Debug)]
enum TestCommand {
    Read { length: u32, expected: u32 },
    Write { length: u32, parts: u32 },
    Both { write: u32, read: u32 },
    Check,
}

fn test_command() -> impl Strategy<Value = TestCommand> {
    let length = || prop_oneof![0u32..2000, 0u32..70_000];
    prop_oneof![
        (length(), length()).prop_map(|(length, expected)| TestCommand::Read { length, expected }),
        (length(), 1u32..5).prop_map(|(length, parts)| TestCommand::Write { length, parts }),
        (1u32..9000, 1u32..9000).prop_map(|(write, read)| TestCommand::Both { write, read }),
        Just(TestCommand::Check),
    ]
}

/// Returns the data of a command: different for each command and each offset.
fn data_of(number: usize, length: u32) -> Vec<u8> {
    (0..length).map(|i| (i ^ (i >> 8) ^ (number as u32).wrapping_mul(31)) as u8).collect()
}

impl TestCommand {
    fn request(&self, number: usize) -> InitiatorCommand {
        let mut cdb = vec![0u8; if number.is_multiple_of(3) { 32 } else { 16 }];
        cdb[2..6].copy_from_slice(&(number as u32).to_be_bytes());
        let base = InitiatorCommand { lun: LUN, cdb: cdb.into(), ..InitiatorCommand::default() };
        match *self {
            Self::Read { expected, .. } => InitiatorCommand { expected_read: expected, ..base },
            Self::Write { length, parts } => {
                let data = data_of(number, length);
                let part = (length / parts).max(1) as usize;
                InitiatorCommand { data: data.chunks(part).map(Bytes::copy_from_slice).collect(), ..base }
            }
            Self::Both { write, read } => {
                InitiatorCommand { data: data_of(number, write).into(), expected_read: read, ..base }
            }
            Self::Check => base,
        }
    }

    /// Executes the command at the target and checks the data that arrived.
    fn execute(&self, number: usize, command: &TargetCommand) -> CommandCompletion {
        assert_eq!(command.extended_cdb.len(), if number.is_multiple_of(3) { 16 } else { 0 });
        match *self {
            Self::Read { length, expected } => {
                assert_eq!(command.expected_read, expected);
                let data = data_of(number, length);
                CommandCompletion::read(data.chunks(3000).map(Bytes::copy_from_slice).collect::<PayloadChain>())
            }
            Self::Write { length, .. } => {
                assert_eq!(command.data, data_of(number, length));
                CommandCompletion::good()
            }
            Self::Both { write, read } => {
                assert_eq!(command.data, data_of(number, write));
                CommandCompletion::read(data_of(number, read))
            }
            Self::Check => CommandCompletion::check_condition(vec![0x70, 0, 5]),
        }
    }

    fn check(&self, number: usize, response: &Response) {
        let (mut data, mut residual, mut status, mut sense) = (Vec::new(), Residual::None, 0, &[][..]);
        match *self {
            Self::Read { length, expected } => {
                data = data_of(number, length.min(expected));
                residual = Residual::of(expected, length.into());
            }
            Self::Write { .. } => {}
            Self::Both { read, .. } => data = data_of(number, read),
            Self::Check => (status, sense) = (2, &[0x70, 0, 5]),
        }
        assert_eq!(response.status, Some(status));
        assert_eq!(&response.sense[..], sense);
        assert_eq!(response.residual, residual);
        assert_eq!(response.data, data);
    }
}

fn number_of(command: &TargetCommand) -> usize {
    u32::from_be_bytes([command.cdb[2], command.cdb[3], command.cdb[4], command.cdb[5]]) as usize
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let flags = any::<(bool, bool, bool, bool)>();
    let sizes = (512u32..20_000, 512u32..40_000, 512u32..40_000, 1u16..6);
    (flags, sizes).prop_map(|((header, data, initial_r2t, immediate_data), (segment, burst, first, r2ts))| Parameters {
        digests: Digests { header, data },
        initial_r2t,
        immediate_data,
        max_receive_segment: segment,
        max_burst_length: burst,
        first_burst_length: first,
        max_outstanding_r2t: r2ts,
        ..Parameters::default()
    })
}

/// Runs a workload to its end. The target completes commands in the chosen order.
fn run(wires: &mut Loopback, load: &[TestCommand], newest_first: bool) {
    let mut sent = HashMap::new();
    for (number, work) in load.iter().enumerate() {
        sent.insert(wires.initiator.submit(work.request(number)), number);
    }
    let mut done = 0;
    let mut target_events: Vec<TargetCommand> = Vec::new();
    while done < load.len() {
        let (events, answers) = wires.settle();
        let quiet = events.is_empty() && answers.is_empty() && target_events.is_empty();
        assert!(!quiet, "stalled after {done} of {} commands", load.len());
        for event in events {
            match event {
                target_connection::Event::Command(command) => target_events.push(command),
                other => panic!("{other:?}"),
            }
        }
        for answer in answers {
            let initiator_connection::Event::Completed { id, response } = answer else { panic!("{answer:?}") };
            let number = sent.remove(&id).expect("an answer to each command");
            load[number].check(number, &response);
            done += 1;
        }
        let next = if newest_first {
            target_events.pop()
        } else {
            (!target_events.is_empty()).then(|| target_events.remove(0))
        };
        if let Some(command) = next {
            let number = number_of(&command);
            wires.target.complete(command.id, load[number].execute(number, &command));
        }
    }
    assert_eq!((wires.target.outstanding(), wires.initiator.outstanding()), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn all_parameter_combinations_transfer_all_data(
        of_initiator in parameters(),
        of_target in parameters(),
        load in prop::collection::vec(test_command(), 1..24),
        window in 1u32..12,
        budget in 1u64..100_000,
        step in prop_oneof![1usize..200, Just(100_000)],
        newest_first: bool,
    ) {
        let limits = ConnectionLimits { command_window: window, write_budget: budget, ..ConnectionLimits::default() };
        let mut wires = Loopback::new(of_initiator, of_target, limits, step);
        run(&mut wires, &load, newest_first);
    }
}

fn plain() -> Loopback {
    Loopback::new(Parameters::offer_of_target(), Parameters::offer_of_target(), ConnectionLimits::default(), 4096)
}

#[test]
fn both_ends_answer_pings() {
    let mut wires = plain();
    wires.initiator.ping(Bytes::from_static(b"are you there?"));
    assert!(wires.target.ping());
    let (target_events, initiator_events) = wires.settle();
    assert!(matches!(target_events[..], [target_connection::Event::Pong]));
    let [initiator_connection::Event::Pong { data }] = &initiator_events[..] else { panic!("{initiator_events:?}") };
    assert_eq!(&data[..], b"are you there?");
}

#[test]
fn send_targets_returns_long_target_lists() {
    let mut wires = plain();
    let asked = wires.initiator.send_targets(&SendTargets::ThisSession);
    let (target_events, _) = wires.settle();
    let [target_connection::Event::SendTargets { id, scope: SendTargets::ThisSession }] = target_events[..] else {
        panic!("{target_events:?}")
    };
    let addresses: Vec<String> = (0..5000).map(|n| format!("10.0.0.{n}:3260,1")).collect();
    let records = [
        TargetRecord { name: TARGET.to_owned(), addresses },
        TargetRecord { name: "iqn.other".to_owned(), addresses: vec!["[::1]:3260,2".to_owned()] },
    ];
    wires.target.complete_send_targets(id, &records);
    let (_, initiator_events) = wires.settle();
    let [initiator_connection::Event::Targets { id, targets }] = &initiator_events[..] else {
        panic!("{initiator_events:?}")
    };
    assert_eq!((*id, &targets[..]), (asked, &records[..]));
}

#[test]
fn abort_task_ends_the_command_at_both_ends() {
    let mut wires = plain();
    let request = InitiatorCommand { lun: LUN, cdb: Bytes::from_static(&[0; 6]), ..InitiatorCommand::default() };
    let victim = wires.initiator.submit(request.clone());
    let (target_events, _) = wires.settle();
    let [target_connection::Event::Command(command)] = &target_events[..] else { panic!("{target_events:?}") };
    let asked = wires.initiator.task_management(TaskFunction::AbortTask, LUN, Some(victim));
    let (target_events, _) = wires.settle();
    let [target_connection::Event::TaskManagement(management)] = &target_events[..] else {
        panic!("{target_events:?}")
    };
    assert_eq!(management.tasks, [command.id]);
    wires.target.complete(command.id, CommandCompletion::good());
    wires.target.complete_task_management(management.id, TaskOutcome::Complete);
    let (_, initiator_events) = wires.settle();
    let [initiator_connection::Event::TaskManagement { id, outcome: TaskOutcome::Complete }] = initiator_events[..]
    else {
        panic!("{initiator_events:?}")
    };
    assert_eq!((id, wires.initiator.outstanding()), (asked, 0));
    wires.initiator.submit(request);
    assert!(matches!(wires.settle().0[..], [target_connection::Event::Command(_)]), "the session stays usable");
}

#[test]
fn logout_closes_the_connection() {
    let mut wires = plain();
    wires.target.send_async(WireLun(0), AsyncEvent::LogoutRequest { time_3: 3 });
    let (_, initiator_events) = wires.settle();
    assert!(matches!(
        initiator_events[..],
        [initiator_connection::Event::Async { event: AsyncEvent::LogoutRequest { time_3: 3 }, .. }]
    ));
    wires.initiator.logout(LogoutReason::CloseSession);
    let (target_events, _) = wires.settle();
    assert!(matches!(target_events[..], [target_connection::Event::Logout { reason: LogoutReason::CloseSession }]));
    let mut events = Vec::new();
    wires.target.complete_logout(&mut events);
    assert!(matches!(events[..], [target_connection::Event::Close(target_connection::CloseReason::LoggedOut)]));
    let (_, initiator_events) = wires.settle();
    assert!(matches!(initiator_events[..], [initiator_connection::Event::LoggedOut { result: LogoutResult::Closed }]));
}

#[test]
fn initiator_queues_commands_beyond_the_window() {
    let limits = ConnectionLimits { command_window: 4, ..ConnectionLimits::default() };
    let mut wires = Loopback::new(Parameters::offer_of_target(), Parameters::offer_of_target(), limits, 100);
    let request = InitiatorCommand { lun: LUN, cdb: Bytes::from_static(&[0; 6]), ..InitiatorCommand::default() };
    for _ in 0..10 {
        wires.initiator.submit(request.clone());
    }
    assert_eq!((wires.initiator.outstanding(), wires.initiator.waiting()), (4, 6));
    let mut target_events = wires.settle().0;
    assert_eq!(target_events.len(), 4);
    let target_connection::Event::Command(first) = target_events.remove(0) else { panic!("{target_events:?}") };
    wires.target.complete(first.id, CommandCompletion::good());
    let (target_events, initiator_events) = wires.settle();
    assert_eq!((target_events.len(), initiator_events.len(), wires.initiator.waiting()), (1, 1, 5));
}
