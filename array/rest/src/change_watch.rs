//! Changes for the feed: those of the catalog at once, those of measurements at each reading.

use crate::change_feed::{ChangeFeed, ChangeKind};
use crate::measurements::Telemetry;
use crate::pod_control::PodView;
use catalog::{Catalog, CatalogPart, Pod, PodId};
use parking_lot::Mutex;
use std::sync::Arc;
use telemetry::Subject;

/// Reports each change of the catalog, as long as the catalog exists.
pub(crate) fn watch_catalog(catalog: &Arc<Catalog>, feed: &Arc<ChangeFeed>) {
    let (watched, feed) = (Arc::downgrade(catalog), feed.clone());
    let reported = Mutex::new(catalog.state());
    catalog.subscribe(Arc::new(move |_| {
        let Some(catalog) = watched.upgrade() else { return };
        let mut reported = reported.lock();
        let state = catalog.state();
        let parts = state.parts_changed_since(&reported);
        *reported = state;
        feed.note(&parts.into_iter().map(kind_of).collect::<Vec<_>>());
    }));
}

fn kind_of(part: CatalogPart) -> ChangeKind {
    match part {
        CatalogPart::Admins => ChangeKind::Admins,
        CatalogPart::Array => ChangeKind::Arrays,
        CatalogPart::Audits => ChangeKind::Audits,
        CatalogPart::Connections => ChangeKind::Connections,
        CatalogPart::Delivery => ChangeKind::AlertDelivery,
        CatalogPart::GroupSnapshots => ChangeKind::ProtectionGroupSnapshots,
        CatalogPart::HostGroups => ChangeKind::HostGroups,
        CatalogPart::Hosts => ChangeKind::Hosts,
        CatalogPart::Pods => ChangeKind::Pods,
        CatalogPart::Policies => ChangeKind::Policies,
        CatalogPart::ProtectionGroups => ChangeKind::ProtectionGroups,
        CatalogPart::Snapshots => ChangeKind::VolumeSnapshots,
        CatalogPart::VolumeGroups => ChangeKind::VolumeGroups,
        CatalogPart::Volumes => ChangeKind::Volumes,
    }
}

/// The measurements at the last reading.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    was_active: bool,
    sessions: u64,
    counts: Counts,
    pods: Vec<(PodId, PodView)>,
}

/// Numbers of the latest alert, write and count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Revision of the alerts.
    pub(crate) alerts: u64,
    /// Changes by hosts, and stored bytes.
    pub(crate) data: (u64, u64),
    /// Time of the last count of space.
    pub(crate) counted_ms: u64,
}

impl Measured {
    /// Returns the kinds that changed since the last reading.
    pub(crate) fn changes(&mut self, telemetry: &Telemetry, counts: Counts) -> Vec<ChangeKind> {
        let before = std::mem::replace(&mut self.counts, counts);
        let is_active = telemetry.monitor.latest(&Subject::Array).1 != telemetry::Sample::default();
        let was_active = std::mem::replace(&mut self.was_active, is_active);
        let sessions = telemetry.sessions.version();
        let changed = [
            (before.alerts != counts.alerts, ChangeKind::Alerts),
            (std::mem::replace(&mut self.sessions, sessions) != sessions, ChangeKind::IscsiSessions),
            // The first idle interval is reported as well.
            (is_active || was_active, ChangeKind::Performance),
            (before.data != counts.data || before.counted_ms != counts.counted_ms, ChangeKind::Space),
        ];
        changed.into_iter().filter(|(is_changed, _)| *is_changed).map(|(_, kind)| kind).collect()
    }

    /// Returns the kind of pods if a pod on two arrays changed since the last reading. Figures that
    /// change all the time do not count.
    pub(crate) fn pods_changed(&mut self, pods: &[(Arc<Pod>, PodView)]) -> Option<ChangeKind> {
        let pods: Vec<_> = pods.iter().map(|(pod, view)| (pod.id, without_figures(view))).collect();
        (std::mem::replace(&mut self.pods, pods) != self.pods).then_some(ChangeKind::Pods)
    }
}

/// Returns the state without the figures of the moment. Progress counts in percent.
fn without_figures(view: &PodView) -> PodView {
    let mut view = PodView {
        rtt_us: None,
        behind_bytes: None,
        seconds_left: None,
        flow: None,
        waiting_commands: 0,
        copied: (0, 0),
        ..view.clone()
    };
    for array in &mut view.arrays {
        array.progress = array.progress.map(|progress| (progress * 100.0).floor());
    }
    view
}
