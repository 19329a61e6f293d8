//! Volume groups and pods: containers that the names of their volumes begin with.

use super::CatalogState;
use crate::CatalogError;
use crate::name::folded;
use crate::record::{Record, Volume};
use std::sync::Arc;

impl CatalogState {
    /// Returns the volumes whose names begin with a container and its separator, sorted by name.
    pub(super) fn volumes_of_container(
        &self,
        container: &str,
        separator: &str,
    ) -> impl Iterator<Item = &Arc<Volume>> + '_ {
        let first = format!("{}{separator}", folded(container));
        // All names that begin with the first text are below the second one.
        let mut after = first.clone();
        let next = after.pop().and_then(|last| char::from_u32(u32::from(last) + 1));
        after.extend(next);
        self.volume_names.range(first..after).filter_map(|(_, id)| self.volume_by_id(*id))
    }

    /// Checks that no volume is in a container that is missing.
    pub(super) fn check_containers(
        &self,
        separator: &str,
        problem: &str,
        has_container: impl Fn(&Volume) -> bool,
    ) -> Result<(), CatalogError> {
        let is_orphan = |volume: &&Arc<Volume>| volume.name.contains(separator) && !has_container(volume);
        match self.volumes().find(is_orphan) {
            Some(volume) => Err(CatalogError::Damaged { key: volume.key(), reason: problem.to_owned() }),
            None => Ok(()),
        }
    }
}
