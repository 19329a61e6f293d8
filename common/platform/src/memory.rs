//! The memory limit of the process, and how its allocator returns freed memory.

use crate::files;
use std::path::Path;

/// Returns the bytes of memory available to this process: those of the machine, or of its container
/// or service (cgroup v2) if that has less. Returns `None` if the system reports neither.
pub fn total() -> Option<u64> {
    let machine = read("/proc/meminfo").and_then(|text| machine(&text));
    let groups = read("/proc/self/cgroup").map(|text| groups(&text)).unwrap_or_default();
    let limits = groups.iter().filter_map(|path| read(path)?.trim().parse().ok());
    limits.chain(machine).min()
}

/// Returns the files with the limits of the process's control group and of those above it, from the
/// text of `/proc/self/cgroup`. In a container the path is `/`, or one that it cannot see.
fn groups(text: &str) -> Vec<String> {
    let own = text.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let above = own.match_indices('/').map(|(end, _)| &own[..end]);
    let paths = [""].into_iter().chain(above).chain([own]);
    paths.map(|path| format!("/sys/fs/cgroup/{path}/memory.max")).collect()
}

/// Buffers of at least this size return to the system as soon as they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BUFFER_BYTES: i32 = 1 << 20;
/// Number of heaps, shared by all threads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS: i32 = 1;

/// Limits how much freed memory glibc's allocator retains. Call it first, while the process has one
/// thread. Does nothing with other C libraries.
///
/// * By default, glibc raises its threshold for large buffers when the first one is freed. It then
///   places them in a heap that only grows: an array limited to 64 MiB used four times as much.
/// * By default, each thread has a heap. Memory that one thread allocates and another frees is
///   reusable only in the first one's heap, and each heap keeps its own peak. An array limited to
///   96 MiB held 85 MiB and used 260 MiB; with one heap it used 135 MiB. Threads still cache small
///   pieces.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the C library offers no other way; see SAFETY")]
pub fn limit_malloc_retention() {
    // SAFETY: mallopt takes two integers and keeps no pointer. All three parameters are documented
    // (mallopt(3)); an invalid value is refused without effect. No other thread allocates while
    // this runs: see above.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BUFFER_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE_BUFFER_BYTES);
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
    }
}

/// Does nothing: this is not glibc.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn limit_malloc_retention() {}

fn read(path: &str) -> Option<String> {
    files::read_text(Path::new(path), 1 << 16).ok().flatten()
}

/// Returns the machine's memory in bytes from the text of `/proc/meminfo`.
fn machine(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_all_groups_above_count() {
        let files = |text| groups(text).join(" ").replace("/sys/fs/cgroup", "").replace("/memory.max", "");
        assert_eq!(files("1:cpu:/x\n0::/system.slice/ibid.service\n"), "/ /system.slice /system.slice/ibid.service");
        assert_eq!((files("0::/\n"), files("")), ("/ /".to_owned(), "/ /".to_owned()));
    }

    #[test]
    fn meminfo_is_parsed_in_kibibytes() {
        assert_eq!(machine("MemTotal:       24000000 kB\nMemFree: 1 kB\n"), Some(24_000_000 << 10));
        assert_eq!(machine("MemFree: 1 kB\n"), None);
        assert!(total().is_some_and(|bytes| bytes > 1 << 20));
    }
}
