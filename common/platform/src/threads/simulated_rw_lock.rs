//! A lock for readers and writers that also works in a simulated world.

use super::simulated::Waiters;
use crate::simulation::{Inside, current};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A lock for readers and writers, as `parking_lot::RwLock`.
#[derive(Default)]
pub struct RwLock<T: ?Sized> {
    waiters: Waiters,
    inner: parking_lot::RwLock<T>,
}

impl<T> RwLock<T> {
    /// Creates a lock.
    pub const fn new(value: T) -> Self {
        Self { waiters: Waiters::new(), inner: parking_lot::RwLock::new(value) }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks the value for reading.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let inner = self.acquire(|| self.inner.try_read(), || self.inner.read());
        RwLockReadGuard { lock: self, inner: Some(inner) }
    }

    /// Locks the value for writing.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let inner = self.acquire(|| self.inner.try_write(), || self.inner.write());
        RwLockWriteGuard { lock: self, inner: Some(inner) }
    }

    fn acquire<G>(&self, attempt: impl Fn() -> Option<G>, outside: impl Fn() -> G) -> G {
        let Some(inside) = current() else { return outside() };
        Inside::locks(&inside);
        loop {
            match attempt() {
                Some(guard) => return guard,
                None => drop(self.waiters.wait(&inside, None)),
            }
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// The right to read the value of a [`RwLock`].
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// Present until the guard is dropped.
    inner: Option<parking_lot::RwLockReadGuard<'a, T>>,
}

/// The right to change the value of a [`RwLock`].
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// Present until the guard is dropped.
    inner: Option<parking_lot::RwLockWriteGuard<'a, T>>,
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.inner {
            Some(inner) => inner,
            None => unreachable!("a guard is used after its end"),
        }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.inner {
            Some(inner) => inner,
            None => unreachable!("a guard is used after its end"),
        }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.inner {
            Some(inner) => inner,
            None => unreachable!("a guard is used after its end"),
        }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        self.inner = None;
        self.lock.waiters.notify(true);
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.inner = None;
        self.lock.waiters.notify(true);
    }
}
