//! The client and its calls.

mod accounts;
mod api_clients;
mod array_connections;
mod delivery;
mod performance;
mod pods;
mod policies;
mod volume_groups;

pub use delivery::AlertDestination;
pub use performance::Monitored;

use crate::local::LocalConnector;
use crate::transport::TlsConnector;
use crate::{ClientError, Trust, TrustError};
use api::{
    API_TOKEN_HEADER, AUTH_TOKEN_HEADER, AdminApiToken, Alert, ApiError, Array, ArrayPatch, ArraySpace, Connection,
    ConnectionPost, ErrorBody, ErrorCode, GatewayError, Host, HostPatch, HostPost, Items, Port, Reference, Scrub,
    ScrubPost, VERSION, Volume, VolumePatch, VolumePost, VolumeSnapshot, VolumeSnapshotPatch, VolumeSnapshotPost,
};
use rustls::CertificateError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;
use ureq::http::{Method, Request, Response};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};
use ureq::{Agent, Body};

/// Maximum time for a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of an answer in bytes, enough for the largest page.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Query parameters of a call.
type Parameters<'a> = &'a [(&'a str, &'a str)];

/// Most objects of a page.
const MAX_PAGE: u64 = 1000;

/// Selects the objects of a list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listing<'a> {
    /// Names; all objects if empty.
    pub names: &'a [String],
    /// Filter expression.
    pub filter: Option<&'a str>,
    /// Only destroyed objects, or only objects in use.
    pub destroyed: Option<bool>,
    /// Field to sort by; `name-` for descending order.
    pub sort: Option<&'a str>,
    /// Maximum number of objects; all if `None`.
    pub limit: Option<u64>,
}

impl<'a> Listing<'a> {
    fn add_to(&self, parameters: &mut Vec<(&'a str, &'a str)>, names: &'a str) {
        parameters.extend((!names.is_empty()).then_some(("names", names)));
        parameters.extend(self.filter.map(|filter| ("filter", filter)));
        parameters.extend(self.sort.map(|sort| ("sort", sort)));
        parameters.extend(self.destroyed.map(|destroyed| ("destroyed", if destroyed { "true" } else { "false" })));
    }
}

/// Selects connections by host and volume; an empty list selects all.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostsAndVolumes<'a> {
    /// Names of hosts.
    pub hosts: &'a [String],
    /// Names of volumes.
    pub volumes: &'a [String],
}

/// A client of one array. Logs in with the first call and after the session expired, and logs out
/// when dropped.
pub struct Client {
    agent: Agent,
    url: String,
    /// The URL or the path of the Unix socket, for messages.
    place: String,
    token: String,
    session: RefCell<Option<String>>,
}

impl Client {
    /// Creates a client of the array at `url` (`https://HOST:PORT` or `HOST:PORT`). Does not
    /// connect.
    pub fn new(url: &str, token: &str, trust: &Trust) -> Result<Self, ClientError> {
        let address = url.strip_prefix("https://").unwrap_or(url).trim_end_matches('/');
        if address.is_empty() || address.contains(['/', '?', '#', '@', ' ']) {
            return Err(ClientError::BadUrl(url.to_owned()));
        }
        let url = format!("https://{address}");
        let distrust = |error: TrustError| ClientError::Untrusted { url: url.clone(), reason: error.to_string() };
        let tls = TlsConnector(trust.config().map_err(distrust)?);
        Ok(Self::with_connector(url, token, ().chain(TcpConnector::default()).chain(tls)))
    }

    /// Creates a client of the array on this machine that listens on the Unix socket at `path`.
    /// Does not connect.
    pub fn local(path: &Path, token: &str) -> Self {
        // The host of the URL is not used, but the HTTP library resolves it.
        let url = "http://127.0.0.1".to_owned();
        let mut client = Self::with_connector(url, token, LocalConnector(path.to_owned()));
        client.place = path.display().to_string();
        client
    }

