//! L8: creation of an eagerzeroedthick disk of one terabyte.

use super::zeros::{self, ZeroResult};
use crate::bench::{LabBench, LabScale};
use crate::display;
use crate::error::LabError;
use crate::published::{TERABYTE_OFF_SECS, TERABYTE_ON_SECS, TERABYTE_TUNED_SECS};
use crate::results::{ExperimentFindings, Goal, MeasureUnit, ReportNote, Samples, key};
use crate::store::LabDatastore;
use crate::trial::{self, PlotSpec, Setting, WRITE_SAME, figure};

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    // A smaller target gets the largest size that fits.
    let sizes = bench.fitting(0, &bench.scale.pick([TIB / 2, TIB / 16, 4 * GIB], [TIB, TIB, 64 * GIB]))?;
    let least = sizes.last().copied().ok_or_else(|| LabError::NotPossible("disk is too small".into()))?;
    // Writing 1 TB of zeros takes up to an hour on a small machine, so only a part is measured
    // without WRITE SAME.
    let part = least.min(bench.scale.pick(2 * GIB, 64 * GIB));
    bench.say("creating a datastore");
    let store = LabDatastore::format(bench, 0, "esx01", None).await?;
    let size = match bench.scale {
        LabScale::Small => {
            bench.say("measuring how much is zeroed in a minute");
            let probe = zeros::make(bench, &store, 1, part, true).await?;
            sizes.into_iter().find(|size| probe.is_quick(*size)).unwrap_or(least)
        }
        LabScale::Paper => sizes.first().copied().unwrap_or(least),
    };
    bench.plan(2 * bench.repetitions as usize);
    *findings = ExperimentFindings {
        setup: format!("one disk of {}, WRITE SAME of 1 MB", display::bytes(size)),
        expected: "1 TB: 17 min 6 s without WRITE SAME, at 1 GB/s; 3 min 47 s with it, at 5 GB/s; 1 min 10 s at 15 GB/s with Purity 5.1.".into(),
        ..ExperimentFindings::default()
    };
    if part < size {
        findings.notes.push(ReportNote::Extrapolated(format!(
            "Without WRITE SAME only {} of the {} were zeroed; the time shown is extrapolated at the same rate.",
            display::bytes(part),
            display::bytes(size)
        )));
    }
    let mut last: [Option<ZeroResult>; 2] = [None, None];
    for repetition in 0..bench.repetitions {
        for setting in trial::alternating(&WRITE_SAME, repetition) {
            bench.step(format!("{}, run {} of {}", setting.name, repetition + 1, bench.repetitions));
            let measured = if setting.on && !zeros::is_fallback(&last) { size } else { part };
            let zeroed = zeros::make(bench, &store, 1, measured, setting.on).await?;
            note(&mut findings.samples, &zeroed, size, setting, repetition);
            last[usize::from(setting.on)] = Some(zeroed);
        }
    }
    if let [Some(off), Some(on)] = &last {
        judge(findings, bench.scale, size, (off, on));
    }
    store.unmount().await?;
    Ok(())
}

fn note(samples: &mut Samples, zeroed: &ZeroResult, size: u64, setting: Setting, repetition: u32) {
    zeroed.note(samples, &display::bytes(zeroed.bytes), setting, repetition);
    let extrapolated = zeroed.seconds() * size as f64 / zeroed.bytes as f64;
    samples.push(key("", setting.name, "time"), repetition, MeasureUnit::Seconds, extrapolated);
    samples.push(key("", setting.name, "zeroed"), repetition, MeasureUnit::MibPerSecond, zeroed.rate());
}

fn judge(findings: &mut ExperimentFindings, scale: LabScale, size: u64, (off, on): (&ZeroResult, &ZeroResult)) {
    let samples = &findings.samples;
    let cases = [String::new()];
    let shown = |title, measure, label, unit| PlotSpec { title, measure, label, unit };
    findings.plots = vec![
        trial::bars(samples, shown("Duration", "time", "duration", MeasureUnit::Seconds), &cases, &WRITE_SAME),
        trial::bars(samples, shown("Zeroing rate", "zeroed", "rate", MeasureUnit::MibPerSecond), &cases, &WRITE_SAME),
    ];
    let rate = |s: &Samples| s.median(key("", "WRITE SAME on", "zeroed"));
    let terabyte = |s: &Samples| Some(s.median(key("", "WRITE SAME on", "time"))? * TIB as f64 / size as f64);
    let name = if size == TIB { "1 TB with WRITE SAME" } else { "1 TB with WRITE SAME, extrapolated" };
    let mut whole = figure(name, MeasureUnit::Seconds, samples, terabyte).published(TERABYTE_TUNED_SECS);
    if on.supported && scale == LabScale::Paper && size == TIB {
        whole = whole.goal(Goal::AtMost(20.0));
    }
    let seen = trial::times(samples, "", &WRITE_SAME);
    findings.figures = vec![
        figure("faster with WRITE SAME", MeasureUnit::Times, samples, |s| trial::faster(s, "", &WRITE_SAME))
            .published(TERABYTE_OFF_SECS / TERABYTE_TUNED_SECS),
        whole,
        figure("zeroing rate with WRITE SAME", MeasureUnit::MibPerSecond, samples, rate)
            .published(15.0e9 / f64::from(1 << 20)),
    ];
    if size != TIB {
        findings.notes.push(ReportNote::Extrapolated(format!(
            "The disk has {}; the value for 1 TB is extrapolated.",
            display::bytes(size)
        )));
    }
    findings.add_seen(Some(format!("{}: {seen}.", display::bytes(size))));
    let seconds = terabyte(&findings.samples);
    findings.add_seen(seconds.map(|seconds| {
        format!(
            "1 TB with WRITE SAME: {} (published: {} with Purity 5.0, {} with 5.1).",
            display::seconds(seconds),
            display::seconds(TERABYTE_ON_SECS),
            display::seconds(TERABYTE_TUNED_SECS)
        )
    }));
    zeros::explain(findings, "", (off, on));
}
