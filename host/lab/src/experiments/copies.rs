//! Common parts of the copy experiments: two datastores, a template, deployments and the
//! explanation.

use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::pattern::{Pattern, Reducibility};
use crate::predict::HostCommands;
use crate::results::{ExperimentFindings, Figure, Goal, MeasureUnit, ReportNote, Samples, Timeline, key};
use crate::store::{Disk, LabDatastore};
use crate::timeline;
use crate::trial::{self, Setting, XCOPY, figure};
use crate::worker::Workers;
use bytes::Bytes;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use multipath::CountersSnapshot;
use platform::clock;
use std::time::Duration;
use virtual_disk::{CopyReport, DiskFormat, FileAccess, HostCopyReason, MoverSettings, MoverWork};

/// Seed of the template data.
pub(super) const SEED: u64 = 2015;
/// Pieces of 1 MiB compared after a copy, spread over the disk, to detect a copy of wrong blocks.
pub(super) const CHECKED_PIECES: u64 = 8;

/// Copies that are checked and removed at once, after the time of a round was taken.
const AT_ONCE: usize = 8;
/// Setting of the samples of [`CopyDatastores::plain_copy`].
const PLAIN: &str = "plain READ and WRITE";
/// The most bytes of a plain copy: more do not change its rate.
const PLAIN_BYTES: u64 = 4 << 30;
/// Bytes of one READ and one WRITE, as the data mover's.
const TRANSFER: u64 = 1 << 20;
/// The least rate of a copy through the host, in percent of the plain copy. A slow host would make
/// the gain of XCOPY larger.
const LEAST_HOST_SHARE: f64 = 60.0;

/// Properties of a template.
#[derive(Clone, Copy, Debug)]
pub(super) struct TemplateSpec {
    /// Size of its disk in bytes.
    pub(super) bytes: u64,
    /// Bytes from the start of the disk that hold data.
    pub(super) data: u64,
    /// Format of the disk.
    pub(super) format: DiskFormat,
}

/// Source and destination datastore; both are the same if the target has only one disk.
pub(super) struct CopyDatastores<'a> {
    bench: &'a LabBench,
    source: LabDatastore,
    destination: Option<LabDatastore>,
    pattern: Pattern,
}

/// A template that exists on the source datastore.
pub(super) struct PreparedTemplate {
    name: String,
    what: TemplateSpec,
}

/// Duration and commands of one sample: the same deployments, repeated for a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CopyResult {
    /// From the first command to the end of the last, summed over the rounds.
    pub(super) time: Duration,
    /// Number of rounds.
    pub(super) rounds: u32,
    /// Commands sent in all rounds.
    pub(super) work: MoverWork,
    /// The same with those for metadata.
    pub(super) all: HostCommands,
    /// Why data went through the host although an offload was requested.
    pub(super) refused: Option<HostCopyReason>,
}

/// Formats the datastores.
pub(super) async fn format_datastores(bench: &LabBench) -> Result<CopyDatastores<'_>, LabError> {
    bench.say("creating datastores");
    let source = LabDatastore::format(bench, 0, "esx01", None).await?;
    let destination =
        if bench.target.disks.len() > 1 { Some(LabDatastore::format(bench, 1, "esx01", None).await?) } else { None };
    Ok(CopyDatastores { bench, source, destination, pattern: Pattern::new(Reducibility::VIRTUAL_MACHINE, SEED) })
}

