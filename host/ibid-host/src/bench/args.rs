//! Options of `ibid-host bench`.

use crate::cli::{ConnectionArgs, Pattern, size};
use clap::{Args, ValueEnum};
use initiator::Url;

/// The command that the load sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Op {
    /// READ(16)
    Read,
    /// WRITE(16)
    Write,
    /// WRITE SAME(16) of one block of the pattern
    WriteSame,
    /// WRITE SAME(16) of zeros
    Zero,
    /// WRITE SAME(16) of zeros with the UNMAP bit
    ZeroUnmap,
    /// UNMAP with one range
    Unmap,
    /// COMPARE AND WRITE that matches
    Caw,
    /// COMPARE AND WRITE that miscompares
    CawMiss,
    /// EXTENDED COPY from the first half of the span to the second
    Xcopy,
    /// TEST UNIT READY
    Tur,
    /// SYNCHRONIZE CACHE of the whole unit
    Flush,
    /// GET LBA STATUS
    GetLba,
}

impl Op {
    pub(super) fn carries_data(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Caw | Self::CawMiss)
    }
}

/// Options of the verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct BenchArgs {
    /// iscsi://[user%password@]host[:port]/target-iqn/lun
    pub(crate) url: Url,
    /// Command to send
    #[arg(long, value_enum)]
    pub(crate) op: Op,
    /// Bytes per command
    #[arg(long, default_value = "4K", value_parser = size)]
    pub(crate) size: u64,
    /// Queue depth
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) qd: u16,
    /// Seconds to measure
    #[arg(long, default_value_t = 5.0)]
    pub(crate) secs: f64,
    /// Warm-up time in seconds, not measured
    #[arg(long, default_value_t = 0.5)]
    pub(crate) warm: f64,
    /// Use sequential addresses instead of random ones
    #[arg(long)]
    pub(crate) seq: bool,
    /// Bytes of the unit to use [default: all]
    #[arg(long, value_parser = size)]
    pub(crate) span: Option<u64>,
    /// Start of that range, in bytes
    #[arg(long, default_value = "0", value_parser = size)]
    pub(crate) off: u64,
    /// Percentage of writes (with --op read)
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) mix: u8,
    /// Set FUA on every read and write
    #[arg(long)]
    pub(crate) fua: bool,
    /// Data to write
    #[arg(long, value_enum, default_value_t = Pattern::Random)]
    pub(crate) pattern: Pattern,
    /// Seed of addresses and data
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}
