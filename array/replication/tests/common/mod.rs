//! Arrays with an engine, links and a carrier.

use bytes::Bytes;
use engine::{
    BlockService, Change, Core, DeltaMode, Engine, Gate, NewPeriod, Op, OpError, Options, Reply, Role, Sink,
    StreamService, Tag, call,
};
use link::{Frame, Links, LocalArray, PodReceiver, PodSession};
use ondisk::ArrayGeometry;
use parking_lot::Mutex;
use platform::TemporaryDirectory;
use replication::{Carrier, CarrierOwner, Run};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use testing::{MemoryDisk, noise};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, mpsc, oneshot};
use types::{BlockRange, Lba, Period, Position, RequestId, StreamId, VolumeId};

/// Fails a test whose condition never becomes true.
const TOO_LONG: Duration = Duration::from_secs(30);
const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 256 << 20, log_bytes: 32 << 20, segment_bytes: 1 << 20 };
/// Size of the volume.
pub(crate) const VOLUME_BLOCKS: u64 = 16 << 11;
const MAX_PAYLOAD: u64 = 1 << 20;

pub(crate) fn stream() -> StreamId {
    StreamId::new(5).unwrap()
}

pub(crate) fn volume() -> VolumeId {
    stream().volume(1)
}

pub(crate) fn noise_of(bytes: usize) -> Vec<u8> {
    noise(bytes as u64, bytes)
}

pub(crate) fn data(seed: u64, blocks: u64) -> Bytes {
    noise(seed, usize::try_from(blocks * 512).unwrap()).into()
}

/// Receives one answer.
struct Once(Mutex<Option<oneshot::Sender<Result<Reply, OpError>>>>);

impl Sink for Once {
    fn complete(&self, _: Tag, result: Result<Reply, OpError>) {
        let sender = self.0.lock().take();
        sender.into_iter().for_each(|sender| drop(sender.send(result.clone())));
    }
}

/// Attaches the streams again when a session begins, as if both arrays had exchanged their
/// positions.
struct TestOwner {
    stopped: broadcast::Sender<String>,
    began: broadcast::Sender<()>,
    messages: broadcast::Sender<Bytes>,
    session: Mutex<[u8; 16]>,
}

impl CarrierOwner for TestOwner {
    fn began(&self, _: &str, session: [u8; 16]) {
        *self.session.lock() = session;
        let _ = self.began.send(());
    }
    fn ended(&self, _: &str, _: [u8; 16]) {}
    fn message(&self, _: &str, _: [u8; 16], _: StreamId, message: Bytes) -> Result<(), String> {
        let _ = self.messages.send(message);
        Ok(())
    }
    fn progressed(&self, _: StreamId) {}
    fn ordered(&self, _: StreamId, _: RequestId) {}
    fn named(&self, _: StreamId, _: RequestId) {}
    fn carried_out(&self, _: StreamId, _: RequestId) {}
    fn stopped(&self, _: StreamId, _: Period, reason: &str) {
        let _ = self.stopped.send(reason.to_owned());
    }
    fn values(&self, _: StreamId, _: Period, position: Position, message: &Bytes) -> Result<Vec<Change>, String> {
        if message.starts_with(b"refuse") {
            return Err("the message says so".to_owned());
        }
        Ok(vec![Change::Put { key: format!("message {position}").into_bytes(), value: message.to_vec() }])
    }
}

/// An array.
pub(crate) struct Site {
    _directory: TemporaryDirectory,
    id: String,
    pub(crate) links: Arc<Links>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) carrier: Arc<Carrier>,
    owner: Arc<TestOwner>,
}

fn links(directory: &TemporaryDirectory, id: &str, name: &str) -> Arc<Links> {
    let local = LocalArray { id: id.to_owned(), name: name.to_owned(), number: 1 };
    Links::open(directory.path(), "0.1.0", Box::new(move || local.clone())).unwrap()
}

impl Site {
    pub(crate) async fn new(name: &str, number: u8) -> Self {
        let directory = TemporaryDirectory::new(None, "ibid-replication").unwrap();
        let id = format!("00000000-0000-4000-8000-0000000000{number:02x}");
        let links = links(&directory, &id, name);
        let engine = Arc::new(open());
        let carrier = Carrier::new(engine.clone(), Handle::current());
        let owner = Arc::new(TestOwner {
            stopped: broadcast::Sender::new(16),
            began: broadcast::Sender::new(16),
            messages: broadcast::Sender::new(16),
            session: Mutex::default(),
        });
        assert!(carrier.set_owner(owner.clone()));
        assert!(links.set_pod_receiver(carrier.clone()));
        links.start(Some(([127, 0, 0, 1], 0).into())).await.unwrap();
        Self { _directory: directory, id, links, engine, carrier, owner }
    }

    pub(crate) fn share(&self, array: &str) {
        self.carrier.share(stream(), array);
    }

