//! A salvage of arrays with patches.

use super::array::{
    INTERIOR, LEAF, Pages, VOLUME, data, data_slot, interior_patch, leaf_patch, lists, make, slots_patch, superblock,
    void_slots,
};
use super::{READ_ONLY, assert_clean, flip, parts, text, with_list};
use blockmap::{Ref, SlotId};
use fsck::{Region, SalvageReport, Severity, Structure, check, layout, salvage};
use ondisk::{Manifest, ManifestRun};
use testing::MemoryDisk;

fn salvaged(disk: &MemoryDisk) -> SalvageReport {
    salvage(disk, &|_| {}).unwrap()
}

/// Damages both copies of an item.
fn damage(disk: &MemoryDisk, name: &str) {
    let regions = layout(disk).expect("a sound array");
    let copies: Vec<Region> = regions.into_iter().filter(|region| region.name == name).collect();
    assert_eq!(copies.len(), 2, "{name}");
    copies.iter().for_each(|region| flip(disk, region.span.offset));
}

/// Asserts that the salvaged array is sound, has no patches, and has this number of references.
fn assert_salvaged(disk: &MemoryDisk, references: u64) {
    assert_eq!((superblock(disk).sequence, superblock(disk).has_patches), (8, false));
    assert_eq!(assert_clean(disk).mark_totals.references, references);
    assert!(layout(disk).unwrap().iter().all(|region| region.structure != Structure::PatchList));
    let image = disk.image();
    assert_eq!(salvaged(disk).checkpoint, None);
    assert!(disk.image() == image);
}

#[test]
fn intact_array_with_patches_is_not_changed() {
    let disk = make(&Pages::old(), &lists(), |_| {});
    let void = make(&Pages::new(), &vec![(7, vec![void_slots(0)])], |_| {});
    for disk in [disk, void] {
        let image = disk.image();
        assert_eq!(salvaged(&disk).checkpoint, None);
        assert!(disk.image() == image);
    }
}

#[test]
fn patched_pages_are_stored_whole() {
    // Nothing is lost but the directory, which summaries describe.
    let disk = make(&Pages::old(), &lists(), |_| {});
    damage(&disk, "slot directory page 0");
    let report = salvaged(&disk);
    assert_eq!((report.directory_pages, report.slot_pages, report.map_pages, report.blocks), (1, 0, 0, 0));
    assert_salvaged(&disk, 3);
}

#[test]
fn patched_page_above_the_leaves_is_stored_whole() {
    // The patch maps a second MiB as zeros.
    let of = |mapped| interior_patch(INTERIOR, &[(0, Ref::page(LEAF), mapped), (1, Ref::ZERO, 256)]);
    let disk = make(&Pages::old(), &with_list(vec![of(9), of(3)]), |_| {});
    damage(&disk, "slot directory page 0");
    salvaged(&disk);
    assert_salvaged(&disk, 3);
    // Counted in the pages that were stored: three blocks of the leaf, and the zeros.
    assert_eq!(mapped_blocks(&disk), 3 + 256);
}

/// Returns the mapped blocks of the volume, as the manifest states them.
fn mapped_blocks(disk: &MemoryDisk) -> u64 {
    let (image, superblock) = (disk.image(), superblock(disk));
    let run = |run: &ManifestRun| {
        let start = superblock.geometry.sector_start(run.segment(), run.sector()) as usize;
        image[start..][..run.bytes() as usize].to_vec()
    };
    let bytes: Vec<u8> = superblock.manifest.iter().flat_map(run).collect();
    let volumes = Manifest::decode(bytes.into()).unwrap().volumes;
    volumes.iter().find(|volume| volume.id == VOLUME).unwrap().mapped
}

#[test]
fn patched_page_of_the_slot_table_is_rebuilt() {
    for (page, slots) in [("slot table page 0", 2), ("slot table page 1", 2)] {
        let disk = make(&Pages::old(), &lists(), |_| {});
        damage(&disk, page);
        let report = salvaged(&disk);
        assert_eq!((report.slot_pages, report.slots, report.map_pages, report.blocks), (1, slots, 0, 0), "{page}");
        assert!(report.unreadable.is_empty());
        assert_salvaged(&disk, 3);
    }
}

#[test]
fn lost_leaf_with_patches_is_a_lost_range() {
    let disk = make(&Pages::old(), &lists(), |_| {});
    damage(&disk, &format!("map page {LEAF:?}"));
    let report = salvaged(&disk);
    assert_eq!((report.map_pages, report.blocks), (1, 0));
    // Patches do not make a leaf: which of its other entries are holes is lost.
    assert_eq!(report.unreadable[&VOLUME].runs, [(0, 2048)]);
    assert!(!superblock(&disk).has_patches);
    let report = check(&disk, READ_ONLY);
    assert!(report.findings.iter().all(|finding| finding.severity == Severity::Note), "{}", text(&report.findings));
}

#[test]
fn wrong_count_in_a_patch_is_counted_again() {
    let wrong = slots_patch(0, 254, &[(1, data_slot(1, 5))]);
    let disk = make(&Pages::old(), &with_list(vec![wrong]), |_| {});
    assert!(!check(&disk, READ_ONLY).is_clean());
    assert!(salvaged(&disk).checkpoint.is_some());
    assert_salvaged(&disk, 3);
}

#[test]
fn patches_of_no_page_are_dropped() {
    let beyond = slots_patch(2, 255, &[(0, data_slot(0, 1))]);
    let gone = leaf_patch(SlotId { generation: 2, ..LEAF }, &[(3, data(0))]);
    let interior = leaf_patch(INTERIOR, &[(3, data(0))]);
    for stray in [beyond, gone, interior] {
        let alone = make(&Pages::new(), &vec![(7, vec![stray.clone()])], |_| {});
        for disk in [alone, make(&Pages::old(), &with_list(vec![stray]), |_| {})] {
            assert!(salvaged(&disk).checkpoint.is_some());
            assert_salvaged(&disk, 3);
        }
    }
}

#[test]
fn lost_part_cannot_be_salvaged() {
    let disk = make(&Pages::old(), &lists(), |_| {});
    let name = parts(&disk)[0].name.clone();
    damage(&disk, &name);
    let image = disk.image();
    let error = salvage(&disk, &|_| {}).unwrap_err().to_string();
    let words = "both copies are unreadable; which entries of the maps and of the slot table have changed is unknown";
    assert!(error.contains(words) && error.contains(&name), "{error}");
    assert!(disk.image() == image);
}
