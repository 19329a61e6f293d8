//! Where a block with a given fingerprint may be stored: a table of fixed size that forgets what was not asked for.
//!
//! Each fingerprint belongs to one bucket of eight entries, 64 bytes: one cache line, one miss of the processor's caches however large the
//! table is. An entry is 24 bits of the fingerprint (its tag) and 40 bits of slot number, so a look-up gives *candidates*. The entries
//! of a bucket stand in the order of their last use; what falls off the end is forgotten.
//!
//! When the table is nearly full it goes over to *samples*: only one fingerprint in eight is entered from then on, and an eighth of
//! the entries speaks for all blocks that were stored near them ([`crate::Neighbours`]).

/// Entries of a bucket: one cache line.
const WAYS: usize = 8;
const SLOT_BITS: u32 = 40;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
const TAG_MASK: u64 = (1 << 24) - 1;
/// These bits of the tag are zero in a sample.
const SAMPLE_MASK: u64 = 7;
/// Goes over to samples when so many sixteenths of the entries are taken.
const CROWDED_SIXTEENTHS: u64 = 14;

const BUCKET_BYTES: usize = WAYS * size_of::<u64>();

/// What the index has seen and done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexCounters {
    /// Fingerprints that were looked up.
    pub lookups: u64,
    /// Look-ups that gave at least one candidate.
    pub candidates: u64,
    /// Candidates that turned out to be equal ([`Index::confirm`]).
    pub hits: u64,
    /// Entries made.
    pub inserted: u64,
    /// Entries forgotten to make room for others.
    pub evicted: u64,
}

/// The slots that a look-up found, most recently used first. At most eight.
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

/// True for one fingerprint in eight: those that are entered when only samples are.
pub fn is_sample(fingerprint: u128) -> bool {
    fingerprint as u64 & SAMPLE_MASK == 0
}

/// The tag: 24 bits, never 0, so that an entry is never 0 either.
fn tag(fingerprint: u128) -> u64 {
    let bits = fingerprint as u64 & TAG_MASK;
    // The replacement is a sample as 0 is one.
    if bits == 0 { SAMPLE_MASK + 1 } else { bits }
}

fn entry(fingerprint: u128, slot: u64) -> u64 {
    assert!(slot <= SLOT_MASK, "slot {slot} is beyond the 40 bits of a reference");
    tag(fingerprint) << SLOT_BITS | slot
}

fn is_sample_entry(entry: u64) -> bool {
    (entry >> SLOT_BITS) & SAMPLE_MASK == 0
}

/// A bounded table from fingerprints to slot numbers. A hint: it may have forgotten, and what it names may be another block by now.
pub struct Index {
    /// Zeroed by the system when they are first touched; 0 is a free entry.
    entries: Box<[u64]>,
    /// The first entry that begins a cache line.
    first: usize,
    buckets: usize,
    len: u64,
    /// Entries that are no samples.
    ordinary: u64,
    may_sample: bool,
    is_sampled: bool,
    counters: IndexCounters,
}

impl Index {
    /// An empty table of at most that many bytes, at least one bucket of 64. The system hands out its memory as it fills.
    pub fn new(bytes: u64) -> Self {
        let buckets = (bytes / BUCKET_BYTES as u64).max(1) as usize;
        let entries = vec![0; buckets * WAYS + WAYS - 1].into_boxed_slice();
        let first = entries.as_ptr().align_offset(BUCKET_BYTES);
        Self {
            // Alignment is speed, not soundness: where it cannot be had, buckets begin anywhere.
            first: if first < WAYS { first } else { 0 },
            entries,
            buckets,
            len: 0,
            ordinary: 0,
            may_sample: true,
            is_sampled: false,
            counters: IndexCounters::default(),
        }
    }

    /// The same, for samples from the beginning.
    pub fn sampled(bytes: u64) -> Self {
        Self { is_sampled: true, ..Self::new(bytes) }
    }

    /// The same, but full it forgets, and does not go over to samples.
    pub(crate) fn unsampled(bytes: u64) -> Self {
        Self { may_sample: false, ..Self::new(bytes) }
    }

    /// True when only samples are entered. Once it is, it stays so until [`Index::clear`].
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// Where the entries of the bucket stand.
    #[inline]
    fn bucket(&self, fingerprint: u128) -> std::ops::Range<usize> {
        // The high half picks the bucket, the low half is the tag: they are independent.
        let number = (((fingerprint >> 64) * self.buckets as u128) >> 64) as usize;
        let at = self.first + number * WAYS;
        at..at + WAYS
    }

    /// The slots that may hold a block of that fingerprint.
    #[inline]
    pub fn lookup(&mut self, fingerprint: u128) -> Candidates {
        self.counters.lookups += 1;
        let mut found = Candidates::default();
        if self.is_sampled && self.ordinary == 0 && !is_sample(fingerprint) {
            return found;
        }
        let tag = tag(fingerprint);
        for entry in self.entries[self.bucket(fingerprint)].iter().filter(|entry| *entry >> SLOT_BITS == tag) {
            found.push(entry & SLOT_MASK);
        }
        self.counters.candidates += u64::from(found.len > 0);
        found
    }

    /// Says that a candidate was compared and is equal: it is kept longer.
    pub fn confirm(&mut self, fingerprint: u128, slot: u64) {
        self.counters.hits += 1;
        let entry = entry(fingerprint, slot);
        let at = self.bucket(fingerprint);
        let bucket = &mut self.entries[at];
        if let Some(way) = bucket.iter().position(|held| *held == entry) {
            bucket[..=way].rotate_right(1);
        }
    }

    /// Enters a block. An entry of the same slot and tag is renewed; a full bucket forgets what was not used for longest.
    pub fn insert(&mut self, fingerprint: u128, slot: u64) {
        if self.is_sampled && !is_sample(fingerprint) {
            return;
        }
        let entry = entry(fingerprint, slot);
        let at = self.bucket(fingerprint);
        let bucket = &mut self.entries[at];
        // The same entry, else the first free one: entries stand at the front, without gaps.
        let way = bucket.iter().position(|held| *held == entry || *held == 0).unwrap_or(WAYS - 1);
        let old = std::mem::replace(&mut bucket[way], entry);
        bucket[..=way].rotate_right(1);
        if old == entry {
            return;
        }
        self.counters.inserted += 1;
        self.counters.evicted += u64::from(old != 0);
        self.account(old, entry);
        self.is_sampled |= self.may_sample && self.len * 16 >= self.capacity() * CROWDED_SIXTEENTHS;
    }

    /// Forgets a candidate that is another block by now. True when it was there.
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
        let ordinary = |entry: u64| u64::from(entry != 0 && !is_sample_entry(entry));
        self.len = self.len + u64::from(new != 0) - u64::from(old != 0);
        self.ordinary = self.ordinary + ordinary(new) - ordinary(old);
    }

    /// Forgets everything and enters every fingerprint again.
    pub fn clear(&mut self) {
        *self = Self { may_sample: self.may_sample, ..Self::new(self.bytes()) };
    }

    /// Entries that are taken.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True when nothing is entered.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Entries that there are.
    pub fn capacity(&self) -> u64 {
        (self.buckets * WAYS) as u64
    }

    /// Bytes that the table takes when it is full.
    pub fn bytes(&self) -> u64 {
        (self.buckets * BUCKET_BYTES) as u64
    }

    /// What it has seen and done.
    pub fn counters(&self) -> IndexCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests;
