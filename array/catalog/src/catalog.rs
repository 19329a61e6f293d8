//! The catalogue: the current state, and the one way to change it.

use crate::draft::Draft;
use crate::lun::LunMap;
use crate::record::{Array, ArrayInit, Chap, stored_reservations};
use crate::state::CatalogState;
use crate::{CatalogError, check_name};
use engine::{Change, Op, Service, call};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// How many volumes and snapshots are eradicated in one change, so that none holds up others for long.
const ERADICATION_BATCH: usize = 256;

/// Called after each change with the version that it made. Runs on the thread that made the change: it must be brief
/// and must not change the catalogue.
pub type Watcher = Arc<dyn Fn(u64) + Send + Sync>;

/// The catalogue.
pub struct Catalog {
    service: Arc<dyn Service>,
    /// Held by the one that changes, across the engine's answer; readers never wait for it.
    changing: Mutex<()>,
    current: RwLock<(u64, Arc<CatalogState>)>,
    watchers: RwLock<Vec<Watcher>>,
}

impl Catalog {
    /// Reads the catalogue from the engine, or founds the array when the engine holds none. Blocks the thread, as
    /// [`Self::change`] does: not for use on a runtime's own threads.
    pub fn open(service: Arc<dyn Service>, init: &ArrayInit) -> Result<Self, CatalogError> {
        let state = match CatalogState::load(&*service)? {
            Some(state) => {
                remove_orphaned_reservations(&*service, &state)?;
                state
            }
            None => {
                check_name(&init.name)?;
                let draft = Draft::for_new_array(Array::init(init))?;
                let (state, changes) = draft.finish();
                call(&*service, Op::Change(changes)).map_err(CatalogError::Engine)?;
                state
            }
        };
        Ok(Self {
            service,
            changing: Mutex::new(()),
            current: RwLock::new((1, Arc::new(state))),
            watchers: RwLock::new(Vec::new()),
        })
    }

    /// The state as it is now. It stays as it is for as long as it is held.
    pub fn state(&self) -> Arc<CatalogState> {
        self.current.read().1.clone()
    }

    /// Goes up by one with each change, from 1 at start.
    pub fn version(&self) -> u64 {
        self.current.read().0
    }

    /// The array's identity.
    pub fn array(&self) -> Arc<Array> {
        self.state().array().clone()
    }

    /// The iSCSI name of the array's target.
    pub fn target_iqn(&self) -> String {
        self.array().iqn.clone()
    }

    /// What an initiator sees; `None` when it belongs to no host.
    pub fn lun_map(&self, initiator_iqn: &str) -> Option<Arc<LunMap>> {
        self.state().lun_map(initiator_iqn).map(Arc::new)
    }

    /// What CHAP asks of an initiator; `None` when it belongs to no host, and no CHAP at all when the host has none set.
    pub fn chap(&self, initiator_iqn: &str) -> Option<Chap> {
        self.state().host_of_initiator(initiator_iqn).map(|host| host.chap.clone())
    }

    /// Has `watcher` called after each change.
    pub fn subscribe(&self, watcher: Watcher) {
        self.watchers.write().push(watcher);
    }

    /// Makes changes: all that `edit` does to the draft, or nothing when it fails or the engine cannot store it.
    ///
    /// Blocks the thread until the changes are durable: not for use on a runtime's own threads.
    pub fn change<T, E: From<CatalogError>>(&self, edit: impl FnOnce(&mut Draft) -> Result<T, E>) -> Result<T, E> {
        let changing = self.changing.lock();
        let mut draft = Draft::new(&self.state());
        let value = edit(&mut draft)?;
        let (state, changes) = draft.finish();
        if changes.is_empty() {
            return Ok(value);
        }
        call(&*self.service, Op::Change(changes)).map_err(CatalogError::Engine)?;
        let version = {
            let mut current = self.current.write();
            *current = (current.0 + 1, Arc::new(state));
            current.0
        };
        drop(changing);
        let watchers = self.watchers.read().clone();
        watchers.iter().for_each(|watcher| watcher(version));
        Ok(value)
    }

    /// Eradicates what is destroyed and whose delay is over, and says which volumes and snapshots they were. A clock that was set
    /// back makes them live longer, never shorter.
    pub fn eradicate_due(&self, now_ms: u64) -> Result<Vec<String>, CatalogError> {
        let mut gone = Vec::new();
        loop {
            let batch = self.change(|draft| draft.eradicate_due(now_ms, ERADICATION_BATCH))?;
            if batch.is_empty() {
                return Ok(gone);
            }
            gone.extend(batch);
        }
    }
}

/// A session may have stored a reservation in the moment in which the volume was eradicated.
fn remove_orphaned_reservations(service: &dyn Service, state: &CatalogState) -> Result<(), CatalogError> {
    let gone = stored_reservations(service)
        .into_iter()
        .filter(|(_, volume)| state.volume_or_snapshot_by_id(*volume).is_none());
    let changes: Vec<Change> = gone.map(|(key, _)| Change::Remove { key }).collect();
    if changes.is_empty() {
        return Ok(());
    }
    call(service, Op::Change(changes)).map_err(CatalogError::Engine)?;
    Ok(())
}
