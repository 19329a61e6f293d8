//! How much memory there is.

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
