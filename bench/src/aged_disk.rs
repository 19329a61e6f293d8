//! An array as random overwrites leave it, of any size, on a disk that computes its contents.
//!
//! One volume is fully mapped with distinct blocks. Block, slot and place on the disk are
//! bijections of each other that look random, and a part of each data segment is dead, so nothing
//! that is adjacent in one is adjacent in another. Blocks, leaves, pages of the slot table and
//! summaries are computed when they are read; only their checksums, the upper levels and later
//! writes are kept in memory.

mod blocks;
mod packed;
mod shuffle;

use blockmap::{INTERIOR_REFS, LEAF_REFS, Ref, SLOT_PAGE_BYTES, SLOTS_PER_PAGE, Slot, SlotBytes, SlotId, SlotPlace};
use blocks::{BLOCK, Block, Blocks};
use bytes::Bytes;
use ondisk::{
    ArrayGeometry, DIRECTORY_PAGE_BYTES, LOCATIONS_PER_PAGE, LogPosition, ManifestRun, ManifestSegment, ManifestVolume,
    PageLocation, SECTOR_BYTES, SUPERBLOCK_COPIES, SegmentFill, SegmentWriter, SlotSums, SummaryEntry, SummaryId,
    SummaryItem, Superblock, encode_manifest, encode_summary, summary_bytes, superblock_offset,
};
use packed::{pack, unpack};
use parking_lot::{Mutex, RwLock};
use platform::{Disk, DiskError, Durability, clock};
use shuffle::Shuffle;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;
use testing::MemoryDisk;
use types::{LBAS_PER_BLOCK, VolumeId};
use zerocopy::IntoBytes;

const SECTORS_PER_BLOCK: u32 = 8;
const SLOTS: u64 = SLOTS_PER_PAGE as u64;
/// Sectors of the items in a chunk.
const CHUNK_SECTORS: u32 = 2048;
/// As many as a drive with many queues serves at once.
const PARALLEL_READS: usize = 128;
const ARRAY: [u8; 16] = [7; 16];
/// The volume of the array.
pub const VOLUME: VolumeId = VolumeId(1);
/// A generation that no slot of the array has, for dead entries of summaries.
const DEAD_GENERATION: u16 = 1;

/// Segments of items of one length, in chunks of 1 MiB with a summary each.
#[derive(Clone, Copy)]
struct Region {
    first: u32,
    segments: u32,
    item_sectors: u32,
    segment_sectors: u32,
}

impl Region {
    fn new(first: u32, items: u64, item_sectors: u32, geometry: &ArrayGeometry) -> Self {
        let mut region = Self { first, segments: 0, item_sectors, segment_sectors: geometry.segment_sectors() };
        region.segments = items.div_ceil(region.per_segment()) as u32;
        region
    }

    fn per_chunk(&self) -> u32 {
        CHUNK_SECTORS / self.item_sectors
    }

    fn chunk_sectors(&self) -> u32 {
        CHUNK_SECTORS + (summary_bytes(self.per_chunk() as usize) as u64 / SECTOR_BYTES) as u32
    }

    fn chunks(&self) -> u32 {
        self.segment_sectors / self.chunk_sectors()
    }

    fn per_segment(&self) -> u64 {
        u64::from(self.chunks() * self.per_chunk())
    }

    fn items(&self) -> u64 {
        u64::from(self.segments) * self.per_segment()
    }

    fn end(&self) -> u32 {
        self.first + self.segments
    }

    fn place(&self, item: u64) -> SlotPlace {
        let (segment, rest) = (self.first + (item / self.per_segment()) as u32, (item % self.per_segment()) as u32);
        let (chunk, index) = (rest / self.per_chunk(), rest % self.per_chunk());
        let sector = chunk * self.chunk_sectors() + index * self.item_sectors;
        SlotPlace::single(segment, sector as u16, self.item_sectors as u8)
    }

    fn summary(&self, chunk: u32) -> u32 {
        chunk * self.chunk_sectors() + CHUNK_SECTORS
    }

