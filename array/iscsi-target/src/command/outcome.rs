//! How a command ends, and the table that turns the engine's errors into sense data.

use bytes::Bytes;
use engine::OpError;
use scsi::{Sense, SenseKey, Status, asc};
use types::Lba;

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: Status,
    /// With CHECK CONDITION only.
    pub(crate) sense: Option<Sense>,
    /// Data-In, already cut to the allocation length.
    pub(crate) data: Bytes,
}

impl Outcome {
    /// GOOD, with nothing to send.
    pub(crate) const GOOD: Self = Self { status: Status::Good, sense: None, data: Bytes::new() };
    /// BUSY: try again.
    pub(crate) const BUSY: Self = Self { status: Status::Busy, sense: None, data: Bytes::new() };
    /// RESERVATION CONFLICT.
    pub(crate) const CONFLICT: Self = Self { status: Status::ReservationConflict, sense: None, data: Bytes::new() };

    /// GOOD, with Data-In.
    pub(crate) fn data(data: impl Into<Bytes>) -> Self {
        Self { status: Status::Good, sense: None, data: data.into() }
    }

    /// GOOD, with Data-In cut to an allocation length (SPC-4 4.2.5.6).
    pub(crate) fn cut(data: impl Into<Bytes>, allocation: u32) -> Self {
        let mut data = data.into();
        data.truncate(allocation as usize);
        Self::data(data)
    }

    /// CHECK CONDITION.
    pub(crate) fn check(sense: Sense) -> Self {
        Self { status: Status::CheckCondition, sense: Some(sense), data: Bytes::new() }
    }
}

impl From<Sense> for Outcome {
    fn from(sense: Sense) -> Self {
        Self::check(sense)
    }
}

/// The sense data of a command whose data did not all come: its expected transfer length does not fit its CDB (FCP-4
/// 9.4.5, the answer that hosts know for it over iSCSI too).
pub(crate) fn short_data() -> Sense {
    Sense::illegal(asc::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT)
}

/// The first `bytes` bytes of the data, or what there is of them.
pub(crate) fn first(mut data: Bytes, bytes: u64) -> Bytes {
    data.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
    data
}

/// All the data, of which there must be exactly `bytes` bytes: for the commands whose data say what becomes of blocks
/// that they are not, where a wrong length means that host and array are not of one mind.
pub(crate) fn exact(data: &Bytes, bytes: u64, length_field: u16) -> Result<Bytes, Sense> {
    if data.len() as u64 > bytes {
        return Err(Sense::invalid_cdb_field(length_field, None));
    }
    whole(data, bytes)
}

/// The first `bytes` bytes of the data; all of them must have come.
pub(crate) fn whole(data: &Bytes, bytes: u64) -> Result<Bytes, Sense> {
    let data = first(data.clone(), bytes);
    if data.len() as u64 == bytes { Ok(data) } else { Err(short_data()) }
}

/// The sense data of an error of the engine. `lba` is the first block of the operation.
pub(crate) fn sense_of(error: &OpError, lba: Lba) -> Sense {
    match error {
        OpError::NoSpace => Sense::new(SenseKey::DataProtect, asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT),
        OpError::MediumError { lba } => {
            Sense::new(SenseKey::MediumError, asc::UNRECOVERED_READ_ERROR).with_information(lba.0)
        }
        // The volume shrank between the check of the CDB and the operation.
        OpError::OutOfRange { .. } => Sense::lba_out_of_range(lba.0),
        OpError::Miscompare { offset } => Sense::miscompare(*offset),
        // The volume was destroyed while connected: the LUN map will follow.
        OpError::NoSuchVolume(_) => Sense::illegal(asc::LOGICAL_UNIT_NOT_SUPPORTED),
        OpError::Stopped(_) | OpError::Malformed(_) | OpError::VolumeExists(_) => {
            Sense::new(SenseKey::HardwareError, asc::INTERNAL_TARGET_FAILURE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::VolumeId;

    #[test]
    fn each_error_of_the_engine_has_its_sense() {
        let table = [
            (OpError::NoSpace, 0x7, 0x2707, None),
            (OpError::MediumError { lba: Lba(77) }, 0x3, 0x1100, Some(77)),
            (OpError::OutOfRange { blocks: 8 }, 0x5, 0x2100, Some(9)),
            (OpError::Miscompare { offset: 513 }, 0xe, 0x1d00, Some(513)),
            (OpError::NoSuchVolume(VolumeId(1)), 0x5, 0x2500, None),
            (OpError::Stopped("drive gone".into()), 0x4, 0x4400, None),
            (OpError::Malformed("odd"), 0x4, 0x4400, None),
        ];
        for (error, key, asc, information) in table {
            let sense = sense_of(&error, Lba(9));
            assert_eq!((sense.key as u8, sense.asc.0, sense.information), (key, asc, information), "{error}");
        }
    }
}
