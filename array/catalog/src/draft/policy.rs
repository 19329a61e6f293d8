//! Changes of snapshot policies, and the snapshots that they take.

use super::Draft;
use super::protection::check_schedule;
use super::stretch::Scope;
use crate::name::check_name;
use crate::policy::{SnapshotPolicy, SnapshotPolicyId, SnapshotRule};
use crate::record::{Snapshot, VolumeOrSnapshot};
use crate::volume_group::VolumeGroupId;
use crate::{CatalogError, MAX_GROUP_VOLUMES, MAX_SNAPSHOT_POLICIES, MAX_SNAPSHOT_RULES, ObjectKind};
use std::sync::Arc;
use types::ObjectId;

/// Maximum time for which a rule keeps a snapshot: 4000 days.
const MAX_KEEP_MS: u64 = 4000 * 24 * 60 * 60 * 1000;
/// Maximum length of the first part of a suffix, so that a number fits after it.
const MAX_PREFIX_CHARS: usize = 48;

/// An object to which a snapshot policy applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyMember<'n> {
    /// A volume, by name.
    Volume(&'n str),
    /// A volume group, by name.
    VolumeGroup(&'n str),
}

impl PolicyMember<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Volume(name) | Self::VolumeGroup(name) => name,
        }
    }
}

impl Draft {
    /// Creates a snapshot policy without rules and members.
    pub fn create_snapshot_policy(&mut self, name: &str, is_enabled: bool, now_ms: u64) -> Result<(), CatalogError> {
        self.check_policy_name(name, None)?;
        if self.state.snapshot_policies().count() >= MAX_SNAPSHOT_POLICIES {
            return Err(CatalogError::LimitReached { what: "Snapshot policy", limit: MAX_SNAPSHOT_POLICIES });
        }
        // Hosts, groups and policies share one counter of ids.
        let id = SnapshotPolicyId(self.state.array().next_host);
        self.edit_array(|array| array.next_host += 1)?;
        self.store_snapshot_policy(SnapshotPolicy {
            id,
            name: name.to_owned(),
            created_ms: now_ms,
            is_enabled,
            rules: Vec::new(),
            rules_numbered: 0,
            volumes: Vec::new(),
            groups: Vec::new(),
            snapshots_numbered: 0,
        })
    }

    /// Renames a snapshot policy, or lets it take snapshots or not. `None` leaves a setting as it
    /// is.
    pub fn edit_snapshot_policy(
        &mut self,
        name: &str,
        new_name: Option<&str>,
        is_enabled: Option<bool>,
    ) -> Result<(), CatalogError> {
        let mut policy = SnapshotPolicy::clone(self.state.snapshot_policy(name)?);
        if let Some(new_name) = new_name {
            self.check_policy_name(new_name, Some(policy.id))?;
            new_name.clone_into(&mut policy.name);
        }
        policy.is_enabled = is_enabled.unwrap_or(policy.is_enabled);
        self.store_snapshot_policy(policy)
    }

    /// Deletes a snapshot policy. Its snapshots expire as planned.
    pub fn delete_snapshot_policy(&mut self, name: &str) -> Result<(), CatalogError> {
        let policy = self.state.snapshot_policy(name)?.clone();
        self.remove(&*policy);
        self.state.remove_snapshot_policy(policy.id);
        Ok(())
    }

    /// Adds a rule to a snapshot policy. Returns its number. Number and last time of `rule` are
    /// ignored. A rule with a time of day first runs at that time.
    pub fn add_snapshot_rule(&mut self, policy: &str, rule: SnapshotRule, now_ms: u64) -> Result<u64, CatalogError> {
        let mut policy = SnapshotPolicy::clone(self.state.snapshot_policy(policy)?);
        check_schedule(&rule.schedule())?;
        check_name(&rule.prefix)?;
        let bad = |reason: &'static str| Err(CatalogError::BadSetting { reason });
        if rule.prefix.len() > MAX_PREFIX_CHARS {
            return bad("the client name of a rule has at most 48 characters");
        }
        if !(rule.every_ms..=MAX_KEEP_MS).contains(&rule.keep_ms) {
            return bad("a rule keeps snapshots for at least the time between two of them, at most 4000 days");
        }
        if policy.rules.iter().any(|other| other.every_ms == rule.every_ms) {
            return bad("each rule of a policy has an interval of its own");
        }
        if policy.rules.len() >= MAX_SNAPSHOT_RULES {
            return Err(CatalogError::LimitReached { what: "Rule", limit: MAX_SNAPSHOT_RULES });
        }
        policy.rules_numbered += 1;
        let number = policy.rules_numbered;
        let last_ms = rule.at_ms.map(|_| rule.schedule().latest(now_ms));
        policy.rules.push(SnapshotRule { number, last_ms, ..rule });
        self.store_snapshot_policy(policy)?;
        Ok(number)
    }

    /// Removes a rule from a snapshot policy. Its snapshots expire as planned.
    pub fn remove_snapshot_rule(&mut self, policy: &str, number: u64) -> Result<(), CatalogError> {
        let mut policy = SnapshotPolicy::clone(self.state.snapshot_policy(policy)?);
        let before = policy.rules.len();
        policy.rules.retain(|rule| rule.number != number);
        if policy.rules.len() == before {
            return Err(CatalogError::NoSuch { kind: ObjectKind::SnapshotRule, name: policy.name });
        }
        self.store_snapshot_policy(policy)
    }

