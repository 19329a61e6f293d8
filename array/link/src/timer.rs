//! Waits that end within microseconds. The timers of the runtime have milliseconds, which is too
//! coarse for a simulated distance of a few. A thread that sleeps, and the task that it wakes,
//! start up to a tenth of a millisecond late, twice in each simulated round trip. So the thread
//! ends a wait early, and the task looks at the clock, beside other tasks, for the rest.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Time before its end at which a wait becomes a look at the clock.
const LEAD: Duration = Duration::from_micros(150);

/// The waits of the process, and the thread that ends them.
#[derive(Default)]
struct Waits {
    /// By time, then by number.
    waits: Mutex<(u64, BTreeMap<(Instant, u64), oneshot::Sender<()>>)>,
    changed: Condvar,
}

static WAITS: OnceLock<Option<&'static Waits>> = OnceLock::new();

fn started() -> Option<&'static Waits> {
    *WAITS.get_or_init(|| {
        let waits: &'static Waits = Box::leak(Box::default());
        let thread = std::thread::Builder::new().name("ibid-distance".to_owned());
        thread.spawn(move || waits.run()).ok().map(|_| waits)
    })
}

impl Waits {
    fn run(&self) {
        platform::clock::sharpen_waits();
        let mut waits = self.waits.lock();
        loop {
            let now = platform::clock::now();
            while let Some(first) = waits.1.first_entry().filter(|first| first.key().0 <= now) {
                // The wait may have been abandoned.
                let _ = first.remove().send(());
            }
            match waits.1.keys().next().map(|(due, _)| *due) {
                Some(due) => drop(self.changed.wait_until(&mut waits, due)),
                None => self.changed.wait(&mut waits),
            }
        }
    }

    fn add(&self, due: Instant) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut waits = self.waits.lock();
        waits.0 += 1;
        let number = waits.0;
        waits.1.insert((due, number), sender);
        if waits.1.keys().next() == Some(&(due, number)) {
            self.changed.notify_one();
        }
        receiver
    }
}

/// Waits until `due`.
pub(crate) async fn wait_until(due: Instant) {
    if let Some(early) = due.checked_sub(LEAD)
        && platform::clock::now() < early
    {
        match started() {
            Some(waits) => drop(waits.add(early).await),
            None => tokio::time::sleep_until(early.into()).await,
        }
    }
    while platform::clock::now() < due {
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn waits_end_in_the_order_of_their_times() {
        let now = platform::clock::now();
        let (ended, mut order) = tokio::sync::mpsc::unbounded_channel();
        for millis in [9, 3, 6] {
            let (ended, due) = (ended.clone(), now + Duration::from_millis(millis));
            tokio::spawn(async move {
                wait_until(due).await;
                assert!(platform::clock::now() >= due);
                let _ = ended.send(millis);
            });
        }
        wait_until(now).await;
        let order = [order.recv().await, order.recv().await, order.recv().await];
        assert_eq!(order, [Some(3), Some(6), Some(9)]);
    }
}
