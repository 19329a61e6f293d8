//! Logical units: what is common to all sessions that see a volume.

use crate::counters::Counters;
use crate::inbox::Event;
use crate::nexus::{Nexus, NexusId};
use crate::task_management::Hold;
use parking_lot::Mutex;
use scsi::Asc;
use std::collections::HashMap;
use std::sync::Arc;
use units::VolumeId;

/// A logical unit.
pub(crate) struct LogicalUnit {
    pub(crate) volume: VolumeId,
    pub(crate) counters: Arc<Counters>,
    nexuses: Mutex<Vec<Arc<Nexus>>>,
}

impl LogicalUnit {
    fn new(volume: VolumeId) -> Self {
        Self { volume, counters: Arc::default(), nexuses: Mutex::default() }
    }

    /// A session sees the unit from now on.
    pub(crate) fn join(&self, nexus: &Arc<Nexus>) {
        let mut nexuses = self.nexuses.lock();
        if !nexuses.iter().any(|known| known.id == nexus.id) {
            nexuses.push(nexus.clone());
        }
    }

    /// A session sees the unit no longer.
    pub(crate) fn leave(&self, nexus: NexusId) {
        self.nexuses.lock().retain(|known| known.id != nexus);
    }

    /// Establishes a unit attention condition for every nexus but `except`.
    pub(crate) fn attend(&self, except: Option<NexusId>, asc: Asc) {
        for nexus in self.nexuses.lock().iter().filter(|nexus| Some(nexus.id) != except) {
            nexus.raise(self.volume, asc);
        }
    }

    /// Has every nexus but `except` abort its commands on this unit.
    pub(crate) fn abort_tasks(&self, except: Option<NexusId>, hold: &Arc<Hold>) {
        for nexus in self.nexuses.lock().iter().filter(|nexus| Some(nexus.id) != except) {
            nexus.inbox.post(Event::Abort { volume: Some(self.volume), hold: hold.clone() });
        }
    }

    /// True when a reservation of another nexus forbids the command.
    pub(crate) fn forbids(&self, _nexus: &Nexus, _command: &scsi::Command) -> bool {
        false
    }

    /// True when a reservation of another nexus forbids reading.
    pub(crate) fn forbids_reading(&self, _nexus: &Nexus) -> bool {
        false
    }

    /// True when a reservation of another nexus forbids writing.
    pub(crate) fn forbids_writing(&self, _nexus: &Nexus) -> bool {
        false
    }

    /// A logical unit reset (SAM-5 6.3.3), told to every nexus, the one that asked for it included.
    pub(crate) fn reset(&self, asc: Asc) {
        self.attend(None, asc);
    }
}

impl std::fmt::Debug for LogicalUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "logical unit of {}", self.volume)
    }
}

/// All logical units that some session has seen since the start.
#[derive(Default)]
pub(crate) struct Units(Mutex<HashMap<VolumeId, Arc<LogicalUnit>>>);

impl Units {
    /// The unit of a volume.
    pub(crate) fn get(&self, volume: VolumeId) -> Arc<LogicalUnit> {
        self.0.lock().entry(volume).or_insert_with(|| Arc::new(LogicalUnit::new(volume))).clone()
    }
}
