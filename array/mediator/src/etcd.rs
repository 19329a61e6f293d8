//! Registers in an etcd cluster, in the place of a mediator: the client of one array.
//!
//! A register is a key of the cluster, with the value that a mediator stores in a file. The arrays
//! apply the rules of registers by themselves, and change a key in a transaction that compares its
//! revision. Another key has the instance of the registers: a cluster that was made again lacks it.
//! The API is the JSON gateway of etcd 3.4 and later.

use crate::client::{Answer, CallError, RegisterClient, secure};
use crate::message::{PodKey, Register, Status};
use crate::register::{Entry, Holder, Outcome, Registers};
use crate::store::{decode_entry, encode_entry};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use pinned_tls::{Fingerprint, TlsIdentity};
use platform::clock;
use platform::net::{Stream, resolve_all};
use rustls::ClientConfig;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use types::hex;

/// Most URLs of a cluster.
const MOST_ENDPOINTS: usize = 9;
/// Most bytes of an answer.
const MOST_BYTES: usize = 256 << 10;
/// Attempts to change a key that the other array changes at the same time.
const MOST_ATTEMPTS: usize = 3;
/// The key of the instance.
const INSTANCE: &str = "/ibid/instance";
/// Usual port of etcd for clients.
const DEFAULT_PORT: u16 = 2379;

/// A cluster, as it presents itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdInfo {
    /// SHA-256 of the certificate at each URL, in their order; `None` without TLS.
    pub certificates: Vec<Option<Fingerprint>>,
    /// Id of its registers, which the first array has made.
    pub instance: [u8; 16],
}

struct Endpoint {
    host: String,
    port: u16,
    has_tls: bool,
}

impl Endpoint {
    /// Parses `https://HOST:PORT`, or `http://` with a loopback address.
    fn parse(url: &str) -> Result<Self, String> {
        let malformed = || format!("{url} is no URL of an etcd member: https://HOST:PORT");
        let (scheme, rest) = url.split_once("://").ok_or_else(malformed)?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().map_err(|_| malformed())?)
            }
            _ => (authority, DEFAULT_PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b".-_:".contains(&b);
        if host.is_empty() || !host.bytes().all(is_name) {
            return Err(malformed());
        }
        let is_loopback = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        match scheme {
            "https" => Ok(Self { host, port, has_tls: true }),
            "http" if is_loopback => Ok(Self { host, port, has_tls: false }),
            "http" => Err(format!("{url}: without TLS, the address must be a loopback one; use https://")),
            _ => Err(malformed()),
        }
    }

    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// A connection that is kept: to the endpoint of this number.
struct Kept {
    at: usize,
    certificate: Option<Fingerprint>,
    sender: SendRequest<Full<Bytes>>,
}

/// An etcd cluster as one array uses it. Requests are made one after the other.
pub struct EtcdClient {
    endpoints: Vec<(Endpoint, Option<Arc<ClientConfig>>)>,
    /// The certificate of this array.
    own: Fingerprint,
    /// The registers that the array knows.
    instance: Option<[u8; 16]>,
    timeout: Duration,
    kept: Mutex<Option<Kept>>,
    /// The latest revision of the cluster that was seen. It never falls, unless the cluster was put
    /// back to an earlier state.
    revision: AtomicU64,
    /// For each wish, the revision of its first attempt.
    wished: parking_lot::Mutex<BTreeMap<PodKey, u64>>,
}

/// The answer of a member: the certificate that it has presented, and the body.
struct Reply {
    certificate: Option<Fingerprint>,
    body: Value,
}

impl Reply {
    fn header(&self, name: &str) -> Option<u64> {
        number(&self.body["header"][name])
    }
}

/// A key that was found: its value, and the revision of its last change.
struct Held {
    value: Vec<u8>,
    revision: u64,
}

/// A stored register, and the revision of its key.
struct Found {
    entry: Entry,
    revision: u64,
}

