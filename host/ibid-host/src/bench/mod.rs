//! `ibid-host bench`: one kind of command in a closed loop, and how fast it was answered.

mod load;
mod report;

use crate::cli::{ConnectionArgs, Pattern, Region, size};
use crate::failure::Failure;
use crate::pump::pump;
use crate::verbs::MAX_DATA_BYTES;
use clap::{Args, ValueEnum};
use initiator::{LogicalUnit, Session, Url};
use load::Load;

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
    fn carries_data(self) -> bool {
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

/// Largest region of a COMPARE AND WRITE load: it must be zeroed before, and its content is remembered.
const MAX_CAW_BYTES: u64 = 1 << 30;

/// Runs the verb.
pub(crate) async fn run(args: &BenchArgs) -> Result<(), Failure> {
    if !(args.secs > 0.0 && args.secs <= 86_400.0 && args.warm >= 0.0 && args.warm <= 86_400.0) {
        return Err(Failure::usage("--secs and --warm are out of range", "seconds up to a day are possible"));
    }
    if args.op.carries_data() && args.size > MAX_DATA_BYTES {
        return Err(Failure::usage(
            format!("--size {} is too large", args.size),
            "commands that carry data take up to 16M",
        ));
    }
    let (session, unit) = args.connection.open(&args.url).await?;
    let region = region(args, &unit)?;
    let mut sessions = [session];
    if matches!(args.op, Op::Caw | Op::CawMiss) {
        crate::verbs::zero::clear(&mut sessions[0], &unit, region).await?;
    }
    let mut load = Load::new(args, unit, region)?;
    let ended = pump(&mut sessions, usize::from(args.qd), &mut load).await;
    let report = report::Report::new(args, &load, ended.as_ref().err());
    report.print(args.json)?;
    ended?;
    let [session] = sessions;
    logout(session).await;
    match report.errors {
        0 => Ok(()),
        errors => Err(Failure::Wrong(format!("{errors} commands failed: {}", report.first_error))),
    }
}

fn region(args: &BenchArgs, unit: &LogicalUnit) -> Result<Region, Failure> {
    let whole = unit.blocks.saturating_mul(u64::from(unit.block_bytes)).saturating_sub(args.off);
    let mut span = args.span.unwrap_or(whole).min(whole);
    if matches!(args.op, Op::Caw | Op::CawMiss) {
        span = span.min(MAX_CAW_BYTES);
    }
    let block = u64::from(unit.block_bytes);
    Region::of(unit, args.off, Some(span / block * block))
}

/// A logout that fails changes nothing of what was measured.
async fn logout(session: Session) {
    let _ = session.logout().await;
}
