//! Two arrays with engines on drives in memory, links on loopback, and a mediator.

use bytes::Bytes;
use engine::{
    Change, Core, Engine, KeyValue, Op, OpError, Options, Reply, Sink, StreamChange, StreamService, Tag, call,
};
use link::{Links, LocalArray};
use mediator::{Mediator, MediatorClient, MediatorInfo};
use ondisk::ArrayGeometry;
use parking_lot::Mutex;
use platform::{TemporaryDirectory, clock};
use pod::{Request, Role, Side};
use pods::{Environment, Offers, PodConfig, PodObjects, PodRegister, PodService, PodStatus, Pods};
use replication::Carrier;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use testing::{MemoryDisk, noise};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use types::{BlockRange, LBA_BYTES, Lba, StreamId, VolumeId};

/// Fails a test whose condition never becomes true.
const TOO_LONG: Duration = Duration::from_secs(60);
const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 256 << 20, log_bytes: 32 << 20, segment_bytes: 1 << 20 };
/// Size of a volume.
pub(crate) const VOLUME_BLOCKS: u64 = 16 << 11;

pub(crate) fn stream() -> StreamId {
    StreamId::new(5).unwrap()
}

pub(crate) fn volume() -> VolumeId {
    stream().volume(1)
}

pub(crate) fn data(seed: u64, blocks: u64) -> Bytes {
    noise(seed, usize::try_from(blocks * LBA_BYTES).unwrap()).into()
}

pub(crate) fn write(lba: u64, seed: u64, blocks: u64) -> Op {
    Op::Write { volume: volume(), lba: Lba(lba), data: data(seed, blocks), fua: false }
}

/// Receives one answer.
struct Once(Mutex<Option<oneshot::Sender<Result<Reply, OpError>>>>);

impl Sink for Once {
    fn complete(&self, _: Tag, result: Result<Reply, OpError>) {
        let sender = self.0.lock().take();
        sender.into_iter().for_each(|sender| drop(sender.send(result.clone())));
    }
}

/// A catalog with volumes alone: a value of the engine has their list.
pub(crate) struct Objects {
    engine: Arc<Engine>,
    /// How the other array is introduced.
    register: OnceLock<PodRegister>,
    own_id: String,
    refusal: Mutex<Option<String>>,
    pub(crate) refused: Mutex<Vec<String>>,
}

/// Number of the snapshot that a verification takes.
pub(crate) const VERIFY_SNAPSHOT: u32 = 1 << 20;

const KEY: &[u8] = b"test/objects";

type List = BTreeMap<VolumeId, u64>;

fn parse(image: &[u8]) -> List {
    let (pairs, _) = image.as_chunks::<16>();
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    pairs.iter().map(|pair| (VolumeId(number(&pair[..8])), number(&pair[8..]))).collect()
}

pub(crate) fn encode(list: &List) -> Vec<u8> {
    list.iter().flat_map(|(volume, blocks)| [volume.0, *blocks]).flat_map(u64::to_le_bytes).collect()
}

impl Objects {
    pub(crate) fn list(&self) -> List {
        parse(&self.engine.get(KEY).unwrap_or_default())
    }

    /// Refuses pods from now on.
    pub(crate) fn refuse(&self, reason: &str) {
        *self.refusal.lock() = Some(reason.to_owned());
    }

    fn put(list: &List) -> Change {
        Change::Put { key: KEY.to_vec(), value: encode(list) }
    }

    /// Changes volumes and the list, as the catalog does it: past the gate.
    fn order(&self, stream: StreamId, changes: Vec<Change>, list: &List) -> Result<(), String> {
        let message = [&[2][..], &encode(list)].concat().into();
        let values = vec![Self::put(list)];
        let change = StreamChange { stream, position: None, changes, message, values, needs_empty_deltas: false };
        call(&*self.engine, Op::StreamChange(Box::new(change))).map(|_| ()).map_err(|error| error.to_string())
    }

    fn change(&self, changes: Vec<Change>) -> Result<(), String> {
        call(&*self.engine, Op::Change(changes)).map(|_| ()).map_err(|error| error.to_string())
    }
}

impl PodObjects for Objects {
    fn resync_limit(&self, _: StreamId) -> Option<u64> {
        None
    }
    fn image(&self, _: StreamId) -> Option<Bytes> {
        Some(encode(&self.list()).into())
    }

