//! The logical units that one session sees, and the unit attentions when they change.

use crate::nexus::Nexus;
use crate::unit::logical_unit::{LogicalUnit, LogicalUnits};
use catalog::{LunMap, PathPreference};
use scsi::inquiry::{Naa, vpd};
use scsi::{Lun, Sense, SenseKey, asc};
use std::sync::{Arc, OnceLock};
use telemetry::ActivityCounters;
use types::VolumeId;

/// Personality of a host with ESXi.
const ESXI: &str = "esxi";

/// A logical unit as one session sees it.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) lun: Lun,
    pub(crate) unit: Arc<LogicalUnit>,
    /// The engine's volume that holds the blocks. It may move while commands are in progress.
    pub(crate) content: VolumeId,
    /// Size in logical blocks.
    pub(crate) blocks: u64,
    pub(crate) serial: String,
    pub(crate) naa: Naa,
    /// True if the volume is connected for reading only, or the array is open for reading only.
    pub(crate) read_only: bool,
    /// OPTIMAL UNMAP GRANULARITY in logical blocks, which depends on the personality of the host.
    pub(crate) unmap_granularity: u32,
    /// The arrays whose ports are active/optimized for the host, if two serve the unit.
    pub(crate) preference: PathPreference,
    /// Counters of the commands that this initiator sends here over this portal. Set by the first
    /// command.
    pub(crate) counters: OnceLock<Arc<ActivityCounters>>,
}

impl Attachment {
    /// Checks that writes are allowed: the volume is not connected for reading only, and SWP is
    /// clear (SBC-4 4.11).
    pub(crate) fn check_writable(&self) -> Result<(), Sense> {
        if self.read_only {
            return Err(Sense::new(SenseKey::DataProtect, asc::WRITE_PROTECTED));
        }
        if self.unit.is_write_protected() {
            return Err(Sense::new(SenseKey::DataProtect, asc::LOGICAL_UNIT_SOFTWARE_WRITE_PROTECTED));
        }
        Ok(())
    }
}

/// The LUN map of a session at one version of the catalog.
#[derive(Debug, Default)]
pub(crate) struct View {
    map: Arc<LunMap>,
    /// In ascending order of LUN.
    attachments: Vec<Arc<Attachment>>,
}

impl View {
    /// Creates the view of a new session. Every unit has a power on condition for a new nexus
    /// (SAM-5 5.14, 6.3.1).
    pub(crate) fn open(map: Arc<LunMap>, units: &LogicalUnits, nexus: &Arc<Nexus>) -> Self {
        let attachments = attach(&map, units);
        for attachment in &attachments {
            attachment.unit.join(nexus);
            nexus.raise(attachment.unit.volume, asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED);
        }
        Self { map, attachments }
    }

    /// Returns the logical unit at `lun`.
    #[inline]
    pub(crate) fn get(&self, lun: Lun) -> Option<&Arc<Attachment>> {
        let at = self.attachments.binary_search_by_key(&lun, |attachment| attachment.lun).ok()?;
        self.attachments.get(at)
    }

    /// Returns all logical units in ascending order of LUN.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Attachment>> {
        self.attachments.iter()
    }

    /// Changes to another LUN map, and establishes the unit attentions that the differences
    /// require.
    pub(crate) fn follow(&mut self, map: Arc<LunMap>, units: &LogicalUnits, nexus: &Arc<Nexus>) {
        if map == self.map {
            return;
        }
        let new = attach(&map, units);
        let same_unit = |a: &Attachment, b: &Attachment| a.lun == b.lun && a.unit.volume == b.unit.volume;
        let mut has_list_changed = self.attachments.len() != new.len();
        for attachment in &new {
            let volume = attachment.unit.volume;
            match self.get(attachment.lun).filter(|old| same_unit(old, attachment)) {
                None => {
                    has_list_changed = true;
                    attachment.unit.join(nexus);
                    nexus.raise(volume, asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED);
                }
                Some(old) => {
                    if old.blocks != attachment.blocks {
                        nexus.raise(volume, asc::CAPACITY_DATA_HAS_CHANGED);
                    }
                    if old.read_only != attachment.read_only {
                        nexus.raise(volume, asc::MODE_PARAMETERS_CHANGED);
                    }
                    if old.unmap_granularity != attachment.unmap_granularity {
                        nexus.raise(volume, asc::INQUIRY_DATA_HAS_CHANGED);
                    }
                    if old.preference != attachment.preference {
                        nexus.raise(volume, asc::ASYMMETRIC_ACCESS_STATE_CHANGED);
                    }
                }
            }
        }
        for old in &self.attachments {
            if !new.iter().any(|attachment| attachment.unit.volume == old.unit.volume) {
                has_list_changed = true;
                old.unit.leave(nexus);
                nexus.clear_attentions_of(old.unit.volume);
            }
        }
        if has_list_changed {
            for attachment in &new {
                nexus.raise(attachment.unit.volume, asc::REPORTED_LUNS_DATA_HAS_CHANGED);
            }
        }
        self.attachments = new;
        self.map = map;
    }

    /// Leaves all logical units at the end of the session.
    pub(crate) fn close(&mut self, nexus: &Nexus) {
        for attachment in self.attachments.drain(..) {
            attachment.unit.leave(nexus);
        }
    }
}

/// Resolves the entries of a LUN map. Entries with an invalid LUN or serial number are skipped;
/// the catalog creates none.
fn attach(map: &LunMap, units: &LogicalUnits) -> Vec<Arc<Attachment>> {
    let unmap_granularity = match map.personality.as_deref() {
        Some(ESXI) => vpd::ESXI_UNMAP_GRANULARITY_BLOCKS,
        _ => vpd::UNMAP_GRANULARITY_BLOCKS,
    };
    let attachment = |(lun, entry): (&u16, &catalog::LunEntry)| {
        Some(Arc::new(Attachment {
            lun: Lun::new(*lun)?,
            unit: units.get(entry.volume),
            content: entry.content,
            blocks: entry.blocks,
            naa: Naa::from_serial(&entry.serial)?,
            serial: entry.serial.clone(),
            read_only: entry.read_only || units.is_read_only(),
            unmap_granularity,
            preference: entry.preference,
            counters: OnceLock::new(),
        }))
    };
    map.entries.iter().filter_map(attachment).collect()
}
