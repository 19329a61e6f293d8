//! The initiator's side of the login phase.

use bytes::BytesMut;
use thiserror::Error;

use crate::{chap::Secret, login::Established, output::Output, parameters::Parameters};

/// What an initiator brings to a login.
#[derive(Clone, Debug)]
pub struct LoginConfig {
    /// InitiatorName.
    pub initiator: String,
    /// InitiatorAlias.
    pub initiator_alias: Option<String>,
    /// TargetName; none for a discovery session.
    pub target: Option<String>,
    /// ISID.
    pub isid: [u8; 6],
    /// CID.
    pub cid: u16,
    /// What the initiator asks for.
    pub offer: Parameters,
    /// CHAP, when the initiator can prove itself.
    pub chap: Option<ChapIdentity>,
}

/// The secrets of an initiator.
#[derive(Clone, Debug)]
pub struct ChapIdentity {
    /// CHAP_N to give.
    pub user: String,
    /// The initiator's secret.
    pub secret: Secret,
    /// When the target shall prove itself too: the name it has to give, its secret, and the challenge to send it, which
    /// must be unpredictable.
    pub mutual: Option<MutualChap>,
}

/// What is asked of the target in mutual CHAP.
#[derive(Clone, Debug)]
pub struct MutualChap {
    /// CHAP_N the target has to give; none accepts any.
    pub user: Option<String>,
    /// The target's secret.
    pub secret: Secret,
    /// CHAP_I.
    pub identifier: u8,
    /// CHAP_C.
    pub challenge: Vec<u8>,
}

/// How far a login has come.
#[derive(Debug)]
pub enum LoginProgress {
    /// More is to come from the target.
    Pending,
    /// The full feature phase begins.
    Established(Box<Established>),
    /// Close the connection.
    Failed(LoginError),
}

/// Why a login failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoginError {
    /// The target refused, with this Status-Class and Status-Detail.
    #[error("the target refused the login with status {0:#06x}")]
    Refused(u16),
    /// The target is elsewhere: TargetAddress.
    #[error("the target moved to {0}")]
    Moved(String),
    /// The target could not prove itself.
    #[error("the target failed to authenticate: {0}")]
    Authentication(&'static str),
    /// The target broke the protocol.
    #[error("protocol error: {0}")]
    Protocol(&'static str),
}

/// One login, from the first byte of a connection to the full feature phase or to its failure.
#[derive(Debug)]
pub struct InitiatorLogin {
    config: LoginConfig,
}

impl InitiatorLogin {
    /// A login; the first request is put into `output`.
    pub fn start(config: LoginConfig, _output: &mut Output) -> Self {
        Self { config }
    }

    /// Takes the login responses at the front of `input` and goes on.
    pub fn receive(&mut self, _input: &mut BytesMut, _output: &mut Output) -> LoginProgress {
        let _ = &self.config;
        LoginProgress::Pending
    }
}
