//! L13: the space of a volume on both arrays that serve it, after a write, a deletion and UNMAP.

use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::pair::{LabPair, NAMES};
use crate::pattern::{Pattern, Reducibility};
use crate::results::{ExperimentFindings, Figure, Goal, MeasureUnit, Role, Samples, key};
use crate::store::LabDatastore;
use crate::trial::{self, PlotSpec, Setting, figure};
use multipath::{SharedDisk, Statistics};
use platform::clock;
use std::time::Duration;
use virtual_disk::DiskFormat;

/// Seed of the data of the first repetition; each has other data.
pub(super) const SEED: u64 = 2018;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// The arrays, as the settings of samples.
const SIDES: [Setting; 2] =
    [Setting { name: NAMES[0], role: Role::Without, on: true }, Setting { name: NAMES[1], role: Role::With, on: true }];
/// The moments of a measurement.
const WRITTEN: &str = "after the write";
const UNMAPPED: &str = "after UNMAP";
const USED: &str = "used";
const FELL: &str = "fell after";
/// Seconds within which both sides fall, and the part of the written space that returns, in
/// percent.
const SOON: f64 = 60.0;
const RETURNED: f64 = 98.0;
/// Time until the space of written data changes no more, time between two looks, and time for the
/// return.
const SETTLED: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(120);
/// Blocks that one iteration unmaps.
const UNMAP_BLOCKS: u64 = 60_000;

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    let pair = bench.pair()?;
    let data = bench.scale.pick(256 * MIB, 8 * GIB);
    bench.plan(bench.repetitions as usize);
    *findings = ExperimentFindings {
        setup: format!(
            "a zeroedthick disk with {} of data on a volume of a pod; {} has a quarter of the data elsewhere, too",
            display::bytes(data),
            NAMES[1]
        ),
        expected:
            "The used space falls on both arrays. The figures differ a little, because each array reduces its data by \
                   itself."
                .into(),
        ..ExperimentFindings::default()
    };
    for repetition in 0..bench.repetitions {
        bench.step(format!("run {} of {}", repetition + 1, bench.repetitions));
        measure(bench, pair, data, (&mut findings.samples, repetition)).await?;
    }
    judge(findings);
    Ok(())
}

/// Writes a disk, deletes it and unmaps its space; records the space of the volume on both arrays.
async fn measure(
    bench: &LabBench,
    pair: &LabPair,
    data: u64,
    (samples, repetition): (&mut Samples, u32),
) -> Result<(), LabError> {
    let pattern = Pattern::new(Reducibility::VIRTUAL_MACHINE, SEED + u64::from(repetition));
    beside(pair, data / 4, &pattern).await?;
    let store = LabDatastore::format_on(bench, &pair.pod, 0, "esx01", None).await?;
    let empty = settled(pair).await?;
    let (disk, _) = store.create("guest", data, DiskFormat::ZeroedThick, bench.mover()).await?;
    disk.fill(data, &pattern).await?;
    disk.close().await?;
    let full = settled(pair).await?;
    store.remove("guest").await?;
    store.unmap(UNMAP_BLOCKS).await?;
    let begun = clock::now();
    let mut fell = [None; 2];
    let mut used = full;
    while fell.contains(&None) && begun.elapsed() < PATIENCE {
        used = pair.used().await?;
        for side in 0..2 {
            let written = full[side].saturating_sub(empty[side]) as f64;
            let returned = full[side].saturating_sub(used[side]) as f64;
            if fell[side].is_none() && returned >= written * RETURNED / 100.0 {
                fell[side] = Some(begun.elapsed().as_secs_f64());
            }
        }
        tokio::time::sleep(LOOK).await;
    }
    for side in 0..2 {
        let name = SIDES[side].name;
        let mut push = |case, measure, unit, value| samples.push(key(case, name, measure), repetition, unit, value);
        let mib = |bytes: u64| bytes.saturating_sub(empty[side]) as f64 / MIB as f64;
        push(WRITTEN, USED, MeasureUnit::Mebibytes, mib(full[side]));
        push(UNMAPPED, USED, MeasureUnit::Mebibytes, mib(used[side]));
        // A side that does not fall misses the goal with the time that was waited.
        push("", FELL, MeasureUnit::Seconds, fell[side].unwrap_or(begun.elapsed().as_secs_f64()));
    }
    store.unmount().await
}

