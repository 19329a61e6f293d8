//! The auditor: every count and every byte of the pool's accounting, made anew and compared.

use super::core::Core;
use super::error::AuditError;
use super::read::read_located;
use blockmap::{AuditReport, Ref, Root, SlotTable};
use platform::Disk;
use types::Lsn;

/// How far the log and the checkpoints have come, for tests and reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// LSN of the last record that was sequenced.
    pub last: Lsn,
    /// LSN up to which the log is on stable storage.
    pub durable: Lsn,
    /// Bytes of the log's ring that wait for a checkpoint.
    pub log_used: u64,
    /// Bytes of blocks that have no place yet.
    pub dirty: u64,
    /// Bytes of map pages in memory.
    pub pages: u64,
    /// Bytes of the slot table in memory.
    pub slots: u64,
    /// Bytes that the index takes when it is full.
    pub index: u64,
    /// Segments free or about to be.
    pub free_segments: u64,
}

impl Core {
    /// Walks the whole map, reading from `disk` what is not in memory. Nothing may be under way that writes segments.
    pub fn audit(&self, disk: &dyn Disk) -> Result<AuditReport, AuditError> {
        let roots: Vec<Root> = self.volumes.values().map(|volume| volume.root).collect();
        let held: Vec<Ref> = self.dirty.bases().map(Ref::data).collect();
        let slots = self.whole_slots(disk)?;
        let report = self.map.audit(&slots, &roots, &held, &mut |name| self.read_page(disk, &slots.get(name)?))?;
        let (counted, mapped) = (self.volumes.mapped(), self.volumes.count_mapped());
        if counted != mapped {
            return Err(AuditError::WrongMapped { counted, found: mapped });
        }
        let mut found = vec![0u32; self.pool.segments().len()];
        for slot in 0..slots.len() {
            if let Some(place) = slots.number(slot).filter(|slot| slot.count > 0).and_then(|slot| slot.place) {
                found[place.segment as usize] += place.share();
            }
        }
        self.located().for_each(|located| found[located.segment as usize] += located.sectors);
        self.manifest_sectors().for_each(|(segment, sectors)| found[segment as usize] += sectors);
        for (segment, (state, found)) in self.pool.segments().iter().zip(found).enumerate() {
            if state.live != found {
                return Err(AuditError::WrongLive { segment: segment as u32, counted: state.live, found });
            }
        }
        if self.free_segments_are_empty() { Ok(report) } else { Err(AuditError::LiveInFree) }
    }

    /// The slot table with all of its pages.
    fn whole_slots(&self, disk: &dyn Disk) -> Result<SlotTable, AuditError> {
        let load = |page: u32| {
            let located = self.slot_directory.get(page as usize).copied()?;
            read_located(disk, &self.geometry, located).map(|bytes| bytes.to_vec())
        };
        let is_metadata = |segment| self.pool.is_metadata(segment);
        self.map.slots.load_all(is_metadata, load).map_err(AuditError::UnreadableSlots)
    }

    /// How far things have come.
    pub fn usage(&self) -> Usage {
        Usage {
            last: self.log.last(),
            durable: self.log.durable,
            log_used: self.log.ring.used(),
            dirty: self.dirty.bytes(),
            pages: self.map.pages.bytes(),
            slots: self.map.slots.bytes(),
            index: self.dedup.bytes(),
            free_segments: self.pool.free() + self.pool.coming(),
        }
    }
}
