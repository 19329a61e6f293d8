//! Compares trees with a plain array of references.
#![expect(clippy::cast_possible_truncation, reason = "test values are small")]

use crate::absent::{Absent, Need};
use crate::page::{entry_span, span};
use crate::reference::{Ref, RefTarget, SlotId};
use crate::slot::SlotPlace;
use crate::tree::audit::AuditViolation;
use crate::tree::{Map, Root, touched};

/// Two volumes of one map, with the expected reference of each block.
struct Bench {
    map: Map,
    roots: Vec<Root>,
    plain: Vec<Vec<Ref>>,
}

const BLOCKS: u64 = 3 * 256 + 100;

impl Bench {
    fn new() -> Self {
        Self {
            map: Map::default(),
            roots: vec![Root::empty(BLOCKS); 2],
            plain: vec![vec![Ref::HOLE; BLOCKS as usize]; 2],
        }
    }

    fn write(&mut self, volume: usize, block: u64) {
        let reference = Ref::data(self.map.slots.allocate());
        self.map.set(&mut self.roots[volume], block, &[reference]);
        self.plain[volume][block as usize] = reference;
    }

    fn fill(&mut self, volume: usize, first: u64, end: u64, fill: Ref) {
        self.map.fill(&mut self.roots[volume], first, end, fill);
        self.plain[volume][first as usize..end as usize].fill(fill);
    }

    fn spread(&mut self, volume: usize, first: u64, end: u64) {
        let reference = Ref::data(self.map.slots.allocate());
        self.map.fill_with_block(&mut self.roots[volume], first, end, reference);
        self.plain[volume][first as usize..end as usize].fill(reference);
    }

    fn copy(&mut self, from: usize, first: u64, end: u64, volume: usize, to: u64) {
        let height = self.roots[volume].height;
        let pieces = self.map.collect(&self.roots[from], first, end, to, height).unwrap();
        self.map.store(&mut self.roots[volume], to, &pieces);
        let held = self.plain[from][first as usize..end as usize].to_vec();
        self.plain[volume][to as usize..to as usize + held.len()].copy_from_slice(&held);
    }

    /// Replaces a volume by a copy of another one.
    fn copy_volume(&mut self, from: usize, volume: usize) {
        let copy = self.map.copy(&self.roots[from]).unwrap();
        let before = std::mem::replace(&mut self.roots[volume], copy);
        self.map.release(before.reference);
        self.plain[volume] = self.plain[from].clone();
    }

    fn check(&mut self) {
        for (root, plain) in self.roots.iter().zip(&self.plain) {
            let mut seen = Vec::new();
            self.map.visit(root, 0, BLOCKS, &mut |at, blocks, reference| {
                assert_eq!(at, seen.len() as u64);
                seen.extend(std::iter::repeat_n(reference, blocks as usize));
            });
            seen.iter_mut().for_each(|seen| *seen = self.map.block(*seen).map_or(*seen, Ref::data));
            assert_eq!(&seen, plain);
            let mapped = plain.iter().filter(|reference| **reference != Ref::HOLE).count() as u64;
            assert_eq!(root.mapped, mapped);
        }
        while self.map.drop_next().unwrap() {}
        self.map.audit(&self.map.slots, &self.roots, &[], &mut |_| None).unwrap();
    }
}

#[test]
fn aligned_copy_shares_leaves() {
    let mut bench = Bench::new();
    (0..512).for_each(|block| bench.write(0, block));
    bench.check();
    let used = bench.map.slots.used();
    bench.copy(0, 0, 512, 1, 256);
    bench.check();
    assert_eq!(bench.map.slots.used(), used + 1, "only the root page of the other volume is new");
    bench.write(1, 300);
    bench.check();
}

#[test]
fn overlapping_copy_behaves_like_memmove() {
    for to in [1, 255, 256, 257] {
        let mut bench = Bench::new();
        (0..600).step_by(3).for_each(|block| bench.write(0, block));
        bench.copy(0, 0, 500, 0, to);
        bench.check();
        bench.copy(0, to, to + 500, 0, 0);
        bench.check();
    }
}

