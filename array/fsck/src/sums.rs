//! Checks what a checkpoint states about its slots, so that an array opens without reading them:
//! the free slots of each page of the slot table, and two sums over all slots.

use crate::checkpoint::Checkpoint;
use crate::finding::{Finding, FsckFindings, Severity, Structure};
use blockmap::{SLOTS_PER_PAGE, Slot};

/// The count of a slot from which on blocks are not shared further.
const NEAR_LIMIT: u32 = u32::MAX - (1 << 24);

/// What the slots add up to.
pub(crate) struct Sums {
    free_slots: Vec<u16>,
    shared_sectors: u64,
    shared_aliases: u64,
    near_limit: u64,
}

impl Sums {
    pub(crate) fn new(checkpoint: &Checkpoint<'_>) -> Self {
        Self { free_slots: vec![0; checkpoint.slot_pages.len()], shared_sectors: 0, shared_aliases: 0, near_limit: 0 }
    }

    /// Adds a slot.
    pub(crate) fn add(&mut self, number: u64, slot: &Slot, is_page: bool) {
        self.free_slots[number as usize / SLOTS_PER_PAGE] += u16::from(slot.count == 0);
        self.near_limit += u64::from(slot.count >= NEAR_LIMIT);
        self.shared_aliases += u64::from(slot.count > 1 && slot.names.is_some());
        let place = slot.place.filter(|_| slot.count > 1 && !is_page);
        self.shared_sectors += place.map_or(0, |place| u64::from(place.share()));
    }

    /// Compares the sums over all slots with those of the checkpoint.
    pub(crate) fn compare(&self, checkpoint: &Checkpoint<'_>, findings: &FsckFindings) {
        let Some([shared_sectors, shared_aliases, near_limit]) = checkpoint.manifest.sums else { return };
        let report = |name: String, unit: &str, stated: u64, found: u64| {
            if stated != found {
                let finding = Finding::new(Severity::Damage, Structure::SlotTable, name)
                    .what(format!("{stated} {unit} are recorded, but {found} were found"))
                    .meaning("No data are lost, but the array may refuse to read the page, or report wrong space.")
                    .advice("This is a bug in the software, not a drive error: report it.");
                findings.add(finding);
            }
        };
        report("sums of the slot table".to_owned(), "shared sectors", shared_sectors, self.shared_sectors);
        report("sums of the slot table".to_owned(), "shared aliases", shared_aliases, self.shared_aliases);
        report("sums of the slot table".to_owned(), "slots near the limit of their count", near_limit, self.near_limit);
        for (page, (stated, found)) in checkpoint.free_slots.iter().zip(&self.free_slots).enumerate() {
            let Some(stated) = stated else { continue };
            report(format!("slot table page {page}"), "free slots", u64::from(*stated), u64::from(*found));
        }
    }
}
