//! Names and numbers of streams: orders of changes that two arrays follow.

use crate::VolumeId;

/// Bit of a volume's id that marks a volume of a stream.
const IN_STREAM: u64 = 1 << 63;
/// Bits of a volume's id below the number of its stream.
const NUMBER_BITS: u32 = 32;
/// Bit of a volume's id that marks the delta of a volume of a stream.
const IS_DELTA: u64 = 1 << 31;

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

    /// Returns the id of a volume of this stream. A number of more than 31 bits gives the id of a
    /// delta, which no volume of hosts has.
    pub fn volume(self, number: u32) -> VolumeId {
        VolumeId(IN_STREAM | u64::from(self.0) << NUMBER_BITS | u64::from(number))
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
            for volume in [0, 1, (1 << 31) - 1] {
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
        let volumes = [0, 1, (1 << 31) - 1].map(|number| stream.volume(number));
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
}
