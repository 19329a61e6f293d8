use super::cluster::Cluster;
use super::descriptor::{Descriptor, FileKind, READERS, Reader};
use super::geometry::{Geometry, Resource};
use super::gpt::{self, Partition};
use super::heartbeat::{Slot, SlotState};
use super::journal::{MAX_PARTS, Part, Record};
use super::lock::{Guarded, Kind, LockOwner, lock_of, with_owner};
use super::page::{self, ENTRIES, Entry, POINTERS, PageId, Pointer};
use super::superblock::Superblock;
use super::*;
use crate::{Mode, VolumeUuid};
use bytes::Bytes;
use proptest::prelude::*;

const VOLUME: VolumeUuid = VolumeUuid(*b"a volume's uuid!");
const OWNER: LockOwner = LockOwner { slot: 3, incarnation: 9, uuid: *b"a host's own id." };

fn geometry() -> Geometry {
    Geometry::plan(2 << 20, 2048).unwrap()
}

fn superblock() -> Superblock {
    Superblock {
        uuid: VOLUME,
        label: "datastore1".into(),
        mode: Mode::V6,
        created: 1_700_000_000_000,
        partition_lba: 2048,
        geometry: geometry(),
        extents: Vec::new(),
    }
}

#[test]
fn geometry_regions_do_not_overlap() {
    let sizes = [65_536u64, 65_537, 2 << 20, 200 << 21, (8 << 31) - 34, 64 << 31];
    for (sectors, block) in sizes.into_iter().map(|sectors| (sectors, 2048)).chain([(2 << 20, 16_384)]) {
        let plan = Geometry::plan(sectors, block).unwrap();
        assert!(plan.is_valid(), "{plan:?}");
        let marks = [
            plan.journal_at(0),
            plan.clusters_at(Resource::Descriptors),
            plan.clusters_at(Resource::Pages),
            plan.clusters_at(Resource::Blocks),
            plan.descriptor_sector(0),
            plan.page_sector(0),
            plan.blocks_at(),
        ];
        assert!(marks.is_sorted_by(|a, b| a < b), "{marks:?}");
        assert_eq!(plan.blocks_at() % FS_BLOCK_SECTORS, 0);
        let end = plan.block_sector(plan.blocks);
        assert!(end <= sectors && (sectors - end) <= 2 * u64::from(block), "{plan:?} leaves {}", sectors - end);
        let clusters: u32 = (0..plan.clusters(Resource::Blocks)).map(|n| plan.in_cluster(Resource::Blocks, n)).sum();
        assert_eq!(clusters, plan.blocks);
    }
    assert_eq!(Geometry::plan(20_000, 2048), None);
}

#[test]
fn superblock_round_trips_and_detects_damage() {
    let mut image = superblock().encode();
    assert_eq!(Superblock::decode(&image), Some(superblock()));
    image[100] ^= 1;
    assert_eq!(Superblock::decode(&image), None);
}

