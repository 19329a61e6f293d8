//! Calls about performance and iSCSI sessions.

use super::Client;
use crate::error::ClientError;
use api::{IscsiSession, Performance};

/// Objects with performance figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monitored {
    /// The array.
    Array,
    /// Its ports.
    Ports,
    /// Hosts.
    Hosts,
    /// Volumes.
    Volumes,
    /// Volume groups.
    VolumeGroups,
}

impl Client {
    /// Returns the performance of objects: of these names, or of all if there are none. With a
    /// period (ms), all figures of that time until now, else the latest.
    pub fn performance(
        &self,
        of: Monitored,
        names: &[String],
        period: Option<(u64, u64)>,
    ) -> Result<Vec<Performance>, ClientError> {
        let path = match of {
            Monitored::Array => "arrays/performance",
            Monitored::Ports => "ports/performance",
            Monitored::Hosts => "hosts/performance",
            Monitored::Volumes => "volumes/performance",
            Monitored::VolumeGroups => "volume-groups/performance",
        };
        let names = names.join(",");
        let times = period.map(|(start, resolution)| (start.to_string(), resolution.to_string()));
        let mut parameters = Vec::new();
        if !names.is_empty() {
            parameters.push(("names", names.as_str()));
        }
        if let Some((start, resolution)) = &times {
            parameters.extend([("start_time", start.as_str()), ("resolution", resolution.as_str())]);
        }
        self.list(path, &parameters)
    }

    /// Lists the iSCSI sessions: of these hosts, or all.
    pub fn iscsi_sessions(&self, hosts: &[String]) -> Result<Vec<IscsiSession>, ClientError> {
        let hosts = hosts.join(",");
        let parameters: &[(&str, &str)] = if hosts.is_empty() { &[] } else { &[("host_names", &hosts)] };
        self.list("iscsi-sessions", parameters)
    }
}
