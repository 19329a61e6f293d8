//! L4: Storage vMotion of a virtual machine that is off, idle or busy.

use super::copies::{self, CopyResult, TemplateSpec};
use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::load::{self, GuestDisk, LoadEnd, LoadProfile};
use crate::pattern::{Pattern, Reducibility};
use crate::results::{ExperimentFindings, MeasureUnit, Samples, key};
use crate::store::Disk;
use crate::trial::{self, PlotSpec, XCOPY, figure};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use virtual_disk::{DiskFormat, MoverSettings};

const MIB: u64 = 1 << 20;
/// Seed of the test data.
pub(super) const SEED: u64 = 4;
const GIB: u64 = 1 << 30;
/// State of the machine during the migration.
const STATES: [&str; 3] = ["powered off", "idle", "busy"];
/// Interval of the writes of an idle machine, such as logs.
const IDLE: Duration = Duration::from_millis(50);
/// Number of the last writes that are compared after a migration.
const CHECKED_WRITES: usize = 16;

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    let data = bench.scale.pick(384 * MIB, 50 * GIB);
    let size = bench.scale.pick(GIB, 100 * GIB);
    let datastores = copies::format_datastores(bench).await?;
    bench.plan(1 + 2 * STATES.len() * bench.repetitions as usize);
    bench.step("creating a virtual machine");
    let what = TemplateSpec { bytes: size, data, format: DiskFormat::ZeroedThick };
    let made = datastores.template("machine", what).await?;
    *findings = ExperimentFindings {
        setup: format!(
            "zeroedthick, {} with {} of data, {}",
            display::bytes(size),
            display::bytes(data),
            datastores.places()
        ),
        expected: "XCOPY helps in every state. A workload slows the migration somewhat.".into(),
        ..ExperimentFindings::default()
    };
    let mut last = [None, None];
    for repetition in 0..bench.repetitions {
        for state in STATES {
            for setting in trial::alternating(&XCOPY, repetition) {
                bench.step(format!("{state}, {}, run {}", setting.name, repetition + 1));
                let settings = MoverSettings { hardware_move: setting.on, max_transfer_kib: 16384, ..bench.mover() };
                let (mut copied, mut operations) = (CopyResult::default(), 0);
                while !copied.is_complete() {
                    // Each round moves a new copy, so that all start from the same state.
                    let name = format!("svm{:04}", bench.serial());
                    let disk = datastores.machine(&made, &name, settings).await?;
                    let (round, guest) = moved(&disk, &datastores, &name, state, what, settings).await?;
                    copied.plus(&round);
                    operations += guest;
                    disk.close().await?;
                    datastores.destination().discard(&format!("{name}-moved")).await?;
                    // The migration has removed the disk that it moved.
                    datastores.source().note_removed(data).await?;
                }
                copied.note(&mut findings.samples, state, setting, repetition);
                if state == "busy" {
                    let rate = operations as f64 / copied.time.as_secs_f64().max(1e-9);
                    findings.samples.push(
                        key(state, setting.name, "guest IOPS"),
                        repetition,
                        MeasureUnit::PerSecond,
                        rate,
                    );
                }
                last[usize::from(setting.on)] = Some(copied);
            }
        }
    }
    if let [Some(off), Some(on)] = last {
        judge(findings, &off, &on);
    }
    datastores.close().await?;
    Ok(())
}

/// Migrates a disk while its guest is in `state`. Also returns the number of guest operations.
async fn moved(
    disk: &Disk,
    datastores: &copies::CopyDatastores<'_>,
    name: &str,
    state: &str,
    what: TemplateSpec,
    settings: MoverSettings,
) -> Result<(CopyResult, u64), LabError> {
    let over = Cell::new(false);
    let target = format!("{name}-moved");
    let migration = async {
        let (begun, before) = (platform::clock::now(), datastores.counters());
        let result = disk.migrate(datastores.destination(), &target).await;
        over.set(true);
        let time = platform::clock::now().duration_since(begun);
        let counted = datastores.counters().since(&before);
        let mut copied = CopyResult { time, rounds: 1, ..CopyResult::default() };
        copied.add(&result?, settings);
        // The writes of a guest are no part of the migration.
        if state == STATES[0] {
            copied.count(&counted);
        }
        Ok::<CopyResult, LabError>(copied)
    };
    let guest_disk =
        RecordedDisk { disk, pattern: Pattern::new(Reducibility::VIRTUAL_MACHINE, SEED), writes: RefCell::default() };
    let guest = async {
        let stop = || over.get();
        match state {
            "busy" => {
                Ok(load::run(&guest_disk, LoadProfile::BUSY, 0..what.data, &guest_disk.pattern, LoadEnd::When(&stop))
                    .await?
                    .operations)
            }
            "idle" => {
                let mut operations = 0;
                while !over.get() {
                    let offset = operations * 65_536 % what.data;
                    guest_disk.write(offset, guest_disk.pattern.data(offset, 4096)).await?;
                    operations += 1;
                    tokio::time::sleep(IDLE).await;
                }
                Ok(operations)
            }
            _ => Ok::<u64, LabError>(0),
        }
    };
    let (copied, operations) = tokio::join!(migration, guest);
    let (copied, operations) = (copied?, operations?);
    guest_disk.check(datastores, what).await?;
    Ok((copied, operations))
}

