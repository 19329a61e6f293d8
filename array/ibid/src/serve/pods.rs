//! Pods on two arrays: the catalog, the links and the REST interface meet the pods.

mod check;
mod control;
mod evacuation;
mod functions;
mod offers;
mod registers;
mod reports;
mod reservations;

use crate::problem::Problem;
use catalog::{Catalog, Pod, PodImage};
use engine::{Change, Service};
use iscsi_target::{
    FunctionEnd, IscsiTarget, PodPortStates, PodPorts, PortState, PortWatcher, SharedFunction, SharedReservationChange,
};
use link::Links;
use parking_lot::{Mutex, RwLock};
use platform::clock;
use pod::{Ports, Request, Side};
use pods::{Environment, PodConfig, PodEngine, PodObjects, PodRegister, PodService, Pods};
use replication::Carrier;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use types::{ObjectId, StreamId, VolumeId};

/// Time between two looks for snapshots that verifications have left.
const TIDY_INTERVAL: Duration = Duration::from_secs(10);

/// Functions that other arrays are asked for at a time. An array answers few questions at once.
const MOST_ASKED: usize = 4;

/// Executes a task management function of the other array on the sessions of this one.
type ExecuteHere = Arc<dyn Fn(&[VolumeId], SharedFunction, FunctionEnd) + Send + Sync>;

/// Takes up a change of reservations that the other array has made.
type ReserveHere = Arc<dyn Fn(VolumeId, SharedReservationChange, FunctionEnd) + Send + Sync>;

/// Calls of the iSCSI target.
pub(super) struct TargetCalls {
    /// Asks whether two arrays can have the reservations of a volume.
    can_share: Box<dyn Fn(ObjectId) -> bool + Send + Sync>,
    execute: ExecuteHere,
    reserve: ReserveHere,
}

impl TargetCalls {
    /// Returns the calls of a target.
    pub(super) fn of(target: &IscsiTarget) -> Self {
        Self {
            can_share: Box::new(target.sharing_check()),
            execute: Arc::new(target.shared_functions()),
            reserve: Arc::new(target.shared_reservations()),
        }
    }
}

/// Facts about the ports of the other array of a pod.
#[derive(Clone, Copy, Debug)]
struct PeerPorts {
    number: u8,
    portals: u16,
}

/// The pods of the array that two arrays serve.
pub(super) struct StretchedPods {
    this: Weak<Self>,
    catalog: Arc<Catalog>,
    links: Arc<Links>,
    /// Taken when the array stops: they use this value as their catalog.
    pods: RwLock<Option<Arc<Pods>>>,
    /// The engine without gates. Taken when the array stops.
    engine: RwLock<Option<Arc<dyn PodEngine>>>,
    /// Number of iSCSI portals of this array.
    portals: u16,
    peers: RwLock<BTreeMap<StreamId, PeerPorts>>,
    /// Why the other array refuses a pod.
    refusals: Mutex<BTreeMap<StreamId, String>>,
    /// Taken when the array stops, because the target has this value.
    target: Mutex<Option<TargetCalls>>,
    /// Permits for functions that other arrays are asked for.
    asking: Arc<Semaphore>,
}

