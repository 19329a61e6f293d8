//! L6: MaxHWTransferSize of 4 MB, as ESXi comes, and of 16 MB, as the array's vendor recommends.

use super::copies::{self, Copied, Template};
use crate::bench::Bench;
use crate::error::LabError;
use crate::results::{Findings, Note, Role, Unit, key};
use crate::trial::{self, Setting, Shown, figure};
use crate::words;
use virtual_disk::{Format, MoverSettings};

const GIB: u64 = 1 << 30;

/// The two sizes. Neither is without the offload.
const SIZES: [Setting; 2] =
    [Setting { name: "4 MB", role: Role::Nth(2), on: false }, Setting { name: "16 MB", role: Role::With, on: true }];

pub(super) async fn run(bench: &Bench) -> Result<Findings, LabError> {
    let data = bench.scale.pick(2 * GIB, 50 * GIB);
    let stage = copies::stage(bench).await?;
    bench.plan(1 + 2 * bench.repetitions as usize);
    bench.step("a template");
    let what = Template { bytes: data, data, format: Format::ZeroedThick };
    let template = stage.template("template", what).await?;
    let mut findings = Findings {
        setup: format!("{} of data, {}", words::bytes(data), stage.places()),
        expected: "A quarter of the commands, and less time.".into(),
        ..Findings::default()
    };
    let mut last = [None, None];
    for repetition in 0..bench.repetitions {
        for size in trial::in_turn(&SIZES, repetition) {
            bench.step(format!("{}, run {} of {}", size.name, repetition + 1, bench.repetitions));
            let max_transfer_kib = if size.on { 16384 } else { 4096 };
            let settings = MoverSettings { max_transfer_kib, ..MoverSettings::default() };
            let copied = stage.deploy(&template, 1, settings).await?;
            copied.note(&mut findings.samples, "", size, repetition);
            last[usize::from(size.on)] = Some(copied);
        }
    }
    if let [Some(small), Some(large)] = last {
        judge(&mut findings, &small, &large);
    }
    stage.close().await?;
    Ok(findings)
}

fn judge(findings: &mut Findings, small: &Copied, large: &Copied) {
    let cases = [String::new()];
    let samples = &findings.samples;
    let shown = |title, measure, label, unit| Shown { title, measure, label, unit };
    findings.plots = vec![
        trial::bars(samples, shown("How long a deployment took", "time", "duration", Unit::Seconds), &cases, &SIZES),
        trial::bars(samples, shown("Commands that it took", "commands", "commands", Unit::Count), &cases, &SIZES),
    ];
    let over = |measure| trial::ratio(samples, key("", "4 MB", measure), key("", "16 MB", measure));
    let (time, commands) = (over("time"), over("commands"));
    findings.figures = vec![
        figure("faster with 16 MB", Unit::Times, time),
        figure("commands of 4 MB over those of 16 MB", Unit::Times, commands).published(4.0),
    ];
    findings.seen = vec![format!("{}.", trial::times(samples, "", &SIZES))];
    if let Some(reason) = large.refused.or(small.refused) {
        findings.notes.push(Note::Unsupported(copies::fallback(reason)));
        findings
            .because(Some("The setting is about XCOPY, and none was sent: both sizes show the same copy.".to_owned()));
        return;
    }
    findings.because(time.zip(commands).map(|(time, commands)| {
        let verdict = match time {
            t if t > 1.1 => "The commands themselves are part of the time, as the documents say",
            t if t > 0.9 => "The time hardly depends on their number: what takes it is done once for each copy, or for each block, not for each command",
            _ => "The larger commands took longer altogether: here they are done one after the other where the smaller ones overlap",
        };
        format!("{} times fewer commands, {} times the speed. {verdict}.", words::number(commands), words::number(time))
    }));
}
