//! Resource types of the REST API, for the server and for clients.
//!
//! The API is a subset of FlashArray REST 2.26, as existing clients use it. Sizes, times and counts
//! are integers (bytes, milliseconds since 1970). Answers contain every field that clients read
//! without checking for it. Requests with unknown fields are refused, so that no field is silently
//! ignored.
#![forbid(unsafe_code)]

mod admin;
mod alert;
mod api_client;
mod array;
mod array_connection;
mod connection;
mod delivery;
mod envelope;
mod error;
mod hardware;
mod host;
mod host_group;
mod performance;
mod pod;
mod pod_report;
mod policy;
mod protection;
mod snapshot;
mod volume;
mod volume_group;

pub use admin::{
    Admin, AdminApiToken, AdminPatch, AdminPost, AdminSettings, ApiToken, Audit, ContainerDefaultProtection, Session,
    Subscription, Support,
};
pub use alert::{Alert, Scrub, ScrubPost};
pub use api_client::{
    ACCESS_TOKEN_TYPE, AccessToken, ApiClient, ApiClientPatch, ApiClientPost, GRANT_TYPE, ID_TOKEN_TYPE, TOKEN_PATH,
    TokenError,
};
pub use array::{
    ApiVersions, Array, ArrayPatch, ArraySpace, DataAtRest, DriveWrites, Encryption, EradicationConfig,
    EradicationPatch, NamedSpace, Recompression, ScrubConfig, ScrubConfigPatch, Space,
};
pub use array_connection::{
    ArrayConnection, ArrayConnectionKey, ArrayConnectionPatch, ArrayConnectionPath, ArrayConnectionPost,
    ArrayConnectionTest, ArrayConnectionTestPost, RoundTrips, SimulatedDistance, SimulatedDistancePatch,
};
pub use connection::{Connection, ConnectionPost};
pub use delivery::{
    AlertWatcher, AlertWatcherPatch, AlertWebHook, AlertWebHookPatch, DeliveryStatus, SmtpServer, SmtpServerPatch,
    SnmpManager, SnmpManagerPatch, SnmpV2c, SnmpV3, SyslogServer, SyslogServerPatch, SyslogServerSettings,
    SyslogServerSettingsPatch, TestResult,
};
pub use envelope::{Items, Reference};
pub use error::{ApiError, ErrorBody, ErrorCode, GatewayError};
pub use hardware::{Controller, Drive, Eth, Fc, Hardware, NetworkInterface, Port};
pub use host::{Chap, Host, HostPatch, HostPost, MASKED_SECRET, PortConnectivity};
pub use host_group::{HostGroup, HostGroupPatch, Member, Tag, TagPut};
pub use performance::{ConnectionPerformance, IscsiSession, OffloadPerformance, Performance, RefusedLogin};
pub use pod::{
    BytesLimit, Pod, PodArrayStatus, PodEradication, PodPatch, PodPost, PodReplication, PodReplicationArray,
    PodReplicationEvent, PodReplicationWait,
};
pub use pod_report::{PodCheck, PodDifference, PodHandOver, PodVerification};
pub use policy::{
    Policy, PolicyMember, PolicyMemberEntry, PolicyMemberPost, PolicyPatch, PolicyRuleSnapshot,
    PolicyRuleSnapshotEntry, PolicyRuleSnapshotPost, TypedReference,
};
pub use protection::{
    GroupEradication, ProtectionGroup, ProtectionGroupPatch, ProtectionGroupSnapshot, ProtectionGroupSnapshotPatch,
    ProtectionGroupSnapshotPost, ReplicationSchedule, Retention, RetentionPatch, SnapshotSchedule,
    SnapshotSchedulePatch, TimeWindow,
};
pub use snapshot::{VolumeSnapshot, VolumeSnapshotPatch, VolumeSnapshotPost};
pub use volume::{PriorityAdjustment, Qos, Volume, VolumePatch, VolumePost, VolumeSpace};
pub use volume_group::{VolumeGroup, VolumeGroupPatch};

/// The newest supported API version.
pub const VERSION: &str = "2.26";
/// The version that the array reports to clients of the dialect. They refuse arrays below 6.1.0,
/// and 6.4.10 is the version that introduced REST 2.26.
pub const DIALECT_VERSION: &str = "6.4.10";
/// The highest minor version of major version 2.
pub const MINOR_VERSION: u32 = 26;
/// Request header of `login` with the API token.
pub const API_TOKEN_HEADER: &str = "api-token";
/// Header with the session token: in the answer to `login`, and in all other requests.
pub const AUTH_TOKEN_HEADER: &str = "x-auth-token";
/// Login header: `cookie` asks for the session as a cookie instead of [`AUTH_TOKEN_HEADER`].
pub const SESSION_HEADER: &str = "x-ibid-session";
/// Cookie of a session.
pub const SESSION_COOKIE: &str = "__Host-ibid";
/// Header of every change that the web console asks for.
pub const CONSOLE_HEADER: &str = "x-ibid-console";
/// Header of polls, which do not prolong a session.
pub const BACKGROUND_HEADER: &str = "x-ibid-background";
/// Answer header with the token of the next page.
pub const NEXT_TOKEN_HEADER: &str = "x-next-token";
/// Maximum and default number of items on one page.
pub const MAX_PAGE_ITEMS: usize = 1000;
/// Maximum size of a request body, in bytes.
pub const MAX_BODY_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests;
