//! A reader of the on-disk format, written from `docs/format.md` alone, checked against arrays of
//! the engine. It shares only the checksum with the engine.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{ARRAY, MemoryDisk, create, data, run};
use engine::{Change, Core, Gate, NewPeriod, Op, Options, Role};
use ondisk::ArrayGeometry;
use std::collections::BTreeMap;
use types::{BlockRange, Lba, Period, Position, StreamId, VolumeId};

const SMALL: ArrayGeometry =
    ArrayGeometry { capacity: (64 << 10) + (64 << 10) + 16 * (64 << 10), log_bytes: 64 << 10, segment_bytes: 64 << 10 };
const MEDIUM: ArrayGeometry = ArrayGeometry { capacity: 18 << 20, log_bytes: 512 << 10, segment_bytes: 128 << 10 };

/// Reads numbers from the front of a byte string.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }
    fn number(&mut self, length: usize) -> u64 {
        self.bytes(length).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

fn at(bytes: &[u8], offset: usize, length: usize) -> u64 {
    Input(&bytes[offset..]).number(length)
}

struct Volume {
    blocks: u64,
    root: u64,
    height: u64,
    mapped: u64,
}

/// An array as docs/format.md describes it.
struct Reader {
    image: Vec<u8>,
    superblock: Vec<u8>,
    manifest: Vec<u8>,
    volumes: BTreeMap<u64, Volume>,
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Kind, live, sectors, summary, usage.
    segments: Vec<(u64, u64, u64, u64, u64)>,
    /// The segment with the second copy, by the segment with the first.
    mirrors: BTreeMap<u64, u64>,
    slots: Vec<u8>,
    /// The same without patches.
    stored_slots: Vec<u8>,
    patches: Patches,
    may_have_interior_patches: bool,
    drops: Vec<u64>,
    streams: Vec<Stream>,
}

/// The patches that apply, in the order of their lists.
#[derive(Default)]
struct Patches {
    /// Entries by kind and name of the page: index and value.
    entries: BTreeMap<(u64, u64), Vec<(usize, Vec<u8>)>>,
    /// Free slots of pages of the slot table.
    free: BTreeMap<u64, u64>,
    /// Sectors of the parts, by segment.
    sectors: BTreeMap<u64, u64>,
}

impl Patches {
    /// Applies the patches of a part.
    fn read(&mut self, part: &[u8]) {
        let mut part = Input(part);
        while !part.0.is_empty() {
            let (kind, what, count, page) = (part.number(1), part.number(1), part.number(2), part.number(8));
            let size = match kind {
                1 => 16,
                2 => 8,
                3 => 16,
                _ => panic!("kind {kind}"),
            };
            let index = if kind == 3 { 2 } else { 1 };
            let page = if kind == 1 {
                assert!(page >> 32 & 0xFFFF <= 256 && page >> 48 <= 3);
                self.free.insert(page & 0xFFFF_FFFF, page >> 32 & 0xFFFF);
                page & 0xFFFF_FFFF
            } else {
                assert_eq!(page >> 60, 4, "PAGE");
                page
            };
            let entries = self.entries.entry((kind, page)).or_default();
            match what {
                0 => {
                    let added: Vec<_> =
                        (0..count).map(|_| (part.number(index) as usize, part.bytes(size).to_vec())).collect();
                    assert!((1..=256).contains(&count) && added.is_sorted_by(|one, next| one.0 < next.0));
                    entries.extend(added);
                }
                1 => {
                    assert_eq!(count, 0);
                    self.entries.remove(&(kind, page));
                    if kind == 1 {
                        self.free.remove(&page);
                    }
                }
                _ => panic!("what {what}"),
            }
        }
    }

    /// Returns a page with its patches.
    fn apply(&self, kind: u64, page: u64, mut stored: Vec<u8>) -> Vec<u8> {
        for (index, value) in self.entries.get(&(kind, page)).into_iter().flatten() {
            stored[index * value.len()..][..value.len()].copy_from_slice(value);
        }
        stored
    }
}

/// A stream that the manifest lists.
#[derive(Debug, PartialEq)]
struct Stream {
    id: u64,
    flags: u64,
    /// Last, heard, base, unlisted.
    numbers: [u64; 7],
    /// Period, position, and ranges of volume, start and blocks.
    tail: Vec<(u64, u64, Vec<[u64; 3]>)>,
}

impl Reader {
    fn open(image: Vec<u8>) -> Self {
        let superblock = choose(&image);
        let mut reader = Self {
            image,
            superblock,
            manifest: Vec::new(),
            volumes: BTreeMap::new(),
            values: BTreeMap::new(),
            segments: Vec::new(),
            mirrors: BTreeMap::new(),
            slots: Vec::new(),
            stored_slots: Vec::new(),
            patches: Patches::default(),
            may_have_interior_patches: false,
            drops: Vec::new(),
            streams: Vec::new(),
        };
        for run in 0..at(&reader.superblock, 12, 4) as usize {
            let [segment, mirror, sector, bytes, crc] =
                [0, 4, 8, 12, 16].map(|field| at(&reader.superblock, 240 + run * 20 + field, 4));
            reader.mirrors.insert(segment, mirror);
            let part = reader.stored(segment, sector, bytes, crc);
            reader.manifest.extend(part);
        }
        reader.read_manifest();
        reader
    }

    /// Stored bytes, with their checksum verified.
    fn stored(&self, segment: u64, sector: u64, bytes: u64, crc: u64) -> Vec<u8> {
        let [log_bytes, segment_bytes] = [48, 56].map(|field| at(&self.superblock, field, 8));
        assert!(sector * 512 + bytes <= segment_bytes);
        let from = (65536 + log_bytes + segment * segment_bytes + sector * 512) as usize;
        let stored = self.image[from..from + bytes as usize].to_vec();
        assert_eq!(u64::from(crc32c::crc32c(&stored)), crc, "segment {segment} sector {sector}");
        if let Some(mirror) = self.mirrors.get(&segment) {
            assert_ne!(*mirror, segment);
            let from = (65536 + log_bytes + mirror * segment_bytes + sector * 512) as usize;
            assert!(self.image[from..].starts_with(&stored), "the second copy, in segment {mirror}");
        }
        stored
    }

    fn located(&self, location: &[u8]) -> Vec<u8> {
        let mut location = Input(location);
        let (segment, sector, sectors) = (location.number(4), location.number(4), location.number(2));
        let (_free, crc) = (location.number(2), location.number(4));
        assert_eq!(sectors, 8);
        self.stored(segment, sector, 4096, crc)
    }

    fn read_manifest(&mut self) {
        let manifest = self.manifest.clone();
        let mut input = Input(&manifest);
        assert_eq!(input.bytes(8), b"IBIDMAN\0");
        let features = at(&self.superblock, 100, 4);
        let (has_streams, has_patches) = match (at(&self.superblock, 8, 2), input.number(4)) {
            (3, 4) => (false, false),
            (4, 5) => (true, false),
            (5, 7) => (features & 1 != 0, features & 2 != 0),
            other => panic!("versions {other:?}"),
        };
        assert!(features < 8 && has_patches == (features != 0) && (features & 4 == 0 || has_patches));
        self.may_have_interior_patches = features & 4 != 0;
        let (slot_pages, _next_usage) = (input.number(4), input.number(8));
        let (shared_sectors, shared_aliases, near_limit) = (input.number(8), input.number(8), input.number(8));
        for _ in 0..input.number(8) {
            let name = input.number(8);
            let [blocks, root, height, mapped] = std::array::from_fn(|_| input.number(8));
            self.volumes.insert(name, Volume { blocks, root, height, mapped });
        }
        for _ in 0..input.number(8) {
            let length = input.number(4) as usize;
            let key = input.bytes(length).to_vec();
            let length = input.number(4) as usize;
            self.values.insert(key, input.bytes(length).to_vec());
        }
        for segment in 0..input.number(8) {
            let kind = input.number(1);
            let mut field = |length| if kind == 0 { 0 } else { input.number(length) };
            self.segments.push((kind, field(4), field(4), field(4), field(8)));
            if kind == 2 {
                let mirror = input.number(4);
                assert!(self.mirrors.insert(segment, mirror).is_none_or(|named| named == mirror));
            }
        }
        assert!(
            self.mirrors.values().all(|mirror| self.segments[*mirror as usize].0 == 0),
            "mirrors are listed as free"
        );
        let directory = input.number(8);
        assert_eq!(directory, slot_pages.div_ceil(256));
        let locations = input.bytes(directory as usize * 16).chunks(16);
        self.drops = (0..input.number(8)).map(|_| input.number(8)).collect();
        self.read_patch_lists(&mut input, has_patches);
        self.read_slots(slot_pages as usize, locations);
        let streams = if has_streams || has_patches { input.number(8) } else { 0 };
        assert_eq!(streams > 0, has_streams);
        for _ in 0..streams {
            let (id, flags) = (input.number(4), input.number(4));
            let numbers = std::array::from_fn(|_| input.number(8));
            let tail = (0..input.number(8)).map(|_| {
                let (period, position) = (input.number(8), input.number(8));
                let ranges = (0..input.number(8)).map(|_| std::array::from_fn(|_| input.number(8))).collect();
                (period, position, ranges)
            });
            let tail = tail.collect();
            self.streams.push(Stream { id, flags, numbers, tail });
        }
        assert!(input.0.is_empty());
        assert_eq!((shared_sectors, shared_aliases, near_limit), (self.shared_sectors(), self.shared_aliases(), 0));
    }

    fn read_patch_lists(&mut self, input: &mut Input<'_>, has_patches: bool) {
        let lists = if has_patches { input.number(8) } else { 0 };
        assert!(lists > 0 || !has_patches);
        let mut newest = 0;
        for _ in 0..lists {
            let (sequence, parts) = (input.number(8), input.number(4));
            assert!(newest < sequence && sequence <= at(&self.superblock, 32, 8) && parts > 0);
            newest = sequence;
            for _ in 0..parts {
                let [segment, sector, bytes, crc] = std::array::from_fn(|_| input.number(4));
                assert!(sector % 8 == 0 && bytes <= 1 << 20 && self.segments[segment as usize].0 == 2);
                let part = self.stored(segment, sector, bytes, crc);
                self.patches.read(&part);
                let has_interior = self.patches.entries.keys().any(|(kind, _)| *kind == 3);
                assert!(self.may_have_interior_patches || !has_interior);
                *self.patches.sectors.entry(segment).or_default() += bytes.div_ceil(512);
            }
        }
    }

    fn read_slots<'l>(&mut self, mut left: usize, directory: impl Iterator<Item = &'l [u8]>) {
        for (number, location) in directory.enumerate() {
            let page = self.located(location);
            let here = left.min(256);
            for (location, number) in page.chunks(16).take(here).zip(256 * number as u64..) {
                let stored = self.located(location);
                self.stored_slots.extend_from_slice(&stored);
                let page = self.patches.apply(1, number, stored);
                let free = page.chunks(16).filter(|slot| at(slot, 12, 4) == 0).count() as u64;
                let stated = self.patches.free.get(&number).copied();
                assert_eq!(stated.unwrap_or(at(location, 10, 2) & 0xFFF), free, "free slots of the page");
                self.slots.extend(page);
            }
            assert!(page[here * 16..].iter().all(|byte| *byte == 0));
            left -= here;
        }
    }

    /// Sectors of data with several references: the difference of the shares that the blocks up to
    /// and before this one have in the sectors of their group.
    fn shared_sectors(&self) -> u64 {
        let share = |slot: &[u8]| {
            let (word, count) = (at(slot, 0, 8), at(slot, 12, 4));
            let (sectors, index, blocks) = ((word >> 38 & 0x3F) + 1, word >> 58 & 7, (word >> 61) + 1);
            let is_data = self.segments.get((word & 0x3F_FFFF) as usize).is_some_and(|segment| segment.0 == 1);
            if count > 1 && is_data { sectors * (index + 1) / blocks - sectors * index / blocks } else { 0 }
        };
        self.slots.chunks(16).filter(|slot| at(slot, 12, 4) > 1).map(share).sum()
    }

    /// Sectors of metadata in all segments, of pages and parts that this checkpoint names.
    fn metadata_sectors(&self) -> u64 {
        let pages = (self.slots.len() / 4096) as u64;
        let directory = pages.div_ceil(256);
        let is_in_metadata =
            |word: u64| self.segments.get(word as usize & 0x3F_FFFF).is_some_and(|segment| segment.0 == 2);
        let words = self.slots.chunks(16).map(|slot| at(slot, 0, 8)).filter(|word| is_in_metadata(*word));
        let map: u64 = words.map(|word| (word >> 38 & 0x3F) + 1).sum();
        8 * (pages + directory) + map + self.patches.sectors.values().sum::<u64>()
    }

    /// The same, as the accounts of the segments state it.
    fn live_metadata(&self) -> u64 {
        self.segments.iter().filter(|segment| segment.0 == 2).map(|segment| segment.1).sum()
    }

    /// Aliases with several references.
    fn shared_aliases(&self) -> u64 {
        let is_shared_alias = |slot: &&[u8]| at(slot, 0, 8) & 0x3F_FFFF == 0x3F_FFFE && at(slot, 12, 4) > 1;
        self.slots.chunks(16).filter(is_shared_alias).count() as u64
    }

    /// Stored bytes of the slot that a reference names.
    fn named(&self, reference: u64) -> Vec<u8> {
        let slot = &self.slots[(reference & 0xFF_FFFF_FFFF) as usize * 16..][..16];
        let (word, crc, count) = (at(slot, 0, 8), at(slot, 8, 4), at(slot, 12, 4));
        assert_ne!(count, 0);
        assert_eq!(word >> 44 & 0x3FFF, reference >> 40 & 0x3FFF, "generation");
        assert_eq!(reference >> 60 == 5, word & 0x3F_FFFF == 0x3F_FFFE, "ALIAS names aliases, other kinds none");
        if reference >> 60 == 5 {
            assert_eq!(word >> 58, 0);
            return self.named(3 << 60 | (word >> 30 & 0x3FFF) << 40 | (word >> 22 & 0xFF) << 32 | crc);
        }
        let (sectors, index, blocks) = ((word >> 38 & 0x3F) + 1, word >> 58 & 7, (word >> 61) + 1);
        let stored = self.stored(word & 0x3F_FFFF, word >> 22 & 0xFFFF, sectors * 512, crc);
        if reference >> 60 == 4 {
            return self.patches.apply(if stored.len() == 2048 { 2 } else { 3 }, reference, stored);
        }
        if (sectors, blocks) == (8, 1) {
            return stored;
        }
        assert_eq!((at(&stored, 0, 1), at(&stored, 1, 1), at(&stored, 4, 4)), (1, blocks, 0), "LZ4");
        let length = at(&stored, 2, 2) as usize;
        assert!(stored[length..].iter().all(|byte| *byte == 0));
        let whole = lz4_flex::block::decompress(&stored[8..length], blocks as usize * 4096).unwrap();
        assert_eq!(whole.len() as u64, blocks * 4096);
        whole[index as usize * 4096..][..4096].to_vec()
    }

    /// The reference that leads to a block of 4 KiB.
    fn reference(&self, volume: u64, block: u64) -> u64 {
        let Volume { root, height, blocks, mapped: _ } = self.volumes[&volume];
        assert!(block < blocks / 8);
        let (mut reference, mut level) = (root, height);
        while reference >> 60 == 4 {
            let page = self.named(reference);
            let (length, entry, index) =
                if level == 0 { (2048, 8, block % 256) } else { (16384, 16, (block >> (10 * level - 2)) % 1024) };
            assert_eq!(page.len(), length);
            reference = at(&page, index as usize * entry, 8);
            assert!(level == 0 || page[index as usize * entry + 15] == level as u8);
            level = level.saturating_sub(1);
        }
        reference
    }

    /// A block of 4 KiB, and the kind of the reference to it.
    fn block(&self, volume: u64, block: u64) -> (u64, Vec<u8>) {
        let reference = self.reference(volume, block);
        let kind = reference >> 60;
        let bytes = match kind {
            0 | 1 => vec![0; 4096],
            2 => (reference as u32).to_le_bytes().repeat(1024),
            3 | 5 => self.named(reference),
            _ => panic!("kind {kind}"),
        };
        (kind, bytes)
    }

    /// Entries of a segment's summaries: item, sector, sectors, kind, crc.
    fn summaries(&self, segment: u64) -> Vec<(u64, u64, u64, u64, u64)> {
        let (_, _, _, mut sector, usage) = self.segments[segment as usize];
        let [log_bytes, segment_bytes] = [48, 56].map(|field| at(&self.superblock, field, 8));
        let mut entries = Vec::new();
        while sector != 0xFFFF_FFFF {
            let summary = &self.image[(65536 + log_bytes + segment * segment_bytes + sector * 512) as usize..];
            assert_eq!(&summary[..8], b"IBIDSEG\0");
            assert_eq!(
                (at(summary, 8, 2), &summary[16..32], at(summary, 36, 4), at(summary, 40, 8)),
                (3, &ARRAY[..], segment, usage)
            );
            assert_eq!(u64::from(crc32c::crc32c(&summary[..52])), at(summary, 52, 4));
            let length = at(summary, 12, 4) as usize * 32;
            assert_eq!(u64::from(crc32c::crc32c(&summary[64..64 + length])), at(summary, 48, 4));
            entries.extend(summary[64..64 + length].chunks(32).map(|entry| {
                let mut input = Input(entry);
                let (item, sector, sectors, kind, crc) =
                    (input.number(8), input.number(2), input.number(1), input.number(1), input.number(4));
                (item, sector, sectors, kind, crc)
            }));
            let previous = at(summary, 32, 4);
            assert!(previous == 0xFFFF_FFFF || previous < sector);
            sector = previous;
        }
        entries
    }

    /// Bodies of the log groups after the checkpoint, with their record counts.
    fn log(&self) -> Vec<(u64, Vec<u8>)> {
        let ring = &self.image[65536..65536 + at(&self.superblock, 48, 8) as usize];
        let [mut head, mut sequence, mut lsn, epoch] = [64, 72, 80, 88].map(|field| at(&self.superblock, field, 8));
        let mut previous = at(&self.superblock, 96, 4);
        let mut groups = Vec::new();
        loop {
            let is_next = |from: u64| {
                let Some(group) = ring.get(from as usize..).filter(|group| group.len() >= 4096) else { return false };
                let body = group.get(72..72 + at(group, 56, 4) as usize);
                &group[..8] == b"IBIDLOG\0"
                    && at(group, 8, 2) == 1
                    && group[16..32] == ARRAY
                    && at(group, 32, 8) >= epoch
                    && (at(group, 40, 8), at(group, 48, 8), at(group, 64, 4)) == (sequence, lsn, previous)
                    && at(group, 68, 4) == u64::from(crc32c::crc32c(&group[..68]))
                    && body.is_some_and(|body| at(group, 60, 4) == u64::from(crc32c::crc32c(body)))
            };
            let Some(from) = [head, 0].into_iter().find(|from| is_next(*from)) else { return groups };
            let group = &ring[from as usize..];
            let body = group[72..72 + at(group, 56, 4) as usize].to_vec();
            head = from + (72 + body.len() as u64).next_multiple_of(4096);
            (sequence, lsn, previous) = (sequence + 1, lsn + at(group, 12, 4), at(group, 68, 4));
            groups.push((at(group, 12, 4), body));
        }
    }
}

