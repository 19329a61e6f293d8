//! Sense data: the cause of a CHECK CONDITION or an event of the logical unit (SPC-4 4.5).
//!
//! A parser of this crate that refuses its input returns a [`Sense`], ready to send to the host,
//! with a pointer to the field in error.

pub mod asc;
mod codec;

pub use asc::Asc;
pub use codec::{SenseError, SenseFormat};

/// Sense keys (SPC-4 table 46).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SenseKey {
    /// Nothing to report.
    NoSense = 0x0,
    /// The command succeeded after recovery by the device.
    RecoveredError = 0x1,
    /// The logical unit cannot be accessed now.
    NotReady = 0x2,
    /// The medium failed.
    MediumError = 0x3,
    /// The device failed.
    HardwareError = 0x4,
    /// The CDB or the parameter list is wrong.
    IllegalRequest = 0x5,
    /// Something changed since the last command of this I_T nexus.
    UnitAttention = 0x6,
    /// The medium, or the state of the space below it, forbids the command.
    DataProtect = 0x7,
    /// Unwritten medium where data was expected.
    BlankCheck = 0x8,
    /// Vendor specific.
    VendorSpecific = 0x9,
    /// A third-party copy stopped.
    CopyAborted = 0xa,
    /// The device aborted the command; the host may retry it.
    AbortedCommand = 0xb,
    /// Reserved since SPC-4.
    Reserved = 0xc,
    /// Data remains that did not fit on the medium.
    VolumeOverflow = 0xd,
    /// The compared data is not equal.
    Miscompare = 0xe,
    /// The command succeeded, with information.
    Completed = 0xf,
}

impl SenseKey {
    /// Returns the key in the low four bits of `byte`.
    pub fn from_nibble(byte: u8) -> Self {
        match byte & 0x0f {
            0x0 => Self::NoSense,
            0x1 => Self::RecoveredError,
            0x2 => Self::NotReady,
            0x3 => Self::MediumError,
            0x4 => Self::HardwareError,
            0x5 => Self::IllegalRequest,
            0x6 => Self::UnitAttention,
            0x7 => Self::DataProtect,
            0x8 => Self::BlankCheck,
            0x9 => Self::VendorSpecific,
            0xa => Self::CopyAborted,
            0xb => Self::AbortedCommand,
            0xc => Self::Reserved,
            0xd => Self::VolumeOverflow,
            0xe => Self::Miscompare,
            _ => Self::Completed,
        }
    }
}

/// The sense key specific field (SPC-4 4.5.2.4), by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Specific {
    /// ILLEGAL REQUEST: the field in error (SPC-4 4.5.2.4.2).
    Field {
        /// C/D: the field is in the CDB; otherwise in the parameter list.
        in_cdb: bool,
        /// Offset of the first byte of the field, from 0.
        byte: u16,
        /// Most significant bit of a field within the byte. `None` clears BPV.
        bit: Option<u8>,
    },
    /// COPY ABORTED: the field in error in the parameter list (SPC-4 4.5.2.4.5).
    Segment {
        /// SD: `byte` counts from the start of the segment descriptor; otherwise of the parameter
        /// list.
        in_descriptor: bool,
        /// Byte in error, from 0.
        byte: u16,
        /// Most significant bit of a field within the byte. `None` clears BPV.
        bit: Option<u8>,
    },
    /// NOT READY, NO SENSE: progress of an operation in units of 1/65536 (SPC-4 4.5.2.4.4).
    Progress(u16),
}

/// Sense data as a value. Its wire format is selected when it is sent ([`SenseFormat`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sense {
    /// What kind of condition.
    pub key: SenseKey,
    /// Additional sense code and its qualifier.
    pub asc: Asc,
    /// INFORMATION: offset of the first unequal byte (MISCOMPARE), or the first LBA in error.
    pub information: Option<u64>,
    /// COMMAND-SPECIFIC INFORMATION: for COPY ABORTED, the number of the segment in progress.
    pub command_specific: Option<u64>,
    /// The sense key specific field.
    pub specific: Option<Specific>,
}

