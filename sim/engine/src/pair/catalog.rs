//! Values of the catalogs of a pair, and the messages that carry them.

use super::contents::Entry;
use bytes::Bytes;
use engine::Change;
use std::collections::BTreeMap;
use testing::Rng;

/// Keys that each array uses, so that values replace each other.
const KEYS: u64 = 5;
/// Most bytes of a message beyond its number.
const MOST_BYTES: u64 = 300;

/// The values of one array, by key.
pub(super) type Catalog = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns the values after these records.
pub(super) fn catalog_after(entries: &[Entry]) -> Catalog {
    let mut catalog = Catalog::new();
    for change in entries.iter().flat_map(|entry| &entry.values) {
        match change {
            Change::Put { key, value } => drop(catalog.insert(key.clone(), value.clone())),
            Change::Remove { key } => drop(catalog.remove(key)),
            _ => {}
        }
    }
    catalog
}

/// Returns a message that no other is equal to.
pub(super) fn new_message(rng: &mut Rng) -> Bytes {
    let mut message = rng.next_u64().to_le_bytes().to_vec();
    message.resize(message.len() + rng.size(MOST_BYTES) as usize, 7);
    message.into()
}

/// Returns the values that the sequencer stores with a record.
pub(super) fn own_values(rng: &mut Rng) -> Vec<Change> {
    let number = rng.next_u64();
    values("own", number)
}

/// Returns the values that a follower stores with a record that has this message.
pub(super) fn values_of(message: &[u8]) -> Vec<Change> {
    let number = message.first_chunk().map(|number| u64::from_le_bytes(*number));
    number.map(|number| values("peer", number)).unwrap_or_default()
}

fn values(whose: &str, number: u64) -> Vec<Change> {
    let key = |number: u64| format!("{whose} {}", number % KEYS).into_bytes();
    let mut changes = vec![Change::Put { key: key(number), value: number.to_le_bytes().to_vec() }];
    if number.is_multiple_of(3) {
        changes.push(Change::Remove { key: key(number >> 8) });
    }
    changes
}