/// Writes the first `bytes` of the data to a volume that the second array alone has.
async fn beside(pair: &LabPair, bytes: u64, pattern: &Pattern) -> Result<(), LabError> {
    let disk = pair.beside.open(0, "esx01", &Statistics::default()).await?;
    let block = u64::from(disk.identity().block_bytes);
    for piece in 0..bytes / MIB {
        disk.write(piece * MIB / block, pattern.data(piece * MIB, MIB as usize)).await?;
    }
    disk.close().await;
    Ok(())
}

/// Returns the used bytes of the volume on both arrays when they change no more.
async fn settled(pair: &LabPair) -> Result<[u64; 2], LabError> {
    let begun = clock::now();
    let mut used = pair.used().await?;
    let mut same = 0;
    while same < 3 && begun.elapsed() < SETTLED {
        tokio::time::sleep(LOOK).await;
        let now = pair.used().await?;
        same = if now == used { same + 1 } else { 0 };
        used = now;
    }
    Ok(used)
}

fn judge(findings: &mut ExperimentFindings) {
    let samples = &findings.samples;
    let of = |s: &Samples, case, side: usize, measure| s.median(key(case, SIDES[side].name, measure));
    let slower = figure("both sides fell after UNMAP", MeasureUnit::Seconds, samples, |s| {
        Some(of(s, "", 0, FELL)?.max(of(s, "", 1, FELL)?))
    });
    let returned = |side: usize| -> Figure {
        let name = format!("returned on {}", SIDES[side].name);
        let share = figure(name, MeasureUnit::Percent, samples, move |s| {
            let written = of(s, WRITTEN, side, USED).filter(|written| *written > 0.0)?;
            Some(100.0 * (written - of(s, UNMAPPED, side, USED)?) / written)
        });
        share.goal(Goal::AtLeast(RETURNED))
    };
    let differs = figure("difference of the used space after the write", MeasureUnit::Percent, samples, |s| {
        let (one, two) = (of(s, WRITTEN, 0, USED)?, of(s, WRITTEN, 1, USED)?);
        (one.max(two) > 0.0).then(|| 100.0 * (one - two).abs() / one.max(two))
    });
    let cases = [WRITTEN, UNMAPPED].map(str::to_owned);
    let shown = PlotSpec {
        title: "Used space of the volume",
        measure: USED,
        label: "used space",
        unit: MeasureUnit::Mebibytes,
    };
    let plots = vec![trial::bars(samples, shown, &cases, &SIDES)];
    let mib = |mib: f64| display::with_unit(mib, MeasureUnit::Mebibytes);
    let seen = |side: usize| {
        let (full, rest, time) =
            (of(samples, WRITTEN, side, USED)?, of(samples, UNMAPPED, side, USED)?, of(samples, "", side, FELL)?);
        let time = display::with_unit(time, MeasureUnit::Seconds);
        Some(format!("{}: {} after the write, {} after UNMAP, {time} later.", SIDES[side].name, mib(full), mib(rest)))
    };
    let seen = (0..2).filter_map(seen).collect();
    let figures = vec![slower.goal(Goal::AtMost(SOON)), returned(0), returned(1), differs];
    (findings.plots, findings.figures, findings.seen) = (plots, figures, seen);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_that_keeps_its_space_misses_the_goal() {
        let mut findings = ExperimentFindings::default();
        for (side, rest, time) in [(0, 1.0, 2.0), (1, 90.0, 120.0)] {
            let name = SIDES[side].name;
            let mut push = |case, measure, unit, value| findings.samples.push(key(case, name, measure), 0, unit, value);
            push(WRITTEN, USED, MeasureUnit::Mebibytes, 100.0);
            push(UNMAPPED, USED, MeasureUnit::Mebibytes, rest);
            push("", FELL, MeasureUnit::Seconds, time);
        }
        judge(&mut findings);
        let met: Vec<bool> =
            findings.figures.iter().take(3).map(|f| f.goal.unwrap().is_met_by(f.measured.unwrap())).collect();
        assert_eq!(met, [false, true, false]);
        assert_eq!(findings.figures[0].measured, Some(120.0));
        assert_eq!(findings.seen.len(), 2);
    }
}
