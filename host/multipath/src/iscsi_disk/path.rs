//! One path: a session with one target port. Its task owns the session and logs in again when it is
//! lost.

use super::events::EventReporter;
use super::path_config::PathConfig;
use super::path_counters::PathCommand;
use super::policy::PathState;
use super::probe::{Probe, probe};
use super::retry::RetryRules;
use crate::counters::CountersSnapshot;
use crate::error::DeviceError;
use initiator::{Completion, Portal, Request, Session, SessionError};
use iscsi::pdu::{TaskFunction, TaskOutcome};
use parking_lot::Mutex;
use platform::clock;
use rustc_hash::FxHashMap;
use scsi::Lun;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;

/// Interval at which a path checks deadlines.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// The current state of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStatus {
    /// Portal of the port.
    pub portal: Portal,
    /// iSCSI name of the target.
    pub target: String,
    /// Logical unit at the port.
    pub lun: Lun,
    /// State.
    pub state: PathState,
    /// Target port group, if the unit has any.
    pub group: Option<u16>,
    /// Number of commands sent on this path.
    pub commands: u64,
    /// Why the path is dead.
    pub last_error: Option<String>,
}

/// The outcome of a command on a path.
pub(super) enum Outcome {
    /// The target answered.
    Answered(Completion),
    /// The command was not sent.
    NotSent,
    /// The session ended, or the target did not answer an abort: the command may have been
    /// executed.
    Lost,
}

enum PathWork {
    /// A command and its deadline. After the deadline it is finished or never executed.
    Command(Request, Instant, oneshot::Sender<Outcome>),
    /// A new limit on command time.
    LimitTime(Duration),
    /// Query the state of the port again.
    QueryPort,
    /// A task management function for the whole unit, with its deadline.
    Manage(TaskFunction, Instant, oneshot::Sender<TaskOutcome>),
    LogOut,
}

/// The handle of a path that its disk holds.
pub(super) struct Path {
    work: mpsc::UnboundedSender<PathWork>,
    shared: Arc<Shared>,
}

struct Shared {
    config: PathConfig,
    now: Mutex<PathRecord>,
    report: PathReport,
}

/// Where a path reports changes of its state.
pub(super) struct PathReport {
    /// Signals that the state of a path has changed.
    pub(super) changed: Arc<watch::Sender<u64>>,
    pub(super) events: Arc<EventReporter>,
    /// Index of the path.
    pub(super) index: usize,
}

#[derive(Default)]
struct PathRecord {
    state: PathState,
    group: Option<u16>,
    commands: u64,
    last_error: Option<String>,
    counters: CountersSnapshot,
}

impl Path {
    /// Starts a path with an established session, or none. It must lead to the unit called `name`.
    pub(super) fn start(
        config: PathConfig,
        name: &str,
        first: Result<(Session, Probe), String>,
        rules: RetryRules,
        report: PathReport,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        // The queue depth of the disk bounds the length of the channel.
        let (work, receiver) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared { config, now: Mutex::default(), report });
        let session = match first {
            Ok((session, probe)) => {
                shared.set(probe.state, probe.group, None);
                Some(session)
            }
            Err(error_text) => {
                shared.set(PathState::Dead, None, Some(error_text));
                shared.report.events.path_changed(shared.report.index, false);
                None
            }
        };
        let task = Task { shared: shared.clone(), name: name.to_owned(), work: receiver, rules, lifetime: None };
        (Self { work, shared }, tokio::spawn(task.run(session)))
    }

    /// Sends a command on the path. At `end` it is finished or never executed.
    pub(super) async fn run(&self, mut request: Request, end: Instant) -> Outcome {
        request.lun = self.shared.config.lun;
        self.shared.now.lock().commands += 1;
        let (command, begun) = (PathCommand::of(&request), clock::now());
        let (sender, receiver) = oneshot::channel();
        if self.work.send(PathWork::Command(request, end, sender)).is_err() {
            return Outcome::NotSent;
        }
        let outcome = receiver.await.unwrap_or(Outcome::Lost);
        if matches!(outcome, Outcome::Answered(_)) {
            command.count(&mut self.shared.now.lock().counters, clock::now().duration_since(begun));
        }
        outcome
    }

    pub(super) fn query_port(&self) {
        // A path whose task has ended is already marked dead.
        let _ = self.work.send(PathWork::QueryPort);
    }

    /// Limits the time of commands to `lifetime`.
    pub(super) fn limit_command_time(&self, lifetime: Duration) {
        // A path whose task has ended has no commands.
        let _ = self.work.send(PathWork::LimitTime(lifetime));
    }

    /// Executes a task management function for the whole unit before `end`, or not at all.
    pub(super) async fn manage(&self, function: TaskFunction, end: Instant) -> Result<TaskOutcome, DeviceError> {
        let (sender, receiver) = oneshot::channel();
        // A path that fails drops the sender; the outcome is then unknown.
        let _ = self.work.send(PathWork::Manage(function, end, sender));
        receiver.await.map_err(|_| DeviceError::TimedOut)
    }

    /// Logs out when all open commands have ended. Later commands are not sent.
    pub(super) fn log_out(&self) {
        // A path whose task has ended is logged out.
        let _ = self.work.send(PathWork::LogOut);
    }

    /// Returns the iSCSI name of the target.
    pub(super) fn target(&self) -> &str {
        &self.shared.config.config.target
    }

    pub(super) fn state(&self) -> PathState {
        self.shared.now.lock().state
    }

    /// Returns the counters of answered commands.
    pub(super) fn counters(&self) -> CountersSnapshot {
        self.shared.now.lock().counters
    }

    pub(super) fn status(&self) -> PathStatus {
        let (config, now) = (&self.shared.config, self.shared.now.lock());
        PathStatus {
            portal: config.config.portal.clone(),
            target: config.config.target.clone(),
            lun: config.lun,
            state: now.state,
            group: now.group,
            commands: now.commands,
            last_error: now.last_error.clone(),
        }
    }
}

