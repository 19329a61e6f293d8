//! Administrators with their roles, and the audit trail.

use crate::record::{RECORD_VERSION, Record, is_default};
use serde::{Deserialize, Serialize};

/// Version of the stored form of an administrator with limits. Programs that know no limits must
/// not read it.
const LIMITED_VERSION: u32 = 2;

/// The calls that an administrator may make. Each role includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Calls that read.
    Readonly,
    /// Maintenance that changes neither data nor settings.
    OpsAdmin,
    /// Volumes, snapshots, hosts, connections and groups.
    StorageAdmin,
    /// Everything: the array, administrators and their tokens.
    #[default]
    ArrayAdmin,
}

impl Role {
    /// All roles, ascending.
    pub const ALL: [Self; 4] = [Self::Readonly, Self::OpsAdmin, Self::StorageAdmin, Self::ArrayAdmin];

    /// Returns the name in the REST dialect.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Readonly => "readonly",
            Self::OpsAdmin => "ops_admin",
            Self::StorageAdmin => "storage_admin",
            Self::ArrayAdmin => "array_admin",
        }
    }

    /// Returns the role with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// An administrator of the array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admin {
    /// User name.
    pub name: String,
    /// Hash of the API token. The token itself is not stored. Empty without a token.
    pub token_hash: String,
    /// Creation time of the token in milliseconds since 1970.
    pub token_created_ms: u64,
    /// Time from which the token is not valid, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "is_default")]
    pub token_expires_ms: Option<u64>,
    /// The calls that are allowed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub role: Role,
}

impl Admin {
    /// Returns whether the administrator has a token that is valid at this time.
    pub fn has_valid_token(&self, now_ms: u64) -> bool {
        !self.token_hash.is_empty() && self.token_expires_ms.is_none_or(|expires| now_ms < expires)
    }
}

/// One entry of the audit trail: a change that an administrator made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Number. Entries are numbered without gaps.
    pub id: u64,
    /// Time in milliseconds since 1970.
    pub at_ms: u64,
    /// Name of the administrator.
    pub admin: String,
    /// Address that the call came from.
    pub origin: String,
    /// HTTP method.
    pub method: String,
    /// Path of the call.
    pub path: String,
    /// Parameters and body, without secrets.
    pub arguments: String,
}

impl Record for Admin {
    const PREFIX: &'static str = "admin/";
    fn key(&self) -> String {
        format!("{}{}", Self::PREFIX, self.name)
    }
    const VERSIONS: &'static [u32] = &[RECORD_VERSION, LIMITED_VERSION];
    fn version(&self) -> u32 {
        match (self.role, self.token_expires_ms) {
            (Role::ArrayAdmin, None) => RECORD_VERSION,
            _ => LIMITED_VERSION,
        }
    }
}

impl Record for Audit {
    const PREFIX: &'static str = "audit/";
    fn key(&self) -> String {
        format!("{}{:016x}", Self::PREFIX, self.id)
    }
}
