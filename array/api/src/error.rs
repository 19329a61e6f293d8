//! Error answers: a code for programs and a text for people.

use serde::{Deserialize, Serialize};

/// The body of an error answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorBody {
    /// One entry for each object that caused an error.
    pub errors: Vec<ApiError>,
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApiError {
    /// The cause, for programs. (Ibid extension.)
    #[serde(default)]
    pub code: ErrorCode,
    /// The name of the object.
    pub context: Option<String>,
    /// The cause, for people.
    pub message: String,
}

/// The body of answers with status 403 and 429, which existing clients read in this form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GatewayError {
    /// The cause, for people.
    pub message: String,
}

/// The cause of an error. Codes keep their meaning; clients treat an unknown code as `unspecified`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The body is malformed, incomplete or contradicts itself.
    InvalidRequest,
    /// A query parameter is missing, unknown or malformed.
    InvalidParameter,
    /// The filter does not parse, or names an unknown field.
    InvalidFilter,
    /// The sort order names an unknown field.
    InvalidSort,
    /// A name or suffix does not follow the rules for names.
    InvalidName,
    /// A volume size is out of range.
    InvalidSize,
    /// A setting is out of range.
    InvalidSetting,
    /// An initiator name is malformed.
    InvalidIqn,
    /// A LUN is out of range.
    InvalidLun,
    /// CHAP names or secrets are malformed.
    InvalidChap,
    /// A CHAP secret of the host comes without a user name.
    HostUserMissing,
    /// A CHAP user name of the host comes without a secret.
    HostPasswordMissing,
    /// A CHAP secret of the array comes without a user name.
    TargetUserMissing,
    /// A CHAP user name of the array comes without a secret.
    TargetPasswordMissing,
    /// The dialect has this feature, but the array does not.
    Unsupported,
    /// No array has this name.
    ArrayNotFound,
    /// No volume has this name.
    VolumeNotFound,
    /// No snapshot has this name.
    SnapshotNotFound,
    /// No host has this name.
    HostNotFound,
    /// The volume is not connected to the host.
    ConnectionNotFound,
    /// No administrator has this name.
    AdminNotFound,
    /// No API client has this name.
    ApiClientNotFound,
    /// No protection group has this name.
    ProtectionGroupNotFound,
    /// No snapshot of a protection group has this name.
    GroupSnapshotNotFound,
    /// No host group has this name.
    HostGroupNotFound,
    /// No volume group has this name.
    VolumeGroupNotFound,
    /// No pod has this name.
    PodNotFound,
    /// No snapshot policy, or rule of one, has this name.
    PolicyNotFound,
    /// A snapshot policy has this name already.
    PolicyExists,
    /// The object is not a member of the group.
    MemberNotFound,
    /// The volume has no such tag.
    TagNotFound,
    /// No connection to an array of this name.
    ArrayConnectionNotFound,
    /// The array is connected already, or its name is taken.
    ArrayConnectionExists,
    /// The other array cannot be reached, or refused.
    ArrayConnectionFailed,
    /// No alert has this name.
    AlertNotFound,
    /// No mail address, syslog server, SNMP manager or web hook has this name.
    DestinationNotFound,
    /// A mail address, syslog server, SNMP manager or web hook has this name already.
    DestinationExists,
    /// No controller, port or interface has this name.
    PartNotFound,
    /// The host does not have this initiator.
    IqnNotFound,
    /// A volume has this name already.
    VolumeExists,
    /// A snapshot has this name already.
    SnapshotExists,
    /// A host has this name already.
    HostExists,
    /// A protection group has this name already.
    ProtectionGroupExists,
    /// A snapshot of the protection group has this name already.
    GroupSnapshotExists,
    /// The protection group has no volumes.
    GroupHasNoMembers,
    /// The snapshot belongs to the snapshot of a protection group.
    InGroupSnapshot,
    /// A host group has this name already.
    HostGroupExists,
    /// A volume group has this name already.
    VolumeGroupExists,
    /// The volume group is destroyed and must be recovered first.
    VolumeGroupDestroyed,
    /// The volume group is in use and must be destroyed first.
    VolumeGroupNotDestroyed,
    /// A pod has this name already.
    PodExists,
    /// The pod is destroyed and must be recovered first.
    PodDestroyed,
    /// The pod is in use and must be destroyed first.
    PodNotDestroyed,
    /// The pod has volumes.
    PodNotEmpty,
    /// The pod is on this array alone.
    PodNotStretched,
    /// The pod is on two arrays, and has to be removed from one first.
    PodStretched,
    /// The state of the pod on two arrays does not allow the request.
    PodRefused,
    /// The call may lose data and needs `force`.
    ForceRequired,
    /// The volumes of the pod would exceed its quota.
    QuotaExceeded,
    /// The volumes of the pod exceed the new quota.
    QuotaBelowUsage,
    /// A rename cannot move a volume to another volume group or pod.
    OtherGroup,
    /// The object is in a group already.
    AlreadyMember,
    /// The group has members.
    GroupHasMembers,
    /// The host group has connected volumes.
    HostGroupConnected,
    /// The connection belongs to the host group of the host.
    SharedConnection,
    /// The volume is connected to the host already.
    ConnectionExists,
    /// The volume is destroyed and must be recovered first.
    VolumeDestroyed,
    /// The snapshot is destroyed and must be recovered first.
    SnapshotDestroyed,
    /// The volume is in use and must be destroyed first.
    VolumeNotDestroyed,
    /// The snapshot is in use and must be destroyed first.
    SnapshotNotDestroyed,
    /// The volume is connected to a host.
    VolumeConnected,
    /// The snapshot is connected to a host.
    SnapshotConnected,
    /// The host has connected volumes.
    HostConnected,
    /// The source and the destination of a copy are the same volume.
    CopyToItself,
    /// A smaller size requires `truncate`.
    WouldTruncate,
    /// Another host has this initiator.
    IqnInUse,
    /// The host uses this LUN for another volume.
    LunInUse,
    /// The array has the maximum number of such objects.
    LimitReached,
    /// The capacity cannot be reduced.
    CannotShrink,
    /// The file or device cannot provide the capacity.
    CannotGrow,
    /// The array is out of space.
    OutOfSpace,
    /// The array is open for reading only.
    ReadOnly,
    /// The session or API token is missing or invalid.
    Unauthorized,
    /// The session is a cookie, and another page caused the call.
    Forbidden,
    /// The role of the administrator does not allow the call.
    NotAllowed,
    /// An administrator with this name exists.
    AdminExists,
    /// An API client with this name exists.
    ApiClientExists,
    /// The path does not exist.
    PathNotFound,
    /// The path does not support the method.
    MethodNotAllowed,
    /// The body exceeds the size limit.
    BodyTooLarge,
    /// The body did not arrive in time.
    BodyTimeout,
    /// Too many logins failed recently.
    TooManyLogins,
    /// The array failed.
    Internal,
    /// The server sends no code, or one that this version does not know.
    #[default]
    #[serde(other)]
    Unspecified,
}