    fn volume_changes(
        &self,
        _: StreamId,
        image: &[u8],
        held: &[(VolumeId, u64)],
        stale: &[VolumeId],
    ) -> Result<Vec<Change>, String> {
        let (wanted, held) = (parse(image), held.iter().copied().collect::<List>());
        let mut changes = Vec::new();
        for volume in held.keys().filter(|volume| !wanted.contains_key(volume) || stale.contains(volume)) {
            changes.push(Change::DeleteVolume { volume: *volume });
        }
        for (volume, blocks) in wanted {
            match held.get(&volume) {
                Some(held) if !stale.contains(&volume) && *held == blocks => {}
                Some(_) if !stale.contains(&volume) => changes.push(Change::ResizeVolume { volume, blocks }),
                _ => changes.push(Change::CreateVolume { volume, blocks }),
            }
        }
        Ok(changes)
    }

    fn apply(&self, _: StreamId, image: &[u8]) -> Result<(), String> {
        self.change(vec![Self::put(&parse(image))])
    }

    fn drop_pod(&self, _: StreamId) -> Result<(), String> {
        let delete = self.list().into_keys().map(|volume| Change::DeleteVolume { volume });
        self.change(delete.chain([Change::Remove { key: KEY.to_vec() }]).collect())
    }

    fn end_stretch(&self, _: StreamId) -> Result<(), String> {
        Ok(())
    }

    fn verified(&self, _: StreamId) -> Vec<(VolumeId, bool)> {
        self.list().into_keys().map(|volume| (volume, false)).collect()
    }

    fn take_verify_snapshot(&self, stream: StreamId, volume: VolumeId) -> Result<Option<VolumeId>, String> {
        let snapshot = stream.volume(VERIFY_SNAPSHOT);
        let mut list = self.list();
        let Some(blocks) = list.get(&volume).copied() else { return Ok(None) };
        list.insert(snapshot, blocks);
        let changes = vec![Change::CopyVolume { source: volume, destination: snapshot }];
        self.order(stream, changes, &list).map(|()| Some(snapshot))
    }

    fn drop_verify_snapshots(&self, stream: StreamId) -> Result<(), String> {
        let snapshot = stream.volume(VERIFY_SNAPSHOT);
        let mut list = self.list();
        match list.remove(&snapshot) {
            Some(_) => self.order(stream, vec![Change::DeleteVolume { volume: snapshot }], &list),
            None => Ok(()),
        }
    }
}

impl Offers for Objects {
    fn adopt(&self, stream: StreamId, array: &str, offer: &[u8]) -> Result<PodConfig, String> {
        if let Some(reason) = self.refusal.lock().clone() {
            return Err(reason);
        }
        let list = parse(offer);
        let create = list.iter().map(|(volume, blocks)| Change::CreateVolume { volume: *volume, blocks: *blocks });
        self.change(create.chain([Self::put(&list)]).collect())?;
        let side = if *self.own_id < *array { Side::A } else { Side::B };
        let (array, register) = (array.to_owned(), self.register.get().cloned());
        Ok(PodConfig { stream, array, side, is_origin: false, register })
    }

    fn offer(&self, stream: StreamId) -> Option<Bytes> {
        self.image(stream)
    }

    fn described(&self, _: StreamId, _: &[u8]) {}

    fn refused(&self, _: StreamId, reason: &str) {
        self.refused.lock().push(reason.to_owned());
    }

    fn asked(&self, array: &str, question: &[u8]) -> Vec<u8> {
        [array.as_bytes(), b" asked: ", question].concat()
    }
}

/// An array.
pub(crate) struct Site {
    directory: TemporaryDirectory,
    pub(crate) id: String,
    disk: Arc<MemoryDisk>,
    pub(crate) side: Side,
    running: Mutex<Option<Running>>,
    register: OnceLock<PodRegister>,
    /// Its next process knows that the array was put back to an image.
    pub(crate) is_restored: AtomicBool,
}

/// The process of an array.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) links: Arc<Links>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) objects: Arc<Objects>,
    pub(crate) service: Arc<PodService>,
    pub(crate) pods: Arc<Pods>,
    pub(crate) carrier: Arc<Carrier>,
}

fn name_of(side: Side) -> &'static str {
    if side == Side::A { "alpha" } else { "beta" }
}

impl Site {
    fn new(side: Side) -> Self {
        let directory = TemporaryDirectory::new(None, "ibid-pods").unwrap();
        let id = format!("00000000-0000-4000-8000-0000000000{:02x}", side as u8);
        let disk = Arc::new(MemoryDisk::new(GEOMETRY.capacity));
        Core::create(&*disk, &GEOMETRY, [side as u8; 16]).unwrap();
        Self {
            directory,
            id,
            disk,
            side,
            running: Mutex::default(),
            register: OnceLock::new(),
            is_restored: AtomicBool::new(false),
        }
    }

