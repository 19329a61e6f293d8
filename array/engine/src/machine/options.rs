//! What may be set each time that an array is opened, and how its memory is shared out.

use blockmap::{SLOT_PAGE_BYTES, SLOTS_PER_PAGE, SlotBytes};
use ondisk::ArrayGeometry;
use types::BLOCK_BYTES;

/// Bytes of an entry of the index, and of one of the slot table.
const INDEX_ENTRY_BYTES: u64 = 8;
const SLOT_BYTES: u64 = size_of::<SlotBytes>() as u64;
/// The most bytes of dirty blocks: more gains nothing.
const MAX_DIRTY_BYTES: u64 = 96 << 20;
/// The most bytes of metadata that a checkpoint stores at one instant, in a large array.
const MAX_METADATA_BYTES: u64 = 64 << 20;

/// Free slots to keep in memory, beside those for dirty blocks.
const MIN_FREE_SLOTS: u64 = 1024;

/// What may be set each time that an array is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Acknowledge before the flush; [`crate::Op::Flush`] and FUA wait for it.
    pub write_cache: bool,
    /// Bytes of dirty blocks beyond which writes wait for destage.
    pub dirty_limit: u64,
    /// Bytes of changed metadata at which a checkpoint is due. Twice as much stops changes until it is done.
    pub metadata_limit: u64,
    /// Bytes of map pages and of pages of the slot table to keep in memory. Changed ones are kept beyond it until the next checkpoint; where
    /// each page of the slot table is, 32 bytes for 1 MiB of data, comes on top of it.
    pub page_budget: u64,
    /// Bytes of the index of what is stored.
    pub index_bytes: u64,
    /// Bytes of decompressed data to keep for reads.
    pub cache_bytes: u64,
}

impl Options {
    /// The least memory that [`Options::for_memory`] shares out.
    pub const MIN_MEMORY_BYTES: u64 = 64 << 20;

    /// Settings for an array of that geometry that need not be told how much memory there is.
    pub fn for_geometry(geometry: &ArrayGeometry) -> Self {
        Self {
            write_cache: false,
            dirty_limit: (geometry.log_bytes / 2).clamp(256 << 10, MAX_DIRTY_BYTES),
            metadata_limit: MAX_METADATA_BYTES,
            page_budget: 256 << 20,
            index_bytes: index_of(geometry).min(256 << 20),
            cache_bytes: 64 << 20,
        }
    }

    /// Settings for an array that may take that many bytes of memory, raised to [`Options::MIN_MEMORY_BYTES`]. First comes the slot table
    /// of the array when it is full of data that do not compress, as much of it as five eighths hold; what that leaves is shared
    /// out: an eighth each for dirty blocks, for changed metadata on their way and for decompressed data, a quarter (or `index`) for the
    /// index. The rest, and what a part does not need at that geometry, is for map pages. Buffers of what is under way, some
    /// 30 MiB, come on top of it.
    pub fn for_memory(geometry: &ArrayGeometry, memory: u64, index: Option<u64>) -> Self {
        let memory = memory.max(Self::MIN_MEMORY_BYTES);
        let most = Self::for_geometry(geometry);
        let slots = (geometry.capacity / BLOCK_BYTES * SLOT_BYTES).min(memory / 8 * 5);
        let shared = memory - slots;
        let dirty_limit = most.dirty_limit.min(shared / 8);
        let metadata_limit = MAX_METADATA_BYTES.min(shared / 8);
        let index_bytes = index.unwrap_or(shared / 4).min(memory / 2).min(index_of(geometry));
        let cache_bytes = shared / 8;
        let page_budget = memory - dirty_limit - metadata_limit - index_bytes - cache_bytes;
        Self { write_cache: false, dirty_limit, metadata_limit, page_budget, index_bytes, cache_bytes }
    }

    /// Returns the bytes of changed metadata at which a checkpoint is due. Changes stop at twice
    /// as much until it is complete.
    pub(crate) fn metadata_budget(&self, geometry: &ArrayGeometry) -> u64 {
        let segments = u64::from(geometry.segments());
        let most = self.metadata_limit.min(segments * geometry.segment_bytes / 32);
        (geometry.capacity / 256).max(geometry.segment_bytes / 2).min(most)
    }

    /// Returns the number of free slots to keep in memory: as many as may be allocated before the
    /// next tick. Their pages, each at least a sixteenth free, take at most half of the budget.
    pub(crate) fn free_slots_target(&self) -> u64 {
        let most = self.page_budget / 2 / SLOT_PAGE_BYTES as u64 * (SLOTS_PER_PAGE as u64 / 16);
        (2 * self.dirty_limit / BLOCK_BYTES + MIN_FREE_SLOTS).min(most)
    }

    /// How much of the page budget the slot table and the map may keep, when they take so many bytes. A leaf of the map and a page of the
    /// slot table, which is twice as large, serve the same number of blocks; what one does not need, the other has.
    pub(crate) fn page_shares(&self, slots: u64, pages: u64) -> (u64, u64) {
        let for_slots = self.page_budget - pages.min(self.page_budget / 3);
        (for_slots, self.page_budget - slots.min(for_slots))
    }
}

/// Bytes of an index with an entry for every block that an array can hold.
fn index_of(geometry: &ArrayGeometry) -> u64 {
    geometry.capacity / BLOCK_BYTES * INDEX_ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(capacity: u64) -> ArrayGeometry {
        ArrayGeometry::for_capacity(capacity).unwrap()
    }

    #[test]
    fn the_parts_are_the_memory() {
        for memory in [64 << 20, 256 << 20, 4 << 30, 1 << 40] {
            let options = Options::for_memory(&geometry(1 << 40), memory, None);
            let parts = [
                options.dirty_limit,
                options.metadata_limit,
                options.page_budget,
                options.index_bytes,
                options.cache_bytes,
            ];
            assert_eq!(parts.iter().sum::<u64>(), memory);
            assert!(options.page_budget >= memory / 4);
        }
        let least = Options::for_memory(&geometry(1 << 40), 1, None);
        assert_eq!((least.dirty_limit, least.index_bytes, least.page_budget), (3 << 20, 6 << 20, 49 << 20));
    }

    #[test]
    fn an_index_is_never_larger_than_the_array_needs_or_the_memory_gives() {
        let small = Options::for_memory(&geometry(1 << 30), 4 << 30, None);
        assert_eq!(small.index_bytes, (1 << 30) / 4096 * 8);
        let asked = |index| Options::for_memory(&geometry(1 << 40), 1 << 30, Some(index));
        assert_eq!((asked(100 << 20).index_bytes, asked(1 << 40).index_bytes), (100 << 20, 1 << 29));
        assert!(asked(1 << 40).page_budget >= 1 << 27);
    }

    #[test]
    fn slots_and_pages_have_what_the_other_leaves() {
        let options = Options { page_budget: 300, ..Options::for_memory(&geometry(1 << 40), 64 << 20, None) };
        assert_eq!(options.page_shares(1000, 1000), (200, 100));
        assert_eq!(options.page_shares(1000, 20), (280, 20));
        assert_eq!(options.page_shares(50, 1000), (200, 250));
    }
}