impl Sense {
    /// Nothing to report: the result of REQUEST SENSE on a healthy logical unit.
    pub const NONE: Self = Self::new(SenseKey::NoSense, asc::NO_ADDITIONAL_SENSE_INFORMATION);

    /// Creates sense of `key` and `asc` without further fields.
    pub const fn new(key: SenseKey, asc: Asc) -> Self {
        Self { key, asc, information: None, command_specific: None, specific: None }
    }

    /// Creates ILLEGAL REQUEST with `asc`.
    pub const fn illegal(asc: Asc) -> Self {
        Self::new(SenseKey::IllegalRequest, asc)
    }

    /// Creates UNIT ATTENTION with `asc`.
    pub const fn unit_attention(asc: Asc) -> Self {
        Self::new(SenseKey::UnitAttention, asc)
    }

    /// Creates INVALID FIELD IN CDB at `byte`, or at `bit` of it.
    #[cold]
    pub const fn invalid_cdb_field(byte: u16, bit: Option<u8>) -> Self {
        Self::illegal(asc::INVALID_FIELD_IN_CDB).at_cdb(byte, bit)
    }

    /// Creates INVALID FIELD IN PARAMETER LIST at `byte`, or at `bit` of it.
    #[cold]
    pub const fn invalid_parameter(byte: u16, bit: Option<u8>) -> Self {
        Self::illegal(asc::INVALID_FIELD_IN_PARAMETER_LIST).at_parameter(byte, bit)
    }

    /// Creates PARAMETER LIST LENGTH ERROR: the list ends inside a mandatory field.
    pub const fn parameter_list_length() -> Self {
        Self::illegal(asc::PARAMETER_LIST_LENGTH_ERROR)
    }

    /// Creates LOGICAL BLOCK ADDRESS OUT OF RANGE; `byte` is the offset of the LBA field in the
    /// CDB, if any.
    pub const fn lba_out_of_range(lba: u64) -> Self {
        Self::illegal(asc::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE).with_information(lba)
    }

    /// Creates MISCOMPARE DURING VERIFY OPERATION with the offset of the first unequal byte (SBC-4
    /// 5.3).
    pub const fn miscompare(offset: u64) -> Self {
        Self::new(SenseKey::Miscompare, asc::MISCOMPARE_DURING_VERIFY_OPERATION).with_information(offset)
    }

    /// Adds a pointer into the CDB.
    pub const fn at_cdb(mut self, byte: u16, bit: Option<u8>) -> Self {
        self.specific = Some(Specific::Field { in_cdb: true, byte, bit });
        self
    }

    /// Adds a pointer into the parameter list.
    pub const fn at_parameter(mut self, byte: u16, bit: Option<u8>) -> Self {
        self.specific = Some(Specific::Field { in_cdb: false, byte, bit });
        self
    }

    /// Adds an INFORMATION field.
    pub const fn with_information(mut self, information: u64) -> Self {
        self.information = Some(information);
        self
    }

    /// Adds a COMMAND-SPECIFIC INFORMATION field.
    pub const fn with_command_specific(mut self, value: u64) -> Self {
        self.command_specific = Some(value);
        self
    }

    /// Returns whether both report the same condition: equal key and code, whatever the pointers.
    pub fn is(&self, key: SenseKey, asc: Asc) -> bool {
        self.key == key && self.asc == asc
    }
}

impl std::fmt::Display for Sense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}", self.key, self.asc)?;
        match self.specific {
            Some(Specific::Field { in_cdb, byte, bit }) => {
                write!(f, " at byte {byte}")?;
                bit.map_or(Ok(()), |bit| write!(f, " bit {bit}"))?;
                f.write_str(if in_cdb { " of the CDB" } else { " of the parameter list" })?;
            }
            Some(Specific::Segment { byte, .. }) => write!(f, " at byte {byte} of the copy parameters")?,
            Some(Specific::Progress(_)) | None => {}
        }
        self.information.map_or(Ok(()), |information| write!(f, ", information {information:#x}"))
    }
}

impl std::error::Error for Sense {}

#[cfg(test)]
mod tests;