impl EtcdClient {
    /// Creates a client for the URLs of a cluster, separated by commas. It connects with the first
    /// request. `known` is the cluster that the array has agreed on; without it, any is accepted.
    ///
    /// # Errors
    ///
    /// The reason in words: a URL is malformed, or TLS refuses the own certificate.
    pub fn new(
        urls: &str,
        identity: &TlsIdentity,
        known: Option<&EtcdInfo>,
        timeout: Duration,
    ) -> Result<Self, String> {
        let endpoints: Vec<Endpoint> = urls.split(',').map(Endpoint::parse).collect::<Result<_, _>>()?;
        if endpoints.len() > MOST_ENDPOINTS {
            return Err(format!("a cluster has at most {MOST_ENDPOINTS} URLs"));
        }
        if known.is_some_and(|known| known.certificates.len() != endpoints.len()) {
            return Err("not every URL of the etcd cluster has a certificate".to_owned());
        }
        let with_tls = |(at, endpoint): (usize, Endpoint)| {
            let pinned = known.and_then(|known| known.certificates.get(at).copied().flatten());
            if endpoint.has_tls && known.is_some() && pinned.is_none() {
                return Err(format!("the certificate of {} is not known", endpoint.authority()));
            }
            // Without an application protocol, members of etcd use HTTP/1.1.
            let config = endpoint.has_tls.then(|| pinned_tls::client(identity, &[], pinned)).transpose();
            config.map(|config| (endpoint, config)).map_err(|error| error.to_string())
        };
        Ok(Self {
            endpoints: endpoints.into_iter().enumerate().map(with_tls).collect::<Result<_, _>>()?,
            own: identity.fingerprint,
            instance: known.map(|known| known.instance),
            timeout,
            kept: Mutex::default(),
            revision: AtomicU64::new(0),
            wished: parking_lot::Mutex::default(),
        })
    }

    /// Asks every member for its certificate and the instance of the registers, which is made if
    /// there is none.
    ///
    /// # Errors
    ///
    /// A member does not answer, or they are not of one cluster.
    pub async fn identify(&self) -> Result<EtcdInfo, CallError> {
        let (mut certificates, mut found) = (Vec::new(), None);
        let new = platform::random::bytes::<16>().map_err(|error| CallError::Unreachable(self.place(0), error))?;
        let new = put(INSTANCE, hex::encode(&new).as_bytes());
        let make = json!({ "compare": [is_at(INSTANCE, 0)], "success": [new] });
        for (at, (endpoint, _)) in self.endpoints.iter().enumerate() {
            let place = endpoint.authority();
            let asked = async {
                let mut kept = self.connect(at).await?;
                self.talk(&mut kept, "/v3/kv/txn", &make).await?;
                self.talk(&mut kept, "/v3/kv/range", &range(INSTANCE)).await
            };
            let asked = tokio::time::timeout(self.timeout, asked).await;
            let reply = asked.map_err(|_| CallError::TimedOut(place.clone()))??;
            let malformed = |what: &str| CallError::Etcd(place.clone(), what.to_owned());
            let instance = first(&reply.body["kvs"]).and_then(|held| instance_of(&held.value));
            let instance = instance.ok_or_else(|| malformed("its instance is malformed"))?;
            let own = (instance, reply.header("cluster_id"));
            if *found.get_or_insert(own) != own {
                return Err(malformed("it is a member of another cluster"));
            }
            certificates.push(reply.certificate);
        }
        Ok(EtcdInfo { certificates, instance: found.map_or([0; 16], |(instance, _)| instance) })
    }

    fn key(pod: &PodKey) -> String {
        format!("/ibid/pods/{}", hex::encode(pod))
    }

    /// The key of the wish of an array for a register.
    fn wish_key(pod: &PodKey, array: &Fingerprint) -> String {
        format!("/ibid/wishes/{}/{}", hex::encode(pod), hex::encode(array))
    }

