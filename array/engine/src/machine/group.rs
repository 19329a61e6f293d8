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

    /// Returns all blocks, from the caches or from the drive.
    pub(crate) fn load(&self, cache: &GroupCache, keep: Keep, read: &Read<'_>) -> Result<Bytes, GroupError> {
        if let Some(blocks) = cache.unpacked.get(&self.key()) {
            return Ok(blocks);
        }
        let blocks = match cache.block(&self.key()) {
            // Its checksum was compared when it was read.
            Some(stored) if self.is_packed() => {
                reduction::unpack(&stored, usize::from(self.blocks)).map_err(|_| GroupError::Medium)?
            }
            Some(stored) => stored,
            None => self.read(cache, keep, read)?,
        };
        if self.is_packed() {
            cache.unpacked.insert(self.key(), blocks.clone());
        }
        Ok(blocks)
    }

    fn read(&self, cache: &GroupCache, keep: Keep, read: &Read<'_>) -> Result<Bytes, GroupError> {
        let mut stored = vec![0; self.bytes()];
        match read(self.offset, &mut stored) {
            Ok(true) => {}
            Ok(false) => return Err(GroupError::WouldBlock),
            Err(_) => return Err(GroupError::Medium),
        }
        let stored = Bytes::from(stored);
        let blocks = self.unpack(stored.clone()).ok_or(GroupError::Medium)?;
        if keep == Keep::Stored {
            cache.keep(self.key(), stored);
        }
        Ok(blocks)
    }

    fn key(&self) -> CacheKey {
        (self.offset, self.usage)
    }
}

/// Whether the stored bytes that were read from the drive go into the read cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// A host may read them again.
    Stored,
    /// They are read for another purpose, or by a scan.
    Nothing,
}

/// Reads from the drive. Returns false if that would block.
pub(crate) type Read<'a> = dyn Fn(u64, &mut [u8]) -> Result<bool, DiskError> + 'a;

/// Returns one block of a group's blocks.
pub(crate) fn block(blocks: &Bytes, index: u8) -> Bytes {
    let at = usize::from(index) * BLOCK_LEN;
    blocks.slice(at..at + BLOCK_LEN)
}

/// First byte on the drive, and the use of the segment. A use of a segment writes each of its bytes
/// once, so the key names the content, and entries never have to be removed.
pub(crate) type CacheKey = (u64, u64);

#[derive(Clone)]
struct Weight;

impl Weighter<CacheKey, Bytes> for Weight {
    fn weight(&self, _: &CacheKey, blocks: &Bytes) -> u64 {
        blocks.len() as u64 + ENTRY_BYTES
    }
}

type Entries = Cache<CacheKey, Bytes, Weight, FixedState>;

/// Decompressed groups, and the *read cache*: groups and single blocks as they are stored, with
/// their checksums compared. Both keep new entries apart until they are used again, so that data
/// read once does not evict data read often.
pub(crate) struct GroupCache {
    unpacked: Entries,
    /// `None` if the system's page cache is the only cache of stored bytes.
    stored: Option<Entries>,
}

impl GroupCache {
    /// At most `bytes` bytes of decompressed groups, and `stored` bytes in the read cache.
    pub(crate) fn new(bytes: u64, stored: u64) -> Self {
        Self { unpacked: entries(bytes), stored: (stored > 0).then(|| entries(stored)) }
    }

    /// True if the group is cached.
    pub(crate) fn holds(&self, group: &StoredGroup) -> bool {
        self.unpacked.contains_key(&group.key()) || self.holds_block(&group.key())
    }

    /// True if the read cache has this group or block.
    pub(crate) fn holds_block(&self, key: &CacheKey) -> bool {
        self.stored.as_ref().is_some_and(|stored| stored.contains_key(key))
    }

    /// Returns a group or a block from the read cache.
    pub(crate) fn block(&self, key: &CacheKey) -> Option<Bytes> {
        self.stored.as_ref()?.get(key)
    }

