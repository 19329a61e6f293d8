//! L11: effect of UNMAP on concurrent workloads.

use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::load::{self, LoadEnd, LoadProfile, LoadResult};
use crate::machine;
use crate::pattern::{Pattern, Reducibility};
use crate::results::{
    Axis, ExperimentFindings, Figure, MeasureUnit, Plot, Point, ReportNote, Role, Samples, Series, Shape, key,
};
use crate::stats::Spread;
use crate::store::{Disk, LabDatastore};
use crate::trial::{self, figure};
use platform::clock;
use std::cell::Cell;
use std::time::Duration;
use virtual_disk::DiskFormat;

/// Seed of the test data.
pub(super) const SEED: u64 = 11;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
/// Blocks per iteration during a workload; small, so that the UNMAP lasts long enough.
const BLOCKS: u64 = 2000;

/// Where the UNMAP runs relative to the workload, and what the workload does.
struct Case {
    name: &'static str,
    /// The workload's host issues the UNMAP.
    same_host: bool,
    /// The UNMAP is on the workload's datastore.
    same_store: bool,
    format: DiskFormat,
    /// The workload's regions were written before.
    initialised: bool,
    writes: bool,
    /// The published tests found an impact on the workload.
    impact: bool,
}

const CASES: [Case; 6] = [
    Case {
        name: "new regions, same host and datastore",
        same_host: true,
        same_store: true,
        format: DiskFormat::Thin,
        initialised: false,
        writes: true,
        impact: true,
    },
    Case {
        name: "… other host",
        same_host: false,
        same_store: true,
        format: DiskFormat::Thin,
        initialised: false,
        writes: true,
        impact: false,
    },
    Case {
        name: "… other datastore",
        same_host: true,
        same_store: false,
        format: DiskFormat::Thin,
        initialised: false,
        writes: true,
        impact: false,
    },
    Case {
        name: "… initialised regions",
        same_host: true,
        same_store: true,
        format: DiskFormat::Thin,
        initialised: true,
        writes: true,
        impact: false,
    },
    Case {
        name: "… eagerzeroedthick",
        same_host: true,
        same_store: true,
        format: DiskFormat::EagerZeroedThick,
        initialised: false,
        writes: true,
        impact: false,
    },
    Case {
        name: "… reads",
        same_host: true,
        same_store: true,
        format: DiskFormat::Thin,
        initialised: true,
        writes: false,
        impact: false,
    },
];

/// The datastores: as the workload's host mounted them, and as a second host mounted the first.
struct UnmapDatastores {
    same_host: LabDatastore,
    other_host: LabDatastore,
    other_store: Option<LabDatastore>,
}

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    let free = bench.scale.pick(TIB / 8, 4 * TIB).min(bench.target.disk(0)?.bytes / GIB * GIB / 10 * 9);
    let secs = bench.scale.pick(1.0, 10.0);
    bench.say("creating datastores");
    let same_host = LabDatastore::format(bench, 0, "esx01", Some(free)).await?;
    let other_host = LabDatastore::join(bench, 0, "esx02").await?;
    let other_store = if bench.target.disks.len() > 1 {
        Some(LabDatastore::format(bench, 1, "esx01", Some(free.min(bench.target.disk(1)?.bytes / 10 * 9))).await?)
    } else {
        None
    };
    let stores = UnmapDatastores { same_host, other_host, other_store };
    let pattern = Pattern::new(Reducibility::VIRTUAL_MACHINE, SEED);
    *findings = ExperimentFindings {
        setup: format!("datastores of {}, UNMAP of {BLOCKS} blocks per iteration, writes of 32 KB", display::bytes(free)),
        expected: "Only one case is affected: writes to new regions of a thin disk, with UNMAP from the same host to the same datastore.".into(),
        ..ExperimentFindings::default()
    };
    bench.plan((CASES.len() + 2) * bench.repetitions as usize);
    for repetition in 0..bench.repetitions {
        for case in &CASES {
            bench.step(format!("{}, run {}", case.name, repetition + 1));
            if !case.same_store && stores.other_store.is_none() {
                continue;
            }
            let (before, during) = measure(bench, &stores, case, &pattern, secs).await?;
            if during.operations == 0 {
                findings.notes.push(ReportNote::Unsupported(
                    "the target does not support UNMAP, so there is nothing to measure.".into(),
                ));
                return Ok(());
            }
            note(&mut findings.samples, case.name, &before, &during, repetition);
        }
    }
    if stores.other_store.is_none() {
        findings
            .notes
            .push(ReportNote::LeftOut("the case with another datastore, because the target has only one disk.".into()));
    }
    for repetition in 0..bench.repetitions {
        for blocks in trial::alternating(&[200, 60_000], repetition) {
            bench.step(format!("the host’s CPU, {blocks} blocks, run {}", repetition + 1));
            let cpu = processor(&stores.same_host, blocks).await?;
            findings.samples.push(key("host CPU", &blocks.to_string(), "cpu"), repetition, MeasureUnit::Percent, cpu);
        }
    }
    judge(findings);
    Ok(())
}

