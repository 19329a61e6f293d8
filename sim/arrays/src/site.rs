//! An array: its drive, and the processes that have it one after the other.

use crate::drive::Medium;
use crate::mediation::{Client, Fingerprint, MediatorSite};
use crate::objects::Objects;
use crate::wire::{Port, Wire};
use engine::{BlockService, Core, Engine, KeyValue, Op, OpError, Options, Reply, Sink, Source, StreamService, Tag};
use ondisk::ArrayGeometry;
use platform::simulation::{World, time};
use platform::tasks::Runtime;
use platform::threads::{JoinHandle, Mutex, mpsc, spawn};
use platform::{Disk, clock};
use pod::{Role, Side};
use pods::{Environment, PodConfig, PodRegister, PodService, PodStatus, Pods};
use replication::Carrier;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use types::{StreamId, VolumeId};

/// The layout of the drives.
pub(crate) const GEOMETRY: ArrayGeometry =
    ArrayGeometry { capacity: 64 << 20, log_bytes: 8 << 20, segment_bytes: 1 << 20 };
/// Time for a process to end.
const ENDING: Duration = Duration::from_secs(60);
/// Time for an orderly hand-over.
const HAND_OVER: Duration = Duration::from_secs(3);

/// The stream of the pod.
pub(crate) fn stream() -> StreamId {
    StreamId::new(5).unwrap_or_else(|| unreachable!("5 is the number of a stream"))
}

/// The volume that hosts use.
pub(crate) fn volume() -> VolumeId {
    stream().volume(1)
}

/// A request of a host.
pub(crate) struct Command {
    pub(crate) op: Op,
    pub(crate) tag: Tag,
    pub(crate) sink: Arc<dyn Sink>,
}

/// The way of the end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The drive loses writes that are not flushed, and the other array hears nothing.
    PowerFailure,
    /// The process is killed.
    Killed,
    /// The process hands over, and takes a checkpoint.
    Orderly,
}

/// A process of an array.
pub(crate) struct Process {
    /// Number among the processes of both arrays.
    pub(crate) number: u64,
    pub(crate) engine: Arc<Engine>,
    pub(crate) objects: Arc<Objects>,
    pub(crate) pods: Arc<Pods>,
    service: Arc<PodService>,
    port: Arc<Port>,
    /// Hosts hear nothing more of it.
    is_dead: Arc<AtomicBool>,
    /// One front for each host: it submits the host's requests.
    fronts: Vec<mpsc::Sender<Command>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// An array.
pub(crate) struct Site {
    pub(crate) number: usize,
    pub(crate) medium: Arc<Medium>,
    wire: Arc<Wire>,
    mediator: Option<Arc<MediatorSite>>,
    hosts: usize,
    process: Mutex<Option<Arc<Process>>>,
    enders: Mutex<Vec<JoinHandle<()>>>,
}

fn id_of(site: usize) -> String {
    format!("00000000-0000-4000-8000-0000000000{:02x}", site + 1)
}

fn side_of(site: usize) -> Side {
    if site == 0 { Side::A } else { Side::B }
}

fn fingerprint_of(site: usize) -> Fingerprint {
    [site as u8 + 1; 32]
}

/// Ends the history: something that the simulator needs has failed.
fn fail(why: &str) -> ! {
    match World::current() {
        Some(world) => world.fail(why),
        None => panic!("{why}"),
    }
}

impl Site {
    pub(crate) fn new(
        number: usize,
        medium: Medium,
        wire: &Arc<Wire>,
        mediator: Option<&Arc<MediatorSite>>,
        hosts: usize,
    ) -> Arc<Self> {
        if let Err(error) = Core::create(&medium.disk, &GEOMETRY, [number as u8 + 1; 16]) {
            fail(&format!("array {number} is not made: {error}"));
        }
        let (process, enders) = (Mutex::default(), Mutex::default());
        let (wire, mediator) = (wire.clone(), mediator.cloned());
        Arc::new(Self { number, medium: Arc::new(medium), wire, mediator, hosts, process, enders })
    }

