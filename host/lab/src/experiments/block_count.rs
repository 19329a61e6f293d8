//! L10: duration of UNMAP as a function of the number of blocks per iteration.

use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::pattern::{Pattern, Reducibility};
use crate::results::{
    Axis, Band, ExperimentFindings, Figure, MeasureUnit, Plot, Point, ReportNote, Role, Samples, Series, Shape, key,
};
use crate::stats::{self, Interval};
use crate::store::{Disk, LabDatastore, UnmapResult};
use crate::trial::{self, figure};
use futures_util::{StreamExt, TryStreamExt, stream};
use virtual_disk::{DiskFormat, FileAccess, MoverSettings};

/// Seed of the test data.
pub(super) const SEED: u64 = 10;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// The published tests use 200 to 69 000 in steps of 1000, then 100 000 and 256 000. These values
/// cover the same range, about evenly on a logarithmic scale.
const COUNTS: [u64; 12] = [200, 400, 1000, 2000, 5000, 10_000, 20_000, 40_000, 60_000, 69_000, 100_000, 256_000];
const FEW: [u64; 6] = [200, 1000, 5000, 20_000, 40_000, 60_000];
/// The published tests had five runs.
const RUNS: u32 = 5;
/// Bytes of a block of the datastore.
const BLOCK: u64 = datastore::FS_BLOCK_BYTES;
/// Clones made and removed at once when the datastore is filled.
const CLONES_AT_ONCE: usize = 8;
/// Block counts from which the published curve is flat.
const FLAT: (u64, u64) = (40_000, 60_000);

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    let sizes = bench.scale.pick([16 * GIB, 32 * GIB, 64 * GIB], [TIB, 4 * TIB, 8 * TIB]);
    let counts: &[u64] = bench.scale.pick(&FEW, &COUNTS);
    let fitting = bench.fitting(0, &sizes)?;
    let fitting = if fitting.is_empty() { vec![bench.capacity(0)? / GIB * GIB] } else { fitting };
    let repetitions = bench.repetitions.max(RUNS);
    bench.plan(fitting.iter().map(|size| 1 + useful(counts, *size).len() * repetitions as usize).sum());
    *findings = ExperimentFindings {
        setup: format!(
            "free space of {}; clones by XCOPY fill it before each run and are deleted; {repetitions} runs",
            fitting.iter().map(|size| display::bytes(*size)).collect::<Vec<_>>().join(", ")
        ),
        expected: "Slow at 200 blocks, faster with more blocks per iteration, and flat from 40 000 to 60 000 blocks."
            .into(),
        ..ExperimentFindings::default()
    };
    if fitting.len() < sizes.len() {
        findings.notes.push(ReportNote::LeftOut("the disk is too small for the larger sizes of this scale.".into()));
    }
    let (mut last, mut is_cloned) = (None, false);
    for size in &fitting {
        bench.step(format!("creating a datastore of {}", display::bytes(*size)));
        let store = LabDatastore::format(bench, 0, "esx01", Some(*size)).await?;
        let template = template(bench, &store, *size).await?;
        // Clones of a target without EXTENDED COPY take long, so UNMAP is tried before them.
        if !store.unmap(counts[0]).await?.supported {
            let text = "the target does not support UNMAP, so there is nothing to measure.";
            findings.notes.push(ReportNote::Unsupported(text.into()));
            template.close().await?;
            return store.unmount().await;
        }
        let counts = useful(counts, store.free().await?);
        for repetition in 0..repetitions {
            for count in trial::alternating(&counts, repetition) {
                bench.step(format!("{}, {count} blocks, run {}", display::bytes(*size), repetition + 1));
                is_cloned |= fill(bench, &store, &template).await?;
                // A scan of the disk is slow on some arrays, so it is done once for each count.
                let before = if repetition == 0 { store.mapped().await? } else { None };
                let returned = store.unmap(count).await?;
                note(&mut findings.samples, *size, count, &returned, repetition);
                if let (Some(before), Some(after)) =
                    (before, if before.is_some() { store.mapped().await? } else { None })
                {
                    let freed = before.saturating_sub(after) as f64 / f64::from(1 << 20);
                    let (case, count) = (case(*size), count.to_string());
                    let key = key(&case, &count, "space returned");
                    findings.samples.push(key, repetition, MeasureUnit::Mebibytes, freed);
                }
                last = Some((count, returned));
            }
        }
        template.close().await?;
        store.unmount().await?;
    }
    judge(findings, &fitting, counts);
    explain(findings, &fitting, counts, last, is_cloned);
    Ok(())
}

