//! Device discovery: `esxcli iscsi adapter`, `esxcli storage core adapter`, `claim` and `unclaim`.

use super::record::{Formatter, Record};
use crate::failure::Failure;
use clap::{Args, Subcommand};
use esxi_host::{DeviceLocation, EsxiHost};
use initiator::Url;

/// `esxcli iscsi`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Iscsi {
    /// Manage the software initiator
    #[command(subcommand)]
    Adapter(Adapter),
}

/// `esxcli iscsi adapter`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Adapter {
    /// Show the initiator
    Get,
    /// Change the initiator
    Set(AdapterSet),
    /// Manage discovery addresses
    #[command(subcommand)]
    Discovery(Discovery),
}

/// Options of `iscsi adapter set`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdapterSet {
    /// Initiator name to log in with
    #[arg(short, long, value_name = "IQN")]
    name: Option<String>,
    /// Number of bound VMkernel ports; each has a path to every array port
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=8))]
    ports: Option<u32>,
    /// Offer CHAP with MD5 only (for targets such as tgt)
    #[arg(long, value_name = "BOOL")]
    chap_md5: Option<bool>,
}

/// `esxcli iscsi adapter discovery`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Discovery {
    /// Manage SendTargets discovery portals
    #[command(subcommand)]
    Sendtarget(SendTarget),
}

/// `esxcli iscsi adapter discovery sendtarget`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum SendTarget {
    /// List the portals
    List,
    /// Add a portal; the next rescan claims its devices
    Add(Address),
    /// Remove a portal; its devices stay claimed
    Remove(Address),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Address {
    /// [user%password@]host[:port]
    #[arg(short, long, value_name = "ADDRESS", value_parser = portal_url)]
    address: Url,
}

fn portal_url(text: &str) -> Result<Url, initiator::UrlError> {
    if text.starts_with("iscsi://") { text.parse() } else { format!("iscsi://{text}").parse() }
}

/// `esxcli storage core adapter`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum CoreAdapter {
    /// List the adapters
    List,
    /// Claim the devices of all portals
    Rescan(Rescan),
}

/// Options of `rescan`. The adapters share their portals: a rescan of one is a rescan of all.
#[derive(Args, Clone, Debug)]
#[command(group(clap::ArgGroup::new("adapters").args(["all", "adapter"])))]
pub(crate) struct Rescan {
    /// Rescan all adapters
    #[arg(short, long)]
    all: bool,
    /// Rescan this adapter
    #[arg(short = 'A', long, value_name = "ADAPTER")]
    adapter: Option<String>,
}

/// Options of `claim`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClaimArgs {
    /// iscsi://PORTAL (all), iscsi://PORTAL/IQN or iscsi://PORTAL/IQN/LUN
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Number of VMkernel ports; each has a path to every array port
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=8))]
    adapters: Option<u32>,
    /// Initiator name to log in with
    #[arg(long, value_name = "IQN", env = "IBID_HOST_IQN")]
    initiator: Option<String>,
}

/// Options of `unclaim`.
#[derive(Args, Clone, Debug)]
pub(crate) struct UnclaimArgs {
    /// Device names
    #[arg(required = true, value_name = "NAME")]
    devices: Vec<String>,
}

/// Runs `esxcli iscsi` and returns its output.
pub(crate) fn iscsi(host: &EsxiHost, verb: &Iscsi, formatter: Formatter) -> Result<String, Failure> {
    let Iscsi::Adapter(verb) = verb;
    match verb {
        Adapter::Get => Ok(formatter.print(&adapters(host)[..1])),
        Adapter::Set(args) => {
            if let Some(name) = &args.name {
                host.set_iqn(name)?;
            }
            if let Some(ports) = args.ports {
                host.set_adapters(ports)?;
            }
            if let Some(md5) = args.chap_md5 {
                host.set_chap_md5(md5)?;
            }
            Ok(String::new())
        }
        Adapter::Discovery(Discovery::Sendtarget(verb)) => match verb {
            SendTarget::List => {
                let portals = host.portals()?;
                let record = |url: &Url| {
                    Record::titled(&url.portal.to_string())
                        .with("Adapter", "vmhba64")
                        .with("Sendtarget", url.portal.to_string())
                };
                Ok(formatter.print(&portals.iter().map(record).collect::<Vec<_>>()))
            }
            SendTarget::Add(address) => Ok(host.set_portal(&address.address, true).map(|()| String::new())?),
            SendTarget::Remove(address) => Ok(host.set_portal(&address.address, false).map(|()| String::new())?),
        },
    }
}

fn adapter_name(number: u32) -> String {
    format!("vmhba{}", 64 + number)
}

