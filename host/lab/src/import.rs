//! Captures of real hosts: CSV files of `esxtop -b` and vmkernel.log, as a report beside those of
//! the lab.

mod capture;
mod kernel_log;

use crate::machine::{MachineInfo, MachineLoad};
use crate::published::Published;
use crate::results::{
    Axis, CAPTURE_SCALE, Ending, ExperimentFindings, ExperimentOutcome, LabReport, MeasureUnit, Plot, Point,
    ReportNote, Role, RunSettings, SCHEMA, Samples, Series, Shape, TargetInfo, Verdict, key,
};
use capture::{Capture, CounterSeries};
use platform::{clock, files};
use std::path::Path;
use thiserror::Error;

/// Largest file that is read.
const READ_BYTES: u64 = 1 << 30;
/// Number of devices of a capture that are shown: the busiest.
const DEVICES: usize = 4;

/// A capture cannot be imported.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("{path}: {reason}")]
    Read {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The file has no counters of disk devices.
    #[error("{path}: no counters of 'Physical Disk SCSI Device'")]
    NoDevices {
        /// The file.
        path: String,
    },
    /// No CSV file was given.
    #[error("no CSV file of esxtop -b among the files")]
    NoCapture,
}

/// One imported file.
enum Imported {
    Capture(Capture),
    Log(Vec<String>),
    Report(Box<LabReport>),
}

/// A group of counters that share a section of the report.
struct Group {
    id: &'static str,
    name: &'static str,
    title: &'static str,
    question: &'static str,
    has: fn(&str) -> bool,
}

const GROUPS: [Group; 4] = [
    Group {
        id: "C1",
        name: "commands",
        title: "Commands and throughput",
        question: "How many commands and bytes did the host send to each device?",
        has: |counter| counter.ends_with("/sec") && !is_offload(counter),
    },
    Group {
        id: "C2",
        name: "latency",
        title: "Latency",
        question: "How long did commands take in the array (driver) and in the host (kernel, queue)?",
        has: |counter| counter.contains("MilliSec") && !is_offload(counter),
    },
    Group {
        id: "C3",
        name: "offloads",
        title: "Offloads",
        question: "Which offloads did the host use, and did any fail?",
        has: is_offload,
    },
    Group {
        id: "C4",
        name: "queues",
        title: "Queues",
        question: "How many commands were open and how many waited?",
        has: |counter| {
            ["Q Depth", "Active Commands", "Queued Commands", "Load"].iter().any(|word| counter.contains(word))
        },
    },
];

/// Returns true for counters of offloads. Their names differ between releases of ESXi, so they are
/// found by words and shown with the names that the file has.
fn is_offload(counter: &str) -> bool {
    const WORDS: [&str; 13] = [
        "clone", "xcopy", "mbc_", "ats", "zero", "delete", "unmap", "mbdel", "cavg", "aavg", "zavg", "avg/suc", "avg/f",
    ];
    let lower = counter.to_ascii_lowercase();
    WORDS.iter().any(|word| lower.contains(word))
}

/// Imports files: captures as `FILE` or `NAME=FILE`, logs, and JSON reports of the lab, which are
/// shown on the same page.
///
/// # Errors
///
/// Fails if a file cannot be read, or if none is a capture.
pub fn import(names: &[String]) -> Result<LabReport, ImportError> {
    let (mut captures, mut lines, mut reports) = (Vec::new(), Vec::new(), Vec::new());
    for text in names {
        let (name, path) = text.split_once('=').unwrap_or((text, text));
        match read(name, path)? {
            Imported::Capture(capture) => captures.push(capture),
            Imported::Log(log) => lines.extend(log),
            Imported::Report(report) => reports.push(*report),
        }
    }
    if captures.is_empty() {
        return Err(ImportError::NoCapture);
    }
    let mut outcomes: Vec<ExperimentOutcome> = GROUPS.iter().filter_map(|group| section(group, &captures)).collect();
    if !lines.is_empty() {
        let findings = ExperimentFindings { seen: lines, ..ExperimentFindings::default() };
        let question = "What does vmkernel.log say about UNMAP, failed commands and lost connections?";
        outcomes.push(outcome(("C5", "log", "vmkernel.log", question), findings));
    }
    outcomes.extend(reports.into_iter().flat_map(|report| report.outcomes));
    Ok(report(names, &captures, outcomes))
}