/// The current superblock.
fn choose(image: &[u8]) -> Vec<u8> {
    let mut sound: Vec<Vec<u8>> = Vec::new();
    for copy in 0..4 {
        let mut bytes = image[copy * 16384..][..4096].to_vec();
        let is_sound = &bytes[..8] == b"IBIDSUP\0"
            && at(&bytes, 4080, 4) == u64::from(crc32c::crc32c(&bytes[..4080]))
            && at(&bytes, 10, 2) == copy as u64;
        if is_sound {
            assert!((3..=5).contains(&at(&bytes, 8, 2)));
            // The copy number and the checksum differ between copies.
            bytes[10..12].fill(0);
            bytes[4080..4084].fill(0);
            sound.push(bytes);
        }
    }
    sound.sort_by_key(|bytes| std::cmp::Reverse(at(bytes, 32, 8)));
    sound.windows(2).find(|pair| pair[0] == pair[1]).expect("a quorum")[0].clone()
}

fn change(change: Change) -> Op {
    Op::Change(vec![change])
}

fn write(volume: u64, lba: u64, data: bytes::Bytes) -> Op {
    Op::Write { volume: VolumeId(volume), lba: Lba(lba), data, fua: false }
}

fn range(start: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(start), blocks).unwrap()
}

#[test]
fn golden_bytes_of_a_new_array() {
    let (disk, _) = create(SMALL);
    let reader = Reader::open(disk.image());
    let mut manifest = b"IBIDMAN\0\x04\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0".to_vec();
    // No shared sectors or aliases, no slots near the limit; no volumes, no values.
    manifest.extend([0; 24 + 16]);
    manifest.extend(16u64.to_le_bytes());
    manifest.extend([0; 16]);
    // No directory pages, no drops.
    manifest.extend([0; 16]);
    assert_eq!(reader.manifest, manifest);
    let mut superblock = b"IBIDSUP\0\x03\0\0\0\x01\0\0\0an array's name.".to_vec();
    // Sequence; capacity, log, segment; head, sequence, LSN and epoch of the log.
    for number in [1, SMALL.capacity, SMALL.log_bytes, SMALL.segment_bytes, 0, 1, 1, 2u64] {
        superblock.extend(number.to_le_bytes());
    }
    superblock.extend([0; 4 + 140]);
    let mirror = reader.mirrors[&0] as u32;
    for number in [0, mirror, 0, manifest.len() as u32, crc32c::crc32c(&manifest)] {
        superblock.extend(number.to_le_bytes());
    }
    superblock.resize(4096, 0);
    assert_eq!(reader.superblock, superblock);
}

