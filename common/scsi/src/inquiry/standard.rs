//! Standard INQUIRY data (SPC-4 6.6.2).

use crate::be::{put, to_u8};

/// Length of our standard INQUIRY data: up to the version descriptors and the reserved bytes after
/// them.
pub const STANDARD_BYTES: usize = 96;
/// T10 VENDOR IDENTIFICATION.
pub const VENDOR: &[u8; 8] = b"IBID    ";
/// PRODUCT IDENTIFICATION: the same for all volumes and permanently. ESXi copies only between
/// logical units of equal product.
pub const PRODUCT: &[u8; 16] = b"IBID Volume     ";
/// VERSION: SPC-4.
const VERSION_SPC_4: u8 = 0x06;
/// HISUP, and RESPONSE DATA FORMAT 2.
const HISUP_FORMAT_2: u8 = 0x12;
/// 3PC: EXTENDED COPY is supported.
const THIRD_PARTY_COPY: u8 = 0x08;
const MULTIP: u8 = 0x10;
const CMDQUE: u8 = 0x02;
/// Version descriptors (SPC-4 table 142): architecture, transport, primary and block commands,
/// without revisions.
const VERSION_DESCRIPTORS: [u16; 5] = [
    0x00a0, // SAM-5
    0x0960, // iSCSI
    0x0460, // SPC-4
    0x04c0, // SBC-3
    0x0600, // SBC-4
];

/// PERIPHERAL QUALIFIER and PERIPHERAL DEVICE TYPE (SPC-4 table 139).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Peripheral {
    /// A connected disk.
    Disk = 0x00,
    /// The LUN has no logical unit.
    Absent = 0x7f,
}

/// TPGS: the side that may change access states of target port groups (SPC-4 table 143).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PortGroupSupport {
    /// Neither: no asymmetric access, or not reported.
    #[default]
    None = 0x00,
    /// The array.
    Implicit = 0x10,
    /// The host, by SET TARGET PORT GROUPS.
    Explicit = 0x20,
    /// Both.
    Both = 0x30,
}

/// The variable part of standard INQUIRY data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandardInquiry {
    /// Disk or no logical unit.
    pub peripheral: Peripheral,
    /// TPGS.
    pub port_groups: PortGroupSupport,
    /// MULTIP: the logical unit has several ports.
    pub multiple_ports: bool,
    /// PRODUCT REVISION LEVEL, padded with spaces.
    pub revision: [u8; 4],
}

impl StandardInquiry {
    /// Encodes the data, before truncation to the allocation length.
    pub fn to_bytes(&self) -> [u8; STANDARD_BYTES] {
        let mut out = [0; STANDARD_BYTES];
        out[0] = self.peripheral as u8;
        out[2] = VERSION_SPC_4;
        out[3] = HISUP_FORMAT_2;
        out[4] = to_u8(STANDARD_BYTES - 5);
        out[5] = THIRD_PARTY_COPY | self.port_groups as u8;
        out[6] = if self.multiple_ports { MULTIP } else { 0 };
        out[7] = CMDQUE;
        put(&mut out, 8, *VENDOR);
        put(&mut out, 16, *PRODUCT);
        put(&mut out, 32, self.revision);
        for (place, descriptor) in VERSION_DESCRIPTORS.iter().enumerate() {
            put(&mut out, 58 + 2 * place, descriptor.to_be_bytes());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let inquiry = StandardInquiry {
            peripheral: Peripheral::Disk,
            port_groups: PortGroupSupport::Implicit,
            multiple_ports: true,
            revision: *b"0100",
        };
        let bytes = inquiry.to_bytes();
        assert_eq!(bytes[..8], [0x00, 0x00, 0x06, 0x12, 91, 0x18, 0x10, 0x02]);
        assert_eq!(&bytes[8..36], b"IBID    IBID Volume     0100");
        assert_eq!(bytes[36..58], [0; 22]);
        assert_eq!(bytes[58..68], [0x00, 0xa0, 0x09, 0x60, 0x04, 0x60, 0x04, 0xc0, 0x06, 0x00]);
        assert_eq!(bytes[68..], [0; 28]);
        assert_eq!(StandardInquiry { peripheral: Peripheral::Absent, ..inquiry }.to_bytes()[0], 0x7f);
    }
}
