//! The calls.

use crate::transport::TlsConnector;
use crate::{ClientError, Trust, TrustError};
use api::{
    API_TOKEN_HEADER, AUTH_TOKEN_HEADER, AdminApiToken, Alert, Array, ArrayPatch, ArraySpace, Connection,
    ConnectionPost, ErrorBody, GatewayError, Host, HostPatch, HostPost, Items, Port, Reference, Scrub, ScrubPost,
    VERSION, Volume, VolumePatch, VolumePost, VolumeSnapshot, VolumeSnapshotPatch, VolumeSnapshotPost,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::time::Duration;
use ureq::http::{Method, Request, Response};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};
use ureq::{Agent, Body};

/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of an answer: more than the largest page needs.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Parameters of a call.
type Parameters<'a> = &'a [(&'a str, &'a str)];

/// Which things to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listing<'a> {
    /// By name; all when there is none.
    pub names: &'a [String],
    /// By a condition in the filter language.
    pub filter: Option<&'a str>,
    /// Only destroyed ones, or only others.
    pub destroyed: Option<bool>,
}

impl<'a> Listing<'a> {
    fn add_to(&self, parameters: &mut Vec<(&'a str, &'a str)>, names: &'a str) {
        parameters.extend((!names.is_empty()).then_some(("names", names)));
        parameters.extend(self.filter.map(|filter| ("filter", filter)));
        parameters.extend(self.destroyed.map(|destroyed| ("destroyed", if destroyed { "true" } else { "false" })));
    }
}

/// Which hosts, and which volumes, a call is about; all where there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostsAndVolumes<'a> {
    /// Names of hosts.
    pub hosts: &'a [String],
    /// Names of volumes.
    pub volumes: &'a [String],
}

/// A client of one array. Logs in with its first call, again when its session is over, and out when it is dropped.
pub struct Client {
    agent: Agent,
    url: String,
    token: String,
    session: RefCell<Option<String>>,
}

