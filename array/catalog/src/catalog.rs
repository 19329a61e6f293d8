//! The catalog: the current state, and the only way to change it.

use crate::chap::{opened, sealed};
use crate::draft::{Draft, FinishedDraft, PodOrder, Scope};
use crate::lun::LunMap;
use crate::record::{Array, ArrayInit, ArrayTime, Chap, HostId, stored_reservations};
use crate::request::{Request, request};
use crate::secret::SecretKeys;
use crate::state::CatalogState;
use crate::{CatalogError, check_name};
use engine::{Change, MAX_FOLLOWED_OPS, Op, OpError, Service, call};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// Maximum number of volumes and snapshots eradicated in one change, so that other changes are not
/// blocked for long.
const ERADICATION_BATCH: usize = 256;

/// Maximum number of snapshots of one protection group, or of all policies, that expire in one
/// change.
const EXPIRY_BATCH: usize = 64;

/// Called after each change with the new version. Runs on the thread that made the change, so it
/// must be brief and must not change the catalog.
pub type Watcher = Arc<dyn Fn(u64) + Send + Sync>;

/// Returns the milliseconds since the array was opened, by a clock that is never set.
pub type Uptime = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The result of [`Catalog::unlock`]: names of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unlocked {
    /// Hosts with a secret that no key opens.
    pub locked: Vec<String>,
    /// Hosts with a secret that was stored in clear text or with another key than the first.
    pub resealed: Vec<String>,
    /// Whether a secret of the delivery of alerts is one that no key opens.
    pub is_delivery_locked: bool,
}

/// The result of [`Catalog::run_protection`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtectionRun {
    /// Snapshots of protection groups, and of volumes by policies, that were taken.
    pub taken: Vec<String>,
    /// Snapshots of these that have expired and were destroyed.
    pub expired: Vec<String>,
    /// Protection groups and policies that could not be served.
    pub failed: Vec<(String, CatalogError)>,
}

/// The catalog.
pub struct Catalog {
    service: Arc<dyn Service>,
    /// Held while a change is stored by the engine. Readers never wait for it.
    changing: Mutex<()>,
    current: RwLock<(u64, Arc<CatalogState>)>,
    watchers: RwLock<Vec<Watcher>>,
    /// Time that the array had served before this run, in milliseconds.
    served_before_ms: u64,
    /// Returns the time of this run in milliseconds.
    uptime: Uptime,
    keys: RwLock<Option<Arc<SecretKeys>>>,
    order: RwLock<PodOrder>,
}

impl Catalog {
    /// Reads the catalog from the engine, or initialises a new array if the engine holds none.
    ///
    /// Blocks the thread, as [`Self::change`] does, so it must not run on an async runtime thread.
    pub fn open(service: Arc<dyn Service>, init: &ArrayInit) -> Result<Self, CatalogError> {
        let state = match CatalogState::load(&*service)? {
            Some(state) => {
                remove_orphaned_reservations(&*service, &state)?;
                state
            }
            None => {
                check_name(&init.name)?;
                let draft = Draft::for_new_array(Array::init(init))?;
                let FinishedDraft { state, changes, .. } = draft.finish();
                call(&*service, Op::Change(changes)).map_err(CatalogError::Engine)?;
                state
            }
        };
        Ok(Self {
            served_before_ms: state.array().served_ms,
            uptime: Arc::new(|| 0),
            service,
            changing: Mutex::new(()),
            current: RwLock::new((1, Arc::new(state))),
            watchers: RwLock::new(Vec::new()),
            keys: RwLock::new(None),
            order: RwLock::new(Arc::new(|_| true)),
        })
    }

    /// Sets the test whether this array orders the changes of a stretched pod, so that background
    /// work leaves the pods of the other array alone. Without it, this array orders all.
    pub fn set_order(&self, order: PodOrder) {
        *self.order.write() = order;
    }

    /// Sets the clock of the time served. Without it, only earlier runs count.
    #[must_use]
    pub fn with_uptime(mut self, uptime: Uptime) -> Self {
        self.uptime = uptime;
        self
    }

    /// Returns the time that the array has served in all its runs, in milliseconds. It stops while
    /// the array is switched off. A crash loses the time since [`Self::store_served_time`].
    pub fn served_ms(&self) -> u64 {
        self.served_before_ms.saturating_add((self.uptime)())
    }

    /// Stores the time served, if destroyed objects or the end of an alert wait for it.
    pub fn store_served_time(&self) -> Result<(), CatalogError> {
        if self.state().destroyed_count() == 0 && self.array().clock_jump.is_none() {
            return Ok(());
        }
        self.change(|draft| draft.store_served_time().map(|_| ()))
    }

