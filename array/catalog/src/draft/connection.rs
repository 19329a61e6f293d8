//! Changes of connections.

use super::Draft;
use crate::record::{Connection, Host};
use crate::{CatalogError, MAX_LUN, ObjectKind};
use std::collections::BTreeSet;

impl Draft {
    /// Connects a volume, or a snapshot read-only, to a host. Uses the requested LUN, or the lowest
    /// free one starting at 1.
    pub fn connect(&mut self, host: &str, object: &str, lun: Option<u16>) -> Result<Connection, CatalogError> {
        let object = self.live_volume_or_snapshot(object)?;
        let host = self.state.host(host)?.clone();
        if self.state.lun(host.id, object.id()).is_some() {
            return Err(CatalogError::AlreadyExists {
                kind: ObjectKind::Connection,
                name: self.state.volume_or_snapshot_name(&object),
            });
        }
        let lun = self.free_lun(&host, lun)?;
        let connection = Connection { host: host.id, volume: object.id(), lun };
        self.put(&connection)?;
        self.state.put_connection(connection.clone());
        Ok(connection)
    }

    /// Disconnects a volume or snapshot from a host. A connection of its host group remains.
    pub fn disconnect(&mut self, host: &str, object: &str) -> Result<Connection, CatalogError> {
        let object = self.state.volume_or_snapshot(object)?;
        let host = self.state.host(host)?.clone();
        let lun = self.state.lun(host.id, object.id()).ok_or_else(|| CatalogError::NoSuch {
            kind: ObjectKind::Connection,
            name: self.state.volume_or_snapshot_name(&object),
        })?;
        if let Some(group) = host.group.filter(|group| self.state.group_lun(*group, object.id()).is_some()) {
            let group = self.state.host_group_by_id(group).map(|group| group.name.clone()).unwrap_or_default();
            return Err(CatalogError::SharedConnection { name: host.name.clone(), group });
        }
        let connection = Connection { host: host.id, volume: object.id(), lun };
        self.remove(&connection);
        self.state.remove_connection(host.id, object.id());
        Ok(connection)
    }

    fn free_lun(&self, host: &Host, lun: Option<u16>) -> Result<u16, CatalogError> {
        let used: BTreeSet<u16> = self.state.luns_of(host.id).map(|(lun, _)| lun).collect();
        match lun {
            Some(lun) if lun > MAX_LUN => Err(CatalogError::BadLun { lun: u64::from(lun) }),
            Some(lun) if used.contains(&lun) => Err(CatalogError::LunInUse { host: host.name.clone(), lun }),
            Some(lun) => Ok(lun),
            None => (1..=MAX_LUN)
                .find(|lun| !used.contains(lun))
                .ok_or(CatalogError::LimitReached { what: "LUN", limit: usize::from(MAX_LUN) }),
        }
    }
}
