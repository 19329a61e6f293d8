//! The state that dialers, the listener and the interface of links share.

use crate::data::WINDOW_FRAMES;
use crate::error::LinkError;
use crate::frame::MAX_BODY_BYTES;
use crate::hello::{Hello, PROTOCOLS, Purpose};
use crate::key::KeySlot;
use crate::peer::Peer;
use crate::pods::PodReceiver;
use crate::store::{LinkStore, PeerRecord};
use parking_lot::Mutex;
use pinned_tls::{Fingerprint, Strangers, TlsIdentity};
use platform::{LogLimit, clock};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Maximum number of connected arrays.
pub const MAX_CONNECTIONS: usize = 8;

/// This array, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalArray {
    /// Its permanent id, a UUID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u8,
}

/// Returns the present state of this array.
pub type LocalArrayFn = Box<dyn Fn() -> LocalArray + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) identity: TlsIdentity,
    pub(crate) store: LinkStore,
    pub(crate) keys: KeySlot,
    pub(crate) strangers: Arc<Strangers>,
    /// Limits log lines about connections that fail.
    pub(crate) log: LogLimit,
    /// Receives the frames about pods of all sessions that begin later.
    pub(crate) pod_receiver: OnceLock<Arc<dyn PodReceiver>>,
    peers: Mutex<Vec<Arc<Peer>>>,
    local: LocalArrayFn,
    version: String,
    started: Instant,
    started_ms: u64,
}

/// Returns the 16 bytes of a UUID.
pub(crate) fn uuid_bytes(uuid: &str) -> Option<[u8; 16]> {
    types::hex::decode(&uuid.replace('-', ""))?.try_into().ok()
}

