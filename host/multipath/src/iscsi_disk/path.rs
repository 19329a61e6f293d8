//! One path: a session with one target port, owned by a task of its own, which logs in again when it is lost.

use super::path_config::PathConfig;
use super::policy::PathState;
use super::probe::{Probe, probe};
use super::retry::RetryRules;
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

/// How often a path looks whether something takes too long.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// A path as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStatus {
    /// Address of the port.
    pub portal: Portal,
    /// Name of the target.
    pub target: String,
    /// The logical unit behind it.
    pub lun: Lun,
    /// What it is good for.
    pub state: PathState,
    /// Target port group, where the unit has them.
    pub group: Option<u16>,
    /// Commands that took this path.
    pub commands: u64,
    /// Why it is dead.
    pub trouble: Option<String>,
}

/// What became of a command on a path.
pub(super) enum Outcome {
    /// It was answered.
    Answered(Completion),
    /// It never left.
    NotSent,
    /// The session ended, or the target would not answer even an abort: it may have been done.
    Lost,
}

enum Work {
    /// A command that must be over, or certainly never be done, at this time.
    Command(Request, Instant, oneshot::Sender<Outcome>),
    /// No command takes longer than this any more.
    Bound(Duration),
    /// Find out again what the port is good for.
    AskPort,
    /// A task management function of the whole unit, with the same.
    Manage(TaskFunction, Instant, oneshot::Sender<TaskOutcome>),
    Leave,
}

/// The disk's end of a path.
pub(super) struct Path {
    work: mpsc::UnboundedSender<Work>,
    shared: Arc<Shared>,
}

struct Shared {
    place: PathConfig,
    now: Mutex<Now>,
    /// Tells that some path's state has changed.
    changed: Arc<watch::Sender<u64>>,
}

#[derive(Default)]
struct Now {
    state: PathState,
    group: Option<u16>,
    commands: u64,
    trouble: Option<String>,
}

impl Path {
    /// Starts a path with a session that is there already, or none. It must lead to the unit called `name`.
    pub(super) fn start(
        place: PathConfig,
        name: &str,
        first: Result<(Session, Probe), String>,
        rules: RetryRules,
        changed: Arc<watch::Sender<u64>>,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        // The number of waiting commands has a limit: the disk's queue depth.
        let (work, receiver) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared { place, now: Mutex::default(), changed });
        let session = match first {
            Ok((session, probe)) => {
                shared.set(probe.state, probe.group, None);
                Some(session)
            }
            Err(trouble) => {
                shared.set(PathState::Dead, None, Some(trouble));
                None
            }
        };
        let task = Task { shared: shared.clone(), name: name.to_owned(), work: receiver, rules, lifetime: None };
        (Self { work, shared }, tokio::spawn(task.live(session)))
    }

    /// Sends a command down the path. At `end` it is over, or certainly never will be done.
    pub(super) async fn run(&self, mut request: Request, end: Instant) -> Outcome {
        request.lun = self.shared.place.lun;
        self.shared.now.lock().commands += 1;
        let (sender, receiver) = oneshot::channel();
        if self.work.send(Work::Command(request, end, sender)).is_err() {
            return Outcome::NotSent;
        }
        receiver.await.unwrap_or(Outcome::Lost)
    }

    pub(super) fn ask_port(&self) {
        // A path whose task has ended is dead, and that is known.
        let _ = self.work.send(Work::AskPort);
    }

    /// From now on no command takes longer than `lifetime`.
    pub(super) fn limit_command_time(&self, lifetime: Duration) {
        // The same as below.
        let _ = self.work.send(Work::Bound(lifetime));
    }

    /// A task management function of the whole unit, before `end` or not at all.
    pub(super) async fn manage(&self, function: TaskFunction, end: Instant) -> Result<TaskOutcome, DeviceError> {
        let (sender, receiver) = oneshot::channel();
        // A path that dies drops the sender, and is in doubt for it.
        let _ = self.work.send(Work::Manage(function, end, sender));
        receiver.await.map_err(|_| DeviceError::TimedOut)
    }

    /// Logs out when all that is open has ended. Whatever is asked for afterwards is not sent.
    pub(super) fn leave(&self) {
        // The same.
        let _ = self.work.send(Work::Leave);
    }

    pub(super) fn state(&self) -> PathState {
        self.shared.now.lock().state
    }

    pub(super) fn status(&self) -> PathStatus {
        let (place, now) = (&self.shared.place, self.shared.now.lock());
        PathStatus {
            portal: place.config.portal.clone(),
            target: place.config.target.clone(),
            lun: place.lun,
            state: now.state,
            group: now.group,
            commands: now.commands,
            trouble: now.trouble.clone(),
        }
    }
}

