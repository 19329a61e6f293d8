//! Predicts the duration of operations from the rates of their commands alone (L0).
//!
//! The model is simple on purpose: offloads and transfers run at the rate that L0 saw with the same
//! number outstanding; metadata commands follow each other. A difference between prediction and
//! measurement is work that commands do not explain, or commands that overlap.

use crate::results::{ExperimentOutcome, Key, MeasureUnit, Prediction, Samples, key};
use crate::trial::{ALONE, RATE};
use multipath::CountersSnapshot;
use virtual_disk::MoverWork;

const MIB: f64 = (1 << 20) as f64;

/// The measures that describe the commands of an operation.
const XCOPY: [&str; 2] = ["XCOPY commands", "XCOPY MiB"];
const WRITE_SAME: &str = "WRITE SAME commands";
const UNMAP: [&str; 2] = ["UNMAP commands", "UNMAP MiB"];
const MOVED: [&str; 2] = ["READ MiB", "WRITE MiB"];
const METADATA: [&str; 3] = ["ATS commands", "metadata reads", "metadata writes"];

/// Commands of an operation: those of the data mover, and those for metadata.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostCommands {
    mover: MoverWork,
    /// COMPARE AND WRITE, reads and writes of metadata.
    metadata: [u64; 3],
}

impl HostCommands {
    /// Splits the commands that a host counted into those of the mover and those for metadata.
    pub(crate) fn of(counted: &CountersSnapshot, mover: MoverWork) -> Self {
        let metadata = [
            counted.ats.done + counted.ats.failed,
            counted.reads.saturating_sub(mover.read.commands),
            counted.writes.saturating_sub(mover.write.commands),
        ];
        Self { mover, metadata }
    }

    /// Adds the commands of another operation.
    pub(crate) fn plus(&mut self, other: &Self) {
        self.mover.add(other.mover);
        self.metadata.iter_mut().zip(other.metadata).for_each(|(to, from)| *to += from);
    }

    /// Records the commands of one of `rounds` operations.
    pub(crate) fn note(&self, samples: &mut Samples, (case, setting): (&str, &str), repetition: u32, rounds: u32) {
        let rounds = f64::from(rounds.max(1));
        let mut push = |measure, unit, value: f64| {
            if value > 0.0 {
                samples.push(key(case, setting, measure), repetition, unit, value / rounds);
            }
        };
        let MoverWork { xcopy, write_same, unmap, read, write } = self.mover;
        let (count, mebibytes) = (MeasureUnit::Count, MeasureUnit::Mebibytes);
        push(XCOPY[0], count, xcopy.commands as f64);
        push(XCOPY[1], mebibytes, xcopy.bytes as f64 / MIB);
        push(WRITE_SAME, count, write_same.commands as f64);
        push(UNMAP[0], count, unmap.commands as f64);
        push(UNMAP[1], mebibytes, unmap.bytes as f64 / MIB);
        push(MOVED[0], mebibytes, read.bytes as f64 / MIB);
        push(MOVED[1], mebibytes, write.bytes as f64 / MIB);
        METADATA.iter().zip(self.metadata).for_each(|(measure, commands)| push(measure, count, commands as f64));
    }
}

/// Seconds per command, from the samples of L0.
struct Costs<'a>(&'a Samples);

impl Costs<'_> {
    /// Returns the seconds per command of a case.
    fn of(&self, case: &str) -> Option<f64> {
        self.0.median(key(case, ALONE, RATE)).filter(|rate| *rate > 0.0).map(|rate| 1.0 / rate)
    }

    /// Returns the seconds per EXTENDED COPY of `mib`, between the measured sizes.
    fn xcopy(&self, mib: f64) -> Option<f64> {
        let points = [1.0, 4.0, 16.0].map(|size| Some((size, self.of(&format!("XCOPY of {size} MiB"))?)));
        let points: Vec<(f64, f64)> = points.into_iter().flatten().collect();
        let (first, last) = (points.first()?, points.last()?);
        if mib <= first.0 {
            return Some(first.1);
        }
        let between = points.iter().zip(points.iter().skip(1)).find(|(_, to)| mib <= to.0);
        Some(
            between.map_or(last.1 * mib / last.0, |(from, to)| {
                from.1 + (to.1 - from.1) * (mib - from.0) / (to.0 - from.0)
            }),
        )
    }

    /// Returns the seconds of `commands` UNMAP of `mib` together: a cost per command and one per
    /// MiB, which is one descriptor in L0.
    fn unmap(&self, commands: f64, mib: f64) -> Option<f64> {
        let (one, many) = (self.of("UNMAP of 1 descriptor")?, self.of("UNMAP of 32 descriptors")?);
        let each = ((many - one) / 31.0).max(0.0);
        Some(commands * (one - each).max(0.0) + mib * each)
    }

    fn metadata(&self) -> Option<[f64; 3]> {
        Some([
            self.of("ATS, one at a time")?,
            self.of("READ of 4 KiB, one at a time")?,
            self.of("WRITE of 4 KiB, one at a time")?,
        ])
    }
}

/// Predicts every duration of an experiment whose commands were counted. `raw` has the samples of
/// L0.
pub(crate) fn predict(outcome: &ExperimentOutcome, raw: &Samples) -> Vec<Prediction> {
    let (samples, costs) = (&outcome.findings.samples, Costs(raw));
    let mut predictions: Vec<Prediction> = Vec::new();
    for summary in samples.summaries().iter().filter(|summary| summary.measure == "time") {
        let place = (summary.case.as_str(), summary.setting.as_str());
        if let Some((commands, metadata)) = operation(samples, place, &costs) {
            predictions.push(Prediction {
                case: summary.case.clone(),
                setting: summary.setting.clone(),
                commands,
                metadata,
                seen: summary.spread.median,
            });
        }
    }
    predictions.extend(first_writes(samples, &costs));
    predictions
}

