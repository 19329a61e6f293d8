//! Checks of a request before any of it is executed.

use super::ArrayState;
use crate::delta_op::{DeltaOp, MAX_DELTA_RANGES};
use crate::machine::backpressure::payload_bytes;
use crate::machine::ordered::volumes_of;
use crate::machine::steps::{COPY_DATA_STEP_BLOCKS, COPY_STEP_BLOCKS};
use crate::service::{Change, EqualCopy, MAX_COMPARE_BLOCKS, MAX_TRANSFER_BYTES, Op, OpError};
use crate::stream_record::FollowedRecord;
use std::collections::{BTreeMap, BTreeSet};
use types::{BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lba, MAX_VOLUME_BYTES, VolumeId};
use wal::LogOp;

const MAX_KEY_BYTES: usize = 255;
const MAX_VALUE_BYTES: usize = 1 << 20;

impl ArrayState {
    /// Returns the first error of a request against the present state.
    pub(crate) fn validate(&self, op: &Op) -> Result<(), OpError> {
        self.streams.admit(op)?;
        match op {
            Op::Read { volume, range } => {
                if range.bytes() > MAX_TRANSFER_BYTES {
                    return Err(OpError::Malformed("transfer is too long"));
                }
                self.inside(*volume, *range)
            }
            Op::Write { volume, lba, data, .. }
            | Op::Or { volume, lba, data, .. }
            | Op::Compare { volume, lba, data } => self.payload(*volume, *lba, data),
            Op::WriteSame { volume, range, pattern } => {
                if pattern.len() as u64 != LBA_BYTES {
                    return Err(OpError::Malformed("pattern is not 512 bytes long"));
                }
                self.inside(*volume, *range)
            }
            Op::Zero { volume, range } => self.inside(*volume, *range),
            Op::Unmap { volume, ranges } => {
                self.size(*volume)?;
                ranges.iter().try_for_each(|range| self.inside(*volume, *range))
            }
            Op::CompareAndWrite { volume, lba, compare, write, .. } => {
                if compare.len() != write.len() || compare.len() as u64 > MAX_COMPARE_BLOCKS * LBA_BYTES {
                    return Err(OpError::Malformed("compare and write buffers differ in length or are too long"));
                }
                self.payload(*volume, *lba, write)
            }
            Op::Copy { source, from, destination, to } => {
                self.inside(*source, *from)?;
                let blocks = self.size(*destination)?;
                let range = BlockRange::new(*to, from.blocks()).map_err(|_| OpError::OutOfRange { blocks })?;
                self.inside(*destination, range)
            }
            Op::CopyIfEqual(copy) => self.validate_equal_copy(copy),
            Op::Flush => Ok(()),
            Op::Status { volume, lba, .. } => {
                let blocks = self.size(*volume)?;
                if lba.0 < blocks { Ok(()) } else { Err(OpError::OutOfRange { blocks }) }
            }
            Op::Change(changes) => self.validate_changes(changes, &[]),
            Op::StreamChange(change) => self.validate_changes(&change.changes, &change.values),
            Op::Follow(followed) => self.validate_followed(followed),
            Op::Sync { volume, range, .. } => {
                self.size(*volume)?;
                let is_aligned = (range.start().0 | range.end().0).is_multiple_of(LBAS_PER_BLOCK);
                if is_aligned { Ok(()) } else { Err(OpError::Malformed("the range is not in whole blocks of 4 KiB")) }
            }
            Op::Delta(DeltaOp::AddTail { .. }) => Ok(()),
            // The peer's volume may be larger.
            Op::Delta(DeltaOp::Add { volume, ranges } | DeltaOp::Clear { volume, ranges, .. }) => {
                let is_short = ranges.len() <= MAX_DELTA_RANGES;
                let is_short = if is_short { Ok(()) } else { Err(OpError::Malformed("more than 1024 ranges")) };
                is_short.and(self.size(*volume).map(drop))
            }
            Op::Delta(DeltaOp::Next { volume, from, .. }) => {
                let blocks = self.size(*volume)?;
                if !from.0.is_multiple_of(LBAS_PER_BLOCK) {
                    return Err(OpError::Malformed("the first block is not a multiple of 8"));
                }
                if from.0 < blocks { Ok(()) } else { Err(OpError::OutOfRange { blocks }) }
            }
        }
    }