    fn with_connector(url: String, token: &str, connector: impl Connector<()>) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(CALL_TIMEOUT))
            .max_redirects(0)
            .proxy(None)
            .build();
        let agent = Agent::with_parts(config, connector, DefaultResolver::default());
        Self { agent, place: url.clone(), url, token: token.trim().to_owned(), session: RefCell::new(None) }
    }

    /// Returns the array.
    pub fn array(&self) -> Result<Array, ClientError> {
        self.one(Method::GET, "arrays", &[], None::<&()>)
    }

    /// Changes the array.
    pub fn change_array(&self, patch: &ArrayPatch) -> Result<Array, ClientError> {
        self.one(Method::PATCH, "arrays", &[], Some(patch))
    }

    /// Returns the space usage of the array. `refresh` counts it first, which takes time in
    /// proportion to the stored data.
    pub fn array_space(&self, refresh: bool) -> Result<ArraySpace, ClientError> {
        let parameters: Parameters<'_> = if refresh { &[("refresh", "true")] } else { &[] };
        self.one(Method::GET, "arrays/space", parameters, None::<&()>)
    }

    /// Lists alerts, including closed ones.
    pub fn alerts(&self, listing: &Listing<'_>) -> Result<Vec<Alert>, ClientError> {
        self.named("alerts", listing)
    }

    /// Returns the progress of the scrub.
    pub fn scrub(&self) -> Result<Scrub, ClientError> {
        self.one(Method::GET, "arrays/scrub", &[], None::<&()>)
    }

    /// Starts a scrub.
    pub fn start_scrub(&self, post: &ScrubPost) -> Result<Scrub, ClientError> {
        self.one(Method::POST, "arrays/scrub", &[], Some(post))
    }

    /// Lists the ports of the array.
    pub fn ports(&self) -> Result<Vec<Port>, ClientError> {
        self.list("ports", &[])
    }

    /// Lists volumes.
    pub fn volumes(&self, listing: &Listing<'_>) -> Result<Vec<Volume>, ClientError> {
        self.named("volumes", listing)
    }

    /// Creates a volume.
    pub fn create_volume(&self, name: &str, post: &VolumePost) -> Result<Volume, ClientError> {
        self.one(Method::POST, "volumes", &[("names", name)], Some(post))
    }

    /// Copies a volume or snapshot to a new volume; with `overwrite`, also to an existing one.
    pub fn copy_volume(&self, source: &str, name: &str, overwrite: bool) -> Result<Volume, ClientError> {
        let overwrite = if overwrite { "true" } else { "false" };
        let post = VolumePost { source: Some(Reference::named(source)), ..VolumePost::default() };
        self.one(Method::POST, "volumes", &[("names", name), ("overwrite", overwrite)], Some(&post))
    }

    /// Changes a volume. A smaller size requires `truncate`.
    pub fn change_volume(&self, name: &str, patch: &VolumePatch, truncate: bool) -> Result<Volume, ClientError> {
        let truncate = if truncate { "true" } else { "false" };
        self.one(Method::PATCH, "volumes", &[("names", name), ("truncate", truncate)], Some(patch))
    }

    /// Makes the same change to several volumes: to all of them, or on error to none.
    pub fn change_volumes(&self, names: &[String], patch: &VolumePatch) -> Result<Vec<Volume>, ClientError> {
        self.all(Method::PATCH, "volumes", &[("names", &names.join(","))], Some(patch))
    }

    /// Removes destroyed volumes permanently: all of them, or on error none.
    pub fn eradicate_volumes(&self, names: &[String]) -> Result<(), ClientError> {
        self.call(Method::DELETE, "volumes", &[("names", &names.join(","))], None::<&()>).map(|_| ())
    }

    /// Lists snapshots; only those of `volumes` unless it is empty.
    pub fn snapshots(&self, listing: &Listing<'_>, volumes: &[String]) -> Result<Vec<VolumeSnapshot>, ClientError> {
        let sources = volumes.join(",");
        let (names, mut parameters) = (listing.names.join(","), Vec::new());
        listing.add_to(&mut parameters, &names);
        if !volumes.is_empty() {
            parameters.push(("source_names", sources.as_str()));
        }
        self.list_up_to(listing.limit, "volume-snapshots", &parameters)
    }

    /// Creates snapshots of volumes, all at the same instant.
    pub fn create_snapshots(
        &self,
        volumes: &[String],
        post: &VolumeSnapshotPost,
    ) -> Result<Vec<VolumeSnapshot>, ClientError> {
        self.all(Method::POST, "volume-snapshots", &[("source_names", &volumes.join(","))], Some(post))
    }

    /// Makes the same change to several snapshots: to all of them, or on error to none.
    pub fn change_snapshots(
        &self,
        names: &[String],
        patch: &VolumeSnapshotPatch,
    ) -> Result<Vec<VolumeSnapshot>, ClientError> {
        self.all(Method::PATCH, "volume-snapshots", &[("names", &names.join(","))], Some(patch))
    }

    /// Removes destroyed snapshots permanently: all of them, or on error none.
    pub fn eradicate_snapshots(&self, names: &[String]) -> Result<(), ClientError> {
        self.call(Method::DELETE, "volume-snapshots", &[("names", &names.join(","))], None::<&()>).map(|_| ())
    }

    /// Lists hosts.
    pub fn hosts(&self, listing: &Listing<'_>) -> Result<Vec<Host>, ClientError> {
        self.named("hosts", listing)
    }

    /// Creates a host.
    pub fn create_host(&self, name: &str, post: &HostPost) -> Result<Host, ClientError> {
        self.one(Method::POST, "hosts", &[("names", name)], Some(post))
    }

    /// Changes a host.
    pub fn change_host(&self, name: &str, patch: &HostPatch) -> Result<Host, ClientError> {
        self.one(Method::PATCH, "hosts", &[("names", name)], Some(patch))
    }

    /// Deletes hosts: all of them, or on error none.
    pub fn delete_hosts(&self, names: &[String]) -> Result<(), ClientError> {
        self.call(Method::DELETE, "hosts", &[("names", &names.join(","))], None::<&()>).map(|_| ())
    }

    /// Lists connections.
    pub fn connections(&self, of: &HostsAndVolumes<'_>) -> Result<Vec<Connection>, ClientError> {
        let (hosts, volumes) = (of.hosts.join(","), of.volumes.join(","));
        let all = [("host_names", hosts.as_str()), ("volume_names", volumes.as_str())];
        self.list("connections", &all.into_iter().filter(|(_, names)| !names.is_empty()).collect::<Vec<_>>())
    }

    /// Connects a volume to a host.
    pub fn connect(&self, host: &str, volume: &str, lun: Option<u64>) -> Result<Connection, ClientError> {
        let parameters = [("host_names", host), ("volume_names", volume)];
        self.one(Method::POST, "connections", &parameters, Some(&ConnectionPost { lun }))
    }

    /// Disconnects a volume from a host.
    pub fn disconnect(&self, host: &str, volume: &str) -> Result<(), ClientError> {
        let parameters = [("host_names", host), ("volume_names", volume)];
        self.call(Method::DELETE, "connections", &parameters, None::<&()>).map(|_| ())
    }

    /// Replaces the API token of an administrator and returns the new one.
    pub fn new_token(&self, admin: &str) -> Result<String, ClientError> {
        let made: AdminApiToken = self.one(Method::POST, "admins/api-tokens", &[("names", admin)], None::<&()>)?;
        Ok(made.api_token.token)
    }

    fn named<T: DeserializeOwned>(&self, path: &str, listing: &Listing<'_>) -> Result<Vec<T>, ClientError> {
        let (names, mut parameters) = (listing.names.join(","), Vec::new());
        listing.add_to(&mut parameters, &names);
        self.list_up_to(listing.limit, path, &parameters)
    }

    /// Reads all pages of a list.
    fn list<T: DeserializeOwned>(&self, path: &str, parameters: Parameters<'_>) -> Result<Vec<T>, ClientError> {
        self.list_up_to(None, path, parameters)
    }

    /// Reads the first `limit` objects of a list, or all, page by page.
    fn list_up_to<T: DeserializeOwned>(
        &self,
        limit: Option<u64>,
        path: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<T>, ClientError> {
        let limit = limit.unwrap_or(u64::MAX);
        let mut all: Vec<T> = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let left = limit.saturating_sub(all.len() as u64);
            let page_limit = left.min(MAX_PAGE).to_string();
            let mut parameters = parameters.to_vec();
            if left < MAX_PAGE {
                parameters.push(("limit", &page_limit));
            }
            parameters.extend(token.as_deref().map(|token| ("continuation_token", token)));
            let mut page: Items<T> = parse(self.call(Method::GET, path, &parameters, None::<&()>)?)?;
            all.append(&mut page.items);
            match page.continuation_token {
                Some(next) if page.more_items_remaining && (all.len() as u64) < limit => token = Some(next),
                _ => return Ok(all),
            }
        }
    }

    /// Makes a call whose answer is a complete list.
    fn all<T: DeserializeOwned, B: Serialize>(
        &self,
        method: Method,
        path: &str,
        parameters: Parameters<'_>,
        body: Option<&B>,
    ) -> Result<Vec<T>, ClientError> {
        let items: Items<T> = parse(self.call(method, path, parameters, body)?)?;
        Ok(items.items)
    }

    /// Makes a call whose answer is one object.
    fn one<T: DeserializeOwned, B: Serialize>(
        &self,
        method: Method,
        path: &str,
        parameters: Parameters<'_>,
        body: Option<&B>,
    ) -> Result<T, ClientError> {
        let reason = "no object in the answer".to_owned();
        self.all(method, path, parameters, body)?
            .into_iter()
            .next()
            .ok_or(ClientError::NotUnderstood { status: 200, reason })
    }

    /// Makes a call within a session. If the session has expired, opens another one and retries
    /// once.
    fn call<B: Serialize>(
        &self,
        method: Method,
        path: &str,
        parameters: Parameters<'_>,
        body: Option<&B>,
    ) -> Result<Response<Body>, ClientError> {
        let held = self.session.borrow().clone();
        let is_old = held.is_some();
        let session = held.map_or_else(|| self.login(), Ok)?;
        let response = self.send(&method, path, parameters, body, (AUTH_TOKEN_HEADER, &session))?;
        if response.status() != 401 || !is_old {
            return accept(response);
        }
        let session = self.login()?;
        accept(self.send(&method, path, parameters, body, (AUTH_TOKEN_HEADER, &session))?)
    }

    fn login(&self) -> Result<String, ClientError> {
        let response = self.send(&Method::POST, "login", &[], None::<&()>, (API_TOKEN_HEADER, &self.token))?;
        let response = accept(response)?;
        let session = response.headers().get(AUTH_TOKEN_HEADER).and_then(|value| value.to_str().ok());
        let reason = "no x-auth-token header".to_owned();
        let session = session.ok_or(ClientError::NotUnderstood { status: 200, reason })?.to_owned();
        *self.session.borrow_mut() = Some(session.clone());
        Ok(session)
    }

    fn send<B: Serialize>(
        &self,
        method: &Method,
        path: &str,
        parameters: Parameters<'_>,
        body: Option<&B>,
        header: (&str, &str),
    ) -> Result<Response<Body>, ClientError> {
        let uri = format!("{}/api/{VERSION}/{path}{}", self.url, query(parameters));
        let content = body.map(serde_json::to_vec).transpose();
        let content = content.map_err(|error| ClientError::NotUnderstood { status: 0, reason: error.to_string() })?;
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header.0, header.1)
            .header("content-type", "application/json")
            .body(content.unwrap_or_default());
        match request {
            Ok(request) => self.agent.run(request).map_err(|error| self.failed(&error)),
            // For example, a token with line breaks.
            Err(error) => Err(ClientError::Unreachable { url: self.place.clone(), reason: error.to_string() }),
        }
    }

    fn failed(&self, error: &ureq::Error) -> ClientError {
        let url = self.place.clone();
        let ureq::Error::Io(io) = error else { return ClientError::Unreachable { url, reason: error.to_string() } };
        // The TLS library reports its errors inside those of the socket.
        match io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)) => {
                ClientError::Untrusted { url, reason: "the server's certificate is not the trusted one".to_owned() }
            }
            Some(rustls::Error::InvalidCertificate(cause)) => {
                ClientError::Untrusted { url, reason: format!("the server's certificate is not trusted: {cause}") }
            }
            _ => ClientError::Unreachable { url, reason: io.to_string() },
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // Errors do not matter: the session expires by itself.
            let _ = self.send(&Method::POST, "logout", &[], None::<&()>, (AUTH_TOKEN_HEADER, &session));
        }
    }
}

