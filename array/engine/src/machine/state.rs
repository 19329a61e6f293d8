//! The state of the array that log records describe: volumes, their maps, and catalog values.

mod delta;
mod missing;
mod record;
mod validate;

use super::dirty::{DirtyBlock, DirtyBlocks};
use super::group::{GroupCache, StoredGroup};
use super::options::Options;
use super::ordered::OrderedStreams;
use super::pool::{Kind, Phase, Pool};
use super::summary_chain::SummaryChain;
use super::volume::Volumes;
use blockmap::{Freed, Map, Page, Ref, Root, SlotId, SlotPlace};
use bytes::Bytes;
use ondisk::{ArrayGeometry, SummaryId, manifest_value_bytes};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::VolumeId;

/// The state that log records change, with the settings and the geometry of the array.
pub(crate) struct ArrayState {
    pub(crate) options: Options,
    pub(crate) geometry: ArrayGeometry,
    /// Identifies the array in every stored structure.
    pub(crate) array: [u8; 16],
    pub(crate) volumes: Volumes,
    pub(crate) streams: OrderedStreams,
    /// Keys and values of the catalog.
    pub(crate) values: BTreeMap<Bytes, Bytes>,
    /// Bytes that the values take in the manifest.
    pub(crate) values_bytes: u64,
    pub(crate) map: Map,
    /// Reused by [`ArrayState::release_freed`], so that it allocates nothing.
    freed: Vec<Freed>,
    /// Decompressed groups.
    pub(crate) groups: Arc<GroupCache>,
}

impl ArrayState {
    /// The state of a checkpoint, without slot table and drop queue.
    pub(crate) fn new(
        options: Options,
        geometry: ArrayGeometry,
        array: [u8; 16],
        volumes: Volumes,
        values: BTreeMap<Bytes, Bytes>,
        streams: OrderedStreams,
    ) -> Self {
        let mut map = Map::default();
        if let Some(last) = options.last_generation {
            map.slots.set_last_generation(last);
        }
        if let Some(max_pages) = options.max_named_pages {
            map.set_max_named_pages(max_pages);
        }
        if let Some(max) = options.max_references {
            map.slots.set_max_references(max);
        }
        Self {
            options,
            geometry,
            array,
            volumes,
            streams,
            values_bytes: values.iter().map(|(key, value)| manifest_value_bytes(key, value)).sum(),
            values,
            map,
            freed: Vec::new(),
            groups: Arc::new(GroupCache::new(options.cache_bytes, options.read_cache)),
        }
    }

    /// Returns the root of a volume's map.
    pub(crate) fn root(&self, volume: VolumeId) -> Option<Root> {
        self.volumes.get(&volume).map(|volume| volume.root)
    }

    /// Stores a catalog value.
    pub(crate) fn put_value(&mut self, key: &Bytes, value: &Bytes) {
        self.values_bytes += manifest_value_bytes(key, value);
        if let Some(before) = self.values.insert(key.clone(), value.clone()) {
            self.values_bytes -= manifest_value_bytes(key, &before);
        }
    }

    /// Removes a catalog value, if it exists.
    pub(crate) fn remove_value(&mut self, key: &Bytes) {
        if let Some(before) = self.values.remove(key) {
            self.values_bytes -= manifest_value_bytes(key, &before);
        }
    }

    /// Removes slots whose last reference is gone from the dirty blocks and from the pool.
    pub(crate) fn release_freed(&mut self, pool: &mut Pool, dirty: &mut DirtyBlocks) {
        let mut freed = std::mem::take(&mut self.freed);
        loop {
            self.map.take_freed(&mut freed);
            let Some(next) = freed.pop() else { break };
            pool.place_dead(next.place);
            if let Some(DirtyBlock { base: Some(base), .. }) = dirty.remove(next.id) {
                self.map.release(Ref::data(base));
            }
        }
        self.freed = freed;
    }

    /// Returns the compression group that holds a block of data, and the block's index in it.
    pub(crate) fn stored_group(&self, pool: &Pool, id: SlotId) -> Option<(StoredGroup, u8)> {
        let slot = self.map.slots.get(id)?;
        let place = slot.place?;
        let usage = pool.segments()[place.segment as usize].usage;
        Some((StoredGroup::new(&self.geometry, &slot, place, usage), place.index))
    }

    /// Returns the summaries of a sealed data segment that holds something.
    pub(crate) fn summaries_of(&self, pool: &Pool, segment: u32) -> Option<SummaryChain> {
        let held = pool.segments().get(segment as usize)?;
        if held.kind != Kind::Data || held.phase != Phase::Sealed || held.live == 0 {
            return None;
        }
        Some(SummaryChain {
            id: SummaryId { array: self.array, segment, usage: held.usage },
            start: self.geometry.segment_start(segment),
            bytes: self.geometry.segment_bytes,
            last: held.summary?,
        })
    }

    /// Loads a page of the slot table from its stored bytes. False if they are not such a page, or
    /// name a place outside the segments.
    pub(crate) fn load_slot_page(&mut self, pool: &Pool, page: u32, bytes: &[u8]) -> bool {
        let (segments, sectors) = (self.geometry.segments(), self.geometry.segment_sectors());
        let is_inside = |place: SlotPlace| {
            place.segment < segments && u32::from(place.sector) + u32::from(place.sectors) <= sectors
        };
        self.map.slots.load_page(page, bytes, is_inside, |segment| pool.is_metadata(segment))
    }

    /// Makes the next checkpoint store a map page again, from memory or, if it is not loaded,
    /// from `stored`. False if its slot is not loaded or both are missing.
    pub(crate) fn rewrite_map_page(&mut self, id: SlotId, stored: Option<&[u8]>) -> bool {
        if self.map.slots.absent(id.slot).is_some() {
            return false;
        }
        if !self.map.pages.contains(id) {
            let page = stored.and_then(Page::decode);
            if !page.is_some_and(|page| self.map.pages.insert_stored(id, page)) {
                return false;
            }
        }
        self.map.rewrite_page(id);
        true
    }

    /// Returns the bytes of loaded pages, of the map and of the slot table, beyond the budget.
    pub(crate) fn surplus_page_bytes(&self) -> u64 {
        let budget = self.options.page_budget;
        let pages = self.map.pages.bytes() + self.map.slots.loaded_page_bytes();
        (pages + self.patch_bytes()).saturating_sub(budget + budget / 8)
    }

    /// Returns the memory that patches of pages take in bytes.
    pub(crate) fn patch_bytes(&self) -> u64 {
        self.map.pages.patch_bytes() + self.map.slots.patches.bytes()
    }
}
