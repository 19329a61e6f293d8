//! Formats numbers, durations and sizes for the report.

use crate::results::{Goal, MeasureUnit};
use crate::stats::{Interval, Spread};

/// Formats a value with its unit: `120 ms`, `3 min 47 s`, `5.4 GiB/s`, `12 300 /s`, `7.9×`.
pub fn with_unit(value: f64, unit: MeasureUnit) -> String {
    match unit {
        MeasureUnit::Seconds => seconds(value),
        MeasureUnit::Milliseconds => seconds(value / 1000.0),
        MeasureUnit::MibPerSecond if value.abs() >= 10_240.0 => format!("{} GiB/s", number(value / 1024.0)),
        MeasureUnit::PerSecond | MeasureUnit::MibPerSecond => format!("{} {}", number(value), unit.sign()),
        MeasureUnit::Mebibytes if value.abs() >= 10_240.0 => format!("{} GiB", number(value / 1024.0)),
        MeasureUnit::Mebibytes => format!("{} MiB", number(value)),
        MeasureUnit::Percent => format!("{} %", number(value)),
        MeasureUnit::Times => format!("{}×", number(value)),
        MeasureUnit::Count => number(value),
    }
}

/// Formats a duration in seconds.
pub fn seconds(value: f64) -> String {
    match value.abs() {
        0.0 => "0 s".to_owned(),
        v if v < 0.001 => format!("{} µs", number(value * 1e6)),
        v if v < 1.0 => format!("{} ms", number(value * 1e3)),
        v if v < 119.5 => format!("{} s", number(value)),
        _ => {
            let whole = value.round();
            format!("{} min {} s", (whole / 60.0).trunc(), whole.abs() % 60.0)
        }
    }
}

/// Formats a number with three significant digits and grouped thousands.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.0995 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let part = part.trim_end_matches('0');
    let whole = thousands(whole);
    if part.is_empty() { whole } else { format!("{whole}.{part}") }
}

/// Groups thousands with a narrow space if the number has five digits or more.
fn thousands(whole: &str) -> String {
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    if digits.len() < 5 {
        return whole.to_owned();
    }
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    format!("{sign}{}", groups.join("\u{202f}"))
}

/// Rounds a value to the first digit of the half-width of its range, because further digits are
/// noise.
fn rounded(value: f64, half_width: f64) -> f64 {
    if !(half_width.is_finite() && half_width > 0.0) {
        return value;
    }
    let step = 10f64.powf(half_width.log10().floor());
    (value / step).round() * step
}

/// Formats a figure with as many digits as its interval carries: `18×`, `1300 /s`.
pub fn estimate(value: f64, interval: Option<Interval>, unit: MeasureUnit) -> String {
    with_unit(rounded(value, interval.map_or(0.0, Interval::half_width)), unit)
}

/// Formats an interval: `16× to 21×`; `None` if there is none.
pub fn interval(interval: Option<Interval>, unit: MeasureUnit) -> Option<String> {
    let Interval { low, high } = interval?;
    let number = |value| estimate(value, interval, unit);
    Some(format!("{} to {}", number(low), number(high)))
}

/// Formats a median with its range: `2.1 s (1.9 s to 2.4 s)`.
pub fn spread(spread: Spread, unit: MeasureUnit) -> String {
    if spread.count < 2 {
        return with_unit(spread.median, unit);
    }
    let number = |value| with_unit(rounded(value, (spread.high - spread.low) / 2.0), unit);
    format!("{} ({} to {})", number(spread.median), number(spread.low), number(spread.high))
}

/// Formats a goal: `≥ 20×`.
pub fn goal(goal: Goal, unit: MeasureUnit) -> String {
    match goal {
        Goal::AtLeast(limit) => format!("≥ {}", with_unit(limit, unit)),
        Goal::AtMost(limit) => format!("≤ {}", with_unit(limit, unit)),
    }
}

/// Formats a number of bytes: `64 GiB`, `1.5 TiB`.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..UNITS.len() - 1).take_while(|power| value >> (10 * (power + 1)) > 0).count();
    format!("{} {}", number(value as f64 / (1u64 << (10 * power)) as f64), UNITS[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_by_magnitude() {
        for (value, text) in [
            (0.0000042, "4.2 µs"),
            (0.12, "120 ms"),
            (7.0, "7 s"),
            (35.42, "35.4 s"),
            (227.0, "3 min 47 s"),
            (1026.0, "17 min 6 s"),
            (119.6, "2 min 0 s"),
        ] {
            assert_eq!(seconds(value), text);
        }
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.04567, "0.046"),
            (1.0, "1"),
            (1.6, "1.6"),
            (7.899, "7.9"),
            (99.99, "100"),
            (1026.4, "1026"),
            (-1234.5, "-1234"),
            (1_048_576.0, "1\u{202f}048\u{202f}576"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn estimates_have_no_more_digits_than_their_interval() {
        let show = |value, low, high| estimate(value, Some(Interval { low, high }), MeasureUnit::Times);
        assert_eq!(show(18.43, 14.0, 23.0), "18×");
        assert_eq!(show(1259.0, 900.0, 1700.0), "1300×");
        assert_eq!(show(1.273, 1.268, 1.279), "1.27×");
        assert_eq!(estimate(18.43, None, MeasureUnit::Times), "18.4×");
        assert_eq!(interval(Some(Interval { low: 14.2, high: 23.1 }), MeasureUnit::Times).unwrap(), "14× to 23×");
    }

    #[test]
    fn sizes_use_binary_units() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1 << 40), "1 TiB");
        assert_eq!(bytes(3 << 29), "1.5 GiB");
        assert_eq!(bytes(4096 << 40), "4096 TiB");
    }

    #[test]
    fn spread_of_one_value_has_no_range() {
        assert_eq!(spread(Spread::of([2.0]).unwrap(), MeasureUnit::Seconds), "2 s");
        assert_eq!(spread(Spread::of([2.0, 3.0, 1.0]).unwrap(), MeasureUnit::Seconds), "2 s (1 s to 3 s)");
    }
}