/// Measures the workload alone and then during UNMAP. The second result is empty if the target has
/// no UNMAP.
async fn measure(
    bench: &LabBench,
    stores: &UnmapDatastores,
    case: &Case,
    pattern: &Pattern,
    secs: f64,
) -> Result<(LoadResult, LoadResult), LabError> {
    let time = Duration::from_secs_f64(secs);
    // The unwritten regions must last for both measurements. The estimate allows for 1.5 GiB/s of
    // writes.
    let region = (secs * 1.5) as u64 * GIB + GIB;
    let size = if case.initialised || !case.writes { GIB / 2 } else { 2 * region };
    let name = format!("load{:04}", bench.serial());
    let (disk, _) = stores.same_host.create(&name, size, case.format, bench.mover()).await?;
    let profile =
        if case.writes { LoadProfile { outstanding: 8, ..LoadProfile::SEQUENTIAL } } else { LoadProfile::READS };
    let half = if case.initialised || !case.writes { size } else { region };
    if case.initialised {
        disk.fill(size, pattern).await?;
    }
    if !case.writes {
        // All data is read once first, so that neither measurement has a cold cache.
        let once = LoadProfile { random_percent: 0, ..profile };
        load::run(&disk, once, 0..size, pattern, LoadEnd::Operations(size / u64::from(profile.bytes))).await?;
    }
    let before = load::run(&disk, profile, 0..half, pattern, LoadEnd::After(time)).await?;
    let store = match (&stores.other_store, case.same_host, case.same_store) {
        (Some(other_store), _, false) => other_store,
        (_, true, _) => &stores.same_host,
        (_, false, _) => &stores.other_host,
    };
    let during = beside_unmap(&disk, store, profile, size - half..size, pattern, time).await?;
    disk.close().await?;
    stores.same_host.remove(&name).await?;
    Ok((before, during))
}

/// Runs the workload for `time` while UNMAP runs repeatedly.
async fn beside_unmap(
    disk: &Disk,
    store: &LabDatastore,
    profile: LoadProfile,
    span: std::ops::Range<u64>,
    pattern: &Pattern,
    time: Duration,
) -> Result<LoadResult, LabError> {
    let (supported, over) = (Cell::new(true), Cell::new(false));
    let begun = platform::clock::now();
    let stop = || !supported.get() || platform::clock::now().duration_since(begun) >= time;
    let workload = async {
        let seen = load::run(disk, profile, span, pattern, LoadEnd::When(&stop)).await;
        over.set(true);
        seen
    };
    let unmap = async {
        while !over.get() {
            let returned = store.unmap(BLOCKS).await?;
            supported.set(returned.supported);
            if !returned.supported {
                break;
            }
        }
        Ok::<(), LabError>(())
    };
    let (mut seen, unmap) = tokio::join!(workload, unmap);
    unmap?;
    if let (Ok(seen), false) = (&mut seen, supported.get()) {
        seen.operations = 0;
    }
    seen
}

/// Returns in percent the share of all processors that this process uses during complete UNMAPs.
async fn processor(store: &LabDatastore, blocks: u64) -> Result<f64, LabError> {
    let (begun, ticks) = (clock::now(), machine::process_cpu_seconds());
    while clock::now().duration_since(begun) < trial::SAMPLE {
        store.unmap(blocks).await?;
    }
    let (time, used) = (clock::now().duration_since(begun), machine::process_cpu_seconds() - ticks);
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    Ok(100.0 * used / time.as_secs_f64().max(1e-9) / processors)
}