    /// The account of a segment with `live` sectors in use.
    fn account(&self, segment: u32, live: u32, mirror: Option<u32>) -> ManifestSegment {
        let chunks = self.chunks();
        let (sectors, summary) = (chunks * self.chunk_sectors(), Some(self.summary(chunks - 1)));
        ManifestSegment { mirror, live, sectors, summary, usage: u64::from(segment) + 1 }
    }
}

/// Contents of a segment.
enum Kind {
    Data,
    Leaves,
    Slots,
    Other,
}

/// Bytes that were written to a block of the disk.
enum Written {
    /// The block of this number, see [`crate::noise_block`].
    Noise(u64),
    Bytes(Box<Block>),
    /// Bytes that [`AgedDisk::compact`] has compressed. Both copies of metadata share them.
    Packed(Arc<[u8]>),
}

/// A disk with an aged array. Keeps writes in memory, [`crate::noise_block`]s in a few
/// bytes.
pub struct AgedDisk {
    geometry: ArrayGeometry,
    /// Superblocks and log.
    head: MemoryDisk,
    blocks: Blocks,
    /// Slot of a block of the volume, and place of a slot.
    slot_of: Shuffle,
    place_of: Shuffle,
    data: Region,
    leaves: Region,
    slots: Region,
    leaf_count: u64,
    leaf_crcs: Vec<u32>,
    slot_crcs: Vec<u32>,
    /// Slots of pages above the leaves, and of none.
    upper: BTreeMap<u64, Slot>,
    written: RwLock<HashMap<u64, Written>>,
    /// Memory for blocks, see [`AgedDisk::provide`].
    spare: Mutex<Vec<Box<Block>>>,
    /// Blocks that were written since [`AgedDisk::compact`].
    recent: Mutex<Vec<u64>>,
    /// Reads, their bytes, and the time that each takes in microseconds.
    reads: AtomicU64,
    read_bytes: AtomicU64,
    read_micros: AtomicU64,
    /// Nanoseconds of processor time that reads and writes took.
    cpu_nanos: AtomicU64,
    /// Writes are lost.
    is_off: AtomicBool,
}

impl AgedDisk {
    /// Makes an array whose volume has `gib` GiB, a power of two of at least 8, which take `full`
    /// of its data segments.
    pub fn new(gib: u64, full: f64) -> Self {
        let count = gib << 18;
        let places = (count as f64 / full) as u64;
        // A sixteenth of each segment stays unused, metadata takes less than 2 %, twice, and the
        // log at most 2 GiB; a tenth is free.
        let capacity = (((places << 12) as f64 * 1.2) as u64 + (2 << 30)) >> 24 << 24;
        let geometry = ArrayGeometry::for_capacity(capacity).expect("a geometry");
        let data = Region::new(0, places, SECTORS_PER_BLOCK, &geometry);
        let leaf_count = count / LEAF_REFS as u64;
        let leaves = Region::new(data.end(), leaf_count, 4, &geometry);
        let upper_pages = upper_levels(leaf_count).iter().sum::<u64>();
        let table = (count + leaf_count + upper_pages).div_ceil(SLOTS);
        let slots = Region::new(leaves.end() + leaves.segments, table, SECTORS_PER_BLOCK, &geometry);
        let mut disk = Self {
            geometry,
            head: MemoryDisk::new(geometry.segment_start(0)),
            blocks: Blocks::new(),
            slot_of: Shuffle::new(count, 3),
            place_of: Shuffle::new(data.items(), 5),
            data,
            leaves,
            slots,
            leaf_count,
            leaf_crcs: Vec::new(),
            slot_crcs: Vec::new(),
            upper: BTreeMap::new(),
            written: RwLock::default(),
            spare: Mutex::default(),
            recent: Mutex::default(),
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            read_micros: AtomicU64::new(0),
            cpu_nanos: AtomicU64::new(0),
            is_off: AtomicBool::new(false),
        };
        disk.leaf_crcs = in_parts(leaf_count, |leaf| crc_fast::crc32_iscsi(&disk.leaf(leaf)));
        disk.store_checkpoint(table);
        disk
    }

