//! Options that choose the simulated host.

use crate::failure::Failure;
use clap::Args;
use esxi_host::{EsxiHost, default_directory};
use std::time::Duration;

/// The simulated host and its network latency.
#[derive(Args, Clone, Debug)]
pub(crate) struct HostArgs {
    /// Simulated host; state in $IBID_HOST_HOME or ~/.local/state/ibid-host
    #[arg(long, global = true, value_name = "NAME", env = "IBID_HOST", default_value = "esx01", value_parser = host_name)]
    pub(crate) host: String,
    /// Network round-trip time to add to each command, in milliseconds
    #[arg(long, global = true, value_name = "MS", default_value = "0", value_parser = milliseconds)]
    pub(crate) distance: Duration,
}

/// Checks a host name, which is used as a directory name and as part of an IQN.
fn host_name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let fits = (1..=63).contains(&text.len()) && text.chars().all(allowed) && !text.starts_with('.');
    if fits { Ok(text.to_owned()) } else { Err("a host name has 1 to 63 characters of a-z, 0-9, - and .".to_owned()) }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    Duration::try_from_secs_f64(number / 1000.0).map_err(|error| error.to_string())
}

impl HostArgs {
    /// Opens the host's stored state.
    pub(crate) fn open(&self) -> Result<EsxiHost, Failure> {
        let host = EsxiHost::open(&self.host, &default_directory(&self.host))?;
        host.set_distance(self.distance);
        Ok(host)
    }
}