impl StretchedPods {
    /// Creates the pods. They serve from [`Self::start`] on.
    pub(super) fn new(catalog: Arc<Catalog>, links: Arc<Links>, portals: usize) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            catalog,
            links,
            pods: RwLock::default(),
            engine: RwLock::default(),
            portals: u16::try_from(portals).unwrap_or(u16::MAX),
            peers: RwLock::default(),
            refusals: Mutex::default(),
            target: Mutex::default(),
            asking: Arc::new(Semaphore::new(MOST_ASKED)),
        })
    }

    /// Starts the pods of the catalog. Hosts are admitted after this, and links are made. An array
    /// that `is_restored` was put back to an image of an earlier time.
    pub(super) async fn start(
        self: &Arc<Self>,
        engine: Arc<dyn PodEngine>,
        service: Arc<PodService>,
        target: TargetCalls,
        is_restored: bool,
    ) -> Result<(), Problem> {
        *self.target.lock() = Some(target);
        *self.engine.write() = Some(engine.clone());
        let carrier = Carrier::new(engine.clone(), Handle::current());
        let environment =
            Environment { engine, carrier: carrier.clone(), objects: self.clone(), runtime: Handle::current().into() };
        let pods = Pods::new(environment, self.clone(), service);
        *self.pods.write() = Some(pods);
        self.links.set_pod_receiver(carrier);
        let order = self.this.clone();
        self.catalog.set_order(Arc::new(move |pod: &Pod| {
            let pods = order.upgrade().and_then(|this| this.pods());
            let status = pods.zip(pod.stretch.as_ref()).and_then(|(pods, stretch)| pods.status(stretch.stream()));
            status.is_none_or(|status| status.is_sequencer && (status.is_in_step || status.is_alone))
        }));
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.start_all(is_restored)).await??;
        tokio::spawn(tidy(self.this.clone()));
        Ok(())
    }

    fn start_all(&self, is_restored: bool) -> Result<(), Problem> {
        let state = self.catalog.state();
        if is_restored {
            let names: Vec<&str> = state.stretched_pods().map(|pod| pod.name.as_str()).collect();
            let streams: Vec<_> =
                state.stretched_pods().filter_map(|pod| Some(pod.stretch.as_ref()?.stream())).collect();
            let declared = self.pods().map_or(Ok(()), |pods| pods.declare_restored(&streams));
            declared.map_err(|error| {
                Problem::new(format!("the pods cannot be marked as put back to an image: {error}"))
                    .hint("no pod has been served; run the command again with --restored")
            })?;
            tracing::warn!(
                "the array was put back to an image; pods that get all content from the other array: {}",
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            );
        }
        for pod in state.stretched_pods() {
            let config = self.config_of(pod);
            let started = config.and_then(|config| {
                let pods = self.pods().ok_or("the pods are not ready")?;
                pods.start(config).map_err(|error| error.to_string())
            });
            if let Err(error) = started {
                tracing::error!(pod = pod.name, "the pod is not served: {error}");
            }
        }
        Ok(())
    }

    /// Hands the pods over to the other arrays, and ends their service. Blocks.
    pub(super) fn stop(&self, patience: Duration) {
        if let Some(pods) = self.pods() {
            pods.hand_over(patience);
        }
        self.end();
    }

    /// Ends the service of the pods, and what this value has of others that have it.
    fn end(&self) {
        // Not in the condition, which would hold the lock: a pod that ends asks for its ports.
        let pods = self.pods.write().take();
        if let Some(pods) = pods {
            pods.stop();
        }
        *self.target.lock() = None;
        *self.engine.write() = None;
    }

    fn pods(&self) -> Option<Arc<Pods>> {
        self.pods.read().clone()
    }

    fn find(&self, stream: StreamId) -> Option<Arc<Pod>> {
        let state = self.catalog.state();
        let found = state.stretched_pods().find(|pod| pod.stretch.as_ref().map(|s| s.stream()) == Some(stream));
        found.cloned()
    }

    fn side_of(&self, peer: &str) -> Side {
        if *self.catalog.array().id < *peer { Side::A } else { Side::B }
    }

    /// Returns the description of a pod for the pods.
    fn config_of(&self, pod: &Pod) -> Result<PodConfig, String> {
        let stretch = pod.stretch.as_ref().ok_or("the pod is on one array")?;
        Ok(PodConfig {
            stream: stretch.stream(),
            array: stretch.peer.id.clone(),
            side: self.side_of(&stretch.peer.id),
            is_origin: stretch.is_origin,
            register: self.register_of(pod)?,
        })
    }

    /// Returns the register of a pod, if it has a mediator.
    fn register_of(&self, pod: &Pod) -> Result<Option<PodRegister>, String> {
        let Some(stretch) = pod.stretch.as_ref() else { return Ok(None) };
        let Some(mediator) = &stretch.mediator else { return Ok(None) };
        let connections = self.links.connections();
        let peer = connections.iter().find(|link| link.array == stretch.peer.id);
        let malformed = || format!("the register of pod {} is malformed", pod.name);
        let (client, instance) = registers::client(mediator, self.links.identity())?;
        Ok(Some(PodRegister {
            client,
            instance,
            key: registers::bytes_of(&stretch.register).ok_or_else(malformed)?,
            peer: peer.map(|peer| registers::bytes_of(&peer.certificate).ok_or_else(malformed)).transpose()?,
        }))
    }

    /// Returns the port states of a pod that this array does not serve although the catalog has it
    /// on two: it begins, or the array stops.
    fn ports_without(&self, stream: StreamId) -> Option<PodPortStates> {
        self.find(stream)?;
        let own = if self.pods().is_some() { PortState::Transitioning } else { PortState::Unavailable };
        let PeerPorts { number, portals } = self.peer_ports(stream);
        Some(PodPortStates { own, peer: PortState::Active, peer_number: number, peer_ports: portals })
    }

    /// Returns the facts about the ports of the other array. Until it has described itself, only
    /// one group is reported.
    fn peer_ports(&self, stream: StreamId) -> PeerPorts {
        let peer = self.peers.read().get(&stream).copied();
        peer.unwrap_or_else(|| PeerPorts { number: self.catalog.array().number, portals: 1 })
    }

    /// Gives a pod the settings of the catalog.
    fn apply_settings(&self, pod: &Pod) -> Result<(), String> {
        let (Some(stretch), Some(pods)) = (pod.stretch.as_ref(), self.pods()) else { return Ok(()) };
        let (stream, side) = (stretch.stream(), self.side_of(&stretch.peer.id));
        pods.set_mediator(stream, self.register_of(pod)?).map_err(|error| error.to_string())?;
        let preferred = if stretch.prefers_peer { side.other() } else { side };
        pods.request(stream, Request::Prefer(preferred)).map_err(|error| error.to_string())
    }
}