impl Shared {
    fn set(&self, state: PathState, group: Option<u16>, trouble: Option<String>) {
        {
            let mut now = self.now.lock();
            (now.state, now.trouble) = (state, trouble);
            now.group = group.or(now.group);
        }
        self.changed.send_modify(|version| *version = version.wrapping_add(1));
    }
}

/// The owner of a path's session.
struct Task {
    shared: Arc<Shared>,
    name: String,
    work: mpsc::UnboundedReceiver<Work>,
    rules: RetryRules,
    /// How long a command may take.
    lifetime: Option<Duration>,
}

/// Whether a path is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Yes,
    /// Until what is open has ended.
    UntilIdle,
    /// Its disk was dropped.
    No,
}

/// Why a session is no longer served.
enum End {
    Left,
    Lost(SessionError),
}

struct Open {
    answer: oneshot::Sender<Outcome>,
    /// When it is aborted.
    abort_at: Instant,
    /// When it must be over: if need be with the session.
    end: Instant,
}

impl Task {
    async fn live(mut self, mut session: Option<Session>) {
        let mut pause = self.rules.first_reconnect;
        loop {
            if let Some(session) = session.take() {
                pause = self.rules.first_reconnect;
                match self.serve(session).await {
                    End::Left => {
                        self.shared.set(PathState::Dead, None, Some("logged out".to_owned()));
                        return;
                    }
                    End::Lost(error) => self.shared.set(PathState::Dead, None, Some(error.to_string())),
                }
            } else if self.refuse_during(tokio::time::sleep(pause)).await.is_none() {
                return;
            } else {
                pause = (pause * 2).min(self.rules.longest_reconnect);
            }
            let login = log_in(self.shared.clone(), self.name.clone(), self.rules.ping_timeout);
            match self.refuse_during(login).await {
                Some(found) => session = found,
                None => return,
            }
        }
    }

    /// Waits without a session, and sends back what comes; `None` when the path is no longer wanted.
    async fn refuse_during<T>(&mut self, wait: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(wait);
        loop {
            tokio::select! {
                result = &mut wait => return Some(result),
                work = self.work.recv() => match work {
                    Some(Work::Command(_, _, answer)) => {
                        // Who asked may be gone.
                        let _ = answer.send(Outcome::NotSent);
                    }
                    Some(Work::Bound(lifetime)) => self.lifetime = Some(lifetime),
                    Some(Work::AskPort | Work::Manage(..)) => {}
                    Some(Work::Leave) | None => return None,
                },
            }
        }
    }

    async fn serve(&mut self, mut session: Session) -> End {
        let mut open: FxHashMap<u64, Open> = FxHashMap::default();
        let end = self.exchange(&mut session, &mut open).await;
        let is_idle = open.is_empty();
        for (_, Open { answer, .. }) in open.drain() {
            let _ = answer.send(Outcome::Lost);
        }
        // Whatever is not yet sent would be, with the logout; without one it is lost with the connection.
        if matches!(end, End::Left) && is_idle {
            // Good-bye; that the target may not hear it changes nothing.
            let _ = tokio::time::timeout(self.rules.ping_timeout, session.logout()).await;
        }
        end
    }

