//! Measures durable writes, and compares their rate with the fastest that the media can do.

use super::finding::Finding;
use platform::machine::{BlockDevice, Media};
use platform::{Disk, DiskError, Durability, FileDisk, clock, files};
use std::path::Path;
use std::time::Duration;

/// Name of the file that is written, in the array's directory.
const FILE: &str = "doctor.tmp";
const FILE_BYTES: u64 = 1 << 20;
const BLOCK: [u8; 4096] = [0x5A; 4096];
/// Writes and time of a measurement; the first limit ends it.
const MAX_WRITES: usize = 400;
const MAX_TIME: Duration = Duration::from_secs(3);

/// A disk of 15 000 rotations per minute passes the same place every 4 ms; less than half of that
/// for each of many writes in turn is out of reach for its platters.
const FASTEST_PLATTER: Duration = Duration::from_millis(2);
/// Less than the fastest drive with protection against power loss needs for one command.
const FASTEST_NVME: Duration = Duration::from_micros(8);
const FASTEST_SCSI: Duration = Duration::from_micros(25);
const FASTEST_VIRTUAL: Duration = Duration::from_micros(40);
/// Above this, hosts notice each flush.
const SLOW: Duration = Duration::from_millis(10);

const CHECK: &str = "flush";

/// A measurement of durable writes of 4 KiB, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DurableWrites {
    pub(super) median: Duration,
    pub(super) longest: Duration,
}

/// Writes to a file in `directory`, which is removed afterwards.
pub(super) fn measure(directory: &Path) -> Result<DurableWrites, DiskError> {
    let path = directory.join(FILE);
    let failed = |error: std::io::Error| DiskError::Io(error.to_string());
    files::remove(&path).map_err(failed)?;
    let measured = FileDisk::create(&path, FILE_BYTES).and_then(|disk| measure_on(&disk));
    files::remove(&path).map_err(failed)?;
    measured
}

fn measure_on(disk: &FileDisk) -> Result<DurableWrites, DiskError> {
    // The blocks exist before they are measured, so the file system's own log is not part of it.
    for offset in (0..FILE_BYTES).step_by(BLOCK.len()) {
        disk.write_at(offset, &[&BLOCK], Durability::Volatile)?;
    }
    disk.flush()?;
    let (start, mut times) = (clock::now(), Vec::with_capacity(MAX_WRITES));
    let mut before = start;
    while times.len() < MAX_WRITES && before.saturating_duration_since(start) < MAX_TIME {
        let offset = (times.len() * BLOCK.len()) as u64 % FILE_BYTES;
        disk.write_at(offset, &[&BLOCK], Durability::Durable)?;
        let after = clock::now();
        times.push(after.saturating_duration_since(before));
        before = after;
    }
    times.sort_unstable();
    let at = |index: usize| times.get(index).copied().unwrap_or_default();
    Ok(DurableWrites { median: at(times.len() / 2), longest: at(times.len().saturating_sub(1)) })
}

/// Judges a measurement on the media.
pub(super) fn judge(writes: DurableWrites, media: &Media) -> Finding {
    let each = format!("a durable write of 4 KiB takes {} ({}/s)", short(writes.median), per_second(writes.median));
    if let Some(system @ ("tmpfs" | "ramfs")) = media.file_system {
        return Finding::error(
            CHECK,
            format!("the directory is on {system}: its data is lost when the machine stops"),
            "choose a --data directory on a drive, unless the array is for a test",
        );
    }
    let Some(device) = &media.device else {
        let system = media.file_system.unwrap_or("unknown");
        let finding = format!("{each}; the drive below the file system ({system}) is not known");
        return Finding::info(CHECK, finding);
    };
    let named =
        format!("{}{}", device.name, device.model.as_ref().map_or_else(String::new, |model| format!(" ({model})")));
    let (fastest, kind) = fastest(device);
    if writes.median < fastest {
        return Finding::error(
            CHECK,
            format!(
                "{named}: {each}, less than the {} that {kind} needs: flushes are ignored, or memory answers them",
                short(fastest)
            ),
            advice(device),
        );
    }
    if writes.median > SLOW {
        return Finding::warning(
            CHECK,
            format!("{named}: {each}, {} at most: each host write waits for it", short(writes.longest)),
            "use a drive with protection against power loss, or other storage for the array",
        );
    }
    let cache = if device.has_volatile_cache { "" } else { "; it reports no volatile cache, so it gets no flushes" };
    Finding::ok(CHECK, format!("{named}: {each}{cache}"))
}

