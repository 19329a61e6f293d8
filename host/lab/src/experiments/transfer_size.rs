//! L6: MaxHWTransferSize of 4 MB, ESXi's default, and of 16 MB, the array vendor's recommendation.

use super::copies::{self, CopyResult, TemplateSpec};
use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::results::{ExperimentFindings, MeasureUnit, ReportNote, Role, Samples, key};
use crate::stats::Interval;
use crate::trial::{self, PlotSpec, Setting, figure};
use virtual_disk::{DiskFormat, MoverSettings};

const GIB: u64 = 1 << 30;

/// The two transfer sizes. Both use XCOPY.
const SIZES: [Setting; 2] =
    [Setting { name: "4 MB", role: Role::Nth(2), on: false }, Setting { name: "16 MB", role: Role::With, on: true }];

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    let data = bench.scale.pick(2 * GIB, 50 * GIB);
    let datastores = copies::format_datastores(bench).await?;
    bench.plan(1 + 2 * bench.repetitions as usize);
    bench.step("creating a template");
    let what = TemplateSpec { bytes: data, data, format: DiskFormat::ZeroedThick };
    let template = datastores.template("template", what).await?;
    *findings = ExperimentFindings {
        setup: format!("{} of data, {}", display::bytes(data), datastores.places()),
        expected: "One quarter of the commands, and less time.".into(),
        ..ExperimentFindings::default()
    };
    let mut last = [None, None];
    for repetition in 0..bench.repetitions {
        for size in trial::alternating(&SIZES, repetition) {
            bench.step(format!("{}, run {} of {}", size.name, repetition + 1, bench.repetitions));
            let max_transfer_kib = if size.on { 16384 } else { 4096 };
            let settings = MoverSettings { max_transfer_kib, ..bench.mover() };
            let copied = datastores.deploy(&template, 1, settings).await?;
            copied.note(&mut findings.samples, "", size, repetition);
            last[usize::from(size.on)] = Some(copied);
        }
    }
    if let [Some(small), Some(large)] = last {
        judge(findings, &small, &large);
    }
    datastores.close().await?;
    Ok(())
}

fn judge(findings: &mut ExperimentFindings, small: &CopyResult, large: &CopyResult) {
    let cases = [String::new()];
    let samples = &findings.samples;
    let shown = |title, measure, label, unit| PlotSpec { title, measure, label, unit };
    findings.plots = vec![
        trial::bars(
            samples,
            shown("Duration of a deployment", "time", "duration", MeasureUnit::Seconds),
            &cases,
            &SIZES,
        ),
        trial::bars(samples, shown("Commands sent", "commands", "commands", MeasureUnit::Count), &cases, &SIZES),
    ];
    let over = |s: &Samples, measure| trial::ratio(s, key("", "4 MB", measure), key("", "16 MB", measure));
    let (time, commands) = (over(samples, "time"), over(samples, "commands"));
    findings.figures = vec![
        figure("faster with 16 MB", MeasureUnit::Times, samples, |s| over(s, "time")),
        figure("commands with 4 MB over 16 MB", MeasureUnit::Times, samples, |s| over(s, "commands")).published(4.0),
    ];
    findings.seen = vec![format!("{}.", trial::times(samples, "", &SIZES))];
    if let Some(reason) = large.refused.or(small.refused) {
        findings.notes.push(ReportNote::Unsupported(copies::fallback(reason)));
        findings.add_reason(Some(
            "The setting applies to XCOPY only, and none was sent: both sizes show the same copy through the host."
                .to_owned(),
        ));
        return;
    }
    let interval = findings.figures.first().and_then(|figure| figure.interval);
    findings.add_reason(time.zip(commands).zip(interval).map(|((time, commands), interval)| {
        let verdict = match interval {
            Interval { low, .. } if low > 1.0 => "Fewer commands take less time, as published",
            Interval { high, .. } if high < 1.0 => "Fewer commands took more time here",
            _ => "The repetitions do not show whether fewer commands take less time",
        };
        format!(
            "{} times fewer commands, {} times the speed. {verdict}.",
            display::number(commands),
            display::estimate(time, Some(interval), MeasureUnit::Count)
        )
    }));
}
