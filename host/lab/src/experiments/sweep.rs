//! The sweep: time of a fixed amount of work as a function of outstanding commands, transfer size
//! and distance. It is not part of `all`.

use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::raw_load::{RawCommand, RawDisk};
use crate::results::{
    Axis, ExperimentFindings, MeasureUnit, Plot, Point, ReportNote, Role, Samples, Series, Shape, key,
};
use crate::trial;
use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// The amount of work of the plots.
const WORK: u64 = 100 * GIB;
const OUTSTANDING: [u16; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const SIZES: [u64; 6] = [64 * KIB, 256 * KIB, MIB, 4 * MIB, 8 * MIB, 16 * MIB];
/// Added round-trip times in microseconds: the same rack, a campus, a metro cluster and beyond.
const DISTANCES: [u64; 5] = [0, 500, 1000, 4000, 10_000];
const TIME: &str = "time of 100 GiB";

/// A swept operation with its default size.
struct Operation {
    name: &'static str,
    bytes: u64,
    command: fn(u64) -> RawCommand,
    /// The most bytes per command.
    most: u64,
}

const OPERATIONS: [Operation; 4] = [
    Operation {
        name: "EXTENDED COPY",
        bytes: 4 * MIB,
        command: |bytes| RawCommand::Xcopy { bytes, shift: 0 },
        most: 16 * MIB,
    },
    Operation { name: "WRITE SAME", bytes: MIB, command: RawCommand::WriteSame, most: 16 * MIB },
    Operation { name: "READ", bytes: MIB, command: RawCommand::Read, most: 4 * MIB },
    Operation { name: "WRITE", bytes: MIB, command: RawCommand::Write, most: 4 * MIB },
];

/// A swept parameter: its name, label, unit and values for an operation.
struct Sweep {
    name: &'static str,
    label: &'static str,
    unit: MeasureUnit,
}

const SWEEPS: [Sweep; 3] = [
    Sweep { name: "outstanding", label: "outstanding commands", unit: MeasureUnit::Count },
    Sweep { name: "size", label: "MiB per command", unit: MeasureUnit::Mebibytes },
    Sweep { name: "distance", label: "added round trip", unit: MeasureUnit::Milliseconds },
];

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    let points = OPERATIONS.len() * (OUTSTANDING.len() + SIZES.len() + DISTANCES.len());
    bench.plan(1 + points * bench.repetitions as usize);
    bench.step("writing the source data");
    let mut disk = RawDisk::prepare(bench).await?;
    *findings = ExperimentFindings {
        setup: format!(
            "one disk, a second per point, time for {} at the measured rate; sizes of 4 MiB for EXTENDED COPY and 1 MiB for the \
             others, unless varied; the device queue has 128 slots",
            display::bytes(WORK)
        ),
        expected: "More outstanding commands help until the array or the host is busy, and hide distance.".into(),
        ..ExperimentFindings::default()
    };
    let mut refused = Vec::new();
    for repetition in 0..bench.repetitions {
        for operation in &OPERATIONS {
            let usual = usual(bench, operation);
            for slots in trial::alternating(&OUTSTANDING, repetition) {
                let place = (0, f64::from(slots));
                point(bench, &disk, operation, (operation.bytes, slots), place, (findings, &mut refused, repetition))
                    .await?;
            }
            for bytes in trial::alternating(&SIZES, repetition).into_iter().filter(|bytes| *bytes <= operation.most) {
                let place = (1, bytes as f64 / MIB as f64);
                point(bench, &disk, operation, (bytes, usual), place, (findings, &mut refused, repetition)).await?;
            }
        }
        for micros in trial::alternating(&DISTANCES, repetition) {
            disk.at_distance(bench, Duration::from_micros(micros)).await?;
            for operation in &OPERATIONS {
                let (usual, place) = (usual(bench, operation), (2, micros as f64 / 1e3));
                point(bench, &disk, operation, (operation.bytes, usual), place, (findings, &mut refused, repetition))
                    .await?;
            }
        }
        disk.at_distance(bench, Duration::ZERO).await?;
    }
    if !refused.is_empty() {
        findings.notes.push(ReportNote::LeftOut(format!("the target refuses: {}.", refused.join("; "))));
    }
    judge(findings);
    disk.close().await
}

/// Returns the outstanding commands of the data mover.
fn usual(bench: &LabBench, operation: &Operation) -> u16 {
    match operation.name {
        "EXTENDED COPY" => bench.outstanding.xcopy,
        "WRITE SAME" => bench.outstanding.write_same,
        _ => bench.outstanding.transfers,
    }
}

