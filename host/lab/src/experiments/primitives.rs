//! L0: the rates of the primitives alone. The other experiments are predicted from them.

use crate::bench::LabBench;
use crate::display;
use crate::error::LabError;
use crate::raw_load::{RawCommand, RawDisk, RawResult};
use crate::results::{ExperimentFindings, Figure, MeasureUnit, Plot, ReportNote, Role, Samples, key};
use crate::trial::{self, ALONE, PlotSpec, RATE, Setting, figure};
use virtual_disk::Outstanding;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Further measures of a case.
const DESCRIBED: &str = "described";
const LATENCY: &str = "latency";

/// One measured command.
struct Primitive {
    /// The plot that shows it.
    group: &'static str,
    /// The case of its samples, and its label in the plot.
    label: &'static str,
    case: &'static str,
    command: RawCommand,
    outstanding: Slots,
}

/// Number of outstanding commands.
#[derive(Clone, Copy)]
enum Slots {
    Fixed(u16),
    Of(fn(Outstanding) -> u16),
}

const XCOPIES: Slots = Slots::Of(|counts| counts.xcopy);
const ZEROS: Slots = Slots::Of(|counts| counts.write_same);
const UNMAPS: Slots = Slots::Of(|counts| counts.unmap);
const TRANSFERS: Slots = Slots::Of(|counts| counts.transfers);

const fn primitive(
    group: &'static str,
    (case, label): (&'static str, &'static str),
    command: RawCommand,
    outstanding: Slots,
) -> Primitive {
    Primitive { group, label, case, command, outstanding }
}

const fn xcopy(names: (&'static str, &'static str), bytes: u64, shift: u64) -> Primitive {
    primitive("EXTENDED COPY", names, RawCommand::Xcopy { bytes, shift }, XCOPIES)
}

const fn write_same(names: (&'static str, &'static str), bytes: u64, outstanding: Slots) -> Primitive {
    primitive("WRITE SAME", names, RawCommand::WriteSame(bytes), outstanding)
}

const fn transfer(names: (&'static str, &'static str), command: RawCommand, outstanding: Slots) -> Primitive {
    primitive("READ and WRITE", names, command, outstanding)
}

const ONE: Slots = Slots::Fixed(1);
const ATS: &str = "COMPARE AND WRITE";

/// All measured commands. The prediction refers to the cases by name.
const ALL: [Primitive; 20] = [
    primitive(ATS, ("ATS, one at a time", "one at a time"), RawCommand::Ats, ONE),
    primitive(ATS, ("ATS, 16 sectors", "16, a sector each"), RawCommand::Ats, Slots::Fixed(16)),
    primitive(ATS, ("ATS, 16 for one sector", "16 for one sector"), RawCommand::ContendedAts, Slots::Fixed(16)),
    xcopy(("XCOPY of 1 MiB", "1 MiB"), MIB, 0),
    xcopy(("XCOPY of 4 MiB", "4 MiB"), 4 * MIB, 0),
    xcopy(("XCOPY of 16 MiB", "16 MiB"), 16 * MIB, 0),
    xcopy(("XCOPY of 4 MiB, shifted by 4 KiB", "4 MiB + 4 KiB"), 4 * MIB, 4 * KIB),
    xcopy(("XCOPY of 4 MiB, shifted by 512 B", "4 MiB + 512 B"), 4 * MIB, 512),
    write_same(("WRITE SAME of 64 KiB", "64 KiB"), 64 * KIB, ZEROS),
    write_same(("WRITE SAME of 1 MiB", "1 MiB"), MIB, ZEROS),
    write_same(("WRITE SAME of 4 MiB", "4 MiB"), 4 * MIB, ZEROS),
    write_same(("WRITE SAME of 1 MiB, one at a time", "1 MiB, 1 at a time"), MIB, ONE),
    primitive("UNMAP", ("UNMAP of 1 descriptor", "1 range"), RawCommand::Unmap(1), UNMAPS),
    primitive("UNMAP", ("UNMAP of 8 descriptors", "8 ranges"), RawCommand::Unmap(8), UNMAPS),
    primitive("UNMAP", ("UNMAP of 32 descriptors", "32 ranges"), RawCommand::Unmap(32), UNMAPS),
    transfer(("READ of 1 MiB", "READ 1 MiB"), RawCommand::Read(MIB), TRANSFERS),
    transfer(("WRITE of 1 MiB", "WRITE 1 MiB"), RawCommand::Write(MIB), TRANSFERS),
    transfer(("READ of 4 KiB, one at a time", "READ 4 KiB, 1 at a time"), RawCommand::Read(4 * KIB), ONE),
    transfer(("WRITE of 4 KiB, one at a time", "WRITE 4 KiB, 1 at a time"), RawCommand::Write(4 * KIB), ONE),
    transfer(("WRITE of 1 MiB, one at a time", "WRITE 1 MiB, 1 at a time"), RawCommand::Write(MIB), ONE),
];

