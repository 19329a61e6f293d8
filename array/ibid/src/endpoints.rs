//! `DIR/endpoints.json`: where a running array is reached, for scripts and for administration on the same machine.

use crate::problem::Problem;
use platform::files::{self, Access};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

const FILE: &str = "endpoints.json";
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Where a running array is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Endpoints {
    /// The process that serves.
    pub(crate) pid: u32,
    /// The array's name.
    pub(crate) array: String,
    /// The iSCSI name of its target.
    pub(crate) iqn: String,
    /// Its iSCSI portals.
    pub(crate) iscsi: Vec<SocketAddr>,
    /// The address of its API.
    pub(crate) api: SocketAddr,
    /// How to call that from this machine.
    pub(crate) url: String,
}

/// How an API that listens on `address` is called from this machine.
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
        files::replace(&path(directory), text.as_bytes(), Access::Everybody)
            .map_err(|error| Problem::new(format!("{}: {error}", path(directory).display())))
    }

    /// Reads the file; `None` when no array runs there (or none that has got so far).
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, Problem> {
        let path = path(directory);
        let text = files::read_text(&path, MAX_FILE_BYTES)
            .map_err(|error| Problem::new(format!("{}: {error}", path.display())))?;
        let parse = |text: String| {
            serde_json::from_str(&text).map_err(|error| Problem::new(format!("{}: {error}", path.display())))
        };
        text.map(parse).transpose()
    }

    /// Removes the file: nothing is reached there any more.
    pub(crate) fn remove(directory: &Path) -> Result<(), Problem> {
        Ok(files::remove(&path(directory))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_on_all_addresses_is_called_by_loopback() {
        assert_eq!(local_url("0.0.0.0:8443".parse().unwrap()), "https://127.0.0.1:8443");
        assert_eq!(local_url("[::]:1".parse().unwrap()), "https://[::1]:1");
        assert_eq!(local_url("192.0.2.1:8443".parse().unwrap()), "https://192.0.2.1:8443");
    }
}
