//! Host for tests: one session on the initiator state machine, with helpers for commands.

use bytes::{Buf, Bytes, BytesMut};
use iscsi::initiator_connection::{
    CommandId, Event, InitiatorCommand, InitiatorConnection, InitiatorLogin, InitiatorLoginConfig,
    InitiatorLoginProgress, LoginError, RequestId,
};
use iscsi::pdu::{self, LogoutReason, TaskFunction, TaskOutcome};
use iscsi::target_connection::{SendTargets, TargetRecord};
use iscsi::{Output, Parameters};
use platform::net::Stream;
use scsi::persistent_reservation::{OutAction, OutParameters, ReservationType};
use scsi::{Asc, Command, DataPhase, Lun, Sense, SenseKey, Status};
use std::future::poll_fn;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::task::Poll;

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    Good(Bytes),
    Check(SenseKey, Asc),
    Conflict,
    Aborted,
    Other(Status),
}

impl Ended {
    #[track_caller]
    pub fn data(self) -> Bytes {
        match self {
            Self::Good(data) => data,
            other => panic!("not GOOD but {other:?}"),
        }
    }
}

/// A session.
pub struct Host {
    stream: Stream,
    input: BytesMut,
    connection: InitiatorConnection,
    events: Vec<Event>,
    /// The sense data of the last CHECK CONDITION.
    pub sense: Option<Sense>,
}

impl Host {
    pub async fn login(address: SocketAddr, target: &str, initiator: &str, isid: u8) -> Result<Self, LoginError> {
        Self::login_with(address, Self::config(target, initiator, isid)).await
    }

    pub fn config(target: &str, initiator: &str, isid: u8) -> InitiatorLoginConfig {
        InitiatorLoginConfig {
            initiator: initiator.to_owned(),
            initiator_alias: None,
            target: (!target.is_empty()).then(|| target.to_owned()),
            isid: [0x80, 0, 0, 0, 0, isid],
            cid: 1,
            offer: Parameters::default(),
            chap: None,
        }
    }

    pub async fn login_with(address: SocketAddr, config: InitiatorLoginConfig) -> Result<Self, LoginError> {
        let mut stream = Stream::connect(address).await.expect("a connection");
        let (mut output, mut input) = (Output::default(), BytesMut::new());
        let mut login = InitiatorLogin::start(config, &mut output);
        loop {
            send(&mut stream, &mut output).await;
            assert_ne!(stream.read(&mut input).await.expect("an answer"), 0, "the target closed the connection");
            match login.receive(&mut input, &mut output) {
                InitiatorLoginProgress::Pending => {}
                InitiatorLoginProgress::Established(established) => {
                    let connection = InitiatorConnection::new(&established, output);
                    return Ok(Self { stream, input, connection, events: Vec::new(), sense: None });
                }
                InitiatorLoginProgress::Failed(error) => return Err(error),
            }
        }
    }

    /// Submits without waiting.
    pub async fn submit(&mut self, lun: u16, command: &Command, data: impl Into<Bytes>) -> CommandId {
        let id = self.queue_with(lun, command, data);
        self.flush().await;
        id
    }

    /// Queues a command without data. The next request sends it.
    pub fn queue(&mut self, lun: u16, command: &Command) -> CommandId {
        self.queue_with(lun, command, Bytes::new())
    }

    fn queue_with(&mut self, lun: u16, command: &Command, data: impl Into<Bytes>) -> CommandId {
        let expected_read = match command.data_phase() {
            DataPhase::In(bytes) => bytes as u32,
            _ => 0,
        };
        let cdb = Bytes::copy_from_slice(&command.to_cdb().0);
        let request = InitiatorCommand {
            lun: wire(lun),
            cdb,
            data: data.into().into(),
            expected_read,
            ..InitiatorCommand::default()
        };
        self.connection.submit(request)
    }