    /// Opens the stored secrets, and seals those again that were stored in clear text or with
    /// another key than the first. Until then, secrets are neither readable nor stored.
    ///
    /// Blocks the thread, as [`Self::change`] does.
    ///
    /// # Errors
    ///
    /// Returns an error if the secrets cannot be stored; they are open nevertheless.
    pub fn unlock(&self, keys: SecretKeys) -> Result<Unlocked, CatalogError> {
        let keys = Arc::new(keys);
        let mut unlocked = Unlocked::default();
        let mut reseal: Vec<HostId> = Vec::new();
        let delivery_is_stale;
        {
            let _changing = self.changing.lock();
            let mut state = CatalogState::clone(&self.state());
            for stored in self.state().hosts() {
                let host = opened(stored, &keys);
                if host.is_locked() {
                    unlocked.locked.push(host.name.clone());
                }
                if sealed(&host, Some(&keys)).is_some_and(|sealed| sealed != **stored) {
                    unlocked.resealed.push(host.name.clone());
                    reseal.push(host.id);
                }
                state.put_host(host);
            }
            let delivery = state.delivery().opened(&keys);
            unlocked.is_delivery_locked = delivery.is_locked();
            delivery_is_stale = delivery.sealed(Some(&keys)).is_some_and(|sealed| sealed != **state.delivery());
            state.put_delivery(delivery);
            let mut current = self.current.write();
            if state != *current.1 {
                *current = (current.0 + 1, Arc::new(state));
            }
            *self.keys.write() = Some(keys);
        }
        self.change(|draft| {
            if delivery_is_stale {
                draft.put_delivery(draft.state().delivery().as_ref().clone())?;
            }
            reseal.iter().try_for_each(|id| match draft.state().host_by_id(*id).cloned() {
                Some(host) => draft.put_host(&host),
                None => Ok(()),
            })
        })?;
        Ok(unlocked)
    }

    /// Returns the current state, an immutable value.
    pub fn state(&self) -> Arc<CatalogState> {
        self.current.read().1.clone()
    }

    /// Returns the version, which starts at 1 and increases by one with each change.
    pub fn version(&self) -> u64 {
        self.current.read().0
    }

    /// Returns the record of the array.
    pub fn array(&self) -> Arc<Array> {
        self.state().array().clone()
    }

    /// Returns the iSCSI name of the array's target.
    pub fn target_iqn(&self) -> String {
        self.array().iqn.clone()
    }

    /// Returns the LUN map of an initiator, or `None` if it belongs to no host.
    pub fn lun_map(&self, initiator_iqn: &str) -> Option<Arc<LunMap>> {
        self.state().lun_map(initiator_iqn).map(Arc::new)
    }

    /// Returns the CHAP settings for an initiator, or `None` if it belongs to no host. The settings
    /// are empty if the host uses no CHAP.
    pub fn chap(&self, initiator_iqn: &str) -> Option<Chap> {
        self.state().host_of_initiator(initiator_iqn).map(|host| host.chap.clone())
    }

    /// Registers `watcher` to be called after each change.
    pub fn subscribe(&self, watcher: Watcher) {
        self.watchers.write().push(watcher);
    }

    /// Applies all changes that `edit` makes to the draft, or none if `edit` or the engine fails.
    ///
    /// Blocks the thread until the changes are durable, so it must not run on an async runtime
    /// thread.
    ///
    /// # Errors
    ///
    /// Returns the error of `edit`, or [`CatalogError::Engine`] if the changes could not be stored.
    pub fn change<T, E: From<CatalogError>>(&self, edit: impl FnOnce(&mut Draft) -> Result<T, E>) -> Result<T, E> {
        let changing = self.changing.lock();
        let mut draft =
            Draft::new(&self.state(), self.served_ms(), self.keys.read().clone(), self.order.read().clone());
        let value = edit(&mut draft)?;
        if !draft.is_changed() {
            return Ok(value);
        }
        let (state, request) = request(&self.state(), draft.finish())?;
        let stored = self.store(request);
        if let Err(error) = &stored
            && !matches!(error, CatalogError::PodInDoubt { .. })
        {
            return Err(error.clone().into());
        }
        let version = {
            let mut current = self.current.write();
            *current = (current.0 + 1, Arc::new(state));
            current.0
        };
        drop(changing);
        let watchers = self.watchers.read().clone();
        watchers.iter().for_each(|watcher| watcher(version));
        stored.map(|()| value).map_err(E::from)
    }

    /// Lets the engine store a change. [`CatalogError::PodInDoubt`] if it was ordered in a stream
    /// that was closed before it was committed: it is made here, then, and so is its state.
    fn store(&self, request: Request) -> Result<(), CatalogError> {
        let Request { op, pod } = request;
        let Some(pod) = pod else { return call(&*self.service, op).map(drop).map_err(CatalogError::Engine) };
        let values = if let Op::StreamChange(change) = &op { change.values.clone() } else { Vec::new() };
        let reason = match call(&*self.service, op) {
            Ok(_) => return Ok(()),
            Err(OpError::Unavailable(reason)) => reason,
            Err(error) => return Err(CatalogError::Engine(error)),
        };
        let name = pod.name.clone();
        if values.iter().all(|value| self.is_stored(value)) {
            return Err(CatalogError::PodInDoubt { name });
        }
        let peer = pod.stretch.as_ref().map(|stretch| stretch.peer.name.clone()).unwrap_or_default();
        Err(match (*self.order.read())(&pod) {
            true => CatalogError::PodUnavailable { name, reason: reason.to_owned() },
            false => CatalogError::OrderedElsewhere { name, peer },
        })
    }

