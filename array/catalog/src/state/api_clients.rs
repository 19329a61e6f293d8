//! API clients.

use super::{CatalogState, scan};
use crate::api_client::ApiClient;
use crate::name::folded;
use crate::{CatalogError, ObjectKind};
use engine::KeyValue;
use std::sync::Arc;

impl CatalogState {
    /// Reads the API clients.
    pub(super) fn load_api_clients(&mut self, service: &dyn KeyValue) -> Result<(), CatalogError> {
        scan::<ApiClient>(service)?.into_iter().for_each(|client| self.put_api_client(client));
        Ok(())
    }

    /// Returns all API clients, sorted by name.
    pub fn api_clients(&self) -> impl Iterator<Item = &Arc<ApiClient>> {
        self.api_clients.values()
    }

    /// Returns the API client with this name.
    pub fn api_client(&self, name: &str) -> Result<&Arc<ApiClient>, CatalogError> {
        let absent = || CatalogError::NoSuch { kind: ObjectKind::ApiClient, name: name.to_owned() };
        self.api_clients.get(&folded(name)).ok_or_else(absent)
    }

    pub(crate) fn put_api_client(&mut self, client: ApiClient) {
        self.api_clients.insert(folded(&client.name), Arc::new(client));
    }

    pub(crate) fn remove_api_client(&mut self, name: &str) {
        self.api_clients.remove(&folded(name));
    }
}