/// A disk that records its guest's writes, to compare the contents after the migration.
struct RecordedDisk<'a> {
    disk: &'a Disk,
    pattern: Pattern,
    /// Offset and length of every completed write.
    writes: RefCell<Vec<(u64, usize)>>,
}

impl RecordedDisk<'_> {
    /// Compares parts of the migrated disk with the template and the writes: some spread over the
    /// disk, and those of the last writes, which were made during the migration.
    async fn check(&self, datastores: &copies::CopyDatastores<'_>, what: TemplateSpec) -> Result<(), LabError> {
        let writes = self.writes.take();
        let pieces = copies::CHECKED_PIECES.min(what.data / MIB).max(1);
        let spread = (0..pieces).map(|piece| piece * (what.data / pieces) / MIB * MIB);
        let last = writes.iter().rev().take(CHECKED_WRITES).map(|(offset, _)| offset / MIB * MIB);
        for at in spread.chain(last).collect::<BTreeSet<u64>>() {
            let mut expected = datastores.template_data(at, MIB as usize).to_vec();
            for (offset, length) in writes.iter().filter(|(offset, _)| (at..at + MIB).contains(offset)) {
                let start = usize::try_from(offset - at).unwrap_or(0);
                let data = self.pattern.data(*offset, *length);
                expected.iter_mut().skip(start).zip(&data).for_each(|(to, from)| *to = *from);
            }
            let found = self.disk.read_at(at, MIB).await?;
            if found != expected {
                return Err(LabError::Wrong(format!("migrated disk differs from its source at MiB {}", at / MIB)));
            }
        }
        Ok(())
    }
}

impl GuestDisk for RecordedDisk<'_> {
    fn read(&self, offset: u64, bytes: u32) -> Pin<Box<dyn Future<Output = Result<Bytes, LabError>> + '_>> {
        self.disk.read(offset, bytes)
    }

    fn write(&self, offset: u64, data: Bytes) -> Pin<Box<dyn Future<Output = Result<(), LabError>> + '_>> {
        Box::pin(async move {
            let length = data.len();
            self.disk.write_at(offset, data).await?;
            self.writes.borrow_mut().push((offset, length));
            Ok(())
        })
    }
}

fn judge(findings: &mut ExperimentFindings, off: &CopyResult, on: &CopyResult) {
    let samples = &findings.samples;
    let cases = STATES.map(str::to_owned);
    let shown =
        PlotSpec { title: "Duration of the migration", measure: "time", label: "duration", unit: MeasureUnit::Seconds };
    let plot = trial::bars(samples, shown, &cases, &XCOPY);
    let rate = PlotSpec {
        title: "IOPS of the busy guest",
        measure: "guest IOPS",
        label: "IOPS",
        unit: MeasureUnit::PerSecond,
    };
    let guest = trial::bars(samples, rate, &[STATES[2].to_owned()], &XCOPY);
    let slower = |s: &Samples| trial::ratio(s, key("busy", "XCOPY on", "time"), key("powered off", "XCOPY on", "time"));
    findings.figures = STATES
        .iter()
        .map(|state| {
            figure(format!("faster with XCOPY, {state}"), MeasureUnit::Times, samples, |s| {
                trial::faster(s, state, &XCOPY)
            })
        })
        .chain([figure("busy over powered off, with XCOPY", MeasureUnit::Times, samples, slower)])
        .collect();
    let seen = STATES.iter().map(|state| format!("{state}: {}.", trial::times(samples, state, &XCOPY))).collect();
    findings.plots = vec![plot, guest];
    findings.seen = seen;
    let slower = slower(&findings.samples);
    findings.add_reason(slower.filter(|slower| *slower > 1.15).map(|slower| {
        format!(
            "A busy guest makes the migration {} times as long: its writes to copied regions go to both disks, and writes to \
             the region being copied wait.",
            display::number(slower)
        )
    }));
    copies::explain(findings, "busy", off, on);
}
