//! How much memory there is, and how the process's allocator gives it back.

use crate::files;
use std::path::Path;

/// Bytes of memory that this process may count on: that of the machine, or of the container (cgroup v2) that it runs in, if that is less.
/// `None` where the system does not tell.
pub fn total() -> Option<u64> {
    let machine = read("/proc/meminfo").and_then(|text| machine(&text));
    let container = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse().ok());
    match (machine, container) {
        (Some(machine), Some(container)) => Some(u64::min(machine, container)),
        (machine, container) => machine.or(container),
    }
}

/// Buffers of this size and more go back to the system as soon as they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BUFFER_BYTES: i32 = 1 << 20;
/// Heaps that all threads share.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS: i32 = 1;

/// Keeps the allocator of glibc from holding on to what was freed. To be called first thing, while there is one thread. Nothing is done
/// where the C library is another one.
///
/// * Left alone it raises its threshold for large buffers with the first that is freed, and from then on cuts them out of a heap that only
///   grows: an array told to live in 64 MiB was seen to take four times as much.
/// * It gives threads heaps of their own. What one thread allocates and another frees (a page of metadata comes in with whoever read it and
///   leaves with whoever needs the room) is free in the first one's heap alone, and each heap keeps holes for the peak of its own: an
///   array told to live in 96 MiB held 85 and took 260. With one heap it took 135. Threads keep small pieces for themselves all the same.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the C library offers no other way; see SAFETY")]
pub fn hold_little() {
    // SAFETY: mallopt takes two numbers and keeps no pointer; all three parameters are documented (mallopt(3)), and a value that it does not
    // like it refuses without effect. It is not called while other threads allocate: see above.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BUFFER_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE_BUFFER_BYTES);
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
    }
}

/// Keeps the allocator of glibc from holding on to what was freed: this is another C library.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn hold_little() {}

fn read(path: &str) -> Option<String> {
    files::read_text(Path::new(path), 1 << 16).ok().flatten()
}

/// The machine's memory, out of `/proc/meminfo`.
fn machine(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_tells_in_kibibytes() {
        assert_eq!(machine("MemTotal:       24000000 kB\nMemFree: 1 kB\n"), Some(24_000_000 << 10));
        assert_eq!(machine("MemFree: 1 kB\n"), None);
        assert!(total().is_some_and(|bytes| bytes > 1 << 20));
    }
}
