//! Results of experiments: samples, figures with their goals, notes and explanations.
//! The JSON report is the serialized form of these types.

use crate::machine::{MachineInfo, MachineLoad};
pub use crate::plot::{Axis, Band, MeasureUnit, Plot, Point, Role, Series, Shape};
use crate::published::Published;
use crate::stats::{self, Interval, Spread};
use serde::{Deserialize, Serialize};
use testing::mix;
use virtual_disk::Outstanding;

/// One measured number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The varied parameter, such as a size or a number of disks; empty if there is none.
    pub case: String,
    /// The compared setting, such as `XCOPY on`.
    pub setting: String,
    /// Repetition, from 0.
    pub repetition: u32,
    /// Name of the measure, such as `time` or `iops`.
    pub measure: String,
    /// Unit of the value.
    pub unit: MeasureUnit,
    /// The value.
    pub value: f64,
}

/// Statistics of a measure over its repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// As in [`Sample`].
    pub case: String,
    /// As in [`Sample`].
    pub setting: String,
    /// As in [`Sample`].
    pub measure: String,
    /// As in [`Sample`].
    pub unit: MeasureUnit,
    /// Median and range.
    pub spread: Spread,
}

/// Resamples of a bootstrap.
const RESAMPLES: usize = 500;

/// Samples in the order of measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Samples(pub Vec<Sample>);

impl Samples {
    /// Adds a sample.
    pub fn push(&mut self, key: Key<'_>, repetition: u32, unit: MeasureUnit, value: f64) {
        let Key { case, setting, measure } = key;
        let [case, setting, measure] = [case, setting, measure].map(str::to_owned);
        self.0.push(Sample { case, setting, repetition, measure, unit, value });
    }

    /// Returns the values of one key in order.
    pub fn values(&self, key: Key<'_>) -> Vec<f64> {
        let same = |s: &&Sample| s.case == key.case && s.setting == key.setting && s.measure == key.measure;
        self.0.iter().filter(same).map(|sample| sample.value).collect()
    }

    /// Returns median and range of one key; `None` if it was not measured.
    pub fn spread(&self, key: Key<'_>) -> Option<Spread> {
        Spread::of(self.values(key))
    }

    /// Returns the median of one key.
    pub fn median(&self, key: Key<'_>) -> Option<f64> {
        self.spread(key).map(|spread| spread.median)
    }

    /// Returns the 95 % confidence interval of a statistic of these samples, by resampling the
    /// repetitions of every key. `None` if no key has two repetitions.
    pub fn interval(&self, statistic: impl Fn(&Self) -> Option<f64>) -> Option<Interval> {
        let mut keys: Vec<Vec<usize>> = Vec::new();
        for (index, sample) in self.0.iter().enumerate() {
            let same = |other: &Sample| {
                other.case == sample.case && other.setting == sample.setting && other.measure == sample.measure
            };
            match keys.iter_mut().find(|key| key.first().is_some_and(|first| same(&self.0[*first]))) {
                Some(key) => key.push(index),
                None => keys.push(vec![index]),
            }
        }
        if keys.iter().all(|key| key.len() < 2) {
            return None;
        }
        let (mut resampled, mut seed) = (self.clone(), 0);
        let values = (0..RESAMPLES).filter_map(|_| {
            for key in &keys {
                for index in key {
                    seed += 1;
                    let drawn = key[(mix(seed) % key.len() as u64) as usize];
                    resampled.0[*index].value = self.0[drawn].value;
                }
            }
            statistic(&resampled)
        });
        Interval::of(values.collect())
    }

    /// Returns the statistics of every key, in the order of their first samples.
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

/// Identifies a measured value.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// As in [`Sample`].
    pub case: &'a str,
    /// As in [`Sample`].
    pub setting: &'a str,
    /// As in [`Sample`].
    pub measure: &'a str,
}

/// Creates a key.
pub fn key<'a>(case: &'a str, setting: &'a str, measure: &'a str) -> Key<'a> {
    Key { case, setting, measure }
}

/// The limit that a figure must reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// At least this value.
    AtLeast(f64),
    /// At most this value.
    AtMost(f64),
}

impl Goal {
    /// Returns true if `value` reaches the goal.
    pub fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast(limit) => value >= limit,
            Self::AtMost(limit) => value <= limit,
        }
    }
}