/// Measures one point of a sweep.
async fn point(
    bench: &LabBench,
    disk: &RawDisk,
    operation: &Operation,
    (bytes, slots): (u64, u16),
    (sweep, x): (usize, f64),
    (findings, refused, repetition): (&mut ExperimentFindings, &mut Vec<String>, u32),
) -> Result<(), LabError> {
    let what = format!("{} of {}", operation.name, display::bytes(bytes));
    bench.step(format!("{what}, {slots} outstanding, run {}", repetition + 1));
    if refused.contains(&what) {
        return Ok(());
    }
    let Some(result) = disk.measure((operation.command)(bytes), slots, trial::SAMPLE).await? else {
        refused.push(what);
        return Ok(());
    };
    let case = format!("{} {x}", SWEEPS[sweep].name);
    let mut push =
        |measure, unit, value| findings.samples.push(key(&case, operation.name, measure), repetition, unit, value);
    let mib_s = result.mib_s().max(1e-9);
    push(TIME, MeasureUnit::Seconds, WORK as f64 / MIB as f64 / mib_s);
    push("described", MeasureUnit::MibPerSecond, mib_s);
    push(trial::SAMPLED, MeasureUnit::Seconds, result.time.as_secs_f64());
    Ok(())
}

fn values(sweep: usize) -> Vec<f64> {
    match sweep {
        0 => OUTSTANDING.iter().map(|slots| f64::from(*slots)).collect(),
        1 => SIZES.iter().map(|bytes| *bytes as f64 / MIB as f64).collect(),
        _ => DISTANCES.iter().map(|micros| *micros as f64 / 1e3).collect(),
    }
}

fn judge(findings: &mut ExperimentFindings) {
    let samples = &findings.samples;
    let series = |sweep: usize, at: usize, operation: &Operation| {
        let point = |x: &f64| {
            let case = format!("{} {x}", SWEEPS[sweep].name);
            Some(Point::spread(*x, samples.spread(key(&case, operation.name, TIME))?))
        };
        let points = values(sweep).iter().filter_map(point).collect();
        Series { name: operation.name.to_owned(), role: Role::Nth(at as u8 + 2), points }
    };
    let plot = |sweep: usize| {
        let Sweep { label, unit, .. } = SWEEPS[sweep];
        // A logarithmic axis has no 0.
        let x = if sweep == 2 { Axis::linear(label, unit) } else { Axis::log(label, unit) };
        Plot {
            title: format!("Time of {} over {label}", display::bytes(WORK)),
            shape: Shape::Lines,
            x,
            y: Axis::log("time", MeasureUnit::Seconds),
            places: Vec::new(),
            series: OPERATIONS.iter().enumerate().map(|(at, operation)| series(sweep, at, operation)).collect(),
            bands: Vec::new(),
        }
    };
    let plots = (0..SWEEPS.len()).map(plot).collect();
    let seen = OPERATIONS.iter().filter_map(|operation| best(samples, operation)).collect();
    (findings.plots, findings.seen) = (plots, seen);
}

/// Names the least number of outstanding commands that comes within 10 % of the best rate.
fn best(samples: &Samples, operation: &Operation) -> Option<String> {
    let time = |x: f64| samples.median(key(&format!("outstanding {x}"), operation.name, TIME));
    let times: Vec<(f64, f64)> = values(0).into_iter().filter_map(|x| Some((x, time(x)?))).collect();
    let least = times.iter().map(|(_, time)| *time).reduce(f64::min)?;
    let (slots, time) = times.into_iter().find(|(_, time)| *time <= 1.1 * least)?;
    Some(format!(
        "{}: {slots} outstanding commands come within 10 % of the best time, {} for {}.",
        operation.name,
        display::seconds(time),
        display::bytes(WORK)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_is_the_least_count_near_the_best_time() {
        let mut samples = Samples::default();
        for (slots, time) in [(1.0, 50.0), (2.0, 26.0), (4.0, 10.5), (8.0, 10.0)] {
            samples.push(key(&format!("outstanding {slots}"), "READ", TIME), 0, MeasureUnit::Seconds, time);
        }
        let text = best(&samples, &OPERATIONS[2]).unwrap();
        assert!(text.starts_with("READ: 4 outstanding commands") && text.contains("10.5 s for 100 GiB"), "{text}");
        assert_eq!(best(&samples, &OPERATIONS[0]), None);
    }
}
