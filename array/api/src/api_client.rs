//! API clients and their access tokens.

use serde::{Deserialize, Serialize};

/// Path of the exchange of ID tokens for access tokens. It is not below the version.
pub const TOKEN_PATH: &str = "/oauth2/1.0/token";
/// The form's `grant_type` (RFC 8693 2.1).
pub const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// The form's `subject_token_type` (RFC 8693 3).
pub const ID_TOKEN_TYPE: &str = "urn:ietf:params:oauth:token-type:jwt";
/// The type of the issued token (RFC 8693 3).
pub const ACCESS_TOKEN_TYPE: &str = "urn:ietf:params:oauth:token-type:access_token";

/// A program that exchanges signed ID tokens for access tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApiClient {
    /// Name.
    pub name: String,
    /// Lifetime of its access tokens, in milliseconds.
    pub access_token_ttl_in_ms: u64,
    /// True if it may exchange tokens.
    pub enabled: bool,
    /// Unique id: the audience (`aud`) of its ID tokens.
    pub id: String,
    /// The issuer (`iss`) of its ID tokens.
    pub issuer: String,
    /// Id of the public key: `kid` in the header of its ID tokens.
    pub key_id: String,
    /// The highest role of its access tokens: `readonly`, `ops_admin`, `storage_admin` or
    /// `array_admin`.
    pub max_role: String,
    /// RSA public key in PEM form.
    pub public_key: String,
}

/// Request to create an API client. It is disabled at first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ApiClientPost {
    /// Lifetime of its access tokens, 1 second to 30 days in milliseconds; one day if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_token_ttl_in_ms: Option<u64>,
    /// The issuer of its ID tokens; the name of the client if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The highest role of its access tokens.
    pub max_role: String,
    /// RSA public key in PEM form, 2048 to 8192 bits.
    pub public_key: String,
}

/// A change of an API client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ApiClientPatch {
    /// True enables the client; false disables it and ends its access tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// An access token, which is sent as `Authorization: Bearer TOKEN` (RFC 8693 2.2.1).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccessToken {
    /// The token.
    pub access_token: String,
    /// Seconds until it expires.
    pub expires_in: u64,
    /// `urn:ietf:params:oauth:token-type:access_token`.
    pub issued_token_type: String,
    /// `Bearer`.
    pub token_type: String,
}

/// A refusal to issue an access token (RFC 6749 5.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenError {
    /// `invalid_request`, `unsupported_grant_type` or `invalid_grant`.
    pub error: String,
    /// The reason.
    pub error_description: String,
}
