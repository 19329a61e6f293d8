//! Patches in checkpoints that are made by hand: they apply where pages are read, each kind of
//! damage is found and named, and a salvage stores patched pages whole.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod array;
mod salvage;

use array::{
    DATA_SEGMENT, Draft, GEOMETRY, INTERIOR, LEAF, Lists, METADATA_SEGMENT, MIRROR_SEGMENT, Pages, VOLUME, data,
    data_slot, interior_patch, leaf_patch, lists, make, page_name, patch, slots_patch, superblock, void_interior,
    void_leaf, void_slots,
};
use blockmap::{Ref, Slot, SlotId, SlotPlace};
use fsck::{
    Checkpoint, Finding, FsckFindings, FsckOptions, FsckReport, Region, Severity, Structure, account_space, audit,
    check, layout,
};
use ondisk::SECTOR_BYTES;
use testing::MemoryDisk;

const READ_ONLY: FsckOptions = FsckOptions { repair: false, check_data: true, threads: 1 };
const REPAIR: FsckOptions = FsckOptions { repair: true, ..READ_ONLY };

fn text(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("{:?} {:?} {finding}\n", finding.severity, finding.structure)).collect()
}

fn assert_clean(disk: &MemoryDisk) -> FsckReport {
    let report = check(disk, READ_ONLY);
    assert_eq!(report.findings, [], "{}", text(&report.findings));
    let findings = FsckFindings::default();
    let checkpoint = Checkpoint::open(disk, superblock(disk), &findings).unwrap();
    assert_eq!(audit(&checkpoint, &findings, &|| true), report.mark_totals);
    let (found, _) = findings.take();
    assert_eq!(found, [], "{}", text(&found));
    report
}

/// Asserts that one finding is about this structure, and has these words.
fn assert_found(disk: &MemoryDisk, structure: Structure, words: &str) -> FsckReport {
    let report = check(disk, READ_ONLY);
    let is_named = report.findings.iter().any(|finding| {
        finding.structure == structure && finding.severity == Severity::Damage && finding.to_string().contains(words)
    });
    assert!(is_named, "{words}\n{}", text(&report.findings));
    report
}

/// The lists of a sound array with one more.
fn with_list(parts: Vec<Vec<u8>>) -> Lists {
    [lists(), vec![(7, parts)]].concat()
}

fn flip(disk: &MemoryDisk, byte: u64) {
    disk.lock()[byte as usize] ^= 1;
}

/// Both copies of each part, in order of their positions in the segments.
fn parts(disk: &MemoryDisk) -> Vec<Region> {
    let regions = layout(disk).expect("a sound array").into_iter();
    regions.filter(|region| region.structure == Structure::PatchList).collect()
}

#[test]
fn patches_apply_where_pages_are_read() {
    for disk in [
        make(&Pages::old(), &lists(), |_| {}),
        // Applying a patch again gives the same page.
        make(&Pages::new(), &lists(), |_| {}),
    ] {
        let report = assert_clean(&disk);
        let totals = report.mark_totals;
        assert_eq!((totals.pages, totals.blocks, totals.references), (2, 2, 3));
        let findings = FsckFindings::default();
        let checkpoint = Checkpoint::open(&disk, superblock(&disk), &findings).unwrap();
        let space = account_space(&checkpoint, &|volume| (volume, false), &|| true).unwrap();
        assert_eq!((space.families[&VOLUME].volume, space.released), (8192, 0));
    }
    // Without the newest list, the volume states more blocks than it has.
    let disk = make(&Pages::old(), &lists()[..1].to_vec(), |_| {});
    assert_found(&disk, Structure::MapPage, "2 blocks are mapped below it");
}

