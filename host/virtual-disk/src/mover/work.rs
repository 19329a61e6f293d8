//! What a piece of work took, in commands and bytes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Commands of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// How many.
    pub commands: u64,
    /// The bytes that they described or carried.
    pub bytes: u64,
}

/// The commands that a piece of work took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// EXTENDED COPY.
    pub xcopy: Sent,
    /// WRITE SAME.
    pub write_same: Sent,
    /// UNMAP.
    pub unmap: Sent,
    /// READ.
    pub read: Sent,
    /// WRITE, of data and of zeros.
    pub write: Sent,
}

impl Work {
    /// Adds what another piece of work took.
    pub fn add(&mut self, other: Self) {
        let sum = |to: &mut Sent, from: Sent| {
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

    fn sent(&self) -> Sent {
        Sent { commands: self.commands.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

/// Counts what is done; commands that fail are not counted.
#[derive(Debug, Default)]
pub(crate) struct WorkMeter {
    xcopy: Counter,
    write_same: Counter,
    unmap: Counter,
    read: Counter,
    write: Counter,
}

impl WorkMeter {
    /// One EXTENDED COPY.
    pub(crate) fn xcopy(&self, bytes: u64) {
        self.xcopy.add(bytes);
    }

    /// One WRITE SAME.
    pub(crate) fn write_same(&self, bytes: u64) {
        self.write_same.add(bytes);
    }

    /// One UNMAP.
    pub(crate) fn unmap(&self, bytes: u64) {
        self.unmap.add(bytes);
    }

    /// One READ.
    pub(crate) fn read(&self, bytes: u64) {
        self.read.add(bytes);
    }

    /// One WRITE.
    pub(crate) fn write(&self, bytes: u64) {
        self.write.add(bytes);
    }

    /// All so far.
    pub(crate) fn work(&self) -> Work {
        Work {
            xcopy: self.xcopy.sent(),
            write_same: self.write_same.sent(),
            unmap: self.unmap.sent(),
            read: self.read.sent(),
            write: self.write.sent(),
        }
    }
}
