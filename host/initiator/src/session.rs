//! A session of one connection: commands in, completions out, in as few system calls as the traffic allows.
//!
//! The session has no task of its own: it moves when its owner waits for it. What is submitted between two waits goes
//! out with one `writev`, and all that one `read` brings is parsed before the next.

mod establish;
mod inquire;

use crate::error::{RunError, SessionError};
use crate::request::{Completion, Payload, Request};
use bytes::{Buf, Bytes, BytesMut};
use iscsi::initiator_connection::{CommandId, Event, InitiatorConnection, RequestId, Response};
use iscsi::pdu::{AsyncEvent, LogoutReason, TaskAttribute, TaskFunction, TaskOutcome, WireLun};
use iscsi::target_connection::TargetRecord;
use iscsi::{Parameters, PayloadChain};
use platform::net::Stream;
use rustc_hash::FxHashMap;
use scsi::{Lun, Sense, Status};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Room made for a read: large enough for many answers, small enough to stay in the cache.
const READ_BYTES: usize = 64 << 10;
/// Slices of one `writev`.
const SLICES: usize = 128;
/// The token of commands that [`Session::run`] waits for.
const RUN_TOKEN: u64 = u64::MAX;
/// How often [`Session::run`] sends a command again that the target did not begin.
const RUN_ATTEMPTS: u32 = 100;

/// A session with a target.
#[derive(Debug)]
pub struct Session {
    stream: Stream,
    connection: InitiatorConnection,
    parameters: Parameters,
    input: BytesMut,
    events: Vec<Event>,
    open: FxHashMap<CommandId, Open>,
    done: VecDeque<Completion>,
    answers: Vec<Answer>,
    ended: Option<SessionError>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    token: u64,
    lun: Lun,
}

/// The answer to a request that is no command.
#[derive(Debug)]
enum Answer {
    Task(RequestId, TaskOutcome),
    Targets(RequestId, Vec<TargetRecord>),
    Pong(Bytes),
    LoggedOut,
}

impl Session {
    /// What was agreed on at the login.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Lets the session end when what it has sent is not acknowledged for so long.
    pub fn set_user_timeout(&self, time: Duration) -> Result<(), SessionError> {
        Ok(self.stream.set_user_timeout(time)?)
    }

    /// Commands that were submitted and have not been answered.
    pub fn open_commands(&self) -> usize {
        self.open.len()
    }

    /// Takes a command. It is sent at the next wait, or when the target's window has room for it; its completion
    /// carries `token`, of which the highest value is the session's own.
    pub fn submit(&mut self, request: Request, token: u64) {
        let Request { lun, cdb, payload } = request;
        let expected_read = if let Payload::In(bytes) = payload { bytes } else { 0 };
        let data = if let Payload::Out(data) = payload { PayloadChain::from(data) } else { PayloadChain::default() };
        let id = self.connection.submit(iscsi::initiator_connection::InitiatorCommand {
            lun: wire_lun(lun),
            cdb: Bytes::copy_from_slice(&cdb.0),
            attribute: TaskAttribute::Simple,
            data,
            expected_write: None,
            expected_read,
        });
        self.open.insert(id, Open { token, lun });
    }