/// Returns the time below which the media cannot have stored a write, and its name.
fn fastest(device: &BlockDevice) -> (Duration, &'static str) {
    match device {
        _ if is_virtual(device) => (FASTEST_VIRTUAL, "a virtual drive"),
        _ if device.name.starts_with("nvme") => (FASTEST_NVME, "an NVMe drive"),
        BlockDevice { is_rotational: true, .. } => (FASTEST_PLATTER, "a rotating disk"),
        _ => (FASTEST_SCSI, "a drive"),
    }
}

fn is_virtual(device: &BlockDevice) -> bool {
    const MODELS: [&str; 6] = ["QEMU", "VBOX", "Virtual", "VMware", "PersistentDisk", "Elastic Block"];
    let model = device.model.as_deref().unwrap_or_default();
    ["vd", "xvd", "loop", "dm-", "md", "zd"].iter().any(|prefix| device.name.starts_with(prefix))
        || MODELS.iter().any(|part| model.contains(part))
}

fn advice(device: &BlockDevice) -> &'static str {
    if is_virtual(device) {
        "set the drive's cache mode on the hypervisor to none or writethrough, never unsafe; then run the check again"
    } else if device.is_rotational {
        "turn the write cache of the drive off (`hdparm -W0`), or check that its controller has a battery"
    } else {
        "check that nothing disables flushes (eatmydata, mount options, controller settings), or use another drive"
    }
}

fn per_second(time: Duration) -> u64 {
    (1.0 / time.as_secs_f64().max(1e-9)).round() as u64
}

fn short(time: Duration) -> String {
    if time < Duration::from_millis(1) {
        format!("{} µs", time.as_micros())
    } else {
        format!("{:.1} ms", time.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;
    use platform::TemporaryDirectory;

    fn judged(device: Option<(&str, Option<&str>, bool)>, micros: u64) -> Finding {
        let device = device.map(|(name, model, is_rotational)| BlockDevice {
            name: name.to_owned(),
            model: model.map(ToOwned::to_owned),
            is_rotational,
            has_volatile_cache: true,
        });
        let median = Duration::from_micros(micros);
        judge(DurableWrites { median, longest: median }, &Media { file_system: Some("ext4"), device })
    }

    #[test]
    fn rate_beyond_the_media_is_an_error() {
        for (device, micros, level) in [
            (("sda", Some("ST4000"), true), 300, Level::Error),
            (("sda", Some("ST4000"), true), 8_300, Level::Ok),
            (("nvme0n1", Some("P5800X"), false), 3, Level::Error),
            (("nvme0n1", Some("P5800X"), false), 14, Level::Ok),
            (("sdb", Some("SSD 870"), false), 12, Level::Error),
            (("sdb", Some("SSD 870"), false), 900, Level::Ok),
            (("vda", None, true), 15, Level::Error),
            (("vda", None, true), 120, Level::Ok),
            (("sda", Some("QEMU HARDDISK"), true), 120, Level::Ok),
            (("sdb", Some("SSD 870"), false), 14_000, Level::Warning),
        ] {
            assert_eq!(judged(Some(device), micros).level, level, "{device:?} {micros}");
        }
        assert_eq!(judged(None, 3).level, Level::Info, "an unknown drive is not accused");
    }

    #[test]
    fn advice_fits_the_drive() {
        assert!(judged(Some(("vda", None, true)), 15).advice.contains("hypervisor"));
        assert!(judged(Some(("sda", None, true)), 300).advice.contains("hdparm"));
        let finding = judged(Some(("sda", Some("ST4000"), true)), 300).finding;
        assert!(finding.contains("sda (ST4000)") && finding.contains("300 µs (3333/s)"), "{finding}");
    }

    #[test]
    fn memory_is_no_drive() {
        let writes = DurableWrites { median: Duration::from_millis(1), longest: Duration::from_millis(1) };
        assert_eq!(judge(writes, &Media { file_system: Some("tmpfs"), device: None }).level, Level::Error);
    }

    #[test]
    fn measurement_leaves_no_file() {
        let scratch = TemporaryDirectory::new(None, "doctor").unwrap();
        let writes = measure(scratch.path()).unwrap();
        assert!(writes.longest >= writes.median && writes.median > Duration::ZERO);
        assert!(files::names(scratch.path()).unwrap().is_empty());
    }
}
