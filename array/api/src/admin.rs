//! Administrators, and the contract of the array.

use crate::Reference;
use serde::{Deserialize, Serialize};

/// A new API token of an administrator. Only the answer that creates it shows the token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminApiToken {
    /// Name of the administrator.
    #[serde(default)]
    pub name: String,
    /// The administrator.
    pub admin: Reference,
    /// The token.
    pub api_token: ApiToken,
}

/// An API token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApiToken {
    /// Time of creation, in milliseconds since 1970.
    pub created_at: u64,
    /// Time from which it is not valid, in milliseconds since 1970; null if it does not expire.
    #[serde(default)]
    pub expires_at: Option<u64>,
    /// The token, or `****`.
    pub token: String,
}

/// An administrator.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Admin {
    /// Name.
    pub name: String,
    /// The API token; the token itself is shown as `****`.
    pub api_token: ApiToken,
    /// Always true: there are no directory services.
    pub is_local: bool,
    /// Always false: administrators have no passwords that could be guessed.
    pub locked: bool,
    /// Always null.
    pub lockout_remaining: Option<u64>,
    /// Always null.
    pub password: Option<String>,
    /// Always null.
    pub public_key: Option<String>,
    /// `readonly`, `ops_admin`, `storage_admin` or `array_admin`.
    pub role: Reference,
}

/// Request to create an administrator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AdminPost {
    /// Role; `readonly` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Reference>,
}

/// A change of an administrator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AdminPatch {
    /// New role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Reference>,
}

/// An entry of the audit trail: a change that an administrator made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Audit {
    /// Parameters and body of the call, without secrets, shortened.
    pub arguments: String,
    /// Path of the call.
    pub command: String,
    /// Number.
    pub id: String,
    /// Address that the call came from; IPv6 addresses as their network of 64 bits.
    pub location: String,
    /// Number with leading zeros.
    pub name: String,
    /// The array that got the call.
    pub origin: Reference,
    /// HTTP method.
    pub subcommand: String,
    /// Time in milliseconds since 1970.
    pub time: u64,
    /// Name of the administrator.
    pub user: String,
    /// `REST`.
    pub user_interface: String,
}

/// A session of an administrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// Always null: sessions that have ended are not listed.
    pub end_time: Option<u64>,
    /// Always null.
    pub event: Option<String>,
    /// Always null.
    pub event_count: Option<u64>,
    /// Address of the login.
    pub location: String,
    /// `API token`.
    pub method: String,
    /// Position in the list, oldest first.
    pub name: String,
    /// Time of the login in milliseconds since 1970.
    pub start_time: u64,
    /// Name of the administrator.
    pub user: String,
    /// `REST`.
    pub user_interface: String,
}

/// Rules for logins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminSettings {
    /// Milliseconds for which further guesses from an address are refused.
    pub lockout_duration: u64,
    /// Failed logins from an address within that time before guesses are refused.
    pub max_login_attempts: u64,
    /// Always 0: there are no passwords.
    pub min_password_length: u64,
    /// Always false.
    pub single_sign_on_enabled: bool,
}

/// A subscription. The array has one, for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subscription {
    /// Unique id of the array.
    pub id: String,
    /// `Ibid`.
    pub service: String,
}

/// Remote support. There is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Support {
    /// Always false: the array sends nothing anywhere.
    pub phonehome_enabled: bool,
    /// Always empty.
    pub proxy: String,
    /// Always false.
    pub remote_assist_active: bool,
    /// Always null.
    pub remote_assist_expires: Option<u64>,
    /// Always null.
    pub remote_assist_opened: Option<u64>,
    /// Always empty.
    pub remote_assist_paths: Vec<Reference>,
    /// `disconnected`.
    pub remote_assist_status: String,
}

/// The protection groups that new volumes join. The array has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContainerDefaultProtection {
    /// Unique id of the array or pod.
    pub id: String,
    /// Name of the array or pod.
    pub name: String,
    /// Always empty.
    pub default_protections: Vec<Reference>,
    /// `array` or `pod`.
    #[serde(rename = "type")]
    pub kind: String,
}
