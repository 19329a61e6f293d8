//! The stored state of devices and datastores.

use multipath::{DiskIdentity, PathPolicy, VaaiStatus};
use serde::{Deserialize, Serialize};

/// A claimed device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRecord {
    /// ESXi's name of the device.
    pub name: String,
    /// T10 VENDOR IDENTIFICATION.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION.
    pub product: String,
    /// PRODUCT REVISION LEVEL.
    pub revision: String,
    /// UNIT SERIAL NUMBER.
    pub serial: String,
    /// The iSCSI name of the target at its first port.
    /// A volume of a pod has ports at two targets.
    pub array: String,
    /// Bytes in a logical block.
    pub block_bytes: u32,
    /// Number of logical blocks.
    pub blocks: u64,
    /// VERSION of the INQUIRY data.
    pub scsi_level: u8,
    /// Whether it supports UNMAP.
    pub thin: bool,
    /// Whether it is a non-rotating medium.
    pub solid_state: bool,
    /// The ports that lead to it, as URLs with their secrets. Each port and adapter makes one path.
    pub ports: Vec<String>,
    /// Number of adapters (VMkernel ports bound to the initiator) that use each port.
    pub adapters: u32,
    /// Path selection policy.
    pub policy: PathPolicy,
    /// Maximum number of concurrent commands.
    pub queue_depth: usize,
    /// Detected support for offloads, and the disabled ones.
    pub vaai: VaaiStatus,
}

/// The number of the first iSCSI adapter; ESXi's software initiators start there.
const FIRST_ADAPTER: u32 = 64;

impl DeviceRecord {
    pub(crate) fn new(identity: &DiskIdentity, ports: Vec<String>, adapters: u32) -> Self {
        Self {
            name: identity.name.clone(),
            vendor: identity.vendor.clone(),
            product: identity.product.clone(),
            revision: identity.revision.clone(),
            serial: identity.serial.clone(),
            array: identity.arrays.first().cloned().unwrap_or_default(),
            block_bytes: identity.block_bytes,
            blocks: identity.blocks,
            scsi_level: identity.scsi_level,
            thin: identity.thin,
            solid_state: identity.solid_state,
            ports,
            adapters,
            policy: PathPolicy::default(),
            queue_depth: multipath::DiskOptions::default().queue_depth,
            vaai: VaaiStatus::default(),
        }
    }

    /// Returns the size in MiB, as ESXi lists it.
    pub fn mebibytes(&self) -> u64 {
        self.blocks.saturating_mul(u64::from(self.block_bytes)) >> 20
    }

    /// Returns the display name: vendor, transport and name.
    pub fn display_name(&self) -> String {
        format!("{} iSCSI Disk ({})", self.vendor, self.name)
    }

    /// Returns the LUN at its first port.
    pub fn lun(&self) -> u16 {
        self.ports.first().and_then(|port| port.parse::<initiator::Url>().ok()).map_or(0, |url| url.lun.number())
    }

    /// Returns ESXi's runtime name of each path, ordered by adapter, then port. `targets` are the
    /// targets of the host, in order.
    pub fn path_names(&self, targets: &[String]) -> Vec<String> {
        let arrays = self.arrays();
        let lun = self.lun();
        let place = |port: usize| {
            let array = &arrays[port];
            // The channel is the number of the port at its target.
            let channel = arrays[..port].iter().filter(|other| *other == array).count();
            (channel, targets.iter().position(|target| target == array).unwrap_or(0))
        };
        let places: Vec<(usize, usize)> = (0..arrays.len()).map(place).collect();
        let name = |adapter: u32, (channel, target): (usize, usize)| {
            format!("vmhba{}:C{channel}:T{target}:L{lun}", FIRST_ADAPTER + adapter)
        };
        (0..self.adapters).flat_map(|adapter| places.iter().map(move |at| name(adapter, *at))).collect()
    }

    /// Returns the iSCSI name of the target at each port.
    pub(crate) fn arrays(&self) -> Vec<String> {
        let target = |port: &String| port.parse::<initiator::Url>().map(|url| url.target);
        self.ports.iter().map(|port| target(port).unwrap_or_else(|_| self.array.clone())).collect()
    }
}

/// A rule of a storage array type plug-in: devices of this vendor and model get this policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SatpRule {
    /// The plug-in, `VMW_SATP_ALUA` for example.
    pub satp: String,
    /// Vendor; empty for any.
    pub vendor: String,
    /// Model; empty for any. It may end with `*`.
    pub model: String,
    /// The policy.
    pub policy: PathPolicy,
    /// Text for administrators.
    pub description: String,
}

impl SatpRule {
    /// Returns whether the rule applies to a device.
    pub(crate) fn matches(&self, vendor: &str, model: &str) -> bool {
        let fits = |pattern: &str, text: &str| match pattern.strip_suffix('*') {
            Some(start) => text.starts_with(start),
            None => pattern.is_empty() || pattern == text,
        };
        fits(self.vendor.trim(), vendor.trim()) && fits(self.model.trim(), model.trim())
    }

    /// Returns whether both rules have the same plug-in, vendor and model.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.satp, &self.vendor, &self.model) == (&other.satp, &other.vendor, &other.model)
    }
}

/// A mounted datastore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Label.
    pub label: String,
    /// UUID.
    pub uuid: String,
    /// Name of its device.
    pub device: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_names_are_ordered_by_adapter() {
        let identity = DiskIdentity {
            name: "naa.1".into(),
            designator: None,
            vendor: "IBID".into(),
            product: "Volume".into(),
            revision: String::new(),
            serial: String::new(),
            arrays: vec!["iqn.b".into()],
            block_bytes: 512,
            blocks: 1 << 21,
            scsi_level: 6,
            thin: true,
            solid_state: true,
        };
        let ports = ["iscsi://h:1/iqn.b/7", "iscsi://h:2/iqn.b/7"].map(str::to_owned).to_vec();
        let record = DeviceRecord::new(&identity, ports, 2);
        let names = record.path_names(&["iqn.a".to_owned(), "iqn.b".to_owned()]);
        assert_eq!(names, ["vmhba64:C0:T1:L7", "vmhba64:C1:T1:L7", "vmhba65:C0:T1:L7", "vmhba65:C1:T1:L7"]);
        let both = ["iscsi://h:1/iqn.b/7", "iscsi://g:1/iqn.a/7", "iscsi://g:2/iqn.a/7"].map(str::to_owned).to_vec();
        let stretched = DeviceRecord::new(&identity, both, 1);
        let names = stretched.path_names(&["iqn.a".to_owned(), "iqn.b".to_owned()]);
        assert_eq!(names, ["vmhba64:C0:T1:L7", "vmhba64:C0:T0:L7", "vmhba64:C1:T0:L7"], "a volume of two arrays");
        assert_eq!((record.mebibytes(), record.display_name().as_str()), (1024, "IBID iSCSI Disk (naa.1)"));
    }
}
