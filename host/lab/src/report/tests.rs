use super::*;
use crate::machine::{MachineInfo, MachineLoad};
use crate::published;
use crate::results::*;
use crate::stats::{Interval, Spread};

fn bars(title: &str, places: &[&str], series: &[(&str, Role, &[f64])]) -> Plot {
    let point = |(x, y): (usize, &f64)| Point { x: x as f64, y: *y, ends: Some((y * 0.9, y * 1.15)) };
    Plot {
        title: title.to_owned(),
        shape: Shape::Bars,
        x: Axis::linear("", MeasureUnit::Count),
        y: Axis::linear("duration", MeasureUnit::Seconds),
        places: places.iter().map(|place| (*place).to_owned()).collect(),
        series: series
            .iter()
            .map(|(name, role, y)| Series {
                name: (*name).to_owned(),
                role: *role,
                points: y.iter().enumerate().map(point).collect(),
            })
            .collect(),
        bands: Vec::new(),
    }
}

fn curve() -> Plot {
    let points = |free: f64| {
        let time = |count: f64| Point::spread(count, Spread::of([free / count, free / count * 1.1 + 1.0]).unwrap());
        [200.0, 400.0, 1000.0, 5000.0, 20_000.0, 60_000.0, 100_000.0].map(time).to_vec()
    };
    let series = [("1 TB free", 1.0e4), ("4 TB free", 4.0e4), ("8 TB free", 8.0e4)];
    Plot {
        title: "UNMAP duration against block count".to_owned(),
        shape: Shape::Lines,
        x: Axis::log("blocks per iteration", MeasureUnit::Count),
        y: Axis::log("duration", MeasureUnit::Seconds),
        places: Vec::new(),
        series: series
            .iter()
            .enumerate()
            .map(|(n, (name, free))| Series {
                name: (*name).to_owned(),
                role: Role::Nth(n as u8 + 2),
                points: points(*free),
            })
            .collect(),
        bands: vec![Band { from: 40_000.0, to: 60_000.0, name: "published: no further gain".to_owned() }],
    }
}

fn storm() -> Plot {
    let wave = |off: bool| {
        let y = |t: u32| {
            if off && !t.is_multiple_of(4) {
                f64::from(t * 37 % 11) * 120.0
            } else {
                4100.0 + f64::from(t * 13 % 7) * 40.0
            }
        };
        (0..80).map(|t| Point::plain(f64::from(t) / 4.0, y(t))).collect()
    };
    Plot {
        title: "IOPS of the workload during the boot storm".to_owned(),
        shape: Shape::Time,
        x: Axis::linear("time", MeasureUnit::Seconds),
        y: Axis::linear("IOPS", MeasureUnit::PerSecond),
        places: Vec::new(),
        series: vec![
            Series { name: "ATS off".into(), role: Role::Without, points: wave(true) },
            Series { name: "ATS on".into(), role: Role::With, points: wave(false) },
        ],
        bands: vec![Band { from: 5.0, to: 15.0, name: "boot storm".to_owned() }],
    }
}

fn outcome(id: &str, name: &str, title: &str, findings: ExperimentFindings) -> ExperimentOutcome {
    let mut outcome = ExperimentOutcome {
        id: id.to_owned(),
        name: name.to_owned(),
        title: title.to_owned(),
        question: "What does the offload save, and does it disturb <others>?".to_owned(),
        published: published::about(id),
        ending: Ending::Done,
        verdict: Verdict::Measured,
        findings,
        load: MachineLoad { before: 0.4, after: 1.9, busy: 71.0, steal: 0.2, foreign: 2.5 },
        secs: 42.0,
    };
    outcome.judge();
    outcome
}

fn figure(name: &str, measured: f64, published: Option<f64>, goal: Option<Goal>) -> Figure {
    let interval = Some(Interval { low: 0.95 * measured, high: 1.05 * measured });
    let (name, measured) = (name.to_owned(), Some(measured));
    Figure { name, unit: MeasureUnit::Times, measured, published, goal, interval, verdict: None }
}

