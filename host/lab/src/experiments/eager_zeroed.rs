//! L7: creation of eagerzeroedthick disks of four sizes, and of four disks at once.

use super::zeros::{self, ZeroResult};
use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::results::{Axis, ExperimentFindings, Figure, Goal, MeasureUnit, Plot, Point, Samples, Series, Shape, key};
use crate::stats;
use crate::store::{LabDatastore, REMOVED_PART};
use crate::trial::{self, PlotSpec, WRITE_SAME, figure};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Number of disks created at once, and the case names.
const TOGETHER: usize = 4;
const FOUR: &str = "four at once";
const ONE: &str = "one of them alone";
/// The least rate of each case, in percent of the best rate seen.
const LEAST_SHARE: f64 = 60.0;

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    let sizes = bench.scale.pick([256 * MIB, 512 * MIB, GIB, 2 * GIB], [20 * GIB, 40 * GIB, 80 * GIB, 100 * GIB]);
    // Without WRITE SAME all zeros cross the wire, so the four disks are small. With it they are so
    // large that zeroing takes longer than the datastore's metadata changes; smaller if the target
    // writes the zeros.
    // Under a space limit, disks that were removed before may still take their part of it.
    let removed = bench.space_limit.unwrap_or(0) / REMOVED_PART;
    let room = bench.capacity(0)?.saturating_sub(removed) / TOGETHER as u64 / MIB * MIB;
    let [small, medium, large] =
        bench.scale.pick([GIB / 2, 16 * GIB, 64 * GIB], [20 * GIB, 100 * GIB, 100 * GIB]).map(|size| size.min(room));
    let mut together = [small, large];
    let sizes: Vec<u64> = bench.fitting(0, &sizes)?;
    bench.say("creating a datastore");
    let store = LabDatastore::format(bench, 0, "esx01", None).await?;
    bench.plan(2 * (sizes.len() + 2) * bench.repetitions as usize);
    *findings = ExperimentFindings {
        setup: setup(together, true),
        expected: "About 6 times faster at any size. Four at once take 3.5 times as long as one without WRITE SAME, and 1.6 times \
                   with it."
            .into(),
        ..ExperimentFindings::default()
    };
    let mut last: [Option<ZeroResult>; 2] = [None, None];
    for repetition in 0..bench.repetitions {
        for size in &sizes {
            for setting in trial::alternating(&WRITE_SAME, repetition) {
                bench.step(format!("{}, {}, run {}", display::bytes(*size), setting.name, repetition + 1));
                let zeroed = zeros::make(bench, &store, 1, *size, setting.on).await?;
                zeroed.note(&mut findings.samples, &display::bytes(*size), setting, repetition);
                last[usize::from(setting.on)] = Some(zeroed);
            }
        }
        if repetition == 0 && last[1].is_some_and(|on| !on.is_quick(TOGETHER as u64 * large)) {
            together = [small, medium];
            findings.setup = setup(together, true);
        }
        for setting in trial::alternating(&WRITE_SAME, repetition) {
            for (case, disks) in [(ONE, 1), (FOUR, TOGETHER)] {
                bench.step(format!("{case}, {}, run {}", setting.name, repetition + 1));
                let usable = !zeros::is_fallback(&last) && setting.on;
                let zeroed = zeros::make(bench, &store, disks, together[usize::from(usable)], setting.on).await?;
                zeroed.note(&mut findings.samples, case, setting, repetition);
            }
        }
    }
    if zeros::is_fallback(&last) {
        findings.setup = setup(together, false);
    }
    if let [Some(off), Some(on)] = &last {
        judge(findings, &sizes, (off, on));
    }
    store.unmount().await?;
    Ok(())
}

/// Describes the comparison. `together` holds the bytes of each of the four disks without and with
/// WRITE SAME.
fn setup(together: [u64; 2], is_supported: bool) -> String {
    let [small, large] = together.map(display::bytes);
    let sizes = match is_supported {
        true => format!("of {large} with WRITE SAME, of {small} without"),
        false => format!("of {small} in both settings, because the target refuses WRITE SAME"),
    };
    format!("one disk of each size; four at once from one host through one device queue: {sizes}")
}

