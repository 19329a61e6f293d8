//! Common parts of all experiments: settings that alternate, and sentences, plots and figures from
//! samples.

use crate::display;
use crate::results::{Axis, Figure, Key, MeasureUnit, Plot, Point, Role, Samples, Series, Shape, key};
pub(crate) use crate::stats::{ROUNDS, SAMPLE, SAMPLED};

/// The measure of L0, and its only setting.
pub(crate) const RATE: &str = "commands per second";
pub(crate) const ALONE: &str = "raw";

/// A setting that an experiment compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Name in samples and legends.
    pub(crate) name: &'static str,
    /// Colour.
    pub(crate) role: Role,
    /// True if the offload is used.
    pub(crate) on: bool,
}

/// Returns an offload as two settings, off and on.
pub(crate) const fn off_and_on(off: &'static str, on: &'static str) -> [Setting; 2] {
    [Setting { name: off, role: Role::Without, on: false }, Setting { name: on, role: Role::With, on: true }]
}

/// EXTENDED COPY.
pub(crate) const XCOPY: [Setting; 2] = off_and_on("XCOPY off", "XCOPY on");
/// WRITE SAME.
pub(crate) const WRITE_SAME: [Setting; 2] = off_and_on("WRITE SAME off", "WRITE SAME on");
/// COMPARE AND WRITE.
pub(crate) const ATS: [Setting; 2] = off_and_on("ATS off", "ATS on");

/// Returns the settings in the order of one repetition: odd repetitions reverse it.
/// Effects that grow with time, such as a fuller array or a warmer cache, then affect all settings.
pub(crate) fn alternating<T: Clone>(settings: &[T], repetition: u32) -> Vec<T> {
    let mut order = settings.to_vec();
    if repetition % 2 == 1 {
        order.reverse();
    }
    order
}

/// The samples and labels of a plot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlotSpec<'a> {
    /// Title.
    pub(crate) title: &'a str,
    /// Measure to show.
    pub(crate) measure: &'a str,
    /// Label of the vertical axis.
    pub(crate) label: &'a str,
    /// Unit of the measure.
    pub(crate) unit: MeasureUnit,
}

/// Creates a bar plot with a group per case and a bar per setting.
pub(crate) fn bars(samples: &Samples, shown: PlotSpec<'_>, cases: &[String], settings: &[Setting]) -> Plot {
    let points = |setting: &Setting| {
        let spread = |case: &String| samples.spread(key(case, setting.name, shown.measure));
        cases.iter().enumerate().filter_map(|(at, case)| Some(Point::spread(at as f64, spread(case)?))).collect()
    };
    let places = cases.iter().map(|case| if case.is_empty() { shown.label.to_owned() } else { case.clone() });
    Plot {
        title: shown.title.to_owned(),
        shape: Shape::Bars,
        x: Axis::linear("", MeasureUnit::Count),
        y: Axis::linear(shown.label, shown.unit),
        places: places.collect(),
        series: settings
            .iter()
            .map(|setting| Series { name: setting.name.to_owned(), role: setting.role, points: points(setting) })
            .collect(),
        bands: Vec::new(),
    }
}

/// Creates a line plot with a point per case and a line per setting.
pub(crate) fn lines(
    samples: &Samples,
    shown: PlotSpec<'_>,
    cases: &[(f64, String)],
    settings: &[Setting],
    x: Axis,
) -> Plot {
    let points = |setting: &Setting| {
        let spread = |case: &String| samples.spread(key(case, setting.name, shown.measure));
        cases.iter().filter_map(|(at, case)| Some(Point::spread(*at, spread(case)?))).collect()
    };
    Plot {
        title: shown.title.to_owned(),
        shape: Shape::Lines,
        x,
        y: Axis::linear(shown.label, shown.unit),
        places: Vec::new(),
        series: settings
            .iter()
            .map(|setting| Series { name: setting.name.to_owned(), role: setting.role, points: points(setting) })
            .collect(),
        bands: Vec::new(),
    }
}

/// Returns the ratio of two medians; `None` if one was not measured or the divisor is 0.
pub(crate) fn ratio(samples: &Samples, over: Key<'_>, under: Key<'_>) -> Option<f64> {
    let under = samples.median(under).filter(|value| *value > 0.0)?;
    Some(samples.median(over)? / under)
}

/// Returns how many times faster the second setting was.
pub(crate) fn faster(samples: &Samples, case: &str, settings: &[Setting; 2]) -> Option<f64> {
    ratio(samples, key(case, settings[0].name, "time"), key(case, settings[1].name, "time"))
}