    /// Carries commands out and answers in.
    async fn exchange(&mut self, session: &mut Session, open: &mut FxHashMap<u64, Open>) -> End {
        let mut token = 0u64;
        let mut watch = tokio::time::interval(WATCH_INTERVAL);
        watch.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = clock::now_with_sleep();
        if let Err(error) = self.limit(session) {
            return End::Lost(error);
        }
        let mut is_leaving = false;
        while !(is_leaving && open.is_empty()) {
            tokio::select! {
                // After a pause of the whole process, what has come too late ends before more is sent.
                biased;
                _ = watch.tick(), if !open.is_empty() => {
                    if let Err(error) = self.look_after(session, open, &mut heard).await {
                        return End::Lost(error);
                    }
                }
                work = self.work.recv(), if !is_leaving => {
                    match self.take(session, open, &mut token, work).await {
                        Ok(Wanted::Yes) => {}
                        Ok(Wanted::UntilIdle) => is_leaving = true,
                        Ok(Wanted::No) => return End::Left,
                        Err(error) => return End::Lost(error),
                    }
                }
                completion = session.next() => {
                    heard = clock::now_with_sleep();
                    match completion {
                        Ok(completion) => answer(open, completion),
                        Err(error) => return End::Lost(error),
                    }
                    while let Some(completion) = session.try_next() {
                        answer(open, completion);
                    }
                }
            }
        }
        End::Left
    }

    /// Takes all that waits, so that it goes out in one write.
    async fn take(
        &mut self,
        session: &mut Session,
        open: &mut FxHashMap<u64, Open>,
        token: &mut u64,
        first: Option<Work>,
    ) -> Result<Wanted, SessionError> {
        let mut next = first.ok_or(TryRecvError::Disconnected);
        // One look at the clock for all that nothing is waited for in between.
        let mut now = clock::now_with_sleep();
        while let Ok(work) = next {
            match work {
                Work::Command(request, end, answer) => {
                    *token += 1;
                    self.submit(session, open, *token, now, (request, end, answer));
                }
                Work::Bound(lifetime) => {
                    self.lifetime = Some(lifetime);
                    self.limit(session)?;
                }
                Work::AskPort => {
                    self.ask_port(session, open).await?;
                    now = clock::now_with_sleep();
                }
                Work::Manage(function, end, answer) => {
                    if let Some(outcome) = self.manage(session, open, function, end).await? {
                        // Who asked may be gone.
                        let _ = answer.send(outcome);
                    }
                    now = clock::now_with_sleep();
                }
                Work::Leave => {
                    self.work.close();
                    self.shared.set(PathState::Dead, None, Some("logging out".to_owned()));
                    while let Ok(work) = self.work.try_recv() {
                        if let Work::Command(_, _, answer) = work {
                            // Who asked may be gone.
                            let _ = answer.send(Outcome::NotSent);
                        }
                    }
                    return Ok(Wanted::UntilIdle);
                }
            }
            next = self.work.try_recv();
        }
        Ok(if matches!(next, Err(TryRecvError::Disconnected)) { Wanted::No } else { Wanted::Yes })
    }

    /// What is sent in the first half of a command's time, and is not acknowledged in the second, is not sent again by the
    /// kernel: not even when this process is stopped, and cannot end the session.
    fn limit(&self, session: &Session) -> Result<(), SessionError> {
        self.lifetime.map_or(Ok(()), |lifetime| session.set_user_timeout(lifetime / 2))
    }

    fn submit(
        &self,
        session: &mut Session,
        open: &mut FxHashMap<u64, Open>,
        token: u64,
        now: Instant,
        (request, end, answer): (Request, Instant, oneshot::Sender<Outcome>),
    ) {
        // A quarter of its time is kept for the abort.
        let patience = (end.saturating_duration_since(now) * 3 / 4).min(self.rules.command_timeout);
        if patience.is_zero() {
            // Who asked may be gone.
            let _ = answer.send(Outcome::NotSent);
            return;
        }
        open.insert(token, Open { answer, abort_at: now + patience, end });
        session.submit(request, token);
    }

    /// How long the session may do something else than to watch over its commands.
    fn leisure(&self, open: &FxHashMap<u64, Open>) -> Duration {
        let first = open.values().map(|command| command.end).min();
        first.map_or(self.rules.ping_timeout, |end| {
            end.saturating_duration_since(clock::now_with_sleep()).min(self.rules.ping_timeout)
        })
    }

