//! Changes of protection groups and their snapshots.

use super::Draft;
use super::container::check_name_outside_pods;
use crate::name::check_suffix;
use crate::protection::{GroupSnapshot, ProtectionGroup, Retention, SnapshotSchedule};
use crate::record::{ArrayTime, GroupSnapshotId, ProtectionGroupId, Snapshot, Volume, VolumeOrSnapshot};
use crate::{CatalogError, MAX_GROUP_VOLUMES, MAX_PROTECTION_GROUPS, MIN_SNAPSHOT_INTERVAL_MS, ObjectKind};
use std::sync::Arc;
use types::ObjectId;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Valid range of the time between two scheduled snapshots: 5 minutes to 400 days.
const INTERVALS_MS: std::ops::RangeInclusive<u64> = MIN_SNAPSHOT_INTERVAL_MS..=400 * DAY_MS;
/// Maximum times of a retention: 4000 days.
const MAX_DAYS: u64 = 4000;
/// Maximum number of snapshots that are kept of each day.
const MAX_PER_DAY: u64 = 1440;

/// Changes to make to a protection group. `None` leaves a field unchanged.
#[derive(Clone, Debug, Default)]
pub struct ProtectionGroupEdit {
    /// New name.
    pub name: Option<String>,
    /// New schedule.
    pub schedule: Option<SnapshotSchedule>,
    /// New retention.
    pub retention: Option<Retention>,
}

impl Draft {
    /// Creates a protection group without volumes and with a schedule that does not run.
    pub fn create_protection_group(&mut self, name: &str, now_ms: u64) -> Result<(), CatalogError> {
        check_name_outside_pods(ObjectKind::ProtectionGroup, name)?;
        self.check_group_name(name, None)?;
        if self.state.protection_groups().count() >= MAX_PROTECTION_GROUPS {
            return Err(CatalogError::LimitReached { what: "Protection group", limit: MAX_PROTECTION_GROUPS });
        }
        let id = ProtectionGroupId(self.next_group_id()?);
        self.store_protection_group(ProtectionGroup {
            id,
            name: name.to_owned(),
            created_ms: now_ms,
            destroyed_ms: None,
            destroyed_served_ms: 0,
            volumes: Vec::new(),
            schedule: SnapshotSchedule::default(),
            retention: Retention::default(),
            last_ms: None,
            numbered: 0,
        })
    }

    /// Changes a protection group. A schedule with a time of day first runs at that time.
    pub fn edit_protection_group(
        &mut self,
        name: &str,
        edit: &ProtectionGroupEdit,
        now_ms: u64,
    ) -> Result<(), CatalogError> {
        let mut group = self.live_protection_group(name)?;
        if let Some(new_name) = &edit.name {
            check_name_outside_pods(ObjectKind::ProtectionGroup, new_name)?;
            self.check_group_name(new_name, Some(group.id))?;
            group.name = new_name.clone();
        }
        if let Some(schedule) = edit.schedule.filter(|schedule| *schedule != group.schedule) {
            check_schedule(&schedule)?;
            group.last_ms = match schedule.at_ms {
                Some(_) => Some(schedule.latest(now_ms)),
                None => group.last_ms,
            };
            group.schedule = schedule;
        }
        if let Some(retention) = edit.retention {
            let is_valid = retention.all_for_sec <= MAX_DAYS * DAY_MS / 1000
                && retention.days <= MAX_DAYS
                && retention.per_day <= MAX_PER_DAY;
            if !is_valid {
                let reason = "a retention has at most 4000 days and 1440 snapshots of each day";
                return Err(CatalogError::BadSetting { reason });
            }
            group.retention = retention;
        }
        self.store_protection_group(group)
    }

    /// Adds a volume to a protection group, or removes it. Its snapshots remain.
    pub fn set_protection(&mut self, group: &str, volume: &str, is_member: bool) -> Result<(), CatalogError> {
        let mut group = self.live_protection_group(group)?;
        let volume = self.state.volume(volume)?.clone();
        match (group.volumes.binary_search(&volume.id), is_member) {
            (Ok(_), true) => {
                return Err(CatalogError::AlreadyMember { name: volume.name.clone(), group: group.name });
            }
            (Err(_), false) => {
                return Err(CatalogError::NoSuch { kind: ObjectKind::Member, name: volume.name.clone() });
            }
            (Err(_), true) if group.volumes.len() >= MAX_GROUP_VOLUMES => {
                return Err(CatalogError::LimitReached { what: "Member", limit: MAX_GROUP_VOLUMES });
            }
            (Err(at), true) => group.volumes.insert(at, self.live_volume(&volume.name)?.id),
            (Ok(at), false) => {
                group.volumes.remove(at);
            }
        }
        self.store_protection_group(group)
    }

