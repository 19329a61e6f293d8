//! Fingerprint index: a table of fixed size that maps fingerprints to slots which may hold the same
//! block.
//!
//! Each fingerprint belongs to one bucket of eight entries. A bucket is one cache line of 64 bytes,
//! so a lookup costs at most one cache miss. An entry holds 24 bits of the fingerprint (its tag)
//! and a slot number of 40 bits. A lookup therefore returns *candidates*. The entries of a bucket
//! are sorted by last use, and the least recently used one is evicted.
//!
//! When the table is nearly full, it switches to *sampling*: it accepts only one fingerprint in
//! eight. Each sample then represents the blocks that were stored near it ([`crate::Neighbours`]).

/// Entries in a bucket, which fill one cache line.
const WAYS: usize = 8;
const SLOT_BITS: u32 = 40;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
const TAG_MASK: u64 = (1 << 24) - 1;
/// Bits of the tag that are zero in a sample.
const SAMPLE_MASK: u64 = 7;
/// Fill level, in sixteenths of the capacity, at which the index switches to sampling.
const SAMPLING_SIXTEENTHS: u64 = 14;

const BUCKET_BYTES: usize = WAYS * size_of::<u64>();

/// Statistics of the index since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexCounters {
    /// Number of lookups.
    pub lookups: u64,
    /// Lookups that returned at least one candidate.
    pub candidates: u64,
    /// Candidates that proved to be equal ([`Index::confirm`]).
    pub hits: u64,
    /// Entries inserted.
    pub inserted: u64,
    /// Entries evicted to make space for others.
    pub evicted: u64,
}

/// Slots found by a lookup, most recently used first. At most eight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    slots: [u64; WAYS],
    len: u8,
}

impl Candidates {
    fn push(&mut self, slot: u64) {
        self.slots[usize::from(self.len)] = slot;
        self.len += 1;
    }
}

impl std::ops::Deref for Candidates {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.slots[..usize::from(self.len)]
    }
}

/// Returns true if the fingerprint is a sample. One in eight is.
pub fn is_sample(fingerprint: u128) -> bool {
    fingerprint as u64 & SAMPLE_MASK == 0
}

/// Returns the tag: 24 bits, never 0, so that no entry is 0.
fn tag(fingerprint: u128) -> u64 {
    let bits = fingerprint as u64 & TAG_MASK;
    // The replacement is a sample too, as 0 is.
    if bits == 0 { SAMPLE_MASK + 1 } else { bits }
}

fn entry(fingerprint: u128, slot: u64) -> u64 {
    assert!(slot <= SLOT_MASK, "slot {slot} is beyond the 40 bits of a reference");
    tag(fingerprint) << SLOT_BITS | slot
}

fn is_sample_entry(entry: u64) -> bool {
    (entry >> SLOT_BITS) & SAMPLE_MASK == 0
}

/// Bounded table from fingerprints to slot numbers.
///
/// Its results are hints. An entry may have been evicted, and its slot may hold another block by
/// now.
pub struct Index {
    /// Zeroed by the operating system on first access. 0 is a free entry.
    entries: Box<[u64]>,
    /// First entry that is aligned to a cache line.
    first: usize,
    buckets: usize,
    len: u64,
    /// Number of entries that are not samples.
    unsampled_entries: u64,
    may_sample: bool,
    is_sampled: bool,
    counters: IndexCounters,
}

impl Index {
    /// Creates an empty table of at most `bytes` bytes, with at least one bucket of 64 bytes. The
    /// operating system allocates its memory as it fills.
    pub fn new(bytes: u64) -> Self {
        let buckets = (bytes / BUCKET_BYTES as u64).max(1) as usize;
        let entries = vec![0; buckets * WAYS + WAYS - 1].into_boxed_slice();
        let first = entries.as_ptr().align_offset(BUCKET_BYTES);
        Self {
            // Alignment is only an optimisation. Without it, buckets may span two cache lines.
            first: if first < WAYS { first } else { 0 },
            entries,
            buckets,
            len: 0,
            unsampled_entries: 0,
            may_sample: true,
            is_sampled: false,
            counters: IndexCounters::default(),
        }
    }

    /// Creates a table that samples from the start.
    pub fn sampled(bytes: u64) -> Self {
        Self { is_sampled: true, ..Self::new(bytes) }
    }

