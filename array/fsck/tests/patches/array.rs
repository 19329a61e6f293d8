//! A checkpoint with patches that is made by hand: each byte of the patches and of their list in
//! the manifest is the test's own.

use blockmap::{INTERIOR_REFS, LEAF_REFS, Ref, SLOTS_PER_PAGE, Slot, SlotBytes, SlotId, SlotPlace};
use bytes::Bytes;
use ondisk::{
    ArrayGeometry, LogPosition, ManifestRun, ManifestSegment, ManifestVolume, PageLocation, SECTOR_BYTES, SegmentFill,
    SegmentWriter, SlotSums, SummaryItem, Superblock, encode_manifest, superblock_offset,
};
use platform::{Disk, Durability};
use std::collections::BTreeMap;
use testing::MemoryDisk;
use types::VolumeId;
use zerocopy::IntoBytes;

pub(crate) const GEOMETRY: ArrayGeometry =
    ArrayGeometry { capacity: (64 << 10) * 34, log_bytes: 64 << 10, segment_bytes: 64 << 10 };
pub(crate) const ARRAY: [u8; 16] = *b"sixteen bytes id";
pub(crate) const VOLUME: VolumeId = VolumeId(1);
/// Number of the checkpoint.
pub(crate) const SEQUENCE: u64 = 7;
/// Segment of the two blocks of data.
pub(crate) const DATA_SEGMENT: u32 = 0;
/// Segments of all metadata.
pub(crate) const METADATA_SEGMENT: u32 = 1;
pub(crate) const MIRROR_SEGMENT: u32 = 2;
pub(crate) const LEAF: SlotId = SlotId { slot: 256, generation: 3 };
pub(crate) const INTERIOR: SlotId = SlotId { slot: 257, generation: 0 };

/// Reference to a block of data, 0 or 1.
pub(crate) fn data(slot: u64) -> Ref {
    Ref::data(SlotId { slot, generation: 0 })
}

fn block(slot: u8) -> Vec<u8> {
    (0..4096_u32).map(|byte| (byte / 7) as u8 ^ slot).collect()
}

/// The slot of a block of data, 0 or 1.
pub(crate) fn data_slot(number: u8, count: u32) -> Slot {
    let place = SlotPlace::single(DATA_SEGMENT, u16::from(number) * 8, 8);
    Slot { count, generation: 0, crc: crc32c::crc32c(&block(number)), place: Some(place), names: None }
}

/// Pages as they are stored, without patches.
#[derive(Clone)]
pub(crate) struct Pages {
    pub(crate) leaf: Vec<(usize, Ref)>,
    /// Slots of page 0.
    pub(crate) slots: Vec<(usize, Slot)>,
}

impl Pages {
    /// The volume has one block.
    pub(crate) fn old() -> Self {
        Self { leaf: vec![(0, data(0))], slots: vec![(0, data_slot(0, 1))] }
    }

    /// The volume has three blocks, the last two of the same content.
    pub(crate) fn new() -> Self {
        let leaf = vec![(0, data(0)), (1, data(1)), (2, data(1))];
        Self { leaf, slots: vec![(0, data_slot(0, 1)), (1, data_slot(1, 2))] }
    }
}

/// A patch from its fields.
pub(crate) fn patch(kind: u8, what: u8, count: u16, name: [u8; 8], entries: &[Vec<u8>]) -> Vec<u8> {
    [&[kind, what][..], &count.to_le_bytes(), &name, &entries.concat()].concat()
}

pub(crate) fn page_name(page: u32, free: u16) -> [u8; 8] {
    let ([a, b, c, d], [low, high]) = (page.to_le_bytes(), free.to_le_bytes());
    [a, b, c, d, low, high, 1, 0]
}

pub(crate) fn slots_patch(page: u32, free: u16, slots: &[(u8, Slot)]) -> Vec<u8> {
    let entry = |(index, slot): &(u8, Slot)| [&[*index][..], SlotBytes::from(*slot).as_bytes()].concat();
    patch(1, 0, slots.len() as u16, page_name(page, free), &slots.iter().map(entry).collect::<Vec<_>>())
}

pub(crate) fn leaf_patch(leaf: SlotId, references: &[(u8, Ref)]) -> Vec<u8> {
    let entry = |(index, to): &(u8, Ref)| [&[*index][..], &to.to_bits().to_le_bytes()].concat();
    let name = Ref::page(leaf).to_bits().to_le_bytes();
    patch(2, 0, references.len() as u16, name, &references.iter().map(entry).collect::<Vec<_>>())
}

pub(crate) fn interior_patch(page: SlotId, entries: &[(u16, Ref, u64)]) -> Vec<u8> {
    let entry = |(index, to, mapped): &(u16, Ref, u64)| {
        [&index.to_le_bytes()[..], &to.to_bits().to_le_bytes(), &(1 << 56 | mapped).to_le_bytes()].concat()
    };
    let name = Ref::page(page).to_bits().to_le_bytes();
    patch(3, 0, entries.len() as u16, name, &entries.iter().map(entry).collect::<Vec<_>>())
}