    /// Makes a transaction at one member after the other, until one answers: the comparisons and
    /// changes, and the reading of `key`. Returns whether the changes were made, and the key
    /// afterwards or as it was read.
    async fn transact(
        &self,
        compare: &[Value],
        changes: &[Value],
        key: &str,
    ) -> Result<(bool, Option<Held>), CallError> {
        let reads = [json!({ "requestRange": range(INSTANCE) }), json!({ "requestRange": range(key) })];
        let success: Vec<&Value> = changes.iter().chain(&reads).collect();
        let body = json!({ "compare": compare, "success": success, "failure": reads });
        let exchanged = tokio::time::timeout(self.timeout, self.exchange(&body)).await;
        let reply = exchanged.map_err(|_| CallError::TimedOut(self.place(0)))??;
        let found = Self::ranges(&reply.body).nth(1).and_then(first);
        Ok((reply.body["succeeded"].as_bool().unwrap_or(false), found))
    }

    /// Returns the lists of keys that the readings of a transaction have found.
    fn ranges(body: &Value) -> impl Iterator<Item = &Value> {
        let responses = body["responses"].as_array().map(Vec::as_slice).unwrap_or_default();
        responses.iter().filter_map(range_of).map(|range| &range["kvs"])
    }

    async fn exchange(&self, body: &Value) -> Result<Reply, CallError> {
        let mut held = self.kept.lock().await;
        // Taken out, so that it is closed when the future is dropped.
        let kept = held.take();
        let begin = kept.as_ref().map_or(0, |kept| kept.at);
        // A member that does not answer leaves time for the others.
        let part = self.timeout / u32::try_from(self.endpoints.len()).unwrap_or(u32::MAX);
        let mut last = CallError::TimedOut(self.place(0));
        if let Some(mut kept) = kept {
            match tokio::time::timeout(part / 2, self.ask(&mut kept, body)).await {
                Ok(Ok(reply)) => {
                    *held = Some(kept);
                    return Ok(reply);
                }
                Ok(Err(error)) => last = error,
                Err(_) => {}
            }
        }
        for at in (begin..self.endpoints.len()).chain(0..begin) {
            let attempt = async {
                let mut kept = self.connect(at).await?;
                let reply = self.ask(&mut kept, body).await?;
                Ok::<_, CallError>((kept, reply))
            };
            match tokio::time::timeout(part, attempt).await {
                Ok(Ok((kept, reply))) => {
                    *held = Some(kept);
                    return Ok(reply);
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = CallError::TimedOut(self.place(at)),
            }
        }
        Err(last)
    }

    /// Makes a transaction at one member. The answer counts only with the instance that is known.
    async fn ask(&self, kept: &mut Kept, body: &Value) -> Result<Reply, CallError> {
        let reply = self.talk(kept, "/v3/kv/txn", body).await?;
        let instance = Self::ranges(&reply.body).next().and_then(first).and_then(|held| instance_of(&held.value));
        let revision = reply.header("revision").unwrap_or(0);
        let is_later = self.revision.fetch_max(revision, Ordering::Relaxed) <= revision;
        match self.instance.is_none_or(|known| instance == Some(known)) && is_later {
            true => Ok(reply),
            false => Err(CallError::OtherInstance(self.place(kept.at))),
        }
    }

    fn place(&self, at: usize) -> String {
        self.endpoints.get(at).map(|(endpoint, _)| endpoint.authority()).unwrap_or_default()
    }

    async fn connect(&self, at: usize) -> Result<Kept, CallError> {
        let failed = |error: io::Error| CallError::Unreachable(self.place(at), error);
        let Some((endpoint, tls)) = self.endpoints.get(at) else { return Err(failed(io::ErrorKind::NotFound.into())) };
        let mut stream = Err(io::ErrorKind::NotFound.into());
        for address in resolve_all(&endpoint.host, endpoint.port).await.map_err(failed)? {
            stream = Stream::connect(address).await;
            if stream.is_ok() {
                break;
            }
        }
        let stream = stream.map_err(failed)?;
        let Some(config) = tls else { return self.handshake(at, stream, None).await };
        let (stream, certificate) = secure(config, stream, &self.place(at)).await?;
        self.handshake(at, stream, Some(certificate)).await
    }

    async fn handshake(
        &self,
        at: usize,
        stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
        certificate: Option<Fingerprint>,
    ) -> Result<Kept, CallError> {
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| self.broken(at, error))?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(Kept { at, certificate, sender })
    }