impl Shared {
    fn is_standby(&self) -> bool {
        self.now.lock().state == PathState::Standby
    }

    /// Changes the state of a session that was lost or established.
    fn transition(&self, state: PathState, group: Option<u16>, last_error: Option<String>) {
        let was_alive = self.now.lock().state > PathState::Dead;
        let is_alive = state > PathState::Dead;
        self.set(state, group, last_error);
        if was_alive != is_alive {
            self.report.events.path_changed(self.report.index, is_alive);
        }
    }

    fn set(&self, state: PathState, group: Option<u16>, last_error: Option<String>) {
        {
            let mut now = self.now.lock();
            (now.state, now.last_error) = (state, last_error);
            now.group = group.or(now.group);
        }
        self.report.changed.send_modify(|version| *version = version.wrapping_add(1));
    }
}

/// The task that owns a path's session.
struct Task {
    shared: Arc<Shared>,
    name: String,
    work: mpsc::UnboundedReceiver<PathWork>,
    rules: RetryRules,
    /// Limit on command time.
    lifetime: Option<Duration>,
}

/// Whether the path is still in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServeMode {
    Serving,
    /// Until the open commands have ended.
    Draining,
    /// The disk was dropped.
    Dropped,
}

/// Why the task stopped serving a session.
enum ServeEnd {
    LoggedOut,
    Lost(SessionError),
}

struct OpenCommand {
    answer: oneshot::Sender<Outcome>,
    /// Time at which the command is aborted.
    abort_at: Instant,
    /// Deadline; the session is closed if necessary.
    end: Instant,
}

impl Task {
    async fn run(mut self, mut session: Option<Session>) {
        let mut pause = self.rules.first_reconnect;
        loop {
            if let Some(session) = session.take() {
                pause = self.rules.first_reconnect;
                match self.serve(session).await {
                    ServeEnd::LoggedOut => {
                        self.shared.set(PathState::Dead, None, Some("logged out".to_owned()));
                        return;
                    }
                    ServeEnd::Lost(error) => self.shared.transition(PathState::Dead, None, Some(error.to_string())),
                }
            } else if self.refuse_during(tokio::time::sleep(pause)).await.is_none() {
                return;
            } else {
                pause = (pause * 2).min(self.rules.longest_reconnect);
            }
            let login = log_in(self.shared.clone(), self.name.clone(), self.rules);
            match self.refuse_during(login).await {
                Some(found) => session = found,
                None => return,
            }
        }
    }

    /// Awaits `wait` without a session and returns commands unsent. Returns `None` if the path is
    /// no longer used.
    async fn refuse_during<T>(&mut self, wait: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(wait);
        loop {
            tokio::select! {
                result = &mut wait => return Some(result),
                work = self.work.recv() => match work {
                    Some(PathWork::Command(_, _, answer)) => {
                        // The caller may have dropped the receiver.
                        let _ = answer.send(Outcome::NotSent);
                    }
                    Some(PathWork::LimitTime(lifetime)) => self.lifetime = Some(lifetime),
                    Some(PathWork::QueryPort | PathWork::Manage(..)) => {}
                    Some(PathWork::LogOut) | None => return None,
                },
            }
        }
    }

    async fn serve(&mut self, mut session: Session) -> ServeEnd {
        let mut open: FxHashMap<u64, OpenCommand> = FxHashMap::default();
        let end = self.exchange(&mut session, &mut open).await;
        let is_idle = open.is_empty();
        for (_, OpenCommand { answer, .. }) in open.drain() {
            let _ = answer.send(Outcome::Lost);
        }
        // Commands not yet sent would go out with the logout. Without a logout they are dropped
        // with the connection.
        if matches!(end, ServeEnd::LoggedOut) && is_idle {
            // A failed logout does not matter.
            let _ = tokio::time::timeout(self.rules.ping_timeout, session.logout()).await;
        }
        end
    }

