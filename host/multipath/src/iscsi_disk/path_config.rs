//! Where a path leads.

use initiator::InitiatorConfig;
use scsi::Lun;

/// Where a path leads.
#[derive(Clone, Debug)]
pub struct PathConfig {
    /// How to log in.
    pub config: InitiatorConfig,
    /// The logical unit behind the port.
    pub lun: Lun,
}
