//! Signals that ask the program to stop.

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