    /// Begins period 1.
    pub(crate) fn begin(&self, role: Role, gate: Gate) {
        let run = Run { period: Period(1), role, last: Position(0), max_payload: MAX_PAYLOAD };
        assert!(self.carrier.start(stream(), run));
        let new = NewPeriod {
            period: run.period,
            role,
            gate,
            last: run.last,
            max_payload: MAX_PAYLOAD,
            delta: DeltaMode::Off,
        };
        self.engine.begin_period(stream(), new).unwrap();
    }

    /// Returns the reasons why streams are not carried any more, from now on.
    pub(crate) fn stopped(&self) -> broadcast::Receiver<String> {
        self.owner.stopped.subscribe()
    }

    /// Returns the present session.
    pub(crate) fn session(&self) -> [u8; 16] {
        *self.owner.session.lock()
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the messages that arrive from now on.
    pub(crate) fn messages(&self) -> broadcast::Receiver<Bytes> {
        self.owner.messages.subscribe()
    }

    pub(crate) fn submit(&self, op: Op) -> oneshot::Receiver<Result<Reply, OpError>> {
        let (sender, answer) = oneshot::channel();
        let sink: Arc<dyn Sink> = Arc::new(Once(Mutex::new(Some(sender))));
        self.engine.submit(op, 0, &sink);
        self.engine.kick();
        answer
    }

    pub(crate) async fn run(&self, op: Op) -> Result<Reply, OpError> {
        tokio::time::timeout(TOO_LONG, self.submit(op)).await.expect("the request ends").unwrap()
    }

    pub(crate) async fn read(&self, lba: u64, blocks: u64) -> Bytes {
        let range = BlockRange::new(Lba(lba), blocks).unwrap();
        match self.run(Op::Read { volume: volume(), range }).await {
            Ok(Reply::Data(data)) => data,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn wait(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let waiting = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if tokio::time::timeout(TOO_LONG, waiting).await.is_err() {
            let status = self.engine.stream_status(stream());
            panic!("not {what}: {:?}, {status:?}", self.links.connections());
        }
    }

    /// Waits until the link was lost for a reason that contains these words.
    pub(crate) async fn wait_problem(&self, words: &str) {
        let mut seen = String::new();
        let links = self.links.clone();
        self.wait(words, || {
            let problem = links.connections().first().and_then(|link| link.problem.clone());
            seen = problem.unwrap_or(std::mem::take(&mut seen));
            seen.contains(words)
        })
        .await;
    }

    pub(crate) async fn wait_position(&self, position: Position) {
        let status = || self.engine.stream_status(stream()).unwrap();
        self.wait("at a position", || status().durable == position).await;
    }

    pub(crate) async fn wait_heard(&self, position: Position) {
        let status = || self.engine.stream_status(stream()).unwrap();
        self.wait("heard", || status().heard == position).await;
    }

    async fn wait_connected(&self, array: &str) {
        self.wait("connected", || self.carrier.has_session(array)).await;
    }
}

fn open() -> Engine {
    let disk = Arc::new(MemoryDisk::new(GEOMETRY.capacity));
    Core::create(&*disk, &GEOMETRY, [7; 16]).unwrap();
    let (core, _) = Core::recover(&*disk, Some(Options::for_geometry(&GEOMETRY))).unwrap();
    let engine = Engine::start(core, disk);
    let created = Op::Change(vec![
        Change::CreateVolume { volume: volume(), blocks: VOLUME_BLOCKS },
        Change::CreateVolume { volume: VolumeId(1), blocks: VOLUME_BLOCKS },
    ]);
    assert_eq!(call(&engine, created), Ok(Reply::Done));
    engine.create_stream(stream()).unwrap();
    while !engine.stream_status(stream()).unwrap().is_ready {
        std::thread::yield_now();
    }
    engine
}

/// Two arrays that share the stream. The first one can order it.
pub(crate) struct Pair {
    pub(crate) sites: [Site; 2],
}

impl Pair {
    pub(crate) async fn new() -> Self {
        let sites = [Site::new("alpha", 1).await, Site::new("beta", 2).await];
        let key = sites[1].links.new_key().unwrap().text.to_string();
        sites[0].links.connect(&sites[1].links.listening().unwrap().to_string(), &key, None).await.unwrap();
        for (site, other) in [(0, 1), (1, 0)] {
            sites[site].wait_connected(&sites[other].id).await;
            sites[site].share(&sites[other].id);
        }
        Self { sites }
    }

    pub(crate) fn begin(&self, site: usize, role: Role, gate: Gate) {
        self.sites[site].begin(role, gate);
    }

    /// Begins the period at both, and carries the stream.
    pub(crate) fn serve(&self, gate: Gate) {
        self.begin(1, Role::Follower, gate);
        self.sites[1].carrier.attach(stream(), Position(0)).unwrap();
        self.begin(0, Role::Sequencer, gate);
        self.sites[0].carrier.attach(stream(), Position(0)).unwrap();
    }

    pub(crate) fn submit(&self, site: usize, op: Op) -> oneshot::Receiver<Result<Reply, OpError>> {
        self.sites[site].submit(op)
    }

    pub(crate) async fn run(&self, site: usize, op: Op) -> Result<Reply, OpError> {
        self.sites[site].run(op).await
    }

    /// Waits for an answer.
    pub(crate) async fn answer(&self, answer: oneshot::Receiver<Result<Reply, OpError>>) -> Result<Reply, OpError> {
        let statuses = || self.sites.each_ref().map(|site| site.engine.stream_status(stream()));
        let answer = tokio::time::timeout(TOO_LONG, answer).await;
        answer.unwrap_or_else(|_| panic!("no answer: {:?}", statuses())).unwrap()
    }

    pub(crate) async fn read(&self, site: usize, lba: u64, blocks: u64) -> Bytes {
        self.sites[site].read(lba, blocks).await
    }

    /// Ends the session, waits for the next one, and attaches the stream to it.
    pub(crate) async fn end_session(&self) {
        let mut began = [0, 1].map(|site: usize| self.sites[site].owner.began.subscribe());
        let address = self.sites[1].links.listening().unwrap().to_string();
        self.sites[0].links.set_address("beta", &address).unwrap();
        for began in &mut began {
            tokio::time::timeout(TOO_LONG, began.recv()).await.expect("a session begins").unwrap();
        }
        let arrived = self.sites[1].carrier.status(stream()).unwrap().arrived;
        self.sites[1].carrier.attach(stream(), arrived).unwrap();
        self.sites[0].carrier.attach(stream(), arrived).unwrap();
    }

    pub(crate) async fn assert_equal(&self) {
        for lba in (0..VOLUME_BLOCKS).step_by(2048) {
            assert_eq!(self.read(0, lba, 2048).await, self.read(1, lba, 2048).await, "at {lba}");
        }
    }
}

/// An array that has nothing but a link, over which a test sends frames.
pub(crate) struct RawPeer {
    _directory: TemporaryDirectory,
    links: Arc<Links>,
    received: Arc<Mutex<Vec<Frame>>>,
    sessions: tokio::sync::Mutex<(mpsc::UnboundedReceiver<PodSession>, Option<PodSession>)>,
}

/// Passes the sessions on. After the first one, the link is not made again, so that the other array
/// keeps the reason of its end.
struct Sessions {
    began: mpsc::UnboundedSender<PodSession>,
    links: OnceLock<Weak<Links>>,
    received: Arc<Mutex<Vec<Frame>>>,
}

impl PodReceiver for Sessions {
    fn began(&self, session: &PodSession) {
        let _ = self.began.send(session.clone());
    }
    fn receive(&self, _: &PodSession, frame: Frame) -> Result<(), String> {
        self.received.lock().push(frame);
        Ok(())
    }
    fn batch_ended(&self, _: &PodSession) {}
    fn ended(&self, _: &PodSession) {
        self.links.get().and_then(Weak::upgrade).into_iter().for_each(|links| links.stop());
    }
}

impl RawPeer {
    pub(crate) async fn new() -> Self {
        let directory = TemporaryDirectory::new(None, "ibid-replication").unwrap();
        let links = links(&directory, &raw_id(), "raw");
        let (sender, sessions) = mpsc::unbounded_channel();
        let received = Arc::<Mutex<Vec<Frame>>>::default();
        let weak = OnceLock::from(Arc::downgrade(&links));
        let receiver = Sessions { began: sender, links: weak, received: received.clone() };
        assert!(links.set_pod_receiver(Arc::new(receiver)));
        links.start(None).await.unwrap();
        Self { _directory: directory, links, received, sessions: tokio::sync::Mutex::new((sessions, None)) }
    }

    pub(crate) fn id(&self) -> String {
        raw_id()
    }

    pub(crate) async fn connect(&self, site: &Site) {
        let key = site.links.new_key().unwrap().text.to_string();
        self.links.connect(&site.links.listening().unwrap().to_string(), &key, None).await.unwrap();
        site.wait_connected(&raw_id()).await;
        let mut sessions = self.sessions.lock().await;
        sessions.1 = sessions.0.recv().await;
    }

    /// Returns the frames that have arrived.
    pub(crate) fn received(&self) -> Vec<Frame> {
        self.received.lock().clone()
    }

    /// Sends a frame in the first session.
    pub(crate) async fn send(&self, frame: Frame) {
        let sessions = self.sessions.lock().await;
        // The session may have ended because of an earlier frame.
        let _ = sessions.1.as_ref().unwrap().send(frame).await;
    }
}

fn raw_id() -> String {
    "00000000-0000-4000-8000-0000000000ff".to_owned()
}
