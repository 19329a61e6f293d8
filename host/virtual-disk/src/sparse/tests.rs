use super::*;
use crate::disk::{CopyTarget, VirtualDisk};
use crate::format::DiskFormat;
use crate::mover::HostCopyReason;
use crate::offload::OffloadForbidden;
use crate::testing::{datastore, quiet};
use bytes::Bytes;
use datastore::Datastore;
use testing::Rng;

const MIB: u64 = 1 << 20;
const GRAIN: u64 = 64 << 10;
const KINDS: [CreateType; 2] = [CreateType::MonolithicSparse, CreateType::SplitSparse];

fn settings() -> MoverSettings {
    MoverSettings::default()
}

fn bytes(byte: u8, count: u64) -> Bytes {
    Bytes::from(vec![byte; usize::try_from(count).unwrap()])
}

/// Creates a thin disk with data at these places, each a sector with the number of its place.
async fn source(ds: &Datastore, size: u64, places: &[u64]) -> VirtualDisk {
    let (disk, _) = VirtualDisk::create(ds, "a.vmdk", size, DiskFormat::Thin, settings(), &quiet).await.unwrap();
    for (number, at) in (1..).zip(places) {
        disk.write(*at, bytes(number, 512)).await.unwrap();
    }
    disk
}

fn target(ds: &Datastore, path: &str, kind: CreateType) -> CopyTarget {
    CopyTarget { kind, format: Some(DiskFormat::Thin), ..CopyTarget::new(ds, path) }
}

async fn names(ds: &Datastore) -> Vec<String> {
    let mut names: Vec<_> = ds.list("/").await.unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

async fn open(ds: &Datastore, path: &str, access: FileAccess) -> Result<VirtualDisk> {
    VirtualDisk::open(ds, path, access, settings()).await
}

#[test]
fn header_has_the_published_layout() {
    let header = SparseHeader::new(4_192_256, false).unwrap();
    let bytes = header.encode();
    assert_eq!(bytes.len(), 512);
    let golden = [
        "4b444d56",
        "01000000",
        "03000000",
        "00f83f0000000000",
        "8000000000000000",
        "0000000000000000",
        "0000000000000000",
        "00020000",
        "0100000000000000",
        "0201000000000000",
        "8002000000000000",
        "00",
        "0a200d0a",
        "0000",
    ];
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(text.trim_end_matches('0'), golden.concat().trim_end_matches('0'));
    assert_eq!(SparseHeader::parse("a", &bytes), Ok(header.clone()));
    // One sector of 64 entries, then tables of 4 sectors each.
    let directory = header.new_directory(header.directory);
    assert_eq!(header::entries(&directory), (0..64).map(|table| 259 + 4 * table).collect::<Vec<u32>>());
    let single = SparseHeader::new(2048, true).unwrap();
    assert_eq!((single.descriptor, single.redundant, single.overhead), ((1, 20), Some(21), 128));
    assert_eq!(SparseHeader::new((1 << 31) + 1, true), Err(SparseError::TooLarge));
}

#[test]
fn invalid_headers_are_refused() {
    let good = SparseHeader::new(2048, true).unwrap().encode();
    let refused = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        SparseHeader::parse("a", &bytes).unwrap_err()
    };
    assert_eq!(SparseHeader::parse("a", &good[..511]), Err(SparseError::NotSparse("a".to_owned())));
    assert_eq!(refused(0, b"COWD"), SparseError::NotSparse("a".to_owned()));
    assert_eq!(refused(4, &[3]), SparseError::Version(3));
    assert_eq!(refused(10, &[1]), SparseError::Compressed);
    assert_eq!(refused(77, &[1]), SparseError::Compressed);
    assert_eq!(refused(12, &[0xff; 8]), SparseError::TooLarge);
    for (at, value, field) in [
        (20, &[0, 0][..], "grainSize"),
        (20, &[0, 16], "grainSize"),
        (28, &[0xff; 8], "descriptorOffset"),
        (44, &[1, 0], "numGTEsPerGT"),
        (48, &[0; 8], "rgdOffset"),
        (56, &[0; 8], "gdOffset"),
        (64, &[0xff; 8], "overHead"),
        (73, b"\r", "of line ends"),
    ] {
        assert_eq!(refused(at, value), SparseError::Field(field), "{at}");
    }
}

