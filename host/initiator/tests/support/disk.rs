//! A disk in memory: a minimal implementation of SBC-4.

use iscsi::target_connection::{CommandCompletion, TargetCommand};
use scsi::copy::parse_copy_list;
use scsi::inquiry::vpd::BlockLimits;
use scsi::lba_status::{ProvisioningStatus, StatusRun, build_lba_status};
use scsi::lun::report_luns_data;
use scsi::unmap::parse_unmap;
use scsi::{Capacity, Cdb, Command, Lun, Sense, SenseFormat, Status, asc};
use types::Lba;

/// Bytes in a logical block.
pub const LBA_LEN: usize = types::LBA_BYTES as usize;

/// Block limits that the disk reports in VPD page B0h.
pub const LIMITS: BlockLimits = BlockLimits { max_transfer: 4096, max_write_same: 16_384, ..BlockLimits::OURS };

/// The disk.
pub struct Disk {
    /// The content.
    pub data: Vec<u8>,
    /// Commands executed so far.
    pub executed: Vec<Command>,
}

impl Disk {
    /// Creates a disk of zeros.
    pub fn new(blocks: u64) -> Self {
        Self { data: vec![0; blocks as usize * LBA_LEN], executed: Vec::new() }
    }

    /// Executes a command.
    pub fn execute(&mut self, task: &TargetCommand) -> CommandCompletion {
        let command = match Cdb::parse(&task.cdb) {
            Ok(command) => command,
            Err(sense) => return check(sense),
        };
        self.executed.push(command);
        self.apply(&command, &task.data).unwrap_or_else(check)
    }

    /// Writes the first half of the blocks of a WRITE.
    pub fn write_half(&mut self, task: &TargetCommand) {
        let Ok(Command::Write(transfer)) = Cdb::parse(&task.cdb) else { panic!("write_half needs a WRITE") };
        let half = u64::from(transfer.blocks / 2);
        self.range(transfer.lba, half).unwrap().copy_from_slice(&task.data[..half as usize * LBA_LEN]);
    }

    fn range(&mut self, lba: Lba, blocks: u64) -> Result<&mut [u8], Sense> {
        let from = lba.0 as usize * LBA_LEN;
        self.data.get_mut(from..from + blocks as usize * LBA_LEN).ok_or(Sense::lba_out_of_range(lba.0))
    }

    fn apply(&mut self, command: &Command, data: &[u8]) -> Result<CommandCompletion, Sense> {
        match *command {
            Command::Read(t) => return Ok(CommandCompletion::read(self.range(t.lba, t.blocks.into())?.to_vec())),
            Command::Write(t) => self.range(t.lba, t.blocks.into())?.copy_from_slice(data),
            Command::WriteSame(s) => {
                self.range(s.lba, s.blocks.into())?.chunks_mut(LBA_LEN).for_each(|block| block.copy_from_slice(data));
            }
            Command::Unmap { .. } => {
                for range in parse_unmap(data)? {
                    self.range(range.start(), range.blocks())?.fill(0);
                }
            }
            Command::CompareAndWrite { lba, blocks, .. } => {
                let (compare, write) = data.split_at(data.len() / 2);
                let blocks = self.range(lba, blocks.into())?;
                if let Some(at) = blocks.iter().zip(compare).position(|(a, b)| a != b) {
                    return Err(Sense::miscompare(at as u64));
                }
                blocks.copy_from_slice(write);
            }
            Command::ExtendedCopy { .. } => {
                for segment in parse_copy_list(data)?.segments {
                    let source = self.range(segment.source_lba, segment.blocks.into())?.to_vec();
                    self.range(segment.destination_lba, segment.blocks.into())?.copy_from_slice(&source);
                }
            }
            _ => return self.report(command),
        }
        Ok(CommandCompletion::good())
    }

    fn report(&self, command: &Command) -> Result<CommandCompletion, Sense> {
        let blocks = (self.data.len() / LBA_LEN) as u64;
        Ok(match *command {
            Command::Inquiry { page: None, .. } => {
                let mut data = [b' '; 36];
                data[..8].copy_from_slice(&[0, 0, 6, 2, 31, 8, 0, 2]);
                CommandCompletion::read(data.to_vec())
            }
            Command::Inquiry { page: Some(page), .. } => CommandCompletion::read(vpd(page)?),
            Command::ReadCapacity16 { .. } => {
                CommandCompletion::read(Capacity::of_volume(blocks).to_bytes_16().to_vec())
            }
            Command::ReportLuns { .. } => CommandCompletion::read(report_luns_data([Lun::default()])),
            Command::GetLbaStatus { lba, .. } => {
                let run = StatusRun { lba, blocks: (blocks - lba.0) as u32, status: ProvisioningStatus::Mapped };
                CommandCompletion::read(build_lba_status(&[run]))
            }
            Command::TestUnitReady
            | Command::SynchronizeCache(_)
            | Command::Reserve { .. }
            | Command::Release { .. } => CommandCompletion::good(),
            _ => return Err(Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE)),
        })
    }
}

fn vpd(page: u8) -> Result<Vec<u8>, Sense> {
    let body = match page {
        0x00 => vec![0x00, 0x83, 0xb0, 0xb2],
        0x83 => [&[0x01, 0x03, 0, 16][..], &[0x60; 16]].concat(),
        0xb0 => LIMITS.to_body().to_vec(),
        0xb2 => vec![0, 0xc4, 2, 0],
        _ => return Err(Sense::invalid_cdb_field(2, None)),
    };
    Ok([&[0, page, 0, body.len() as u8][..], &body].concat())
}

fn check(sense: Sense) -> CommandCompletion {
    CommandCompletion::check_condition(sense.to_bytes(SenseFormat::Fixed))
}

/// Creates a completion with a status and no data.
pub fn status(status: Status) -> CommandCompletion {
    CommandCompletion::status(status.code())
}
