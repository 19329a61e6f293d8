//! Calls about administrators.

use super::Client;
use crate::ClientError;
use api::{Admin, AdminApiToken, AdminPatch, AdminPost, ApiToken, Audit, Reference};
use ureq::http::Method;

impl Client {
    /// Lists administrators; all of them if `names` is empty.
    pub fn admins(&self, names: &[String]) -> Result<Vec<Admin>, ClientError> {
        let names = names.join(",");
        let parameters = [("names", names.as_str())];
        self.list("admins", if names.is_empty() { &[] } else { &parameters })
    }

    /// Creates an administrator without a token.
    pub fn create_admin(&self, name: &str, role: &str) -> Result<Admin, ClientError> {
        let post = AdminPost { role: Some(Reference::named(role)) };
        self.one(Method::POST, "admins", &[("names", name)], Some(&post))
    }

    /// Sets the role of an administrator.
    pub fn set_role(&self, name: &str, role: &str) -> Result<Admin, ClientError> {
        let patch = AdminPatch { role: Some(Reference::named(role)) };
        self.one(Method::PATCH, "admins", &[("names", name)], Some(&patch))
    }

    /// Deletes administrators: all of them, or on error none.
    pub fn delete_admins(&self, names: &[String]) -> Result<(), ClientError> {
        self.call(Method::DELETE, "admins", &[("names", &names.join(","))], None::<&()>).map(|_| ())
    }

    /// Replaces the API token of an administrator and returns the new one, which is valid for this
    /// many milliseconds.
    pub fn make_token(&self, admin: &str, valid: Option<u64>) -> Result<ApiToken, ClientError> {
        let valid = valid.map(|valid| valid.to_string());
        let mut parameters = vec![("names", admin)];
        parameters.extend(valid.as_deref().map(|valid| ("timeout", valid)));
        let made: AdminApiToken = self.one(Method::POST, "admins/api-tokens", &parameters, None::<&()>)?;
        Ok(made.api_token)
    }

    /// Lists the changes that administrators made, oldest first.
    pub fn audits(&self, filter: Option<&str>) -> Result<Vec<Audit>, ClientError> {
        let parameters = [("filter", filter.unwrap_or_default())];
        self.list("audits", if filter.is_none() { &[] } else { &parameters })
    }
}
