//! What was measured, as values: samples, the plots drawn from them, and the judgement of a figure. The JSON of a report
//! is these types.

use crate::machine::{MachineInfo, MachineLoad};
pub use crate::plot::{Axis, Band, MeasureUnit, Plot, Point, Role, Series, Shape};
use crate::published::Published;
use crate::stats::Spread;
use serde::Serialize;

/// One number, measured once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// What was varied along the experiment: a size, a number of disks; empty where nothing was.
    pub case: String,
    /// The setting that the experiment compares.
    pub setting: String,
    /// Which repetition, from 0.
    pub repetition: u32,
    /// What was measured: `time`, `iops`.
    pub measure: String,
    /// What the value counts.
    pub unit: MeasureUnit,
    /// The value.
    pub value: f64,
}

/// A measure over its repetitions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// As in [`Sample`].
    pub case: String,
    /// As in [`Sample`].
    pub setting: String,
    /// As in [`Sample`].
    pub measure: String,
    /// As in [`Sample`].
    pub unit: MeasureUnit,
    /// Median and ends.
    pub spread: Spread,
}

/// Samples in the order in which they were taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Samples(pub Vec<Sample>);

impl Samples {
    /// Takes note of one.
    pub fn push(&mut self, key: Key<'_>, repetition: u32, unit: MeasureUnit, value: f64) {
        let Key { case, setting, measure } = key;
        let [case, setting, measure] = [case, setting, measure].map(str::to_owned);
        self.0.push(Sample { case, setting, repetition, measure, unit, value });
    }

    /// The values of one key, in order.
    pub fn values(&self, key: Key<'_>) -> Vec<f64> {
        let same = |s: &&Sample| s.case == key.case && s.setting == key.setting && s.measure == key.measure;
        self.0.iter().filter(same).map(|sample| sample.value).collect()
    }

    /// The spread of one key; nothing where it was not measured.
    pub fn spread(&self, key: Key<'_>) -> Option<Spread> {
        Spread::of(self.values(key))
    }

    /// The median of one key.
    pub fn median(&self, key: Key<'_>) -> Option<f64> {
        self.spread(key).map(|spread| spread.median)
    }

    /// Every key that was measured, summed up, in the order in which they first came.
    pub fn summaries(&self) -> Vec<Summary> {
        let mut found: Vec<Summary> = Vec::new();
        for sample in &self.0 {
            let key = Key { case: &sample.case, setting: &sample.setting, measure: &sample.measure };
            if found.iter().any(|s| s.case == key.case && s.setting == key.setting && s.measure == key.measure) {
                continue;
            }
            if let Some(spread) = self.spread(key) {
                let (case, setting, measure) = (sample.case.clone(), sample.setting.clone(), sample.measure.clone());
                found.push(Summary { case, setting, measure, unit: sample.unit, spread });
            }
        }
        found
    }
}

/// What a sample is of.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// As in [`Sample`].
    pub case: &'a str,
    /// As in [`Sample`].
    pub setting: &'a str,
    /// As in [`Sample`].
    pub measure: &'a str,
}

/// A key, in short.
pub fn key<'a>(case: &'a str, setting: &'a str, measure: &'a str) -> Key<'a> {
    Key { case, setting, measure }
}

/// What a figure must be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
}

impl Goal {
    /// True when `value` reaches it.
    pub fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast(limit) => value >= limit,
            Self::AtMost(limit) => value <= limit,
        }
    }
}

/// One number that an experiment is judged by, beside that of the documents.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it says.
    pub name: String,
    /// What it counts.
    pub unit: MeasureUnit,
    /// What was seen; nothing where it could not be measured.
    pub measured: Option<f64>,
    /// What the documents say; nothing where they give no number.
    pub published: Option<f64>,
    /// What this array promises; nothing where it promises nothing, or not at this scale.
    pub goal: Option<Goal>,
}

impl Figure {
    /// With the documents' number.
    pub(crate) fn published(mut self, value: f64) -> Self {
        self.published = Some(value);
        self
    }

    /// With what must be reached.
    pub(crate) fn goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self
    }

    /// Whether the goal was met; nothing without a goal or a measurement.
    pub fn is_met(&self) -> Option<bool> {
        Some(self.goal?.is_met_by(self.measured?))
    }
}

