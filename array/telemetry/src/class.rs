//! Classes of commands.

/// Kinds of commands that are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CommandClass {
    /// READ and VERIFY.
    Read,
    /// WRITE, WRITE AND VERIFY, ORWRITE and WRITE ATOMIC.
    Write,
    /// COMPARE AND WRITE: VAAI's ATS.
    CompareAndWrite,
    /// EXTENDED COPY: VAAI's Clone.
    Copy,
    /// WRITE SAME without deallocation: VAAI's Zero.
    WriteSame,
    /// UNMAP, and WRITE SAME with the UNMAP bit: VAAI's Delete.
    Unmap,
    /// SYNCHRONIZE CACHE.
    Flush,
    /// All other commands.
    Other,
}

impl CommandClass {
    /// All classes, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::CompareAndWrite,
        Self::Copy,
        Self::WriteSame,
        Self::Unmap,
        Self::Flush,
        Self::Other,
    ];

    /// The four VAAI primitives.
    pub const OFFLOADS: [Self; 4] = [Self::CompareAndWrite, Self::Copy, Self::WriteSame, Self::Unmap];

    /// Returns true if commands of this class allocate or free space.
    pub fn changes_space(self) -> bool {
        matches!(self, Self::Write | Self::CompareAndWrite | Self::Copy | Self::WriteSame | Self::Unmap)
    }

    /// Returns the name in REST and metrics: `read`, `compare_and_write`, …
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::CompareAndWrite => "compare_and_write",
            Self::Copy => "extended_copy",
            Self::WriteSame => "write_same",
            Self::Unmap => "unmap",
            Self::Flush => "flush",
            Self::Other => "other",
        }
    }
}
