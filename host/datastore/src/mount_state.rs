//! State of a mount that only one operation at a time may use.

use crate::layout::Image;
use crate::layout::geometry::{Geometry, Resource};
use crate::layout::journal::Record;
use std::collections::{BTreeMap, BTreeSet};

/// Estimated free counts of one resource.
#[derive(Debug)]
pub(crate) struct FreeEstimate {
    /// Free count of each cluster when it was last read.
    pub(crate) free: Vec<u32>,
    /// Cluster to search first.
    pub(crate) cursor: u32,
}

/// A change that was started.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) record: Record,
    /// Sectors that stay locked after the change, for a file that it opens.
    pub(crate) newly_held: Vec<u64>,
}

/// State of a mount; operations take turns to use it.
#[derive(Debug)]
pub(crate) struct MountState {
    /// Images of sectors that stay locked between operations: files that are open for writing.
    pub(crate) held: BTreeMap<u64, Image>,
    /// Sectors that may be locked by this mount without a user; they are to be released.
    pub(crate) stray_locks: BTreeSet<u64>,
    /// A started change that must be finished before any other.
    pub(crate) pending: Option<Pending>,
    /// Sequence number of the next record.
    pub(crate) sequence: u64,
    /// Number of read handles of this mount, by descriptor.
    pub(crate) readers: BTreeMap<u32, u32>,
    free_estimates: [FreeEstimate; 3],
}

impl MountState {
    /// Creates the state of a new mount. Each slot starts its search for free space at another
    /// place, so that hosts rarely compete.
    pub(crate) fn new(geometry: &Geometry, slot: u16) -> Self {
        let estimate = |resource| {
            let clusters = geometry.clusters(resource);
            let free = (0..clusters).map(|index| geometry.in_cluster(resource, index)).collect();
            let cursor = u64::from(slot) * u64::from(clusters) / crate::MAX_HOSTS as u64;
            FreeEstimate { free, cursor: cursor as u32 }
        };
        Self {
            held: BTreeMap::new(),
            stray_locks: BTreeSet::new(),
            pending: None,
            sequence: 1,
            readers: BTreeMap::new(),
            free_estimates: [estimate(Resource::Descriptors), estimate(Resource::Pages), estimate(Resource::Blocks)],
        }
    }

    /// Returns the estimates of a resource.
    pub(crate) fn free_estimate(&mut self, resource: Resource) -> &mut FreeEstimate {
        &mut self.free_estimates[resource as usize]
    }

    /// Returns whether an operation has left something to finish or to release.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.pending.is_some() || !self.stray_locks.is_empty()
    }
}
