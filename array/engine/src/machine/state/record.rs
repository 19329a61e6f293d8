//! Checks of a log record before it is replayed. A record that passes its checksum may still be
//! forged; it must not address anything outside its volume.

use super::ArrayState;
use crate::machine::error::RecoverError;
use crate::machine::volume::is_volume_size;
use crate::service::OpError;
use types::{BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lba};
use wal::LogOp;

impl ArrayState {
    /// Checks that a log record fits the state that it is replayed on.
    pub(crate) fn check_record(&self, op: &LogOp) -> Result<(), RecoverError> {
        self.check_operation(op).map_err(|error| RecoverError::Log(error.to_string()))
    }

    /// Checks that an operation of a record fits the state that it is applied to.
    pub(crate) fn check_operation(&self, op: &LogOp) -> Result<(), OpError> {
        let inside = |volume, start: Lba, blocks: u64| {
            let range = BlockRange::new(start, blocks).map_err(|_| OpError::Malformed("range end overflows"))?;
            self.inside(volume, range)
        };
        match op {
            LogOp::Write { volume, lba, data } => inside(*volume, *lba, data.len() as u64 / LBA_BYTES),
            LogOp::Fill { volume, range, .. } | LogOp::Same { volume, range, .. } => self.inside(*volume, *range),
            LogOp::Copy { source, from, destination, to } => {
                let is_congruent = from.start().0.abs_diff(to.0).is_multiple_of(LBAS_PER_BLOCK)
                    && from.start().0.is_multiple_of(LBAS_PER_BLOCK)
                    && from.blocks().is_multiple_of(LBAS_PER_BLOCK);
                let is_whole =
                    if is_congruent { Ok(()) } else { Err(OpError::Malformed("copy is not aligned to 4 KiB")) };
                is_whole.and(self.inside(*source, *from)).and(inside(*destination, *to, from.blocks()))
            }
            LogOp::Create { volume, .. } if self.volumes.contains_key(volume) => Err(OpError::VolumeExists(*volume)),
            LogOp::Create { blocks, .. } if is_volume_size(*blocks) => Ok(()),
            LogOp::Resize { volume, blocks } if is_volume_size(*blocks) => inside(*volume, Lba(0), 0),
            LogOp::Create { .. } | LogOp::Resize { .. } => Err(OpError::Malformed("invalid volume size")),
            LogOp::Delete { volume } => inside(*volume, Lba(0), 0),
            LogOp::CopyVolume { source, destination } if source == destination => {
                Err(OpError::Malformed("source and destination are the same volume"))
            }
            LogOp::CopyVolume { source, .. } => inside(*source, Lba(0), 0),
            LogOp::Stream(_) | LogOp::Put { .. } | LogOp::Remove { .. } => Ok(()),
        }
    }
}
