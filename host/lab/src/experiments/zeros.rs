//! Common parts of the WRITE SAME experiments: creation of eagerzeroedthick disks and the
//! explanation.

use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::predict::HostCommands;
use crate::results::{ExperimentFindings, MeasureUnit, ReportNote, Samples, key};
use crate::store::LabDatastore;
use crate::trial::{self, Setting};
use futures_util::future::try_join_all;
use multipath::Primitive;
use platform::clock;
use std::time::Duration;
use virtual_disk::{DiskFormat, MoverSettings, MoverWork};

/// Duration and commands of a set of created disks.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZeroResult {
    /// From the first command to the end of the last, summed over the rounds.
    pub(super) time: Duration,
    /// Number of rounds.
    pub(super) rounds: u32,
    /// Commands sent in all rounds.
    pub(super) work: MoverWork,
    /// The same with those for metadata.
    all: HostCommands,
    /// Bytes of all disks of a round together.
    pub(super) bytes: u64,
    /// False if WRITE SAME was requested but the device does not support it.
    pub(super) supported: bool,
}

/// Creates `disks` eagerzeroedthick disks at once, checks one part of each and removes them,
/// repeatedly until the creation alone has taken a second.
pub(super) async fn make(
    bench: &LabBench,
    store: &LabDatastore,
    disks: usize,
    bytes: u64,
    write_same: bool,
) -> Result<ZeroResult, LabError> {
    let mut zeroed = make_once(bench, store, disks, bytes, write_same).await?;
    while zeroed.time < trial::SAMPLE && zeroed.rounds < trial::ROUNDS {
        let round = make_once(bench, store, disks, bytes, write_same).await?;
        zeroed.time += round.time;
        zeroed.rounds += 1;
        zeroed.work.add(round.work);
        zeroed.all.plus(&round.all);
    }
    Ok(zeroed)
}

async fn make_once(
    bench: &LabBench,
    store: &LabDatastore,
    disks: usize,
    bytes: u64,
    write_same: bool,
) -> Result<ZeroResult, LabError> {
    let settings = MoverSettings { hardware_init: write_same, ..bench.mover() };
    let names: Vec<String> = (0..disks).map(|_| format!("ezt{:04}", bench.serial())).collect();
    let (begun, before) = (clock::now(), store.device().counters());
    let made = names.iter().map(|name| store.create(name, bytes, DiskFormat::EagerZeroedThick, settings));
    let made = try_join_all(made).await?;
    let (time, counted) = (clock::now().duration_since(begun), store.device().counters().since(&before));
    let work = made.iter().fold(MoverWork::default(), |sum, (_, work)| super::copies::add(sum, *work));
    for ((disk, _), name) in made.into_iter().zip(&names) {
        let found = disk.read_at(bytes / 2 / (1 << 20) * (1 << 20), 1 << 20).await?;
        if found.iter().any(|byte| *byte != 0) {
            return Err(LabError::Wrong(format!("disk {name} is not all zeros after its creation")));
        }
        disk.close().await?;
        store.discard(name).await?;
    }
    let supported = !write_same || store.device().vaai().is_usable(Primitive::Zero);
    let all = HostCommands::of(&counted, work);
    Ok(ZeroResult { time, rounds: 1, work, all, bytes: bytes * disks as u64, supported })
}

/// Returns true if the last run with WRITE SAME found it unsupported. `last` holds the last runs
/// without and with it.
pub(super) fn is_fallback(last: &[Option<ZeroResult>; 2]) -> bool {
    last[1].is_some_and(|on| !on.supported)
}

impl ZeroResult {
    /// Returns the mean duration of a round in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.time.as_secs_f64() / f64::from(self.rounds.max(1))
    }

    /// Returns the zeroed MiB per second.
    pub(super) fn rate(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.seconds().max(1e-9)
    }

    /// Returns true if `bytes` can be zeroed in a minute, which excludes targets that write the
    /// zeros.
    pub(super) fn is_quick(&self, bytes: u64) -> bool {
        bytes as f64 / f64::from(1 << 20) <= 60.0 * self.rate()
    }

    /// Records duration, commands and rates.
    pub(super) fn note(&self, samples: &mut Samples, case: &str, setting: Setting, repetition: u32) {
        let seconds = self.seconds();
        let rounds = f64::from(self.rounds.max(1));
        let mut push = |measure, unit, value| samples.push(key(case, setting.name, measure), repetition, unit, value);
        push("time", MeasureUnit::Seconds, seconds);
        push(trial::SAMPLED, MeasureUnit::Seconds, self.time.as_secs_f64());
        push("commands", MeasureUnit::Count, super::copies::commands(&self.work) as f64 / rounds);
        push("zeroed", MeasureUnit::MibPerSecond, self.rate());
        let carried = self.work.write.bytes as f64 / f64::from(1 << 20) / rounds;
        push("throughput", MeasureUnit::MibPerSecond, carried / seconds.max(1e-9));
        self.all.note(samples, (case, setting.name), repetition, self.rounds);
    }
}

/// Explains the result by the medians of all repetitions of one case. `off` is the last run without
/// WRITE SAME, and its case.
pub(super) fn explain(findings: &mut ExperimentFindings, case: &str, (off, on): (&ZeroResult, &ZeroResult)) {
    if !on.supported {
        findings.notes.push(ReportNote::Unsupported(
            "the target does not support WRITE SAME, so “on” shows the host writing zeros.".into(),
        ));
        return;
    }
    let median = |setting: &Setting, measure| findings.samples.median(key(case, setting.name, measure));
    let [without, with] = &trial::WRITE_SAME;
    let same = on.work.write_same;
    let rate = |mib: f64| display::with_unit(mib, MeasureUnit::MibPerSecond);
    let sent = median(with, "zeroed").filter(|_| same.commands > 0).map(|zeroed| {
        let bytes = same.bytes / same.commands;
        format!(
            "With WRITE SAME the host sent commands of {}, {} per second, which zeroed {}. Each carried one block.",
            display::bytes(bytes),
            display::number(zeroed * f64::from(1 << 20) / bytes as f64),
            rate(zeroed)
        )
    });
    let wrote = median(without, "zeroed").map(|zeroed| {
        format!(
            "Without WRITE SAME all {} of zeros crossed the wire, at {} (published: about 1 GB/s over Fibre Channel).",
            display::bytes(off.work.write.bytes / u64::from(off.rounds.max(1))),
            rate(zeroed)
        )
    });
    findings.add_reason(sent);
    findings.add_reason(wrote);
}