    fn is_stored(&self, change: &Change) -> bool {
        match change {
            Change::Put { key, value } => self.service.get(key).as_ref() == Some(value),
            Change::Remove { key } => self.service.get(key).is_none(),
            _ => true,
        }
    }

    /// Returns the parts of the catalog that background work changes one after the other: all that
    /// is in no stretched pod, and each stretched pod that this array orders.
    fn scopes(&self) -> Vec<Scope> {
        let (state, order) = (self.state(), self.order.read().clone());
        let pods = state.stretched_pods().filter(|pod| order(pod)).map(|pod| Scope::Pod(pod.id));
        std::iter::once(Scope::Plain).chain(pods).collect()
    }

    /// Returns whether a change is being stored. The engine may have applied it although
    /// [`Self::state`] does not show it yet.
    pub fn is_changing(&self) -> bool {
        self.changing.is_locked()
    }

    /// Waits until the change that is being stored has ended, if there is one. Blocks the thread.
    pub fn wait_for_change(&self) {
        drop(self.changing.lock());
    }

    /// Eradicates the destroyed volumes and snapshots whose eradication delay has expired, and
    /// returns their names.
    ///
    /// The delay must have passed by the wall clock and as time served. A clock that was set, and
    /// time without service, keep them longer, never shorter.
    pub fn eradicate_due(&self, now: ArrayTime) -> Result<Vec<String>, CatalogError> {
        let mut gone = Vec::new();
        let mut failed = None;
        for scope in self.scopes() {
            // A pod that cannot be changed now does not keep the others from it.
            match self.eradicate_due_in(now, scope) {
                Ok(names) => gone.extend(names),
                Err(error) if scope == Scope::Plain => return Err(error),
                Err(error) => failed = Some(error),
            }
        }
        gone.extend(self.change(|draft| draft.eradicate_due_groups(now))?);
        gone.extend(self.change(|draft| draft.eradicate_due_volume_groups(now))?);
        gone.extend(self.change(|draft| draft.eradicate_due_pods(now))?);
        failed.map_or(Ok(gone), Err)
    }

    fn eradicate_due_in(&self, now: ArrayTime, scope: Scope) -> Result<Vec<String>, CatalogError> {
        let most = if scope == Scope::Plain { ERADICATION_BATCH } else { MAX_FOLLOWED_OPS };
        let mut gone = Vec::new();
        loop {
            let batch = self.change(|draft| draft.eradicate_due(now, most, scope))?;
            if batch.is_empty() {
                return Ok(gone);
            }
            gone.extend(batch);
        }
    }

    /// Takes the snapshots of protection groups and of snapshot policies that are due, and destroys
    /// those that are no longer kept. Each group and policy is a change of its own, so that the
    /// failure of one does not concern the others.
    pub fn run_protection(&self, now_ms: u64) -> ProtectionRun {
        let mut run = ProtectionRun::default();
        let groups: Vec<_> = self.state().protection_groups().cloned().collect();
        for group in groups.iter().filter(|group| group.destroyed_ms.is_none()) {
            match self.change(|draft| draft.snapshot_if_due(group.id, now_ms)) {
                Ok(taken) => run.taken.extend(taken),
                Err(error) => run.failed.push((group.name.clone(), error)),
            }
            match self.change(|draft| draft.apply_retention(group.id, now_ms, EXPIRY_BATCH)) {
                Ok(expired) => run.expired.extend(expired),
                Err(error) => run.failed.push((group.name.clone(), error)),
            }
        }
        self.run_policies(now_ms, &mut run);
        run
    }

    fn run_policies(&self, now_ms: u64, run: &mut ProtectionRun) {
        let policies: Vec<_> = self.state().snapshot_policies().cloned().collect();
        for policy in policies {
            match self.change(|draft| draft.run_policy(policy.id, now_ms)) {
                Ok(taken) => run.taken.extend(taken),
                Err(error) => run.failed.push((policy.name.clone(), error)),
            }
        }
        for scope in self.scopes() {
            self.expire_snapshots(now_ms, scope, run);
        }
    }

    fn expire_snapshots(&self, now_ms: u64, scope: Scope, run: &mut ProtectionRun) {
        loop {
            match self.change(|draft| draft.expire_snapshots(now_ms, EXPIRY_BATCH, scope)) {
                Ok(expired) if expired.is_empty() => return,
                Ok(expired) => run.expired.extend(expired),
                Err(error) => return run.failed.push(("snapshot policies".to_owned(), error)),
            }
        }
    }
}

/// Removes reservations of eradicated volumes. A session may store a reservation at the moment its
/// volume is eradicated.
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
