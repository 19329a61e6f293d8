//! The measurements of the iSCSI target.

use std::sync::Arc;
use telemetry::{PerformanceMonitor, SessionTable};

/// The measurements of the iSCSI target.
#[derive(Clone, Default)]
pub struct Telemetry {
    /// Rates and latencies.
    pub monitor: Arc<PerformanceMonitor>,
    /// iSCSI sessions.
    pub sessions: Arc<SessionTable>,
}
