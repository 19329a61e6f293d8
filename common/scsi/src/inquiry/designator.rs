//! Designation descriptors: identifiers of logical units and ports (SPC-4 7.8.6). VPD page 83h
//! lists them, and copy descriptors refer to logical units by them.

use super::standard::VENDOR;
use crate::be::to_u8;

/// The first 32 bits of our identifiers: NAA 6h (IEEE Registered Extended), company 24A937h, and a
/// zero digit. FlashArray hosts find a volume by `naa.624a9370` and its serial number.
const NAA_PREFIX: u32 = 0x624a_9370;
const CODE_SET_BINARY: u8 = 1;
const CODE_SET_ASCII: u8 = 2;
const CODE_SET_UTF8: u8 = 3;
/// PROTOCOL IDENTIFIER of iSCSI, in the high four bits.
const PROTOCOL_ISCSI: u8 = 0x50;
/// PIV: the protocol identifier is valid.
const PIV: u8 = 0x80;
const ASSOCIATION_TARGET_PORT: u8 = 0x10;
/// Header of a designation descriptor.
const HEADER_BYTES: usize = 4;

/// The worldwide name of a logical unit: NAA 6h, 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Naa(pub [u8; 16]);

impl Naa {
    /// Returns the identifier of a volume with this serial number of 24 hexadecimal digits; `None`
    /// if malformed.
    pub fn from_serial(serial: &str) -> Option<Self> {
        if serial.len() != 24 || !serial.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let low = u128::from_str_radix(serial, 16).ok()?;
        Some(Self(((u128::from(NAA_PREFIX) << 96) | low).to_be_bytes()))
    }
}

impl std::fmt::Display for Naa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "naa.{:032x}", u128::from_be_bytes(self.0))
    }
}

impl std::fmt::Debug for Naa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The target port that received a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPort {
    /// Relative target port identifier, from 1.
    pub relative: u16,
    /// Target port group, from 1.
    pub group: u16,
    /// The iSCSI name of the target.
    pub target_name: String,
    /// The iSCSI target portal group tag.
    pub portal_group: u16,
}

impl TargetPort {
    /// Returns the SCSI port name of an iSCSI target port (RFC 7143 4.4.1).
    pub fn name(&self) -> String {
        format!("{},t,0x{:04x}", self.target_name, self.portal_group)
    }
}

/// DESIGNATOR TYPE (SPC-4 table 617).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DesignatorKind {
    /// 1h: T10 vendor identification and a vendor-specific identifier.
    T10Vendor = 0x1,
    /// 2h: EUI-64 based.
    Eui64 = 0x2,
    /// 3h: NAA.
    Naa = 0x3,
    /// 4h: relative target port identifier.
    RelativePort = 0x4,
    /// 5h: target port group.
    PortGroup = 0x5,
    /// 8h: SCSI name string.
    ScsiName = 0x8,
}

/// One designation descriptor, with its identifier as raw bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Designator {
    /// DESIGNATOR TYPE.
    pub kind: DesignatorKind,
    /// ASSOCIATION: identifies the target port, not the logical unit.
    pub names_port: bool,
    /// DESIGNATOR.
    pub bytes: Vec<u8>,
}

impl Designator {
    /// Creates the NAA identifier of a logical unit.
    pub fn naa(naa: Naa) -> Self {
        Self { kind: DesignatorKind::Naa, names_port: false, bytes: naa.0.to_vec() }
    }

    /// Creates the T10 vendor identifier with the serial number of a logical unit.
    pub fn t10_vendor(serial: &str) -> Self {
        let bytes = [VENDOR.as_slice(), serial.as_bytes()].concat();
        Self { kind: DesignatorKind::T10Vendor, names_port: false, bytes }
    }

    fn port(kind: DesignatorKind, bytes: Vec<u8>) -> Self {
        Self { kind, names_port: true, bytes }
    }

