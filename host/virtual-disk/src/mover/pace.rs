//! The number of EXTENDED COPY that one operation has outstanding.
//!
//! Most copies are metadata, and take milliseconds. One into the pod of two arrays may read its
//! data, and send it over a link. Commands that queue up there would exceed the time that hosts of
//! a datastore allow. While commands are slow, fewer are outstanding.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A command that takes longer is slow; one that takes less than [`QUICK`] is not.
const SLOW: Duration = Duration::from_secs(1);
const QUICK: Duration = Duration::from_millis(250);
/// The least number outstanding.
const LEAST: usize = 2;

/// Admits commands.
pub(crate) struct Pace {
    permits: Semaphore,
    /// Permits in use and free.
    now: AtomicUsize,
    most: usize,
}

impl Pace {
    /// Admits `most` commands at first.
    pub(crate) fn new(most: u16) -> Self {
        let most = usize::from(most).max(LEAST);
        Self { permits: Semaphore::new(most), now: AtomicUsize::new(most), most }
    }

    /// Waits until another command may be sent. `None` never occurs: the semaphore is not closed.
    pub(crate) async fn begin(&self) -> Option<SemaphorePermit<'_>> {
        self.permits.acquire().await.ok()
    }

    /// Notes the end of a command that took `time`.
    pub(crate) fn end(&self, permit: Option<SemaphorePermit<'_>>, time: Duration) {
        let step = |now: usize| match time {
            time if time > SLOW => (now > LEAST).then(|| now - 1),
            time if time < QUICK => (now < self.most).then(|| now + 1),
            _ => None,
        };
        match self.now.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            Ok(_) if time > SLOW => permit.into_iter().for_each(SemaphorePermit::forget),
            Ok(_) => self.permits.add_permits(1),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(pace: &Pace, commands: usize, time: Duration) -> usize {
        for _ in 0..commands {
            let permit = pace.begin().await;
            pace.end(permit, time);
        }
        pace.permits.available_permits()
    }

    #[tokio::test]
    async fn slow_copies_are_fewer_at_a_time() {
        let pace = Pace::new(64);
        assert_eq!(run(&pace, 100, Duration::from_millis(500)).await, 64);
        assert_eq!(run(&pace, 30, Duration::from_secs(3)).await, 34);
        assert_eq!(run(&pace, 100, Duration::from_secs(3)).await, LEAST);
        assert_eq!(run(&pace, 5, Duration::from_millis(10)).await, LEAST + 5);
        assert_eq!(run(&pace, 100, Duration::from_millis(10)).await, 64, "no more than at first");
    }
}