/// An array with an instance of every structure, with a checkpoint.
fn filled() -> (MemoryDisk, Core) {
    let (disk, mut core) = create(MEDIUM);
    for op in [
        change(Change::CreateVolume { volume: VolumeId(0x0102), blocks: 8192 }),
        change(Change::CreateVolume { volume: VolumeId(7), blocks: 2048 }),
        change(Change::Put { key: b"key".to_vec(), value: b"value".to_vec() }),
        write(0x0102, 16, data(1, 24)),
        write(0x0102, 4096, data(2, 9)),
        Op::Zero { volume: VolumeId(0x0102), range: range(64, 16) },
        Op::WriteSame { volume: VolumeId(0x0102), range: range(80, 8), pattern: [1, 2, 3, 4].repeat(128).into() },
        Op::Copy { source: VolumeId(0x0102), from: range(16, 8), destination: VolumeId(7), to: Lba(2040) },
    ] {
        run(&mut core, &disk, op).unwrap();
    }
    core.request_checkpoint();
    common::settle(&mut core, &disk);
    (disk, core)
}

#[test]
fn written_data_is_read_from_the_image_alone() {
    let (disk, _) = filled();
    let reader = Reader::open(disk.image());
    assert_eq!(reader.values, BTreeMap::from([(b"key".to_vec(), b"value".to_vec())]));
    let sizes = reader
        .volumes
        .iter()
        .map(|(name, volume)| (*name, volume.blocks, volume.height, volume.mapped))
        .collect::<Vec<_>>();
    assert_eq!(sizes, [(7, 2048, 0, 1), (0x0102, 8192, 1, 8)]);
    assert_eq!(reader.drops, []);
    let written = data(1, 24);
    for block in 0..3 {
        assert_eq!(reader.block(0x0102, 2 + block), (3, written[block as usize * 4096..][..4096].to_vec()));
    }
    assert_eq!(reader.block(7, 255), (3, written[..4096].to_vec()));
    let tail = data(2, 9);
    assert_eq!(reader.block(0x0102, 512), (3, tail[..4096].to_vec()));
    assert_eq!(reader.block(0x0102, 513).1[..512], tail[4096..]);
    assert_eq!(reader.block(0x0102, 513).1[512..], [0; 3584]);
    assert_eq!(reader.block(0x0102, 8), (1, vec![0; 4096]));
    assert_eq!(reader.block(0x0102, 10), (2, [1, 2, 3, 4].repeat(1024)));
    assert_eq!(reader.block(0x0102, 0).0, 0);
    assert_eq!(reader.block(0x0102, 1023).0, 0);
    assert_eq!(reader.log(), []);
}

