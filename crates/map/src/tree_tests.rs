//! Trees against a plain array of references.

use crate::page::{entry_span, span};
use crate::reference::{Ref, Target};
use crate::tree::{Map, Root};

/// Two volumes of the same map, with what each block must hold: a tag of the data slot, or a fill.
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
        let reference = Ref::data(self.map.slots.take());
        self.map.set(&mut self.roots[volume], block, &[reference]);
        self.plain[volume][block as usize] = reference;
    }

    fn fill(&mut self, volume: usize, first: u64, end: u64, fill: Ref) {
        self.map.fill(&mut self.roots[volume], first, end, fill);
        self.plain[volume][first as usize..end as usize].fill(fill);
    }

    fn spread(&mut self, volume: usize, first: u64, end: u64) {
        let reference = Ref::data(self.map.slots.take());
        self.map.spread(&mut self.roots[volume], first, end, reference);
        self.plain[volume][first as usize..end as usize].fill(reference);
    }

    fn copy(&mut self, from: usize, first: u64, end: u64, volume: usize, to: u64) {
        let height = self.roots[volume].height;
        let pieces = self.map.collect(&self.roots[from], first, end, to, height).unwrap();
        self.map.store(&mut self.roots[volume], to, &pieces);
        let held = self.plain[from][first as usize..end as usize].to_vec();
        self.plain[volume][to as usize..to as usize + held.len()].copy_from_slice(&held);
    }

    fn check(&mut self) {
        for (root, plain) in self.roots.iter().zip(&self.plain) {
            let mut seen = Vec::new();
            self.map.visit(root, 0, BLOCKS, &mut |at, blocks, reference| {
                assert_eq!(at, seen.len() as u64);
                seen.extend(std::iter::repeat_n(reference, blocks as usize));
            });
            assert_eq!(&seen, plain);
        }
        while self.map.drop_next().unwrap() {}
        self.map.audit(&[self.roots[0].reference, self.roots[1].reference], &mut |_| None).unwrap();
    }
}

#[test]
fn an_aligned_copy_shares_leaves() {
    let mut bench = Bench::new();
    (0..512).for_each(|block| bench.write(0, block));
    bench.check();
    let used = bench.map.slots.used();
    bench.copy(0, 0, 512, 1, 256);
    bench.check();
    assert_eq!(bench.map.slots.used(), used + 1, "only the other volume's root page is new");
    bench.write(1, 300);
    bench.check();
}

#[test]
fn an_overlapping_copy_moves_as_memmove_does() {
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
    assert!(bench.map.slots.used() <= 4, "only the paths along the edge are left");
}

#[test]
fn growing_keeps_what_is_there() {
    let mut map = Map::default();
    let mut root = Root::empty(256);
    let reference = Ref::data(map.slots.take());
    map.set(&mut root, 7, &[reference]);
    map.grow(&mut root, span(2));
    assert_eq!(root.height, 2);
    let mut found = Vec::new();
    map.visit(&root, 0, 1000, &mut |at, blocks, seen| {
        if matches!(seen.target(), Target::Data(_)) {
            found.push((at, blocks, seen));
        }
    });
    assert_eq!(found, [(7, 1, reference)]);
    assert_eq!(entry_span(2), span(1));
    map.audit(&[root.reference], &mut |_| None).unwrap();
}

proptest::proptest! {
    #[test]
    fn random_edits_match_a_plain_array(ops in proptest::collection::vec((0..7u8, 0..2usize, 0..BLOCKS, 1..400u64, 0..BLOCKS, 0..2usize), 1..60)) {
        let mut bench = Bench::new();
        for (kind, volume, first, length, to, other) in ops {
            let end = (first + length).min(BLOCKS);
            match kind {
                0 => (first..end.min(first + 9)).for_each(|block| bench.write(volume, block)),
                1 => bench.fill(volume, first, end, Ref::HOLE),
                2 => bench.fill(volume, first, end, Ref::pattern(7)),
                3 => bench.fill(volume, first, end, Ref::ZERO),
                6 => bench.spread(volume, first, end),
                _ => {
                    // Every other copy has both ends at the same place of a leaf.
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