#[test]
fn full_counts_refuse_no_copy() {
    let mut bench = Bench::new();
    bench.map.slots.set_max_references(3);
    (0..512).for_each(|block| bench.write(0, block));
    let RefTarget::Data(block) = bench.plain[0][0].target() else { panic!("a block of data") };
    // Neither end is aligned to a leaf, so the blocks are counted.
    (0..20).for_each(|_| bench.copy(0, 0, 300, 1, 100));
    assert_eq!(bench.map.slots.count(block), 2, "one copy holds it, the others are gone");
    (0..3).for_each(|copy| bench.copy(0, 0, 100, 1, 101 + 150 * copy));
    bench.check();
    assert_eq!(bench.map.slots.count(block), 3, "a new alias has taken over the reference of the first volume");
    let copies: Vec<Root> = (0..8).map(|_| bench.map.copy(&bench.roots[0]).unwrap()).collect();
    let RefTarget::Page(root) = bench.roots[0].reference.target() else { panic!("a page") };
    assert_eq!(bench.map.slots.count(root), 3, "the other copies have pages of their own");
    assert_eq!(copies.iter().filter(|copy| copy.reference == bench.roots[0].reference).count(), 2);
    copies.into_iter().for_each(|copy| bench.map.release(copy.reference));
    bench.check();
}

#[test]
fn copies_after_others_enter_pages_that_become_full() {
    let mut map = Map::default();
    let mut root = Root::empty(2048);
    let blocks: Vec<Ref> = (0..256).map(|_| Ref::data(map.slots.allocate())).collect();
    map.set(&mut root, 0, &blocks);
    // One leaf four times.
    for to in 1..4 {
        let pieces = map.collect(&root, 0, 256, to * 256, root.height).unwrap();
        map.store(&mut root, to * 256, &pieces);
    }
    map.slots.set_max_references(8);
    let RefTarget::Page(top) = root.reference.target() else { panic!("a page") };
    let RefTarget::Page(leaf) = map.pages.get(top).unwrap().refs[0].target() else { panic!("a leaf") };
    for _ in 0..7 {
        map.copy(&root).unwrap();
    }
    assert_eq!((map.slots.count(top), map.slots.count(leaf)), (8, 4));
    map.pages.remove(leaf).unwrap();
    let missing = |earlier: u32| {
        let mut missing = Vec::new();
        map.missing(&root, 0, span(root.height), Need::Sharing { earlier }, |_, _| true, &mut missing);
        missing
    };
    assert_eq!(missing(0), []);
    // The first copy, by parts, makes the leaf full, so the second needs its entries.
    assert!(missing(1).contains(&Absent::Page(leaf)), "{:?}", missing(1));
}

#[test]
fn dropping_everything_frees_every_slot() {
    let mut bench = Bench::new();
    (0..BLOCKS).for_each(|block| bench.write(0, block));
    bench.copy(0, 0, BLOCKS, 1, 0);
    bench.fill(0, 0, span(bench.roots[0].height).min(BLOCKS), Ref::HOLE);
    bench.fill(1, 0, BLOCKS, Ref::ZERO);
    bench.check();
    let mut freed = Vec::new();
    bench.map.take_freed(&mut freed);
    assert!(freed.len() as u64 >= BLOCKS);
    assert!(bench.map.slots.used() <= 4, "only the paths along the edge remain");
}

#[test]
fn growing_a_tree_keeps_its_content() {
    let mut map = Map::default();
    let mut root = Root::empty(256);
    let reference = Ref::data(map.slots.allocate());
    map.set(&mut root, 7, &[reference]);
    map.grow(&mut root, span(2));
    assert_eq!(root.height, 2);
    let mut found = Vec::new();
    map.visit(&root, 0, 1000, &mut |at, blocks, seen| {
        if matches!(seen.target(), RefTarget::Data(_)) {
            found.push((at, blocks, seen));
        }
    });
    assert_eq!(found, [(7, 1, reference)]);
    assert_eq!(entry_span(2), span(1));
    map.audit(&map.slots, &[root], &[], &mut |_| None).unwrap();
}

