//! Aligned buffers that the kernel fills.

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ffi::c_void;

/// Buffers of one size in one mapping. A buffer takes memory when it is used first.
pub(super) struct Buffers {
    start: *mut c_void,
    count: usize,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone. Access to a buffer is by `copy`, which only
// reads, and by the kernel, which writes between `address` and the completion of its read.
#[allow(unsafe_code, reason = "a pointer to memory that the kernel writes")]
unsafe impl Send for Buffers {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a pointer to memory that the kernel writes")]
unsafe impl Sync for Buffers {}

#[allow(unsafe_code, reason = "the kernel writes to the buffers while the program runs")]
impl Buffers {
    /// Maps `count` buffers of `bytes` bytes, a multiple of the size of a page.
    pub(super) fn new(count: usize, bytes: usize) -> Result<Self, Errno> {
        // SAFETY: an anonymous mapping at an address that the kernel chooses.
        let start = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(std::ptr::null_mut(), count * bytes, access, MapFlags::PRIVATE)?
        };
        Ok(Self { start, count, bytes })
    }

    /// Returns the address of a buffer for a read of `length` bytes. It is valid
    /// as long as this value.
    pub(super) fn address(&self, buffer: usize, length: usize) -> u64 {
        assert!(buffer < self.count && length <= self.bytes);
        self.start as u64 + (buffer * self.bytes) as u64
    }

    /// Copies bytes out of a buffer that no read uses.
    pub(super) fn copy(&self, buffer: usize, from: usize, length: usize) -> Vec<u8> {
        assert!(buffer < self.count && from + length <= self.bytes);
        // SAFETY: the range is within the mapping, which is initialized with zeros, and the caller
        // guarantees that the kernel does not write to it.
        unsafe {
            let first = self.start.cast::<u8>().add(buffer * self.bytes + from);
            std::slice::from_raw_parts(first, length).to_vec()
        }
    }
}

impl Drop for Buffers {
    #[allow(unsafe_code, reason = "ends the mapping")]
    fn drop(&mut self) {
        // SAFETY: the mapping is that of `new`, and the thread that completes reads keeps this
        // value until none is under way.
        let _ = unsafe { munmap(self.start, self.count * self.bytes) };
    }
}