    /// Sends an arbitrary CDB with data of any length, and waits for its end.
    pub async fn run_raw(&mut self, lun: u16, cdb: [u8; 16], data: Vec<u8>, expected_read: u32) -> Ended {
        let cdb = Bytes::copy_from_slice(&cdb);
        let request =
            InitiatorCommand { lun: wire(lun), cdb, data: data.into(), expected_read, ..InitiatorCommand::default() };
        let id = self.connection.submit(request);
        self.flush().await;
        self.end_of(id).await
    }

    /// Sends a command and waits for its end.
    pub async fn run(&mut self, lun: u16, command: Command) -> Ended {
        self.run_with(lun, command, Bytes::new()).await
    }

    pub async fn run_with(&mut self, lun: u16, command: Command, data: impl Into<Bytes>) -> Ended {
        let id = self.submit(lun, &command, data).await;
        self.end_of(id).await
    }

    pub async fn end_of(&mut self, wanted: CommandId) -> Ended {
        let response = loop {
            let found = self.take(|event| match event {
                Event::Completed { id, response } if *id == wanted => Some(response.clone()),
                _ => None,
            });
            match found {
                Some(response) => break response,
                None => assert!(self.receive().await, "the connection has ended"),
            }
        };
        match response.status.and_then(Status::from_code) {
            Some(Status::Good) => Ended::Good(response.data),
            Some(Status::CheckCondition) => {
                let sense = Sense::from_bytes(&response.sense).expect("sense data");
                self.sense = Some(sense);
                Ended::Check(sense.key, sense.asc)
            }
            Some(Status::ReservationConflict) => Ended::Conflict,
            Some(Status::TaskAborted) => Ended::Aborted,
            Some(other) => Ended::Other(other),
            None => panic!("target failure"),
        }
    }

