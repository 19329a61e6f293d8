//! L2: deployment from a template.

use super::copies::{self, CopyResult, TemplateSpec};
use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::results::{ExperimentFindings, Goal, MeasureUnit, key};
use crate::trial::{self, PlotSpec, XCOPY, figure};
use virtual_disk::{DiskFormat, MoverSettings};

const GIB: u64 = 1 << 30;

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    let size = bench.scale.pick(GIB, 100 * GIB);
    let datastores = copies::format_datastores(bench).await?;
    bench.plan(1 + 3 * bench.repetitions as usize);
    bench.step(format!("creating a template of {} with {} of data", display::bytes(size), display::bytes(size / 2)));
    let template = TemplateSpec { bytes: size, data: size / 2, format: DiskFormat::ZeroedThick };
    let template = datastores.template("template", template).await?;
    *findings = ExperimentFindings {
        setup: format!(
            "zeroedthick, {} with {} of data, {}",
            display::bytes(size),
            display::bytes(size / 2),
            datastores.places()
        ),
        expected: "Seven seconds instead of over two minutes: 17 times faster, with hardly any host traffic.".into(),
        ..ExperimentFindings::default()
    };
    let mut last = [None, None];
    for repetition in 0..bench.repetitions {
        bench.step(format!("plain READ and WRITE, run {} of {}", repetition + 1, bench.repetitions));
        datastores.plain_copy(&template, &mut findings.samples, repetition).await?;
        for setting in trial::alternating(&XCOPY, repetition) {
            bench.step(format!("{}, run {} of {}", setting.name, repetition + 1, bench.repetitions));
            let settings = MoverSettings { hardware_move: setting.on, max_transfer_kib: 16384, ..bench.mover() };
            let copied = datastores.deploy(&template, 1, settings).await?;
            copied.note(&mut findings.samples, "", setting, repetition);
            last[usize::from(setting.on)] = Some(copied);
        }
    }
    if let [Some(off), Some(on)] = last {
        judge(findings, bench, &off, &on);
    }
    if bench.explain {
        for setting in &XCOPY {
            bench.say(format!("{}, recording one deployment", setting.name));
            let settings = MoverSettings { hardware_move: setting.on, max_transfer_kib: 16384, ..bench.mover() };
            let title = format!("One deployment, {}", setting.name);
            findings.timelines.push(datastores.explained(&template, &title, settings).await?);
        }
    }
    datastores.close().await?;
    Ok(())
}

fn judge(findings: &mut ExperimentFindings, bench: &LabBench, off: &CopyResult, on: &CopyResult) {
    let samples = &findings.samples;
    let cases = [String::new()];
    let shown = |title, measure, label, unit| PlotSpec { title, measure, label, unit };
    findings.plots = vec![
        trial::bars(samples, shown("Duration", "time", "duration", MeasureUnit::Seconds), &cases, &XCOPY),
        trial::bars(
            samples,
            shown("Throughput of the host", "throughput", "throughput", MeasureUnit::MibPerSecond),
            &cases,
            &XCOPY,
        ),
        trial::bars(
            samples,
            shown("Commands of the host", "iops", "commands per second", MeasureUnit::PerSecond),
            &cases,
            &XCOPY,
        ),
    ];
    let ratio = trial::faster(samples, "", &XCOPY);
    let mut with = figure("with XCOPY", MeasureUnit::Seconds, samples, |s| s.median(key("", "XCOPY on", "time")));
    with = with.published(7.0);
    if bench.scale.pick(false, true) && on.refused.is_none() {
        with = with.goal(Goal::AtMost(2.0));
    }
    let mut gain = figure("faster with XCOPY", MeasureUnit::Times, samples, |s| trial::faster(s, "", &XCOPY));
    gain = gain.published(120.0 / 7.0);
    if on.refused.is_none() {
        gain = gain.goal(Goal::AtLeast(20.0));
    }
    let seen = trial::times(samples, "", &XCOPY);
    findings.add_seen(Some(format!("{seen}.")));
    findings.add_seen(ratio.map(|ratio| format!("The gain is {}.", trial::compare_with_published(ratio, 120.0 / 7.0))));
    findings.figures = vec![gain, with, copies::host_share(&findings.samples, "", "copy")];
    copies::explain(findings, "", off, on);
}
