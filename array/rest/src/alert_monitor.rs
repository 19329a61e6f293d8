//! Alerts: conditions that need an administrator, such as low space or damaged data.

use crate::alert_condition::{Code, Condition};
use crate::clock_watch::ClockWatch;
use crate::delivery::Delivery;
use crate::pod_alerts::pod_conditions;
use crate::pod_control::PodView;
use api::Alert;
use catalog::{Catalog, Pod, VolumeOrSnapshot};
use engine::{Health, Maintenance, PoolSpace};
use link::{LinkConnection, LinkStatus};
use notify::Event;
use parking_lot::Mutex;
use platform::{LogLimit, clock};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use types::format_capacity;

/// Pool usage at which a warning opens.
const WARNING_PERCENT: u64 = 80;
/// Pool usage at which the alert becomes critical.
const CRITICAL_PERCENT: u64 = 90;
/// Time without a link until the alert, in milliseconds. A restart of the other array takes less.
const LINK_GRACE_MS: u64 = 3000;
/// Number of closed alerts that are kept.
const MAX_CLOSED: usize = 1000;

/// Evaluates the conditions of an array, and keeps its alerts since it started.
pub(crate) struct AlertMonitor {
    catalog: Arc<Catalog>,
    engine: Arc<dyn Maintenance>,
    alerts: Mutex<Alerts>,
    delivery: Arc<Delivery>,
    clocks: Mutex<ClockWatch>,
    /// Limits the log lines about clock jumps that cannot be stored.
    clock_log: LogLimit,
}

#[derive(Default)]
struct Alerts {
    last: u64,
    /// Number of changes of the lists below.
    revision: u64,
    open: BTreeMap<(Code, String), Alert>,
    closed: VecDeque<Alert>,
    /// Changes that are not delivered yet.
    changes: Vec<(Event, Alert)>,
}

impl AlertMonitor {
    pub(crate) fn new(catalog: Arc<Catalog>, engine: Arc<dyn Maintenance>, delivery: Arc<Delivery>) -> Self {
        let clocks = Mutex::new(ClockWatch::resume(catalog.array().clock_jump));
        Self { catalog, engine, alerts: Mutex::default(), delivery, clocks, clock_log: LogLimit::default() }
    }

    /// Opens alerts for new conditions, closes those that are over, and logs the new ones. Puts all
    /// changes in the queues of their destinations.
    pub(crate) fn update(&self, links: &[LinkConnection], pods: &[(Arc<Pod>, PodView)]) {
        let now_ms = clock::unix_millis();
        let mut conditions = self.conditions(links);
        conditions.extend(pods.iter().flat_map(|(pod, view)| pod_conditions(pod, view, now_ms)));
        let new = {
            let mut alerts = self.alerts.lock();
            let new = alerts.update(conditions, now_ms);
            // Under the lock, so that two updates keep the order of their changes.
            self.delivery.offer(&self.catalog.state(), std::mem::take(&mut alerts.changes), now_ms);
            new
        };
        for alert in new {
            tracing::warn!(severity = alert.severity, component = alert.component_name, "alert: {}", alert.summary);
        }
    }

    /// Returns a number that changes whenever an alert does.
    pub(crate) fn revision(&self) -> u64 {
        self.alerts.lock().revision
    }

    /// Records that a destination has got the alert.
    pub(crate) fn mark_notified(&self, id: &str, now_ms: u64) {
        let mut alerts = self.alerts.lock();
        let Alerts { open, closed, revision, .. } = &mut *alerts;
        let known = open.values_mut().chain(closed).find(|alert| alert.id == id);
        if let Some(alert) = known.filter(|alert| alert.notified.is_none()) {
            alert.notified = Some(now_ms);
            *revision += 1;
        }
    }

    /// Returns all alerts, closed ones first.
    pub(crate) fn all(&self) -> Vec<Alert> {
        let alerts = self.alerts.lock();
        alerts.closed.iter().chain(alerts.open.values()).cloned().collect()
    }