    /// Starts the process. It listens on the address of before, if there is one.
    async fn start(&self, listen: Option<std::net::SocketAddr>, peer: &str) {
        let (core, _) = Core::recover(&*self.disk, Some(Options::for_geometry(&GEOMETRY))).unwrap();
        let engine = Arc::new(Engine::start(core, self.disk.clone()));
        let number = if self.side == Side::A { 1 } else { 2 };
        let local = LocalArray { id: self.id.clone(), name: name_of(self.side).to_owned(), number };
        let links = Links::open(self.directory.path(), "0.1.0", Box::new(move || local.clone())).unwrap();
        let carrier = Carrier::new(engine.clone(), Handle::current());
        let objects = Arc::new(Objects {
            engine: engine.clone(),
            register: self.register.clone(),
            own_id: self.id.clone(),
            refusal: Mutex::default(),
            refused: Mutex::default(),
        });
        let service = PodService::new(engine.clone());
        let environment = Environment {
            engine: engine.clone(),
            carrier: carrier.clone(),
            objects: objects.clone(),
            runtime: Handle::current().into(),
        };
        let pods = Pods::new(environment, objects.clone(), service.clone());
        assert!(links.set_pod_receiver(carrier.clone()));
        if engine.get(b"stretch/00000005/state").is_some() {
            let (config, is_restored) = (self.config(peer, false), self.is_restored.swap(false, Ordering::Relaxed));
            let pods = pods.clone();
            let start = move || {
                if is_restored {
                    pods.declare_restored(&[stream()])?;
                }
                pods.start(config)
            };
            tokio::task::spawn_blocking(start).await.unwrap().unwrap();
        }
        let any = ([127, 0, 0, 1], 0).into();
        links.start(Some(listen.unwrap_or(any))).await.unwrap();
        *self.running.lock() = Some(Running { links, engine, objects, service, pods, carrier });
    }

    pub(crate) fn config(&self, peer: &str, is_origin: bool) -> PodConfig {
        let (array, register) = (peer.to_owned(), self.register.get().cloned());
        PodConfig { stream: stream(), array, side: self.side, is_origin, register }
    }

    /// Returns the process.
    pub(crate) fn running(&self) -> Running {
        self.running.lock().clone().expect("the array runs")
    }

