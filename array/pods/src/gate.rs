//! The service that hosts get on the volumes of one pod: requests pass, wait, fail, or go to the
//! array that orders changes.
//!
//! A read is answered only if the service at its end still allows it: an array whose lease has
//! expired, or that has yielded, may not know the newest content. Otherwise it waits, and is read
//! again.

mod pending;

use crate::forward::{self, Forwards, HELD_FOR, Session, UNDECIDED, Waiting};
use crate::message::PodMessage;
use bytes::Bytes;
use engine::{BlockService, Op, OpError, Reply, Sink, Tag};
use pending::Pending;
use platform::clock;
use platform::planted::is_planted;
use platform::threads::{Mutex, MutexGuard, RwLock};
use pod::{Arrival, Changes, Hosts, NewRequest, Next, Orderer, Ports, Reads};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::{RequestId, Source};

const NOT_SERVED: &str = "the other array of the pod serves it";
const LAGS: &str = "objects of the other array are on their way to the catalog; try again";
const TOO_LATE: &str = "it is too old, or its host has used the other path or given it up";
const NO_SPACE: &str = "too many changes wait for the other array of the pod";
const NOT_FORWARDED: &str = "the array that follows cannot forward it";

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Change,
    /// A change of objects: of the catalog.
    Objects,
}

fn kind_of(op: &Op) -> Kind {
    match op {
        Op::Read { .. } | Op::Compare { .. } | Op::Status { .. } => Kind::Read,
        Op::StreamChange(_) | Op::Change(_) => Kind::Objects,
        // A stage is no volume of hosts.
        Op::Copy { destination, .. } if destination.is_stage() => Kind::Read,
        _ => Kind::Change,
    }
}

/// Returns the service before a decision.
fn undecided() -> Hosts {
    Hosts { changes: Changes::Hold, reads: Reads::Never, own_ports: Ports::Transitioning, peer_ports: Ports::Active }
}

/// A request.
struct Request {
    op: Op,
    tag: Tag,
    sink: Arc<dyn Sink>,
    /// It fails at this time of the lease clock if it still waits.
    deadline: Duration,
    /// The session that has brought it from the follower, and its forward.
    forward: Option<(Session, Arrival)>,
}

/// The treatment of a request.
enum Decision {
    Pass,
    Forward,
    Hold,
    Fail(OpError),
}

struct State {
    hosts: Hosts,
    /// Rises with each change of the service, but not with an extension of the lease.
    version: u64,
    /// This array orders changes.
    is_sequencer: bool,
    /// Changes of objects wait.
    holds_objects: bool,
    /// The catalog lacks objects that have come from the other array.
    lags: bool,
    held: VecDeque<Request>,
    /// A thread submits requests that have waited; others queue after them.
    is_draining: bool,
    /// Changes that the engine has.
    in_flight: usize,
    /// Those of them that change objects.
    objects_in_flight: usize,
    /// Requests that the engine has and that may end while nothing is decided.
    pending: Pending,
    /// Forwards of the other array are accepted in this session.
    accepts: Option<Session>,
    forwards: Forwards,
    /// Sends messages about forwards in the present session.
    send: Option<SendMessage>,
    orderer: Arc<Mutex<Orderer<Bytes>>>,
}

/// Sends a message in a session. One that is lost with the session is not sent again.
pub(crate) type SendMessage = Box<dyn Fn(&PodMessage) + Send + Sync>;

/// Is called when no change is in flight.
pub(crate) type Notify = Arc<dyn Fn() + Send + Sync>;

/// The gate of one pod.
pub(crate) struct HostGate {
    this: Weak<Self>,
    engine: Arc<dyn BlockService>,
    state: Mutex<State>,
    /// The forwards of the other array. Locked after the state, and under the engine's mutex.
    orderer: Arc<Mutex<Orderer<Bytes>>>,
    /// Called when no change is in flight any more.
    on_still: RwLock<Option<Notify>>,
    /// Called when the state of a port group changes.
    on_ports: Notify,
}

