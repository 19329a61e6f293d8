//! H8: UNMAP by the guest of a thin disk, with EnableBlockDelete off and on.

use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::pattern::{Pattern, Reducibility};
use crate::results::{ExperimentFindings, Goal, MeasureUnit, ReportNote, Role, Samples, key};
use crate::store::LabDatastore;
use crate::trial::{self, PlotSpec, Setting, figure};
use virtual_disk::{DiskFormat, MoverSettings};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// The two values of /VMFS3/EnableBlockDelete.
const BLOCK_DELETE: [Setting; 2] = [
    Setting { name: "EnableBlockDelete 0", role: Role::Without, on: false },
    Setting { name: "EnableBlockDelete 1", role: Role::With, on: true },
];

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    let data = bench.scale.pick(256 * MIB, 10 * GIB);
    bench.say("creating a datastore");
    let store = LabDatastore::format(bench, 0, "esx01", Some(64 * GIB)).await?;
    bench.plan(2 * bench.repetitions as usize);
    *findings = ExperimentFindings {
        setup: format!("a thin disk with {} of data, all of it trimmed by the guest", display::bytes(data)),
        expected: "The thin disk shrinks with both values. The array gets the space only with EnableBlockDelete 1."
            .into(),
        ..ExperimentFindings::default()
    };
    for repetition in 0..bench.repetitions {
        for setting in trial::alternating(&BLOCK_DELETE, repetition) {
            bench.step(format!("{}, run {} of {}", setting.name, repetition + 1, bench.repetitions));
            if !trim(bench, &store, data, setting, (&mut findings.samples, repetition)).await? {
                findings.notes.push(ReportNote::Unsupported(
                    "the target does not report mapped blocks (GET LBA STATUS), so its space cannot be compared."
                        .into(),
                ));
                return store.unmount().await;
            }
        }
    }
    judge(findings);
    store.unmount().await
}

/// Writes a thin disk, trims it, and records the space returned. Returns false if the array does
/// not report its space.
async fn trim(
    bench: &LabBench,
    store: &LabDatastore,
    data: u64,
    setting: Setting,
    (samples, repetition): (&mut Samples, u32),
) -> Result<bool, LabError> {
    let settings = MoverSettings { block_delete: setting.on, ..bench.mover() };
    let name = format!("guest{:04}", bench.serial());
    let (disk, _) = store.create(&name, 2 * data, DiskFormat::Thin, settings).await?;
    // A pattern without blocks of zeros: all of the data is mapped.
    disk.fill(data, &Pattern::new(Reducibility::INCOMPRESSIBLE, u64::from(repetition))).await?;
    let (free, mapped) = (store.free().await?, store.mapped().await?);
    disk.trim(data).await?;
    let (free_after, mapped_after) = (store.free().await?, store.mapped().await?);
    disk.close().await?;
    store.remove(&name).await?;
    // The next run must not find space of this one.
    store.unmap(200).await?;
    let (Some(mapped), Some(mapped_after)) = (mapped, mapped_after) else { return Ok(false) };
    let share = |freed: u64| 100.0 * freed as f64 / data as f64;
    let mut push =
        |measure, freed| samples.push(key("", setting.name, measure), repetition, MeasureUnit::Percent, share(freed));
    push("returned to the datastore", free_after.saturating_sub(free));
    push("returned to the array", mapped.saturating_sub(mapped_after));
    Ok(true)
}

fn judge(findings: &mut ExperimentFindings) {
    let samples = &findings.samples;
    let (percent, cases) = (MeasureUnit::Percent, [String::new()]);
    let bars = |title, measure| {
        let shown = PlotSpec { title, measure, label: "part of the data", unit: percent };
        trial::bars(samples, shown, &cases, &BLOCK_DELETE)
    };
    let share = |name: &str, setting: usize, measure: &'static str| {
        let setting = BLOCK_DELETE[setting].name;
        figure(format!("{name}, {setting}"), percent, samples, move |s| s.median(key("", setting, measure)))
    };
    let (datastore, array) = ("returned to the datastore", "returned to the array");
    let figures = vec![
        share(array, 1, array).goal(Goal::AtLeast(99.0)),
        share(array, 0, array).goal(Goal::AtMost(1.0)),
        share(datastore, 0, datastore).goal(Goal::AtLeast(99.0)),
        share(datastore, 1, datastore).goal(Goal::AtLeast(99.0)),
    ];
    let seen =
        figures.iter().filter_map(|f| Some(format!("{}: {}.", f.name, display::with_unit(f.measured?, percent))));
    let seen = seen.collect();
    let plots = vec![bars("Space returned to the array", array), bars("Space returned to the datastore", datastore)];
    (findings.plots, findings.figures, findings.seen) = (plots, figures, seen);
}
