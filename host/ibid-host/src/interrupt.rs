//! Signals that ask the program to stop.

use crate::failure::Failure;
use tokio::signal::unix::{SignalKind, signal};

/// Returns on SIGINT (Ctrl-C), SIGTERM or SIGHUP (closed terminal).
pub(crate) async fn stop_requested() -> std::io::Result<()> {
    let (mut terminate, mut hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
        _ = hang_up.recv() => Ok(()),
    }
}

/// Runs work until it ends or a signal asks to stop. The caller then cleans up; another signal ends
/// the clean-up.
///
/// # Errors
/// [`Failure::Interrupted`] after a signal.
pub(crate) async fn until_stopped<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::select! {
        result = work => result,
        stopped = stop_requested() => {
            stopped.map_err(|error| Failure::File { path: "signals".to_owned(), error })?;
            eprintln!("Interrupted: removing incomplete files and releasing locks (Ctrl-C again to skip)");
            Err(Failure::Interrupted)
        }
    }
}
