//! The pages of a file that are in the system's page cache.

use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};

/// The number of cachestat(2), the same on all architectures; Linux 6.5 and later.
const SYS_CACHESTAT: libc::c_long = 451;
const PAGE_BYTES: u64 = 4096;

/// `struct cachestat_range`.
#[repr(C)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// `struct cachestat`, in pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The state of a range in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Residency {
    /// All of it is cached, or being read.
    Whole,
    /// Some of it is cached and not yet on the drive.
    Dirty,
    /// Some or none of it is cached, and the drive has all of it.
    OnDrive,
}

/// Returns the state of a range, which is not empty. Starts no I/O.
#[allow(unsafe_code, reason = "neither rustix nor libc has this call")]
pub(crate) fn residency(file: &OwnedFd, offset: u64, bytes: u64) -> Result<Residency, Errno> {
    let (range, mut pages) = (Range { offset, bytes }, Pages::default());
    // SAFETY: the call reads the range and writes the numbers of pages. Both live longer than the
    // call, and have the layout of `linux/mman.h`.
    let outcome =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut pages, 0 as libc::c_uint) };
    if outcome != 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    let all = (offset + bytes).div_ceil(PAGE_BYTES) - offset / PAGE_BYTES;
    Ok(match pages {
        Pages { cached, .. } if cached >= all => Residency::Whole,
        Pages { dirty: 0, writeback: 0, .. } => Residency::OnDrive,
        _ => Residency::Dirty,
    })
}
