//! Names and numbers of streams: orders of changes that two arrays follow.

use crate::VolumeId;

/// Bit of a volume's id that marks a volume of a stream.
const IN_STREAM: u64 = 1 << 63;
/// Bits of a volume's id below the number of its stream.
const NUMBER_BITS: u32 = 32;
/// Bit of a volume's id that marks the delta of a volume of a stream.
const IS_DELTA: u64 = 1 << 31;
/// Bit of a volume's id that marks a stage of a stream.
const IS_STAGE: u64 = 1 << 30;
/// Bit of a stage's id that marks the stage of the second of the two arrays.
const IS_SECOND: u64 = 1 << 29;
/// Bits of a stage's id that are those of its period: its last 9, and above them 20 from bit 32 on,
/// where a period has the number of its epoch.
const STAGE_PERIOD: u64 = IS_SECOND - 1;

/// Returns the bits of a period that the id of its stages has.
fn stage_bits(period: Period) -> u64 {
    (period.0 >> 32 << 9 | period.0 & 0x1FF) & STAGE_PERIOD
}

/// Identifies a stream: one order for the changes of its volumes. 31 bits, equal on both arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u32);

/// The place of a record in its stream: dense, ascending within a period, from 1 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// A time during which one array orders a stream and the records of it follow each other without
/// gaps. A later period has a higher number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(pub u64);

impl StreamId {
    /// Returns the stream with this number. `None` if the number has more than 31 bits.
    pub const fn new(number: u32) -> Option<Self> {
        if number < 1 << 31 { Some(Self(number)) } else { None }
    }

    /// Returns the number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Returns the id of a volume of this stream. A number of more than 30 bits gives the id of a
    /// stage or of a delta, which no volume of hosts has.
    pub fn volume(self, number: u32) -> VolumeId {
        VolumeId(IN_STREAM | u64::from(self.0) << NUMBER_BITS | u64::from(number))
    }

    /// Returns the id of the hidden volume that has the reservations of hosts on the volumes of
    /// this stream. No content of hosts has the number 0.
    pub fn reservations(self) -> VolumeId {
        self.volume(0)
    }

    /// Returns the id of a stage of this stream: a hidden volume for pieces of copies, which each
    /// array fills by itself. Each period has one for the copies of either array.
    pub fn stage(self, period: Period, is_second: bool) -> VolumeId {
        let second = if is_second { IS_SECOND } else { 0 };
        VolumeId(self.volume(0).0 | IS_STAGE | second | stage_bits(period))
    }
}

impl Position {
    /// Returns the next position.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl VolumeId {
    /// Returns the stream that a volume of this id belongs to, or `None` for a plain volume.
    pub fn stream(self) -> Option<StreamId> {
        (self.0 & IN_STREAM != 0).then_some(StreamId(((self.0 & !IN_STREAM) >> NUMBER_BITS) as u32))
    }

    /// Returns the id of the delta of a volume of a stream: the hidden volume whose mapped blocks a
    /// peer may lack. `None` for a plain volume, and for a delta.
    pub fn delta(self) -> Option<VolumeId> {
        (self.0 & (IN_STREAM | IS_DELTA) == IN_STREAM).then_some(VolumeId(self.0 | IS_DELTA))
    }

    /// Returns the id of the volume that a delta belongs to. `None` for other volumes.
    pub fn volume_of_delta(self) -> Option<VolumeId> {
        self.is_delta().then_some(VolumeId(self.0 & !IS_DELTA))
    }

    /// True for the id of a stage.
    pub fn is_stage(self) -> bool {
        self.0 & (IN_STREAM | IS_DELTA | IS_STAGE) == IN_STREAM | IS_STAGE
    }

    /// True for the id of a stage of this period, which is one of its stream.
    pub fn is_stage_of(self, period: Period) -> bool {
        self.is_stage() && self.0 & STAGE_PERIOD == stage_bits(period)
    }

    /// True for the id of a stage for the copies of the second of the two arrays.
    pub fn is_second_stage(self) -> bool {
        self.is_stage() && self.0 & IS_SECOND != 0
    }

    /// True for the id of a volume that its stream orders: neither a delta nor a stage.
    pub fn is_ordered(self) -> bool {
        self.stream().is_some() && !self.is_delta() && !self.is_stage()
    }

    /// True for the id of a delta.
    pub fn is_delta(self) -> bool {
        self.0 & (IN_STREAM | IS_DELTA) == IN_STREAM | IS_DELTA
    }
}

impl std::fmt::Display for StreamId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stream{}", self.0)
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::fmt::Display for Period {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_id_names_its_stream() {
        for number in [0, 1, 77, (1 << 31) - 1] {
            let stream = StreamId::new(number).unwrap();
            for volume in [0, 1, (1 << 30) - 1] {
                assert_eq!(stream.volume(volume).stream(), Some(stream));
                assert_eq!(stream.volume(volume).0 as u32, volume);
            }
        }
        assert_eq!(StreamId::new(1 << 31), None);
        assert_eq!(VolumeId((1 << 63) - 1).stream(), None, "the id of a plain volume");
    }

    #[test]
    fn delta_has_an_id_that_no_volume_has() {
        let stream = StreamId::new((1 << 31) - 1).unwrap();
        let volumes = [0, 1, (1 << 30) - 1].map(|number| stream.volume(number));
        for volume in volumes {
            let delta = volume.delta().unwrap();
            assert!(delta.is_delta() && !volume.is_delta() && !volumes.contains(&delta));
            assert_eq!((delta.stream(), delta.delta()), (Some(stream), None));
            assert_eq!(delta.to_string(), format!("the delta of {volume}"));
        }
        for plain in [1, 1 << 31, (1 << 63) - 1].map(VolumeId) {
            assert!(plain.delta().is_none() && !plain.is_delta());
        }
    }

    #[test]
    fn stage_has_an_id_that_no_volume_has() {
        let stream = StreamId::new((1 << 31) - 1).unwrap();
        let (period, later) = (Period((7 << 32) + 5), [Period((7 << 32) + 6), Period((8 << 32) + 5)]);
        let stages = [stream.stage(period, false), stream.stage(period, true)];
        assert_eq!(stages.map(VolumeId::is_second_stage), [false, true]);
        for stage in stages {
            assert!(stage.is_stage() && !stage.is_delta() && !stage.is_ordered());
            assert_eq!((stage.stream(), stage.volume_of_delta()), (Some(stream), None));
            assert!(stage.is_stage_of(period) && !later.iter().any(|later| stage.is_stage_of(*later)));
        }
        for volume in [stream.volume(0), stream.volume((1 << 30) - 1)] {
            assert!(volume.is_ordered() && !volume.is_stage());
            assert!(volume.delta().is_some_and(|delta| !delta.is_stage() && !delta.is_ordered()));
        }
        assert!(!VolumeId(1 << 30).is_stage() && !VolumeId(1 << 30).is_ordered(), "a plain volume");
    }
}
