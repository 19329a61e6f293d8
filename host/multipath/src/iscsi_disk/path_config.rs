//! The address of a path.

use initiator::InitiatorConfig;
use scsi::Lun;

/// The address of a path.
#[derive(Clone, Debug)]
pub struct PathConfig {
    /// Login configuration.
    pub config: InitiatorConfig,
    /// Logical unit at the port.
    pub lun: Lun,
}
