//! L10: duration of UNMAP as a function of the number of blocks per iteration.

use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::results::{
    Axis, Band, ExperimentFindings, Figure, MeasureUnit, Plot, Point, ReportNote, Role, Samples, Series, Shape, key,
};
use crate::stats;
use crate::store::{LabDatastore, UnmapResult};
use crate::trial::figure;

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// The published tests use 200 to 69 000 in steps of 1000, then 100 000 and 256 000. These values
/// cover the same range, about evenly on a logarithmic scale.
const COUNTS: [u64; 12] = [200, 400, 1000, 2000, 5000, 10_000, 20_000, 40_000, 60_000, 69_000, 100_000, 256_000];
const FEW: [u64; 8] = [200, 400, 1000, 5000, 20_000, 60_000, 100_000, 256_000];
/// Block counts from which the published curve is flat.
const FLAT: (u64, u64) = (40_000, 60_000);

pub(super) async fn run(bench: &LabBench) -> Result<ExperimentFindings, LabError> {
    let sizes = bench.scale.pick([32 * GIB, 128 * GIB, 256 * GIB], [TIB, 4 * TIB, 8 * TIB]);
    let counts: &[u64] = bench.scale.pick(&FEW, &COUNTS);
    let fitting = bench.fitting(0, &sizes)?;
    let fitting = if fitting.is_empty() { vec![bench.target.disk(0)?.bytes / GIB * GIB / 10 * 9] } else { fitting };
    bench.plan(fitting.len() * (1 + counts.len() * bench.repetitions as usize));
    let mut findings = ExperimentFindings {
        setup: format!(
            "free space of {}",
            fitting.iter().map(|size| display::bytes(*size)).collect::<Vec<_>>().join(", ")
        ),
        expected: "Slow at 200 blocks, faster with more blocks per iteration, and flat from 40 000 to 60 000 blocks."
            .into(),
        ..ExperimentFindings::default()
    };
    if fitting.len() < sizes.len() {
        findings.notes.push(ReportNote::LeftOut("the disk is too small for the larger sizes of this scale.".into()));
    }
    let mut last = None;
    for size in &fitting {
        bench.step(format!("creating a datastore of {}", display::bytes(*size)));
        let store = LabDatastore::format(bench, 0, "esx01", Some(*size)).await?;
        for repetition in 0..bench.repetitions {
            for count in counts {
                bench.step(format!("{}, {count} blocks, run {}", display::bytes(*size), repetition + 1));
                let returned = store.unmap(*count).await?;
                if !returned.supported {
                    let text = "the target does not support UNMAP, so there is nothing to measure.";
                    findings.notes.push(ReportNote::Unsupported(text.into()));
                    return Ok(findings);
                }
                note(&mut findings.samples, *size, *count, &returned, repetition);
                last = Some((*count, returned));
            }
        }
    }
    judge(&mut findings, &fitting, counts);
    explain(&mut findings, &fitting, counts, last);
    Ok(findings)
}

fn case(size: u64) -> String {
    format!("{} free", display::bytes(size))
}

fn note(samples: &mut Samples, size: u64, count: u64, returned: &UnmapResult, repetition: u32) {
    let (case, count) = (case(size), count.to_string());
    let mut push = |measure, unit, value| samples.push(key(&case, &count, measure), repetition, unit, value);
    push("time", MeasureUnit::Seconds, returned.time.as_secs_f64());
    push("iterations", MeasureUnit::Count, returned.iterations as f64);
    push("commands", MeasureUnit::Count, returned.commands as f64);
}