impl Client {
    /// A client of the array at `url` (`https://HOST:PORT`, or `HOST:PORT`). Calls nothing yet.
    pub fn new(url: &str, token: &str, trust: &Trust) -> Result<Self, ClientError> {
        let address = url.strip_prefix("https://").unwrap_or(url).trim_end_matches('/');
        if address.is_empty() || address.contains(['/', '?', '#', '@', ' ']) {
            return Err(ClientError::BadUrl(url.to_owned()));
        }
        let url = format!("https://{address}");
        let distrust = |error: TrustError| ClientError::Unreachable { url: url.clone(), reason: error.to_string() };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(CALL_TIMEOUT))
            .max_redirects(0)
            .proxy(None)
            .build();
        let connector = ().chain(TcpConnector::default()).chain(TlsConnector(trust.config().map_err(distrust)?));
        let agent = Agent::with_parts(config, connector, DefaultResolver::default());
        Ok(Self { agent, url, token: token.trim().to_owned(), session: RefCell::new(None) })
    }

    /// The array.
    pub fn array(&self) -> Result<Array, ClientError> {
        self.one(Method::GET, "arrays", &[], None::<&()>)
    }

    /// Changes the array.
    pub fn change_array(&self, patch: &ArrayPatch) -> Result<Array, ClientError> {
        self.one(Method::PATCH, "arrays", &[], Some(patch))
    }

    /// What the array occupies. With `refresh` it is all counted first, which takes the longer the more there is.
    pub fn array_space(&self, refresh: bool) -> Result<ArraySpace, ClientError> {
        let parameters: Parameters<'_> = if refresh { &[("refresh", "true")] } else { &[] };
        self.one(Method::GET, "arrays/space", parameters, None::<&()>)
    }

    /// Alerts, those that are over included.
    pub fn alerts(&self, filter: Option<&str>) -> Result<Vec<Alert>, ClientError> {
        self.named("alerts", &Listing { filter, ..Listing::default() })
    }

    /// How far the checking of everything that is stored has come.
    pub fn scrub(&self) -> Result<Scrub, ClientError> {
        self.one(Method::GET, "arrays/scrub", &[], None::<&()>)
    }

    /// Has everything that is stored checked.
    pub fn start_scrub(&self, post: &ScrubPost) -> Result<Scrub, ClientError> {
        self.one(Method::POST, "arrays/scrub", &[], Some(post))
    }

    /// The array's ports.
    pub fn ports(&self) -> Result<Vec<Port>, ClientError> {
        self.list("ports", &[])
    }

    /// Volumes.
    pub fn volumes(&self, listing: &Listing<'_>) -> Result<Vec<Volume>, ClientError> {
        self.named("volumes", listing)
    }

    /// Makes a volume.
    pub fn create_volume(&self, name: &str, post: &VolumePost) -> Result<Volume, ClientError> {
        self.one(Method::POST, "volumes", &[("names", name)], Some(post))
    }

    /// Makes a volume of what a volume or snapshot holds; with `overwrite`, in the place of one that is there.
    pub fn copy_volume(&self, source: &str, name: &str, overwrite: bool) -> Result<Volume, ClientError> {
        let overwrite = if overwrite { "true" } else { "false" };
        let post = VolumePost { source: Some(Reference::named(source)), ..VolumePost::default() };
        self.one(Method::POST, "volumes", &[("names", name), ("overwrite", overwrite)], Some(&post))
    }

    /// Changes a volume. To make it smaller takes `truncate`.
    pub fn change_volume(&self, name: &str, patch: &VolumePatch, truncate: bool) -> Result<Volume, ClientError> {
        let truncate = if truncate { "true" } else { "false" };
        self.one(Method::PATCH, "volumes", &[("names", name), ("truncate", truncate)], Some(patch))
    }

    /// Makes the same change to several volumes, or to none when one cannot be changed.
    pub fn change_volumes(&self, names: &[String], patch: &VolumePatch) -> Result<Vec<Volume>, ClientError> {
        self.all(Method::PATCH, "volumes", &[("names", &names.join(","))], Some(patch))
    }

    /// Removes destroyed volumes for good: all of them, or none.
    pub fn eradicate_volumes(&self, names: &[String]) -> Result<(), ClientError> {
        self.call(Method::DELETE, "volumes", &[("names", &names.join(","))], None::<&()>).map(|_| ())
    }

    /// Snapshots; of `volumes` only, where there are any.
    pub fn snapshots(&self, listing: &Listing<'_>, volumes: &[String]) -> Result<Vec<VolumeSnapshot>, ClientError> {
        let sources = volumes.join(",");
        let (names, mut parameters) = (listing.names.join(","), Vec::new());
        listing.add_to(&mut parameters, &names);
        if !volumes.is_empty() {
            parameters.push(("source_names", sources.as_str()));
        }
        self.list("volume-snapshots", &parameters)
    }

    /// Takes snapshots of volumes, all at the same instant.
    pub fn create_snapshots(
        &self,
        volumes: &[String],
        post: &VolumeSnapshotPost,
    ) -> Result<Vec<VolumeSnapshot>, ClientError> {
        self.all(Method::POST, "volume-snapshots", &[("source_names", &volumes.join(","))], Some(post))
    }

    /// Makes the same change to several snapshots, or to none when one cannot be changed.
    pub fn change_snapshots(
        &self,
        names: &[String],
        patch: &VolumeSnapshotPatch,
    ) -> Result<Vec<VolumeSnapshot>, ClientError> {
        self.all(Method::PATCH, "volume-snapshots", &[("names", &names.join(","))], Some(patch))
    }

    /// Removes destroyed snapshots for good: all of them, or none.
    pub fn eradicate_snapshots(&self, names: &[String]) -> Result<(), ClientError> {
        self.call(Method::DELETE, "volume-snapshots", &[("names", &names.join(","))], None::<&()>).map(|_| ())
    }

    /// Hosts.
    pub fn hosts(&self, listing: &Listing<'_>) -> Result<Vec<Host>, ClientError> {
        self.named("hosts", listing)
    }

    /// Makes a host.
    pub fn create_host(&self, name: &str, post: &HostPost) -> Result<Host, ClientError> {
        self.one(Method::POST, "hosts", &[("names", name)], Some(post))
    }

    /// Changes a host.
    pub fn change_host(&self, name: &str, patch: &HostPatch) -> Result<Host, ClientError> {
        self.one(Method::PATCH, "hosts", &[("names", name)], Some(patch))
    }

    /// Removes hosts: all of them, or none.
    pub fn delete_hosts(&self, names: &[String]) -> Result<(), ClientError> {
        self.call(Method::DELETE, "hosts", &[("names", &names.join(","))], None::<&()>).map(|_| ())
    }

    /// Connections.
    pub fn connections(&self, of: &HostsAndVolumes<'_>) -> Result<Vec<Connection>, ClientError> {
        let (hosts, volumes) = (of.hosts.join(","), of.volumes.join(","));
        let all = [("host_names", hosts.as_str()), ("volume_names", volumes.as_str())];
        self.list("connections", &all.into_iter().filter(|(_, names)| !names.is_empty()).collect::<Vec<_>>())
    }

    /// Shows a volume to a host.
    pub fn connect(&self, host: &str, volume: &str, lun: Option<u64>) -> Result<Connection, ClientError> {
        let parameters = [("host_names", host), ("volume_names", volume)];
        self.one(Method::POST, "connections", &parameters, Some(&ConnectionPost { lun }))
    }

    /// Takes a volume from a host.
    pub fn disconnect(&self, host: &str, volume: &str) -> Result<(), ClientError> {
        let parameters = [("host_names", host), ("volume_names", volume)];
        self.call(Method::DELETE, "connections", &parameters, None::<&()>).map(|_| ())
    }

    /// Gives an administrator a new token in the place of the old one.
    pub fn new_token(&self, admin: &str) -> Result<String, ClientError> {
        let made: AdminApiToken = self.one(Method::POST, "admins/api-tokens", &[("names", admin)], None::<&()>)?;
        Ok(made.api_token.token)
    }

    fn named<T: DeserializeOwned>(&self, path: &str, listing: &Listing<'_>) -> Result<Vec<T>, ClientError> {
        let (names, mut parameters) = (listing.names.join(","), Vec::new());
        listing.add_to(&mut parameters, &names);
        self.list(path, &parameters)
    }

    /// All pages of a list.
    fn list<T: DeserializeOwned>(&self, path: &str, parameters: Parameters<'_>) -> Result<Vec<T>, ClientError> {
        let mut all = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut parameters = parameters.to_vec();
            parameters.extend(token.as_deref().map(|token| ("continuation_token", token)));
            let mut page: Items<T> = understand(self.call(Method::GET, path, &parameters, None::<&()>)?)?;
            all.append(&mut page.items);
            match page.continuation_token {
                Some(next) if page.more_items_remaining => token = Some(next),
                _ => return Ok(all),
            }
        }
    }

    /// A call whose answer is a list on one page.
    fn all<T: DeserializeOwned, B: Serialize>(
        &self,
        method: Method,
        path: &str,
        parameters: Parameters<'_>,
        body: Option<&B>,
    ) -> Result<Vec<T>, ClientError> {
        let items: Items<T> = understand(self.call(method, path, parameters, body)?)?;
        Ok(items.items)
    }

    /// A call whose answer is one thing.
    fn one<T: DeserializeOwned, B: Serialize>(
        &self,
        method: Method,
        path: &str,
        parameters: Parameters<'_>,
        body: Option<&B>,
    ) -> Result<T, ClientError> {
        let reason = "it holds nothing".to_owned();
        self.all(method, path, parameters, body)?
            .into_iter()
            .next()
            .ok_or(ClientError::NotUnderstood { status: 200, reason })
    }

    /// A call within a session. When the session turns out to be over, another is opened, once.
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
        let reason = "it has no x-auth-token".to_owned();
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
        let unreachable =
            |error: ureq::Error| ClientError::Unreachable { url: self.url.clone(), reason: reason(&error) };
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
            Ok(request) => self.agent.run(request).map_err(unreachable),
            // A token with line breaks, or a host with spaces.
            Err(error) => Err(ClientError::Unreachable { url: self.url.clone(), reason: error.to_string() }),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // Politeness: a session that is left open ends by itself.
            let _ = self.send(&Method::POST, "logout", &[], None::<&()>, (AUTH_TOKEN_HEADER, &session));
        }
    }
}

