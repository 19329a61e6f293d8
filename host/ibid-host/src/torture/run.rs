//! The load of `torture`: plans an operation, records it, sends it, and records the result.

use super::journal::{self, Header, Kind, Operation, Outcome, Record};
use super::model::{MAX_BLOCKS, Model, Verdict};
use super::planner::{Abilities, Planner, Step};
use super::resolve::{describe, resolve};
use super::stamp::{BLOCK, Stamp};
use super::{MAX_JOURNAL_BYTES, check_unit, file_error, journal_error};
use crate::cli::{ConnectionArgs, Region, size};
use crate::failure::Failure;
use crate::out::outln;
use crate::pump::{Route, Work, pump};
use bytes::Bytes;
use clap::Args;
use initiator::{CommandRefusal, Completion, CopyRun, LogicalUnit, Request, Session, SessionError, Url};
use platform::{AppendFile, clock};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options of the verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct TortureArgs {
    /// Unit (iscsi://host[:port]/iqn/lun); the region is overwritten
    pub(crate) url: Url,
    /// Journal file; an existing one is continued
    #[arg(long)]
    pub(crate) journal: PathBuf,
    /// Duration in seconds
    #[arg(long, default_value_t = 10.0)]
    pub(crate) secs: f64,
    /// Run until the target is gone
    #[arg(long, conflicts_with = "secs")]
    pub(crate) until_killed: bool,
    /// Bytes of the region, up to 4G; ignored with an existing journal
    #[arg(long, default_value = "256M", value_parser = size)]
    pub(crate) span: u64,
    /// Start of the region, in bytes
    #[arg(long, default_value = "0", value_parser = size)]
    pub(crate) off: u64,
    /// Queue depth
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) qd: u16,
    /// Seed of the choices and, with a new journal, of the data
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// Result of a run.
#[derive(Clone, Debug, Default, Serialize)]
struct Counts {
    verb: &'static str,
    /// Operations acknowledged in this run.
    acknowledged: u64,
    /// Operations without an answer at the end.
    open: u64,
    /// Blocks that were read and had the expected content.
    blocks_read: u64,
    /// Commands that the target refused because it is full. These are not errors and must have no
    /// effect.
    full: u64,
    /// Commands that the target refused for another reason.
    errors: u64,
    first_error: Option<String>,
    /// True if the connection to the target was lost.
    target_gone: bool,
}

struct Torture {
    unit: LogicalUnit,
    model: Model,
    planner: Planner,
    journal: AppendFile,
    path: PathBuf,
    slots: Vec<Option<Step>>,
    end: Option<Instant>,
    /// Error of the journal. After it, no command is sent.
    journal_failure: Option<Failure>,
    counts: Counts,
}

/// The load stops after this many refused commands.
const MAX_ERRORS: u64 = 100;
/// Attempts to find an operation that overlaps no open read, before the slot waits.
const ATTEMPTS: u32 = 8;
/// Blocks per command when the region is zeroed at the start.
const ZERO_BLOCKS: u64 = 8192;

impl Torture {
    fn note(&mut self, record: Record) -> Result<(), Failure> {
        self.journal.append(&record.encode()).map_err(file_error(&self.path))
    }