proptest::proptest! {
    #[test]
    fn random_edits_match_a_plain_array(
        ops in proptest::collection::vec((0..8u8, 0..2usize, 0..BLOCKS, 1..400u64, 0..BLOCKS, 0..2usize), 1..60),
        max_references in proptest::option::of(2..6u32),
    ) {
        let mut bench = Bench::new();
        max_references.into_iter().for_each(|max| bench.map.slots.set_max_references(max));
        for (kind, volume, first, length, to, other) in ops {
            let end = (first + length).min(BLOCKS);
            match kind {
                0 => (first..end.min(first + 9)).for_each(|block| bench.write(volume, block)),
                1 => bench.fill(volume, first, end, Ref::HOLE),
                2 => bench.fill(volume, first, end, Ref::pattern(7)),
                3 => bench.fill(volume, first, end, Ref::ZERO),
                6 => bench.spread(volume, first, end),
                7 => bench.copy_volume(volume, 1 - volume),
                _ => {
                    // Every other copy has the same alignment at both ends.
                    let to = if kind == 4 { to - to % 256 + first % 256 } else { to };
                    let end = end.min(first + BLOCKS.saturating_sub(to));
                    if end > first {
                        bench.copy(volume, first, end, other, to);
                    }
                }
            }
            bench.check();
        }
    }
}

/// Creates an empty map and the root of a tall tree.
fn tall() -> (Map, Root) {
    (Map::default(), Root::empty(3 * span(2)))
}

fn audited(map: &mut Map, roots: &[Root]) -> Result<(), AuditViolation> {
    while map.drop_next().unwrap() {}
    map.audit(&map.slots, roots, &[], &mut |_| None).map(|_| ())
}

#[test]
fn mapped_blocks_are_counted_at_every_level() {
    let (mut map, mut root) = tall();
    assert_eq!(root.height, 3);
    map.fill(&mut root, 100, span(2) + 100, Ref::ZERO);
    assert_eq!(root.mapped, span(2));
    let block = Ref::data(map.slots.allocate());
    map.fill_with_block(&mut root, span(2) - 10, 2 * span(2) + span(1) + 1, block);
    assert_eq!(root.mapped, 2 * span(2) + span(1) + 1 - 100);
    let pieces = map.collect(&root, 0, span(2), 2 * span(2), root.height).unwrap();
    map.store(&mut root, 2 * span(2), &pieces);
    assert_eq!(root.mapped, 3 * span(2) - 200, "a whole page replaces the old content");
    let block = Ref::data(map.slots.allocate());
    map.set(&mut root, 99, &[block]);
    assert_eq!(root.mapped, 3 * span(2) - 199, "the block was a hole");
    let block = Ref::data(map.slots.allocate());
    map.set(&mut root, 2 * span(2) + 5000, &[block]);
    assert_eq!(root.mapped, 3 * span(2) - 199, "the block was not a hole");
    map.fill(&mut root, 50, 3 * span(2) - span(1), Ref::HOLE);
    assert_eq!(root.mapped, span(1));
    audited(&mut map, &[root]).unwrap();
    map.grow(&mut root, span(4));
    assert_eq!((root.height, root.mapped), (4, span(1)));
    audited(&mut map, &[root]).unwrap();
}

#[test]
fn audit_finds_wrong_mapped_count() {
    let (mut map, mut root) = tall();
    let block = Ref::data(map.slots.allocate());
    map.set(&mut root, 700, &[block]);
    map.set(&mut root, 5, &[Ref::ZERO]);
    audited(&mut map, &[root]).unwrap();
    let wrong = Root { mapped: 3, ..root };
    assert_eq!(
        audited(&mut map, &[wrong]),
        Err(AuditViolation::WrongMapped { reference: root.reference, counted: 3, found: 2 })
    );
    let RefTarget::Page(top) = root.reference.target() else { panic!("the root is a page") };
    map.pages.edit(top).add_mapped(0, 1);
    let found = audited(&mut map, &[root]);
    assert!(matches!(found, Err(AuditViolation::WrongMapped { .. })), "{found:?}");
    map.pages.edit(top).add_mapped(0, u64::MAX);
    map.pages.edit(top).add_mapped(1, 1);
    let found = audited(&mut map, &[Root { mapped: 3, ..root }]);
    assert_eq!(found, Err(AuditViolation::WrongMapped { reference: Ref::HOLE, counted: 1, found: 0 }));
}

#[test]
fn page_at_wrong_level_is_not_entered() {
    let (mut map, mut root) = tall();
    let block = Ref::data(map.slots.allocate());
    map.set(&mut root, 0, &[block]);
    let lower = Root { height: 2, ..root };
    let mut missing = Vec::new();
    map.missing(&lower, 0, 10, Need::References, |_, _| false, &mut missing);
    let RefTarget::Page(top) = root.reference.target() else { panic!("the root is a page") };
    assert_eq!(missing, [Absent::Page(top)]);
    assert_eq!(audited(&mut map, &[lower]), Err(AuditViolation::WrongLevel(top)));
}