    /// The geometry of the array.
    pub fn geometry(&self) -> ArrayGeometry {
        self.geometry
    }

    /// Blocks of 4 KiB of the volume.
    pub fn volume_blocks(&self) -> u64 {
        self.slot_of.size
    }

    /// Makes each read take `time` longer.
    pub fn set_read_time(&self, time: Duration) {
        self.read_micros.store(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// Returns and resets the number of reads and of bytes read.
    pub fn take_reads(&self) -> (u64, u64) {
        (self.reads.swap(0, Ordering::Relaxed), self.read_bytes.swap(0, Ordering::Relaxed))
    }

    /// Returns the processor time that reads and writes have taken. A real drive takes none.
    pub fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.cpu_nanos.load(Ordering::Relaxed))
    }

    /// Counts the processor time of an operation of the drive.
    fn timed<T>(&self, run: impl FnOnce() -> T) -> T {
        let begin = clock::thread_cpu_time();
        let result = run();
        let nanos = (clock::thread_cpu_time() - begin).as_nanos() as u64;
        self.cpu_nanos.fetch_add(nanos, Ordering::Relaxed);
        result
    }

    /// Loses all writes from now on, as a machine that fails does, until [`AgedDisk::power_on`].
    pub fn power_off(&self) {
        self.is_off.store(true, Ordering::Release);
    }

    /// Keeps writes again.
    pub fn power_on(&self) {
        self.is_off.store(false, Ordering::Release);
    }

    fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Acquire)
    }

    /// Takes memory for `bytes` bytes of writes from the system, which takes long, ahead of them.
    pub fn provide(&self, bytes: u64) {
        let mut spare = self.spare.lock();
        while ((spare.len() * BLOCK) as u64) < bytes {
            spare.push(Box::new([1; BLOCK]));
        }
    }

    /// Compresses the blocks that were written since the last call. Writes do not, because it takes
    /// time.
    pub fn compact(&self) {
        let recent = std::mem::take(&mut *self.recent.lock());
        let mut known: HashSet<Arc<[u8]>> = HashSet::new();
        for number in recent {
            let mut written = self.written.write();
            // It may have been released in between.
            let Some(now) = written.get_mut(&number) else { continue };
            let Written::Bytes(block) = now else { continue };
            let packed = pack(block);
            let shared = known.get(&packed[..]).cloned().unwrap_or_else(|| Arc::from(packed));
            known.insert(shared.clone());
            *now = Written::Packed(shared);
        }
        self.written.write().shrink_to_fit();
    }

    /// Waits as a slow drive does.
    #[allow(clippy::disallowed_methods, reason = "the drive is slow on purpose")]
    fn delay(micros: u64) {
        if micros > 0 {
            sleep(Duration::from_micros(micros));
        }
    }

    /// Stores the upper levels of the map, the slot directory, the manifest and the superblocks.
    fn store_checkpoint(&mut self, table: u64) {
        let count = self.volume_blocks();
        let mut writer = Writer::new(self, self.slots.end() + self.slots.segments);
        // The level below: the slot of its first page, and blocks below each of its pages.
        let (mut first, mut below) = (count, LEAF_REFS as u64);
        let mut level_pages = self.leaf_count;
        let mut height = 0;
        for pages in upper_levels(self.leaf_count) {
            height += 1;
            let start = first + level_pages;
            for page in 0..pages {
                let mut bytes = Vec::with_capacity(INTERIOR_REFS * 16);
                for entry in page * INTERIOR_REFS as u64..(page + 1) * INTERIOR_REFS as u64 {
                    let is_page = entry < level_pages;
                    let reference = if is_page { Ref::page(slot_id(first + entry)) } else { Ref::HOLE };
                    let mapped = if is_page { below.min(count - entry * below) } else { 0 };
                    bytes.extend_from_slice(&reference.to_bits().to_le_bytes());
                    bytes.extend_from_slice(&(mapped | u64::from(height) << 56).to_le_bytes());
                }
                let slot = start + page;
                let (place, crc) = writer.store(SummaryItem::Slot(Ref::page(slot_id(slot)).to_bits()), bytes);
                self.upper.insert(slot, Slot { count: 1, generation: 0, crc, place: Some(place), names: None });
            }
            (first, level_pages, below) = (start, pages, below * INTERIOR_REFS as u64);
        }
        let root = Ref::page(slot_id(first));
        let directory = self.store_directory(table, first + 1, &mut writer);
        let (upper, stored) = writer.finish();
        stored.into_iter().for_each(|(offset, bytes)| self.keep(offset, &[&bytes]));
        let volume =
            ManifestVolume { id: VOLUME, blocks: count * LBAS_PER_BLOCK, root: root.to_bits(), height, mapped: count };
        self.store_manifest(volume, table, &upper, &directory);
    }

    /// Stores the slot directory. Slots from `used` on are free.
    fn store_directory(&mut self, table: u64, used: u64, writer: &mut Writer) -> Vec<PageLocation> {
        let this = &*self;
        self.slot_crcs = in_parts(table, |page| crc_fast::crc32_iscsi(&this.slot_page(page)));
        let mut directory = Vec::new();
        for (number, crcs) in self.slot_crcs.chunks(LOCATIONS_PER_PAGE).enumerate() {
            let mut bytes = Vec::with_capacity(DIRECTORY_PAGE_BYTES);
            for (page, crc) in ((number * LOCATIONS_PER_PAGE) as u64..).zip(crcs) {
                let place = self.slots.place(page);
                let free = (SLOTS * (page + 1)).saturating_sub(used).min(SLOTS) as u16;
                // Pages of data, or of the map.
                let used_for = if page * SLOTS < self.volume_blocks() { 1 } else { 2 };
                location(place, *crc, (free, used_for)).encode(&mut bytes);
            }
            bytes.resize(DIRECTORY_PAGE_BYTES, 0);
            let (place, crc) = writer.store(SummaryItem::DirectoryPage(number as u64), bytes);
            directory.push(location(place, crc, (0, 0)));
        }
        directory
    }

    /// Stores the manifest in free segments, and the superblocks.
    fn store_manifest(
        &self,
        volume: ManifestVolume,
        table: u64,
        upper: &BTreeMap<u32, ManifestSegment>,
        directory: &[PageLocation],
    ) {
        let segments = self.accounts(table, upper);
        let free = segments.iter().rposition(Option::is_some).expect("segments in use") as u32 + 2;
        let sums = Some(SlotSums::default());
        let next_usage = u64::from(self.geometry.segments()) + 1;
        let (volumes, values, segments) = ([volume], BTreeMap::new(), segments.into_iter());
        let manifest = encode_manifest(table as u32, sums, next_usage, &volumes, &values, segments, directory, &[]);
        let segment_bytes = self.geometry.segment_bytes as usize;
        let runs = (0..).zip(manifest.chunks(segment_bytes)).map(|(number, part)| {
            let segment = free + 2 * number;
            for copy in [segment, segment + 1] {
                self.keep(self.geometry.segment_start(copy), &[part]);
            }
            ManifestRun::new(segment, segment + 1, 0, part.len() as u32, crc_fast::crc32_iscsi(part))
        });
        let superblock = Superblock {
            array: ARRAY,
            sequence: 1,
            geometry: self.geometry,
            log: LogPosition { head: 0, sequence: 1, lsn: 1, epoch: 2, previous: 0 },
            has_streams: false,
            has_patches: false,
            has_interior_patches: false,
            manifest: runs.collect(),
        };
        for copy in 0..SUPERBLOCK_COPIES {
            let bytes = superblock.encode(copy);
            self.head.write_at(superblock_offset(copy), &[&bytes], Durability::Durable).expect("in memory");
        }
    }

    /// The accounts of all segments. Those with the upper levels are in `upper`.
    fn accounts(&self, table: u64, upper: &BTreeMap<u32, ManifestSegment>) -> Vec<Option<ManifestSegment>> {
        let mut live = vec![0; self.data.segments as usize];
        for part in in_parts_by(self.volume_blocks(), |range| {
            let mut live = vec![0_u32; self.data.segments as usize];
            for slot in range {
                live[(self.place_of.of(slot) / self.data.per_segment()) as usize] += SECTORS_PER_BLOCK;
            }
            live
        }) {
            live.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
        let mut segments = vec![None; self.geometry.segments() as usize];
        for (segment, live) in (self.data.first..).zip(live) {
            segments[segment as usize] = Some(self.data.account(segment, live, None));
        }
        for (region, items) in [(self.leaves, self.leaf_count), (self.slots, table)] {
            for segment in region.first..region.end() {
                let before = u64::from(segment - region.first) * region.per_segment();
                let live = (items - before).min(region.per_segment()) as u32 * region.item_sectors;
                segments[segment as usize] = Some(region.account(segment, live, Some(segment + region.segments)));
            }
        }
        upper.iter().for_each(|(segment, account)| segments[*segment as usize] = Some(*account));
        segments
    }

    /// Keeps bytes that begin at a block of the disk.
    fn keep(&self, offset: u64, parts: &[&[u8]]) {
        let mut at = (offset - self.geometry.segment_start(0)) / BLOCK as u64;
        let (mut block, mut length) = ([0; BLOCK], 0);
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(BLOCK - length));
                block[length..length + now.len()].copy_from_slice(now);
                (length, rest) = (length + now.len(), later);
                if length == BLOCK {
                    self.keep_block(at, &block);
                    (at, length) = (at + 1, 0);
                }
            }
        }
        block[length..].fill(0);
        if length > 0 {
            self.keep_block(at, &block);
        }
    }

    fn keep_block(&self, at: u64, block: &Block) {
        let seed = block.first_chunk().map_or(0, |seed| u64::from_le_bytes(*seed));
        let is_noise = seed >> 60 == 0 && crate::noise_block(seed) == block;
        let kept = match is_noise {
            true => Written::Noise(seed),
            false => {
                let mut kept = self.spare.lock().pop().unwrap_or_else(|| Box::new([0; BLOCK]));
                kept.copy_from_slice(block);
                self.recent.lock().push(at);
                Written::Bytes(kept)
            }
        };
        self.written.write().insert(at, kept);
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        let start = self.geometry.segment_start(0);
        if offset < start {
            return self.head.read_at(offset, buffer);
        }
        if offset + buffer.len() as u64 > self.geometry.capacity {
            return Err(DiskError::Io("access beyond the end of the disk".into()));
        }
        let (mut at, mut rest) = (offset - start, buffer);
        while !rest.is_empty() {
            let (number, from) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
            let (part, after) = rest.split_at_mut(rest.len().min(BLOCK - from));
            let known = match self.written.read().get(&number) {
                Some(Written::Bytes(block)) => {
                    part.copy_from_slice(&block[from..from + part.len()]);
                    None
                }
                Some(Written::Noise(seed)) => Some(crate::noise_block(*seed)),
                Some(Written::Packed(packed)) => Some(unpack(packed)),
                None => {
                    let segment = (number * BLOCK as u64 / self.geometry.segment_bytes) as u32;
                    let sector = (number * BLOCK as u64 % self.geometry.segment_bytes / SECTOR_BYTES) as u32;
                    Some(if segment < self.geometry.segments() {
                        self.computed(segment, sector)
                    } else {
                        vec![0; BLOCK]
                    })
                }
            };
            if let Some(block) = known {
                part.copy_from_slice(&block[from..from + part.len()]);
            }
            (at, rest) = (at + part.len() as u64, after);
        }
        Ok(())
    }

    fn leaf(&self, leaf: u64) -> Vec<u8> {
        let first = leaf * LEAF_REFS as u64;
        let reference = |block| Ref::data(slot_id(self.slot_of.of(block))).to_bits().to_le_bytes();
        (first..first + LEAF_REFS as u64).flat_map(reference).collect()
    }

    fn slot(&self, number: u64) -> Slot {
        let count = self.volume_blocks();
        let used = |place, crc| Slot { count: 1, generation: 0, crc, place: Some(place), names: None };
        if number < count {
            return used(self.data.place(self.place_of.of(number)), self.blocks.crc(number));
        }
        let leaf = number - count;
        if leaf < self.leaf_count {
            return used(self.leaves.place(leaf), self.leaf_crcs[leaf as usize]);
        }
        let free = Slot { count: 0, generation: 0, crc: 0, place: None, names: None };
        self.upper.get(&number).copied().unwrap_or(free)
    }

    fn slot_page(&self, page: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SLOT_PAGE_BYTES);
        for number in page * SLOTS..(page + 1) * SLOTS {
            bytes.extend_from_slice(SlotBytes::from(self.slot(number)).as_bytes());
        }
        bytes
    }

    /// The region of a segment, or of that whose mirror it is, and that segment.
    fn kind(&self, segment: u32) -> (Kind, Region, u32) {
        let (data, leaves, slots) = (self.data, self.leaves, self.slots);
        let original = |region: Region| if segment < region.end() { segment } else { segment - region.segments };
        match segment {
            _ if segment < data.end() => (Kind::Data, data, segment),
            _ if segment < leaves.end() + leaves.segments => (Kind::Leaves, leaves, original(leaves)),
            _ if segment < slots.end() + slots.segments => (Kind::Slots, slots, original(slots)),
            _ => (Kind::Other, slots, segment),
        }
    }

    /// The bytes of a block of the disk that was never written.
    fn computed(&self, segment: u32, sector: u32) -> Vec<u8> {
        let (kind, region, original) = self.kind(segment);
        let (chunk, at) = (sector / region.chunk_sectors(), sector % region.chunk_sectors());
        if matches!(kind, Kind::Other) || chunk >= region.chunks() {
            return vec![0; BLOCK];
        }
        let before = u64::from(original - region.first) * region.per_segment() + u64::from(chunk * region.per_chunk());
        if at >= CHUNK_SECTORS {
            let entries = (0..region.per_chunk()).map(|index| self.entry(&kind, &region, before + u64::from(index)));
            let id = SummaryId { array: ARRAY, segment: original, usage: u64::from(original) + 1 };
            let previous = chunk.checked_sub(1).map(|chunk| region.summary(chunk));
            let summary = encode_summary(id, previous, &entries.collect::<Vec<_>>());
            return summary[(at - CHUNK_SECTORS) as usize * SECTOR_BYTES as usize..][..BLOCK].to_vec();
        }
        let item = before + u64::from(at / region.item_sectors);
        match kind {
            Kind::Data => self.blocks.block(self.place_of.back(item)).to_vec(),
            Kind::Leaves => (item..item + 2).flat_map(|leaf| self.leaf(leaf.min(self.leaf_count - 1))).collect(),
            Kind::Slots | Kind::Other => self.slot_page(item),
        }
    }

    /// The summary's entry of an item of a region.
    fn entry(&self, kind: &Kind, region: &Region, item: u64) -> SummaryEntry {
        let place = region.place(item);
        let count = self.volume_blocks();
        let dead = SummaryItem::Slot(Ref::data(SlotId { slot: 0, generation: DEAD_GENERATION }).to_bits());
        let (what, crc, fingerprint) = match kind {
            Kind::Data => {
                let slot = self.place_of.back(item);
                let what = if slot < count { SummaryItem::Slot(Ref::data(slot_id(slot)).to_bits()) } else { dead };
                (what, self.blocks.crc(slot), u128::from(slot + 1) << 64 | u128::from(slot))
            }
            Kind::Leaves => match self.leaf_crcs.get(item as usize) {
                Some(crc) => (SummaryItem::Slot(Ref::page(slot_id(count + item)).to_bits()), *crc, 0),
                None => (dead, 0, 0),
            },
            Kind::Slots | Kind::Other => {
                let crc = self.slot_crcs.get(item as usize).copied();
                (SummaryItem::SlotPage(item), crc.unwrap_or_default(), 0)
            }
        };
        SummaryEntry { fingerprint, ..SummaryEntry::single(what, place.sector, place.sectors, crc) }
    }
}

