//! Host groups and their connections.

use super::{CatalogState, scan};
use crate::name::folded;
use crate::record::{GroupConnection, Host, HostGroup, HostGroupId, Record};
use crate::{CatalogError, ObjectKind};
use engine::KeyValue;
use std::sync::Arc;
use types::ObjectId;

impl CatalogState {
    /// Reads the host groups. The connections of their hosts are records of their own.
    pub(super) fn load_host_groups(&mut self, service: &dyn KeyValue) -> Result<(), CatalogError> {
        scan::<HostGroup>(service)?.into_iter().for_each(|group| self.put_host_group(group));
        for connection in scan::<GroupConnection>(service)? {
            if self.volume_or_snapshot_by_id(connection.volume).is_none()
                || self.host_group_by_id(connection.group).is_none()
            {
                let reason = "its volume or host group is missing".to_owned();
                return Err(CatalogError::Damaged { key: connection.key(), reason });
            }
            self.put_group_connection(&connection);
        }
        Ok(())
    }

    /// Returns all host groups in order of creation.
    pub fn host_groups(&self) -> impl Iterator<Item = &Arc<HostGroup>> {
        self.host_groups.values()
    }

    /// Returns the host group with this name.
    pub fn host_group(&self, name: &str) -> Result<&Arc<HostGroup>, CatalogError> {
        let found = self.host_group_names.get(&folded(name)).and_then(|id| self.host_group_by_id(*id));
        found.ok_or_else(|| CatalogError::NoSuch { kind: ObjectKind::HostGroup, name: name.to_owned() })
    }

    /// Returns the host group with this id.
    pub fn host_group_by_id(&self, id: HostGroupId) -> Option<&Arc<HostGroup>> {
        self.host_groups.get(&id)
    }

    /// Returns the host group of a host.
    pub fn group_of_host(&self, host: &Host) -> Option<&Arc<HostGroup>> {
        host.group.and_then(|id| self.host_group_by_id(id))
    }

    /// Returns the hosts of a host group.
    pub fn hosts_of_group(&self, group: HostGroupId) -> impl Iterator<Item = &Arc<Host>> + '_ {
        self.hosts().filter(move |host| host.group == Some(group))
    }

    /// Returns the connections of a host group.
    pub fn group_connections(&self, group: HostGroupId) -> impl Iterator<Item = GroupConnection> + '_ {
        let all = (group, ObjectId(0))..=(group, ObjectId(u64::MAX));
        self.group_connections.range(all).map(|((group, volume), lun)| GroupConnection {
            group: *group,
            volume: *volume,
            lun: *lun,
        })
    }

    /// Returns the LUN of the volume at the host group.
    pub fn group_lun(&self, group: HostGroupId, volume: ObjectId) -> Option<u16> {
        self.group_connections.get(&(group, volume)).copied()
    }

    /// Returns whether a volume or snapshot is connected to a host or a host group.
    pub(crate) fn is_connected(&self, volume: ObjectId) -> bool {
        self.hosts_of(volume).next().is_some()
            || self.host_groups().any(|group| self.group_lun(group.id, volume).is_some())
    }

    pub(crate) fn put_host_group(&mut self, group: HostGroup) {
        self.forget_host_group_name(group.id);
        self.host_group_names.insert(folded(&group.name), group.id);
        self.host_groups.insert(group.id, Arc::new(group));
    }

    pub(crate) fn remove_host_group(&mut self, id: HostGroupId) {
        self.forget_host_group_name(id);
        self.host_groups.remove(&id);
    }

    fn forget_host_group_name(&mut self, id: HostGroupId) {
        if let Some(old) = self.host_groups.get(&id) {
            self.host_group_names.remove(&folded(&old.name));
        }
    }

    pub(crate) fn put_group_connection(&mut self, connection: &GroupConnection) {
        self.group_connections.insert((connection.group, connection.volume), connection.lun);
    }

    pub(crate) fn remove_group_connection(&mut self, group: HostGroupId, volume: ObjectId) {
        self.group_connections.remove(&(group, volume));
    }
}
