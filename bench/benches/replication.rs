//! The cost of replication: two arrays in one process, a link over loopback with TLS, and volumes
//! of a stream that is durable on both, beside plain volumes of the same arrays. Each row takes
//! `REPLICATION_SECONDS` (3). The drives are in memory; `REPLICATION_DIR` names a directory for
//! drives that are files.
//!
//! Each row of the stream follows one of the plain volume. The distance simulator makes the
//! round-trip times.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints its results"
)]

use bench::load::{Outcome, run_for};
use bytes::Bytes;
use engine::{Change, Core, DeltaMode, Engine, Gate, NewPeriod, Op, Options, Role, StreamService, call};
use link::{Distance, Links, LocalArray};
use ondisk::ArrayGeometry;
use platform::{Disk, FileDisk, TemporaryDirectory};
use replication::{Carrier, Run};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use testing::{MemoryDisk, Rng, noise};
use tokio::runtime::{Handle, Runtime};
use types::{BlockRange, Lba, Period, Position, StreamId, VolumeId};

const CAPACITY: u64 = 4 << 30;
const VOLUME_BYTES: u64 = 256 << 20;
const PLAIN: VolumeId = VolumeId(1);
const MAX_PAYLOAD: u64 = 1 << 20;
/// Round-trip times in microseconds.
const DISTANCES: [u64; 4] = [0, 500, 1000, 4000];

fn stream() -> StreamId {
    StreamId::new(1).expect("a stream")
}

/// An array.
struct Site {
    _directory: TemporaryDirectory,
    id: String,
    links: Arc<Links>,
    engine: Arc<Engine>,
    carrier: Arc<Carrier>,
}

impl Site {
    async fn new(number: u8, parent: Option<&PathBuf>) -> Self {
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
        links.set_pod_receiver(carrier.clone());
        links.start(Some(([127, 0, 0, 1], 0).into())).await.expect("a listener");
        Self { _directory: directory, id, links, engine, carrier }
    }

    /// Begins the period, and attaches the stream to the session.
    fn serve(&self, other: &Self, role: Role) {
        let (period, last) = (Period(1), Position(0));
        self.carrier.share(stream(), &other.id);
        assert!(self.carrier.start(stream(), Run { period, role, last, max_payload: MAX_PAYLOAD }));
        let new = NewPeriod { period, role, gate: Gate::Both, last, max_payload: MAX_PAYLOAD, delta: DeltaMode::Off };
        self.engine.begin_period(stream(), new).expect("a period");
        self.carrier.attach(stream(), last).expect("a session");
    }
}

fn open(disk: Arc<dyn Disk>) -> Engine {
    let geometry = ArrayGeometry::for_capacity(CAPACITY).expect("a geometry");
    Core::create(&*disk, &geometry, [7; 16]).expect("an array");
    let (core, _) = Core::recover(&*disk, Some(Options::for_geometry(&geometry))).expect("a core");
    let engine = Engine::start(core, disk);
    for volume in [PLAIN, stream().volume(1)] {
        call(&engine, Op::Change(vec![Change::CreateVolume { volume, blocks: VOLUME_BYTES / 512 }])).expect("a volume");
    }
    engine.create_stream(stream()).expect("a stream");
    while !engine.stream_status(stream()).is_some_and(|status| status.is_ready) {
        std::thread::sleep(Duration::from_millis(1));
    }
    engine
}

async fn pair(parent: Option<&PathBuf>) -> [Site; 2] {
    let sites = [Site::new(1, parent).await, Site::new(2, parent).await];
    let key = sites[1].links.new_key().expect("a key").text.to_string();
    let address = sites[1].links.listening().expect("an address").to_string();
    sites[0].links.connect(&address, &key, None).await.expect("a connection");
    while !sites[0].carrier.has_session(&sites[1].id) || !sites[1].carrier.has_session(&sites[0].id) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    sites[1].serve(&sites[0], Role::Follower);
    sites[0].serve(&sites[1], Role::Sequencer);
    sites
}

/// Random writes or reads of 4 KiB.
fn load(site: &Site, volume: VolumeId, depth: u64, is_read: bool, pool: &Bytes) -> Outcome {
    let seconds = std::env::var("REPLICATION_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let mut rng = Rng::new(7);
    run_for(&site.engine, depth, seconds, move || {
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
    let replicated = load(&sites[0], stream().volume(1), depth, is_read, pool);
    let added = replicated.latency(500).saturating_sub(plain.latency(500)).saturating_sub(rtt);
    plain.print(&format!("{what}, depth {depth}: plain volume"), 4096);
    replicated.print(&format!("{what}, depth {depth}: on both arrays"), 4096);
    println!(
        "    {:.2} x, median {:.0} us beyond plain volume and round trip\n",
        replicated.per_second / plain.per_second,
        added.as_secs_f64() * 1e6
    );
}

fn main() {
    let parent = std::env::var_os("REPLICATION_DIR").map(PathBuf::from);
    let runtime = Runtime::new().expect("a runtime");
    let sites = runtime.block_on(pair(parent.as_ref()));
    let pool = Bytes::from(noise(1, 16 << 20));
    for rtt_us in DISTANCES {
        let distance = Distance { rtt_us, ..Distance::default() };
        sites[0].links.set_distance("array2", distance).expect("a distance");
        let (name, rtt) = (format!("writes at {} ms", rtt_us as f64 / 1000.0), Duration::from_micros(rtt_us));
        [1, 32].into_iter().for_each(|depth| row(&sites, &name, depth, false, &pool, rtt));
    }
    row(&sites, "reads", 32, true, &pool, Duration::ZERO);
}
