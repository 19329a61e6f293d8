//! ESXi's command lines: `esxcli`, `esxcfg-advcfg`, `claim`, `unclaim` and `check`.
//! Each command works on one simulated host, whose state is kept between commands.

mod adapter;
pub(crate) mod check;
mod device;
mod filesystem;
mod host_args;
mod nmp;
mod record;
mod satp;
mod settings;
mod unmap;
mod view;

use crate::failure::Failure;
use crate::out::out;
pub(crate) use adapter::{ClaimArgs, UnclaimArgs};
use clap::{Args, Subcommand};
use esxi_host::EsxiHost;
pub(crate) use filesystem::devices_of;
pub(crate) use host_args::HostArgs;
use record::Formatter;
pub(crate) use settings::AdvcfgArgs;

/// Options of `esxcli`.
#[derive(Args, Clone, Debug)]
pub(crate) struct EsxcliArgs {
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    formatter: Formatter,
    #[command(subcommand)]
    verb: Esxcli,
}

#[derive(Subcommand, Clone, Debug)]
enum Esxcli {
    /// Manage the iSCSI initiator
    #[command(subcommand)]
    Iscsi(adapter::Iscsi),
    /// Manage devices, paths and datastores
    #[command(subcommand)]
    Storage(Storage),
    /// Manage the host's settings
    #[command(subcommand)]
    System(System),
}

#[derive(Subcommand, Clone, Debug)]
enum Storage {
    /// Manage devices, paths and adapters
    #[command(subcommand)]
    Core(Core),
    /// List datastores
    #[command(subcommand)]
    Filesystem(filesystem::Filesystem),
    /// Manage path selection
    #[command(subcommand)]
    Nmp(nmp::Nmp),
    /// Manage VMFS datastores
    #[command(subcommand)]
    Vmfs(Vmfs),
}

#[derive(Subcommand, Clone, Debug)]
enum Vmfs {
    /// List the devices of datastores
    #[command(subcommand)]
    Extent(filesystem::Extent),
    /// Return the free space of a datastore to the array
    Unmap(unmap::UnmapArgs),
}

#[derive(Subcommand, Clone, Debug)]
enum Core {
    /// Manage adapters
    #[command(subcommand)]
    Adapter(adapter::CoreAdapter),
    /// List the rules that assign devices to plug-ins
    #[command(subcommand)]
    Claimrule(satp::ClaimRule),
    /// Manage devices
    #[command(subcommand)]
    Device(device::CoreDevice),
    /// List paths
    #[command(subcommand)]
    Path(device::CorePath),
}

#[derive(Subcommand, Clone, Debug)]
enum System {
    /// Manage settings
    #[command(subcommand)]
    Settings(SystemSettings),
}

#[derive(Subcommand, Clone, Debug)]
enum SystemSettings {
    /// Show or change advanced settings
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
        Esxcli::Storage(Storage::Core(Core::Claimrule(verb))) => Ok(satp::claim_rules(verb, formatter)),
        Esxcli::Storage(Storage::Core(Core::Device(verb))) => device::device(&host, verb, formatter).await,
        Esxcli::Storage(Storage::Core(Core::Path(verb))) => device::path(&host, verb, formatter).await,
        Esxcli::Storage(Storage::Filesystem(verb)) => filesystem::filesystem(&host, verb, formatter).await,
        Esxcli::Storage(Storage::Nmp(verb)) => nmp::nmp(&host, verb, formatter).await,
        Esxcli::Storage(Storage::Vmfs(Vmfs::Extent(filesystem::Extent::List))) => {
            filesystem::extents(&host, formatter).await
        }
        // Handled at the top of this function, because it mounts a datastore.
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

/// Returns a device with four paths for tests.
#[cfg(test)]
pub(crate) fn example_device(name: &str) -> esxi_host::DeviceRecord {
    let mut device = view::tests::device(&[::multipath::PathState::Active; 4]).record;
    name.clone_into(&mut device.name);
    device
}

/// Closes the host, which saves its state, and prints the output of a command that succeeded.
async fn finish(host: &EsxiHost, result: Result<String, Failure>) -> Result<(), Failure> {
    let closed = host.close().await;
    let text = result?;
    out!("{text}");
    Ok(closed?)
}
