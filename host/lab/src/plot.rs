//! The plots of a report.

use crate::stats::Spread;
use serde::{Deserialize, Serialize};

/// Unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasureUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Operations per second.
    PerSecond,
    /// Mebibytes per second.
    MibPerSecond,
    /// Mebibytes.
    Mebibytes,
    /// A plain number of commands, blocks or virtual machines.
    Count,
    /// A ratio of two numbers.
    Times,
    /// Percent.
    Percent,
}

impl MeasureUnit {
    /// Returns the unit sign after a number; empty for a plain number.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::PerSecond => "/s",
            Self::MibPerSecond => "MiB/s",
            Self::Mebibytes => "MiB",
            Self::Count => "",
            Self::Times => "×",
            Self::Percent => "%",
        }
    }
}

/// How the points of a plot are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Groups of bars with a label per group.
    Bars,
    /// Points joined by lines.
    Lines,
    /// A curve over time, without marks.
    Time,
}

/// An axis of a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Label of the axis.
    pub label: String,
    /// Unit of its numbers.
    pub unit: MeasureUnit,
    /// True for a logarithmic scale.
    pub log: bool,
}

impl Axis {
    /// Creates a linear axis.
    pub fn linear(label: impl Into<String>, unit: MeasureUnit) -> Self {
        Self { label: label.into(), unit, log: false }
    }

    /// Creates a logarithmic axis.
    pub fn log(label: impl Into<String>, unit: MeasureUnit) -> Self {
        Self { label: label.into(), unit, log: true }
    }
}

/// Meaning of a series, which determines its colour in all plots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Offload off: blue, as in the published charts.
    Without,
    /// Offload on: orange, as in the published charts.
    With,
    /// One of several series that are neither.
    Nth(u8),
}

/// One series of a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Meaning, which determines the colour.
    pub role: Role,
    /// Points ordered by x. For bars, x is the index of the group.
    pub points: Vec<Point>,
}

/// One point of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Horizontal position.
    pub x: f64,
    /// The median, or the only value.
    pub y: f64,
    /// Minimum and maximum over the repetitions, if there are several.
    pub ends: Option<(f64, f64)>,
}

impl Point {
    /// Creates a point without a range.
    pub fn plain(x: f64, y: f64) -> Self {
        Self { x, y, ends: None }
    }

    /// Creates a point with the range of its repetitions.
    pub fn spread(x: f64, spread: Spread) -> Self {
        Self { x, y: spread.median, ends: (spread.count > 1).then_some((spread.low, spread.high)) }
    }
}

/// A plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// Title.
    pub title: String,
    /// How the points are drawn.
    pub shape: Shape,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Labels of the bar groups; empty for other shapes.
    pub places: Vec<String>,
    /// The series.
    pub series: Vec<Series>,
    /// Highlighted ranges of x.
    pub bands: Vec<Band>,
}

/// A named range of x, drawn below the series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// Start of the range.
    pub from: f64,
    /// End of the range.
    pub to: f64,
    /// Name of the range.
    pub name: String,
}

impl Plot {
    /// Returns true if there is at least one point to draw.
    pub fn is_drawn(&self) -> bool {
        self.series.iter().any(|series| !series.points.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_repetition_has_no_whiskers() {
        assert_eq!(Point::spread(1.0, Spread::of([4.0]).unwrap()).ends, None);
        assert_eq!(Point::spread(1.0, Spread::of([4.0, 6.0]).unwrap()).ends, Some((4.0, 6.0)));
    }
}
