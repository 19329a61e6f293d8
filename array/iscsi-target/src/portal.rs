//! The iSCSI target: portals that accept connections, counters, and shutdown.

use crate::config::TargetConfig;
use crate::connection::serve_connection;
use crate::pod_ports::{FunctionEnd, PodPorts, SharedFunction, SharedReservationChange};
use crate::portals::PortalTag;
use crate::shared::Shared;
use crate::slots::ConnectionSlot;
use crate::threshold_watch::watch;
use catalog::{Catalog, MAX_SHARED_RESERVATIONS_BYTES};
use engine::Service;
use platform::net::{Listener, Stream};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use telemetry::{ActivityRegistry, ActivityTotals, SessionTable};
use types::{ObjectId, VolumeId};

/// Pause after a failed accept, for example because no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A portal with an address, which does not accept connections yet.
pub struct BoundPortal {
    listener: Listener,
    address: SocketAddr,
}

impl BoundPortal {
    /// Binds the address. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Fails if the address cannot be bound.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = Listener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Returns the bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The iSCSI target.
pub struct IscsiTarget {
    shared: Arc<Shared>,
}

impl IscsiTarget {
    /// Creates a target without portals. It accepts connections after [`listen`](Self::listen).
    pub fn new(service: Arc<dyn Service>, catalog: Arc<Catalog>, config: TargetConfig) -> Self {
        Self { shared: Shared::new(service, catalog, config) }
    }

    /// Sets the pods of the array that two arrays serve. Without them, no other array serves a
    /// volume.
    #[must_use]
    pub fn with_pod_ports(self, ports: Arc<dyn PodPorts>) -> Self {
        self.shared.set_pod_ports(ports);
        self
    }

    /// Opens a portal and returns the bound address. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Fails if the address cannot be bound.
    pub async fn listen(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let portal = BoundPortal::bind(address).await?;
        let bound = portal.address;
        self.open(portal);
        Ok(bound)
    }

    /// Accepts connections on a portal. Must be called within a tokio runtime.
    pub fn open(&self, portal: BoundPortal) {
        let BoundPortal { listener, address } = portal;
        let portal = self.shared.portals.add(address);
        self.shared.units.set_runtime(tokio::runtime::Handle::current());
        if !self.shared.is_watched.swap(true, Ordering::Relaxed) {
            tokio::spawn(watch(self.shared.clone()));
        }
        let shared = self.shared.clone();
        let mut stopped = self.shared.stop.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                () = accept(listener, shared, portal) => {}
                _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
            }
        });
    }

    /// Returns the addresses of the open portals.
    pub fn portals(&self) -> Vec<SocketAddr> {
        self.shared.portals.addresses()
    }

    /// Returns the commands sent to a volume since the start of the process.
    pub fn totals_of(&self, volume: ObjectId) -> ActivityTotals {
        self.shared.activity.totals_of(volume)
    }

    /// Returns true if two arrays can have the reservations of a volume: no host holds it by
    /// RESERVE(6) or RESERVE(10), and its registrations fit. Another one must not become a volume
    /// that two arrays serve.
    ///
    /// The unit of the volume exists from then on: it stores its persistent reservations for both
    /// arrays as soon as [`PodPorts::ports`] has states for it.
    pub fn can_share_reservations(&self, volume: ObjectId) -> bool {
        self.shared.units.get(volume).reservations.can_be_shared(MAX_SHARED_RESERVATIONS_BYTES)
    }

    /// Sets the pods that two arrays serve, as [`Self::with_pod_ports`] does.
    pub fn set_pod_ports(&self, ports: Arc<dyn PodPorts>) {
        self.shared.set_pod_ports(ports);
    }

    /// Returns [`Self::can_share_reservations`] as a function that lives as long as it is wanted.
    pub fn sharing_check(&self) -> impl Fn(ObjectId) -> bool + Send + Sync + use<> {
        let shared = self.shared.clone();
        move |volume| shared.units.get(volume).reservations.can_be_shared(MAX_SHARED_RESERVATIONS_BYTES)
    }

    /// Returns the execution of the other array's task management functions, as a function that
    /// lives as long as it is wanted: [`PodPorts::execute`] at that array leads to a call of it.
    pub fn shared_functions(&self) -> impl Fn(&[VolumeId], SharedFunction, FunctionEnd) + Send + Sync + use<> {
        let shared = self.shared.clone();
        move |contents, function, end| shared.units.execute_for_peer(contents, function, end)
    }

    /// Returns the execution of the other array's changes of reservations:
    /// [`PodPorts::reservations_changed`] at that array leads to a call of it.
    pub fn shared_reservations(&self) -> impl Fn(VolumeId, SharedReservationChange, FunctionEnd) + Send + Sync + use<> {
        let shared = self.shared.clone();
        move |content, change, end| {
            let target = shared.clone();
            let task = async move { target.units.apply_for_peer(content, change, end).await };
            // Without a runtime no portal is open, and `end` is called when the task is dropped.
            shared.units.spawn(task);
        }
    }

    /// Returns the counters of all commands.
    pub fn activity(&self) -> Arc<ActivityRegistry> {
        self.shared.activity.clone()
    }

    /// Returns the table of normal sessions.
    pub fn session_table(&self) -> Arc<SessionTable> {
        self.shared.session_table.clone()
    }

    /// Returns the bytes that all connections hold for input, write data and answers: now, and the
    /// most since the start.
    pub fn wire_bytes(&self) -> (u64, u64) {
        (self.shared.wire_budget.used(), self.shared.wire_budget.peak())
    }

    /// Returns the number of sessions, without discovery sessions.
    pub fn sessions(&self) -> usize {
        self.shared.registry.len()
    }

    /// Closes the portals, requests a logout of every initiator, closes the connections that are
    /// left after the time for it, and waits until every submitted operation has ended.
    pub async fn shutdown(&self) {
        self.shared.stop.send_replace(true);
        self.shared.portals.close();
        let within = self.shared.config.logout_within;
        self.shared.registry.request_logouts(u16::try_from(within.as_secs()).unwrap_or(u16::MAX));
        let _ = tokio::time::timeout(within, self.shared.registry.wait_empty()).await;
        self.shared.registry.close_all("target shut down");
        self.shared.slots.wait_empty().await;
    }
}

async fn accept(listener: Listener, shared: Arc<Shared>, portal: PortalTag) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let slot = shared.slots.accept(peer.ip());
                tokio::spawn(serve(shared.clone(), stream, peer, slot, portal));
            }
            Err(error) => {
                if let Some(withheld) = shared.log_limit.admit(platform::clock::now()) {
                    tracing::warn!(withheld, "accept failed: {error}");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves a connection until it ends, has to give way to another, or is a discovery session for too
/// long. A normal session is never interrupted here, because its commands have to end first.
async fn serve(shared: Arc<Shared>, stream: Stream, peer: SocketAddr, slot: Arc<ConnectionSlot>, portal: PortalTag) {
    let reason = tokio::select! {
        () = serve_connection(shared.clone(), stream, peer, slot.clone(), portal) => return,
        () = slot.evicted() => "too many connections without a session",
        () = outlived(&shared, &slot) => "discovery session too long",
    };
    if let Some(withheld) = shared.log_limit.admit(platform::clock::now()) {
        tracing::warn!(%peer, withheld, "iSCSI connection closed: {reason}");
    }
}

/// Waits until the connection is too old for one that is not a normal session.
async fn outlived(shared: &Shared, slot: &ConnectionSlot) {
    tokio::time::sleep(shared.config.discovery_timeout).await;
    if slot.is_session() {
        std::future::pending::<()>().await;
    }
}
