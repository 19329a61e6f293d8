//! The iSCSI target: portals that accept connections, counters, and shutdown.

use crate::config::TargetConfig;
use crate::connection::serve_connection;
use crate::shared::Shared;
use crate::threshold_watch::watch;
use crate::unit::counters::UnitCounters;
use catalog::Catalog;
use engine::Service;
use platform::net::{Listener, Stream};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use types::VolumeId;

/// Pause after a failed accept, for example because no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The iSCSI target.
pub struct IscsiTarget {
    shared: Arc<Shared>,
    /// One permit for each further connection that is allowed.
    connections: Arc<Semaphore>,
}

impl IscsiTarget {
    /// Creates a target without portals. It accepts connections after [`listen`](Self::listen).
    pub fn new(service: Arc<dyn Service>, catalog: Arc<Catalog>, config: TargetConfig) -> Self {
        let connections = Arc::new(Semaphore::new(config.max_connections));
        Self { shared: Shared::new(service, catalog, config), connections }
    }

    /// Opens a portal and returns the bound address. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Fails if the address cannot be bound.
    pub async fn listen(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = Listener::bind(address).await?;
        let bound = listener.local_addr()?;
        self.shared.portals.lock().push(bound);
        if !self.shared.is_watched.swap(true, Ordering::Relaxed) {
            tokio::spawn(watch(self.shared.clone()));
        }
        let (shared, connections) = (self.shared.clone(), self.connections.clone());
        let mut stopped = self.shared.stop.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                () = accept(listener, shared, connections) => {}
                _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
            }
        });
        Ok(bound)
    }

    /// Returns the addresses of the open portals.
    pub fn portals(&self) -> Vec<SocketAddr> {
        self.shared.portals.lock().clone()
    }

    /// Returns the counters of a volume, which start at zero with the process.
    pub fn counters(&self, volume: VolumeId) -> Arc<UnitCounters> {
        self.shared.units.get(volume).counters.clone()
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

    /// Closes the portals and all connections, and waits until every submitted operation has ended.
    pub async fn shutdown(&self) {
        self.shared.stop.send_replace(true);
        self.shared.portals.lock().clear();
        self.shared.registry.close_all("target shut down");
        let all = u32::try_from(self.shared.config.max_connections).unwrap_or(u32::MAX);
        // Fails only if the semaphore is closed, which never happens.
        let _ = self.connections.acquire_many(all).await;
    }
}

async fn accept(listener: Listener, shared: Arc<Shared>, connections: Arc<Semaphore>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => match connections.clone().try_acquire_owned() {
                Ok(permit) => {
                    tokio::spawn(serve(shared.clone(), stream, peer, permit));
                }
                Err(_) => {
                    if let Some(withheld) = shared.log_limit.admit(platform::clock::now()) {
                        tracing::warn!(%peer, withheld, "connection refused: too many connections");
                    }
                }
            },
            Err(error) => {
                if let Some(withheld) = shared.log_limit.admit(platform::clock::now()) {
                    tracing::warn!(withheld, "accept failed: {error}");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, stream: Stream, peer: SocketAddr, permit: OwnedSemaphorePermit) {
    serve_connection(shared, stream, peer).await;
    drop(permit);
}
