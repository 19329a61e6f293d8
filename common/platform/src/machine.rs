//! Properties of the machine: its clock, its interface for asynchronous I/O, and the media of a
//! directory.

use crate::files;
use std::io;
use std::path::Path;

/// Longest text that is read from the kernel.
const MAX_TEXT_BYTES: u64 = 4096;

/// Returns whether the kernel disciplines the clock by an external source (NTP, PTP), or `None` if
/// the system does not report it.
#[allow(unsafe_code, reason = "rustix is built without its clocks")]
pub fn clock_is_synchronized() -> Option<bool> {
    // SAFETY: all fields of a timex are integers, so zeros are a value of it.
    let mut time: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: with no mode set, the call only writes `time`, which lives longer than the call.
    let state = unsafe { libc::adjtimex(&raw mut time) };
    (state >= 0).then_some(state != libc::TIME_ERROR && time.status & libc::STA_UNSYNC == 0)
}

/// Returns the hardware that the kernel reads the time from, such as `tsc` or `hpet`.
pub fn clock_source() -> Option<String> {
    text(Path::new("/sys/devices/system/clocksource/clocksource0/current_clocksource"))
}

/// Returns whether this process may use io_uring. The error says why not.
#[allow(unsafe_code, reason = "rustix is built without io_uring")]
pub fn io_uring() -> io::Result<()> {
    // SAFETY: a null pointer for the parameters makes the call fail before it changes anything.
    let outcome = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, std::ptr::null::<u8>()) };
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        _ if outcome >= 0 => Ok(()),
        // The call is allowed, and has found that the parameters are missing.
        Some(libc::EFAULT | libc::EINVAL) => Ok(()),
        _ => Err(error),
    }
}

/// The media that stores a file or directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Media {
    /// Type of the file system, if it is a known one.
    pub file_system: Option<&'static str>,
    /// The block device, if there is one.
    pub device: Option<BlockDevice>,
}

/// A block device, as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockDevice {
    /// Name of the whole device, such as `nvme0n1`.
    pub name: String,
    /// Model, if the device reports one.
    pub model: Option<String>,
    /// The device says that it has rotating platters. Virtual drives often do.
    pub is_rotational: bool,
    /// The device has a volatile write cache, which the kernel flushes.
    pub has_volatile_cache: bool,
}

impl Media {
    /// Returns the media of `path`, which must exist. A block device is its own media.
    pub fn of(path: &Path) -> io::Result<Self> {
        let stat = rustix::fs::stat(path)?;
        let is_device = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::BlockDevice;
        let number = if is_device { stat.st_rdev } else { stat.st_dev };
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let file_system = if is_device { None } else { name(rustix::fs::statfs(path)?.f_type as u64) };
        let device = block_device(&Path::new("/sys/dev/block").join(format!("{major}:{minor}")));
        Ok(Self { file_system, device })
    }
}

fn block_device(entry: &Path) -> Option<BlockDevice> {
    #[allow(clippy::disallowed_methods, reason = "only this crate may access the outside")]
    let entry = std::fs::canonicalize(entry).ok()?;
    let is_partition = files::exists(&entry.join("partition")).unwrap_or(false);
    let whole = if is_partition { entry.parent()? } else { &entry };
    Some(BlockDevice {
        name: whole.file_name()?.to_string_lossy().into_owned(),
        model: text(&whole.join("device/model")),
        is_rotational: text(&whole.join("queue/rotational")).as_deref() == Some("1"),
        has_volatile_cache: text(&whole.join("queue/write_cache")).as_deref() == Some("write back"),
    })
}

fn text(path: &Path) -> Option<String> {
    let text = files::read_text(path, MAX_TEXT_BYTES).ok().flatten()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Returns the name of a type of file system (statfs(2)).
fn name(magic: u64) -> Option<&'static str> {
    Some(match magic & 0xFFFF_FFFF {
        0xEF53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683E => "btrfs",
        0x2FC1_2FC1 => "zfs",
        0x0102_1994 => "tmpfs",
        0x8584_58F6 => "ramfs",
        0x794C_7630 => "overlay",
        0x6969 => "nfs",
        0xFF53_4D42 | 0xFE53_4D42 => "smb",
        0x6573_5546 => "fuse",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Access, create_directory, replace};

    #[test]
    fn kernel_file_systems_are_recognized() {
        assert_eq!(name(0x0102_1994), Some("tmpfs"));
        assert_eq!(name(0xFFFF_FFFF_9123_683E), Some("btrfs"), "a sign extension of 32 bits");
        assert_eq!(name(1), None);
        assert!(Media::of(Path::new("/proc")).unwrap().device.is_none());
        assert!(Media::of(Path::new("/no such path")).is_err());
    }

    #[test]
    fn partition_has_the_properties_of_its_device() {
        let scratch = crate::TemporaryDirectory::new(None, "media").unwrap();
        let whole = scratch.path().join("sdz");
        for directory in ["queue", "device", "sdz1"] {
            create_directory(&whole.join(directory)).unwrap();
        }
        let files = [("queue/rotational", "1\n"), ("queue/write_cache", "write back\n"), ("device/model", "DISK 7 \n")];
        for (file, text) in files.into_iter().chain([("sdz1/partition", "1\n")]) {
            replace(&whole.join(file), text.as_bytes(), Access::Owner).unwrap();
        }
        let device = block_device(&whole.join("sdz1")).unwrap();
        let model = Some("DISK 7".to_owned());
        assert_eq!(device, BlockDevice { name: "sdz".into(), model, is_rotational: true, has_volatile_cache: true });
        assert_eq!(block_device(&whole), Some(device));
    }
}
