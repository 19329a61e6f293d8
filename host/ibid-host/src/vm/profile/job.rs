//! The jobs of a load.

use std::time::Duration;

/// A load: phases that run one after another.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::vm) struct Profile {
    pub(in crate::vm) phases: Vec<Phase>,
    /// Parameters of the file that concern the program, not the load.
    pub(in crate::vm) ignored: Vec<String>,
}

/// Jobs that run at the same time.
pub(in crate::vm) type Phase = Vec<Job>;

/// The order of the requests of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vm) enum Pattern {
    Sequential,
    /// Percentage of random positions; the other requests follow the previous one.
    Random(u8),
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::vm) struct Job {
    pub(in crate::vm) name: String,
    pub(in crate::vm) pattern: Pattern,
    /// Percentage of reads; the others are writes, or trims if `trims` is set.
    pub(in crate::vm) reads: u8,
    pub(in crate::vm) trims: bool,
    /// Sizes of requests with their weights; not empty.
    pub(in crate::vm) blocks: Vec<(u64, u64)>,
    /// Concurrent requests.
    pub(in crate::vm) depth: usize,
    /// First byte of the range on the disk.
    pub(in crate::vm) offset: u64,
    /// Bytes of the range; `None` for the rest of the disk.
    pub(in crate::vm) size: Option<u64>,
    /// The job ends after this many bytes.
    pub(in crate::vm) io_size: Option<u64>,
    /// The job ends after this time.
    pub(in crate::vm) runtime: Option<Duration>,
    /// Most requests per second.
    pub(in crate::vm) rate: Option<u64>,
    /// Read all written data at the end, and compare it.
    pub(in crate::vm) verify: bool,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            name: String::new(),
            pattern: Pattern::Sequential,
            reads: 100,
            trims: false,
            blocks: vec![(4096, 1)],
            depth: 1,
            offset: 0,
            size: None,
            io_size: None,
            runtime: None,
            rate: None,
            verify: false,
        }
    }
}