/// Returns the counts that are at most the number of free blocks: a larger one is the same run.
fn useful(counts: &[u64], free: u64) -> Vec<u64> {
    counts.iter().copied().filter(|count| *count <= free / BLOCK).collect()
}

/// Returns the counts that were measured.
fn measured(samples: &Samples, size: u64, counts: &[u64]) -> Vec<u64> {
    let is_measured = |count: &u64| samples.median(key(&case(size), &count.to_string(), "time")).is_some();
    counts.iter().copied().filter(is_measured).collect()
}

/// Creates the disk that is cloned. It takes a small part of the datastore.
async fn template(bench: &LabBench, store: &LabDatastore, size: u64) -> Result<Disk, LabError> {
    let bytes = (size / 8).min(bench.scale.pick(4 * GIB, 64 * GIB)) / BLOCK * BLOCK;
    // Blocks that are zeroed beforehand are written fastest.
    let (disk, _) = store.create("template", bytes, DiskFormat::EagerZeroedThick, bench.mover()).await?;
    disk.fill(bytes, &Pattern::new(Reducibility::VIRTUAL_MACHINE, SEED)).await?;
    disk.close().await?;
    let settings = MoverSettings { max_transfer_kib: 16384, ..bench.mover() };
    store.open("template", FileAccess::Read, settings).await
}

/// Fills the free space with clones of the template and deletes them, so that the array has
/// something to return. Returns true if the array copied them.
async fn fill(bench: &LabBench, store: &LabDatastore, template: &Disk) -> Result<bool, LabError> {
    // A part stays free for the descriptors and the metadata of the clones.
    let count = (store.free().await? / 100 * 98) / template.bytes().max(1);
    let names: Vec<String> = (0..count).map(|_| format!("fill{:05}", bench.serial())).collect();
    let clones = names.iter().map(|name| async move {
        let (copy, report) = template.copy_to(store, name).await?;
        copy.close().await?;
        Ok::<bool, LabError>(report.by_host.is_none())
    });
    let clones: Vec<bool> = stream::iter(clones).buffer_unordered(CLONES_AT_ONCE).try_collect().await?;
    stream::iter(&names).map(|name| store.remove(name)).buffer_unordered(CLONES_AT_ONCE).try_collect::<()>().await?;
    Ok(!clones.is_empty() && clones.into_iter().all(|by_array| by_array))
}

fn case(size: u64) -> String {
    format!("{} free", display::bytes(size))
}

fn note(samples: &mut Samples, size: u64, count: u64, returned: &UnmapResult, repetition: u32) {
    let (case, count) = (case(size), count.to_string());
    let mut push = |measure, unit, value| samples.push(key(&case, &count, measure), repetition, unit, value);
    push("time", MeasureUnit::Seconds, returned.time.as_secs_f64());
    push("iterations", MeasureUnit::Count, returned.iterations as f64);
    push(trial::SAMPLED, MeasureUnit::Seconds, returned.time.as_secs_f64());
    push("commands", MeasureUnit::Count, returned.commands as f64);
    returned.all.note(samples, (&case, &count), repetition, 1);
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
    let figures: Vec<Figure> = sizes.iter().flat_map(|size| shape(samples, *size, counts)).collect();
    let seen = sizes.iter().map(|size| {
        let spread = |count: &u64| samples.spread(key(&case(*size), &count.to_string(), "time"));
        let times = measured(samples, *size, counts).into_iter().filter_map(|count| {
            let time = display::spread(spread(&count)?, MeasureUnit::Seconds);
            [200, 60_000].contains(&count).then(|| format!("{time} at {} blocks", display::number(count as f64)))
        });
        let times = times.collect::<Vec<_>>().join(", ");
        let freed = measured(samples, *size, counts)
            .into_iter()
            .filter_map(|count| samples.median(key(&case(*size), &count.to_string(), "space returned")));
        let freed = freed
            .reduce(f64::min)
            .map(|mib| format!("; the array returned at least {}", display::with_unit(mib, MeasureUnit::Mebibytes)));
        format!("{}: {times}{}.", case(*size), freed.unwrap_or_default())
    });
    let seen = seen.collect();
    findings.plots = plots;
    findings.figures = figures;
    findings.seen = seen;
}