    /// Records the operation and returns its command.
    fn start(&mut self, operation: Operation) -> Result<Request, Failure> {
        let impossible = || Failure::Wrong(format!("operation {} contradicts the journal", operation.sequence));
        let before = self.model.stamps(operation.lba, operation.blocks).ok_or_else(impossible)?.to_vec();
        let after = self.model.effect(&operation).ok_or_else(impossible)?;
        self.model.start(operation).ok_or_else(impossible)?;
        self.note(Record::Sent(operation))?;
        let Operation { sequence, kind, lba, blocks } = operation;
        let zeros = || Bytes::from_static(&[0; BLOCK]);
        Ok(match kind {
            Kind::Write => self.unit.write(lba, self.render(&after), false),
            Kind::WriteSame => self.unit.write_same(lba, blocks, self.render(&after[..1]), false),
            Kind::Zero => self.unit.write_same(lba, blocks, zeros(), false),
            Kind::ZeroUnmap => self.unit.write_same(lba, blocks, zeros(), true),
            Kind::Unmap => self.unit.unmap(&[(lba, blocks)]),
            Kind::Copy { source } => {
                let run = CopyRun { source, destination: lba, blocks: u64::from(blocks) };
                // Fewer than 256 operations are open and their sequences are consecutive, so the
                // identifier is unique.
                self.unit.extended_copy(sequence as u8, &self.unit, &[run])
            }
            Kind::CompareAndWrite => self.unit.compare_and_write(lba, self.render(&[before, after].concat()), false),
        })
    }

    fn render(&self, stamps: &[Stamp]) -> Bytes {
        let mut data = vec![0; stamps.len() * BLOCK];
        let seed = self.model.header().seed;
        stamps.iter().zip(data.chunks_exact_mut(BLOCK)).for_each(|(stamp, block)| stamp.render(seed, block));
        data.into()
    }

    /// Returns two stamps that no operation writes, for a COMPARE AND WRITE that must miscompare.
    fn foreign(&self, lba: u64) -> Bytes {
        self.render(&[Stamp::Written { sequence: u64::MAX, lba }, Stamp::Written { sequence: u64::MAX - 1, lba }])
    }

    /// Returns true if no open read or miscompare covers blocks of `operation`. Their expected
    /// content must not change before the response is checked.
    fn overlaps_no_open_read(&self, operation: &Operation) -> bool {
        self.slots.iter().flatten().all(|step| match *step {
            Step::Read { lba, blocks } => operation.end() <= lba || lba + u64::from(blocks) <= operation.lba,
            Step::Miscompare { lba } => operation.end() <= lba || lba < operation.lba,
            Step::Change(_) | Step::Flush => true,
        })
    }

    fn next_step(&mut self) -> Option<Step> {
        (0..ATTEMPTS).find_map(|_| match self.planner.next(&self.model)? {
            Step::Change(operation) if !self.overlaps_no_open_read(&operation) => None,
            step => Some(step),
        })
    }

    fn answered(&mut self, operation: Operation, result: Result<Bytes, CommandRefusal>) -> Result<(), Failure> {
        let outcome = match &result {
            Ok(_) => Outcome::Applied,
            Err(refusal) if refusal.is_unknown_command() => Outcome::NotApplied,
            // A copy may be partly done when space runs out. Other commands fail as a whole.
            Err(refusal) if refusal.is_full() && !matches!(operation.kind, Kind::Copy { .. }) => Outcome::NotApplied,
            Err(_) => Outcome::Unknown,
        };
        self.note(Record::Answered(operation.sequence, outcome))?;
        let known = self.model.finish(operation.sequence, outcome);
        known.ok_or_else(|| Failure::Wrong(format!("operation {} was answered twice", operation.sequence)))?;
        match result {
            Ok(_) => self.counts.acknowledged += 1,
            Err(refusal) if refusal.is_unknown_command() => self.planner.disable(operation.kind),
            Err(refusal) if refusal.is_full() => self.counts.full += 1,
            Err(refusal) => {
                let Operation { kind, lba, blocks, .. } = operation;
                self.refused(format!("{kind:?} of {blocks} blocks at LBA {lba}: {refusal}"));
            }
        }
        Ok(())
    }

    fn refused(&mut self, what: String) {
        self.counts.errors += 1;
        self.counts.first_error.get_or_insert(what);
    }

    fn check(&mut self, lba: u64, data: &Bytes) -> Result<(), Failure> {
        if let Some(wrong) = self.model.first_difference(lba, data) {
            let at = (wrong - lba) as usize * BLOCK;
            return Err(Failure::Wrong(describe(&self.model, wrong, &data[at..at + BLOCK])));
        }
        self.counts.blocks_read += (data.len() / BLOCK) as u64;
        Ok(())
    }