    /// Removes a volume from all protection groups, before it is eradicated.
    pub(super) fn unprotect(&mut self, volume: ObjectId) -> Result<(), CatalogError> {
        let of_volume = self.state.protection_groups().filter(|group| group.volumes.contains(&volume));
        for group in of_volume.cloned().collect::<Vec<_>>() {
            let mut group = ProtectionGroup::clone(&group);
            group.volumes.retain(|member| *member != volume);
            self.store_protection_group(group)?;
        }
        Ok(())
    }

    /// Takes snapshots of all volumes of a protection group that are not destroyed, at one instant.
    /// Without a suffix, uses the next number of the group.
    pub fn snapshot_protection_group(
        &mut self,
        name: &str,
        suffix: Option<&str>,
        is_retained: bool,
        now_ms: u64,
    ) -> Result<Arc<GroupSnapshot>, CatalogError> {
        self.snapshot_of_members(name, suffix, is_retained, now_ms, |_, _| true)
    }

    fn snapshot_of_members(
        &mut self,
        name: &str,
        suffix: Option<&str>,
        is_retained: bool,
        now_ms: u64,
        applies: impl Fn(&Self, &Arc<Volume>) -> bool,
    ) -> Result<Arc<GroupSnapshot>, CatalogError> {
        let mut group = self.live_protection_group(name)?;
        let volumes = group.volumes.iter().filter_map(|id| self.state.volume_by_id(*id));
        let volumes = volumes.filter(|volume| volume.destroyed_ms.is_none() && applies(self, volume));
        let volumes: Vec<_> = volumes.cloned().collect();
        if volumes.is_empty() {
            return Err(CatalogError::NoMembers { name: group.name });
        }
        let suffix = match suffix {
            Some(suffix) => {
                check_suffix(suffix)?;
                suffix.to_owned()
            }
            None => {
                group.numbered += 1;
                group.numbered.to_string()
            }
        };
        let full_name = format!("{}.{suffix}", group.name);
        if self.state.group_snapshot(&full_name).is_ok() {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::GroupSnapshot, name: full_name });
        }
        let snapshot = GroupSnapshot {
            id: GroupSnapshotId(self.next_group_id()?),
            group: group.id,
            suffix: suffix.clone(),
            created_ms: now_ms,
            destroyed_ms: None,
            destroyed_served_ms: 0,
            is_retained,
        };
        let id = (group.id, snapshot.id);
        self.store_protection_group(group)?;
        self.put(&snapshot)?;
        self.state.put_group_snapshot(snapshot);
        for volume in &volumes {
            self.take_member_snapshot(volume, suffix.clone(), id, now_ms)?;
        }
        self.state.group_snapshot(&full_name).cloned()
    }

    /// Destroys the snapshot of a protection group, with the snapshots of its volumes, or recovers
    /// it.
    pub fn set_group_snapshot_destroyed(
        &mut self,
        name: &str,
        is_destroyed: bool,
        now_ms: u64,
    ) -> Result<(), CatalogError> {
        let snapshot = self.state.group_snapshot(name)?.clone();
        let kind = ObjectKind::GroupSnapshot;
        if snapshot.destroyed_ms.is_some() == is_destroyed {
            let name = name.to_owned();
            return Err(match is_destroyed {
                true => CatalogError::Destroyed { kind, name },
                false => CatalogError::NotDestroyed { kind, name },
            });
        }
        if !is_destroyed {
            let group = self.state.protection_group_by_id(snapshot.group).map(|group| group.name.clone());
            self.live_protection_group(&group.unwrap_or_default())?;
        }
        self.mark_group_snapshot(&snapshot, is_destroyed.then_some(now_ms))
    }

    /// Permanently deletes the destroyed snapshot of a protection group.
    pub fn eradicate_group_snapshot(&mut self, name: &str) -> Result<(), CatalogError> {
        let snapshot = self.state.group_snapshot(name)?.clone();
        if snapshot.destroyed_ms.is_none() {
            let kind = ObjectKind::GroupSnapshot;
            return Err(CatalogError::NotDestroyed { kind, name: name.to_owned() });
        }
        self.drop_group_snapshot(&snapshot);
        Ok(())
    }

    /// Destroys a protection group with its snapshots, or recovers it with those that were
    /// destroyed together with it. The volumes remain.
    pub fn set_protection_group_destroyed(
        &mut self,
        name: &str,
        is_destroyed: bool,
        now_ms: u64,
    ) -> Result<(), CatalogError> {
        let mut group = ProtectionGroup::clone(self.state.protection_group(name)?);
        let kind = ObjectKind::ProtectionGroup;
        let was = group.destroyed_ms;
        match (was, is_destroyed) {
            (Some(_), true) => return Err(CatalogError::Destroyed { kind, name: group.name }),
            (None, false) => return Err(CatalogError::NotDestroyed { kind, name: group.name }),
            _ => {}
        }
        let snapshots: Vec<_> = self.state.snapshots_of_protection_group(group.id).cloned().collect();
        group.destroyed_ms = is_destroyed.then_some(now_ms);
        group.destroyed_served_ms = if is_destroyed { self.store_served_time()? } else { 0 };
        let marked = group.destroyed_ms;
        self.store_protection_group(group)?;
        let together = snapshots.iter().filter(|snapshot| snapshot.destroyed_ms == was);
        together.cloned().collect::<Vec<_>>().iter().try_for_each(|snapshot| self.mark_group_snapshot(snapshot, marked))
    }

    /// Permanently deletes a destroyed protection group and its snapshots.
    pub fn eradicate_protection_group(&mut self, name: &str) -> Result<(), CatalogError> {
        let group = self.state.protection_group(name)?.clone();
        if group.destroyed_ms.is_none() {
            let kind = ObjectKind::ProtectionGroup;
            return Err(CatalogError::NotDestroyed { kind, name: group.name.clone() });
        }
        let snapshots: Vec<_> = self.state.snapshots_of_protection_group(group.id).cloned().collect();
        snapshots.iter().for_each(|snapshot| self.drop_group_snapshot(snapshot));
        self.remove(&*group);
        self.state.remove_protection_group(group.id);
        Ok(())
    }

    /// Eradicates the destroyed protection groups whose snapshots are gone and whose eradication
    /// delay is over.
    pub(crate) fn eradicate_due_groups(&mut self, now: ArrayTime) -> Result<Vec<String>, CatalogError> {
        let delay = self.state.array().settings.eradication_delay_ms;
        let is_due = |group: &&Arc<ProtectionGroup>| {
            let since = |wall_ms| ArrayTime { wall_ms, served_ms: group.destroyed_served_ms };
            group.destroyed_ms.is_some_and(|wall_ms| since(wall_ms).remaining_ms(delay, now) == 0)
                && self.state.snapshots_of_protection_group(group.id).next().is_none()
        };
        let due: Vec<String> = self.state.protection_groups().filter(is_due).map(|group| group.name.clone()).collect();
        due.iter().try_for_each(|name| self.eradicate_protection_group(name))?;
        Ok(due)
    }

    /// Takes the snapshot of a protection group that its schedule asks for, if it is due. Returns
    /// its name.
    pub(crate) fn snapshot_if_due(
        &mut self,
        id: ProtectionGroupId,
        now_ms: u64,
    ) -> Result<Option<String>, CatalogError> {
        let Some(group) = self.state.protection_group_by_id(id).filter(|group| group.destroyed_ms.is_none()) else {
            return Ok(None);
        };
        let Some(due) = group.schedule.due(group.last_ms, now_ms) else { return Ok(None) };
        let group = ProtectionGroup { last_ms: Some(due), ..ProtectionGroup::clone(group) };
        let name = group.name.clone();
        self.store_protection_group(group)?;
        let is_ordered_here =
            |draft: &Self, volume: &Arc<Volume>| draft.is_ordered_here(&VolumeOrSnapshot::Volume(volume.clone()));
        match self.snapshot_of_members(&name, None, true, now_ms, is_ordered_here) {
            Ok(snapshot) => Ok(Some(self.state.group_snapshot_name(&snapshot))),
            Err(CatalogError::NoMembers { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Destroys the snapshots of a protection group that its retention does not keep, at most
    /// `most`. Returns their names.
    pub(crate) fn apply_retention(
        &mut self,
        id: ProtectionGroupId,
        now_ms: u64,
        most: usize,
    ) -> Result<Vec<String>, CatalogError> {
        let Some(group) = self.state.protection_group_by_id(id).filter(|group| group.destroyed_ms.is_none()) else {
            return Ok(Vec::new());
        };
        let all = self.state.snapshots_of_protection_group(id);
        let mut live: Vec<_> =
            all.filter(|snapshot| snapshot.is_retained && snapshot.destroyed_ms.is_none()).cloned().collect();
        live.sort_by_key(|snapshot| snapshot.created_ms);
        let created: Vec<u64> = live.iter().map(|snapshot| snapshot.created_ms).collect();
        let keeps = group.retention.keep(&created, now_ms);
        let mut expired = Vec::new();
        let is_connected = |snapshot: &GroupSnapshot| {
            self.state.members_of(snapshot).iter().any(|member| self.state.is_connected(member.id))
        };
        let is_ordered_here = |snapshot: &GroupSnapshot| {
            let mut members = self.state.members_of(snapshot).into_iter();
            members.all(|member| self.is_ordered_here(&VolumeOrSnapshot::Snapshot(member)))
        };
        // A snapshot that is connected to a host stays until it is disconnected.
        let expiring = live.iter().zip(keeps).filter(|(snapshot, keep)| !keep && !is_connected(snapshot));
        let expiring = expiring.filter(|(snapshot, _)| is_ordered_here(snapshot));
        for snapshot in expiring.map(|(snapshot, _)| snapshot).take(most).cloned().collect::<Vec<_>>() {
            self.mark_group_snapshot(&snapshot, Some(now_ms))?;
            expired.push(self.state.group_snapshot_name(&snapshot));
        }
        Ok(expired)
    }

    fn mark_group_snapshot(&mut self, snapshot: &GroupSnapshot, destroyed_ms: Option<u64>) -> Result<(), CatalogError> {
        let served = if destroyed_ms.is_some() { self.store_served_time()? } else { 0 };
        let mut marked = snapshot.clone();
        (marked.destroyed_ms, marked.destroyed_served_ms) = (destroyed_ms, served);
        self.put(&marked)?;
        self.state.put_group_snapshot(marked);
        for member in self.state.members_of(snapshot) {
            if destroyed_ms.is_some() && self.state.is_connected(member.id) {
                let name = self.state.snapshot_name(&member);
                return Err(CatalogError::Connected { kind: ObjectKind::Snapshot, name });
            }
            self.store_snapshot(Snapshot { destroyed_ms, destroyed_served_ms: served, ..Snapshot::clone(&member) })?;
        }
        Ok(())
    }

    fn drop_group_snapshot(&mut self, snapshot: &GroupSnapshot) {
        let members = self.state.members_of(snapshot);
        // The record goes with the last snapshot of a volume.
        members.iter().for_each(|member| self.drop_snapshot(member));
    }

    /// Removes the record of a protection group's snapshot after its last snapshot of a volume.
    pub(super) fn forget_empty_group_snapshot(&mut self, gone: &Snapshot) {
        let Some((group, id)) = gone.group else { return };
        let found = self.state.snapshots_of_protection_group(group).find(|snapshot| snapshot.id == id).cloned();
        if let Some(snapshot) = found.filter(|snapshot| self.state.members_of(snapshot).is_empty()) {
            self.remove(&*snapshot);
            self.state.remove_group_snapshot(&snapshot);
        }
    }

    fn live_protection_group(&self, name: &str) -> Result<ProtectionGroup, CatalogError> {
        let group = self.state.protection_group(name)?;
        match group.destroyed_ms {
            None => Ok(ProtectionGroup::clone(group)),
            Some(_) => Err(CatalogError::Destroyed { kind: ObjectKind::ProtectionGroup, name: group.name.clone() }),
        }
    }

    fn check_group_name(&self, name: &str, own: Option<ProtectionGroupId>) -> Result<(), CatalogError> {
        match self.state.protection_group(name) {
            Ok(other) if Some(other.id) != own => {
                Err(CatalogError::AlreadyExists { kind: ObjectKind::ProtectionGroup, name: name.to_owned() })
            }
            _ => Ok(()),
        }
    }

    fn next_group_id(&mut self) -> Result<u64, CatalogError> {
        let id = self.state.array().next_host;
        self.edit_array(|array| array.next_host += 1)?;
        Ok(id)
    }

    fn store_protection_group(&mut self, group: ProtectionGroup) -> Result<(), CatalogError> {
        self.put(&group)?;
        self.state.put_protection_group(group);
        Ok(())
    }
}

pub(super) fn check_schedule(schedule: &SnapshotSchedule) -> Result<(), CatalogError> {
    if !INTERVALS_MS.contains(&schedule.every_ms) {
        return Err(CatalogError::BadSetting { reason: "a schedule has an interval of 5 minutes to 400 days" });
    }
    match schedule.at_ms {
        Some(at) if at >= DAY_MS || !schedule.every_ms.is_multiple_of(DAY_MS) => {
            let reason = "a time of day is less than one day, and requires an interval of whole days";
            Err(CatalogError::BadSetting { reason })
        }
        _ => Ok(()),
    }
}
