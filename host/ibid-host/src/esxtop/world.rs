//! The processes that use a host: ESXi calls them worlds. Linux counts their CPU time and memory.

use platform::files;
use std::path::Path;

/// Maximum size of a file of a process: longer command lines are not read.
const MAX_FILE_BYTES: u64 = 4096;
/// Clock ticks per second in `/proc/PID/stat`: 100 on every Linux architecture that Rust supports.
const TICKS: f64 = 100.0;
/// Bytes of a page in `/proc/PID/statm`.
const PAGE_KIB: u64 = 4;

/// A process at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) threads: u64,
    /// CPU time in clock ticks.
    pub(crate) ticks: u64,
    /// Memory in KiB: of the address space, and in use.
    pub(crate) memory_kib: [u64; 2],
}

/// A process between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WorldRow {
    pub(crate) world: World,
    /// CPU time in percent of one processor.
    pub(crate) used: f64,
}

impl World {
    /// Reads the numbers of a process; `None` if it has ended.
    pub(crate) fn take(id: u32) -> Option<Self> {
        let file = |name: &str| {
            let path = format!("/proc/{id}/{name}");
            files::read_text(Path::new(&path), MAX_FILE_BYTES).ok().flatten()
        };
        Self::parse(id, &file("stat")?, &file("statm")?, &file("cmdline").unwrap_or_default())
    }

    /// Parses the files of proc(5).
    fn parse(id: u32, stat: &str, memory: &str, command: &str) -> Option<Self> {
        // The name is in parentheses and may contain spaces and parentheses.
        let (head, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // `rest` begins with field 3. 14 and 15 are the CPU time, 20 is the number of threads.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let pages: Vec<u64> = memory.split_ascii_whitespace().map_while(|pages| pages.parse().ok()).collect();
        let pages = |at: usize| pages.get(at).map_or(0, |pages| pages * PAGE_KIB);
        // The verb distinguishes the processes of one program: `vm power`, `vmkfstools -i`.
        let words = command.split('\0').skip(1).filter(|word| !word.is_empty());
        let mut name = words.take(3).collect::<Vec<_>>().join(" ");
        if name.is_empty() {
            name = head.split_once('(').map_or_else(String::new, |(_, name)| name.to_owned());
        }
        let ticks = field(14)? + field(15)?;
        Some(Self { id, name, threads: field(20)?, ticks, memory_kib: [pages(0), pages(1)] })
    }

    /// Compares with an earlier sample.
    pub(crate) fn since(self, earlier: Option<&Self>, seconds: f64) -> WorldRow {
        let ticks = earlier.map_or(0, |earlier| self.ticks.saturating_sub(earlier.ticks));
        let used = if seconds > 0.0 { 100.0 * ticks as f64 / TICKS / seconds } else { 0.0 };
        WorldRow { world: self, used }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "77 (a (b) c) S 1 77 77 0 -1 4194560 5 0 0 0 150 50 0 0 20 0 9 0 1234 5678 90";

    #[test]
    fn process_files_are_parsed() {
        let world = World::parse(77, STAT, "1000 250 9 9 0 9 0\n", "/x/ibid-host\0vm\0power\0on\0web\0").unwrap();
        assert_eq!((world.id, world.name.as_str(), world.threads), (77, "vm power on", 9));
        assert_eq!((world.ticks, world.memory_kib), (200, [4000, 1000]));
        assert_eq!(World::parse(77, STAT, "", "").unwrap().name, "a (b) c");
        assert_eq!(World::parse(77, "77 (x) S", "", ""), None);
    }

    #[test]
    fn cpu_time_is_in_percent_of_one_processor() {
        let at = |ticks| World { ticks, ..World::default() };
        assert_eq!(at(300).since(Some(&at(200)), 2.0).used, 50.0);
        assert_eq!((at(300).since(None, 2.0).used, at(1).since(Some(&at(200)), 2.0).used), (0.0, 0.0));
    }

    #[test]
    fn own_process_has_memory_and_threads() {
        let world = World::take(std::process::id()).unwrap();
        assert!(world.threads > 0 && world.memory_kib[1] > 0, "{world:?}");
    }
}
