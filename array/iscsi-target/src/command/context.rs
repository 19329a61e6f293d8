//! Context of a command: the parts of its session that it may use.

use crate::command::copy_records::CopyRecords;
use crate::command::outcome::not_ready;
use crate::nexus::Nexus;
use crate::portals::Portals;
use crate::unit::view::View;
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
    pub(crate) copies: &'a CopyRecords,
}

impl CommandContext<'_> {
    /// Fails with NOT READY if the engine has stopped.
    pub(crate) fn check_ready(&self) -> Result<(), Sense> {
        if self.service.stopped().is_some() { Err(not_ready()) } else { Ok(()) }
    }
}
