//! The state that all request handlers share.

use crate::access_token::AccessTokens;
use crate::alert_monitor::AlertMonitor;
use crate::change_feed::{ChangeFeed, ChangeKind};
use crate::change_watch::{Counts, Measured, watch_catalog};
use crate::delivery::Delivery;
use crate::limiter::LoginLimiter;
use crate::measurements::Telemetry;
use crate::pod_control::{PodControl, PodView};
use crate::scrub_schedule::ScrubSchedule;
use crate::session::Sessions;
use crate::space::SpaceAccounting;
use crate::token::MAX_SLOW_VERIFICATIONS;
use catalog::{Catalog, Pod};
use engine::Service;
use link::Links;
use parking_lot::Mutex;
use platform::LogLimit;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use telemetry::Subject;
use tokio::sync::Semaphore;

/// Grows the array to a total capacity in bytes. The error is a text for the administrator.
pub type Growth = Box<dyn Fn(u64) -> Result<(), String> + Send + Sync>;

/// The drive of the array.
pub struct Drive {
    /// Grows the array.
    pub growth: Growth,
    /// The array is encrypted at rest.
    pub is_encrypted: bool,
}

/// The state that all request handlers share.
pub struct App {
    /// The catalog that requests read and change.
    pub(crate) catalog: Arc<Catalog>,
    /// The engine, for space and scrubs.
    pub(crate) engine: Arc<dyn Service>,
    /// The iSCSI portals.
    pub(crate) portals: Vec<SocketAddr>,
    /// The measurements of the iSCSI target.
    pub(crate) telemetry: Telemetry,
    /// The version of the program.
    pub(crate) version: &'static str,
    /// Start of the program, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// Grows the array.
    pub(crate) drive: Drive,
    /// The connections to other arrays.
    pub(crate) links: Arc<Links>,
    /// The pods that two arrays serve.
    pod_control: OnceLock<Arc<dyn PodControl>>,
    pub(crate) space: SpaceAccounting,
    pub(crate) alerts: AlertMonitor,
    /// The queues of notices about alerts.
    pub(crate) delivery: Arc<Delivery>,
    /// The changes that streams of events report.
    pub(crate) changes: Arc<ChangeFeed>,
    /// The measurements that were reported last.
    measured: Mutex<Measured>,
    pub(crate) sessions: Sessions,
    /// The access tokens of API clients.
    pub(crate) access_tokens: AccessTokens,
    pub(crate) limiter: LoginLimiter,
    /// Permits for computing slow hashes of tokens.
    pub(crate) slow_verifications: Arc<Semaphore>,
    /// Limits the log lines about failed logins.
    pub(crate) login_log: LogLimit,
    pub(crate) scrubs: ScrubSchedule,
}

impl App {
    /// Creates the state of an array whose iSCSI target listens on `portals`.
    pub fn new(
        catalog: Arc<Catalog>,
        engine: Arc<dyn Service>,
        portals: Vec<SocketAddr>,
        telemetry: Telemetry,
        version: &'static str,
        drive: Drive,
        links: Arc<Links>,
    ) -> Arc<Self> {
        let space = SpaceAccounting::new(catalog.clone(), engine.clone());
        let delivery = Arc::<Delivery>::default();
        let alerts = AlertMonitor::new(catalog.clone(), engine.clone(), delivery.clone());
        let changes = Arc::<ChangeFeed>::default();
        watch_catalog(&catalog, &changes);
        Arc::new(Self {
            catalog,
            engine,
            portals,
            telemetry,
            version,
            started_ms: platform::clock::unix_millis(),
            drive,
            links,
            pod_control: OnceLock::new(),
            space,
            alerts,
            delivery,
            sessions: Sessions::new(changes.clone()),
            access_tokens: AccessTokens::default(),
            changes,
            measured: Mutex::default(),
            limiter: LoginLimiter::default(),
            slow_verifications: Arc::new(Semaphore::new(MAX_SLOW_VERIFICATIONS)),
            login_log: LogLimit::default(),
            scrubs: ScrubSchedule::default(),
        })
    }

    /// Enables pods on two arrays. Later calls have no effect. Without it, pods are on this array
    /// alone.
    pub fn set_pod_control(&self, control: Arc<dyn PodControl>) {
        // A second one would be a mistake of the program that changes nothing.
        self.pod_control.set(control).ok();
    }

    /// Returns the pods that two arrays serve, if this array supports them.
    pub(crate) fn pod_control(&self) -> Option<&dyn PodControl> {
        self.pod_control.get().map(|control| &**control)
    }

    /// Returns the state of a pod that two arrays serve.
    pub(crate) fn pod_view(&self, pod: &Pod) -> Option<PodView> {
        self.pod_control()?.view(pod)
    }

    /// Returns the pods that two arrays serve, with their states.
    fn pod_views(&self) -> Vec<(Arc<Pod>, PodView)> {
        let state = self.catalog.state();
        state.pods().filter_map(|pod| Some((pod.clone(), self.pod_view(pod)?))).collect()
    }

    /// Reports to streams of events that pods have changed.
    pub(crate) fn note_pods(&self) {
        self.changes.note(&[ChangeKind::Pods]);
    }

    /// Opens alerts for new conditions, closes those that are over, and logs the new ones.
    pub fn update_alerts(&self) {
        self.alerts.update(&self.links.connections(), &self.pod_views());
    }

    /// Starts a scrub if the schedule of the array asks for one.
    pub fn scrub_if_due(&self, now_ms: u64) {
        match self.scrubs.run(&self.catalog, &*self.engine, now_ms) {
            Ok(true) => tracing::info!("scheduled scrub started"),
            Ok(false) => {}
            Err(error) => tracing::warn!("end of scrub not recorded: {error}"),
        }
    }

    /// Reads the performance counters, and reports the measurements that changed. To be called
    /// every [`telemetry::SAMPLE_MS`].
    pub fn read_performance(&self, now_ms: u64) {
        let state = self.catalog.state();
        let host_of = |initiator: &str| state.host_of_initiator(initiator).map(|host| host.id.0);
        let container_of = |volume| {
            let volume = state.volume_by_id(volume)?;
            let pod = state.pod_of_volume(volume).map(|pod| Subject::Pod(pod.id.0));
            pod.or_else(|| state.group_of_volume(volume).map(|group| Subject::VolumeGroup(group.id.0)))
        };
        self.telemetry.monitor.read(now_ms, &host_of, &container_of);
        let space = self.engine.space();
        let counts = Counts {
            alerts: self.alerts.revision(),
            data: (space.changes, space.data),
            counted_ms: self.space.counted_ms(),
        };
        let mut measured = self.measured.lock();
        let mut changed = measured.changes(&self.telemetry, counts);
        changed.extend(measured.pods_changed(&self.pod_views()));
        self.changes.note(&changed);
    }

    /// Counts the space of all volumes and keeps the figures. Blocks: reads all block maps. Returns
    /// false if the engine could not count.
    pub fn count_space(&self) -> bool {
        self.space.count()
    }

    /// Returns whether the last space count is still up to date.
    pub fn is_space_current(&self) -> bool {
        self.space.is_current()
    }
}
