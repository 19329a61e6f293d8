//! The result of a benchmark load, printed as a table or as one JSON object.

use super::args::{BenchArgs, Op};
use super::load::Load;
use crate::failure::Failure;
use crate::meter::{Latency, round};
use crate::out::outln;
use clap::ValueEnum;
use serde::Serialize;
use types::format_capacity;

/// The result of a load.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    op: String,
    size: u64,
    qd: u16,
    seq: bool,
    mix: u8,
    fua: bool,
    secs: f64,
    ops: u64,
    ops_s: f64,
    mib_s: f64,
    lat_us: Latency,
    pub(super) errors: u64,
    pub(super) first_error: String,
}

impl Report {
    pub(super) fn new(args: &BenchArgs, load: &Load, ended: Option<&Failure>) -> Self {
        let ops = load.meter.count();
        let ops_s = ops as f64 / args.secs;
        let moves_bytes = !matches!(args.op, Op::Tur | Op::Flush | Op::GetLba);
        let mib_s = if moves_bytes { ops_s * args.size as f64 / f64::from(1 << 20) } else { 0.0 };
        let op = args.op.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let first_error = load.first_error.clone().or_else(|| ended.map(ToString::to_string)).unwrap_or_default();
        Self {
            op,
            size: args.size,
            qd: args.qd,
            seq: args.seq,
            mix: args.mix,
            fua: args.fua,
            secs: args.secs,
            ops,
            ops_s: round(ops_s),
            mib_s: round(mib_s),
            lat_us: load.meter.latency(),
            errors: load.errors + u64::from(ended.is_some()),
            first_error,
        }
    }

    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            let text = serde_json::to_string(self).map_err(|error| Failure::Wrong(error.to_string()))?;
            outln!("{text}");
            return Ok(());
        }
        let order = if self.seq { "sequential" } else { "random" };
        outln!("{} {}, {order}, queue depth {}, {} s", self.op, format_capacity(self.size), self.qd, self.secs);
        outln!("  commands  {:>12}   {:>12.1} /s   {:>10.1} MiB/s", self.ops, self.ops_s, self.mib_s);
        let Latency { mean, p50, p99, p999, max } = self.lat_us;
        outln!("  latency   mean {mean} us   p50 {p50}   p99 {p99}   p99.9 {p999}   max {max}");
        if self.errors > 0 {
            outln!("  errors    {:>12}   first: {}", self.errors, self.first_error);
        }
        Ok(())
    }
}
