//! Logical unit numbers and REPORT LUNS data (SAM-5 4.7, SPC-4 6.33).

use crate::be::{get_u32, to_u32};
use thiserror::Error;

/// Length of a LUN on the wire in bytes.
pub const LUN_BYTES: usize = 8;
/// ADDRESS METHOD 00b with bus 0: peripheral device addressing, for LUNs below 256.
const PERIPHERAL: u8 = 0x00;
/// ADDRESS METHOD 01b: flat space addressing, for LUNs up to 16383.
const FLAT: u8 = 0x40;
const REPORT_HEADER_BYTES: usize = 8;

/// A logical unit number from 0 to 16383, the range of single-level addressing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lun(u16);

/// REPORT LUNS data was cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("LUN list of {0} bytes is cut short")]
pub struct LunListError(usize);

impl Lun {
    /// The largest number.
    pub const MAX: u16 = 0x3fff;

    /// Creates a LUN; `None` above [`Self::MAX`].
    pub fn new(number: u16) -> Option<Self> {
        (number <= Self::MAX).then_some(Self(number))
    }

    /// Returns the number.
    pub fn number(self) -> u16 {
        self.0
    }

    /// Decodes an 8-byte field. Returns `None` for other address methods, buses and levels: they
    /// address no logical unit.
    pub fn from_bytes(bytes: [u8; LUN_BYTES]) -> Option<Self> {
        if bytes[2..].iter().any(|byte| *byte != 0) {
            return None;
        }
        match bytes[0] & 0xc0 {
            PERIPHERAL if bytes[0] == 0 => Some(Self(u16::from(bytes[1]))),
            FLAT => Some(Self((u16::from(bytes[0] & 0x3f) << 8) | u16::from(bytes[1]))),
            _ => None,
        }
    }

    /// Encodes the 8-byte field: peripheral device addressing below 256, else flat space, as ESXi
    /// and Linux expect.
    pub fn to_bytes(self) -> [u8; LUN_BYTES] {
        let [high, low] = self.0.to_be_bytes();
        let method = if high == 0 { PERIPHERAL } else { FLAT };
        [method | high, low, 0, 0, 0, 0, 0, 0]
    }
}

impl std::fmt::Display for Lun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Encodes REPORT LUNS parameter data for these logical units.
pub fn report_luns_data(luns: impl IntoIterator<Item = Lun>) -> Vec<u8> {
    let mut out = vec![0; REPORT_HEADER_BYTES];
    for lun in luns {
        out.extend(lun.to_bytes());
    }
    // At most 16384 LUNs of 8 bytes: the length fits.
    let list = to_u32(out.len() - REPORT_HEADER_BYTES);
    out[..4].copy_from_slice(&list.to_be_bytes());
    out
}

/// Decodes REPORT LUNS data. Omits LUNs of unknown address methods, and accepts data cut by the
/// allocation length.
pub fn parse_report_luns(bytes: &[u8]) -> Result<Vec<Lun>, LunListError> {
    if bytes.len() < REPORT_HEADER_BYTES {
        return Err(LunListError(bytes.len()));
    }
    let list = &bytes[REPORT_HEADER_BYTES..];
    let length = list.len().min(get_u32(bytes, 0) as usize);
    let (luns, _) = list[..length].as_chunks::<LUN_BYTES>();
    Ok(luns.iter().filter_map(|lun| Lun::from_bytes(*lun)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luns_round_trip() {
        for number in 0..=Lun::MAX {
            let lun = Lun::new(number).unwrap();
            assert_eq!(Lun::from_bytes(lun.to_bytes()), Some(lun));
        }
        assert_eq!(Lun::new(Lun::MAX + 1), None);
    }

    #[test]
    fn golden_addresses() {
        assert_eq!(Lun(5).to_bytes(), [0, 5, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Lun(0x1234).to_bytes(), [0x52, 0x34, 0, 0, 0, 0, 0, 0]);
        // A host may use flat addressing for a small number.
        assert_eq!(Lun::from_bytes([0x40, 5, 0, 0, 0, 0, 0, 0]), Some(Lun(5)));
    }

    #[test]
    fn other_address_methods_are_refused() {
        for bytes in [
            [0x01, 0, 0, 0, 0, 0, 0, 0],    // bus 1
            [0xc1, 0x01, 0, 0, 0, 0, 0, 0], // REPORT LUNS well known logical unit
            [0x80, 0, 0, 0, 0, 0, 0, 0],    // logical unit addressing
            [0, 0, 0, 1, 0, 0, 0, 0],       // second level
        ] {
            assert_eq!(Lun::from_bytes(bytes), None, "{bytes:02x?}");
        }
    }

    #[test]
    fn report_luns_data_round_trips() {
        let luns = vec![Lun(0), Lun(7), Lun(300)];
        let data = report_luns_data(luns.clone());
        assert_eq!(data[..8], [0, 0, 0, 24, 0, 0, 0, 0]);
        assert_eq!(data.len(), 32);
        assert_eq!(parse_report_luns(&data), Ok(luns));
        assert_eq!(parse_report_luns(&data[..20]), Ok(vec![Lun(0)]));
        assert_eq!(parse_report_luns(&data[..7]), Err(LunListError(7)));
    }
}
