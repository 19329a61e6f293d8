//! ESXi's own words: `esxcli`, `esxcfg-advcfg`, `esxtop`, and what finds devices and checks the host. Each acts on one
//! simulated host, which outlives the command.

mod adapter;
pub(crate) mod check;
mod device;
mod filesystem;
mod nmp;
mod record;
mod settings;
mod unmap;
mod view;

use crate::failure::Failure;
use crate::out::out;
pub(crate) use adapter::{ClaimArgs, UnclaimArgs};
use clap::{Args, Subcommand};
use esxi_host::{Host, default_directory};
use record::Formatter;
pub(crate) use settings::AdvcfgArgs;
use std::time::Duration;

/// Which simulated host.
#[derive(Args, Clone, Debug)]
pub(crate) struct HostArgs {
    /// The simulated host: it lives below $IBID_HOST_HOME (~/.local/state/ibid-host)
    #[arg(long, global = true, value_name = "NAME", env = "IBID_HOST", default_value = "esx01", value_parser = host_name)]
    pub(crate) host: String,
    /// Milliseconds added to the round trip of each command of the simulated host, as if the array were far away
    #[arg(long, global = true, value_name = "MS", default_value = "0", value_parser = milliseconds)]
    pub(crate) distance: Duration,
}

/// A name is a directory and a part of an IQN.
fn host_name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let fits = (1..=63).contains(&text.len()) && text.chars().all(allowed) && !text.starts_with('.');
    if fits { Ok(text.to_owned()) } else { Err("a host's name has 1 to 63 of a-z, 0-9, - and .".to_owned()) }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("'{text}' is no number"))?;
    Duration::try_from_secs_f64(number / 1000.0).map_err(|error| error.to_string())
}

impl HostArgs {
    /// The host.
    pub(crate) fn open(&self) -> Result<Host, Failure> {
        let host = Host::open(&self.host, &default_directory(&self.host))?;
        host.set_distance(self.distance);
        Ok(host)
    }
}

/// Options of `esxcli`.
#[derive(Args, Clone, Debug)]
pub(crate) struct EsxcliArgs {
    /// How to print
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    formatter: Formatter,
    #[command(subcommand)]
    verb: Esxcli,
}

#[derive(Subcommand, Clone, Debug)]
enum Esxcli {
    /// The iSCSI initiator
    #[command(subcommand)]
    Iscsi(adapter::Iscsi),
    /// Storage
    #[command(subcommand)]
    Storage(Storage),
    /// The host
    #[command(subcommand)]
    System(System),
}

#[derive(Subcommand, Clone, Debug)]
enum Storage {
    /// Devices, paths and adapters
    #[command(subcommand)]
    Core(Core),
    /// Datastores
    #[command(subcommand)]
    Filesystem(filesystem::Filesystem),
    /// How paths are chosen
    #[command(subcommand)]
    Nmp(nmp::Nmp),
    /// Datastores
    #[command(subcommand)]
    Vmfs(Vmfs),
}

#[derive(Subcommand, Clone, Debug)]
enum Vmfs {
    /// Give the free space of a datastore back to the array
    Unmap(unmap::UnmapArgs),
}

#[derive(Subcommand, Clone, Debug)]
enum Core {
    /// Adapters
    #[command(subcommand)]
    Adapter(adapter::CoreAdapter),
    /// Devices
    #[command(subcommand)]
    Device(device::CoreDevice),
    /// Paths
    #[command(subcommand)]
    Path(device::CorePath),
}

#[derive(Subcommand, Clone, Debug)]
enum System {
    /// Settings
    #[command(subcommand)]
    Settings(SystemSettings),
}

#[derive(Subcommand, Clone, Debug)]
enum SystemSettings {
    /// Advanced settings
    #[command(subcommand)]
    Advanced(settings::Advanced),
}

/// Runs `esxcli`.
pub(crate) async fn esxcli(host: &HostArgs, args: &EsxcliArgs) -> Result<(), Failure> {
    if let Esxcli::Storage(Storage::Vmfs(Vmfs::Unmap(args))) = &args.verb {
        return unmap::run(host, args).await;
    }
    let host = host.open()?;
    let formatter = args.formatter;
    let result = match &args.verb {
        Esxcli::System(System::Settings(SystemSettings::Advanced(verb))) => settings::advanced(&host, verb, formatter),
        Esxcli::Iscsi(verb) => adapter::iscsi(&host, verb, formatter),
        Esxcli::Storage(Storage::Core(Core::Adapter(verb))) => adapter::core(&host, verb, formatter).await,
        Esxcli::Storage(Storage::Core(Core::Device(verb))) => device::device(&host, verb, formatter).await,
        Esxcli::Storage(Storage::Core(Core::Path(verb))) => device::path(&host, verb, formatter).await,
        Esxcli::Storage(Storage::Filesystem(verb)) => filesystem::filesystem(&host, verb, formatter).await,
        Esxcli::Storage(Storage::Nmp(verb)) => nmp::nmp(&host, verb, formatter).await,
        // Above: it mounts a datastore.
        Esxcli::Storage(Storage::Vmfs(Vmfs::Unmap(_))) => Ok(String::new()),
    };
    finish(&host, result).await
}

/// Runs `esxcfg-advcfg`.
pub(crate) async fn advcfg(host: &HostArgs, args: &AdvcfgArgs) -> Result<(), Failure> {
    let host = host.open()?;
    let result = settings::advcfg(&host, args);
    finish(&host, result).await
}

/// Runs `claim`.
pub(crate) async fn claim(host: &HostArgs, args: &ClaimArgs) -> Result<(), Failure> {
    let host = host.open()?;
    let result = adapter::claim(&host, args).await;
    finish(&host, result).await
}

/// Runs `unclaim`.
pub(crate) async fn unclaim(host: &HostArgs, args: &UnclaimArgs) -> Result<(), Failure> {
    let host = host.open()?;
    let result = adapter::unclaim(&host, args);
    finish(&host, result).await
}

/// A device with four paths, for tests of what shows devices.
#[cfg(test)]
pub(crate) fn example_device(name: &str) -> esxi_host::DeviceRecord {
    let mut device = view::tests::device(&[::multipath::PathState::Active; 4]).record;
    name.clone_into(&mut device.name);
    device
}

/// Prints what a command has to say, and lets the host keep what it learned, whatever came of the command.
async fn finish(host: &Host, result: Result<String, Failure>) -> Result<(), Failure> {
    let closed = host.close().await;
    let text = result?;
    out!("{text}");
    Ok(closed?)
}