fn read(name: &str, path: &str) -> Result<Imported, ImportError> {
    let failed = |reason: String| ImportError::Read { path: path.to_owned(), reason };
    if path.ends_with(".json") {
        return Ok(Imported::Report(Box::new(crate::report::read(Path::new(path)).map_err(failed)?)));
    }
    let text = files::read_text(Path::new(path), READ_BYTES).map_err(|error| failed(error.to_string()))?;
    let text = text.ok_or_else(|| failed("no such file".to_owned()))?;
    if !text.trim_start_matches('\u{feff}').starts_with("\"(PDH-CSV") {
        return Ok(Imported::Log(kernel_log::summary(&text)));
    }
    let capture = capture::parse(name, &text);
    if capture.counters.is_empty() {
        return Err(ImportError::NoDevices { path: path.to_owned() });
    }
    Ok(Imported::Capture(capture))
}

/// Returns the section of a group; `None` if no capture has one of its counters.
fn section(group: &Group, captures: &[Capture]) -> Option<ExperimentOutcome> {
    let shown: Vec<(&Capture, Vec<&str>)> =
        captures.iter().map(|capture| (capture, capture.busiest(DEVICES))).collect();
    let mut names: Vec<&str> = Vec::new();
    for counter in captures.iter().flat_map(|capture| &capture.counters).filter(|c| (group.has)(&c.counter)) {
        if !names.contains(&counter.counter.as_str()) {
            names.push(&counter.counter);
        }
    }
    let mut findings = ExperimentFindings::default();
    for name in names {
        let of_counter = |(capture, devices): &(&Capture, Vec<&str>)| -> Vec<(String, Vec<f64>, CounterSeries)> {
            let is_shown = |c: &&CounterSeries| c.counter == name && devices.contains(&c.device.as_str());
            let named =
                |c: &CounterSeries| (format!("{}, {}", capture.name, c.device), capture.seconds.clone(), c.clone());
            capture.counters.iter().filter(is_shown).map(named).collect()
        };
        let all: Vec<(String, Vec<f64>, CounterSeries)> = shown.iter().flat_map(of_counter).collect();
        // A counter that is always 0 would only fill the page.
        if all.iter().all(|(_, _, series)| series.values.iter().all(|value| *value == 0.0)) {
            continue;
        }
        for (name, _, series) in &all {
            note(&mut findings.samples, name, series);
        }
        findings.plots.push(plot(name, &all));
    }
    if findings.plots.is_empty() {
        return None;
    }
    for (capture, devices) in shown {
        let all = capture.devices().len();
        if all > devices.len() {
            let text = format!("{}: {} of {all} devices are shown, the busiest.", capture.name, devices.len());
            findings.notes.push(ReportNote::LeftOut(text));
        }
    }
    Some(outcome((group.id, group.name, group.title, group.question), findings))
}

fn unit(counter: &str) -> MeasureUnit {
    match counter {
        c if c.contains("MBytes") || c.starts_with("MBC_") || c.starts_with("MBZERO") || c.starts_with("MBDEL") => {
            MeasureUnit::MibPerSecond
        }
        c if c.ends_with("/sec") || c.ends_with("/s") => MeasureUnit::PerSecond,
        c if c.contains("MilliSec") || c.contains("AVG/") => MeasureUnit::Milliseconds,
        c if c.starts_with('%') => MeasureUnit::Percent,
        _ => MeasureUnit::Count,
    }
}

fn note(samples: &mut Samples, name: &str, series: &CounterSeries) {
    for (at, value) in series.values.iter().enumerate() {
        let sample = u32::try_from(at).unwrap_or(u32::MAX);
        samples.push(key(&series.counter, name, "value"), sample, unit(&series.counter), *value);
    }
}

fn plot(counter: &str, all: &[(String, Vec<f64>, CounterSeries)]) -> Plot {
    let series = |(at, (name, seconds, series)): (usize, &(String, Vec<f64>, CounterSeries))| Series {
        name: name.clone(),
        role: Role::Nth(u8::try_from(at % 6).unwrap_or(0) + 2),
        points: seconds.iter().zip(&series.values).map(|(x, y)| Point::plain(*x, *y)).collect(),
    };
    Plot {
        title: counter.to_owned(),
        shape: Shape::Time,
        x: Axis::linear("time", MeasureUnit::Seconds),
        y: Axis::linear(counter, unit(counter)),
        places: Vec::new(),
        series: all.iter().enumerate().map(series).collect(),
        bands: Vec::new(),
    }
}

