//! The mediator as a server. One change is made at a time, and stored before it is answered.

use crate::PROTOCOL;
use crate::message::{Action, Owner, REQUEST_BYTES, Register, Reply, Request, Status};
use crate::register::{Entry, Holder, Outcome, Registers};
use crate::store::{IDENTITY, Store, StoreError};
use pinned_tls::{Fingerprint, IdentityError, Strangers, TlsIdentity, fingerprint};
use platform::LogLimit;
use platform::clock;
use platform::net::{Listener, Stream};
use rustls::ServerConfig;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Mutex, Notify, watch};
use tokio_rustls::TlsAcceptor;

/// Maximum time for the TLS handshake.
const OPENING_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection without a request for this long ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Connections of an array that may have registers. The oldest ends if there are more.
const MAX_PER_ARRAY: usize = 4;
/// Pause after a request of a client that is not allowed, so that it takes little of the processor.
const STRANGER_PAUSE: Duration = Duration::from_millis(10);
/// Pause after an accept that failed, as when there are no more descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The mediator cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Its directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its certificate cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// There are registers, but no certificate.
    #[error("mediator.pem is missing, but there are registers")]
    CertificateGone,
    /// TLS refuses the certificate.
    #[error("mediator.pem cannot be used for TLS")]
    Tls(#[from] rustls::Error),
    /// The address is in use or does not exist.
    #[error("cannot listen on {0}: {1}")]
    Bind(SocketAddr, io::Error),
}

/// Connections of arrays that may have registers, by their certificates.
#[derive(Default)]
struct KnownConnections {
    next: u64,
    connections: BTreeMap<Fingerprint, Vec<(u64, Arc<Notify>)>>,
}

impl KnownConnections {
    /// Adds a connection. The oldest of the same array ends if there are too many.
    fn add(&mut self, array: Fingerprint) -> (u64, Arc<Notify>) {
        self.next += 1;
        let connections = self.connections.entry(array).or_default();
        if connections.len() >= MAX_PER_ARRAY {
            connections.remove(0).1.notify_one();
        }
        let connection = (self.next, Arc::<Notify>::default());
        connections.push(connection.clone());
        connection
    }

    fn remove(&mut self, array: &Fingerprint, id: u64) {
        if let Some(connections) = self.connections.get_mut(array) {
            connections.retain(|(other, _)| *other != id);
            if connections.is_empty() {
                self.connections.remove(array);
            }
        }
    }
}

struct Shared {
    store: Store,
    registers: Mutex<Registers>,
    known: parking_lot::Mutex<KnownConnections>,
    /// Certificates of the arrays that may have registers, as they were read last.
    allowed: parking_lot::Mutex<Vec<Fingerprint>>,
    strangers: Arc<Strangers>,
    log: LogLimit,
    /// Why nothing is answered any more: a register could not be stored, so its stored content is
    /// unknown, or the mediator was dropped.
    end: watch::Sender<Option<String>>,
}

/// A running mediator.
pub struct Mediator {
    shared: Arc<Shared>,
    listener: Listener,
    config: Arc<ServerConfig>,
    fingerprint: Fingerprint,
    address: SocketAddr,
}