/// An array whose volume 1 has 1 024 blocks, stored by a checkpoint.
fn written() -> (common::MemoryDisk, Core) {
    let (disk, mut core) = create(MEDIUM);
    run(&mut core, &disk, change(Change::CreateVolume { volume: VolumeId(1), blocks: 8192 })).unwrap();
    for block in 0..1024 {
        run(&mut core, &disk, write(1, block * 8, data(block, 8))).unwrap();
    }
    core.request_checkpoint();
    common::settle(&mut core, &disk);
    (disk, core)
}

#[test]
fn aliases_lead_to_the_blocks_that_a_copy_shares() {
    let (disk, _) = written();
    // Every leaf is gathered entirely when it is copied.
    let options = Options { max_named_pages: Some(0), ..Options::for_geometry(&MEDIUM) };
    let (mut core, _) = Core::recover(&disk, Some(options)).unwrap();
    run(&mut core, &disk, change(Change::CopyVolume { source: VolumeId(1), destination: VolumeId(2) })).unwrap();
    for leaf in 0..4 {
        run(&mut core, &disk, write(1, leaf * 2048, data(900_000 + leaf, 8))).unwrap();
    }
    core.request_checkpoint();
    common::settle(&mut core, &disk);
    core.audit(&disk).unwrap();
    let reader = Reader::open(disk.image());
    for block in 0..1024 {
        let before = data(block, 8).to_vec();
        assert!(reader.block(2, block) == (5, before.clone()), "block {block} of the copy");
        let overwritten = (block % 256 == 0).then(|| (3, data(900_000 + block / 256, 8).to_vec()));
        assert!(reader.block(1, block) == overwritten.unwrap_or((5, before)), "block {block}");
    }
}