    fn broken(&self, at: usize, error: hyper::Error) -> CallError {
        CallError::Unreachable(self.place(at), io::Error::other(error))
    }

    async fn talk(&self, kept: &mut Kept, path: &str, body: &Value) -> Result<Reply, CallError> {
        let at = kept.at;
        let refused = |reason: String| CallError::Etcd(self.place(at), reason);
        let request = Request::post(path)
            .header(header::HOST, self.place(at))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|error| refused(error.to_string()))?;
        let broken = |error| self.broken(at, error);
        kept.sender.ready().await.map_err(broken)?;
        let response = kept.sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        let body = body.map_err(|error| CallError::Unreachable(self.place(at), io::Error::other(error)))?.to_bytes();
        let parsed = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        if !status.is_success() {
            let reason = parsed["message"].as_str().or(parsed["error"].as_str()).unwrap_or("no reason");
            return Err(refused(format!("{status}: {}", reason.chars().take(200).collect::<String>())));
        }
        Ok(Reply { certificate: kept.certificate, body: parsed })
    }

    async fn find(&self, pod: &PodKey) -> Result<Option<Found>, CallError> {
        let (_, found) = self.transact(&[], &[], &Self::key(pod)).await?;
        let Some(Held { value, revision }) = found else { return Ok(None) };
        let entry = decode_entry(&value).filter(|entry| entry.pod == *pod);
        let entry = entry.ok_or_else(|| CallError::Etcd(self.place(0), "a damaged register".to_owned()))?;
        Ok(Some(Found { entry, revision }))
    }

    /// Stores an entry if its key still has this revision; 0 if there is none. Returns whether it
    /// was stored.
    async fn store(&self, entry: &Entry, revision: u64) -> Result<bool, CallError> {
        let key = Self::key(&entry.pod);
        let made = self.transact(&[is_at(&key, revision)], &[put(&key, &encode_entry(entry))], &key).await?;
        Ok(made.0)
    }

    /// Changes a register by a rule, and returns its content afterwards.
    async fn change(&self, pod: PodKey, rule: impl Fn(&Registers) -> Outcome) -> Result<Register, CallError> {
        for _ in 0..MOST_ATTEMPTS {
            let found = self.find(&pod).await?.ok_or(CallError::Missing)?;
            let mut registers = Registers::default();
            registers.put(found.entry);
            match rule(&registers) {
                Outcome::Reply(Status::Done | Status::Differs, Some(content)) => return Ok(content),
                Outcome::Reply(Status::Invalid, _) => return Err(CallError::Invalid),
                Outcome::Reply(..) => return Err(CallError::Missing),
                Outcome::Store(entry) => {
                    if self.store(&entry, found.revision).await? {
                        registers.put(entry);
                        return registers.content(&pod, &self.own).ok_or(CallError::Missing);
                    }
                }
            }
        }
        Err(CallError::TimedOut(self.place(0)))
    }

    async fn read_register(&self, pod: PodKey) -> Result<Register, CallError> {
        self.change(pod, |registers| registers.read(&pod, &self.own)).await
    }

    async fn create_register(
        &self,
        pod: PodKey,
        peer: Fingerprint,
        nonce: [u8; 16],
        epoch: u64,
    ) -> Result<Option<Register>, CallError> {
        let mut arrays = [self.own, peer];
        arrays.sort_unstable();
        if let Some(found) = self.find(&pod).await? {
            return match found.entry.arrays == arrays {
                true => self.read_register(pod).await.map(Some),
                false => Err(CallError::Taken),
            };
        }
        let wish = |by: &Fingerprint, other: &Fingerprint| {
            let text = format!("{} {} {epoch}", hex::encode(other), hex::encode(&nonce));
            (Self::wish_key(&pod, by), text.into_bytes())
        };
        let ((own_key, own), (peer_key, others)) = (wish(&self.own, &peer), wish(&peer, &self.own));
        // Both write their wishes again with each attempt. One from before the first attempt of
        // this array may be that of an array which does not use the cluster any more.
        let (_, found) = self.transact(&[], &[put(&own_key, &own)], &peer_key).await?;
        let now = self.revision.load(Ordering::Relaxed);
        let begun = *self.wished.lock().entry(pod).or_insert(now);
        let Some(held) = found.filter(|held| held.value == others && held.revision > begun) else { return Ok(None) };
        let (entry, key) =
            (Entry { pod, arrays, epoch, owner: Holder::Both, changed_ms: clock::unix_millis() }, Self::key(&pod));
        let removal = |key: &str| json!({ "requestDeleteRange": { "key": encode(key.as_bytes()) } });
        let changes = [put(&key, &encode_entry(&entry)), removal(&own_key), removal(&peer_key)];
        // If the other array is faster, its register is as good.
        self.transact(&[is_at(&key, 0), is_at(&peer_key, held.revision)], &changes, &key).await?;
        match self.read_register(pod).await {
            Err(CallError::Missing) => Ok(None),
            read => read.map(Some),
        }
    }
}

