//! The target's side of the login phase.

use bytes::BytesMut;

use super::{LoginAuthority, LoginProgress};
use crate::{output::Output, parameters::Parameters};

/// What a portal brings to every login.
#[derive(Clone, Debug)]
pub struct LoginConfig {
    /// TargetPortalGroupTag of the portal (RFC 7143 13.9).
    pub portal_group_tag: u16,
    /// TargetAlias.
    pub target_alias: Option<String>,
    /// What the target is ready to agree on.
    pub offer: Parameters,
}

impl Default for LoginConfig {
    fn default() -> Self {
        Self { portal_group_tag: 1, target_alias: None, offer: Parameters::offer_of_target() }
    }
}

/// One login, from the first byte of a connection to the full feature phase or to its refusal.
#[derive(Debug)]
pub struct TargetLogin {
    config: LoginConfig,
}

impl TargetLogin {
    /// A login that has not heard anything yet.
    pub fn new(config: LoginConfig) -> Self {
        Self { config }
    }

    /// Takes the login requests at the front of `input` and answers them.
    pub fn receive(
        &mut self,
        _input: &mut BytesMut,
        _authority: &mut dyn LoginAuthority,
        _output: &mut Output,
    ) -> LoginProgress {
        let _ = &self.config;
        LoginProgress::Pending
    }
}