#[tokio::test(start_paused = true)]
async fn copy_to_a_sparse_kind_has_only_grains_with_data() {
    let (_array, ds) = datastore().await;
    let size = 20 * MIB + 512;
    let places = [0, 3 * MIB + 4096, 20 * MIB];
    let disk = source(&ds, size, &places).await;
    for kind in KINDS {
        let (copy, report) = disk.clone_to(&target(&ds, "b.vmdk", kind), &quiet).await.unwrap();
        assert_eq!(report.by_host, Some(HostCopyReason::Forbidden(OffloadForbidden::SparseOrHosted)));
        assert_eq!((copy.bytes(), copy.allocated()), (size, (3, 0)), "{kind:?}");
        copy.close().await.unwrap();
        let copy = open(&ds, "b.vmdk", FileAccess::Read).await.unwrap();
        let back = copy.clone_to(&CopyTarget::new(&ds, "c.vmdk"), &quiet).await;
        let (back, report) = back.unwrap();
        assert_eq!(report.by_host, Some(HostCopyReason::Forbidden(OffloadForbidden::SparseOrHosted)));
        for other in [&copy, &back] {
            for at in 0..20 {
                assert_eq!(other.read(at * MIB, MIB).await.unwrap(), disk.read(at * MIB, MIB).await.unwrap());
            }
            assert_eq!(other.read(20 * MIB, 512).await.unwrap(), bytes(3, 512));
        }
        copy.close().await.unwrap();
        back.close().await.unwrap();
        VirtualDisk::check(&ds, "b.vmdk").await.unwrap();
        VirtualDisk::rename(&ds, "b.vmdk", "d.vmdk").await.unwrap();
        let files: &[&str] = match kind {
            CreateType::SplitSparse => &["d-s001.vmdk", "d.vmdk"],
            _ => &["d.vmdk"],
        };
        assert_eq!(names(&ds).await, [&["a-flat.vmdk", "a.vmdk", "c-flat.vmdk", "c.vmdk"], files].concat());
        VirtualDisk::check(&ds, "d.vmdk").await.unwrap();
        VirtualDisk::delete(&ds, "d.vmdk").await.unwrap();
        VirtualDisk::delete(&ds, "c.vmdk").await.unwrap();
        assert_eq!(names(&ds).await, ["a-flat.vmdk", "a.vmdk"]);
    }
}