    fn conditions(&self, links: &[LinkConnection]) -> Vec<Condition> {
        let mut found = Vec::new();
        let pool = self.engine.space();
        let health = self.engine.health();
        let array = self.catalog.array().name.clone();
        found.extend(self.pool_fills(&pool, health.refusing_since.is_some()));
        found.extend(backing_full(&pool, &array));
        found.extend(engine_stopped(&health, &array));
        found.extend(hung_io(&health, &array));
        found.extend(writes_refused(&pool, &health, &array));
        found.extend(self.clock_jump(clock::unix_millis()));
        found.extend(links_lost(links, clock::unix_millis()));
        let state = self.catalog.state();
        let with_threshold = state.volumes().filter(|volume| volume.destroyed_ms.is_none());
        for (volume, threshold) in with_threshold.filter_map(|volume| Some((volume, volume.threshold_percent?))) {
            let written = self.engine.volume_space(volume.content()).unwrap_or_default().written;
            let percent = percent(written, volume.bytes);
            if percent >= u64::from(threshold) {
                found.push(Condition {
                    code: Code::VolumeFills,
                    component: volume.name.clone(),
                    severity: "warning",
                    summary: format!("volume {} is {percent} % written", volume.name),
                    description: "Increase the volume size, or unmap unused blocks on its hosts.",
                    actual: Some(format!("{percent} %")),
                    expected: Some(format!("below {threshold} %")),
                    since: None,
                });
            }
        }
        found.extend(health.log_loss.as_ref().map(|loss| Condition {
            code: Code::LogLoss,
            component: array.clone(),
            severity: "critical",
            summary: loss.to_string(),
            description: "The array was started with --accept-log-loss. Check the volumes that the log listed at that \
                          start, and restore them from snapshots or backups. A copy of the log is in the array's \
                          directory.",
            actual: None,
            expected: None,
            since: None,
        }));
        found.extend(read_only(&health, &array));
        found.extend(audit_postponed(&health, &array));
        found.extend(state.hosts().filter(|host| host.is_locked()).map(|host| Condition {
            code: Code::LockedSecrets,
            component: host.name.clone(),
            severity: "critical",
            summary: format!("CHAP secrets of host {} cannot be read: the key is missing", host.name),
            description: "The host cannot log in. Add the line of the former key to the file secrets.key in the array's \
                          directory and restart, or set new secrets (ibid host set).",
            actual: None,
            expected: None,
            since: None,
        }));
        found.extend(self.damage().map(|(name, damage)| Condition {
            code: Code::Damage,
            summary: format!("damaged: {damage}"),
            component: name.unwrap_or(damage),
            severity: "critical",
            description: "Reads of the damaged blocks return MEDIUM ERROR. Overwrite them, or restore the volume from a \
                          snapshot or a backup; then run a scrub (ibid scrub start) to verify.",
            actual: None,
            expected: None,
            since: None,
        }));
        found
    }

    /// Describes the known damage, each with the name of its volume or snapshot, if any. Damage of
    /// eradicated volumes is left out.
    pub(crate) fn damage(&self) -> impl Iterator<Item = (Option<String>, String)> {
        let state = self.catalog.state();
        self.engine.health().damage.into_iter().filter_map(move |damage| match damage.volume {
            Some(id) => {
                let object = state.volume_or_snapshot_of(id)?;
                let name = state.volume_or_snapshot_name(&object);
                let kind = if matches!(object, VolumeOrSnapshot::Volume(_)) { "volume" } else { "snapshot" };
                let what = format!("{kind} {name}: {}", damage.description);
                Some((Some(name), what))
            }
            None => Some((None, damage.description)),
        })
    }

    /// The wall clock was set. The alert stays until the clock is set right, or until the jump has
    /// no effect on eradication any more. The jump is stored, so that the alert survives a restart.
    fn clock_jump(&self, wall_ms: u64) -> Option<Condition> {
        let array = self.catalog.array();
        let mut clocks = self.clocks.lock();
        let jump = clocks.observe(wall_ms, self.catalog.served_ms(), array.settings.eradication_delay_ms);
        if jump != array.clock_jump
            && let Err(error) = self.catalog.change(|draft| draft.record_clock_jump(jump))
            && let Some(withheld) = self.clock_log.admit(clock::now())
        {
            tracing::warn!(withheld, "clock jump not stored: {error}");
        }
        drop(clocks);
        let ahead_ms = jump?.ahead_ms;
        let direction = if ahead_ms > 0 { "forward" } else { "back" };
        Some(Condition {
            code: Code::ClockJump,
            component: array.name.clone(),
            severity: "warning",
            summary: format!("clock was set {direction} by {} s", ahead_ms.unsigned_abs() / 1000),
            description: "Destroyed objects are eradicated only when the eradication delay has passed by the clock and as \
                          time served, so a wrong clock eradicates nothing too early. Check the clock and its source \
                          (NTP); the alert closes when the clock is right again, or after the delay.",
            actual: None,
            expected: None,
            since: None,
        })
    }

