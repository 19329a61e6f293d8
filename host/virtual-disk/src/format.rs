//! The three formats of virtual disks on a datastore.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The time at which blocks of a virtual disk are allocated and zeroed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiskFormat {
    /// All blocks are allocated and zeroed at creation.
    EagerZeroedThick,
    /// All blocks are allocated at creation; each is zeroed before its first write.
    ZeroedThick,
    /// Each block is allocated and zeroed before its first write.
    Thin,
}

/// The text is not a supported disk format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Invalid disk format '{0}'")]
pub struct DiskFormatError(pub String);

impl DiskFormat {
    /// All formats, in the order of VMware's comparisons.
    pub const ALL: [Self; 3] = [Self::EagerZeroedThick, Self::ZeroedThick, Self::Thin];

    /// Returns the text that `vmkfstools -i` prints in its first line.
    pub fn destination_words(self) -> &'static str {
        match self {
            Self::EagerZeroedThick => "VMFS eagerzeroedthick",
            Self::ZeroedThick => "VMFS zeroedthick",
            Self::Thin => "VMFS thin-provisioned",
        }
    }

    /// Returns whether the whole disk is allocated at creation.
    pub fn is_thick(self) -> bool {
        self != Self::Thin
    }
}

impl FromStr for DiskFormat {
    type Err = DiskFormatError;

    fn from_str(text: &str) -> Result<Self, DiskFormatError> {
        match text {
            "eagerzeroedthick" => Ok(Self::EagerZeroedThick),
            // On ESXi, "thick" leaves old data readable; this crate always zeroes.
            "zeroedthick" | "thick" => Ok(Self::ZeroedThick),
            "thin" => Ok(Self::Thin),
            _ => Err(DiskFormatError(text.to_owned())),
        }
    }
}

impl fmt::Display for DiskFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EagerZeroedThick => "eagerzeroedthick",
            Self::ZeroedThick => "zeroedthick",
            Self::Thin => "thin",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_format_names_round_trip() {
        for format in DiskFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert_eq!("2gbsparse".parse::<DiskFormat>(), Err(DiskFormatError("2gbsparse".into())));
    }
}