    /// Returns all designators of a logical unit as seen through a port: those of the unit first.
    pub fn all(serial: &str, naa: Naa, port: &TargetPort) -> Vec<Self> {
        vec![
            Self::naa(naa),
            Self::t10_vendor(serial),
            Self::port(DesignatorKind::RelativePort, [[0; 2], port.relative.to_be_bytes()].concat()),
            Self::port(DesignatorKind::PortGroup, [[0; 2], port.group.to_be_bytes()].concat()),
            Self::port(DesignatorKind::ScsiName, padded_name(&port.name())),
        ]
    }

    fn code_set(&self) -> u8 {
        match self.kind {
            DesignatorKind::T10Vendor => CODE_SET_ASCII,
            DesignatorKind::ScsiName => CODE_SET_UTF8,
            _ => CODE_SET_BINARY,
        }
    }

    /// Appends the designation descriptor.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        // All our designators are below 256 bytes: an iSCSI name has at most 223.
        let bytes = &self.bytes[..self.bytes.len().min(255)];
        if self.names_port {
            out.extend([PROTOCOL_ISCSI | self.code_set(), PIV | ASSOCIATION_TARGET_PORT | self.kind as u8]);
        } else {
            out.extend([self.code_set(), self.kind as u8]);
        }
        out.extend([0, to_u8(bytes.len())]);
        out.extend(bytes);
    }
}

impl DesignatorKind {
    /// Returns the kind of a DESIGNATOR TYPE field; `None` for types that are not used.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code & 0x0f {
            0x1 => Self::T10Vendor,
            0x2 => Self::Eui64,
            0x3 => Self::Naa,
            0x4 => Self::RelativePort,
            0x5 => Self::PortGroup,
            0x8 => Self::ScsiName,
            _ => return None,
        })
    }
}

/// Encodes a SCSI name string: null-terminated and padded to a multiple of four (SPC-4 7.8.6.11).
fn padded_name(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Parses the designation descriptors of a VPD page 83h without its header. Omits unused kinds;
/// stops at a descriptor that is cut.
pub fn parse_designators(mut rest: &[u8]) -> Vec<Designator> {
    let mut found = Vec::new();
    while let [_, kind, _, length, ..] = *rest {
        let Some((descriptor, next)) = rest.split_at_checked(HEADER_BYTES + usize::from(length)) else { break };
        rest = next;
        if let Some(kind_found) = DesignatorKind::from_code(kind) {
            let bytes = descriptor[HEADER_BYTES..].to_vec();
            found.push(Designator { kind: kind_found, names_port: kind & 0x30 == ASSOCIATION_TARGET_PORT, bytes });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERIAL: &str = "0123456789ABCDEF00011010";

    #[test]
    fn naa_is_derived_from_the_serial_number() {
        let naa = Naa::from_serial(SERIAL);
        assert_eq!(naa.map(|n| n.to_string()).as_deref(), Some("naa.624a93700123456789abcdef00011010"));
        for wrong in ["", "0123456789ABCDEF0001101", "0123456789ABCDEF000110100", "+123456789ABCDEF00011010"] {
            assert_eq!(Naa::from_serial(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn designators_round_trip() {
        let port =
            TargetPort { relative: 2, group: 1, target_name: "iqn.2026-11.test:array".to_owned(), portal_group: 7 };
        let all = Designator::all(SERIAL, Naa([0x60; 16]), &port);
        let mut bytes = Vec::new();
        all.iter().for_each(|designator| designator.append_to(&mut bytes));
        assert_eq!(parse_designators(&bytes), all);
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(all[4].bytes, b"iqn.2026-11.test:array,t,0x0007\0");
        assert_eq!(bytes[..4], [0x01, 0x03, 0, 16]);
        assert_eq!(bytes[20..32], *b"\x02\x01\0\x20IBID    ");
        // A list cut inside its last descriptor loses only that one.
        assert_eq!(parse_designators(&bytes[..bytes.len() - 1]), all[..4]);
    }
}