    /// Resolves the operations that an earlier run left open, and records their results.
    async fn resolve_open(&mut self, session: &mut Session) -> Result<(), Failure> {
        for resolved in resolve(session, &self.unit, &self.model).await? {
            if resolved.is_wrong() {
                return Err(Failure::Wrong(resolved.to_string()));
            }
            let outcome = match resolved.verdict {
                Verdict::Applied => Outcome::Applied,
                Verdict::NotApplied => Outcome::NotApplied,
                Verdict::Torn | Verdict::Foreign { .. } => Outcome::Unknown,
            };
            let sequence = resolved.operation.sequence;
            self.note(Record::Answered(sequence, outcome))?;
            self.model
                .finish(sequence, outcome)
                .ok_or_else(|| Failure::Wrong(format!("operation {sequence} is not open")))?;
        }
        Ok(())
    }

    /// Zeroes the blocks with unknown content, with recorded operations.
    async fn zero_unknown_blocks(&mut self, session: &mut Session) -> Result<(), Failure> {
        let Header { first, blocks: all, .. } = *self.model.header();
        let mut lba = first;
        while lba < first + all {
            let blocks = (first + all - lba).min(ZERO_BLOCKS) as u32;
            if self.model.stamps(lba, blocks).is_some_and(|stamps| stamps.contains(&Stamp::Unknown)) {
                let operation = Operation { sequence: self.model.last_sequence() + 1, kind: Kind::Zero, lba, blocks };
                let request = self.start(operation)?;
                let zeroed = session.run(request).await.map_err(Failure::command("WRITE SAME"))?;
                self.answered(operation, Ok(zeroed))?;
            }
            lba += u64::from(blocks);
        }
        Ok(())
    }
}

impl Work for Torture {
    fn next(&mut self, slot: usize) -> Option<(Route, Request)> {
        let late = self.end.is_some_and(|end| clock::now() >= end);
        if late || self.journal_failure.is_some() || self.counts.errors >= MAX_ERRORS {
            return None;
        }
        let step = self.next_step()?;
        let request = match step {
            Step::Change(operation) => match self.start(operation) {
                Ok(request) => request,
                Err(failure) => {
                    self.journal_failure = Some(failure);
                    return None;
                }
            },
            Step::Read { lba, blocks } => self.unit.read(lba, blocks, false),
            Step::Miscompare { lba } => self.unit.compare_and_write(lba, self.foreign(lba), false),
            Step::Flush => self.unit.synchronize_cache(),
        };
        self.slots[slot] = Some(step);
        Some((0, request))
    }

    fn done(&mut self, slot: usize, completion: Completion) -> Result<(), Failure> {
        let Some(step) = self.slots[slot].take() else { return Ok(()) };
        match (step, completion.into_result()) {
            (Step::Change(operation), result) => self.answered(operation, result)?,
            (Step::Read { lba, .. }, Ok(data)) => self.check(lba, &data)?,
            (Step::Miscompare { lba }, Ok(_)) => {
                return Err(Failure::Wrong(format!("COMPARE AND WRITE at LBA {lba} matched data that is not there")));
            }
            (Step::Miscompare { .. }, Err(refusal)) if refusal.is_miscompare() => {}
            (Step::Miscompare { .. }, Err(refusal)) if refusal.is_unknown_command() => {
                self.planner.disable(Kind::CompareAndWrite);
            }
            (Step::Flush, Ok(_)) => {}
            (step, Err(refusal)) => self.refused(format!("{step:?}: {refusal}")),
        }
        Ok(())
    }
}

