use super::*;
use proptest::prelude::*;

const PER: u32 = POINTERS as u32;

/// Pages on disk, as pointers.
#[derive(Default)]
struct Disk {
    pages: BTreeMap<u32, Vec<u32>>,
    roots: Vec<u32>,
    next: u32,
}

impl Disk {
    fn store(&mut self, map: &mut Map) {
        let missing = map.missing_pages();
        let mut spare: Vec<u32> = (self.next..self.next + missing).collect();
        self.next += missing;
        map.assign_pages(&mut spare).unwrap();
        assert!(spare.is_empty(), "{} pages too many", spare.len());
        let (changed, freed) = map.take_changes();
        for (level, place, page) in changed {
            self.pages.insert(page, map.pointers(level, place));
        }
        for page in freed {
            assert!(self.pages.remove(&page).is_some(), "page {page} was never written");
        }
        self.roots = map.roots();
    }

    fn load(&self, height: u8) -> Map {
        let mut map = Map { height, ..Map::default() };
        let mut pages = map.read(height, 0, &self.roots);
        for level in (1..=height).rev() {
            let mut next = Vec::new();
            for (place, page) in pages {
                next.extend(map.read(level - 1, place * PER, &self.pages[&page]));
            }
            pages = next;
        }
        map
    }
}

fn fill(map: &mut Map, range: Range<u32>, target: u32) {
    map.grow_to(range.end - 1).unwrap();
    map.fill(range.clone(), &[(target, range.end - range.start)], false);
}

#[test]
fn map_needs_a_page_beyond_sixteen_leaves() {
    let (mut map, mut disk) = (Map::default(), Disk::default());
    fill(&mut map, 0..16, 100);
    disk.store(&mut map);
    assert_eq!((map.height(), disk.pages.len()), (0, 0));
    fill(&mut map, 16..17, 7);
    disk.store(&mut map);
    assert_eq!((map.height(), disk.pages.len()), (1, 1));
    assert_eq!(disk.load(1), map);
    assert_eq!(
        map.within(10..20),
        [
            (10, Run { target: 110, length: 6, to_be_zeroed: false }),
            (16, Run { target: 7, length: 1, to_be_zeroed: false })
        ]
    );
}

#[test]
fn map_of_one_terabyte_has_1043_pages() {
    let (mut map, mut disk) = (Map::default(), Disk::default());
    fill(&mut map, 0..1 << 20, 5);
    disk.store(&mut map);
    // 1041 pages of pointers to blocks, and two pages above them.
    assert_eq!((map.height(), disk.pages.len()), (2, 1041 + 2));
    assert_eq!(disk.load(2), map);
    let given = map.punch(0..1 << 20);
    assert_eq!(given, [(5, 1 << 20)]);
    disk.store(&mut map);
    assert_eq!((disk.pages.len(), map.leaves()), (0, 0));
}

#[test]
fn a_level_above_freed_pages_needs_no_page() {
    let (mut map, mut disk) = (Map::default(), Disk::default());
    fill(&mut map, 1006..1007, 5);
    disk.store(&mut map);
    map.punch(1005..1007);
    fill(&mut map, 100 * PER..100 * PER + 1, 9);
    map.punch(100 * PER..100 * PER + 1);
    disk.store(&mut map);
    assert!(disk.pages.is_empty());
}

#[test]
fn map_fills_holes_in_order() {
    let mut map = Map::default();
    fill(&mut map, 4..6, 50);
    assert_eq!(map.holes(2..10), [2..4, 6..10]);
    map.fill(2..10, &[(70, 3), (90, 2)], true);
    let run = |target, length, to_be_zeroed| Run { target, length, to_be_zeroed };
    let expected = [(2, run(70, 2, true)), (4, run(50, 2, false)), (6, run(72, 1, true)), (7, run(90, 2, true))];
    assert_eq!(map.within(0..100), expected);
    assert!(map.mark_written(3..7));
    assert!(!map.mark_written(3..7));
    assert_eq!(map.within(0..100).len(), 5);
    assert_eq!(map.end(), 9);
}

/// An operation on a map.
#[derive(Clone, Debug)]
enum Step {
    Fill(Range<u32>, bool),
    Punch(Range<u32>),
    Mark(Range<u32>),
    Store,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Close to the boundaries of pages and levels.
    let place = prop_oneof![0u32..40, PER - 3..PER + 3, 16 * PER - 3..16 * PER + 3, 100 * PER..100 * PER + 4];
    let range = (place, 1u32..30).prop_map(|(start, length)| start..start + length);
    let step = prop_oneof![
        (range.clone(), any::<bool>()).prop_map(|(range, zero)| Step::Fill(range, zero)),
        range.clone().prop_map(Step::Punch),
        range.prop_map(Step::Mark),
        Just(Step::Store),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #[test]
    fn map_matches_a_simple_model(steps in steps()) {
        let (mut map, mut disk, mut next) = (Map::default(), Disk::default(), 0);
        let mut model: BTreeMap<u32, (u32, bool)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Fill(range, zero) => {
                    let holes: Vec<u32> = range.clone().filter(|at| !model.contains_key(at)).collect();
                    map.grow_to(range.end - 1).unwrap();
                    map.fill(range, &[(next, holes.len() as u32)], zero);
                    for at in holes {
                        model.insert(at, (next, zero));
                        next += 1;
                    }
                }
                Step::Punch(range) => {
                    let given: Vec<u32> = map.punch(range.clone()).iter().flat_map(|(first, n)| *first..first + n).collect();
                    let expected: Vec<u32> = range.filter_map(|at| model.remove(&at)).map(|(target, _)| target).collect();
                    prop_assert_eq!(given, expected);
                }
                Step::Mark(range) => {
                    map.mark_written(range.clone());
                    model.range_mut(range).for_each(|(_, leaf)| leaf.1 = false);
                }
                Step::Store => {
                    disk.store(&mut map);
                    prop_assert_eq!(&disk.load(map.height()), &map);
                }
            }
            let found: BTreeMap<u32, (u32, bool)> = map
                .within(0..u32::MAX)
                .iter()
                .flat_map(|(first, run)| (0..run.length).map(|n| (*first + n, (run.target + n, run.to_be_zeroed))))
                .collect();
            prop_assert_eq!(&found, &model);
        }
        disk.store(&mut map);
        prop_assert_eq!(disk.load(map.height()), map);
    }
}
