//! L2: deploy from template.

use super::copies::{self, Copied, Template};
use crate::bench::Bench;
use crate::error::LabError;
use crate::results::{Findings, Goal, Unit, key};
use crate::trial::{self, Shown, XCOPY, figure};
use crate::words;
use virtual_disk::{Format, MoverSettings};

const GIB: u64 = 1 << 30;

pub(super) async fn run(bench: &Bench) -> Result<Findings, LabError> {
    let size = bench.scale.pick(2 * GIB, 100 * GIB);
    let stage = copies::stage(bench).await?;
    bench.plan(1 + 2 * bench.repetitions as usize);
    bench.step(format!("a template of {} with {} of data", words::bytes(size), words::bytes(size / 2)));
    let template = Template { bytes: size, data: size / 2, format: Format::ZeroedThick };
    let template = stage.template("template", template).await?;
    let mut findings = Findings {
        setup: format!(
            "zeroedthick, {} with {} of data, {}",
            words::bytes(size),
            words::bytes(size / 2),
            stage.places()
        ),
        expected: "More than two minutes become seven seconds: 17 times faster, and hardly any traffic from the host."
            .into(),
        ..Findings::default()
    };
    let mut last = [None, None];
    for repetition in 0..bench.repetitions {
        for setting in trial::in_turn(&XCOPY, repetition) {
            bench.step(format!("{}, run {} of {}", setting.name, repetition + 1, bench.repetitions));
            let settings =
                MoverSettings { hardware_move: setting.on, max_transfer_kib: 16384, ..MoverSettings::default() };
            let copied = stage.deploy(&template, 1, settings).await?;
            copied.note(&mut findings.samples, "", setting, repetition);
            last[usize::from(setting.on)] = Some(copied);
        }
    }
    if let [Some(off), Some(on)] = last {
        judge(&mut findings, bench, &off, &on);
    }
    stage.close().await?;
    Ok(findings)
}

fn judge(findings: &mut Findings, bench: &Bench, off: &Copied, on: &Copied) {
    let samples = &findings.samples;
    let cases = [String::new()];
    let shown = |title, measure, label, unit| Shown { title, measure, label, unit };
    findings.plots = vec![
        trial::bars(samples, shown("How long it took", "time", "duration", Unit::Seconds), &cases, &XCOPY),
        trial::bars(
            samples,
            shown("Throughput of the host", "throughput", "throughput", Unit::MibPerSecond),
            &cases,
            &XCOPY,
        ),
        trial::bars(
            samples,
            shown("Commands of the host", "iops", "commands a second", Unit::PerSecond),
            &cases,
            &XCOPY,
        ),
    ];
    let ratio = trial::faster(samples, "", &XCOPY);
    let time = samples.median(key("", "XCOPY on", "time"));
    let mut with = figure("with XCOPY", Unit::Seconds, time).published(7.0);
    if bench.scale.pick(false, true) && on.refused.is_none() {
        with = with.goal(Goal::AtMost(2.0));
    }
    let mut gain = figure("faster with XCOPY", Unit::Times, ratio).published(120.0 / 7.0);
    if on.refused.is_none() {
        gain = gain.goal(Goal::AtLeast(20.0));
    }
    let seen = trial::times(samples, "", &XCOPY);
    findings.see(Some(format!("{seen}.")));
    findings.see(ratio.map(|ratio| format!("The gain is {}.", trial::beside(ratio, 120.0 / 7.0))));
    findings.figures = vec![gain, with];
    copies::explain(findings, off, on);
}
