//! Threads, mutexes and condition variables that also work in a simulated world.

use crate::simulation::{Inside, World, current};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The threads of a world that wait for something.
#[derive(Default)]
pub(super) struct Waiters(AtomicUsize);

impl Waiters {
    pub(super) const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(&self.0) as usize
    }

    /// Waits for a notification. Returns true after a timeout.
    pub(super) fn wait(&self, inside: &Inside, most: Option<Duration>) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        let has_timed_out = inside.wait(self.key(), most);
        self.0.fetch_sub(1, Ordering::Relaxed);
        has_timed_out
    }

    /// Wakes one thread, or all.
    pub(super) fn notify(&self, is_for_all: bool) {
        if self.0.load(Ordering::Relaxed) > 0
            && let Some(inside) = current()
        {
            inside.world.notify(self.key(), is_for_all);
        }
    }
}

/// A mutex, as `parking_lot::Mutex`.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    waiters: Waiters,
    inner: parking_lot::Mutex<T>,
}

impl<T> Mutex<T> {
    /// Creates a mutex.
    pub const fn new(value: T) -> Self {
        Self { waiters: Waiters::new(), inner: parking_lot::Mutex::new(value) }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the value.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let inside = current();
        inside.iter().for_each(Inside::locks);
        MutexGuard { mutex: self, inner: Some(self.lock_inner(inside.as_ref())) }
    }

    /// Locks the value if it is not locked.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.inner.try_lock().map(|inner| MutexGuard { mutex: self, inner: Some(inner) })
    }

    /// Returns the value, which nothing else can use.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    fn lock_inner(&self, inside: Option<&Inside>) -> parking_lot::MutexGuard<'_, T> {
        let Some(inside) = inside else { return self.inner.lock() };
        loop {
            match self.inner.try_lock() {
                Some(guard) => return guard,
                None => drop(self.waiters.wait(inside, None)),
            }
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// The right to use the value of a [`Mutex`].
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// Present, but in the course of calls that release it.
    inner: Option<parking_lot::MutexGuard<'a, T>>,
}

impl<T: ?Sized> MutexGuard<'_, T> {
    fn release(&mut self) {
        self.inner = None;
        self.mutex.waiters.notify(true);
    }

    /// Calls a function while the mutex is not locked.
    pub fn unlocked<U>(guard: &mut Self, run: impl FnOnce() -> U) -> U {
        guard.release();
        let value = run();
        guard.inner = Some(guard.mutex.lock_inner(current().as_ref()));
        value
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.inner {
            Some(inner) => inner,
            None => unreachable!("a guard is used while it is released"),
        }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.inner {
            Some(inner) => inner,
            None => unreachable!("a guard is used while it is released"),
        }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Whether a wait has ended by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns true if it has.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// A condition variable, as `parking_lot::Condvar`.
#[derive(Default)]
pub struct Condvar {
    waiters: Waiters,
    inner: parking_lot::Condvar,
}

impl Condvar {
    /// Creates a condition variable.
    pub const fn new() -> Self {
        Self { waiters: Waiters::new(), inner: parking_lot::Condvar::new() }
    }

    /// Waits for a notification.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        match (current(), &mut guard.inner) {
            (None, Some(inner)) => self.inner.wait(inner),
            (inside, _) => drop(self.wait_inside(guard, inside.as_ref(), None)),
        }
    }

    /// Waits for a notification, or for a time.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, most: Duration) -> WaitTimeoutResult {
        match (current(), &mut guard.inner) {
            (None, Some(inner)) => WaitTimeoutResult(self.inner.wait_for(inner, most).timed_out()),
            (inside, _) => WaitTimeoutResult(self.wait_inside(guard, inside.as_ref(), Some(most))),
        }
    }

    fn wait_inside<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        inside: Option<&Inside>,
        most: Option<Duration>,
    ) -> bool {
        guard.release();
        let has_timed_out = inside.is_some_and(|inside| self.waiters.wait(inside, most));
        guard.inner = Some(guard.mutex.lock_inner(inside));
        has_timed_out
    }

    /// Wakes a thread that waits.
    pub fn notify_one(&self) {
        self.waiters.notify(false);
        self.inner.notify_one();
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        self.waiters.notify(true);
        self.inner.notify_all();
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A thread of the system, and that of a world.
pub struct JoinHandle<T> {
    system: std::thread::JoinHandle<T>,
    world: Option<Life>,
}

/// A thread of a world.
struct Life {
    world: Arc<World>,
    thread: usize,
    end: Arc<Waiters>,
}

impl<T> JoinHandle<T> {
    /// Waits until the thread has ended, and returns its value.
    ///
    /// # Errors
    ///
    /// The thread has panicked.
    pub fn join(self) -> std::thread::Result<T> {
        if let (Some(Life { world, thread, end }), Some(inside)) = (&self.world, current()) {
            while !world.has_ended(*thread) {
                end.wait(&inside, None);
            }
        }
        self.system.join()
    }

    /// Returns true if the thread has ended.
    pub fn is_finished(&self) -> bool {
        match &self.world {
            Some(life) => life.world.has_ended(life.thread),
            None => self.system.is_finished(),
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.system.fmt(f)
    }
}

/// Starts a thread with a name. One that is started by a thread of a world belongs to the world.
///
/// # Errors
///
/// The system has no thread for it.
pub fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    let Some(inside) = current() else {
        return builder.spawn(run).map(|system| JoinHandle { system, world: None });
    };
    let added = inside.add(name);
    let (world, thread, end) = (added.world.clone(), added.thread, Arc::<Waiters>::default());
    let key = end.key();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let system = builder.spawn(move || added.live(move || drop(begun), run, key))?;
    // It must be able to take the right to run before it is given it.
    let _ = has_begun.recv() as Result<(), _>;
    Ok(JoinHandle { system, world: Some(Life { world, thread, end }) })
}