    /// Returns true if an answer to the command has been received.
    pub fn has_ended(&self, wanted: CommandId) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Completed { id, .. } if *id == wanted))
    }

    /// Starts a task management function.
    pub async fn start_function(&mut self, function: TaskFunction, lun: u16, task: Option<CommandId>) -> RequestId {
        let id = self.connection.task_management(function, wire(lun), task);
        self.flush().await;
        id
    }

    pub async fn outcome_of(&mut self, wanted: RequestId) -> TaskOutcome {
        loop {
            let found = self.take(|event| match event {
                Event::TaskManagement { id, outcome } if *id == wanted => Some(*outcome),
                _ => None,
            });
            match found {
                Some(outcome) => return outcome,
                None => assert!(self.receive().await, "the connection has ended"),
            }
        }
    }

    /// Returns true if the function is still unanswered after a further ping was answered.
    pub async fn is_pending(&mut self, wanted: RequestId) -> bool {
        self.ping().await;
        !self.events.iter().any(|event| matches!(event, Event::TaskManagement { id, .. } if *id == wanted))
    }

    /// Pings the target. The answer shows that the target has processed everything sent before.
    pub async fn ping(&mut self) {
        self.connection.ping(Bytes::from_static(b"there?"));
        self.flush().await;
        while self.take(|event| matches!(event, Event::Pong { .. }).then_some(())).is_none() {
            assert!(self.receive().await, "the connection has ended");
        }
    }

    /// Sends pings with `bytes` bytes until the socket accepts no more, and reads no answer.
    ///
    /// The target has stopped reading when the sockets of both ends are full, so this gives the
    /// other tasks of the test many turns before it takes a full socket for the end.
    pub async fn fill_with_pings(&mut self, bytes: usize) {
        let mut refusals = 0;
        while refusals < 1000 {
            if !self.connection.output().has_remaining() {
                self.connection.ping(Bytes::from(vec![7; bytes]));
            }
            let output = self.connection.output();
            let sent = poll_fn(|context| {
                let chunk = [IoSlice::new(output.chunk())];
                Poll::Ready(match self.stream.poll_write(context, &chunk) {
                    Poll::Ready(sent) => sent.expect("the connection is open"),
                    Poll::Pending => 0,
                })
            });
            let sent = sent.await;
            output.advance(sent);
            refusals = if sent == 0 { refusals + 1 } else { 0 };
            tokio::task::yield_now().await;
        }
    }

    pub async fn targets(&mut self) -> Vec<TargetRecord> {
        self.connection.send_targets(&SendTargets::All);
        self.flush().await;
        loop {
            let found = self.take(|event| match event {
                Event::Targets { targets, .. } => Some(targets.clone()),
                _ => None,
            });
            match found {
                Some(targets) => return targets,
                None => assert!(self.receive().await, "the connection has ended"),
            }
        }
    }

    pub async fn logout(mut self) {
        self.connection.logout(LogoutReason::CloseSession);
        self.flush().await;
        while self.take(|event| matches!(event, Event::LoggedOut { .. }).then_some(())).is_none() {
            assert!(self.receive().await, "the connection has ended");
        }
    }

    /// Returns the connection. Nothing answers the target on it.
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    /// Waits until the target requests a logout. Returns its time limit in seconds.
    pub async fn logout_request(&mut self) -> u16 {
        loop {
            let found = self.take(|event| match event {
                Event::Async { event: pdu::AsyncEvent::LogoutRequest { time_3 }, .. } => Some(*time_3),
                _ => None,
            });
            match found {
                Some(seconds) => return seconds,
                None => assert!(self.receive().await, "the connection has ended"),
            }
        }
    }

    /// Waits until data arrives, for example a ping of the target, and answers it.
    pub async fn receive_and_answer(&mut self) {
        assert!(self.receive().await, "the connection has ended");
    }

    /// Waits for the target to close the connection.
    pub async fn wait_closed(mut self) {
        while self.receive().await {}
    }

    /// Takes all unit attentions of LUNs 1 and 2.
    pub async fn drain_attentions(&mut self) {
        for lun in [1, 2] {
            self.attentions(lun).await;
        }
    }

    /// Takes all unit attentions of a LUN and returns their codes. It may be not ready afterwards.
    pub async fn attentions(&mut self, lun: u16) -> Vec<u16> {
        let mut attentions = Vec::new();
        loop {
            match self.run(lun, Command::TestUnitReady).await {
                Ended::Check(SenseKey::UnitAttention, asc) => attentions.push(asc.0),
                Ended::Good(_) | Ended::Conflict | Ended::Check(SenseKey::NotReady, _) => return attentions,
                other => panic!("TEST UNIT READY ended with {other:?}"),
            }
        }
    }

    pub async fn reserve_out(&mut self, lun: u16, action: OutAction, key: u64, service_key: u64, aptpl: bool) -> Ended {
        let parameters =
            OutParameters { key, service_key, initiator_ports: None, all_target_ports: false, persist: aptpl };
        let list = parameters.to_bytes();
        let kind = action.uses_type().then_some(ReservationType::WriteExclusive);
        let command = Command::PersistentReserveOut { action, kind, length: list.len() as u32 };
        self.run_with(lun, command, list.to_vec()).await
    }

    fn take<T>(&mut self, wanted: impl Fn(&Event) -> Option<T>) -> Option<T> {
        let (at, found) = self.events.iter().enumerate().find_map(|(at, event)| Some((at, wanted(event)?)))?;
        self.events.remove(at);
        Some(found)
    }

    async fn receive(&mut self) -> bool {
        let count = self.stream.read(&mut self.input).await.unwrap_or(0);
        self.connection.receive(&mut self.input, &mut self.events);
        self.flush().await;
        count > 0
    }

    async fn flush(&mut self) {
        send(&mut self.stream, self.connection.output()).await;
    }
}

async fn send(stream: &mut Stream, output: &mut Output) {
    while output.has_remaining() {
        let chunk = output.copy_to_bytes(output.remaining());
        // The next read detects a connection that the target has closed.
        let _ = stream.write_all(&chunk).await;
    }
}

fn wire(lun: u16) -> pdu::WireLun {
    pdu::WireLun(u64::from_be_bytes(Lun::new(lun).expect("a LUN").to_bytes()))
}
