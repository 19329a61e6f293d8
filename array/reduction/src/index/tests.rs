use super::*;
use crate::fingerprint;
use std::collections::HashMap;

fn print(number: u64) -> u128 {
    fingerprint(&number.to_le_bytes())
}

/// Returns a fingerprint with this tag that belongs to the first bucket.
fn in_first(tag: u64) -> u128 {
    u128::from(tag)
}

#[test]
fn inserted_blocks_are_found_until_removed() {
    let mut index = Index::new(1 << 20);
    (0..1000).for_each(|number| index.insert(print(number), number));
    assert!((0..1000).all(|number| index.lookup(print(number)).contains(&number)));
    assert!(index.lookup(print(1000)).is_empty());
    assert!(index.remove(print(5), 5));
    assert!(!index.remove(print(5), 5));
    assert!(index.lookup(print(5)).is_empty());
    assert_eq!(index.len(), 999);
    let counters = IndexCounters { lookups: 1002, candidates: 1000, hits: 0, inserted: 1000, evicted: 0 };
    assert_eq!(index.counters(), counters);
}

#[test]
fn candidates_are_sorted_by_last_use() {
    let mut index = Index::new(64);
    [0, (1 << 40) - 1, 7].into_iter().for_each(|slot| index.insert(in_first(9), slot));
    assert_eq!(*index.lookup(in_first(9)), [7, (1 << 40) - 1, 0]);
    index.confirm(in_first(9), 0);
    assert_eq!(*index.lookup(in_first(9)), [0, 7, (1 << 40) - 1]);
    index.insert(in_first(9), 7);
    assert_eq!(*index.lookup(in_first(9)), [7, 0, (1 << 40) - 1], "inserting it again refreshes it");
    assert_eq!((index.len(), index.counters().hits, index.counters().inserted), (3, 1, 3));
}

#[test]
fn full_bucket_evicts_least_recently_used() {
    let mut index = Index::unsampled(64);
    (1..=8).for_each(|tag| index.insert(in_first(tag), tag));
    index.confirm(in_first(1), 1);
    index.insert(in_first(9), 9);
    assert_eq!(*index.lookup(in_first(1)), [1]);
    assert!(index.lookup(in_first(2)).is_empty());
    assert_eq!((index.len(), index.capacity(), index.counters().evicted), (8, 8, 1));
}

#[test]
fn zero_tag_is_stored_like_any_other() {
    let mut index = Index::new(64);
    index.insert(in_first(0), 0);
    assert_eq!(*index.lookup(in_first(0)), [0]);
    assert!(is_sample(in_first(0)) && is_sample_entry(index.entries[index.first]));
}

#[test]
fn nearly_full_index_samples_and_keeps_entries() {
    let mut index = Index::new(64 << 10);
    let mut number = 0;
    while !index.is_sampled() {
        index.insert(print(number), number);
        number += 1;
    }
    assert!(index.len() >= index.capacity() * 7 / 8 && index.len() < index.capacity());
    let found = (0..number).filter(|number| index.lookup(print(*number)).contains(number)).count() as u64;
    assert!(found > number * 8 / 10, "{found} of {number} are still found");
    let before = index.counters().inserted;
    (number..number + 80_000).for_each(|number| index.insert(print(number), number));
    let entered = index.counters().inserted - before;
    assert!((9000..11000).contains(&entered), "{entered} of 80000 are samples");
    let last = (number + 40_000..number + 80_000).filter(|number| is_sample(print(*number)));
    let (mut all, mut found) = (0, 0);
    for number in last {
        all += 1;
        found += u32::from(index.lookup(print(number)).contains(&number));
    }
    assert!(found > all * 8 / 10, "{found} of the last {all} samples are found");
    index.clear();
    assert!(index.is_empty() && !index.is_sampled());
}

#[test]
fn sampled_index_accepts_only_samples() {
    let mut index = Index::sampled(1 << 20);
    (0..1000).for_each(|number| index.insert(print(number), number));
    for number in 0..1000 {
        assert_eq!(index.lookup(print(number)).contains(&number), is_sample(print(number)));
    }
}

#[test]
fn buckets_are_cache_lines() {
    let index = Index::new(1 << 20);
    assert_eq!(index.entries[index.first..].as_ptr() as usize % 64, 0);
    assert_eq!((index.bytes(), index.capacity()), (1 << 20, (1 << 20) / 8));
    assert_eq!(Index::new(0).capacity(), 8);
}

proptest::proptest! {
    /// Compares the index with a table that never evicts. Every candidate was inserted before, and
    /// the counts match the entries.
    #[test]
    fn candidates_and_counts_match_a_full_table(ops in proptest::collection::vec((0..3u8, 0..200u64, 0..4u64), 1..600), bytes in 64..2048u64) {
        let mut index = Index::new(bytes);
        let mut entered: HashMap<(u64, u64), bool> = HashMap::new();
        for (kind, number, slot) in ops {
            match kind {
                0 => {
                    index.insert(print(number), slot);
                    entered.insert((number, slot), true);
                }
                1 => {
                    index.remove(print(number), slot);
                    entered.insert((number, slot), false);
                }
                _ => {
                    for slot in index.lookup(print(number)).iter() {
                        proptest::prop_assert_eq!(entered.get(&(number, *slot)), Some(&true));
                    }
                }
            }
            let held = index.entries.iter().filter(|entry| **entry != 0).count() as u64;
            let unsampled_entries = index.entries.iter().filter(|entry| **entry != 0 && !is_sample_entry(**entry)).count() as u64;
            proptest::prop_assert_eq!((index.len(), index.unsampled_entries), (held, unsampled_entries));
        }
    }
}
