//! The target as the program sees it: portals that accept connections, counters, and the end.

use crate::config::Config;
use crate::connection;
use crate::shared::Shared;
use crate::unit::counters::Counters;
use crate::unit::thresholds;
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

/// How long a portal waits after it could not accept (no file descriptors left, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The iSCSI target.
pub struct Target {
    shared: Arc<Shared>,
    /// One permit per connection that may yet be made.
    connections: Arc<Semaphore>,
}

impl Target {
    /// A target without portals: it serves nobody until it [listens](Self::listen).
    pub fn new(service: Arc<dyn Service>, catalog: Arc<Catalog>, config: Config) -> Self {
        let connections = Arc::new(Semaphore::new(config.max_connections));
        Self { shared: Shared::new(service, catalog, config), connections }
    }

    /// Opens a portal, within a tokio runtime. Answers the address that was bound.
    pub async fn listen(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = Listener::bind(address).await?;
        let bound = listener.local_addr()?;
        self.shared.portals.lock().push(bound);
        if !self.shared.is_watched.swap(true, Ordering::Relaxed) {
            tokio::spawn(thresholds::watch(self.shared.clone()));
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

    /// The portals that are listened on.
    pub fn portals(&self) -> Vec<SocketAddr> {
        self.shared.portals.lock().clone()
    }

    /// The counters of a volume since the start of the program.
    pub fn counters(&self, volume: VolumeId) -> Arc<Counters> {
        self.shared.units.get(volume).counters.clone()
    }

    /// Number of sessions, discovery not counted.
    pub fn sessions(&self) -> usize {
        self.shared.registry.len()
    }

    /// Closes the portals and all connections, and waits until every command that was given to the engine has ended.
    pub async fn shutdown(&self) {
        self.shared.stop.send_replace(true);
        self.shared.portals.lock().clear();
        self.shared.registry.close_all("the array is being shut down");
        let all = u32::try_from(self.shared.config.max_connections).unwrap_or(u32::MAX);
        // Fails only when the semaphore is closed, which it never is.
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
                Err(_) => complain(&shared, &format!("connection of {peer} refused: too many connections")),
            },
            Err(error) => {
                complain(&shared, &format!("no connection could be accepted: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, stream: Stream, peer: SocketAddr, permit: OwnedSemaphorePermit) {
    connection::serve(shared, stream, peer).await;
    drop(permit);
}

fn complain(shared: &Shared, complaint: &str) {
    if let Some(withheld) = shared.complaints.admit(platform::clock::now()) {
        tracing::warn!(withheld, "{complaint}");
    }
}