#[test]
fn patches_of_pages_above_the_leaves_apply() {
    let of = |mapped: u64| interior_patch(INTERIOR, &[(0, Ref::page(LEAF), mapped), (1023, Ref::HOLE, 0)]);
    // A newer one replaces an older one.
    assert_clean(&make(&Pages::old(), &with_list(vec![of(9), of(3)]), |_| {}));
    assert_clean(&make(&Pages::old(), &with_list(vec![[of(9), void_interior(INTERIOR)].concat()]), |_| {}));
    for bad in [of(3), void_interior(INTERIOR)] {
        let disk = make(&Pages::old(), &with_list(vec![bad]), |draft| draft.has_interior_patches = false);
        let words = "is of a page above the leaves, which the superblock does not state";
        assert_found(&disk, Structure::PatchList, words);
    }
    for lists in [with_list(vec![of(3), of(9)]), with_list(vec![[of(9), void_leaf(INTERIOR)].concat()])] {
        let disk = make(&Pages::old(), &lists, |_| {});
        assert_found(&disk, Structure::MapPage, "9 blocks are mapped below it");
    }
}

#[test]
fn void_ends_the_patches_before_it() {
    let wrong = [slots_patch(0, 7, &[(0, data_slot(0, 9))]), leaf_patch(LEAF, &[(3, data(0))])].concat();
    let gone = SlotId { slot: 300, generation: 1 };
    let first = [wrong.clone(), leaf_patch(gone, &[(0, data(0))])].concat();
    // The page is stored whole, and changes again before the same checkpoint ends.
    let second = [wrong, void_leaf(gone), void_leaf(LEAF), void_slots(0), leaf_patch(LEAF, &[(2, data(1))])].concat();
    let mut pages = Pages::new();
    pages.leaf.truncate(2);
    let report = assert_clean(&make(&pages, &vec![(5, vec![first.clone()]), (7, vec![second])], |_| {}));
    assert_eq!(report.mark_totals.references, 3);
    // A void of another generation ends nothing.
    let other = [void_leaf(SlotId { generation: 4, ..LEAF }), void_leaf(gone), void_slots(0)].concat();
    let disk = make(&Pages::new(), &vec![(5, vec![first]), (7, vec![other])], |_| {});
    assert_found(&disk, Structure::MapPage, "4 blocks are mapped below it");
}

#[test]
fn malformed_patches_are_named() {
    let leaf = Ref::page(LEAF).to_bits().to_le_bytes();
    let entry = |index: u8| [&[index][..], &[0; 8]].concat();
    let slot = [[0; 17].to_vec()];
    let cases = [
        (patch(0, 0, 1, leaf, &[entry(0)]), "is of an unknown kind"),
        (patch(4, 0, 1, leaf, &[entry(0)]), "is of an unknown kind"),
        (patch(3, 0, 1, leaf, &[entry(0)]), "is cut off"),
        (interior_patch(INTERIOR, &[(1024, Ref::HOLE, 0)]), "has an entry beyond the end of its page"),
        (interior_patch(INTERIOR, &[(256, Ref::HOLE, 0), (1, Ref::HOLE, 0)]), "has entries that are out of order"),
        (patch(3, 1, 0, data(0).to_bits().to_le_bytes(), &[]), "names no page of the map"),
        (patch(2, 2, 0, leaf, &[]), "is neither entries nor void"),
        (patch(2, 0, 0, leaf, &[]), "has an invalid number of entries"),
        (patch(2, 0, 257, leaf, &[entry(0)]), "has an invalid number of entries"),
        (patch(2, 1, 1, leaf, &[entry(0)]), "has an invalid number of entries"),
        (patch(2, 0, 2, leaf, &[entry(0)]), "is cut off"),
        (patch(2, 1, 0, leaf, &[])[..11].to_vec(), "is cut off"),
        (patch(2, 0, 2, leaf, &[entry(5), entry(5)]), "has entries that are out of order"),
        (patch(2, 0, 2, leaf, &[entry(5), entry(4)]), "has entries that are out of order"),
        (patch(2, 0, 1, data(0).to_bits().to_le_bytes(), &[entry(0)]), "names no page of the map"),
        (patch(1, 0, 1, page_name(0, 257), &slot), "states invalid free slots, or an invalid use of the slots"),
        (patch(1, 0, 1, [0, 0, 0, 0, 1, 0, 4, 0], &slot), "states invalid free slots, or an invalid use of the slots"),
        (patch(1, 0, 1, [0, 0, 0, 0, 1, 0, 3, 1], &slot), "states invalid free slots, or an invalid use of the slots"),
    ];
    for (bad, words) in cases {
        let sound = leaf_patch(LEAF, &[(2, data(1))]);
        let words = format!("its checksum matches, but the patch at byte {} ", sound.len()) + words;
        let disk = make(&Pages::old(), &with_list(vec![[sound, bad].concat()]), |_| {});
        let report = assert_found(&disk, Structure::PatchList, &words);
        let names: Vec<&str> = report.findings.iter().map(|finding| &finding.name[..]).collect();
        assert_eq!(names, ["part 0 of the patch list of checkpoint 7"], "{words}");
    }
}

