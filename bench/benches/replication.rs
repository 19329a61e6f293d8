//! The cost of a pod: two arrays in one process, a link over loopback with TLS, and a volume that
//! both serve, beside a plain volume. Each row takes `REPLICATION_SECONDS` (3). The drives are in
//! memory; `REPLICATION_DIR` names a directory for drives that are files.
//!
//! The rows of the pod follow one of the plain volume: by way of the array that orders changes, and
//! of the other. The distance simulator makes the round-trip times. Last, the time until an array
//! is in step again that was absent while hosts wrote.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints its results"
)]

use bench::load::{Outcome, run_for};
use bytes::Bytes;
use engine::{Change, Core, Engine, Op, Options, call};
use link::{Cut, Distance, Links, LocalArray};
use ondisk::ArrayGeometry;
use platform::{Disk, FileDisk, TemporaryDirectory, clock};
use pod::Side;
use pods::{Environment, Offers, PodConfig, PodObjects, PodService, Pods};
use replication::Carrier;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use testing::{MemoryDisk, Rng, noise};
use tokio::runtime::{Handle, Runtime};
use types::{BlockRange, Lba, StreamId, VolumeId};

const CAPACITY: u64 = 4 << 30;
const VOLUME_BYTES: u64 = 256 << 20;
const PLAIN: VolumeId = VolumeId(1);
/// Absence of an array.
const ABSENCE: Duration = Duration::from_secs(10);
/// Writes after pauses.
const PAUSES: u64 = 200;
/// Round-trip times in microseconds.
const DISTANCES: [u64; 4] = [0, 500, 1000, 4000];

fn stream() -> StreamId {
    StreamId::new(1).expect("a stream")
}

fn pod_volume() -> VolumeId {
    stream().volume(1)
}

/// A catalog with one volume, which never changes.
struct OneVolume(Side);

impl PodObjects for OneVolume {
    fn resync_limit(&self, _: StreamId) -> Option<u64> {
        None
    }
    fn image(&self, _: StreamId) -> Option<Bytes> {
        Some(Bytes::from_static(b"one"))
    }
    fn volume_changes(
        &self,
        _: StreamId,
        _: &[u8],
        _: &[(VolumeId, u64)],
        _: &[VolumeId],
    ) -> Result<Vec<Change>, String> {
        Ok(vec![])
    }
    fn apply(&self, _: StreamId, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
    fn drop_pod(&self, _: StreamId) -> Result<(), String> {
        Ok(())
    }
    fn end_stretch(&self, _: StreamId) -> Result<(), String> {
        Ok(())
    }
    fn verified(&self, _: StreamId) -> Vec<(VolumeId, bool)> {
        vec![]
    }
    fn take_verify_snapshot(&self, _: StreamId, _: VolumeId) -> Result<Option<VolumeId>, String> {
        Ok(None)
    }
    fn drop_verify_snapshots(&self, _: StreamId) -> Result<(), String> {
        Ok(())
    }
}

impl Offers for OneVolume {
    fn adopt(&self, stream: StreamId, array: &str, _: &[u8]) -> Result<PodConfig, String> {
        Ok(PodConfig { stream, array: array.to_owned(), side: self.0, is_origin: false, register: None })
    }
    fn offer(&self, stream: StreamId) -> Option<Bytes> {
        self.image(stream)
    }
    fn described(&self, _: StreamId, _: &[u8]) {}

    fn refused(&self, _: StreamId, reason: &str) {
        panic!("the pod is refused: {reason}");
    }

    fn asked(&self, _: &str, _: &[u8]) -> Vec<u8> {
        vec![]
    }
}

/// An array.
struct Site {
    _directory: TemporaryDirectory,
    id: String,
    links: Arc<Links>,
    carrier: Arc<Carrier>,
    service: Arc<PodService>,
    pods: Arc<Pods>,
}

impl Site {
    async fn new(side: Side, parent: Option<&PathBuf>) -> Self {
        let number = side as u8;
        let directory = TemporaryDirectory::new(parent.map(PathBuf::as_path), "ibid-replication").expect("a directory");
        let id = format!("00000000-0000-4000-8000-0000000000{number:02x}");
        let local = LocalArray { id: id.clone(), name: format!("array{number}"), number };
        let links = Links::open(directory.path(), "0.1.0", Box::new(move || local.clone())).expect("links");
        let disk: Arc<dyn Disk> = match parent {
            Some(_) => Arc::new(FileDisk::create(&directory.path().join("drive"), CAPACITY).expect("a drive")),
            None => Arc::new(MemoryDisk::new(CAPACITY)),
        };
        let engine = Arc::new(open(disk));
        let carrier = Carrier::new(engine.clone(), Handle::current());
        let (objects, service) = (Arc::new(OneVolume(side)), PodService::new(engine.clone()));
        let environment = Environment {
            engine: engine.clone(),
            carrier: carrier.clone(),
            objects: objects.clone(),
            runtime: Handle::current().into(),
        };
        let pods = Pods::new(environment, objects, service.clone());
        links.set_pod_receiver(carrier.clone());
        links.start(Some(([127, 0, 0, 1], 0).into())).await.expect("a listener");
        Self { _directory: directory, id, links, carrier, service, pods }
    }

