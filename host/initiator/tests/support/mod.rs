//! A scripted target for tests: the target half of the wire crates in front of a disk in memory. It
//! shares no code with the array.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test binary uses its part")]

mod disk;

pub use disk::{Disk, LBA_LEN, LIMITS, status};

use bytes::{Buf, BytesMut};
use iscsi::pdu::{TaskFunction, TaskOutcome};
use iscsi::target_connection::{
    CommandCompletion, ConnectionLimits, Event, TargetCommand, TargetConnection, TargetRecord,
};
use iscsi::{
    Authentication, ChapAccount, ChapSecret, Established, LoginAuthority, LoginConfig, LoginProgress, LoginStatus,
    Output, Parameters, SessionKind, SessionRequest, TargetLogin,
};
use platform::net::{Listener, Stream};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, mpsc};

/// The target's name. Names that begin with it lead to the target, too.
pub const NAME: &str = "iqn.2026-11.test:disk";

/// How the script answers a command.
pub enum Reply {
    /// The disk executes the command.
    Disk,
    /// A fixed answer.
    Answer(CommandCompletion),
    /// No answer until task management ends the command.
    Hold,
    /// No answer, not even to task management.
    Stall,
    /// The connection closes before the command is executed.
    Hangup,
    /// The command is executed, and the connection closes without an answer.
    HangupAfter,
    /// The first half of the blocks is written, and the connection closes.
    HangupHalf,
}

/// A target and its settings.
pub struct Target {
    /// The disk.
    pub disk: Disk,
    /// Script; it may answer before the disk.
    pub script: Box<dyn FnMut(&TargetCommand) -> Reply + Send>,
    /// The initiator's name and secret for CHAP.
    pub account: Option<(String, String)>,
    /// The target's own.
    pub own_account: Option<(String, String)>,
    /// Parameters to offer.
    pub offer: Parameters,
    /// Number of outstanding commands per session.
    pub window: u32,
    /// The target answers no task management.
    pub stalled: bool,
    /// Task management functions received.
    pub functions: Vec<TaskFunction>,
    /// A task management function that the target does not support.
    pub unknown: Option<TaskFunction>,
    /// Sessions so far.
    pub logins: Vec<SessionRequest>,
}

impl Target {
    /// Creates a target with a disk of this many blocks.
    pub fn new(blocks: u64) -> Self {
        Self {
            disk: Disk::new(blocks),
            script: Box::new(|_| Reply::Disk),
            account: None,
            own_account: None,
            offer: Parameters::offer_of_target(),
            window: 32,
            stalled: false,
            functions: Vec::new(),
            unknown: None,
            logins: Vec::new(),
        }
    }

    /// Creates a target with a script.
    pub fn scripted(blocks: u64, script: impl FnMut(&TargetCommand) -> Reply + Send + 'static) -> Self {
        Self { script: Box::new(script), ..Self::new(blocks) }
    }

    /// Serves connections from a thread until the test ends.
    pub fn serve(self) -> Served {
        let target = Arc::new(Mutex::new(self));
        let (sender, receiver) = mpsc::channel();
        let shared = target.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
                sender.send(listener.local_addr().unwrap()).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    tokio::spawn(connection(stream, shared.clone()));
                }
            });
        });
        Served { address: receiver.recv().unwrap(), target }
    }
}

/// A running target.
pub struct Served {
    /// Where.
    pub address: SocketAddr,
    /// The target, for inspection and changes.
    pub target: Arc<Mutex<Target>>,
}

impl Served {
    /// Returns the URL of the disk.
    pub fn url(&self) -> String {
        format!("iscsi://{}/{NAME}/0", self.address)
    }
}

impl LoginAuthority for Target {
    fn authentication(&mut self, _: &str, kind: &SessionKind) -> Result<Authentication, LoginStatus> {
        if kind.target().is_some_and(|target| !target.starts_with(NAME)) {
            return Err(LoginStatus::NotFound);
        }
        Ok(match &self.account {
            None => Authentication::None,
            Some((user, secret)) => Authentication::Chap(ChapAccount {
                user: user.clone(),
                secret: ChapSecret::new(secret.clone()),
                mutual: self.own_account.as_ref().map(|(user, secret)| (user.clone(), ChapSecret::new(secret.clone()))),
            }),
        })
    }

