//! Sends the notices about alerts: a task for each destination, so that none delays another.

use crate::app::App;
use notify::{Destination, DestinationId, Notice};
use platform::clock;
use std::sync::Arc;

/// Starts a task for each destination with notices that are due. To be called every few seconds
/// within a tokio runtime.
pub fn deliver_alerts(app: &Arc<App>) {
    let due = {
        let mut outboxes = app.delivery.outboxes();
        let state = app.catalog.state();
        let ids: Vec<_> = Destination::all(state.delivery()).iter().map(Destination::id).collect();
        outboxes.retain(|id| ids.contains(id));
        outboxes.start_due(clock::now())
    };
    for id in due {
        tokio::spawn(send_all(app.clone(), id));
    }
}

/// Sends the notices of a destination until none waits or an attempt fails.
async fn send_all(app: Arc<App>, id: DestinationId) {
    loop {
        let Some(notice) = app.delivery.outboxes().next(&id) else { return };
        // The settings may have changed since the notice was put in the queue.
        let destinations = Destination::all(app.catalog.state().delivery());
        let Some(to) = destinations.into_iter().find(|to| to.id() == id && to.asks_for(&notice)) else {
            app.delivery.outboxes().discard(&id);
            return;
        };
        let outcome = send(&app, &to, &notice).await;
        let (now_ms, is_sent) = (clock::unix_millis(), outcome.is_ok());
        let (is_first_failure, continues) = {
            let mut outboxes = app.delivery.outboxes();
            let is_first_failure = !is_sent && outboxes.status(&id).last_error.is_none();
            (is_first_failure, outboxes.finish(&id, outcome.clone(), clock::now(), now_ms))
        };
        match outcome {
            Ok(()) => app.alerts.mark_notified(&notice.alert.id, now_ms),
            // The next attempts are not logged, because the state of the delivery shows them.
            Err(error) if is_first_failure => {
                tracing::warn!(kind = id.kind.name(), to = id.name, "alert not delivered, will be retried: {error}");
            }
            Err(_) => {}
        }
        if !continues {
            return;
        }
    }
}

/// Sends one notice.
pub(crate) async fn send(app: &App, to: &Destination, notice: &Notice) -> Result<(), String> {
    let now_ms = clock::unix_millis();
    let sent = notify::send(to, notice, now_ms, now_ms.saturating_sub(app.started_ms)).await;
    sent.map_err(|error| error.to_string())
}