    fn is_in_step(&self) -> bool {
        self.pods.status(stream()).is_some_and(|status| status.is_in_step)
    }
}

fn open(disk: Arc<dyn Disk>) -> Engine {
    let geometry = ArrayGeometry::for_capacity(CAPACITY).expect("a geometry");
    Core::create(&*disk, &geometry, [7; 16]).expect("an array");
    let (core, _) = Core::recover(&*disk, Some(Options::for_geometry(&geometry))).expect("a core");
    let engine = Engine::start(core, disk);
    for volume in [PLAIN, pod_volume()] {
        call(&engine, Op::Change(vec![Change::CreateVolume { volume, blocks: VOLUME_BYTES / 512 }])).expect("a volume");
    }
    engine
}

fn wait(mut is_so: impl FnMut() -> bool) -> Duration {
    let since = clock::now();
    while !is_so() {
        clock::sleep(Duration::from_millis(1));
    }
    since.elapsed()
}

fn pair(runtime: &Runtime, parent: Option<&PathBuf>) -> [Site; 2] {
    let sites = runtime.block_on(async { [Site::new(Side::A, parent).await, Site::new(Side::B, parent).await] });
    let key = sites[1].links.new_key().expect("a key").text.to_string();
    let address = sites[1].links.listening().expect("an address").to_string();
    runtime.block_on(sites[0].links.connect(&address, &key, None)).expect("a connection");
    wait(|| sites[0].carrier.has_session(&sites[1].id) && sites[1].carrier.has_session(&sites[0].id));
    let array = sites[1].id.clone();
    let config = PodConfig { stream: stream(), array, side: Side::A, is_origin: true, register: None };
    sites[0].pods.start(config).expect("a pod");
    wait(|| sites.iter().all(Site::is_in_step));
    sites
}

/// Random writes or reads of 4 KiB.
fn load(site: &Site, volume: VolumeId, depth: u64, is_read: bool, pool: &Bytes) -> Outcome {
    let seconds = std::env::var("REPLICATION_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let mut rng = Rng::new(7);
    run_for(&*site.service, depth, seconds, move || {
        let lba = Lba(rng.below(VOLUME_BYTES / 4096) * 8);
        if is_read {
            return Op::Read { volume, range: BlockRange::new(lba, 8).expect("a range") };
        }
        let from = rng.index(pool.len() - 4096);
        Op::Write { volume, lba, data: pool.slice(from..from + 4096), fua: false }
    })
}

fn row(sites: &[Site; 2], what: &str, depth: u64, is_read: bool, pool: &Bytes, rtt: Duration) {
    let plain = load(&sites[0], PLAIN, depth, is_read, pool);
    plain.print(&format!("{what}, depth {depth}: plain volume"), 4096);
    for (site, way) in sites.iter().zip(["pod, by the array that orders", "pod, by the other array"]) {
        let of_pod = load(site, pod_volume(), depth, is_read, pool);
        let added = of_pod.latency(500).saturating_sub(plain.latency(500)).saturating_sub(rtt);
        of_pod.print(&format!("{what}, depth {depth}: {way}"), 4096);
        println!(
            "    {:.2} x, median {:.0} us beyond plain volume and round trip",
            of_pod.per_second / plain.per_second,
            added.as_secs_f64() * 1e6
        );
    }
    println!();
}

/// The time that the machine adds where threads sleep: the round trips that the link measures, and
/// the median latency of writes to the plain volume after pauses of a round trip.
fn pauses(site: &Site, pool: &Bytes, rtt: Duration) {
    let mut latencies: Vec<Duration> = (0..PAUSES)
        .map(|number| {
            clock::sleep(rtt);
            let (since, data) = (clock::now(), pool.slice(..4096));
            let write = Op::Write { volume: PLAIN, lba: Lba(number * 8), data, fua: false };
            call(&*site.service, write).expect("a write");
            since.elapsed()
        })
        .collect();
    latencies.sort_unstable();
    let measured = site.links.connections().first().and_then(|link| link.rtt);
    let measured = measured.map_or(Duration::ZERO, |measured| measured.median);
    println!(
        "    the link measures {measured:.1?}; a write to the plain volume after a pause of {rtt:?}: {:.1?}\n",
        latencies[latencies.len() / 2]
    );
}

/// The link is cut while hosts write. Prints the time until both are in step again.
fn absence(sites: &[Site; 2], pool: &Bytes) {
    sites[0].links.set_distance("array2", Distance { cut: Cut::Both, ..Distance::default() }).expect("a distance");
    wait(|| sites[0].pods.status(stream()).is_some_and(|status| status.is_alone));
    let since = clock::now();
    let mut written = 0.0;
    while since.elapsed() < ABSENCE {
        written += load(&sites[0], pod_volume(), 32, false, pool).per_second * 3.0;
    }
    let before = sites[0].links.connections().first().map_or(0, |link| link.sent_bytes);
    sites[0].links.set_distance("array2", Distance::default()).expect("a distance");
    let time = wait(|| sites.iter().all(Site::is_in_step));
    let sent = sites[0].links.connections().first().map_or(0, |link| link.sent_bytes) - before;
    println!(
        "absence of {:.0} s with {written:.0} writes: in step again after {:.1} s, {} MiB sent",
        ABSENCE.as_secs_f64(),
        time.as_secs_f64(),
        sent >> 20
    );
}

fn main() {
    let parent = std::env::var_os("REPLICATION_DIR").map(PathBuf::from);
    let runtime = Runtime::new().expect("a runtime");
    let sites = pair(&runtime, parent.as_ref());
    let pool = Bytes::from(noise(1, 16 << 20));
    for rtt_us in DISTANCES {
        let distance = Distance { rtt_us, ..Distance::default() };
        sites[0].links.set_distance("array2", distance).expect("a distance");
        let (name, rtt) = (format!("writes at {} ms", rtt_us as f64 / 1000.0), Duration::from_micros(rtt_us));
        [1, 32].into_iter().for_each(|depth| row(&sites, &name, depth, false, &pool, rtt));
        pauses(&sites[0], &pool, rtt);
    }
    row(&sites, "reads", 32, true, &pool, Duration::ZERO);
    absence(&sites, &pool);
    sites.iter().for_each(|site| site.pods.stop());
}