proptest::proptest! {
    /// The auditor verifies every count of a tall tree after edits of every kind and length.
    #[test]
    fn mapped_counts_stay_exact_in_tall_trees(ops in proptest::collection::vec((0..6u8, 0..12u64, 0..600u64, 0..4u8, 0..12u64), 1..30)) {
        let (mut map, empty) = tall();
        let mut roots = [empty; 2];
        let end = 3 * span(2);
        for (kind, big, small, length, to) in ops {
            // Ranges start near the edges of pages of every level.
            let first = (big * span(2) / 4 + small).min(end - 1);
            let last = (first + [1, 255, span(1) + 3, span(2)][usize::from(length)]).min(end);
            let volume = usize::from(kind % 2);
            match kind / 2 {
                0 => map.fill(&mut roots[volume], first, last, if small % 2 == 0 { Ref::HOLE } else { Ref::ZERO }),
                1 => {
                    let block = Ref::data(map.slots.allocate());
                    map.fill_with_block(&mut roots[volume], first, last, block);
                }
                _ => {
                    let to = to * span(2) / 4 + if small % 3 == 0 { first % span(0) } else { small };
                    let last = last.min(first + end.saturating_sub(to));
                    if to < end && last > first && last - first < span(1) * 2 {
                        let pieces = map.collect(&roots[volume], first, last, to, empty.height).unwrap();
                        map.store(&mut roots[1 - volume], to, &pieces);
                    }
                }
            }
            proptest::prop_assert_eq!(audited(&mut map, &roots), Ok(()));
        }
    }
}

/// Creates a volume whose leaf names slots in 32 pages of the slot table.
fn scattered() -> (Map, Root) {
    let mut map = Map::default();
    let mut root = Root::empty(256);
    let spread: Vec<Ref> = (0..32 * 256).map(|_| Ref::data(map.slots.allocate())).collect();
    let refs: Vec<Ref> = (0..256).map(|block| spread[block % 32 * 256 + block / 32]).collect();
    map.set(&mut root, 0, &refs);
    for (number, reference) in spread.iter().enumerate() {
        let Some(id) = reference.slot() else { continue };
        map.slots.set_place(id, SlotPlace::single(1, number as u16, 8), number as u32);
        if !refs.contains(reference) {
            map.release(*reference);
        }
    }
    let RefTarget::Page(leaf) = root.reference.target() else { panic!("a leaf") };
    map.slots.set_place(leaf, SlotPlace::single(2, 0, 4), 1);
    map.take_freed(&mut Vec::new());
    (map, root)
}

/// Returns the references of the leaf, and the blocks that they lead to.
fn leaf_of(map: &mut Map, root: &Root) -> (Vec<Ref>, Vec<Option<SlotId>>) {
    let mut refs = Vec::new();
    map.visit(root, 0, 256, &mut |_, _, reference| refs.push(reference));
    let blocks = refs.iter().map(|reference| map.block(*reference)).collect();
    (refs, blocks)
}

#[test]
fn copied_leaf_counts_slots_of_few_pages() {
    let (mut map, mut root) = scattered();
    let snapshot = root;
    let (_, before) = leaf_of(&mut map, &root);
    map.slots.take_dirty();
    map.slots.finish_writes();
    assert!(map.count_up(root.reference));
    map.set(&mut root, 7, &[Ref::ZERO]);
    let changed = map.slots.take_dirty();
    assert!(changed.len() <= 3, "the leaves and the aliases, not 32 pages: {changed:?}");
    let (refs, blocks) = leaf_of(&mut map, &snapshot);
    assert_eq!(blocks, before, "the snapshot leads to the same blocks");
    assert!(refs.iter().all(|reference| matches!(reference.target(), RefTarget::Alias(_))));
    let (_, blocks) = leaf_of(&mut map, &root);
    assert_eq!((blocks[7], &blocks[8..]), (None, &before[8..]));
    map.audit(&map.slots, &[snapshot, root], &[], &mut |_| None).unwrap();
    assert_eq!(map.slots.shared_aliases(), 255);
    // The volume overwrites everything, then the snapshot goes: all blocks and aliases are free.
    map.fill(&mut root, 0, 256, Ref::HOLE);
    map.release(snapshot.reference);
    while map.drop_next().unwrap() {}
    let mut freed = Vec::new();
    map.take_freed(&mut freed);
    assert_eq!(freed.iter().filter(|freed| freed.place.is_some_and(|place| place.segment == 1)).count(), 256);
    assert_eq!((map.slots.used(), map.slots.shared_aliases()), (0, 0));
}