    /// Applies a snapshot policy to a volume or volume group, or no longer.
    pub fn set_policy_member(
        &mut self,
        policy: &str,
        member: PolicyMember<'_>,
        is_member: bool,
    ) -> Result<(), CatalogError> {
        let mut policy = SnapshotPolicy::clone(self.state.snapshot_policy(policy)?);
        let is_changed = match member {
            PolicyMember::Volume(name) => {
                let id = match is_member {
                    true => self.live_volume(name)?.id,
                    false => self.state.volume(name)?.id,
                };
                set_member(&mut policy.volumes, id, is_member)
            }
            PolicyMember::VolumeGroup(name) => {
                let id = match is_member {
                    true => self.live_volume_group(name)?.id,
                    false => self.state.volume_group(name)?.id,
                };
                set_member(&mut policy.groups, id, is_member)
            }
        };
        match (is_changed, is_member) {
            (false, true) => Err(CatalogError::AlreadyMember { name: member.name().to_owned(), group: policy.name }),
            (false, false) => Err(CatalogError::NoSuch { kind: ObjectKind::Member, name: member.name().to_owned() }),
            (true, _) if policy.volumes.len() > MAX_GROUP_VOLUMES => {
                Err(CatalogError::LimitReached { what: "Member", limit: MAX_GROUP_VOLUMES })
            }
            (true, _) => self.store_snapshot_policy(policy),
        }
    }

    /// Removes a volume or volume group from all snapshot policies, before it is eradicated.
    pub(super) fn leave_policies(
        &mut self,
        volume: Option<ObjectId>,
        group: Option<VolumeGroupId>,
    ) -> Result<(), CatalogError> {
        let policies: Vec<_> = self.state.snapshot_policies().cloned().collect();
        for policy in policies {
            let mut left = SnapshotPolicy::clone(&policy);
            left.volumes.retain(|member| Some(*member) != volume);
            left.groups.retain(|member| Some(*member) != group);
            if left != *policy {
                self.store_snapshot_policy(left)?;
            }
        }
        Ok(())
    }

    /// Takes the snapshots of a policy that its rules ask for, if any is due. Rules that are due
    /// together share one snapshot of each volume, which is kept for the longest of their times.
    /// Returns the names of the snapshots.
    pub(crate) fn run_policy(&mut self, id: SnapshotPolicyId, now_ms: u64) -> Result<Vec<String>, CatalogError> {
        let Some(mut policy) = self.state.snapshot_policy_by_id(id).map(|policy| SnapshotPolicy::clone(policy)) else {
            return Ok(Vec::new());
        };
        let mut volumes = self.state.volumes_of_policy(&policy);
        volumes.retain(|volume| self.is_ordered_here(&VolumeOrSnapshot::Volume(volume.clone())));
        let mut longest: Option<(u64, String)> = None;
        for rule in policy.rules.iter_mut().filter(|_| policy.is_enabled) {
            let Some(due) = rule.schedule().due(rule.last_ms, now_ms) else { continue };
            // An interval begins with the first snapshot; a time of day passes without one.
            if volumes.is_empty() && rule.at_ms.is_none() {
                continue;
            }
            rule.last_ms = Some(due);
            if longest.as_ref().is_none_or(|(keep_ms, _)| *keep_ms < rule.keep_ms) {
                longest = Some((rule.keep_ms, rule.prefix.clone()));
            }
        }
        let Some((keep_ms, prefix)) = longest else { return Ok(Vec::new()) };
        if volumes.is_empty() {
            return self.store_snapshot_policy(policy).map(|()| Vec::new());
        }
        let suffix = loop {
            policy.snapshots_numbered += 1;
            let suffix = format!("{prefix}-{}", policy.snapshots_numbered);
            // An administrator may have chosen the same suffix.
            if volumes.iter().all(|volume| self.state.snapshot_with(volume.id, &suffix).is_none()) {
                break suffix;
            }
        };
        self.store_snapshot_policy(policy)?;
        let mut taken = Vec::with_capacity(volumes.len());
        for volume in volumes {
            let expires_ms = Some(now_ms.saturating_add(keep_ms));
            let snapshot = self.take_snapshot(&volume, suffix.clone(), now_ms, None, expires_ms)?;
            taken.push(self.state.snapshot_name(&snapshot));
        }
        Ok(taken)
    }

    /// Destroys up to `most` snapshots of a scope whose time has come. Returns their names.
    pub(crate) fn expire_snapshots(
        &mut self,
        now_ms: u64,
        most: usize,
        scope: Scope,
    ) -> Result<Vec<String>, CatalogError> {
        let applies = |snapshot: &Arc<Snapshot>| self.scope_of(&VolumeOrSnapshot::Snapshot(snapshot.clone())) == scope;
        let due = self.state.expired_snapshots(now_ms, most, applies);
        let names: Vec<String> = due.iter().map(|snapshot| self.state.snapshot_name(snapshot)).collect();
        names.iter().try_for_each(|name| self.destroy_snapshot(name, now_ms).map(|_| ()))?;
        Ok(names)
    }

    fn check_policy_name(&self, name: &str, own: Option<SnapshotPolicyId>) -> Result<(), CatalogError> {
        check_name(name)?;
        match self.state.snapshot_policy(name) {
            Ok(other) if Some(other.id) != own => {
                Err(CatalogError::AlreadyExists { kind: ObjectKind::SnapshotPolicy, name: name.to_owned() })
            }
            _ => Ok(()),
        }
    }

    fn store_snapshot_policy(&mut self, policy: SnapshotPolicy) -> Result<(), CatalogError> {
        self.put(&policy)?;
        self.state.put_snapshot_policy(policy);
        Ok(())
    }
}

/// Adds an id to a sorted list, or removes it. Returns whether that changed the list.
fn set_member<T: Ord>(members: &mut Vec<T>, id: T, is_member: bool) -> bool {
    match (members.binary_search(&id), is_member) {
        (Err(at), true) => members.insert(at, id),
        (Ok(at), false) => drop(members.remove(at)),
        _ => return false,
    }
    true
}
