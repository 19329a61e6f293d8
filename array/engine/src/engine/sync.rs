//! The primitives of [`super::queue`] and [`super::background`], which a model checker replaces in
//! `tests/shell_model.rs`.

pub(super) use platform::threads::{Condvar, Mutex, MutexGuard};
pub(super) use std::sync::atomic::{AtomicBool, Ordering};
