//! Compression groups as stored on the drive. A group of one block in eight sectors is the block
//! itself; every other group is compressed.

use blockmap::{Slot, SlotPlace};
use bytes::Bytes;
use foldhash::fast::FixedState;
use ondisk::{ArrayGeometry, SECTOR_BYTES};
use platform::DiskError;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use types::BLOCK_BYTES;

const BLOCK_LEN: usize = BLOCK_BYTES as usize;
/// Approximate bytes that the cache's own bookkeeping of one group takes.
const ENTRY_BYTES: u64 = 96;

/// A compression group on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredGroup {
    /// First byte on the drive.
    pub(crate) offset: u64,
    /// Segment that holds it.
    pub(crate) segment: u32,
    /// Which use of its segment. Together with the offset it identifies the content while the
    /// array is open.
    pub(crate) usage: u64,
    pub(crate) sectors: u8,
    pub(crate) blocks: u8,
    pub(crate) crc: u32,
}

/// Why a group could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupError {
    /// The drive failed, or the bytes do not match their checksum.
    Medium,
    /// The read would block.
    WouldBlock,
}

impl StoredGroup {
    /// Returns the group at a slot's place. `usage` is that of its segment.
    pub(crate) fn new(geometry: &ArrayGeometry, slot: &Slot, place: SlotPlace, usage: u64) -> Self {
        let offset = geometry.sector_start(place.segment, u32::from(place.sector));
        Self { offset, segment: place.segment, usage, sectors: place.sectors, blocks: place.blocks, crc: slot.crc }
    }

    pub(crate) fn bytes(&self) -> usize {
        usize::from(self.sectors) * SECTOR_BYTES as usize
    }

    pub(crate) fn is_packed(&self) -> bool {
        reduction::is_packed(usize::from(self.blocks), usize::from(self.sectors))
    }

    /// Decompresses the stored bytes into all blocks of the group, one after the other. `None` if
    /// the bytes are damaged.
    pub(crate) fn unpack(&self, stored: Bytes) -> Option<Bytes> {
        if crc_fast::crc32_iscsi(&stored) != self.crc {
            return None;
        }
        if self.is_packed() { reduction::unpack(&stored, usize::from(self.blocks)).ok() } else { Some(stored) }
    }

    /// Returns all blocks, from the cache or from the drive.
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

/// Reads from the drive. Returns false if that would block.
pub(crate) type Read<'a> = dyn Fn(u64, &mut [u8]) -> Result<bool, DiskError> + 'a;

/// Returns one block of a group's blocks.
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

/// Decompressed groups. The cache keeps new entries apart until they are used again, so that data
/// read once does not evict data read often. Uncompressed blocks stay in the system's page cache
/// and are never cached here.
pub(crate) struct GroupCache(Cache<(u64, u64), Bytes, Weight, FixedState>);

impl GroupCache {
    /// A cache of at most `bytes` bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        let items = (bytes / BLOCK_BYTES).max(16) as usize;
        // The cache chooses its shard by the middle bits of the hash. Offsets are multiples of a
        // sector, so a hash that is only a product would leave most shards empty.
        Self(Cache::with(items, bytes, Weight, FixedState::default(), Default::default()))
    }

    /// True if the group is cached.
    pub(crate) fn holds(&self, group: &StoredGroup) -> bool {
        self.0.contains_key(&(group.offset, group.usage))
    }

    /// Returns the bytes in the cache.
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
    fn cache_fills_to_its_size() {
        let cache = GroupCache::new(4 << 20);
        for group in 0..4096 {
            cache.0.insert((group * 5 * SECTOR_BYTES, 3), Bytes::from_static(&[0; 4096]));
        }
        assert!((7 << 19..=4 << 20).contains(&cache.bytes()), "{} of 4 MiB are used", cache.bytes());
    }
}