#[test]
fn patches_are_applied_to_stored_pages() {
    let (disk, mut core) = written();
    // Two checkpoints with few changes, of the same pages and of the same entries.
    let mut expected: Vec<u64> = (0..1024).collect();
    for (round, blocks) in [[3, 4, 700], [4, 5, 701]].into_iter().enumerate() {
        for block in blocks {
            expected[block as usize] = 10_000 * (round as u64 + 1) + block;
            run(&mut core, &disk, write(1, block * 8, data(expected[block as usize], 8))).unwrap();
        }
        core.request_checkpoint();
        common::settle(&mut core, &disk);
    }
    let mut reader = Reader::open(disk.image());
    for (block, seed) in expected.iter().enumerate() {
        assert!(reader.block(1, block as u64) == (3, data(*seed, 8).to_vec()), "block {block}");
    }
    // Without the patches, slots and leaves are older.
    let patched: Vec<u64> = reader.patches.entries.keys().map(|(kind, _)| *kind).collect();
    assert!(patched.contains(&1) && patched.contains(&2), "{patched:?}");
    assert_ne!(reader.slots, reader.stored_slots);
    let newest = [3, 4, 5, 700, 701].map(|block| reader.reference(1, block));
    assert_eq!(reader.metadata_sectors(), reader.live_metadata());
    reader.patches.entries.clear();
    let stored = [3, 4, 5, 700, 701].map(|block| reader.reference(1, block));
    assert!(newest.iter().zip(stored).all(|(newest, stored)| *newest != stored), "{newest:?}");
}

