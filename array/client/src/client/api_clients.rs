//! Calls about API clients.

use super::Client;
use crate::ClientError;
use api::{ApiClient, ApiClientPatch, ApiClientPost};
use ureq::http::Method;

impl Client {
    /// Lists API clients; all of them if `names` is empty.
    pub fn api_clients(&self, names: &[String]) -> Result<Vec<ApiClient>, ClientError> {
        let names = names.join(",");
        let parameters = [("names", names.as_str())];
        self.list("api-clients", if names.is_empty() { &[] } else { &parameters })
    }

    /// Registers an API client.
    pub fn create_api_client(&self, name: &str, post: &ApiClientPost) -> Result<ApiClient, ClientError> {
        self.one(Method::POST, "api-clients", &[("names", name)], Some(post))
    }

    /// Enables or disables API clients: all of them, or on error none.
    pub fn enable_api_clients(&self, names: &[String], is_enabled: bool) -> Result<Vec<ApiClient>, ClientError> {
        let patch = ApiClientPatch { enabled: Some(is_enabled) };
        self.all(Method::PATCH, "api-clients", &[("names", &names.join(","))], Some(&patch))
    }

    /// Deletes API clients: all of them, or on error none.
    pub fn delete_api_clients(&self, names: &[String]) -> Result<(), ClientError> {
        self.call(Method::DELETE, "api-clients", &[("names", &names.join(","))], None::<&()>).map(|_| ())
    }
}
