//! The server: connections in, TLS, HTTP.

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

/// The most connections at a time; others wait to be accepted.
const MAX_CONNECTIONS: usize = 256;
/// How long a client may take to agree on TLS, and to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// How long connections get to finish their requests when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait when the system has no file descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the server does not start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The port cannot be had.
    #[error("the API address {0} cannot be used: {1}")]
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
    /// Takes the port. To be called within a tokio runtime.
    pub async fn bind(address: SocketAddr, identity: &Identity, app: Arc<App>) -> Result<Self, ServeError> {
        let failed = |error| ServeError::Bind(address, error);
        let listener = Listener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address: bound, acceptor: TlsAcceptor::from(identity.config()), router: router(app) })
    }

    /// The address that was bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` says true or its sender is gone; requests that were begun are finished.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let complaints = LogLimit::default();
        loop {
            let accepted = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                accepted = accept(&self.listener, &slots) => accepted,
            };
            let (stream, peer, slot) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    if let Some(withheld) = complaints.admit(platform::clock::now()) {
                        tracing::warn!(withheld, "no connection could be accepted: {error}");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let (acceptor, router, stop) = (self.acceptor.clone(), self.router.clone(), stop.clone());
            tokio::spawn(async move {
                if let Err(error) = connection(stream, peer.ip(), acceptor, router, stop).await {
                    tracing::debug!(%peer, "a connection ended: {error}");
                }
                drop(slot);
            });
        }
        // Whoever holds no slot any more has finished.
        let all = slots.acquire_many(MAX_CONNECTIONS as u32);
        if tokio::time::timeout(STOP_TIMEOUT, all).await.is_err() {
            tracing::warn!("some API requests were cut off");
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
