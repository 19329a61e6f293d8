//! State that all connections share.

use crate::config::TargetConfig;
use crate::data_pool::DataPool;
use crate::displaced::DisplacedCommands;
use crate::login_limit::LoginLimit;
use crate::nexus::registry::SessionRegistry;
use crate::pod_ports::PodPorts;
use crate::portals::{PortalTag, Portals};
use crate::slots::ConnectionSlots;
use crate::unit::logical_unit::LogicalUnits;
use crate::unit::thresholds::ThresholdNotify;
use crate::wire_memory::WireBudget;
use catalog::{Catalog, HostId, LunMap};
use engine::Service;
use iscsi::target_connection::{SendTargets, TargetRecord};
use platform::LogLimit;
use scsi::inquiry::TargetPort;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use telemetry::{ActivityRegistry, SessionTable};
use tokio::sync::watch;

pub(crate) struct Shared {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) config: TargetConfig,
    pub(crate) units: LogicalUnits,
    pub(crate) activity: Arc<ActivityRegistry>,
    pub(crate) session_table: Arc<SessionTable>,
    pub(crate) slots: Arc<ConnectionSlots>,
    pub(crate) login_limit: LoginLimit,
    pub(crate) data_pool: Arc<DataPool>,
    pub(crate) displaced: Arc<DisplacedCommands>,
    pub(crate) wire_budget: Arc<WireBudget>,
    pub(crate) registry: Arc<SessionRegistry>,
    pub(crate) threshold_notify: ThresholdNotify,
    /// True once the threshold watch runs.
    pub(crate) is_watched: AtomicBool,
    /// Limits the log lines about failed connections.
    pub(crate) log_limit: LogLimit,
    /// The version of the catalog. Sessions read it without a lock.
    pub(crate) catalog_version: AtomicU64,
    pub(crate) portals: Portals,
    /// True once the target shuts down.
    pub(crate) stop: watch::Sender<bool>,
    next_tsih: AtomicU16,
}

impl Shared {
    pub(crate) fn new(service: Arc<dyn Service>, catalog: Arc<Catalog>, config: TargetConfig) -> Arc<Self> {
        let shared = Arc::new(Self {
            units: LogicalUnits::new(service.clone(), catalog.clone()),
            activity: Arc::default(),
            session_table: Arc::default(),
            slots: ConnectionSlots::new(&config),
            login_limit: LoginLimit::default(),
            data_pool: DataPool::new(service.clone()),
            displaced: DisplacedCommands::new(catalog.clone()),
            wire_budget: WireBudget::new(config.wire_bytes),
            registry: Arc::default(),
            threshold_notify: ThresholdNotify::default(),
            is_watched: AtomicBool::new(false),
            log_limit: LogLimit::default(),
            catalog_version: AtomicU64::new(catalog.version()),
            portals: Portals::new(catalog.array().number),
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
                shared.threshold_notify.request_check();
            }
        }));
        shared
    }

    /// Sets the pods that two arrays serve, and follows the states of their ports.
    pub(crate) fn set_pod_ports(self: &Arc<Self>, ports: Arc<dyn PodPorts>) {
        self.units.set_pod_ports(ports.clone());
        let shared = Arc::downgrade(self);
        ports.subscribe(Arc::new(move || {
            if let Some(shared) = shared.upgrade() {
                shared.units.follow_all_ports();
            }
        }));
    }

    /// Returns the LUN map of an initiator. It is empty if the initiator belongs to no host.
    pub(crate) fn lun_map(&self, initiator: &str) -> Arc<LunMap> {
        self.catalog.lun_map(initiator).unwrap_or_default()
    }

    /// Returns the host of an initiator, for which limits count. A host that was deleted during the
    /// login is that of id 0.
    pub(crate) fn host_of(&self, initiator: &str) -> HostId {
        self.catalog.state().host_of_initiator(initiator).map_or(HostId(0), |host| host.id)
    }

    /// Returns a new session handle. Zero is reserved (RFC 7143 11.12.6).
    pub(crate) fn next_tsih(&self) -> u16 {
        loop {
            let tsih = self.next_tsih.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            if tsih != 0 {
                return tsih;
            }
        }
    }

    /// Returns the target port of a portal.
    pub(crate) fn port(&self, portal: PortalTag) -> TargetPort {
        self.portals.port(portal, self.catalog.target_iqn())
    }

    /// Returns the answer to SendTargets on a connection to `local`.
    pub(crate) fn targets(&self, scope: &SendTargets, local: SocketAddr) -> Vec<TargetRecord> {
        let name = self.catalog.target_iqn();
        if matches!(scope, SendTargets::Named(wanted) if !wanted.eq_ignore_ascii_case(&name)) {
            return Vec::new();
        }
        vec![TargetRecord { name, addresses: self.portals.target_addresses(local) }]
    }
}
