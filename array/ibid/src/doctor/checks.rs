//! The checks of the machine, the storage and the addresses.

use super::finding::Finding;
use super::flush;
use crate::directory::{Location, locate};
use crate::endpoints::Endpoints;
use crate::medium;
use crate::problem::Problem;
use crate::serve::Settings;
use platform::machine::{self, Media};
use platform::net::Listener;
use platform::{files, process};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use types::format_capacity;

/// Descriptors for 8 192 sessions, the connections of the API and the program's own files.
const FILES_NEEDED: u64 = 16_384;
/// Free space below which a file system is almost full.
const LITTLE_SPACE: u64 = 1 << 30;
/// Smallest capacity of an array.
const LEAST_SPACE: u64 = 22 << 20;

/// The limit of open files.
pub(super) fn files() -> Finding {
    judge_files(process::raise_file_limit())
}

fn judge_files(limit: Option<u64>) -> Finding {
    match limit.filter(|limit| *limit < FILES_NEEDED) {
        Some(limit) => Finding::warning(
            "limits",
            format!("{limit} open files are allowed: connections beyond that are refused"),
            format!("set LimitNOFILE={FILES_NEEDED} in the service, or `ulimit -n {FILES_NEEDED}`"),
        ),
        None => {
            let limit = limit.map_or_else(|| "no limit".to_owned(), |limit| format!("{limit}"));
            Finding::ok("limits", format!("open files: {limit}"))
        }
    }
}

/// The memory budget and the memory of the machine.
pub(super) fn memory(settings: &Settings) -> Finding {
    judge_memory(settings.memory, settings.read_cache, platform::memory::total())
}

fn judge_memory(budget: u64, read_cache: u64, total: Option<u64>) -> Finding {
    let Some(total) = total else {
        return Finding::info("memory", "the system does not report its memory");
    };
    let [structures, cache, all] = [budget, read_cache, total].map(format_capacity);
    let finding = format!("{structures} of {all} for data structures, {cache} for the read cache");
    if budget.saturating_add(read_cache) > total / 4 * 3 {
        return Finding::warning(
            "memory",
            finding,
            "set --memory and --read-cache to at most 3/4 of the machine's, or the system may end the array",
        );
    }
    Finding::ok("memory", finding)
}

/// The clock, which dates snapshots and ends eradication delays.
pub(super) fn clock() -> Finding {
    judge_clock(machine::clock_is_synchronized(), machine::clock_source().as_deref())
}

fn judge_clock(is_synchronized: Option<bool>, source: Option<&str>) -> Finding {
    if let Some(slow @ ("hpet" | "acpi_pm" | "pit" | "jiffies")) = source {
        return Finding::warning(
            "clock",
            format!("the kernel reads the time from {slow}, which takes microseconds for each command"),
            "read the kernel's log for why the processor's counter (tsc) is not used; virtual machines need a paravirtual clock",
        );
    }
    let source = source.map_or_else(String::new, |source| format!(" (source {source})"));
    match is_synchronized {
        Some(true) => Finding::ok("clock", format!("synchronized{source}")),
        Some(false) => Finding::warning(
            "clock",
            format!("not synchronized{source}: eradication delays and schedules follow it"),
            "install chrony or enable systemd-timesyncd; ignore this in a container whose host synchronizes the clock",
        ),
        None => Finding::info("clock", format!("the system does not report whether it is synchronized{source}")),
    }
}

/// The kernel's interface for asynchronous I/O.
pub(super) fn io_uring() -> Finding {
    judge_io_uring(&machine::io_uring())
}

fn judge_io_uring(available: &io::Result<()>) -> Finding {
    let unused = "this version uses threads for I/O, so nothing is lost";
    Finding::info(
        "io_uring",
        match available {
            Ok(()) => format!("available; {unused}"),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                format!("forbidden (seccomp or kernel.io_uring_disabled); {unused}")
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => format!("not in this kernel; {unused}"),
            Err(error) => format!("not available ({error}); {unused}"),
        },
    )
}

/// The directory, its array and its drive.
pub(super) fn storage(settings: &Settings) -> Result<Vec<Finding>, Problem> {
    let directory = existing(&settings.data);
    let mut findings = Vec::new();
    let medium = match (&settings.device, locate(&settings.data)?) {
        (Some(device), _) => Some(device.clone()),
        (None, Location::File(path)) => Some(path),
        (None, Location::Device(record)) => Some(record.device),
        (None, Location::Unknown) => None,
    };
    if let Some(path) = &medium {
        findings.push(owner(path));
    }
    let is_on_device = medium.as_ref().is_some_and(|path| !path.starts_with(&settings.data));
    if !is_on_device {
        let free = files::free_bytes(&directory).map_err(|error| at(&directory, &error))?;
        findings.push(judge_space(&directory, free, medium.is_some()));
    }
    findings.push(match medium.as_ref().filter(|_| is_on_device) {
        // A write would change the array, or what else is on the device.
        Some(device) => match Media::of(device) {
            Ok(_) => {
                Finding::info("flush", format!("{}: not measured, because it would be written to", device.display()))
            }
            Err(error) => unusable(device, &error),
        },
        None => match (flush::measure(&directory), Media::of(&directory)) {
            (Ok(writes), Ok(media)) => flush::judge(writes, &media),
            (Err(error), _) => unusable(&directory, &error),
            (_, Err(error)) => unusable(&directory, &error),
        },
    });
    Ok(findings)
}

