//! Statistics for a small number of repetitions: the median, and the range from minimum to maximum.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Least duration of a sample: shorter ones measure the clock of the scheduler.
pub(crate) const SAMPLE: Duration = Duration::from_secs(1);
/// Measure with the duration of a whole sample; other measures are means over its operations.
pub(crate) const SAMPLED: &str = "sampled for";
/// The most operations in one sample.
pub(crate) const ROUNDS: u32 = 100;

/// Median and range of a measure. With three to five repetitions, quartiles would add nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median; the mean of the middle two values if their number is even.
    pub median: f64,
    /// Minimum.
    pub low: f64,
    /// Maximum.
    pub high: f64,
    /// Number of values.
    pub count: usize,
}

impl Spread {
    /// Returns the spread of the finite values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let lower = if values.len().is_multiple_of(2) { *values.get(middle - 1)? } else { upper };
        Some(Self { median: f64::midpoint(lower, upper), low, high, count: values.len() })
    }
}

/// Range that holds a statistic with 95 % confidence, by the percentile bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// 2.5th percentile.
    pub low: f64,
    /// 97.5th percentile.
    pub high: f64,
}

impl Interval {
    /// Returns the interval of the statistics of all resamples; `None` if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values.get((share * values.len().saturating_sub(1) as f64).round() as usize).copied();
        Some(Self { low: at(0.025)?, high: at(0.975)? })
    }

    /// Returns half of the width.
    pub fn half_width(self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// Returns the mean; `None` if there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the coefficient of variation: the population standard deviation divided by the mean.
/// `None` if the mean is 0 or there are fewer than two values.
pub fn variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean != 0.0 && values.len() > 1)?;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    Some(square.sqrt() / mean)
}

/// Returns the slope of the least-squares line through `points`: the growth of y per unit of x.
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let square = points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>();
    let cross = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>();
    (square > 0.0).then(|| cross / square)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_even_count_is_mean_of_middle_two() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { median: 2.5, low: 1.0, high: 4.0, count: 4 });
        assert_eq!(Spread::of([7.0, 9.0, 8.0]).unwrap().median, 8.0);
        assert_eq!(Spread::of([5.0]).unwrap().median, 5.0);
    }

    #[test]
    fn non_finite_values_are_ignored() {
        assert_eq!(Spread::of([f64::NAN, f64::INFINITY]), None);
        assert_eq!(Spread::of([1.0, f64::NAN]).unwrap().count, 1);
    }

    #[test]
    fn variation_is_zero_for_steady_rates() {
        assert_eq!(variation(&[5.0, 5.0, 5.0]), Some(0.0));
        assert_eq!(variation(&[0.0, 10.0]), Some(1.0));
        assert_eq!(variation(&[0.0, 0.0]), None);
        assert_eq!(variation(&[3.0]), None);
    }

    #[test]
    fn interval_leaves_out_both_tails() {
        let interval = Interval::of((0..=1000).rev().map(f64::from).collect()).unwrap();
        assert_eq!(interval, Interval { low: 25.0, high: 975.0 });
        assert_eq!(interval.half_width(), 475.0);
        assert_eq!(Interval::of(vec![f64::NAN]), None);
    }

    #[test]
    fn slope_of_points_on_a_line() {
        assert_eq!(slope(&[(1.0, 3.0), (2.0, 5.0), (3.0, 7.0)]), Some(2.0));
        assert_eq!(slope(&[(1.0, 3.0), (1.0, 5.0)]), None);
    }
}
