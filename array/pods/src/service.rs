//! The engine as hosts and the catalog use it: requests on volumes of pods pass their gates.

use crate::border;
use crate::environment::PodEngine;
use crate::exchange::Exchange;
use crate::gate::{HostGate, Notify};
use engine::{
    BlockService, Health, KeyValue, Maintenance, Op, OpError, Owner, PoolSpace, Sink, SpaceByFamily, Tag, VolumeSpace,
};
use platform::threads::RwLock;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use types::{StreamId, VolumeId};

/// The gates of all streams whose volumes were used. That of a pod which is not stretched is open.
pub(crate) struct Gates {
    engine: Arc<dyn PodEngine>,
    gates: RwLock<BTreeMap<StreamId, Arc<HostGate>>>,
    watchers: Arc<RwLock<Vec<Notify>>>,
}

impl Gates {
    /// Returns the gate of a stream.
    pub(crate) fn of(&self, stream: StreamId) -> Arc<HostGate> {
        if let Some(gate) = self.gates.read().get(&stream) {
            return gate.clone();
        }
        let mut gates = self.gates.write();
        let made = gates.entry(stream).or_insert_with(|| {
            let watchers = self.watchers.clone();
            let notify = move || {
                let watchers = watchers.read().clone();
                watchers.iter().for_each(|watcher| watcher());
            };
            let gate = HostGate::new(self.engine.clone(), Arc::new(notify));
            gate.open();
            gate
        });
        made.clone()
    }

    /// Calls `watcher` after each change of the state of a port group.
    pub(crate) fn watch_ports(&self, watcher: Notify) {
        self.watchers.write().push(watcher);
    }

    /// Ends the requests that have waited too long.
    pub(crate) fn expire(&self, now: Duration) {
        let gates: Vec<_> = self.gates.read().values().cloned().collect();
        gates.iter().for_each(|gate| gate.expire(now));
    }
}

/// The engine with the gates of pods, for hosts and for the catalog. A request on a plain volume
/// passes after a test of one bit.
pub struct PodService {
    this: Weak<Self>,
    engine: Arc<dyn PodEngine>,
    gates: Gates,
    /// Copies into pods that both arrays serve, when the pods have started. They end with the pods:
    /// they have the catalog, which has this value.
    exchange: OnceLock<Weak<Exchange>>,
}

/// The stream of a request.
enum Of {
    One(Option<StreamId>),
    /// A copy between two of them.
    Border,
}

fn stream_of(op: &Op) -> Of {
    let volume = match op {
        Op::Read { volume, .. }
        | Op::Write { volume, .. }
        | Op::WriteSame { volume, .. }
        | Op::Zero { volume, .. }
        | Op::Unmap { volume, .. }
        | Op::CompareAndWrite { volume, .. }
        | Op::Or { volume, .. }
        | Op::Compare { volume, .. }
        | Op::Status { volume, .. } => *volume,
        Op::Copy { source, destination, .. } if destination.is_stage() || source.stream() == destination.stream() => {
            *source
        }
        Op::Copy { .. } => return Of::Border,
        Op::CopyIfEqual(copy) => copy.destination,
        Op::StreamChange(change) => return Of::One(Some(change.stream)),
        Op::Flush | Op::Change(_) | Op::Follow(_) | Op::Delta(_) | Op::Sync { .. } => return Of::One(None),
    };
    Of::One(volume.stream())
}

impl PodService {
    /// Creates the service, without a pod: the catalog is opened with it before the pods start.
    pub fn new(engine: Arc<dyn PodEngine>) -> Arc<Self> {
        let gates = Gates { engine: engine.clone(), gates: RwLock::default(), watchers: Arc::default() };
        Arc::new_cyclic(|this| Self { this: this.clone(), engine, gates, exchange: OnceLock::new() })
    }

    /// Sets the value that copies into pods which both arrays serve.
    pub(crate) fn set_exchange(&self, exchange: &Arc<Exchange>) {
        // The pods of an array are made once.
        let _ = self.exchange.set(Arc::downgrade(exchange));
    }

    pub(crate) fn gates(&self) -> &Gates {
        &self.gates
    }
}

impl BlockService for PodService {
    fn submit(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>) {
        let stream = match stream_of(&op) {
            Of::One(stream) => stream,
            Of::Border => {
                let Some(this) = self.this.upgrade() else { return };
                let this: Arc<dyn BlockService> = this;
                return border::copy(&this, self.exchange.get().and_then(Weak::upgrade), op, tag, sink);
            }
        };
        match stream {
            Some(stream) => self.gates.of(stream).submit(op, tag, sink),
            None => self.engine.submit(op, tag, sink),
        }
    }

    fn cancel(&self, nexus: u64, tag: Tag) {
        let gates: Vec<_> = self.gates.gates.read().values().cloned().collect();
        gates.iter().for_each(|gate| gate.cancel(nexus, tag));
    }

    fn kick(&self) {
        self.engine.kick();
    }

    fn write_cache(&self) -> bool {
        self.engine.write_cache()
    }

    fn stopped(&self) -> Option<Arc<str>> {
        self.engine.stopped()
    }

    fn is_read_only(&self) -> bool {
        self.engine.is_read_only()
    }
}

impl KeyValue for PodService {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.engine.get(key)
    }

    fn scan(&self, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.engine.scan(prefix)
    }
}

impl Maintenance for PodService {
    fn space(&self) -> PoolSpace {
        self.engine.space()
    }

    fn volume_space(&self, volume: VolumeId) -> Option<VolumeSpace> {
        self.engine.volume_space(volume)
    }

    fn volume_spaces(&self, volumes: &[VolumeId]) -> Vec<Option<VolumeSpace>> {
        self.engine.volume_spaces(volumes)
    }

    fn account_space(&self, owner: &dyn Fn(VolumeId) -> Owner, timeout: Option<Duration>) -> Option<SpaceByFamily> {
        self.engine.account_space(owner, timeout)
    }

    fn grow(&self, capacity: u64) -> Result<(), OpError> {
        self.engine.grow(capacity)
    }

    fn scrub(&self, bytes_per_second: u64) {
        self.engine.scrub(bytes_per_second);
    }

    fn health(&self) -> Health {
        self.engine.health()
    }
}
