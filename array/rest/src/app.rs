//! What the handlers share.

use crate::alerts::AlertBook;
use crate::limiter::LoginLimiter;
use crate::session::Sessions;
use crate::space::SpaceBook;
use catalog::Catalog;
use engine::Service;
use std::net::SocketAddr;
use std::sync::Arc;

/// Makes the array larger: to so many bytes in all. Says in words why it could not.
pub type Growth = Box<dyn Fn(u64) -> Result<(), String> + Send + Sync>;

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
    /// How the array is made larger.
    pub(crate) growth: Growth,
    pub(crate) spaces: SpaceBook,
    pub(crate) alerts: AlertBook,
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
        growth: Growth,
    ) -> Arc<Self> {
        let (spaces, alerts) = (SpaceBook::default(), AlertBook::default());
        let (sessions, limiter) = (Sessions::default(), LoginLimiter::default());
        Arc::new(Self { catalog, engine, portals, version, growth, spaces, alerts, sessions, limiter })
    }
}
