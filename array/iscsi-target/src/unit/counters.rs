//! Per-volume command counters. They show, among other things, whether a host uses the offloads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Kinds of commands that are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CommandClass {
    /// READ and VERIFY.
    Read,
    /// WRITE, WRITE AND VERIFY, ORWRITE and WRITE ATOMIC.
    Write,
    /// COMPARE AND WRITE: VAAI's ATS.
    CompareAndWrite,
    /// EXTENDED COPY: VAAI's Clone.
    Copy,
    /// WRITE SAME without deallocation: VAAI's Zero.
    WriteSame,
    /// UNMAP, and WRITE SAME with the UNMAP bit: VAAI's Delete.
    Unmap,
    /// SYNCHRONIZE CACHE.
    Flush,
    /// All other commands.
    Other,
}

impl CommandClass {
    /// All classes, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::CompareAndWrite,
        Self::Copy,
        Self::WriteSame,
        Self::Unmap,
        Self::Flush,
        Self::Other,
    ];
}

impl CommandClass {
    /// Returns true if commands of this class allocate or free space.
    pub(crate) fn changes_space(self) -> bool {
        matches!(self, Self::Write | Self::CompareAndWrite | Self::Copy | Self::WriteSame | Self::Unmap)
    }
}

#[derive(Debug, Default)]
struct Counter {
    commands: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
}

/// Command counters of one logical unit. They start at zero with the process and only increase.
#[derive(Debug, Default)]
pub struct UnitCounters([Counter; CommandClass::ALL.len()]);

/// Counter values of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCount {
    /// Commands answered, with any status.
    pub commands: u64,
    /// Commands answered with a status other than GOOD.
    pub errors: u64,
    /// Bytes of the volume covered by commands with status GOOD. A WRITE SAME of 1 MiB counts
    /// 1 MiB.
    pub bytes: u64,
    /// Sum of the times from dispatch to answer.
    pub nanoseconds: u64,
}

impl UnitCounters {
    /// Counts one answered command. `good` is true for status GOOD; only then `bytes` are counted.
    pub fn record(&self, class: CommandClass, good: bool, bytes: u64, took: Duration) {
        let counter = &self.0[class as usize];
        counter.commands.fetch_add(1, Ordering::Relaxed);
        if good {
            counter.bytes.fetch_add(bytes, Ordering::Relaxed);
        } else {
            counter.errors.fetch_add(1, Ordering::Relaxed);
        }
        counter.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the current values of `class`.
    pub fn get(&self, class: CommandClass) -> ClassCount {
        let counter = &self.0[class as usize];
        ClassCount {
            commands: counter.commands.load(Ordering::Relaxed),
            errors: counter.errors.load(Ordering::Relaxed),
            bytes: counter.bytes.load(Ordering::Relaxed),
            nanoseconds: counter.nanoseconds.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_separate_classes_and_skip_failed_bytes() {
        let counters = UnitCounters::default();
        counters.record(CommandClass::Copy, true, 1 << 20, Duration::from_nanos(10));
        counters.record(CommandClass::Copy, false, 1 << 20, Duration::from_nanos(5));
        let expected = ClassCount { commands: 2, errors: 1, bytes: 1 << 20, nanoseconds: 15 };
        assert_eq!(counters.get(CommandClass::Copy), expected);
        for class in CommandClass::ALL.into_iter().filter(|class| *class != CommandClass::Copy) {
            assert_eq!(counters.get(class), ClassCount::default(), "{class:?}");
        }
    }
}