fn query(parameters: Parameters<'_>) -> String {
    let pair = |(index, (name, value)): (usize, &(&str, &str))| {
        format!("{}{name}={}", if index == 0 { '?' } else { '&' }, percent(value))
    };
    parameters.iter().enumerate().map(pair).collect()
}

/// Percent-encodes all characters except unreserved ones (RFC 3986 2.3) and commas.
fn percent(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b',' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Returns a successful answer, or the errors of the array.
fn accept(mut response: Response<Body>) -> Result<Response<Body>, ClientError> {
    let status = response.status().as_u16();
    if status < 300 {
        return Ok(response);
    }
    if status == 401 {
        return Err(ClientError::Unauthorized);
    }
    let not_understood = |reason: String| ClientError::NotUnderstood { status, reason };
    let text = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_string();
    let text = text.map_err(|error| not_understood(error.to_string()))?;
    if let Ok(body) = serde_json::from_str::<ErrorBody>(&text)
        && !body.errors.is_empty()
    {
        return Err(ClientError::Refused(body.errors));
    }
    match serde_json::from_str::<GatewayError>(&text) {
        Ok(body) => {
            let code = if status == 429 { ErrorCode::TooManyLogins } else { ErrorCode::Unspecified };
            Err(ClientError::Refused(vec![ApiError { code, context: None, message: body.message }]))
        }
        Err(error) => Err(not_understood(error.to_string())),
    }
}

fn parse<T: DeserializeOwned>(mut response: Response<Body>) -> Result<T, ClientError> {
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_json();
    body.map_err(|error| ClientError::NotUnderstood { status, reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_values_are_percent_encoded() {
        assert_eq!(query(&[]), "");
        assert_eq!(
            query(&[("names", "a,b-1"), ("filter", "name='v*' and ü&x=#1")]),
            "?names=a,b-1&filter=name%3D%27v%2A%27%20and%20%C3%BC%26x%3D%231"
        );
    }

    #[test]
    fn malformed_urls_are_refused() {
        for url in ["", "https://", "http://a/b", "https://user@host", "host name:1"] {
            assert!(matches!(Client::new(url, "t", &Trust::AnyCertificate), Err(ClientError::BadUrl(_))), "{url}");
        }
        assert!(Client::new("127.0.0.1:8443", "t", &Trust::AnyCertificate).is_ok());
        assert!(Client::new("https://array.example:8443/", "t", &Trust::AnyCertificate).is_ok());
    }
}