    fn register(&self) -> Option<PodRegister> {
        let mediator = self.mediator.as_ref()?.clone();
        let client = Arc::new(Client { mediator, site: self.number, own: fingerprint_of(self.number) });
        Some(PodRegister { client, instance: 77, key: [9; 16], peer: Some(fingerprint_of(1 - self.number)) })
    }

    pub(crate) fn config(&self, is_origin: bool) -> PodConfig {
        let (array, side) = (id_of(1 - self.number), side_of(self.number));
        PodConfig { stream: stream(), array, side, is_origin, register: self.register() }
    }

    /// Runs a function on a thread of the array.
    pub(crate) fn run<T: Send + 'static>(self: &Arc<Self>, run: impl FnOnce(&Arc<Self>) -> T + Send + 'static) -> T {
        let site = self.clone();
        let thread = spawn("machine", move || {
            World::enter_site(site.number);
            run(&site)
        });
        match thread.map(JoinHandle::join) {
            Ok(Ok(value)) => value,
            _ => fail("a thread of an array has ended"),
        }
    }

    /// Starts a process.
    pub(crate) fn start(self: &Arc<Self>) {
        self.run(|site| site.boot());
    }

    fn boot(self: &Arc<Self>) {
        let number = self.wire.next_process();
        let drive = self.medium.open(number);
        let options = Options { page_budget: 16 << 20, cache_bytes: 1 << 20, ..Options::for_geometry(&GEOMETRY) };
        let core = match Core::recover(&*drive, Some(options)) {
            Ok((core, _)) => core,
            Err(error) => fail(&format!("array {} does not open: {error}", self.number)),
        };
        let engine = Arc::new(Engine::start(core, drive as Arc<dyn Disk>));
        let carrier = Carrier::new(engine.clone(), Runtime::simulated());
        let (register, side) = (self.register(), side_of(self.number));
        let objects = Arc::new(Objects { engine: engine.clone(), register, side });
        let service = PodService::new(engine.clone());
        let environment = Environment {
            engine: engine.clone(),
            carrier: carrier.clone(),
            objects: objects.clone(),
            runtime: Runtime::simulated(),
        };
        let pods = Pods::new(environment, objects.clone(), service.clone());
        let (receiver, is_closed) = (carrier, AtomicBool::new(false));
        let port = self.wire.open(Port { site: self.number, peer: id_of(1 - self.number), receiver, is_closed });
        if engine.get(b"stretch/00000005/state").is_some()
            && let Err(error) = pods.start(self.config(false))
        {
            fail(&format!("the pod does not start at array {}: {error}", self.number));
        }
        let is_dead = Arc::<AtomicBool>::default();
        let (mut fronts, mut threads) = (Vec::new(), Vec::new());
        for _ in 0..self.hosts {
            let (front, commands) = mpsc::channel::<Command>();
            let service = service.clone();
            let thread = spawn("front", move || {
                while let Ok(Command { op, tag, sink }) = commands.recv() {
                    service.submit(op, tag, &sink);
                    service.kick();
                }
            });
            threads.extend(thread);
            fronts.push(front);
        }
        let threads = Mutex::new(threads);
        let process = Process { number, engine, objects, pods, service, port, is_dead, fronts, threads };
        *self.process.lock() = Some(Arc::new(process));
    }

    pub(crate) fn process(&self) -> Option<Arc<Process>> {
        self.process.lock().clone()
    }

