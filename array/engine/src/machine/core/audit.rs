//! The auditor: recomputes every reference count and the live sectors of every segment, and
//! compares them with the state.

use super::Core;
use crate::machine::error::AuditError;
use crate::machine::ordered::FULL_DELTA_BLOCKS;
use crate::machine::pool::Phase;
use crate::machine::read::{read_map_page, read_page_at};
use crate::machine::report::Usage;
use crate::machine::state::ArrayState;
use crate::machine::volume::Volume;
use blockmap::{AuditReport, Ref, Root, SlotTable};
use platform::Disk;
use types::VolumeId;

/// False for a delta without a volume, or with a larger one, and for a full one with blocks.
fn is_delta_right(state: &ArrayState, id: VolumeId, held: &Volume) -> bool {
    let is_full = held.blocks == FULL_DELTA_BLOCKS;
    let is_large = |volume: &Volume| if is_full { held.root.mapped == 0 } else { volume.blocks <= held.blocks };
    let is_right = |volume: VolumeId| state.volumes.get(&volume).is_some_and(is_large);
    id.volume_of_delta().is_none_or(is_right)
}

impl Core {
    /// Walks the whole map; reads pages that are not in memory from `disk`. No write of a segment
    /// may be in flight.
    ///
    /// # Errors
    ///
    /// A count differs, or a page cannot be read.
    pub fn audit(&self, disk: &dyn Disk) -> Result<AuditReport, AuditError> {
        let Self { state, checkpointer, space, destager, .. } = self;
        let roots: Vec<Root> = state.volumes.values().map(|volume| volume.root).collect();
        let held: Vec<Ref> = destager.dirty.bases().map(Ref::data).collect();
        let slots = self.load_all_slots(disk)?;
        let read = &mut |id| {
            let page = read_map_page(disk, &state.geometry, &space.pool, &slots.get(id)?)?;
            state.map.pages.patched(id, page)
        };
        let report = state.map.audit(&slots, &roots, &held, read)?;
        let (counted, mapped) = (state.volumes.mapped(), state.volumes.count_mapped());
        if counted != mapped {
            return Err(AuditError::WrongMapped { counted, found: mapped });
        }
        if let Some((volume, _)) = state.volumes.iter().find(|(id, held)| !is_delta_right(state, **id, held)) {
            return Err(AuditError::WrongDelta(*volume));
        }
        if let Some(stream) = state.volumes.miscounted() {
            return Err(AuditError::WrongDeltas(stream));
        }
        let segments = space.pool.segments();
        let mut found = vec![0u32; segments.len()];
        for slot in 0..slots.len() {
            if let Some(place) = slots.number(slot).filter(|slot| slot.count > 0).and_then(|slot| slot.place) {
                found[place.segment as usize] += place.share();
            }
        }
        checkpointer.page_locations().for_each(|location| found[location.segment as usize] += location.sectors);
        checkpointer.unlisted_sectors().for_each(|(segment, sectors)| found[segment as usize] += sectors);
        for (segment, (held, found)) in segments.iter().zip(found).enumerate() {
            if held.live != found {
                return Err(AuditError::WrongLive { segment: segment as u32, counted: held.live, found });
            }
        }
        if segments.iter().any(|segment| segment.phase == Phase::Free && segment.live > 0) {
            return Err(AuditError::LiveInFree);
        }
        space.pool.check_mirrors().map_err(AuditError::WrongMirror)?;
        Ok(report)
    }

    /// Returns the slot table with all its pages.
    fn load_all_slots(&self, disk: &dyn Disk) -> Result<SlotTable, AuditError> {
        let load = |page: u32| {
            let location = self.checkpointer.slot_directory.get(page as usize).copied()?;
            let mirror = self.space.pool.mirror(location.segment);
            read_page_at(disk, &self.state.geometry, location, mirror).map(|bytes| bytes.to_vec())
        };
        let is_metadata = |segment| self.space.pool.is_metadata(segment);
        self.state.map.slots.load_all(is_metadata, load).map_err(AuditError::UnreadableSlots)
    }

    /// Returns positions and sizes, for tests and reports.
    pub fn usage(&self) -> Usage {
        Usage {
            last: self.log.last(),
            durable: self.log.durable,
            log_used: self.log.ring.used(),
            dirty: self.destager.dirty.bytes(),
            pages: self.state.map.pages.bytes(),
            slots: self.state.map.slots.bytes(),
            index: self.destager.dedup.bytes(),
            free_segments: self.space.pool.free() + self.space.pool.coming(),
        }
    }
}
