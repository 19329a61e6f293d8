//! Identity and behaviour of a datastore.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// UUID of a datastore, formatted as on ESXi: `51f5bd4e-3f5a8c12-9b77-000c29d1b8aa`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeUuid(pub [u8; 16]);

impl fmt::Display for VolumeUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The text is not a UUID of a datastore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("invalid datastore UUID; expected a form like 51f5bd4e-3f5a8c12-9b77-000c29d1b8aa")]
pub struct UuidError;

impl FromStr for VolumeUuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Self, UuidError> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
        let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8).ok_or(UuidError);
        if digits.len() != 32 {
            return Err(UuidError);
        }
        let mut uuid = [0; 16];
        for (place, pair) in uuid.iter_mut().zip(digits.chunks_exact(2)) {
            *place = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(uuid))
    }
}

/// Maximum number of hosts that have a file open for reading; a descriptor has as many entries.
pub(crate) const READERS: usize = 32;

/// VMFS version whose behaviour a datastore has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// VMFS 5: up to 8 readers per file, manual space reclamation, thin copies in units of 1 MiB.
    V5,
    /// VMFS 6: up to 32 readers per file, automatic space reclamation.
    V6,
}

impl Mode {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::V5 => 5,
            Self::V6 => 6,
        }
    }

    pub(crate) fn of_number(number: u8) -> Option<Self> {
        match number {
            5 => Some(Self::V5),
            6 => Some(Self::V6),
            _ => None,
        }
    }

    /// Returns the maximum number of hosts that may read a file.
    pub(crate) fn readers(self) -> usize {
        match self {
            Self::V5 => 8,
            Self::V6 => READERS,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VMFS-{}", self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_text_round_trips() {
        let uuid = VolumeUuid(*b"\x51\xf5\xbd\x4e\x3f\x5a\x8c\x12\x9b\x77\x00\x0c\x29\xd1\xb8\xaa");
        assert_eq!(uuid.to_string(), "51f5bd4e-3f5a8c12-9b77-000c29d1b8aa");
        assert_eq!(uuid.to_string().parse(), Ok(uuid));
        assert_eq!("51f5bd4e".parse::<VolumeUuid>(), Err(UuidError));
    }
}