#[tokio::test(start_paused = true)]
async fn data_across_two_extents_is_copied() {
    let (_array, ds) = datastore().await;
    let end = 2047 * MIB;
    let disk = source(&ds, end + 8 * MIB, &[end - 512, end, end + 7 * MIB]).await;
    let (copy, _) = disk.clone_to(&target(&ds, "b.vmdk", CreateType::SplitSparse), &quiet).await.unwrap();
    copy.write(end - 4096, bytes(9, 8192)).await.unwrap();
    copy.close().await.unwrap();
    assert_eq!(names(&ds).await, ["a-flat.vmdk", "a.vmdk", "b-s001.vmdk", "b-s002.vmdk", "b.vmdk"]);
    let copy = open(&ds, "b.vmdk", FileAccess::Read).await.unwrap();
    assert_eq!(copy.read(end - 4096, 8192).await.unwrap(), bytes(9, 8192));
    assert_eq!(copy.read(end + 7 * MIB, 512).await.unwrap(), bytes(3, 512));
    assert_eq!(copy.allocated(), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn sparse_disk_matches_a_byte_array() {
    let (_array, ds) = datastore().await;
    // Old data of the device must not appear.
    let (old, _) =
        VirtualDisk::create(&ds, "old.vmdk", 64 * MIB, DiskFormat::ZeroedThick, settings(), &quiet).await.unwrap();
    for at in 0..64 {
        old.write(at * MIB, bytes(0xee, MIB)).await.unwrap();
    }
    old.close().await.unwrap();
    VirtualDisk::delete(&ds, "old.vmdk").await.unwrap();
    let size = 5 * MIB + 1024;
    for (seed, kind) in (1..).zip(KINDS) {
        let disk = source(&ds, size, &[]).await;
        let (mut copy, _) = disk.clone_to(&target(&ds, "b.vmdk", kind), &quiet).await.unwrap();
        let mut model = vec![0_u8; usize::try_from(size).unwrap()];
        let mut random = Rng::new(seed);
        for round in 0..200_u32 {
            let sectors = size / 512;
            let at = random.below(sectors);
            let count = (1 + random.below(300)).min(sectors - at);
            let range = usize::try_from(at * 512).unwrap()..usize::try_from((at + count) * 512).unwrap();
            match random.below(8) {
                0 => {
                    let first = (at * 512).next_multiple_of(GRAIN);
                    let end = if range.end == model.len() { size } else { (at + count) * 512 / GRAIN * GRAIN };
                    copy.unmap(at * 512, count * 512).await.unwrap();
                    for byte in first..end {
                        model[usize::try_from(byte).unwrap()] = 0;
                    }
                }
                1 => {
                    copy.close().await.unwrap();
                    copy = open(&ds, "b.vmdk", FileAccess::Write).await.unwrap();
                }
                2..5 => assert_eq!(copy.read(at * 512, count * 512).await.unwrap(), model[range], "{kind:?} {round}"),
                _ => {
                    let data = bytes(random.below(255) as u8 + 1, count * 512);
                    model[range].copy_from_slice(&data);
                    copy.write(at * 512, data).await.unwrap();
                }
            }
        }
        assert_eq!(copy.read(0, size).await.unwrap(), model, "{kind:?}");
        copy.close().await.unwrap();
        disk.close().await.unwrap();
        VirtualDisk::delete(&ds, "b.vmdk").await.unwrap();
        VirtualDisk::delete(&ds, "a.vmdk").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn copy_without_space_leaves_no_files() {
    let (_array, ds) = datastore().await;
    let (disk, _) =
        VirtualDisk::create(&ds, "a.vmdk", 64 * MIB, DiskFormat::ZeroedThick, settings(), &quiet).await.unwrap();
    for at in 0..64 {
        disk.write(at * MIB, bytes(1, MIB)).await.unwrap();
    }
    let rest = (ds.space().await.unwrap().free - 40) * MIB;
    let (filler, _) =
        VirtualDisk::create(&ds, "f.vmdk", rest, DiskFormat::ZeroedThick, settings(), &quiet).await.unwrap();
    filler.close().await.unwrap();
    let (before, free) = (names(&ds).await, ds.space().await.unwrap().free);
    for kind in KINDS {
        let error = disk.clone_to(&target(&ds, "b.vmdk", kind), &quiet).await.err();
        assert!(matches!(error, Some(VirtualDiskError::Datastore(DatastoreError::NoSpace))), "{error:?}");
        assert_eq!((names(&ds).await, ds.space().await.unwrap().free), (before.clone(), free));
    }
    // All but a few blocks can be used, although files grow by more.
    let (small, _) = VirtualDisk::create(&ds, "s.vmdk", 32 * MIB, DiskFormat::Thin, settings(), &quiet).await.unwrap();
    let (copy, _) = small.clone_to(&target(&ds, "b.vmdk", CreateType::SplitSparse), &quiet).await.unwrap();
    for at in 0..32 {
        copy.write(at * MIB, bytes(2, MIB)).await.unwrap();
    }
    assert_eq!(copy.read(31 * MIB, MIB).await.unwrap(), bytes(2, MIB));
}

#[tokio::test(start_paused = true)]
async fn grain_is_invisible_until_its_table_is_written() {
    let (_array, ds) = datastore().await;
    let disk = source(&ds, 4 * MIB, &[0]).await;
    let (copy, _) = disk.clone_to(&target(&ds, "b.vmdk", CreateType::SplitSparse), &quiet).await.unwrap();
    let content = copy.content();
    let runs = content.file().allocate(5..7).await.unwrap();
    assert_eq!(
        runs.iter().map(|run| (run.first, run.blocks, run.state)).collect::<Vec<_>>(),
        [(5, 2, State::ToBeZeroed)]
    );
    ds.disk().write(runs[0].lba, bytes(9, 512)).await.unwrap();
    copy.close().await.unwrap();
    let copy = open(&ds, "b.vmdk", FileAccess::Write).await.unwrap();
    assert_eq!(copy.read(5 * GRAIN, 512).await.unwrap(), bytes(0, 512));
    copy.write(6 * GRAIN + 512, bytes(3, 512)).await.unwrap();
    assert_eq!(copy.read(6 * GRAIN, 512).await.unwrap(), bytes(0, 512));
    // The space is used again, and the unused end of the file is freed.
    let again = copy.content().file().runs().await.unwrap();
    assert_eq!(again.iter().map(|run| (run.first, run.lba)).collect::<Vec<_>>()[1..], [(6, runs[0].lba)]);
    copy.close().await.unwrap();
    assert_eq!(ds.stat("b-s001.vmdk").await.unwrap().size, MIB);
}

#[tokio::test(start_paused = true)]
async fn damaged_tables_are_refused() {
    let (_array, ds) = datastore().await;
    let disk = source(&ds, 64 * MIB, &[0, 40 * MIB]).await;
    let (copy, _) = disk.clone_to(&target(&ds, "b.vmdk", CreateType::SplitSparse), &quiet).await.unwrap();
    copy.close().await.unwrap();
    let header = SparseHeader::new(64 * MIB / 512, false).unwrap();
    let table = (header.directory + 1) * 512;
    let damaged = async |offset: u64, value: u32| {
        let file = ds.open("b-s001.vmdk", FileAccess::Write).await.unwrap();
        let before = file.read(offset, 4).await.unwrap();
        file.write(offset, &value.to_le_bytes()).await.unwrap();
        file.close().await.unwrap();
        let error = open(&ds, "b.vmdk", FileAccess::Read).await.err();
        assert!(VirtualDisk::check(&ds, "b.vmdk").await.is_err());
        let file = ds.open("b-s001.vmdk", FileAccess::Write).await.unwrap();
        file.write(offset, &before).await.unwrap();
        file.close().await.unwrap();
        match error {
            Some(VirtualDiskError::Sparse(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(damaged(0, 0).await, SparseError::NotSparse("b-s001.vmdk".to_owned()));
    assert_eq!(damaged(12, 2048).await, SparseError::Field("capacity"));
    assert_eq!(damaged(table + 8, 129).await, SparseError::Entry(129));
    assert_eq!(damaged(table + 8, 1 << 30).await, SparseError::Entry(1 << 30));
    let first = u32::try_from(header.overhead).unwrap();
    assert_eq!(damaged(table + 8, first).await, SparseError::Shared(first));
    // The redundant tables are repaired by the next writer.
    let redundant = (header.redundant.unwrap() + 1) * 512;
    let file = ds.open("b-s001.vmdk", FileAccess::Write).await.unwrap();
    file.write(redundant, &[7; 512]).await.unwrap();
    file.close().await.unwrap();
    open(&ds, "b.vmdk", FileAccess::Write).await.unwrap().close().await.unwrap();
    let file = ds.open("b-s001.vmdk", FileAccess::Read).await.unwrap();
    assert_eq!(file.read(redundant, 2048).await.unwrap(), file.read(table, 2048).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn sparse_kinds_refuse_changes_of_format_and_size() {
    let (_array, ds) = datastore().await;
    let disk = source(&ds, 4 * MIB, &[0, MIB]).await;
    for kind in KINDS {
        let (copy, _) = disk.clone_to(&target(&ds, "b.vmdk", kind), &quiet).await.unwrap();
        assert!(matches!(copy.inflate(&quiet).await, Err(VirtualDiskError::Hosted)));
        assert!(matches!(copy.eager_zero(&quiet).await, Err(VirtualDiskError::Hosted)));
        copy.write(MIB, bytes(0, 512)).await.unwrap();
        assert_eq!(copy.punch_zeros(&quiet).await.unwrap(), 1);
        copy.write_zeros(&quiet).await.unwrap();
        assert_eq!(copy.read(0, 512).await.unwrap(), bytes(0, 512));
        assert!(matches!(copy.grow(8 * MIB, false, &quiet).await.err(), Some(VirtualDiskError::Hosted)));
        open(&ds, "b.vmdk", FileAccess::Write).await.unwrap().close().await.unwrap();
        VirtualDisk::delete(&ds, "b.vmdk").await.unwrap();
    }
    let large = CopyTarget { format: Some(DiskFormat::Thin), ..CopyTarget::new(&ds, "large.vmdk") };
    let (thin, _) =
        VirtualDisk::create(&ds, &large.path, (1 << 40) + 512, DiskFormat::Thin, settings(), &quiet).await.unwrap();
    let refused = thin.clone_to(&target(&ds, "b.vmdk", CreateType::SplitSparse), &quiet).await.err();
    assert!(matches!(refused, Some(VirtualDiskError::Sparse(SparseError::TooLarge))), "{refused:?}");
}
