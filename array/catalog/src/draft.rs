//! Drafts of changes: a copy of the state, and the changes that the engine must store.

mod admin;
mod adoption;
mod api_client;
mod connection;
mod container;
mod content;
mod delivery;
mod host;
mod host_group;
mod pod;
mod policy;
mod protection;
mod settings;
mod snapshot;
mod stretch;
mod tag;
mod verify;
mod volume;
mod volume_group;

pub use host::HostEdit;
pub use policy::PolicyMember;
pub use protection::ProtectionGroupEdit;
pub use settings::{ArrayEdit, QosEdit, VolumeEdit};
pub(crate) use stretch::Scope;

use crate::chap::sealed;
use crate::pod::{Pod, PodId};
use crate::record::{Array, Host, Record, encode, reservations_key};
use crate::secret::SecretKeys;
use crate::state::CatalogState;
use crate::{CatalogError, MAX_VOLUMES};
use engine::Change;
use std::collections::BTreeSet;
use std::sync::Arc;
use types::{ObjectId, VolumeId};

/// Returns whether this array orders the changes of a stretched pod.
pub type PodOrder = Arc<dyn Fn(&Pod) -> bool + Send + Sync>;

/// A draft of changes. See [`crate::Catalog::change`].
pub struct Draft {
    state: CatalogState,
    changes: Vec<Change>,
    /// Time that the array has served, in milliseconds.
    served_ms: u64,
    /// Seal the secrets.
    keys: Option<Arc<SecretKeys>>,
    order: PodOrder,
    /// Pods that were made equal to an image of the other array.
    followed: BTreeSet<PodId>,
}

/// Parts of a finished draft.
pub(crate) struct FinishedDraft {
    pub(crate) state: CatalogState,
    pub(crate) changes: Vec<Change>,
    /// Pods whose images changed because the other array has changed them.
    pub(crate) followed: BTreeSet<PodId>,
}

impl Draft {
    pub(crate) fn new(state: &CatalogState, served_ms: u64, keys: Option<Arc<SecretKeys>>, order: PodOrder) -> Self {
        Self { state: state.clone(), changes: Vec::new(), served_ms, keys, order, followed: BTreeSet::new() }
    }

    pub(crate) fn for_new_array(array: Array) -> Result<Self, CatalogError> {
        let mut draft = Self::new(&CatalogState::new(array.clone()), 0, None, Arc::new(|_| true));
        draft.put(&array)?;
        Ok(draft)
    }

    pub(crate) fn finish(self) -> FinishedDraft {
        FinishedDraft { state: self.state, changes: self.changes, followed: self.followed }
    }

    /// Returns the state including the changes made so far.
    pub fn state(&self) -> &CatalogState {
        &self.state
    }

    /// Returns whether anything was changed so far.
    pub fn is_changed(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Stores a host with sealed secrets.
    pub(crate) fn put_host(&mut self, host: &Host) -> Result<(), CatalogError> {
        let stored =
            sealed(host, self.keys.as_deref()).ok_or_else(|| CatalogError::NoSecretKey { name: host.name.clone() })?;
        self.put(&stored)
    }

    /// Allocates an id that no volume or snapshot ever had, and the serial number derived from it.
    fn next_object_id(&mut self) -> Result<(ObjectId, String), CatalogError> {
        let number = self.state.array().next_volume;
        // The id takes 8 digits of the serial number.
        if number > u64::from(u32::MAX) {
            return Err(CatalogError::LimitReached { what: "Volume", limit: MAX_VOLUMES });
        }
        self.edit_array(|array| array.next_volume += 1)?;
        Ok((ObjectId(number), format!("{}{number:08X}", self.state.array().serial_prefix)))
    }

    /// Stores the time that the array has served, and returns it.
    pub(crate) fn store_served_time(&mut self) -> Result<u64, CatalogError> {
        let served = self.served_ms.max(self.state.array().served_ms);
        self.edit_array(|array| array.served_ms = served)?;
        Ok(served)
    }

    fn edit_array(&mut self, edit: impl FnOnce(&mut Array)) -> Result<(), CatalogError> {
        let mut array = Array::clone(self.state.array());
        edit(&mut array);
        if array == **self.state.array() {
            return Ok(());
        }
        self.put(&array)?;
        self.state.put_array(array);
        Ok(())
    }

    fn put<T: Record>(&mut self, record: &T) -> Result<(), CatalogError> {
        self.changes.push(Change::Put { key: record.key().into_bytes(), value: encode(record)? });
        Ok(())
    }

    fn remove<T: Record>(&mut self, record: &T) {
        self.changes.push(Change::Remove { key: record.key().into_bytes() });
    }

    /// Deletes the content of a volume or snapshot, and its persistent reservations.
    fn delete(&mut self, object: ObjectId, content: VolumeId) {
        self.changes.push(Change::DeleteVolume { volume: content });
        self.changes.push(Change::Remove { key: reservations_key(object) });
    }
}
