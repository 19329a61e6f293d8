//! L1: many virtual machines power on while a workload runs on the same datastore.

use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::load::{self, LoadEnd, LoadProfile, LoadResult, TICK};
use crate::pattern::{Pattern, Reducibility};
use crate::results::{
    Axis, Band, ExperimentFindings, Goal, MeasureUnit, Plot, Point, ReportNote, Samples, Series, Shape, key,
};
use crate::stats;
use crate::store::{Disk, LabDatastore};
use crate::trial::{self, ATS, PlotSpec, Setting, figure};
use futures_util::future::try_join_all;
use multipath::CountersSnapshot;
use std::cell::Cell;
use std::time::Duration;
use virtual_disk::{BootWorkload, DiskFormat, FileAccess};

const MIB: u64 = 1 << 20;
/// Seed of the test data.
pub(super) const SEED: u64 = 5;
const GIB: u64 = 1 << 30;
/// Number of disks of the workload.
const DISKS: usize = 5;
/// The workload has a fixed rate of about 2000 operations per second over all disks. A workload
/// limited only by the array would also measure how the storm shares the machine.
const WORKLOAD: LoadProfile = LoadProfile { outstanding: 2, pace: Duration::from_millis(5), ..LoadProfile::BUSY };
/// I/O of a booting guest: small reads and a few writes, between the metadata changes of its host.
const BOOT: BootWorkload = BootWorkload { reads: 24, writes: 4, depth: 1, seed: 150 };
/// Disk and memory of a virtual machine. The memory size is also that of the swap file, which is
/// created at power-on.
const BOOT_DISK: u64 = 16 * MIB;
const BOOT_MEMORY_MIB: u32 = 16;
/// Pause between power-off and the next power-on of a machine.
const THINK: Duration = Duration::from_millis(100);
/// Time that the workload runs alone, before the storm and after it.
const QUIET: Duration = Duration::from_secs(2);

/// Size of the storm.
#[derive(Clone, Copy)]
struct Storm {
    machines: u32,
    hosts: u32,
    time: Duration,
}

/// Effect of one storm on the workload.
struct StormResult {
    /// Operations per second of the workload over time.
    curve: Vec<Point>,
    /// The values of the curve during the storm.
    rates: Vec<f64>,
    before: Vec<f64>,
    /// Number of completed boots.
    booted: u64,
    /// Commands of the storm's hosts to the device.
    hosts: CountersSnapshot,
    /// Commands of the workload's host.
    own: CountersSnapshot,
}

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    let storm = bench.scale.pick(
        Storm { machines: 24, hosts: 4, time: Duration::from_secs(5) },
        Storm { machines: 150, hosts: 8, time: Duration::from_secs(30) },
    );
    *findings = ExperimentFindings {
        setup: format!(
            "{} machines on {} hosts power on repeatedly for {}; the workload has {DISKS} disks on the same datastore and a rate of \
             {} operations per second",
            storm.machines,
            storm.hosts,
            display::seconds(storm.time.as_secs_f64()),
            display::number(DISKS as f64 * WORKLOAD.outstanding as f64 / WORKLOAD.pace.as_secs_f64())
        ),
        expected: "With reservations the workload’s IOPS vary strongly; with ATS they hardly change.".into(),
        ..ExperimentFindings::default()
    };
    bench.plan(1 + 2 * bench.repetitions as usize);
    bench.step("creating a datastore, five disks and the machines");
    prepare(bench, storm).await?;
    let mut storms: [Vec<StormResult>; 2] = [Vec::new(), Vec::new()];
    for repetition in 0..bench.repetitions {
        for setting in trial::alternating(&ATS, repetition) {
            bench.step(format!("{}, run {} of {}", setting.name, repetition + 1, bench.repetitions));
            let result = run_storm(bench, storm, setting).await?;
            note(&mut findings.samples, &result, setting, repetition);
            storms[usize::from(setting.on)].push(result);
        }
    }
    // A curve and the numbers beside it are of the same repetition: the median by variation.
    let variations = |storms: &[StormResult]| -> Vec<f64> {
        storms.iter().map(|storm| stats::variation(&storm.rates).unwrap_or(0.0)).collect()
    };
    let median = storms.each_ref().map(|storms| {
        let run = trial::median_run(&variations(storms))?;
        Some((storms.get(run)?, format!("run {} of {}, the median", run + 1, storms.len())))
    });
    if let [Some(off), Some(on)] = &median {
        judge(findings, off, on);
    }
    Ok(())
}

