//! The types of the login phase: sessions, statuses, and the authority that decides about a login.

use thiserror::Error;

use crate::{chap::ChapSecret, parameters::Parameters};

/// The protocol version; RFC 7143 11.12.4 defines only one.
pub(crate) const VERSION: u8 = 0;

/// Session types (RFC 7143 4.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionKind {
    /// SessionType=Discovery: only SendTargets and Logout.
    Discovery,
    /// SessionType=Normal, to one target.
    Normal {
        /// TargetName in lower case.
        target: String,
    },
}

impl SessionKind {
    /// Returns the target name; `None` for a discovery session.
    pub fn target(&self) -> Option<&str> {
        match self {
            Self::Discovery => None,
            Self::Normal { target } => Some(target),
        }
    }
}

/// Status-Class and Status-Detail of a refused login (RFC 7143 11.13.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[repr(u16)]
pub enum LoginStatus {
    /// Miscellaneous initiator error: a violation of the login phase.
    #[error("login phase violated by the initiator")]
    InitiatorError = 0x0200,
    /// The initiator could not be authenticated.
    #[error("authentication failed")]
    AuthenticationFailure = 0x0201,
    /// The initiator is not allowed access to this target.
    #[error("initiator not authorized for this target")]
    AuthorizationFailure = 0x0202,
    /// No such target.
    #[error("no such target")]
    NotFound = 0x0203,
    /// The target was removed permanently.
    #[error("target removed")]
    TargetRemoved = 0x0204,
    /// Unsupported version.
    #[error("unsupported protocol version")]
    UnsupportedVersion = 0x0205,
    /// Too many connections in this session.
    #[error("too many connections in this session")]
    TooManyConnections = 0x0206,
    /// A required key is missing.
    #[error("required key missing")]
    MissingParameter = 0x0207,
    /// The target cannot include the connection in this session.
    #[error("connection cannot be added to this session")]
    CannotIncludeInSession = 0x0208,
    /// Session type not supported.
    #[error("session type not supported")]
    SessionTypeNotSupported = 0x0209,
    /// The session to join does not exist.
    #[error("session does not exist")]
    SessionDoesNotExist = 0x020a,
    /// The request is not allowed during login.
    #[error("invalid request during login")]
    InvalidDuringLogin = 0x020b,
    /// Target error.
    #[error("target error")]
    TargetError = 0x0300,
    /// The service is temporarily unavailable.
    #[error("service unavailable")]
    ServiceUnavailable = 0x0301,
    /// Out of resources.
    #[error("out of resources")]
    OutOfResources = 0x0302,
}

/// How an initiator must authenticate.
#[derive(Clone, Debug)]
pub enum Authentication {
    /// No authentication.
    None,
    /// CHAP (RFC 7143 12.1.3).
    Chap(ChapAccount),
}

/// The CHAP credentials of an initiator, as the target knows them.
#[derive(Clone, Debug)]
pub struct ChapAccount {
    /// CHAP_N that the initiator must send.
    pub user: String,
    /// The initiator's secret.
    pub secret: ChapSecret,
    /// User name and secret of the target, for initiators that request mutual CHAP.
    pub mutual: Option<(String, ChapSecret)>,
}

/// A session that a login requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRequest {
    /// InitiatorName.
    pub initiator: String,
    /// InitiatorAlias.
    pub initiator_alias: Option<String>,
    /// Session type.
    pub kind: SessionKind,
    /// ISID. Initiator name, ISID and portal group together identify the I_T nexus.
    pub isid: [u8; 6],
    /// TSIH of the request: zero for a new session, else the session to join or to reinstate a
    /// connection of.
    pub tsih: u16,
    /// CID of the connection.
    pub cid: u16,
    /// User name that CHAP authenticated.
    pub user: Option<String>,
}

/// The decisions that the array makes during login.
///
/// All methods return immediately: implementations read a snapshot of the configuration in memory.
pub trait LoginAuthority {
    /// Returns how `initiator` must authenticate for this session.
    ///
    /// # Errors
    ///
    /// Fails with the status to send if the initiator cannot have the session.
    fn authentication(&mut self, initiator: &str, kind: &SessionKind) -> Result<Authentication, LoginStatus>;

    /// Fills `bytes` with unpredictable values for CHAP challenges.
    fn fill_random(&mut self, bytes: &mut [u8]);

    /// Admits the session and returns its TSIH, which is never zero.
    ///
    /// RFC 7143 6.3.5: session reinstatement is the process of an initiator logging in with an ISID
    /// that is possibly active from that initiator's perspective, thus implicitly logging out the
    /// session that corresponds to the ISID and reinstating a new iSCSI session.
    ///
    /// With `tsih` zero, an existing session of the same initiator, ISID and target therefore ends.
    fn admit(&mut self, request: &SessionRequest) -> Result<u16, LoginStatus>;
}

/// A completed login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Established {
    /// The admitted session.
    pub request: SessionRequest,
    /// Handle of the session.
    pub tsih: u16,
    /// Negotiated parameters.
    pub parameters: Parameters,
    /// CmdSN of the first command.
    pub cmd_sn: u32,
    /// Highest CmdSN that the target accepts.
    pub max_cmd_sn: u32,
    /// StatSN of the first response.
    pub stat_sn: u32,
}

/// The progress of a login.
#[derive(Debug)]
pub enum LoginProgress {
    /// More requests must arrive from the initiator.
    Pending,
    /// The full feature phase begins. Bytes after the last login request remain in the input.
    Established(Box<Established>),
    /// Send the output, then close the connection.
    Refused(LoginRefusal),
}

/// Why a login was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{status}: {detail}")]
pub struct LoginRefusal {
    /// Status sent to the initiator.
    pub status: LoginStatus,
    /// Details for the log.
    pub detail: String,
    /// InitiatorName, if it was received.
    pub initiator: Option<String>,
}