    /// Ends the process. Its threads end later.
    pub(crate) fn end(self: &Arc<Self>, ending: Ending) {
        let Some(process) = self.process.lock().take() else { return };
        if ending != Ending::Orderly {
            // From this moment on nothing of the process can be seen.
            process.is_dead.store(true, Ordering::Relaxed);
            self.medium.end_process(ending == Ending::Killed);
            self.wire.close(&process.port, ending == Ending::Killed);
        }
        let site = self.clone();
        let thread = spawn("ends", move || {
            World::enter_site(site.number);
            site.tear_down(process, ending);
        });
        match thread {
            Ok(thread) => self.enders.lock().push(thread),
            Err(error) => fail(&format!("no thread: {error}")),
        }
    }

    fn tear_down(&self, process: Arc<Process>, ending: Ending) {
        if ending == Ending::Orderly {
            process.pods.hand_over(HAND_OVER);
            self.wire.close(&process.port, true);
        }
        process.pods.stop();
        process.is_dead.store(true, Ordering::Relaxed);
        let engine = Arc::downgrade(&process.engine);
        let threads = std::mem::take(&mut *process.threads.lock());
        let is_last = |process: &Arc<Process>| Arc::strong_count(process) == 1;
        let until = time() + ENDING;
        while !is_last(&process) && time() < until {
            clock::sleep(Duration::from_millis(2));
        }
        drop(process);
        threads.into_iter().for_each(|thread| drop(thread.join()));
        while engine.strong_count() > 0 {
            if time() > until {
                fail(&format!("the engine of array {} does not end", self.number));
            }
            clock::sleep(Duration::from_millis(2));
        }
        if ending == Ending::Orderly {
            self.medium.end_process(true);
        }
    }

    /// Takes a checkpoint.
    pub(crate) fn checkpoint(&self) {
        let Some(process) = self.process() else { return };
        let wanted = process.engine.with_core(Core::request_checkpoint);
        while process.engine.with_core(|core| core.checkpoints() < wanted && core.stopped().is_none()) {
            clock::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until all processes of before have ended.
    pub(crate) fn await_ends(&self) {
        let enders = std::mem::take(&mut *self.enders.lock());
        enders.into_iter().for_each(|thread| drop(thread.join()));
    }

    pub(crate) fn status(&self) -> Option<PodStatus> {
        self.process().and_then(|process| process.pods.status(stream()))
    }

    /// Both arrays serve, and agree.
    pub(crate) fn is_in_step(&self) -> bool {
        self.status().is_some_and(|status| status.role == Role::Sync && status.is_in_step)
    }

    /// Describes the state of the array.
    pub(crate) fn describe(&self) -> String {
        let Some(process) = self.process() else { return format!("array {} does not run", self.number) };
        let (status, stream) = (process.pods.status(stream()), process.engine.stream_status(stream()));
        format!("array {}: {status:?}, {stream:?}", self.number)
    }
}

impl Process {
    /// Gives a request to the front of a host. False if the process does not serve.
    pub(crate) fn submit(&self, host: usize, command: Command) -> bool {
        !self.is_dead.load(Ordering::Relaxed) && self.fronts.get(host).is_some_and(|front| front.send(command).is_ok())
    }

    /// A host gives a request up.
    pub(crate) fn cancel(&self, nexus: u64, tag: Tag) {
        self.service.cancel(nexus, tag);
    }

    /// Returns a sink for the request of a host.
    pub(crate) fn sink(&self, host: usize, answers: mpsc::Sender<(Tag, Result<Reply, OpError>)>) -> Arc<dyn Sink> {
        let source = Source { initiator: host as u64 + 1, nexus: self.number * 100 + host as u64 + 1 };
        Arc::new(HostSink { answers, source, is_dead: self.is_dead.clone() })
    }
}

/// Passes answers to a host.
struct HostSink {
    answers: mpsc::Sender<(Tag, Result<Reply, OpError>)>,
    source: Source,
    is_dead: Arc<AtomicBool>,
}

impl Sink for HostSink {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        if !self.is_dead.load(Ordering::Relaxed) {
            // The host may have ended.
            let _ = self.answers.send((tag, result));
        }
    }

    fn source(&self) -> Option<Source> {
        Some(self.source)
    }
}
