//! The tail of a stream: records that were applied here and that the peer may lack.

use ondisk::ManifestTail;
use std::collections::VecDeque;
use types::{BlockRange, Period, Position, VolumeId};

/// The listed records that the peer may lack. A list that is too long is
/// replaced by the position of its last record: then any block may be different.
#[derive(Default)]
pub(super) struct Tail {
    /// Records of earlier periods. Positions of this period say nothing about them.
    left: Vec<ManifestTail>,
    /// Records of this period, in order.
    records: VecDeque<ManifestTail>,
    /// Ranges in both lists.
    ranges: usize,
    /// Records up to this one are not listed. The period is that of the first of them.
    unlisted: Option<(Period, Position)>,
}

impl Tail {
    /// Restores the tail that a manifest lists, in the period of the stream's last record.
    pub(super) fn restore(period: Period, listed: Vec<ManifestTail>, unlisted: Option<(Period, Position)>) -> Self {
        let ranges = listed.iter().map(|record| record.ranges.len()).sum();
        let (left, records): (Vec<_>, Vec<_>) = listed.into_iter().partition(|record| record.period < period);
        Self { left, records: records.into(), ranges, unlisted }
    }

    /// Adds a record of this period. At most `most` ranges are listed.
    pub(super) fn push(&mut self, record: ManifestTail, most: usize) {
        self.ranges += record.ranges.len();
        let last = record.position;
        self.records.push_back(record);
        if self.ranges > most {
            let unlisted = self.unlisted.map(|(period, _)| period);
            let first = unlisted.or_else(|| self.listed().next().map(|record| record.period));
            self.unlisted = first.map(|period| (period, last));
            (self.left, self.records, self.ranges) = (Vec::new(), VecDeque::new(), 0);
        }
    }

    /// The peer has reported the records of this period up to `position` as durable.
    pub(super) fn heard(&mut self, period: Period, position: Position) {
        while let Some(record) = self.records.pop_front_if(|record| record.position <= position) {
            self.ranges -= record.ranges.len();
        }
        self.unlisted = self.unlisted.filter(|(first, last)| *first != period || *last > position);
    }

    /// A new period begins: its positions say nothing about the records of this one.
    pub(super) fn end_period(&mut self) {
        self.left.extend(self.records.drain(..));
    }

    /// The peer lacks nothing of earlier periods.
    pub(super) fn settle(&mut self) {
        debug_assert!(self.records.is_empty(), "the peer has reported all records of this period");
        self.left.clear();
        self.ranges = self.records.iter().map(|record| record.ranges.len()).sum();
        self.unlisted = None;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty() && self.records.is_empty() && self.unlisted.is_none()
    }

    pub(super) fn listed(&self) -> impl Iterator<Item = &ManifestTail> {
        self.left.iter().chain(&self.records)
    }

    pub(super) fn unlisted(&self) -> Option<(Period, Position)> {
        self.unlisted
    }

    /// Returns the numbers of records and of ranges that a manifest lists.
    pub(super) fn counts(&self) -> (u64, u64) {
        ((self.left.len() + self.records.len()) as u64, self.ranges as u64)
    }

    /// Returns the changed blocks, or `None` if any block may be.
    pub(super) fn blocks(&self) -> Option<Vec<(VolumeId, BlockRange)>> {
        self.ranges_from(0).map(Iterator::collect)
    }

    /// As [`Tail::blocks`], without the first `skipped` ranges.
    pub(super) fn ranges_from(&self, skipped: usize) -> Option<impl Iterator<Item = (VolumeId, BlockRange)> + '_> {
        let ranges = || self.listed().flat_map(|record| record.ranges.iter().copied()).skip(skipped);
        self.unlisted.is_none().then(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Lba, StreamId};

    fn record(period: u64, position: u64, ranges: u64) -> ManifestTail {
        let volume = StreamId::new(1).unwrap().volume(1);
        let range = |n| (volume, BlockRange::new(Lba(position * 100 + n), 1).unwrap());
        let ranges = (0..ranges).map(range).collect();
        ManifestTail { period: Period(period), position: Position(position), ranges }
    }

    fn positions(tail: &Tail) -> Vec<u64> {
        tail.listed().map(|record| record.position.0).collect()
    }

    #[test]
    fn heard_records_leave_the_tail() {
        let mut tail = Tail::default();
        (1..5).for_each(|position| tail.push(record(1, position, 2), 100));
        tail.heard(Period(1), Position(2));
        assert_eq!((positions(&tail), tail.counts()), (vec![3, 4], (2, 4)));
        tail.heard(Period(1), Position(4));
        assert!(tail.is_empty());
    }

    #[test]
    fn records_of_an_earlier_period_stay_until_settled() {
        let mut tail = Tail::default();
        tail.push(record(1, 7, 1), 100);
        tail.end_period();
        tail.push(record(2, 7, 1), 100);
        tail.heard(Period(2), Position(9));
        assert_eq!(positions(&tail), [7], "the record of period 1");
        let restored = Tail::restore(Period(2), tail.listed().cloned().collect(), None);
        assert_eq!((positions(&restored), restored.left.len()), (vec![7], 1));
        tail.settle();
        assert!(tail.is_empty());
    }

    #[test]
    fn long_tail_becomes_all_blocks() {
        let mut tail = Tail::default();
        (1..=3).for_each(|position| tail.push(record(1, position, 2), 5));
        assert_eq!((tail.blocks(), tail.unlisted()), (None, Some((Period(1), Position(3)))));
        tail.push(record(1, 4, 1), 5);
        tail.heard(Period(1), Position(2));
        assert_eq!(tail.blocks(), None);
        tail.heard(Period(1), Position(3));
        assert_eq!((positions(&tail), tail.unlisted()), (vec![4], None));
        tail.end_period();
        (1..=3).for_each(|position| tail.push(record(2, position, 2), 5));
        tail.heard(Period(2), Position(3));
        assert_eq!(tail.blocks(), None, "position 3 of period 2 says nothing about period 1");
    }
}
