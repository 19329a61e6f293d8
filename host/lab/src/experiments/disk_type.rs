//! L5: duration of a copy as a function of the format of the source disk.

use super::copies::{self, CopyResult, TemplateSpec};
use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::results::{ExperimentFindings, MeasureUnit, Samples, key};
use crate::trial::{self, PlotSpec, XCOPY, figure};
use virtual_disk::transfer::EsxiRelease;
use virtual_disk::{DiskFormat, MoverSettings};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A disk format on an ESXi release.
struct Kind {
    name: &'static str,
    format: DiskFormat,
    release: EsxiRelease,
}

const KINDS: [Kind; 4] = [
    Kind { name: "eagerzeroedthick", format: DiskFormat::EagerZeroedThick, release: EsxiRelease::Esxi6 },
    Kind { name: "zeroedthick", format: DiskFormat::ZeroedThick, release: EsxiRelease::Esxi6 },
    Kind { name: "thin (ESXi 5.x)", format: DiskFormat::Thin, release: EsxiRelease::Esxi5 },
    Kind { name: "thin (ESXi 6.0)", format: DiskFormat::Thin, release: EsxiRelease::Esxi6 },
];

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    let data = bench.scale.pick(512 * MIB, 75 * GIB);
    let datastores = copies::format_datastores(bench).await?;
    bench.plan(3 + 2 * KINDS.len() * bench.repetitions as usize);
    let mut templates = Vec::new();
    for format in DiskFormat::ALL {
        bench.step(format!("creating a template, {format}"));
        let what = TemplateSpec { bytes: data, data, format };
        templates.push((format, datastores.template(&format!("template-{format}"), what).await?));
    }
    *findings = ExperimentFindings {
        setup: format!("{} of data in one disk, {}, transfers of 16 MB", display::bytes(data), datastores.places()),
        expected: "With XCOPY all formats are fast except thin disks on ESXi 5.x, which are copied in 1 MB commands. On 6.0 there \
                   is no difference."
            .into(),
        ..ExperimentFindings::default()
    };
    let mut last: Vec<(&str, CopyResult, CopyResult)> = Vec::new();
    for repetition in 0..bench.repetitions {
        for kind in &KINDS {
            let Some((_, template)) = templates.iter().find(|(format, _)| *format == kind.format) else { continue };
            let mut both = [None, None];
            for setting in trial::alternating(&XCOPY, repetition) {
                bench.step(format!("{}, {}, run {}", kind.name, setting.name, repetition + 1));
                let settings = MoverSettings {
                    hardware_move: setting.on,
                    max_transfer_kib: 16384,
                    release: kind.release,
                    ..bench.mover()
                };
                let copied = datastores.deploy(template, 1, settings).await?;
                copied.note(&mut findings.samples, kind.name, setting, repetition);
                both[usize::from(setting.on)] = Some(copied);
            }
            if let [Some(off), Some(on)] = both {
                last.push((kind.name, off, on));
            }
        }
    }
    judge(findings, &last);
    datastores.close().await?;
    Ok(())
}

fn judge(findings: &mut ExperimentFindings, last: &[(&str, CopyResult, CopyResult)]) {
    let cases = KINDS.map(|kind| kind.name.to_owned());
    let samples = &findings.samples;
    let shown = |title, measure, label, unit| PlotSpec { title, measure, label, unit };
    findings.plots = vec![
        trial::bars(
            samples,
            shown("Duration of a deployment", "time", "duration", MeasureUnit::Seconds),
            &cases,
            &XCOPY,
        ),
        trial::bars(samples, shown("Commands sent", "commands", "commands", MeasureUnit::Count), &cases, &XCOPY),
    ];
    let median = |s: &Samples, kind: usize, measure| s.median(key(KINDS[kind].name, "XCOPY on", measure));
    let on = |kind, measure| median(samples, kind, measure);
    let over = |s: &Samples, thin, measure| {
        Some(median(s, thin, measure)? / median(s, 1, measure).filter(|thick| *thick > 0.0)?)
    };
    let figures = vec![
        figure("thin (ESXi 5.x) over zeroedthick, time with XCOPY", MeasureUnit::Times, samples, |s| {
            over(s, 2, "time")
        }),
        figure("thin (ESXi 5.x) over zeroedthick, commands", MeasureUnit::Times, samples, |s| over(s, 2, "commands")),
        figure("thin (ESXi 6.0) over zeroedthick, time with XCOPY", MeasureUnit::Times, samples, |s| {
            over(s, 3, "time")
        })
        .published(1.0),
    ];
    let seen: Vec<String> =
        KINDS.iter().map(|kind| format!("{}: {}.", kind.name, trial::times(samples, kind.name, &XCOPY))).collect();
    let per_command = |kind: usize| Some(on(kind, "time")? / on(kind, "commands")?);
    let reason = per_command(2).zip(per_command(1)).zip(over(samples, 2, "commands")).map(|((thin, thick), more)| {
        format!(
            "The thin disk on ESXi 5.x took {} times as many commands, at {} per command instead of {} for the thick disk. \
             The time per byte is {} times as long.",
            display::number(more),
            display::seconds(thin),
            display::seconds(thick),
            display::number(more * thin / thick)
        )
    });
    findings.figures = figures;
    findings.seen = seen;
    findings.add_reason(reason);
    if let Some((case, off, on)) = last.last() {
        copies::explain(findings, case, off, on);
    }
}