    /// Sends commands and dispatches their completions.
    async fn exchange(&mut self, session: &mut Session, open: &mut FxHashMap<u64, OpenCommand>) -> ServeEnd {
        let mut token = 0u64;
        let mut watch = tokio::time::interval(WATCH_INTERVAL);
        watch.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let period = self.rules.standby_poll.max(Duration::from_millis(1));
        let mut poll = tokio::time::interval_at((clock::now() + period).into(), period);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_heard = clock::now_with_sleep();
        if let Err(error) = self.set_user_timeout(session) {
            return ServeEnd::Lost(error);
        }
        let mut is_leaving = false;
        while !(is_leaving && open.is_empty()) {
            tokio::select! {
                // After a pause of the whole process, expired commands end before more are sent.
                biased;
                _ = watch.tick(), if !open.is_empty() => {
                    if let Err(error) = self.check_deadlines(session, open, &mut last_heard).await {
                        return ServeEnd::Lost(error);
                    }
                }
                // A port that serves no data gets no commands, so nothing else shows its return.
                _ = poll.tick(), if !is_leaving && self.shared.is_standby() => {
                    if let Err(error) = self.query_port(session, open).await {
                        return ServeEnd::Lost(error);
                    }
                }
                work = self.work.recv(), if !is_leaving => {
                    match self.take_work(session, open, &mut token, work).await {
                        Ok(ServeMode::Serving) => {}
                        Ok(ServeMode::Draining) => is_leaving = true,
                        Ok(ServeMode::Dropped) => return ServeEnd::LoggedOut,
                        Err(error) => return ServeEnd::Lost(error),
                    }
                }
                completion = session.next() => {
                    last_heard = clock::now_with_sleep();
                    match completion {
                        Ok(completion) => answer(open, completion),
                        Err(error) => return ServeEnd::Lost(error),
                    }
                    while let Some(completion) = session.try_next() {
                        answer(open, completion);
                    }
                }
            }
        }
        ServeEnd::LoggedOut
    }

    /// Takes all waiting work, so that it is sent in one write.
    async fn take_work(
        &mut self,
        session: &mut Session,
        open: &mut FxHashMap<u64, OpenCommand>,
        token: &mut u64,
        first: Option<PathWork>,
    ) -> Result<ServeMode, SessionError> {
        let mut next = first.ok_or(TryRecvError::Disconnected);
        // One clock read for all work that is taken without waiting.
        let mut now = clock::now_with_sleep();
        let mut is_port_doubtful = false;
        while let Ok(work) = next {
            match work {
                PathWork::Command(request, end, answer) => {
                    *token += 1;
                    self.submit(session, open, *token, now, (request, end, answer));
                }
                PathWork::LimitTime(lifetime) => {
                    self.lifetime = Some(lifetime);
                    self.set_user_timeout(session)?;
                }
                PathWork::QueryPort => is_port_doubtful = true,
                PathWork::Manage(function, end, answer) => {
                    if let Some(outcome) = self.manage(session, open, function, end).await? {
                        // The caller may have dropped the receiver.
                        let _ = answer.send(outcome);
                    }
                    now = clock::now_with_sleep();
                }
                PathWork::LogOut => {
                    self.work.close();
                    self.shared.set(PathState::Dead, None, Some("logging out".to_owned()));
                    while let Ok(work) = self.work.try_recv() {
                        if let PathWork::Command(_, _, answer) = work {
                            // The caller may have dropped the receiver.
                            let _ = answer.send(Outcome::NotSent);
                        }
                    }
                    return Ok(ServeMode::Draining);
                }
            }
            next = self.work.try_recv();
        }
        if is_port_doubtful {
            self.query_port(session, open).await?;
        }
        Ok(if matches!(next, Err(TryRecvError::Disconnected)) { ServeMode::Dropped } else { ServeMode::Serving })
    }

    /// Limits how long the kernel retransmits unacknowledged data: data sent in the first half of a
    /// command's time is dropped in the second half. This holds even if the process is stopped and
    /// cannot close the session.
    fn set_user_timeout(&self, session: &Session) -> Result<(), SessionError> {
        self.lifetime.map_or(Ok(()), |lifetime| session.set_user_timeout(lifetime / 2))
    }

    fn submit(
        &self,
        session: &mut Session,
        open: &mut FxHashMap<u64, OpenCommand>,
        token: u64,
        now: Instant,
        (request, end, answer): (Request, Instant, oneshot::Sender<Outcome>),
    ) {
        // A quarter of the time is reserved for the abort.
        let timeout = (end.saturating_duration_since(now) * 3 / 4).min(self.rules.command_timeout);
        if timeout.is_zero() {
            // The caller may have dropped the receiver.
            let _ = answer.send(Outcome::NotSent);
            return;
        }
        open.insert(token, OpenCommand { answer, abort_at: now + timeout, end });
        session.submit(request, token);
    }

