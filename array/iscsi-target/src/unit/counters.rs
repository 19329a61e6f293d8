//! What each logical unit has been asked and how long it took, so that nobody must guess whether an offload was used.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Kinds of commands that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// READ and VERIFY.
    Read,
    /// WRITE, WRITE AND VERIFY, ORWRITE.
    Write,
    /// COMPARE AND WRITE: VAAI's ATS.
    CompareAndWrite,
    /// EXTENDED COPY: VAAI's Clone.
    Copy,
    /// WRITE SAME without deallocation: VAAI's Zero.
    WriteSame,
    /// UNMAP, and WRITE SAME with UNMAP: VAAI's Delete.
    Unmap,
    /// SYNCHRONIZE CACHE.
    Flush,
    /// Everything else.
    Other,
}

impl Class {
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

impl Class {
    /// Commands of this class take space, or give it back.
    pub(crate) fn uses_space(self) -> bool {
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

/// The counters of one logical unit. They only grow, from zero at the start of the program.
#[derive(Debug, Default)]
pub struct Counters([Counter; Class::ALL.len()]);

/// What the counters of one class say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCount {
    /// Commands answered, whatever the status.
    pub commands: u64,
    /// Those of them that were not answered GOOD.
    pub errors: u64,
    /// Bytes of the volume that the GOOD ones covered: a WRITE SAME of 1 MiB counts 1 MiB.
    pub bytes: u64,
    /// Sum of the times from the command's dispatch to its answer.
    pub nanoseconds: u64,
}

impl Counters {
    /// Counts one answered command.
    pub fn record(&self, class: Class, good: bool, bytes: u64, took: Duration) {
        let counter = &self.0[class as usize];
        counter.commands.fetch_add(1, Ordering::Relaxed);
        if good {
            counter.bytes.fetch_add(bytes, Ordering::Relaxed);
        } else {
            counter.errors.fetch_add(1, Ordering::Relaxed);
        }
        counter.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The present values of `class`.
    pub fn get(&self, class: Class) -> ClassCount {
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
    fn classes_are_counted_apart_and_failures_move_no_bytes() {
        let counters = Counters::default();
        counters.record(Class::Copy, true, 1 << 20, Duration::from_nanos(10));
        counters.record(Class::Copy, false, 1 << 20, Duration::from_nanos(5));
        assert_eq!(counters.get(Class::Copy), ClassCount { commands: 2, errors: 1, bytes: 1 << 20, nanoseconds: 15 });
        for class in Class::ALL.into_iter().filter(|class| *class != Class::Copy) {
            assert_eq!(counters.get(class), ClassCount::default(), "{class:?}");
        }
    }
}