impl RegisterClient for EtcdClient {
    fn read(&self, pod: PodKey) -> Answer<'_, Register> {
        Box::pin(self.read_register(pod))
    }

    fn create(&self, pod: PodKey, peer: Fingerprint, nonce: [u8; 16], epoch: u64) -> Answer<'_, Option<Register>> {
        Box::pin(self.create_register(pod, peer, nonce, epoch))
    }

    fn swap(&self, pod: PodKey, expected: Register, new: Register) -> Answer<'_, Register> {
        let own = self.own;
        Box::pin(self.change(pod, move |registers| registers.swap((pod, own), expected, new, clock::unix_millis())))
    }

    fn retire(&self, pod: PodKey, expected: Register) -> Answer<'_, Register> {
        let own = self.own;
        Box::pin(self.change(pod, move |registers| registers.retire((pod, own), expected, clock::unix_millis())))
    }
}

/// The comparison of a key's revision; 0 if there is no such key.
fn is_at(key: &str, revision: u64) -> Value {
    json!({ "key": encode(key.as_bytes()), "target": "MOD", "result": "EQUAL", "modRevision": revision.to_string() })
}

fn put(key: &str, value: &[u8]) -> Value {
    json!({ "requestPut": { "key": encode(key.as_bytes()), "value": encode(value) } })
}

fn range(key: &str) -> Value {
    json!({ "key": encode(key.as_bytes()) })
}

/// Returns the first key of a list.
fn first(found: &Value) -> Option<Held> {
    let found = found.as_array()?.first()?;
    let value = BASE64_STANDARD.decode(found["value"].as_str().unwrap_or_default()).ok()?;
    Some(Held { value, revision: number(&found["mod_revision"])? })
}

fn range_of(response: &Value) -> Option<&Value> {
    response.get("response_range").or_else(|| response.get("responseRange"))
}

fn instance_of(value: &[u8]) -> Option<[u8; 16]> {
    hex::decode(std::str::from_utf8(value).ok()?)?.try_into().ok()
}

fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// Reads a number of 64 bits, which the gateway writes as text.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests;
