//! Performance of the array: counters on the data path, rates and latencies over time, and which
//! initiators are logged in.
//!
//! Each command is counted once, in the [`ActivityCounters`] of its initiator, volume and portal.
//! The [`PerformanceMonitor`] reads all counters every [`SAMPLE_MS`] and adds the differences up
//! for the array, ports, hosts and volumes. *Invariant:* values in, values out; the caller provides
//! the time.

mod class;
mod counters;
mod history;
mod latency;
mod monitor;
mod registry;
mod sample;
mod sessions;
mod totals;

pub use class::CommandClass;
pub use counters::{ActivityCounters, CommandEvent};
pub use history::{History, Tier};
pub use latency::{LatencyCounts, LatencyHistogram};
pub use monitor::{Activity, ContainerOf, HostOf, PerformanceMonitor, Point, SAMPLE_MS, Subject};
pub use registry::{ActivityKey, ActivityRegistry};
pub use sample::{Direction, OffloadRate, Sample};
pub use sessions::{EndedSession, LiveSession, RefusedLogin, SessionGuard, SessionInfo, SessionTable};
pub use totals::{ActivityTotals, ClassTotals};
