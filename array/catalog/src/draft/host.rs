//! Hosts.

use super::Draft;
use crate::name::{check_iqn, check_name};
use crate::record::{Chap, Host, HostId};
use crate::{CatalogError, MAX_HOST_IQNS, MAX_HOSTS, ObjectKind};
use std::sync::Arc;

/// RFC 7143 9.2.1: CHAP secrets have at least 96 bits.
const MIN_SECRET_BYTES: usize = 12;
const MAX_SECRET_BYTES: usize = 255;

/// What to change of a host; `None` leaves a thing as it is.
#[derive(Clone, Debug, Default)]
pub struct HostEdit {
    /// A new name.
    pub name: Option<String>,
    /// All its initiators from now on.
    pub iqns: Option<Vec<String>>,
    /// What it logs in with.
    pub chap: Option<Chap>,
    /// Its personality; an inner `None` takes it away.
    pub personality: Option<Option<String>>,
}

impl Draft {
    /// Makes a host.
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
        };
        self.store_host(host, edit)
    }

    /// Changes a host.
    pub fn edit_host(&mut self, name: &str, edit: &HostEdit) -> Result<Arc<Host>, CatalogError> {
        let host = Host::clone(self.state.host(name)?);
        self.store_host(host, edit)
    }

    /// Removes a host that no volume is connected to.
    pub fn delete_host(&mut self, name: &str) -> Result<Arc<Host>, CatalogError> {
        let host = self.state.host(name)?.clone();
        if self.state.luns_of(host.id).next().is_some() {
            return Err(CatalogError::Connected { kind: ObjectKind::Host, name: host.name.clone() });
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
        self.put(&host)?;
        let name = host.name.clone();
        self.state.put_host(host);
        self.state.host(&name).cloned()
    }

    /// An initiator belongs to one host, or it could not be told whose volumes it sees.
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
            return Err("a user name has 1 to 255 printable characters");
        }
        let secret = secret.expose();
        if !(MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&secret.len()) || !printable(secret) {
            return Err("a secret has 12 to 255 printable characters");
        }
    }
    match (&chap.host, &chap.target) {
        (None, Some(_)) => {
            Err("the array proves itself only to hosts that prove themselves: set the host's user and secret too")
        }
        (Some((_, host)), Some((_, target))) if host == target => {
            Err("the secrets of the two directions must differ (RFC 7143 9.2.1)")
        }
        _ => Ok(()),
    }
}