/// Returns the median of `case` in percent of the best median of all `cases`.
pub(crate) fn share_of_best(
    samples: &Samples,
    case: &str,
    cases: &[&str],
    setting: &str,
    measure: &str,
) -> Option<f64> {
    let median = |case: &str| samples.median(key(case, setting, measure));
    let best = cases.iter().filter_map(|case| median(case)).reduce(f64::max).filter(|best| *best > 0.0)?;
    Some(100.0 * median(case)? / best)
}

/// Creates a figure from a statistic of the samples, with its confidence interval, without a
/// published value and without a goal.
pub(crate) fn figure(
    name: impl Into<String>,
    unit: MeasureUnit,
    samples: &Samples,
    statistic: impl Fn(&Samples) -> Option<f64>,
) -> Figure {
    let measured = statistic(samples);
    let interval = measured.and_then(|_| samples.interval(statistic));
    Figure { name: name.into(), unit, measured, published: None, goal: None, interval, verdict: None }
}

/// Returns the index of the repetition whose value is the median, so that a curve and the numbers
/// in the text describe the same repetition.
pub(crate) fn median_run(values: &[f64]) -> Option<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    order.get(values.len().saturating_sub(1) / 2).copied()
}

/// Formats the times of one case: `XCOPY off 41 s (38 s to 43 s); XCOPY on 1 s`.
pub(crate) fn times(samples: &Samples, case: &str, settings: &[Setting]) -> String {
    let one = |setting: &Setting| {
        let spread = samples.spread(key(case, setting.name, "time"))?;
        Some(format!("{} {}", setting.name, display::spread(spread, MeasureUnit::Seconds)))
    };
    settings.iter().filter_map(one).collect::<Vec<_>>().join("; ")
}

/// Describes how a ratio compares with the published one.
pub(crate) fn compare_with_published(measured: f64, published: f64) -> String {
    let ratio = measured / published;
    let published = display::with_unit(published, MeasureUnit::Times);
    match ratio {
        r if r > 1.25 => format!("{} times the published value ({published})", display::number(r)),
        r if r < 0.8 => {
            format!("{} of the published value ({published})", display::with_unit(100.0 * r, MeasureUnit::Percent))
        }
        _ => format!("close to the published value ({published})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Samples {
        let mut samples = Samples::default();
        for (repetition, (off, on)) in [(40.0, 2.0), (42.0, 1.0)].into_iter().enumerate() {
            samples.push(key("16", "XCOPY off", "time"), repetition as u32, MeasureUnit::Seconds, off);
            samples.push(key("16", "XCOPY on", "time"), repetition as u32, MeasureUnit::Seconds, on);
        }
        samples
    }

    #[test]
    fn settings_alternate_between_repetitions() {
        assert_eq!(alternating(&["off", "on"], 0), ["off", "on"]);
        assert_eq!(alternating(&["off", "on"], 1), ["on", "off"]);
    }

    #[test]
    fn ratio_of_medians_is_none_without_divisor() {
        let mut samples = samples();
        assert!((faster(&samples, "16", &XCOPY).unwrap() - 41.0 / 1.5).abs() < 1e-9);
        assert_eq!(faster(&samples, "8", &XCOPY), None);
        samples.push(key("8", "XCOPY off", "time"), 0, MeasureUnit::Seconds, 1.0);
        samples.push(key("8", "XCOPY on", "time"), 0, MeasureUnit::Seconds, 0.0);
        assert_eq!(faster(&samples, "8", &XCOPY), None);
    }

    #[test]
    fn median_run_is_the_repetition_in_the_middle() {
        assert_eq!(median_run(&[9.0, 1.0, 5.0]), Some(2));
        assert_eq!(median_run(&[2.0, 1.0]), Some(1));
        assert_eq!(median_run(&[]), None);
    }

    #[test]
    fn plots_omit_unmeasured_cases() {
        let shown = PlotSpec { title: "t", measure: "time", label: "duration", unit: MeasureUnit::Seconds };
        let plot = bars(&samples(), shown, &["8".to_owned(), "16".to_owned()], &XCOPY);
        assert_eq!(plot.places, ["8", "16"]);
        assert_eq!(plot.series[0].points, [Point { x: 1.0, y: 41.0, ends: Some((40.0, 42.0)) }]);
    }

    #[test]
    fn sentences_contain_the_measured_numbers() {
        assert_eq!(times(&samples(), "16", &XCOPY), "XCOPY off 41 s (40 s to 42 s); XCOPY on 1.5 s (1 s to 2 s)");
        assert_eq!(compare_with_published(8.0, 8.2), "close to the published value (8.2×)");
        assert_eq!(compare_with_published(16.0, 8.0), "2 times the published value (8×)");
        assert_eq!(compare_with_published(4.0, 8.0), "50 % of the published value (8×)");
    }
}
