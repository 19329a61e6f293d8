//! L3: one to sixteen deployments at once.

use super::copies::{self, CopyResult, TemplateSpec};
use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::results::{Axis, ExperimentFindings, Figure, Goal, MeasureUnit, Samples, key};
use crate::stats;
use crate::trial::{self, PlotSpec, XCOPY, figure};
use crate::worker::{self, Workers};
use virtual_disk::{DiskFormat, MoverSettings};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// The least rate of each case, in percent of the best rate seen.
const LEAST_SHARE: f64 = 60.0;
/// Number of processes, each of them a host, that deploy one machine each.
const PROCESSES: usize = 16;
const AS_PROCESSES: &str = "16 processes";
const COUNTS: [u32; 5] = [1, 2, 4, 8, 16];
/// Those of small scale.
const FEW: [u32; 3] = [1, 4, 16];

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    let size = bench.scale.pick(256 * MIB, 100 * GIB);
    // Sixteen copies of 50 GB through the host would take an hour on a small machine; 4 GB show the
    // same effect.
    let data = bench.scale.pick(64 * MIB, 4 * GIB);
    let datastores = copies::format_datastores(bench).await?;
    let counts: &[u32] = bench.scale.pick(&FEW, &COUNTS);
    bench.plan(1 + (1 + 2 * (counts.len() + 1)) * bench.repetitions as usize);
    bench.step("creating a template");
    let what = TemplateSpec { bytes: size, data, format: DiskFormat::ZeroedThick };
    let template = datastores.template(worker::TEMPLATE, what).await?;
    *findings = ExperimentFindings {
        setup: format!("zeroedthick, {} with {} of data, {}", display::bytes(size), display::bytes(data), datastores.places()),
        expected: "Without XCOPY the time grows with the number of machines. With XCOPY it grows much more slowly, so that the \
                   gain increases to 8 times at sixteen."
            .into(),
        ..ExperimentFindings::default()
    };
    let mut last = [None, None];
    for repetition in 0..bench.repetitions {
        bench.step(format!("plain READ and WRITE, run {}", repetition + 1));
        datastores.plain_copy(&template, &mut findings.samples, repetition).await?;
        for &count in counts {
            for setting in trial::alternating(&XCOPY, repetition) {
                bench.step(format!("{count} at once, {}, run {}", setting.name, repetition + 1));
                let settings = MoverSettings { hardware_move: setting.on, max_transfer_kib: 16384, ..bench.mover() };
                let copied = datastores.deploy(&template, count, settings).await?;
                copied.note(&mut findings.samples, &count.to_string(), setting, repetition);
                findings.samples.push(
                    key(&count.to_string(), setting.name, "machines per second"),
                    repetition,
                    MeasureUnit::PerSecond,
                    f64::from(count) / copied.seconds().max(1e-9),
                );
                last[usize::from(setting.on)] = Some(copied);
            }
        }
    }
    let mut workers = Workers::start(bench, PROCESSES).await?;
    for repetition in 0..bench.repetitions {
        for setting in trial::alternating(&XCOPY, repetition) {
            bench.step(format!("{PROCESSES} processes, {}, run {}", setting.name, repetition + 1));
            let copied = datastores.deploy_by(&mut workers, PROCESSES, setting.on, what).await?;
            let mut push = |measure, value| {
                findings.samples.push(
                    key(AS_PROCESSES, setting.name, measure),
                    repetition,
                    MeasureUnit::Seconds,
                    value,
                );
            };
            push("time", copied.seconds());
            push(trial::SAMPLED, copied.time.as_secs_f64());
        }
    }
    workers.stop().await?;
    if let [Some(off), Some(on)] = last {
        judge(findings, &off, &on);
    }
    datastores.close().await?;
    Ok(())
}

