//! Threads, locks and channels of the parts that a simulator runs.
//!
//! Without the feature `simulation` these are the types of the standard library and of
//! `parking_lot`. With it, each of them also works in a simulated world
//! ([`crate::simulation`]): there one thread runs at a time, and a seed determines which one is
//! next. A thread outside of all worlds finds no difference.

#[cfg(feature = "simulation")]
mod simulated;
#[cfg(feature = "simulation")]
mod simulated_channel;
#[cfg(feature = "simulation")]
mod simulated_rw_lock;

#[cfg(feature = "simulation")]
pub use simulated::{Condvar, JoinHandle, Mutex, MutexGuard, WaitTimeoutResult, spawn};
#[cfg(feature = "simulation")]
pub use simulated_rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(not(feature = "simulation"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult};
#[cfg(not(feature = "simulation"))]
pub use std::thread::JoinHandle;

/// Channels between threads.
pub mod mpsc {
    #[cfg(feature = "simulation")]
    pub use super::simulated_channel::{Receiver, Sender, channel};
    #[cfg(not(feature = "simulation"))]
    pub use std::sync::mpsc::{Receiver, Sender, channel};
    pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError};
}

/// Starts a thread with a name.
///
/// # Errors
///
/// The system has no thread for it.
#[cfg(not(feature = "simulation"))]
pub fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}
