//! One history: two arrays come into step, parts fail while hosts work, and all comes back.

use crate::bug::SimBug;
use crate::drive::Medium;
use crate::fault::Parts;
use crate::hosts::{BLOCKS, Host, Load, lba_of, value_of};
use crate::mediation::MediatorSite;
use crate::objects::List;
use crate::oracle::{Oracle, Trace, fail};
use crate::site::{Ending, GEOMETRY, Site, volume};
use crate::totals::Totals;
use crate::wire::Wire;
use bytes::Bytes;
use engine::{Engine, Op, Reply, call};
use engine_sim::engine_subject::EngineSubject;
use engine_sim::subject::SimSubject as _;
use platform::clock;
use platform::simulation::{SiteClock, World, below, time};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testing::noise;
use types::{BlockRange, LBA_BYTES, Lba};

/// Size of the volume, in 512-byte blocks.
const VOLUME_BLOCKS: u64 = 8192;
/// The end of the volume has content that hosts do not change, in 512-byte blocks.
const STILL_BLOCKS: u64 = 4096;
/// Hosts.
const HOSTS: usize = 4;
/// Time for both arrays to return to step by themselves.
const RETURN: Duration = Duration::from_secs(60);
/// Most bytes that may cross the link when an array returns and nothing has changed.
const QUIET_BYTES: u64 = 512 << 10;

/// The settings of a history, from its seed.
pub(crate) struct Setting {
    pub(crate) seed: u64,
    pub(crate) bug: Option<SimBug>,
    pub(crate) trace: Option<Trace>,
    pub(crate) totals: Arc<Totals>,
}

fn world() -> Arc<World> {
    World::current().unwrap_or_else(|| unreachable!("a history is in a world"))
}

/// Draws the clocks of both arrays.
fn set_clocks(bug: Option<SimBug>) -> [SiteClock; 2] {
    // Rates differ by 4 % at most.
    let most = if bug == Some(SimBug::ClockDrift) { 50_000 } else { 20_000 };
    let is_drifting = bug == Some(SimBug::ClockDrift) || below(3) == 0;
    let rates = match (is_drifting, below(2) == 0) {
        (false, _) => [1_000_000; 2],
        (true, true) => [1_000_000 - most, 1_000_000 + most],
        (true, false) => [1_000_000 + most, 1_000_000 - most],
    };
    let clocks =
        rates.map(|rate| SiteClock { rate, began: Duration::from_secs(1000 + below(100_000)), calendar_shift: 0 });
    (0..2).for_each(|site| world().set_clock(site, clocks[site]));
    clocks
}

/// Makes the parts: two arrays; the first one gets the volume.
fn parts(setting: &Setting) -> Parts {
    let wire = Wire::new();
    let mediator = (below(4) > 0).then(Arc::<MediatorSite>::default);
    let unit = if below(2) == 0 { 512 } else { 4096 };
    let site = |number: usize| {
        let medium = Medium::new(GEOMETRY.capacity, setting.seed * 2 + number as u64, unit);
        if let Some(bug) = setting.bug.and_then(SimBug::of_drive).filter(|_| number == 1) {
            medium.plant(bug);
        }
        Site::new(number, medium, &wire, mediator.as_ref(), HOSTS)
    };
    let sites = [site(0), site(1)];
    let oracle = Arc::new(Oracle::new(BLOCKS, setting.trace.clone()));
    let (totals, clocks) = (setting.totals.clone(), set_clocks(setting.bug));
    Parts { sites, wire, mediator, oracle, totals, clocks }
}

/// Runs a history, as the first thread of its world.
pub(crate) fn run(setting: &Setting) {
    World::enter_site(2);
    let mut parts = parts(setting);
    let wire = parts.wire.clone();
    let dialer = platform::threads::spawn("dialer", move || wire.dial());
    stretch(&parts);
    let is_over = Arc::<AtomicBool>::default();
    let hosts: Vec<_> = (0..HOSTS)
        .map(|number| {
            let (oracle, totals) = (parts.oracle.clone(), parts.totals.clone());
            let load = Load::new(setting.seed % 4 == 3);
            let host = Host::new(number, parts.sites.clone(), oracle, is_over.clone(), totals, load);
            platform::threads::spawn("host", move || host.work())
        })
        .collect();
    clock::sleep(Duration::from_millis(below(1500)));
    parts.fail();
    clock::sleep(Duration::from_millis(below(2000)));
    parts.end_faults();
    await_step(&parts);
    clock::sleep(Duration::from_millis(500));
    is_over.store(true, Ordering::Relaxed);
    for host in hosts {
        if host.is_ok_and(|host| host.join().is_err()) {
            fail("a host has ended");
        }
    }
    await_step(&parts);
    if setting.seed.is_multiple_of(2) {
        return_quietly(&parts);
    }
    compare(&parts);
    finish(&parts);
    parts.wire.end();
    let _ = dialer.map(|dialer| dialer.join());
    Totals::count(&parts.totals.histories);
    parts.totals.seconds.fetch_add(time().as_secs(), Ordering::Relaxed);
    parts.totals.sessions.fetch_add(parts.wire.sessions(), Ordering::Relaxed);
    parts.totals.link_bytes.fetch_add(parts.wire.bytes(), Ordering::Relaxed);
    // Tasks of the last sessions end.
    clock::sleep(Duration::from_secs(5));
}