impl Disk for AgedDisk {
    fn size(&self) -> u64 {
        self.geometry.capacity
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        Self::delay(self.read_micros.load(Ordering::Relaxed));
        self.timed(|| self.read(offset, buffer))
    }

    fn parallel_reads(&self) -> usize {
        PARALLEL_READS
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        if self.is_off() {
            return Ok(());
        }
        if offset < self.geometry.segment_start(0) {
            return self.timed(|| self.head.write_at(offset, parts, durability));
        }
        if offset + parts.iter().map(|part| part.len() as u64).sum::<u64>() > self.geometry.capacity {
            return Err(DiskError::Io("access beyond the end of the disk".into()));
        }
        self.timed(|| self.keep(offset, parts));
        Ok(())
    }

    fn flush(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn allocate(&self, _: u64, _: u64) -> Result<(), DiskError> {
        Ok(())
    }

    fn discard(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        if self.is_off() {
            return Ok(());
        }
        if let Some(start) = offset.checked_sub(self.geometry.segment_start(0)) {
            let range = start.div_ceil(BLOCK as u64)..(start + bytes) / BLOCK as u64;
            let mut written = self.written.write();
            range.for_each(|number| drop(written.remove(&number)));
        }
        Ok(())
    }
}

/// Writes pages with their summaries to segments of metadata, each followed by its mirror.
struct Writer {
    geometry: ArrayGeometry,
    open: SegmentWriter,
    live: u32,
    accounts: BTreeMap<u32, ManifestSegment>,
    stored: Vec<(u64, Vec<u8>)>,
}

impl Writer {
    fn new(disk: &AgedDisk, segment: u32) -> Self {
        let geometry = disk.geometry;
        Self { geometry, open: open(geometry, segment), live: 0, accounts: BTreeMap::new(), stored: Vec::new() }
    }

