//! Properties of commands: class, bytes covered and transferred, and QoS cost.

use crate::command::program::{Program, Step};
use crate::unit::qos::Cost;
use engine::Op;
use scsi::DataPhase;
use scsi::cdb::{Command, WriteSame};
use scsi::inquiry::vpd::MAX_TRANSFER_BLOCKS;
use telemetry::CommandClass;
use types::{BlockRange, LBA_BYTES};

/// Returns the number of bytes that the CDB requests, or `None` if the length of the answer
/// decides. A read fetches no more than the host accepts, so its CDB is the only source.
pub(crate) fn requested_bytes(command: &Command) -> Option<u64> {
    match command.data_phase() {
        DataPhase::Out(bytes) => Some(bytes),
        DataPhase::None => Some(0),
        DataPhase::In(bytes) => matches!(command, Command::Read(_)).then_some(bytes),
    }
}

/// Returns true for commands that change stored data.
pub(crate) fn writes_medium(command: &Command) -> bool {
    matches!(
        command,
        Command::Write(_)
            | Command::OrWrite(_)
            | Command::WriteAndVerify(_)
            | Command::CompareAndWrite { .. }
            | Command::WriteAtomic { .. }
            | Command::WriteSame(_)
            | Command::Unmap { .. }
    )
}

/// Returns the class under which a command is counted.
pub(crate) fn class_of(command: &Command) -> CommandClass {
    match command {
        Command::Read(_) | Command::Verify(_) => CommandClass::Read,
        Command::Write(_) | Command::OrWrite(_) | Command::WriteAndVerify(_) | Command::WriteAtomic { .. } => {
            CommandClass::Write
        }
        Command::CompareAndWrite { .. } => CommandClass::CompareAndWrite,
        Command::ExtendedCopy { .. } => CommandClass::Copy,
        Command::WriteSame(same) if same.unmap => CommandClass::Unmap,
        Command::WriteSame(_) => CommandClass::WriteSame,
        Command::Unmap { .. } => CommandClass::Unmap,
        Command::SynchronizeCache(_) => CommandClass::Flush,
        _ => CommandClass::Other,
    }
}

/// Returns the bytes of the volume that a CDB covers, for the counters.
pub(crate) fn covered_bytes(command: &Command) -> u64 {
    let blocks = match *command {
        Command::Read(transfer) | Command::Write(transfer) | Command::OrWrite(transfer) => transfer.blocks,
        Command::Verify(verification) | Command::WriteAndVerify(verification) => verification.blocks,
        Command::CompareAndWrite { blocks, .. } => blocks.into(),
        Command::WriteSame(same) => same.blocks,
        Command::WriteAtomic { blocks, .. } => blocks.into(),
        _ => 0,
    };
    u64::from(blocks) * LBA_BYTES
}

/// Returns the covered bytes of commands whose range is in the parameter list or extends to the end
/// of the volume.
pub(crate) fn described_bytes(step: &Step) -> Option<u64> {
    match step {
        Step::Submit(Op::Unmap { ranges, .. }, _) => Some(ranges.iter().map(BlockRange::bytes).sum()),
        Step::Submit(Op::WriteSame { range, .. } | Op::Zero { range, .. }, _) => Some(range.bytes()),
        Step::Submit(Op::Copy { .. }, Program::Copy(copy)) => Some(copy.bytes()),
        _ => None,
    }
}

/// Returns the QoS cost of a command, or `None` if limits do not apply to it.
///
/// A command costs the bytes that the array reads, compares or stores, even if few are on the wire:
/// VERIFY and WRITE SAME cost the bytes of their range.
pub(crate) fn cost_of(command: &Command) -> Option<Cost> {
    let is_urgent = match command {
        Command::CompareAndWrite { .. } => true,
        Command::Read(transfer) | Command::Write(transfer) => transfer.blocks <= 1,
        Command::OrWrite(_)
        | Command::Verify(_)
        | Command::WriteAndVerify(_)
        | Command::WriteAtomic { .. }
        | Command::WriteSame(_)
        | Command::Unmap { .. }
        | Command::ExtendedCopy { .. } => false,
        _ => return None,
    };
    let wire_bytes = match command.data_phase() {
        DataPhase::In(bytes) | DataPhase::Out(bytes) => bytes,
        DataPhase::None => 0,
    };
    let bytes = match command {
        Command::Verify(_) => covered_bytes(command),
        // Written, then read again.
        Command::WriteAndVerify(_) => 2 * wire_bytes,
        Command::WriteSame(same) => write_same_cost(same),
        _ => wire_bytes,
    };
    Some(Cost { bytes, is_urgent })
}

/// Returns the cost of a WRITE SAME in bytes. It is at most that of the longest transfer, because
/// one command may cover the whole volume and would otherwise delay all others for hours.
fn write_same_cost(same: &WriteSame) -> u64 {
    let longest = MAX_TRANSFER_BLOCKS;
    let blocks = match same.blocks {
        _ if same.unmap => 0,
        // Zero means all blocks up to the end of the volume.
        0 => longest,
        blocks => blocks.min(longest),
    };
    u64::from(blocks) * LBA_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use scsi::Cdb;

    fn cost(cdb: &[u8]) -> Option<Cost> {
        let mut bytes = [0; 16];
        bytes[..cdb.len()].copy_from_slice(cdb);
        cost_of(&Cdb::parse(&bytes).expect("a command"))
    }

    #[test]
    fn qos_cost_is_the_bytes_that_the_array_processes() {
        assert_eq!(cost(&[0x28, 0, 0, 0, 0, 0, 0, 0, 8]), Some(Cost { bytes: 4096, is_urgent: false }));
        assert_eq!(cost(&[0x2a, 0, 0, 0, 0, 0, 0, 0, 1]), Some(Cost { bytes: 512, is_urgent: true }));
        let lock = [0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8];
        assert_eq!(cost(&lock), Some(Cost { bytes: 8192, is_urgent: true }));
        // WRITE SAME and VERIFY of 1 MiB without data on the wire.
        let megabyte = Some(Cost { bytes: 1 << 20, is_urgent: false });
        assert_eq!(cost(&[0x93, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]), megabyte);
        assert_eq!(cost(&[0x8f, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]), megabyte);
        // WRITE SAME of 1 TiB, and to the end of the volume: as the longest transfer.
        let longest = Some(Cost { bytes: 32 << 20, is_urgent: false });
        assert_eq!(cost(&[0x93, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0]), longest);
        assert_eq!(cost(&[0x93, 0x01]), longest);
        // With the UNMAP bit it frees space.
        assert_eq!(cost(&[0x93, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]), Some(Cost { bytes: 0, is_urgent: false }));
        for free in [&[0x00][..], &[0x35], &[0x12, 0, 0, 0, 36], &[0x9e, 0x12]] {
            assert_eq!(cost(free), None, "{free:02x?}");
        }
    }
}
