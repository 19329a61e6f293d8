//! `ibid-host torture-verify`: checks every block against the journal after a restart.

use super::model::{Model, Verdict};
use super::resolve::{describe, resolve};
use super::stamp::{BLOCK, Stamp};
use super::{MAX_JOURNAL_BYTES, check_unit, file_error, journal, journal_error};
use crate::cli::{ConnectionArgs, Region};
use crate::failure::Failure;
use crate::out::outln;
use crate::progress::Progress;
use crate::pump::pump;
use crate::verbs::{Pieces, Sweep};
use clap::Args;
use initiator::{LogicalUnit, Session, Url};
use platform::AppendFile;
use serde::Serialize;
use std::path::PathBuf;

/// Options of the verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct VerifyArgs {
    /// iscsi://[user%password@]host[:port]/target-iqn/lun
    pub(crate) url: Url,
    /// Journal file that `torture` wrote
    #[arg(long)]
    pub(crate) journal: PathBuf,
    /// Queue depth
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) qd: u16,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// Result of the check.
#[derive(Debug, Default, Serialize)]
struct Report {
    verb: &'static str,
    /// Operations in the journal.
    operations: u64,
    /// Blocks compared with the result of acknowledged operations.
    blocks: u64,
    /// Operations without an acknowledgement. The next three fields count the states found.
    open: u64,
    applied: u64,
    not_applied: u64,
    in_pieces: u64,
    /// Blocks and operations with unexpected content.
    wrong: u64,
    first_wrong: Option<String>,
}

impl Report {
    fn wrong(&mut self, what: String) {
        self.wrong += 1;
        self.first_wrong.get_or_insert(what);
    }
}

/// Runs the verb.
pub(crate) async fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let file = AppendFile::read(&args.journal, MAX_JOURNAL_BYTES).map_err(file_error(&args.journal))?;
    let (header, records, _) = journal::decode(&file).map_err(journal_error(&args.journal))?;
    let model = Model::replay(header, &records).map_err(journal_error(&args.journal))?;
    let (mut session, unit) = args.connection.open(&args.url).await?;
    check_unit(&unit, &header)?;
    let mut report = Report { verb: "torture-verify", operations: model.last_sequence(), ..Report::default() };
    for resolved in resolve(&mut session, &unit, &model).await? {
        report.open += 1;
        match resolved.verdict {
            Verdict::Applied => report.applied += 1,
            Verdict::NotApplied => report.not_applied += 1,
            Verdict::Torn => report.in_pieces += 1,
            Verdict::Foreign { .. } => {}
        }
        if resolved.is_wrong() {
            report.wrong(resolved.to_string());
        }
    }
    sweep(args, session, &unit, &model, &mut report).await?;
    print(args, &report)
}

/// Reads the region and checks every block that no open operation changes.
async fn sweep(
    args: &VerifyArgs,
    session: Session,
    unit: &LogicalUnit,
    model: &Model,
    report: &mut Report,
) -> Result<(), Failure> {
    let header = model.header();
    let region = Region { lba: header.first, blocks: header.blocks };
    let mut undecided = vec![false; usize::try_from(header.blocks).unwrap_or(0)];
    for operation in model.open() {
        let from = (operation.lba - header.first) as usize;
        undecided[from..from + operation.blocks as usize].fill(true);
    }
    let pieces = Pieces::new(unit, region, 1 << 20, unit.limits.max_transfer)?;
    let progress = Progress::new("verify", header.blocks * BLOCK as u64, args.json);
    let make = |lba, blocks| unit.read(lba, blocks, false);
    let check = |first: u64, data: bytes::Bytes| {
        for (lba, block) in (first..).zip(data.chunks_exact(BLOCK)) {
            // Blocks where a command failed may hold anything, so they are not compared.
            let unknown = model.stamps(lba, 1).is_none_or(|stamps| stamps.contains(&Stamp::Unknown));
            if unknown || undecided[(lba - header.first) as usize] {
                continue;
            }
            report.blocks += 1;
            if model.first_difference(lba, block).is_some() {
                report.wrong(describe(model, lba, block));
            }
        }
        Ok(())
    };
    let mut work = Sweep::new("READ", (pieces, unit.block_bytes), args.qd, progress, make, check);
    pump(&mut [session], usize::from(args.qd), &mut work).await
}

fn print(args: &VerifyArgs, report: &Report) -> Result<(), Failure> {
    if args.json {
        outln!("{}", serde_json::to_string(report).map_err(|error| Failure::Wrong(error.to_string()))?);
    } else {
        let Report { operations, blocks, open, applied, not_applied, in_pieces, wrong, .. } = report;
        outln!("{operations} operations, {blocks} blocks compared, {wrong} errors");
        outln!("{open} open operations: {applied} applied, {not_applied} not applied, {in_pieces} torn");
    }
    match &report.first_wrong {
        None => Ok(()),
        Some(first) => Err(Failure::Wrong(format!("{} errors, the first: {first}", report.wrong))),
    }
}