fn disk_name(index: usize) -> String {
    format!("work{index}")
}

fn machine_name(index: u32) -> String {
    format!("boot{index:03}")
}

/// Creates the workload's disks and a small boot disk per machine on a new datastore.
/// The workload's disks are eagerly zeroed, so that writing to them changes no metadata.
async fn prepare(bench: &LabBench, storm: Storm) -> Result<(), LabError> {
    let store = LabDatastore::format(bench, 0, "esx01", Some(64 * GIB)).await?;
    let settings = bench.mover();
    for index in 0..DISKS {
        let (disk, _) = store.create(&disk_name(index), 256 * MIB, DiskFormat::EagerZeroedThick, settings).await?;
        disk.close().await?;
    }
    for index in 0..storm.machines {
        store.machine(&machine_name(index), BOOT_DISK, BOOT_MEMORY_MIB).await?;
    }
    store.unmount().await
}

/// Runs the workload alone, then during a storm, then alone again.
async fn run_storm(bench: &LabBench, storm: Storm, setting: Setting) -> Result<StormResult, LabError> {
    let own = LabDatastore::join_with(bench, 0, "esx01", setting.on).await?;
    let mut hosts = Vec::new();
    for index in 0..storm.hosts {
        hosts.push(LabDatastore::join_with(bench, 0, &format!("esx{:02}", index + 2), setting.on).await?);
    }
    let mut disks = Vec::new();
    for index in 0..DISKS {
        disks.push(own.open(&disk_name(index), FileAccess::Write, bench.mover()).await?);
    }
    let before: Vec<CountersSnapshot> = hosts.iter().map(|host| host.device().counters()).collect();
    let own_before = own.device().counters();
    let (over, booted) = (Cell::new(false), Cell::new(0));
    let workload = workload(&disks, &over);
    let storm_phases = async {
        tokio::time::sleep(QUIET).await;
        let result = boot_machines(&hosts, storm, &booted).await;
        tokio::time::sleep(QUIET).await;
        over.set(true);
        result
    };
    let (seen, storm_times) = tokio::join!(workload, storm_phases);
    let (seen, (from, to)) = (seen?, storm_times?);
    let mut done = CountersSnapshot::default();
    for (host, before) in hosts.iter().zip(&before) {
        done = done.plus(&host.device().counters().since(before));
    }
    let own_done = own.device().counters().since(&own_before);
    for disk in disks {
        disk.close().await?;
    }
    for store in hosts.into_iter().chain([own]) {
        store.unmount().await?;
    }
    Ok(storm_result(&seen, (from, to), booted.get(), (done, own_done)))
}

/// Runs the workload on all disks.
async fn workload(disks: &[Disk], over: &Cell<bool>) -> Result<Vec<LoadResult>, LabError> {
    let pattern = Pattern::new(Reducibility::VIRTUAL_MACHINE, SEED);
    let stop = || over.get();
    let loads = disks.iter().map(|disk| load::run(disk, WORKLOAD, 0..256 * MIB, &pattern, LoadEnd::When(&stop)));
    try_join_all(loads).await
}