impl HostGate {
    /// Creates a gate that serves nothing yet.
    pub(crate) fn new(engine: Arc<dyn BlockService>, on_ports: Notify) -> Arc<Self> {
        let orderer = Arc::<Mutex<Orderer<Bytes>>>::default();
        let state = State {
            hosts: undecided(),
            version: 0,
            is_sequencer: false,
            holds_objects: false,
            lags: false,
            held: VecDeque::new(),
            is_draining: false,
            in_flight: 0,
            objects_in_flight: 0,
            pending: Pending::default(),
            accepts: None,
            forwards: Forwards::default(),
            send: None,
            orderer: orderer.clone(),
        };
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            engine,
            state: Mutex::new(state),
            orderer,
            on_still: RwLock::default(),
            on_ports,
        })
    }

    /// Sets the function that is called when no change is in flight any more.
    pub(crate) fn on_still(&self, notify: impl Fn() + Send + Sync + 'static) {
        *self.on_still.write() = Some(Arc::new(notify));
    }

    /// Returns the service.
    pub(crate) fn hosts(&self) -> Hosts {
        self.state.lock().hosts
    }

    /// Returns the requests that wait, and the changes that the engine has.
    pub(crate) fn load(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.held.len() + state.forwards.waiting(), state.in_flight)
    }

    /// Changes the service. Forwards end where this array orders itself; where it serves no more,
    /// they end with the session, because the other array may carry them out until then.
    pub(crate) fn set(&self, hosts: Hosts, is_sequencer: bool, accepts: Option<Session>) {
        let (has_other_ports, ended) = {
            let mut state = self.state.lock();
            state.accepts = accepts;
            let is_extension = Hosts { reads: state.hosts.reads, ..hosts } == state.hosts
                && matches!((state.hosts.reads, hosts.reads), (Reads::Until(_), Reads::Until(_)))
                && state.is_sequencer == is_sequencer;
            state.version += u64::from(!is_extension);
            let before = std::mem::replace(&mut state.hosts, hosts);
            state.is_sequencer = is_sequencer;
            let has_other_ports = (before.own_ports, before.peer_ports) != (hosts.own_ports, hosts.peer_ports);
            let is_over = is_sequencer || hosts.changes == Changes::Fail && !state.forwards.is_attached();
            (has_other_ports, if is_over { state.forwards.end() } else { Vec::new() })
        };
        // Hosts hear of other ports before a command fails because of them.
        if has_other_ports {
            (self.on_ports)();
        }
        forward::complete(ended);
        self.drain();
    }

    /// The array that orders accepts forwards in a session, and has stated its clock: sends those
    /// that wait.
    pub(crate) fn attach_forwards(&self, session: Session, clock: Duration, send: SendMessage) {
        let mut state = self.state.lock();
        if !state.forwards.is_attached() {
            state.send = Some(send);
            let numbers = state.forwards.begin(session, clock, clock::lease_time());
            state.send_forwards(&numbers);
        }
    }

    /// A record that carries out a forward of this array has arrived.
    pub(crate) fn forward_named(&self, id: RequestId) {
        let ended = self.state.lock().forwards.ordered(id);
        forward::complete(ended);
        if is_planted("answer-forward-early") {
            self.forward_committed(id);
        }
    }

    /// Both logs hold that record.
    pub(crate) fn forward_committed(&self, id: RequestId) {
        let ended = self.state.lock().forwards.committed(id);
        forward::complete(ended);
    }

    /// Takes the outcome of a forward of this array.
    pub(crate) fn outcome(&self, body: &[u8]) {
        let Some((id, result)) = forward::parse_outcome(body) else { return };
        let ended = self.state.lock().forwards.outcome(id, result);
        forward::complete(ended);
    }

    /// A host gives up a change that waits here or at the array that orders.
    pub(crate) fn cancel(&self, nexus: u64, tag: Tag) {
        let (held, ended) = {
            let mut state = self.state.lock();
            let is_it = |held: &Request| {
                held.tag == tag && held.forward.is_none() && held.sink.source().is_some_and(|s| s.nexus == nexus)
            };
            let at = state.held.iter().position(is_it);
            let held = at.and_then(|at| state.held.remove(at));
            let (ids, ended) = state.forwards.cancel(nexus, tag);
            state.send.iter().for_each(|send| ids.iter().for_each(|id| send(&PodMessage::Cancel(*id))));
            (held, ended)
        };
        held.into_iter().for_each(|held| held.sink.complete(held.tag, Err(OpError::Transition(UNDECIDED))));
        forward::complete(ended);
    }

    /// Takes a forward of the other array.
    pub(crate) fn take_forward(&self, arrival: &Arrival) -> Next<Bytes> {
        self.orderer.lock().take(arrival, clock::lease_time())
    }

    /// The last record of a forward of the other array is ordered. The engine's mutex is held.
    pub(crate) fn forward_ordered(&self, id: RequestId) {
        self.orderer.lock().ordered(id, true);
    }

    /// An attempt has an outcome. Returns true if the other array needs it.
    pub(crate) fn forward_done(&self, id: RequestId, attempt: u64, outcome: Bytes) -> bool {
        self.orderer.lock().done(id, attempt, outcome)
    }

    /// The other array's host has given a forward up. Returns false if it is not known here.
    pub(crate) fn cancel_forward(&self, session: Session, id: RequestId) -> bool {
        let held = {
            let mut state = self.state.lock();
            let is_it = |held: &Request| held.forward.is_some_and(|(of, arrival)| of == session && arrival.id == id);
            let at = state.held.iter().position(is_it);
            at.and_then(|at| state.held.remove(at))
        };
        let is_known = held.is_some() || self.orderer.lock().is_known(id);
        held.into_iter().for_each(|held| held.sink.complete(held.tag, Err(OpError::Busy(TOO_LATE))));
        is_known
    }

    /// The session with the other array has ended: it carries out no forward that it has not
    /// ordered.
    pub(crate) fn detach_forwards(&self) {
        let ended = {
            let mut state = self.state.lock();
            (state.accepts, state.send) = (None, None);
            let mut ended = state.forwards.end_session();
            if state.hosts.changes == Changes::Fail {
                ended.extend(state.forwards.end());
            }
            ended
        };
        forward::complete(ended);
    }

    /// Whether forwards of the other array are accepted in a session.
    pub(crate) fn accepts(&self, session: Session) -> bool {
        self.state.lock().accepts == Some(session)
    }

    /// No change of objects is in flight.
    pub(crate) fn has_still_objects(&self) -> bool {
        let state = self.state.lock();
        state.objects_in_flight == 0 && state.holds_objects
    }

    /// Lets changes of objects wait, or lets them go.
    pub(crate) fn hold_objects(&self, holds: bool) {
        self.state.lock().holds_objects = holds;
        if !holds {
            self.drain();
        }
    }

    /// Refuses changes of objects while the catalog lacks some. They do not wait: the catalog makes
    /// one change at a time, and would lack them as long.
    pub(crate) fn lags(&self, lags: bool) {
        self.state.lock().lags = lags;
    }

    /// No change is in flight, and none begins while changes are held.
    pub(crate) fn is_still(&self) -> bool {
        let state = self.state.lock();
        state.in_flight == 0 && !state.is_draining && state.hosts.changes != Changes::Serve
    }

    /// Takes a request of a host or of the catalog.
    pub(crate) fn submit(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>) {
        let deadline = clock::lease_time() + HELD_FOR;
        self.take(Request { op, tag, sink: sink.clone(), deadline, forward: None });
    }

    /// Takes a change that the follower has forwarded in a session.
    pub(crate) fn submit_forward(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>, session: Session, arrival: Arrival) {
        let deadline = clock::lease_time() + HELD_FOR;
        self.take(Request { op, tag, sink: sink.clone(), deadline, forward: Some((session, arrival)) });
    }

    /// Passes the end of a batch on.
    pub(crate) fn kick(&self) {
        self.engine.kick();
    }

    fn take(&self, request: Request) {
        let mut state = self.state.lock();
        let decision = state.decide(&request, false);
        match decision {
            Decision::Hold => state.held.push_back(request),
            decision => {
                let admitted = state.admit(&request, &decision);
                drop(state);
                self.carry_out(request, decision, admitted);
            }
        }
    }

    fn carry_out(&self, request: Request, decision: Decision, (version, number): (u64, Option<u64>)) {
        let Request { op, tag, sink, deadline, forward } = request;
        match decision {
            Decision::Pass => {
                let kind = kind_of(&op);
                // A comparison reads, and may have to be made again.
                let may_repeat = kind == Kind::Read || matches!(op, Op::CompareAndWrite { .. });
                let again = may_repeat.then(|| op.clone());
                let passed = Passed { gate: self.this.clone(), sink, kind, version, number, again, deadline, forward };
                let passed: Arc<dyn Sink> = Arc::new(passed);
                self.engine.submit(op, tag, &passed);
            }
            Decision::Forward => {
                let forwarded = self.state.lock().forward(&op, (tag, sink), deadline);
                // Without the lock: the sink may submit another request here.
                if let Err((error, (tag, sink))) = forwarded {
                    sink.complete(tag, Err(error));
                }
            }
            Decision::Fail(error) => sink.complete(tag, Err(error)),
            Decision::Hold => {}
        }
    }

    /// Submits the requests that wait, in their order, if the service allows it. Requests
    /// that arrive in the course of it queue after them.
    fn drain(&self) {
        let mut state = self.state.lock();
        if state.is_draining {
            return;
        }
        state.is_draining = true;
        // One that the engine refuses at once waits again, for the next time.
        let (mut at, mut left) = (0, state.held.len());
        while left > 0
            && let Some(request) = state.held.get(at)
        {
            left -= 1;
            match state.decide(request, true) {
                Decision::Hold => at += 1,
                decision => {
                    let Some(request) = state.held.remove(at) else { break };
                    let admitted = state.admit(&request, &decision);
                    MutexGuard::unlocked(&mut state, || self.carry_out(request, decision, admitted));
                    // Others may have been ended since.
                    at = at.min(state.held.len());
                }
            }
        }
        state.is_draining = false;
        drop(state);
        self.engine.kick();
    }

    /// Ends requests that have waited too long. While nothing is decided, also those that the
    /// engine has: changes wait for the other array, and reads for changes. Their hosts repeat
    /// them, and the repetition of a change comes later in the order.
    pub(crate) fn expire(&self, now: Duration) {
        let (late, pending, forwards) = {
            let mut state = self.state.lock();
            let (late, kept): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(&mut state.held).into_iter().partition(|held| held.deadline <= now);
            state.held = kept;
            let is_undecided = state.hosts.changes == Changes::Hold;
            let pending = if is_undecided { state.pending.take_late(now) } else { Vec::new() };
            (late, pending, state.forwards.expire(now))
        };
        pending.into_iter().for_each(|(tag, sink)| sink.complete(tag, Err(OpError::Transition(UNDECIDED))));
        late.into_iter().for_each(|held| held.sink.complete(held.tag, Err(OpError::Transition(UNDECIDED))));
        forward::complete(forwards);
        // The lease may have been extended.
        if !self.state.lock().held.is_empty() {
            self.drain();
        }
    }

    /// A session has ended: forwards of it that have not been submitted are forgotten. The follower
    /// names them again if it still wants them.
    pub(crate) fn forget_session(&self, session: Session) {
        if is_planted("requests-outlive-session") {
            return;
        }
        let mut state = self.state.lock();
        let is_of = |request: &Request| request.forward.is_some_and(|(of, _)| of == session);
        let forgotten: Vec<Tag> = state.held.iter().filter(|held| is_of(held)).map(|held| held.tag).collect();
        state.held.retain(|held| !is_of(held));
        self.orderer.lock().forget(|attempt| forgotten.contains(&attempt));
    }

    /// Requests wait for a decision.
    pub(crate) fn hold(&self) {
        self.set(undecided(), false, None);
    }

    /// Waits until no change is in flight; none begins while changes are held. Returns false if it
    /// takes longer than `patience`.
    pub(crate) fn wait_still(&self, patience: Duration) -> bool {
        let until = clock::lease_time() + patience;
        while !self.is_still() {
            if clock::lease_time() > until {
                return false;
            }
            clock::sleep(Duration::from_millis(1));
        }
        true
    }

    /// The pod is on this array alone, and has no stream: every request passes.
    pub(crate) fn open(&self) {
        let hosts = Hosts {
            changes: Changes::Serve,
            reads: Reads::Always,
            own_ports: Ports::Active,
            peer_ports: Ports::Unavailable,
        };
        self.hold_objects(false);
        self.lags(false);
        self.set(hosts, true, None);
    }

    /// Gives access to the forwards of this array's hosts.
    pub(crate) fn forwards<T>(&self, access: impl FnOnce(&mut Forwards) -> T) -> T {
        access(&mut self.state.lock().forwards)
    }

    fn passed(&self, passed: &Passed, tag: Tag, result: Result<Reply, OpError>) {
        let is_read = passed.kind == Kind::Read || matches!(result, Err(OpError::Miscompare { .. }));
        let mut state = self.state.lock();
        if passed.kind != Kind::Read {
            state.in_flight -= 1;
            state.objects_in_flight -= usize::from(passed.kind == Kind::Objects);
        }
        let is_still = state.in_flight == 0 && state.hosts.changes != Changes::Serve;
        let is_answered = passed.number.is_some_and(|number| !state.pending.remove(number));
        let is_refused = matches!(result, Err(OpError::Unavailable(_)));
        let may_answer = !is_refused && state.version == passed.version && state.allows_reads();
        match passed.again.as_ref().filter(|_| is_read && !may_answer) {
            _ if is_answered => drop(state),
            None => {
                drop(state);
                passed.sink.complete(tag, result);
            }
            Some(_) if state.hosts.changes == Changes::Fail => {
                drop(state);
                passed.sink.complete(tag, Err(OpError::Unavailable(NOT_SERVED)));
            }
            // It is made again: at once if the service has changed, later if the engine refuses it.
            Some(op) => {
                let (op, sink, deadline, forward) = (op.clone(), passed.sink.clone(), passed.deadline, passed.forward);
                state.held.push_back(Request { op, tag, sink, deadline, forward });
                drop(state);
                if !is_refused {
                    self.drain();
                }
            }
        }
        if is_still && passed.kind != Kind::Read {
            let notify = self.on_still.read().clone();
            notify.into_iter().for_each(|notify| notify());
        }
    }
}