    fn pool_fills(&self, pool: &PoolSpace, is_refusing: bool) -> Option<Condition> {
        let percent = percent(pool.used, pool.capacity);
        let threshold = self.catalog.array().settings.threshold_percent.map_or(WARNING_PERCENT, u64::from);
        let expected = threshold.min(WARNING_PERCENT);
        (percent >= expected).then(|| Condition {
            code: Code::PoolFills,
            component: self.catalog.array().name.clone(),
            severity: if percent >= CRITICAL_PERCENT { "critical" } else { "warning" },
            summary: match is_refusing {
                false => format!("array is {percent} % full: {} free", format_capacity(pool.free())),
                true => format!("array is full: {percent} % used, no space for new data"),
            },
            description: "Grow the array (ibid array grow), eradicate destroyed volumes, or unmap unused blocks on the hosts.",
            actual: Some(format!("{percent} %")),
            expected: Some(format!("below {expected} %")),
            since: None,
        })
    }

    /// Returns the state of the array: `stopped`, `read-only`, `degraded` while a critical alert is
    /// open, or `ok`.
    pub(crate) fn status(&self) -> &'static str {
        let health = self.engine.health();
        if health.stopped.is_some() {
            return "stopped";
        }
        if health.salvage.is_some() {
            return "read-only";
        }
        let is_critical = |alert: &Alert| alert.severity == "critical";
        if self.alerts.lock().open.values().any(is_critical) { "degraded" } else { "ok" }
    }
}

/// The engine has stopped after an error of the drive.
fn engine_stopped(health: &Health, array: &str) -> Option<Condition> {
    health.stopped.as_ref().map(|reason| Condition {
        code: Code::EngineStopped,
        component: array.to_owned(),
        severity: "critical",
        summary: format!("engine stopped: {reason}"),
        description: "Writes are refused (NOT READY); reads of intact data are served. All acknowledged data is on the drive. \
                      Check the drive and the system log. The program ends by itself (--exit-after-failure) and recovers \
                      everything at its next start.",
        actual: None,
        expected: None,
        since: None,
    })
}

/// The array was started with `--salvage`.
fn read_only(health: &Health, array: &str) -> Option<Condition> {
    health.salvage.as_ref().map(|lost| Condition {
        code: Code::Salvage,
        component: array.to_owned(),
        severity: "critical",
        summary: format!("array is read-only: {lost}"),
        description: "The array was started with --salvage. Copy what is readable, then stop the array and run \
                      ibid fsck --salvage. Changes of hosts and settings are lost when it stops.",
        actual: None,
        expected: None,
        since: None,
    })
}

/// A scrub lacks its audit of counts.
fn audit_postponed(health: &Health, array: &str) -> Option<Condition> {
    health.audit_postponed_since.map(|since| Condition {
        code: Code::AuditPostponed,
        component: array.to_owned(),
        severity: "warning",
        summary: "scrub not complete: audit of counts postponed, because hosts need the space that it reads".to_owned(),
        description: "The scrub has verified the stored data. The array repeats the audit by itself, every 10 minutes, until \
                      it completes. Grow the array (ibid array grow), or unmap unused blocks on the hosts.",
        actual: None,
        expected: None,
        since: Some(since),
    })
}

/// I/Os of the drive do not end.
fn hung_io(health: &Health, array: &str) -> Option<Condition> {
    let oldest = health.hung_ios.iter().max_by_key(|io| io.seconds)?;
    let more = health.hung_ios.len() - 1;
    let more = if more == 0 { String::new() } else { format!(", and {more} more") };
    let (operation, bytes, offset) = (oldest.operation, oldest.bytes, oldest.offset);
    Some(Condition {
        code: Code::HungIo,
        component: array.to_owned(),
        severity: "critical",
        summary: format!("drive does not answer: {operation} of {bytes} bytes at byte {offset}{more}"),
        description: "Host commands that need the drive wait for it. Check the drive, its cables and the system log. If it does \
                      not answer again, stop the program: acknowledged data is recovered at the next start.",
        actual: Some(format!("{} s", oldest.seconds)),
        expected: Some("below 30 s".to_owned()),
        since: None,
    })
}

