//! The connected arrays, in a file of the array's directory.
//!
//! The file is beside the key of this array, without which a connection is of no use. It has no
//! secrets.

use crate::distance::Distance;
use pinned_tls::Fingerprint;
use platform::files::{self, Access};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// The file in the array's directory.
pub(crate) const FILE: &str = "links.json";
const MAX_FILE_BYTES: u64 = 1 << 20;
const VERSION: u32 = 1;

/// A connected array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeerRecord {
    /// Id of the array, as hexadecimal digits.
    pub(crate) array: String,
    /// Name of the array when it was last seen.
    pub(crate) name: String,
    /// SHA-256 of its certificate, as hexadecimal digits.
    pub(crate) certificate: String,
    /// Its address, if this array has made the connection: the side that connects again.
    pub(crate) address: Option<String>,
    /// In milliseconds since 1970.
    pub(crate) created_ms: u64,
    #[serde(default, skip_serializing_if = "Distance::is_none")]
    pub(crate) distance: Distance,
}

impl PeerRecord {
    /// Returns whether a certificate is that of the array.
    pub(crate) fn has_certificate(&self, fingerprint: &Fingerprint) -> bool {
        self.certificate == types::hex::encode(fingerprint)
    }

    /// Returns the pinned certificate.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        types::hex::decode(&self.certificate)?.try_into().ok()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    connections: Vec<PeerRecord>,
}

/// The file of the connected arrays.
#[derive(Debug)]
pub(crate) struct LinkStore(PathBuf);

impl LinkStore {
    pub(crate) fn new(directory: &Path) -> Self {
        Self(directory.join(FILE))
    }

    /// Reads the connected arrays. A missing file has none.
    pub(crate) fn load(&self) -> io::Result<Vec<PeerRecord>> {
        let Some(text) = files::read_text(&self.0, MAX_FILE_BYTES)? else { return Ok(Vec::new()) };
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
        let content: Content = serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        if content.version != VERSION {
            return Err(invalid(format!("version {} is not known to this program", content.version)));
        }
        match content.connections.iter().find(|record| record.fingerprint().is_none()) {
            Some(record) => Err(invalid(format!("the certificate of {} is not a SHA-256", record.name))),
            None => Ok(content.connections),
        }
    }

    /// Replaces the connected arrays, durably.
    pub(crate) fn save(&self, connections: Vec<PeerRecord>) -> io::Result<()> {
        let text = serde_json::to_string_pretty(&Content { version: VERSION, connections })?;
        files::replace(&self.0, text.as_bytes(), Access::Owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::TemporaryDirectory;

    #[test]
    fn connections_survive_a_restart() {
        let directory = TemporaryDirectory::new(None, "ibid-link").unwrap();
        let store = LinkStore::new(directory.path());
        assert_eq!(store.load().unwrap(), []);
        let record = PeerRecord {
            array: "00ff".to_owned(),
            name: "beta".to_owned(),
            certificate: "ab".repeat(32),
            address: Some("192.0.2.1".to_owned()),
            created_ms: 5,
            distance: Distance { rtt_us: 4000, ..Distance::default() },
        };
        let other = PeerRecord { address: None, distance: Distance::default(), ..record.clone() };
        store.save(vec![record.clone(), other.clone()]).unwrap();
        assert_eq!(store.load().unwrap(), [record.clone(), other]);
        assert!(record.has_certificate(&[0xab; 32]) && !record.has_certificate(&[0xac; 32]));
        let damaged = PeerRecord { certificate: "ab".to_owned(), ..record };
        store.save(vec![damaged]).unwrap();
        assert!(store.load().unwrap_err().to_string().contains("certificate of beta"));
        files::replace(&directory.path().join(FILE), b"{\"version\":9,\"connections\":[]}", Access::Owner).unwrap();
        assert!(store.load().unwrap_err().to_string().contains("version 9"));
    }
}
