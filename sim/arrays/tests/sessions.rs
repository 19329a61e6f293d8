//! Sessions of a carrier that begin at about the same time, in every order of threads.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use bytes::Bytes;
use engine::{Change, Core, Engine, Options};
use link::{Frame, PodReceiver, PodSession, SessionEnded, SimulatedSession};
use ondisk::ArrayGeometry;
use platform::clock;
use platform::simulation::{World, WorldOptions};
use platform::tasks::Runtime;
use platform::threads::{Mutex, spawn};
use replication::{Carrier, CarrierOwner};
use std::sync::Arc;
use std::time::Duration;
use testing::MemoryDisk;
use tokio::sync::watch;
use types::{Period, Position, RequestId, StreamId};

const PEER: &str = "00000000-0000-4000-8000-000000000002";
const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 64 << 20, log_bytes: 8 << 20, segment_bytes: 1 << 20 };

/// A session whose frames are lost.
#[derive(Debug)]
struct Lost(u8, watch::Sender<bool>);

impl SimulatedSession for Lost {
    fn id(&self) -> [u8; 16] {
        [self.0; 16]
    }

    fn send(&self, _: Frame) -> Result<(), SessionEnded> {
        Ok(())
    }

    fn end(&self, _: &str) {
        self.1.send_replace(true);
    }

    fn watch(&self) -> watch::Receiver<bool> {
        self.1.subscribe()
    }
}

/// The session that the owner counts on.
#[derive(Default)]
struct Owner(Mutex<Option<[u8; 16]>>);

impl CarrierOwner for Owner {
    fn began(&self, _: &str, session: [u8; 16]) {
        *self.0.lock() = Some(session);
    }

    fn ended(&self, _: &str, session: [u8; 16]) {
        self.0.lock().take_if(|present| *present == session);
    }

    fn message(&self, _: &str, _: [u8; 16], _: StreamId, _: Bytes) -> Result<(), String> {
        Ok(())
    }

    fn ordered(&self, _: StreamId, _: RequestId) {}

    fn named(&self, _: StreamId, _: RequestId) {}

    fn carried_out(&self, _: StreamId, _: RequestId) {}

    fn progressed(&self, _: StreamId) {}

    fn stopped(&self, _: StreamId, _: Period, _: &str) {}

    fn values(&self, _: StreamId, _: Period, _: Position, _: &Bytes) -> Result<Vec<Change>, String> {
        Ok(Vec::new())
    }
}

fn session(number: u8) -> (Arc<Lost>, PodSession) {
    let lost = Arc::new(Lost(number, watch::Sender::new(false)));
    (lost.clone(), PodSession::simulated(PEER, lost))
}

/// A session ends just when it has begun, and the next one begins. Returns the session that the
/// owner counts on.
fn last_session() -> Option<[u8; 16]> {
    let disk = Arc::new(MemoryDisk::new(GEOMETRY.capacity));
    Core::create(&*disk, &GEOMETRY, [1; 16]).unwrap();
    let (core, _) = Core::recover(&*disk, Some(Options::for_geometry(&GEOMETRY))).unwrap();
    let carrier = Carrier::new(Arc::new(Engine::start(core, disk)), Runtime::simulated());
    let owner = Arc::<Owner>::default();
    assert!(carrier.set_owner(owner.clone()));
    let ((first, first_session), (second, second_session)) = (session(1), session(2));
    let own = carrier.clone();
    let thread = spawn("first", move || {
        own.began(&first_session);
        own.ended(&first_session);
    })
    .unwrap();
    while !carrier.has_session(PEER) && !thread.is_finished() {
        clock::sleep(Duration::from_micros(1));
    }
    carrier.began(&second_session);
    thread.join().unwrap();
    let present = *owner.0.lock();
    first.end("");
    second.end("");
    carrier.ended(&second_session);
    drop(carrier);
    clock::sleep(Duration::from_secs(1));
    present
}

#[test]
fn owner_counts_on_the_session_that_began_last() {
    for seed in 0..60 {
        let longest = Duration::from_secs(60);
        let options = WorldOptions { seed, sites: 1, yields: 2, longest, most_steps: 1 << 20, planted: None };
        let (present, _) = World::run(options, last_session).unwrap();
        assert_eq!(present, Some([2; 16]), "seed {seed}");
    }
}
