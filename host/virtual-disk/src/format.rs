//! The three formats of virtual disks on a datastore.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// When the blocks of a virtual disk are allocated, and when they are zeroed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// All blocks are allocated and zeroed when the disk is made.
    EagerZeroedThick,
    /// All blocks are allocated when the disk is made; each is zeroed before the first write to it.
    ZeroedThick,
    /// Each block is allocated and zeroed before the first write to it.
    Thin,
}

/// A text that is not a format of disks that can be made here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Invalid disk format '{0}'")]
pub struct FormatError(pub String);

impl Format {
    /// All formats, in the order in which the documents compare them.
    pub const ALL: [Self; 3] = [Self::EagerZeroedThick, Self::ZeroedThick, Self::Thin];

    /// How `vmkfstools -i` calls it in its first line.
    pub fn destination_words(self) -> &'static str {
        match self {
            Self::EagerZeroedThick => "VMFS eagerzeroedthick",
            Self::ZeroedThick => "VMFS zeroedthick",
            Self::Thin => "VMFS thin-provisioned",
        }
    }

    /// True when the whole disk is reserved at its creation.
    pub fn is_thick(self) -> bool {
        self != Self::Thin
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        match text {
            "eagerzeroedthick" => Ok(Self::EagerZeroedThick),
            // "thick" leaves old data readable on ESXi; no datastore of ours hands those out.
            "zeroedthick" | "thick" => Ok(Self::ZeroedThick),
            "thin" => Ok(Self::Thin),
            _ => Err(FormatError(text.to_owned())),
        }
    }
}

impl fmt::Display for Format {
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
    fn a_format_is_read_as_it_is_written() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert_eq!("2gbsparse".parse::<Format>(), Err(FormatError("2gbsparse".into())));
    }
}
