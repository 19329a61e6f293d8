//! Asynchronous tasks of the parts that a simulator runs.

use std::time::Duration;
use tokio::runtime::Handle;

/// Runs tasks: a runtime of tokio, or a simulated world.
#[derive(Clone, Debug)]
pub struct Runtime(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Tokio(Handle),
    /// Each task has a thread of the world that the caller is in.
    #[cfg(feature = "simulation")]
    Simulated,
}

impl From<Handle> for Runtime {
    fn from(handle: Handle) -> Self {
        Self(Kind::Tokio(handle))
    }
}

impl Runtime {
    /// Returns the runtime of simulated worlds.
    #[cfg(feature = "simulation")]
    pub fn simulated() -> Self {
        Self(Kind::Simulated)
    }

    /// Starts a task that nothing waits for.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.0 {
            Kind::Tokio(handle) => drop(handle.spawn(task)),
            #[cfg(feature = "simulation")]
            Kind::Simulated => crate::simulation::start("task", move || crate::simulation::block_on(task)),
        }
    }

    /// Starts work that blocks and that nothing waits for, on a thread for it.
    pub fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        match &self.0 {
            Kind::Tokio(handle) => drop(handle.spawn_blocking(work)),
            #[cfg(feature = "simulation")]
            Kind::Simulated => crate::simulation::start("work", work),
        }
    }
}

/// Waits for a duration, in a task of a [`Runtime`].
pub async fn sleep(duration: Duration) {
    #[cfg(feature = "simulation")]
    if crate::simulation::is_inside() {
        return crate::simulation::sleep_in_task(duration).await;
    }
    tokio::time::sleep(duration).await;
}
