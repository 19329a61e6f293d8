//! Units: how blocks stand on the drive. A unit of one block in eight sectors is the block itself; every other is compressed.

use blockmap::{Slot, SlotPlace};
use bytes::Bytes;
use foldhash::fast::FixedState;
use ondisk::{ArrayGeometry, SECTOR_BYTES};
use platform::DiskError;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use types::BLOCK_BYTES;

const BLOCK_LEN: usize = BLOCK_BYTES as usize;
/// Bytes that the cache's own book-keeping of one unit takes, about.
const ENTRY_BYTES: u64 = 96;

/// A unit on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredGroup {
    /// First byte on the drive.
    pub(crate) offset: u64,
    /// Which use of its segment: with the offset, a name that no other content has while the array is open.
    pub(crate) usage: u64,
    pub(crate) sectors: u8,
    pub(crate) blocks: u8,
    pub(crate) crc: u32,
}

/// Why a unit could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupError {
    /// The drive failed, or the bytes are not those that were written.
    Medium,
    /// It would have to be waited for.
    WouldBlock,
}

impl StoredGroup {
    /// The unit that a slot's place names. `usage` is that of its segment.
    pub(crate) fn new(geometry: &ArrayGeometry, slot: &Slot, place: SlotPlace, usage: u64) -> Self {
        let offset = geometry.sector_start(place.segment, u32::from(place.sector));
        Self { offset, usage, sectors: place.sectors, blocks: place.blocks, crc: slot.crc }
    }

    pub(crate) fn bytes(&self) -> usize {
        usize::from(self.sectors) * SECTOR_BYTES as usize
    }

    pub(crate) fn is_packed(&self) -> bool {
        reduction::is_packed(usize::from(self.blocks), usize::from(self.sectors))
    }

    /// All blocks of the unit, one after the other, out of the bytes on the drive. `None` when these are damaged.
    pub(crate) fn unpack(&self, stored: Bytes) -> Option<Bytes> {
        if crc_fast::crc32_iscsi(&stored) != self.crc {
            return None;
        }
        if self.is_packed() { reduction::unpack(&stored, usize::from(self.blocks)).ok() } else { Some(stored) }
    }

    /// All blocks, from the cache or from the drive.
    pub(crate) fn load(&self, cache: &GroupCache, read: &Read<'_>) -> Result<Bytes, GroupError> {
        let key = (self.offset, self.usage);
        if let Some(blocks) = cache.0.get(&key) {
            return Ok(blocks);
        }
        let mut stored = vec![0; self.bytes()];
        match read(self.offset, &mut stored) {
            Ok(true) => {}
            Ok(false) => return Err(GroupError::WouldBlock),
            Err(_) => return Err(GroupError::Medium),
        }
        let blocks = self.unpack(stored.into()).ok_or(GroupError::Medium)?;
        if self.is_packed() {
            cache.0.insert(key, blocks.clone());
        }
        Ok(blocks)
    }
}

/// Reads from the drive; false when that would have to wait.
pub(crate) type Read<'a> = dyn Fn(u64, &mut [u8]) -> Result<bool, DiskError> + 'a;

/// One block of the blocks of a unit.
pub(crate) fn block(blocks: &Bytes, index: u8) -> Bytes {
    let at = usize::from(index) * BLOCK_LEN;
    blocks.slice(at..at + BLOCK_LEN)
}

#[derive(Clone)]
struct Weight;

impl Weighter<(u64, u64), Bytes> for Weight {
    fn weight(&self, _: &(u64, u64), blocks: &Bytes) -> u64 {
        blocks.len() as u64 + ENTRY_BYTES
    }
}

/// Units that were decompressed. What is read once does not drive out what is read often: the cache keeps newcomers apart until
/// they are asked for again. Blocks that are stored as they are stay in the page cache of the system and never come here.
pub(crate) struct GroupCache(Cache<(u64, u64), Bytes, Weight, FixedState>);

impl GroupCache {
    /// A cache of at most so many bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        let items = (bytes / BLOCK_BYTES).max(16) as usize;
        // The cache picks its shard by the middle of the hash: offsets are multiples of a sector, and a hash that is only a product would
        // leave most shards empty.
        Self(Cache::with(items, bytes, Weight, FixedState::default(), Default::default()))
    }

    /// True when it holds that unit at present.
    pub(crate) fn holds(&self, unit: &StoredGroup) -> bool {
        self.0.contains_key(&(unit.offset, unit.usage))
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.weight()
    }
}

impl std::fmt::Debug for GroupCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupCache").field("bytes", &self.bytes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_fills_to_its_size() {
        let cache = GroupCache::new(4 << 20);
        for unit in 0..4096 {
            cache.0.insert((unit * 5 * SECTOR_BYTES, 3), Bytes::from_static(&[0; 4096]));
        }
        assert!((7 << 19..=4 << 20).contains(&cache.bytes()), "{} of 4 MiB are used", cache.bytes());
    }
}
