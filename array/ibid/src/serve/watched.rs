//! Reports to the supervisor: ready, alive, stopping.

use engine::Service;
use platform::{ProcessState, Supervisor};
use std::sync::Arc;
use tokio::task::{JoinHandle, spawn_blocking};

/// Reports within the time of the watchdog. One may be late without an effect.
const REPORTS_PER_TIMEOUT: u32 = 3;

/// This process, as its supervisor watches it.
pub(super) struct Watched(Option<Arc<Supervisor>>);

impl Watched {
    /// Finds the supervisor. A wrong environment only costs its reports.
    pub(super) fn from_environment() -> Self {
        Self(
            Supervisor::from_environment()
                .unwrap_or_else(|error| {
                    tracing::warn!("supervisor not notified: {error}");
                    None
                })
                .map(Arc::new),
        )
    }

    /// Reports that the array serves.
    pub(super) fn ready(&self) {
        self.report(ProcessState::Ready);
    }

    /// Reports that the array stops.
    pub(super) fn stopping(&self) {
        self.report(ProcessState::Stopping);
    }

    fn report(&self, state: ProcessState) {
        if let Some(supervisor) = &self.0 {
            report(supervisor, state);
        }
    }

    /// Starts the reports to the watchdog, if the supervisor has one. They end if the runtime or
    /// the engine no longer answers. A drive that does not answer stops neither.
    pub(super) fn start(&self, service: Arc<dyn Service>) -> Option<JoinHandle<()>> {
        let supervisor = self.0.clone()?;
        let interval = supervisor.watchdog()? / REPORTS_PER_TIMEOUT;
        Some(tokio::spawn(async move {
            loop {
                let asked = service.clone();
                // Takes the engine's lock.
                if spawn_blocking(move || asked.stopped()).await.is_ok() {
                    report(&supervisor, ProcessState::Alive);
                }
                tokio::time::sleep(interval).await;
            }
        }))
    }
}

fn report(supervisor: &Supervisor, state: ProcessState) {
    if let Err(error) = supervisor.report(state) {
        tracing::debug!("supervisor not notified: {error}");
    }
}
