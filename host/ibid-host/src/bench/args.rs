//! The options of `ibid-host bench`.

use crate::cli::{ConnectionArgs, Pattern, size};
use clap::{Args, ValueEnum};
use initiator::Url;

/// What the load consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Op {
    /// READ(16)
    Read,
    /// WRITE(16)
    Write,
    /// WRITE SAME(16) of a block of the pattern
    WriteSame,
    /// WRITE SAME(16) of zeros
    Zero,
    /// WRITE SAME(16) of zeros with the UNMAP bit
    ZeroUnmap,
    /// UNMAP of one range
    Unmap,
    /// COMPARE AND WRITE that finds what it compares
    Caw,
    /// COMPARE AND WRITE that finds something else
    CawMiss,
    /// EXTENDED COPY from the first half of the span to the second
    Xcopy,
    /// TEST UNIT READY
    Tur,
    /// SYNCHRONIZE CACHE of everything
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
    /// The command
    #[arg(long, value_enum)]
    pub(crate) op: Op,
    /// Bytes a command
    #[arg(long, default_value = "4K", value_parser = size)]
    pub(crate) size: u64,
    /// Commands open at a time
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) qd: u16,
    /// Seconds measured
    #[arg(long, default_value_t = 5.0)]
    pub(crate) secs: f64,
    /// Seconds before the measurement begins
    #[arg(long, default_value_t = 0.5)]
    pub(crate) warm: f64,
    /// In order instead of at random
    #[arg(long)]
    pub(crate) seq: bool,
    /// Bytes of the unit to work on; all without
    #[arg(long, value_parser = size)]
    pub(crate) span: Option<u64>,
    /// Where they begin
    #[arg(long, default_value = "0", value_parser = size)]
    pub(crate) off: u64,
    /// With read: percent of commands that write
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) mix: u8,
    /// Writes go to stable storage before they are answered, whatever the cache
    #[arg(long)]
    pub(crate) fua: bool,
    /// What is written
    #[arg(long, value_enum, default_value_t = Pattern::Random)]
    pub(crate) pattern: Pattern,
    /// Seed of addresses and data
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// One JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}
