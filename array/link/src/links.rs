//! The links of an array: the interface for administration.

use crate::address;
use crate::control::{GIVE_UP_AFTER, HEARTBEAT};
use crate::data::{MAX_TEST, Transfer};
use crate::dialer;
use crate::distance::Distance;
use crate::error::LinkError;
use crate::frame::{Frame, Kind};
use crate::identity::{NAMES, PROTOCOL};
use crate::key::{ConnectionKey, KEY_LIFETIME, PendingKey};
use crate::listener;
use crate::peer::{LinkStatus, Peer};
use crate::pods::PodReceiver;
use crate::rtt::Rtt;
use crate::shared::{LocalArrayFn, Shared};
use crate::store::LinkStore;
use bytes::Bytes;
use pinned_tls::{IdentityError, TlsIdentity};
use platform::clock;
use platform::net::Listener;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use zeroize::Zeroizing;

/// Time for the last message of a removed connection to arrive.
const FAREWELL: Duration = Duration::from_secs(1);
/// A link test ends this long after its data at the latest.
const TEST_GRACE: Duration = Duration::from_secs(5);

/// The links cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The certificate cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The connected arrays cannot be read.
    #[error("cannot read links.json: {0}")]
    Store(io::Error),
    /// TLS refuses the certificate.
    #[error("link.pem cannot be used for TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The address is in use or does not exist.
    #[error("cannot listen for other arrays on {0}: {1}")]
    Bind(SocketAddr, io::Error),
}

/// A connection key in its text form.
#[derive(Debug)]
pub struct KeyText {
    /// The text.
    pub text: Zeroizing<String>,
    /// In milliseconds since 1970.
    pub created_ms: u64,
    /// In milliseconds since 1970.
    pub expires_ms: u64,
    /// The call has made it.
    pub is_new: bool,
}

/// A connection to another array.
#[derive(Clone, Debug)]
pub struct LinkConnection {
    /// Id of the other array, a UUID.
    pub array: String,
    /// Name of the other array.
    pub name: String,
    /// Present state.
    pub status: LinkStatus,
    /// Start of the session or of its absence, in milliseconds since 1970.
    pub since_ms: u64,
    /// Why the link is down, if it is.
    pub problem: Option<String>,
    /// The address that this array connects to; `None` if the other array connects.
    pub address: Option<String>,
    /// Addresses of the session: own end, other end.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// Version of the other array's program, if it was seen since the start.
    pub version: Option<String>,
    /// The last round trips of the session.
    pub rtt: Option<Rtt>,
    /// The clock of the other array minus this one's, in milliseconds.
    pub clock_ahead_ms: Option<i64>,
    /// Bytes sent since the start, before encryption.
    pub sent_bytes: u64,
    /// Bytes received since the start, before encryption.
    pub received_bytes: u64,
    /// Sessions since the start.
    pub sessions: u64,
    /// The simulated distance.
    pub distance: Distance,
    /// SHA-256 of the certificate of the other array, in hexadecimal digits.
    pub certificate: String,
}

/// The result of a link test.
#[derive(Clone, Copy, Debug)]
pub struct LinkTest {
    /// Round trips before the data was sent.
    pub rtt: Rtt,
    /// Round trips while data was sent.
    pub loaded_rtt: Rtt,
    /// Heartbeats sent in this session.
    pub heartbeats: u64,
    /// Heartbeats that were not answered, without the last one.
    pub unanswered: u64,
    /// Data sent.
    pub sent: Transfer,
    /// Data received.
    pub received: Transfer,
}

/// The links of an array.
pub struct Links {
    shared: Arc<Shared>,
    /// The address on which other arrays connect.
    listening: OnceLock<SocketAddr>,
    listener: OnceLock<AbortHandle>,
    /// The runtime of the tasks.
    runtime: OnceLock<Handle>,
}

impl Links {
    /// Opens the links of the array in `directory`. Creates its certificate at the first start.
    pub fn open(directory: &Path, version: &str, local: LocalArrayFn) -> Result<Arc<Self>, OpenError> {
        let identity = TlsIdentity::load_or_create(directory, NAMES)?;
        let store = LinkStore::new(directory);
        let records = store.load().map_err(OpenError::Store)?;
        let shared = Arc::new(Shared::new(identity, store, records, local, version.to_owned()));
        Ok(Arc::new(Self { shared, listening: OnceLock::new(), listener: OnceLock::new(), runtime: OnceLock::new() }))
    }