    fn validate_equal_copy(&self, copy: &EqualCopy) -> Result<(), OpError> {
        let EqualCopy { source, from, other, destination, .. } = *copy;
        self.inside(source, from)?;
        for (volume, range) in [(other, copy.other_range()), (destination, copy.destination_range())] {
            let blocks = self.size(volume)?;
            self.inside(volume, range.ok_or(OpError::OutOfRange { blocks })?)?;
        }
        let edges = from.start().0 | from.blocks() | copy.at.0 | copy.to.0;
        if from.is_empty() || !edges.is_multiple_of(LBAS_PER_BLOCK) || from.blocks() > COPY_STEP_BLOCKS {
            return Err(OpError::Malformed("the ranges are not in whole blocks of 4 KiB, or too long"));
        }
        Ok(())
    }

    /// Checks a record of a stream that a peer has ordered, and the values that are stored with it.
    fn validate_followed(&self, followed: &FollowedRecord) -> Result<(), OpError> {
        let FollowedRecord { record, values } = followed;
        if !self.streams.is_turn(record) {
            // Records before it may make or resize the volumes that it names.
            return self.validate_changes(&[], values);
        }
        self.validate_record(&record.ops, values)
    }

    /// Checks a record of a stream against the state before it.
    fn validate_record(&self, ops: &[LogOp], values: &[Change]) -> Result<(), OpError> {
        let changes: Vec<Change> = ops.iter().filter_map(volume_change).collect();
        self.validate_changes(&changes, values)?;
        if ops.iter().map(payload_bytes).sum::<u64>() > self.max_payload() {
            return Err(OpError::Malformed("the record is too long"));
        }
        ops.iter().try_for_each(|op| match op {
            LogOp::Write { volume, lba, data } => self.payload(*volume, *lba, data),
            LogOp::Same { pattern, .. } if pattern.len() as u64 != LBA_BYTES => {
                Err(OpError::Malformed("pattern is not 512 bytes long"))
            }
            LogOp::Same { volume, range, .. } | LogOp::Fill { volume, range, .. } => self.inside(*volume, *range),
            LogOp::Copy { .. } => self.check_operation(op),
            _ => Ok(()),
        })
    }

    /// Returns the longest payload of one record in bytes: a quarter of the log, so that the ring
    /// always has space for the next group.
    pub(crate) fn max_payload(&self) -> u64 {
        MAX_TRANSFER_BYTES.min(self.geometry.log_bytes / 4)
    }

    /// Returns the blocks that one step of a copy may move as data: they go through the log.
    pub(crate) fn copy_data_step(&self, op: &Op) -> u64 {
        let limit = match op {
            Op::Copy { destination, .. } => self.streams.max_payload(*destination),
            _ => u64::MAX,
        };
        COPY_DATA_STEP_BLOCKS.min(self.max_payload().min(limit) / LBA_BYTES / 2)
    }

    fn size(&self, volume: VolumeId) -> Result<u64, OpError> {
        self.volumes.get(&volume).map(|volume| volume.blocks).ok_or(OpError::NoSuchVolume(volume))
    }

    pub(crate) fn inside(&self, volume: VolumeId, range: BlockRange) -> Result<(), OpError> {
        let blocks = self.size(volume)?;
        if range.end().0 <= blocks { Ok(()) } else { Err(OpError::OutOfRange { blocks }) }
    }

    fn payload(&self, volume: VolumeId, lba: Lba, data: &[u8]) -> Result<(), OpError> {
        let blocks = self.size(volume)?;
        let bytes = data.len() as u64;
        if bytes == 0 || !bytes.is_multiple_of(LBA_BYTES) {
            return Err(OpError::Malformed("length is not a multiple of 512 bytes"));
        }
        if bytes > self.max_payload().min(self.streams.max_payload(volume)) {
            return Err(OpError::Malformed("transfer is too long"));
        }
        let range = BlockRange::new(lba, bytes / LBA_BYTES).map_err(|_| OpError::OutOfRange { blocks })?;
        self.inside(volume, range)
    }