#[test]
fn patches_of_pages_above_the_leaves_are_applied() {
    let (disk, mut core) = written();
    run(&mut core, &disk, change(Change::CopyVolume { source: VolumeId(1), destination: VolumeId(2) })).unwrap();
    // The first checkpoint stores the copy of the root, the next ones its entries of two leaves.
    for block in [0, 256, 512] {
        run(&mut core, &disk, write(1, block * 8, data(900_000 + block, 8))).unwrap();
        core.request_checkpoint();
        common::settle(&mut core, &disk);
    }
    let mut reader = Reader::open(disk.image());
    for block in 0..1024 {
        let before = data(block, 8).to_vec();
        assert!(reader.block(2, block).1 == before, "block {block} of the copy");
        let is_new = [0, 256, 512].contains(&block);
        let now = if is_new { data(900_000 + block, 8).to_vec() } else { before };
        assert!(reader.block(1, block).1 == now, "block {block}");
    }
    let newest = [256, 512].map(|block| reader.reference(1, block));
    reader.patches.entries.retain(|(kind, _), _| *kind != 3);
    assert!([256, 512].map(|block| reader.reference(1, block)).iter().zip(newest).all(|(old, new)| *old != new));
}

#[test]
fn summaries_list_all_live_slots() {
    let (disk, _) = filled();
    let reader = Reader::open(disk.image());
    let mut live = BTreeMap::new();
    for (number, slot) in reader.slots.chunks(16).enumerate() {
        let word = at(slot, 0, 8);
        assert_eq!(at(slot, 12, 4) == 0, word & 0x3F_FFFF == 0x3F_FFFF, "slot {number}");
        if at(slot, 12, 4) > 0 && word & 0x3F_FFFF != 0x3F_FFFE {
            let name = number as u64 | (word >> 44 & 0x3FFF) << 40;
            let (sectors, index, blocks) = ((word >> 38 & 0x3F) + 1, word >> 58 & 7, (word >> 61) + 1);
            live.insert((word & 0x3F_FFFF, word >> 22 & 0xFFFF, index), (name, sectors, blocks, at(slot, 8, 4)));
        }
    }
    assert!(live.len() > 6);
    for segment in 0..reader.segments.len() as u64 {
        let (kind, counted, filled, ..) = reader.segments[segment as usize];
        let mut found = 0;
        for (item, sector, sectors, what, crc) in if kind == 0 { Vec::new() } else { reader.summaries(segment) } {
            assert!(sector + sectors < filled);
            let (index, blocks) = (what >> 2 & 7, (what >> 5) + 1);
            if what & 3 == 0
                && let Some(slot) = live.remove(&(segment, sector, index))
            {
                assert_eq!((item & !(0xF << 60), sectors, blocks, crc), slot);
                // The sectors of the group that this block accounts for.
                found += (index + 1) * sectors / blocks - index * sectors / blocks;
            }
        }
        assert!(kind == 2 || found == counted, "segment {segment}");
    }
    assert!(live.is_empty(), "in no summary: {live:?}");
}