/// Ends the pods when it is dropped.
pub(super) struct Ending(pub(super) Arc<StretchedPods>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl PodPorts for StretchedPods {
    fn ports(&self, content: VolumeId) -> Option<PodPortStates> {
        // A plain volume costs the test of one bit.
        let stream = content.stream()?;
        let Some(hosts) = self.pods().and_then(|pods| pods.hosts(stream)) else { return self.ports_without(stream) };
        let state = |ports: Ports| match ports {
            Ports::Active => PortState::Active,
            Ports::Transitioning => PortState::Transitioning,
            Ports::Unavailable => PortState::Unavailable,
        };
        let PeerPorts { number, portals } = self.peer_ports(stream);
        Some(PodPortStates {
            own: state(hosts.own_ports),
            peer: state(hosts.peer_ports),
            peer_number: number,
            peer_ports: portals,
        })
    }

    fn execute(&self, contents: Vec<VolumeId>, function: SharedFunction, end: FunctionEnd) {
        self.execute_at_peers(contents, function, end);
    }

    fn reservations_changed(&self, content: VolumeId, change: SharedReservationChange, end: FunctionEnd) {
        self.change_at_peer(content, &change, end);
    }

    fn subscribe(&self, watcher: PortWatcher) {
        if let Some(pods) = self.pods() {
            pods.watch_ports(watcher);
        }
    }
}

impl PodObjects for StretchedPods {
    fn image(&self, stream: StreamId) -> Option<bytes::Bytes> {
        let pod = self.find(stream)?;
        let message = self.catalog.state().pod_image(&pod).to_message().ok()?;
        Some(bytes::Bytes::from(message).slice(1..))
    }

    fn resync_limit(&self, stream: StreamId) -> Option<u64> {
        self.find(stream)?.resync_limit
    }

    fn volume_changes(
        &self,
        stream: StreamId,
        image: &[u8],
        held: &[(VolumeId, u64)],
        stale: &[VolumeId],
    ) -> Result<Vec<Change>, String> {
        let image = image_of(stream, image)?;
        let kept: Vec<_> = held.iter().copied().filter(|(volume, _)| !stale.contains(volume)).collect();
        let gone = held.iter().filter(|(volume, _)| stale.contains(volume));
        let deleted = gone.map(|(volume, _)| Change::DeleteVolume { volume: *volume });
        Ok(deleted.chain(image.volume_changes(&kept)).collect())
    }

    fn apply(&self, stream: StreamId, image: &[u8]) -> Result<(), String> {
        let image = image_of(stream, image)?;
        let pod = self.find(stream).ok_or("the catalog has no such pod")?;
        let applied = self.catalog.change(|draft| draft.apply_pod_image(pod.id, &image).map(|_| ()));
        applied.map_err(|error| error.to_string())
    }

    fn drop_pod(&self, stream: StreamId) -> Result<(), String> {
        let Some(pod) = self.find(stream) else { return Ok(()) };
        tracing::warn!(pod = pod.name, "the pod was removed from this array, with its volumes");
        self.catalog.change(|draft| draft.drop_pod(&pod.name)).map_err(|error| error.to_string())
    }

    fn verified(&self, stream: StreamId) -> Vec<(VolumeId, bool)> {
        let Some(pod) = self.find(stream) else { return Vec::new() };
        let state = self.catalog.state();
        let live = state.volumes_of_pod(&pod).filter(|volume| volume.destroyed_ms.is_none());
        live.flat_map(|volume| {
            let snapshots = state.snapshots_of(volume.id).filter(|snapshot| snapshot.destroyed_ms.is_none());
            let snapshots = snapshots.filter(|snapshot| snapshot.suffix != catalog::VERIFY_SUFFIX);
            let fixed = snapshots.map(|snapshot| (snapshot.content(), true));
            std::iter::once((volume.content(), false)).chain(fixed).collect::<Vec<_>>()
        })
        .collect()
    }

    fn take_verify_snapshot(&self, stream: StreamId, volume: VolumeId) -> Result<Option<VolumeId>, String> {
        let pod = self.find(stream).ok_or("the catalog has no such pod")?;
        let taken = self.catalog.change(|draft| draft.take_verify_snapshot(pod.id, volume, now_ms()));
        taken.map(|taken| taken.map(|snapshot| snapshot.content())).map_err(|error| error.to_string())
    }

    fn drop_verify_snapshots(&self, stream: StreamId) -> Result<(), String> {
        let Some(pod) = self.find(stream) else { return Ok(()) };
        let state = self.catalog.state();
        let has_any = state
            .volumes_of_pod(&pod)
            .any(|volume| state.snapshots_of(volume.id).any(|snapshot| snapshot.suffix == catalog::VERIFY_SUFFIX));
        if !has_any {
            return Ok(());
        }
        let dropped = self.catalog.change(|draft| draft.drop_verify_snapshots(pod.id));
        dropped.map(|_| ()).map_err(|error| error.to_string())
    }

    fn end_stretch(&self, stream: StreamId) -> Result<(), String> {
        let Some(pod) = self.find(stream) else { return Ok(()) };
        self.refusals.lock().remove(&stream);
        self.keep_reservations(&pod)?;
        let ended = self.catalog.change(|draft| draft.unstretch_pod(&pod.name).map(|_| ()));
        tracing::info!(pod = pod.name, "the pod is on this array alone");
        ended.map_err(|error| error.to_string())?;
        // One that ended with the stretch had no time to remove its own.
        if let Err(error) = self.catalog.change(|draft| draft.drop_verify_snapshots(pod.id)) {
            tracing::warn!(pod = pod.name, "snapshots of a verification stay: {error}");
        }
        Ok(())
    }
}

/// Removes from time to time what verifications have left.
async fn tidy(stretched: Weak<StretchedPods>) {
    loop {
        tokio::time::sleep(TIDY_INTERVAL).await;
        let Some(pods) = stretched.upgrade().and_then(|stretched| stretched.pods()) else { return };
        if tokio::task::spawn_blocking(move || pods.tidy_verifications()).await.is_err() {
            return;
        }
    }
}

fn image_of(stream: StreamId, image: &[u8]) -> Result<PodImage, String> {
    let message = [&[catalog::POD_IMAGE_MESSAGE][..], image].concat();
    let image = PodImage::from_message(&message).map_err(|error| error.to_string())?;
    match image.stream == stream.number() {
        true => Ok(image),
        false => Err("an image of another pod".to_owned()),
    }
}

/// Returns the engine with the gates of pods, for the catalog and for hosts.
pub(super) fn service(engine: Arc<dyn PodEngine>) -> (Arc<PodService>, Arc<dyn Service>) {
    let service = PodService::new(engine);
    (service.clone(), service)
}

fn now_ms() -> u64 {
    clock::unix_millis()
}
