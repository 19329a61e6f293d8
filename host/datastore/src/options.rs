//! Options of formatting and mounting.

use crate::{DEFAULT_PARTITION_LBA, HostProcess, Mode, VolumeUuid};
use std::sync::Arc;
use std::time::Duration;

/// Options of a new datastore.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Label, 1 to 127 bytes.
    pub label: String,
    /// VMFS version whose behaviour it has.
    pub mode: Mode,
    /// First sector of the partition: 34 or more. 2048 aligns blocks to 1 MiB of the device.
    pub partition_lba: u64,
    /// Size of a file block in MiB: 1, 2, 4 or 8, as in VMFS 3. Copies between datastores with
    /// different block sizes are not offloaded.
    pub block_mib: u32,
    /// Size of the partition in bytes; `None` uses the whole device.
    pub size: Option<u64>,
    /// UUID; `None` creates a new one.
    pub uuid: Option<VolumeUuid>,
}

impl FormatOptions {
    /// Uses the whole device from sector 2048 on, with a new UUID.
    pub fn new(label: &str, mode: Mode) -> Self {
        Self {
            label: label.to_owned(),
            mode,
            partition_lba: DEFAULT_PARTITION_LBA,
            block_mib: 1,
            size: None,
            uuid: None,
        }
    }
}

/// Times on which the safety of locks depends.
///
/// A host whose last heartbeat is older than `fence` issues no more I/O. Its earlier I/O has ended
/// `io_lifetime` later, because the device or its driver aborts it. Other hosts take its locks if
/// they see no heartbeat for `lease` on their own clocks. So `lease` must exceed `fence +
/// io_lifetime`, with a margin for different clock rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time between heartbeats.
    pub interval: Duration,
    /// Time after the start of a heartbeat during which I/O may be issued.
    pub fence: Duration,
    /// Time limit of a command: afterwards it is done or never will be. A mount sets it on the
    /// device ([`multipath::SharedDisk::limit_command_time`]).
    pub io_lifetime: Duration,
    /// Time without a heartbeat after which a host counts as dead.
    pub lease: Duration,
    /// Time that an operation waits for metadata locked by other hosts.
    pub busy_timeout: Duration,
}

impl Default for Timing {
    /// ESXi's times: a heartbeat every 3 s that is valid for 8 s; a host counts as dead after 16 s.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(3),
            fence: Duration::from_secs(8),
            io_lifetime: Duration::from_secs(5),
            lease: Duration::from_secs(16),
            busy_timeout: Duration::from_secs(48),
        }
    }
}

impl Timing {
    /// Returns how long after RESERVE a write may be issued under the reservation.
    pub(crate) fn reservation_hold(&self) -> Duration {
        self.io_lifetime / 5
    }

    /// Returns how long a reservation of another host is respected: longer than any write under it
    /// takes.
    pub(crate) fn reservation_timeout(&self) -> Duration {
        self.io_lifetime + 2 * self.reservation_hold()
    }

    /// Returns whether no two hosts can own one lock, with clock rates that differ by up to 5 %.
    pub fn is_safe(&self) -> bool {
        self.interval < self.fence && (self.fence + self.io_lifetime).mul_f64(1.05) < self.lease
    }
}

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Name of the host for display; at most 63 bytes are stored.
    pub host: String,
    /// `/VMFS3/HardwareAcceleratedLocking`: locks by ATS if the device supports it, else by
    /// reservation of the LUN.
    pub ats: bool,
    /// `/VMFS3/useATSForHBOnVMFS5`: heartbeats by ATS too, else by plain writes.
    pub ats_heartbeat: bool,
    /// Times; must be the same on all hosts.
    pub timing: Timing,
    /// `/Misc/APDTimeout`: time that I/O on files and metadata waits for an unreachable device
    /// before it fails.
    pub paths_down_timeout: Duration,
    /// The process that mounts. With one, an operation on a file whose owner shows no heartbeat
    /// waits until the owner is known to be alive or its locks are free; without, it fails at once.
    pub process: Option<Arc<dyn HostProcess>>,
}

impl MountOptions {
    /// Uses ATS and ESXi's times.
    pub fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            ats: true,
            ats_heartbeat: true,
            timing: Timing::default(),
            paths_down_timeout: Duration::from_secs(140),
            process: None,
        }
    }
}