fn deployed() -> ExperimentFindings {
    let mut samples = Samples::default();
    for (repetition, (off, on)) in [(41.0, 0.9), (38.5, 1.2), (43.0, 1.0)].into_iter().enumerate() {
        samples.push(key("", "XCOPY off", "time"), repetition as u32, MeasureUnit::Seconds, off);
        samples.push(key("", "XCOPY on", "time"), repetition as u32, MeasureUnit::Seconds, on);
    }
    ExperimentFindings {
        setup: "4 GiB disk, 2 GiB of data".to_owned(),
        samples,
        plots: vec![bars(
            "Duration",
            &["one VM"],
            &[("XCOPY off", Role::Without, &[41.0]), ("XCOPY on", Role::With, &[1.0])],
        )],
        figures: vec![
            figure("faster with XCOPY", 41.0, Some(17.1), Some(Goal::AtLeast(20.0))),
            Figure { unit: MeasureUnit::Seconds, ..figure("with XCOPY", 1.0, Some(7.0), Some(Goal::AtMost(0.5))) },
        ],
        expected: "Seconds instead of minutes.".to_owned(),
        seen: vec!["41 s without, 1 s with: 41 times faster.".to_owned()],
        predictions: vec![Prediction {
            case: "one VM".to_owned(),
            setting: "XCOPY on".to_owned(),
            commands: 0.6,
            metadata: 0.25,
            seen: 1.0,
        }],
        timelines: vec![Timeline {
            title: "One deployment".to_owned(),
            rows: vec![TimelineRow {
                at: 0.001,
                until: 0.004,
                disk: "source".to_owned(),
                command: "EXTENDED COPY".to_owned(),
                commands: 3,
                bytes: 12 << 20,
                meaning: "the array copies".to_owned(),
            }],
            left_out: 0,
            left_out_after: 0,
        }],
        why: vec!["The 3 200 commands took 0.3 ms each; the published host sent commands at a lower rate.".to_owned()],
        ..ExperimentFindings::default()
    }
}

/// Returns a report of invented numbers that uses every feature of a report.
pub(crate) fn report() -> LabReport {
    let disks: [&[f64]; 2] = [&[2.0, 4.1, 8.3, 16.5], &[0.3, 0.6, 1.3, 2.6]];
    let sizes = ["1 GiB", "2 GiB", "4 GiB", "8 GiB"];
    let eager = ExperimentFindings {
        plots: vec![bars(
            "Creation",
            &sizes,
            &[("WRITE SAME off", Role::Without, disks[0]), ("WRITE SAME on", Role::With, disks[1])],
        )],
        figures: vec![figure("four at once over one", 1.4, Some(1.6), Some(Goal::AtMost(1.6)))],
        ..ExperimentFindings::default()
    };
    let unsupported =
        ReportNote::Unsupported("EXTENDED COPY is not offered: the host copied by itself </script>".to_owned());
    LabReport {
        schema: SCHEMA,
        settings: RunSettings { command: "ibid-host lab run all".to_owned(), ..RunSettings::default() },
        version: "0.1.0".to_owned(),
        revision: "0123abcd".to_owned(),
        scale: "small".to_owned(),
        begun: 1_795_000_000_000,
        secs: 431.0,
        repetitions: 3,
        subject: TargetInfo {
            identity: "IBID VIRTUAL-DISK 0001".to_owned(),
            target: "iqn.2026-11.org.example:array".to_owned(),
            portals: vec!["127.0.0.1:3260".to_owned()],
            disks: vec!["LUN 1, 2 TiB".to_owned()],
            own: true,
        },
        machine: MachineInfo { cpus: 2, processor: "Example 3000".into(), kernel: "6.1".into(), memory: 8 << 30 },
        outcomes: vec![
            outcome(
                "L1",
                "boot-storm",
                "Boot storm",
                ExperimentFindings {
                    plots: vec![storm()],
                    figures: vec![figure("less variation with ATS", 6.2, None, Some(Goal::AtLeast(3.0)))],
                    ..ExperimentFindings::default()
                },
            ),
            outcome("L2", "deploy", "Deploy from template", deployed()),
            outcome(
                "L5",
                "disk-type",
                "Disk type",
                ExperimentFindings { notes: vec![unsupported], ..ExperimentFindings::default() },
            ),
            outcome("L7", "eager-zeroed", "Eagerzeroedthick disks", eager),
            outcome("L8", "terabyte", "One terabyte", ExperimentFindings::default()),
            outcome(
                "L10",
                "block-count",
                "UNMAP block count",
                ExperimentFindings { plots: vec![curve()], ..ExperimentFindings::default() },
            ),
            ExperimentOutcome {
                ending: Ending::NotPossible("needs a second disk".to_owned()),
                verdict: Verdict::NotPossible,
                ..outcome("L11", "unmap-load", "UNMAP under load", ExperimentFindings::default())
            },
        ],
    }
}

