//! When the user, or the system, wants the program to end.

use tokio::signal::unix::{SignalKind, signal};

/// Returns when the program is told to stop: by Ctrl-C, or by whoever ends it (SIGTERM), or when its terminal goes away (SIGHUP).
pub(crate) async fn stop_requested() -> std::io::Result<()> {
    let (mut terminate, mut hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
        _ = hang_up.recv() => Ok(()),
    }
}
