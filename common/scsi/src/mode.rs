//! Mode parameters: MODE SENSE data and MODE SELECT lists (SPC-4 6.11 to 6.14, 7.5; SBC-4 6.5).

pub(crate) mod format;
mod pages;
mod select;
mod sense;

pub use select::mode_select;
pub use sense::{find_page, mode_sense};

use crate::provisioning::Thresholds;

/// The settings that hosts may change. They apply to one logical unit and all its hosts (MLUS and
/// TST are 0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ModeSettings {
    /// WCE of the Caching page: writes are acknowledged from a volatile cache.
    pub write_cache: bool,
    /// D_SENSE of the Control page: sense data is sent in descriptor format.
    pub descriptor_sense: bool,
    /// SWP of the Control page: writes are refused.
    pub write_protect: bool,
}

/// The state of a logical unit that mode parameters report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeState {
    /// The current settings.
    pub current: ModeSettings,
    /// The default settings.
    pub default: ModeSettings,
    /// Whether hosts may change WCE.
    pub write_cache_changeable: bool,
    /// Whether the volume refuses writes independent of SWP.
    pub read_only: bool,
    /// Logical blocks of the volume.
    pub blocks: u64,
    /// The soft thresholds of thin provisioning, set by administrators.
    pub thresholds: Thresholds,
}

#[cfg(test)]
mod tests;