/// Evicts all pages of the slot table. Returns them as they are stored.
fn evict_slots(map: &mut Map) -> Vec<Vec<u8>> {
    map.slots.take_dirty();
    map.slots.finish_writes();
    let drive: Vec<Vec<u8>> = (0..map.slots.pages()).map(|page| map.slots.page_bytes(page).to_vec()).collect();
    (0..2).for_each(|_| map.slots.shrink(0, 0));
    assert_eq!(map.slots.absent_pages(), u64::from(map.slots.pages()));
    drive
}

/// Loads what a change of one block needs. Returns the pages of the slot table.
fn load_for_change(map: &mut Map, root: &Root, block: u64, need: Need, drive: &[Vec<u8>]) -> Vec<u32> {
    let mut loads = Vec::new();
    loop {
        let mut missing = Vec::new();
        map.missing(root, block, block + 1, need, |_, _| false, &mut missing);
        if missing.is_empty() {
            return loads;
        }
        for absent in missing {
            let Absent::Slots(page) = absent else { panic!("{absent:?}") };
            assert!(map.slots.load_page(page, &drive[page as usize], |_| true, |segment| segment == 2));
            loads.push(page);
        }
    }
}

#[test]
fn gathering_needs_no_page_of_far_blocks() {
    let (mut map, mut root) = scattered();
    assert!(map.count_up(root.reference));
    let drive = evict_slots(&mut map);
    let loads = load_for_change(&mut map, &root, 7, Need::Edit { may_be_shared: None }, &drive);
    assert!(loads.len() <= 2, "the slots of the leaf and of the block that is replaced: {loads:?}");
    map.set(&mut root, 7, &[Ref::ZERO]);
    let mut refs = Vec::new();
    map.visit(&root, 0, 256, &mut |_, _, reference| refs.push(reference));
    assert_eq!(refs.iter().filter(|reference| matches!(reference.target(), RefTarget::Alias(_))).count(), 255);
}

#[test]
fn replaced_block_that_a_snapshot_keeps_is_not_read() {
    let (mut map, mut root) = scattered();
    let snapshot = root;
    assert!(map.count_up(root.reference));
    let of_block = |map: &mut Map, root: &Root, block: u64| {
        let mut found = Ref::HOLE;
        map.visit(root, block, block + 1, &mut |_, _, reference| found = reference);
        found.slot().map(page_of_slot).unwrap()
    };
    // The first change copies the leaf; the second one finds the copy, with aliases.
    for block in [7, 9] {
        let named = of_block(&mut map, &root, block);
        let drive = evict_slots(&mut map);
        let loads = load_for_change(&mut map, &root, block, Need::Replace, &drive);
        assert!(loads.len() <= 2 && (block == 9 || !loads.contains(&named)), "{loads:?}, {named}");
        assert_eq!(map.slots.absent_pages() + loads.len() as u64, u64::from(map.slots.pages()));
        map.set(&mut root, block, &[Ref::ZERO]);
        let RefTarget::Page(leaf) = root.reference.target() else { panic!("a leaf") };
        map.slots.set_place(leaf, SlotPlace::single(2, 4, 4), 1);
        let absent = (0..map.slots.pages()).filter(|page| !map.slots.is_loaded(u64::from(*page) * 256));
        for page in absent.collect::<Vec<_>>() {
            assert!(map.slots.load_page(page, &drive[page as usize], |_| true, |segment| segment == 2));
        }
        map.audit(&map.slots, &[snapshot, root], &[], &mut |_| None).unwrap();
    }
    // Without the snapshot nothing else keeps the blocks, so the next one is read.
    map.release(snapshot.reference);
    while map.drop_next().unwrap() {}
    let drive = evict_slots(&mut map);
    let loads = load_for_change(&mut map, &root, 11, Need::Replace, &drive);
    map.set(&mut root, 11, &[Ref::ZERO]);
    let freed = map.freed.iter().filter(|freed| freed.place.is_some()).count();
    assert!(freed > 0 && loads.len() == 3, "the slots of the leaf, of the alias and of the block: {loads:?}");
}

