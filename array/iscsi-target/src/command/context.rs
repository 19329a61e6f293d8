//! Context of a command: the parts of its session that it may use.

use crate::command::copy_records::CopyRecords;
use crate::nexus::Nexus;
use crate::unit::view::View;
use engine::Service;
use scsi::inquiry::TargetPort;

/// The parts of a session that its commands use.
#[derive(Clone, Copy)]
pub(crate) struct CommandContext<'a> {
    pub(crate) service: &'a dyn Service,
    pub(crate) nexus: &'a Nexus,
    pub(crate) view: &'a View,
    /// The target port that received the command.
    pub(crate) port: &'a TargetPort,
    pub(crate) copies: &'a CopyRecords,
}