/// Powers all machines on at once, boots them and powers them off, repeatedly.
/// Returns the start and end of the storm, measured from the start of the quiet phase.
async fn boot_machines(
    hosts: &[LabDatastore],
    storm: Storm,
    booted: &Cell<u64>,
) -> Result<(Duration, Duration), LabError> {
    let begun = platform::clock::now();
    let machine = |index: u32| async move {
        let host = &hosts[index as usize % hosts.len()];
        while platform::clock::now().duration_since(begun) < storm.time {
            host.boot(&machine_name(index), &BOOT).await?;
            booted.set(booted.get() + 1);
            tokio::time::sleep(THINK).await;
        }
        Ok::<(), LabError>(())
    };
    try_join_all((0..storm.machines).map(machine)).await?;
    Ok((QUIET, QUIET + platform::clock::now().duration_since(begun)))
}

/// Adds up the curves of all disks and extracts the part during the storm.
fn storm_result(
    seen: &[LoadResult],
    (from, to): (Duration, Duration),
    booted: u64,
    counters: (CountersSnapshot, CountersSnapshot),
) -> StormResult {
    let ticks = seen.iter().map(|seen| seen.ticks.len()).max().unwrap_or(0);
    let rate = |tick: usize| {
        let operations: u64 = seen.iter().filter_map(|seen| seen.ticks.get(tick)).sum();
        operations as f64 / TICK.as_secs_f64()
    };
    let rates: Vec<f64> = (0..ticks.saturating_sub(1)).map(rate).collect();
    let tick = |time: Duration| (time.as_millis() / TICK.as_millis()) as usize;
    // The first tick runs with cold caches, so it is left out.
    let cut = |from: usize, to: usize| rates.get(from..to.min(rates.len())).unwrap_or_default().to_vec();
    StormResult {
        curve: rates.iter().enumerate().map(|(at, rate)| Point::plain(at as f64 * TICK.as_secs_f64(), *rate)).collect(),
        rates: cut(tick(from), tick(to)),
        before: cut(1, tick(from)),
        booted,
        hosts: counters.0,
        own: counters.1,
    }
}

fn note(samples: &mut Samples, result: &StormResult, setting: Setting, repetition: u32) {
    let mut push = |measure, unit, value: Option<f64>| {
        if let Some(value) = value {
            samples.push(key("", setting.name, measure), repetition, unit, value);
        }
    };
    push("IOPS before", MeasureUnit::PerSecond, stats::mean(&result.before));
    push("IOPS in the storm", MeasureUnit::PerSecond, stats::mean(&result.rates));
    push("variation before", MeasureUnit::Percent, stats::variation(&result.before).map(|v| 100.0 * v));
    push("variation in the storm", MeasureUnit::Percent, stats::variation(&result.rates).map(|v| 100.0 * v));
    push("machines booted", MeasureUnit::Count, Some(result.booted as f64));
    push("reservations", MeasureUnit::Count, Some((result.hosts.reservations + result.own.reservations) as f64));
    push("conflicts of the workload", MeasureUnit::Count, Some(result.own.conflicts as f64));
    push("ATS commands", MeasureUnit::Count, Some((result.hosts.ats.done + result.hosts.ats.failed) as f64));
}

