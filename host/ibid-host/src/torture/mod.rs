//! `ibid-host torture` and `ibid-host torture-verify`: a load that can be killed at any time, and
//! the check that follows.
//! The load records every operation in a journal. The check verifies that no acknowledged operation
//! is lost and that every open one was applied as a whole or not at all.

mod journal;
mod model;
mod planner;
mod resolve;
mod run;
mod stamp;
mod verify;

pub(crate) use run::{TortureArgs, run};
pub(crate) use verify::{VerifyArgs, verify};

use crate::failure::Failure;
use initiator::LogicalUnit;
use journal::{Header, JournalError};
use std::path::Path;

/// Maximum journal size: 16 million records.
const MAX_JOURNAL_BYTES: u64 = 1 << 30;

fn file_error(path: &Path) -> impl Fn(std::io::Error) -> Failure {
    let path = path.display().to_string();
    move |error| Failure::File { path: path.clone(), error }
}

fn journal_error(path: &Path) -> impl Fn(JournalError) -> Failure {
    let path = path.display().to_string();
    move |error| {
        Failure::usage(format!("{path}: {error}"), "use the journal of an earlier run on this unit, or a new file name")
    }
}

/// Checks that the unit fits the journal's region and block size.
fn check_unit(unit: &LogicalUnit, header: &Header) -> Result<(), Failure> {
    if unit.block_bytes as usize != stamp::BLOCK {
        let message = format!("unit has blocks of {} bytes", unit.block_bytes);
        return Err(Failure::usage(message, "use a unit with blocks of 512 bytes"));
    }
    if header.blocks == 0 || header.blocks > model::MAX_BLOCKS {
        return Err(Failure::usage("region is empty or larger than 4 GiB", "use a --span of up to 4G"));
    }
    if header.first.checked_add(header.blocks).is_none_or(|end| end > unit.blocks) {
        return Err(Failure::usage("region exceeds the unit", "use a smaller --span or --off"));
    }
    Ok(())
}