fn page_of_slot(id: SlotId) -> u32 {
    u32::try_from(id.slot / 256).unwrap()
}

#[test]
fn block_by_block_copies_share_aliases() {
    let (mut map, mut root) = scattered();
    let snapshot = root;
    assert!(map.count_up(root.reference));
    map.set(&mut root, 0, &[Ref::ZERO]);
    let mut other = Root::empty(512);
    let pieces = map.collect(&snapshot, 10, 20, 3, other.height).unwrap();
    map.store(&mut other, 3, &pieces);
    map.audit(&map.slots, &[snapshot, root, other], &[], &mut |_| None).unwrap();
    for gone in [snapshot, root] {
        map.release(gone.reference);
    }
    while map.drop_next().unwrap() {}
    map.audit(&map.slots, &[other], &[], &mut |_| None).unwrap();
    map.release(other.reference);
    while map.drop_next().unwrap() {}
    assert_eq!(map.slots.used(), 0);
}

#[test]
fn leaf_with_hourly_snapshots_names_few_pages() {
    let (mut map, mut root) = scattered();
    // One block in each of many pages, for overwrites.
    let spare: Vec<Ref> = (0..200 * 256).map(|_| Ref::data(map.slots.allocate())).collect();
    let place = |map: &mut Map, reference: &Ref| {
        let id = reference.slot().unwrap();
        map.slots.set_place(id, SlotPlace::single(1, id.slot as u16, 8), 1);
    };
    spare.iter().for_each(|reference| place(&mut map, reference));
    let (kept, others): (Vec<_>, Vec<_>) = spare.iter().enumerate().partition(|(number, _)| number % 256 == 0);
    others.iter().for_each(|(_, reference)| map.release(**reference));
    let mut snapshots: Vec<Root> = Vec::new();
    for (hour, blocks) in kept.chunks(5).enumerate() {
        assert!(map.count_up(root.reference));
        snapshots.push(root);
        map.slots.take_dirty();
        for (block, (_, reference)) in blocks.iter().enumerate() {
            map.set(&mut root, (hour as u64 * 5 + block as u64) % 256, &[**reference]);
        }
        let changed = map.slots.take_dirty().len();
        assert!(changed <= 16, "hour {hour}: {changed} pages of the slot table change");
        if let RefTarget::Page(leaf) = root.reference.target() {
            map.slots.set_place(leaf, SlotPlace::single(2, 0, 4), 1);
        }
        if snapshots.len() > 3 {
            map.release(snapshots.remove(0).reference);
            while map.drop_next().unwrap() {}
        }
        map.take_freed(&mut Vec::new());
        let roots: Vec<Root> = snapshots.iter().copied().chain([root]).collect();
        let unused: Vec<Ref> = kept.iter().skip((hour + 1) * 5).map(|(_, reference)| **reference).collect();
        map.audit(&map.slots, &roots, &unused, &mut |_| None).unwrap();
    }
}