/// Links to other arrays are down.
fn links_lost(links: &[LinkConnection], now_ms: u64) -> impl Iterator<Item = Condition> {
    let is_lost = move |link: &&LinkConnection| {
        link.status != LinkStatus::Connected && now_ms.saturating_sub(link.since_ms) >= LINK_GRACE_MS
    };
    links.iter().filter(is_lost).map(|link| Condition {
        code: Code::LinkLost,
        component: link.name.clone(),
        severity: "warning",
        summary: format!("link to array {} is down: {}", link.name, link.problem.as_deref().unwrap_or("no session")),
        description: "Check the network, and that the other array runs (ibid array connections). The link is made again \
                      by itself; the alert closes then.",
        actual: None,
        expected: None,
        since: Some(link.since_ms),
    })
}

/// Host writes are refused for lack of space.
fn writes_refused(pool: &PoolSpace, health: &Health, array: &str) -> Option<Condition> {
    health.refusing_since.map(|since| Condition {
        code: Code::WritesRefused,
        component: array.to_owned(),
        severity: "critical",
        summary: "host writes are refused: no space for new data".to_owned(),
        description: "The remaining space is reserved for metadata and for freeing space. Grow the array (ibid array grow), \
                      eradicate destroyed volumes, or unmap unused blocks on the hosts; writes then continue by themselves.",
        actual: Some(format!("{} free, all of it reserved", format_capacity(pool.free()))),
        expected: None,
        since: Some(since),
    })
}

/// The file system that stores the array is full although the pool has free space. Host writes stop
/// before the pool is full.
fn backing_full(pool: &PoolSpace, array: &str) -> Option<Condition> {
    pool.backing_fs_full.then(|| Condition {
        code: Code::BackingFull,
        component: array.to_owned(),
        severity: "critical",
        summary: format!(
            "file system of the array is full, although the array has {} free",
            format_capacity(pool.free())
        ),
        description: "Host writes are refused until space is available, then continue. Free space on that file system: the array \
                      needs as much as its capacity.",
        actual: None,
        expected: None,
        since: None,
    })
}

impl Alerts {
    /// Applies the current conditions. Returns the alerts that are new or became critical.
    fn update(&mut self, conditions: Vec<Condition>, now_ms: u64) -> Vec<Alert> {
        let mut new = Vec::new();
        let mut present = BTreeSet::new();
        for condition in conditions {
            let key = (condition.code, condition.component.clone());
            if !present.insert(key.clone()) {
                // For example, a scrub and a read found damage of the same volume.
                continue;
            }
            match self.open.get_mut(&key) {
                Some(known) => {
                    let is_worse = known.severity != condition.severity && condition.severity == "critical";
                    if known.summary != condition.summary || known.severity != condition.severity {
                        (known.summary, known.issue) = (condition.summary.clone(), condition.summary);
                        (known.actual, known.expected) = (condition.actual, condition.expected);
                        known.severity = condition.severity.to_owned();
                        known.updated = now_ms;
                        self.revision += 1;
                    }
                    if is_worse {
                        self.changes.push((Event::Worsened, known.clone()));
                        new.push(known.clone());
                    }
                }
                None => {
                    self.last += 1;
                    self.revision += 1;
                    let alert = opened(self.last, condition, now_ms);
                    new.push(alert.clone());
                    self.changes.push((Event::Opened, alert.clone()));
                    self.open.insert(key, alert);
                }
            }
        }
        let over: Vec<_> = self.open.keys().filter(|key| !present.contains(*key)).cloned().collect();
        for mut alert in over.iter().filter_map(|key| self.open.remove(key)) {
            alert.state = "closed".to_owned();
            self.revision += 1;
            (alert.closed, alert.updated, alert.flagged) = (Some(now_ms), now_ms, false);
            self.changes.push((Event::Closed, alert.clone()));
            self.closed.push_back(alert);
        }
        let surplus = self.closed.len().saturating_sub(MAX_CLOSED);
        self.closed.drain(..surplus);
        new
    }
}

fn opened(number: u64, condition: Condition, now_ms: u64) -> Alert {
    let component_type = match condition.code {
        Code::PoolFills
        | Code::BackingFull
        | Code::ClockJump
        | Code::EngineStopped
        | Code::WritesRefused
        | Code::AuditPostponed
        | Code::LinkLost
        | Code::Salvage => "array",
        Code::VolumeFills => "volume",
        Code::Damage | Code::LogLoss | Code::HungIo => "storage",
        Code::LockedSecrets => "host",
        Code::PodAlone
        | Code::PodNotServed
        | Code::PodMediatorLost
        | Code::PodRefused
        | Code::PodFullResync
        | Code::PodDiverged
        | Code::PodFull
        | Code::PodDifferent => "pod",
    };
    Alert {
        id: number.to_string(),
        name: number.to_string(),
        actual: condition.actual,
        category: "array".to_owned(),
        closed: None,
        code: condition.code as u64,
        component_name: condition.component,
        component_type: component_type.to_owned(),
        created: condition.since.unwrap_or(now_ms),
        description: condition.description.to_owned(),
        expected: condition.expected,
        flagged: true,
        issue: condition.summary.clone(),
        knowledge_base_url: None,
        notified: None,
        severity: condition.severity.to_owned(),
        state: "open".to_owned(),
        summary: condition.summary,
        updated: now_ms,
    }
}

