//! What the handlers share.

use crate::limiter::LoginLimiter;
use crate::session::Sessions;
use catalog::Catalog;
use engine::Service;
use std::net::SocketAddr;
use std::sync::Arc;

/// What the handlers share.
pub struct App {
    /// The catalogue that is administered.
    pub(crate) catalog: Arc<Catalog>,
    /// The engine, for what it knows of space.
    pub(crate) engine: Arc<dyn Service>,
    /// The iSCSI portals of the target.
    pub(crate) portals: Vec<SocketAddr>,
    /// The version of the program.
    pub(crate) version: &'static str,
    pub(crate) sessions: Sessions,
    pub(crate) limiter: LoginLimiter,
}

impl App {
    /// For an array whose target listens on `portals`.
    pub fn new(
        catalog: Arc<Catalog>,
        engine: Arc<dyn Service>,
        portals: Vec<SocketAddr>,
        version: &'static str,
    ) -> Arc<Self> {
        let (sessions, limiter) = (Sessions::default(), LoginLimiter::default());
        Arc::new(Self { catalog, engine, portals, version, sessions, limiter })
    }
}
