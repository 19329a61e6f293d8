//! The HTTPS server: TCP connections, TLS and HTTP/1.1.

use crate::app::App;
use crate::login::Peer;
use crate::router::router;
use crate::tls::Identity;
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use platform::LogLimit;
use platform::net::{Listener, Stream};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// Maximum number of concurrent connections. Further clients wait in the listen queue.
const MAX_CONNECTIONS: usize = 256;
/// Maximum time for the TLS handshake, and for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum time for requests to finish when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept, for example when no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The server cannot start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address cannot be bound.
    #[error("cannot listen for the REST API on {0}: {1}")]
    Bind(SocketAddr, io::Error),
}

/// A bound server.
pub struct Server {
    listener: Listener,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    router: Router,
}

impl Server {
    /// Binds the address. Must be called within a tokio runtime.
    pub async fn bind(address: SocketAddr, identity: &Identity, app: Arc<App>) -> Result<Self, ServeError> {
        let failed = |error| ServeError::Bind(address, error);
        let listener = Listener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address: bound, acceptor: TlsAcceptor::from(identity.config()), router: router(app) })
    }

    /// Returns the bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is true or its sender is dropped. Requests in progress are finished.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let log_limit = LogLimit::default();
        loop {
            let accepted = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                accepted = accept(&self.listener, &slots) => accepted,
            };
            let (stream, peer, slot) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    if let Some(withheld) = log_limit.admit(platform::clock::now()) {
                        tracing::warn!(withheld, "accept failed: {error}");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let (acceptor, router, stop) = (self.acceptor.clone(), self.router.clone(), stop.clone());
            tokio::spawn(async move {
                if let Err(error) = connection(stream, peer.ip(), acceptor, router, stop).await {
                    tracing::debug!(%peer, "connection failed: {error}");
                }
                drop(slot);
            });
        }
        // A connection returns its permit when it ends.
        let all = slots.acquire_many(MAX_CONNECTIONS as u32);
        if tokio::time::timeout(STOP_TIMEOUT, all).await.is_err() {
            tracing::warn!("API requests aborted: not finished in time");
        }
    }
}

async fn accept(
    listener: &Listener,
    slots: &Arc<Semaphore>,
) -> io::Result<(Stream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let slot = slots.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, slot))
}

type ConnectionError = Box<dyn std::error::Error + Send + Sync>;

async fn connection(
    stream: Stream,
    peer: IpAddr,
    acceptor: TlsAcceptor,
    router: Router,
    mut stop: watch::Receiver<bool>,
) -> Result<(), ConnectionError> {
    let stream = tokio::time::timeout(HEAD_TIMEOUT, acceptor.accept(stream)).await??;
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let service = TowerToHyperService::new(router.layer(Extension(Peer(peer))));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        done = connection.as_mut() => return done,
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}
