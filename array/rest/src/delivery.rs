//! The queues of notices about alerts.

use api::{Alert, DeliveryStatus};
use catalog::CatalogState;
use notify::{Destination, DestinationId, DestinationKind, Event, Notice, Outboxes};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// The queues of notices.
#[derive(Default)]
pub(crate) struct Delivery(Mutex<Outboxes>);

impl Delivery {
    /// Puts changes of alerts in the queues of the destinations that ask for them.
    pub(crate) fn offer(&self, state: &CatalogState, changes: Vec<(Event, Alert)>, now_ms: u64) {
        if changes.is_empty() {
            return;
        }
        let destinations = Destination::all(state.delivery());
        let (array, array_id) = (&state.array().name, &state.array().id);
        let mut outboxes = self.0.lock();
        for (event, alert) in changes {
            let notice = Notice { event, alert, array: array.clone(), array_id: array_id.clone(), at_ms: now_ms };
            let notice = Arc::new(notice);
            for destination in destinations.iter().filter(|destination| destination.asks_for(&notice)) {
                outboxes.offer(destination.id(), notice.clone());
            }
        }
    }

    /// Returns the state of the delivery to a destination.
    pub(crate) fn status(&self, kind: DestinationKind, name: &str) -> DeliveryStatus {
        self.0.lock().status(&DestinationId { kind, name: name.to_owned() })
    }

    /// Returns the queues.
    pub(crate) fn outboxes(&self) -> MutexGuard<'_, Outboxes> {
        self.0.lock()
    }
}