/// A key number of an experiment, with its published value and its goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name of the figure.
    pub name: String,
    /// Unit.
    pub unit: MeasureUnit,
    /// Measured value; `None` if it could not be measured.
    pub measured: Option<f64>,
    /// Published value; `None` if the sources have no number.
    pub published: Option<f64>,
    /// The array's goal; `None` if there is none, or none at this scale.
    pub goal: Option<Goal>,
    /// 95 % confidence interval; `None` with fewer than two repetitions.
    pub interval: Option<Interval>,
    /// Verdict on the goal; `None` without a goal or a measurement.
    pub verdict: Option<GoalVerdict>,
}

impl Figure {
    /// Sets the published value.
    pub(crate) fn published(mut self, value: f64) -> Self {
        self.published = Some(value);
        self
    }

    /// Sets the goal.
    pub(crate) fn goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self
    }

    /// Judges the goal. The result is unknown if `is_noisy`, without an interval, and if the
    /// interval spans the goal.
    fn judge(&mut self, is_noisy: bool) {
        self.verdict = self.goal.zip(self.measured).map(|(goal, _)| match self.interval {
            Some(Interval { low, high }) if !is_noisy => match (goal.is_met_by(low), goal.is_met_by(high)) {
                (true, true) => GoalVerdict::Met,
                (false, false) => GoalVerdict::Missed,
                _ => GoalVerdict::CannotTell,
            },
            _ => GoalVerdict::CannotTell,
        });
    }
}

/// Verdict on one goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GoalVerdict {
    /// The whole interval reaches the goal.
    Met,
    /// No part of the interval reaches the goal.
    Missed,
    /// The samples do not answer the question.
    CannotTell,
}

impl GoalVerdict {
    /// Returns the verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Met => "goal met",
            Self::Missed => "goal missed",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// Verdict on an experiment: the same in the terminal, on the page and in the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It failed.
    Failed,
    /// It is not possible with this target.
    NotPossible,
    /// The host's fall-back was measured, because the target lacks the offload.
    FallBack,
    /// It has no goal.
    Measured,
    /// All goals were met.
    GoalMet,
    /// At least one goal was missed.
    GoalMissed,
    /// No goal was missed, but at least one cannot be judged.
    CannotTell,
}

impl Verdict {
    /// Returns the verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::NotPossible => "not possible",
            Self::FallBack => "fall-back measured",
            Self::Measured => "measured",
            Self::GoalMet => GoalVerdict::Met.words(),
            Self::GoalMissed => GoalVerdict::Missed.words(),
            Self::CannotTell => GoalVerdict::CannotTell.words(),
        }
    }

    fn of(ending: &Ending, findings: &ExperimentFindings) -> Self {
        let has = |verdict| findings.figures.iter().any(|figure| figure.verdict == Some(verdict));
        match ending {
            Ending::Failed(_) => Self::Failed,
            Ending::NotPossible(_) => Self::NotPossible,
            Ending::Done if findings.notes.iter().any(|note| matches!(note, ReportNote::Unsupported(_))) => {
                Self::FallBack
            }
            Ending::Done if has(GoalVerdict::Missed) => Self::GoalMissed,
            Ending::Done if has(GoalVerdict::CannotTell) => Self::CannotTell,
            Ending::Done if has(GoalVerdict::Met) => Self::GoalMet,
            Ending::Done => Self::Measured,
        }
    }
}

/// A remark that qualifies the numbers of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "text")]
pub enum ReportNote {
    /// The target does not support an offload, so the host's fall-back was measured.
    Unsupported(String),
    /// A part was measured and the value for the whole calculated from it.
    Extrapolated(String),
    /// A part was left out, with the reason.
    LeftOut(String),
    /// Cases whose samples cover less than a second.
    Short(String),
}

impl ReportNote {
    /// Returns the text of the remark.
    pub fn text(&self) -> &str {
        match self {
            Self::Unsupported(text) | Self::Extrapolated(text) | Self::LeftOut(text) | Self::Short(text) => text,
        }
    }
}

/// Concurrent commands of one operation of the host, the same in all experiments of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutstandingCounts {
    /// EXTENDED COPY.
    pub xcopy: u16,
    /// WRITE SAME.
    pub write_same: u16,
    /// UNMAP.
    pub unmap: u16,
    /// READ and WRITE.
    pub transfers: u16,
}

impl From<Outstanding> for OutstandingCounts {
    fn from(from: Outstanding) -> Self {
        let Outstanding { xcopy, write_same, unmap, transfers } = from;
        Self { xcopy, write_same, unmap, transfers }
    }
}