fn abilities(unit: &LogicalUnit) -> Abilities {
    Abilities {
        copy: unit.limits.copy && unit.name.is_some(),
        unmap: unit.limits.unmap && unit.reads_zeros,
        write_same: true,
        write_same_unmap: unit.limits.write_same_unmap,
        compare_and_write: u32::from(unit.limits.compare_and_write),
    }
}

/// Runs the verb.
pub(crate) async fn run(args: &TortureArgs) -> Result<(), Failure> {
    if !(args.secs > 0.0 && args.secs <= 604_800.0) {
        return Err(Failure::usage("--secs is out of range", "use more than 0 and at most 604800 seconds"));
    }
    let (mut session, unit) = args.connection.open(&args.url).await?;
    let (journal, model) = open_journal(args, &unit)?;
    let planner = Planner::new(args.seed ^ model.last_sequence(), abilities(&unit));
    let counts = Counts { verb: "torture", ..Counts::default() };
    let slots = vec![None; usize::from(args.qd)];
    let (path, end, journal_failure) = (args.journal.clone(), None, None);
    let mut torture = Torture { unit, model, planner, journal, path, slots, end, journal_failure, counts };
    let mut result = torture.resolve_open(&mut session).await;
    if result.is_ok() {
        result = torture.zero_unknown_blocks(&mut session).await;
    }
    torture.end = (!args.until_killed).then(|| clock::now() + Duration::from_secs_f64(args.secs));
    if result.is_ok() {
        result = pump(&mut [session], usize::from(args.qd), &mut torture).await;
    }
    finish(args, torture, result)
}

/// Prints the result. A lost target is expected and is not a failure.
fn finish(args: &TortureArgs, torture: Torture, result: Result<(), Failure>) -> Result<(), Failure> {
    let Torture { mut counts, model, journal_failure, .. } = torture;
    counts.open = model.open().count() as u64;
    let result = match result {
        Err(Failure::Session(SessionError::Closed | SessionError::Io(_) | SessionError::EndedByTarget(_))) => {
            counts.target_gone = true;
            Ok(())
        }
        result => result,
    };
    if args.json {
        outln!("{}", serde_json::to_string(&counts).map_err(|error| Failure::Wrong(error.to_string()))?);
    } else {
        let Counts { acknowledged, open, blocks_read, full, errors, target_gone, .. } = &counts;
        let gone = if *target_gone { "; connection to the target lost" } else { "" };
        outln!(
            "{acknowledged} operations acknowledged, {open} open, {full} refused for lack of space, {blocks_read} blocks read, {errors} errors{gone}"
        );
    }
    result?;
    match (journal_failure, counts.first_error) {
        (Some(failure), _) => Err(failure),
        (None, Some(error)) => Err(Failure::Wrong(format!("{} commands failed: {error}", counts.errors))),
        (None, None) => Ok(()),
    }
}

/// Opens or creates the journal, and cuts off a torn record at its end.
fn open_journal(args: &TortureArgs, unit: &LogicalUnit) -> Result<(AppendFile, Model), Failure> {
    let on_file = file_error(&args.journal);
    let (mut file, content) = AppendFile::open(&args.journal, MAX_JOURNAL_BYTES).map_err(&on_file)?;
    if content.len() >= journal::RECORD {
        let (header, records, length) = journal::decode(&content).map_err(journal_error(&args.journal))?;
        check_unit(unit, &header)?;
        file.truncate(length as u64).map_err(&on_file)?;
        return Ok((file, Model::replay(header, &records).map_err(journal_error(&args.journal))?));
    }
    let region = Region::of(unit, args.off, Some(args.span.min(MAX_BLOCKS * BLOCK as u64)))?;
    let header = Header { seed: args.seed, first: region.lba, blocks: region.blocks };
    check_unit(unit, &header)?;
    // A file shorter than a header comes from a kill during the first write.
    file.truncate(0).map_err(&on_file)?;
    file.append(&header.encode()).map_err(&on_file)?;
    Ok((file, Model::new(header)))
}