#[test]
fn streams_are_read_from_manifest_and_log() {
    let (disk, mut core) = create(MEDIUM);
    let stream = StreamId::new(0x0503).unwrap();
    let volume = VolumeId(1 << 63 | 0x0503 << 32 | 9);
    run(&mut core, &disk, change(Change::CreateVolume { volume, blocks: 2048 })).unwrap();
    assert_eq!(Reader::open(disk.image()).streams, []);
    core.create_stream(stream).unwrap();
    common::settle(&mut core, &disk);
    let new = NewPeriod {
        period: Period(6),
        role: Role::Sequencer,
        gate: Gate::Local,
        last: Position(0),
        max_payload: 1 << 16,
        delta: engine::DeltaMode::Off,
    };
    core.begin_period(stream, new).unwrap();
    run(&mut core, &disk, write(volume.0, 8, data(1, 8))).unwrap();
    core.stream_heard(stream, Period(6), Position(1)).unwrap();
    run(&mut core, &disk, Op::Unmap { volume, ranges: vec![range(8, 16), range(64, 8)] }).unwrap();
    let log = Reader::open(disk.image()).log();
    let place = |position: u8, heard: u8| {
        let numbers = [6, position, heard].map(|number| [number, 0, 0, 0, 0, 0, 0, 0]).concat();
        [&[11, 0x03, 0x05, 0, 0][..], &numbers].concat()
    };
    assert_eq!((log[0].1[..4].to_vec(), log[0].1[4..33].to_vec(), log[0].1[33]), (vec![2, 0, 0, 0], place(1, 0), 1));
    assert_eq!((log[1].1[..4].to_vec(), log[1].1[4..33].to_vec(), log[1].1[33]), (vec![3, 0, 0, 0], place(2, 1), 2));
    core.request_checkpoint();
    common::settle(&mut core, &disk);
    let tail = vec![(6, 2, vec![[volume.0, 8, 16], [volume.0, 64, 8]])];
    let numbers = [6, 2, 1, 6, 1, 0, 0];
    assert_eq!(Reader::open(disk.image()).streams, [Stream { id: 0x0503, flags: 0, numbers, tail }]);
}