impl From<OutstandingCounts> for Outstanding {
    fn from(from: OutstandingCounts) -> Self {
        let OutstandingCounts { xcopy, write_same, unmap, transfers } = from;
        Self { xcopy, write_same, unmap, transfers }
    }
}

/// A duration as predicted from the rates of L0, and as measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// As in [`Sample`].
    pub case: String,
    /// As in [`Sample`].
    pub setting: String,
    /// Predicted seconds of offloads and transfers, with as many outstanding as in L0.
    pub commands: f64,
    /// Predicted seconds of metadata commands, one after another.
    pub metadata: f64,
    /// Measured seconds, the median.
    pub seen: f64,
}

impl Prediction {
    /// Returns the predicted seconds.
    pub fn predicted(&self) -> f64 {
        self.commands + self.metadata
    }
}

/// The commands of one operation in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Title.
    pub title: String,
    /// The commands in order of their start.
    pub rows: Vec<TimelineRow>,
    /// Number of rows that were left out, and the number of rows before them.
    pub left_out: usize,
    /// See [`left_out`](Self::left_out).
    pub left_out_after: usize,
}

/// Commands in sequence with the same purpose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineRow {
    /// Start of the first command in seconds.
    pub at: f64,
    /// End of the last command in seconds.
    pub until: f64,
    /// The disk that they were sent to.
    pub disk: String,
    /// Name of the command.
    pub command: String,
    /// Number of commands.
    pub commands: u64,
    /// Bytes described or transferred.
    pub bytes: u64,
    /// Their purpose in the operation.
    pub meaning: String,
}

/// Results of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExperimentFindings {
    /// Sizes and numbers of disks used, and the outstanding commands.
    pub setup: String,
    /// Concurrent commands of one operation.
    pub outstanding: OutstandingCounts,
    /// All samples.
    pub samples: Samples,
    /// The plots.
    pub plots: Vec<Plot>,
    /// The key figures; the overview shows the first one.
    pub figures: Vec<Figure>,
    /// Remarks shown before the numbers.
    pub notes: Vec<ReportNote>,
    /// The expected result, based on the published figures.
    pub expected: String,
    /// The measured result in sentences.
    pub seen: Vec<String>,
    /// Explanations of differences from the published figures.
    pub why: Vec<String>,
    /// Durations predicted from L0, if it was run.
    pub predictions: Vec<Prediction>,
    /// Timelines of single operations, if they were requested.
    pub timelines: Vec<Timeline>,
}

impl ExperimentFindings {
    /// Adds a sentence to the measured result, if there is one.
    pub(crate) fn add_seen(&mut self, text: Option<String>) {
        self.seen.extend(text);
    }

    /// Notes the cases whose samples are shorter than a second.
    pub(crate) fn add_short_samples(&mut self) {
        let is_short = |s: &&Sample| s.measure == stats::SAMPLED && s.value < stats::SAMPLE.as_secs_f64();
        let mut cases: Vec<String> = self
            .samples
            .0
            .iter()
            .filter(is_short)
            .map(|s| format!("{} {}", s.case, s.setting).trim().to_owned())
            .collect();
        cases.sort();
        cases.dedup();
        if !cases.is_empty() {
            self.notes.push(ReportNote::Short(format!("{}.", cases.join("; "))));
        }
    }

    /// Adds an explanation, if there is one.
    pub(crate) fn add_reason(&mut self, text: Option<String>) {
        self.why.extend(text);
    }
}

/// How an experiment ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "reason")]
pub enum Ending {
    /// It completed.
    Done,
    /// It is not possible with this target, with the reason.
    NotPossible(String),
    /// It failed, with the reason.
    Failed(String),
}

/// An experiment with its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentOutcome {
    /// `L0` to `L13`, `H8`, or `S1`.
    pub id: String,
    /// Name on the command line.
    pub name: String,
    /// Title.
    pub title: String,
    /// The question that it answers.
    pub question: String,
    /// Published quotes and figures.
    #[serde(skip_deserializing)]
    pub published: Published,
    /// How it ended.
    pub ending: Ending,
    /// The only verdict: terminal, page and JSON show this value.
    pub verdict: Verdict,
    /// The results.
    pub findings: ExperimentFindings,
    /// Load of the machine during the experiment.
    pub load: MachineLoad,
    /// Duration in seconds.
    pub secs: f64,
}