    /// Sets the receiver of frames about pods, before [`Self::start`]. Returns false if it is set
    /// already.
    pub fn set_pod_receiver(&self, receiver: Arc<dyn PodReceiver>) -> bool {
        self.shared.pod_receiver.set(receiver).is_ok()
    }

    /// Listens for other arrays, and keeps the links to the connected ones. Must be called once,
    /// within a tokio runtime; the tasks end with it, or with [`Self::stop`].
    pub async fn start(&self, listen: Option<SocketAddr>) -> Result<(), OpenError> {
        let _ = self.runtime.set(Handle::current());
        if let Some(address) = listen {
            let config = pinned_tls::server(&self.shared.identity, PROTOCOL)?;
            let failed = |error| OpenError::Bind(address, error);
            let listener = Listener::bind(address).await.map_err(failed)?;
            let bound = listener.local_addr().map_err(failed)?;
            let _ = self.listening.set(bound);
            let accepting = tokio::spawn(listener::accept(self.shared.clone(), listener, config));
            let _ = self.listener.set(accepting.abort_handle());
        }
        self.shared.peers().iter().for_each(|peer| self.keep(peer));
        Ok(())
    }

    /// Ends all sessions, without removing a connection.
    pub fn stop(&self) {
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
        self.shared.peers().iter().for_each(|peer| peer.remove());
    }