/// What a reader must know before the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "text")]
pub enum ReportNote {
    /// The target lacks a primitive: what was measured is the host's fall-back.
    Unsupported(String),
    /// Something was measured in part and reckoned to the whole.
    Extrapolated(String),
    /// A part was left out, and why.
    LeftOut(String),
}

impl ReportNote {
    /// The words.
    pub fn text(&self) -> &str {
        match self {
            Self::Unsupported(text) | Self::Extrapolated(text) | Self::LeftOut(text) => text,
        }
    }
}

/// What an experiment found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExperimentFindings {
    /// What this run did: sizes, numbers of disks.
    pub setup: String,
    /// Every number.
    pub samples: Samples,
    /// The plots.
    pub plots: Vec<Plot>,
    /// The figures it is judged by; the first stands in the overview.
    pub figures: Vec<Figure>,
    /// What must be known first.
    pub notes: Vec<ReportNote>,
    /// What the documents let one expect here.
    pub expected: String,
    /// What was seen, in words made of the numbers.
    pub seen: Vec<String>,
    /// Why it differs from the documents, in words made of the numbers.
    pub why: Vec<String>,
}

impl ExperimentFindings {
    /// Adds a sentence to what was seen, where there is one.
    pub(crate) fn add_seen(&mut self, text: Option<String>) {
        self.seen.extend(text);
    }

    /// Adds a reason, where there is one.
    pub(crate) fn add_reason(&mut self, text: Option<String>) {
        self.why.extend(text);
    }
}

/// How an experiment ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "reason")]
pub enum Ending {
    /// To its end.
    Done,
    /// It cannot be done with this target, for this reason.
    NotPossible(String),
    /// It failed.
    Failed(String),
}

/// One experiment of a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExperimentOutcome {
    /// `L1` to `L11`.
    pub id: String,
    /// Its name on the command line.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What it asks.
    pub question: String,
    /// What the documents say.
    pub published: Published,
    /// How it ended.
    pub ending: Ending,
    /// What it found.
    pub findings: ExperimentFindings,
    /// The machine's load meanwhile.
    pub load: MachineLoad,
    /// How long it took, in seconds.
    pub secs: f64,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TargetInfo {
    /// VENDOR, PRODUCT and REVISION of its first disk.
    pub identity: String,
    /// Its iSCSI name.
    pub target: String,
    /// Its portals, `host:port`.
    pub portals: Vec<String>,
    /// Its disks: name and size.
    pub disks: Vec<String>,
    /// True when the lab started the array for itself.
    pub own: bool,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabReport {
    /// The version of the lab.
    pub version: String,
    /// `small` or `paper`.
    pub scale: String,
    /// When it began, in milliseconds since 1970.
    pub begun: u64,
    /// How long it took, in seconds.
    pub secs: f64,
    /// How often everything was repeated, where an experiment does not say otherwise.
    pub repetitions: u32,
    /// What was measured.
    pub subject: TargetInfo,
    /// On what machine.
    pub machine: MachineInfo,
    /// The experiments, in the documents' order.
    pub outcomes: Vec<ExperimentOutcome>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_up_by_key_in_the_order_they_came() {
        let mut samples = Samples::default();
        for (repetition, (off, on)) in [(8.0, 2.0), (10.0, 1.0), (9.0, 3.0)].into_iter().enumerate() {
            samples.push(key("", "off", "time"), repetition as u32, MeasureUnit::Seconds, off);
            samples.push(key("", "on", "time"), repetition as u32, MeasureUnit::Seconds, on);
        }
        let summaries = samples.summaries();
        assert_eq!(summaries.iter().map(|s| s.setting.as_str()).collect::<Vec<_>>(), ["off", "on"]);
        assert_eq!(summaries[0].spread, Spread { median: 9.0, low: 8.0, high: 10.0, count: 3 });
        assert_eq!(samples.median(key("", "on", "time")), Some(2.0));
        assert_eq!(samples.median(key("", "on", "iops")), None);
    }

    #[test]
    fn a_goal_is_met_at_its_limit() {
        assert!(Goal::AtLeast(8.0).is_met_by(8.0) && !Goal::AtLeast(8.0).is_met_by(7.9));
        assert!(Goal::AtMost(1.6).is_met_by(1.6) && !Goal::AtMost(1.6).is_met_by(1.7));
        let figure =
            Figure { name: String::new(), unit: MeasureUnit::Times, measured: None, published: None, goal: None };
        assert_eq!(figure.is_met(), None);
    }
}
