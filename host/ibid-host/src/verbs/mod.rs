//! What a host does with its disks, one verb a file: each both the offloaded way and the way without.

pub mod compare;
pub mod deploy;
pub mod fill;
pub mod lock;
mod outcome;
mod pieces;
pub mod reclaim;
mod sweep;
pub mod targets;
pub mod zero;

use crate::cli::{ConnectionArgs, size};
use clap::Args;
use initiator::Url;

/// Options of the verbs that go over a run of bytes of one logical unit.
#[derive(Args, Clone, Debug)]
pub struct RangeArgs {
    /// iscsi://[user%password@]host[:port]/target-iqn/lun
    pub url: Url,
    /// Bytes to go over; all that is left of the unit without
    #[arg(long, value_parser = size)]
    pub size: Option<u64>,
    /// Where they begin
    #[arg(long, default_value = "0", value_parser = size)]
    pub off: u64,
    /// Bytes a command; without, what suits the method
    #[arg(long, value_parser = size)]
    pub chunk: Option<u64>,
    /// Commands open at a time
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub qd: u16,
    /// One JSON object on stdout, no bar on stderr
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}
