//! The server: TCP connections with TLS, connections of the same machine over a Unix socket, and
//! HTTP/1.1 on both.
//!
//! Connections over TCP and over the Unix socket have slots of their own, so that a flood of the
//! network does not reach local administration.

use crate::app::App;
use crate::router::router;
use crate::slots::{ConnectionSlot, ConnectionSlots};
use crate::source::Source;
use crate::tls::Identity;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use platform::LogLimit;
use platform::net::{Listener, LocalListener, Stream};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// The Unix socket in the array's directory.
pub const SOCKET_FILE: &str = "api.socket";
/// Maximum time for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time for the head of a request, from the handshake or the previous answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of the head of a request in bytes. It may name a thousand objects.
const MAX_HEAD_BYTES: usize = 128 << 10;
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
    /// The Unix socket cannot be bound.
    #[error("cannot listen for the REST API on {path}: {error}")]
    BindLocal {
        /// Path of the socket.
        path: String,
        /// The cause.
        error: io::Error,
    },
}

/// Time limits of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) handshake: Duration,
    pub(crate) head: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { handshake: HANDSHAKE_TIMEOUT, head: HEAD_TIMEOUT }
    }
}

/// A bound server.
pub struct Server {
    listener: Listener,
    local: LocalListener,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    router: Router,
    app: Arc<App>,
    pub(crate) timeouts: Timeouts,
}

impl Server {
    /// Binds the address, and the socket [`SOCKET_FILE`] in `directory`. Must be called within a
    /// tokio runtime.
    pub async fn bind(
        address: SocketAddr,
        directory: &Path,
        identity: &Identity,
        app: Arc<App>,
    ) -> Result<Self, ServeError> {
        let failed = |error| ServeError::Bind(address, error);
        let listener = Listener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let path = directory.join(SOCKET_FILE);
        let local = LocalListener::bind(&path)
            .map_err(|error| ServeError::BindLocal { path: path.display().to_string(), error })?;
        let (acceptor, router) = (TlsAcceptor::from(identity.config()), router(app.clone()));
        Ok(Self { listener, local, address: bound, acceptor, router, app, timeouts: Timeouts::default() })
    }

    /// Returns the bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is true or its sender is dropped. Requests in progress are finished.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let (network, local) = (Arc::<ConnectionSlots>::default(), Arc::<ConnectionSlots>::default());
        let serving = Serving { router: self.router, timeouts: self.timeouts, stop: stop.clone() };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = accept_network(&self.listener, &self.acceptor, &serving, &network) => {}
            () = accept_local(&self.local, &serving, &local) => {}
        }
        drop((self.listener, self.local));
        self.app.changes.close();
        let all_ended = async {
            network.wait_empty().await;
            local.wait_empty().await;
        };
        if tokio::time::timeout(STOP_TIMEOUT, all_ended).await.is_err() {
            tracing::warn!("API requests aborted: not finished in time");
        }
    }
}

async fn accept_network(listener: &Listener, acceptor: &TlsAcceptor, serving: &Serving, slots: &Arc<ConnectionSlots>) {
    let log_limit = LogLimit::default();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let slot = slots.accept(Source::network(peer.ip()));
                let (acceptor, serving) = (acceptor.clone(), serving.clone());
                tokio::spawn(until_evicted(slot.clone(), async move {
                    let stream = handshake(stream, &acceptor, serving.timeouts.handshake).await?;
                    serving.serve(stream, slot).await
                }));
            }
            Err(error) => pause(&error, &log_limit).await,
        }
    }
}

async fn accept_local(listener: &LocalListener, serving: &Serving, slots: &Arc<ConnectionSlots>) {
    let log_limit = LogLimit::default();
    loop {
        match listener.accept().await {
            Ok((stream, user)) if user.is_owner_or_root() => {
                let slot = slots.accept(Source::Local(user));
                tokio::spawn(until_evicted(slot.clone(), serving.clone().serve(stream, slot)));
            }
            Ok((_, user)) => {
                if let Some(withheld) = log_limit.admit(platform::clock::now()) {
                    tracing::warn!(user = user.0, withheld, "local connection refused: other user");
                }
            }
            Err(error) => pause(&error, &log_limit).await,
        }
    }
}

async fn pause(error: &io::Error, log_limit: &LogLimit) {
    if let Some(withheld) = log_limit.admit(platform::clock::now()) {
        tracing::warn!(withheld, "accept failed: {error}");
    }
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

type ConnectionError = Box<dyn std::error::Error + Send + Sync>;

async fn handshake(
    stream: Stream,
    acceptor: &TlsAcceptor,
    timeout: Duration,
) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + 'static, ConnectionError> {
    Ok(tokio::time::timeout(timeout, acceptor.accept(stream)).await??)
}

/// Serves a connection until it ends or has to give way to another.
async fn until_evicted(slot: Arc<ConnectionSlot>, connection: impl Future<Output = Result<(), ConnectionError>>) {
    let outcome = tokio::select! {
        () = slot.evicted() => Err("too many connections without a session".into()),
        outcome = connection => outcome,
    };
    if let Err(error) = outcome {
        tracing::debug!(peer = %slot.source(), "connection failed: {error}");
    }
}

/// The parts that all connections share.
#[derive(Clone)]
struct Serving {
    router: Router,
    timeouts: Timeouts,
    stop: watch::Receiver<bool>,
}

impl Serving {
    async fn serve<S>(mut self, stream: S, slot: Arc<ConnectionSlot>) -> Result<(), ConnectionError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = http1::Builder::new();
        // The time of a head begins before its first byte.
        builder.timer(TokioTimer::new()).header_read_timeout(self.timeouts.head).max_buf_size(MAX_HEAD_BYTES);
        let service = TowerToHyperService::new(self.router.layer(Extension(slot)));
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        tokio::select! {
            done = connection.as_mut() => return Ok(done?),
            _ = self.stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
        }
        Ok(connection.await?)
    }
}
