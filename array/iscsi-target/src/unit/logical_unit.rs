//! Logical units: what is common to all sessions that see a volume.

use crate::nexus::inbox::Event;
use crate::nexus::{Nexus, NexusId};
use crate::session::task_management::Hold;
use crate::unit::counters::Counters;
use crate::unit::limits::Limits;
use crate::unit::reservation::Held;
use crate::unit::thresholds::Provisioning;
use catalog::Catalog;
use engine::Service;
use parking_lot::Mutex;
use scsi::mode::ModeSettings;
use scsi::{Asc, Sense, SenseFormat, asc};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use types::VolumeId;

/// A logical unit.
pub(crate) struct LogicalUnit {
    pub(crate) volume: VolumeId,
    pub(crate) counters: Arc<Counters>,
    nexuses: Mutex<Vec<Arc<Nexus>>>,
    pub(crate) held: Held,
    pub(crate) provisioning: Mutex<Provisioning>,
    pub(crate) limits: Limits,
    settings: Mutex<ModeSettings>,
    /// SWP and D_SENSE of `settings`, to be read without the lock by every command.
    is_write_protected: AtomicBool,
    has_descriptor_sense: AtomicBool,
}

impl LogicalUnit {
    fn new(volume: VolumeId, service: &dyn Service) -> Self {
        Self {
            volume,
            counters: Arc::default(),
            nexuses: Mutex::default(),
            held: Held::load(service, volume),
            provisioning: Mutex::default(),
            limits: Limits::default(),
            settings: Mutex::default(),
            is_write_protected: AtomicBool::new(false),
            has_descriptor_sense: AtomicBool::new(false),
        }
    }

    /// A session sees the unit from now on. It is told of thresholds that were reached before it came.
    pub(crate) fn join(&self, nexus: &Arc<Nexus>) {
        let provisioning = self.provisioning.lock();
        let mut nexuses = self.nexuses.lock();
        if !nexuses.iter().any(|known| known.id == nexus.id) {
            nexuses.push(nexus.clone());
            provisioning.reached().for_each(|resource| nexus.tell(self.volume, resource.threshold_reached()));
        }
    }

    /// A session sees the unit no longer.
    pub(crate) fn leave(&self, nexus: &Nexus) {
        self.nexuses.lock().retain(|known| known.id != nexus.id);
        self.held.nexus_lost(nexus);
    }

    /// Establishes a unit attention condition for every nexus but `except`.
    pub(crate) fn attend(&self, except: Option<NexusId>, asc: Asc) {
        for nexus in self.nexuses.lock().iter().filter(|nexus| Some(nexus.id) != except) {
            nexus.raise(self.volume, asc);
        }
    }

    /// Establishes a unit attention condition with more than its code, for every nexus.
    pub(crate) fn attend_with(&self, sense: Sense) {
        self.nexuses.lock().iter().for_each(|nexus| nexus.tell(self.volume, sense));
    }

    /// Has the nexuses that are `meant` abort their commands on this unit.
    pub(crate) fn abort_tasks(&self, meant: impl Fn(&Nexus) -> bool, hold: &Arc<Hold>) {
        for nexus in self.nexuses.lock().iter().filter(|nexus| meant(nexus)) {
            nexus.inbox.post(Event::Abort { volume: Some(self.volume), hold: hold.clone() });
        }
    }

    /// Calls `act` for every nexus that sees the unit.
    pub(crate) fn each_nexus(&self, act: impl FnMut(&Arc<Nexus>)) {
        self.nexuses.lock().iter().for_each(act);
    }

    /// SWP of the Control mode page: writes are refused.
    pub(crate) fn is_write_protected(&self) -> bool {
        self.is_write_protected.load(Ordering::Relaxed)
    }

    /// The format of sense data: D_SENSE of the Control mode page.
    pub(crate) fn sense_format(&self) -> SenseFormat {
        SenseFormat::from_bit(self.has_descriptor_sense.load(Ordering::Relaxed))
    }

    /// The mode parameters in force. WCE is the array's, not the unit's.
    pub(crate) fn mode_settings(&self) -> ModeSettings {
        *self.settings.lock()
    }

    /// Changes the mode parameters; every nexus but the one that did it is told (SPC-4 6.11).
    pub(crate) fn set_mode(&self, by: Option<NexusId>, settings: ModeSettings) {
        // WCE is the array's: it is not kept here.
        let settings = ModeSettings { write_cache: false, ..settings };
        let old = std::mem::replace(&mut *self.settings.lock(), settings);
        self.is_write_protected.store(settings.write_protect, Ordering::Relaxed);
        self.has_descriptor_sense.store(settings.descriptor_sense, Ordering::Relaxed);
        if old != settings {
            self.attend(by, asc::MODE_PARAMETERS_CHANGED);
        }
    }

    /// A logical unit reset (SAM-5 6.3.3), told to every nexus, the one that asked for it included.
    pub(crate) fn reset(&self, asc: Asc) {
        self.held.reset();
        *self.settings.lock() = ModeSettings::default();
        self.is_write_protected.store(false, Ordering::Relaxed);
        self.has_descriptor_sense.store(false, Ordering::Relaxed);
        self.attend(None, asc);
    }
}

impl std::fmt::Debug for LogicalUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "logical unit of {}", self.volume)
    }
}

/// All logical units that some session has seen since the start.
pub(crate) struct Units {
    service: Arc<dyn Service>,
    catalog: Arc<Catalog>,
    units: Mutex<HashMap<VolumeId, Arc<LogicalUnit>>>,
}

impl Units {
    /// No unit yet. Reservations that outlive the power are read from `service`.
    pub(crate) fn new(service: Arc<dyn Service>, catalog: Arc<Catalog>) -> Self {
        Self { service, catalog, units: Mutex::default() }
    }

    /// The unit of a volume.
    pub(crate) fn get(&self, volume: VolumeId) -> Arc<LogicalUnit> {
        let mut units = self.units.lock();
        let unit = units.entry(volume).or_insert_with(|| {
            let unit = LogicalUnit::new(volume, &*self.service);
            unit.follow(&self.catalog.state(), &*self.service, self.service.space());
            Arc::new(unit)
        });
        unit.clone()
    }

    /// All units.
    pub(crate) fn all(&self) -> Vec<Arc<LogicalUnit>> {
        self.units.lock().values().cloned().collect()
    }
}
