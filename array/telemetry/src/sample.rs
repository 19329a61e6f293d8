//! Rates and latencies of one interval.

use crate::class::CommandClass;
use crate::totals::{ActivityTotals, ClassTotals};

/// Rates and latencies of reads or of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Direction {
    /// Commands per second.
    pub ops: f32,
    /// Bytes per second.
    pub bytes: f32,
    /// Mean time from dispatch to answer (µs), with the time of QoS limits.
    pub usec: f32,
    /// Mean time for which QoS limits held commands back (µs).
    pub limited_usec: f32,
    /// Median of the time from dispatch to answer (µs).
    pub p50_usec: f32,
    /// 99th percentile of the time from dispatch to answer (µs).
    pub p99_usec: f32,
}

/// Rate and latency of one offload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OffloadRate {
    /// Commands per second.
    pub ops: f32,
    /// Failed commands per second: a status other than GOOD.
    pub errors: f32,
    /// Bytes of volumes covered per second.
    pub bytes: f32,
    /// Mean time from dispatch to answer (µs).
    pub usec: f32,
}

/// Rates and latencies of one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Reads.
    pub read: Direction,
    /// Writes, with COMPARE AND WRITE.
    pub write: Direction,
    /// Other commands per second, with the offloads but COMPARE AND WRITE.
    pub other_ops: f32,
    /// Mean time of other commands (µs).
    pub other_usec: f32,
    /// Mean number of commands in progress (Little's law).
    pub queue_depth: f32,
    /// The offloads, in the order of [`CommandClass::OFFLOADS`].
    pub offloads: [OffloadRate; CommandClass::OFFLOADS.len()],
}

fn mean_usec(nanoseconds: u64, commands: u64) -> f32 {
    if commands == 0 { 0.0 } else { (nanoseconds as f64 / commands as f64 / 1000.0) as f32 }
}

impl Direction {
    fn of(totals: &ClassTotals, seconds: f64) -> Self {
        let quantile = |part| totals.latency.quantile(part).unwrap_or_default() as f32;
        Self {
            ops: (totals.commands as f64 / seconds) as f32,
            bytes: (totals.bytes as f64 / seconds) as f32,
            usec: mean_usec(totals.nanoseconds, totals.commands),
            limited_usec: mean_usec(totals.limited_nanoseconds, totals.commands),
            p50_usec: quantile(0.5),
            p99_usec: quantile(0.99),
        }
    }
}

impl Sample {
    /// Returns the rates of `totals`, the activity of an interval of `millis` milliseconds.
    pub fn of(totals: &ActivityTotals, millis: u64) -> Self {
        let seconds = millis.max(1) as f64 / 1000.0;
        let sum = |classes: &[CommandClass]| {
            let mut sum = ClassTotals::default();
            classes.iter().for_each(|class| sum.add(totals.get(*class)));
            sum
        };
        let other = sum(&[
            CommandClass::Copy,
            CommandClass::WriteSame,
            CommandClass::Unmap,
            CommandClass::Flush,
            CommandClass::Other,
        ]);
        let busy: u64 = CommandClass::ALL.iter().map(|class| totals.get(*class).nanoseconds).sum();
        Self {
            read: Direction::of(totals.get(CommandClass::Read), seconds),
            write: Direction::of(&sum(&[CommandClass::Write, CommandClass::CompareAndWrite]), seconds),
            other_ops: (other.commands as f64 / seconds) as f32,
            other_usec: mean_usec(other.nanoseconds, other.commands),
            queue_depth: (busy as f64 / 1e9 / seconds) as f32,
            offloads: CommandClass::OFFLOADS.map(|class| {
                let totals = totals.get(class);
                OffloadRate {
                    ops: (totals.commands as f64 / seconds) as f32,
                    errors: (totals.errors as f64 / seconds) as f32,
                    bytes: (totals.bytes as f64 / seconds) as f32,
                    usec: mean_usec(totals.nanoseconds, totals.commands),
                }
            }),
        }
    }
}