fn at(path: &Path, error: &dyn std::fmt::Display) -> Problem {
    Problem::new(format!("{}: {error}", path.display())).hint("choose a --data directory that can be read and written")
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> Finding {
    let advice = "run as the user of the array, such as `sudo -u ibid ibid doctor`, and check the path";
    Finding::error("flush", format!("{}: {error}", path.display()), advice)
}

/// Returns the directory, or its closest parent that exists.
fn existing(directory: &Path) -> PathBuf {
    let is_there = |path: &&Path| !path.as_os_str().is_empty() && files::exists(path).unwrap_or(false);
    directory.ancestors().find(is_there).unwrap_or(Path::new(".")).to_owned()
}

fn judge_space(directory: &Path, free: u64, has_array: bool) -> Finding {
    let finding = format!("{}: {} free", directory.display(), format_capacity(free));
    if free < LEAST_SPACE && !has_array {
        return Finding::error("space", finding, "choose a --data directory with at least 22M, or a --device");
    }
    if free < LITTLE_SPACE {
        return Finding::warning("space", finding, "free space: hosts get \"no space\" when the file system is full");
    }
    Finding::ok("space", finding)
}

/// The last user of the array's file or device.
fn owner(path: &Path) -> Finding {
    if let Err(error) = Media::of(path) {
        let advice = "connect the device; if it has another name now, give that with --device";
        return Finding::error("owner", format!("{}: {error}", path.display()), advice);
    }
    let name = path.display();
    match medium::owner(path) {
        Some(owner) if owner.is_in_use && owner.boot == process::boot_id() => {
            Finding::ok("owner", format!("{name}: in use by, or last used by, {}", medium::description(&owner)))
        }
        Some(owner) if owner.is_in_use => Finding::info(
            "owner",
            format!(
                "{name}: not stopped in order, or still in use, by {}; a start watches it for 2 s",
                medium::description(&owner)
            ),
        ),
        Some(owner) => Finding::ok("owner", format!("{name}: stopped by {}", medium::description(&owner))),
        None => Finding::info(
            "owner",
            format!("{name}: no owner block: it holds no array yet, or cannot be read by this user"),
        ),
    }
}

/// The addresses: free, or used by the array itself.
pub(super) fn addresses(settings: &Settings) -> Result<Vec<Finding>, Problem> {
    let running = Endpoints::read(&settings.data).unwrap_or_default();
    let own: Vec<SocketAddr> =
        running.iter().flat_map(|endpoints| endpoints.iscsi.iter().copied().chain([endpoints.api])).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let asked = settings.iscsi.iter().map(|address| ("iscsi", *address)).chain([("api", settings.api)]);
    Ok(runtime.block_on(async {
        let mut findings = Vec::new();
        for (check, address) in asked {
            let bound = Listener::bind(address).await.map(drop);
            findings.push(judge_address(check, address, &bound, own.contains(&address)));
        }
        findings
    }))
}

fn judge_address(check: &'static str, address: SocketAddr, bound: &io::Result<()>, is_own: bool) -> Finding {
    match bound {
        Ok(()) => Finding::ok(check, format!("{address} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_own => {
            Finding::ok(check, format!("{address} is served by this array"))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Finding::error(
            check,
            format!("{address} is in use by another program"),
            format!("run `ss -ltnp 'sport = {}'` to find it, or choose another address with --{check}", address.port()),
        ),
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Finding::error(
            check,
            format!("{address} is no address of this machine"),
            format!("run `ip address` to list the addresses; choose one with --{check}"),
        ),
        Err(error) => {
            Finding::error(check, format!("{address}: {error}"), format!("choose another address with --{check}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn limits_of_the_machine_are_judged() {
        assert_eq!(judge_files(Some(1024)).level, Level::Warning);
        assert_eq!((judge_files(Some(65_536)).level, judge_files(None).level), (Level::Ok, Level::Ok));
        assert_eq!(judge_memory(15 << 30, 0, Some(16 << 30)).level, Level::Warning);
        assert_eq!(judge_memory(8 << 30, 5 << 30, Some(16 << 30)).level, Level::Warning);
        assert_eq!(judge_memory(4 << 30, 4 << 30, Some(16 << 30)).level, Level::Ok);
        assert_eq!(judge_clock(Some(true), Some("tsc")).level, Level::Ok);
        assert_eq!(judge_clock(Some(false), Some("kvm-clock")).level, Level::Warning);
        assert_eq!(judge_clock(Some(true), Some("hpet")).level, Level::Warning);
    }

    #[test]
    fn missing_io_uring_is_explained() {
        let judged = |code| judge_io_uring(&Err(io::Error::from_raw_os_error(code)));
        let (missing, forbidden) = (judged(38), judged(1));
        assert!(missing.finding.contains("not in this kernel; this version uses threads"), "{missing:?}");
        assert!(forbidden.finding.contains("seccomp"), "{forbidden:?}");
        assert_eq!((missing.level, judge_io_uring(&Ok(())).level), (Level::Info, Level::Info));
    }

    #[test]
    fn full_file_system_is_an_error_for_a_new_array() {
        let judged = |free, has_array| judge_space(Path::new("/d"), free, has_array).level;
        assert_eq!((judged(1 << 20, false), judged(1 << 20, true)), (Level::Error, Level::Warning));
        assert_eq!(judged(1 << 40, false), Level::Ok);
    }

    #[test]
    fn used_address_of_another_program_is_an_error() {
        let address = "127.0.0.1:3260".parse().unwrap();
        let used = || Err(io::Error::from(io::ErrorKind::AddrInUse));
        assert_eq!(judge_address("iscsi", address, &used(), true).level, Level::Ok);
        let finding = judge_address("iscsi", address, &used(), false);
        assert_eq!(finding.level, Level::Error);
        assert!(finding.advice.contains("sport = 3260") && finding.advice.contains("--iscsi"), "{finding:?}");
        let absent = Err(io::Error::from(io::ErrorKind::AddrNotAvailable));
        assert!(judge_address("api", address, &absent, false).finding.contains("no address of this machine"));
    }
}