    fn store(&mut self, item: SummaryItem, bytes: Vec<u8>) -> (SlotPlace, u32) {
        let bytes = Bytes::from(bytes);
        let crc = crc_fast::crc32_iscsi(&bytes);
        loop {
            if let Some((sector, sectors)) = self.open.append(item, &bytes, crc) {
                self.live += u32::from(sectors);
                let place = SlotPlace::single(self.open.segment(), sector, sectors);
                if self.open.is_full() {
                    self.cut();
                }
                return (place, crc);
            }
            self.seal();
        }
    }

    fn cut(&mut self) {
        let Some(chunk) = self.open.cut() else { return };
        let (bytes, mirror) = (chunk.data.concat(), self.open.segment() + 1);
        self.stored.push((self.geometry.mirror_offset(chunk.offset, mirror), bytes.clone()));
        self.stored.push((chunk.offset, bytes));
    }

    fn seal(&mut self) {
        self.cut();
        let SegmentFill { segment, usage, sectors, summary } = self.open.fill();
        let mirror = Some(segment + 1);
        self.accounts.insert(segment, ManifestSegment { mirror, live: self.live, sectors, summary, usage });
        (self.open, self.live) = (open(self.geometry, segment + 2), 0);
    }

    fn finish(mut self) -> (BTreeMap<u32, ManifestSegment>, Vec<(u64, Vec<u8>)>) {
        self.seal();
        (self.accounts, self.stored)
    }
}

fn open(geometry: ArrayGeometry, segment: u32) -> SegmentWriter {
    let fill = SegmentFill { segment, usage: u64::from(segment) + 1, sectors: 0, summary: None };
    SegmentWriter::new(ARRAY, geometry, fill)
}

fn slot_id(slot: u64) -> SlotId {
    SlotId { slot, generation: 0 }
}

fn location(place: SlotPlace, crc: u32, (free, used_for): (u16, u8)) -> PageLocation {
    let (sector, sectors) = (u32::from(place.sector), u32::from(place.sectors));
    PageLocation { segment: place.segment, sector, sectors, free, used_for, crc }
}

/// Pages of each level above `leaves` leaves, up to the root.
fn upper_levels(leaves: u64) -> Vec<u64> {
    let mut levels = Vec::new();
    let mut pages = leaves;
    while pages > 1 {
        pages = pages.div_ceil(INTERIOR_REFS as u64);
        levels.push(pages);
    }
    levels
}

/// Computes something of the parts of `0..count`, one for each processor.
fn in_parts_by<T: Send>(count: u64, part: impl Fn(std::ops::Range<u64>) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let part = &part;
    scope(|scope| {
        let ranges = (0..threads).map(|thread| count * thread / threads..count * (thread + 1) / threads);
        let parts: Vec<_> = ranges.map(|range| scope.spawn(move || part(range))).collect();
        parts.into_iter().map(|part| part.join().expect("a part")).collect()
    })
}

/// Computes something of each number below `count`.
fn in_parts(count: u64, one: impl Fn(u64) -> u32 + Sync) -> Vec<u32> {
    in_parts_by(count, |range| range.map(&one).collect::<Vec<u32>>()).concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Core;
    use testing::noise;

    #[test]
    fn shuffle_is_a_bijection() {
        for size in [2, 3, 1000, 1024, 1025] {
            let shuffle = Shuffle::new(size, 7);
            let mut seen: Vec<u64> = (0..size).map(|x| shuffle.of(x)).collect();
            assert!((0..size).all(|x| shuffle.back(shuffle.of(x)) == x), "{size}");
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..size), "{size}");
        }
    }

    #[test]
    fn checksums_of_blocks_are_right() {
        let blocks = Blocks::new();
        for slot in [0, 1, 255, 256, 123_456_789, u64::MAX] {
            assert_eq!(blocks.crc(slot), crc_fast::crc32_iscsi(&blocks.block(slot)));
        }
    }

    #[test]
    fn compacted_blocks_read_as_they_were_written() {
        let disk = AgedDisk::new(8, 0.8);
        let first = disk.geometry.segment_start(disk.geometry.segments() - 1);
        let page = |seed: u64| (0..BLOCK as u64).map(|at| ((at / 16 * seed) >> (at % 16)) as u8).collect::<Vec<u8>>();
        let blocks = [page(1), page(3), page(1), noise(7, BLOCK)];
        disk.write_at(first, &[&blocks.concat()], Durability::Volatile).unwrap();
        disk.discard(first + BLOCK as u64, BLOCK as u64).unwrap();
        disk.compact();
        let packed =
            |at: u64| match disk.written.read().get(&((first - disk.geometry.segment_start(0)) / BLOCK as u64 + at)) {
                Some(Written::Packed(packed)) => packed.clone(),
                _ => panic!("block {at} is not packed"),
            };
        assert!(Arc::ptr_eq(&packed(0), &packed(2)) && packed(0).len() < BLOCK / 2);
        let mut read = vec![0; 4 * BLOCK];
        disk.read_at(first, &mut read).unwrap();
        assert_eq!(read, [&blocks[0][..], &vec![0; BLOCK], &blocks[2], &blocks[3]].concat());
        disk.write_at(first, &[&blocks[3]], Durability::Volatile).unwrap();
        disk.read_at(first, &mut read).unwrap();
        assert_eq!(read[..BLOCK], blocks[3]);
    }

    #[test]
    fn aged_array_is_sound() {
        let disk = AgedDisk::new(8, 0.8);
        let (core, _) = Core::recover(&disk, None).unwrap();
        let report = core.audit(&disk).unwrap();
        assert_eq!((report.pages, report.blocks), (8192 + 8 + 1, 1 << 21));
        let findings = fsck::check(&disk, fsck::FsckOptions { repair: false, check_data: true, threads: 2 }).findings;
        // The array of a test has no owner block.
        let others: Vec<_> = findings.iter().filter(|finding| finding.structure != fsck::Structure::Owner).collect();
        assert!(others.is_empty(), "{:?}", others.iter().take(3).collect::<Vec<_>>());
    }
}