fn reason(error: &ureq::Error) -> String {
    match error {
        // rustls' errors travel inside those of the socket.
        ureq::Error::Io(inner) if inner.to_string().contains("ApplicationVerificationFailure") => {
            "its certificate is not the one that is trusted".to_owned()
        }
        ureq::Error::Io(inner) => inner.to_string(),
        other => other.to_string(),
    }
}

fn query(parameters: Parameters<'_>) -> String {
    let pair = |(index, (name, value)): (usize, &(&str, &str))| {
        format!("{}{name}={}", if index == 0 { '?' } else { '&' }, percent(value))
    };
    parameters.iter().enumerate().map(pair).collect()
}

/// RFC 3986 2.3: all but unreserved characters are written as their bytes.
fn percent(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b',' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// A good answer, or what the array says against the call.
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
        Ok(body) => Err(ClientError::Refused(vec![api::ApiError { context: None, message: body.message }])),
        Err(error) => Err(not_understood(error.to_string())),
    }
}

fn understand<T: DeserializeOwned>(mut response: Response<Body>) -> Result<T, ClientError> {
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_json();
    body.map_err(|error| ClientError::NotUnderstood { status, reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_written_so_that_nothing_in_them_is_syntax() {
        assert_eq!(query(&[]), "");
        assert_eq!(
            query(&[("names", "a,b-1"), ("filter", "name='v*' and ü&x=#1")]),
            "?names=a,b-1&filter=name%3D%27v%2A%27%20and%20%C3%BC%26x%3D%231"
        );
    }

    #[test]
    fn what_is_no_address_is_refused_before_anything_is_sent() {
        for url in ["", "https://", "http://a/b", "https://user@host", "host name:1"] {
            assert!(matches!(Client::new(url, "t", &Trust::Anyone), Err(ClientError::BadUrl(_))), "{url}");
        }
        assert!(Client::new("127.0.0.1:8443", "t", &Trust::Anyone).is_ok());
        assert!(Client::new("https://array.example:8443/", "t", &Trust::Anyone).is_ok());
    }
}
