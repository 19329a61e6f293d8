//! L12: zeroing and deployments on volumes that two arrays serve, at a distance.

use super::copies::{self, CHECKED_PIECES, CopyResult, TemplateSpec};
use super::zeros::{self, ZeroResult};
use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::pair::{self, LabPair};
use crate::pattern::{Pattern, Reducibility};
use crate::predict::HostCommands;
use crate::published::{PAIR_COPY_SECS, PAIR_ZERO_SECS};
use crate::results::{ExperimentFindings, Figure, Goal, MeasureUnit, ReportNote, Samples, key};
use crate::store::LabDatastore;
use crate::trial::{self, PlotSpec, Setting, WRITE_SAME, XCOPY, figure};
use platform::clock;
use virtual_disk::{DiskFormat, FileAccess, HostCopyReason, MoverSettings};

/// Seed of the template of the first repetition; each has other data.
pub(super) const SEED: u64 = 2017;
const GIB: u64 = 1 << 30;
/// Places of a zeroed disk, and from where to where a machine is deployed.
const BOTH: &str = "on two arrays";
const ONE: &str = "on one array";
const FIRST: &str = "into a pod";
const AGAIN: &str = "into a pod again";
const WITHIN: &str = "within a pod";
const ACROSS: &str = "to another pod";
/// Measures of the link, in MiB: all bytes in both directions, and the part that is data of copies.
const LINK: &str = "link";
const CROSSED: &str = "data on the link";
/// The most that a copy takes into a pod whose other array has the data, over one within the pod.
const MOST_TIMES: f64 = 2.0;
/// The most that crosses the link for it, in percent of the data of the template.
const MOST_LINK: f64 = 3.0;

/// The datastores, and the sizes of a repetition.
struct Bench<'a> {
    bench: &'a LabBench,
    pair: &'a LabPair,
    plain: [LabDatastore; 2],
    pod: [LabDatastore; 2],
    other_pod: LabDatastore,
    template: TemplateSpec,
    /// Size of a zeroed disk.
    zeroed: u64,
}

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    let pair = bench.pair()?;
    let [zeroed, bytes, data] = bench.scale.pick([GIB / 4, GIB / 2, GIB / 8], [40 * GIB, 40 * GIB, 10 * GIB]);
    bench.say("creating datastores");
    let format = |target, at| LabDatastore::format_on(bench, target, at, "esx01", None);
    let this = Bench {
        bench,
        pair,
        plain: [format(&pair.plain, 0).await?, format(&pair.plain, 1).await?],
        pod: [format(&pair.pod, 0).await?, format(&pair.pod, 1).await?],
        other_pod: format(&pair.other_pod, 0).await?,
        template: TemplateSpec { bytes, data, format: DiskFormat::ZeroedThick },
        zeroed,
    };
    bench.plan(11 * bench.repetitions as usize);
    *findings = ExperimentFindings {
        setup: format!(
            "an eagerzeroedthick disk of {}; a zeroedthick template of {} with {} of data, other data in each repetition; \
             two arrays at {} of simulated round trip, {} paths to each volume of a pod",
            display::bytes(zeroed),
            display::bytes(bytes),
            display::bytes(data),
            pair::DISTANCE,
            pair.pod.subject.portals.len()
        ),
        expected: "Zeroing takes 16 s in place of 6 s because both arrays acknowledge. A deployment within a pod is offloaded; \
                   one into a pod is refused by the described array, and takes longer than without XCOPY."
            .into(),
        ..ExperimentFindings::default()
    };
    let (mut zeroed, mut refused) = ([None, None], None);
    for repetition in 0..bench.repetitions {
        zeroed = this.zero(&mut findings.samples, repetition).await?;
        refused = refused.or(this.deploy(&mut findings.samples, repetition).await?);
    }
    judge(findings, bench, data, refused);
    if let [Some(off), Some(on)] = &zeroed {
        zeros::explain(findings, BOTH, (off, on));
    }
    this.close().await
}