    /// Returns the certificate of this array for other programs, with its key.
    pub fn identity(&self) -> &TlsIdentity {
        &self.shared.identity
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn keep(&self, peer: &Arc<Peer>) {
        if let (Some(_), Some(runtime)) = (peer.record().address, self.runtime.get()) {
            runtime.spawn(dialer::keep(self.shared.clone(), peer.clone()));
        }
    }

    /// Returns the address on which other arrays connect.
    pub fn listening(&self) -> Option<SocketAddr> {
        self.listening.get().copied()
    }

    /// Makes a new connection key; the former one is void.
    pub fn new_key(&self) -> Result<KeyText, LinkError> {
        self.listening().ok_or(LinkError::NotListening)?;
        let made = self.shared.keys.renew(clock::now(), clock::unix_millis());
        made.map(|key| key_text(&key, true)).map_err(|error| LinkError::System(error.to_string()))
    }

    /// Returns the connection key that waits for its use, or makes one.
    pub fn key(&self) -> Result<KeyText, LinkError> {
        match self.shared.keys.pending(clock::now()) {
            Some(key) => Ok(key_text(&key, false)),
            None => self.new_key(),
        }
    }

    /// Connects to the array at `address` with the connection key of that array. If `expected` is
    /// given, the array must have this name.
    pub async fn connect(&self, address: &str, key: &str, expected: Option<&str>) -> Result<LinkConnection, LinkError> {
        address::parse(address)?;
        let key = ConnectionKey::parse(key)?;
        let peer = dialer::introduce(&self.shared, address, &key, expected).await?;
        self.keep(&peer);
        Ok(describe(&peer))
    }

    /// Removes a connection on this array, and on the other one if the link is up. Returns whether
    /// it was.
    pub async fn disconnect(&self, name: &str) -> Result<bool, LinkError> {
        let peer = self.shared.find(name)?;
        let mut was_told = false;
        if let Some(session) = peer.session() {
            // The other array ends the session when it has read this.
            let is_sent = session.control.try_send(Frame::new(Kind::Disconnect, Bytes::new())).is_ok();
            was_told = is_sent && tokio::time::timeout(FAREWELL, session.ended()).await.is_ok();
        }
        let (shared, removed) = (self.shared.clone(), peer.clone());
        let done = tokio::task::spawn_blocking(move || shared.remove(&removed)).await;
        done.map_err(|error| LinkError::System(error.to_string()))??;
        tracing::info!(array = peer.name(), "connection to another array removed");
        Ok(was_told)
    }

    /// Returns all connections.
    pub fn connections(&self) -> Vec<LinkConnection> {
        self.shared.peers().iter().map(|peer| describe(peer)).collect()
    }

    /// Returns a connection by the name of the other array.
    pub fn connection(&self, name: &str) -> Result<LinkConnection, LinkError> {
        Ok(describe(&*self.shared.find(name)?))
    }

    /// Changes the simulated distance to an array. Blocks.
    pub fn set_distance(&self, name: &str, distance: Distance) -> Result<(), LinkError> {
        distance.check()?;
        let peer = self.shared.find(name)?;
        self.shared.change(&peer, |record| record.distance = distance)?;
        match distance.is_none() {
            true => tracing::info!(array = peer.name(), "no distance is simulated any more"),
            false => tracing::warn!(array = peer.name(), ?distance, "the distance to an array is simulated"),
        }
        Ok(())
    }

    /// Changes the address of an array. The next session uses it. Blocks.
    pub fn set_address(&self, name: &str, address: &str) -> Result<(), LinkError> {
        address::parse(address)?;
        let peer = self.shared.find(name)?;
        if peer.record().address.is_none() {
            return Err(LinkError::NotTheConnector(peer.name()));
        }
        self.shared.change(&peer, |record| record.address = Some(address.to_owned()))?;
        if let Some(session) = peer.session() {
            session.end(crate::session::SessionEnd::Lost("the address was changed".to_owned()));
        }
        Ok(())
    }

    /// Sends and receives data for `time` each, as fast as the link allows.
    pub async fn test(&self, name: &str, time: Duration) -> Result<LinkTest, LinkError> {
        let time = time.min(MAX_TEST);
        let peer = self.shared.find(name)?;
        let down = || {
            let problem = peer.state.lock().problem.clone();
            LinkError::Down(peer.name(), problem.unwrap_or_else(|| "there is no session yet".to_owned()))
        };
        let _testing = peer.testing.try_lock().map_err(|_| LinkError::TestRunning(peer.name()))?;
        let session = peer.session().ok_or_else(down)?;
        let data = session.data().ok_or_else(down)?;
        let rtt = first_rtt(&peer).await.ok_or_else(down)?;
        peer.state.lock().rtt.clear();
        let transfers = tokio::time::timeout(time * 2 + TEST_GRACE, async {
            let sent = data.send_for(time).await?;
            Ok::<_, crate::pipe::NotSent>((sent, data.ask_for(time).await?))
        });
        let (sent, received) = transfers.await.ok().and_then(Result::ok).ok_or_else(down)?;
        let (heartbeats, answered) = session.heartbeats();
        // The last heartbeat may still be under way.
        let unanswered = heartbeats.saturating_sub(answered + 1);
        let loaded = peer.state.lock().rtt.figures();
        let loaded_rtt = loaded.unwrap_or(rtt);
        Ok(LinkTest { rtt, loaded_rtt, heartbeats, unanswered, sent, received })
    }
}

/// Returns the last round trips. Waits for the first one of a new session or distance.
async fn first_rtt(peer: &Peer) -> Option<Rtt> {
    let find = async {
        loop {
            let found = peer.state.lock().rtt.figures();
            match found {
                Some(rtt) => return rtt,
                None => tokio::time::sleep(HEARTBEAT).await,
            }
        }
    };
    tokio::time::timeout(GIVE_UP_AFTER * 2, find).await.ok()
}

fn key_text(key: &PendingKey, is_new: bool) -> KeyText {
    let lifetime = u64::try_from(KEY_LIFETIME.as_millis()).unwrap_or(0);
    KeyText { text: key.key.text(), created_ms: key.created_ms, expires_ms: key.created_ms + lifetime, is_new }
}

fn describe(peer: &Peer) -> LinkConnection {
    let (record, state) = (peer.record(), peer.state.lock());
    let status = match &state.session {
        None => LinkStatus::Connecting,
        Some(session) if session.data().is_none() => LinkStatus::PartlyConnected,
        Some(_) => LinkStatus::Connected,
    };
    LinkConnection {
        array: record.array,
        name: record.name,
        status,
        since_ms: state.since_ms,
        problem: state.problem.clone(),
        address: record.address,
        ends: state.session.as_ref().map(|session| (session.remote.local, session.remote.remote)),
        version: state.version.clone(),
        rtt: state.session.as_ref().and(state.rtt.figures()),
        clock_ahead_ms: state.clock_ahead_ms,
        sent_bytes: peer.traffic.sent.load(Ordering::Relaxed),
        received_bytes: peer.traffic.received.load(Ordering::Relaxed),
        sessions: peer.sessions.load(Ordering::Relaxed),
        distance: record.distance,
        certificate: record.certificate,
    }
}
