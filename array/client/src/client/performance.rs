//! Calls about performance and iSCSI sessions.

use super::Client;
use crate::error::ClientError;
use api::{ConnectionPerformance, IscsiSession, OffloadPerformance, Performance};

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
    /// Pods.
    Pods,
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
        let path = path(of);
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

    /// Returns the latest performance of the objects that hosts used in the last interval.
    pub fn active(&self, of: Monitored) -> Result<Vec<Performance>, ClientError> {
        let filter = "reads_per_sec > 0 or writes_per_sec > 0 or others_per_sec > 0";
        self.list(path(of), &[("filter", filter)])
    }

    /// Returns the latest performance of volumes at hosts that used them in the last interval.
    pub fn active_connections(&self) -> Result<Vec<ConnectionPerformance>, ClientError> {
        self.list("connections/performance", &[])
    }

    /// Returns the counters of VAAI commands by volume, initiator and primitive.
    pub fn offloads(&self) -> Result<Vec<OffloadPerformance>, ClientError> {
        self.list("offloads/performance", &[])
    }

    /// Lists the iSCSI sessions: of these hosts, or all.
    pub fn iscsi_sessions(&self, hosts: &[String]) -> Result<Vec<IscsiSession>, ClientError> {
        let hosts = hosts.join(",");
        let parameters: &[(&str, &str)] = if hosts.is_empty() { &[] } else { &[("host_names", &hosts)] };
        self.list("iscsi-sessions", parameters)
    }
}

/// Returns the path of the performance of objects.
fn path(of: Monitored) -> &'static str {
    match of {
        Monitored::Array => "arrays/performance",
        Monitored::Ports => "ports/performance",
        Monitored::Hosts => "hosts/performance",
        Monitored::Volumes => "volumes/performance",
        Monitored::VolumeGroups => "volume-groups/performance",
        Monitored::Pods => "pods/performance",
    }
}