impl CopyDatastores<'_> {
    /// Describes where copies go.
    pub(super) fn places(&self) -> &'static str {
        if self.destination.is_some() { "from one datastore to another" } else { "within one datastore" }
    }

    /// Returns the datastore that copies come from.
    pub(super) fn source(&self) -> &LabDatastore {
        &self.source
    }

    /// Returns the datastore that copies go to.
    pub(super) fn destination(&self) -> &LabDatastore {
        self.destination.as_ref().unwrap_or(&self.source)
    }

    /// Creates a disk and writes its data in writes of 1 MiB.
    pub(super) async fn template(&self, name: &str, what: TemplateSpec) -> Result<PreparedTemplate, LabError> {
        let settings = self.bench.mover();
        let (disk, _) = self.source.create(name, what.bytes, what.format, settings).await?;
        disk.fill(what.data, &self.pattern).await?;
        disk.close().await?;
        Ok(PreparedTemplate { name: name.to_owned(), what })
    }

    /// Deploys `count` machines at once, checks their content and removes them, repeatedly until
    /// the deployments alone have taken a second.
    pub(super) async fn deploy(
        &self,
        template: &PreparedTemplate,
        count: u32,
        settings: MoverSettings,
    ) -> Result<CopyResult, LabError> {
        let mut copied = CopyResult::default();
        while !copied.is_complete() {
            let pieces = if copied.rounds == 0 { CHECKED_PIECES } else { 1 };
            copied.plus(&self.deploy_once(template, count, settings, pieces).await?);
        }
        Ok(copied)
    }

    /// Deploys one machine by each of several processes, repeatedly until the deployments have
    /// taken a second. The commands of other processes are not counted.
    pub(super) async fn deploy_by(
        &self,
        workers: &mut Workers,
        count: usize,
        xcopy: bool,
        what: TemplateSpec,
    ) -> Result<CopyResult, LabError> {
        let mut copied = CopyResult::default();
        while !copied.is_complete() {
            let names: Vec<String> = (0..count).map(|_| format!("vm{:04}", self.bench.serial())).collect();
            let begun = clock::now();
            workers.deploy(&names, xcopy).await?;
            copied.time += clock::now().duration_since(begun);
            copied.rounds += 1;
            let to = self.destination();
            let checked = names.iter().map(|name| async move {
                let copy = to.open(name, FileAccess::Read, self.bench.mover()).await?;
                self.check(&copy, what, 1).await?;
                copy.close().await?;
                to.discard(name).await
            });
            stream::iter(checked).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        }
        Ok(copied)
    }

    async fn deploy_once(
        &self,
        template: &PreparedTemplate,
        count: u32,
        settings: MoverSettings,
        pieces: u64,
    ) -> Result<CopyResult, LabError> {
        let to = self.destination();
        let names: Vec<String> = (0..count).map(|_| format!("vm{:04}", self.bench.serial())).collect();
        let source = self.source.open(&template.name, FileAccess::Read, settings).await?;
        let (begun, before) = (clock::now(), self.counters());
        let copies = try_join_all(names.iter().map(|name| source.copy_to(to, name))).await?;
        let (time, counted) = (clock::now().duration_since(begun), self.counters().since(&before));
        source.close().await?;
        let mut copied = CopyResult { time, rounds: 1, ..CopyResult::default() };
        copies.iter().for_each(|(_, report)| copied.add(report, settings));
        let checked = copies.into_iter().zip(&names).map(|((copy, _), name)| async move {
            self.check(&copy, template.what, pieces).await?;
            copy.close().await?;
            to.discard(name).await
        });
        stream::iter(checked).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        copied.all = HostCommands::of(&counted, copied.work);
        Ok(copied)
    }

    /// Measures a bare loop of READ and WRITE from the template to allocated and zeroed disks, with
    /// the data mover's number of outstanding transfers: the best that a copy without XCOPY can do.
    pub(super) async fn plain_copy(
        &self,
        template: &PreparedTemplate,
        samples: &mut Samples,
        repetition: u32,
    ) -> Result<(), LabError> {
        let (to, settings) = (self.destination(), self.bench.mover());
        let bytes = template.what.data.min(PLAIN_BYTES);
        let source = self.source.open(&template.name, FileAccess::Read, settings).await?;
        let (mut time, mut rounds) = (Duration::ZERO, 0);
        while time < trial::SAMPLE && rounds < trial::ROUNDS {
            let name = format!("plain{:04}", self.bench.serial());
            let (copy, _) = to.create(&name, bytes, DiskFormat::EagerZeroedThick, settings).await?;
            let (from, onto, begun) = (&source, &copy, clock::now());
            let pieces = (0..bytes / TRANSFER).map(|piece| async move {
                let data = from.read_at(piece * TRANSFER, TRANSFER).await?;
                onto.write_at(piece * TRANSFER, data).await
            });
            stream::iter(pieces).buffer_unordered(settings.outstanding.transfers.into()).try_collect::<()>().await?;
            time += clock::now().duration_since(begun);
            rounds += 1;
            copy.close().await?;
            to.discard(&name).await?;
        }
        source.close().await?;
        let mib = (2 * bytes * u64::from(rounds)) as f64 / TRANSFER as f64;
        let rate = mib / time.as_secs_f64().max(1e-9);
        samples.push(key("", PLAIN, "throughput"), repetition, MeasureUnit::MibPerSecond, rate);
        Ok(())
    }

    /// Returns the commands that the host has sent to both disks.
    pub(super) fn counters(&self) -> CountersSnapshot {
        let source = self.source.device().counters();
        self.destination.as_ref().map_or(source, |to| source.plus(&to.device().counters()))
    }

    /// Deploys one machine and returns its commands in time.
    pub(super) async fn explained(
        &self,
        template: &PreparedTemplate,
        title: &str,
        settings: MoverSettings,
    ) -> Result<Timeline, LabError> {
        let (to, name) = (self.destination(), format!("vm{:04}", self.bench.serial()));
        let source = self.source.open(&template.name, FileAccess::Read, settings).await?;
        self.source.traced().start();
        to.traced().start();
        let copied = source.copy_to(to, &name).await;
        // Within one datastore, both are the same disk.
        let mut records = vec![("destination", to.traced().stop())];
        if self.destination.is_some() {
            records.push(("source", self.source.traced().stop()));
        }
        source.close().await?;
        let (copy, _) = copied?;
        copy.close().await?;
        to.discard(&name).await?;
        Ok(timeline::timeline(title, &records))
    }

    /// Copies a template within its datastore and opens the copy for writing with `settings`.
    pub(super) async fn machine(
        &self,
        template: &PreparedTemplate,
        name: &str,
        settings: MoverSettings,
    ) -> Result<Disk, LabError> {
        let source = self.source.open(&template.name, FileAccess::Read, self.bench.mover()).await?;
        let (copy, _) = source.copy_to(&self.source, name).await?;
        copy.close().await?;
        source.close().await?;
        self.source.open(name, FileAccess::Write, settings).await
    }

    /// Returns the data of the template.
    pub(super) fn template_data(&self, offset: u64, bytes: usize) -> Bytes {
        self.pattern.data(offset, bytes)
    }

    /// Unmounts the datastores.
    pub(super) async fn close(self) -> Result<(), LabError> {
        if let Some(destination) = self.destination {
            destination.unmount().await?;
        }
        self.source.unmount().await
    }

    /// Compares several parts of a copy with the template, to detect a copy of the wrong blocks.
    pub(super) async fn check(&self, copy: &Disk, what: TemplateSpec, pieces: u64) -> Result<(), LabError> {
        check(&self.pattern, copy, what, pieces).await
    }
}

