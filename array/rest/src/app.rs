//! The state that all request handlers share.

use crate::alerts::AlertBook;
use crate::limiter::LoginLimiter;
use crate::session::Sessions;
use crate::space::SpaceBook;
use catalog::Catalog;
use engine::Service;
use std::net::SocketAddr;
use std::sync::Arc;

/// Grows the array to a total capacity in bytes. The error is a text for the administrator.
pub type Growth = Box<dyn Fn(u64) -> Result<(), String> + Send + Sync>;

/// The state that all request handlers share.
pub struct App {
    /// The catalog that requests read and change.
    pub(crate) catalog: Arc<Catalog>,
    /// The engine, for space, health and scrubs.
    pub(crate) engine: Arc<dyn Service>,
    /// The iSCSI portals.
    pub(crate) portals: Vec<SocketAddr>,
    /// The version of the program.
    pub(crate) version: &'static str,
    /// Grows the array.
    pub(crate) growth: Growth,
    pub(crate) spaces: SpaceBook,
    pub(crate) alerts: AlertBook,
    pub(crate) sessions: Sessions,
    pub(crate) limiter: LoginLimiter,
}

impl App {
    /// Creates the state of an array whose iSCSI target listens on `portals`.
    pub fn new(
        catalog: Arc<Catalog>,
        engine: Arc<dyn Service>,
        portals: Vec<SocketAddr>,
        version: &'static str,
        growth: Growth,
    ) -> Arc<Self> {
        let (spaces, alerts) = (SpaceBook::default(), AlertBook::default());
        let (sessions, limiter) = (Sessions::default(), LoginLimiter::default());
        Arc::new(Self { catalog, engine, portals, version, growth, spaces, alerts, sessions, limiter })
    }
}
