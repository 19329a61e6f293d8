//! `DIR/endpoints.json`: the addresses of a running array, for scripts and local administration.

use crate::problem::Problem;
use platform::files::{self, Access};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Name of the file.
pub(crate) const FILE: &str = "endpoints.json";
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Addresses of a running array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Endpoints {
    /// Process id of the array.
    pub(crate) pid: u32,
    /// Name of the array.
    pub(crate) array: String,
    /// iSCSI name of its target.
    pub(crate) iqn: String,
    /// iSCSI portals.
    pub(crate) iscsi: Vec<SocketAddr>,
    /// Address of the REST API.
    pub(crate) api: SocketAddr,
    /// URL of the REST API from this machine.
    pub(crate) url: String,
    /// Address on which other arrays connect, if they may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) link: Option<SocketAddr>,
}

/// Returns the URL, from this machine, of an API that listens on `address`.
pub(crate) fn local_url(address: SocketAddr) -> String {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    format!("https://{address}")
}

fn path(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

impl Endpoints {
    /// Writes the file.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), Problem> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        files::replace(&path(directory), text.as_bytes(), Access::Everyone)
            .map_err(|error| Problem::new(format!("{}: {error}", path(directory).display())))
    }

    /// Reads the file; `None` if no array runs in this directory, or if it is still starting.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, Problem> {
        let path = path(directory);
        let text = files::read_text(&path, MAX_FILE_BYTES)
            .map_err(|error| Problem::new(format!("{}: {error}", path.display())))?;
        let parse = |text: String| {
            serde_json::from_str(&text).map_err(|error| Problem::new(format!("{}: {error}", path.display())))
        };
        text.map(parse).transpose()
    }

    /// Removes the file when the array stops.
    pub(crate) fn remove(directory: &Path) -> Result<(), Problem> {
        Ok(files::remove(&path(directory))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcard_api_address_becomes_loopback() {
        assert_eq!(local_url("0.0.0.0:8443".parse().unwrap()), "https://127.0.0.1:8443");
        assert_eq!(local_url("[::]:1".parse().unwrap()), "https://[::1]:1");
        assert_eq!(local_url("192.0.2.1:8443".parse().unwrap()), "https://192.0.2.1:8443");
    }
}