fn note(samples: &mut Samples, case: &str, before: &LoadResult, during: &LoadResult, repetition: u32) {
    for (setting, seen) in [("alone", before), ("with UNMAP", during)] {
        samples.push(key(case, setting, "iops"), repetition, MeasureUnit::PerSecond, seen.iops());
        samples.push(key(case, setting, "latency"), repetition, MeasureUnit::Milliseconds, seen.mean_ms());
    }
    let change = 100.0 * (1.0 - during.iops() / before.iops().max(1e-9));
    samples.push(key(case, "with UNMAP", "IOPS lost"), repetition, MeasureUnit::Percent, change);
}

fn judge(findings: &mut ExperimentFindings) {
    let samples = &findings.samples;
    let lost_of = |s: &Samples, case: &Case| s.median(key(case.name, "with UNMAP", "IOPS lost"));
    let point = |setting: &str| {
        let point = |(at, case): (usize, &Case)| {
            Some(Point::spread(at as f64, samples.spread(key(case.name, setting, "iops"))?))
        };
        CASES.iter().enumerate().filter_map(point).collect()
    };
    let plot = Plot {
        title: "IOPS of the workload".to_owned(),
        shape: Shape::Bars,
        x: Axis::linear("", MeasureUnit::Count),
        y: Axis::linear("IOPS", MeasureUnit::PerSecond),
        places: CASES.iter().map(|case| case.name.to_owned()).collect(),
        series: vec![
            Series { name: "alone".to_owned(), role: Role::Nth(2), points: point("alone") },
            Series { name: "with UNMAP".to_owned(), role: Role::With, points: point("with UNMAP") },
        ],
        bands: Vec::new(),
    };
    let cpu = |s: &Samples, blocks: &str| s.median(key("host CPU", blocks, "cpu"));
    let percent = MeasureUnit::Percent;
    // One figure for each case: a mean over several would hide one that is affected.
    let mut figures: Vec<Figure> = CASES
        .iter()
        .map(|case| {
            let lost = figure(format!("IOPS lost, {}", case.name), percent, samples, |s| lost_of(s, case));
            if case.impact { lost } else { lost.published(0.0) }
        })
        .collect();
    figures.extend([
        figure("host CPU during UNMAP, 200 blocks", percent, samples, |s| cpu(s, "200")).published(0.5),
        figure("host CPU during UNMAP, 60 000 blocks", percent, samples, |s| cpu(s, "60000")).published(2.5),
    ]);
    let seen: Vec<String> = CASES
        .iter()
        .filter_map(|case| {
            let spread = samples.spread(key(case.name, "with UNMAP", "IOPS lost"))?;
            let change = match (spread.low > 0.0, spread.high < 0.0) {
                (true, _) => "fewer IOPS in every repetition",
                (_, true) => "more IOPS in every repetition",
                _ => "no consistent change",
            };
            Some(format!("{}: {change}; IOPS lost {}.", case.name, display::spread(spread, MeasureUnit::Percent)))
        })
        .collect();
    let reason = reason(samples);
    findings.plots = vec![plot];
    findings.figures = figures;
    findings.seen = seen;
    findings.add_reason(reason);
}

/// Compares the case affected in the published tests with the others, if the repetitions agree.
fn reason(samples: &Samples) -> Option<String> {
    let spread = |case: &Case| samples.spread(key(case.name, "with UNMAP", "IOPS lost"));
    let affected = CASES.iter().find(|case| case.impact).and_then(spread)?;
    let others: Vec<(&str, Spread)> =
        CASES.iter().filter(|case| !case.impact).filter_map(|case| Some((case.name, spread(case)?))).collect();
    let slower: Vec<&str> = others.iter().filter(|(_, spread)| spread.low > 0.0).map(|(name, _)| *name).collect();
    let highest = others.iter().map(|(_, spread)| spread.high).reduce(f64::max)?;
    let first = if affected.low > highest {
        "Every repetition of the case affected in the published tests lost more than every repetition of the others."
    } else {
        "The repetitions of the case affected in the published tests overlap with those of other cases."
    };
    if slower.is_empty() {
        return Some(first.to_owned());
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Some(format!(
        "{first} Also slower in every repetition: {}. Host, lab and, without --target, the array share {processors} processors.",
        slower.join("; ")
    ))
}