#[test]
fn html_has_no_external_references() {
    let [_, _, html] = render(&report());
    for outside in ["<link", "src=\"", "url(", "@import", "fetch(", "XMLHttpRequest"] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(html.contains("The MIT License"));
}

#[test]
fn embedded_json_cannot_close_its_script() {
    let [json, _, html] = render(&report());
    assert!(json.contains("itself </script>"));
    // Two scripts and the data. A fourth end tag would come from unescaped data.
    assert_eq!(html.matches("</script>").count(), 3);
    assert!(html.contains("disturb &lt;others&gt;?"));
}

#[test]
fn every_plot_has_a_placeholder() {
    let report = report();
    let [_, _, html] = render(&report);
    let plots = |o: &ExperimentOutcome| o.findings.plots.len() + o.published.plots.len();
    assert_eq!(html.matches("data-plot=").count(), report.outcomes.iter().map(plots).sum::<usize>());
    // An experiment without measurements has no "Seen here" card.
    let seen = report.outcomes.iter().filter(|o| !o.findings.plots.is_empty()).count();
    assert_eq!(html.matches("<h3>Measured").count(), seen);
    assert!(seen < report.outcomes.len());
}

#[test]
fn page_has_predictions_and_timelines() {
    let [_, _, html] = render(&report());
    assert!(html.contains("<td class=\"n\">850 ms</td><td class=\"n\">1 s</td>"), "predicted and seen");
    assert!(html.contains("<td>3 × EXTENDED COPY, 12 MiB</td><td>the array copies</td>"));
}

#[test]
fn json_report_is_read_back_unchanged() {
    let report = report();
    let [json, _, _] = render(&report);
    let directory = std::env::temp_dir().join(format!("lab-read-{}", std::process::id()));
    files::create_directory(&directory).unwrap();
    let path = directory.join("report.json");
    files::replace(&path, json.as_bytes(), Access::Everyone).unwrap();
    let back = read(&path);
    files::remove(&path).unwrap();
    assert_eq!(back, Ok(report));
}

#[test]
fn verdict_is_the_same_in_json_page_and_terminal() {
    let report = report();
    let [json, _, html] = render(&report);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for (outcome, stored) in report.outcomes.iter().zip(json["outcomes"].as_array().unwrap()) {
        let words = outcome.verdict.words();
        assert_eq!(
            stored["verdict"].as_str().unwrap().replace('_', " ").replace("fall ", "fall-"),
            words.replace(" measured", "")
        );
        let section = html.split(&format!("id=\"{}\"", outcome.id)).nth(1).unwrap();
        assert!(section.split("</h2>").next().unwrap().contains(words), "{}", outcome.id);
        assert!(crate::run::line(outcome).contains(words), "{}", outcome.id);
    }
}

#[test]
fn verdict_follows_goals_and_ending() {
    let report = report();
    let words: Vec<&str> = report.outcomes.iter().map(|o| verdict::verdict(o).1).collect();
    let expected =
        ["goal met", "goal missed", "fall-back measured", "goal met", "measured", "measured", "not possible"];
    assert_eq!(words, expected);
}

