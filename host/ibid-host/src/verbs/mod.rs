//! Disk operations of a host, one verb per file, each with an offloaded and a plain method.

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

/// Maximum data of one command, because each open command keeps this much memory.
pub(crate) const MAX_DATA_BYTES: u64 = 16 << 20;
/// Default bytes of a READ or WRITE.
const DATA_BYTES: u64 = 1 << 20;

/// Returns the bytes of a command that carries data: `asked` or the default.
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

/// Options of verbs that work on a range of one logical unit.
#[derive(Args, Clone, Debug)]
pub(crate) struct RangeArgs {
    /// iscsi://[user%password@]host[:port]/target-iqn/lun
    pub(crate) url: Url,
    /// Bytes to process [default: the rest of the unit]
    #[arg(long, value_parser = size)]
    pub(crate) size: Option<u64>,
    /// Start of the range, in bytes
    #[arg(long, default_value = "0", value_parser = size)]
    pub(crate) off: u64,
    /// Bytes per command [default: depends on the method]
    #[arg(long, value_parser = size)]
    pub(crate) chunk: Option<u64>,
    /// Queue depth
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) qd: u16,
    /// Print one JSON object and no progress bar
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}