pub(crate) fn void_interior(page: SlotId) -> Vec<u8> {
    patch(3, 1, 0, Ref::page(page).to_bits().to_le_bytes(), &[])
}

pub(crate) fn void_leaf(leaf: SlotId) -> Vec<u8> {
    patch(2, 1, 0, Ref::page(leaf).to_bits().to_le_bytes(), &[])
}

pub(crate) fn void_slots(page: u32) -> Vec<u8> {
    patch(1, 1, 0, page_name(page, 0), &[])
}

/// The content of the parts of patch lists.
pub(crate) type Lists = Vec<(u64, Vec<Vec<u8>>)>;

/// The lists that make [`Pages::new`] of [`Pages::old`].
pub(crate) fn lists() -> Lists {
    let first = [slots_patch(0, 254, &[(1, data_slot(1, 1))]), leaf_patch(LEAF, &[(1, data(1))])].concat();
    let second = vec![slots_patch(0, 254, &[(1, data_slot(1, 2))]), leaf_patch(LEAF, &[(2, data(1))])];
    vec![(5, vec![first]), (6, second)]
}

/// Statements of the manifest, before it is stored.
pub(crate) struct Draft {
    pub(crate) slot_pages: u32,
    pub(crate) segments: Vec<Option<ManifestSegment>>,
    /// Sequence, and segment, sector, bytes and checksum of each part.
    pub(crate) lists: Vec<(u64, Vec<[u32; 4]>)>,
    /// The encoded lists, in place of [`Draft::lists`].
    pub(crate) encoded: Option<Vec<u8>>,
    pub(crate) has_patches: bool,
    pub(crate) has_interior_patches: bool,
}

impl Draft {
    fn encode_lists(&self) -> Vec<u8> {
        let mut out = (self.lists.len() as u64).to_le_bytes().to_vec();
        for (sequence, parts) in &self.lists {
            out.extend(sequence.to_le_bytes());
            out.extend((parts.len() as u32).to_le_bytes());
            out.extend(parts.as_flattened().iter().flat_map(|word| word.to_le_bytes()));
        }
        out
    }

    fn encode(&self, directory: PageLocation) -> Vec<u8> {
        let root = Ref::page(INTERIOR).to_bits();
        let volume = ManifestVolume { id: VOLUME, blocks: 8192, root, height: 1, mapped: 3 };
        let sums = SlotSums { shared_sectors: 8, ..SlotSums::default() };
        let (segments, values) = (self.segments.iter().copied(), BTreeMap::new());
        let mut out = encode_manifest(self.slot_pages, Some(sums), 3, &[volume], &values, segments, &[directory], &[]);
        if self.has_patches {
            out[8] = 7;
            out.extend(self.encoded.clone().unwrap_or_else(|| self.encode_lists()));
            // No streams.
            out.extend([0; 8]);
        }
        out
    }

    pub(crate) fn metadata(&mut self) -> &mut ManifestSegment {
        self.segments[METADATA_SEGMENT as usize].as_mut().unwrap()
    }
}

/// Writes to a segment and to its mirror.
fn write(disk: &MemoryDisk, segment: u32, sector: u32, bytes: &[u8]) {
    let mirror = (segment == METADATA_SEGMENT).then_some(MIRROR_SEGMENT);
    for segment in std::iter::once(segment).chain(mirror) {
        disk.write_at(GEOMETRY.sector_start(segment, sector), &[bytes], Durability::Durable).unwrap();
    }
}

fn writer(segment: u32, usage: u64) -> SegmentWriter {
    SegmentWriter::new(ARRAY, GEOMETRY, SegmentFill { segment, usage, sectors: 0, summary: None })
}

/// Writes the open chunk of a segment, and returns the segment's account.
fn cut(disk: &MemoryDisk, writer: &mut SegmentWriter, live: u32, mirror: Option<u32>) -> ManifestSegment {
    let chunk = writer.cut().unwrap();
    write(disk, writer.segment(), 0, &chunk.data.concat());
    let SegmentFill { usage, sectors, summary, .. } = writer.fill();
    ManifestSegment { mirror, live, sectors, summary, usage }
}

fn page(writer: &mut SegmentWriter, item: SummaryItem, bytes: Vec<u8>) -> (SlotPlace, u32) {
    let crc = crc32c::crc32c(&bytes);
    let (sector, sectors) = writer.append(item, &Bytes::from(bytes), crc).unwrap();
    (SlotPlace::single(writer.segment(), sector, sectors), crc)
}

fn slot_page(slots: &[(usize, Slot)]) -> Vec<u8> {
    let mut all = [SlotBytes::unused(); SLOTS_PER_PAGE];
    slots.iter().for_each(|(index, slot)| all[*index] = SlotBytes::from(*slot));
    all.as_bytes().to_vec()
}

