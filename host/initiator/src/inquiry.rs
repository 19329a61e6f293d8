//! Standard INQUIRY data.

/// The fields of standard INQUIRY data that hosts use (SPC-4 6.6.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// PERIPHERAL QUALIFIER and PERIPHERAL DEVICE TYPE; zero is a connected disk.
    pub peripheral: u8,
    /// VERSION: 5 is SPC-3, 6 is SPC-4, 7 is SPC-5.
    pub version: u8,
    /// 3PC: EXTENDED COPY is supported.
    pub third_party_copy: bool,
    /// T10 VENDOR IDENTIFICATION.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION.
    pub product: String,
    /// PRODUCT REVISION LEVEL.
    pub revision: String,
}

impl Inquiry {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let text = |range| Some(String::from_utf8_lossy(bytes.get(range)?).trim_end().to_owned());
        Some(Self {
            peripheral: *bytes.first()?,
            version: *bytes.get(2)?,
            third_party_copy: bytes.get(5)? & 0x08 != 0,
            vendor: text(8..16)?,
            product: text(16..32)?,
            revision: text(32..36)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inquiry_needs_36_bytes() {
        let mut bytes = [b' '; 36];
        bytes[..8].copy_from_slice(&[0, 0, 6, 2, 31, 8, 0, 2]);
        bytes[8..12].copy_from_slice(b"IBID");
        bytes[16..27].copy_from_slice(b"IBID Volume");
        let inquiry = Inquiry::parse(&bytes).unwrap();
        assert_eq!((inquiry.vendor.as_str(), inquiry.product.as_str()), ("IBID", "IBID Volume"));
        assert!(inquiry.third_party_copy && inquiry.version == 6);
        assert_eq!(Inquiry::parse(&bytes[..35]), None);
    }
}
