//! What one initiator sees.

use crate::record::Qos;
use std::collections::BTreeMap;
use types::VolumeId;

/// One logical unit of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LunEntry {
    /// The volume behind it.
    pub volume: VolumeId,
    /// The volume's name, for logs and counters; hosts do not see it.
    pub name: String,
    /// Size in logical blocks.
    pub blocks: u64,
    /// The volume's serial number: 24 hexadecimal digits in upper case.
    pub serial: String,
    /// True when the host may not write: a snapshot.
    pub read_only: bool,
    /// The volume's limits, shared by all hosts that see it.
    pub qos: Qos,
    /// The percentage of the volume's size at which hosts are told that it fills; `None`: they are not.
    pub threshold_percent: Option<u8>,
}

impl LunEntry {
    /// The volume's NAA name: 32 hexadecimal digits.
    pub fn naa(&self) -> String {
        crate::record::naa(&self.serial)
    }
}

/// The logical units of a host by number. Two maps are equal when an initiator could not tell them apart (and neither
/// could a reader of logs): compare an old one with a new one to find which unit attentions are due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LunMap {
    /// The host's name.
    pub host: String,
    /// The units.
    pub entries: BTreeMap<u16, LunEntry>,
}

impl LunMap {
    /// The unit with that number.
    pub fn get(&self, lun: u16) -> Option<&LunEntry> {
        self.entries.get(&lun)
    }
}
