//! A session with one connection, with few system calls per command.
//!
//! The session has no task of its own: it makes progress while its owner awaits it. Commands
//! submitted between two waits are sent with one `writev`. All PDUs of one `read` are processed
//! before the next read.

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

/// Bytes reserved for a read: enough for many responses, small enough for the CPU cache.
const READ_BYTES: usize = 64 << 10;
/// Most slices of one `writev`.
const SLICES: usize = 128;
/// Token of the commands that [`Session::run`] awaits.
const RUN_TOKEN: u64 = u64::MAX;
/// Number of times [`Session::run`] sends a command that the target does not execute.
const RUN_ATTEMPTS: u32 = 100;

/// A session with a target.
#[derive(Debug)]
pub struct Session {
    stream: Stream,
    connection: InitiatorConnection,
    parameters: Parameters,
    input: BytesMut,
    events: Vec<Event>,
    open: FxHashMap<CommandId, OpenCommand>,
    done: VecDeque<Completion>,
    answers: Vec<Answer>,
    ended: Option<SessionError>,
}

#[derive(Clone, Copy, Debug)]
struct OpenCommand {
    token: u64,
    lun: Lun,
}

/// The response to a request other than a command.
#[derive(Debug)]
enum Answer {
    Task(RequestId, TaskOutcome),
    Targets(RequestId, Vec<TargetRecord>),
    Pong(Bytes),
    LoggedOut,
}

impl Session {
    /// Returns the parameters negotiated at login.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Ends the session if sent data is not acknowledged within `time` (TCP_USER_TIMEOUT).
    pub fn set_user_timeout(&self, time: Duration) -> Result<(), SessionError> {
        Ok(self.stream.set_user_timeout(time)?)
    }

    /// Returns the number of commands without a completion.
    pub fn open_commands(&self) -> usize {
        self.open.len()
    }

    /// Queues a command. It is sent at the next wait, or once the target's window allows it. Its
    /// completion carries `token`; the highest value is reserved for the session.
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
        self.open.insert(id, OpenCommand { token, lun });
    }

    /// Returns a completion that has already arrived.
    pub fn try_next(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    /// Waits for the next completion. Cancel-safe.
    pub async fn next(&mut self) -> Result<Completion, SessionError> {
        loop {
            if let Some(completion) = self.done.pop_front() {
                return Ok(completion);
            }
            self.make_progress().await?;
        }
    }

    /// Sends one command and waits for its result. Resends it while the target is busy or reports
    /// unit attentions. Completions of other commands remain available to [`next`](Self::next).
    pub async fn run(&mut self, request: Request) -> Result<Bytes, RunError> {
        for attempt in 1.. {
            self.submit(request.clone(), RUN_TOKEN);
            let completion = loop {
                if let Some(at) = self.done.iter().position(|completion| completion.token == RUN_TOKEN) {
                    break self.done.remove(at);
                }
                self.make_progress().await?;
            };
            let Some(completion) = completion else { break };
            if attempt >= RUN_ATTEMPTS || !completion.is_retryable() {
                return Ok(completion.into_result()?);
            }
        }
        Err(SessionError::Timeout.into())
    }

    /// Executes a task management function (RFC 7143 11.5). `task` is the token of the command that
    /// ABORT TASK aborts. Commands ended by a completed function complete with TASK ABORTED.
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
                None => self.make_progress().await?,
            }
        };
        if outcome == TaskOutcome::Complete {
            self.abort_open(function, lun, named);
        }
        Ok(outcome)
    }

    fn abort_open(&mut self, function: TaskFunction, lun: Lun, named: Option<CommandId>) {
        let is_ended = |id: &CommandId, open: &OpenCommand| match function {
            TaskFunction::AbortTask => Some(*id) == named,
            TaskFunction::AbortTaskSet | TaskFunction::ClearTaskSet | TaskFunction::LogicalUnitReset => open.lun == lun,
            TaskFunction::TargetWarmReset | TaskFunction::TargetColdReset => true,
            TaskFunction::ClearAca | TaskFunction::TaskReassign | TaskFunction::Other(_) => false,
        };
        let mut ended: Vec<CommandId> =
            self.open.iter().filter(|(id, open)| is_ended(id, open)).map(|(id, _)| *id).collect();
        ended.sort_unstable();
        for id in ended {
            let Some(OpenCommand { token, .. }) = self.open.remove(&id) else { continue };
            let (status, residual) = (Some(Status::TaskAborted), iscsi::pdu::Residual::None);
            self.done.push_back(Completion { token, status, sense: None, data: Bytes::new(), residual });
        }
    }

    /// Pings the target and returns the echoed data.
    pub async fn ping(&mut self, data: Bytes) -> Result<Bytes, SessionError> {
        self.connection.ping(data);
        loop {
            let found = self.take_answer(|answer| match answer {
                Answer::Pong(data) => Some(data.clone()),
                _ => None,
            });
            match found {
                Some(data) => return Ok(data),
                None => self.make_progress().await?,
            }
        }
    }

    /// Logs out and closes the session (RFC 7143 11.14). Open commands get no completion.
    pub async fn logout(mut self) -> Result<(), SessionError> {
        self.connection.logout(LogoutReason::CloseSession);
        loop {
            let found = self.take_answer(|answer| matches!(answer, Answer::LoggedOut).then_some(()));
            match found {
                Some(()) => return Ok(()),
                None => self.make_progress().await?,
            }
        }
    }

    fn take_answer<T>(&mut self, wanted: impl Fn(&Answer) -> Option<T>) -> Option<T> {
        let (at, found) = self.answers.iter().enumerate().find_map(|(at, answer)| Some((at, wanted(answer)?)))?;
        self.answers.remove(at);
        Some(found)
    }

    /// Sends queued output until input has been received. Cancel-safe.
    async fn make_progress(&mut self) -> Result<(), SessionError> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        let result = poll_fn(|context| self.poll_progress(context)).await;
        if let Err(error) = &result {
            self.ended = Some(error.clone());
        }
        result
    }

    fn poll_progress(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SessionError>> {
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

    /// Writes until the output is empty or the socket buffer is full; the socket then wakes the
    /// task.
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
            // The same event is reported as a unit attention.
            Event::Async { event: AsyncEvent::Scsi { .. }, .. } => {}
            Event::Async { event, .. } => return Err(SessionError::EndedByTarget(event)),
            Event::Rejected { reason, .. } => return Err(SessionError::Rejected(reason)),
            Event::Close(reason) => return Err(reason.into()),
        }
        Ok(())
    }

    fn complete(&mut self, id: CommandId, response: Response) {
        let Some(OpenCommand { token, .. }) = self.open.remove(&id) else { return };
        let Response { status, sense, data, residual, .. } = response;
        let sense = if sense.is_empty() { None } else { Sense::from_bytes(&sense).ok() };
        self.done.push_back(Completion { token, status: status.and_then(Status::from_code), sense, data, residual });
    }
}

/// Converts a LUN to the LUN field of a PDU.
fn wire_lun(lun: Lun) -> WireLun {
    WireLun(u64::from_be_bytes(lun.to_bytes()))
}
