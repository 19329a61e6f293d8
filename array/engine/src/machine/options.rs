//! Settings chosen each time an array is opened, and how they divide its memory.

use blockmap::{SLOT_PAGE_BYTES, SLOTS_PER_PAGE, SlotBytes};
use ondisk::ArrayGeometry;
use types::BLOCK_BYTES;

/// Bytes of an entry of the dedup index, and of one of the slot table.
const INDEX_ENTRY_BYTES: u64 = 8;
const SLOT_BYTES: u64 = size_of::<SlotBytes>() as u64;
/// Most bytes of dirty blocks; more gains nothing.
const MAX_DIRTY_BYTES: u64 = 96 << 20;
/// Most bytes of metadata that one checkpoint stores in a large array.
const MAX_METADATA_BYTES: u64 = 64 << 20;
/// Most bytes of patches: reading them takes about 1 s when an array is opened.
const MAX_PATCH_BYTES: u64 = 64 << 20;

/// Most bytes that the write cache holds. Flushing them takes 0.25 s at 100 MB/s.
const MAX_WRITE_CACHE_BYTES: u64 = 24 << 20;

/// Free slots to keep in memory, in addition to those for dirty blocks.
const MIN_FREE_SLOTS: u64 = 1024;

/// Settings chosen each time an array is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Acknowledge writes before they are flushed. [`crate::Op::Flush`], FUA,
    /// [`crate::Op::CompareAndWrite`] and [`crate::Op::Or`] wait for the flush, and so do writes
    /// while a quarter of `dirty_limit`, at most 24 MiB, is not flushed.
    pub write_cache: bool,
    /// Bytes of dirty blocks above which writes wait for destage. With the write cache, bytes that
    /// are not flushed count as well.
    pub dirty_limit: u64,
    /// Bytes of changed metadata at which a checkpoint is due. Changes stop at twice as much until
    /// it is complete.
    pub metadata_limit: u64,
    /// Bytes of pages of the map and of the slot table to keep in memory. Changed pages beyond it
    /// stay until the next checkpoint. The locations of slot table pages, 32 bytes for 1 MiB of
    /// data, are not included.
    pub page_budget: u64,
    /// Bytes of the dedup index.
    pub index_bytes: u64,
    /// Bytes of decompressed data to cache for reads.
    pub cache_bytes: u64,
    /// Bytes of stored data to cache for reads, in addition to the memory that
    /// [`Options::for_memory`] divides. 0: none, so that the system's page cache is the only one.
    pub read_cache: u64,
    /// Open an array whose log has lost acknowledged operations, without them.
    pub accept_log_loss: bool,
    /// Refuse all changes of volumes. Catalog values can be changed.
    pub read_only: bool,
    /// Last generation of a slot, after which the first one follows; `None` for all that the format
    /// has. A simulator sets few, so that the ids of blocks come back soon.
    pub last_generation: Option<u16>,
    /// Maximum number of slot table pages that a leaf names when it is copied without being
    /// gathered; `None` for the default. A simulator sets few, because short histories fill few
    /// pages.
    pub max_named_pages: Option<usize>,
    /// References to a block or a page above which none is added on purpose; `None` for those that
    /// the format has. A simulator sets few, because short histories count few.
    pub max_references: Option<u32>,
    /// Most bytes of patches of pages on the drive; `None` for the default. 0 stores every page
    /// whole. A simulator sets few, so that its short histories release patches.
    pub max_patch_bytes: Option<u64>,
    /// Slow ticks in a row with few changes after which all stored data is compressed again, even
    /// if that saves nothing; `None` for the default, and only data that shrinks. A simulator sets
    /// few, because its histories are short.
    pub recompress_after: Option<u32>,
    /// Last number of a ticket, after which the first one follows; `None` for 2^64 numbers. Any
    /// other value is a bug, which a simulator injects: work in flight then takes a block for
    /// another one.
    pub last_ticket: Option<u64>,
    /// Keep the room that is lent to peers from other requests. False is a bug, which a simulator
    /// injects: a record of a peer is refused then.
    pub keeps_promises: bool,
}

impl Options {
    /// Least memory that [`Options::for_memory`] divides.
    pub const MIN_MEMORY_BYTES: u64 = 64 << 20;

