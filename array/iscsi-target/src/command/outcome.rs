//! Outcome of a command, and the mapping of engine errors to sense data.

use bytes::Bytes;
use engine::OpError;
use scsi::{Sense, SenseKey, Status, asc};
use types::Lba;

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandOutcome {
    pub(crate) status: Status,
    /// Present only with CHECK CONDITION.
    pub(crate) sense: Option<Sense>,
    /// Data-In, truncated to the allocation length.
    pub(crate) data: Bytes,
}

impl CommandOutcome {
    /// GOOD without data.
    pub(crate) const GOOD: Self = Self { status: Status::Good, sense: None, data: Bytes::new() };
    /// BUSY: the host retries.
    pub(crate) const BUSY: Self = Self { status: Status::Busy, sense: None, data: Bytes::new() };
    /// RESERVATION CONFLICT.
    pub(crate) const CONFLICT: Self = Self { status: Status::ReservationConflict, sense: None, data: Bytes::new() };

    /// GOOD with Data-In.
    pub(crate) fn data(data: impl Into<Bytes>) -> Self {
        Self { status: Status::Good, sense: None, data: data.into() }
    }

    /// GOOD with Data-In truncated to the allocation length (SPC-4 4.2.5.6).
    pub(crate) fn truncated(data: impl Into<Bytes>, allocation: u32) -> Self {
        let mut data = data.into();
        data.truncate(allocation as usize);
        Self::data(data)
    }

    /// CHECK CONDITION.
    pub(crate) fn check(sense: Sense) -> Self {
        Self { status: Status::CheckCondition, sense: Some(sense), data: Bytes::new() }
    }

    /// Returns true if the command failed because the pool is full.
    pub(crate) fn is_out_of_space(&self) -> bool {
        self.sense.is_some_and(|sense| sense.asc == asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT)
    }
}

impl From<Sense> for CommandOutcome {
    fn from(sense: Sense) -> Self {
        Self::check(sense)
    }
}

/// Returns the sense data of a command with too little data: the expected transfer length does not
/// fit the CDB. The code is from FCP-4 9.4.5; hosts also know it over iSCSI.
pub(crate) fn short_data() -> Sense {
    Sense::illegal(asc::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT)
}

/// Returns the first `bytes` bytes of the data, or all of it if there are fewer.
pub(crate) fn first(mut data: Bytes, bytes: u64) -> Bytes {
    data.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
    data
}

/// Returns the data, which must have exactly `bytes` bytes. Used for commands whose data is more
/// than the contents of the addressed blocks (COMPARE AND WRITE, WRITE SAME): a different length
/// shows that host and array disagree about the range.
pub(crate) fn exact(data: &Bytes, bytes: u64, length_field: u16) -> Result<Bytes, Sense> {
    if data.len() as u64 > bytes {
        return Err(Sense::invalid_cdb_field(length_field, None));
    }
    whole(data, bytes)
}

/// Returns the first `bytes` bytes of the data. Fails if there are fewer.
pub(crate) fn whole(data: &Bytes, bytes: u64) -> Result<Bytes, Sense> {
    let data = first(data.clone(), bytes);
    if data.len() as u64 == bytes { Ok(data) } else { Err(short_data()) }
}

/// Returns the sense data of a logical unit whose engine has stopped after a drive error: NOT
/// READY, MANUAL INTERVENTION REQUIRED (SPC-4 table F.2).
///
/// Hosts then use other paths, and queue or fail I/O if there are none. Linux fails the path
/// without a retry (`scsi_io_completion`, and the `tur` checker of multipath-tools). 04/00 and
/// HARDWARE ERROR would let some hosts retry on this path, and 04/0C (unavailable) would promise
/// that no read is served.
pub(crate) fn not_ready() -> Sense {
    Sense::new(SenseKey::NotReady, asc::LOGICAL_UNIT_NOT_READY_MANUAL_INTERVENTION_REQUIRED)
}

/// Returns the outcome of a command of one operation that has failed. `lba` is its first block.
pub(crate) fn outcome_of(error: &OpError, lba: Lba) -> CommandOutcome {
    match error {
        OpError::Busy(_) => CommandOutcome::BUSY,
        error => sense_of(error, lba).into(),
    }
}

/// Returns the sense data of an engine error. `lba` is the first block of the operation.
pub(crate) fn sense_of(error: &OpError, lba: Lba) -> Sense {
    match error {
        OpError::NoSpace => Sense::new(SenseKey::DataProtect, asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT),
        OpError::ReadOnly => Sense::new(SenseKey::DataProtect, asc::WRITE_PROTECTED),
        OpError::MediumError { lba } => {
            Sense::new(SenseKey::MediumError, asc::UNRECOVERED_READ_ERROR).with_information(lba.0)
        }
        // The volume was shrunk after the range of the CDB was checked.
        OpError::OutOfRange { .. } => Sense::lba_out_of_range(lba.0),
        OpError::Miscompare { offset } => Sense::miscompare(*offset),
        // The volume was destroyed while connected. The LUN map follows soon.
        OpError::NoSuchVolume(_) => Sense::illegal(asc::LOGICAL_UNIT_NOT_SUPPORTED),
        OpError::Stopped(_) => not_ready(),
        OpError::Unavailable(_) => {
            Sense::new(SenseKey::NotReady, asc::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_UNAVAILABLE_STATE)
        }
        OpError::Transition(_) => {
            Sense::new(SenseKey::NotReady, asc::LOGICAL_UNIT_NOT_ACCESSIBLE_ASYMMETRIC_ACCESS_STATE_TRANSITION)
        }
        // A command of one operation is answered BUSY instead.
        OpError::Busy(_) => Sense::new(SenseKey::AbortedCommand, asc::NO_ADDITIONAL_SENSE_INFORMATION),
        OpError::Malformed(_) | OpError::VolumeExists(_) => {
            Sense::new(SenseKey::HardwareError, asc::INTERNAL_TARGET_FAILURE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::VolumeId;

    #[test]
    fn engine_errors_map_to_sense_data() {
        let table = [
            (OpError::NoSpace, 0x7, 0x2707, None),
            (OpError::ReadOnly, 0x7, 0x2700, None),
            (OpError::MediumError { lba: Lba(77) }, 0x3, 0x1100, Some(77)),
            (OpError::OutOfRange { blocks: 8 }, 0x5, 0x2100, Some(9)),
            (OpError::Miscompare { offset: 513 }, 0xe, 0x1d00, Some(513)),
            (OpError::NoSuchVolume(VolumeId(1)), 0x5, 0x2500, None),
            (OpError::Stopped("drive gone".into()), 0x2, 0x0403, None),
            (OpError::Unavailable("closed"), 0x2, 0x040c, None),
            (OpError::Transition("undecided"), 0x2, 0x040a, None),
            (OpError::Busy("late"), 0xb, 0x0000, None),
            (OpError::Malformed("odd"), 0x4, 0x4400, None),
        ];
        for (error, key, asc, information) in table {
            let sense = sense_of(&error, Lba(9));
            assert_eq!((sense.key as u8, sense.asc.0, sense.information), (key, asc, information), "{error}");
        }
        assert_eq!(outcome_of(&OpError::Busy("late"), Lba(9)), CommandOutcome::BUSY);
    }
}
