//! API clients: programs that exchange signed ID tokens for access tokens.

use crate::admin::Role;
use crate::name::folded;
use crate::record::{Record, is_default};
use serde::{Deserialize, Serialize};

/// A program that acts for administrators. It proves that by an ID token (RFC 7519), signed with
/// its private key. The array stores the public key only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiClient {
    /// Display name.
    pub name: String,
    /// Id, which ID tokens name as their audience. Never reused.
    pub id: String,
    /// Id of the public key, which ID tokens name in their header. Never reused.
    pub key_id: String,
    /// The issuer that ID tokens must name.
    pub issuer: String,
    /// RSA public key in PEM form.
    pub public_key: String,
    /// The highest role of an access token. The role of the administrator limits it as well.
    pub max_role: Role,
    /// Lifetime of access tokens in milliseconds.
    pub access_token_ms: u64,
    /// Time of the enabling in milliseconds since 1970; `None` if it is disabled. Access tokens
    /// that were issued before are not valid.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enabled_ms: Option<u64>,
}

impl Record for ApiClient {
    const PREFIX: &'static str = "api-client/";
    fn key(&self) -> String {
        format!("{}{}", Self::PREFIX, folded(&self.name))
    }
}