impl Bench<'_> {
    /// Creates zeroed disks on two arrays and on one. Returns the results on two, without and with
    /// WRITE SAME.
    async fn zero(&self, samples: &mut Samples, repetition: u32) -> Result<[Option<ZeroResult>; 2], LabError> {
        let mut last = [None, None];
        let rows = [
            (BOTH, &self.pod[0], WRITE_SAME[0]),
            (BOTH, &self.pod[0], WRITE_SAME[1]),
            (ONE, &self.plain[0], WRITE_SAME[1]),
        ];
        for (case, store, setting) in trial::alternating(&rows, repetition) {
            self.bench.step(format!("zeroing {case}, {}, run {}", setting.name, repetition + 1));
            let before = self.pair.link_bytes().await?;
            let zeroed = zeros::make(self.bench, store, 1, self.zeroed, setting.on).await?;
            zeroed.note(samples, case, setting, repetition);
            self.note_link(samples, (case, setting.name), repetition, (before, zeroed.rounds)).await?;
            if case == BOTH {
                last[usize::from(setting.on)] = Some(zeroed);
            }
        }
        Ok(last)
    }

    /// Deploys a template with new data to all places. Returns why a copy was not offloaded.
    async fn deploy(&self, samples: &mut Samples, repetition: u32) -> Result<Option<HostCopyReason>, LabError> {
        let pattern = Pattern::new(Reducibility::VIRTUAL_MACHINE, SEED + u64::from(repetition));
        let template = format!("template{repetition}");
        let TemplateSpec { bytes, data, format } = self.template;
        self.bench.step(format!("creating a template, run {}", repetition + 1));
        let (disk, _) = self.plain[0].create(&template, bytes, format, self.bench.mover()).await?;
        disk.fill(data, &pattern).await?;
        disk.close().await?;
        let [plain, other] = &self.plain;
        let [vm1, vm2] = &self.pod;
        let [off, on] = XCOPY;
        // The first copy into the pod stays there; it is the source of those within and across.
        let golden = format!("golden{repetition}");
        let rows = [
            (ONE, off, plain, &template, other, None),
            (ONE, on, plain, &template, other, None),
            (FIRST, on, plain, &template, vm1, Some(&golden)),
            (AGAIN, on, plain, &template, vm1, None),
            (WITHIN, on, vm1, &golden, vm2, None),
            (ACROSS, on, vm1, &golden, &self.other_pod, None),
            (FIRST, off, plain, &template, vm2, None),
        ];
        let mut refused = None;
        for (case, setting, from, source, to, kept) in rows {
            self.bench.step(format!("deployment {case}, {}, run {}", setting.name, repetition + 1));
            let before = (self.pair.link_bytes().await?, self.pair.crossed_bytes().await?);
            let mut copied = CopyResult::default();
            while !copied.is_complete() && (kept.is_none() || copied.rounds == 0) {
                copied.plus(&self.copy(&pattern, (from, source), to, kept, setting).await?);
            }
            copied.note(samples, case, setting, repetition);
            self.note_link(samples, (case, setting.name), repetition, (before.0, copied.rounds)).await?;
            let crossed = self.pair.crossed_bytes().await?.saturating_sub(before.1);
            push_mib(samples, (case, setting.name, CROSSED), repetition, (crossed, copied.rounds));
            refused = refused.or(copied.refused);
        }
        plain.discard(&template).await?;
        vm1.discard(&golden).await?;
        Ok(refused)
    }

    /// Makes one copy, and compares it with the template. It is removed unless it is `kept`.
    async fn copy(
        &self,
        pattern: &Pattern,
        (from, source): (&LabDatastore, &str),
        to: &LabDatastore,
        kept: Option<&String>,
        setting: Setting,
    ) -> Result<CopyResult, LabError> {
        let settings = MoverSettings { hardware_move: setting.on, max_transfer_kib: 16384, ..self.bench.mover() };
        let name = kept.cloned().unwrap_or_else(|| format!("vm{:04}", self.bench.serial()));
        let source = from.open(source, FileAccess::Read, settings).await?;
        let counters = || from.device().counters().plus(&to.device().counters());
        let (begun, before) = (clock::now(), counters());
        let (copy, report) = source.copy_to(to, &name).await?;
        let mut copied = CopyResult { time: clock::now().duration_since(begun), rounds: 1, ..CopyResult::default() };
        copied.add(&report, settings);
        copied.all = HostCommands::of(&counters().since(&before), copied.work);
        source.close().await?;
        copies::check(pattern, &copy, self.template, CHECKED_PIECES).await?;
        copy.close().await?;
        if kept.is_none() {
            to.discard(&name).await?;
        }
        Ok(copied)
    }

    /// Records the bytes on the link since `before`, for one of `rounds` operations.
    async fn note_link(
        &self,
        samples: &mut Samples,
        (case, setting): (&str, &str),
        repetition: u32,
        (before, rounds): (u64, u32),
    ) -> Result<(), LabError> {
        let bytes = self.pair.link_bytes().await?.saturating_sub(before);
        push_mib(samples, (case, setting, LINK), repetition, (bytes, rounds));
        Ok(())
    }

    async fn close(self) -> Result<(), LabError> {
        for store in self.plain.into_iter().chain(self.pod).chain([self.other_pod]) {
            store.unmount().await?;
        }
        Ok(())
    }
}