fn adapters(host: &EsxiHost) -> Vec<Record> {
    let describe = |number: u32| {
        let name = adapter_name(number);
        Record::titled(&name)
            .with("Name", host.iqn())
            .with("Driver", "iscsi_vmk")
            .with("Link State", "link-up")
            .with("UID", format!("iscsi.{name}"))
            .with("Description", "iSCSI Software Adapter")
    };
    (0..host.adapters()).map(describe).collect()
}

/// Runs `esxcli storage core adapter` and returns its output.
pub(crate) async fn core(host: &EsxiHost, verb: &CoreAdapter, formatter: Formatter) -> Result<String, Failure> {
    match verb {
        CoreAdapter::List => Ok(formatter.print(&adapters(host))),
        CoreAdapter::Rescan(args) => {
            let names: Vec<String> = (0..host.adapters()).map(adapter_name).collect();
            if let Some(name) = args.adapter.as_ref().filter(|name| !args.all && !names.contains(name)) {
                let hint = format!("use --all or one of {}", names.join(", "));
                return Err(Failure::usage(format!("the host has no adapter {name}"), hint));
            }
            let portals = host.portals()?;
            if portals.is_empty() {
                let hint = "run `ibid-host esxcli iscsi adapter discovery sendtarget add --address HOST[:PORT]`";
                return Err(Failure::usage("no discovery portal is configured", hint));
            }
            // The URL is cut to its portal, so that all targets and LUNs are claimed.
            let place = |url: &Url| {
                let text = url.with_secrets();
                text.split("//")
                    .nth(1)
                    .and_then(|rest| rest.split('/').next())
                    .map(|portal| format!("iscsi://{portal}"))
            };
            let places = portals
                .iter()
                .filter_map(place)
                .map(|text| text.parse())
                .collect::<Result<Vec<DeviceLocation>, _>>()?;
            host.claim(&places).await?;
            Ok(String::new())
        }
    }
}

/// Runs `claim` and returns its output.
pub(crate) async fn claim(host: &EsxiHost, args: &ClaimArgs) -> Result<String, Failure> {
    if let Some(initiator) = &args.initiator {
        host.set_iqn(initiator)?;
    }
    if let Some(adapters) = args.adapters {
        host.set_adapters(adapters)?;
    }
    let places = args.urls.iter().map(|url| url.parse()).collect::<Result<Vec<DeviceLocation>, _>>()?;
    let names = host.claim(&places).await?;
    Ok(names.iter().map(|name| format!("{name}\n")).collect())
}

/// Runs `unclaim`.
pub(crate) fn unclaim(host: &EsxiHost, args: &UnclaimArgs) -> Result<String, Failure> {
    args.devices.iter().try_for_each(|device| host.unclaim(device))?;
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(host: &EsxiHost, verb: SendTarget) -> String {
        iscsi(host, &Iscsi::Adapter(Adapter::Discovery(Discovery::Sendtarget(verb))), Formatter::Text).unwrap()
    }

    #[test]
    fn portals_are_stored_by_address() {
        let host = EsxiHost::transient("esx01").unwrap();
        let address = |text: &str| Address { address: portal_url(text).unwrap() };
        send(&host, SendTarget::Add(address("u%p@10.0.0.1:3261")));
        send(&host, SendTarget::Add(address("10.0.0.2")));
        send(&host, SendTarget::Remove(address("10.0.0.2:3260")));
        let text = send(&host, SendTarget::List);
        assert_eq!(text, "10.0.0.1:3261\n   Adapter: vmhba64\n   Sendtarget: 10.0.0.1:3261\n");
        assert_eq!(host.portals().unwrap()[0].credentials.as_ref().unwrap().secret, "p");
    }

    #[tokio::test]
    async fn rescan_needs_an_adapter_of_the_host() {
        let host = EsxiHost::transient("esx01").unwrap();
        let rescan = |all, adapter: Option<&str>| {
            let args = Rescan { all, adapter: adapter.map(str::to_owned) };
            let host = host.clone();
            async move { core(&host, &CoreAdapter::Rescan(args), Formatter::Text).await.unwrap_err().to_string() }
        };
        assert_eq!(rescan(false, Some("vmhba70")).await, "the host has no adapter vmhba70");
        let no_portal = "no discovery portal is configured";
        assert_eq!([rescan(false, Some("vmhba65")).await, rescan(true, None).await], [no_portal; 2]);
    }

    #[test]
    fn initiator_is_shown_and_changed() {
        let host = EsxiHost::transient("esx01").unwrap();
        let set = AdapterSet { name: Some("iqn.2026-11.test:x".into()), ports: Some(1), chap_md5: None };
        iscsi(&host, &Iscsi::Adapter(Adapter::Set(set)), Formatter::Text).unwrap();
        let text = iscsi(&host, &Iscsi::Adapter(Adapter::Get), Formatter::Text).unwrap();
        assert!(text.starts_with("vmhba64\n   Name: iqn.2026-11.test:x\n   Driver: iscsi_vmk\n"), "{text}");
        assert_eq!(adapters(&host).len(), 1);
    }
}