fn map_pages(pages: &Pages) -> (Vec<u8>, Vec<u8>) {
    let mut leaf = [Ref::HOLE; LEAF_REFS];
    pages.leaf.iter().for_each(|(index, to)| leaf[*index] = *to);
    let leaf = leaf.iter().flat_map(|to| to.to_bits().to_le_bytes()).collect();
    // Three blocks below the first entry; all entries are of a page of level 1.
    let mut interior = [[0, 1 << 56]; INTERIOR_REFS];
    interior[0] = [Ref::page(LEAF).to_bits(), 1 << 56 | 3];
    (leaf, interior.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// Stores the two blocks of data, and returns the account of their segment.
fn store_data(disk: &MemoryDisk) -> ManifestSegment {
    let mut blocks = writer(DATA_SEGMENT, 1);
    for slot in 0..2_u8 {
        let item = SummaryItem::Slot(data(slot.into()).to_bits());
        let crc = crc32c::crc32c(&block(slot));
        blocks.append_group(&[(item, u128::from(slot) + 1)], &block(slot).into(), crc).unwrap();
    }
    cut(disk, &mut blocks, 16, None)
}

/// Stores the pages, and returns the location of the directory and the account of the segment.
fn store_pages(disk: &MemoryDisk, metadata: &mut SegmentWriter, pages: &Pages) -> (PageLocation, ManifestSegment) {
    let (leaf, interior) = map_pages(pages);
    let stored = [(LEAF, leaf), (INTERIOR, interior)].map(|(id, bytes)| {
        let (place, crc) = page(metadata, SummaryItem::Slot(Ref::page(id).to_bits()), bytes);
        let slot = Slot { count: 1, generation: id.generation, crc, place: Some(place), names: None };
        (id.slot as usize - SLOTS_PER_PAGE, slot)
    });
    let table = [slot_page(&pages.slots), slot_page(&stored)].into_iter().zip(0..);
    let locations = table.map(|(bytes, number)| {
        let free = bytes.chunks(16).filter(|slot| slot[12..] == [0; 4]).count() as u16;
        let (place, crc) = page(metadata, SummaryItem::SlotPage(number), bytes);
        location(place, crc, free)
    });
    let mut directory = Vec::new();
    locations.for_each(|location| location.encode(&mut directory));
    directory.resize(4096, 0);
    let (place, crc) = page(metadata, SummaryItem::DirectoryPage(0), directory);
    // A leaf, an interior page, two pages of the slot table, and the directory.
    (location(place, crc, 0), cut(disk, metadata, 4 + 32 + 2 * 8 + 8, Some(MIRROR_SEGMENT)))
}

fn location(place: SlotPlace, crc: u32, free: u16) -> PageLocation {
    let SlotPlace { segment, sector, sectors, .. } = place;
    PageLocation { segment, sector: sector.into(), sectors: sectors.into(), free, used_for: 1, crc }
}

/// Makes an array whose checkpoint has these pages and patch lists. `edit` may change the manifest
/// before it is stored.
pub(crate) fn make(pages: &Pages, lists: &Lists, edit: impl FnOnce(&mut Draft)) -> MemoryDisk {
    let disk = MemoryDisk::new(GEOMETRY.capacity);
    let mut segments = vec![None; GEOMETRY.segments() as usize];
    segments[DATA_SEGMENT as usize] = Some(store_data(&disk));
    let mut metadata = writer(METADATA_SEGMENT, 2);
    let (directory, account) = store_pages(&disk, &mut metadata, pages);
    segments[METADATA_SEGMENT as usize] = Some(account);
    let mut draft = Draft {
        slot_pages: 2,
        segments,
        lists: Vec::new(),
        encoded: None,
        has_patches: true,
        has_interior_patches: true,
    };
    for (sequence, parts) in lists {
        let parts = parts.iter().map(|bytes| {
            let sector = metadata.append_unlisted(bytes.len()).unwrap();
            write(&disk, METADATA_SEGMENT, sector, bytes);
            draft.metadata().live += (bytes.len() as u64).div_ceil(SECTOR_BYTES) as u32;
            [METADATA_SEGMENT, sector, bytes.len() as u32, crc32c::crc32c(bytes)]
        });
        let parts = parts.collect();
        draft.lists.push((*sequence, parts));
    }
    draft.metadata().sectors = metadata.fill().sectors;
    edit(&mut draft);
    let manifest = draft.encode(directory);
    let sector = metadata.append_unlisted(manifest.len()).unwrap();
    write(&disk, METADATA_SEGMENT, sector, &manifest);
    let (length, crc) = (manifest.len() as u32, crc32c::crc32c(&manifest));
    let superblock = Superblock {
        array: ARRAY,
        sequence: SEQUENCE,
        geometry: GEOMETRY,
        log: LogPosition { head: 0, sequence: 1, lsn: 1, epoch: 1, previous: 0 },
        has_streams: false,
        has_patches: true,
        has_interior_patches: draft.has_interior_patches,
        manifest: vec![ManifestRun::new(METADATA_SEGMENT, MIRROR_SEGMENT, sector, length, crc)],
    };
    for copy in 0..4 {
        disk.write_at(superblock_offset(copy), &[&superblock.encode(copy)], Durability::Durable).unwrap();
    }
    disk
}

/// The current superblock.
pub(crate) fn superblock(disk: &MemoryDisk) -> Superblock {
    let image = disk.image();
    let copies = std::array::from_fn(|copy| image[superblock_offset(copy) as usize..][..4096].to_vec());
    Superblock::choose(&copies).unwrap()
}
