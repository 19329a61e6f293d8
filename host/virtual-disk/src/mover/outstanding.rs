//! The number of concurrent commands of one operation of the data mover.

use std::fmt;
use std::str::FromStr;

/// Concurrent commands of one operation, such as one copy or the creation of one disk. Each
/// primitive has one number, whatever the size of the disk and the number of operations at once.
///
/// ESXi's numbers are not published. The default of the offloads is half of the commands that a
/// session of the array admits, so that one operation leaves room for others. READ and WRITE gain
/// nothing from more than their default (`docs/lab.md` has the measurements).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// EXTENDED COPY.
    pub xcopy: u16,
    /// WRITE SAME.
    pub write_same: u16,
    /// UNMAP.
    pub unmap: u16,
    /// READ and WRITE of up to 1 MiB. The memory in use is this many megabytes.
    pub transfers: u16,
}

impl Outstanding {
    /// The most commands of one kind.
    pub const MAX: u16 = 1024;
}

impl Default for Outstanding {
    fn default() -> Self {
        Self { xcopy: 64, write_same: 64, unmap: 64, transfers: 16 }
    }
}

/// Formats as `xcopy=64,write-same=64,unmap=64,transfers=16`, the format that is parsed.
impl fmt::Display for Outstanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { xcopy, write_same, unmap, transfers } = self;
        write!(f, "xcopy={xcopy},write-same={write_same},unmap={unmap},transfers={transfers}")
    }
}

impl FromStr for Outstanding {
    type Err = String;

    /// Parses any of the four fields; the others keep their defaults.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut outstanding = Self::default();
        for part in text.split(',') {
            let (name, number) = part.split_once('=').ok_or_else(|| format!("'{part}' is not NAME=COUNT"))?;
            let count = number.parse().ok().filter(|count| (1..=Self::MAX).contains(count));
            let count = count.ok_or_else(|| format!("'{number}' is not a count from 1 to {}", Self::MAX))?;
            match name {
                "xcopy" => outstanding.xcopy = count,
                "write-same" => outstanding.write_same = count,
                "unmap" => outstanding.unmap = count,
                "transfers" => outstanding.transfers = count,
                _ => return Err(format!("'{name}' is not xcopy, write-same, unmap or transfers")),
            }
        }
        Ok(outstanding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outstanding_display_round_trips() {
        let some = Outstanding { xcopy: 4, ..Outstanding::default() };
        assert_eq!(some.to_string().parse(), Ok(some));
        assert_eq!("xcopy=4".parse(), Ok(some));
    }

    #[test]
    fn invalid_outstanding_counts_are_refused() {
        for text in ["", "xcopy", "xcopy=0", "xcopy=1025", "reads=4"] {
            assert!(text.parse::<Outstanding>().is_err(), "{text}");
        }
    }
}