fn judge(findings: &mut ExperimentFindings, off: &(&StormResult, String), on: &(&StormResult, String)) {
    let ((off, off_run), (on, on_run)) = (off, on);
    let samples = &findings.samples;
    let variation = |setting: &str| samples.median(key("", setting, "variation in the storm"));
    let (wild, calm) = (variation("ATS off"), variation("ATS on"));
    let kept = |samples: &Samples, setting: &str| {
        let ratio = trial::ratio(samples, key("", setting, "IOPS in the storm"), key("", setting, "IOPS before"));
        ratio.map(|ratio| 100.0 * ratio)
    };
    let (kept_off, kept_on) = (kept(samples, "ATS off"), kept(samples, "ATS on"));
    let supported = on.hosts.ats.done > 0;
    let mut figure_less =
        figure("less variation of the workload’s IOPS with ATS", MeasureUnit::Times, samples, |s| {
            let measure = "variation in the storm";
            trial::ratio(s, key("", "ATS off", measure), key("", "ATS on", measure))
        });
    if supported {
        figure_less = figure_less.goal(Goal::AtLeast(3.0));
    } else {
        findings.notes.push(ReportNote::Unsupported(
            "the target does not support COMPARE AND WRITE, so “on” also shows the host’s reservations.".into(),
        ));
    }
    findings.figures = vec![
        figure_less,
        figure("IOPS retained in the storm, ATS off", MeasureUnit::Percent, samples, |s| kept(s, "ATS off")),
        figure("IOPS retained in the storm, ATS on", MeasureUnit::Percent, samples, |s| kept(s, "ATS on")),
    ];
    findings.plots = storm_plots(samples, (off, off_run), (on, on_run));
    findings.add_seen(wild.zip(calm).map(|(wild, calm)| {
        format!(
            "The workload’s IOPS vary by {} in the storm without ATS and by {} with it.",
            display::with_unit(wild, MeasureUnit::Percent),
            display::with_unit(calm, MeasureUnit::Percent)
        )
    }));
    findings.add_seen(kept_off.zip(kept_on).map(|(off, on)| {
        format!(
            "The workload retains {} of its IOPS without ATS and {} with it.",
            display::with_unit(off, MeasureUnit::Percent),
            display::with_unit(on, MeasureUnit::Percent)
        )
    }));
    findings.add_reason(Some(reason(off, on, supported)));
    findings
        .add_seen(Some(format!("Boots completed in the storm: {} without ATS, {} with it.", off.booted, on.booted)));
}
/// Plots IOPS and throughput over time, and the variation.
fn storm_plots(samples: &Samples, off: (&StormResult, &str), on: (&StormResult, &str)) -> Vec<Plot> {
    let plot = |result: &StormResult, setting: &Setting, run: &str, rate: (&str, MeasureUnit, f64)| Plot {
        title: format!("{} of the workload, {} ({run})", rate.0, setting.name),
        shape: Shape::Time,
        x: Axis::linear("time", MeasureUnit::Seconds),
        y: Axis::linear(rate.0, rate.1),
        places: Vec::new(),
        series: vec![Series {
            name: setting.name.to_owned(),
            role: setting.role,
            points: result.curve.iter().map(|point| Point::plain(point.x, point.y * rate.2)).collect(),
        }],
        bands: vec![storm_band(result)],
    };
    let iops = ("IOPS", MeasureUnit::PerSecond, 1.0);
    let throughput = ("throughput", MeasureUnit::MibPerSecond, f64::from(WORKLOAD.bytes) / MIB as f64);
    let bars = PlotSpec {
        title: "Coefficient of variation in the storm",
        measure: "variation in the storm",
        label: "variation",
        unit: MeasureUnit::Percent,
    };
    vec![
        plot(off.0, &ATS[0], off.1, iops),
        plot(on.0, &ATS[1], on.1, iops),
        plot(off.0, &ATS[0], off.1, throughput),
        plot(on.0, &ATS[1], on.1, throughput),
        trial::bars(samples, bars, &[String::new()], &ATS),
    ]
}

/// Returns the time range of the storm on the curve.
fn storm_band(result: &StormResult) -> Band {
    let from = QUIET.as_secs_f64();
    Band { from, to: from + result.rates.len() as f64 * TICK.as_secs_f64(), name: "boot storm".to_owned() }
}

fn reason(off: &StormResult, on: &StormResult, supported: bool) -> String {
    let without = format!(
        "In the runs shown, without ATS the hosts reserved the whole LUN {} times, and {} of the workload’s commands conflicted with a reservation \
         and were retried.",
        display::number((off.hosts.reservations + off.own.reservations) as f64),
        display::number(off.own.conflicts as f64)
    );
    if !supported {
        return without;
    }
    format!(
        "{without} With ATS they sent {} COMPARE AND WRITE commands of single sectors and {} reservations, and the workload had {} \
         conflicts.",
        display::number((on.hosts.ats.done + on.hosts.ats.failed) as f64),
        display::number((on.hosts.reservations + on.own.reservations) as f64),
        display::number(on.own.conflicts as f64)
    )
}
