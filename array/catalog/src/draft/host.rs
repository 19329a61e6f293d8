//! Changes of hosts.

use super::Draft;
use crate::name::{check_iqn, check_name};
use crate::record::{Chap, Host, HostId};
use crate::{CatalogError, MAX_HOST_IQNS, MAX_HOSTS, ObjectKind};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Minimum length of a CHAP secret: 96 bits (RFC 7143 9.2.1).
const MIN_SECRET_BYTES: usize = 12;
const MAX_SECRET_BYTES: usize = 255;

/// Changes to make to a host. `None` leaves a field unchanged.
#[derive(Clone, Debug, Default)]
pub struct HostEdit {
    /// New name.
    pub name: Option<String>,
    /// Complete new list of initiators.
    pub iqns: Option<Vec<String>>,
    /// New CHAP settings.
    pub chap: Option<Chap>,
    /// New personality; an inner `None` removes it.
    pub personality: Option<Option<String>>,
    /// Complete new list of the ids of preferred arrays.
    pub preferred_arrays: Option<Vec<String>>,
}

impl Draft {
    /// Creates a host.
    pub fn create_host(&mut self, name: &str, edit: &HostEdit, now_ms: u64) -> Result<Arc<Host>, CatalogError> {
        check_name(name)?;
        if self.state.host(name).is_ok() {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Host, name: name.to_owned() });
        }
        if self.state.hosts().count() >= MAX_HOSTS {
            return Err(CatalogError::LimitReached { what: "Host", limit: MAX_HOSTS });
        }
        let id = HostId(self.state.array().next_host);
        self.edit_array(|array| array.next_host += 1)?;
        let host = Host {
            id,
            name: name.to_owned(),
            iqns: Vec::new(),
            chap: Chap::default(),
            personality: None,
            created_ms: now_ms,
            group: None,
            preferred_arrays: Vec::new(),
        };
        self.store_host(host, edit)
    }

    /// Changes a host.
    pub fn edit_host(&mut self, name: &str, edit: &HostEdit) -> Result<Arc<Host>, CatalogError> {
        let host = Host::clone(self.state.host(name)?);
        self.store_host(host, edit)
    }

    /// Deletes a host. It must have no connections and be in no host group.
    pub fn delete_host(&mut self, name: &str) -> Result<Arc<Host>, CatalogError> {
        let host = self.state.host(name)?.clone();
        if self.state.luns_of(host.id).next().is_some() {
            return Err(CatalogError::Connected { kind: ObjectKind::Host, name: host.name.clone() });
        }
        if let Some(group) = self.state.group_of_host(&host) {
            return Err(CatalogError::AlreadyMember { name: host.name.clone(), group: group.name.clone() });
        }
        self.remove(&*host);
        self.state.remove_host(host.id);
        Ok(host)
    }

    fn store_host(&mut self, mut host: Host, edit: &HostEdit) -> Result<Arc<Host>, CatalogError> {
        if let Some(name) = &edit.name {
            check_name(name)?;
            if self.state.host(name).is_ok_and(|other| other.id != host.id) {
                return Err(CatalogError::AlreadyExists { kind: ObjectKind::Host, name: name.clone() });
            }
            host.name = name.clone();
        }
        if let Some(iqns) = &edit.iqns {
            host.iqns = self.check_iqns(host.id, iqns)?;
        }
        if let Some(chap) = &edit.chap {
            check_chap(chap).map_err(|reason| CatalogError::BadChap { name: host.name.clone(), reason })?;
            host.chap = chap.clone();
        }
        if let Some(personality) = &edit.personality {
            host.personality = personality.clone();
        }
        if let Some(arrays) = &edit.preferred_arrays {
            // The order means nothing.
            host.preferred_arrays = BTreeSet::from_iter(arrays.iter().cloned()).into_iter().collect();
        }
        self.put_host(&host)?;
        let name = host.name.clone();
        self.state.put_host(host);
        self.state.host(&name).cloned()
    }

    /// An initiator must belong to one host only, because the host determines its LUNs.
    fn check_iqns(&self, host: HostId, iqns: &[String]) -> Result<Vec<String>, CatalogError> {
        let mut checked: Vec<String> = Vec::with_capacity(iqns.len());
        for iqn in iqns {
            let iqn = check_iqn(iqn)?;
            if let Some(owner) = self.state.owner(&iqn).filter(|owner| owner.id != host) {
                return Err(CatalogError::IqnInUse { iqn, host: owner.name.clone() });
            }
            if !checked.contains(&iqn) {
                checked.push(iqn);
            }
        }
        if checked.len() > MAX_HOST_IQNS {
            return Err(CatalogError::LimitReached { what: "IQN", limit: MAX_HOST_IQNS });
        }
        Ok(checked)
    }
}

fn check_chap(chap: &Chap) -> Result<(), &'static str> {
    for (user, secret) in chap.host.iter().chain(&chap.target) {
        let printable = |text: &str| text.bytes().all(|b| (b' '..=b'~').contains(&b));
        if user.is_empty() || user.len() > MAX_SECRET_BYTES || !printable(user) {
            return Err("user name must have 1 to 255 printable characters");
        }
        // A secret that is locked was checked when it was set.
        let Some(secret) = secret.expose() else { continue };
        if !(MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&secret.len()) || !printable(secret) {
            return Err("secret must have 12 to 255 printable characters");
        }
    }
    match (&chap.host, &chap.target) {
        (None, Some(_)) => Err("mutual CHAP also requires the user name and secret of the host"),
        (Some((_, host)), Some((_, target))) if host == target => {
            Err("secrets of host and array must differ (RFC 7143 9.2.1)")
        }
        _ => Ok(()),
    }
}
