//! Errors of requests, and their HTTP answers.

use api::{ApiError, ErrorBody, ErrorCode, GatewayError};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use catalog::{CatalogError, ObjectKind, Role};
use serde_json::json;

/// The error of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RestError {
    /// The request is invalid, or the state of an object does not allow it: one entry per object.
    Bad(Vec<ApiError>),
    /// The session is missing or has expired; clients log in again.
    Unauthorized(&'static str),
    /// The request has the cookie of a session, and another page caused it.
    Forbidden,
    /// The role of the administrator does not allow the call.
    NotAllowed {
        /// The role.
        role: Role,
        /// The lowest role that allows it.
        needed: Role,
    },
    /// The path does not exist.
    NotFound,
    /// The path does not support the method.
    BadMethod,
    /// The body exceeds the size limit.
    TooLarge,
    /// The body did not arrive in time.
    TooSlow,
    /// Too many logins failed.
    TooManyLogins,
    /// All places of streams are taken.
    TooManyStreams,
    /// The array failed.
    Internal(String),
}

impl RestError {
    /// An error that is not about one object.
    pub(crate) fn bad(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Bad(vec![ApiError { code, context: None, message: message.into() }])
    }

    /// An error about one object.
    pub(crate) fn about(code: ErrorCode, context: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Bad(vec![ApiError { code, context: Some(context.into()), message: message.into() }])
    }
}

impl From<CatalogError> for RestError {
    fn from(error: CatalogError) -> Self {
        match &error {
            CatalogError::Engine(engine::OpError::NoSpace) => {
                Self::bad(ErrorCode::OutOfSpace, "The array is out of space.")
            }
            CatalogError::Engine(engine::OpError::ReadOnly) => {
                Self::bad(ErrorCode::ReadOnly, "The array is open for reading only.")
            }
            CatalogError::Engine(_) | CatalogError::Damaged { .. } => Self::Internal(error.to_string()),
            _ => Self::Bad(vec![ApiError {
                code: code_of(&error),
                context: error.context().map(ToOwned::to_owned),
                message: error.to_string(),
            }]),
        }
    }
}

fn code_of(error: &CatalogError) -> ErrorCode {
    use ErrorCode as Code;
    match error {
        CatalogError::NoSuch { kind, .. } => code_of_missing(*kind),
        CatalogError::AlreadyExists { kind, .. } => code_of_existing(*kind),
        CatalogError::Destroyed { kind: ObjectKind::Volume, .. } => Code::VolumeDestroyed,
        CatalogError::Destroyed { kind: ObjectKind::Snapshot, .. } => Code::SnapshotDestroyed,
        CatalogError::Destroyed { kind: ObjectKind::VolumeGroup, .. } => Code::VolumeGroupDestroyed,
        CatalogError::Destroyed { kind: ObjectKind::Pod, .. } => Code::PodDestroyed,
        CatalogError::NotDestroyed { kind: ObjectKind::VolumeGroup, .. } => Code::VolumeGroupNotDestroyed,
        CatalogError::NotDestroyed { kind: ObjectKind::Pod, .. } => Code::PodNotDestroyed,
        CatalogError::OtherGroup { .. } => Code::OtherGroup,
        CatalogError::NotDestroyed { kind: ObjectKind::Volume, .. } => Code::VolumeNotDestroyed,
        CatalogError::NotDestroyed { kind: ObjectKind::Snapshot, .. } => Code::SnapshotNotDestroyed,
        CatalogError::Connected { kind: ObjectKind::Volume, .. } => Code::VolumeConnected,
        CatalogError::Connected { kind: ObjectKind::Snapshot, .. } => Code::SnapshotConnected,
        CatalogError::Connected { kind: ObjectKind::Host, .. } => Code::HostConnected,
        CatalogError::Connected { kind: ObjectKind::HostGroup, .. } => Code::HostGroupConnected,
        CatalogError::NotInPod { .. } => Code::Unsupported,
        CatalogError::HasVolumes { .. } | CatalogError::HasDestroyedVolumes { .. } => Code::PodNotEmpty,
        CatalogError::QuotaExceeded { .. } => Code::QuotaExceeded,
        CatalogError::QuotaBelowUsage { .. } => Code::QuotaBelowUsage,
        CatalogError::HasMembers { .. } => Code::GroupHasMembers,
        CatalogError::NoMembers { .. } => Code::GroupHasNoMembers,
        CatalogError::InGroupSnapshot { .. } => Code::InGroupSnapshot,
        CatalogError::AlreadyMember { .. } => Code::AlreadyMember,
        CatalogError::SharedConnection { .. } => Code::SharedConnection,
        CatalogError::Destroyed { .. } | CatalogError::NotDestroyed { .. } | CatalogError::Connected { .. } => {
            Code::Unspecified
        }
        CatalogError::BadName { .. } | CatalogError::ReservedSuffix { .. } => Code::InvalidName,
        CatalogError::BadSize { .. } => Code::InvalidSize,
        CatalogError::WouldTruncate { .. } => Code::WouldTruncate,
        CatalogError::OntoItself { .. } => Code::CopyToItself,
        CatalogError::BadSetting { .. } => Code::InvalidSetting,
        CatalogError::BadIqn { .. } => Code::InvalidIqn,
        CatalogError::IqnInUse { .. } => Code::IqnInUse,
        CatalogError::LunInUse { .. } => Code::LunInUse,
        CatalogError::BadLun { .. } => Code::InvalidLun,
        CatalogError::BadChap { .. } => Code::InvalidChap,
        CatalogError::NoSecretKey { .. } => Code::Unspecified,
        CatalogError::LimitReached { .. } | CatalogError::TooManyInPod { .. } | CatalogError::PodTooLarge { .. } => {
            Code::LimitReached
        }
        CatalogError::Stretched { .. }
        | CatalogError::MoveAcrossArrays { .. }
        | CatalogError::CopyAcrossArrays { .. }
        | CatalogError::NotAlone { .. } => Code::Unsupported,
        CatalogError::NotStretched { .. }
        | CatalogError::OrderedElsewhere { .. }
        | CatalogError::PodUnavailable { .. }
        | CatalogError::PodInDoubt { .. }
        | CatalogError::BadPodImage { .. }
        | CatalogError::SerialInUse { .. } => Code::Unspecified,
        CatalogError::Damaged { .. } | CatalogError::Engine(_) => Code::Internal,
    }
}