fn percent(of: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(of) * 100 / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SlowIo;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn condition(code: Code, component: &str, severity: &'static str, summary: &str) -> Condition {
        let (component, summary) = (component.to_owned(), summary.to_owned());
        Condition { code, component, severity, summary, description: "", actual: None, expected: None, since: None }
    }

    #[test]
    fn alert_is_reported_when_opened_and_when_critical() {
        let mut alerts = Alerts::default();
        let mut reported = |conditions: Vec<Condition>, at: u64| -> Vec<String> {
            alerts.update(conditions, at).into_iter().map(|alert| alert.summary).collect()
        };
        let pool = |severity, summary| condition(Code::PoolFills, "array", severity, summary);
        assert_eq!(reported(vec![pool("warning", "80 %")], 1), ["80 %"]);
        assert_eq!(reported(vec![pool("warning", "85 %")], 2), Vec::<String>::new());
        let damage = condition(Code::Damage, "segment 7", "critical", "damaged: segment 7");
        assert_eq!(reported(vec![pool("critical", "90 %"), damage], 3), ["90 %", "damaged: segment 7"]);
        assert_eq!(reported(vec![pool("warning", "89 %")], 4), Vec::<String>::new());
        let open: Vec<_> = alerts.open.values().collect();
        assert_eq!((open.len(), open[0].created, open[0].updated, open[0].id.as_str()), (1, 1, 4, "1"));
        let closed = &alerts.closed[0];
        assert_eq!((closed.code, closed.closed, closed.state.as_str()), (3, Some(4), "closed"));
    }

    #[test]
    fn closed_alerts_are_bounded() {
        let mut alerts = Alerts::default();
        for at in 0..MAX_CLOSED as u64 + 10 {
            alerts.update(vec![condition(Code::Damage, &at.to_string(), "critical", "")], at);
        }
        alerts.update(Vec::new(), 9999);
        assert_eq!((alerts.open.len(), alerts.closed.len()), (0, MAX_CLOSED));
        assert_eq!(alerts.closed[0].component_name, "10");
    }

    #[test]
    fn failures_of_the_drive_raise_critical_alerts() {
        let io = |seconds| SlowIo { operation: "flush", offset: 0, bytes: 4096, seconds };
        let health =
            Health { stopped: Some("input/output error".into()), hung_ios: vec![io(31), io(40)], ..Health::default() };
        let mut alerts = Alerts::default();
        let conditions = |health: &Health| {
            let (stopped, hung) = (engine_stopped(health, "a"), hung_io(health, "a"));
            stopped.into_iter().chain(hung).collect::<Vec<_>>()
        };
        let new = alerts.update(conditions(&health), 1);
        assert!(new.iter().all(|alert| alert.severity == "critical"));
        let summaries: Vec<&str> = new.iter().map(|alert| alert.summary.as_str()).collect();
        let hung = "drive does not answer: flush of 4096 bytes at byte 0, and 1 more";
        assert_eq!(summaries, ["engine stopped: input/output error", hung]);
        assert_eq!(new[1].actual.as_deref(), Some("40 s"));
        assert!(alerts.update(conditions(&Health::default()), 2).is_empty() && alerts.open.is_empty());
    }

    #[test]
    fn clock_alert_survives_a_restart() {
        let service: Arc<dyn engine::Service> = Arc::new(engine::model::ModelEngine::default());
        let init = catalog::ArrayInit { name: "a".into(), number: 1, identity: [1; 16], now_ms: 0 };
        let (wall_ms, delay) = (1_795_305_599_000, catalog::ERADICATION_DELAY_MS);
        let served = Arc::new(AtomicU64::new(0));
        let start = || {
            let uptime = served.clone();
            let opened = Catalog::open(service.clone(), &init).unwrap();
            let opened = Arc::new(opened.with_uptime(Arc::new(move || uptime.load(Ordering::Relaxed))));
            AlertMonitor::new(opened, service.clone(), Arc::default())
        };
        let summary = |monitor: &AlertMonitor, wall_ms| monitor.clock_jump(wall_ms).map(|condition| condition.summary);
        let forward = Some("clock was set forward by 7200 s".to_owned());
        let monitor = start();
        assert_eq!(summary(&monitor, wall_ms), None);
        assert_eq!(summary(&monitor, wall_ms + 7_200_000), forward);
        let monitor = start();
        assert_eq!(summary(&monitor, wall_ms + 9_000_000), forward);
        served.store(delay, Ordering::Relaxed);
        assert_eq!(summary(&monitor, wall_ms + 9_000_000 + delay), None);
        assert_eq!(summary(&start(), wall_ms + 9_000_000 + delay), None, "its end is stored as well");
    }

    #[test]
    fn lost_link_raises_an_alert_until_it_is_back() {
        let link = |status, since_ms| LinkConnection {
            array: String::new(),
            name: "beta".to_owned(),
            status,
            since_ms,
            problem: Some("silent for 1 s".to_owned()),
            address: None,
            ends: None,
            version: None,
            rtt: None,
            clock_ahead_ms: None,
            sent_bytes: 0,
            received_bytes: 0,
            sessions: 1,
            distance: link::Distance::default(),
            certificate: String::new(),
        };
        let mut alerts = Alerts::default();
        let mut look = |status, now_ms| alerts.update(links_lost(&[link(status, 1000)], now_ms).collect(), now_ms);
        assert!(look(LinkStatus::Connecting, 3999).is_empty(), "a restart raises none");
        let new = look(LinkStatus::PartlyConnected, 4000);
        assert_eq!((new[0].created, new[0].code, new[0].component_name.as_str()), (1000, 16, "beta"));
        assert_eq!(new[0].summary, "link to array beta is down: silent for 1 s");
        assert!(look(LinkStatus::Connected, 9000).is_empty());
        assert_eq!(alerts.closed[0].closed, Some(9000));
    }

    #[test]
    fn refused_writes_raise_an_alert_with_their_start() {
        let pool = PoolSpace { capacity: 2 << 30, used: 15 << 27, ..PoolSpace::default() };
        let refusing = |since| Health { refusing_since: since, ..Health::default() };
        let mut alerts = Alerts::default();
        let mut look =
            |since, at| alerts.update(writes_refused(&pool, &refusing(since), "a").into_iter().collect(), at);
        assert!(look(None, 1).is_empty());
        let new = look(Some(1500), 2000);
        assert_eq!((new[0].created, new[0].severity.as_str()), (1500, "critical"));
        assert_eq!(new[0].summary, "host writes are refused: no space for new data");
        assert_eq!(new[0].actual.as_deref(), Some("128MiB free, all of it reserved"));
        assert!(look(Some(1500), 3000).is_empty() && look(None, 4000).is_empty());
        assert_eq!(alerts.closed[0].closed, Some(4000));
    }

    #[test]
    fn postponed_audit_raises_an_alert_until_it_ends() {
        let mut alerts = Alerts::default();
        let mut look = |since, at| {
            let health = Health { audit_postponed_since: since, ..Health::default() };
            alerts.update(audit_postponed(&health, "a").into_iter().collect(), at)
        };
        let new = look(Some(1500), 2000);
        assert_eq!(
            (new[0].created, new[0].severity.as_str(), new[0].component_type.as_str()),
            (1500, "warning", "array")
        );
        assert!(new[0].summary.contains("audit of counts postponed"), "{}", new[0].summary);
        assert!(look(Some(1500), 3000).is_empty() && look(None, 4000).is_empty());
        assert_eq!(alerts.closed[0].closed, Some(4000));
    }

    #[test]
    fn full_backing_file_system_raises_an_alert() {
        let space =
            |backing_fs_full| PoolSpace { capacity: 6 << 30, used: 2 << 30, backing_fs_full, ..PoolSpace::default() };
        let mut alerts = Alerts::default();
        let mut look = |is_full, at| alerts.update(backing_full(&space(is_full), "array-1").into_iter().collect(), at);
        assert!(look(false, 1).is_empty());
        let new = look(true, 2);
        assert_eq!((new[0].severity.as_str(), new[0].component_name.as_str()), ("critical", "array-1"));
        assert_eq!(new[0].summary, "file system of the array is full, although the array has 4GiB free");
        assert!(look(true, 3).is_empty() && look(false, 4).is_empty());
        assert_eq!(alerts.closed[0].closed, Some(4));
    }
}