    /// Returns settings for an array of this geometry without a memory limit.
    pub fn for_geometry(geometry: &ArrayGeometry) -> Self {
        Self {
            write_cache: false,
            dirty_limit: (geometry.log_bytes / 2).clamp(256 << 10, MAX_DIRTY_BYTES),
            metadata_limit: MAX_METADATA_BYTES,
            page_budget: 256 << 20,
            index_bytes: index_of(geometry).min(256 << 20),
            cache_bytes: 64 << 20,
            read_cache: 0,
            accept_log_loss: false,
            read_only: false,
            last_generation: None,
            max_named_pages: None,
            max_references: None,
            max_patch_bytes: None,
            recompress_after: None,
            last_ticket: None,
            keeps_promises: true,
        }
    }

    /// Returns settings that keep to `memory` bytes, raised to [`Options::MIN_MEMORY_BYTES`].
    ///
    /// The slot table of the array when full of incompressible data comes first, up to five eighths
    /// of the memory. Of the rest, an eighth each is for dirty blocks, for changed metadata being
    /// stored and for decompressed data, and a quarter (or `index`) for the dedup index. Map pages
    /// get what remains, and what a part does not need at this geometry. Buffers in flight, about
    /// 30 MiB, are not included.
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
        Self {
            write_cache: false,
            dirty_limit,
            metadata_limit,
            page_budget,
            index_bytes,
            cache_bytes,
            read_cache: 0,
            accept_log_loss: false,
            read_only: false,
            last_generation: None,
            max_named_pages: None,
            max_references: None,
            max_patch_bytes: None,
            recompress_after: None,
            last_ticket: None,
            keeps_promises: true,
        }
    }

    /// Returns the bytes of records above which writes are not answered before they are durable.
    ///
    /// A quarter of the memory for dirty blocks: the records keep bytes of blocks that were
    /// overwritten since, and most of the memory must stay for blocks that wait for destage. A
    /// flush takes the time to write this to the log, hence the limit.
    pub(crate) fn write_cache_limit(&self) -> u64 {
        (self.dirty_limit / 4).min(MAX_WRITE_CACHE_BYTES)
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

    /// Returns the bytes of patches beyond which the oldest are released. They are also in memory,
    /// and read when the array is opened.
    pub(crate) fn patch_limit(&self, geometry: &ArrayGeometry) -> u64 {
        // An entry takes up to four times as much memory as on the drive.
        let most = (self.page_budget / 16).min(MAX_PATCH_BYTES);
        self.max_patch_bytes.unwrap_or_else(|| (geometry.capacity / 256).min(most))
    }

    /// Returns the memory of patches in bytes beyond which pages are stored whole.
    pub(crate) fn patch_memory(&self) -> u64 {
        if self.max_patch_bytes.is_some() { u64::MAX } else { self.page_budget / 4 }
    }

    /// Returns how much of the page budget the slot table and the map may keep if they take `slots`
    /// and `pages` bytes, beside `patches` bytes of patches. A leaf of the map and a page of the
    /// slot table, which is twice as large, cover the same number of blocks. Each may use what the
    /// other does not need.
    pub(crate) fn page_shares(&self, slots: u64, pages: u64, patches: u64) -> (u64, u64) {
        let budget = self.page_budget.saturating_sub(patches);
        let for_slots = budget - pages.min(budget / 3);
        (for_slots, budget - slots.min(for_slots))
    }
}

/// Returns the bytes of an index with an entry for every block of a full array.
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
    fn memory_parts_add_up_to_the_total() {
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
    fn index_size_is_bounded_by_array_and_memory() {
        let small = Options::for_memory(&geometry(1 << 30), 4 << 30, None);
        assert_eq!(small.index_bytes, (1 << 30) / 4096 * 8);
        let asked = |index| Options::for_memory(&geometry(1 << 40), 1 << 30, Some(index));
        assert_eq!((asked(100 << 20).index_bytes, asked(1 << 40).index_bytes), (100 << 20, 1 << 29));
        assert!(asked(1 << 40).page_budget >= 1 << 27);
    }

    #[test]
    fn slots_and_pages_share_the_page_budget() {
        let options = Options { page_budget: 300, ..Options::for_memory(&geometry(1 << 40), 64 << 20, None) };
        assert_eq!(options.page_shares(1000, 1000, 0), (200, 100));
        assert_eq!(options.page_shares(1000, 20, 0), (280, 20));
        assert_eq!(options.page_shares(50, 1000, 0), (200, 250));
        assert_eq!(options.page_shares(50, 1000, 30), (180, 220));
    }
}