/// Compares several parts of a copy with the data of its template.
pub(super) async fn check(pattern: &Pattern, copy: &Disk, what: TemplateSpec, pieces: u64) -> Result<(), LabError> {
    const PIECE: u64 = 1 << 20;
    let pieces = pieces.min(what.data / PIECE).max(1);
    for piece in 0..pieces {
        let offset = piece * (what.data / pieces) / PIECE * PIECE;
        let length = PIECE.min(what.data - offset);
        let found = copy.read_at(offset, length).await?;
        if found != pattern.data(offset, usize::try_from(length).unwrap_or(0)) {
            return Err(LabError::Wrong(format!("copy differs from its template at byte {offset}")));
        }
    }
    if what.bytes > what.data {
        let found = copy.read_at(what.bytes - PIECE, PIECE).await?;
        if found.iter().any(|byte| *byte != 0) {
            return Err(LabError::Wrong("copy has data where its template has zeros".to_owned()));
        }
    }
    Ok(())
}

/// Adds two counters of work.
pub(super) fn add(a: MoverWork, b: MoverWork) -> MoverWork {
    let sum = |a: virtual_disk::CommandTotal, b: virtual_disk::CommandTotal| virtual_disk::CommandTotal {
        commands: a.commands + b.commands,
        bytes: a.bytes + b.bytes,
    };
    MoverWork {
        xcopy: sum(a.xcopy, b.xcopy),
        write_same: sum(a.write_same, b.write_same),
        unmap: sum(a.unmap, b.unmap),
        read: sum(a.read, b.read),
        write: sum(a.write, b.write),
    }
}

/// Returns the number of commands of all kinds.
pub(super) fn commands(work: &MoverWork) -> u64 {
    [work.xcopy, work.write_same, work.unmap, work.read, work.write].iter().map(|sent| sent.commands).sum()
}

impl CopyResult {
    /// Returns true if the sample is long enough.
    pub(super) fn is_complete(&self) -> bool {
        self.time >= trial::SAMPLE || self.rounds >= trial::ROUNDS
    }

    /// Adds another round.
    pub(super) fn plus(&mut self, round: &Self) {
        self.time += round.time;
        self.rounds += round.rounds;
        self.work = add(self.work, round.work);
        self.all.plus(&round.all);
        self.refused = self.refused.or(round.refused);
    }

    /// Sets the commands that the host counted.
    pub(super) fn count(&mut self, counted: &CountersSnapshot) {
        self.all = HostCommands::of(counted, self.work);
    }

