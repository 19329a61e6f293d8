//! Mode parameters: MODE SENSE data and MODE SELECT lists (SPC-4 6.11 to 6.14, 7.5; SBC-4 6.5).

pub(crate) mod format;
mod pages;
mod select;
mod sense;

pub use select::mode_select;
pub use sense::{find_page, mode_sense};

use crate::provisioning::Thresholds;

/// The settings that hosts may change, of one logical unit and all its hosts (MLUS and TST are 0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ModeSettings {
    /// WCE of the Caching page: writes are acknowledged from a volatile cache.
    pub write_cache: bool,
    /// D_SENSE of the Control page: sense data go out in descriptor format.
    pub descriptor_sense: bool,
    /// SWP of the Control page: writes are refused.
    pub write_protect: bool,
}

/// What mode parameters tell of a logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeState {
    /// The settings in force.
    pub current: ModeSettings,
    /// The settings at start.
    pub default: ModeSettings,
    /// Hosts may change WCE.
    pub write_cache_changeable: bool,
    /// The volume refuses writes whatever SWP says.
    pub read_only: bool,
    /// Logical blocks of the volume.
    pub blocks: u64,
    /// The soft thresholds of thin provisioning, which administrators set.
    pub thresholds: Thresholds,
}

#[cfg(test)]
mod tests;