    /// Ends the process without a farewell.
    pub(crate) async fn kill(&self) {
        let running = self.running.lock().take().expect("the array runs");
        running.links.stop();
        let pods = running.pods.clone();
        tokio::task::spawn_blocking(move || pods.stop()).await.unwrap();
        let engine = Arc::downgrade(&running.engine);
        drop(running);
        let waiting = async {
            while Weak::strong_count(&engine) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(TOO_LONG, waiting).await.expect("the engine ends");
    }

    pub(crate) fn submit(&self, op: Op) -> oneshot::Receiver<Result<Reply, OpError>> {
        let (sender, answer) = oneshot::channel();
        let sink: Arc<dyn Sink> = Arc::new(Once(Mutex::new(Some(sender))));
        let service = self.running().service;
        engine::BlockService::submit(&*service, op, 0, &sink);
        engine::BlockService::kick(&*service);
        answer
    }

    pub(crate) async fn run(&self, op: Op) -> Result<Reply, OpError> {
        tokio::time::timeout(TOO_LONG, self.submit(op)).await.expect("the request ends").unwrap()
    }

    pub(crate) async fn read(&self, lba: u64, blocks: u64) -> Result<Bytes, OpError> {
        let range = BlockRange::new(Lba(lba), blocks).unwrap();
        match self.run(Op::Read { volume: volume(), range }).await? {
            Reply::Data(data) => Ok(data),
            other => panic!("{other:?}"),
        }
    }

    /// As [`Self::run`]; `None` if the array does not run, or ends.
    pub(crate) async fn try_run(&self, op: Op) -> Option<Result<Reply, OpError>> {
        let (sender, answer) = oneshot::channel();
        let sink: Arc<dyn Sink> = Arc::new(Once(Mutex::new(Some(sender))));
        let service = self.running.lock().as_ref()?.service.clone();
        engine::BlockService::submit(&*service, op, 0, &sink);
        engine::BlockService::kick(&*service);
        drop((service, sink));
        tokio::time::timeout(TOO_LONG, answer).await.expect("the request ends").ok()
    }

    /// Makes a volume of the pod, as the catalog does it.
    pub(crate) async fn add_volume(&self, volume: VolumeId, blocks: u64) {
        let mut list = self.running().objects.list();
        list.insert(volume, blocks);
        let change = StreamChange {
            stream: stream(),
            position: None,
            changes: vec![Change::CreateVolume { volume, blocks }],
            message: [&[2][..], &encode(&list)].concat().into(),
            values: vec![Objects::put(&list)],
            needs_empty_deltas: false,
        };
        assert_eq!(self.run(Op::StreamChange(Box::new(change))).await, Ok(Reply::Done));
    }

    pub(crate) async fn try_read(&self, lba: u64, blocks: u64) -> Option<Result<Bytes, OpError>> {
        let range = BlockRange::new(Lba(lba), blocks).unwrap();
        match self.try_run(Op::Read { volume: volume(), range }).await? {
            Ok(Reply::Data(data)) => Some(Ok(data)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Some(Err(error)),
        }
    }

    pub(crate) fn status(&self) -> Option<PodStatus> {
        self.running().pods.status(stream())
    }

    pub(crate) async fn wait(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let waiting = async {
            while !is_so(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(TOO_LONG, waiting).await.is_err() {
            let running = self.running();
            let engine = running.engine.stream_status(stream());
            let link = running.links.connections();
            panic!("{} is not {what}: {:#?}, {engine:?}, {link:?}", name_of(self.side), self.status());
        }
    }

    pub(crate) async fn wait_in_step(&self) {
        let is_in_step = |status: PodStatus| status.role == Role::Sync && status.is_in_step;
        self.wait("in step", |site| site.status().is_some_and(is_in_step)).await;
    }

    pub(crate) async fn request(&self, request: Request) -> Result<(), pods::PodError> {
        let pods = self.running().pods;
        tokio::task::spawn_blocking(move || pods.request(stream(), request)).await.unwrap()
    }
}

/// Two arrays that are connected.
pub(crate) struct Pair {
    pub(crate) sites: [Site; 2],
    address: std::net::SocketAddr,
    mediator: Option<MediatorSite>,
}

/// The machine of a mediator.
struct MediatorSite {
    directory: TemporaryDirectory,
    address: std::net::SocketAddr,
    task: Mutex<Option<tokio::task::JoinHandle<String>>>,
}

impl Pair {
    pub(crate) async fn new() -> Self {
        // A failed test shows the warnings. Another test may have set it up.
        let _ = tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
            .with_test_writer()
            .try_init();
        let sites = [Site::new(Side::A), Site::new(Side::B)];
        let [a, b] = [sites[0].id.clone(), sites[1].id.clone()];
        sites[0].start(None, &b).await;
        sites[1].start(None, &a).await;
        let (alpha, beta) = (sites[0].running().links, sites[1].running().links);
        let key = alpha.new_key().unwrap().text.to_string();
        let address = alpha.listening().unwrap();
        beta.connect(&address.to_string(), &key, None).await.unwrap();
        let pair = Self { sites, address, mediator: None };
        pair.wait_connected().await;
        pair
    }

    pub(crate) async fn wait_connected(&self) {
        for at in 0..2 {
            let peer = self.sites[1 - at].id.clone();
            self.sites[at].wait("connected", |site| site.running().carrier.has_session(&peer)).await;
        }
    }

    /// Both arrays use a mediator for pods that come later.
    pub(crate) async fn use_mediator(&mut self) {
        let directory = TemporaryDirectory::new(None, "ibid-pods-mediator").unwrap();
        let mediator = Mediator::bind(directory.path(), ([127, 0, 0, 1], 0).into()).await.unwrap();
        let info = MediatorInfo { fingerprint: mediator.fingerprint(), instance: mediator.instance() };
        let address = mediator.address();
        let links = self.sites.each_ref().map(|site| site.running().links);
        let identities = links.each_ref().map(|links| links.identity());
        let store = mediator::Store::open(directory.path());
        let allowed = mediator::Store::inspect(directory.path()).unwrap();
        drop(store);
        let store = allowed.expect("a mediator has a directory");
        identities.iter().for_each(|identity| assert!(store.allow(identity.fingerprint).unwrap()));
        let task = tokio::spawn(mediator.run());
        for at in 0..2 {
            let timeout = Duration::from_millis(500);
            let client = MediatorClient::new(("127.0.0.1", address.port()), identities[at], Some(info), timeout);
            let register = PodRegister {
                client: Arc::new(client.unwrap()),
                instance: u64::from_le_bytes(info.instance[..8].try_into().unwrap()),
                key: [9; 16],
                peer: Some(identities[1 - at].fingerprint),
            };
            assert!(self.sites[at].register.set(register.clone()).is_ok());
            let _ = self.sites[at].running().objects.register.set(register);
        }
        self.mediator = Some(MediatorSite { directory, address, task: Mutex::new(Some(task)) });
    }

    /// Both arrays begin to use the mediator for the pod, or cease to.
    pub(crate) fn set_mediator(&self, is_used: bool) {
        for site in &self.sites {
            let register = site.register.get().cloned().filter(|_| is_used);
            site.running().pods.set_mediator(stream(), register).unwrap();
        }
    }

    /// Waits until a tie rule is in force at both arrays.
    pub(crate) async fn wait_rule(&self, what: &str, is_so: impl Fn(&PodStatus) -> bool) {
        for site in &self.sites {
            site.wait(what, |site| site.status().is_some_and(|status| status.is_rule_in_force && is_so(&status))).await;
        }
    }

    /// The mediator answers no more.
    pub(crate) async fn stop_mediator(&self) {
        let task = self.mediator.as_ref().and_then(|site| site.task.lock().take()).expect("the mediator runs");
        task.abort();
        let _ = task.await;
    }

    /// The mediator answers again.
    pub(crate) async fn start_mediator(&self) {
        let site = self.mediator.as_ref().expect("the pair has a mediator");
        // Its connections end a little later than its task.
        let binding = async {
            loop {
                match Mediator::bind(site.directory.path(), site.address).await {
                    Ok(mediator) => return mediator,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        };
        let mediator = tokio::time::timeout(TOO_LONG, binding).await.expect("the mediator starts");
        *site.task.lock() = Some(tokio::spawn(mediator.run()));
    }

    /// Simulates a distance at one array.
    pub(crate) fn set_distance(&self, at: usize, distance: link::Distance) {
        let name = name_of(self.sites[1 - at].side);
        self.sites[at].running().links.set_distance(name, distance).unwrap();
    }

    /// The first array gets the pod, and stretches it to the second.
    pub(crate) async fn stretch(&self) {
        self.create_volume().await;
        self.begin().await;
    }

    /// Ends the session of the two arrays. A new one begins at once.
    pub(crate) fn break_session(&self) {
        let links = self.sites[1].running().links;
        links.set_address("alpha", &self.address.to_string()).unwrap();
    }

    /// The first array gets the volume of the pod.
    pub(crate) async fn create_volume(&self) {
        let alpha = &self.sites[0];
        let list = List::from([(volume(), VOLUME_BLOCKS)]);
        let create = Change::CreateVolume { volume: volume(), blocks: VOLUME_BLOCKS };
        let objects = alpha.running().objects;
        let created = tokio::task::spawn_blocking(move || objects.change(vec![create, Objects::put(&list)]));
        created.await.unwrap().unwrap();
    }

    pub(crate) async fn begin(&self) {
        let (pods, config) = (self.sites[0].running().pods, self.sites[0].config(&self.sites[1].id, true));
        tokio::task::spawn_blocking(move || pods.start(config)).await.unwrap().unwrap();
    }

    pub(crate) async fn wait_in_step(&self) {
        for site in &self.sites {
            site.wait_in_step().await;
        }
    }

    /// Starts an array again.
    pub(crate) async fn restart(&self, at: usize) {
        let listen = (at == 0).then_some(self.address);
        self.sites[at].start(listen, &self.sites[1 - at].id).await;
    }

    /// Both arrays have the same content, read from their engines.
    pub(crate) async fn assert_equal(&self) {
        let [a, b] = self.sites.each_ref().map(|site| site.running().engine);
        for lba in (0..VOLUME_BLOCKS).step_by(2048) {
            let range = BlockRange::new(Lba(lba), 2048).unwrap();
            let (a, b) = (a.clone(), b.clone());
            let read = move || {
                let read = |engine: &Engine| call(engine, Op::Read { volume: volume(), range });
                (read(&a), read(&b))
            };
            let (own, other) = tokio::task::spawn_blocking(read).await.unwrap();
            assert!(own.is_ok() && own == other, "at {lba}");
        }
    }
}

/// Returns the time that passes until a condition holds.
pub(crate) async fn time_until<F: Future<Output = ()>>(condition: F) -> Duration {
    let since = clock::now();
    condition.await;
    since.elapsed()
}
