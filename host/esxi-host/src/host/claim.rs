//! Device discovery: from a portal, a target or a LUN to claimed devices with all their paths.

use crate::error::HostError;
use crate::host::EsxiHost;
use crate::record::DeviceRecord;
use initiator::{InitiatorConfig, Portal, Session, TargetRecord, Url};
use multipath::{DiskIdentity, DiskOptions, IscsiDisk, PathConfig, SharedDisk};
use scsi::Lun;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Where to search for devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLocation {
    url: Url,
    /// Whether the URL includes a LUN: claim only this LUN through this portal.
    single_lun: bool,
}

impl FromStr for DeviceLocation {
    type Err = HostError;

    /// Parses `iscsi://portal` for all LUNs of the portal's targets, `iscsi://portal/iqn` for all
    /// LUNs of a target, or `iscsi://portal/iqn/lun` for one LUN through one portal.
    fn from_str(text: &str) -> Result<Self, HostError> {
        let path = text.split('?').next().unwrap_or_default();
        let single_lun = path.trim_start_matches("iscsi://").split('/').nth(2).is_some_and(|lun| !lun.is_empty());
        Ok(Self { url: text.parse()?, single_lun })
    }
}

/// A device and a port that leads to it.
type Found = (DiskIdentity, Url);

impl EsxiHost {
    /// Claims the devices at `places` through all ports that lead to them; returns their names.
    /// Devices claimed before keep their paths and settings.
    pub async fn claim(&self, places: &[DeviceLocation]) -> Result<Vec<String>, HostError> {
        let mut found: Vec<Found> = Vec::new();
        for place in places {
            found.extend(self.discover(place).await?);
        }
        let mut devices: BTreeMap<String, (DiskIdentity, Vec<String>)> = BTreeMap::new();
        for (identity, url) in found {
            let ports = &mut devices.entry(identity.name.clone()).or_insert_with(|| (identity, Vec::new())).1;
            let port = url.with_secrets();
            // Each portal of a target reports all of them.
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
        self.change(|state| {
            for (identity, ports) in devices.values() {
                let adapters = state.adapters;
                let known = state.devices.iter().position(|device| device.name == identity.name);
                let at = known.unwrap_or_else(|| {
                    let mut device = DeviceRecord::new(identity, Vec::new(), adapters);
                    if let Some(rule) = state.satp_rules.iter().find(|r| r.matches(&device.vendor, &device.product)) {
                        device.policy = rule.policy;
                    }
                    state.devices.push(device);
                    state.devices.len() - 1
                });
                let device = &mut state.devices[at];
                (device.blocks, device.adapters) = (identity.blocks, adapters);
                device
                    .ports
                    .extend(ports.iter().filter(|port| !device.ports.contains(port)).cloned().collect::<Vec<_>>());
            }
        })?;
        Ok(devices.into_keys().collect())
    }

    /// Unclaims a device. Its paths stay open until the host is closed.
    pub fn unclaim(&self, name: &str) -> Result<(), HostError> {
        self.device(name)?;
        self.change(|state| state.devices.retain(|device| device.name != name))
    }

    async fn discover(&self, place: &DeviceLocation) -> Result<Vec<Found>, HostError> {
        if place.single_lun {
            return Ok(vec![(self.identify(&place.url).await?, place.url.clone())]);
        }
        let mut found = Vec::new();
        for (target, ports) in self.targets_of(&place.url).await? {
            let url =
                |portal: &Portal, lun| Url { portal: portal.clone(), target: target.clone(), lun, ..place.url.clone() };
            let Some(first) = ports.first() else { continue };
            for lun in self.disks(&url(first, Lun::default())).await? {
                let identity = self.identify(&url(first, lun)).await?;
                found.extend(ports.iter().map(|portal| (identity.clone(), url(portal, lun))));
            }
        }
        if found.is_empty() {
            return Err(HostError::NothingThere(place.url.portal.to_string()));
        }
        Ok(found)
    }

    /// Returns the targets of a portal with their portals; only the URL's target if it has one.
    async fn targets_of(&self, url: &Url) -> Result<Vec<(String, Vec<Portal>)>, HostError> {
        let records = match Session::discover(&self.config(url)).await {
            Ok(records) => records,
            // A target known by name can be used without discovery.
            Err(_) if !url.target.is_empty() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let wanted = |record: &TargetRecord| url.target.is_empty() || record.name == url.target;
        let portals = |record: TargetRecord| {
            let ports: Vec<Portal> = record.addresses.iter().filter_map(|address| portal(address)).collect();
            (record.name, if ports.is_empty() { vec![url.portal.clone()] } else { ports })
        };
        let mut targets: Vec<_> = records.into_iter().filter(wanted).map(portals).collect();
        if targets.is_empty() && !url.target.is_empty() {
            targets.push((url.target.clone(), vec![url.portal.clone()]));
        }
        Ok(targets)
    }

    /// Returns the disks that a target presents to this host.
    async fn disks(&self, url: &Url) -> Result<Vec<Lun>, HostError> {
        let failed = |error| HostError::Target { target: url.target.clone(), error };
        let mut session = Session::connect(&self.config(url)).await?;
        let mut disks = Vec::new();
        for lun in session.report_luns().await.map_err(failed)? {
            let inquiry = session.inquiry(lun).await.map_err(failed)?;
            // Peripheral qualifier and type 0: a connected disk. Targets may also present a
            // controller.
            if inquiry.peripheral == 0 {
                disks.push(lun);
            }
        }
        // A lost logout has no effect.
        let _ = session.logout().await;
        Ok(disks)
    }

    async fn identify(&self, url: &Url) -> Result<DiskIdentity, HostError> {
        let path = PathConfig { config: self.config(url), lun: url.lun };
        let failed = |error| HostError::Open { name: url.to_string(), error };
        let disk = IscsiDisk::open(vec![path], DiskOptions::default()).await.map_err(failed)?;
        let identity = disk.identity().clone();
        disk.close().await;
        Ok(identity)
    }

    /// Returns the login settings for a URL.
    pub(crate) fn config(&self, url: &Url) -> InitiatorConfig {
        let state = self.state();
        InitiatorConfig { chap_md5: state.chap_md5, ..InitiatorConfig::new(&state.iqn, url) }
    }
}

/// Parses the portal of a TargetAddress, `host[:port][,portal-group-tag]` (RFC 7143 13.8).
fn portal(address: &str) -> Option<Portal> {
    let url: Url = format!("iscsi://{}", address.split(',').next()?).parse().ok()?;
    Some(url.portal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_urls_claim_more_devices() {
        for (text, single_lun) in [
            ("iscsi://h", false),
            ("iscsi://h:3261/iqn.a", false),
            ("iscsi://h:3261/iqn.a/", false),
            ("iscsi://u%p@h/iqn.a/0", true),
            ("iscsi://h/iqn.a?target_user=a&target_password=b/c", false),
        ] {
            assert_eq!(text.parse::<DeviceLocation>().unwrap().single_lun, single_lun, "{text}");
        }
        assert!("h".parse::<DeviceLocation>().is_err());
    }
}