/// The first array gets the pod with its volume, and stretches it to the second.
fn stretch(parts: &Parts) {
    parts.sites.iter().for_each(Site::start);
    parts.sites[0].run(|site| {
        let Some(process) = site.process() else { fail("the first array does not run") };
        let list = List::from([(volume(), VOLUME_BLOCKS)]);
        if let Err(error) = process.objects.create(&list) {
            fail(&format!("no volume: {error}"));
        }
        let data = Bytes::from(noise(7, (STILL_BLOCKS * LBA_BYTES) as usize));
        let lba = Lba(VOLUME_BLOCKS - STILL_BLOCKS);
        let written = call(&*process.engine, Op::Write { volume: volume(), lba, data, fua: true });
        if let Err(error) = written {
            fail(&format!("no content: {error}"));
        }
        if let Err(error) = process.pods.start(site.config(true)) {
            fail(&format!("no pod: {error}"));
        }
    });
    await_step(parts);
}

/// Waits until both arrays are in step.
fn await_step(parts: &Parts) {
    let until = time() + RETURN;
    while !parts.sites.iter().all(|site| site.is_in_step()) {
        if time() > until {
            let [first, second] = parts.sites.each_ref().map(|site| site.describe());
            fail(&format!("not in step in time: {first}; {second}"));
        }
        clock::sleep(Duration::from_millis(20));
    }
    parts.oracle.note(|| "both arrays are in step");
}

/// An array ends and returns while nothing changes: little crosses the link.
fn return_quietly(parts: &Parts) {
    clock::sleep(Duration::from_secs(1));
    // The log alone does not show that the peer has the last records of an earlier period.
    parts.sites.iter().for_each(|site| site.checkpoint());
    let (before, site) = (parts.wire.bytes(), below(2) as usize);
    let ending = if below(2) == 0 { Ending::PowerFailure } else { Ending::Killed };
    parts.oracle.note(|| format!("array {site} ends while nothing changes: {ending:?}"));
    parts.sites[site].end(ending);
    clock::sleep(Duration::from_millis(below(5000)));
    parts.sites[site].await_ends();
    parts.sites[site].start();
    await_step(parts);
    clock::sleep(Duration::from_secs(1));
    await_step(parts);
    let bytes = parts.wire.bytes() - before;
    parts.oracle.note(|| format!("{bytes} bytes have crossed the link"));
    if bytes > QUIET_BYTES {
        fail(&format!("an array returns without changed content, and {bytes} bytes cross the link"));
    }
    Totals::count(&parts.totals.quiet_returns);
}

/// Both arrays have the same content, which the histories explain.
fn compare(parts: &Parts) {
    let Some(contents) = contents(parts) else { fail("an array does not run") };
    if let Some(at) = contents[0].iter().zip(&contents[1]).position(|(first, second)| first != second) {
        let bytes = at as u64 * LBA_BYTES;
        fail(&format!("the contents of the arrays differ in the 512-byte block {at}, at byte {bytes}"));
    }
    for block in 0..BLOCKS {
        let (planned, lba) = (parts.oracle.plan(block), lba_of(block).0 as usize);
        let data = contents[0][lba..lba + 8].concat();
        parts.oracle.read(block, planned, value_of(block, &data));
    }
    let still = noise(7, (STILL_BLOCKS * LBA_BYTES) as usize);
    if contents[0][(VOLUME_BLOCKS - STILL_BLOCKS) as usize..].concat() != still {
        fail("content that no host has changed is another one");
    }
}

/// Reads the volume at both arrays, in 512-byte blocks.
fn contents(parts: &Parts) -> Option<[Vec<Vec<u8>>; 2]> {
    let read = |site: &Arc<Site>| {
        let process = site.process()?;
        let engine = process.engine.clone();
        drop(process);
        Some(site.run(move |_| read_all(&engine)))
    };
    Some([read(&parts.sites[0])?, read(&parts.sites[1])?])
}

fn read_all(engine: &Engine) -> Vec<Vec<u8>> {
    let Ok(range) = BlockRange::new(Lba(0), VOLUME_BLOCKS) else { return Vec::new() };
    match call(engine, Op::Read { volume: volume(), range }) {
        Ok(Reply::Data(data)) => data.chunks(LBA_BYTES as usize).map(<[u8]>::to_vec).collect(),
        other => fail(&format!("the volume cannot be read: {other:?}")),
    }
}

/// Both arrays stop, and their drives are checked.
fn finish(parts: &Parts) {
    parts.sites.iter().for_each(|site| site.end(Ending::Killed));
    parts.sites.iter().for_each(|site| site.await_ends());
    for site in &parts.sites {
        if let Some(violation) = site.medium.disk.violation() {
            fail(&format!("array {} breaks the contract of its drive: {violation}", site.number));
        }
        if let Err(findings) = EngineSubject::fsck(&site.medium.disk) {
            fail(&format!("fsck finds damage at array {}: {findings}", site.number));
        }
    }
}
