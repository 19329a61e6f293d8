//! Decodes standard INQUIRY data, for the initiator.

/// The fields of standard INQUIRY data that a host shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InquiryNames {
    /// PERIPHERAL QUALIFIER and PERIPHERAL DEVICE TYPE: zero is a connected disk.
    pub peripheral: u8,
    /// VERSION.
    pub version: u8,
    /// 3PC: the logical unit supports EXTENDED COPY.
    pub third_party_copy: bool,
    /// T10 VENDOR IDENTIFICATION without trailing spaces.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION without trailing spaces.
    pub product: String,
    /// PRODUCT REVISION LEVEL without trailing spaces.
    pub revision: String,
}

impl InquiryNames {
    /// Decodes standard INQUIRY data; `None` if shorter than the mandatory 36 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..36)?;
        let text = |part: &[u8]| String::from_utf8_lossy(part).trim_end_matches([' ', '\0']).to_owned();
        Some(Self {
            peripheral: bytes[0],
            version: bytes[2],
            third_party_copy: bytes[5] & 0x08 != 0,
            vendor: text(&bytes[8..16]),
            product: text(&bytes[16..32]),
            revision: text(&bytes[32..36]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inquiry::{Peripheral, PortGroupSupport, StandardInquiry};

    #[test]
    fn inquiry_data_round_trips() {
        let data = StandardInquiry {
            peripheral: Peripheral::Disk,
            port_groups: PortGroupSupport::None,
            multiple_ports: false,
            revision: *b"1.0 ",
        };
        let names = InquiryNames::from_bytes(&data.to_bytes()).unwrap();
        let expected = InquiryNames {
            peripheral: 0,
            version: 6,
            third_party_copy: true,
            vendor: "IBID".to_owned(),
            product: "IBID Volume".to_owned(),
            revision: "1.0".to_owned(),
        };
        assert_eq!(names, expected);
        assert_eq!(InquiryNames::from_bytes(&data.to_bytes()[..35]), None);
    }
}