/// Returns the code if no object of this kind has the name.
fn code_of_missing(kind: ObjectKind) -> ErrorCode {
    use ErrorCode as Code;
    match kind {
        ObjectKind::Volume => Code::VolumeNotFound,
        ObjectKind::Snapshot => Code::SnapshotNotFound,
        ObjectKind::Host => Code::HostNotFound,
        ObjectKind::Connection => Code::ConnectionNotFound,
        ObjectKind::Admin => Code::AdminNotFound,
        ObjectKind::ApiClient => Code::ApiClientNotFound,
        ObjectKind::HostGroup => Code::HostGroupNotFound,
        ObjectKind::VolumeGroup => Code::VolumeGroupNotFound,
        ObjectKind::Pod => Code::PodNotFound,
        ObjectKind::SnapshotPolicy | ObjectKind::SnapshotRule => Code::PolicyNotFound,
        ObjectKind::Member => Code::MemberNotFound,
        ObjectKind::ProtectionGroup => Code::ProtectionGroupNotFound,
        ObjectKind::GroupSnapshot => Code::GroupSnapshotNotFound,
        ObjectKind::AlertWatcher | ObjectKind::SyslogServer | ObjectKind::SnmpManager | ObjectKind::WebHook => {
            Code::DestinationNotFound
        }
    }
}

/// Returns the code if an object of this kind has the name already.
fn code_of_existing(kind: ObjectKind) -> ErrorCode {
    use ErrorCode as Code;
    match kind {
        ObjectKind::Volume => Code::VolumeExists,
        ObjectKind::Snapshot => Code::SnapshotExists,
        ObjectKind::Host => Code::HostExists,
        ObjectKind::Connection => Code::ConnectionExists,
        ObjectKind::HostGroup => Code::HostGroupExists,
        ObjectKind::VolumeGroup => Code::VolumeGroupExists,
        ObjectKind::Pod => Code::PodExists,
        ObjectKind::SnapshotPolicy => Code::PolicyExists,
        ObjectKind::Admin => Code::AdminExists,
        ObjectKind::ApiClient => Code::ApiClientExists,
        ObjectKind::ProtectionGroup => Code::ProtectionGroupExists,
        ObjectKind::GroupSnapshot => Code::GroupSnapshotExists,
        ObjectKind::AlertWatcher | ObjectKind::SyslogServer | ObjectKind::SnmpManager | ObjectKind::WebHook => {
            Code::DestinationExists
        }
        ObjectKind::SnapshotRule | ObjectKind::Member => Code::Unspecified,
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        let one = |status: StatusCode, code: ErrorCode, message: &str| {
            let errors = vec![ApiError { code, context: None, message: message.to_owned() }];
            (status, Json(ErrorBody { errors })).into_response()
        };
        match self {
            Self::Bad(errors) => (StatusCode::BAD_REQUEST, Json(ErrorBody { errors })).into_response(),
            Self::Unauthorized(message) => one(StatusCode::UNAUTHORIZED, ErrorCode::Unauthorized, message),
            Self::Forbidden => one(
                StatusCode::FORBIDDEN,
                ErrorCode::Forbidden,
                "A call with a session cookie must come from the array's own console.",
            ),
            Self::NotAllowed { role, needed } => {
                let (role, needed) = (role.name(), needed.name());
                let message = format!("Operation not permitted: the role {role} does not allow it, {needed} does.");
                let error = ApiError { code: ErrorCode::NotAllowed, context: None, message: message.clone() };
                // Existing clients read `message` of this status.
                let body = json!({"errors": [error], "message": message});
                (StatusCode::FORBIDDEN, Json(body)).into_response()
            }
            Self::NotFound => one(
                StatusCode::NOT_FOUND,
                ErrorCode::PathNotFound,
                "Path not found: paths begin with /api/2.26/ and are listed in docs/rest.md.",
            ),
            Self::BadMethod => {
                one(StatusCode::METHOD_NOT_ALLOWED, ErrorCode::MethodNotAllowed, "Method not supported on this path.")
            }
            Self::TooLarge => one(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::BodyTooLarge, "The body exceeds 1 MiB."),
            Self::TooSlow => {
                one(StatusCode::REQUEST_TIMEOUT, ErrorCode::BodyTimeout, "The body did not arrive within 30 seconds.")
            }
            Self::TooManyLogins => {
                let message = "Too many failed logins from this address; wait one minute.".to_owned();
                (StatusCode::TOO_MANY_REQUESTS, Json(GatewayError { message })).into_response()
            }
            Self::TooManyStreams => one(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::LimitReached,
                "limit reached: too many streams of events are open; close one, or read the lists at intervals.",
            ),
            Self::Internal(message) => {
                tracing::error!("request failed: {message}");
                one(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal, &message)
            }
        }
    }
}