    fn fill_random(&mut self, bytes: &mut [u8]) {
        bytes
            .chunks_mut(16)
            .for_each(|chunk| chunk.copy_from_slice(&platform::random::bytes::<16>().unwrap()[..chunk.len()]));
    }

    fn admit(&mut self, request: &SessionRequest) -> Result<u16, LoginStatus> {
        self.logins.push(request.clone());
        Ok(self.logins.len() as u16)
    }
}

async fn flush(stream: &mut Stream, output: &mut Output) -> bool {
    while output.has_remaining() {
        let chunk = output.chunk().len();
        if stream.write_all(output.chunk()).await.is_err() {
            return false;
        }
        output.advance(chunk);
    }
    true
}

async fn receive(stream: &mut Stream, input: &mut BytesMut) -> bool {
    input.reserve(1 << 20);
    matches!(stream.read(input).await, Ok(1..))
}

async fn log_in(stream: &mut Stream, input: &mut BytesMut, target: &Mutex<Target>) -> Option<(Established, Output)> {
    let mut output = Output::default();
    let config = {
        let target = target.lock().unwrap();
        LoginConfig { offer: target.offer.clone(), command_window: target.window, ..LoginConfig::default() }
    };
    let mut login = TargetLogin::new(config);
    while receive(stream, input).await {
        let progress = login.receive(input, &mut *target.lock().unwrap(), &mut output);
        if let LoginProgress::Established(established) = progress {
            return Some((*established, output));
        }
        if !flush(stream, &mut output).await || matches!(progress, LoginProgress::Refused(_)) {
            return None;
        }
    }
    None
}

async fn connection(mut stream: Stream, target: Arc<Mutex<Target>>) {
    let mut input = BytesMut::new();
    let Some((established, output)) = log_in(&mut stream, &mut input, &target).await else { return };
    let limits = ConnectionLimits { command_window: target.lock().unwrap().window, ..ConnectionLimits::default() };
    let mut connection = TargetConnection::new(&established, limits, output);
    let mut events = Vec::new();
    while flush(&mut stream, connection.output()).await && receive(&mut stream, &mut input).await {
        connection.receive(&mut input, &mut events);
        let mut target = target.lock().unwrap();
        while !events.is_empty() {
            if !handle(events.remove(0), &mut connection, &mut target, &mut events) {
                return;
            }
        }
    }
}

/// Handles an event; returns true while the connection is open.
fn handle(event: Event, connection: &mut TargetConnection, target: &mut Target, events: &mut Vec<Event>) -> bool {
    match event {
        Event::Command(command) => match (target.script)(&command) {
            Reply::Disk => connection.complete(command.id, target.disk.execute(&command)),
            Reply::Answer(completion) => connection.complete(command.id, completion),
            Reply::Hold => {}
            Reply::Stall => target.stalled = true,
            Reply::Hangup => return false,
            Reply::HangupAfter => {
                target.disk.execute(&command);
                return false;
            }
            Reply::HangupHalf => {
                target.disk.write_half(&command);
                return false;
            }
        },
        Event::TaskManagement(management) if target.stalled => target.functions.push(management.function),
        Event::TaskManagement(management) if target.unknown == Some(management.function) => {
            connection.complete_task_management(management.id, TaskOutcome::NotSupported);
        }
        Event::TaskManagement(management) => {
            target.functions.push(management.function);
            management.tasks.iter().for_each(|task| connection.complete(*task, CommandCompletion::good()));
            connection.complete_task_management(management.id, TaskOutcome::Complete);
        }
        Event::SendTargets { id, .. } => {
            let record = TargetRecord { name: NAME.to_owned(), addresses: vec!["127.0.0.1:3260,1".to_owned()] };
            connection.complete_send_targets(id, &[record]);
        }
        Event::Logout { .. } => connection.complete_logout(events),
        Event::Pong => {}
        Event::Close(_) => return events.is_empty() && !connection.output().is_empty(),
    }
    true
}