    /// Asks for a task management function. `None` when its time was over before it could be sent.
    async fn manage(
        &self,
        session: &mut Session,
        open: &FxHashMap<u64, Open>,
        function: TaskFunction,
        end: Instant,
    ) -> Result<Option<TaskOutcome>, SessionError> {
        let left = end.saturating_duration_since(clock::now_with_sleep());
        if left.is_zero() {
            return Ok(None);
        }
        let managed = session.manage_tasks(function, self.shared.place.lun, None);
        let managed = tokio::time::timeout(self.leisure(open).min(left), managed).await;
        managed.map_err(|_| SessionError::Timeout)?.map(Some)
    }

    /// Finds out what the port is good for.
    async fn ask_port(&self, session: &mut Session, open: &FxHashMap<u64, Open>) -> Result<(), SessionError> {
        let asked = tokio::time::timeout(self.leisure(open), session.port_group(self.shared.place.lun)).await;
        match asked.map_err(|_| SessionError::Timeout)? {
            Ok(Some(group)) => self.shared.set(PathState::of(group.state), Some(group.id), None),
            Ok(None) => self.shared.set(PathState::Active, None, None),
            Err(initiator::RunError::Session(error)) => return Err(error),
            // It answers, and will say at the next command what it has against it.
            Err(initiator::RunError::Refused(_)) => {}
        }
        Ok(())
    }

    /// Aborts what takes too long, ends the session when that does not help in time, and asks a silent target whether it
    /// lives.
    async fn look_after(
        &self,
        session: &mut Session,
        open: &mut FxHashMap<u64, Open>,
        heard: &mut Instant,
    ) -> Result<(), SessionError> {
        // The next look may be too late.
        let is_late = |open: &FxHashMap<u64, Open>| {
            let next = clock::now_with_sleep() + WATCH_INTERVAL;
            open.values().any(|command| command.end <= next)
        };
        let to_abort = |open: &FxHashMap<u64, Open>| {
            let now = clock::now_with_sleep();
            open.iter().filter(|(_, command)| command.abort_at <= now).map(|(token, _)| *token).min()
        };
        if is_late(open) {
            return Err(SessionError::Timeout);
        }
        while let Some(token) = to_abort(open) {
            let abort = session.manage_tasks(TaskFunction::AbortTask, self.shared.place.lun, Some(token));
            tokio::time::timeout(self.leisure(open), abort).await.map_err(|_| SessionError::Timeout)??;
            while let Some(completion) = session.try_next() {
                answer(open, completion);
            }
            // RFC 7143 11.6.1: a task that was neither answered nor ended may still be alive, and only the end of the
            // session ends it for certain.
            if open.contains_key(&token) || is_late(open) {
                return Err(SessionError::Timeout);
            }
        }
        let now = clock::now_with_sleep();
        if now.duration_since(*heard) >= self.rules.ping_after {
            let ping = session.ping(bytes::Bytes::from_static(b"ping"));
            tokio::time::timeout(self.leisure(open), ping).await.map_err(|_| SessionError::Timeout)??;
            *heard = clock::now_with_sleep();
        }
        Ok(())
    }
}

/// One attempt to get a session with the unit called `name`.
async fn log_in(shared: Arc<Shared>, name: String, time: Duration) -> Option<Session> {
    let attempt = tokio::time::timeout(time, probe(&shared.place)).await;
    let trouble = match attempt {
        Err(_) => "the login took too long".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Ok(Ok((_, probe))) if probe.identity.name != name => {
            format!("the path leads to {} now", probe.identity.name)
        }
        Ok(Ok((session, probe))) => {
            shared.set(probe.state, probe.group, None);
            return Some(session);
        }
    };
    shared.set(PathState::Dead, None, Some(trouble));
    None
}

fn answer(open: &mut FxHashMap<u64, Open>, completion: Completion) {
    if let Some(Open { answer, .. }) = open.remove(&completion.token) {
        // Who asked may be gone.
        let _ = answer.send(Outcome::Answered(completion));
    }
}
