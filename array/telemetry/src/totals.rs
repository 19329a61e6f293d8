//! Values of counters: sums since the start, or differences between two readings.

use crate::class::CommandClass;
use crate::latency::LatencyCounts;

/// Values of one class of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassTotals {
    /// Commands answered, with any status.
    pub commands: u64,
    /// Commands answered with a status other than GOOD.
    pub errors: u64,
    /// Bytes of the volume covered by commands with status GOOD. A WRITE SAME of 1 MiB counts
    /// 1 MiB.
    pub bytes: u64,
    /// Sum of the times from dispatch to answer.
    pub nanoseconds: u64,
    /// The part of `nanoseconds` for which QoS limits held commands back.
    pub limited_nanoseconds: u64,
    /// Distribution of the times from dispatch to answer.
    pub latency: LatencyCounts,
}

impl ClassTotals {
    fn since(&self, earlier: &Self) -> Self {
        if self.commands == earlier.commands {
            return Self::default();
        }
        Self {
            commands: self.commands.saturating_sub(earlier.commands),
            errors: self.errors.saturating_sub(earlier.errors),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            nanoseconds: self.nanoseconds.saturating_sub(earlier.nanoseconds),
            limited_nanoseconds: self.limited_nanoseconds.saturating_sub(earlier.limited_nanoseconds),
            latency: self.latency.since(&earlier.latency),
        }
    }

    /// Adds other values.
    pub fn add(&mut self, other: &Self) {
        if other.commands == 0 {
            return;
        }
        self.commands += other.commands;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.nanoseconds += other.nanoseconds;
        self.limited_nanoseconds += other.limited_nanoseconds;
        self.latency.add(&other.latency);
    }
}

/// Values of all classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActivityTotals([ClassTotals; CommandClass::ALL.len()]);

impl ActivityTotals {
    /// Creates the values of all classes with a function.
    pub(crate) fn from_fn(class: impl FnMut(CommandClass) -> ClassTotals) -> Self {
        Self(CommandClass::ALL.map(class))
    }

    /// Returns the values of one class.
    pub fn get(&self, class: CommandClass) -> &ClassTotals {
        &self.0[class as usize]
    }

    /// Returns the values since `earlier`, a previous reading of the same counters.
    pub fn since(&self, earlier: &Self) -> Self {
        Self::from_fn(|class| self.get(class).since(earlier.get(class)))
    }

    /// Adds other values.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, more)| own.add(more));
    }

    /// Returns the number of commands of all classes.
    pub fn commands(&self) -> u64 {
        self.0.iter().map(|class| class.commands).sum()
    }
}