proptest::proptest! {
    #[test]
    fn runs_and_fills_are_seen_without_a_walk(
        ops in proptest::collection::vec((0..8usize, 0..BLOCKS, 1..600u64), 1..80),
    ) {
        let mut bench = Bench::new();
        let fills = [Ref::HOLE, Ref::ZERO, Ref::pattern(7)];
        for (kind, first, blocks) in ops {
            let (end, fill) = ((first + blocks).min(BLOCKS), fills[kind % 3]);
            let (root, plain) = (bench.roots[0], &bench.plain[0]);
            let is_filled = plain[first as usize..end as usize].iter().all(|reference| *reference == fill);
            let is_seen = bench.map.is_filled(&root, first, end, fill);
            // A page that is covered is not looked into.
            proptest::prop_assert!(is_seen == is_filled || (is_filled && end - first >= 256));
            let (reference, run_end) = bench.map.run_at(&root, first).unwrap();
            proptest::prop_assert!(run_end > first);
            let run = &plain[first as usize..run_end.min(BLOCKS) as usize];
            proptest::prop_assert!(run.iter().all(|other| *other == reference));
            if kind == 7 { bench.write(0, first) } else { bench.fill(0, first, end, fill) }
        }
    }

    #[test]
    fn first_difference_is_that_of_plain_arrays(
        ops in proptest::collection::vec((0..6u8, 0..2usize, 0..BLOCKS, 1..600u64, 0..BLOCKS), 1..40),
    ) {
        let mut bench = Bench::new();
        for (kind, volume, first, blocks, to) in ops {
            let end = (first + blocks).min(BLOCKS).min(BLOCKS - to + first);
            match kind {
                0 => bench.write(volume, first),
                1 => bench.fill(volume, first, end, Ref::ZERO),
                2 => bench.fill(volume, first, end, Ref::HOLE),
                3 => bench.spread(volume, first, end),
                // Whole leaves, so that two trees share them.
                4 => {
                    let leaf = first / 256 % 3 * 256;
                    bench.copy(volume, leaf, leaf + 256, 1 - volume, leaf);
                }
                _ => bench.copy(volume, first, end, 1 - volume, to),
            }
            let (one, two) = (bench.roots[volume], bench.roots[1 - volume]);
            let blocks = end - first;
            let held = |volume: usize, first: u64| &bench.plain[volume][first as usize..(first + blocks) as usize];
            let mut pairs = held(volume, first).iter().zip(held(1 - volume, to));
            let expected = pairs.position(|(a, b)| a != b).map(|at| at as u64);
            let found = bench.map.first_difference((&one, first), (&two, to), blocks);
            proptest::prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn uniform_volume_is_one_run() {
    let (mut map, mut root) = (Map::default(), Root::empty(256 << 20));
    assert_eq!(map.run_at(&root, 5), Some((Ref::HOLE, 256 << 20)));
    map.fill(&mut root, 0, 256 << 20, Ref::ZERO);
    assert!(map.is_filled(&root, 3, 1 << 20, Ref::ZERO) && !map.is_filled(&root, 3, 4, Ref::HOLE));
    assert_eq!(map.run_at(&root, 5), Some((Ref::ZERO, 256 << 20)));
}

#[test]
fn aliases_of_a_leaf_do_not_fill_holes_of_others() {
    const LEAVES: u64 = 40;
    let mut map = Map::default();
    let mut root = Root::empty(256 * LEAVES);
    // Neighbours in the volume have slots in different pages.
    let slots: Vec<Ref> = (0..256 * LEAVES).map(|_| Ref::data(map.slots.allocate())).collect();
    for (number, reference) in slots.iter().enumerate() {
        map.slots.set_place(reference.slot().unwrap(), SlotPlace::single(1, number as u16, 8), 1);
    }
    let refs: Vec<Ref> =
        (0..256 * LEAVES).map(|block| slots[(block % LEAVES * 256 + block / LEAVES) as usize]).collect();
    for (leaf, refs) in (0..).zip(refs.chunks(256)) {
        map.set(&mut root, leaf * 256, refs);
    }
    let copy = |map: &mut Map, root: &mut Root, blocks: &[u64]| {
        let snapshot = *root;
        assert!(map.count_up(root.reference));
        map.slots.take_dirty();
        blocks.iter().for_each(|block| map.set(root, *block, &[Ref::ZERO]));
        let changed = map.slots.take_dirty().len();
        map.release(snapshot.reference);
        while map.drop_next().unwrap() {}
        map.take_freed(&mut Vec::new());
        map.audit(&map.slots, &[*root], &[], &mut |_| None).unwrap();
        changed
    };
    let all_but_last: Vec<u64> = (0..LEAVES - 1).map(|leaf| leaf * 256).collect();
    copy(&mut map, &mut root, &all_but_last);
    // Each frees one alias in another page.
    all_but_last.iter().for_each(|block| map.set(&mut root, block + 1, &[Ref::ZERO]));
    let last = (LEAVES - 1) * 256;
    copy(&mut map, &mut root, &[last]);
    let changed = copy(&mut map, &mut root, &[last + 1]);
    assert!(changed <= 8, "{changed} pages of the slot table change");
}

#[test]
fn range_after_a_page_touches_no_entry() {
    for range in [(512, 1024), (256, 300), (300, 256)] {
        let entries = touched(0, 0, range);
        assert!(entries.start <= entries.end && entries.end <= 256, "{entries:?}");
        assert!(entries.is_empty(), "{entries:?}");
    }
    assert_eq!(touched(0, 256, (300, 1000)), 44..256);
}