fn push_mib(
    samples: &mut Samples,
    (case, setting, measure): (&str, &str, &str),
    repetition: u32,
    (bytes, rounds): (u64, u32),
) {
    let mib = bytes as f64 / f64::from(1 << 20) / f64::from(rounds.max(1));
    samples.push(key(case, setting, measure), repetition, MeasureUnit::Mebibytes, mib);
}

fn judge(findings: &mut ExperimentFindings, bench: &LabBench, data: u64, refused: Option<HostCopyReason>) {
    let samples = &findings.samples;
    findings.plots = plots(samples);
    let on = XCOPY[1].name;
    let over = |name: &str, over: &'static str, under: &'static str, setting: &'static str| {
        figure(name, MeasureUnit::Times, samples, move |s| {
            trial::ratio(s, key(over, setting, "time"), key(under, setting, "time"))
        })
    };
    let [_, zero_both, zero_one] = PAIR_ZERO_SECS;
    let [_, _, into, within] = PAIR_COPY_SECS;
    let mut again = over("into a pod whose other array has the data, time over one within it", AGAIN, WITHIN, on);
    let mut figures = vec![
        over("the first copy into a pod, time over one within it", FIRST, WITHIN, on).published(into / within),
        over("zeroing on two arrays, time over one", BOTH, ONE, WRITE_SAME[1].name).published(zero_both / zero_one),
    ];
    figures.extend([link_share(samples, AGAIN, data), link_share(samples, WITHIN, data)]);
    if refused.is_none() {
        again = again.goal(Goal::AtMost(MOST_TIMES));
        figures[2..].iter_mut().for_each(|share| *share = share.clone().goal(Goal::AtMost(MOST_LINK)));
    }
    figures.insert(0, again);
    figures.push(link_share(samples, FIRST, data));
    figures.extend(durations(samples, bench.scale.pick(false, true)));
    findings.figures = figures;
    for (case, settings) in [(BOTH, &WRITE_SAME), (ONE, &WRITE_SAME)] {
        let seen = trial::times(&findings.samples, case, settings);
        findings.add_seen(Some(format!("Zeroing {case}: {seen}.")));
    }
    for case in [ONE, FIRST, AGAIN, WITHIN, ACROSS] {
        let seen = trial::times(&findings.samples, case, &XCOPY);
        findings.add_seen(Some(format!("Deployment {case}: {seen}.")));
    }
    explain(findings, refused);
}

/// Returns the link's bytes of a copy, in percent of the data of the template.
fn link_share(samples: &Samples, case: &'static str, data: u64) -> Figure {
    let mib = data as f64 / f64::from(1 << 20);
    figure(
        format!("bytes on the link for a copy {case}, as part of the data"),
        MeasureUnit::Percent,
        samples,
        move |s| Some(100.0 * s.median(key(case, XCOPY[1].name, LINK))? / mib),
    )
}

/// Returns the times that the article has; its values are comparable at its sizes.
fn durations(samples: &Samples, is_comparable: bool) -> Vec<Figure> {
    let [zero_off, zero_both, zero_one] = PAIR_ZERO_SECS;
    let [copy_off, copy_one, into, within] = PAIR_COPY_SECS;
    let [without, with] = &WRITE_SAME;
    let [off, on] = &XCOPY;
    let rows = [
        ("zeroing on two arrays without WRITE SAME", BOTH, without, zero_off),
        ("zeroing on two arrays", BOTH, with, zero_both),
        ("zeroing on one array", ONE, with, zero_one),
        ("deployment on one array without XCOPY", ONE, off, copy_off),
        ("deployment on one array", ONE, on, copy_one),
        ("deployment into a pod", FIRST, on, into),
        ("deployment within a pod", WITHIN, on, within),
    ];
    let time = |(name, case, setting, published): (&str, &'static str, &Setting, f64)| {
        let setting = setting.name;
        let time = figure(name, MeasureUnit::Seconds, samples, move |s| s.median(key(case, setting, "time")));
        if is_comparable { time.published(published) } else { time }
    };
    rows.into_iter().map(time).collect()
}