/// Returns the text of a UUID.
pub(crate) fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex = types::hex::encode(bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

impl Shared {
    pub(crate) fn new(
        identity: TlsIdentity,
        store: LinkStore,
        records: Vec<PeerRecord>,
        local: LocalArrayFn,
        version: String,
    ) -> Self {
        Self {
            identity,
            store,
            keys: KeySlot::default(),
            strangers: Arc::default(),
            log: LogLimit::default(),
            pod_receiver: OnceLock::new(),
            peers: Mutex::new(records.into_iter().map(Peer::new).collect()),
            local,
            version,
            started: clock::now(),
            started_ms: clock::unix_millis(),
        }
    }

    pub(crate) fn local(&self) -> LocalArray {
        (self.local)()
    }

    /// Returns the `Hello` of this array.
    pub(crate) fn hello(&self, purpose: Purpose, session: [u8; 16]) -> Hello {
        let local = self.local();
        let uptime = clock::now().saturating_duration_since(self.started);
        Hello {
            protocols: PROTOCOLS,
            purpose,
            number: local.number,
            features: 0,
            array: uuid_bytes(&local.id).unwrap_or_default(),
            incarnation: self.started_ms,
            uptime_us: u64::try_from(uptime.as_micros()).unwrap_or(u64::MAX),
            wall_ms: clock::unix_millis(),
            max_body_bytes: MAX_BODY_BYTES,
            window_frames: WINDOW_FRAMES,
            session,
            name: local.name,
            version: self.version.clone(),
        }
    }

    pub(crate) fn peers(&self) -> Vec<Arc<Peer>> {
        self.peers.lock().clone()
    }

    pub(crate) fn find(&self, name: &str) -> Result<Arc<Peer>, LinkError> {
        let found = self.peers.lock().iter().find(|peer| peer.name().eq_ignore_ascii_case(name)).cloned();
        found.ok_or(LinkError::NoSuch)
    }

    pub(crate) fn find_certificate(&self, certificate: &Fingerprint) -> Option<Arc<Peer>> {
        self.peers.lock().iter().find(|peer| peer.record().has_certificate(certificate)).cloned()
    }

    /// Checks that this array may be connected to another one, with this certificate.
    pub(crate) fn check_new(&self, hello: &Hello, certificate: &Fingerprint) -> Result<(), LinkError> {
        check_new(&self.peers.lock(), &self.local(), hello, certificate)
    }

    /// Pins the certificate of another array, durably. Blocks.
    pub(crate) fn add(
        &self,
        hello: &Hello,
        certificate: &Fingerprint,
        address: Option<String>,
    ) -> Result<Arc<Peer>, LinkError> {
        let mut peers = self.peers.lock();
        check_new(&peers, &self.local(), hello, certificate)?;
        let peer = Peer::new(PeerRecord {
            array: uuid_text(&hello.array),
            name: hello.name.clone(),
            certificate: types::hex::encode(certificate),
            address,
            created_ms: clock::unix_millis(),
            distance: crate::distance::Distance::default(),
        });
        let all: Vec<Arc<Peer>> = peers.iter().chain([&peer]).cloned().collect();
        self.store.save(all.iter().map(|peer| peer.record()).collect()).map_err(LinkError::Store)?;
        *peers = all;
        Ok(peer)
    }

    /// Removes a connection, durably, and ends its session. Blocks.
    pub(crate) fn remove(&self, peer: &Arc<Peer>) -> Result<(), LinkError> {
        let mut peers = self.peers.lock();
        let rest: Vec<Arc<Peer>> = peers.iter().filter(|other| !Arc::ptr_eq(other, peer)).cloned().collect();
        self.store.save(rest.iter().map(|peer| peer.record()).collect()).map_err(LinkError::Store)?;
        *peers = rest;
        drop(peers);
        peer.remove();
        Ok(())
    }

    /// Changes the record of a connection, durably. Blocks.
    pub(crate) fn change(&self, peer: &Arc<Peer>, edit: impl Fn(&mut PeerRecord)) -> Result<(), LinkError> {
        let peers = self.peers.lock();
        let mut changed = peer.record();
        edit(&mut changed);
        let record = |other: &Arc<Peer>| if Arc::ptr_eq(other, peer) { changed.clone() } else { other.record() };
        self.store.save(peers.iter().map(record).collect()).map_err(LinkError::Store)?;
        peer.set_record(changed);
        Ok(())
    }

    /// Records the name that a connected array has in its `Hello`.
    pub(crate) async fn note_name(self: &Arc<Self>, peer: &Arc<Peer>, name: &str) {
        if peer.name() != name {
            let (shared, peer, name) = (self.clone(), peer.clone(), name.to_owned());
            let _ = tokio::task::spawn_blocking(move || shared.rename(&peer, &name)).await;
        }
    }

    /// Records the name of a connected array, unless another array has it. Blocks.
    pub(crate) fn rename(&self, peer: &Arc<Peer>, name: &str) {
        if peer.name() == name {
            return;
        }
        let is_taken = self.find(name).is_ok_and(|other| !Arc::ptr_eq(&other, peer));
        let old = peer.name();
        if is_taken || self.local().name.eq_ignore_ascii_case(name) {
            if let Some(withheld) = self.log.admit(clock::now()) {
                tracing::warn!(withheld, "array {old} calls itself {name} now: ignored, because that name is taken");
            }
            return;
        }
        match self.change(peer, |record| name.clone_into(&mut record.name)) {
            Ok(()) => tracing::info!("connected array renamed: {old} is {name} now"),
            Err(error) => tracing::warn!("name of array {old} not stored: {error}"),
        }
    }
}

fn check_new(
    peers: &[Arc<Peer>],
    local: &LocalArray,
    hello: &Hello,
    certificate: &Fingerprint,
) -> Result<(), LinkError> {
    let id = uuid_text(&hello.array);
    if id == local.id {
        return Err(LinkError::Itself);
    }
    let records: Vec<PeerRecord> = peers.iter().map(|peer| peer.record()).collect();
    if let Some(known) = records.iter().find(|record| record.array == id || record.has_certificate(certificate)) {
        return Err(LinkError::AlreadyConnected(known.name.clone()));
    }
    let mut names = records.iter().map(|record| &record.name).chain([&local.name]);
    if names.any(|name| name.eq_ignore_ascii_case(&hello.name)) {
        return Err(LinkError::NameTaken(hello.name.clone()));
    }
    if peers.len() >= MAX_CONNECTIONS {
        return Err(LinkError::TooMany(MAX_CONNECTIONS));
    }
    Ok(())
}
