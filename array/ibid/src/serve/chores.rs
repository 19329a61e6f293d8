//! What the array does by itself: eradicating what is due, counting its space, looking for what to alert of.

use catalog::Catalog;
use rest::{App, COUNT_PART};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};

/// The longest that nothing is looked at. A clock that is set forward is noticed then.
const ERADICATION_INTERVAL: Duration = Duration::from_secs(60);
/// The shortest time between two counts of space that nobody has asked for. One that takes long is made seldom.
const COUNT_INTERVAL: Duration = Duration::from_secs(60);
/// The longest time between two counts, where nothing can be seen to have changed.
const LONGEST_COUNT_INTERVAL: Duration = Duration::from_secs(3600);
/// How often it is looked for alerts.
const ALERT_INTERVAL: Duration = Duration::from_secs(10);

/// Starts the chores. They end when they are aborted; what one is doing at that moment is finished first.
pub(super) fn start(catalog: Arc<Catalog>, app: Arc<App>) -> [JoinHandle<()>; 3] {
    [tokio::spawn(eradicate(catalog)), tokio::spawn(count(app.clone())), tokio::spawn(look(app))]
}

/// Removes what is destroyed and whose time is over: each at its time, for as long as the array runs.
async fn eradicate(catalog: Arc<Catalog>) {
    let changed = Arc::new(Notify::new());
    let watcher = changed.clone();
    catalog.subscribe(Arc::new(move |_| watcher.notify_one()));
    loop {
        let working = catalog.clone();
        let done = spawn_blocking(move || working.eradicate_due(platform::clock::unix_millis())).await;
        match done {
            Ok(Ok(names)) if !names.is_empty() => {
                tracing::info!("eradicated, their time being over: {}", shortened(&names));
            }
            Ok(Err(error)) => {
                tracing::error!("what is destroyed could not be eradicated: {error}");
                tokio::time::sleep(ERADICATION_INTERVAL).await;
            }
            _ => {}
        }
        let due = catalog.state().next_eradication_ms();
        let wait = due.map(|due| Duration::from_millis(due.saturating_sub(platform::clock::unix_millis())));
        // A change may have brought something that is due earlier, or another delay.
        let _ =
            tokio::time::timeout(wait.unwrap_or(ERADICATION_INTERVAL).min(ERADICATION_INTERVAL), changed.notified())
                .await;
    }
}

/// The first names of many.
fn shortened(names: &[String]) -> String {
    const MOST: usize = 10;
    match names.len().checked_sub(MOST) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..MOST].join(", ")),
    }
}

/// Counts what belongs to whom, from a minute after the start on: then hosts have found their volumes again.
async fn count(app: Arc<App>) {
    let mut pause = COUNT_INTERVAL;
    let mut last = None;
    loop {
        tokio::time::sleep(pause).await;
        let start = platform::clock::now();
        let is_recent = last.is_some_and(|last| start.saturating_duration_since(last) < LONGEST_COUNT_INTERVAL);
        if is_recent && app.is_counted() {
            continue;
        }
        let counting = app.clone();
        let _ = spawn_blocking(move || counting.count_space()).await;
        pause = COUNT_INTERVAL.max(platform::clock::now().saturating_duration_since(start) * COUNT_PART);
        last = Some(start);
    }
}

/// Looks for what to alert of.
async fn look(app: Arc<App>) {
    let mut ticks = tokio::time::interval(ALERT_INTERVAL);
    loop {
        ticks.tick().await;
        let looking = app.clone();
        let _ = spawn_blocking(move || looking.look_for_alerts()).await;
    }
}
