//! Calls about connections to other arrays.

use super::Client;
use crate::ClientError;
use api::{
    ArrayConnection, ArrayConnectionKey, ArrayConnectionPatch, ArrayConnectionPost, ArrayConnectionTest,
    ArrayConnectionTestPost,
};
use ureq::http::Method;

const PATH: &str = "array-connections";

impl Client {
    /// Makes a new connection key; the former one is void.
    pub fn new_connection_key(&self) -> Result<ArrayConnectionKey, ClientError> {
        self.one(Method::POST, "array-connections/connection-key", &[], None::<&()>)
    }

    /// Connects to another array. If `name` is given, it must have this name.
    pub fn connect_array(
        &self,
        name: Option<&str>,
        post: &ArrayConnectionPost,
    ) -> Result<ArrayConnection, ClientError> {
        let parameters = name.map(|name| [("names", name)]);
        self.one(Method::POST, PATH, parameters.as_ref().map_or(&[], |names| names.as_slice()), Some(post))
    }

    /// Lists connections to other arrays; all of them if `names` is empty.
    pub fn array_connections(&self, names: &[String]) -> Result<Vec<ArrayConnection>, ClientError> {
        let names = names.join(",");
        let parameters = [("names", names.as_str())];
        self.list(PATH, if names.is_empty() { &[] } else { &parameters })
    }

    /// Changes the connection to an array.
    pub fn change_array_connection(
        &self,
        name: &str,
        patch: &ArrayConnectionPatch,
    ) -> Result<ArrayConnection, ClientError> {
        self.one(Method::PATCH, PATH, &[("names", name)], Some(patch))
    }

    /// Removes the connection to an array.
    pub fn disconnect_array(&self, name: &str) -> Result<(), ClientError> {
        self.call(Method::DELETE, PATH, &[("names", name)], None::<&()>).map(|_| ())
    }

    /// Measures the link to an array.
    pub fn test_array_connection(
        &self,
        name: &str,
        post: &ArrayConnectionTestPost,
    ) -> Result<ArrayConnectionTest, ClientError> {
        self.one(Method::POST, "array-connections/test", &[("names", name)], Some(post))
    }
}
