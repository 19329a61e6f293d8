//! Changes of host groups, their members and their connections.

use super::Draft;
use crate::name::check_name;
use crate::record::{Connection, GroupConnection, Host, HostGroup, HostGroupId};
use crate::{CatalogError, MAX_HOST_GROUPS, MAX_LUN, ObjectKind};
use std::collections::BTreeSet;
use std::sync::Arc;
use types::ObjectId;

impl Draft {
    /// Creates an empty host group.
    pub fn create_host_group(&mut self, name: &str, now_ms: u64) -> Result<Arc<HostGroup>, CatalogError> {
        check_name(name)?;
        if self.state.host_group(name).is_ok() {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::HostGroup, name: name.to_owned() });
        }
        if self.state.host_groups().count() >= MAX_HOST_GROUPS {
            return Err(CatalogError::LimitReached { what: "Host group", limit: MAX_HOST_GROUPS });
        }
        // Hosts and host groups share one counter of ids.
        let id = HostGroupId(self.state.array().next_host);
        self.edit_array(|array| array.next_host += 1)?;
        self.store_host_group(HostGroup { id, name: name.to_owned(), created_ms: now_ms })
    }

    /// Renames a host group.
    pub fn rename_host_group(&mut self, name: &str, new_name: &str) -> Result<Arc<HostGroup>, CatalogError> {
        check_name(new_name)?;
        let mut group = HostGroup::clone(self.state.host_group(name)?);
        if self.state.host_group(new_name).is_ok_and(|other| other.id != group.id) {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::HostGroup, name: new_name.to_owned() });
        }
        group.name = new_name.to_owned();
        self.store_host_group(group)
    }

    /// Deletes a host group. It must have no hosts and no connections.
    pub fn delete_host_group(&mut self, name: &str) -> Result<(), CatalogError> {
        let group = self.state.host_group(name)?.clone();
        if self.state.hosts_of_group(group.id).next().is_some() {
            return Err(CatalogError::HasMembers { kind: ObjectKind::HostGroup, name: group.name.clone() });
        }
        if self.state.group_connections(group.id).next().is_some() {
            return Err(CatalogError::Connected { kind: ObjectKind::HostGroup, name: group.name.clone() });
        }
        self.remove(&*group);
        self.state.remove_host_group(group.id);
        Ok(())
    }

    /// Adds a host to a host group and connects the volumes of the group to it. Its own connections
    /// must not use their LUNs or volumes.
    pub fn add_to_host_group(&mut self, group: &str, host: &str) -> Result<(), CatalogError> {
        let group = self.state.host_group(group)?.clone();
        let host = self.state.host(host)?.clone();
        if let Some(present) = self.state.group_of_host(&host) {
            return Err(CatalogError::AlreadyMember { name: host.name.clone(), group: present.name.clone() });
        }
        self.put_in_group(&host, Some(group.id))?;
        let shared: Vec<GroupConnection> = self.state.group_connections(group.id).collect();
        shared.iter().try_for_each(|connection| self.connect_member(&host, connection.volume, connection.lun))
    }

    /// Removes a host from a host group, and the connections of the group from the host.
    pub fn remove_from_host_group(&mut self, group: &str, host: &str) -> Result<(), CatalogError> {
        let group = self.state.host_group(group)?.clone();
        let host = self.state.host(host)?.clone();
        if host.group != Some(group.id) {
            return Err(CatalogError::NoSuch { kind: ObjectKind::Member, name: host.name.clone() });
        }
        let shared: Vec<GroupConnection> = self.state.group_connections(group.id).collect();
        shared.iter().for_each(|connection| self.disconnect_member(&host, connection.volume));
        self.put_in_group(&host, None)
    }

    /// Connects a volume, or a snapshot read-only, to all present and future hosts of a group. Uses
    /// the requested LUN, or the lowest one from 1 that is free at all of them.
    pub fn connect_group(
        &mut self,
        group: &str,
        object: &str,
        lun: Option<u16>,
    ) -> Result<GroupConnection, CatalogError> {
        let object = self.live_volume_or_snapshot(object)?;
        let group = self.state.host_group(group)?.clone();
        if self.state.group_lun(group.id, object.id()).is_some() {
            let name = self.state.volume_or_snapshot_name(&object);
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Connection, name });
        }
        let lun = self.free_group_lun(&group, lun)?;
        let connection = GroupConnection { group: group.id, volume: object.id(), lun };
        self.put(&connection)?;
        self.state.put_group_connection(&connection);
        let hosts: Vec<Arc<Host>> = self.state.hosts_of_group(group.id).cloned().collect();
        hosts.iter().try_for_each(|host| self.connect_member(host, object.id(), lun))?;
        Ok(connection)
    }

    /// Disconnects a volume or snapshot from a host group and all its hosts.
    pub fn disconnect_group(&mut self, group: &str, object: &str) -> Result<(), CatalogError> {
        let object = self.state.volume_or_snapshot(object)?;
        let group = self.state.host_group(group)?.clone();
        let lun = self.state.group_lun(group.id, object.id()).ok_or_else(|| CatalogError::NoSuch {
            kind: ObjectKind::Connection,
            name: self.state.volume_or_snapshot_name(&object),
        })?;
        let hosts: Vec<Arc<Host>> = self.state.hosts_of_group(group.id).cloned().collect();
        hosts.iter().for_each(|host| self.disconnect_member(host, object.id()));
        self.remove(&GroupConnection { group: group.id, volume: object.id(), lun });
        self.state.remove_group_connection(group.id, object.id());
        Ok(())
    }

    fn store_host_group(&mut self, group: HostGroup) -> Result<Arc<HostGroup>, CatalogError> {
        self.put(&group)?;
        let name = group.name.clone();
        self.state.put_host_group(group);
        self.state.host_group(&name).cloned()
    }

    fn put_in_group(&mut self, host: &Host, group: Option<HostGroupId>) -> Result<(), CatalogError> {
        let host = Host { group, ..host.clone() };
        self.put_host(&host)?;
        self.state.put_host(host);
        Ok(())
    }

    fn connect_member(&mut self, host: &Host, volume: ObjectId, lun: u16) -> Result<(), CatalogError> {
        if self.state.lun(host.id, volume).is_some() {
            let object = self.state.volume_or_snapshot_by_id(volume);
            let name = object.map(|object| self.state.volume_or_snapshot_name(&object)).unwrap_or_default();
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Connection, name });
        }
        if self.state.luns_of(host.id).any(|(used, _)| used == lun) {
            return Err(CatalogError::LunInUse { host: host.name.clone(), lun });
        }
        let connection = Connection { host: host.id, volume, lun };
        self.put(&connection)?;
        self.state.put_connection(connection);
        Ok(())
    }

    fn disconnect_member(&mut self, host: &Host, volume: ObjectId) {
        if let Some(lun) = self.state.lun(host.id, volume) {
            self.remove(&Connection { host: host.id, volume, lun });
            self.state.remove_connection(host.id, volume);
        }
    }

    fn free_group_lun(&self, group: &HostGroup, lun: Option<u16>) -> Result<u16, CatalogError> {
        let mut used: BTreeSet<u16> = self.state.group_connections(group.id).map(|shared| shared.lun).collect();
        if let Some(lun) = lun {
            return match lun {
                lun if lun > MAX_LUN => Err(CatalogError::BadLun { lun: u64::from(lun) }),
                lun if used.contains(&lun) => Err(CatalogError::LunInUse { host: group.name.clone(), lun }),
                lun => Ok(lun),
            };
        }
        for host in self.state.hosts_of_group(group.id) {
            used.extend(self.state.luns_of(host.id).map(|(lun, _)| lun));
        }
        let free = (1..=MAX_LUN).find(|lun| !used.contains(lun));
        free.ok_or(CatalogError::LimitReached { what: "LUN", limit: usize::from(MAX_LUN) })
    }
}
