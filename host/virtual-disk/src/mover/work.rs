//! The cost of an operation in commands and bytes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Total of commands of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandTotal {
    /// Number of commands.
    pub commands: u64,
    /// Bytes described or transferred.
    pub bytes: u64,
}

/// The commands of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoverWork {
    /// EXTENDED COPY.
    pub xcopy: CommandTotal,
    /// WRITE SAME.
    pub write_same: CommandTotal,
    /// UNMAP.
    pub unmap: CommandTotal,
    /// READ.
    pub read: CommandTotal,
    /// WRITE, of data or zeros.
    pub write: CommandTotal,
}

impl MoverWork {
    /// Adds the commands of another operation.
    pub fn add(&mut self, other: Self) {
        let sum = |to: &mut CommandTotal, from: CommandTotal| {
            to.commands += from.commands;
            to.bytes += from.bytes;
        };
        sum(&mut self.xcopy, other.xcopy);
        sum(&mut self.write_same, other.write_same);
        sum(&mut self.unmap, other.unmap);
        sum(&mut self.read, other.read);
        sum(&mut self.write, other.write);
    }
}

#[derive(Debug, Default)]
struct Counter {
    commands: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    fn add(&self, bytes: u64) {
        self.commands.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn sent(&self) -> CommandTotal {
        CommandTotal { commands: self.commands.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

/// Counts completed commands; failed ones are not counted.
#[derive(Debug, Default)]
pub(crate) struct WorkMeter {
    xcopy: Counter,
    write_same: Counter,
    unmap: Counter,
    read: Counter,
    write: Counter,
}

impl WorkMeter {
    /// Counts an EXTENDED COPY.
    pub(crate) fn xcopy(&self, bytes: u64) {
        self.xcopy.add(bytes);
    }

    /// Counts a WRITE SAME.
    pub(crate) fn write_same(&self, bytes: u64) {
        self.write_same.add(bytes);
    }

    /// Counts an UNMAP.
    pub(crate) fn unmap(&self, bytes: u64) {
        self.unmap.add(bytes);
    }

    /// Counts a READ.
    pub(crate) fn read(&self, bytes: u64) {
        self.read.add(bytes);
    }

    /// Counts a WRITE.
    pub(crate) fn write(&self, bytes: u64) {
        self.write.add(bytes);
    }

    /// Returns the totals so far.
    pub(crate) fn work(&self) -> MoverWork {
        MoverWork {
            xcopy: self.xcopy.sent(),
            write_same: self.write_same.sent(),
            unmap: self.unmap.sent(),
            read: self.read.sent(),
            write: self.write.sent(),
        }
    }
}
