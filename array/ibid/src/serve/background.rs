//! Background tasks of a running array: eradication, scheduled snapshots, space accounting, scrubs
//! and alerts.

use catalog::{ArrayTime, Catalog};
use platform::clock;
use rest::{App, COUNT_PART};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};

/// Maximum time between two checks. Bounds the delay after the clock is set forward.
const ERADICATION_INTERVAL: Duration = Duration::from_secs(60);
/// Time between two changes of the stored time served, while destroyed objects wait for it. A crash
/// loses at most this part of it.
const SERVED_INTERVAL: Duration = Duration::from_secs(300);
/// Minimum time between two background counts of space. Slow counts run less often, see
/// [`COUNT_PART`].
const COUNT_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum time between two counts if no change is visible.
const LONGEST_COUNT_INTERVAL: Duration = Duration::from_secs(3600);
/// Time between two evaluations of the alerts.
const ALERT_INTERVAL: Duration = Duration::from_secs(5);

/// Time between two looks at the schedules of protection groups.
const PROTECTION_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two looks at the schedule of scrubs. The first one is this long after the start.
const SCRUB_INTERVAL: Duration = Duration::from_secs(60);

/// Starts the background tasks. An aborted task finishes its current step.
pub(super) fn start(catalog: Arc<Catalog>, app: Arc<App>) -> [JoinHandle<()>; 6] {
    [
        tokio::spawn(eradicate(catalog.clone())),
        tokio::spawn(protect(catalog)),
        tokio::spawn(count_space(app.clone())),
        tokio::spawn(schedule_scrubs(app.clone())),
        tokio::spawn(read_performance(app.clone())),
        tokio::spawn(update_alerts(app)),
    ]
}

/// Eradicates destroyed volumes and snapshots when their delay is over.
async fn eradicate(catalog: Arc<Catalog>) {
    let changed = Arc::new(Notify::new());
    let watcher = changed.clone();
    catalog.subscribe(Arc::new(move |_| watcher.notify_one()));
    let mut stored = clock::now();
    loop {
        let eradicating = catalog.clone();
        let done = spawn_blocking(move || eradicating.eradicate_due(now(&eradicating))).await;
        match done {
            Ok(Ok(names)) if !names.is_empty() => {
                tracing::info!("eradicated after the eradication delay: {}", shortened(&names));
            }
            Ok(Err(error)) => {
                tracing::error!("eradication failed: {error}");
                tokio::time::sleep(ERADICATION_INTERVAL).await;
            }
            _ => {}
        }
        if clock::now().saturating_duration_since(stored) >= SERVED_INTERVAL {
            let storing = catalog.clone();
            if let Ok(Err(error)) = spawn_blocking(move || storing.store_served_time()).await {
                tracing::warn!("time served not stored: {error}");
            }
            stored = clock::now();
        }
        let wait = catalog.state().time_to_eradication_ms(now(&catalog)).map(Duration::from_millis);
        // A change of the catalog may make an eradication due earlier.
        let _ =
            tokio::time::timeout(wait.unwrap_or(ERADICATION_INTERVAL).min(ERADICATION_INTERVAL), changed.notified())
                .await;
    }
}

/// Takes the scheduled snapshots of protection groups, and destroys those that have expired.
async fn protect(catalog: Arc<Catalog>) {
    let mut ticks = tokio::time::interval(PROTECTION_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let protecting = catalog.clone();
        let Ok(run) = spawn_blocking(move || protecting.run_protection(clock::unix_millis())).await else { continue };
        if !run.taken.is_empty() {
            tracing::info!("scheduled snapshots taken: {}", shortened(&run.taken));
        }
        if !run.expired.is_empty() {
            tracing::info!("expired snapshots destroyed: {}", shortened(&run.expired));
        }
        for (name, error) in &run.failed {
            tracing::warn!(name, "scheduled snapshots not taken or not expired: {error}");
        }
    }
}

/// Returns the present moment by the clocks of the array.
fn now(catalog: &Catalog) -> ArrayTime {
    ArrayTime { wall_ms: clock::unix_millis(), served_ms: catalog.served_ms() }
}

/// Lists the names, or the first 10 and the number of the others.
fn shortened(names: &[String]) -> String {
    const MAX_NAMES: usize = 10;
    match names.len().checked_sub(MAX_NAMES) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..MAX_NAMES].join(", ")),
    }
}

/// Counts the space of volumes and snapshots. The first count runs a minute after the start, when
/// the hosts have reconnected.
async fn count_space(app: Arc<App>) {
    let mut pause = COUNT_INTERVAL;
    let mut last = None;
    loop {
        tokio::time::sleep(pause).await;
        let start = clock::now();
        let is_recent = last.is_some_and(|last| start.saturating_duration_since(last) < LONGEST_COUNT_INTERVAL);
        if is_recent && app.is_space_current() {
            continue;
        }
        let counting = app.clone();
        let _ = spawn_blocking(move || counting.count_space()).await;
        pause = COUNT_INTERVAL.max(clock::now().saturating_duration_since(start) * COUNT_PART);
        last = Some(start);
    }
}

/// Reads the performance counters.
async fn read_performance(app: Arc<App>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(telemetry::SAMPLE_MS));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let reading = app.clone();
        let _ = spawn_blocking(move || reading.read_performance(clock::unix_millis())).await;
    }
}

/// Opens and closes alerts, and delivers them.
async fn update_alerts(app: Arc<App>) {
    let mut ticks = tokio::time::interval(ALERT_INTERVAL);
    loop {
        ticks.tick().await;
        let evaluating = app.clone();
        let _ = spawn_blocking(move || evaluating.update_alerts()).await;
        rest::deliver_alerts(&app);
    }
}

/// Starts the scrubs that are due.
async fn schedule_scrubs(app: Arc<App>) {
    loop {
        tokio::time::sleep(SCRUB_INTERVAL).await;
        let looking = app.clone();
        let _ = spawn_blocking(move || looking.scrub_if_due(clock::unix_millis())).await;
    }
}