#[test]
fn patches_of_pages_that_cannot_have_one_are_named() {
    let beyond = SlotId { slot: 1 << 30, generation: 0 };
    let cases = [
        (slots_patch(2, 255, &[(0, data_slot(0, 1))]), "patch of slot table page 2: the slot table has 2 pages"),
        (slots_patch(u32::MAX, 255, &[(0, data_slot(0, 1))]), "the slot table has 2 pages"),
        (leaf_patch(SlotId { generation: 2, ..LEAF }, &[(3, data(0))]), "no slot holds this page"),
        (leaf_patch(SlotId { slot: 0, generation: 0 }, &[(3, data(0))]), "no slot holds this page"),
        (leaf_patch(SlotId { slot: 300, generation: 0 }, &[(3, data(0))]), "no slot holds this page"),
        (leaf_patch(beyond, &[(3, data(0))]), "no slot holds this page"),
        (leaf_patch(INTERIOR, &[(3, data(0))]), "the page is not a leaf"),
        (interior_patch(LEAF, &[(3, Ref::HOLE, 0)]), "the page is a leaf"),
        (interior_patch(SlotId { slot: 0, generation: 0 }, &[(3, Ref::HOLE, 0)]), "no slot holds this page"),
    ];
    for (bad, words) in cases {
        let disk = make(&Pages::old(), &with_list(vec![bad]), |_| {});
        let report = assert_found(&disk, Structure::PatchList, words);
        let others = report.findings.iter().filter(|finding| finding.structure != Structure::PatchList);
        assert_eq!(others.count(), 0, "{}", text(&report.findings));
    }
    let never_stored = with_list(vec![slots_patch(2, 256, &[(0, data_slot(0, 1))])]);
    let disk = make(&Pages::old(), &never_stored, |draft| draft.slot_pages = 3);
    assert_found(&disk, Structure::PatchList, "patch of slot table page 2: the page was never stored");
}

#[test]
fn patched_pages_must_be_valid() {
    let page = leaf_patch(LEAF, &[(3, Ref::page(INTERIOR))]);
    let disk = make(&Pages::old(), &with_list(vec![page]), |_| {});
    assert_found(&disk, Structure::MapPage, "with its patches it is not a valid page");
    let mut reference = leaf_patch(LEAF, &[(3, Ref::HOLE)]);
    *reference.last_mut().unwrap() = 0xF0;
    let disk = make(&Pages::old(), &with_list(vec![reference]), |_| {});
    assert_found(&disk, Structure::MapPage, "with its patches it is not a valid page");
    let disk = make(&Pages::old(), &with_list(vec![interior_patch(INTERIOR, &[(3, data(0), 1)])]), |_| {});
    assert_found(&disk, Structure::MapPage, "with its patches it is not a valid page");
    for bad in [Slot { count: 0, ..data_slot(0, 1) }, Slot { count: 1, place: None, crc: 0, ..data_slot(0, 1) }] {
        let disk = make(&Pages::old(), &with_list(vec![slots_patch(0, 254, &[(0, bad)])]), |_| {});
        assert_found(&disk, Structure::SlotTable, "with its patches it holds an invalid slot");
    }
}