#[test]
fn date_is_formatted_in_utc() {
    assert_eq!(html::date(0), "1970-01-01 00:00 UTC");
    assert_eq!(html::date(951_782_400_000), "2000-02-29 00:00 UTC");
    assert_eq!(html::date(1_795_305_660_000), "2026-11-22 00:01 UTC");
}

/// `LAB_REPORT=DIR cargo test -p ibid-lab` keeps the report in DIR, to be viewed in a browser.
#[test]
fn report_is_written_as_three_files() {
    let directory = std::env::var_os("LAB_REPORT")
        .map_or_else(|| std::env::temp_dir().join(format!("lab-report-{}", std::process::id())), PathBuf::from);
    let page = write(&report(), &directory).unwrap();
    let written = files::read_text(&page, 8 << 20).unwrap().unwrap();
    assert_eq!(written, render(&report())[2]);
    if std::env::var_os("LAB_REPORT").is_none() {
        for name in FILES {
            files::remove(&directory.join(name)).unwrap();
        }
    }
}

/// Compares a value with the part of JSON Schema that `docs/lab-data/report.schema.json` uses.
/// Returns the path and the reason of each difference.
fn differences(
    value: &serde_json::Value,
    schema: &serde_json::Value,
    root: &serde_json::Value,
    path: &str,
) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        return differences(value, root.pointer(&name[1..]).unwrap(), root, path);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let each: Vec<Vec<String>> = any.iter().map(|one| differences(value, one, root, path)).collect();
        return if each.iter().any(Vec::is_empty) { Vec::new() } else { each.concat() };
    }
    let is_of = |name: &serde_json::Value| match name.as_str().unwrap() {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => other == "null" && value.is_null(),
    };
    let mut found = Vec::new();
    let types = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    if !types[0].is_null() && !types.iter().any(is_of) {
        found.push(format!("{path}: type"));
    }
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value))
        || schema.get("const").is_some_and(|c| c != value)
    {
        found.push(format!("{path}: {value}"));
    }
    if let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object()) {
        let required = schema["required"].as_array().unwrap().iter().filter_map(|name| name.as_str());
        found.extend(required.filter(|name| !fields.contains_key(*name)).map(|name| format!("{path}/{name}: missing")));
        for (name, field) in fields {
            let path = format!("{path}/{name}");
            match known.get(name) {
                Some(schema) => found.extend(differences(field, schema, root, &path)),
                None => found.push(format!("{path}: unknown")),
            }
        }
    }
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        found.extend(items.iter().flat_map(|item| differences(item, schema, root, path)));
    }
    found
}

#[test]
fn report_matches_its_schema() {
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../../docs/lab-data/report.schema.json")).unwrap();
    let mut value = serde_json::to_value(report()).unwrap();
    assert_eq!(differences(&value, &schema, &schema, ""), Vec::<String>::new());
    value["outcomes"][1]["findings"]["samples"][0]["unit"] = "furlongs".into();
    value["machine"].as_object_mut().unwrap().remove("cpus");
    let expected = ["/machine/cpus: missing", "/outcomes/findings/samples/unit: \"furlongs\""];
    assert_eq!(differences(&value, &schema, &schema, ""), expected);
}

#[test]
fn published_data_is_read_and_matches_the_schema() {
    let text = include_str!("../../../../docs/lab-data/ibid-small.json");
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../../docs/lab-data/report.schema.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(differences(&value, &schema, &schema, ""), Vec::<String>::new());
    let report: LabReport = serde_json::from_str(text).unwrap();
    assert_eq!(report.schema, SCHEMA);
    for outcome in &report.outcomes {
        let measures = outcome.findings.samples.summaries();
        assert!(outcome.ending == Ending::Done && measures.len() > 2, "{}", outcome.id);
        let mut again = outcome.clone();
        again.judge();
        assert_eq!(again.verdict, outcome.verdict, "{}", outcome.id);
        assert!(measures.iter().all(|summary| summary.spread.median.is_finite()), "{}", outcome.id);
    }
}
