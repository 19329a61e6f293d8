//! Seals and opens the CHAP secrets of a host.

use crate::record::{Chap, Host};
use crate::secret::{Secret, SecretKeys};

/// Returns a copy of the host in the form that is stored, or `None` if a secret in clear text
/// cannot be sealed because no key exists.
pub(crate) fn sealed(host: &Host, keys: Option<&SecretKeys>) -> Option<Host> {
    edited(host, |owner, secret| match keys {
        Some(keys) => keys.seal(owner, secret),
        None => secret.expose().is_none().then(|| secret.clone()),
    })
}

/// Returns a copy of the host with the secrets that these keys open in clear text.
pub(crate) fn opened(host: &Host, keys: &SecretKeys) -> Host {
    edited(host, |owner, secret| Some(keys.open(owner, secret))).unwrap_or_else(|| host.clone())
}

fn edited(host: &Host, edit: impl Fn(&[u8], &Secret) -> Option<Secret>) -> Option<Host> {
    let half = |half: &Option<(String, Secret)>, role: &str| match half {
        Some((user, secret)) => {
            // Bound to its place, so that a sealed secret cannot be moved to another host or role.
            let owner = format!("{:016x} {role} {user}", host.id.0);
            Some(Some((user.clone(), edit(owner.as_bytes(), secret)?)))
        }
        None => Some(None),
    };
    let chap = Chap { host: half(&host.chap.host, "host")?, target: half(&host.chap.target, "target")? };
    Some(Host { chap, ..host.clone() })
}
