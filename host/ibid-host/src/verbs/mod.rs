//! What a host does with its disks, one verb a file: each both the offloaded way and the way without.

pub(crate) mod compare;
pub(crate) mod deploy;
pub(crate) mod fill;
pub(crate) mod lock;
mod outcome;
mod pieces;
pub(crate) mod reclaim;
mod sweep;
pub(crate) mod targets;
pub(crate) mod zero;

pub(crate) use pieces::Pieces;
pub(crate) use sweep::Sweep;

use crate::cli::{ConnectionArgs, size};
use crate::failure::Failure;
use clap::Args;
use initiator::Url;

/// The most data of one command: each command open at a time holds as much memory.
pub(crate) const MAX_DATA_BYTES: u64 = 16 << 20;
/// Bytes of a READ or WRITE, when not told.
const DATA_BYTES: u64 = 1 << 20;

/// The bytes of a command that carries data: those asked for, within reason.
fn data_chunk(asked: Option<u64>) -> Result<u64, Failure> {
    let chunk = asked.unwrap_or(DATA_BYTES);
    if chunk > MAX_DATA_BYTES {
        return Err(Failure::usage(
            format!("--chunk {chunk} is too large"),
            "use at most 16M for commands that carry data",
        ));
    }
    Ok(chunk)
}

/// Options of the verbs that go over a run of bytes of one logical unit.
#[derive(Args, Clone, Debug)]
pub(crate) struct RangeArgs {
    /// iscsi://[user%password@]host[:port]/target-iqn/lun
    pub(crate) url: Url,
    /// Bytes to go over; all that is left of the unit without
    #[arg(long, value_parser = size)]
    pub(crate) size: Option<u64>,
    /// Where they begin
    #[arg(long, default_value = "0", value_parser = size)]
    pub(crate) off: u64,
    /// Bytes a command; without, what suits the method
    #[arg(long, value_parser = size)]
    pub(crate) chunk: Option<u64>,
    /// Commands open at a time
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) qd: u16,
    /// One JSON object on stdout, no bar on stderr
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}
