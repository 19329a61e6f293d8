//! Digests of the data of a read, computed before its PDUs are made.
//!
//! The thread of a socket serves many connections. Another thread computes the digests of long
//! data.

use crate::digest::{crc, crc_append};
use crate::pdu::padding;

/// The PDUs into which a connection divides the data of a read: segments of a limited length, in
/// bursts of a limited length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataDivision {
    pub(crate) segment: usize,
    pub(crate) burst: usize,
}

impl DataDivision {
    /// Returns the lengths of the data segments of `total` bytes.
    pub(crate) fn lengths(self, total: usize) -> impl Iterator<Item = usize> {
        let (mut left, mut burst_left) = (total, self.burst);
        std::iter::from_fn(move || {
            let length = left.min(self.segment).min(burst_left);
            (left, burst_left) = (left - length, burst_left - length);
            if burst_left == 0 {
                burst_left = self.burst;
            }
            (length > 0).then_some(length)
        })
    }

    /// Computes the digest of each data segment, with its padding. A thread that serves no socket
    /// should do this for long data.
    pub fn digests(self, data: &[u8]) -> DataDigests {
        let mut rest = data;
        let next = |length| {
            let (segment, after) = rest.split_at(length);
            rest = after;
            crc_append(crc(segment), &[0; 3][..padding(length)])
        };
        DataDigests { division: self, bytes: data.len(), crcs: self.lengths(data.len()).map(next).collect() }
    }
}

/// The digests of the data of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDigests {
    division: DataDivision,
    bytes: usize,
    crcs: Vec<u32>,
}

impl DataDigests {
    /// Returns the digests if they are those of `bytes` bytes, divided in this way.
    pub(crate) fn for_data(self, division: DataDivision, bytes: usize) -> Option<Vec<u32>> {
        (self.division == division && self.bytes == bytes).then_some(self.crcs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_divided_by_segments_and_bursts() {
        let lengths = |segment, burst, total| DataDivision { segment, burst }.lengths(total).collect::<Vec<_>>();
        assert_eq!(lengths(100, 250, 630), [100, 100, 50, 100, 100, 50, 100, 30]);
        assert_eq!(lengths(100, 50, 120), [50, 50, 20]);
        assert_eq!(lengths(512, 512, 0), [0; 0]);
    }

    #[test]
    fn digests_count_only_for_their_division() {
        let division = DataDivision { segment: 6, burst: 12 };
        let digests = division.digests(b"eight by");
        let expected = [crc(b"eight \0\0"), crc(b"by\0\0")];
        assert_eq!(digests.clone().for_data(division, 8), Some(expected.to_vec()));
        assert_eq!(digests.clone().for_data(division, 7), None, "truncated");
        assert_eq!(digests.for_data(DataDivision { segment: 7, ..division }, 8), None, "negotiated again");
    }
}
