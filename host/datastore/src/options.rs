//! What one chooses when a datastore is made and when it is mounted.

use crate::{DEFAULT_PARTITION_LBA, Mode, VolumeUuid};
use std::time::Duration;

/// How a datastore is made.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Its label, 1 to 127 bytes.
    pub label: String,
    /// Which VMFS it behaves as.
    pub mode: Mode,
    /// First sector of its partition: 34 or more. 2048 keeps blocks aligned to 1 MiB of the device.
    pub partition_lba: u64,
    /// Bytes of the partition; all that the device has, without.
    pub size: Option<u64>,
    /// Its UUID; a new one, without.
    pub uuid: Option<VolumeUuid>,
}

impl FormatOptions {
    /// The usual: all of the device, from sector 2048 on.
    pub fn new(label: &str, mode: Mode) -> Self {
        Self { label: label.to_owned(), mode, partition_lba: DEFAULT_PARTITION_LBA, size: None, uuid: None }
    }
}

/// The times that the safety of locks rests on.
///
/// A host that has not renewed its heartbeat for `fence` issues no more I/O, and what it issued before is over
/// `io_lifetime` later: the disk or its driver has aborted it. Others take its locks when they have seen no beat for `lease`
/// on their own clocks. So `lease` must exceed `fence + io_lifetime` by as much as clocks may differ in rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From one beat to the next.
    pub interval: Duration,
    /// After a beat was sent: how long I/O may be issued on its strength.
    pub fence: Duration,
    /// After it was issued: how long a command may take until it is done or certainly never will be. Mounting binds the
    /// device to it ([`multipath::SharedDisk::bound`]).
    pub io_lifetime: Duration,
    /// Without a beat for so long, a host is dead.
    pub lease: Duration,
    /// How long an operation waits for metadata that others have locked.
    pub patience: Duration,
}

impl Default for Timing {
    /// ESXi's times: a beat every 3 s, 8 s for one to succeed, 16 s until a host is given up.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(3),
            fence: Duration::from_secs(8),
            io_lifetime: Duration::from_secs(5),
            lease: Duration::from_secs(16),
            patience: Duration::from_secs(48),
        }
    }
}

impl Timing {
    /// How long after RESERVE a write may be issued under it.
    pub(crate) fn reservation_hold(&self) -> Duration {
        self.io_lifetime / 5
    }

    /// How long a reservation of another host is respected: longer than any write under it may take.
    pub(crate) fn reservation_patience(&self) -> Duration {
        self.io_lifetime + 2 * self.reservation_hold()
    }

    /// Whether the times keep two hosts from owning a lock, with 5 % between their clocks.
    pub fn is_safe(&self) -> bool {
        self.interval < self.fence && (self.fence + self.io_lifetime).mul_f64(1.05) < self.lease
    }
}

/// How a datastore is mounted.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The host's name, for people; at most 63 bytes of it are kept.
    pub host: String,
    /// `/VMFS3/HardwareAcceleratedLocking`: locks by ATS, where the device has it; without, by reservation of the LUN.
    pub ats: bool,
    /// `/VMFS3/useATSForHBOnVMFS5`: heartbeats by ATS as well; without, by plain writes.
    pub ats_heartbeat: bool,
    /// The times; the same on all hosts.
    pub timing: Timing,
    /// `/Misc/APDTimeout`: how long I/O on files waits for a device that has gone, until who asked for it hears of it.
    pub paths_down_timeout: Duration,
}

impl MountOptions {
    /// With ATS, and ESXi's times.
    pub fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            ats: true,
            ats_heartbeat: true,
            timing: Timing::default(),
            paths_down_timeout: Duration::from_secs(140),
        }
    }
}