    /// Returns the mean duration of a round in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.time.as_secs_f64() / f64::from(self.rounds.max(1))
    }

    /// Adds the work of one copy that was made with `settings`.
    pub(super) fn add(&mut self, report: &CopyReport, settings: MoverSettings) {
        self.work = add(self.work, report.work);
        if settings.hardware_move {
            self.refused = self.refused.or(report.by_host);
        }
    }

    /// Returns the bytes of data that the host read and wrote in a round.
    pub(super) fn wire_bytes(&self) -> u64 {
        (self.work.read.bytes + self.work.write.bytes) / u64::from(self.rounds.max(1))
    }

    /// Records duration, commands and throughput.
    pub(super) fn note(&self, samples: &mut Samples, case: &str, setting: Setting, repetition: u32) {
        let seconds = self.seconds();
        let commands = commands(&self.work) as f64 / f64::from(self.rounds.max(1));
        let mut push = |measure, unit, value| samples.push(key(case, setting.name, measure), repetition, unit, value);
        push("time", MeasureUnit::Seconds, seconds);
        push(trial::SAMPLED, MeasureUnit::Seconds, self.time.as_secs_f64());
        push("commands", MeasureUnit::Count, commands);
        push("iops", MeasureUnit::PerSecond, commands / seconds.max(1e-9));
        push(
            "throughput",
            MeasureUnit::MibPerSecond,
            self.wire_bytes() as f64 / f64::from(1 << 20) / seconds.max(1e-9),
        );
        self.all.note(samples, (case, setting.name), repetition, self.rounds);
    }
}

/// Compares the rate of a copy without XCOPY with that of the plain copy.
pub(super) fn host_share(samples: &Samples, case: &str, name: &str) -> Figure {
    let name = format!("{name} without XCOPY, rate as part of plain READ and WRITE");
    let share = figure(name, MeasureUnit::Percent, samples, |s| {
        let plain = key("", PLAIN, "throughput");
        Some(100.0 * trial::ratio(s, key(case, XCOPY[0].name, "throughput"), plain)?)
    });
    share.goal(Goal::AtLeast(LEAST_HOST_SHARE))
}

/// Explains the result by the medians of all repetitions of one case.
pub(super) fn explain(findings: &mut ExperimentFindings, case: &str, off: &CopyResult, on: &CopyResult) {
    if let Some(reason) = on.refused {
        findings.notes.push(ReportNote::Unsupported(fallback(reason)));
        findings.add_reason(Some(format!(
            "Both settings moved the data through the host ({} without XCOPY, {} with).",
            display::bytes(off.wire_bytes()),
            display::bytes(on.wire_bytes())
        )));
        return;
    }
    let median = |setting: &Setting, measure| findings.samples.median(key(case, setting.name, measure));
    let [without, with] = &trial::XCOPY;
    let xcopy = on.work.xcopy;
    let sent = median(with, "commands").zip(median(with, "iops")).filter(|_| xcopy.commands > 0);
    let sent = sent.map(|(commands, rate)| {
        format!(
            "With XCOPY the host sent {} commands of {} on average, {} per second, and moved {} of data itself.",
            display::number(commands),
            display::bytes(xcopy.bytes / xcopy.commands),
            display::number(rate),
            display::bytes(on.wire_bytes())
        )
    });
    // Half of the throughput is read and the other half written.
    let rate = median(without, "throughput").map(|both| both / 2.0);
    // Published: 50 GB in "over two minutes" (VAAI guide, 2015).
    let published_rate = 50.0 * 1024.0 / 120.0;
    let moved = rate.map(|rate| {
        format!(
            "Without XCOPY the host read and wrote {}, at {}: {} times the rate of the published host, which moved 50 GB in over \
             two minutes.",
            display::bytes(off.wire_bytes() / 2),
            display::with_unit(rate, MeasureUnit::MibPerSecond),
            display::number(rate / published_rate)
        )
    });
    findings.add_reason(sent);
    findings.add_reason(moved);
}

/// Describes why XCOPY was not used.
pub(super) fn fallback(reason: HostCopyReason) -> String {
    let why = match reason {
        HostCopyReason::Unsupported => "the target does not support EXTENDED COPY".to_owned(),
        HostCopyReason::Refused => "the target rejected EXTENDED COPY".to_owned(),
        HostCopyReason::SwitchedOff => "EXTENDED COPY is disabled for the device".to_owned(),
        HostCopyReason::Forbidden(rule) => format!("a rule of the host excludes it: {rule}"),
    };
    format!("XCOPY was not used: {why}. “On” shows a copy by READ and WRITE through the host.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_copy_by_the_host_misses_its_goal() {
        for (rate, is_met) in [(500.0, false), (900.0, true)] {
            let mut samples = Samples::default();
            for repetition in 0..3 {
                let mut push = |case, setting, rate| {
                    let rate = rate + f64::from(repetition);
                    samples.push(key(case, setting, "throughput"), repetition, MeasureUnit::MibPerSecond, rate);
                };
                push("", PLAIN, 1000.0);
                push("16", XCOPY[0].name, rate);
            }
            let share = host_share(&samples, "16", "sixteen at once");
            let (measured, goal) = (share.measured.unwrap(), share.goal.unwrap());
            assert!((measured - rate / 10.0).abs() < 1.0, "{measured}");
            assert_eq!(goal.is_met_by(measured), is_met);
            assert_eq!(share.name, "sixteen at once without XCOPY, rate as part of plain READ and WRITE");
        }
    }
}
