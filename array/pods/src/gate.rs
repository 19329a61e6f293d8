//! The service that hosts get on the volumes of one pod: requests pass, wait, fail, or go to the
//! array that orders changes.
//!
//! A read is answered only if the service at its end still allows it: an array whose lease has
//! expired, or that has yielded, may not know the newest content. Otherwise it waits, and is read
//! again.

use crate::forward::{Forwards, Session};
use engine::{BlockService, Op, OpError, Reply, Sink, Tag};
use parking_lot::Mutex;
use platform::clock;
use pod::{Changes, Hosts, Ports, Reads};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A request that waits for a decision ends after this long.
pub(crate) const HELD_FOR: Duration = Duration::from_secs(5);

const NOT_SERVED: &str = "the other array of the pod serves it";
const IN_TRANSITION: &str = "the arrays of the pod have not agreed yet";

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
        _ => Kind::Change,
    }
}

/// A request.
struct Request {
    op: Op,
    tag: Tag,
    sink: Arc<dyn Sink>,
    /// It fails at this time of the lease clock if it still waits.
    deadline: Duration,
    /// The session that has brought it from the follower.
    session: Option<Session>,
}

/// What to do with a request.
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
    held: VecDeque<Request>,
    /// A thread submits requests that have waited; others queue after them.
    is_draining: bool,
    /// Changes that the engine has.
    in_flight: usize,
    forwards: Forwards,
}

/// The gate of one pod.
pub(crate) struct HostGate {
    this: Weak<Self>,
    engine: Arc<dyn BlockService>,
    state: Mutex<State>,
    /// Called when no change is in flight any more.
    on_still: Box<dyn Fn() + Send + Sync>,
}

impl HostGate {
    /// Creates a gate that serves nothing yet.
    pub(crate) fn new(engine: Arc<dyn BlockService>, on_still: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let hosts = Hosts {
            changes: Changes::Hold,
            reads: Reads::Never,
            own_ports: Ports::Transitioning,
            peer_ports: Ports::Active,
        };
        let state = State {
            hosts,
            version: 0,
            is_sequencer: false,
            holds_objects: false,
            held: VecDeque::new(),
            is_draining: false,
            in_flight: 0,
            forwards: Forwards::default(),
        };
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            engine,
            state: Mutex::new(state),
            on_still: Box::new(on_still),
        })
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

    /// Changes the service. Forwards that can have no outcome here end.
    pub(crate) fn set(&self, hosts: Hosts, is_sequencer: bool) {
        let ended = {
            let mut state = self.state.lock();
            let is_extension = Hosts { reads: state.hosts.reads, ..hosts } == state.hosts
                && matches!((state.hosts.reads, hosts.reads), (Reads::Until(_), Reads::Until(_)))
                && state.is_sequencer == is_sequencer;
            state.version += u64::from(!is_extension);
            (state.hosts, state.is_sequencer) = (hosts, is_sequencer);
            match hosts.changes {
                Changes::Fail => state.forwards.end(),
                _ if is_sequencer => state.forwards.end(),
                _ => Vec::new(),
            }
        };
        let error = if hosts.changes == Changes::Fail { NOT_SERVED } else { IN_TRANSITION };
        for (tag, sink) in ended {
            // It may have happened, as when a path fails: the host repeats it.
            let error = match hosts.changes {
                Changes::Fail => OpError::Unavailable(error),
                _ => OpError::Transition(error),
            };
            sink.complete(tag, Err(error));
        }
        self.drain();
    }

    /// Lets changes of objects wait, or lets them go.
    pub(crate) fn hold_objects(&self, holds: bool) {
        self.state.lock().holds_objects = holds;
        if !holds {
            self.drain();
        }
    }

    /// No change is in flight, and none begins while changes are held.
    pub(crate) fn is_still(&self) -> bool {
        let state = self.state.lock();
        state.in_flight == 0 && !state.is_draining && state.hosts.changes != Changes::Serve
    }

    /// Takes a request of a host or of the catalog.
    pub(crate) fn submit(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>) {
        let deadline = clock::lease_time() + HELD_FOR;
        self.take(Request { op, tag, sink: sink.clone(), deadline, session: None });
    }

    /// Takes a change that the follower has forwarded in a session.
    pub(crate) fn submit_forward(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>, session: Session) {
        let deadline = clock::lease_time() + HELD_FOR;
        self.take(Request { op, tag, sink: sink.clone(), deadline, session: Some(session) });
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
                let version = state.admit(&request, &decision);
                drop(state);
                self.carry_out(request, decision, version);
            }
        }
    }

    fn carry_out(&self, request: Request, decision: Decision, version: u64) {
        let Request { op, tag, sink, deadline, .. } = request;
        match decision {
            Decision::Pass => {
                let kind = kind_of(&op);
                let again = (kind == Kind::Read).then(|| op.clone());
                let passed = Passed { gate: self.this.clone(), sink, kind, version, again, deadline };
                let passed: Arc<dyn Sink> = Arc::new(passed);
                self.engine.submit(op, tag, &passed);
            }
            Decision::Forward => {
                let refused = self.state.lock().forwards.add(&op, tag, &sink);
                refused.into_iter().for_each(|error| sink.complete(tag, Err(error)));
            }
            Decision::Fail(error) => sink.complete(tag, Err(error)),
            Decision::Hold => {}
        }
    }

    /// Submits the requests that wait, in their order, as far as the service allows it. Requests
    /// that arrive meanwhile queue after them.
    fn drain(&self) {
        let mut state = self.state.lock();
        if state.is_draining {
            return;
        }
        state.is_draining = true;
        let mut at = 0;
        while let Some(request) = state.held.get(at) {
            match state.decide(request, true) {
                Decision::Hold => at += 1,
                decision => {
                    let Some(request) = state.held.remove(at) else { break };
                    let version = state.admit(&request, &decision);
                    parking_lot::MutexGuard::unlocked(&mut state, || self.carry_out(request, decision, version));
                    // The service may have changed.
                    at = 0;
                }
            }
        }
        state.is_draining = false;
        drop(state);
        self.engine.kick();
    }

    /// Ends requests that have waited too long.
    pub(crate) fn expire(&self, now: Duration) {
        let late: Vec<Request> = {
            let mut state = self.state.lock();
            let (late, kept): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(&mut state.held).into_iter().partition(|held| held.deadline <= now);
            state.held = kept;
            late.into()
        };
        late.into_iter().for_each(|Request { tag, sink, .. }| {
            sink.complete(tag, Err(OpError::Transition(IN_TRANSITION)));
        });
        // The lease may have been extended.
        if !self.state.lock().held.is_empty() {
            self.drain();
        }
    }

    /// A session has ended: forwards of it that have not been submitted are forgotten. The follower
    /// names them again if it still wants them. Returns their tags.
    pub(crate) fn forget_session(&self, session: Session) -> Vec<Tag> {
        let mut state = self.state.lock();
        let is_of = |request: &Request| request.session == Some(session);
        let forgotten = state.held.iter().filter(|held| is_of(held)).map(|held| held.tag).collect();
        state.held.retain(|held| !is_of(held));
        forgotten
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
        self.set(hosts, true);
    }

    /// Gives access to the forwards of this array's hosts.
    pub(crate) fn forwards<T>(&self, access: impl FnOnce(&mut Forwards) -> T) -> T {
        access(&mut self.state.lock().forwards)
    }

    fn passed(&self, passed: &Passed, tag: Tag, result: Result<Reply, OpError>) {
        if passed.kind != Kind::Read {
            let is_still = {
                let mut state = self.state.lock();
                state.in_flight -= 1;
                state.in_flight == 0 && state.hosts.changes != Changes::Serve
            };
            passed.sink.complete(tag, result);
            if is_still {
                (self.on_still)();
            }
            return;
        }
        let may_answer = {
            let state = self.state.lock();
            let is_refused = matches!(result, Err(OpError::Unavailable(_)));
            !is_refused && state.version == passed.version && state.allows_reads()
                || state.hosts.changes == Changes::Fail
        };
        match (&passed.again, may_answer) {
            (Some(op), false) => {
                let (op, sink, deadline) = (op.clone(), passed.sink.clone(), passed.deadline);
                self.take(Request { op, tag, sink, deadline, session: None });
            }
            _ if matches!(self.hosts().changes, Changes::Fail) => {
                passed.sink.complete(tag, Err(OpError::Unavailable(NOT_SERVED)));
            }
            _ => passed.sink.complete(tag, result),
        }
    }
}

