//! A channel that also works in a simulated world, as that of `std::sync::mpsc`.

use super::simulated::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError};
use std::time::Duration;

struct State<T> {
    waiting: VecDeque<T>,
    senders: usize,
    has_receiver: bool,
}

struct Channel<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

/// Creates a channel without a bound.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = State { waiting: VecDeque::new(), senders: 1, has_receiver: true };
    let channel = Arc::new(Channel { state: Mutex::new(state), changed: Condvar::new() });
    (Sender(channel.clone()), Receiver(channel))
}

/// The end of a channel that sends.
pub struct Sender<T>(Arc<Channel<T>>);

impl<T> Sender<T> {
    /// Sends a value.
    ///
    /// # Errors
    ///
    /// Nothing receives any more.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut state = self.0.state.lock();
        if !state.has_receiver {
            return Err(SendError(value));
        }
        state.waiting.push_back(value);
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().senders += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.senders -= 1;
        let is_last = state.senders == 0;
        drop(state);
        if is_last {
            self.0.changed.notify_all();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

/// The end of a channel that receives.
pub struct Receiver<T>(Arc<Channel<T>>);

impl<T> Receiver<T> {
    /// Waits for a value.
    ///
    /// # Errors
    ///
    /// Nothing sends any more.
    pub fn recv(&self) -> Result<T, RecvError> {
        let mut state = self.0.state.lock();
        loop {
            match state.waiting.pop_front() {
                Some(value) => return Ok(value),
                None if state.senders == 0 => return Err(RecvError),
                None => self.0.changed.wait(&mut state),
            }
        }
    }

    /// Waits for a value, for a time.
    ///
    /// # Errors
    ///
    /// There is none in time, or nothing sends any more.
    pub fn recv_timeout(&self, most: Duration) -> Result<T, RecvTimeoutError> {
        let until = crate::clock::now() + most;
        let mut state = self.0.state.lock();
        loop {
            if let Some(value) = state.waiting.pop_front() {
                return Ok(value);
            }
            if state.senders == 0 {
                return Err(RecvTimeoutError::Disconnected);
            }
            let left = until.saturating_duration_since(crate::clock::now());
            if left.is_zero() {
                return Err(RecvTimeoutError::Timeout);
            }
            self.0.changed.wait_for(&mut state, left);
        }
    }

    /// Returns a value if there is one.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = self.0.state.lock();
        let is_over = state.senders == 0;
        state.waiting.pop_front().ok_or(if is_over { TryRecvError::Disconnected } else { TryRecvError::Empty })
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.has_receiver = false;
        let dropped = std::mem::take(&mut state.waiting);
        drop(state);
        drop(dropped);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}