#[test]
fn log_groups_are_read_by_their_chain() {
    let (disk, mut core) = filled();
    run(&mut core, &disk, write(7, 3, data(5, 1))).unwrap();
    run(&mut core, &disk, Op::Unmap { volume: VolumeId(7), ranges: vec![range(8, 16)] }).unwrap();
    run(&mut core, &disk, change(Change::Remove { key: b"key".to_vec() })).unwrap();
    let log = Reader::open(disk.image()).log();
    let written = [&b"\x01\0\0\0\x01\x07\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\x02\0\0"[..], &data(5, 1)[..]].concat();
    let unmapped = b"\x01\0\0\0\x02\x07\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    let removed = b"\x01\0\0\0\x09\x03\0\0\0key".to_vec();
    assert_eq!(log, [(1, written), (1, unmapped), (1, removed)]);
    // After reopening, the log continues in another epoch and is still one chain.
    let (mut core, report) = engine::Core::recover(&disk, None).unwrap();
    assert_eq!(report.records, 3);
    run(&mut core, &disk, change(Change::DeleteVolume { volume: VolumeId(7) })).unwrap();
    let log = Reader::open(disk.image()).log();
    assert_eq!(log.len(), 4);
    assert_eq!(log[3], (1, b"\x01\0\0\0\x06\x07\0\0\0\0\0\0\0".to_vec()));
}