fn judge(findings: &mut ExperimentFindings, sizes: &[u64], (off, on): (&ZeroResult, &ZeroResult)) {
    let samples = &findings.samples;
    let cases: Vec<String> = sizes.iter().map(|size| display::bytes(*size)).collect();
    let shown = PlotSpec {
        title: "Duration of creating one disk",
        measure: "time",
        label: "duration",
        unit: MeasureUnit::Seconds,
    };
    let single = trial::bars(samples, shown, &cases, &WRITE_SAME);
    // The two cases zero disks of the same size at once and alone.
    let over = |s: &Samples, setting| trial::ratio(s, key(FOUR, setting, "time"), key(ONE, setting, "time"));
    let (four_off, four_on) = (over(samples, "WRITE SAME off"), over(samples, "WRITE SAME on"));
    let gains =
        |s: &Samples| -> Vec<f64> { cases.iter().filter_map(|case| trial::faster(s, case, &WRITE_SAME)).collect() };
    let gain = |s: &Samples| stats::mean(&gains(s));
    let all = gains(samples);
    let ends = all.iter().copied().reduce(f64::min).zip(all.iter().copied().reduce(f64::max));
    let seen = trial::times(samples, cases.last().map_or("", String::as_str), &WRITE_SAME);
    let at_once =
        figure("four at once over one, with WRITE SAME", MeasureUnit::Times, samples, |s| over(s, "WRITE SAME on"));
    let at_once = at_once.published(1.6);
    let without =
        figure("four at once over one, without WRITE SAME", MeasureUnit::Times, samples, |s| over(s, "WRITE SAME off"));
    let without = without.published(3.5);
    findings.figures = vec![
        figure("faster with WRITE SAME, mean of the sizes", MeasureUnit::Times, samples, gain).published(6.0),
        at_once,
        without,
    ];
    findings.figures.extend(shares_of_best(samples, on.supported));
    findings.plots = vec![single, together_plot(&findings.figures[1..3])];
    findings.add_seen(cases.last().map(|size| format!("{size}: {seen}.")));
    findings.add_seen(ends.map(|(low, high)| {
        format!(
            "The gain is between {} and {}, depending on the size.",
            display::with_unit(low, MeasureUnit::Times),
            display::with_unit(high, MeasureUnit::Times)
        )
    }));
    findings.add_seen(four_off.zip(four_on).map(|(off, on)| {
        format!(
            "Four at once take {} times as long as one without WRITE SAME, {} times with it.",
            display::number(off),
            display::number(on)
        )
    }));
    zeros::explain(findings, cases.last().map_or("", String::as_str), (off, on));
}

/// Compares the zeroing rate of one disk and of four at once with the best rate of this run. The
/// floor for one disk keeps a slow single case from making four at once look good.
fn shares_of_best(samples: &Samples, is_supported: bool) -> [Figure; 2] {
    [(ONE, "one disk"), (FOUR, "four at once")].map(|(case, name)| {
        let share = figure(format!("{name}, rate as part of the best seen"), MeasureUnit::Percent, samples, |s| {
            trial::share_of_best(s, case, &[ONE, FOUR], WRITE_SAME[1].name, "zeroed")
        });
        if is_supported { share.goal(Goal::AtLeast(LEAST_SHARE)) } else { share }
    })
}

/// Plots how much longer four disks take than one, as in the VAAI guide (2015).
fn together_plot(figures: &[Figure]) -> Plot {
    let order = [(&WRITE_SAME[0], 1), (&WRITE_SAME[1], 0)];
    let series = order.map(|(setting, at)| Series {
        name: setting.name.to_owned(),
        role: setting.role,
        points: figures.get(at).and_then(|f| f.measured).map(|y| Point::plain(0.0, y)).into_iter().collect(),
    });
    Plot {
        title: "Four at once: time relative to one".to_owned(),
        shape: Shape::Bars,
        x: Axis::linear("", MeasureUnit::Count),
        y: Axis::linear("times longer than one", MeasureUnit::Times),
        places: vec![FOUR.to_owned()],
        series: series.to_vec(),
        bands: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setup_states_the_zeroed_sizes() {
        let together = [GIB / 2, 48 * GIB];
        assert!(
            setup(together, true).ends_with("of 48 GiB with WRITE SAME, of 512 MiB without"),
            "{}",
            setup(together, true)
        );
        let refused = setup(together, false);
        assert!(refused.ends_with("of 512 MiB in both settings, because the target refuses WRITE SAME"), "{refused}");
    }

    #[test]
    fn ratio_plot_names_the_settings() {
        let figures = [1.5, 3.0].map(|value| figure("any", MeasureUnit::Times, &Samples::default(), |_| Some(value)));
        let names: Vec<String> = together_plot(&figures).series.into_iter().map(|series| series.name).collect();
        assert_eq!(names, WRITE_SAME.map(|setting| setting.name));
    }
}
