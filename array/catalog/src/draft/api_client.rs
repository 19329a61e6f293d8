//! Changes of API clients.

use super::Draft;
use crate::api_client::ApiClient;
use crate::name::check_name;
use crate::{ACCESS_TOKEN_MS, CatalogError, MAX_API_CLIENTS, MAX_ISSUER, ObjectKind};
use std::sync::Arc;

impl Draft {
    /// Adds an API client. The caller has checked the public key.
    pub fn create_api_client(&mut self, client: ApiClient) -> Result<Arc<ApiClient>, CatalogError> {
        check_name(&client.name)?;
        if self.state.api_client(&client.name).is_ok() {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::ApiClient, name: client.name });
        }
        if self.state.api_clients().count() >= MAX_API_CLIENTS {
            return Err(CatalogError::LimitReached { what: "API client", limit: MAX_API_CLIENTS });
        }
        if client.issuer.is_empty() || client.issuer.len() > MAX_ISSUER {
            return Err(CatalogError::BadSetting { reason: "issuer must have 1 to 255 bytes" });
        }
        if !ACCESS_TOKEN_MS.contains(&client.access_token_ms) {
            return Err(CatalogError::BadSetting { reason: "lifetime of access tokens must be 1 second to 30 days" });
        }
        self.store_api_client(client)
    }

    /// Enables an API client, or disables it if `enabled_ms` is `None`. A client that is disabled
    /// loses its access tokens.
    pub fn enable_api_client(&mut self, name: &str, enabled_ms: Option<u64>) -> Result<Arc<ApiClient>, CatalogError> {
        let client = self.state.api_client(name)?.clone();
        match client.enabled_ms.is_some() == enabled_ms.is_some() {
            true => Ok(client),
            false => self.store_api_client(ApiClient { enabled_ms, ..ApiClient::clone(&client) }),
        }
    }

    /// Deletes an API client. Its access tokens are no longer valid.
    pub fn delete_api_client(&mut self, name: &str) -> Result<(), CatalogError> {
        let client = self.state.api_client(name)?.clone();
        self.remove(&*client);
        self.state.remove_api_client(name);
        Ok(())
    }

    fn store_api_client(&mut self, client: ApiClient) -> Result<Arc<ApiClient>, CatalogError> {
        self.put(&client)?;
        let name = client.name.clone();
        self.state.put_api_client(client);
        self.state.api_client(&name).cloned()
    }
}
