//! Access tokens of API clients.
//!
//! Access tokens are signed with a key that exists in memory only, so a restart of the program ends
//! them. Each call checks the API client and the administrator again: access ends when the client
//! is disabled or deleted, or when the administrator is deleted.

use crate::jwt::{self, Token};
use api::{ACCESS_TOKEN_TYPE, AccessToken};
use catalog::{ApiClient, CatalogState, Role};
use parking_lot::Mutex;
use ring::hmac;
use serde_json::json;
use std::io;

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Name of the administrator.
    pub(crate) admin: String,
    /// The role of the call.
    pub(crate) role: Role,
    /// Name of the API client that acts for the administrator, if one does.
    pub(crate) client: Option<String>,
}

/// The key that signs access tokens. It is made when the first one is issued.
#[derive(Default)]
pub(crate) struct AccessTokens(Mutex<Option<hmac::Key>>);

impl AccessTokens {
    fn key(&self) -> io::Result<hmac::Key> {
        let mut key = self.0.lock();
        if key.is_none() {
            let bytes = platform::random::bytes::<32>()?;
            *key = Some(hmac::Key::new(hmac::HMAC_SHA256, &bytes));
        }
        key.clone().ok_or_else(|| io::Error::other("no key"))
    }

    /// Issues a token for an administrator.
    pub(crate) fn issue(&self, client: &ApiClient, admin: &str, now_ms: u64) -> io::Result<AccessToken> {
        let claims = json!({
            "iss": "ibid",
            "aud": client.id,
            "sub": admin,
            "iat": now_ms / 1000,
            "exp": (now_ms + client.access_token_ms).div_ceil(1000),
            // A client that was disabled and enabled again has other tokens.
            "enabled_ms": client.enabled_ms,
        });
        Ok(AccessToken {
            access_token: jwt::sign(&self.key()?, &claims),
            expires_in: client.access_token_ms / 1000,
            issued_token_type: ACCESS_TOKEN_TYPE.to_owned(),
            token_type: "Bearer".to_owned(),
        })
    }

    /// Returns the caller of a request with this access token.
    pub(crate) fn caller(&self, state: &CatalogState, token: &str, now_ms: u64) -> Option<Caller> {
        let token = Token::parse(token)?;
        let key = self.0.lock().clone()?;
        let is_valid = token.is_sealed_by(&key) && token.seconds("exp")? * 1000.0 > now_ms as f64;
        let client = state.api_clients().find(|client| token.is_for(&client.id)).filter(|_| is_valid)?;
        let enabled_ms = client.enabled_ms?;
        let admin = state.admin(token.text("sub")?)?;
        (token.claims.get("enabled_ms")?.as_u64() == Some(enabled_ms)).then(|| Caller {
            admin: admin.name.clone(),
            role: admin.role.min(client.max_role),
            client: Some(client.name.clone()),
        })
    }
}