pub(super) async fn run(bench: &LabBench, findings: &mut ExperimentFindings) -> Result<(), LabError> {
    bench.plan(1 + ALL.len() * bench.repetitions as usize);
    bench.step("writing the source data");
    let disk = RawDisk::prepare(bench).await?;
    *findings = ExperimentFindings {
        setup: "raw commands to one disk for a second each; UNMAP of space that EXTENDED COPY filled, 1 MiB per descriptor".into(),
        expected: "Not published. Copies by reference cost the same for any size; a shift by less than the array’s block costs more."
            .into(),
        ..ExperimentFindings::default()
    };
    let mut refused: Vec<&str> = Vec::new();
    for repetition in 0..bench.repetitions {
        for at in trial::alternating(&(0..ALL.len()).collect::<Vec<_>>(), repetition) {
            let primitive = &ALL[at];
            if refused.contains(&primitive.case) {
                continue;
            }
            bench.step(format!("{}, run {}", primitive.case, repetition + 1));
            let slots = match primitive.outstanding {
                Slots::Fixed(slots) => slots,
                Slots::Of(count) => count(bench.outstanding),
            };
            match disk.measure(primitive.command, slots, trial::SAMPLE).await? {
                Some(result) => note(&mut findings.samples, primitive.case, slots, &result, repetition),
                None => refused.push(primitive.case),
            }
        }
    }
    if !refused.is_empty() {
        findings.notes.push(ReportNote::LeftOut(format!("the target refuses: {}.", refused.join("; "))));
    }
    judge(findings);
    disk.close().await
}

fn note(samples: &mut Samples, case: &str, slots: u16, result: &RawResult, repetition: u32) {
    let mut push = |measure, unit, value| samples.push(key(case, ALONE, measure), repetition, unit, value);
    push(RATE, MeasureUnit::PerSecond, result.rate());
    push(DESCRIBED, MeasureUnit::MibPerSecond, result.mib_s());
    push("outstanding", MeasureUnit::Count, slots.into());
    // Every slot always has one command open.
    push(LATENCY, MeasureUnit::Milliseconds, 1e3 * f64::from(slots) / result.rate().max(1e-9));
    push(trial::SAMPLED, MeasureUnit::Seconds, result.time.as_secs_f64());
    if result.miscompares > 0 {
        let all = result.commands + result.miscompares;
        push("miscompares", MeasureUnit::Percent, 100.0 * result.miscompares as f64 / all as f64);
    }
}

fn judge(findings: &mut ExperimentFindings) {
    let samples = &findings.samples;
    let raw = [Setting { name: ALONE, role: Role::Nth(2), on: true }];
    let mut groups: Vec<&str> = ALL.iter().map(|primitive| primitive.group).collect();
    groups.dedup();
    let plot = |group: &&str| -> Plot {
        let shown = || ALL.iter().filter(|primitive| primitive.group == *group);
        let cases: Vec<String> = shown().map(|primitive| primitive.case.to_owned()).collect();
        // The cases are too long for labels.
        let places = shown().map(|primitive| primitive.label.to_owned()).collect();
        let spec = PlotSpec { title: group, measure: RATE, label: "commands per second", unit: MeasureUnit::PerSecond };
        Plot { places, ..trial::bars(samples, spec, &cases, &raw) }
    };
    let rate = |s: &Samples, case: &str| s.median(key(case, ALONE, RATE));
    let over = |s: &Samples, measure, a: &str, b: &str| trial::ratio(s, key(a, ALONE, measure), key(b, ALONE, measure));
    let times = |name: &str, measure: &'static str, a: &'static str, b: &'static str| -> Figure {
        figure(name, MeasureUnit::Times, samples, |s| over(s, measure, a, b))
    };
    let figures = vec![
        figure("ATS, one at a time", MeasureUnit::PerSecond, samples, |s| rate(s, "ATS, one at a time")),
        times("swaps of one sector over sixteen", RATE, "ATS, 16 for one sector", "ATS, 16 sectors"),
        times("XCOPY of 16 MiB over 4 MiB, bytes", DESCRIBED, "XCOPY of 16 MiB", "XCOPY of 4 MiB"),
        times("XCOPY shifted by 4 KiB over aligned", RATE, "XCOPY of 4 MiB, shifted by 4 KiB", "XCOPY of 4 MiB"),
        figure("WRITE SAME of 1 MiB", MeasureUnit::MibPerSecond, samples, |s| {
            s.median(key("WRITE SAME of 1 MiB", ALONE, DESCRIBED))
        }),
        times("UNMAP of 32 descriptors over 1, bytes", DESCRIBED, "UNMAP of 32 descriptors", "UNMAP of 1 descriptor"),
    ];
    let seen = ALL.iter().filter_map(|primitive| {
        let median = |measure| samples.median(key(primitive.case, ALONE, measure));
        Some(format!(
            "{}: {}, {}.",
            primitive.case,
            display::with_unit(median(RATE)?, MeasureUnit::PerSecond),
            display::with_unit(median(DESCRIBED)?, MeasureUnit::MibPerSecond)
        ))
    });
    let seen = seen.collect();
    let plots = groups.iter().map(plot).collect();
    (findings.figures, findings.plots, findings.seen) = (figures, plots, seen);
}
