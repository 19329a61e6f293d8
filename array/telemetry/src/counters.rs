//! Counters that the data path updates.

use crate::class::CommandClass;
use crate::latency::LatencyHistogram;
use crate::totals::{ActivityTotals, ClassTotals};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One answered command.
#[derive(Clone, Copy, Debug)]
pub struct CommandEvent {
    /// Class of the command.
    pub class: CommandClass,
    /// True for status GOOD.
    pub is_good: bool,
    /// Bytes of the volume that the command covers; counted only with status GOOD.
    pub bytes: u64,
    /// Time from dispatch to answer.
    pub took: Duration,
    /// The part of `took` for which a QoS limit held the command back.
    pub limited: Duration,
}

#[derive(Debug, Default)]
struct ClassCounter {
    commands: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
    limited_nanoseconds: AtomicU64,
    /// Created by the first command of the class.
    latency: OnceLock<Box<LatencyHistogram>>,
}

/// Command counters of one initiator, volume and portal. They start at zero with the process and
/// only increase.
#[derive(Debug, Default)]
pub struct ActivityCounters([ClassCounter; CommandClass::ALL.len()]);

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl ActivityCounters {
    /// Counts one answered command.
    pub fn record(&self, event: CommandEvent) {
        let counter = &self.0[event.class as usize];
        if event.is_good {
            counter.bytes.fetch_add(event.bytes, Ordering::Relaxed);
        } else {
            counter.errors.fetch_add(1, Ordering::Relaxed);
        }
        counter.nanoseconds.fetch_add(nanoseconds(event.took), Ordering::Relaxed);
        if !event.limited.is_zero() {
            counter.limited_nanoseconds.fetch_add(nanoseconds(event.limited), Ordering::Relaxed);
        }
        counter.latency.get_or_init(Box::default).record(event.took);
        counter.commands.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the current values.
    pub fn totals(&self) -> ActivityTotals {
        ActivityTotals::from_fn(|class| {
            let counter = &self.0[class as usize];
            let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
            ClassTotals {
                commands: read(&counter.commands),
                errors: read(&counter.errors),
                bytes: read(&counter.bytes),
                nanoseconds: read(&counter.nanoseconds),
                limited_nanoseconds: read(&counter.limited_nanoseconds),
                latency: counter.latency.get().map(|latency| latency.counts()).unwrap_or_default(),
            }
        })
    }

    /// Returns the number of commands of all classes.
    pub fn commands(&self) -> u64 {
        self.0.iter().map(|counter| counter.commands.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_separate_classes_and_skip_failed_bytes() {
        let counters = ActivityCounters::default();
        let copy = CommandEvent {
            class: CommandClass::Copy,
            is_good: true,
            bytes: 1 << 20,
            took: Duration::from_micros(10),
            limited: Duration::from_micros(4),
        };
        counters.record(copy);
        counters.record(CommandEvent { is_good: false, took: Duration::from_micros(5), ..copy });
        let totals = counters.totals();
        let copies = totals.get(CommandClass::Copy);
        assert_eq!((copies.commands, copies.errors, copies.bytes), (2, 1, 1 << 20));
        assert_eq!((copies.nanoseconds, copies.limited_nanoseconds, copies.latency.count()), (15_000, 8_000, 2));
        for class in CommandClass::ALL.into_iter().filter(|class| *class != CommandClass::Copy) {
            assert_eq!(*totals.get(class), ClassTotals::default(), "{class:?}");
        }
    }
}