impl State {
    fn allows_reads(&self) -> bool {
        match self.hosts.reads {
            Reads::Always => true,
            Reads::Until(end) => clock::lease_time() < end || is_planted("read-without-lease"),
            Reads::Never => false,
        }
    }

    /// Notes a request that does not wait. Returns the version of the service, and the number of a
    /// request that may end while nothing is decided: its host repeats it, and it changes nothing
    /// by a comparison.
    fn admit(&mut self, request: &Request, decision: &Decision) -> (u64, Option<u64>) {
        let kind = kind_of(&request.op);
        if !matches!(decision, Decision::Pass) {
            return (self.version, None);
        }
        if kind != Kind::Read {
            self.in_flight += 1;
            self.objects_in_flight += usize::from(kind == Kind::Objects);
            self.note_direct(request);
        }
        // No host repeats a copy to a stage.
        let is_of_host =
            request.forward.is_none() && !matches!(request.op, Op::Copy { destination, .. } if destination.is_stage());
        let may_end = kind != Kind::Objects && is_of_host && !forward::compares(&request.op);
        let number = may_end.then(|| self.pending.add(request.deadline, request.tag, request.sink.clone()));
        (self.version, number)
    }

    fn decide(&self, request: &Request, is_drained: bool) -> Decision {
        let kind = kind_of(&request.op);
        let waits_behind = !is_drained && kind != Kind::Read && (self.is_draining || self.has_held_changes());
        match (kind, self.hosts.changes) {
            (_, Changes::Fail) => Decision::Fail(OpError::Unavailable(NOT_SERVED)),
            (Kind::Read, _) if self.allows_reads() => Decision::Pass,
            (Kind::Read, _) | (_, Changes::Hold) => Decision::Hold,
            (Kind::Objects, _) if self.lags => Decision::Fail(OpError::Transition(LAGS)),
            (Kind::Objects, _) if self.holds_objects => Decision::Hold,
            // Its session has ended, or the arrays begin again.
            _ if request.forward.is_some_and(|(session, _)| Some(session) != self.accepts)
                && !is_planted("requests-outlive-session") =>
            {
                Decision::Fail(OpError::Transition(UNDECIDED))
            }
            _ if waits_behind => Decision::Hold,
            _ if self.is_refused(request) => Decision::Fail(OpError::Busy(TOO_LATE)),
            (_, Changes::Serve) if self.is_sequencer => Decision::Pass,
            (Kind::Objects, _) => Decision::Fail(OpError::Unavailable(NOT_SERVED)),
            _ => Decision::Forward,
        }
    }