/// Checks the bytes documented in `docs/datastore-format.md`.
#[test]
fn golden_bytes() {
    let image = superblock().encode();
    assert_eq!(&image[..16], b"IBIDDS\0\0\x01\0\x06\x0a\0\0\x10\0");
    assert_eq!(&image[16..32], &VOLUME.0);
    assert_eq!(&image[96..106], b"datastore1");
    assert_eq!(image[48..56], (2u64 << 20).to_le_bytes());

    let mut cluster = Cluster::new(Resource::Blocks, 1, &geometry(), VOLUME);
    cluster.take(0);
    cluster.take(9);
    cluster.lock_mut().set_owner(Some(OWNER));
    let image = cluster.encode();
    assert_eq!(&image[..16], b"IBLK\x03\x01\x03\0\x02\0\0\0\0\0\0\0");
    assert_eq!(image[16..24], 9u64.to_le_bytes());
    assert_eq!(image[24..40], OWNER.uuid);
    assert_eq!(image[40..48], [1, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(image[48..64], VOLUME.0);
    assert_eq!(image[64..72], [32, 0, 0, 0, 30, 0, 0, 0]);
    assert_eq!(image[128..131], [1, 2, 0]);

    let mut descriptor = Descriptor::free(7, VOLUME);
    descriptor.begin(FileKind::File, 2, 5);
    descriptor.size = 0x1234.into();
    descriptor.roots[0] = 0x55.into();
    assert!(descriptor.add_reader(Reader { slot: 2, incarnation: 6 }));
    let image = descriptor.encode();
    assert_eq!(&image[..8], b"IBLK\x04\0\0\0");
    assert_eq!(image[64..72], [1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(image[72..80], 1u64.to_le_bytes());
    assert_eq!(image[80..88], 0x1234u64.to_le_bytes());
    assert_eq!(image[96..104], 5u64.to_le_bytes());
    assert_eq!(image[120..124], [0x55, 0, 0, 0]);
    assert_eq!(image[184..192], [6, 0, 0, 0, 0, 0, 2, 0]);

    let slot = Slot { name: "esx01".into(), counter: 4, uuid: OWNER.uuid, ..Slot::new(3) };
    let image = slot.encode(VOLUME);
    assert_eq!(&image[..16], b"IBIDHB\0\0\x01\0\x03\0\0\x05\0\0");
    assert_eq!(image[16..24], 1u64.to_le_bytes());
    assert_eq!(image[24..32], 4u64.to_le_bytes());
    assert_eq!(image[32..48], OWNER.uuid);
    assert_eq!(&image[96..101], b"esx01");

    let id = PageId { descriptor: 1, file_id: 2, level: 3, index: 4 };
    let page = page::encode_pointers(id, VOLUME, &[0x1111_1111, 0x2222_2222]);
    assert_eq!(&page[..16], b"IBPG\x01\0\x03\0\x01\0\0\0\x04\0\0\0");
    assert_eq!(page[64..72], [0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x22, 0x22]);
}

#[test]
fn every_lock_change_makes_a_new_image() {
    let free = Cluster::new(Resource::Pages, 0, &geometry(), VOLUME).encode();
    let taken = with_owner(&free, Some(OWNER));
    let freed = with_owner(&taken, None);
    let lock = lock_of(&taken, VOLUME).unwrap();
    assert_eq!((lock.owner(), lock.generation()), (Some(OWNER), 2));
    assert_eq!(lock_of(&freed, VOLUME).unwrap().owner(), None);
    assert_ne!(free, freed);
    assert_eq!(lock_of(&freed, VolumeUuid([0; 16])), None);
    assert!(Cluster::decode(&taken, Kind::PageCluster, 0, VOLUME).is_some());
    assert!(Cluster::decode(&taken, Kind::PageCluster, 1, VOLUME).is_none());
    assert!(Cluster::decode(&taken, Kind::BlockCluster, 0, VOLUME).is_none());
}

#[test]
fn cluster_allocates_each_item_once() {
    let geometry = geometry();
    let last = geometry.clusters(Resource::Blocks) - 1;
    let mut cluster = Cluster::new(Resource::Blocks, last, &geometry, VOLUME);
    let total = geometry.in_cluster(Resource::Blocks, last);
    assert!(cluster.take(0) && !cluster.take(0) && !cluster.take(total));
    assert!(cluster.take(3));
    assert_eq!(cluster.free_run(0, 100), Some((1, 2)));
    assert_eq!(cluster.free_run(3, 2), Some((4, 2)));
    assert_eq!(cluster.free(), total - 2);
    assert_eq!(cluster.count_free(), total - 2);
    assert!(cluster.free_item(3) && !cluster.free_item(3));
    let image = cluster.encode();
    let loaded = Cluster::load(&image, Resource::Blocks, last, &geometry, VOLUME).unwrap();
    assert_eq!(loaded.encode(), cluster.encode());
}

#[test]
fn reused_descriptor_gets_a_new_file_id() {
    let mut descriptor = Descriptor::free(7, VOLUME);
    descriptor.begin(FileKind::File, 0, 1);
    let first = descriptor.file_id;
    descriptor.lock_mut().set_owner(Some(OWNER));
    descriptor.end();
    assert_eq!(descriptor.kind(), None);
    descriptor.begin(FileKind::Directory, 0, 1);
    assert_eq!(descriptor.kind(), Some(FileKind::Directory));
    assert_ne!(descriptor.file_id, first);
}

#[test]
fn descriptor_limits_its_readers() {
    let mut descriptor = Descriptor::free(7, VOLUME);
    let reader = |n: usize| Reader { slot: n as u16, incarnation: 1 << 40 | n as u64 };
    assert!((0..READERS).all(|n| descriptor.add_reader(reader(n))));
    assert!(descriptor.add_reader(reader(5)), "it is there already");
    assert!(!descriptor.add_reader(reader(READERS)));
    descriptor.retain_readers(|reader| reader.slot != 5);
    assert_eq!(descriptor.readers().count(), READERS - 1);
    assert!(descriptor.readers().all(|found| found == reader(usize::from(found.slot)) && found.slot != 5));
}

#[test]
fn heartbeat_slot_round_trips() {
    for state in [SlotState::Free, SlotState::Alive, SlotState::Breaking(OWNER)] {
        let slot = Slot { state, name: "esx02".into(), generation: 7, counter: 8, ..Slot::new(5) };
        let image = slot.encode(VOLUME);
        assert_eq!(Slot::decode(&image, 5, VOLUME), Some(slot));
        assert_eq!(Slot::decode(&image, 6, VOLUME), None);
    }
}

#[test]
fn torn_journal_record_is_rejected() {
    let parts = vec![
        Part::Guard { sector: 10, generation: 4, image: Some(Bytes::from(vec![1; SECTOR_BYTES])) },
        Part::Guard { sector: 11, generation: 5, image: None },
        Part::Page { sector: 800, guard: 1, image: Bytes::from(vec![2; PAGE_BYTES]) },
    ];
    let record = Record { slot: 3, incarnation: 9, sequence: 70, parts };
    let bytes = record.encode(VOLUME).unwrap();
    assert_eq!(bytes.len(), journal::HEADER_BYTES + SECTOR_BYTES + PAGE_BYTES);
    assert_eq!(Record::decode(&bytes, VOLUME), Some(record.clone()));
    for at in (0..bytes.len()).step_by(SECTOR_BYTES) {
        let mut torn = bytes.to_vec();
        torn[at..at + SECTOR_BYTES].fill(0);
        let blank = bytes[at..at + SECTOR_BYTES].iter().all(|byte| *byte == 0);
        assert_eq!(Record::decode(&torn.into(), VOLUME).is_none(), !blank, "sector at {at}");
    }
    let many = vec![Part::Guard { sector: 1, generation: 1, image: None }; MAX_PARTS + 1];
    assert_eq!(Record { parts: many, ..record }.encode(VOLUME), None);
}

/// Simulates a torn write: the new header with images of the previous record.
#[test]
fn journal_record_with_foreign_images_is_rejected() {
    let record = |files: [u64; 2]| {
        let descriptor = |file: u64| {
            let mut descriptor = Descriptor::free(4, VOLUME);
            descriptor.lock_mut().set_owner(Some(OWNER));
            descriptor.begin(FileKind::File, 0, file);
            let image = Some(Bytes::copy_from_slice(&descriptor.encode()));
            Part::Guard { sector: 9000 + file, generation: 1, image }
        };
        Record { slot: 3, incarnation: 9, sequence: files[0], parts: files.map(descriptor).to_vec() }
    };
    let (old, new) = (record([1, 2]).encode(VOLUME).unwrap(), record([3, 4]).encode(VOLUME).unwrap());
    for sectors in journal::HEADER_BYTES / SECTOR_BYTES..new.len() / SECTOR_BYTES {
        let cut = sectors * SECTOR_BYTES;
        let torn = Bytes::from([&new[..cut], &old[cut..]].concat());
        assert_eq!(Record::decode(&torn, VOLUME), None, "{sectors} sectors were written");
    }
}

#[test]
fn page_of_another_file_is_rejected() {
    let id = PageId { descriptor: 1, file_id: 2, level: 0, index: 4 };
    let entry = |n: usize| Entry {
        descriptor: n as u32,
        file_id: 8,
        kind: FileKind::File,
        name: format!("{}{n}", "x".repeat(page::MAX_FILE_NAME_BYTES - 2)),
    };
    let entries: Vec<Entry> = (10..10 + ENTRIES).map(entry).collect();
    let bytes = page::encode_entries(id, VOLUME, &entries);
    assert_eq!(page::decode_entries(&bytes, id, VOLUME), Some(entries));
    assert_eq!(page::decode_entries(&bytes, PageId { file_id: 3, ..id }, VOLUME), None);
    assert_eq!(page::decode_entries(&bytes, PageId { index: 3, ..id }, VOLUME), None);
    let pointers: Vec<u32> = (0..POINTERS as u32).collect();
    let bytes = page::encode_pointers(id, VOLUME, &pointers);
    assert_eq!(page::decode_pointers(&bytes, id, VOLUME), Some(pointers));
}

#[test]
fn partition_table_round_trips() {
    for first in [34, 63, 2048, 2049, 4095] {
        let partition = Partition { first, sectors: 100_000 };
        let disk = 110_000;
        assert!(gpt::fits(partition, disk));
        let [(front_at, front), (back_at, back)] = gpt::encode(partition, disk, VOLUME.0);
        assert_eq!((front_at, front.len() as u64), (0, gpt::TABLE_SECTORS * 512));
        assert_eq!(back_at + back.len() as u64 / 512, disk);
        assert_eq!(gpt::decode(&front), Some(partition));
        let mut broken = front.clone();
        broken[1024 + 40] ^= 1;
        assert_eq!(gpt::decode(&broken), None);
    }
    assert!(!gpt::fits(Partition { first: 33, sectors: 1 }, 100));
    assert!(!gpt::fits(Partition { first: 34, sectors: 34 }, 100));
    assert!(gpt::fits(Partition { first: 34, sectors: 33 }, 100));
}

proptest! {
    #[test]
    fn map_pointers_round_trip(target in proptest::option::of(0u32..(1 << 31) - 2), to_be_zeroed: bool) {
        let pointer = Pointer { target, to_be_zeroed: to_be_zeroed && target.is_some() };
        prop_assert_eq!(Pointer::unpack(pointer.pack()), pointer);
    }

    #[test]
    fn decoders_reject_arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..9000)) {
        let image = image_of(&bytes);
        let id = PageId { descriptor: 0, file_id: 0, level: 0, index: 0 };
        prop_assert_eq!(Superblock::decode(&image), None);
        prop_assert_eq!(Slot::decode(&image, 0, VOLUME), None);
        prop_assert!(Descriptor::decode(&image, Kind::Descriptor, 0, VOLUME).is_none());
        prop_assert_eq!(page::decode_entries(&bytes, id, VOLUME), None);
        prop_assert_eq!(gpt::decode(&bytes), None);
        prop_assert_eq!(Record::decode(&bytes.into(), VOLUME), None);
    }
}