    /// Returns how long the session may wait for one request without missing a deadline.
    fn spare_time(&self, open: &FxHashMap<u64, OpenCommand>) -> Duration {
        let first = open.values().map(|command| command.end).min();
        first.map_or(self.rules.ping_timeout, |end| {
            end.saturating_duration_since(clock::now_with_sleep()).min(self.rules.ping_timeout)
        })
    }

    /// Sends a task management function. Returns `None` if its deadline passed before it could be
    /// sent.
    async fn manage(
        &self,
        session: &mut Session,
        open: &FxHashMap<u64, OpenCommand>,
        function: TaskFunction,
        end: Instant,
    ) -> Result<Option<TaskOutcome>, SessionError> {
        let left = end.saturating_duration_since(clock::now_with_sleep());
        if left.is_zero() {
            return Ok(None);
        }
        let managed = session.manage_tasks(function, self.shared.config.lun, None);
        let managed = tokio::time::timeout(self.spare_time(open).min(left), managed).await;
        managed.map_err(|_| SessionError::Timeout)?.map(Some)
    }

    /// Queries the state of the port.
    async fn query_port(&self, session: &mut Session, open: &FxHashMap<u64, OpenCommand>) -> Result<(), SessionError> {
        let asked = tokio::time::timeout(self.spare_time(open), session.port_group(self.shared.config.lun)).await;
        match asked.map_err(|_| SessionError::Timeout)? {
            Ok(Some(group)) => self.shared.set(PathState::of(group.state), Some(group.id), None),
            Ok(None) => self.shared.set(PathState::Active, None, None),
            Err(initiator::RunError::Session(error)) => return Err(error),
            // The port responds; the next command shows why it refused the query.
            Err(initiator::RunError::Refused(_)) => {}
        }
        Ok(())
    }

    /// Aborts overdue commands, closes the session if that does not help in time, and pings a
    /// silent target.
    async fn check_deadlines(
        &self,
        session: &mut Session,
        open: &mut FxHashMap<u64, OpenCommand>,
        last_heard: &mut Instant,
    ) -> Result<(), SessionError> {
        // The next check may be too late.
        let is_late = |open: &FxHashMap<u64, OpenCommand>| {
            let next = clock::now_with_sleep() + WATCH_INTERVAL;
            open.values().any(|command| command.end <= next)
        };
        let to_abort = |open: &FxHashMap<u64, OpenCommand>| {
            let now = clock::now_with_sleep();
            open.iter().filter(|(_, command)| command.abort_at <= now).map(|(token, _)| *token).min()
        };
        if is_late(open) {
            return Err(SessionError::Timeout);
        }
        while let Some(token) = to_abort(open) {
            let abort = session.manage_tasks(TaskFunction::AbortTask, self.shared.config.lun, Some(token));
            tokio::time::timeout(self.spare_time(open), abort).await.map_err(|_| SessionError::Timeout)??;
            while let Some(completion) = session.try_next() {
                answer(open, completion);
            }
            // RFC 7143 11.6.1: a task that was neither answered nor aborted may still run. Only the
            // end of the session ends it reliably.
            if open.contains_key(&token) || is_late(open) {
                return Err(SessionError::Timeout);
            }
        }
        let now = clock::now_with_sleep();
        if now.duration_since(*last_heard) >= self.rules.ping_after {
            let ping = session.ping(bytes::Bytes::from_static(b"ping"));
            tokio::time::timeout(self.spare_time(open), ping).await.map_err(|_| SessionError::Timeout)??;
            *last_heard = clock::now_with_sleep();
        }
        Ok(())
    }
}

/// Tries once to open a session with the unit called `name`.
async fn log_in(shared: Arc<Shared>, name: String, rules: RetryRules) -> Option<Session> {
    let attempt = tokio::time::timeout(rules.ping_timeout, probe(&shared.config, &rules)).await;
    let error_text = match attempt {
        Err(_) => "login timed out".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Ok(Ok((_, probe))) if probe.identity.name != name => {
            format!("path now leads to device {}", probe.identity.name)
        }
        Ok(Ok((session, probe))) => {
            shared.transition(probe.state, probe.group, None);
            return Some(session);
        }
    };
    shared.set(PathState::Dead, None, Some(error_text));
    None
}

fn answer(open: &mut FxHashMap<u64, OpenCommand>, completion: Completion) {
    if let Some(OpenCommand { answer, .. }) = open.remove(&completion.token) {
        // The caller may have dropped the receiver.
        let _ = answer.send(Outcome::Answered(completion));
    }
}