    /// Checks changes that become one record, in two lists.
    fn validate_changes(&self, changes: &[Change], values: &[Change]) -> Result<(), OpError> {
        // Volumes that earlier changes of this list created (true) or deleted (false).
        let mut made: BTreeMap<VolumeId, bool> = BTreeMap::new();
        let mut copied: BTreeSet<VolumeId> = BTreeSet::new();
        let mut payload = 0;
        for change in changes.iter().chain(values) {
            if volumes_of(change).into_iter().flatten().any(VolumeId::is_delta) {
                return Err(OpError::Malformed("the id is that of a delta"));
            }
            match change {
                Change::CreateVolume { volume, blocks } => {
                    check_size(*blocks)?;
                    if *made.get(volume).unwrap_or(&self.volumes.contains_key(volume)) {
                        return Err(OpError::VolumeExists(*volume));
                    }
                    made.insert(*volume, true);
                }
                Change::DeleteVolume { volume } => {
                    if !made.get(volume).copied().unwrap_or(self.volumes.contains_key(volume)) {
                        return Err(OpError::NoSuchVolume(*volume));
                    }
                    made.insert(*volume, false);
                }
                Change::ResizeVolume { volume, blocks } => {
                    check_size(*blocks)?;
                    // The pages to cut would be those of a map that the volume does not have yet.
                    if copied.contains(volume) {
                        return Err(OpError::Malformed("volume is resized and replaced in one change"));
                    }
                    if !made.get(volume).copied().unwrap_or(self.volumes.contains_key(volume)) {
                        return Err(OpError::NoSuchVolume(*volume));
                    }
                }
                Change::CopyVolume { source, destination } => {
                    if source == destination {
                        return Err(OpError::Malformed("source and destination are the same volume"));
                    }
                    if !made.get(source).copied().unwrap_or(self.volumes.contains_key(source)) {
                        return Err(OpError::NoSuchVolume(*source));
                    }
                    made.insert(*destination, true);
                    copied.insert(*destination);
                }
                Change::Put { key, value } => {
                    if key.len() > MAX_KEY_BYTES || value.len() > MAX_VALUE_BYTES {
                        return Err(OpError::Malformed("catalog key or value is too long"));
                    }
                    payload += key.len() + value.len();
                }
                Change::Remove { key } if key.len() > MAX_KEY_BYTES => {
                    return Err(OpError::Malformed("catalog key is too long"));
                }
                Change::Remove { .. } => {}
            }
        }
        if payload as u64 > self.max_payload() {
            Err(OpError::Malformed("changes are too long for one record"))
        } else {
            Ok(())
        }
    }
}

/// Returns the change of a volume as a whole that an operation of a record makes.
fn volume_change(op: &LogOp) -> Option<Change> {
    match op {
        LogOp::Create { volume, blocks } => Some(Change::CreateVolume { volume: *volume, blocks: *blocks }),
        LogOp::Delete { volume } => Some(Change::DeleteVolume { volume: *volume }),
        LogOp::Resize { volume, blocks } => Some(Change::ResizeVolume { volume: *volume, blocks: *blocks }),
        LogOp::CopyVolume { source, destination } => {
            Some(Change::CopyVolume { source: *source, destination: *destination })
        }
        _ => None,
    }
}

fn check_size(blocks: u64) -> Result<(), OpError> {
    if blocks == 0 || !blocks.is_multiple_of(LBAS_PER_BLOCK) {
        return Err(OpError::Malformed("volume size is not a positive multiple of 4096 bytes"));
    }
    if blocks > MAX_VOLUME_BYTES / LBA_BYTES {
        return Err(OpError::Malformed("volume size exceeds 4 PiB"));
    }
    Ok(())
}
