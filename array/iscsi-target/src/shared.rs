//! What all connections share.

use crate::config::Config;
use crate::nexus::registry::Registry;
use crate::unit::logical_unit::Units;
use crate::unit::thresholds::SpaceBell;
use catalog::{Catalog, LunMap};
use engine::Service;
use iscsi::target_connection::{SendTargets, TargetRecord};
use parking_lot::Mutex;
use platform::LogLimit;
use scsi::inquiry::Port;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use tokio::sync::watch;

/// The relative identifier of the one target port.
pub(crate) const RELATIVE_PORT: u16 = 1;
/// The target portal group that all portals belong to, and the one target port they make.
pub(crate) const PORTAL_GROUP: u16 = 1;

pub(crate) struct Shared {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) config: Config,
    pub(crate) units: Units,
    pub(crate) registry: Arc<Registry>,
    pub(crate) space_bell: SpaceBell,
    /// The watcher of thresholds runs.
    pub(crate) is_watched: AtomicBool,
    /// Lines about connections that broke the rules.
    pub(crate) complaints: LogLimit,
    /// The catalogue's version, to be read without a lock.
    pub(crate) catalog_version: AtomicU64,
    /// The addresses that are listened on.
    pub(crate) portals: Mutex<Vec<SocketAddr>>,
    /// True when the target is being shut down.
    pub(crate) stop: watch::Sender<bool>,
    next_tsih: AtomicU16,
}

impl Shared {
    pub(crate) fn new(service: Arc<dyn Service>, catalog: Arc<Catalog>, config: Config) -> Arc<Self> {
        let shared = Arc::new(Self {
            units: Units::new(service.clone(), catalog.clone()),
            registry: Arc::default(),
            space_bell: SpaceBell::default(),
            is_watched: AtomicBool::new(false),
            complaints: LogLimit::default(),
            catalog_version: AtomicU64::new(catalog.version()),
            portals: Mutex::default(),
            stop: watch::Sender::new(false),
            next_tsih: AtomicU16::new(0),
            service,
            catalog,
            config,
        });
        let watcher = Arc::downgrade(&shared);
        shared.catalog.subscribe(Arc::new(move |version| {
            if let Some(shared) = watcher.upgrade() {
                shared.catalog_version.fetch_max(version, Ordering::AcqRel);
                shared.space_bell.ring();
            }
        }));
        shared
    }

    /// What an initiator sees: nothing, when its host is gone.
    pub(crate) fn lun_map(&self, initiator: &str) -> Arc<LunMap> {
        self.catalog.lun_map(initiator).unwrap_or_default()
    }

    /// A session handle; zero is none (RFC 7143 11.12.6).
    pub(crate) fn next_tsih(&self) -> u16 {
        loop {
            let tsih = self.next_tsih.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            if tsih != 0 {
                return tsih;
            }
        }
    }

    /// The port through which commands come.
    pub(crate) fn port(&self) -> Port {
        Port { relative: RELATIVE_PORT, group: 1, target_name: self.catalog.target_iqn(), portal_group: PORTAL_GROUP }
    }

    /// The answer to SendTargets on a connection that came to `local`. A portal on all addresses is told by the address
    /// that this initiator has reached.
    pub(crate) fn targets(&self, scope: &SendTargets, local: SocketAddr) -> Vec<TargetRecord> {
        let name = self.catalog.target_iqn();
        if matches!(scope, SendTargets::Named(wanted) if !wanted.eq_ignore_ascii_case(&name)) {
            return Vec::new();
        }
        let reached = |portal: &SocketAddr| match portal.ip().is_unspecified() {
            true => SocketAddr::new(local.ip(), portal.port()),
            false => *portal,
        };
        let mut addresses: Vec<String> =
            self.portals.lock().iter().map(|portal| format!("{},{PORTAL_GROUP}", reached(portal))).collect();
        addresses.dedup();
        vec![TargetRecord { name, addresses }]
    }
}