fn outcome((id, name, title, question): (&str, &str, &str, &str), findings: ExperimentFindings) -> ExperimentOutcome {
    let [id, name, title, question] = [id, name, title, question].map(str::to_owned);
    ExperimentOutcome {
        id,
        name,
        title,
        question,
        published: Published::default(),
        ending: Ending::Done,
        verdict: Verdict::Measured,
        findings,
        load: MachineLoad::default(),
        secs: 0.0,
    }
}

fn report(names: &[String], captures: &[Capture], outcomes: Vec<ExperimentOutcome>) -> LabReport {
    let hosts: Vec<String> = captures.iter().map(|capture| format!("{}: {}", capture.name, capture.host)).collect();
    let disks = captures.iter().map(|capture| format!("{} devices", capture.devices().len())).collect();
    LabReport {
        schema: SCHEMA,
        settings: RunSettings {
            command: format!("ibid-host lab import {}", names.join(" ")),
            ..RunSettings::default()
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: crate::REVISION.to_owned(),
        scale: CAPTURE_SCALE.to_owned(),
        begun: clock::unix_millis(),
        secs: captures.iter().filter_map(|capture| capture.seconds.last().copied()).fold(0.0, f64::max),
        repetitions: 1,
        subject: TargetInfo {
            identity: "Captures of esxtop".to_owned(),
            target: hosts.join(", "),
            disks,
            ..TargetInfo::default()
        },
        machine: MachineInfo::current(),
        outcomes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(device: &str, values: &[(f64, f64)]) -> String {
        let counter = |name: &str| format!("\"\\\\esx1.lab\\Physical Disk SCSI Device({device})\\{name}\"");
        let mut text = format!(
            "\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\esx1.lab\\Memory\\Free MBytes\",{},{}\n",
            counter("Commands/sec"),
            counter("CLONE_RD")
        );
        for (at, (commands, clones)) in values.iter().enumerate() {
            text += &format!("\"11/23/2026 09:59:{:02}\",\"7\",\"{commands}\",\"{clones}\"\n", 50 + 5 * at);
        }
        text
    }

    fn sections(captures: &[Capture]) -> Vec<ExperimentOutcome> {
        GROUPS.iter().filter_map(|group| section(group, captures)).collect()
    }

    #[test]
    fn captures_share_the_plots_of_their_counters() {
        let one = capture::parse("esxi", &csv("naa.1", &[(10.0, 0.0), (20.0, 4.0)]));
        let two = capture::parse("ibid", &csv("naa.2", &[(30.0, 1.0), (40.0, 2.0)]));
        let outcomes = sections(&[one, two]);
        let ids: Vec<&str> = outcomes.iter().map(|outcome| outcome.id.as_str()).collect();
        assert_eq!(ids, ["C1", "C3"]);
        let plot = &outcomes[0].findings.plots[0];
        assert_eq!((plot.title.as_str(), plot.y.unit), ("Commands/sec", MeasureUnit::PerSecond));
        let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["esxi, naa.1", "ibid, naa.2"]);
        assert_eq!(plot.series[1].points, [Point::plain(0.0, 30.0), Point::plain(5.0, 40.0)]);
    }

    #[test]
    fn idle_counters_have_no_plot() {
        let idle = capture::parse("esxi", &csv("naa.1", &[(10.0, 0.0), (20.0, 0.0)]));
        assert_eq!(sections(&[idle]).len(), 1);
    }

    #[test]
    fn offload_counters_are_found_by_words() {
        for counter in ["CLONE_RD", "MBC_RD/s", "ATSF", "ZERO", "MBDEL/s", "CAVG/suc", "Unmap Commands/sec"] {
            assert!(is_offload(counter), "{counter}");
        }
        for counter in ["Commands/sec", "Average Driver MilliSec/Command", "Queued Commands"] {
            assert!(!is_offload(counter), "{counter}");
        }
    }
}
