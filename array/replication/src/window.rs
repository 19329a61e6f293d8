//! Records that the peer has not reported as durable.

use engine::StreamRecord;
use std::collections::VecDeque;
use std::sync::Arc;
use types::Position;

/// Most bytes of data in records of a stream that the peer has not reported as durable. Carrying
/// the stream stops beyond it.
pub const MAX_UNHEARD_BYTES: u64 = 128 << 20;
/// Most records of a stream that the peer has not reported as durable.
pub const MAX_UNHEARD_RECORDS: usize = 1 << 16;

/// Records of one period, in the order of their positions, without gaps.
#[derive(Debug, Default)]
pub(crate) struct Window {
    records: VecDeque<Arc<StreamRecord>>,
    /// Bytes of data in them.
    bytes: u64,
    /// Position of the last record that was forgotten.
    heard: Position,
}

impl Window {
    /// Creates the window of a period that begins after a position, which both arrays have.
    pub(crate) fn after(heard: Position) -> Self {
        Self { heard, ..Self::default() }
    }

    /// Adds the next record.
    pub(crate) fn push(&mut self, record: Arc<StreamRecord>) {
        self.bytes += bytes_of(&record);
        self.records.push_back(record);
    }

    /// The peer has everything up to a position.
    pub(crate) fn forget(&mut self, position: Position) {
        while let Some(record) = self.records.pop_front_if(|record| record.position <= position) {
            self.bytes -= bytes_of(&record);
            self.heard = record.position;
        }
    }

    /// Returns the records after a position; `None` if some of them were forgotten.
    pub(crate) fn records_after(&self, position: Position) -> Option<impl Iterator<Item = Arc<StreamRecord>> + '_> {
        let has_all = position >= self.heard;
        has_all.then(|| self.records.iter().filter(move |record| record.position > position).cloned())
    }

    /// Returns the position of the last record, forgotten or not.
    pub(crate) fn last(&self) -> Position {
        self.records.back().map_or(self.heard, |record| record.position)
    }

    /// Returns the number of records and their bytes of data.
    pub(crate) fn size(&self) -> (usize, u64) {
        (self.records.len(), self.bytes)
    }
}

/// Returns the bytes of data in a record, and of its message.
pub(crate) fn bytes_of(record: &StreamRecord) -> u64 {
    let data = record.ops.iter().map(|op| match op {
        engine::LogOp::Write { data, .. } => data.len() as u64,
        _ => 0,
    });
    data.sum::<u64>() + record.message.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use engine::LogOp;
    use types::{Lba, Period, StreamId};

    fn record(position: u64) -> Arc<StreamRecord> {
        let stream = StreamId::new(1).unwrap();
        let data = Bytes::from(vec![0; 512]);
        let ops = vec![LogOp::Write { volume: stream.volume(1), lba: Lba(0), data }];
        Arc::new(StreamRecord {
            stream,
            period: Period(1),
            position: Position(position),
            ops,
            message: Bytes::new(),
            request: None,
        })
    }

    fn positions_after(window: &Window, position: u64) -> Option<Vec<u64>> {
        let records = window.records_after(Position(position))?;
        Some(records.map(|record| record.position.0).collect())
    }

    #[test]
    fn window_holds_records_until_the_peer_has_them() {
        let mut window = Window::after(Position(4));
        (5..9).for_each(|position| window.push(record(position)));
        assert_eq!(window.size(), (4, 2048));
        assert_eq!(positions_after(&window, 4), Some(vec![5, 6, 7, 8]));
        window.forget(Position(6));
        assert_eq!(window.size(), (2, 1024));
        assert_eq!(positions_after(&window, 7), Some(vec![8]));
        assert_eq!(positions_after(&window, 6), Some(vec![7, 8]));
        assert_eq!(positions_after(&window, 5), None, "record 6 was forgotten");
        assert_eq!(positions_after(&window, 9), Some(vec![]));
    }
}
