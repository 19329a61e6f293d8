//! L4: Storage vMotion of a virtual machine that is off, idle or busy.

use super::copies::{self, CopyResult, TemplateSpec};
use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::load::{self, LoadEnd, LoadProfile};
use crate::pattern::{Pattern, Reducibility};
use crate::results::{ExperimentFindings, MeasureUnit, key};
use crate::store::Disk;
use crate::trial::{self, PlotSpec, XCOPY, figure};
use std::cell::Cell;
use std::time::Duration;
use virtual_disk::{DiskFormat, MoverSettings, MoverWork};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// State of the machine during the migration.
const STATES: [&str; 3] = ["powered off", "idle", "busy"];
/// Interval of the writes of an idle machine, such as logs.
const IDLE: Duration = Duration::from_millis(50);

pub(super) async fn run(bench: &LabBench) -> Result<ExperimentFindings, LabError> {
    let data = bench.scale.pick(512 * MIB, 50 * GIB);
    let size = bench.scale.pick(GIB, 100 * GIB);
    let datastores = copies::format_datastores(bench).await?;
    bench.plan(1 + 2 * STATES.len() * bench.repetitions as usize);
    bench.step("creating a virtual machine");
    let what = TemplateSpec { bytes: size, data, format: DiskFormat::ZeroedThick };
    let made = datastores.template("machine", what).await?;
    let mut findings = ExperimentFindings {
        setup: format!(
            "zeroedthick, {} with {} of data, {}",
            display::bytes(size),
            display::bytes(data),
            datastores.places()
        ),
        expected: "XCOPY helps in every state. A workload slows the migration somewhat.".into(),
        ..ExperimentFindings::default()
    };
    let mut last = [None, None];
    for repetition in 0..bench.repetitions {
        for state in STATES {
            for setting in trial::alternating(&XCOPY, repetition) {
                bench.step(format!("{state}, {}, run {}", setting.name, repetition + 1));
                let settings =
                    MoverSettings { hardware_move: setting.on, max_transfer_kib: 16384, ..MoverSettings::default() };
                // Each run moves a new copy, so that all runs start from the same state.
                let name = format!("svm{:04}", bench.serial());
                let disk = datastores.machine(&made, &name, settings).await?;
                let (copied, operations) = moved(&disk, &datastores, &name, state, what, settings).await?;
                copied.note(&mut findings.samples, state, setting, repetition);
                if state == "busy" {
                    let rate = operations as f64 / copied.time.as_secs_f64().max(1e-9);
                    findings.samples.push(
                        key(state, setting.name, "guest IOPS"),
                        repetition,
                        MeasureUnit::PerSecond,
                        rate,
                    );
                }
                disk.close().await?;
                datastores.destination().remove(&format!("{name}-moved")).await?;
                last[usize::from(setting.on)] = Some(copied);
            }
        }
    }
    if let [Some(off), Some(on)] = last {
        judge(&mut findings, &off, &on);
    }
    datastores.close().await?;
    Ok(findings)
}

/// Migrates a disk while its guest is in `state`. Also returns the number of guest operations.
async fn moved(
    disk: &Disk,
    datastores: &copies::CopyDatastores<'_>,
    name: &str,
    state: &str,
    what: TemplateSpec,
    settings: MoverSettings,
) -> Result<(CopyResult, u64), LabError> {
    let over = Cell::new(false);
    let target = format!("{name}-moved");
    let migration = async {
        let begun = platform::clock::now();
        let result = disk.migrate(datastores.destination(), &target).await;
        over.set(true);
        let mut copied = CopyResult {
            time: platform::clock::now().duration_since(begun),
            work: MoverWork::default(),
            refused: None,
        };
        copied.add(&result?, settings);
        Ok::<CopyResult, LabError>(copied)
    };
    let pattern = Pattern::new(Reducibility::VIRTUAL_MACHINE, 4);
    let guest = async {
        let stop = || over.get();
        match state {
            "busy" => {
                Ok(load::run(disk, LoadProfile::BUSY, 0..what.data, &pattern, LoadEnd::When(&stop)).await?.operations)
            }
            "idle" => {
                let mut operations = 0;
                while !over.get() {
                    disk.write_at(operations * 65_536 % what.data, pattern.data(0, 4096)).await?;
                    operations += 1;
                    tokio::time::sleep(IDLE).await;
                }
                Ok(operations)
            }
            _ => Ok::<u64, LabError>(0),
        }
    };
    let (copied, operations) = tokio::join!(migration, guest);
    let (copied, operations) = (copied?, operations?);
    if operations == 0 {
        datastores.check(disk, what).await?;
    }
    Ok((copied, operations))
}

fn judge(findings: &mut ExperimentFindings, off: &CopyResult, on: &CopyResult) {
    let samples = &findings.samples;
    let cases = STATES.map(str::to_owned);
    let shown =
        PlotSpec { title: "Duration of the migration", measure: "time", label: "duration", unit: MeasureUnit::Seconds };
    let plot = trial::bars(samples, shown, &cases, &XCOPY);
    let rate = PlotSpec {
        title: "IOPS of the busy guest",
        measure: "guest IOPS",
        label: "IOPS",
        unit: MeasureUnit::PerSecond,
    };
    let guest = trial::bars(samples, rate, &[STATES[2].to_owned()], &XCOPY);
    let gains = STATES.map(|state| trial::faster(samples, state, &XCOPY));
    let slower = trial::ratio(samples, key("busy", "XCOPY on", "time"), key("powered off", "XCOPY on", "time"));
    findings.figures = STATES
        .iter()
        .zip(gains)
        .map(|(state, gain)| figure(format!("faster with XCOPY, {state}"), MeasureUnit::Times, gain))
        .chain([figure("busy over powered off, with XCOPY", MeasureUnit::Times, slower)])
        .collect();
    let seen = STATES.iter().map(|state| format!("{state}: {}.", trial::times(samples, state, &XCOPY))).collect();
    findings.plots = vec![plot, guest];
    findings.seen = seen;
    findings.add_reason(slower.map(|slower| {
        if slower > 1.15 {
            format!(
                "A busy guest makes the migration {} times as long: its writes to copied regions go to both disks, and writes to \
                 the region being copied wait.",
                display::number(slower)
            )
        } else {
            "The busy guest makes little difference, because the copy is short and delays few of its writes.".to_owned()
        }
    }));
    copies::explain(findings, off, on);
}