#[test]
fn newest_patch_states_the_free_slots() {
    let same = |free| slots_patch(0, free, &[(1, data_slot(1, 2))]);
    assert_clean(&make(&Pages::old(), &with_list(vec![same(3), same(254)]), |_| {}));
    let disk = make(&Pages::old(), &with_list(vec![same(254), same(3)]), |_| {});
    let words = "slot table page 0: 3 free slots are recorded, but 254 were found";
    assert_found(&disk, Structure::SlotTable, words);
}

#[test]
fn places_of_parts_are_checked() {
    type Edit = fn(&mut [u32; 4]);
    let cases: [(Edit, &str); 8] = [
        (|part| part[0] = 99, "its location (segment 99, sector 88) is outside the drive"),
        (|part| part[0] = u32::MAX, "is outside the drive"),
        (|part| part[1] = 128, "its location (segment 1, sector 128) is outside the drive"),
        (|part| part[1] = u32::MAX, "is outside the drive"),
        (|part| part[0] = DATA_SEGMENT, "its segment, 0, is not recorded as one of metadata"),
        (|part| part[0] = MIRROR_SEGMENT, "its segment, 2, is not recorded as one of metadata"),
        (|part| part[0] = 9, "its segment, 9, is not recorded as one of metadata"),
        (|part| part[1] += 1, "its first sector, 89, is not a multiple of 8"),
    ];
    for (edit, words) in cases {
        let disk = make(&Pages::old(), &lists(), |draft| edit(&mut draft.lists[1].1[1]));
        assert_found(&disk, Structure::PatchList, words);
    }
    let disk = make(&Pages::old(), &lists(), |draft| draft.lists[1].1[1] = draft.lists[0].1[0]);
    assert_found(&disk, Structure::PatchList, "it overlaps with part 0 of the patch list of checkpoint 5");
    // The list of a sound array is in the order of the segment, so both orders occur.
    let disk = make(&Pages::old(), &lists(), |draft| draft.lists[0].1[0] = draft.lists[1].1[1]);
    assert_found(&disk, Structure::PatchList, "it overlaps with part");
}

#[test]
fn parts_must_not_overlap_with_other_items() {
    let sound = make(&Pages::old(), &lists(), |_| {});
    let first = &parts(&sound)[0];
    let bytes = &sound.image()[first.span.offset as usize..][..4096];
    let sector = (first.span.offset - GEOMETRY.segment_start(METADATA_SEGMENT)) / SECTOR_BYTES;
    let (crc, place) = (crc32c::crc32c(bytes), SlotPlace::single(METADATA_SEGMENT, sector as u16, 8));
    // A slot whose page is where the part is.
    let slot = Slot { count: 1, generation: 0, crc, place: Some(place), names: None };
    let disk = make(&Pages::old(), &with_list(vec![slots_patch(1, 253, &[(2, slot)])]), |_| {});
    assert_found(&disk, Structure::SlotTable, "overlaps with");
}