    /// Creates a table that evicts entries when it is full instead of switching to sampling.
    pub(crate) fn unsampled(bytes: u64) -> Self {
        Self { may_sample: false, ..Self::new(bytes) }
    }

    /// Returns true if only samples are accepted. This lasts until [`Index::clear`].
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// Returns the position of the bucket in the list of entries.
    #[inline]
    fn bucket(&self, fingerprint: u128) -> std::ops::Range<usize> {
        // The upper half selects the bucket and the lower half is the tag, so they are independent.
        let number = (((fingerprint >> 64) * self.buckets as u128) >> 64) as usize;
        let at = self.first + number * WAYS;
        at..at + WAYS
    }

    /// Returns the slots that may hold a block with this fingerprint.
    #[inline]
    pub fn lookup(&mut self, fingerprint: u128) -> Candidates {
        self.counters.lookups += 1;
        let mut found = Candidates::default();
        if self.is_sampled && self.unsampled_entries == 0 && !is_sample(fingerprint) {
            return found;
        }
        let tag = tag(fingerprint);
        for entry in self.entries[self.bucket(fingerprint)].iter().filter(|entry| *entry >> SLOT_BITS == tag) {
            found.push(entry & SLOT_MASK);
        }
        self.counters.candidates += u64::from(found.len > 0);
        found
    }

    /// Records that a candidate was compared and is equal. Its entry becomes the most recently
    /// used.
    pub fn confirm(&mut self, fingerprint: u128, slot: u64) {
        self.counters.hits += 1;
        let entry = entry(fingerprint, slot);
        let at = self.bucket(fingerprint);
        let bucket = &mut self.entries[at];
        if let Some(way) = bucket.iter().position(|held| *held == entry) {
            bucket[..=way].rotate_right(1);
        }
    }

    /// Inserts a block. An existing entry with the same slot and tag is refreshed. A full bucket
    /// evicts its least recently used entry.
    pub fn insert(&mut self, fingerprint: u128, slot: u64) {
        if self.is_sampled && !is_sample(fingerprint) {
            return;
        }
        let entry = entry(fingerprint, slot);
        let at = self.bucket(fingerprint);
        let bucket = &mut self.entries[at];
        // Takes the same entry, else the first free one. The used entries of a bucket are at its
        // front.
        let way = bucket.iter().position(|held| *held == entry || *held == 0).unwrap_or(WAYS - 1);
        let old = std::mem::replace(&mut bucket[way], entry);
        bucket[..=way].rotate_right(1);
        if old == entry {
            return;
        }
        self.counters.inserted += 1;
        self.counters.evicted += u64::from(old != 0);
        self.account(old, entry);
        self.is_sampled |= self.may_sample && self.len * 16 >= self.capacity() * SAMPLING_SIXTEENTHS;
    }

    /// Removes a candidate that proved to be another block. Returns true if it was present.
    pub fn remove(&mut self, fingerprint: u128, slot: u64) -> bool {
        let entry = entry(fingerprint, slot);
        let at = self.bucket(fingerprint);
        let bucket = &mut self.entries[at];
        let Some(way) = bucket.iter().position(|held| *held == entry) else { return false };
        bucket[way] = 0;
        bucket[way..].rotate_left(1);
        self.account(entry, 0);
        true
    }

    fn account(&mut self, old: u64, new: u64) {
        let unsampled_entries = |entry: u64| u64::from(entry != 0 && !is_sample_entry(entry));
        self.len = self.len + u64::from(new != 0) - u64::from(old != 0);
        self.unsampled_entries = self.unsampled_entries + unsampled_entries(new) - unsampled_entries(old);
    }

    /// Removes all entries and stops sampling.
    pub fn clear(&mut self) {
        *self = Self { may_sample: self.may_sample, ..Self::new(self.bytes()) };
    }

    /// Returns the number of used entries.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the table has no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the total number of entries.
    pub fn capacity(&self) -> u64 {
        (self.buckets * WAYS) as u64
    }

    /// Returns the memory of a full table in bytes.
    pub fn bytes(&self) -> u64 {
        (self.buckets * BUCKET_BYTES) as u64
    }

    /// Returns the statistics.
    pub fn counters(&self) -> IndexCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests;