fn plots(samples: &Samples) -> Vec<crate::plot::Plot> {
    let names = |cases: &[&str]| cases.iter().map(|case| (*case).to_owned()).collect::<Vec<_>>();
    let (zeroed, copied) = (names(&[BOTH, ONE]), names(&[ONE, FIRST, AGAIN, WITHIN, ACROSS]));
    let time = |title| PlotSpec { title, measure: "time", label: "duration", unit: MeasureUnit::Seconds };
    let link = |title| PlotSpec { title, measure: LINK, label: "bytes on the link", unit: MeasureUnit::Mebibytes };
    vec![
        trial::bars(samples, time("Duration of zeroing a disk"), &zeroed, &WRITE_SAME),
        trial::bars(samples, time("Duration of a deployment"), &copied, &XCOPY),
        trial::bars(samples, link("On the link for a zeroed disk"), &zeroed, &WRITE_SAME),
        trial::bars(samples, link("On the link for a deployment"), &copied, &XCOPY),
    ]
}

fn explain(findings: &mut ExperimentFindings, refused: Option<HostCopyReason>) {
    if let Some(reason) = refused {
        findings.notes.push(ReportNote::Unsupported(copies::fallback(reason)));
        return;
    }
    let samples = &findings.samples;
    let mib = |case, measure| samples.median(key(case, XCOPY[1].name, measure));
    let shown = |mib: f64| display::with_unit(mib, MeasureUnit::Mebibytes);
    let sentence = |case| {
        let (link, crossed) = (mib(case, LINK)?, mib(case, CROSSED)?);
        Some(format!("{case}: {} crossed the link, {} of it data", shown(link), shown(crossed)))
    };
    let sentences: Vec<String> = [FIRST, AGAIN, WITHIN, ACROSS].into_iter().filter_map(sentence).collect();
    let commands = |case| samples.median(key(case, XCOPY[1].name, "commands"));
    let sent = commands(WITHIN).zip(commands(FIRST)).map(|(within, first)| {
        format!(
            "The host sent {} commands for a copy within the pod and {} for one into it, and moved no data.",
            display::number(within),
            display::number(first)
        )
    });
    findings.add_reason((!sentences.is_empty()).then(|| format!("{}.", sentences.join("; "))));
    findings.add_reason(sent);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Samples {
        let mut samples = Samples::default();
        for repetition in 0..3 {
            let mut push = |case, setting, measure, unit, value| {
                samples.push(key(case, setting, measure), repetition, unit, value + f64::from(repetition) * 0.001);
            };
            let (seconds, mib) = (MeasureUnit::Seconds, MeasureUnit::Mebibytes);
            for (case, time, link) in [(ONE, 1.0, 0.0), (FIRST, 8.0, 260.0), (AGAIN, 3.0, 4.0), (WITHIN, 2.0, 1.0)] {
                push(case, XCOPY[1].name, "time", seconds, time);
                push(case, XCOPY[1].name, LINK, mib, link);
                push(case, XCOPY[1].name, CROSSED, mib, 0.0);
            }
            push(BOTH, WRITE_SAME[1].name, "time", seconds, 1.6);
            push(ONE, WRITE_SAME[1].name, "time", seconds, 0.6);
        }
        samples
    }

    #[test]
    fn copy_of_known_data_is_compared_with_one_in_the_pod() {
        let share = link_share(&samples(), AGAIN, 256 << 20);
        assert!((share.measured.unwrap() - 100.0 * 4.001 / 256.0).abs() < 1e-6);
        let all = durations(&samples(), true);
        let published: Vec<_> = all.iter().map(|figure| figure.published.unwrap()).collect();
        assert_eq!(published, [36.0, 16.0, 6.0, 23.5, 4.5, 82.0, 25.0]);
        assert!(durations(&samples(), false).iter().all(|figure| figure.published.is_none()));
    }

    #[test]
    fn plots_have_a_bar_for_each_measured_case() {
        let plots = plots(&samples());
        assert_eq!(plots[1].series[1].points.len(), 4);
        assert_eq!(plots[0].places, [BOTH, ONE]);
    }
}