#[test]
fn invalid_patch_lists_are_refused() {
    let header = |lists: u64, sequence: u64, parts: u32| {
        [&lists.to_le_bytes()[..], &sequence.to_le_bytes(), &parts.to_le_bytes()].concat()
    };
    let length = |bytes: u32| [header(1, 5, 1), [1, 64, bytes, 0].map(u32::to_le_bytes).concat()].concat();
    for (encoded, words) in [
        (header(0, 0, 0)[..8].to_vec(), "number of patch lists"),
        (header(1025, 5, 1), "number of patch lists"),
        (header(u64::MAX, 5, 1), "number of patch lists"),
        (header(1, 5, 0), "number of parts of a patch list"),
        (header(1, 5, u32::MAX), "parts of a patch list"),
        (length(0), "length of a part of a patch list"),
        (length((1 << 20) + 1), "length of a part of a patch list"),
    ] {
        let disk = make(&Pages::old(), &lists(), |draft| draft.encoded = Some(encoded));
        assert_found(&disk, Structure::Manifest, &format!("invalid manifest: {words}"));
    }
    let edited = |edit: fn(&mut Draft)| make(&Pages::old(), &lists(), edit);
    let disk = edited(|draft| draft.lists[1].0 = 5);
    assert_found(&disk, Structure::Manifest, "invalid manifest: order of the patch lists");
    let disk = edited(|draft| draft.lists[1].0 = 8);
    let words = "the manifest of checkpoint 7 names the patch list of checkpoint 8, which is newer";
    assert_found(&disk, Structure::Manifest, words);
    let disk = edited(|draft| draft.has_patches = false);
    assert_found(&disk, Structure::Manifest, "the superblock and the manifest differ in whether there are patches");
}

#[test]
fn accounts_count_the_parts() {
    let disk = make(&Pages::old(), &lists(), |draft| draft.metadata().live -= 3);
    assert_found(&disk, Structure::SegmentAccount, "account of segment 1");
    let findings = FsckFindings::default();
    let checkpoint = Checkpoint::open(&disk, superblock(&disk), &findings).unwrap();
    audit(&checkpoint, &findings, &|| true);
    let (found, _) = findings.take();
    assert_eq!(found.len(), 1, "{}", text(&found));
    assert!(found[0].name == "account of segment 1", "{}", text(&found));
}

#[test]
fn bad_copy_of_a_part_is_repaired_from_the_other() {
    let disk = make(&Pages::old(), &lists(), |_| {});
    let sound = disk.image();
    let parts = parts(&disk);
    assert_eq!(parts.len(), 6, "three parts, twice: {parts:?}");
    for region in &parts {
        flip(&disk, region.span.offset + region.span.bytes / 2);
        let report = check(&disk, READ_ONLY);
        let [finding] = &report.findings[..] else { panic!("{}", text(&report.findings)) };
        assert_eq!((finding.severity, finding.structure), (Severity::Redundancy, Structure::PatchList));
        assert_eq!(report.mark_totals.references, 3, "the other copy applies");
        let report = check(&disk, REPAIR);
        assert!(report.findings.iter().all(|finding| finding.is_repaired), "{}", text(&report.findings));
        assert!(disk.image() == sound, "{region:?}");
    }
    assert_clean(&disk);
}

#[test]
fn lost_part_ends_the_check_of_slots_and_maps() {
    let disk = make(&Pages::old(), &lists(), |_| {});
    let parts = parts(&disk);
    let copies = || parts.iter().filter(|region| region.name == parts[0].name);
    assert_eq!(copies().count(), 2);
    copies().for_each(|region| flip(&disk, region.span.offset));
    let words = "Which entries of the maps and of the slot table have changed is unknown.";
    let report = assert_found(&disk, Structure::PatchList, words);
    let is_part = |finding: &Finding| finding.structure == Structure::PatchList && finding.name == parts[0].name;
    assert!(report.findings.iter().all(is_part), "{}", text(&report.findings));
    assert_eq!(report.mark_totals.references, 0);
    assert!(report.read_totals.pages > 3, "pages of the slot table and its directory are read");
    assert!(layout(&disk).is_none());
    let findings = FsckFindings::default();
    let checkpoint = Checkpoint::open(&disk, superblock(&disk), &findings).unwrap();
    audit(&checkpoint, &findings, &|| true);
    assert_eq!(findings.take().0.len(), 1);
    let error = account_space(&checkpoint, &|volume| (volume, false), &|| true).unwrap_err();
    assert!(error.to_string().contains("both copies are unreadable"), "{error}");
    assert_eq!(fsck::locate(&checkpoint, &std::iter::once(0).collect(), &|| true), None);
}
