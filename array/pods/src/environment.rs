//! The parts of the array that pods use.

use crate::objects::PodObjects;
use engine::{KeyValue, Maintenance};
use platform::tasks::Runtime;
use replication::{Carrier, Replica};
use std::sync::Arc;

/// An engine with streams, values and figures of space.
pub trait PodEngine: Replica + KeyValue + Maintenance {}

impl<T: Replica + KeyValue + Maintenance> PodEngine for T {}

/// The parts of the array that pods use.
#[derive(Clone)]
pub struct Environment {
    /// The engine.
    pub engine: Arc<dyn PodEngine>,
    /// Carries the streams.
    pub carrier: Arc<Carrier>,
    /// The catalog.
    pub objects: Arc<dyn PodObjects>,
    /// Runs the requests to mediators.
    pub runtime: Runtime,
}