impl ExperimentOutcome {
    /// Judges all goals and the experiment.
    pub(crate) fn judge(&mut self) {
        let is_noisy = self.load.is_noisy();
        self.findings.figures.iter_mut().for_each(|figure| figure.judge(is_noisy));
        self.verdict = Verdict::of(&self.ending, &self.findings);
    }
}

/// The measured target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetInfo {
    /// VENDOR, PRODUCT and REVISION of its first disk.
    pub identity: String,
    /// iSCSI name.
    pub target: String,
    /// Portals, `host:port`.
    pub portals: Vec<String>,
    /// LUNs and sizes of its disks.
    pub disks: Vec<String>,
    /// True if the lab started the array.
    pub own: bool,
}

/// The scale of a report of captures.
pub const CAPTURE_SCALE: &str = "capture";

/// Version of the format of the JSON report.
pub const SCHEMA: u32 = 3;

/// Settings that a run can be repeated with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSettings {
    /// The command line that repeats the run.
    pub command: String,
    /// Experiments by id.
    pub experiments: Vec<String>,
    /// Target URLs; empty if the lab started an array.
    pub targets: Vec<String>,
    /// Concurrent commands of one operation.
    pub outstanding: OutstandingCounts,
    /// The most bytes that an experiment may store on the target; `None` without a limit.
    pub space_limit: Option<u64>,
    /// Advanced settings of the host, and their values unless an experiment varies them.
    pub host: Vec<(String, u64)>,
    /// How test data is made.
    pub data: String,
    /// Seeds of test data and loads, by experiment.
    pub seeds: Vec<(String, u64)>,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Settings to repeat it with.
    pub settings: RunSettings,
    /// Version of the lab.
    pub version: String,
    /// Revision of its source, or `unknown`.
    pub revision: String,
    /// `small`, `paper`, or `capture`.
    pub scale: String,
    /// Start time in milliseconds since 1970.
    pub begun: u64,
    /// Duration in seconds.
    pub secs: f64,
    /// Repetitions of each measurement, unless an experiment says otherwise.
    pub repetitions: u32,
    /// The measured target.
    pub subject: TargetInfo,
    /// The machine that the lab ran on.
    pub machine: MachineInfo,
    /// The experiments in the order of their ids.
    pub outcomes: Vec<ExperimentOutcome>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_keep_the_order_of_first_samples() {
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
    fn goal_is_met_at_its_limit() {
        assert!(Goal::AtLeast(8.0).is_met_by(8.0) && !Goal::AtLeast(8.0).is_met_by(7.9));
        assert!(Goal::AtMost(1.6).is_met_by(1.6) && !Goal::AtMost(1.6).is_met_by(1.7));
    }

    #[test]
    fn verdict_is_unknown_if_the_interval_spans_the_goal() {
        let judged = |low, high, is_noisy| {
            let mut figure = Figure {
                name: String::new(),
                unit: MeasureUnit::Times,
                measured: Some(10.0),
                published: None,
                goal: Some(Goal::AtLeast(8.0)),
                interval: Some(Interval { low, high }),
                verdict: None,
            };
            figure.judge(is_noisy);
            figure.verdict
        };
        assert_eq!(judged(9.0, 11.0, false), Some(GoalVerdict::Met));
        assert_eq!(judged(7.0, 11.0, false), Some(GoalVerdict::CannotTell));
        assert_eq!(judged(5.0, 7.0, false), Some(GoalVerdict::Missed));
        assert_eq!(judged(9.0, 11.0, true), Some(GoalVerdict::CannotTell), "foreign load");
    }

    #[test]
    fn interval_of_a_ratio_covers_the_repetitions() {
        let mut samples = Samples::default();
        for (repetition, (off, on)) in [(8.0, 2.0), (10.0, 2.0), (9.0, 2.0)].into_iter().enumerate() {
            samples.push(key("", "off", "time"), repetition as u32, MeasureUnit::Seconds, off);
            samples.push(key("", "on", "time"), repetition as u32, MeasureUnit::Seconds, on);
        }
        let gain = |s: &Samples| Some(s.median(key("", "off", "time"))? / s.median(key("", "on", "time"))?);
        assert_eq!(samples.interval(gain), Some(Interval { low: 4.0, high: 5.0 }));
        samples.0.truncate(2);
        assert_eq!(samples.interval(gain), None, "one repetition");
    }
}
