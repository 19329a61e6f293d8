//! Identity of a logical unit.

use scsi::inquiry::{Designator, DesignatorKind};
use std::fmt::Write as _;

/// The identity of a logical unit, as reported when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskIdentity {
    /// ESXi device name: `naa.`, `eui.` or `t10.` and the designator, or `mpx.` for a unit without
    /// one.
    pub name: String,
    /// Designator for copies (SPC-4 7.8.6); `None` if the unit reports none that fits in a copy
    /// descriptor.
    pub designator: Option<Designator>,
    /// T10 VENDOR IDENTIFICATION.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION.
    pub product: String,
    /// PRODUCT REVISION LEVEL.
    pub revision: String,
    /// UNIT SERIAL NUMBER; empty if not reported.
    pub serial: String,
    /// The arrays that serve it, by the iSCSI names of their targets, in the order of the paths;
    /// never empty. Copies work between units that one array serves.
    pub arrays: Vec<String>,
    /// Block length in bytes.
    pub block_bytes: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// VERSION of the INQUIRY data: 5 is SPC-3, 6 is SPC-4.
    pub scsi_level: u8,
    /// The unit supports UNMAP: blocks use space only while they hold data.
    pub thin: bool,
    /// The unit reports that it is solid state.
    pub solid_state: bool,
}

impl DiskIdentity {
    /// Returns the arrays that serve this unit and the other one.
    pub fn arrays_with<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a String> {
        self.arrays.iter().filter(|array| other.arrays.contains(array))
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(u64::from(self.block_bytes))
    }
}

/// Returns ESXi's device name for a designator: `naa.624a…` for NAA, `eui.…` for EUI-64, `t10.…`
/// for T10 vendor identifications with underscores for spaces.
pub(crate) fn esxi_name(designator: &Designator) -> String {
    let hex = |prefix: &str| {
        designator.bytes.iter().fold(prefix.to_owned(), |mut name, byte| {
            // Writing to a String cannot fail.
            let _ = write!(name, "{byte:02x}");
            name
        })
    };
    match designator.kind {
        DesignatorKind::Naa => hex("naa."),
        DesignatorKind::Eui64 => hex("eui."),
        _ => format!("t10.{}", String::from_utf8_lossy(&designator.bytes).trim_end().replace(' ', "_")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scsi::inquiry::Naa;

    #[test]
    fn device_names_follow_esxi() {
        let naa = Naa([0x62, 0x4a, 0x93, 0x70, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xab, 0xcd]);
        assert_eq!(esxi_name(&Designator::naa(naa)), "naa.624a937000010203040506070809abcd");
        let vendor =
            Designator { kind: DesignatorKind::T10Vendor, names_port: false, bytes: b"IET     00010001 ".to_vec() };
        assert_eq!(esxi_name(&vendor), "t10.IET_____00010001");
    }
}
