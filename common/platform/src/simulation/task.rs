//! Tasks in a world: each has a thread, which polls it.

use super::world::{Inside, World, current};
use std::cell::Cell;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

thread_local! {
    /// The earliest time of the world that the task of this thread waits for.
    static DUE: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Wakes the thread of a task.
struct TaskWaker {
    world: Weak<World>,
    thread: usize,
    is_woken: AtomicBool,
}

impl TaskWaker {
    fn key(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self) as usize
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        if let Some(world) = self.world.upgrade() {
            world.notify_thread(self.thread, self.key());
        }
    }
}

/// Runs a task to its end on the calling thread, which is one of a world.
///
/// # Panics
///
/// The thread is outside of all worlds.
pub fn block_on<T>(task: impl Future<Output = T>) -> T {
    let Some(inside) = current() else { panic!("the thread is outside of all worlds") };
    let Inside { world, thread } = &inside;
    let (world, thread, is_woken) = (Arc::downgrade(world), *thread, AtomicBool::new(false));
    let waker = Arc::new(TaskWaker { world, thread, is_woken });
    let (key, context) = (waker.key(), Waker::from(waker.clone()));
    let mut task = pin!(task);
    loop {
        let before = DUE.replace(None);
        let polled = task.as_mut().poll(&mut Context::from_waker(&context));
        let due = DUE.replace(before);
        if let Poll::Ready(value) = polled {
            return value;
        }
        if !waker.is_woken.swap(false, Ordering::AcqRel) {
            inside.wait(key, due.map(|due| due.saturating_sub(super::time())));
        }
    }
}

/// Waits for a duration, in a task of a world.
pub(crate) async fn sleep_in_task(duration: Duration) {
    let until = super::time() + duration;
    std::future::poll_fn(move |_| {
        if super::time() >= until {
            return Poll::Ready(());
        }
        DUE.set(Some(DUE.get().map_or(until, |due| due.min(until))));
        Poll::Pending
    })
    .await;
}