    /// Whether a forward of the other array came too late.
    fn is_refused(&self, request: &Request) -> bool {
        let now = clock::lease_time;
        request.forward.is_some_and(|(_, arrival)| self.orderer.lock().check(&arrival, now()).is_err())
    }

    /// Notes a change that an initiator makes by way of this array while the other one forwards.
    fn note_direct(&self, request: &Request) {
        if self.accepts.is_some()
            && request.forward.is_none()
            && let (Some(source), Some(volume)) = (request.sink.source(), forward::changed_volume(&request.op))
        {
            self.orderer.lock().note_direct(source.initiator, volume, clock::lease_time());
        }
    }

    /// Forwards a change of a host.
    fn forward(&mut self, op: &Op, waiting: Waiting, deadline: Duration) -> Result<(), (OpError, Waiting)> {
        let Some(changes) = forward::changes_of(op) else { return Err((OpError::Malformed(NOT_FORWARDED), waiting)) };
        let (tag, source) = (waiting.0, waiting.1.source());
        let new = NewRequest { waiting, source, tag, compares: forward::compares(op), deadline };
        match self.forwards.add(new, changes, clock::lease_time()) {
            Ok(numbers) => {
                self.send_forwards(&numbers);
                Ok(())
            }
            Err((waiting, _)) => Err((OpError::Busy(NO_SPACE), waiting)),
        }
    }

    fn send_forwards(&self, numbers: &[u64]) {
        let Some(send) = &self.send else { return };
        let outgoing = numbers.iter().filter_map(|number| self.forwards.outgoing(*number));
        outgoing.for_each(|outgoing| send(&PodMessage::Forward(forward::encode(&outgoing))));
    }

    fn has_held_changes(&self) -> bool {
        self.held.iter().any(|held| kind_of(&held.op) == Kind::Change)
    }
}

/// Receives the engine's answer to a request that has passed.
struct Passed {
    gate: Weak<HostGate>,
    sink: Arc<dyn Sink>,
    kind: Kind,
    version: u64,
    /// Its number among those that may end while nothing is decided.
    number: Option<u64>,
    /// A request that reads, to be made again.
    again: Option<Op>,
    deadline: Duration,
    forward: Option<(Session, Arrival)>,
}

impl Sink for Passed {
    fn request(&self) -> Option<RequestId> {
        self.sink.request()
    }

    fn source(&self) -> Option<Source> {
        self.sink.source()
    }

    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        match self.gate.upgrade() {
            Some(gate) => gate.passed(self, tag, result),
            None => self.sink.complete(tag, result),
        }
    }
}

#[cfg(test)]
mod tests;