    /// Puts stored bytes, whose checksum has been compared, into the read cache. They must not be
    /// a part of a larger buffer.
    pub(crate) fn keep(&self, key: CacheKey, stored: Bytes) {
        if let Some(entries) = &self.stored {
            entries.insert(key, stored);
        }
    }

    /// True if there is a read cache.
    pub(crate) fn keeps_stored(&self) -> bool {
        self.stored.is_some()
    }

    /// Returns the bytes of decompressed groups, and those in the read cache.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.unpacked.weight(), self.stored.as_ref().map_or(0, Cache::weight))
    }
}

fn entries(bytes: u64) -> Entries {
    let items = (bytes / BLOCK_BYTES).max(16) as usize;
    // The cache chooses its shard by the middle bits of the hash. Offsets are multiples of a
    // sector, so a hash that is only a product would leave most shards empty.
    Cache::with(items, bytes, Weight, FixedState::default(), Default::default())
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
    fn caches_fill_to_their_sizes() {
        let cache = GroupCache::new(4 << 20, 2 << 20);
        for group in 0..4096 {
            let key = (group * 5 * SECTOR_BYTES, 3);
            cache.unpacked.insert(key, Bytes::from_static(&[0; 4096]));
            cache.keep(key, Bytes::from_static(&[0; 2048]));
        }
        let (unpacked, stored) = cache.bytes();
        assert!((7 << 19..=4 << 20).contains(&unpacked), "{unpacked} of 4 MiB are used");
        assert!((7 << 18..=2 << 20).contains(&stored), "{stored} of 2 MiB are used");
        let none = GroupCache::new(4 << 20, 0);
        none.keep((0, 3), Bytes::from_static(&[0; 2048]));
        assert_eq!((none.keeps_stored(), none.holds_block(&(0, 3)), none.bytes()), (false, false, (0, 0)));
    }

    #[test]
    fn blocks_read_often_survive_a_scan() {
        let cache = GroupCache::new(0, 1 << 20);
        let block = |number: u64| (number * 4096, 1);
        let hot = 0..100;
        for _ in 0..3 {
            hot.clone().for_each(|number| match cache.block(&block(number)) {
                Some(_) => {}
                None => cache.keep(block(number), vec![0; 4096].into()),
            });
        }
        (1000..20_000).for_each(|number| cache.keep(block(number), vec![0; 4096].into()));
        let left = hot.filter(|number| cache.holds_block(&block(*number))).count();
        assert!(left >= 90, "{left} of 100 are left after 19 000 others");
    }

    #[test]
    fn stored_bytes_are_read_once_and_by_use() {
        let cache = GroupCache::new(0, 1 << 20);
        let bytes = [7; 4096];
        let crc = crc_fast::crc32_iscsi(&bytes);
        let group = StoredGroup { offset: 8192, segment: 0, usage: 5, sectors: 8, blocks: 1, crc };
        let reads = std::cell::Cell::new(0);
        let read = |_: u64, buffer: &mut [u8]| {
            reads.set(reads.get() + 1);
            buffer.fill(7);
            Ok(true)
        };
        let load = |group: StoredGroup, keep| group.load(&cache, keep, &read).unwrap();
        assert_eq!((load(group, Keep::Nothing), reads.get()), (Bytes::from_static(&[7; 4096]), 1));
        load(group, Keep::Stored);
        assert_eq!((load(group, Keep::Stored), reads.get()), (Bytes::from_static(&[7; 4096]), 2));
        let again = StoredGroup { usage: 6, ..group };
        assert_eq!((cache.holds(&group), cache.holds(&again)), (true, false), "the segment was used again");
        load(again, Keep::Stored);
        assert_eq!(reads.get(), 3);
        let damaged = StoredGroup { usage: 7, crc: crc ^ 1, ..group };
        assert_eq!(damaged.load(&cache, Keep::Stored, &read), Err(GroupError::Medium));
        assert!(!cache.holds(&damaged), "damaged bytes are not kept");
    }
}
