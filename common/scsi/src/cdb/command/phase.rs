//! Direction and length of a command's data.

use super::{ByteCheck, Command};
use types::LBA_BYTES;

/// The data phase of a command, as its CDB specifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataPhase {
    /// No data.
    None,
    /// From the array to the host: this many bytes, or at most this many if the CDB has an
    /// allocation length.
    In(u64),
    /// From the host to the array: exactly this many bytes.
    Out(u64),
}

impl DataPhase {
    /// Returns the number of bytes, in either direction.
    pub fn bytes(self) -> u64 {
        match self {
            Self::None => 0,
            Self::In(bytes) | Self::Out(bytes) => bytes,
        }
    }
}

impl Command {
    /// Returns direction and length of this command's data.
    #[inline]
    pub fn data_phase(&self) -> DataPhase {
        let phase = match *self {
            Self::Read(t) => DataPhase::In(u64::from(t.blocks) * LBA_BYTES),
            Self::Write(t) | Self::OrWrite(t) => DataPhase::Out(u64::from(t.blocks) * LBA_BYTES),
            Self::WriteAndVerify(v) => DataPhase::Out(u64::from(v.blocks) * LBA_BYTES),
            Self::Verify(v) => match v.check {
                ByteCheck::Medium => DataPhase::None,
                ByteCheck::Compare => DataPhase::Out(u64::from(v.blocks) * LBA_BYTES),
                // With no blocks there is no data: nothing to compare the one block with (SBC-4
                // 5.36).
                ByteCheck::CompareSame => DataPhase::Out(if v.blocks == 0 { 0 } else { LBA_BYTES }),
            },
            Self::CompareAndWrite { blocks, .. } => DataPhase::Out(2 * u64::from(blocks) * LBA_BYTES),
            Self::WriteAtomic { blocks, .. } => DataPhase::Out(u64::from(blocks) * LBA_BYTES),
            Self::WriteSame(s) => DataPhase::Out(if s.no_data { 0 } else { LBA_BYTES }),
            Self::Unmap { length } | Self::ModeSelect { length, .. } => DataPhase::Out(u64::from(length)),
            Self::PersistentReserveOut { length, .. }
            | Self::SetTargetPortGroups { length }
            | Self::ExtendedCopy { length } => DataPhase::Out(u64::from(length)),
            _ => self.allocation(),
        };
        if phase.bytes() == 0 { DataPhase::None } else { phase }
    }

    /// Handles commands that return parameter data and commands without data.
    fn allocation(&self) -> DataPhase {
        match *self {
            Self::RequestSense { allocation, .. } => DataPhase::In(u64::from(allocation)),
            Self::Inquiry { allocation, .. } | Self::PersistentReserveIn { allocation, .. } => {
                DataPhase::In(u64::from(allocation))
            }
            Self::LogSense(sense) => DataPhase::In(u64::from(sense.allocation)),
            Self::ModeSense(sense) => DataPhase::In(u64::from(sense.allocation)),
            // READ CAPACITY(10) has no allocation length; its data is 8 bytes.
            Self::ReadCapacity10 => DataPhase::In(8),
            Self::ReportLuns { allocation, .. }
            | Self::ReadCapacity16 { allocation }
            | Self::GetLbaStatus { allocation, .. }
            | Self::ReadDefectData { allocation, .. }
            | Self::ReportTaskManagement { allocation, .. }
            | Self::ReportTargetPortGroups { allocation, .. }
            | Self::ReceiveCopyResults { allocation, .. } => DataPhase::In(u64::from(allocation)),
            Self::ReportOpcodes(report) => DataPhase::In(u64::from(report.allocation)),
            _ => DataPhase::None,
        }
    }
}
