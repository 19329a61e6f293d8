//! Periods of the stream: their begin, and the session for their records.

use super::Driver;
use crate::handle::IMAGE;
use crate::message::PodMessage;
use crate::persist;
use crate::resync::Resync;
use bytes::Bytes;
use engine::{Change, DeltaMode, FollowedRecord, Gate, LogOp, MAX_FOLLOWED_OPS, NewPeriod, Op, StreamRecord};
use pod::{BeginPeriod, Event, StreamDelta, StreamGate, StreamRole};
use replication::{AttachError, Run};
use std::sync::Arc;
use types::{Period, Position};

/// Attempts to begin a period while hosts change the stream.
const ATTEMPTS: usize = 10_000;

fn role_of(role: StreamRole) -> engine::Role {
    match role {
        StreamRole::Sequencer => engine::Role::Sequencer,
        StreamRole::Follower => engine::Role::Follower,
    }
}

fn new_period(new: &BeginPeriod, last: Position) -> NewPeriod {
    NewPeriod {
        period: new.period,
        role: role_of(new.role),
        gate: match new.gate {
            StreamGate::Both => Gate::Both,
            StreamGate::Local => Gate::Local,
        },
        last,
        max_payload: new.max_payload,
        delta: match new.delta {
            StreamDelta::Off => DeltaMode::Off,
            StreamDelta::Alone => DeltaMode::Alone,
            StreamDelta::Source => DeltaMode::Source,
        },
    }
}

impl Driver {
    /// Begins a period.
    pub(super) fn begin(&mut self, new: &BeginPeriod) {
        (self.resync, self.is_attached) = (None, false);
        let begun = match (new.role, new.gate) {
            (StreamRole::Follower, StreamGate::Local) => self.begin_target(new),
            (StreamRole::Follower, StreamGate::Both) => self.begin_following(new, new.last.unwrap_or_default()),
            (StreamRole::Sequencer, _) => self.begin_ordering(new),
        };
        match begun {
            Ok(last) => {
                self.run = Some(*new);
                let facts = self.present_facts();
                self.facts = facts;
                facts.into_iter().for_each(|facts| self.handle.step(Event::Stream(facts)));
                self.handle.step(Event::Began { period: new.period, last });
                self.attach_follower();
            }
            Err(reason) => {
                tracing::error!(stream = %self.handle.stream, ?new, "a period does not begin: {reason}");
                self.begin_again(&reason);
            }
        }
    }

    fn run_of(new: &BeginPeriod, last: Position) -> Run {
        Run { period: new.period, role: role_of(new.role), last, max_payload: new.max_payload }
    }

    /// Begins a period as the array that orders. Its last record is that of the stream, which
    /// hosts may be changing.
    fn begin_ordering(&self, new: &BeginPeriod) -> Result<Position, String> {
        let (engine, carrier, stream) = (&self.environment.engine, &self.environment.carrier, self.handle.stream);
        let crosses = new.gate == StreamGate::Both || new.delta == StreamDelta::Source;
        let mut refusal = String::new();
        for _ in 0..ATTEMPTS {
            let position = engine.stream_status(stream).ok_or("the engine has no such stream")?.position;
            let last = new.last.unwrap_or(position);
            if crosses {
                carrier.start(stream, Self::run_of(new, last));
            } else {
                carrier.stop(stream);
            }
            match engine.begin_period(stream, new_period(new, last)) {
                Ok(()) => return Ok(last),
                Err(error) => refusal = error.to_string(),
            }
            if new.last.is_some() {
                break;
            }
        }
        carrier.stop(stream);
        Err(refusal)
    }

    fn begin_following(&self, new: &BeginPeriod, last: Position) -> Result<Position, String> {
        let (engine, carrier, stream) = (&self.environment.engine, &self.environment.carrier, self.handle.stream);
        engine.begin_period(stream, new_period(new, last)).map_err(|error| error.to_string())?;
        carrier.start(stream, Self::run_of(new, last));
        Ok(last)
    }

    /// Begins to receive content: first the volumes become those of the source, by the last records
    /// before the period.
    fn begin_target(&mut self, new: &BeginPeriod) -> Result<Position, String> {
        let (stream, last) = (self.handle.stream, new.last.unwrap_or_default());
        let image = self.image.clone().ok_or("the other array has not sent its objects")?;
        let changes = self.volume_changes(&image)?;
        let records = changes.len().div_ceil(MAX_FOLLOWED_OPS);
        let before =
            last.0.checked_sub(records as u64).ok_or("the other array's stream is too short for its volumes")?;
        let engine = self.environment.engine.clone();
        engine.begin_period(stream, new_period(new, Position(before))).map_err(|error| error.to_string())?;
        for (number, part) in changes.chunks(MAX_FOLLOWED_OPS).enumerate() {
            let position = Position(before + 1 + number as u64);
            let ops = part.iter().map(op_of).collect::<Option<Vec<_>>>().ok_or("a change of no volume")?;
            let (message, values) = match position == last {
                true => {
                    let message = Bytes::from([&[IMAGE][..], &image].concat());
                    (message, vec![persist::put_image(stream, position, &image)])
                }
                false => (Bytes::new(), vec![]),
            };
            let record = StreamRecord { stream, period: new.period, position, ops, message, request: None };
            let op = Op::Follow(Box::new(FollowedRecord { record, values }));
            engine::call(&*engine, op).map_err(|error| error.to_string())?;
        }
        if records == 0 {
            let put = Op::Change(vec![persist::put_image(stream, last, &image)]);
            engine::call(&*engine, put).map_err(|error| error.to_string())?;
        }
        self.handle.image_has_come(new.period, last);
        self.environment.carrier.start(stream, Self::run_of(new, last));
        Ok(last)
    }

