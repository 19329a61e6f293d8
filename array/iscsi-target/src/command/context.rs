//! Context of a command: the parts of its session that it may use.

use crate::command::copy_records::CopyRecords;
use crate::command::outcome::not_ready;
use crate::nexus::Nexus;
use crate::pod_ports::PodPortStates;
use crate::portals::Portals;
use crate::unit::logical_unit::LogicalUnits;
use crate::unit::view::{Attachment, View};
use engine::Service;
use scsi::Sense;
use scsi::inquiry::TargetPort;

/// The parts of a session that its commands use.
#[derive(Clone, Copy)]
pub(crate) struct CommandContext<'a> {
    pub(crate) service: &'a dyn Service,
    pub(crate) nexus: &'a Nexus,
    pub(crate) view: &'a View,
    /// The target port that received the command.
    pub(crate) port: &'a TargetPort,
    pub(crate) portals: &'a Portals,
    pub(crate) units: &'a LogicalUnits,
    pub(crate) copies: &'a CopyRecords,
}

impl CommandContext<'_> {
    /// Returns the states of the target ports for a logical unit that another array serves, too.
    pub(crate) fn ports(&self, attachment: &Attachment) -> Option<PodPortStates> {
        self.units.ports(&attachment.unit, attachment.content)
    }

    /// Fails with NOT READY if the engine has stopped.
    pub(crate) fn check_ready(&self) -> Result<(), Sense> {
        if self.service.stopped().is_some() { Err(not_ready()) } else { Ok(()) }
    }
}
