//! Large buffers that are used again.
//!
//! The allocator returns buffers of 1 MiB or more to the system as soon as they are freed, so that
//! the process stays within its memory. Each new one then costs 256 page faults, which take longer
//! than to read 1 MiB from the page cache. A bounded number of them is kept here in between.

use bytes::Bytes;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Least capacity of a buffer that is kept. The allocator keeps smaller ones itself.
const SMALLEST: usize = 1 << 20;
/// Largest capacity of a buffer that is kept.
const LARGEST: usize = 4 << 20;
/// Bytes that are kept by default.
const DEFAULT_LIMIT: usize = 8 << 20;

static SHELF: Mutex<Shelf> = Mutex::new(Shelf { free: Vec::new(), bytes: 0 });
static LIMIT: AtomicUsize = AtomicUsize::new(DEFAULT_LIMIT);

/// Sets how many bytes of unused buffers the process keeps. 8 MiB by default.
pub fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// A buffer whose memory is used again after it, or the [`Bytes`] made of it, are dropped.
#[derive(Debug, Default)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    /// Returns an empty buffer with space for at least `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let kept = is_kept(bytes).then(|| shelf(|shelf| shelf.take(bytes))).flatten();
        Self(kept.unwrap_or_else(|| Vec::with_capacity(bytes)))
    }

    /// Returns `bytes` zeros.
    pub fn zeroed(bytes: usize) -> Self {
        match is_kept(bytes).then(|| shelf(|shelf| shelf.take(bytes))).flatten() {
            Some(mut kept) => {
                kept.resize(bytes, 0);
                Self(kept)
            }
            None => Self(vec![0; bytes]),
        }
    }

    /// Appends bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Buffer> for Bytes {
    fn from(mut buffer: Buffer) -> Self {
        match is_kept(buffer.0.capacity()) {
            true => Self::from_owner(buffer),
            false => std::mem::take(&mut buffer.0).into(),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if is_kept(self.0.capacity()) {
            let buffer = std::mem::take(&mut self.0);
            // The memory of a buffer that is not kept is released outside the mutex.
            drop(shelf(|shelf| shelf.put(buffer, LIMIT.load(Ordering::Relaxed))));
        }
    }
}

/// Buffers that are not in use.
#[derive(Debug)]
struct Shelf {
    free: Vec<Vec<u8>>,
    /// Their capacities together.
    bytes: usize,
}

impl Shelf {
    /// Takes an empty buffer with space for `bytes` bytes and not for twice as many.
    fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let fits = |buffer: &Vec<u8>| (bytes..2 * bytes).contains(&buffer.capacity());
        let buffer = self.free.swap_remove(self.free.iter().rposition(fits)?);
        self.bytes -= buffer.capacity();
        Some(buffer)
    }

    /// Keeps a buffer, or returns it if more than `limit` bytes would be kept.
    fn put(&mut self, mut buffer: Vec<u8>, limit: usize) -> Option<Vec<u8>> {
        if self.bytes + buffer.capacity() > limit {
            return Some(buffer);
        }
        buffer.clear();
        self.bytes += buffer.capacity();
        self.free.push(buffer);
        None
    }
}

fn is_kept(capacity: usize) -> bool {
    (SMALLEST..=LARGEST).contains(&capacity)
}

fn shelf<T>(run: impl FnOnce(&mut Shelf) -> T) -> T {
    run(&mut SHELF.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shelf_keeps_buffers_up_to_its_limit() {
        let mut shelf = Shelf { free: Vec::new(), bytes: 0 };
        let buffer = Vec::with_capacity(SMALLEST);
        let place = buffer.as_ptr();
        assert!(shelf.put(buffer, 2 * SMALLEST).is_none());
        assert!(shelf.put(Vec::with_capacity(SMALLEST), 2 * SMALLEST).is_none());
        assert!(shelf.put(Vec::with_capacity(SMALLEST), 2 * SMALLEST).is_some());
        assert!(shelf.take(SMALLEST + 1).is_none(), "too small");
        assert!(shelf.take(SMALLEST / 2).is_none(), "twice as large");
        assert!(shelf.take(SMALLEST).is_some());
        assert_eq!(shelf.take(SMALLEST).map(|buffer| buffer.as_ptr()), Some(place));
        assert_eq!((shelf.take(SMALLEST), shelf.bytes), (None, 0));
    }

    #[test]
    fn used_buffer_shows_nothing_of_its_last_use() {
        for _ in 0..4 {
            let mut buffer = Buffer::zeroed(SMALLEST + 7);
            assert!(buffer.len() == SMALLEST + 7 && buffer.iter().all(|byte| *byte == 0));
            buffer.fill(9);
            let bytes = Bytes::from(buffer);
            assert!(bytes.slice(3..).iter().all(|byte| *byte == 9));
        }
        let mut buffer = Buffer::with_capacity(SMALLEST + 7);
        assert!(buffer.is_empty());
        buffer.extend_from_slice(b"new");
        assert_eq!(&Bytes::from(buffer)[..], b"new");
    }

    #[test]
    fn small_and_huge_buffers_are_plain_memory() {
        for bytes in [0, 1, SMALLEST - 1, LARGEST + 1] {
            assert_eq!(Bytes::from(Buffer::zeroed(bytes)).len(), bytes);
        }
    }
}