/// Returns the seconds of the data mover's commands and of the metadata commands.
fn operation(samples: &Samples, (case, setting): (&str, &str), costs: &Costs<'_>) -> Option<(f64, f64)> {
    let count = |measure| samples.median(Key { case, setting, measure });
    let counted = |measure| count(measure).unwrap_or(0.0);
    let of = |amount: f64, cost: Option<f64>| if amount > 0.0 { Some(amount * cost?) } else { Some(0.0) };
    let [copies, copied] = XCOPY.map(counted);
    let [unmaps, unmapped] = UNMAP.map(counted);
    let zeros = counted(WRITE_SAME);
    let moved = MOVED.map(counted);
    if copies + unmaps + zeros + moved[0] + moved[1] <= 0.0 {
        return None;
    }
    let unmapping = if unmaps > 0.0 { costs.unmap(unmaps, unmapped)? } else { 0.0 };
    let offloads = of(copies, costs.xcopy(copied / copies.max(1.0)))?
        + of(zeros, costs.of("WRITE SAME of 1 MiB"))?
        + unmapping
        + of(moved[0], costs.of("READ of 1 MiB"))?
        + of(moved[1], costs.of("WRITE of 1 MiB"))?;
    let metadata = METADATA.map(counted).iter().zip(costs.metadata()?).map(|(commands, cost)| commands * cost).sum();
    Some((offloads, metadata))
}

/// Predicts the time of the commands that prepare a block for its first write (L9).
fn first_writes(samples: &Samples, costs: &Costs<'_>) -> Vec<Prediction> {
    let one = |setting: &str| {
        let count = |part| samples.median(key(part, setting, "commands per block")).unwrap_or(0.0);
        let time = |part| samples.median(key(part, setting, "command time per block")).unwrap_or(0.0);
        let parts = ["zeroing", "locks and metadata (ATS)", "journal"];
        let [zeroing, ats, journal] = parts.map(count);
        let zero = if setting.ends_with("off") {
            "WRITE of 1 MiB, one at a time"
        } else {
            "WRITE SAME of 1 MiB, one at a time"
        };
        let [swap, _, write] = costs.metadata()?;
        let seen = parts.map(time).iter().sum::<f64>() / 1e3;
        let metadata = ats * swap + journal * write;
        let case = "commands before the first write of a block".to_owned();
        Some(Prediction { case, setting: setting.to_owned(), commands: zeroing * costs.of(zero)?, metadata, seen })
    };
    let mut settings: Vec<&str> = Vec::new();
    for sample in samples.0.iter().filter(|sample| sample.measure == "commands per block") {
        if !settings.contains(&sample.setting.as_str()) && sample.setting != "eagerzeroedthick" {
            settings.push(&sample.setting);
        }
    }
    settings.into_iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;
    use virtual_disk::CommandTotal;

    fn raw() -> Samples {
        let mut raw = Samples::default();
        for (case, rate) in [
            ("XCOPY of 1 MiB", 4000.0),
            ("XCOPY of 4 MiB", 2000.0),
            ("XCOPY of 16 MiB", 1000.0),
            ("UNMAP of 1 descriptor", 1000.0),
            ("UNMAP of 32 descriptors", 100.0),
            ("READ of 1 MiB", 500.0),
            ("WRITE of 1 MiB", 250.0),
            ("ATS, one at a time", 1000.0),
            ("READ of 4 KiB, one at a time", 2000.0),
            ("WRITE of 4 KiB, one at a time", 1000.0),
        ] {
            raw.push(key(case, ALONE, RATE), 0, MeasureUnit::PerSecond, rate);
        }
        raw
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn copy_cost_is_interpolated_between_sizes() {
        let raw = raw();
        let costs = Costs(&raw);
        let of = |mib| costs.xcopy(mib).unwrap();
        assert!(close(of(0.5), 0.00025) && close(of(4.0), 0.0005) && close(of(10.0), 0.00075), "{}", of(10.0));
        assert!(close(of(32.0), 0.002));
    }

    #[test]
    fn unmap_cost_is_per_command_and_per_descriptor() {
        let raw = raw();
        // (10 ms - 1 ms) / 31 per descriptor.
        let each = 0.009 / 31.0;
        assert!(close(Costs(&raw).unmap(2.0, 64.0).unwrap(), 2.0 * (0.001 - each) + 64.0 * each));
    }

    #[test]
    fn duration_is_predicted_from_counted_commands() {
        let mut outcome = report().outcomes.remove(0);
        let total = |commands, bytes| CommandTotal { commands, bytes };
        let mover = MoverWork { xcopy: total(8, 8 << 22), ..MoverWork::default() };
        let mut counted = CountersSnapshot { reads: 4, writes: 2, ..CountersSnapshot::default() };
        counted.ats.done = 3;
        let samples = &mut outcome.findings.samples;
        samples.0.clear();
        samples.push(key("", "on", "time"), 0, MeasureUnit::Seconds, 0.012);
        samples.push(key("", "uncounted", "time"), 0, MeasureUnit::Seconds, 1.0);
        let mut commands = HostCommands::of(&counted, mover);
        commands.plus(&HostCommands::of(&counted, mover));
        commands.note(samples, ("", "on"), 0, 2);
        let predicted = predict(&outcome, &raw());
        assert_eq!(predicted.len(), 1);
        // 8 copies of 4 MiB; 3 swaps, 4 reads and 2 writes of metadata.
        assert!(close(predicted[0].commands, 0.004) && close(predicted[0].metadata, 0.007), "{predicted:?}");
        assert!(predict(&outcome, &Samples::default()).is_empty(), "L0 was not run");
    }
}