    /// Returns the changes that make the volumes of the stream those of an image.
    fn volume_changes(&self, image: &[u8]) -> Result<Vec<Change>, String> {
        let (environment, stream) = (&self.environment, self.handle.stream);
        let stale = self.stale_volumes();
        let held = environment.engine.stream_volumes(stream);
        environment.objects.volume_changes(stream, image, &held, &stale)
    }

    /// A session has begun for an array that follows: it accepts records from now on.
    pub(super) fn attach_follower(&mut self) {
        let (Some(_), Some(run)) = (self.session, self.run) else { return };
        if run.role != StreamRole::Follower {
            return;
        }
        let carrier = &self.environment.carrier;
        match carrier.attach(self.handle.stream, Position(0)) {
            Ok(()) | Err(AttachError::Attached) => {}
            Err(error) => return tracing::debug!(stream = %self.handle.stream, "not attached: {error}"),
        }
        self.is_attached = true;
        let arrived = carrier.status(self.handle.stream).map(|status| status.arrived).unwrap_or_default();
        self.send(&PodMessage::Ready { period: run.period, arrived });
        self.attach_forwards();
    }

    /// Forwards of hosts go to the other array in this session, once both follow the same period.
    pub(super) fn attach_forwards(&self) {
        let follows = |run: &BeginPeriod| run.role == StreamRole::Follower && run.gate == StreamGate::Both;
        let Some((session, clock)) = self.takes_forwards.filter(|(session, _)| self.session == Some(*session)) else {
            return;
        };
        let Some(link) = self.link else { return };
        if !self.is_attached || !self.run.as_ref().is_some_and(follows) {
            return;
        }
        let (carrier, array, stream) =
            (self.environment.carrier.clone(), self.handle.array.clone(), self.handle.stream);
        let send = move |message: &PodMessage| {
            // A forward that is lost with the session is sent again in the next one.
            carrier.send(&array, link, stream, message.encode(session));
        };
        self.handle.gate.attach_forwards(session, clock, Box::new(send));
    }

    /// The state machine continues in a session.
    pub(super) fn resume(&mut self, session: u64) {
        self.let_records_go(session);
        self.attach_follower();
    }

    /// Records go to the other array in this session, once it accepts them.
    pub(super) fn let_records_go(&mut self, session: u64) {
        self.streams_in = self.session.filter(|own| *own == session);
        self.attach_sequencer();
        // Forwards are accepted from now on.
        let hosts = self.handle.with_machine(pod::Machine::hosts);
        self.serve(hosts);
    }

    /// Sends records if the state machine and the other array are ready for them.
    pub(super) fn attach_sequencer(&mut self) {
        let Some((session, period, arrived)) = self.ready else { return };
        let Some(run) = self.run.filter(|run| run.role == StreamRole::Sequencer && run.period == period) else {
            return;
        };
        if self.is_attached || self.streams_in != Some(session) || self.session != Some(session) {
            return;
        }
        match self.environment.carrier.attach(self.handle.stream, arrived) {
            Ok(()) | Err(AttachError::Attached) => self.is_attached = true,
            Err(error) => {
                tracing::warn!(stream = %self.handle.stream, "the other array cannot continue: {error}");
                return self.begin_again(&error.to_string());
            }
        }
        if run.delta == StreamDelta::Source {
            self.handle.gate.hold_objects(false);
            self.start_resync(period);
        }
    }

    fn start_resync(&mut self, period: Period) {
        let engine: Arc<dyn replication::Replica> = self.environment.engine.clone();
        let objects = self.environment.objects.clone();
        match Resync::start(engine, objects, self.handle.stream, period) {
            Ok(resync) => self.resync = Some(resync),
            Err(error) => self.begin_again(&format!("no thread brings the other array into step: {error}")),
        }
    }
}

/// Returns the operation of the log for a change of volumes.
fn op_of(change: &Change) -> Option<LogOp> {
    Some(match change {
        Change::CreateVolume { volume, blocks } => LogOp::Create { volume: *volume, blocks: *blocks },
        Change::DeleteVolume { volume } => LogOp::Delete { volume: *volume },
        Change::ResizeVolume { volume, blocks } => LogOp::Resize { volume: *volume, blocks: *blocks },
        Change::CopyVolume { .. } | Change::Put { .. } | Change::Remove { .. } => return None,
    })
}
