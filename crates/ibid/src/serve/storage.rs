//! What the array stores on.

use super::settings::Settings;
use crate::problem::Problem;
use engine::Service;
use engine::model::ModelEngine;
use std::sync::Arc;

/// An open engine.
pub(crate) struct Storage {
    service: Arc<dyn Service>,
}

/// Opens the engine, or makes it at first start.
pub(crate) fn open(_settings: &Settings) -> Result<Storage, Problem> {
    Ok(Storage { service: Arc::new(ModelEngine::default()) })
}

impl Storage {
    /// The engine, as those above see it.
    pub(crate) fn service(&self) -> Arc<dyn Service> {
        self.service.clone()
    }

    /// Closes the engine.
    pub(crate) fn close(self) -> Result<(), Problem> {
        Ok(())
    }
}