impl Mediator {
    /// Opens the mediator in `directory`, makes it at the first start, and listens on `address`.
    pub async fn bind(directory: &Path, address: SocketAddr) -> Result<Self, StartError> {
        let store = Store::open(directory)?;
        let (entries, allowed) = (store.load()?, store.allowed()?);
        // The arrays know the mediator by it.
        if !entries.is_empty() && !store.has_certificate()? {
            return Err(StartError::CertificateGone);
        }
        let identity = TlsIdentity::load_or_create(directory, IDENTITY)?;
        let config = pinned_tls::server(&identity, PROTOCOL)?;
        let mut registers = Registers::default();
        entries.into_iter().for_each(|entry| registers.put(entry));
        let failed = |error| StartError::Bind(address, error);
        let listener = Listener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Shared {
            store,
            registers: Mutex::new(registers),
            known: parking_lot::Mutex::default(),
            allowed: parking_lot::Mutex::new(allowed),
            strangers: Arc::default(),
            log: LogLimit::default(),
            end: watch::Sender::new(None),
        };
        Ok(Self { shared: Arc::new(shared), listener, config, fingerprint: identity.fingerprint, address })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the SHA-256 of its certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns its id.
    pub fn instance(&self) -> [u8; 16] {
        self.shared.store.instance
    }

    /// Returns the number of registers.
    pub async fn registers(&self) -> usize {
        self.shared.registers.lock().await.entries().count()
    }

    /// Serves until a register cannot be stored. Returns the reason; a new start reads the stored
    /// content.
    pub async fn run(self) -> String {
        tokio::select! {
            reason = self.shared.ended() => reason,
            () = accept(&self.shared, &self.listener, &self.config) => String::new(),
        }
    }
}

impl Drop for Mediator {
    /// Ends all connections.
    fn drop(&mut self) {
        self.shared.end.send_if_modified(|end| end.is_none() && end.replace("stopped".to_owned()).is_none());
    }
}

/// Accepts connections, for as long as the future is polled.
async fn accept(shared: &Arc<Shared>, listener: &Listener, config: &Arc<ServerConfig>) {
    loop {
        match listener.accept().await {
            Ok((stream, source)) => {
                tokio::spawn(serve(shared.clone(), stream, source.ip(), config.clone()));
            }
            Err(error) => {
                if let Some(withheld) = shared.log.admit(clock::now()) {
                    tracing::warn!(withheld, "accept failed: {error}");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, stream: Stream, source: IpAddr, config: Arc<ServerConfig>) {
    let stranger = shared.strangers.admit(source);
    let ended = tokio::select! {
        ended = talk(&shared, stream, config) => ended,
        () = stranger.evicted() => Err("it gave way to another unknown client".to_owned()),
        reason = shared.ended() => Err(reason),
    };
    if let Err(reason) = ended
        && let Some(withheld) = shared.log.admit(clock::now())
    {
        tracing::info!(%source, withheld, "connection ended: {reason}");
    }
}

type TlsStream = tokio_rustls::server::TlsStream<Stream>;

/// Serves a client as an unknown one until an administrator allows it, then as an array.
async fn talk(shared: &Arc<Shared>, stream: Stream, config: Arc<ServerConfig>) -> Result<(), String> {
    let handshake = tokio::time::timeout(OPENING_TIMEOUT, TlsAcceptor::from(config).accept(stream)).await;
    let mut stream = handshake.map_err(|_| "no TLS in time".to_owned())?.map_err(|error| error.to_string())?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let client = fingerprint(certificate.ok_or("no certificate")?);
    let (mut pause, mut has_asked) = (Duration::ZERO, false);
    while !shared.is_allowed(client).await {
        // The first two requests are those of `ibid mediator check`.
        tokio::time::sleep(pause).await;
        if !exchange(shared, &mut stream, client).await? {
            return Ok(());
        }
        pause = if has_asked { STRANGER_PAUSE } else { Duration::ZERO };
        has_asked = true;
    }
    // The place among unknown clients is free for others from here on.
    tokio::spawn(serve_array(shared.clone(), stream, client));
    Ok(())
}

async fn serve_array(shared: Arc<Shared>, mut stream: TlsStream, array: Fingerprint) {
    let (id, ended) = shared.known.lock().add(array);
    loop {
        let outcome = tokio::select! {
            outcome = exchange(&shared, &mut stream, array) => outcome,
            () = ended.notified() => Ok(false),
            _ = shared.ended() => Ok(false),
        };
        match outcome {
            Ok(true) => {}
            Ok(false) => break,
            Err(reason) => {
                if let Some(withheld) = shared.log.admit(clock::now()) {
                    tracing::info!(array = types::hex::encode(&array), withheld, "connection ended: {reason}");
                }
                break;
            }
        }
    }
    shared.known.lock().remove(&array, id);
}

/// Reads a request and answers it. Returns false at the end of the connection.
async fn exchange(shared: &Arc<Shared>, stream: &mut TlsStream, client: Fingerprint) -> Result<bool, String> {
    let mut bytes = [0; REQUEST_BYTES];
    match tokio::time::timeout(IDLE_TIMEOUT, stream.read_exact(&mut bytes)).await {
        Err(_) => return Ok(false),
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        Ok(Err(error)) => return Err(error.to_string()),
        Ok(Ok(_)) => {}
    }
    let request = Request::decode(&bytes).map_err(|error| error.to_string())?;
    let Some(reply) = shared.answer(&request, client).await else { return Ok(false) };
    let sent = tokio::time::timeout(OPENING_TIMEOUT, async {
        stream.write_all(&reply.encode()).await?;
        stream.flush().await
    });
    sent.await.map_err(|_| "it takes no replies".to_owned())?.map_err(|error| error.to_string())?;
    Ok(true)
}

impl Shared {
    /// True if an administrator has allowed an array to have registers. Reads the list again for
    /// one that is not known to be on it, because it may have been added.
    async fn is_allowed(self: &Arc<Self>, array: Fingerprint) -> bool {
        if self.allowed.lock().contains(&array) {
            return true;
        }
        let reading = self.clone();
        let read = tokio::task::spawn_blocking(move || reading.store.allowed().map_err(|error| error.to_string()));
        match read.await.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(arrays) => {
                let is_allowed = arrays.contains(&array);
                *self.allowed.lock() = arrays;
                is_allowed
            }
            Err(error) => {
                if let Some(withheld) = self.log.admit(clock::now()) {
                    tracing::error!(withheld, "list of arrays not read: {error}");
                }
                false
            }
        }
    }

    /// Waits for the end. Returns the reason.
    async fn ended(&self) -> String {
        let mut end = self.end.subscribe();
        // The sender is in this struct.
        let reason = end.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or_default()
    }

    /// Answers a request. `None` after the end.
    async fn answer(self: &Arc<Self>, request: &Request, client: Fingerprint) -> Option<Reply> {
        let instance = self.store.instance;
        let reply = |status, content: Option<Register>| {
            let register = content.unwrap_or(Register { epoch: 0, owner: Owner::Both });
            Some(Reply { number: request.number, status, instance, register })
        };
        if request.instance != [0; 16] && request.instance != instance {
            return reply(Status::OtherInstance, None);
        }
        if request.action == Action::Identify {
            return reply(Status::Done, None);
        }
        if !self.is_allowed(client).await {
            return reply(Status::NotAllowed, None);
        }
        let sharing = self.clone();
        let (request, now_ms) = (*request, clock::unix_millis());
        // A task of its own: a client that leaves, or that gives way, does not end a change between
        // the drive and the memory.
        let carrying_out = tokio::spawn(async move { sharing.carry_out(&request, client, now_ms).await });
        let (status, content) = carrying_out.await.ok().flatten()?;
        reply(status, content)
    }

    /// Carries out a request. `None` after the end.
    async fn carry_out(
        self: &Arc<Self>,
        request: &Request,
        client: Fingerprint,
        now_ms: u64,
    ) -> Option<(Status, Option<Register>)> {
        // Held while a change is stored: the next request sees it, or the end of the mediator.
        let mut registers = self.registers.lock().await;
        if self.end.borrow().is_some() {
            return None;
        }
        let of = (request.pod, client);
        let outcome = match request.action {
            Action::Identify | Action::Read => registers.read(&request.pod, &client),
            Action::Create { peer, nonce, epoch } => registers.create(of, peer, (nonce, epoch), clock::now(), now_ms),
            Action::Swap { expected, new } => registers.swap(of, expected, new, now_ms),
            Action::Retire { expected } => registers.retire(of, expected, now_ms),
        };
        match outcome {
            Outcome::Reply(status, content) => Some((status, content)),
            Outcome::Store(entry) => {
                self.save(entry).await?;
                registers.put(entry);
                Some((Status::Done, registers.content(&request.pod, &client)))
            }
        }
    }

    /// Stores an entry. `None` if that fails.
    async fn save(self: &Arc<Self>, entry: Entry) -> Option<()> {
        let storing = self.clone();
        let stored = tokio::task::spawn_blocking(move || storing.store.save(&entry).map_err(|error| error.to_string()));
        match stored.await.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(()) => {
                let (pod, owner) = (types::hex::encode(&entry.pod), entry.owner);
                tracing::info!(pod, epoch = entry.epoch, "register changed: {}", owner_text(owner));
                Some(())
            }
            Err(reason) => {
                self.end.send_replace(Some(reason));
                None
            }
        }
    }
}

/// Returns the owner of a register as text.
fn owner_text(owner: Holder) -> String {
    match owner {
        Holder::Both => "both arrays".to_owned(),
        Holder::Retired => "retired".to_owned(),
        Holder::One(array) => format!("the array with certificate {}", types::hex::encode(&array)),
    }
}