fn judge(findings: &mut ExperimentFindings, sizes: &[u64], counts: &[u64]) {
    let samples = &findings.samples;
    let series = |(index, size): (usize, &u64)| {
        let point = |count: &u64| {
            let spread = samples.spread(key(&case(*size), &count.to_string(), "time"))?;
            Some(Point::spread(*count as f64, spread))
        };
        Series {
            name: case(*size),
            role: Role::Nth(index as u8 + 2),
            points: counts.iter().filter_map(point).collect(),
        }
    };
    let flat = Band { from: FLAT.0 as f64, to: FLAT.1 as f64, name: "published: no further gain".to_owned() };
    let curve = |title: &str, log: bool| {
        let y = if log {
            Axis::log("duration", MeasureUnit::Seconds)
        } else {
            Axis::linear("duration", MeasureUnit::Seconds)
        };
        Plot {
            title: title.to_owned(),
            shape: Shape::Lines,
            x: Axis::log("blocks per iteration", MeasureUnit::Count),
            y,
            places: Vec::new(),
            series: sizes.iter().enumerate().map(series).collect(),
            bands: vec![flat.clone()],
        }
    };
    let plots = vec![curve("Duration of UNMAP", false), curve("Duration of UNMAP, logarithmic scales", true)];
    let figures: Vec<Figure> = sizes.iter().flat_map(|size| shape(samples, *size)).collect();
    let seen = sizes.iter().filter_map(|size| {
        let at = |count: u64| samples.median(key(&case(*size), &count.to_string(), "time")).map(display::seconds);
        Some(format!(
            "{}: {} at 200 blocks, {} at 60 000, {} at 256 000.",
            case(*size),
            at(200)?,
            at(60_000)?,
            at(256_000)?
        ))
    });
    let seen = seen.collect();
    findings.plots = plots;
    findings.figures = figures;
    findings.seen = seen;
}

/// Describes the curve by two ratios: how far it falls until it is flat, and how flat it is then.
fn shape(samples: &Samples, size: u64) -> [Figure; 2] {
    let at = |count: u64| samples.median(key(&case(size), &count.to_string(), "time"));
    let over = |a: Option<f64>, b: Option<f64>| Some(a? / b.filter(|b| *b > 0.0)?);
    [
        figure(format!("{}: 200 blocks over 60 000", case(size)), MeasureUnit::Times, over(at(200), at(60_000))),
        figure(
            format!("{}: 60 000 blocks over 256 000", case(size)),
            MeasureUnit::Times,
            over(at(60_000), at(256_000)),
        ),
    ]
}

/// Explains the curve: the duration is a cost per iteration plus a cost per block.
fn explain(findings: &mut ExperimentFindings, sizes: &[u64], counts: &[u64], last: Option<(u64, UnmapResult)>) {
    let Some(size) = sizes.last() else { return };
    let samples = &findings.samples;
    let point = |count: &u64| {
        let count = count.to_string();
        let median = |measure| samples.median(key(&case(*size), &count, measure));
        Some((median("iterations")?, median("time")?))
    };
    let points: Vec<(f64, f64)> = counts.iter().filter_map(point).collect();
    let per_iteration = stats::slope(&points);
    let least = points.iter().map(|point| point.1).reduce(f64::min);
    let flat = shape(samples, *size)[1].measured;
    findings.add_reason(per_iteration.zip(least).map(|(each, least)| {
        format!(
            "At the largest size, an iteration costs {} regardless of its block count (the datastore allocates the blocks to a file, \
             sends UNMAP, and frees them), and the shortest run took {}. With few blocks per iteration, this cost dominates.",
            display::seconds(each.max(0.0)),
            display::seconds(least)
        )
    }));
    findings.add_reason(flat.map(|flat| {
        if (0.8..1.6).contains(&flat) {
            "From 60 000 blocks on, only the work per block remains, and the curve is flat, as published.".to_owned()
        } else if flat >= 1.6 {
            format!("The curve still falls beyond 60 000 blocks, by {}, because iterations cost relatively more here.", display::with_unit(flat, MeasureUnit::Times))
        } else {
            "Beyond 60 000 blocks the curve rises again: the variation between runs (see the machine load below) exceeds the remaining gain.".to_owned()
        }
    }));
    findings.add_reason(last.map(|(count, returned)| {
        format!(
            "At {} blocks per iteration the host sent {} UNMAP commands in {} iterations. The freed space held no data; in the \
             published tests it held only deduplicated data.",
            display::number(count as f64),
            display::number(returned.commands as f64),
            display::number(returned.iterations as f64)
        )
    }));
}
