//! `ibid-host bench`: measures one kind of command in a closed loop.

mod args;
mod load;
mod report;

use crate::cli::Region;
use crate::failure::Failure;
use crate::pump::pump;
use crate::verbs::MAX_DATA_BYTES;
pub(crate) use args::{BenchArgs, Op};
use initiator::{LogicalUnit, Session};
use load::Load;

/// Largest region of a COMPARE AND WRITE load, because the region is zeroed first and its content
/// kept in memory.
const MAX_CAW_BYTES: u64 = 1 << 30;

/// Runs the verb.
pub(crate) async fn run(args: &BenchArgs) -> Result<(), Failure> {
    if !(args.secs > 0.0 && args.secs <= 86_400.0 && args.warm >= 0.0 && args.warm <= 86_400.0) {
        return Err(Failure::usage(
            "--secs and --warm are out of range",
            "use at most 86400 seconds, and more than 0 for --secs",
        ));
    }
    if args.op.carries_data() && args.size > MAX_DATA_BYTES {
        return Err(Failure::usage(
            format!("--size {} is too large", args.size),
            "use at most 16M for commands that carry data",
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

/// Ends the session. A failed logout does not invalidate the measurement, so its error is ignored.
async fn logout(session: Session) {
    let _ = session.logout().await;
}
