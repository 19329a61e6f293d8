//! The plots of a report, as values.

use crate::stats::Spread;
use serde::Serialize;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
    /// Commands, blocks, virtual machines: plain numbers.
    Count,
    /// One number over another.
    Times,
    /// Hundredths.
    Percent,
}

impl MeasureUnit {
    /// As it stands behind a number; empty for a plain number.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::PerSecond => "/s",
            Self::MibPerSecond => "MiB/s",
            Self::Count => "",
            Self::Times => "×",
            Self::Percent => "%",
        }
    }
}

/// How the points of a plot are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Groups of bars over named places.
    Bars,
    /// Points joined by lines.
    Lines,
    /// A curve over time, without marks.
    Time,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// What its numbers count.
    pub unit: MeasureUnit,
    /// Logarithmic.
    pub log: bool,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: impl Into<String>, unit: MeasureUnit) -> Self {
        Self { label: label.into(), unit, log: false }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>, unit: MeasureUnit) -> Self {
        Self { label: label.into(), unit, log: true }
    }
}

/// What a series stands for; the same thing has the same colour in every plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The offload off: blue, as in the documents' own charts.
    Without,
    /// The offload on: orange, as in the documents' own charts.
    With,
    /// One of several that are neither.
    Nth(u8),
}

/// One series of a plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Which colour.
    pub role: Role,
    /// The points, by x; of bars x is the index of the place.
    pub points: Vec<Point>,
}

/// One point of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// The median, or the one value.
    pub y: f64,
    /// The ends of the spread, where there is one.
    pub ends: Option<(f64, f64)>,
}

impl Point {
    /// A point without a spread.
    pub fn plain(x: f64, y: f64) -> Self {
        Self { x, y, ends: None }
    }

    /// A point with the spread of its repetitions.
    pub fn spread(x: f64, spread: Spread) -> Self {
        Self { x, y: spread.median, ends: (spread.count > 1).then_some((spread.low, spread.high)) }
    }
}

/// A plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// How.
    pub shape: Shape,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The names of the places of bars; empty for the other shapes.
    pub places: Vec<String>,
    /// What is drawn.
    pub series: Vec<Series>,
    /// Stretches of x that mean something.
    pub bands: Vec<Band>,
}

/// A stretch of x with a name, drawn behind the series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// What it is.
    pub name: String,
}

impl Plot {
    /// True when there is at least one point to draw.
    pub fn is_drawn(&self) -> bool {
        self.series.iter().any(|series| !series.points.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_repetition_has_no_whiskers() {
        assert_eq!(Point::spread(1.0, Spread::of([4.0]).unwrap()).ends, None);
        assert_eq!(Point::spread(1.0, Spread::of([4.0, 6.0]).unwrap()).ends, Some((4.0, 6.0)));
    }
}