impl State {
    fn allows_reads(&self) -> bool {
        match self.hosts.reads {
            Reads::Always => true,
            Reads::Until(end) => clock::lease_time() < end,
            Reads::Never => false,
        }
    }

    /// Notes a request that does not wait. Returns the version of the service.
    fn admit(&mut self, request: &Request, decision: &Decision) -> u64 {
        if matches!(decision, Decision::Pass) && kind_of(&request.op) != Kind::Read {
            self.in_flight += 1;
        }
        self.version
    }

    fn decide(&self, request: &Request, is_drained: bool) -> Decision {
        let kind = kind_of(&request.op);
        let waits_behind = !is_drained && kind != Kind::Read && (self.is_draining || self.has_held_changes());
        match (kind, self.hosts.changes) {
            (_, Changes::Fail) => Decision::Fail(OpError::Unavailable(NOT_SERVED)),
            (Kind::Read, _) if self.allows_reads() => Decision::Pass,
            (Kind::Read, _) | (_, Changes::Hold) => Decision::Hold,
            (Kind::Objects, _) if self.holds_objects => Decision::Hold,
            _ if waits_behind => Decision::Hold,
            (_, Changes::Serve) if self.is_sequencer => Decision::Pass,
            (Kind::Objects, _) => Decision::Fail(OpError::Unavailable(NOT_SERVED)),
            _ if request.session.is_some() => Decision::Fail(OpError::Unavailable(NOT_SERVED)),
            _ => Decision::Forward,
        }
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
    /// A read, to be made again.
    again: Option<Op>,
    deadline: Duration,
}

impl Sink for Passed {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        match self.gate.upgrade() {
            Some(gate) => gate.passed(self, tag, result),
            None => self.sink.complete(tag, result),
        }
    }
}

#[cfg(test)]
mod tests;
