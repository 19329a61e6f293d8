//! The end of `ibid serve`: after a drive error, and in bounded time.

use engine::{IoWatch, Service};
use platform::clock;
use rest::App;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

/// Exit code: the engine had stopped after a drive error.
pub(super) const STOPPED: u8 = 3;
/// Exit code: the drive did not answer, or the orderly stop took too long.
pub(super) const ABANDONED: u8 = 4;

/// Time between two looks at the engine.
const INTERVAL: Duration = Duration::from_millis(250);
/// Age of an I/O at which a stop no longer waits for it, and least time that a stop may take.
const HUNG_AFTER: Duration = Duration::from_secs(10);
/// Longest time for an orderly stop.
const MAX_STOP: Duration = Duration::from_secs(60);

/// Waits until the engine has stopped after a drive error, opens the alert, and waits for `delay`,
/// so that administrators can look and hosts use other paths.
pub(super) async fn failed(service: Arc<dyn Service>, app: Arc<App>, delay: Duration) {
    while service.stopped().is_none() {
        tokio::time::sleep(INTERVAL).await;
    }
    let _ = spawn_blocking(move || app.update_alerts()).await;
    tracing::error!("array stopped after a drive error; the program ends in {} s", delay.as_secs());
    tokio::time::sleep(delay).await;
}

/// Ends the process if the orderly stop that begins now waits for an I/O that does not end, or
/// takes too long. The next start then replays the log: no acknowledged data is lost.
pub(super) fn limit_stop(io_watch: Arc<IoWatch>) {
    let start = clock::now();
    let limited = std::thread::Builder::new().name("ibid-stop".to_owned()).spawn(move || {
        loop {
            std::thread::park_timeout(INTERVAL);
            let now = clock::now();
            if let Some(reason) = reason_to_abandon(start, now, io_watch.longest(now)) {
                tracing::error!("array not stopped in order: {reason}; the next start replays the log");
                std::process::exit(ABANDONED.into());
            }
        }
    });
    if let Err(error) = limited {
        tracing::warn!("the time of the stop is not limited: {error}");
    }
}

/// Returns why a stop that began at `start` is abandoned. `longest` is the age of the oldest I/O.
fn reason_to_abandon(start: Instant, now: Instant, longest: Option<Duration>) -> Option<String> {
    let taken = now.saturating_duration_since(start);
    match longest.filter(|longest| *longest >= HUNG_AFTER && taken >= HUNG_AFTER) {
        Some(longest) => Some(format!("the drive has not answered for {} s", longest.as_secs())),
        None => (taken >= MAX_STOP).then(|| format!("it takes longer than {} s", MAX_STOP.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_waits_for_io_that_ends() {
        let start = clock::now();
        let reason = |taken: u64, longest: Option<u64>| {
            let now = start + Duration::from_secs(taken);
            reason_to_abandon(start, now, longest.map(Duration::from_secs))
        };
        assert_eq!(reason(9, Some(500)), None, "time for logouts and answers");
        assert_eq!(reason(10, Some(500)).unwrap(), "the drive has not answered for 500 s");
        assert_eq!((reason(59, Some(9)), reason(59, None)), (None, None));
        assert!(reason(60, Some(1)).is_some() && reason(60, None).is_some());
    }
}