    /// A completion that is there already.
    pub fn try_next(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    /// Waits for the next completion. Cancel safe.
    pub async fn next(&mut self) -> Result<Completion, SessionError> {
        loop {
            if let Some(completion) = self.done.pop_front() {
                return Ok(completion);
            }
            self.turn().await?;
        }
    }

    /// Sends one command and waits for its answer, sending it again while the target is busy or has news to tell first.
    /// Completions of other commands stay for [`next`](Self::next).
    pub async fn run(&mut self, request: Request) -> Result<Bytes, RunError> {
        for attempt in 1.. {
            self.submit(request.clone(), RUN_TOKEN);
            let completion = loop {
                if let Some(at) = self.done.iter().position(|completion| completion.token == RUN_TOKEN) {
                    break self.done.remove(at);
                }
                self.turn().await?;
            };
            let Some(completion) = completion else { break };
            if attempt >= RUN_ATTEMPTS || !completion.is_retryable() {
                return Ok(completion.into_result()?);
            }
        }
        Err(SessionError::Timeout.into())
    }

    /// Asks for task management (RFC 7143 11.5). `task` is the token of the command that ABORT TASK names. Commands that
    /// a completed function has ended complete with TASK ABORTED.
    pub async fn manage_tasks(
        &mut self,
        function: TaskFunction,
        lun: Lun,
        task: Option<u64>,
    ) -> Result<TaskOutcome, SessionError> {
        let named = task.and_then(|token| self.open.iter().find(|(_, open)| open.token == token).map(|(id, _)| *id));
        let request = self.connection.task_management(function, wire_lun(lun), named);
        let outcome = loop {
            let found = self.take_answer(|answer| match answer {
                Answer::Task(id, outcome) if *id == request => Some(*outcome),
                _ => None,
            });
            match found {
                Some(outcome) => break outcome,
                None => self.turn().await?,
            }
        };
        if outcome == TaskOutcome::Complete {
            self.abort_open(function, lun, named);
        }
        Ok(outcome)
    }

    fn abort_open(&mut self, function: TaskFunction, lun: Lun, named: Option<CommandId>) {
        let ends = |id: &CommandId, open: &Open| match function {
            TaskFunction::AbortTask => Some(*id) == named,
            TaskFunction::AbortTaskSet | TaskFunction::ClearTaskSet | TaskFunction::LogicalUnitReset => open.lun == lun,
            TaskFunction::TargetWarmReset | TaskFunction::TargetColdReset => true,
            TaskFunction::ClearAca | TaskFunction::TaskReassign | TaskFunction::Other(_) => false,
        };
        let mut ended: Vec<CommandId> =
            self.open.iter().filter(|(id, open)| ends(id, open)).map(|(id, _)| *id).collect();
        ended.sort_unstable();
        for id in ended {
            let Some(Open { token, .. }) = self.open.remove(&id) else { continue };
            let (status, residual) = (Some(Status::TaskAborted), iscsi::pdu::Residual::None);
            self.done.push_back(Completion { token, status, sense: None, data: Bytes::new(), residual });
        }
    }

    /// Asks whether the target is there, and whether bytes come back as they went.
    pub async fn ping(&mut self, data: Bytes) -> Result<Bytes, SessionError> {
        self.connection.ping(data);
        loop {
            let found = self.take_answer(|answer| match answer {
                Answer::Pong(data) => Some(data.clone()),
                _ => None,
            });
            match found {
                Some(data) => return Ok(data),
                None => self.turn().await?,
            }
        }
    }

    /// Leaves, closing the session (RFC 7143 11.14). Commands that are still open end without an answer.
    pub async fn logout(mut self) -> Result<(), SessionError> {
        self.connection.logout(LogoutReason::CloseSession);
        loop {
            let found = self.take_answer(|answer| matches!(answer, Answer::LoggedOut).then_some(()));
            match found {
                Some(()) => return Ok(()),
                None => self.turn().await?,
            }
        }
    }

    fn take_answer<T>(&mut self, wanted: impl Fn(&Answer) -> Option<T>) -> Option<T> {
        let (at, found) = self.answers.iter().enumerate().find_map(|(at, answer)| Some((at, wanted(answer)?)))?;
        self.answers.remove(at);
        Some(found)
    }

    /// Sends what waits, until something has been received. Cancel safe: nothing is held across the wait but this.
    async fn turn(&mut self) -> Result<(), SessionError> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        let result = poll_fn(|context| self.poll_turn(context)).await;
        if let Err(error) = &result {
            self.ended = Some(error.clone());
        }
        result
    }

    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SessionError>> {
        self.poll_send(context)?;
        let wanted = self.connection.wanted(&self.input).saturating_sub(self.input.len());
        self.input.reserve(wanted.max(READ_BYTES));
        match ready!(self.stream.poll_read(context, &mut self.input)) {
            Ok(0) => return Poll::Ready(Err(SessionError::Closed)),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Poll::Ready(Err(SessionError::Closed)),
            result => result.map_err(SessionError::from)?,
        };
        self.connection.receive(&mut self.input, &mut self.events);
        let mut events = std::mem::take(&mut self.events);
        let result = events.drain(..).try_for_each(|event| self.take_event(event));
        self.events = events;
        Poll::Ready(result)
    }

    /// Writes until nothing is left or the socket is full; then the socket wakes us when it has room.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Result<(), SessionError> {
        let output = self.connection.output();
        while !output.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = output.chunks_vectored(&mut slices);
            match self.stream.poll_write(context, &slices[..count]) {
                Poll::Ready(Ok(0)) => return Err(SessionError::Closed),
                Poll::Ready(Ok(written)) => output.advance(written),
                Poll::Ready(Err(error)) => return Err(error.into()),
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    fn take_event(&mut self, event: Event) -> Result<(), SessionError> {
        match event {
            Event::Completed { id, response } => self.complete(id, response),
            Event::TaskManagement { id, outcome } => self.answers.push(Answer::Task(id, outcome)),
            Event::Targets { id, targets } => self.answers.push(Answer::Targets(id, targets)),
            Event::Pong { data } => self.answers.push(Answer::Pong(data)),
            Event::LoggedOut { .. } => self.answers.push(Answer::LoggedOut),
            // What it tells comes again as a unit attention.
            Event::Async { event: AsyncEvent::Scsi { .. }, .. } => {}
            Event::Async { event, .. } => return Err(SessionError::Dismissed(event)),
            Event::Rejected { reason, .. } => return Err(SessionError::Rejected(reason)),
            Event::Close(reason) => return Err(reason.into()),
        }
        Ok(())
    }

    fn complete(&mut self, id: CommandId, response: Response) {
        let Some(Open { token, .. }) = self.open.remove(&id) else { return };
        let Response { status, sense, data, residual, .. } = response;
        let sense = if sense.is_empty() { None } else { Sense::from_bytes(&sense).ok() };
        self.done.push_back(Completion { token, status: status.and_then(Status::from_code), sense, data, residual });
    }
}

/// The LUN field of a PDU.
fn wire_lun(lun: Lun) -> WireLun {
    WireLun(u64::from_be_bytes(lun.to_bytes()))
}
