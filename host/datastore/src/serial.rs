//! What one mount knows and has, and what only one operation at a time may use.

use crate::layout::Image;
use crate::layout::geometry::{Geometry, Resource};
use crate::layout::journal::Record;
use std::collections::{BTreeMap, BTreeSet};

/// The guesses of one resource.
#[derive(Debug)]
pub(crate) struct Guess {
    /// How many things of each cluster were free when it was last seen.
    pub(crate) free: Vec<u32>,
    /// Where to look first.
    pub(crate) cursor: u32,
}

/// A change that was begun.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) record: Record,
    /// Sectors that stay locked after it, for a file that it opens.
    pub(crate) fresh: Vec<u64>,
}

/// The state of a mount that operations take turns for.
#[derive(Debug)]
pub(crate) struct Serial {
    /// Sectors that stay locked between operations (files that are open for writing), as they are on the disk.
    pub(crate) held: BTreeMap<u64, Image>,
    /// Sectors that may be locked by this life although nobody here wants them: to be given back.
    pub(crate) orphans: BTreeSet<u64>,
    /// A change that was begun and is to be finished before any other.
    pub(crate) pending: Option<Pending>,
    /// Sequence of the next record.
    pub(crate) sequence: u64,
    /// How many handles of this mount read each descriptor.
    pub(crate) readers: BTreeMap<u32, u32>,
    guesses: [Guess; 3],
}

impl Serial {
    /// Of a mount that has just begun. Each slot begins to look for room at another place, so that hosts meet rarely.
    pub(crate) fn new(geometry: &Geometry, slot: u16) -> Self {
        let guess = |resource| {
            let clusters = geometry.clusters(resource);
            let free = (0..clusters).map(|index| geometry.in_cluster(resource, index)).collect();
            let cursor = u64::from(slot) * u64::from(clusters) / crate::MAX_HOSTS as u64;
            Guess { free, cursor: cursor as u32 }
        };
        Self {
            held: BTreeMap::new(),
            orphans: BTreeSet::new(),
            pending: None,
            sequence: 1,
            readers: BTreeMap::new(),
            guesses: [guess(Resource::Descriptors), guess(Resource::Pages), guess(Resource::Blocks)],
        }
    }

    /// The guesses of a resource.
    pub(crate) fn guess(&mut self, resource: Resource) -> &mut Guess {
        &mut self.guesses[resource as usize]
    }

    /// Whether an operation has left something to finish or to give back.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.pending.is_some() || !self.orphans.is_empty()
    }
}