/// Describes the curve by ratios: how far it falls until it is flat, and how flat it is then.
fn shape(samples: &Samples, size: u64, counts: &[u64]) -> Vec<Figure> {
    let name = case(size);
    let over = |s: &Samples, few: u64, many: u64| {
        trial::ratio(s, key(&name, &few.to_string(), "time"), key(&name, &many.to_string(), "time"))
    };
    let last = measured(samples, size, counts).last().copied().unwrap_or(0);
    let flat = match last {
        last if last > FLAT.1 => vec![(200, FLAT.1), (FLAT.1, last)],
        last if last == FLAT.1 => vec![(200, FLAT.1), FLAT],
        last => vec![(200, last)],
    };
    flat.into_iter()
        .map(|(few, many)| {
            let [few_text, many_text] = [few, many].map(|count| display::number(count as f64));
            let title = format!("{name}: {few_text} blocks over {many_text}");
            figure(title, MeasureUnit::Times, samples, |s| over(s, few, many))
        })
        .collect()
}

/// Explains the curve: the duration is a cost per iteration plus a cost per block.
fn explain(
    findings: &mut ExperimentFindings,
    sizes: &[u64],
    counts: &[u64],
    last: Option<(u64, UnmapResult)>,
    is_cloned: bool,
) {
    let Some(size) = sizes.last() else { return };
    let samples = &findings.samples;
    let point = |count: &u64| {
        let count = count.to_string();
        let median = |measure| samples.median(key(&case(*size), &count, measure));
        Some((median("iterations")?, median("time")?))
    };
    let points: Vec<(f64, f64)> = measured(samples, *size, counts).iter().filter_map(point).collect();
    let per_iteration = stats::slope(&points);
    let least = points.iter().map(|point| point.1).reduce(f64::min);
    // How much the duration changes between the largest counts, where the published curve is flat.
    let flat = shape(samples, *size, counts).into_iter().nth(1).and_then(|figure| figure.interval);
    findings.add_reason(per_iteration.zip(least).map(|(each, least)| {
        format!(
            "At the largest size, an iteration costs {} regardless of its block count (the datastore allocates the blocks to a file, \
             sends UNMAP, and frees them), and the shortest run took {}.",
            display::seconds(each.max(0.0)),
            display::seconds(least)
        )
    }));
    findings.add_reason(flat.map(|flat| {
        let text = match flat {
            Interval { low, .. } if low > 1.0 => "The curve still falls at the largest counts.",
            Interval { high, .. } if high < 1.0 => "The curve rises again at the largest counts.",
            _ => "At the largest counts the repetitions show no difference: the curve is flat, as published.",
        };
        text.to_owned()
    }));
    findings.add_reason(last.map(|(count, returned)| {
        format!(
            "At {} blocks per iteration the host sent {} UNMAP commands in {} iterations. The freed space held {}.",
            display::number(count as f64),
            display::number(returned.commands as f64),
            display::number(returned.iterations as f64),
            if is_cloned { "clones by XCOPY, as in the published tests" } else { "copies that the host had written" }
        )
    }));
}
