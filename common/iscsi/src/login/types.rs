//! The types of the login phase: sessions, statuses, and the authority that decides about a login.

use thiserror::Error;

use crate::{chap::ChapSecret, parameters::Parameters};

/// The version of the protocol: RFC 7143 11.12.4 knows one only.
pub(crate) const VERSION: u8 = 0;

/// What a session is for (RFC 7143 4.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionKind {
    /// SessionType=Discovery: SendTargets and nothing else.
    Discovery,
    /// SessionType=Normal, to this target.
    Normal {
        /// TargetName, in the case of the initiator's spelling folded to lower.
        target: String,
    },
}

impl SessionKind {
    /// The target's name, unless this is discovery.
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
    /// Miscellaneous initiator error: a broken rule of the login phase.
    #[error("the initiator broke a rule of the login phase")]
    InitiatorError = 0x0200,
    /// The initiator could not be authenticated.
    #[error("authentication failed")]
    AuthenticationFailure = 0x0201,
    /// The initiator is not allowed access to this target.
    #[error("the initiator is not allowed access to this target")]
    AuthorizationFailure = 0x0202,
    /// No such target.
    #[error("no such target")]
    NotFound = 0x0203,
    /// The target was there and will not come back.
    #[error("target removed")]
    TargetRemoved = 0x0204,
    /// Unsupported version.
    #[error("unsupported protocol version")]
    UnsupportedVersion = 0x0205,
    /// Too many connections in this session.
    #[error("too many connections in this session")]
    TooManyConnections = 0x0206,
    /// A name or type that is needed was not given.
    #[error("a key that is needed is missing")]
    MissingParameter = 0x0207,
    /// The target cannot include the connection in this session.
    #[error("the connection cannot be included in this session")]
    CannotIncludeInSession = 0x0208,
    /// Session type not supported.
    #[error("session type not supported")]
    SessionTypeNotSupported = 0x0209,
    /// The session that the connection shall join does not exist.
    #[error("session does not exist")]
    SessionDoesNotExist = 0x020a,
    /// The request does not belong to the login phase.
    #[error("invalid request during login")]
    InvalidDuringLogin = 0x020b,
    /// Target error.
    #[error("target error")]
    TargetError = 0x0300,
    /// The service is not there for now.
    #[error("service unavailable")]
    ServiceUnavailable = 0x0301,
    /// Out of resources.
    #[error("out of resources")]
    OutOfResources = 0x0302,
}

/// How an initiator must prove who it is.
#[derive(Clone, Debug)]
pub enum Authentication {
    /// No proof is wanted.
    None,
    /// CHAP (RFC 7143 12.1.3).
    Chap(ChapAccount),
}

/// The secrets of a CHAP exchange.
#[derive(Clone, Debug)]
pub struct ChapAccount {
    /// CHAP_N the initiator has to give.
    pub user: String,
    /// The initiator's secret.
    pub secret: ChapSecret,
    /// Name and secret of the target, for an initiator that wants it to prove itself as well.
    pub mutual: Option<(String, ChapSecret)>,
}

/// A login that asks to become a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRequest {
    /// InitiatorName.
    pub initiator: String,
    /// InitiatorAlias.
    pub initiator_alias: Option<String>,
    /// What the session is for.
    pub kind: SessionKind,
    /// ISID: with the initiator's name and the portal group, the name of the I_T nexus.
    pub isid: [u8; 6],
    /// TSIH of the request: zero for a new session, else the session to join or to reinstate a connection of.
    pub tsih: u16,
    /// CID of the connection.
    pub cid: u16,
    /// The name that was authenticated by CHAP.
    pub user: Option<String>,
}

/// What the login phase has to ask the array: who may come in, and what the sessions are.
///
/// Everything here is answered at once, from memory: the callers hold a snapshot of the configuration.
pub trait LoginAuthority {
    /// How `initiator` must prove itself for this session; or why it cannot have one.
    fn authentication(&mut self, initiator: &str, kind: &SessionKind) -> Result<Authentication, LoginStatus>;

    /// Fills `bytes` with unpredictable ones, for CHAP challenges.
    fn fill_random(&mut self, bytes: &mut [u8]);

    /// Takes the session in and returns its TSIH, which is not zero.
    ///
    /// RFC 7143 6.3.5: session reinstatement is the process of an initiator logging in with an ISID that is possibly
    /// active from that initiator's perspective, thus implicitly logging out the session that corresponds to the ISID
    /// and reinstating a new iSCSI session.
    ///
    /// So with `tsih` zero an old session of the same initiator, ISID and target ends here.
    fn admit(&mut self, request: &SessionRequest) -> Result<u16, LoginStatus>;
}

/// A login that has succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Established {
    /// Who and what for.
    pub request: SessionRequest,
    /// The session's handle.
    pub tsih: u16,
    /// What was agreed on.
    pub parameters: Parameters,
    /// The CmdSN of the first command.
    pub cmd_sn: u32,
    /// The highest CmdSN the target accepts.
    pub max_cmd_sn: u32,
    /// The StatSN of the first response.
    pub stat_sn: u32,
}

/// How far a login has come.
#[derive(Debug)]
pub enum LoginProgress {
    /// More is to come from the initiator.
    Pending,
    /// The full feature phase begins; bytes behind the last login request are still in the input.
    Established(Box<Established>),
    /// Send what is in the output, then close the connection.
    Refused(LoginRefusal),
}

/// Why a login ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{status}: {detail}")]
pub struct LoginRefusal {
    /// What the initiator was told.
    pub status: LoginStatus,
    /// What the log should say.
    pub detail: String,
    /// InitiatorName, when it came that far.
    pub initiator: Option<String>,
}
