//! The LUN map of an initiator.

use crate::record::Qos;
use std::collections::BTreeMap;
use types::{ObjectId, VolumeId};

/// The arrays whose ports a host prefers, of the two that serve a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathPreference {
    /// Both alike: both are preferred, neither is, or this array serves the volume alone.
    #[default]
    Alike,
    /// Only this array.
    Own,
    /// Only the other array.
    Peer,
}

impl PathPreference {
    /// Returns the preference from whether each of the two arrays is preferred.
    pub(crate) fn of(own: bool, peer: bool) -> Self {
        match (own, peer) {
            (true, false) => Self::Own,
            (false, true) => Self::Peer,
            (true, true) | (false, false) => Self::Alike,
        }
    }
}

/// One logical unit of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LunEntry {
    /// Id of the volume or snapshot.
    pub volume: ObjectId,
    /// The engine's volume that holds its blocks.
    pub content: VolumeId,
    /// Name of the volume, for logs and counters. It is not visible to hosts.
    pub name: String,
    /// Size in 512-byte blocks.
    pub blocks: u64,
    /// Serial number of the volume: 24 upper-case hexadecimal digits.
    pub serial: String,
    /// True for a snapshot, which hosts may not write.
    pub read_only: bool,
    /// QoS limits of the volume, shared by all hosts.
    pub qos: Qos,
    /// Percentage of the volume's size at which hosts get a space alert; `None` for no alert.
    pub threshold_percent: Option<u8>,
    /// The arrays that the host prefers for it.
    pub preference: PathPreference,
}

impl LunEntry {
    /// Returns the NAA identifier of the volume: 32 hexadecimal digits.
    pub fn naa(&self) -> String {
        crate::record::naa(&self.serial)
    }
}

/// The logical units of a host by LUN.
///
/// Two maps are equal if neither an initiator nor the logs could distinguish them. Sessions compare
/// the old and the new map to find which unit attentions are due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LunMap {
    /// Name of the host.
    pub host: String,
    /// Personality of the host, on which properties of its logical units depend.
    pub personality: Option<String>,
    /// Logical units by LUN.
    pub entries: BTreeMap<u16, LunEntry>,
}

impl LunMap {
    /// Returns the logical unit with this LUN.
    pub fn get(&self, lun: u16) -> Option<&LunEntry> {
        self.entries.get(&lun)
    }
}