fn judge(findings: &mut ExperimentFindings, off: &CopyResult, on: &CopyResult) {
    let samples = &findings.samples;
    let cases = COUNTS.map(|count| (f64::from(count), count.to_string()));
    let duration = PlotSpec {
        title: "Duration of all deployments",
        measure: "time",
        label: "duration",
        unit: MeasureUnit::Seconds,
    };
    let x = || Axis::linear("virtual machines at once", MeasureUnit::Count);
    findings.plots.push(trial::lines(samples, duration, &cases, &XCOPY, x()));
    let gains: Vec<(f64, f64)> =
        COUNTS.iter().filter_map(|n| Some((f64::from(*n), trial::faster(samples, &n.to_string(), &XCOPY)?))).collect();
    findings.plots.push(gain_plot(&gains, x()));
    let sixteen = trial::faster(samples, "16", &XCOPY);
    let mut gain =
        figure("faster with XCOPY, sixteen at once", MeasureUnit::Times, samples, |s| trial::faster(s, "16", &XCOPY));
    gain = gain.published(270.0 / 35.0);
    // Published gains: about 5 for one machine, 8 for sixteen (VAAI guide, 2015).
    let mut single =
        figure("faster with XCOPY, one machine", MeasureUnit::Times, samples, |s| trial::faster(s, "1", &XCOPY));
    single = single.published(5.0);
    if on.refused.is_none() {
        gain = gain.goal(Goal::AtLeast(8.0));
        single = single.goal(Goal::AtLeast(8.0));
    }
    let slopes = [slope(samples, "XCOPY off"), slope(samples, "XCOPY on")];
    let seen = format!("Sixteen at once: {}.", trial::times(samples, "16", &XCOPY));
    let processes = figure("faster with XCOPY, sixteen processes", MeasureUnit::Times, samples, |s| {
        trial::faster(s, AS_PROCESSES, &XCOPY)
    });
    findings.figures = vec![gain, single, processes.published(270.0 / 35.0)];
    let by_host = [("1", "one machine"), ("16", "sixteen at once")];
    findings.figures.extend(by_host.map(|(case, name)| copies::host_share(samples, case, name)));
    findings.figures.extend(shares_of_best(samples, on.refused.is_none()));
    let processes =
        format!("As sixteen processes and hosts: {}.", trial::times(&findings.samples, AS_PROCESSES, &XCOPY));
    findings.add_seen(Some(seen));
    findings.add_seen(Some(processes));
    if let [Some(off), Some(on)] = slopes {
        findings.add_seen(Some(format!(
            "Each additional machine adds {} without XCOPY and {} with it.",
            display::seconds(off),
            display::seconds(on)
        )));
    }
    findings.add_seen(
        sixteen.map(|gain| format!("At sixteen the gain is {}.", trial::compare_with_published(gain, 270.0 / 35.0))),
    );
    copies::explain(findings, "16", off, on);
}

/// Compares the rate of deployment of one machine and of sixteen with the best rate of this run.
fn shares_of_best(samples: &Samples, is_supported: bool) -> [Figure; 2] {
    let cases = COUNTS.map(|count| count.to_string());
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    [("1", "one machine"), ("16", "sixteen at once")].map(|(case, name)| {
        let share = figure(format!("{name}, rate as part of the best seen"), MeasureUnit::Percent, samples, |s| {
            trial::share_of_best(s, case, &cases, XCOPY[1].name, "machines per second")
        });
        if is_supported { share.goal(Goal::AtLeast(LEAST_SHARE)) } else { share }
    })
}

fn gain_plot(gains: &[(f64, f64)], x: Axis) -> crate::results::Plot {
    use crate::results::{Plot, Point, Role, Series, Shape};
    Plot {
        title: "Gain of XCOPY".to_owned(),
        shape: Shape::Lines,
        x,
        y: Axis::linear("times faster", MeasureUnit::Times),
        places: Vec::new(),
        series: vec![Series {
            name: "gain".to_owned(),
            role: Role::Nth(2),
            points: gains.iter().map(|(x, y)| Point::plain(*x, *y)).collect(),
        }],
        bands: Vec::new(),
    }
}

/// Returns the seconds that each additional machine adds.
fn slope(samples: &Samples, setting: &str) -> Option<f64> {
    let point = |n: &u32| Some((f64::from(*n), samples.median(key(&n.to_string(), setting, "time"))?));
    stats::slope(&COUNTS.iter().filter_map(point).collect::<Vec<_>>())
}
